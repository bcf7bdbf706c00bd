"""How much rewards scatter around the means of their arms."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from linoto.core.confidence import Confidence
from linoto.core.intervals import mean_from_total
from linoto.core.kernels import Floats, Ints
from linoto.core.offline import Offline

LEVEL = 0.95  # of intervals that are only shown
MANY_PULLS = 30  # from which an arm's own standard deviation is worth a look


class Scatter(NamedTuple):
    """Pulls, means and sums of squares around them, of some arms."""

    pulls: Floats  # (q,)
    mean: Floats  # (q,)
    around: Floats  # (q,) 0 where rounding may be all there is
    most: Floats  # (q,) the largest that rounding leaves possible

    @property
    def degrees(self) -> int:
        """Rewards beyond the first of each arm."""
        return int((self.pulls - 1).sum())


def scatter_of(offline: Offline, arms: Ints | None = None) -> Scatter:
    """The scatter within some arms that were pulled, or within all of them.

    Squares are summed before the mean is taken out, so what is left of equal rewards is rounding: it grows
    with the root of their number.
    """
    if offline.reward_squares is None:
        raise ValueError("offline must know reward_squares for an audit, got None")
    chosen = np.flatnonzero(offline.pulls > 0) if arms is None else arms
    n, sums = offline.pulls[chosen].astype(np.float64), offline.reward_sums[chosen]
    squares = offline.reward_squares[chosen]
    around, rounding = squares - sums**2 / n, (1e-13 + 1e-15 * np.sqrt(n)) * squares
    return Scatter(n, sums / n, np.where(around > rounding, around, 0.0), np.maximum(around, rounding))


def sums_equal_squares(offline: Offline) -> bool:
    """Whether rewards look like 0 and 1, each of which equals its square."""
    squares = offline.reward_squares
    return squares is not None and bool(np.array_equal(offline.reward_sums, squares))


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The standard deviation of a reward around the mean of its arm, pooled over arms."""

    value: float
    low: float
    high: float
    degrees: int  # rewards beyond the first of each arm


def estimate_noise(offline: Offline, *, level: float = LEVEL) -> Noise | None:
    """Pooled standard deviation with its chi-square interval (exact for Gaussian rewards); None where no arm
    was pulled twice.

    >>> log = Offline.from_rows([0, 0, 1, 1], [1.0, 3.0, 0.0, 2.0], k=2)
    >>> round(estimate_noise(log).value, 3)
    1.414
    """
    scatter = scatter_of(offline)
    return noise_of(float(scatter.around.sum()), scatter.degrees, level=level)


def noise_of(around: float, degrees: int, *, level: float = LEVEL) -> Noise | None:
    """The standard deviation behind a sum of squares, with its chi-square interval."""
    from scipy.special import chdtri  # type: ignore[import-untyped]

    if degrees <= 0:
        return None
    above, below = chdtri(degrees, (1 - level) / 2), chdtri(degrees, (1 + level) / 2)
    return Noise(
        value=sqrt(around / degrees),
        low=sqrt(around / above),
        high=sqrt(around / below),
        degrees=degrees,
    )


def least_scale(offline: Offline, *, level: float, adaptive: bool = False) -> float:
    """The smallest sub-Gaussian scale that the scatter within arms does not refute at this level.

    For noise of scale s, P(around >= n u s^2) <= (u e^(1 - u))^(n / 2) for u > 1, with n the rewards beyond
    the first of each arm (Hsu, Kakade and Zhang, 2012: a projection), or all rewards where arms were chosen
    by looking at them. A chi-square test would hold for Gaussian rewards only.
    """
    scatter = scatter_of(offline)
    n = float(scatter.pulls.sum()) if adaptive else scatter.degrees
    return least_scale_of(float(scatter.around.sum()), n, level=level)


def least_scale_of(around: float, n: float, *, level: float) -> float:
    """The same from a sum of squares and the number of rewards behind it."""
    from scipy.special import lambertw

    if n == 0:
        return 0.0
    most = -float(lambertw(-np.exp(-1 - 2 * np.log(1 / level) / n), -1).real)
    return sqrt(around / n / most)


def noisiest_arm(offline: Offline) -> float:
    """The largest standard deviation of an arm with many pulls."""
    n, _, around, _ = scatter_of(offline, np.flatnonzero(offline.pulls >= MANY_PULLS))
    return float(np.sqrt(around / (n - 1)).max(initial=0.0))


def arm_intervals(
    offline: Offline, confidence: Confidence | None = None, *, arms: Ints | None = None, level: float = LEVEL
) -> tuple[Floats, Floats, Floats]:
    """(k,) means, lower and upper ends of the intervals of some arms, or of all; NaN for arms without a pull.

    Where rewards are bounded, they hold at every number of pulls (`linoto.core.intervals`).
    """
    if confidence is None or not is_bounded(offline, confidence):
        mean, low, high = student_intervals(offline, level)
        if confidence is None or confidence.noise == "bounded" or confidence.reward_range is None:
            return mean, low, high
        least, most = confidence.reward_range  # of means: no interval needs to leave it
        return mean, np.minimum(np.maximum(low, least), mean), np.maximum(np.minimum(high, most), mean)
    options: dict[str, Any] = {
        "reward_range": confidence.reward_range,
        "level": level,
        "adaptive": confidence.design == "adaptive",
        "binary": confidence.reward_range == (0.0, 1.0)
        and np.array_equal(offline.reward_sums, np.asarray(offline.reward_squares)),  # each 0 or 1
    }
    pulled = np.flatnonzero(offline.pulls > 0)
    ends = np.full((3, offline.pulls.size), np.nan)
    for arm in pulled if arms is None else np.intersect1d(pulled, arms):
        total, n = float(offline.reward_sums[arm]), int(offline.pulls[arm])
        ends[:, arm] = total / n, *mean_from_total(total, n, **options)
    return ends[0], ends[1], ends[2]


def is_bounded(offline: Offline, confidence: Confidence) -> bool:
    """Whether rewards are said to be bounded, and no arm's mean contradicts it."""
    if confidence.noise != "bounded" or confidence.reward_range is None:
        return False
    low, high = (end * offline.pulls for end in confidence.reward_range)
    return bool(((low <= offline.reward_sums) & (offline.reward_sums <= high)).all())


def student_intervals(offline: Offline, level: float) -> tuple[Floats, Floats, Floats]:
    """The same by Student's t, with the arm's own scatter from ten pulls on and the pooled one below."""
    from scipy.special import stdtrit

    seen, scatter = np.flatnonzero(offline.pulls > 0), scatter_of(offline)
    n, mean, around, _ = scatter
    degrees = max(scatter.degrees, 1)
    own = (n >= 10) & (around > 0)
    variance = np.where(own, around / np.maximum(n - 1, 1), around.sum() / degrees)
    freedom = np.where(own, n - 1, degrees)
    half = stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance / n)
    ends = np.full((3, offline.pulls.size), np.nan)
    ends[:, seen] = mean, mean - half, mean + half
    return ends[0], ends[1], ends[2]
