"""One-hot arms: V is diagonal, and an arm is known by its own counts."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Any

from linoto.core.arrays import Records
from linoto.core.kernels.compiling import compiled, inner
from linoto.core.kernels.layout import (
    FACTOR,
    GRAM,
    HALF,
    HUCB1,
    INVERSE,
    LOG_GRAM,
    LOGGED,
    MEAN,
    MIN_UCB,
    MOVED,
    OFFLINE_SUMS,
    OWN_MEAN,
    OWN_WIDTH,
    PLACE,
    POOLED_MEAN,
    POOLED_WIDTH,
    SEEN,
    SUMS,
    TARGET,
    THETA,
    UCB1,
    VARIANCE,
    WIDTH,
    Part,
    State,
)


@inner
def settle(p: Any, s: State, arm: int, extras: Part) -> None:
    """What is known of a one-hot arm, from its own counts: no other arm shares its feature."""
    i, scale, seen, total = int(s.arms[PLACE, arm]), s.actions[0, arm], s.arms[SEEN, arm], s.arms[SUMS, arm]
    gram = p.ridge + seen * scale * scale
    root = sqrt(gram)
    s.square[GRAM, 0, i], s.square[INVERSE, 0, i], s.square[FACTOR, 0, i] = gram, 1.0 / gram, root
    s.vectors[TARGET, i], s.vectors[HALF, i] = total * scale, total * scale / root
    s.vectors[THETA, i] = total * scale / gram
    s.arms[MEAN, arm] = scale * s.vectors[THETA, i]
    s.arms[VARIANCE, arm] = scale * scale / gram
    s.arms[WIDTH, arm] = abs(scale) / root
    if extras is not None and p.explorer >= UCB1:
        tally_arm(p, s, arm)
    if p.shift > 0.0:
        s.arms[MOVED, arm] = s.square[LOG_GRAM, 0, i] * (scale / gram) ** 2


@inner
def tally_arm(p: Any, s: State, arm: int) -> None:
    """Mean and width, 1 / sqrt(n), of the rewards of one arm: n = 0 is infinitely wide."""
    seen, total, logged = s.arms[SEEN, arm], s.arms[SUMS, arm], float(s.counts[LOGGED, arm])
    own, own_total = seen, total
    if p.explorer == UCB1 or p.explorer == MIN_UCB:  # the others count the log as their own
        own, own_total = seen - logged, total - s.arms[OFFLINE_SUMS, arm]
    s.arms[OWN_MEAN, arm] = own_total / own if own > 0.0 else 0.0
    s.arms[OWN_WIDTH, arm] = 1.0 / sqrt(own) if own > 0.0 else inf
    if p.explorer == HUCB1:
        s.arms[POOLED_WIDTH, arm] = logged * s.arms[OWN_WIDTH, arm] if logged > 0.0 else 0.0
    elif p.explorer == MIN_UCB:
        s.arms[POOLED_MEAN, arm] = (total + logged * p.log_shift) / seen if logged > 0.0 else 0.0
        s.arms[POOLED_WIDTH, arm] = 1.0 / sqrt(seen) if logged > 0.0 else inf


@compiled
def tally(params: Records, s: State) -> None:
    """The same for every arm."""
    for a in range(s.arms[SEEN].size):
        tally_arm(params[0], s, a)


@inner
def refresh_one_hot(p: Any, s: State, extras: Part) -> None:
    """The same where V is diagonal; a feature that no arm has keeps the ridge."""
    r, gram = s.run[0], s.square[GRAM, 0]
    gram[:] = p.ridge
    s.square[INVERSE] = 1.0 / p.ridge
    s.square[FACTOR] = sqrt(p.ridge)
    for a in range(s.arms[MEAN].size):
        settle(p, s, a, extras)
    r.log_det = r.widest = 0.0
    r.since_refresh = 0
    for i in range(gram.size):
        r.log_det += log(gram[i])
        r.widest = max(r.widest, s.square[INVERSE, 0, i])
