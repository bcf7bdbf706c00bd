"""A log that is biased: bounds that hold where its means may have moved, and how far they surely have.

A logged row is an action x with a mean reward of <theta, x> + e, where theta is what holds online and e is
what has moved. What is stated is the root mean square of e over the rows of the log, in units of the reward.
"""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence, radius_terms, terms_of_log
from linoto.core.features.moments import Moments, as_moments
from linoto.core.offline import Offline, as_offline
from linoto.core.validation import as_actions, check_nonnegative

SHARES = np.linspace(0.0, 1.0, 401)[1:-1]  # every share gives a valid test; the best of them is taken


class Estimate(NamedTuple):
    """theta with |theta - theta*| <= radius in the norm of V, but for what the log has moved."""

    theta: Floats  # (d,)
    V: Floats  # (d, d)
    radius: float


def shifted_bounds(
    actions: npt.ArrayLike,
    offline: Offline | Moments,
    online: Offline | Moments,
    *,
    shift: float | None = None,
    confidence: Confidence | None = None,
) -> tuple[Floats, Floats]:
    """Lower and upper bounds (k,) on what each arm earns online, where the log may have moved by `shift`.

    `online` are the rewards since the log, by arms as in an `Offline` or, where rounds bring their own arms,
    as `Moments` of their features; then `actions` are those of any round. A shift that is not given is that
    of the confidence. The bounds are the better ones of two: of log and online rewards together, widened by
    what the log may have moved; and of online rewards alone. Both hold with probability 1 - delta, at all
    times and for all arms at once, if the log has moved by no more than `shift` (the root mean square over
    its rows). They are never wider than sqrt(log(2/delta) / log(1/delta)) times those of online rewards
    alone. With a shift of 0 they are those of a warm-started LinUCB. An agent with `Confidence(shift=...)`
    has the same bounds, compiled.

    >>> log = Offline(pulls=[1000, 0], reward_sums=[600.0, 0.0])
    >>> for shift in (0.0, 0.2):
    ...     lower, upper = shifted_bounds(np.eye(2), log, Offline.empty(2), shift=shift)
    ...     print(lower.round(2)[0], upper.round(2)[0])
    0.44 0.75
    0.24 0.96
    """
    arms, assumed = as_actions(actions), confidence or Confidence()
    shift = assumed.shift if shift is None else shift
    check_nonnegative("shift", shift)
    assumed = replace(assumed, shift=0.0)
    log_rows, since = as_rows(offline, arms), as_rows(online, arms)
    share = assumed if shift == 0 else replace(assumed, delta=assumed.delta / 2)
    pooled = pooled_estimate(arms, log_rows, since, share)
    solved = solution(pooled.V, arms.T)  # (d, k)
    count, gram, _ = sums_of(arms, log_rows)
    moved = np.maximum((solved * (gram @ solved)).sum(axis=0), 0.0)  # (k,) a'V^-1 G_0 V^-1 a
    half = pooled.radius * widths(arms, solved) + shift * np.sqrt(count * moved)
    lower, upper = arms @ pooled.theta - half, arms @ pooled.theta + half
    if shift == 0:
        return lower, upper
    alone = online_estimate(arms, since, share)
    half = alone.radius * widths(arms, solution(alone.V, arms.T))
    return np.maximum(lower, arms @ alone.theta - half), np.minimum(upper, arms @ alone.theta + half)


def least_shift(
    actions: npt.ArrayLike | None,
    offline: Offline | Moments,
    online: Offline | Moments,
    *,
    confidence: Confidence | None = None,
) -> float:
    """How far the log has surely moved, as the root mean square over its rows; 0: nothing speaks against it.

    With probability 1 - delta it is never above the truth, however often and whenever one looks: a value
    above a stated shift refutes it. That nothing is seen does not say that nothing has moved. Of rounds that
    bring their own arms, whose sums are `Moments`, no actions have to be given.

    >>> log, since = Offline(pulls=[500], reward_sums=[300.0]), Offline(pulls=[500], reward_sums=[50.0])
    >>> round(least_shift([[1.0]], log, log), 2), round(least_shift([[1.0]], log, since), 2)
    (0.0, 0.08)
    """
    if actions is None and isinstance(offline, Moments):
        actions = np.eye(offline.d)
    arms, assumed = as_actions(actions), replace(confidence or Confidence(), shift=0.0)
    log_rows, since = as_rows(offline, arms), as_rows(online, arms)
    total = sums_of(arms, log_rows)[0]
    if total == 0 or sums_of(arms, since)[0] == 0:
        return 0.0
    share = replace(assumed, delta=assumed.delta / 2)
    before = pooled_estimate(arms, log_rows, Moments.empty(arms.shape[1]), share)
    after = online_estimate(arms, since, share)
    root = np.linalg.inv(np.linalg.cholesky(before.V))  # before.V becomes I, after.V the diagonal `ratios`
    ratios, axes = np.linalg.eigh(root @ after.V @ root.T / after.radius**2)
    apart = (axes.T @ np.linalg.solve(root.T, before.theta - after.theta)) ** 2

    def are_disjoint(radius: float) -> bool:
        """Whether no parameter is within this radius of the log's and in the set of the online rewards."""
        weights = SHARES[:, None] * (1 - SHARES[:, None]) * ratios
        sums = (apart * weights / ((1 - SHARES[:, None]) * ratios * radius**2 + SHARES[:, None])).sum(axis=1)
        return bool(sums.max() > 1.0)

    if not are_disjoint(before.radius):
        return 0.0
    low, high = before.radius, before.radius + sqrt(float(apart.sum()))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if are_disjoint(middle) else (low, middle)
    return (low - before.radius) / sqrt(total)


def as_rows(given: Offline | Moments, arms: Floats) -> Offline | Moments:
    """A log, or rewards since, of these arms (k, d) or of rounds with as many features."""
    return as_moments(given, arms.shape[1]) if isinstance(given, Moments) else as_offline(given, len(arms))


def sums_of(arms: Floats, rows: Offline | Moments) -> tuple[int, Floats, Floats]:
    """How many rows there are, and their X'X (d, d) and X'y (d,)."""
    if isinstance(rows, Moments):
        return rows.count, rows.gram, rows.reward_vector
    return rows.total, arms.T @ (rows.pulls[:, None] * arms), arms.T @ rows.reward_sums


def pooled_estimate(
    arms: Floats, log_rows: Offline | Moments, since: Offline | Moments, confidence: Confidence
) -> Estimate:
    """Of log and online rewards together, with the radius of the confidence."""
    d = arms.shape[1]
    ridge = confidence.ridge_for(d)
    if isinstance(log_rows, Moments):
        terms = terms_of_log(confidence, d, log_rows.spectrum)
    else:
        terms = radius_terms(confidence, arms, log_rows)
    (_, gram, vector), (count, online_gram, online_vector) = sums_of(arms, log_rows), sums_of(arms, since)
    start = gram + ridge * np.eye(d)
    V = start + online_gram
    base = log_det(start) if terms.prior_is_log else d * log(ridge)
    noise = 0.0
    if count or not terms.prior_is_log:
        noise = confidence.scale * sqrt(terms.level + max(log_det(V) - base, 0.0))
    return Estimate(solution(V, vector + online_vector), V, terms.fixed + noise + terms.bias)


def online_estimate(arms: Floats, since: Offline | Moments, confidence: Confidence) -> Estimate:
    """Of online rewards alone; they were chosen as they came, so that the radius is self-normalised."""
    nothing = Offline.empty(len(arms)) if isinstance(since, Offline) else Moments.empty(arms.shape[1])
    return pooled_estimate(arms, nothing, since, confidence.without_log())


def solution(V: Floats, y: Floats) -> Floats:
    """V^-1 y."""
    return np.asarray(np.linalg.solve(V, y), dtype=np.float64)


def log_det(V: Floats) -> float:
    """log det V."""
    return float(np.linalg.slogdet(V)[1])


def widths(arms: Floats, solved: Floats) -> Floats:
    """(k,) |a| in V^-1, where V^-1 a is given for every arm (d, k)."""
    return np.asarray(np.sqrt(np.maximum((arms.T * solved).sum(axis=0), 0.0)))
