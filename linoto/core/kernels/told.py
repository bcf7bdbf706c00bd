"""Explorers that are told of guardrails: the best score among the arms that every one of them may accept.

What is known of a metric is a ridge regression of its own. Nothing is promised here: the gate decides.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from linoto.core.arrays import Floats, Ints, Records
from linoto.core.kernels.compiling import compiled, inlined, inner
from linoto.core.kernels.estimate import combine, combine_part, dot, extent
from linoto.core.kernels.explorers import best, cap_scores, score_arms
from linoto.core.kernels.layout import (
    ALLOWED,
    CLEAR,
    HIGH,
    LOW,
    LUCK,
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


@inlined
def reach(x: Floats) -> tuple[int, int]:
    """As `extent`, which is asked only where an end is 0."""
    if x[0] != 0.0 and x[x.size - 1] != 0.0:
        return 0, x.size
    return extent(x)


@inlined
def learn_metrics(told: Told, first: int, last: int, x: Floats) -> None:
    """The values of some metrics for an action. Where V is shared, those of all metrics come together."""
    step, (begin, end), growth = told.scratch[0], reach(x), 1.0
    start, stop, own = 0, x.size, x[begin:end]
    for j in range(first, last):
        inverse, theta = told.inverse[0 if told.shared == 1 else j], told.theta[j]
        if told.shared == 0 or j == first:
            if own.size == x.size:
                combine(inverse, x, step)
            else:
                combine_part(inverse, x, begin, end, step, 0, x.size)
            growth, (start, stop) = 1.0 + dot(step[begin:end], own), reach(step)
        gain = (told.limits[VALUE, j] - told.limits[START, j] - dot(theta[begin:end], own)) / growth
        for i in range(start, stop):
            theta[i] += gain * step[i]
        if told.shared == 0 or j == last - 1:
            take_step(inverse, step, 1.0 / growth, start, stop)


@inlined
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


@inlined
def told_begin(told: Told) -> None:
    """Compare with practice as it is thought to be now."""
    for j in range(told.theta.shape[0]):
        told.limits[PRACTISED, j] = dot(told.scratch[1], told.theta[j])


@inlined
def is_accepted(told: Told, books: Records, x: Floats, arm: int) -> bool:
    """Whether an action may do no more harm than can be afforded; what cannot be computed may be accepted.

    Its variance is asked for only where means do not decide.
    """
    (first, last), sure = reach(x), True
    own = x[first:last]
    for j in range(books.size):
        mean = dot(told.theta[j, first:last], own)
        told.limits[VALUE, j] = mean
        sure = sure and mean - told.limits[PRACTISED, j] >= least_gain(told, books, j)
    return sure or is_possible(told, books, x, arm)


@inner
def is_possible(told: Told, books: Records, x: Floats, arm: int) -> bool:
    """Whether it may be accepted for all that is known of it, by means that are in `limits`.

    Not where one is too bad even with the variance that `arm` had before, as V only grows.
    """
    first, last = extent(x)
    own, kept = x[first:last], told.shared == 1 and told.variances.size > 0
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


@inlined
def least_gain(told: Told, books: Records, j: int) -> float:
    """What an action must have of metric j above practice: less than nothing, while something may be lost."""
    return float(-told.limits[RATE, j] - max(books[j].room, 0.0) / PATIENCE)


@inlined
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


@inlined
def score_offered(
    params: Records, s: State, offered: int, shift: Part, extras: Part, draws: Part, chances: Part
) -> None:
    """What the explorer makes of the arms that may be played; of others, nothing."""
    p, score = params[0], s.arms[SCORE]
    score_arms(p, s, offered, shift, extras, draws, chances)
    if shift is not None and p.explorer == UCB:
        cap_scores(params, s)
    score[offered:] = -inf
    if s.run[0].restricted == 1:
        for a in range(offered):
            if s.counts[ALLOWED, a] == 0:
                score[a] = -inf


@inner
def propose_among(
    params: Records,
    s: State,
    accepted: Ints,
    offered: int,
    shift: Part,
    extras: Part,
    draws: Part,
    chances: Part,
) -> int:
    """The explorer's favourite among the accepted arms (k,), which are all that it sees; destroys them."""
    r, allowed = s.run[0], s.counts[ALLOWED]
    restricted = r.restricted
    r.restricted = 1
    for a in range(allowed.size):
        accepted[a], allowed[a] = allowed[a], min(allowed[a], accepted[a])
    score_offered(params, s, offered, shift, extras, draws, chances)
    for a in range(allowed.size):
        allowed[a] = accepted[a]
    r.restricted = restricted
    return best(s.arms[SCORE])


@inlined
def states_chances(p: Any) -> bool:
    """Whether the explorer says how likely each arm was, so that it has to see all that are accepted."""
    return bool(p.explorer == SQUARE_CB or p.explorer == LUCK)


@inlined
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
    chances: Part,
    reaches: bool,
) -> int:
    """The explorer's favourite among the arms that every metric may accept; if there is none, practice's.

    Scores do not depend on which arms are accepted, but for an explorer that draws by gaps, nor does anything
    else, but for one that states chances: usually one arm is asked about.
    """
    score, first = s.arms[SCORE], -1
    told_begin(told)
    if not states_chances(params[0]):
        score_offered(params, s, rows.shape[0], shift, extras, draws, chances)
        arm = best(score)
        if score[arm] > -inf and is_accepted(told, books, rows[arm], arm):
            if not reaches or s.arms[ROOM, arm] > 0.0:
                return arm
            first = arm
        score[arm] = -inf
    return propose_another(
        params, s, told, books, rows, weights, shift, extras, draws, chances, reaches, first
    )


@inner
def propose_another(
    params: Records,
    s: State,
    told: Told,
    books: Records,
    rows: Floats,
    weights: Floats,
    shift: Part,
    extras: Part,
    draws: Part,
    chances: Part,
    reaches: bool,
    first: int,
) -> int:
    """The next best ones, one by one; `first` is an accepted arm that there is no room for, or -1."""
    score, allowed, k = s.arms[SCORE], s.counts[ALLOWED], rows.shape[0]
    accepted, some = told.accepted[:k], 0
    if states_chances(params[0]):
        for a in range(k):
            accepted[a] = 1 if is_accepted(told, books, rows[a], a) else 0
            some += accepted[a] * allowed[a]
    else:
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
    favourite = propose_among(params, s, accepted, k, shift, extras, draws, chances)
    return best_with_room(s, favourite) if reaches and states_chances(params[0]) else favourite


@inner
def best_with_room(s: State, arm: int) -> int:
    """The arm with the best score of those that the gate affords; `arm`, whose score is the best, if none."""
    score, room = s.arms[SCORE], s.arms[ROOM]
    if room[arm] > 0.0:
        return arm
    found = -1
    for a in range(score.size):
        if room[a] > 0.0 and score[a] > -inf and (found < 0 or score[a] > score[found]):
            found = a
    return found if found >= 0 else arm
