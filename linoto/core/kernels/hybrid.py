"""Features of each arm's own beside features that arms share: V has blocks and a border.

The shared features come last, from `r.border` on. R, V = R'R, then has the same blocks and the same border:
nothing fills in. V^-1 has no zeros, so it is not kept. All is computed from R, and the rotations that add a
row to R lose no digits, so nothing has to be computed anew either (docs/maths.md).
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from linoto.core.arrays import Floats
from linoto.core.kernels.beside import (
    add_products,
    is_every_arm,
    keep_beside,
    part_of,
    sum_products,
    whiten_beside,
)
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.estimate import (
    block_begin,
    block_end,
    combine,
    combine_part,
    copy,
    dot,
    extent,
    in_fours,
    join_blocks,
    unwhiten_all,
    whiten_part,
)
from linoto.core.kernels.layout import (
    BESIDE,
    CROSS,
    FACTOR,
    GRAM,
    GROWN,
    HALF,
    LOST_GRAM,
    MEAN,
    PLACE,
    RECENT_FACTOR,
    RECENT_HALF,
    REFINED,
    RESIDUE,
    STEP,
    TARGET,
    THETA,
    VARIANCE,
    WIDTH,
    WORK,
    State,
)


@inner
def begin_hybrid(p: Any, s: State, rows: Floats, outcomes: Floats) -> None:
    """R and R theta from the rows of a log, in none of which two blocks meet; destroys rows."""
    r, border = s.run[0], s.run[0].border
    for j in range(outcomes.size):
        first, last = extent(rows[j, :border])
        end = block_end(s, last - 1)
        rotate_in(s.square[FACTOR], s.vectors[HALF], rows[j], outcomes[j], first, end, border)
    r.widest = 1.0 / p.ridge
    read_factor(s)


@inner
def read_factor(s: State) -> None:
    """log det V from R; theta follows when it is read."""
    r, factor, grown = s.run[0], s.square[FACTOR], s.vectors[GROWN]
    r.log_det = 0.0
    for i in range(factor.shape[0]):
        grown[i] = 2.0 * log(factor[i, i])
        r.log_det += grown[i]
    r.behind = 1
    keep_beside(s, s.blocks, 0, factor.shape[0])


@inner
def keep_grown(s: State, first: int, end: int) -> None:
    """log det of a part of V, feature by feature: R has its roots on the diagonal, far apart in memory."""
    factor, grown = s.square[FACTOR], s.vectors[GROWN]
    for i in range(first, end):
        grown[i] = 2.0 * log(factor[i, i])


@inner
def follow(s: State) -> None:
    """theta, of what R says now: O(d (p + q))."""
    if s.run[0].behind == 1:
        unwhiten_all(s, s.vectors[HALF], s.vectors[THETA])
        s.run[0].behind = 0


@inner
def measure_hybrid(s: State, whitened: Floats) -> None:
    """Mean, variance and squared length of every arm: <theta, x> = <R theta, z> and |z|^2 with R'z = x.

    Own features arm by arm, then shared ones for all arms at once; `whitened` is scratch for these.
    """
    border, d, (rows, k) = s.run[0].border, s.vectors.shape[1], s.actions.shape
    own, half, factor = rows - (d - border), s.vectors[HALF], s.square[FACTOR]
    mean, variance, length = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH]
    shared, column, cross = whitened[: d - border], s.vectors[WORK], s.arms[CROSS]
    together = is_every_arm(s, s.blocks)
    if together:
        measure_beside(s, s.blocks)
    for a in range(k):
        if not together or variance[a] < 0.0:
            measure_own(s, a, own, shared)
    for i in range(d - border):
        for j in range(i):
            column[j] = factor[border + j, border + i]
        combine(shared[:i], column[:i], cross)
        z, x, pivot, weight = shared[i], s.actions[own + i], factor[border + i, border + i], half[border + i]
        for a in range(k):
            z[a] = (z[a] - cross[a]) / pivot
            mean[a] += weight * z[a]
            variance[a] += z[a] * z[a]
            length[a] += x[a] * x[a]


@inner
def measure_beside(s: State, blocks: Floats) -> None:
    """Mean, variance and squared length of every arm, z of R'z = x for all at once; below 0 where that fails.

    Sums are those of `measure_own`, block by block. Most arms have one block, or only blocks of one feature.
    """
    p, k, apart = blocks.shape[0] - BESIDE, blocks.shape[2], 0
    z, mean, variance, length = blocks[p], s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH]
    first, end, alone, parts = p, p, blocks[p + 3, 0], s.arms[CROSS]
    for a in range(k):
        if alone[a] == 1.0:
            apart += 1
            continue
        begin, stop = part_of(s, a, p)
        parts[a] = begin * (p + 1) + stop
        if stop - begin > end - first:
            first, end = begin, stop
    whiten_beside(s.actions, blocks, z)
    if apart < k:
        sum_products(s.actions, s.actions, first, end, blocks[p + 2], length)
        sum_products(z, blocks[p + 1], first, end, blocks[p + 2], mean)
        sum_products(z, z, first, end, blocks[p + 2], variance)
    if apart > 0:
        sum_apart(s, blocks, blocks[p + 2])
    for a in range(k):
        if alone[a] == 1.0:
            mean[a], variance[a], length[a] = blocks[p + 2, 0, a], blocks[p + 2, 1, a], blocks[p + 2, 2, a]
        elif first == end or parts[a] != first * (p + 1) + end:
            variance[a] = -1.0


@inner
def sum_apart(s: State, blocks: Floats, sums: Floats) -> None:
    """The same sums one feature after the other."""
    p = blocks.shape[0] - BESIDE
    z, half = blocks[p], blocks[p + 1]
    sums[:3] = 0.0
    for j in range(p):
        add_products(z[j], half[j], sums[0])
        add_products(z[j], z[j], sums[1])
        add_products(s.actions[j], s.actions[j], sums[2])


@inner
def measure_own(s: State, arm: int, own: int, shared: Floats) -> None:
    """What the arm's own features add to its mean, variance and length; what is left of the shared ones."""
    border, d, half, factor = s.run[0].border, s.vectors.shape[1], s.vectors[HALF], s.square[FACTOR]
    x, taken, mean, square, length = s.vectors[REFINED], s.vectors[WORK], 0.0, 0.0, 0.0
    for j in range(d - border):
        shared[j, arm] = s.actions[own + j, arm]
    place = i = int(s.arms[PLACE, arm])
    last = min(place + own, border)
    while i < last:  # the blocks that it touches: as a rule one
        if s.actions[i - place, arm] == 0.0:
            i += 1
            continue
        end = block_end(s, i)
        for j in range(i, end):
            x[j] = s.actions[j - place, arm] if j < last else 0.0
        part = x[i:end]
        length += dot(part, part)
        whiten_in_fours(factor, x, i, end)
        mean += dot(part, half[i:end])
        square += dot(part, part)
        if border < d:
            combine_part(factor, x, i, end, taken, border, d)
            for j in range(d - border):
                shared[j, arm] -= taken[border + j]
        i = end
    s.arms[MEAN, arm], s.arms[VARIANCE, arm], s.arms[WIDTH, arm] = mean, square, length


@inner
def whiten_in_fours(factor: Floats, x: Floats, first: int, end: int) -> None:
    """`whiten_part` of one block, four rows at a time, with its bits: each takes its part in their order."""
    i = first
    while i + 4 <= end:
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        z0 = x[i] / r0[i]
        z1 = (x[i + 1] - z0 * r0[i + 1]) / r1[i + 1]
        z2 = (x[i + 2] - z0 * r0[i + 2] - z1 * r1[i + 2]) / r2[i + 2]
        z3 = (x[i + 3] - z0 * r0[i + 3] - z1 * r1[i + 3] - z2 * r2[i + 3]) / r3[i + 3]
        x[i], x[i + 1], x[i + 2], x[i + 3] = z0, z1, z2, z3
        i += 4
        behind, r0, r1, r2, r3 = x[i:end], r0[i:end], r1[i:end], r2[i:end], r3[i:end]
        for j in range(behind.size):
            behind[j] = behind[j] - z0 * r0[j] - z1 * r1[j] - z2 * r2[j] - z3 * r3[j]
    while i < end:
        x[i] /= factor[i, i]
        for j in range(i + 1, end):
            x[j] -= x[i] * factor[i, j]
        i += 1


@inner
def rotate_in(factor: Floats, half: Floats, x: Floats, y: float, first: int, end: int, border: int) -> None:
    """Add a row x, 0 outside of the block from `first` to `end` and of the border, to R theta = half.

    Destroys x. Givens rotations of x with each row of R: stable.
    """
    for j in range(first, end):
        y = rotate(factor[j], half, x, y, j, end, border)
    for j in range(border, x.size):
        y = rotate(factor[j], half, x, y, j, x.size, x.size)


@inner
def rotate(row: Floats, half: Floats, x: Floats, y: float, j: int, end: int, border: int) -> float:
    """One rotation, which makes x[j] 0; what is left of the outcome."""
    if x[j] == 0.0:
        return y
    pivot = sqrt(row[j] * row[j] + x[j] * x[j])
    cosine, sine = row[j] / pivot, x[j] / pivot
    row[j] = pivot
    turn(row[j + 1 : end], x[j + 1 : end], cosine, sine)
    if border < x.size:
        turn(row[border:], x[border:], cosine, sine)
    before = half[j]
    half[j] = cosine * before + sine * y
    return float(cosine * y - sine * before)


@inner
def turn(row: Floats, x: Floats, cosine: float, sine: float) -> None:
    """A rotation of two rows."""
    for i in range(x.size):
        row[i], x[i] = cosine * row[i] + sine * x[i], cosine * x[i] - sine * row[i]


@inner
def add_square(square: Floats, x: Floats, weight: float, first: int, last: int, border: int) -> None:
    """square += weight x x', for a row that is 0 outside of `first` to `last` and of the border."""
    i = first if first < last else border
    while i < x.size:
        for j in range(first, last):
            square[i, j] += weight * x[i] * x[j]
        for j in range(border, x.size):
            square[i, j] += weight * x[i] * x[j]
        i = border if i == last - 1 and last < border else i + 1


@inner
def learn_hybrid(p: Any, s: State, action: Floats, reward: float, error: float) -> None:
    """One more reward, O((p + q)^2 + d), p own features and q shared; theta follows when it is read."""
    r, border, d = s.run[0], s.run[0].border, action.size
    x, z, half = s.vectors[WORK], s.vectors[REFINED], s.vectors[HALF]
    first, last = extent(action[:border])
    join_blocks(s, first, last)
    end = block_end(s, first)
    begin, stop = 0, d
    if border == d and r.lost_sum == 0.0:  # nobody reads what is 0 beside the block
        begin = first - first % 4
        stop = in_fours(begin, end, d)
    copy(action[begin:stop], x[begin:stop])
    copy(action[begin:stop], z[begin:stop])
    whiten_part(s.square[FACTOR], z, first, end, border)
    whiten_part(s.square[FACTOR], z, border, d, d)
    part = z[begin:stop]
    variance, mean = dot(part, part), dot(part, half[begin:stop])
    growth = 1.0 + variance
    if p.estimates_noise == 1:
        r.residuals += (reward - mean) * (reward - mean) / growth
        r.residual_count += 1.0
    if r.lost_sum > 0.0:  # the trace of V^-1 L, V + x x' in the place of V
        step, image = s.vectors[STEP], s.vectors[RESIDUE]
        unwhiten_all(s, z, step)
        times_lost(s, step, image)
        r.lost_trace = max(r.lost_trace - dot(step, image) / growth, 0.0)
    if error > 0.0:
        r.lost_sum += error
        r.lost_squares += error * error
        r.lost_trace += error * variance / growth
        add_square(s.square[LOST_GRAM], x, error, first, last, border)
    add_square(s.square[GRAM], x, 1.0, first, last, border)
    for i in range(begin, stop):
        s.vectors[TARGET, i] += reward * x[i]
    rotate_in(s.square[FACTOR], half, x, reward, first, end, border)
    if p.memory > 0 and p.fade == 0.0:
        copy(action, x)
        rotate_in(s.square[RECENT_FACTOR], s.vectors[RECENT_HALF], x, reward, first, end, border)
    keep_beside(s, s.blocks, first, end)
    if r.own_features > 0:
        keep_grown(s, first, end)
        keep_grown(s, border, d)
    r.log_det += log(growth)
    r.rewards += 1
    r.fresh, r.behind = 0, 1


@inner
def times_lost(s: State, y: Floats, out: Floats) -> None:
    """out = L y, L the sum of e x x' over lost rewards."""
    lost, border, d = s.square[LOST_GRAM], s.run[0].border, y.size
    for i in range(border):
        begin, end = block_begin(s, i), block_end(s, i)
        out[i] = dot(lost[i, begin:end], y[begin:end]) + dot(lost[i, border:], y[border:])
    for i in range(border, d):
        out[i] = dot(lost[i], y)


@inner
def forget_hybrid(s: State) -> None:
    """V and X'y of the least squares that the last rewards made: R and half are theirs already."""
    border, d = s.run[0].border, s.vectors.shape[1]
    gram, factor, target, half = s.square[GRAM], s.square[FACTOR], s.vectors[TARGET], s.vectors[HALF]
    for i in range(d):
        row, end = factor[i], block_end(s, i)
        for j in range(i, d):
            if j < end or j >= border:
                target[j] += row[j] * half[i]
        add_square(gram, row, 1.0, i, min(end, border) if i < border else i, max(border, i))
    s.run[0].lost_trace = 0.0
    read_factor(s)
