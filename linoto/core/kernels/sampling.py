"""What explorers that draw make of every arm: one parameter, one luck for all, or a chance for each."""

from __future__ import annotations

from math import erf, inf, log, sqrt
from typing import Any

from linoto.core.arrays import Floats
from linoto.core.kernels.beside import end_with_arms, is_every_arm, score_beside
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.estimate import block_end, dot, project, unwhiten_all
from linoto.core.kernels.layout import (
    ABEILLE_LAZARIC,
    AFFORDABLE,
    AGRAWAL_GOYAL,
    ALLOWED,
    CHANCE,
    CLICK_FACTOR,
    CLICK_ODDS,
    CONTROL,
    CROSS,
    FACTOR,
    GIVEN_SCORES,
    MEAN,
    NEWTON_STEPS,
    NORMALS,
    ROOM,
    SCORE,
    STEP,
    TINY,
    VARIANCE,
    WHOLE_PRIOR,
    WIDTH,
    Blocks,
    State,
)

SQRT_HALF = 0.7071067811865476


@inner
def noise_share(p: Any, r: Any) -> float:
    """The noise that log and rewards show, as a share of the assumed one; one row stands for the latter."""
    if p.estimates_noise == 0:
        return 1.0
    square = p.noise * p.noise
    return float(min(sqrt((square + r.residuals) / (square * (1.0 + r.residual_count))), 1.0))


@inner
def thompson_spread(p: Any, s: State) -> float:
    """v: a draw is theta + v R^-1 xi, V = R'R."""
    r = s.run[0]
    spread = p.noise
    if p.law == AGRAWAL_GOYAL:
        spread *= sqrt(9.0 * s.vectors.shape[1] * (log(r.rounds + 1.0) + p.level))
    elif p.law == ABEILLE_LAZARIC:
        spread = r.radius
    return float(p.scale * noise_share(p, r) * spread)


@inner
def square_lengths(s: State, out: Floats) -> None:
    """out = |a|^2 of every arm a, from the features that are kept of it, in their order."""
    out[:] = 0.0
    for i in range(s.actions.shape[0]):
        x = s.actions[i]
        for a in range(out.size):
            out[a] += float(x[a]) * float(x[a])  # features may be float32


@inner
def spread_of(p: Any, spread: float, variance: float, length: float) -> float:
    """v of one arm: `spread`, and as before any reward where nothing has told about the arm.

    Between them by the share ridge |a|^2_{V^-1} / |a|^2 of its first variance that is left. It rises with the
    variance, to the assumed noise.
    """
    if p.law != WHOLE_PRIOR or spread >= p.noise:
        return spread
    left = min(p.ridge * variance / length, 1.0) if length > 0.0 else 0.0
    return sqrt(spread * spread + (p.noise * p.noise - spread * spread) * left)


@inner
def unwhiten(s: State, factor: Floats, normals: Floats, out: Floats, blocks: Blocks) -> None:
    """out = R^-1 normals, of a factor R: a draw with covariance V^-1.

    Four rows at a time: each division waits for the one before it, and the sums to their right do not.
    """
    i, d = out.size, out.size
    if blocks is not None and s.run[0].border > 0:
        unwhiten_all(s, normals, out)
        return
    if s.run[0].one_hot == 1:
        for i in range(d):
            out[i] = normals[i] / factor[0, i]
        return
    while i >= 4:
        i -= 4
        r0, r1, r2, r3 = factor[i], factor[i + 1], factor[i + 2], factor[i + 3]
        z0, z1, z2, z3 = normals[i], normals[i + 1], normals[i + 2], normals[i + 3]
        for j in range(block_end(s, i + 3) - 1, i + 3, -1):
            z0 -= r0[j] * out[j]
            z1 -= r1[j] * out[j]
            z2 -= r2[j] * out[j]
            z3 -= r3[j] * out[j]
        z3 /= r3[i + 3]
        z2 = (z2 - r2[i + 3] * z3) / r2[i + 2]
        z1 = (z1 - r1[i + 3] * z3 - r1[i + 2] * z2) / r1[i + 1]
        out[i + 1], out[i + 2], out[i + 3] = z1, z2, z3
        out[i] = (z0 - r0[i + 3] * z3 - r0[i + 2] * z2 - r0[i + 1] * z1) / r0[i]
    while i > 0:
        i -= 1
        out[i] = (normals[i] - dot(factor[i, i + 1 :], out[i + 1 :])) / factor[i, i]


@inner
def draw_means(s: State, out: Floats, blocks: Blocks) -> None:
    """out = <a, R^-1 normals> for every arm a."""
    if blocks is not None and is_every_arm(s, blocks) and end_with_arms(s, blocks):
        score_beside(s, blocks, out)
        return
    unwhiten(s, s.square[FACTOR], s.vectors[NORMALS], s.vectors[STEP], blocks)
    project(s, s.vectors[STEP], out)


@inner
def score_by_draw(p: Any, s: State) -> None:
    """Thompson sampling: the mean of every arm under one drawn parameter, as wide as each asks for."""
    mean, score, spread = s.arms[MEAN], s.arms[SCORE], thompson_spread(p, s)
    variance, length = s.arms[VARIANCE], s.arms[CROSS]
    draw_means(s, score, s.blocks)
    if p.law == WHOLE_PRIOR:
        square_lengths(s, length)
    for a in range(mean.size):
        score[a] = mean[a] + spread_of(p, spread, variance[a], length[a]) * score[a]


@inner
def score_by_odds(p: Any, s: State) -> None:
    """Thompson sampling of clicks: the log-odds of every arm under one drawn parameter."""
    score, draw, mode = s.arms[SCORE], s.vectors[STEP], s.vectors[CLICK_ODDS]
    unwhiten(s, s.square[CLICK_FACTOR], s.vectors[NORMALS], draw, s.blocks)
    for i in range(draw.size):
        draw[i] = mode[i] + p.scale * draw[i]
    project(s, draw, score)


@inner
def mark_choices(p: Any, s: State, offered: int) -> int:
    """chance = 1 for the arms to draw from; how many they are.

    Where the gate is asked about every arm they are those that it affords, if any; else all that are allowed.
    """
    chance, room, choices, affordable = s.arms[CHANCE], s.arms[ROOM], 0, 0
    for a in range(chance.size):
        allowed = a < offered and (s.run[0].restricted == 0 or s.counts[ALLOWED, a] == 1)
        chance[a] = 1.0 if allowed else 0.0
        choices += allowed
        affordable += allowed and room[a] > 0.0
    if p.reach != AFFORDABLE or p.gate == CONTROL or affordable == 0:
        return choices
    for a in range(chance.size):
        if not room[a] > 0.0:
            chance[a] = 0.0
    return affordable


@inner
def share_chances_by_luck(s: State, mean: Floats, slope: Floats, luckiest: int) -> None:
    """chance = how likely mean + |z| slope is largest, z standard normal, of the arms that are marked by 1.

    As luck grows from 0 the best arm changes to ever steeper ones: from each, to the one whose line crosses
    its line first. `luckiest` is the arm that the draw of this round made best; rounding leaves it a chance.
    """
    chance, top, below = s.arms[CHANCE], -1, 0.0
    for a in range(mean.size):
        if chance[a] > 0.0 and (
            top < 0 or mean[a] > mean[top] or (mean[a] == mean[top] and slope[a] > slope[top])
        ):
            top = a
    while top >= 0:
        following, nearest = -1, inf
        for a in range(mean.size):
            if chance[a] > 0.0 and slope[a] > slope[top]:
                crossing = (mean[top] - mean[a]) / (slope[a] - slope[top])
                if crossing < nearest or (
                    following >= 0 and crossing == nearest and slope[a] > slope[following]
                ):
                    following, nearest = a, crossing
        above = erf(nearest * SQRT_HALF) if following >= 0 else 1.0
        chance[top] = below - above  # marks are above 0, what is known is not
        top, below = following, above
    for a in range(mean.size):
        chance[a] = -chance[a] if chance[a] < 0.0 else 0.0
    if luckiest >= 0 and chance[luckiest] == 0.0:
        chance[luckiest] = TINY


@inner
def luck_of(s: State) -> float:
    """|z| of this round."""
    return float(abs(s.vectors[NORMALS, 0]))


@inner
def lift_of(p: Any, s: State, spread: float, variance: float, length: float, width: float) -> float:
    """What luck adds to the estimate of one arm."""
    return luck_of(s) * (spread_of(p, spread, variance, length) * width)


@inner
def score_by_luck(p: Any, s: State, offered: int) -> None:
    """RandUCB: every arm as good as the same luck makes it, one |z| for all; and how likely each was."""
    mean, score, spread = s.arms[MEAN], s.arms[SCORE], thompson_spread(p, s)
    variance, width, slope = s.arms[VARIANCE], s.arms[WIDTH], s.arms[CROSS]
    luck, luckiest = luck_of(s), -1
    if p.law == WHOLE_PRIOR:
        square_lengths(s, slope)
    for a in range(mean.size):
        slope[a] = spread_of(p, spread, variance[a], slope[a]) * width[a]
        score[a] = mean[a] + luck * slope[a]
    mark_choices(p, s, offered)
    for a in range(mean.size):
        if s.arms[CHANCE, a] > 0.0 and (luckiest < 0 or score[a] > score[luckiest]):
            luckiest = a
    share_chances_by_luck(s, mean, slope, luckiest)


@inner
def weigh_gaps(s: State, choices: int, top: int, spread: float) -> float:
    """gamma: the number for which gamma^2 sum_a p_a (spread |a|)^2 = 8 (choices - 1), |a| in V^-1.

    p_a = 1 / (choices + gamma gap_a), and `top` has the rest. The left side rises and is convex: Newton's
    steps, here for gamma spread, fall to the root from the second one on. Infinite where nothing is left to
    learn.
    """
    mean, variance, chance = s.arms[MEAN], s.arms[VARIANCE], s.arms[CHANCE]
    widest, goal = 0.0, 8.0 * (choices - 1.0)
    for a in range(mean.size):
        if chance[a] > 0.0 and variance[a] > widest:
            widest = variance[a]
    if spread <= 0.0 or widest <= 0.0:
        return inf
    gamma = sqrt(goal / widest)
    for _ in range(NEWTON_STEPS):
        average, change = variance[top], 0.0
        for a in range(mean.size):
            if chance[a] > 0.0 and a != top:
                gap = (mean[top] - mean[a]) / spread
                likely = 1.0 / (choices + gamma * gap)
                average += likely * (variance[a] - variance[top])
                change -= gap * likely * likely * (variance[a] - variance[top])
        step = (gamma * average - goal / gamma) / (2.0 * average + gamma * change)
        gamma -= step
        if abs(step) <= 1e-9 * gamma:
            break
    return float(gamma / spread)


@inner
def score_by_gaps(p: Any, s: State, offered: int) -> None:
    """SquareCB: arm a has chance 1 / (k + gamma gap_a), the best of the k arms the rest.

    log(u_a) / chance_a is largest for arm a with its chance, u_a uniform.
    """
    mean, chance, score, uniform = s.arms[MEAN], s.arms[CHANCE], s.arms[SCORE], s.arms[GIVEN_SCORES]
    choices, top, rest = mark_choices(p, s, offered), -1, 1.0
    for a in range(mean.size):
        if chance[a] > 0.0 and (top < 0 or mean[a] > mean[top]):
            top = a
    gamma = 0.0
    if choices > 1:
        gamma = weigh_gaps(s, choices, top, p.scale * noise_share(p, s.run[0]) * p.noise)
    for a in range(mean.size):
        if chance[a] > 0.0 and a != top:
            chance[a] = 1.0 / (choices + gamma * (mean[top] - mean[a])) if gamma < inf else 0.0
            rest -= chance[a]
    chance[top] = rest
    for a in range(mean.size):
        score[a] = log(max(uniform[a], TINY)) / chance[a] if chance[a] > 0.0 else -inf
