"""The arms of a loop as they can be seen: how often each was played, and what it earns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.codec import finite
from linoto.service.loops.lift import Limits
from linoto.service.loops.limits import Sum, mean_interval_of, mean_intervals
from linoto.service.loops.loop import Loop
from linoto.service.loops.means import Earned, know_intervals
from linoto.service.loops.metrics import Metric
from linoto.service.loops.shown import cut
from linoto.service.loops.state import MetricBooks, RewardTotals


class MetricMean(Struct):
    """What the plays of an arm had of a guardrail, as people count it."""

    told: int
    lost: int  # values that never came
    mean: float | None  # of those that were told; None where none was
    lower: float | None  # of an interval for the mean of all, at any time, lost ones at both ends
    upper: float | None  # None: nothing was told, or nobody knows which arm's values are lost


class ArmView(Struct):
    """An arm with its interval of now: of its mean reward or, with contexts, of that of its plays.

    `lcb` is the lower end of the same interval as `ucb`, and `mean` is inside. In decisions it is the best
    lower bound so far, by which policies count: where arms drift, that may come to lie above what they earn.
    Where a range of mean rewards was stated it is cut to that, unless no part of it is inside.
    After a drift alarm the log is of another world: then it is that of the plays that closed since the first.
    """

    name: str
    plays: int
    pending: int
    logged: int | None  # None: with contexts a log is not counted by arm
    mean: float | None
    lcb: float | None
    ucb: float | None
    present: bool  # False: it was removed
    metrics: dict[str, MetricMean]  # by guardrail, of which it has a value


class MetricNumbers(NamedTuple):
    """The values of a guardrail by arm at one moment."""

    name: str
    had: dict[int, Earned]
    lost_somewhere: int

    @classmethod
    def of(cls, metric: Metric, kept: MetricBooks) -> MetricNumbers:
        """Those of now."""
        limits, default = metric.guardrail.reward_range, metric.default
        had = {arm: Earned(replace(one), limits, one.defaults, default) for arm, one in kept.arms.items()}
        return cls(metric.guardrail.name, had, kept.lost_somewhere)

    def mean_of(self, arm: int) -> MetricMean:
        """The same of an arm, with its interval."""
        had = self.had[arm]
        lower, upper = (None if self.lost_somewhere else had.interval) or (None, None)
        return MetricMean(had.known, had.lost, had.mean, lower, upper)


def metrics_of_arms(metrics: list[MetricNumbers], arms: list[int]) -> Iterator[dict[str, MetricMean]]:
    """What each of these arms had of every guardrail."""
    know_intervals(each.had[arm] for each in metrics for arm in arms if arm in each.had)
    for arm in arms:
        yield {each.name: each.mean_of(arm) for each in metrics if arm in each.had}


class ArmNumbers(NamedTuple):
    """What is known of some arms at one moment, in this order; all but `metrics` (n,)."""

    metrics: list[MetricNumbers]
    arms: list[int]
    names: list[str]
    plays: Any
    pending: Any
    logged: Any
    means: Floats
    lcb: Floats
    ucb: Floats
    limits: Limits | None  # of mean rewards
    present: Any

    def rows(self) -> list[ArmView]:
        """The same as rows."""
        return [
            ArmView(
                name=self.names[i],
                plays=int(self.plays[i]),
                pending=int(self.pending[i]),
                logged=int(self.logged[i]),
                mean=finite(mean),
                lcb=finite(lower),
                ucb=finite(upper),
                present=bool(self.present[i]),
                metrics=had,
            )
            for i, (had, (lower, upper, mean)) in enumerate(
                zip(metrics_of_arms(self.metrics, self.arms), self.shown(), strict=True)
            )
        ]

    def shown(self) -> Iterator[tuple[float, ...]]:
        """The ends of each interval and its mean, within the range of means."""
        numbers = np.array([self.lcb, self.ucb, self.means]).T.tolist()
        return (cut(self.limits, *each) for each in numbers)


class ItemNumbers(NamedTuple):
    """The same in a loop with contexts, where an arm has no mean reward of its own, only its plays have."""

    names: Sequence[str]
    earned: list[Earned]
    removed: frozenset[int]
    metrics: list[MetricNumbers]
    limit: int | None
    limits: Limits | None = None  # of mean rewards

    def rows(self) -> list[ArmView]:
        """Every item, in the order of the loop; or the most played ones first, and removed ones last."""
        order = list(range(len(self.names)))
        if self.limit is not None:
            plays = [earned.totals.plays for earned in self.earned]
            order = sorted(order, key=lambda i: (i in self.removed, -plays[i]))[: self.limit]
        know_intervals(self.earned[i] for i in order)
        return [self.row(*each) for each in zip(order, metrics_of_arms(self.metrics, order), strict=True)]

    def row(self, i: int, metrics: dict[str, MetricMean]) -> ArmView:
        """One item."""
        earned, totals = self.earned[i], self.earned[i].totals
        lower, upper = earned.interval or (nan, nan)
        lower, upper, mean = cut(self.limits, lower, upper, nan if earned.mean is None else earned.mean)
        return ArmView(
            name=self.names[i],
            plays=totals.plays,
            pending=totals.plays - totals.closed,
            logged=None,
            mean=finite(mean),
            lcb=finite(lower),
            ucb=finite(upper),
            present=i not in self.removed,
            metrics=metrics,
        )


def arm_numbers(loop: Loop, limit: int | None = None) -> ArmNumbers | ItemNumbers:
    """The numbers of now, which later events do not change: rows can be made of them elsewhere.

    Every arm, in the order of the loop; or so many, the most played ones first, and removed ones last.
    """
    metrics = [MetricNumbers.of(loop.metrics[name], kept) for name, kept in loop.state.metrics.items()]
    if loop.state.items:
        earned = [Earned.by(loop, replace(totals)) for totals in loop.state.items]
        return ItemNumbers(loop.names, earned, loop.arms.removed(), metrics, limit, loop.limits_of_means)
    agent, since, plays = loop.agent, loop.state.since_drift, np.array(loop.state.plays)
    logged, present, arms = agent.offline.pulls, agent.present, np.arange(plays.size)
    if limit is not None:
        arms = first_shown(logged, plays, present, limit)
    shown = arms.tolist()
    mean, lcb, ucb = now(loop, arms) if since is None else means_since(loop, since)[:, arms]
    return ArmNumbers(
        metrics=metrics,
        arms=shown,
        names=[loop.names[arm] for arm in shown],
        plays=plays[arms],
        pending=agent.pending[arms],
        logged=logged[arms],
        means=mean,
        lcb=lcb,
        ucb=ucb,
        limits=loop.limits_of_means,
        present=present[arms],
    )


def first_shown(logged: Ints, plays: Ints, present: Bools, limit: int) -> Ints:
    """(limit,) those that were played most, or else are in the log most; removed ones come last.

    Of a million arms few were ever played: where these are enough, the others are not sorted.
    """
    some = np.flatnonzero(present & ((plays > 0) | (logged > 0)))
    if some.size < limit:
        some = np.arange(plays.size)
    order = np.lexsort((-logged[some], -plays[some], ~present[some]))
    return np.asarray(some[order[:limit]])


def now(loop: Loop, arms: Ints) -> Floats:
    """(3, n) means and the ends of their intervals: by the model, or without it where its bound is doubted.

    Behind a coin nothing rests on the bound, so nothing refuses a false one. Where the range of rewards
    reaches beyond it, the model draws means to 0 and is sure of that: arms of their own go without it.
    """
    agent, limits, bound = loop.agent, loop.limits, loop.agent.confidence.bound
    doubted = agent.gate.throws_coin and limits is not None and max(-limits[0], limits[1]) > bound
    own = agent.own_rewards(arms) if doubted else None
    return agent.estimates(arms) if own is None or limits is None else means_of(own, limits)


def means_of(own: Floats, limits: Limits) -> Floats:
    """(3, n) means and the ends of their intervals, at any time, by rewards with these sums; NaN: none."""
    found, known = np.full(own.shape, np.nan), own[0] > 0
    counts, sums, lost = own[:, known]
    least, most = (
        mean_intervals([Sum(total, n, inf, limits) for total, n in zip(totals.tolist(), counts, strict=True)])
        for totals in (sums - lost, sums + lost)  # of their squares nothing is known by arm: the worst
    )
    ends = [(low, high) for (low, _), (_, high) in zip(least, most, strict=True)]
    found[:, known] = sums / counts, *np.array(ends).reshape(-1, 2).T
    return found


def means_since(loop: Loop, since: dict[int, RewardTotals]) -> Floats:
    """(3, k) means and the ends of their intervals, by what was earned since the drift alarm; NaN: not known.

    An interval needs a range of rewards: few plays of each arm are no ground for a normal one.
    """
    found = means, lower, upper = np.full((3, len(loop.names)), np.nan)
    by_arm = {arm: Earned.by(loop, totals) for arm, totals in since.items()}
    ends = {arm: earned.sums for arm, earned in by_arm.items()}
    known = mean_interval_of.know(each for sums in ends.values() for each in sums or ())
    for arm, earned in by_arm.items():
        means[arm] = np.nan if earned.mean is None else earned.mean
        if sums := ends[arm]:
            lower[arm], upper[arm] = known[sums[0]][0], known[sums[1]][1]
    return np.array(found)


def arm_views(loop: Loop, limit: int | None = None) -> list[ArmView]:
    """The arms of now."""
    return arm_numbers(loop, limit).rows()
