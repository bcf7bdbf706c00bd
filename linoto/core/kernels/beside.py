"""R of features of each arm's own, a second time: the same number of all blocks side by side.

In `square` a row of R is as long as all features, and an arm has few of them. Here a loop runs over the arms.
Every sum has the order of the loops that go arm by arm (`hybrid`), so that not one bit depends on which of
the two has computed it. `State.blocks` (p + 4, w, k), w = max(p, 4), holds R_ij of block a in [i, j, a]; then
what is scratch for z, R theta in [., a], scratch for four sums, and what `mark_arm` says of each arm. It is
empty where it is of no use.
"""

from __future__ import annotations

from linoto.core.arrays import Floats
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.estimate import block_begin, block_end, copy
from linoto.core.kernels.layout import BESIDE, BLOCK_BEGIN, BLOCK_END, FACTOR, HALF, NORMALS, PLACE, State


@inner
def keep_beside(s: State, blocks: Floats, first: int, last: int) -> None:
    """The rows of R from `first` to `last` as they are now."""
    if blocks.shape[0] == 0:
        return
    p, factor, half = blocks.shape[0] - BESIDE, s.square[FACTOR], s.vectors[HALF]
    for i in range(first, last):
        arm = i // p
        begin, row = arm * p, factor[i]
        blocks[p + 1, i - begin, arm] = half[i]
        for j in range(i, begin + p):
            blocks[i - begin, j - begin, arm] = row[j]
    for arm in range(first // p, (last - 1) // p + 1):
        mark_arm(s, blocks, arm)


@inner
def is_every_arm(s: State, blocks: Floats) -> bool:
    """Whether the arms of this round are all there are, in their order."""
    p, (width, k), place = blocks.shape[0] - BESIDE, s.actions.shape, s.arms[PLACE]
    if blocks.shape[0] == 0 or width != p or k != blocks.shape[2]:
        return False
    found = True
    for a in range(k):
        found &= place[a] == a * p
    return bool(found)


@inner
def part_of(s: State, arm: int, p: int) -> tuple[int, int]:
    """The one block that holds all of an arm that is not 0, from where that begins; (p, p): there is none."""
    first, place = 0, arm * p
    while first < p and s.actions[first, arm] == 0.0:
        first += 1
    if first == p or block_begin(s, place + first) < place:
        return p, p
    end = block_end(s, place + first) - place
    if end > p:
        return p, p
    for j in range(end, p):
        if s.actions[j, arm] != 0.0:
            return p, p
    return first, end


@inner
def mark_arm(s: State, blocks: Floats, arm: int) -> None:
    """Whether each feature of an arm is a block by itself: it was never played; or ends where it does."""
    p, begins, ends = blocks.shape[0] - BESIDE, s.vectors[BLOCK_BEGIN], s.vectors[BLOCK_END]
    place, apart, fits = arm * p, True, True
    for i in range(place, place + p):
        apart &= ends[i] == i + 1.0
        fits &= begins[i] >= place and (ends[i] == place + p or ends[i] == i + 1.0)
    blocks[p + 3, 0, arm], blocks[p + 3, 1, arm] = apart, fits


@inner
def whiten_beside(x: Floats, blocks: Floats, z: Floats) -> None:
    """z of R'z = x for every arm: each number of x less what those before it take, in their order."""
    for j in range(x.shape[0]):
        own, pivot = z[j], blocks[j, j]
        copy(x[j], own)
        i = 0
        while i + 2 <= j:
            z0, z1, r0, r1 = z[i], z[i + 1], blocks[i, j], blocks[i + 1, j]
            for a in range(own.size):
                own[a] = own[a] - z0[a] * r0[a] - z1[a] * r1[a]
            i += 2
        if i < j:
            z0, r0 = z[i], blocks[i, j]
            for a in range(own.size):
                own[a] -= z0[a] * r0[a]
        for a in range(own.size):
            own[a] /= pivot[a]


@inner
def sum_products(x: Floats, y: Floats, first: int, end: int, sums: Floats, out: Floats) -> None:
    """out = `dot` of the rows from `first` to `end` of x and y, for every arm, in its four running sums."""
    fours = first + (end - first) // 4 * 4
    for place in range(4):
        total = sums[place]
        total[:] = 0.0
        for j in range(first + place, fours, 4):
            add_products(x[j], y[j], total)
    s0, s1, s2, s3 = sums[0], sums[1], sums[2], sums[3]
    for j in range(fours, end):
        add_products(x[j], y[j], s0)
    for a in range(out.size):
        out[a] = (s0[a] + s1[a]) + (s2[a] + s3[a])


@inner
def add_products(x: Floats, y: Floats, total: Floats) -> None:
    """total += x y, for every arm."""
    for a in range(total.size):
        total[a] += x[a] * y[a]


@inner
def end_with_arms(s: State, blocks: Floats) -> bool:
    """Whether each block is one feature, or ends where the arm does: sums then have the same fours."""
    fits, found = blocks[blocks.shape[0] - 1, 1], s.run[0].split == 1
    for a in range(fits.size):
        found &= fits[a] == 1.0
    return bool(found)


@inner
def score_beside(s: State, blocks: Floats, score: Floats) -> None:
    """score = <a, R^-1 xi> of every arm, xi the normals: row by row from below, as `unwhiten_all` does."""
    p, k, normals = blocks.shape[0] - BESIDE, blocks.shape[2], s.vectors[NORMALS]
    draw, sums = blocks[p], blocks[p + 2]
    for i in range(p - 1, -1, -1):
        own, pivot = draw[i], blocks[i, i]
        sum_products(blocks[i], draw, i + 1, p, sums, own)
        for a in range(k):
            own[a] = (normals[a * p + i] - own[a]) / pivot[a]
    score[:] = 0.0
    i = 0
    while i + 4 <= p:  # in the groups of `project_arm`
        d0, d1, x0, x1 = draw[i], draw[i + 1], s.actions[i], s.actions[i + 1]
        near = sums[0]
        for a in range(k):
            near[a] = d0[a] * x0[a] + d1[a] * x1[a]
        for j in (i + 2, i + 3):
            add_products(draw[j], s.actions[j], near)
        for a in range(k):
            score[a] += near[a]
        i += 4
    while i < p:
        add_products(draw[i], s.actions[i], score)
        i += 1
