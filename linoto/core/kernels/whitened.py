"""Rewards in the coordinates of the last refresh, where V was the identity.

R is the factor of V at the last refresh, and z = R'^-1 a. Since then V = R'(I + sum of z z')R, so that
V^-1 = R^-1 W R'^-1 with W = (I + sum of z z')^-1, which is well conditioned at any ridge: nothing has to be
refined, and neither V nor theta nor b follows a reward. They are made when somebody reads them.
"""

from __future__ import annotations

from math import log, sqrt
from typing import Any

from linoto.core.arrays import Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.estimate import (
    combine,
    combine_part,
    copy,
    dot,
    gather_sums,
    invert_factor,
    is_worn,
    noise_radius,
    whiten,
)
from linoto.core.kernels.layout import (
    CROSS,
    FACTOR,
    FALLEN,
    HALF,
    INVERSE,
    LCB,
    MEAN,
    REFINED,
    REFRESH_WHITENED,
    RESIDUE,
    ROOT_T,
    STEP,
    THETA,
    VARIANCE,
    WHITE,
    WHITE_INVERSE,
    WIDTH,
    WORK,
    State,
)
from linoto.core.kernels.sampling import unwhiten


@inner
def learn_whitened(p: Any, s: State, arm: int, reward: float, error: float) -> float:
    """A rank-one step of W and R theta, and what it does to every arm; det V_t / det V_{t-1}."""
    r, z, step, half = s.run[0], s.vectors[WORK], s.vectors[STEP], s.vectors[HALF]
    arms, inverse = s.arms[WHITE:], s.square[WHITE_INVERSE]
    for i in range(z.size):
        z[i] = arms[i, arm]
    combine(inverse, z, step)  # W z, by symmetry
    growth, surprise = 1.0 + dot(z, step), reward - s.arms[MEAN, arm]
    gain, shrink = surprise / growth, 1.0 / growth
    if p.estimates_noise == 1:
        r.residuals += surprise * gain
        r.residual_count += 1.0
    for i in range(z.size):
        half[i] += gain * step[i]
        row, weight = inverse[i], shrink * step[i]
        for j in range(z.size):
            row[j] -= weight * step[j]
    r.log_det += log(growth)
    r.rewards += 1
    fallen = dot(z, z) > FALLEN * (growth - 1.0)  # the variance of this arm, since the refresh
    r.since_refresh = REFRESH_WHITENED if fallen else r.since_refresh + 1
    r.fresh = 0
    r.lost_sum += error
    combine(arms, step, s.arms[CROSS])
    if bounds_follow(s, growth):
        step_arms(s, gain, shrink)
    else:
        step_and_raise(p, s, gain, shrink)
    return growth


@inner
def bounds_follow(s: State, growth: float) -> bool:
    """Whether `raise_bounds` comes after a reward: all is computed anew, or lost rewards widen the bounds."""
    return bool(s.run[0].lost_sum > 0.0 or is_worn(s.run[0], growth))


@inner
def step_arms(s: State, gain: float, shrink: float) -> None:
    """Mean and variance of every arm after a rank-one step."""
    mean, variance, cross = s.arms[MEAN], s.arms[VARIANCE], s.arms[CROSS]
    for a in range(mean.size):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        variance[a] = left if left > 0.0 else 0.0


@inner
def step_and_raise(p: Any, s: State, gain: float, shrink: float) -> None:
    """The same, and what `raise_bounds` does where no reward was lost, in one pass: the same bits."""
    r, cross = s.run[0], s.arms[CROSS]
    mean, variance, width, lcb = s.arms[MEAN], s.arms[VARIANCE], s.arms[WIDTH], s.arms[LCB]
    r.lost_radius = 0.0
    r.radius = noise_radius(p, s, p.radius_fixed, p.radius_level) + p.bias
    r.gate_radius = noise_radius(p, s, p.gate_fixed, p.gate_level)
    bonus, floor = r.radius, p.floor
    for a in range(mean.size):
        mean[a] += gain * cross[a]
        left = variance[a] - shrink * cross[a] * cross[a]
        left = left if left > 0.0 else 0.0
        variance[a] = left
        width[a] = sqrt(left)
        lower = mean[a] - bonus * width[a]
        lower = lower if lower > floor else floor
        lcb[a] = lower if lower > lcb[a] else lcb[a]


@compiled
def white_estimate(params: Records, s: State) -> None:
    """V, b, theta and V^-1 = R^-1 W R'^-1 of a whitened state, O(d^3): for who reads them."""
    factor, inverse, d = s.square[FACTOR], s.square[INVERSE], s.vectors.shape[1]
    unit, image = s.vectors[RESIDUE], s.vectors[REFINED]
    gather_sums(params[0], s)
    unwhiten(s, factor, s.vectors[HALF], s.vectors[THETA], None)
    for i in range(d):
        unit[:] = 0.0
        unit[i] = 1.0
        whiten(factor, unit, i, d)
        combine(s.square[WHITE_INVERSE], unit, image)
        unwhiten(s, factor, image, unit, None)
        copy(unit, inverse[i])
    for i in range(d):
        for j in range(i):
            inverse[i, j] = inverse[j, i] = 0.5 * (inverse[i, j] + inverse[j, i])


@compiled
def white_arms(s: State) -> None:
    """R'^-1 a of every arm a, as the last refresh had it: a snapshot holds R only."""
    (d, k), lower = s.actions.shape, s.square[ROOT_T]
    invert_factor(s)
    for i in range(d):
        combine_part(s.actions, lower[i], 0, i + 1, s.arms[WHITE + i], 0, k)
