"""How much more than the control group the policy earns, with an interval that holds at any time.

A decision is drawn for the control group with a known probability p, C = 1 if it was. With a centre c that
is fixed before the draw, the mean of D = (1 - C) (x - c) / (1 - p) - C (x - c) / p is what the policy earns
in this round beyond the control group: whatever p was, and whatever the world did meanwhile.

For rewards in a range, prod (1 + b D_i) / (1 + b d_i) is a martingale for each bet b that cannot lose
everything, where d_i is the conditional mean of D_i. log (1 + b d) is concave in d, so at the average d of
the d_i the product is never larger; by Ville its average over bets reaches 1 / alpha with probability at most
alpha, at any time (compare fact 4 of `linoto.core.intervals`). A bet that could lose everything in the next
round, because p has become small, is given up before.

The product runs in the order of decisions, and everything in it but the reward is fixed at the decision: p,
c, the bets. So it does not matter when rewards come, or which of them: up to the last decision before the
oldest open one the product is known, and over all decisions it is at least what it is with open ones at their
worst. A lost reward stays at its worst, for each of the two sides.
"""

from __future__ import annotations

from math import log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from linoto.service.loops.log_sums import log_sum_exp

LEVEL = 0.95  # of every interval on the page
NORMAL = 1.96  # standard errors for that level, where rewards have no range
FEWEST = 50  # rewards of each group from which on a normal interval is given
BETS = tuple(0.9 * 0.45**j for j in range(12))  # b, for rewards scaled to a range of length 1
GIVEN_UP = -1e300  # the log of nothing, which JSON can hold
Limits = tuple[float, float]


class WeightedMean(Struct):
    """A mean reward in which each reward weighs one over the chance that it was in this group."""

    closed: int = 0
    weight: float = 0.0
    rewards: float = 0.0

    def add(self, reward: float, chance: float) -> None:
        """One more reward."""
        self.closed += 1
        self.weight += 1 / chance
        self.rewards += reward / chance

    @property
    def mean(self) -> float:
        """The mean so far."""
        return self.rewards / self.weight

    def absorb(self, other: WeightedMean) -> None:
        """The rewards of another mean too."""
        self.closed += other.closed
        self.weight += other.weight
        self.rewards += other.rewards


class Draw(NamedTuple):
    """What is fixed at a decision that could have been drawn for the control group."""

    chance: float  # of being drawn
    in_control: bool
    centre: float
    limits: Limits | None  # of rewards, where they are known

    def difference(self, reward: float) -> float:
        """D."""
        return (reward - self.centre) * (-1 / self.chance if self.in_control else 1 / (1 - self.chance))

    def worst(self, limits: Limits, sign: float) -> float:
        """The least that D can be, or -D, in units of the range."""
        low, high = limits
        return min(sign * self.difference(low), sign * self.difference(high)) / (high - low)

    def most(self, limits: Limits, sign: float) -> float:
        """The most that a bet could have lost before the draw, in units of the range."""
        low, high = limits
        down, up = (self.centre - low) / (high - low), (high - self.centre) / (high - low)
        if sign < 0:
            down, up = up, down
        return max(down / (1 - self.chance), up / self.chance)


class LiftSums(Struct, array_like=True):
    """What decisions that follow each other add to the lift: known rewards, and lost ones at their worst."""

    decisions: int = 0  # open ones too
    policy: WeightedMean = field(default_factory=WeightedMean)  # of known rewards
    control: WeightedMean = field(default_factory=WeightedMean)
    mean: float = 0.0  # of D, where the reward is known
    spread: float = 0.0  # its summed squares (Welford)
    below: list[float] = field(default_factory=lambda: [0.0] * len(BETS))  # sums of log (1 + b D)
    above: list[float] = field(default_factory=lambda: [0.0] * len(BETS))  # and of log (1 - b D)

    def open(self, draw: Draw) -> None:
        """A decision whose reward is to come; bets that could lose everything by it are given up."""
        self.decisions += 1
        if draw.limits is None:
            return
        for logs, sign in ((self.below, 1.0), (self.above, -1.0)):
            most, j = draw.most(draw.limits, sign), 0
            while j < len(BETS) and BETS[j] * most >= 1:
                logs[j], j = GIVEN_UP, j + 1  # the next ones are smaller

    def close(self, draw: Draw, reward: float | None) -> None:
        """Its reward; None: it is lost."""
        if reward is not None:
            self._know(draw, reward)
        if draw.limits is None:
            return
        if reward is None:
            gain, fall = draw.worst(draw.limits, 1.0), draw.worst(draw.limits, -1.0)
        else:
            gain = draw.difference(reward) / (draw.limits[1] - draw.limits[0])
            fall = -gain
        self.below, self.above = grown(self.below, gain), grown(self.above, fall)

    def _know(self, draw: Draw, reward: float) -> None:
        group, likely = (self.control, draw.chance) if draw.in_control else (self.policy, 1 - draw.chance)
        group.add(reward, likely)
        difference = draw.difference(reward)
        away = difference - self.mean
        self.mean += away / self.known
        self.spread += away * (difference - self.mean)

    def with_open(self, draws: list[Draw]) -> None:
        """Count these decisions, which are open, at their worst."""
        for logs, sign in ((self.below, 1.0), (self.above, -1.0)):
            worst = [draw.worst(draw.limits, sign) for draw in draws if draw.limits is not None]
            kept = [j for j in range(len(BETS)) if logs[j] > GIVEN_UP]
            added = np.log1p(np.multiply.outer([BETS[j] for j in kept], worst)).sum(axis=1)
            for j, value in zip(kept, added.tolist(), strict=True):
                logs[j] += value

    def absorb(self, other: LiftSums) -> None:
        """The decisions that come next too."""
        n, more = self.known, other.known
        self.decisions += other.decisions
        self.policy.absorb(other.policy)
        self.control.absorb(other.control)
        if more:
            away = other.mean - self.mean
            self.mean += away * more / (n + more)
            self.spread += other.spread + away * away * n * more / (n + more)
        self.below, self.above = joined(self.below, other.below), joined(self.above, other.above)

    @property
    def known(self) -> int:
        """Rewards that are known."""
        return self.policy.closed + self.control.closed

    def interval(self, limits: Limits | None) -> Limits | None:
        """Where the average lift of all these decisions lies; None where there are too few rewards to say."""
        return interval_of(self, self.mean, self.decisions, limits)

    @property
    def value(self) -> float | None:
        """The difference of the weighted means of what is known; None where a group has no reward yet."""
        return difference_of(self)


class Lift(Struct):
    """The same, summed as rewards came: of decisions that 0.2 made, for which no centre was kept.

    Its interval is right where rewards come in the order of their decisions, and none is lost.
    """

    policy: WeightedMean = field(default_factory=WeightedMean)
    control: WeightedMean = field(default_factory=WeightedMean)
    rewards: float = 0.0  # of both groups, unweighted: their mean is the next centre
    differences: float = 0.0  # mean of D
    spread: float = 0.0  # its summed squares (Welford)
    below: list[float] = field(default_factory=lambda: [0.0] * len(BETS))  # sums of log (1 + b D)
    above: list[float] = field(default_factory=lambda: [0.0] * len(BETS))  # and of log (1 - b D)

    @property
    def closed(self) -> int:
        """Rewards so far."""
        return self.policy.closed + self.control.closed

    def add(
        self, reward: float, *, chance: float, in_control: bool, start: float, limits: Limits | None
    ) -> None:
        """A reward of a decision that was drawn for the control group with this chance.

        `start` is the first centre; `limits` is the range of rewards, where it is known.
        """
        n = self.closed
        centre = (self.rewards + start) / (n + 1)
        weight = -1 / chance if in_control else 1 / (1 - chance)
        difference = weight * (reward - centre)
        group, likely = (self.control, chance) if in_control else (self.policy, 1 - chance)
        group.add(reward, likely)
        self.rewards += reward
        away = difference - self.differences
        self.differences += away / (n + 1)
        self.spread += away * (difference - self.differences)
        if limits is not None:
            low, high = limits
            unit = high - low
            most = ((centre - low) / unit, (high - centre) / unit)
            place(self.below, difference / unit, max(most[0] / (1 - chance), most[1] / chance))
            place(self.above, -difference / unit, max(most[1] / (1 - chance), most[0] / chance))

    def interval(self, limits: Limits | None) -> Limits | None:
        """Where the average lift lies; None where there are too few rewards to say."""
        return interval_of(self, self.differences, self.closed, limits)

    @property
    def value(self) -> float | None:
        """The difference of the weighted means; None where a group has no reward yet."""
        return difference_of(self)


def difference_of(lift: LiftSums | Lift) -> float | None:
    """The difference of the weighted means; None where a group has no reward yet."""
    if min(lift.policy.closed, lift.control.closed) == 0:
        return None
    return lift.policy.mean - lift.control.mean


def interval_of(lift: LiftSums | Lift, mean: float, decisions: int, limits: Limits | None) -> Limits | None:
    """Where the average lift of so many decisions lies, by bets, or without a range as a normal interval."""
    fewest, known = min(lift.policy.closed, lift.control.closed), lift.policy.closed + lift.control.closed
    if fewest == 0 or (limits is None and fewest < FEWEST):
        return None
    if limits is None:
        away = NORMAL * sqrt(lift.spread / (known - 1) / known)
        return mean - away, mean + away
    return bets_interval(lift.below, lift.above, decisions, limits)


def place(logs: list[float], gain: float, most: float) -> None:
    """Multiply each wealth by 1 + b gain; give up the bets that could have lost everything (at -most)."""
    for j, bet in enumerate(BETS):
        if bet * most >= 1 or logs[j] == GIVEN_UP:
            logs[j] = GIVEN_UP
        else:
            logs[j] += log1p(bet * gain)


def grown(logs: list[float], gain: float) -> list[float]:
    """Each wealth times 1 + b gain; what was given up stays so."""
    return [x + log1p(bet * gain) if x != GIVEN_UP else x for x, bet in zip(logs, BETS)]  # noqa: B905


def joined(logs: list[float], others: list[float]) -> list[float]:
    """The wealth after decisions that follow each other."""
    return [max(x + y, GIVEN_UP) for x, y in zip(logs, others)]  # noqa: B905


def bets_interval(below: list[float], above: list[float], n: int, limits: Limits) -> Limits | None:
    """The average lifts of n decisions that no side refutes; None where every lift is possible."""
    unit = limits[1] - limits[0]
    least, most = (unit * least_mean(logs, n) for logs in (below, above))
    return None if least <= -unit and most <= -unit else (least, -most)


def least_mean(logs: list[float], n: int) -> float:
    """The largest mean in [-1, 1] that is surely refuted, by bisection: evidence falls as the mean grows."""
    enough = log(2 / (1 - LEVEL)) + log(len(BETS))

    def refuted(mean: float) -> bool:
        pairs = zip(logs, BETS, strict=True)
        terms = [value - n * log1p(bet * mean) for value, bet in pairs if value > GIVEN_UP]
        return log_sum_exp(terms) > enough

    low, high = -1.0, 1.0
    if not refuted(low):
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
