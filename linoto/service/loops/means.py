"""The mean reward of some decisions, and where it lies: a lost reward is known to nobody.

As in the lift, it counts at its worst for each end of an interval: so lost rewards make it wider, and never
wrong, whichever they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import NamedTuple

from linoto.service.loops.lift import FEWEST, NORMAL, Limits
from linoto.service.loops.limits import ROUNDING, Sum, mean_interval_of
from linoto.service.loops.loop import Loop
from linoto.service.loops.state import RewardTotals


class Earned(NamedTuple):
    """What some decisions earned, and which part of that only stands in for lost rewards."""

    totals: RewardTotals
    limits: Limits | None  # of rewards, where they are known
    lost: int = 0  # of the closed ones
    default: float = 0.0  # what each of these counts as in the totals

    @classmethod
    def by(cls, loop: Loop, totals: RewardTotals) -> Earned:
        """Some decisions of a loop."""
        return cls(totals, loop.limits, loop.watch.lost(totals), loop.spec.default_reward)

    @property
    def known(self) -> int:
        """How many rewards are known."""
        return self.totals.closed - self.lost

    @property
    def mean(self) -> float | None:
        """The mean of those that are known; None where none is."""
        if self.lost == 0 or self.known == 0:
            return self.totals.mean if self.known else None
        mean = (self.totals.rewards - self.lost * self.default) / self.known
        return mean if self.limits is None else min(max(mean, self.limits[0]), self.limits[1])

    @property
    def sums(self) -> tuple[Sum, Sum] | None:
        """All closed decisions, lost ones at the lowest and at the highest; None: no range, or no reward."""
        if self.limits is None or self.known == 0:
            return None
        totals, lost, default, least = self.totals, self.lost, self.default, self.limits[0]
        low, high = (
            Sum(
                totals.rewards + lost * (end - default),
                totals.closed,
                totals.squares_above(least) + lost * ((end - least) ** 2 - (default - least) ** 2),
                self.limits,
            )
            for end in self.limits
        )
        return low, high

    @property
    def interval(self) -> Limits | None:
        """Where the mean of the closed decisions lies, at any time; None where there is too little to say.

        Without a range a lost reward has no worst: then it is a normal one, of the rewards that are known.
        """
        sums = self.sums
        if sums is not None:
            low, high = sums
            return mean_interval_of(low)[0], mean_interval_of(high)[1]
        mean, n = self.mean, self.known
        if self.limits is not None or mean is None or n < FEWEST:
            return None
        away = NORMAL * sqrt(self.spread / (n - 1) / n)
        return mean - away, mean + away

    @property
    def spread(self) -> float:
        """Summed squares of the distances of known rewards to their mean; rather too much than too little."""
        if self.lost == 0 or self.mean is None:
            return self.totals.spread
        apart = self.known * self.lost / self.totals.closed * (self.mean - self.default) ** 2
        return max(self.totals.spread - apart, 0.0) + ROUNDING * self.totals.spread


def know_intervals(many: Iterable[Earned]) -> None:
    """Compute together what `interval` will be asked for."""
    mean_interval_of.know(each for earned in many for each in earned.sums or ())
