"""Explorers that are told of guardrails: the best score among the arms that every one of them may accept.

What is known of a metric is a ridge regression of its own. Nothing is promised here: the gate decides.
"""

from __future__ import annotations

from math import inf, sqrt

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.estimate import combine_part, dot, extent
from linoto.core.kernels.explorers import best, cap_scores, score_arms
from linoto.core.kernels.layout import (
    ALLOWED,
    CLEAR,
    HIGH,
    LOW,
    OPTIMISM,
    PATIENCE,
    PRACTISED,
    RATE,
    ROOM,
    SCORE,
    SQUARE_CB,
    START,
    UCB,
    VALUE,
    Part,
    State,
    Told,
)


@compiled
def told_learn(told: Told, j: int, x: Floats, value: float) -> None:
    """One value of metric j for an action, O(d^2), or the square of what it touches of V."""
    told.limits[VALUE, j] = value
    learn_metrics(told, j, j + 1, x)


@inner
def learn_metrics(told: Told, first: int, last: int, x: Floats) -> None:
    """The values of some metrics for an action. Where V is shared, those of all metrics come together."""
    step, (begin, end), growth = told.scratch[0], extent(x), 1.0
    start, stop, own = 0, x.size, x[begin:end]
    for j in range(first, last):
        inverse, theta = told.inverse[0 if told.shared == 1 else j], told.theta[j]
        if told.shared == 0 or j == first:
            combine_part(inverse, x, begin, end, step, 0, x.size)
            growth, (start, stop) = 1.0 + dot(step[begin:end], own), extent(step)
        gain = (told.limits[VALUE, j] - told.limits[START, j] - dot(theta[begin:end], own)) / growth
        for i in range(start, stop):
            theta[i] += gain * step[i]
        if told.shared == 0 or j == last - 1:
            take_step(inverse, step, 1.0 / growth, start, stop)


@inner
def take_step(inverse: Floats, step: Floats, share: float, start: int, stop: int) -> None:
    """V^-1 less share * step step', where the step is not 0; slices of short rows would take longer."""
    if stop - start == step.size:
        for i in range(step.size):
            weight = share * step[i]
            for column in range(step.size):
                inverse[i, column] -= weight * step[column]
        return
    moved = step[start:stop]
    for i in range(start, stop):
        weight, row = share * step[i], inverse[i, start:stop]
        for column in range(moved.size):
            row[column] -= weight * moved[column]


@compiled
def told_compare(told: Told, rows: Floats, weights: Floats) -> None:
    """Keep what practice does on average, the mean of the rows (k, d) by its weights (k,), in scratch."""
    practice, total = told.scratch[1], 0.0
    practice[:] = 0.0
    for a in range(weights.size):
        total += weights[a]
        if weights[a] != 0.0:
            for i in range(practice.size):
                practice[i] += weights[a] * rows[a, i]
    for i in range(practice.size):
        practice[i] /= max(total, 1e-300)


@inner
def told_begin(told: Told) -> None:
    """Compare with practice as it is thought to be now."""
    for j in range(told.theta.shape[0]):
        told.limits[PRACTISED, j] = dot(told.scratch[1], told.theta[j])


@inner
def is_accepted(told: Told, books: Records, x: Floats, arm: int) -> bool:
    """Whether an action may do no more harm than can be afforded; what cannot be computed may be accepted.

    Its variance is asked for only where means do not decide: not where all are good enough, nor where one is
    too bad even with the variance that `arm` had before, as V only grows.
    """
    (first, last), sure = extent(x), True
    own = x[first:last]
    for j in range(books.size):
        told.limits[VALUE, j] = dot(told.theta[j, first:last], own)
        sure = sure and told.limits[VALUE, j] - told.limits[PRACTISED, j] >= least_gain(told, books, j)
    if sure:
        return True
    kept = told.shared == 1 and told.variances.size > 0
    if kept and told.variances[arm] < inf:
        for j in range(books.size):
            low, high = told.limits[LOW, j], told.limits[HIGH, j]
            clear = least_gain(told, books, j) - CLEAR * (high - low)
            if -inf < most_gain(told, j, told.variances[arm]) < clear:
                return False
    step, variance, accepted = told.scratch[0], 0.0, True
    for j in range(books.size):
        if told.shared == 0 or j == 0:
            combine_part(told.inverse[j], x, first, last, step, first, last)
            variance = max(dot(step[first:last], own), 0.0)
        if -inf < most_gain(told, j, variance) < least_gain(told, books, j):
            accepted = False
    if kept:
        told.variances[arm] = variance
    return accepted


@inner
def least_gain(told: Told, books: Records, j: int) -> float:
    """What an action must have of metric j above practice: less than nothing, while something may be lost."""
    return float(-told.limits[RATE, j] - max(books[j].room, 0.0) / PATIENCE)


@inner
def most_gain(told: Told, j: int, variance: float) -> float:
    """The most that metric j may be above practice by its mean, which is in `limits`, and this variance."""
    low, high, mean = told.limits[LOW, j], told.limits[HIGH, j], told.limits[VALUE, j]
    value = min(max(told.limits[START, j] + mean, low), high)
    spread = (high - value) * (value - low) + (high - low) ** 2 * variance / 4.0
    return float(mean - told.limits[PRACTISED, j] + OPTIMISM * sqrt(spread * variance))


@compiled
def told_accept(told: Told, books: Records, rows: Floats, accepted: Ints) -> None:
    """(k,) 1 for the rows (k, d) that every metric may accept, by what `told_compare` has found."""
    told_begin(told)
    for a in range(accepted.size):
        accepted[a] = 1 if is_accepted(told, books, rows[a], a) else 0


@inner
def score_offered(params: Records, s: State, offered: int, shift: Part, extras: Part, draws: Part) -> None:
    """What the explorer makes of the arms that may be played; of others, nothing."""
    p, score = params[0], s.arms[SCORE]
    score_arms(p, s, offered, shift, extras, draws)
    if shift is not None and p.explorer == UCB:
        cap_scores(params, s)
    for a in range(score.size):
        if a >= offered or (s.run[0].restricted == 1 and s.counts[ALLOWED, a] == 0):
            score[a] = -inf


@inner
def propose_among(
    params: Records, s: State, accepted: Ints, offered: int, shift: Part, extras: Part, draws: Part
) -> int:
    """The explorer's favourite among the accepted arms (k,), which are all that it sees; destroys them."""
    r, allowed = s.run[0], s.counts[ALLOWED]
    restricted = r.restricted
    r.restricted = 1
    for a in range(allowed.size):
        accepted[a], allowed[a] = allowed[a], min(allowed[a], accepted[a])
    score_offered(params, s, offered, shift, extras, draws)
    for a in range(allowed.size):
        allowed[a] = accepted[a]
    r.restricted = restricted
    return best(s.arms[SCORE])


@inner
def propose_told(
    params: Records,
    s: State,
    told: Told,
    books: Records,
    rows: Floats,  # (k, d) the arms of this round
    weights: Floats,  # (k,) practice's
    shift: Part,
    extras: Part,
    draws: Part,
    reaches: bool,
) -> int:
    """The explorer's favourite among the arms that every metric may accept; if there is none, practice's.

    Scores do not depend on which arms are accepted, but for an explorer that draws by gaps: usually one arm
    is asked about.
    """
    score, allowed, k = s.arms[SCORE], s.counts[ALLOWED], rows.shape[0]
    accepted, some, first = told.accepted[:k], 0, -1
    told_begin(told)
    if params[0].explorer == SQUARE_CB:
        for a in range(k):
            accepted[a] = 1 if is_accepted(told, books, rows[a], a) else 0
            some += accepted[a] * allowed[a]
    else:
        score_offered(params, s, k, shift, extras, draws)
        for _ in range(k):
            arm = best(score)
            if not score[arm] > -inf:
                break
            if is_accepted(told, books, rows[arm], arm):
                if not reaches or s.arms[ROOM, arm] > 0.0:
                    return arm
                first = arm if first < 0 else first
            score[arm] = -inf
        if first >= 0:
            return first
    if some == 0:
        for a in range(k):
            accepted[a] = 1 if weights[a] > 0.0 else 0
            some += accepted[a] * allowed[a]
    if some == 0:
        accepted[:] = 1
    return propose_among(params, s, accepted, k, shift, extras, draws)
