"""The estimate: V, its inverse and its factor, theta, the bounds of every arm, and one more reward."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.kernels.compiling import compiled, inlined, inner
from linoto.core.kernels.layout import (
    BLOCK,
    BLOCK_BEGIN,
    BLOCK_END,
    CROSS,
    FACTOR,
    GRAM,
    HALF,
    INVERSE,
    LCB,
    LIFT,
    LOG_GRAM,
    LOG_ROOT,
    LOST,
    MEAN,
    MOVE,
    MOVED,
    PLACE,
    RECENT_SEEN,
    RECENT_SUMS,
    REFINED,
    REFRESH_ABOVE,
    REFRESH_EVERY,
    REFRESH_WHITENED,
    RESIDUE,
    ROOT,
    ROOT_T,
    SEEN,
    STEP,
    STIFF,
    SUMS,
    TARGET,
    THETA,
    VARIANCE,
    WHITE,
    WHITE_INVERSE,
    WIDTH,
    WORK,
    Blocks,
    Part,
    State,
    online_part,
)
from linoto.core.kernels.one_hot import refresh_one_hot, settle

online = inner(online_part)


@inner
def copy(source: Floats, out: Floats) -> None:
    """out[:] = source, without the allocation that NumPy's overlap check would bring."""
    for i in range(out.size):
        out[i] = source[i]


@inner
def clear(rows: Floats | Ints) -> None:
    """Make every number 0; what is 0 is not written to, so that fresh memory stays without pages."""
    for i in range(rows.shape[0]):
        row = rows[i]
        for a in range(row.size):
            if row[a] != 0:
                row[a] = 0


@compiled
def combine(rows: Floats, weights: Floats, out: Floats) -> None:
    """out = weights @ rows, four rows at a time: one pass over `out` for four of `rows`."""
    d, k = rows.shape
    out[:] = 0.0
    i = 0
    while i + 4 <= d:
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        r0, r1, r2, r3 = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for a in range(k):
            out[a] += w0 * r0[a] + w1 * r1[a] + w2 * r2[a] + w3 * r3[a]
        i += 4
    while i < d:
        w0, r0 = weights[i], rows[i]
        for a in range(k):
            out[a] += w0 * r0[a]
        i += 1


@inner
def combine_part(
    rows: Floats, weights: Floats, first: int, last: int, out: Floats, begin: int, end: int
) -> None:
    """The same of the rows from `first` to `last`, in the columns from `begin` to `end`.

    All columns go by `combine`, without slices: a small round would be a tenth slower with them.
    """
    if last - first == rows.shape[0] and end - begin == out.size:
        combine(rows, weights, out)
        return
    total = out[begin:end]
    total[:] = 0.0
    i = first
    while i + 4 <= last:
        w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        r0, r1 = rows[i, begin:end], rows[i + 1, begin:end]
        r2, r3 = rows[i + 2, begin:end], rows[i + 3, begin:end]
        for a in range(total.size):
            total[a] += w0 * r0[a] + w1 * r1[a] + w2 * r2[a] + w3 * r3[a]
        i += 4
    while i < last:
        w0, r0 = weights[i], rows[i, begin:end]
        for a in range(total.size):
            total[a] += w0 * r0[a]
        i += 1


@inner
def in_fours(first: int, end: int, d: int) -> int:
    """Where a sum that goes by fours from `first` may end without a bit of change, if all is 0 from `end` on.

    A sum over all d features that begins at a multiple of four has the same groups.
    """
    return min(first + (end - first + 3) // 4 * 4, d)


@inner
def block_begin(s: State, i: int) -> int:
    """Where the block of feature i begins in V."""
    return int(s.vectors[BLOCK_BEGIN, i]) if s.run[0].split == 1 else 0


@inner
def block_end(s: State, i: int) -> int:
    """Where the block of feature i ends in V."""
    return int(s.vectors[BLOCK_END, i]) if s.run[0].split == 1 else s.vectors.shape[1]


@inner
def join_blocks(s: State, first: int, last: int) -> None:
    """Make one block of all that a row with features from `first` to `last` touches."""
    begin, end = block_begin(s, first), block_end(s, last - 1)
    if block_end(s, first) == end:
        return
    for i in range(begin, end):
        s.vectors[BLOCK_BEGIN, i], s.vectors[BLOCK_END, i] = begin, end
    if end - begin == s.vectors.shape[1]:
        s.run[0].split = 0


@inner
def extent(x: Floats) -> tuple[int, int]:
    """Where what is not 0 begins and ends; at least one feature."""
    bits, first, last = x.view(np.int64), 0, x.size
    while last > 32 and is_zero(bits[last - 32 : last]):
        last -= 32
    while last > 1 and x[last - 1] == 0.0:
        last -= 1
    while first + 32 < last and is_zero(bits[first : first + 32]):
        first += 32
    while first < last - 1 and x[first] == 0.0:
        first += 1
    return first, last


@inner
def is_zero(bits: Ints) -> bool:
    """Whether some numbers are all 0, by their bits: several at a time, where floats are looked at singly."""
    found = 0
    for i in range(bits.size):
        found |= bits[i]
    return bool(found & 0x7FFFFFFFFFFFFFFF == 0)  # -0.0, as in -1.5 times 0, is 0


@inlined
def dot(x: Floats, y: Floats) -> float:
    """<x, y> in four running sums."""
    n = x.size
    s0 = s1 = s2 = s3 = 0.0
    i = 0
    while i + 4 <= n:
        s0 += x[i] * y[i]
        s1 += x[i + 1] * y[i + 1]
        s2 += x[i + 2] * y[i + 2]
        s3 += x[i + 3] * y[i + 3]
        i += 4
    while i < n:
        s0 += x[i] * y[i]
        i += 1
    return (s0 + s1) + (s2 + s3)


@inner
def solve(s: State, y: Floats, out: Floats) -> None:
    """out = V^-1 y."""
    if s.run[0].one_hot == 0:
        solve_by_blocks(s, y, out, s.blocks)
        return
    inverse = s.square[INVERSE, 0]
    for i in range(y.size):
        out[i] = inverse[i] * y[i]


@inner
def solve_by_blocks(s: State, y: Floats, out: Floats, blocks: Blocks) -> None:
    """The same where V is not diagonal, block by block where it has any."""
    if blocks is None:
        combine(s.square[INVERSE], y, out)
        return
    if s.run[0].border > 0:
        copy(y, out)
        whiten_all(s, out)
        unwhiten_all(s, out, out)
        return
    begin, d = 0, y.size
    while begin < d:
        first, end = begin - begin % 4, block_end(s, begin)
        combine_part(s.square[INVERSE], y, first, in_fours(first, end, d), out, begin, end)
        begin = end


@inner
def take(x: Floats, weight: float, row: Floats) -> None:
    """x -= weight row."""
    for j in range(x.size):
        x[j] -= weight * row[j]


@inner
def whiten_part(factor: Floats, x: Floats, first: int, end: int, border: int) -> None:
    """z of R'z = x from `first` to `end`, in the place of x, and what these take from the border."""
    for i in range(first, end):
        row = factor[i]
        x[i] /= row[i]
        take(x[i + 1 : end], x[i], row[i + 1 : end])
        if border < x.size:
            take(x[border:], x[i], row[border:])


@inner
def whiten_all(s: State, x: Floats) -> None:
    """z of R'z = x in the place of x, where V has blocks and a border."""
    factor, border, begin = s.square[FACTOR], s.run[0].border, 0
    while begin < border:
        end = block_end(s, begin)
        whiten_part(factor, x, begin, end, border)
        begin = end
    whiten_part(factor, x, border, x.size, x.size)


@inner
def unwhiten_all(s: State, z: Floats, out: Floats) -> None:
    """out = R^-1 z, where V has blocks and a border; z may be out."""
    factor, border, d = s.square[FACTOR], s.run[0].border, z.size
    for i in range(d - 1, border - 1, -1):
        out[i] = (z[i] - dot(factor[i, i + 1 :], out[i + 1 :])) / factor[i, i]
    shared = out[border:]
    for i in range(border - 1, -1, -1):
        row, end = factor[i], block_end(s, i)
        behind = dot(row[i + 1 : end], out[i + 1 : end])
        if border < d:
            behind += dot(row[border:], shared)
        out[i] = (z[i] - behind) / row[i]


@inner
def project(s: State, v: Floats, out: Floats) -> None:
    """out = <a, v> for every arm a."""
    if s.actions.shape[0] == v.size:
        combine(s.actions, v, out)
    else:
        project_places(s, v, out, s.blocks)


@inner
def project_places(s: State, v: Floats, out: Floats, blocks: Blocks) -> None:
    """The same where the features of an arm that may not be 0 begin at its place."""
    if blocks is None:  # one-hot
        scale, place = s.actions[0], s.arms[PLACE]
        for a in range(out.size):
            out[a] = scale[a] * v[int(place[a])]
        return
    if s.run[0].border > 0:
        border = s.run[0].border
        own = s.actions.shape[0] - (v.size - border)
        combine(s.actions[own:], v[border:], out)
        for a in range(out.size):
            out[a] += project_arm(s.actions[:own], int(s.arms[PLACE, a]), a, v[:border])
        return
    for a in range(out.size):
        out[a] = project_arm(s.actions, int(s.arms[PLACE, a]), a, v)


@inner
def project_arm(x: Floats, place: int, arm: int, v: Floats) -> float:
    """<a, v> in the groups of `combine`, for an arm whose features begin at a multiple of four."""
    total, i, part = 0.0, 0, v[place:]
    width = min(x.shape[0], part.size)
    while i + 4 <= width:
        near = part[i] * x[i, arm] + part[i + 1] * x[i + 1, arm]
        total += near + part[i + 2] * x[i + 2, arm] + part[i + 3] * x[i + 3, arm]
        i += 4
    while i < width:
        total += part[i] * x[i, arm]
        i += 1
    return total


@inner
def add_action(s: State, arm: int, weight: float, out: Floats) -> None:
    """out += weight a."""
    border, rows, d = s.run[0].border, s.actions.shape[0], out.size
    own = rows - (d - border) if border > 0 else rows
    part = out[int(s.arms[PLACE, arm]) :]
    for i in range(min(own, part.size)):
        part[i] += weight * s.actions[i, arm]
    for i in range(own, rows):  # features that arms share
        out[d - rows + i] += weight * s.actions[i, arm]


@inner
def update_factor(factor: Floats, half: Floats, x: Floats, y: float, first: int, end: int) -> None:
    """Add a row x with outcome y to the least squares R theta = half, V = R'R; destroys x.

    O(d^2), or the square of the block that ends at `end` and holds the row, which is 0 before `first`.
    """
    for j in range(first, end):
        row = factor[j]
        pivot = sqrt(row[j] * row[j] + x[j] * x[j])
        cosine, sine = row[j] / pivot, x[j] / pivot  # a Givens rotation of the row and x: stable
        row[j] = pivot
        for i in range(j + 1, end):
            row[i], x[i] = cosine * row[i] + sine * x[i], cosine * x[i] - sine * row[i]
        half[j], y = cosine * half[j] + sine * y, cosine * y - sine * half[j]


@inner
def whiten(factor: Floats, x: Floats, first: int, end: int) -> None:
    """x = R'^-1 x, in place, in the block that ends at `end`; x is 0 before `first`."""
    for i in range(first, end):
        x[i] /= factor[i, i]
        for j in range(i + 1, end):
            x[j] -= factor[i, j] * x[i]


@inner
def invert(s: State) -> None:
    """V^-1, theta and log det V from the least squares R theta = half."""
    r, d = s.run[0], s.vectors.shape[1]
    factor, inverse, upper = s.square[FACTOR], s.square[INVERSE], s.square[ROOT]
    r.log_det = 0.0
    r.since_refresh = 0
    r.widest = 0.0
    invert_factor(s)
    for i in range(d - 1, -1, -1):
        r.log_det += 2.0 * log(factor[i, i])
    theta, half = s.vectors[THETA], s.vectors[HALF]
    for i in range(d):
        last = in_fours(i, block_end(s, i), d)
        for j in range(block_begin(s, i), i + 1):
            inverse[i, j] = inverse[j, i] = dot(upper[i, i:last], upper[j, i:last])
        r.widest = max(r.widest, inverse[i, i])
        theta[i] = dot(upper[i, i:last], half[i:last])


@inner
def invert_factor(s: State) -> None:
    """R^-1 and its transpose."""
    d, factor, upper, lower = s.vectors.shape[1], s.square[FACTOR], s.square[ROOT], s.square[ROOT_T]
    for i in range(d - 1, -1, -1):  # row i of R^-1 from the rows below it
        row, begin, end = upper[i], block_begin(s, i), block_end(s, i)
        for j in range(begin, i):
            row[j] = lower[j, i] = 0.0
        combine_part(upper, factor[i], i + 1, in_fours(i + 1, end, d), row, i, end)
        for j in range(i, end):
            row[j] = ((1.0 if i == j else 0.0) - row[j]) / factor[i, i]
            lower[j, i] = row[j]


@inner
def refresh_moved(s: State) -> None:
    """|X V^-1 a|^2 of every arm, from R_0 V^-1."""
    moved, row, image = s.arms[MOVED], s.vectors[STEP], s.arms[CROSS]
    moved[:] = 0.0
    for i in range(row.size):
        combine(s.square[INVERSE, i:], s.square[LOG_ROOT, i, i:], row)
        combine(s.actions, row, image)
        for a in range(moved.size):
            moved[a] += image[a] * image[a]


@inner
def refresh(p: Any, s: State, shift: Part, extras: Part) -> None:
    """Recompute everything from the counts and sums of each arm, as a fresh start would: nothing drifts.

    R, with R theta = half and V = R'R, is built row by row from sqrt(ridge) I, never from V: where the log is
    silent V holds the ridge beside counts that drown it, and R does not. Its pivots only grow, so no log can
    give a NaN.
    """
    if s.run[0].one_hot == 1:
        refresh_one_hot(p, s, extras)
        return
    refresh_estimate(p, s)
    measure_anew(s, 0, s.actions.shape[1])
    if shift is not None:
        refresh_moved(s)


@inner
def measure_anew(s: State, first: int, last: int) -> None:
    """Mean and variance of the arms from `first` to `last` by theta and R'^-1, O(d^2 / 2) each."""
    mean, variance, row = s.arms[MEAN], s.arms[VARIANCE], s.arms[CROSS]
    d, lower, whitened = s.actions.shape[0], s.square[ROOT_T], s.run[0].whitened == 1
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        combine_part(s.actions, s.vectors[THETA], 0, d, mean, begin, end)
        variance[begin:end] = 0.0
        for i in range(d):
            if whitened:
                row = s.arms[WHITE + i]
            combine_part(s.actions, lower[i], 0, i + 1, row, begin, end)
            for a in range(begin, end):
                variance[a] += row[a] * row[a]


@inner
def renew(p: Any, s: State, growth: float, reward: float, shift: Part, extras: Part) -> None:
    """A refresh, or one of the smaller ones that take its place, after a reward and what it did to det V."""
    if s.run[0].slices == 0:
        refresh(p, s, shift, extras)
        return
    first, last = renew_slice(s, growth, reward)
    measure_anew(s, first, last)


@inner
def renew_estimate(p: Any, s: State, growth: float, reward: float) -> tuple[int, int]:
    """The same without the arms, and which of them follow: from the first to the last."""
    if s.run[0].slices == 0:
        refresh_estimate(p, s)
        return 0, s.arms.shape[1]
    return renew_slice(s, growth, reward)


@inner
def renew_slice(s: State, growth: float, reward: float) -> tuple[int, int]:
    """The same where arms follow slice by slice: R knows all rewards, row by row, but for this one.

    The action of the reward is in `work`.
    """
    r, k = s.run[0], s.arms.shape[1]
    update_factor(s.square[FACTOR], s.vectors[HALF], s.vectors[WORK], reward, 0, s.vectors.shape[1])
    invert(s)
    if has_leapt(growth):
        return 0, k
    first, last = k * r.slice // r.slices, k * (r.slice + 1) // r.slices
    r.slice = (r.slice + 1) % r.slices
    return first, last


@inner
def refresh_estimate(p: Any, s: State) -> None:
    """The same without what it says of the arms, which are not one-hot."""
    d, k = s.actions.shape
    factor, half, x = s.square[FACTOR], s.vectors[HALF], s.vectors[WORK]
    if s.run[0].whitened == 0:
        gather_sums(p, s)
    factor[:] = 0.0
    half[:] = 0.0
    for i in range(d):
        factor[i, i] = sqrt(p.ridge)
    for a in range(k):
        seen = s.arms[SEEN, a]
        if seen == 0.0:
            continue
        root = sqrt(seen)
        for i in range(d):
            x[i] = s.actions[i, a]  # may be float32
            x[i] *= root
        update_factor(factor, half, x, s.arms[SUMS, a] / root, 0, d)
    invert(s)
    if s.run[0].whitened == 1:
        for i in range(d):
            for j in range(d):
                s.square[WHITE_INVERSE, i, j] = 1.0 if i == j else 0.0


@inner
def gather_sums(p: Any, s: State) -> None:
    """V and b from the counts and sums of each arm."""
    gram, target, x = s.square[GRAM], s.vectors[TARGET], s.vectors[WORK]
    d, k = s.actions.shape
    gram[:] = 0.0
    target[:] = 0.0
    for a in range(k):
        seen = s.arms[SEEN, a]
        if seen == 0.0:
            continue
        for i in range(d):
            x[i] = s.actions[i, a]
        for i in range(d):
            target[i] += s.arms[SUMS, a] * x[i]
            weight, into = seen * x[i], gram[i]
            for j in range(d):
                into[j] += weight * x[j]
    for i in range(d):
        gram[i, i] += p.ridge


@inner
def refine(s: State, x: Floats, step: Floats, begin: int, end: int) -> None:
    """One step of iterative refinement of V^-1 x, for a log that knows some directions much better.

    V^-1 is as large as 1/ridge where the log is silent, and its rounding swamps the small variance of a
    well-known arm; the residual x - V step is computed from V, which is exact.
    """
    residue, change = s.vectors[RESIDUE], s.vectors[REFINED]
    first = begin - begin % 4
    last = in_fours(first, end, x.size)
    combine_part(s.square[GRAM], step, first, last, residue, begin, end)
    for i in range(begin, end):
        residue[i] = x[i] - residue[i]
    combine_part(s.square[INVERSE], residue, first, last, change, begin, end)
    for i in range(begin, end):
        step[i] += change[i]


@inner
def noise_radius(p: Any, s: State, fixed: float, level: float) -> float:
    """sqrt(rho_t) of Proposition 1, or of the radius chosen in its place, without the ridge bias."""
    r = s.run[0]
    if p.fixed_radius == 1 or (p.prior_is_log == 1 and r.rewards == 0):
        return fixed  # beta_1 = 0
    growth = max(r.log_det - r.log_det_base, 0.0)
    return float(fixed + p.noise * sqrt(level + growth))


@inner
def raise_bounds(p: Any, s: State, shift: Part) -> None:
    """The widths of C_t, and lcb_t = max over t' <= t, eq. (3).

    A stand-in that is wrong by at most e moves theta by e |a| in V^-1, in the norm of V: these add up.
    """
    r = s.run[0]
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    if r.one_hot == 0:  # else `settle` did: a reward changes one of them
        for a in range(mean.size):
            width[a] = sqrt(variance[a])
    r.lost_radius = dot(s.arms[LOST], width)
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level) + r.lost_radius
    bonus = r.radius + r.lost_radius
    if shift is not None:
        raise_by_both(p, s, bonus)
        return
    for a in range(mean.size):
        lower = mean[a] - bonus * width[a]
        lower = lower if lower > p.floor else p.floor
        lcb[a] = lower if lower > lcb[a] else lcb[a]


@inner
def raise_by_both(p: Any, s: State, bonus: float) -> None:
    """The better lower bound of two: with the log and all that it may have moved, and without the log."""
    mean, width, lcb, without = s.arms[MEAN], s.arms[WIDTH], s.arms[LCB], online(s).arms[LCB]
    moved, lift, scale = s.arms[MOVED], s.arms[LIFT], p.shift * sqrt(float(s.run[0].logged))
    for a in range(mean.size):
        lift[a] = scale * sqrt(moved[a])
        lower = max(mean[a] - bonus * width[a] - lift[a], p.floor)
        lcb[a] = max(lower, lcb[a], without[a])
        without[a] = lcb[a]  # what the gate asks both states about


@inner
def forget(p: Any, s: State, shift: Part, extras: Part) -> None:
    """Drop what is older than the last `memory` rewards, or let all fade; lower bounds begin anew."""
    r = s.run[0]
    if p.fade > 0.0:
        for a in range(s.arms.shape[1]):
            s.arms[SEEN, a] *= p.fade
            s.arms[SUMS, a] *= p.fade
            s.arms[LOST, a] *= p.fade
    else:
        copy(s.arms[RECENT_SEEN], s.arms[SEEN])
        copy(s.arms[RECENT_SUMS], s.arms[SUMS])
        s.arms[RECENT_SEEN] = 0.0
        s.arms[RECENT_SUMS] = 0.0
    s.arms[LCB] = -inf
    refresh(p, s, shift, extras)
    if p.prior_is_log == 1:
        r.log_det_base = min(r.log_det_base, r.log_det) if p.fade > 0.0 else r.log_det


@inner
def step_squares(gram: Floats, pull: float, x: Floats, inverse: Floats, shrink: float, step: Floats) -> None:
    """One row of V and one of V^-1 in a rank-one step."""
    for j in range(x.size):
        gram[j] += pull * x[j]
        inverse[j] -= shrink * step[j]


@inner
def learn(
    p: Any,
    s: State,
    x: Floats,
    begin: int,
    end: int,
    mean: float,
    variance: float,
    reward: float,
    blocks: Blocks,
) -> tuple[float, float]:
    """V, V^-1 and theta by one rank-one step for a row x of known mean and variance, in its block.

    Leaves V^-1 x, from before, in `step`; returns what theta moved along it, and det V_t / det V_{t-1}.
    """
    r = s.run[0]
    gram, inverse = s.square[GRAM], s.square[INVERSE]
    target, theta, step = s.vectors[TARGET], s.vectors[THETA], s.vectors[STEP]
    first = begin - begin % 4
    last = in_fours(first, end, x.size)
    combine_part(inverse, x, first, last, step, begin, end)  # V^-1 x, by symmetry
    part = x[first:last]
    if variance < STIFF * r.widest * dot(part, part):
        refine(s, x, step, begin, end)
    growth = 1.0 + dot(part, step[first:last])
    gain = (reward - mean) / growth
    if p.estimates_noise == 1:
        r.residuals += (reward - mean) * gain  # its mean is the variance of a reward, however known x is
        r.residual_count += 1.0
    if blocks is None or end - begin == x.size:  # without slices, as in `combine_part`
        for i in range(x.size):
            target[i] += reward * x[i]
            theta[i] += gain * step[i]
            step_squares(gram[i], x[i], x, inverse[i], step[i] / growth, step)
    else:
        row, along = x[begin:end], step[begin:end]
        for i in range(begin, end):
            target[i] += reward * x[i]
            theta[i] += gain * step[i]
            step_squares(gram[i, begin:end], x[i], row, inverse[i, begin:end], step[i] / growth, along)
    r.log_det += log(growth)
    r.rewards += 1
    r.since_refresh += 1
    r.fresh = 0
    return gain, growth


@inner
def learn_one_hot(p: Any, s: State, arm: int, reward: float, extras: Part) -> float:
    """The same where V is diagonal, from counts that hold the reward already, O(1)."""
    r, i, surprise = s.run[0], int(s.arms[PLACE, arm]), reward - s.arms[MEAN, arm]
    before = s.square[GRAM, 0, i]
    settle(p, s, arm, extras)
    growth = s.square[GRAM, 0, i] / before
    if p.estimates_noise == 1:
        r.residuals += surprise * surprise / growth
        r.residual_count += 1.0
    r.log_det += log(growth)
    r.rewards += 1
    r.since_refresh += 1
    r.fresh = 0
    return float(growth)


@inner
def learn_arm(p: Any, s: State, arm: int, reward: float, shift: Part) -> float:
    """A rank-one step, and what it does to the mean and the variance of every arm; x stays in `work`."""
    x, mean, variance, cross = s.vectors[WORK], s.arms[MEAN], s.arms[VARIANCE], s.arms[CROSS]
    for i in range(x.size):
        x[i] = s.actions[i, arm]
    gain, growth = learn(p, s, x, 0, x.size, mean[arm], variance[arm], reward, None)
    combine(s.actions, s.vectors[STEP], cross)
    shrink = 1.0 / growth
    for a in range(mean.size):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        variance[a] = left if left > 0.0 else 0.0
    if shift is not None:
        update_moved(s, shrink)
    return growth


@inner
def log_image(s: State, y: Floats, out: Floats) -> None:
    """out = X'X y, X the logged rows."""
    if s.run[0].one_hot == 0:
        combine(s.square[LOG_GRAM], y, out)
        return
    for i in range(y.size):
        out[i] = s.square[LOG_GRAM, 0, i] * y[i]


@inner
def update_moved(s: State, shrink: float) -> None:
    """|X V^-1 a|^2 after a rank-one step u, with c = <a, u> / growth: less 2 c a'V^-1 X'X u + c^2 |X u|^2."""
    step, image, back = s.vectors[STEP], s.vectors[RESIDUE], s.vectors[REFINED]
    cross, moved, change = s.arms[CROSS], s.arms[MOVED], s.arms[MOVE]
    log_image(s, step, image)
    solve(s, image, back)
    project(s, back, change)
    square = dot(step, image)
    for a in range(moved.size):
        share = shrink * cross[a]
        left = moved[a] - share * (2.0 * change[a] + share * square)
        moved[a] = left if left > 0.0 else 0.0


@inner
def is_worn(r: Any, growth: float) -> bool:
    """Whether rank-one steps may have cost digits: there were many, or one that changed much."""
    every = REFRESH_EVERY if r.slices == 0 else REFRESH_EVERY // r.slices
    if r.whitened == 1:
        every = REFRESH_WHITENED
    return bool(r.since_refresh >= every or (has_leapt(growth) and r.one_hot == 0))


@inner
def has_leapt(growth: float) -> bool:
    """Whether one rank-one step changed so much that no arm is what it was."""
    return not 1.0 <= growth <= REFRESH_ABOVE
