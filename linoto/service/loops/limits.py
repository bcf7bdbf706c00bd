"""What is slow to compute of live numbers: for many loops at once, and once for the same numbers.

Intervals and alarm lines are roots, found by Newton's method. For one loop most of the time is the way into
NumPy, so that fifty together take hardly longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.codec import finite
from linoto.core.intervals import BETS
from linoto.service.loops.lift import LEVEL, Limits
from linoto.service.loops.watch import Scale, alarm_sums

K = TypeVar("K")
V = TypeVar("V")
MOST_KEPT = 16_384
ROUNDING = 1e-12  # that may be missing in a sum of squares; more of them is on the safe side
MOST_STEPS, CLOSE = 60, 1e-12  # of Newton's method; eight or so are enough
NEEDED = log(2 * BETS.size / (1 - LEVEL)) + 1e-9  # evidence against a mean, summed over bets; a little more


class Kept(Generic[K, V]):
    """A function of many keys at once, whose latest values are kept: a page asks again every second."""

    def __init__(self, compute: Callable[[list[K]], list[V]], most: int = MOST_KEPT) -> None:
        self.compute, self.most = compute, most
        self._known: dict[K, V] = {}
        self._lock = Lock()  # rows of arms are made in a thread of their own

    def __call__(self, key: K) -> V:
        """The value of one key."""
        return self.know([key])[key]

    def know(self, keys: Iterable[K]) -> dict[K, V]:
        """The values of all; those not known are computed at once, the oldest are forgotten if too many."""
        wanted = dict.fromkeys(keys)
        with self._lock:
            found = {key: self._known[key] for key in wanted if key in self._known}
        missing = [key for key in wanted if key not in found]
        if not missing:
            return found
        computed = dict(zip(missing, self.compute(missing), strict=True))
        with self._lock:
            while len(self._known) > self.most:
                del self._known[next(iter(self._known))]
            self._known |= computed
        return found | computed

    def forget(self) -> None:
        """Know nothing."""
        self._known.clear()


class Sum(NamedTuple):
    """Some rewards, and their range."""

    total: float
    plays: int
    squares: float  # of how far each is above the low end: beside those of rewards far from 0 they are lost
    limits: Limits


def mean_intervals(sums: list[Sum]) -> list[Limits]:
    """Where the mean of each lies, at any time and whatever decided what was played.

    As `mean_from_total(adaptive=True)` has it with `squares`: of all rewards with this sum and these squares,
    so many of one size and zeros win least (facts 4 and 5 of `linoto.core.intervals`).
    """
    totals, counts, squares = np.array([each[:3] for each in sums]).reshape(-1, 3).T
    low, high = np.array([each.limits for each in sums]).reshape(-1, 2).T
    shares = np.clip((totals - counts * low) / (high - low), 0.0, counts)
    scaled = squares / (high - low) ** 2
    least = least_means(shares, scaled, counts)
    most = 1 - least_means(counts - shares, counts - 2 * shares + scaled, counts)
    ends = low + (high - low) * np.array([least, most])
    return list(zip(*ends.tolist(), strict=True))


def least_means(shares: Floats, squares: Floats, counts: Floats) -> Floats:
    """(n,) the largest means that are surely refuted by rewards in [0, 1], given sums, squares and numbers.

    The log of the average over bets is convex and falls as the mean grows, so that steps from below never go
    too far. A single bet gives a mean that is certainly low enough to begin from.
    """
    size = np.clip(squares, shares**2 / counts, shares) / np.where(shares > 0, shares, 1.0)
    size = np.where(shares > 0, np.minimum(size * (1 + ROUNDING), 1.0), 1.0)[:, None]
    logs, counts = shares[:, None] / size * np.log1p(BETS * size), counts[:, None]
    means = (np.expm1(np.maximum(logs - NEEDED, 0.0) / counts) / BETS).max(axis=-1, keepdims=True)
    for _ in range(MOST_STEPS):
        grown = 1 + BETS * means
        terms = logs - counts * np.log(grown)
        top = terms.max(axis=-1, keepdims=True)
        weights = np.exp(terms - top)
        total = weights.sum(axis=-1, keepdims=True)
        slope = counts * (weights * BETS / grown).sum(axis=-1, keepdims=True) / total
        step = np.maximum((top + np.log(total) - NEEDED) / slope, 0.0)  # below 0 where nothing is refuted
        means += step
        if (step <= CLOSE * means).all():
            break
    return np.asarray(means[:, 0])


class Line(NamedTuple):
    """So many plays that earn `least` at the least: what sum of rewards would be an alarm?"""

    scale: Scale
    threshold: float
    plays: int
    least: float


def alarm_values(lines: list[Line]) -> list[float | None]:
    """The sums of rewards below which an alarm is raised; None where no possible sum is that low."""
    found: dict[Line, float | None] = {}
    alike: dict[tuple[Scale, float], list[Line]] = {}
    for line in lines:
        alike.setdefault((line.scale, line.threshold), []).append(line)
    for (scale, threshold), some in alike.items():
        counts, least = np.array([(line.plays, line.least) for line in some], dtype=np.float64).T
        sums = alarm_sums(scale, counts, least, threshold)
        found |= {line: finite(value) for line, value in zip(some, sums.tolist(), strict=True)}
    return [found[line] for line in lines]


mean_interval_of = Kept(mean_intervals)
alarm_value_of = Kept(alarm_values)
