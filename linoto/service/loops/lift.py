"""How much more than the control group the policy earns, with an interval that holds at any time.

A decision is drawn for the control group with a known probability p, C = 1 if it was. With a centre c that
is fixed before the draw, the mean of D = (1 - C) (x - c) / (1 - p) - C (x - c) / p is what the policy earns
in this round beyond the control group: whatever p was, and whatever the world did meanwhile.

For rewards in a range, prod (1 + b D_i) / (1 + b d_i) is a martingale for each bet b that cannot lose
everything, where d_i is the conditional mean of D_i. log (1 + b d) is concave in d, so at the average d of
the d_i the product is never larger; by Ville its average over bets reaches 1 / alpha with probability at most
alpha, at any time (compare fact 4 of `linoto.core.intervals`). A bet that could lose everything in the next
round, because p has become small, is given up before.
"""

from __future__ import annotations

from math import exp, inf, log, log1p, sqrt

from msgspec import Struct, field

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


class Lift(Struct):
    """Live decisions that could have been drawn for the control group, and were closed."""

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
        self, reward: float, *, chance: float, held_back: bool, start: float, limits: Limits | None
    ) -> None:
        """A reward of a decision that was drawn for the control group with this chance.

        `start` is the first centre; `limits` is the range of rewards, where it is known.
        """
        n = self.closed
        centre = (self.rewards + start) / (n + 1)
        weight = -1 / chance if held_back else 1 / (1 - chance)
        difference = weight * (reward - centre)
        group, likely = (self.control, chance) if held_back else (self.policy, 1 - chance)
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
        if min(self.policy.closed, self.control.closed) == 0:
            return None
        if limits is None:
            if min(self.policy.closed, self.control.closed) < FEWEST:
                return None
            away = NORMAL * sqrt(self.spread / (self.closed - 1) / self.closed)
            return self.differences - away, self.differences + away
        unit = limits[1] - limits[0]
        least, most = (unit * least_mean(logs, self.closed) for logs in (self.below, self.above))
        return None if least <= -unit and most <= -unit else (least, -most)

    @property
    def value(self) -> float | None:
        """The difference of the weighted means; None where a group has no reward yet."""
        if min(self.policy.closed, self.control.closed) == 0:
            return None
        return self.policy.mean - self.control.mean


def place(logs: list[float], gain: float, most: float) -> None:
    """Multiply each wealth by 1 + b gain; give up the bets that could have lost everything (at -most)."""
    for j, bet in enumerate(BETS):
        if bet * most >= 1 or logs[j] == GIVEN_UP:
            logs[j] = GIVEN_UP
        else:
            logs[j] += log1p(bet * gain)


def least_mean(logs: list[float], n: int) -> float:
    """The largest mean in [-1, 1] that is surely refuted, by bisection: evidence falls as the mean grows."""
    enough = log(2 / (1 - LEVEL)) + log(len(BETS))

    def refuted(mean: float) -> bool:
        pairs = zip(logs, BETS, strict=True)
        terms = [value - n * log1p(bet * mean) for value, bet in pairs if value > GIVEN_UP]
        top = max(terms, default=-inf)
        return top > -inf and top + log(sum(exp(term - top) for term in terms)) > enough

    low, high = -1.0, 1.0
    if not refuted(low):
        return low
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
