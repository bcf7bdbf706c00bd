"""How rewards scatter around the mean of their arm, as far as a log shows it."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from linoto.core.confidence import Confidence
from linoto.core.kernels import Floats
from linoto.core.offline import Offline
from linoto.worlds.bandits import Bandit

ENOUGH = 10  # degrees of freedom from which the measured variance replaces the assumed one
SHRINK = 20.0  # rows that the variance of all arms counts for, beside the rows of one arm


class RewardLaw(NamedTuple):
    """Rewards of two values above a floor (clicks, amounts), or normal ones."""

    limits: tuple[float, float] | None  # no mean lies outside
    variance: float  # of one reward, over all arms
    variances: Floats  # (k,) of each arm
    step: float | None  # between the two values of a reward, the lower limit being one; None: normal rewards
    bounded: bool  # no reward leaves the limits

    @property
    def noise(self) -> float:
        """The standard deviation of a reward."""
        return sqrt(self.variance)

    def world(self, actions: Floats, means: Floats) -> Bandit:
        """A world with these average rewards (k,) and rewards of this law."""
        if self.step is None or self.limits is None:
            return Bandit(actions=actions, means=means, noise=1.0, spread=np.sqrt(self.variances))
        low, high = self.limits
        steps = np.maximum(self.step, means - low)
        top = high if self.bounded else low + float(steps.max())
        steps = np.minimum(steps, top - low)
        return Bandit(
            actions=actions, means=means, rewards="bernoulli", reward_range=(low, top), spread=steps
        )


def measure_law(offline: Offline, confidence: Confidence) -> RewardLaw:
    """The law that fits a log: what is measured where rows suffice, else what is assumed.

    Amounts are paid as two values, the floor and a step above it, that have the measured mean and variance:
    the variance grows with the mean, as it does for clicks and for money. For clicks this is exact.
    """
    limits, bounded = confidence.reward_range, confidence.noise == "bounded"
    if limits is None or not (bounded or limits[0] >= 0):
        return RewardLaw(limits, *measured_variances(offline, confidence.scale**2), None, False)
    low, high = limits
    level = float(offline.reward_sums.sum()) - low * offline.total
    level = (level + (high - low) / 2) / (offline.total + 1)  # half a success more, so that it is never 0
    level = min(max(level, 1e-9 * (high - low)), high - low)
    most = level * (high - low - level)  # the largest variance inside the limits: 0 and 1 have it
    if bounded and (offline.reward_squares is None or has_two_values(offline, limits)):
        return RewardLaw(limits, most, np.full(offline.pulls.size, most), high - low, True)
    variance, variances = measured_variances(offline, most if bounded else confidence.scale**2)
    step = variance / level + level
    return RewardLaw(limits, variance, variances, min(step, high - low) if bounded else step, bounded)


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
