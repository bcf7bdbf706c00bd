"""How much do rewards scatter around their means: those of arms, or of a linear model where rounds differ?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from linoto.audit.sentences import Centre
from linoto.core.arrays import Floats, Ints
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.hints import as_sure_as
from linoto.core.intervals import Limits, mean_from_total
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


@dataclass(frozen=True, kw_only=True)
class Noise:
    """The standard deviation of a reward around the mean of its arm, pooled over arms."""

    value: float
    low: float | None  # an interval that holds for rewards of a known range; None: none is known
    high: float | None
    low_if_normal: float  # chi-square: for rewards that are rare or have heavy tails it is far too narrow
    high_if_normal: float
    degrees: int  # rewards beyond the first of each arm

    def text(self, around: str) -> str:
        """The standard deviation around something, and how far it may be from the true one."""
        if self.low is None or self.high is None:
            value, low, high = as_sure_as(self.value, self.low_if_normal, self.high_if_normal)
            return (
                f"{value} around {around}; how far off that is cannot be told without a range of rewards "
                f"(were they normal: within [{low}, {high}] at {LEVEL:.0%})"
            )
        value, low, high = as_sure_as(self.value, self.low, self.high)
        return f"{value} around {around}, within [{low}, {high}] at {LEVEL:.0%}"


def noise_around_model(moments: Moments, *, limits: Limits | None, adaptive: bool) -> Noise | None:
    """The standard deviation around a linear model; None where there are not more rows than features."""
    around, degrees = moments.residuals()
    found = noise_of(around, int(degrees))
    if found is None or limits is None or moments.reward_squares is None:
        return found
    known = (around, moments.reward_sum, moments.reward_squares, moments.count)
    return bounded_noise(found, deviation_of_any(*known, limits, level=LEVEL, adaptive=adaptive), limits)


def noise_fact(noise: Noise | None, centre: Centre) -> str:
    """The noise estimate with its interval."""
    return f"cannot be estimated: {centre.unknown_noise}" if noise is None else noise.text(centre.noise)


def estimate_noise(
    offline: Offline,
    *,
    limits: tuple[float, float] | None = None,
    adaptive: bool = False,
    level: float = LEVEL,
) -> Noise | None:
    """Pooled standard deviation with its interval for rewards within `limits`; None where no arm was pulled
    twice. `adaptive` where earlier rewards may have decided which arms were pulled.

    >>> log = Offline.from_rows([0, 0, 1, 1], [1.0, 3.0, 0.0, 2.0], k=2)
    >>> round(estimate_noise(log).value, 3)
    1.414
    """
    scatter = scatter_of(offline)
    around, total = float(scatter.around.sum()), float(offline.reward_sums.sum())
    found = noise_of(around, scatter.degrees, level=level)
    if found is None or limits is None:
        return found
    squares = float(np.asarray(offline.reward_squares).sum())
    if adaptive:
        ends = deviation_of_any(around, total, squares, offline.total, limits, level=level, adaptive=True)
    else:
        ends = deviation_within_arms(around, scatter.degrees, limits, level=level)
    return bounded_noise(found, ends, limits)


def noise_of(around: float, degrees: int, *, level: float = LEVEL) -> Noise | None:
    """The standard deviation behind a sum of squares, of rewards whose range is not known."""
    from scipy.special import chdtri  # type: ignore[import-untyped]

    if degrees <= 0:
        return None
    above, below = chdtri(degrees, (1 - level) / 2), chdtri(degrees, (1 + level) / 2)
    return Noise(
        value=sqrt(around / degrees),
        low=None,
        high=None,
        low_if_normal=sqrt(around / above),
        high_if_normal=sqrt(around / below),
        degrees=degrees,
    )


def bounded_noise(found: Noise, ends: Limits, limits: Limits) -> Noise:
    """The same with an interval, and no more than half of the range: rewards inside it scatter no more."""
    most = (limits[1] - limits[0]) / 2
    low, high = (min(end, most) for end in ends)
    return replace(found, value=min(found.value, most), low=low, high=high)


def deviation_within_arms(around: float, degrees: int, limits: Limits, *, level: float) -> Limits:
    """An interval for the pooled standard deviation of independent rewards within limits.

    With rewards in [0, 1], Z the sum of squares around the means of arms and Z_k its smallest value over all
    that reward k could be: Z - Z_k = (1 - 1/n) (x_k - mean of the n - 1 others of its arm)^2 <= 1 - 1/n, and
    these add up to n / (n - 1) times Z in an arm. So the sum of (Z - Z_k)^2 is at most Z, and P(Z <= E Z - t)
    <= exp(-t^2 / 2 E Z), P(Z >= E Z + t) <= exp(-t^2 / (2 E Z + t)) (Maurer 2006; Maurer and Pontil 2009,
    Theorem 13). E Z is `degrees` times the pooled variance, whatever the laws of rewards and arms are.
    """
    width = limits[1] - limits[0]
    surprise, z = log(2 / (1 - level)), around / width**2
    low = z + surprise / 2 - sqrt(surprise**2 / 4 + 2 * surprise * z)
    high = (sqrt(surprise / 2) + sqrt(surprise / 2 + z)) ** 2
    # the least E Z is not below 0, and grows with Z from where Z says something: Z > surprise
    low = low if z > surprise else 0.0
    return width * sqrt(low / degrees), width * sqrt(high / degrees)


def deviation_of_any(
    around: float, total: float, squares: float, n: int, limits: Limits, *, level: float, adaptive: bool
) -> Limits:
    """An interval for the average standard deviation of n rewards around their own means, whatever these are.

    `around` is the sum of squares around a fit that could have been these means: squares around the means
    themselves add up to no less, and each is at most 1 for rewards in [0, 1]. So a lower limit of their mean
    is one for the variance. Its upper limit is that of the mean square less the lower one of the squared
    mean, since the average of squared means is no less than the square of their average.
    """
    low, width = limits[0], limits[1] - limits[0]
    shares, shifted = (total - n * low) / width, (squares - 2 * low * total + n * low**2) / width**2
    z, s, q = (min(max(value, 0.0), float(n)) for value in (around / width**2, shares, shifted))
    q = max(q, s**2 / n)
    least, _ = mean_from_total(z, n, level=level, adaptive=adaptive)
    half = 1 - (1 - level) / 2  # two limits on the upper side, each with half of its error
    _, square = mean_from_total(q, n, level=half, adaptive=adaptive)
    mean, _ = mean_from_total(s, n, level=half, squares=q, adaptive=adaptive)
    return width * sqrt(least), width * sqrt(max(square - mean**2, least))


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
    offline: Offline,
    confidence: Confidence | None = None,
    *,
    arms: Ints | None = None,
    level: float = LEVEL,
    adaptive: bool | None = None,
) -> tuple[Floats, Floats, Floats]:
    """(k,) means, lower and upper ends of the intervals of some arms, or of all; NaN for arms without a pull.

    Where rewards are bounded, they hold at every number of pulls (`linoto.core.intervals`); `adaptive` where
    rewards may have decided what was pulled, by default as the confidence says.
    """
    if confidence is None or not is_bounded(offline, confidence):
        mean, low, high = student_intervals(offline, level)
        if confidence is None or confidence.noise == "bounded" or confidence.reward_range is None:
            return mean, low, high
        least, most = confidence.reward_range  # of means: no interval needs to leave it
        return mean, np.minimum(np.maximum(low, least), mean), np.maximum(np.minimum(high, most), mean)
    chosen = confidence.design == "adaptive" if adaptive is None else adaptive
    options: dict[str, Any] = {"reward_range": confidence.reward_range, "level": level, "adaptive": chosen}
    squares = offline.reward_squares
    pulled = np.flatnonzero(offline.pulls > 0)
    ends = np.full((3, offline.pulls.size), np.nan)
    for arm in pulled if arms is None else np.intersect1d(pulled, arms):
        total, n = float(offline.reward_sums[arm]), int(offline.pulls[arm])
        known = None if squares is None else float(squares[arm])
        ends[:, arm] = total / n, *mean_from_total(total, n, squares=known, **options)
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
