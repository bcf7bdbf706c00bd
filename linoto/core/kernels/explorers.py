"""What an explorer makes of every arm."""

from __future__ import annotations

from math import exp, inf, log, sqrt
from typing import Any

from linoto.core.arrays import Floats, Records
from linoto.core.kernels.compiling import inner
from linoto.core.kernels.estimate import copy, online
from linoto.core.kernels.layout import (
    ARM_UCB,
    FIXED_ARM,
    GIVEN,
    GIVEN_SCORES,
    GREEDY,
    HUCB1,
    KL_UCB,
    LIFT,
    LOGGED,
    LOGISTIC,
    LUCK,
    MEAN,
    MIN_UCB,
    NEWTON_STEPS,
    OPEN,
    OWN_MEAN,
    OWN_WIDTH,
    POOLED_MEAN,
    POOLED_WIDTH,
    RARE,
    ROOM,
    SCORE,
    SEEN,
    SQUARE_CB,
    SUMS,
    THOMPSON,
    TINY,
    UCB,
    UCB1,
    UCB_V,
    WIDTH,
    Part,
    State,
)
from linoto.core.kernels.own_radius import own_radius
from linoto.core.kernels.sampling import (
    noise_share,
    score_by_draw,
    score_by_gaps,
    score_by_luck,
    score_by_odds,
)


@inner
def best(values: Floats) -> int:
    """The first index of the largest value; four at a time, since each comparison waits for the last."""
    arm, top, a = 0, values[0], 0
    while a + 4 <= values.size:
        left = values[a] if values[a] > values[a + 1] else values[a + 1]
        right = values[a + 2] if values[a + 2] > values[a + 3] else values[a + 3]
        left = left if left > right else right
        if left > top:
            arm, top = a, left
        a += 4
    while a < values.size:
        if values[a] > top:
            arm, top = a, values[a]
        a += 1
    while values[arm] < top:
        arm += 1
    return arm


@inner
def score_by_rounds(p: Any, s: State) -> None:
    """UCB1: mean + sqrt(8 noise^2 ln t / n), n and mean online. No reward yet: infinite."""
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    spread = p.noise * sqrt(8.0 * log(float(max(s.run[0].rounds, 1)))) + TINY
    for a in range(score.size):
        score[a] = mean[a] + spread * width[a]


@inner
def history_score(p: Any, s: State, arm: int) -> float:
    """HUCB1: mean + sqrt(8 noise^2 ln(t + h) / (n + h)), h logged rewards of the arm among its n + h."""
    grown = max(s.run[0].rounds, 1) + float(s.counts[LOGGED, arm])
    return float(s.arms[OWN_MEAN, arm] + (p.noise * sqrt(8.0 * log(grown)) + TINY) * s.arms[OWN_WIDTH, arm])


@inner
def score_with_history(p: Any, s: State) -> None:
    """HUCB1 for every arm; where all are affordable, one that cannot be the best gets a bound of its score.

    A logarithm for each arm took most of a round. With ln(t + h) <= ln t + h / t and sqrt(1 + x) <= 1 + x / 2
    one is enough for a bound.
    """
    r, score, t = s.run[0], s.arms[SCORE], float(s.run[0].rounds)
    if p.gate != OPEN or r.restricted == 1 or t < 3.0:  # ln t must be well above 0
        for a in range(score.size):
            score[a] = history_score(p, s, a)
        return
    mean, width, longer = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[POOLED_WIDTH]
    logarithm = log(t)
    spread = p.noise * sqrt(8.0 * logarithm) * (1.0 + 1e-12)
    rise = spread / (2.0 * t * logarithm)
    for a in range(score.size):
        score[a] = mean[a] + spread * width[a] + rise * longer[a]
    top = history_score(p, s, r.proposal)  # the last favourite: hardly any other has to be looked at
    for a in range(score.size):
        if score[a] > top:
            score[a] = history_score(p, s, a)
            top = score[a] if score[a] > top else top


@inner
def score_by_smaller_bound(p: Any, s: State) -> None:
    """MIN-UCB: the smaller of the upper bound online, and of that with the log and its shift."""
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    pooled_mean, pooled_width = s.arms[POOLED_MEAN], s.arms[POOLED_WIDTH]
    t = s.run[0].rounds + 1.0
    spread = p.noise * sqrt(2.0 * log(4.0 * score.size * t * t * t))  # log(2 t / d), d = 1 / (2 k t^2)
    for a in range(score.size):
        online = mean[a] + spread * width[a]
        pooled = pooled_mean[a] + spread * pooled_width[a]
        score[a] = online if online < pooled else pooled


@inner
def highest_chance(mean: float, level: float) -> float:
    """The largest q in [0, 1] with kl(mean, q) <= level, of Bernoulli distributions.

    kl rises and is convex in q above the mean: Newton's steps from a q that is too large fall to the root.
    """
    if mean >= 1.0:
        return 1.0
    if mean <= 0.0:
        return 1.0 - exp(-level)
    known = mean * log(mean) + (1.0 - mean) * log(1.0 - mean)
    pole = 1.0 - exp((known - level) / (1.0 - mean))  # without the part of kl that is at least 0
    q = min(mean + sqrt(level / 2.0), pole)  # by Pinsker's inequality
    for _ in range(NEWTON_STEPS):
        if q <= mean or q >= 1.0:
            break
        beyond = known - mean * log(q) - (1.0 - mean) * log(1.0 - q) - level
        step = beyond * q * (1.0 - q) / (q - mean)
        if step <= 1e-14 * q:
            break
        q -= step
    return max(q, mean)


@inner
def score_by_divergence(p: Any, s: State) -> None:
    """KL-UCB: the largest mean that n rewards do not refute at level ln(t + h), h of them logged."""
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    for a in range(score.size):
        level = log(max(s.run[0].rounds, 1) + float(s.counts[LOGGED, a])) * width[a] * width[a]
        score[a] = inf
        if width[a] < inf:
            score[a] = p.low + p.unit * highest_chance((mean[a] - p.low) / p.unit, level)


@inner
def score_by_variance(p: Any, s: State) -> None:
    """UCB-V: mean + sqrt(2 v E / n) + 3 E / n, E = 1.2 ln(t + h), in [0, 1] with v = mean (1 - mean).

    Of rewards of 0 and 1 that is their variance, and no others in [0, 1] with this mean have a larger one.
    """
    mean, width, score = s.arms[OWN_MEAN], s.arms[OWN_WIDTH], s.arms[SCORE]
    for a in range(score.size):
        score[a] = inf
        if width[a] < inf:
            level = 1.2 * log(max(s.run[0].rounds, 1) + float(s.counts[LOGGED, a])) * width[a] * width[a]
            chance = min(max((mean[a] - p.low) / p.unit, 0.0), 1.0)
            score[a] = p.low + p.unit * (chance + sqrt(2.0 * chance * (1.0 - chance) * level) + 3.0 * level)


@inner
def score_by_margins(p: Any, s: State) -> None:
    """CUCB: mean + noise sqrt(2 ln(k n^3 / delta) / n) of the n rewards of each arm; a known mean is itself.

    k does not count an arm whose mean is known.
    """
    seen, sums, score = s.arms[SEEN], s.arms[SUMS], s.arms[SCORE]
    knows = p.baseline_known == 1 and p.fallback == FIXED_ARM
    level = p.level + log(float(max(score.size - knows, 1)))
    for a in range(score.size):
        score[a] = inf
        if seen[a] > 0.0:
            score[a] = sums[a] / seen[a] + p.noise * sqrt(2.0 * (level + 3.0 * log(seen[a])) / seen[a])
    if knows:
        score[p.fixed_arm] = p.baseline_mean


@inner
def optimistic(p: Any, s: State, out: Floats, shift: Part) -> None:
    """out = the upper bound of every arm, with the explorer's own scale."""
    mean, width = s.arms[MEAN], s.arms[WIDTH]
    scale = p.scale * noise_share(p, s.run[0])
    if s.run[0].own_features > 0:
        for a in range(mean.size):
            out[a] = mean[a] + scale * own_radius(p, s, a) * width[a]
    else:
        bonus = scale * s.run[0].radius
        for a in range(mean.size):
            out[a] = mean[a] + bonus * width[a]
    if shift is not None:
        for a in range(mean.size):
            out[a] += p.scale * s.arms[LIFT, a]


@inner
def cap_scores(params: Records, s: State) -> None:
    """No score is above what it would be without the log: the smaller of two upper bounds."""
    p, other, score = params[1], online(s), s.arms[SCORE]
    other.run[0].residuals, other.run[0].residual_count = s.run[0].residuals, s.run[0].residual_count
    optimistic(p, other, other.arms[SCORE], None)
    for a in range(score.size):
        score[a] = min(score[a], other.arms[SCORE, a])


@inner
def keep_scores(p: Any, s: State, shift: Part) -> None:
    """Score anew if det V has grown by the factor since the last time; before the first reward, anyway."""
    r = s.run[0]
    if p.explorer != RARE or (r.rewards > 0 and r.log_det <= r.scored_at + p.growth):
        return
    optimistic(p, s, s.arms[GIVEN_SCORES], shift)
    r.scored_at = r.log_det
    r.scorings += 1


@inner
def score_arms(p: Any, s: State, offered: int, shift: Part, extras: Part, draws: Part, chances: Part) -> None:
    """What the explorer makes of every arm, of which the first `offered` may be proposed.

    `draws` is the part of Thompson and of luck, `chances` that of other explorers which sample.
    """
    mean, score = s.arms[MEAN], s.arms[SCORE]
    if p.explorer == UCB:
        optimistic(p, s, score, shift)
    elif draws is not None and p.explorer == THOMPSON:
        score_by_draw(p, s)
    elif draws is not None and p.explorer == LUCK:
        score_by_luck(p, s, offered)
    elif chances is not None and p.explorer == SQUARE_CB:
        score_by_gaps(p, s, offered)
    elif chances is not None and p.explorer == LOGISTIC:
        score_by_odds(p, s)
    elif p.explorer == GREEDY:
        copy(mean, score)
    elif p.explorer == GIVEN or p.explorer == RARE:
        copy(s.arms[GIVEN_SCORES], score)
    elif extras is not None and p.explorer == UCB1:
        score_by_rounds(p, s)
    elif extras is not None and p.explorer == HUCB1:
        score_with_history(p, s)
    elif extras is not None and p.explorer == MIN_UCB:
        score_by_smaller_bound(p, s)
    elif extras is not None and p.explorer == KL_UCB:
        score_by_divergence(p, s)
    elif extras is not None and p.explorer == UCB_V:
        score_by_variance(p, s)
    elif extras is not None and p.explorer == ARM_UCB:
        score_by_margins(p, s)
    else:  # no such explorer: nothing that it proposes is affordable
        s.arms[ROOM] = -inf
