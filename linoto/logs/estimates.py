"""What one method says of a target: the value, an interval around it, and how much the log could say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import ceil, exp, inf, isfinite, log, sqrt
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from linoto.core.arrays import Bools, Floats
from linoto.core.hints import amount, shortened_list
from linoto.core.intervals import (
    Limits,
    MeanSequence,
    betting_interval,
    check_level,
    guided_interval,
    mean_from_total,
)
from linoto.core.validation import as_range, check_choice, exact, interval_text
from linoto.logs.plays import Plays
from linoto.logs.rows import Rows
from linoto.logs.targets import Target, as_plays, needed_propensities

INTERVAL_KINDS = ("auto", "normal", "bernstein", "hoeffding")
LEAST_EVENTS = 10  # below it an interval that holds is still too wide to act on
CANNOT_TELL = "cannot tell"
LARGEST_TAIL = 0.5  # of Hill: from it on rewards have no variance, and no number of rows makes a mean normal
LEAST_EVENTS_NORMAL = 100  # below it a normal interval may miss far too often
ALL_CERTAIN = (
    "every propensity is 1: only what was logged can be evaluated, because no other arm could have been "
    "played; log with an explorer that draws (SquareCB, LinTS, Random) or with a control group"
)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the target earns per round according to one method, and how much the log could say about it."""

    method: str
    value: float
    low: float
    high: float
    level: float
    interval: str  # its kind: see Interval
    holds: str  # when it covers as surely as it says
    rows: int
    used: int  # rows that count: accepted ones, or those with a weight
    effective: float  # (sum w)^2 / sum w^2: so many rows logged by the target itself would say as much
    events: float  # the same over rows whose reward is not the usual one, if more than half have it
    enough: bool  # whether there are enough events, and an interval narrow enough, to act on the value
    reason: str  # why not
    largest_weight: float
    mean_weight: float  # 1 on average where the propensities are right
    weights_fit: bool  # whether it is within five standard errors of 1
    unseen: float  # share of the target on arms that no row shows
    learnt: str = ""  # from which rows, where the target was learnt from some: others than it is judged by
    metric: str = ""  # what is estimated, where it is not the reward
    beyond: str = ""  # beyond what: it is a difference, of the target and of this baseline
    doubt: str = ""  # what the weights of that baseline say against the propensities, if anything

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        rare = ("metric", "beyond", "doubt")
        return {name: value for name, value in asdict(self).items() if value or name not in rare}


class Found(NamedTuple):
    """An interval, and which kind it became."""

    low: float
    high: float
    kind: str
    contradicts: str = ""  # how it contradicts the range of rewards, if it does


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Which interval, and how surely it covers.

    "auto" holds at every number of rows where rewards are known to be bounded: a `reward_range` is given, or
    every reward is 0 or 1. It becomes "binomial" (Clopper and Pearson) for 0/1 rewards that weigh the same,
    "anytime" for a target that learns, otherwise "betting"; `linoto.core.intervals` has the proofs. Where
    rewards may be anything it becomes "normal".

    "normal" is the value ± z standard errors: right in the limit of many rows. "bernstein" (the empirical
    bound of Maurer and Pontil 2009, Theorem 4, on both sides) and "hoeffding" (with Azuma) hold for any
    number of rows, are there to compare with, and need a `reward_range`.

    All but "normal" assume that an arm is never less likely than in the row where it was least likely. An arm
    that no row shows may earn anything in the range, unless logging was uniform.
    """

    kind: Literal["auto", "normal", "bernstein", "hoeffding"] = "auto"
    level: float = 0.95
    reward_range: Limits | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, INTERVAL_KINDS)
        check_level(self.level)
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", as_range(self.reward_range))
        elif self.kind in ("bernstein", "hoeffding"):
            raise ValueError(f"reward_range must be given for a {self.kind} interval, got None")

    def limits(self, rewards: Floats) -> Limits:
        """Where single rewards lie, these among them."""
        if self.reward_range is None and self.kind == "auto" and np.isin(rewards, (0.0, 1.0)).all():
            return 0.0, 1.0
        low, high = self.reward_range or (-inf, inf)
        if rewards.min() < low or rewards.max() > high:
            found = f"[{exact(rewards.min())}, {exact(rewards.max())}]"
            raise ValueError(f"rewards must be in reward_range {(low, high)}, got {found}")
        return low, high

    def around(self, value: float, terms: Floats, width: float) -> Found:
        """The interval around the mean of terms (n,) that lie within `width` of each other."""
        kind = "normal" if self.kind == "auto" else self.kind
        error, n, miss = standard_error(terms), terms.size, 1 - self.level
        half = NormalDist().inv_cdf((1 + self.level) / 2) * error
        if kind == "hoeffding":
            half = width * sqrt(log(2 / miss) / (2 * n))
        elif kind == "bernstein":
            half = sqrt(2 * log(4 / miss)) * error + 7 * width * log(4 / miss) / (3 * (n - 1))
        return Found(value - half, value + half, kind)


def standard_error(terms: Floats) -> float:
    """Of the mean of terms (n,)."""
    if terms.size < 2:
        raise ValueError(f"rows must leave at least two to judge by, got {terms.size}")
    return float(terms.std(ddof=1)) / sqrt(terms.size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Rows seen from a target."""

    rows: Rows
    target: Plays
    weights: Floats  # (n,) target over propensity of the logged arm
    ceilings: Floats  # (k,) the largest weight a row of each arm could have, 0 where nothing is known
    unknown: float  # share of the target on arms of which nothing is known
    interval: Interval
    limits: Limits  # of single rewards; infinite where they may be anything
    learns: bool = False  # what is played in a row depends on what earlier ones earned
    before: Rows | None = None  # rows before these, from which a target that learns began

    @classmethod
    def of(
        cls, rows: Rows, target: Target, method: str, interval: Interval, *, before: Rows | None = None
    ) -> Weighted:
        """Refuse what the method cannot do without.

        With rows `before` these, the target learns from row to row. Bounds on its terms are those of any
        target: what it will play is not known yet.
        """
        learns = before is not None
        if learns and interval.kind == "bernstein":
            raise ValueError("interval must not be bernstein for a target that learns, got 'bernstein'")
        limits = interval.limits(rows.rewards)
        propensities = needed_propensities(rows, method)
        plays = as_plays(target, rows, method)
        weights = plays.of_logged(rows) / propensities
        if not weights.any():
            raise ValueError(
                f"rows must show at least one arm that the target plays there, got none: {seen_in(rows)}"
            )
        least = least_propensities(rows, propensities)
        most = np.ones(rows.k) if learns else plays.most
        return cls(
            rows=rows,
            target=plays,
            weights=weights,
            ceilings=np.divide(most, least, out=np.zeros(rows.k), where=least > 0),
            unknown=plays.share_of(least == 0),
            interval=interval,
            limits=limits,
            learns=learns,
            before=before,
        )

    def about(self, metric: str, interval: Interval) -> Weighted:
        """The rows that have a value of a metric, seen from the same target."""
        known, rows = np.isfinite(self.rows.metrics[metric]), self.rows.about(metric)
        counts, left = (np.bincount(some.arms, minlength=rows.k) for some in (self.rows, rows))
        plays = self.target.take(known)
        return replace(
            self,
            rows=rows,
            target=plays,
            unknown=plays.share_of((self.ceilings == 0) | ((counts > 0) & (left == 0))),
            weights=self.weights[known],
            interval=interval,
            limits=interval.limits(rows.rewards),
            before=None if self.before is None else self.before.about(metric),
        )

    @property
    def ceiling(self) -> float:
        """The largest weight any row could have."""
        return float(self.ceilings.max())

    @property
    def bounded(self) -> bool:
        """Whether the interval is one that holds at every number of rows, of our own choice."""
        return self.interval.kind == "auto" and isfinite(self.limits[0])

    @property
    def alike(self) -> bool:
        """Whether rows can only count alike or not at all."""
        if self.learns:
            return False
        possible = np.concatenate((self.weights, self.ceilings))
        return bool((possible[possible > 0] >= (1 - 1e-9) * self.ceiling).all())

    @property
    def surely_kept(self) -> float:
        """The weight from which a row is surely kept by a replay: no row could have a larger one.

        Where targets and propensities differ from row to row, a largest weight of all would leave few rows,
        and the largest one seen is taken.
        """
        per_row = self.target.per_row and np.ptp(np.asarray(self.rows.propensities)) > 0
        return float(self.weights.max()) if per_row else self.ceiling

    def mean_of(self, terms: Floats, limits: Limits, *, plain: bool = False, centred: bool = False) -> Found:
        """The interval of the mean of terms (n,) that lie within limits; of a `plain` mean the audit's.

        Of a target that learns: of the average of their means, each given all earlier rows; `centred` where
        weights are of what rewards are beyond a guess.
        """
        options: dict[str, Any] = {"reward_range": limits, "level": self.interval.level}
        if not self.bounded:
            return self.interval.around(float(terms.mean()), terms, limits[1] - limits[0])
        terms = np.clip(terms, *limits)  # they are within, but for rounding
        if self.before is not None:
            guess, spread = self.guess(self.before, centred)
            ends = guided_interval(terms, guess=guess, spread=spread, **options)
            return Found(*ends, "anytime")
        if self.learns:
            stream = MeanSequence.of(terms, reward_range=limits)
            return Found(*stream.interval(self.interval.level), "anytime")
        if plain:
            sums = float(terms.sum()), terms.size
            ends = mean_from_total(*sums, squares=float(terms @ terms), **options)
            return Found(*ends, "binomial" if np.isin(terms, limits).all() else "betting")
        return Found(*betting_interval(terms, **options), "betting")

    def guess(self, before: Rows, centred: bool) -> tuple[float, float]:
        """About the mean of terms and their deviation: from earlier rows, and one in the middle."""
        low, high = self.limits
        rewards = np.append(before.rewards, (low + high) / 2)
        beyond = float(rewards.mean()) if centred else 0.0
        square = (((before.rewards - beyond) ** 2).sum() + ((high - low) / 2) ** 2) / rewards.size
        weight = np.mean(1 / needed_propensities(before, "a guess"))  # about that of w^2
        return float(rewards.mean()), sqrt(weight * square)

    def with_unknown(self, found: Found, low: float, high: float, known: float = 1.0) -> Found:
        """The interval of all arms from that of the known ones, if others earn between low and high.

        A range that bounds every reward bounds their mean, whatever a few heavy weights say. An interval
        without a value of the range says nothing: chance, propensities or the range itself are to blame.
        """
        if found.kind == "normal":
            return found
        ends = (known * found.low + self.unknown * low, known * found.high + self.unknown * high)
        least, most = self.limits if self.bounded else (-inf, inf)
        if ends[0] > most or ends[1] < least:
            said = f"its interval, [{ends[0]:.4g}, {ends[1]:.4g}], is beyond the range of rewards"
            return Found(least, most, found.kind, f"{said}, {interval_text((least, most))}")
        return Found(self.within(ends[0]), self.within(ends[1]), found.kind)

    def within(self, mean: float) -> float:
        """A mean reward, or the end of the range beyond which it lies: that is nearer to the true one.

        Large weights and the corrections of a model can lead out of the range, to "-0.0003 clicks".
        """
        least, most = self.limits if self.bounded else (-inf, inf)
        return min(max(mean, least), most)

    def estimate(
        self,
        method: str,
        value: float,
        found: Found,
        *,
        used: int | None = None,
        kept: Bools | None = None,
        proven: bool = True,
    ) -> Estimate:
        """An estimate with what a reader needs to judge it; `kept` are the rows of a replay."""
        value, counting = self.within(value), self.weights > 0 if kept is None else kept
        shares = self.weights[counting] if kept is None else np.ones(int(kept.sum()))
        used = int(counting.sum()) if used is None else used
        wide = self.too_wide(value, found)
        return self.judged(method, value, found, shares, self.rows.rewards[counting], wide, used, proven)

    def judged(
        self,
        method: str,
        value: float,
        found: Found,
        shares: Floats,
        rewards: Floats,
        wide: str,
        used: int,
        proven: bool,
    ) -> Estimate:
        """The same of rewards that count by so many shares; `wide` says why the interval is too wide."""
        events, reason = count_events(rewards, shares, found.kind) if shares.size else (0.0, "")
        if found.contradicts:
            reason = f"{CANNOT_TELL}: {found.contradicts}"
        reason = reason or wide
        if not reason and found.kind == "normal" and shares.size:
            reason = too_skewed(rewards, events)
        mean, fits = fit_of(self.weights)
        return Estimate(
            method=method,
            value=value,
            low=found.low,
            high=found.high,
            level=self.interval.level,
            interval=found.kind,
            holds=self.when(found.kind, proven),
            rows=len(self.rows),
            used=used,
            effective=kish(shares),
            events=events,
            enough=not reason,
            reason=reason,
            largest_weight=float(self.weights.max()),
            mean_weight=mean,
            weights_fit=fits,
            unseen=self.target.share_of(np.bincount(self.rows.arms, minlength=self.rows.k) == 0),
        )

    def too_wide(self, value: float, found: Found, whose: str = "the value") -> str:
        """Why the interval of a bounded mean is too wide to act on, if it is."""
        low, high = self.limits
        room, width = min(value - low, high - value), found.high - found.low
        if found.kind == "normal" or width <= 2 * room:
            return ""
        end = low if value - low <= high - value else high
        return (
            f"too uncertain to say: the interval is {three_digits(width)} wide, more than twice the "
            f"{three_digits(max(room, 0.0))} between {whose} and {exact(end)}, the end of the range"
        )

    def when(self, kind: str, proven: bool) -> str:
        """When an interval of this kind covers as surely as it says."""
        if kind == "normal":
            return "in the limit of many rows"
        low, high = self.limits
        given = "as given" if self.interval.reward_range is not None else "every reward is 0 or 1"
        rows = "for any number of rows" if proven else "in simulations from 40 rows on"
        return f"{rows}, if propensities are right and rewards lie in {interval_text((low, high))} ({given})"


def fit_of(weights: Floats) -> tuple[float, bool]:
    """The mean of weights, and whether it is within five standard errors of 1."""
    mean = float(weights.mean())
    return mean, bool(abs(mean - 1) <= 5 * weights.std() / sqrt(weights.size) + 1e-9)


def three_digits(width: float) -> str:
    """A width for people, without a power of ten where a price may be meant."""
    return amount(float(f"{width:.3g}"))


def count_events(rewards: Floats, weights: Floats, kind: str) -> tuple[float, str]:
    """How many events are among the rows that count, and why these are too few, if they are."""
    values, counts = np.unique(rewards, return_counts=True)
    common, usual = float(values[counts.argmax()]), 2 * counts.max() > rewards.size
    event = rewards != common if usual else np.ones(rewards.size, np.bool_)  # no usual reward: all are events
    events, least = kish(weights[event]), LEAST_EVENTS_NORMAL if kind == "normal" else LEAST_EVENTS
    if events >= least:
        return events, ""
    seen = int(event.sum())
    worth = "" if events > seen - 0.5 else f", worth {events:.3g} by their weights"
    if not usual:
        return events, f"too few rows to say: {seen:,} rewards count{worth}; it takes {least}"
    rare = f"{seen:,} of the {rewards.size:,} rewards that count differ from {common:g}{worth}"
    return events, f"too few events to say: {rare}; it takes {least}"


def too_skewed(rewards: Floats, events: float) -> str:
    """Why the normal interval of rewards that count as so many events may miss far more often than it says.

    Hill's estimate of the tail is the mean logarithm of how much further from the mean the k largest are than
    the next one, with k = sqrt(events); it has the standard error 1 / sqrt(k) of itself. Two of them above it
    there must still be a variance. The sample skewness is no such screen: it is small where the largest
    values happen to be missing, and these are the logs whose interval lies too low.
    """
    k = ceil(sqrt(events))
    furthest = np.sort(np.abs(rewards - rewards.mean()))[-k - 1 :]
    tail, most = float(np.log(furthest[1:] / furthest[0]).mean()), LARGEST_TAIL / (1 + 2 / sqrt(k))
    if tail <= most:
        return ""
    return (
        f"too skewed to say: the {k:,} rewards furthest from their mean are {exp(tail):.3g} times as far as "
        f"the next one (geometric mean), and a normal interval bears {exp(most):.3g}; give the range of "
        "rewards, if known"
    )


def kish(weights: Floats) -> float:
    """(sum w)^2 / sum w^2: how many equal weights would say as much; 0 without any."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def least_propensities(rows: Rows, propensities: Floats) -> Floats:
    """(k,) the least propensity seen of each arm; 0 where no row shows it and logging was not uniform."""
    if np.allclose(propensities, 1 / rows.k, rtol=1e-9, atol=0):
        return np.full(rows.k, 1 / rows.k)
    least = np.full(rows.k, inf)
    np.minimum.at(least, rows.arms, propensities)
    return np.where(np.isfinite(least), least, 0.0)


def seen_in(rows: Rows) -> str:
    """Which arms rows show, the most frequent first; and why no others, where propensities say it."""
    counts = np.bincount(rows.arms, minlength=rows.k)
    most = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    shown = shortened_list([f"{rows.name(int(arm))} ({counts[arm]:,} times)" for arm in most])
    return f"they show {shown}" + (f"; {ALL_CERTAIN}" if rows.all_certain else "")
