"""What is known of the arms of a round: estimate and variance of each, with the log and without it."""

from __future__ import annotations

from math import sqrt
from typing import Any

from linoto.core.arrays import Floats, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.estimate import (
    block_end,
    combine,
    in_fours,
    online,
    project,
)
from linoto.core.kernels.explorers import best
from linoto.core.kernels.hybrid import (
    measure_hybrid,
)
from linoto.core.kernels.layout import (
    CROSS,
    FACTOR,
    LIFT,
    LOG_ROOT,
    MEAN,
    MOVED,
    PLACE,
    REFINED,
    ROOT_T,
    THETA,
    VARIANCE,
    WIDTH,
    WORK,
    Part,
    State,
)
from linoto.core.kernels.layout import lost_row as where_lost

lost_row = inner(where_lost)


@inner
def measure_arms(s: State, whitened: Floats) -> None:
    """Mean and variance of every arm, O(k d^2): |x|^2 in V^-1 is |z|^2 with R'z = x, solved for all at once.

    No digits cancel, however much better the log knows some directions than others.
    """
    r, k = s.run[0], s.actions.shape[1]
    variance, width = s.arms[VARIANCE], s.arms[WIDTH]
    if r.border > 0:
        measure_hybrid(s, whitened)
    else:
        project(s, s.vectors[THETA], s.arms[MEAN])
        if s.actions.shape[0] == s.vectors.shape[1]:
            whiten_together(s, whitened)
        else:
            whiten_apart(s)
    r.longest = width[best(width)]
    for a in range(k):
        width[a] = sqrt(variance[a])


@inner
def whiten_together(s: State, whitened: Floats) -> None:
    """|z|^2 and |x|^2 of every arm, feature by feature."""
    d, k = s.actions.shape
    factor, columns = s.square[FACTOR], s.square[ROOT_T]
    variance, width = s.arms[VARIANCE], s.arms[WIDTH]
    variance[:] = 0.0
    width[:] = 0.0
    for i in range(d):
        for j in range(i):
            columns[i, j] = factor[j, i]
        z, x, pivot = whitened[i], s.actions[i], 1.0 / factor[i, i]
        combine(whitened[:i], columns[i, :i], z)
        for a in range(k):
            z[a] = (x[a] - z[a]) * pivot
            variance[a] += z[a] * z[a]
            width[a] += x[a] * x[a]


@inner
def whiten_apart(s: State) -> None:
    """The same bits arm by arm, each in the blocks of V that it touches."""
    factor, actions, place = s.square[FACTOR], s.actions, s.arms[PLACE]
    x, taken, (width, k), d = s.vectors[REFINED], s.vectors[WORK], s.actions.shape, s.vectors.shape[1]
    for a in range(k):
        begin = i = int(place[a])
        last, square, length = min(begin + width, d), 0.0, 0.0
        while i < last:
            if actions[i - begin, a] == 0.0:
                i += 1
                continue
            end, first = block_end(s, i), i - i % 4
            x[first : in_fours(first, end, d)] = 0.0
            for j in range(i, min(end, last)):
                x[j] = actions[j - begin, a]
                length += x[j] * x[j]
            square = whiten_block(factor, x, taken, first, end, square)
            i = end
        s.arms[VARIANCE, a], s.arms[WIDTH, a] = square, length


@inner
def whiten_block(factor: Floats, x: Floats, taken: Floats, first: int, end: int, square: float) -> float:
    """`square` and |z|^2 in the block of V that ends at `end`, where x begins at `first`; destroys x.

    Four features at a time: what they take from the features behind them is one pass over those.
    """
    i, stop = first, in_fours(first, end, x.size)
    taken[first:stop] = 0.0
    while i + 4 <= stop:
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        z0 = (x[i] - taken[i]) * (1.0 / r0[i])
        z1 = (x[i + 1] - (taken[i + 1] + r0[i + 1] * z0)) * (1.0 / r1[i + 1])
        z2 = (x[i + 2] - (taken[i + 2] + r0[i + 2] * z0 + r1[i + 2] * z1)) * (1.0 / r2[i + 2])
        own = taken[i + 3] + r0[i + 3] * z0 + r1[i + 3] * z1 + r2[i + 3] * z2
        z3 = (x[i + 3] - own) * (1.0 / r3[i + 3])
        square = square + z0 * z0 + z1 * z1 + z2 * z2 + z3 * z3
        i += 4
        if i < end:
            behind = taken[i:end]
            r0, r1, r2, r3 = r0[i:end], r1[i:end], r2[i:end], r3[i:end]
            for j in range(behind.size):
                behind[j] += z0 * r0[j] + z1 * r1[j] + z2 * r2[j] + z3 * r3[j]
    while i < stop:  # d is not a multiple of four, and the block is the last one
        own = taken[i]
        for j in range(i - i % 4, i):
            own += factor[j, i] * x[j]
        x[i] = (x[i] - own) * (1.0 / factor[i, i])
        square += x[i] * x[i]
        i += 1
    return square


@inner
def measure_moved(p: Any, s: State, whitened: Floats) -> None:
    """|X V^-1 a|^2 of every arm and the lift that this is, O(k d^2); `whitened` is R'^-1 a for every arm."""
    factor, row, moved, lift = s.square[FACTOR], s.arms[CROSS], s.arms[MOVED], s.arms[LIFT]
    for i in range(whitened.shape[0] - 1, -1, -1):  # V^-1 a = R^-1 R'^-1 a, row by row from below
        combine(whitened[i + 1 :], factor[i, i + 1 :], row)
        for a in range(row.size):
            whitened[i, a] = (whitened[i, a] - row[a]) / factor[i, i]
    moved[:] = 0.0
    for i in range(whitened.shape[0]):
        combine(whitened, s.square[LOG_ROOT, i], row)
        for a in range(row.size):
            moved[a] += row[a] * row[a]
    for a in range(row.size):
        lift[a] = p.shift * sqrt(s.run[0].logged * moved[a])


@compiled
def measure_all(params: Records, s: State, whitened: Floats, shift: Part) -> None:
    """What is known of every arm; where the log may have moved, by both estimates."""
    measure_arms(s, whitened)
    if shift is not None:
        measure_moved(params[0], s, whitened)
        measure_arms(online(s), whitened)
