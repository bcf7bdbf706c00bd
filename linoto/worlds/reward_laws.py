"""How rewards scatter around the mean of their arm, as far as a log shows it."""

from __future__ import annotations

from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.offline import Offline
from linoto.worlds.bandits import Bandit

ENOUGH = 10  # degrees of freedom from which the measured variance replaces the assumed one
FAR = 1e4  # widths of the range of means: where amounts without an end are taken to end
LEAST_LEFT = 1e-6  # of the variance that a model may leave: beyond it posteriors are rounding
LEAST_OF_EVENTS = 0.01  # the same of events: a few rows of them prove no more
MOST_OF_AMOUNTS = 0.99  # of the largest variance, which rewards at the two ends alone have
SHRINK = 20.0  # rows that the variance of all arms counts for, beside the rows of one arm


class RewardLaw(NamedTuple):
    """Rewards that are 0 or 1, Beta ones in a range or above a floor (amounts), or normal ones."""

    limits: tuple[float, float] | None  # no mean lies outside
    variance: float  # of one reward, over all arms
    variances: Floats  # (k,) of each arm
    # (k,) of the largest variance that rewards of `range` can have; None: normal rewards
    shares: Floats | None
    range: tuple[float, float] = (0.0, 1.0)  # no reward leaves it; of amounts without an end it is far away

    @property
    def noise(self) -> float:
        """The standard deviation of a reward."""
        return sqrt(self.variance)

    @property
    def event(self) -> float:
        """What one of two possible rewards is worth more than the other, as a click; 0 where others exist."""
        only_two = self.shares is not None and bool((self.shares == 1).all())
        return self.range[1] - self.range[0] if only_two else 0.0

    def quieter(self, variance: float) -> RewardLaw:
        """The same law where so much of the variance is known to be something else."""
        left = max(1 - variance / self.variance, 0.0)
        shares = None if self.shares is None else self.shares * left
        return self._replace(variance=self.variance * left, variances=self.variances * left, shares=shares)

    def world(self, actions: Floats, means: Floats) -> Bandit:
        """A world with these average rewards (k,) and rewards of this law."""
        if self.shares is None:
            return Bandit(actions=actions, means=means, noise=1.0, spread=np.sqrt(self.variances))
        parts: dict[str, Any] = {"actions": actions, "means": means, "reward_range": self.range}
        if self.event:
            return Bandit(rewards="bernoulli", **parts)
        return Bandit(rewards="beta", spread=self.shares, **parts)


def measure_law(offline: Offline, confidence: Confidence) -> RewardLaw:
    """The law that fits a log: what is measured where rows suffice, else what is assumed.

    A reward of a range with the mean m has a variance of s (m - low) (high - m), where s is a share of the
    largest possible: each arm's own, as far as its rows tell. So the variance follows the mean, as it does
    for clicks and for money, and an arm that earns more or less than in the log has noise too.
    """
    limits, bounded = confidence.reward_range, confidence.noise == "bounded"
    if limits is None or not (bounded or limits[0] >= 0):
        return RewardLaw(limits, *measured_variances(offline, confidence.scale**2), None)
    low, high = limits
    level = float(offline.reward_sums.sum()) - low * offline.total
    level = (level + (high - low) / 2) / (offline.total + 1)  # half a success more, so that it is never 0
    level = min(max(level, 1e-9 * (high - low)), high - low)
    most = level * (high - low - level)  # the largest variance inside the limits: 0 and 1 have it
    if bounded and (offline.reward_squares is None or has_two_values(offline, limits)):
        every = np.full(offline.pulls.size, most)
        return RewardLaw(limits, most, every, np.ones(offline.pulls.size), limits)
    variance, variances = measured_variances(offline, most if bounded else confidence.scale**2)
    top = high if bounded else low + FAR * max(high - low, variance / level)
    shares = measured_shares(offline, variance, level, (low, top))
    return RewardLaw(limits, variance, variances, shares, (low, top))


def around_model(law: RewardLaw, variance: float, mean: float) -> RewardLaw:
    """The law of rewards that scatter with this variance around a model of them, of a log with this mean.

    A reward with the mean m has the variance s (m - low) (high - m), whose average over the rows is
    s ((E m - low) (high - E m) - Var m), and Var m is what the model explains. Rewards of two values have
    the largest variance at any mean: s = 1.
    """
    variance = max(variance, (LEAST_OF_EVENTS if law.event else LEAST_LEFT) * law.variance)
    if law.shares is None:
        return law._replace(variance=variance, variances=np.array([variance]))
    if law.event:
        return law._replace(variance=min(variance, law.variance))
    low, high = law.range
    explained = max(law.variance - variance, 0.0)
    largest = (mean - low) * (high - mean) - explained
    share = min(variance / largest, MOST_OF_AMOUNTS) if largest > 0 else MOST_OF_AMOUNTS
    return law._replace(variance=variance, variances=np.array([variance]), shares=np.array([share]))


def measured_shares(offline: Offline, variance: float, level: float, limits: tuple[float, float]) -> Floats:
    """(k,) the variance of each arm as a share of the largest possible with its mean.

    Where rows are few it is drawn towards that of all arms, in logarithms: an arm that always earns about the
    same keeps its small variance beside others that earn by luck. Few rows without any scatter prove little.
    """
    low, high = limits
    rows = np.maximum(offline.pulls - 1, 0)
    means = np.clip(means_of(offline) - low, 0.0, high - low)
    largest = means * (high - low - means)
    total, freedom = offline.within_arms()
    if offline.reward_squares is None or freedom < ENOUGH or total == 0:  # as assumed, whatever arms earn
        return np.full(rows.size, min(variance / (level * (high - low - level)), 1.0))
    pooled = min(total / max(float(rows @ largest), total), 1.0)
    squares = np.maximum(offline.reward_squares - offline.reward_sums * means_of(offline), 0.0)
    own = np.divide(squares, rows * largest, out=np.full(rows.size, pooled), where=rows * largest > 0)
    own = np.clip(own, pooled / (1 + rows), 1.0)
    return np.asarray(np.exp((SHRINK * np.log(pooled) + rows * np.log(own)) / (SHRINK + rows)))


def means_of(offline: Offline) -> Floats:
    """(k,) the average logged reward of each arm, 0 where there is none."""
    return np.asarray(offline.reward_sums / np.maximum(offline.pulls, 1))


def has_two_values(offline: Offline, limits: tuple[float, float]) -> bool:
    """Whether every reward is at an end of the range: only there is (x - low) (high - x) zero."""
    assert offline.reward_squares is not None
    low, high = limits
    inside = (low + high) * offline.reward_sums - low * high * offline.pulls - offline.reward_squares
    return bool(inside.sum() <= 1e-9 * (high - low) ** 2 * max(offline.total, 1))


def measured_variances(offline: Offline, assumed: float) -> tuple[float, Floats]:
    """The variance of a reward over all arms, and (k,) of each, drawn towards it where rows are few."""
    total, freedom = offline.within_arms()
    if offline.reward_squares is None or freedom < ENOUGH or total == 0:
        return assumed, np.full(offline.pulls.size, assumed)
    pooled = total / freedom
    rows = np.maximum(offline.pulls - 1, 0)
    squares = offline.reward_squares - offline.reward_sums**2 / np.maximum(offline.pulls, 1)
    return pooled, np.asarray((SHRINK * pooled + np.maximum(squares, 0.0)) / (SHRINK + rows))
