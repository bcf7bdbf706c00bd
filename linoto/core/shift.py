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
from linoto.core.confidence import Confidence, radius_terms
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
    offline: Offline,
    online: Offline,
    *,
    shift: float | None = None,
    confidence: Confidence | None = None,
) -> tuple[Floats, Floats]:
    """Lower and upper bounds (k,) on what each arm earns online, where the log may have moved by `shift`.

    `online` are the rewards since the log; a shift that is not given is that of the confidence. The bounds
    are the better ones of two: of log and online rewards together, widened by what the log may have moved;
    and of online rewards alone. Both hold with probability 1 - delta, at all times and for all arms at once,
    if the log has moved by no more than `shift` (the root mean square over its rows). They are never wider
    than sqrt(log(2/delta) / log(1/delta)) times those of online rewards alone. With a shift of 0 they are
    those of a warm-started LinUCB. An agent with `Confidence(shift=...)` has the same bounds, compiled.

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
    log_rows, since = as_offline(offline, len(arms)), as_offline(online, len(arms))
    share = assumed if shift == 0 else replace(assumed, delta=assumed.delta / 2)
    pooled = pooled_estimate(arms, log_rows, since, share)
    solved = solution(pooled.V, arms.T)  # (d, k)
    moved = (log_rows.pulls[:, None] * (arms @ solved) ** 2).sum(axis=0)  # (k,) a'V^-1 G_0 V^-1 a
    half = pooled.radius * widths(arms, solved) + shift * np.sqrt(log_rows.total * moved)
    lower, upper = arms @ pooled.theta - half, arms @ pooled.theta + half
    if shift == 0:
        return lower, upper
    alone = online_estimate(arms, since, share)
    half = alone.radius * widths(arms, solution(alone.V, arms.T))
    return np.maximum(lower, arms @ alone.theta - half), np.minimum(upper, arms @ alone.theta + half)


def least_shift(
    actions: npt.ArrayLike, offline: Offline, online: Offline, *, confidence: Confidence | None = None
) -> float:
    """How far the log has surely moved, as the root mean square over its rows; 0: nothing speaks against it.

    With probability 1 - delta it is never above the truth, however often and whenever one looks: a value
    above a stated shift refutes it. That nothing is seen does not say that nothing has moved.

    >>> log, since = Offline(pulls=[500], reward_sums=[300.0]), Offline(pulls=[500], reward_sums=[50.0])
    >>> round(least_shift([[1.0]], log, log), 2), round(least_shift([[1.0]], log, since), 2)
    (0.0, 0.08)
    """
    arms, assumed = as_actions(actions), replace(confidence or Confidence(), shift=0.0)
    log_rows, since = as_offline(offline, len(arms)), as_offline(online, len(arms))
    if log_rows.total == 0 or since.total == 0:
        return 0.0
    share = replace(assumed, delta=assumed.delta / 2)
    before = pooled_estimate(arms, log_rows, Offline.empty(len(arms)), share)
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
    return (low - before.radius) / sqrt(log_rows.total)


def pooled_estimate(arms: Floats, log_rows: Offline, since: Offline, confidence: Confidence) -> Estimate:
    """Of log and online rewards together, with the radius of the confidence."""
    d = arms.shape[1]
    ridge, terms = confidence.ridge_for(d), radius_terms(confidence, arms, log_rows)
    theta, V = least_squares(arms, log_rows + since, ridge)
    base = d * log(ridge)
    if terms.prior_is_log:
        base = log_det(least_squares(arms, log_rows, ridge)[1])
    noise = 0.0
    if since.total or not terms.prior_is_log:
        noise = confidence.scale * sqrt(terms.level + max(log_det(V) - base, 0.0))
    return Estimate(theta, V, terms.fixed + noise + terms.bias)


def online_estimate(arms: Floats, since: Offline, confidence: Confidence) -> Estimate:
    """Of online rewards alone; they were chosen as they came, so that the radius is self-normalised."""
    return pooled_estimate(arms, Offline.empty(len(arms)), since, confidence.without_log())


def least_squares(arms: Floats, rows: Offline, ridge: float) -> tuple[Floats, Floats]:
    """The ridge estimate (d,) and its V (d, d)."""
    V = ridge * np.eye(arms.shape[1]) + arms.T @ (rows.pulls[:, None] * arms)
    return solution(V, arms.T @ rows.reward_sums), V


def solution(V: Floats, y: Floats) -> Floats:
    """V^-1 y."""
    return np.asarray(np.linalg.solve(V, y), dtype=np.float64)


def log_det(V: Floats) -> float:
    """log det V."""
    return float(np.linalg.slogdet(V)[1])


def widths(arms: Floats, solved: Floats) -> Floats:
    """(k,) |a| in V^-1, where V^-1 a is given for every arm (d, k)."""
    return np.asarray(np.sqrt(np.maximum((arms.T * solved).sum(axis=0), 0.0)))
