"""Says once that a reward is not what an explorer assumes, where no gate or log would have said so.

Without a log nothing tells the unit of rewards before they come. Where they are hundreds and noise 1, an
explorer takes the first of them for the truth, and may keep to the worst arm for good. A range refuses what
is outside of it; a loop of the service has what its spec says, and nobody reads what its server warns of.
"""

from __future__ import annotations

import warnings
from math import inf, sqrt
from typing import Any

from linoto.core.confidence import Confidence
from linoto.core.drivers.driver import Driver
from linoto.core.hints import amount
from linoto.core.one_hot import squared_lengths
from linoto.core.plausible import explores_alone
from linoto.core.usual_confidence import FROM_LOG

DEVIATIONS = 10.0  # beyond the bound: noise that is assumed rightly gets there once in 10^22 rewards
LARGE = 10.0  # of a feature; columns of numbers are about 1


class Surprises:
    """Looks at each reward; a comparison, unless it is far."""

    def __init__(self, policy: object, driver: Driver[Any]) -> None:
        confidence = driver.confidence
        looks = FROM_LOG.get() and explores_alone(policy) and confidence.noise != "bounded"
        self.far = DEVIATIONS * confidence.scale if looks else inf  # for an action of length 0, at first
        self.driver = driver

    def look(self, reward: float) -> None:
        """Warn about the first that cannot be."""
        if -self.far <= reward <= self.far:
            return
        confidence = self.driver.confidence
        most = confidence.bound * longest(self.driver)
        self.far = most + DEVIATIONS * confidence.scale
        if not -self.far <= reward <= self.far:
            self.far = inf
            warnings.warn(refuting(reward, most, confidence), stacklevel=3)


def longest(driver: Driver[Any]) -> float:
    """The length of the longest action; those that rounds bring may be as long as features of 10 are."""
    actions = getattr(driver, "actions", None)  # that stay the same
    return LARGE * sqrt(driver.d) if actions is None else sqrt(squared_lengths(actions).max())


def refuting(reward: float, most: float, confidence: Confidence) -> str:
    """What came, what was assumed, and what to say instead."""
    return (
        f"a reward of {amount(reward)} contradicts what is assumed: averages within {amount(most)} of 0, "
        f"and noise of {amount(confidence.scale)}; whoever assumes that may keep to a bad arm. Say "
        "confidence=Confidence(noise=..., bound=...), start from a log, or count rewards in another unit"
    )
