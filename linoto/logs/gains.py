"""What a target earns beyond a baseline, on the same rows: an answer that neither value gives alone.

Two intervals that overlap say little, since both targets were judged by the same rows. Here every row says
what it makes of the difference: with weights w of the target and b of the baseline

    ips   (w - b) r
    dr    sum_a (target(a) - baseline(a)) model(a) + (w - b) (r - model(played))

The baseline may be what was logged: then b = 1, and what a row says of it is its reward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.intervals import Limits, betting_interval, guided_interval
from linoto.core.learnt import LearntPolicy
from linoto.core.validation import exact, interval_text
from linoto.logs.estimates import (
    CANNOT_TELL,
    Estimate,
    Found,
    Interval,
    Weighted,
    count_events,
    kish,
    three_digits,
    too_skewed,
)
from linoto.logs.fits import Fitted, fit_earlier_blocks, fit_other_folds
from linoto.logs.learning import choices_by_block
from linoto.logs.odd_weights import of_metric, only_if_weights_fit
from linoto.logs.plays import Plays
from linoto.logs.row_kinds import Practice
from linoto.logs.rows import Rows
from linoto.logs.targets import Target, as_plays, is_learnt, is_policy, taught

METHODS = ("ips", "dr")  # those whose rows have a term each
LOGGED = "logged"  # the baseline that is what the rows show


def check_baseline(target: Target, baseline: Target, methods: Sequence[str] | None) -> None:
    """Refuse what has no difference row by row."""
    if is_policy(target):
        raise ValueError(
            "baseline must be None for a policy that learns as it plays, which a replay judges by other rows "
            "than its baseline"
        )
    if is_policy(baseline):
        raise ValueError(
            f"baseline must be an arm, probabilities, 'logged', a function or what was learnt, got "
            f"{type(baseline).__name__}, which learns as it plays"
        )
    if methods is not None and not set(methods) & set(METHODS):
        raise ValueError(f"methods must have ips or dr for a baseline, got {', '.join(methods)}")


def gains_over(
    rows: Rows,
    target: Target,
    baseline: Target,
    *,
    methods: Sequence[str] | None,
    interval: Interval,
    intervals: Mapping[str, Interval],
    folds: int,
    ridge: float,
    model: Floats | None,
    practice: Practice,
    seed: int,
) -> list[Estimate]:
    """What the target earns beyond the baseline, and what it has more of each metric.

    Where one of them is learnt from earlier rows, both are judged by the rows after the first block.
    """
    asked = [method for method in methods or METHODS if method in METHODS]
    if "dr" in asked and model is None and interval.kind not in ("auto", "normal"):
        raise ValueError(f"interval must be auto or normal for dr with a fitted model, got {interval.kind!r}")
    options: dict[str, Any] = {"practice": practice, "seed": seed}
    before, proven = None, True
    if is_learnt(target) or is_learnt(baseline):
        fitted, before = fit_earlier_blocks(rows, blocks=folds, ridge=ridge)
    elif model is not None or "dr" not in asked:
        known = np.zeros(rows.k) if model is None else model
        fitted = Fitted(rows=rows, parts=[np.arange(len(rows))], predicted=[known])
    else:
        fitted, proven = fit_other_folds(rows, folds=folds, ridge=ridge), False

    def seen_from(one: Target, what: str) -> Weighted:
        try:
            plays = plays_in(one, rows, fitted, ridge, options)
            return Weighted.of(fitted.rows, plays, "a gain", interval, before=before)
        except ValueError as error:
            raise ValueError(str(error).replace("target", what, 1)) from None

    mine = seen_from(target, "target")
    other = None if is_logged(baseline) else seen_from(baseline, "baseline")
    by_rows = taught(target), f"baseline: {taught(baseline)}" if taught(baseline) else ""
    named = {"beyond": described(baseline, rows), "learnt": "; ".join(filter(None, by_rows))}
    pair = Pair(mine=mine, other=other, **named)
    calls: dict[str, Callable[[], Estimate]] = {
        "ips": pair.by_weights,
        "dr": lambda: pair.by_model(fitted, proven=proven),
    }
    found = [calls[method]() for method in asked]
    for metric, own in intervals.items():
        if "ips" in asked:
            found.append(of_metric(pair.about(metric, own).by_weights(), metric, fitted.rows))
    return found


def plays_in(target: Target, rows: Rows, fitted: Fitted, ridge: float, options: Mapping[str, Any]) -> Plays:
    """What is played in the rows that are judged, by what was fixed or is learnt before each block."""
    if not is_learnt(target):
        plays = as_plays(target, rows, "a gain", **options)
        return plays.take(np.arange(len(rows) - len(fitted.rows), len(rows)))
    return choices_by_block(rows, fitted, target, ridge)


def is_logged(baseline: Target) -> bool:
    """Whether the baseline is what the rows show."""
    return isinstance(baseline, str) and baseline == LOGGED


def described(baseline: Target, rows: Rows) -> str:
    """What a baseline is called."""
    if is_logged(baseline):
        return "what was logged"
    if is_learnt(baseline):
        return f"what is learnt ({baseline})"
    if isinstance(baseline, LearntPolicy):
        return f"what was learnt ({baseline.method})"
    if isinstance(baseline, int | np.integer):
        return rows.name(int(baseline))
    return f"arm {baseline!r}" if isinstance(baseline, str) else "the baseline"


@dataclass(frozen=True, kw_only=True, eq=False)
class Pair:
    """Rows seen from a target and from its baseline; from what was logged, if that is None."""

    mine: Weighted
    other: Weighted | None
    beyond: str
    learnt: str

    def about(self, metric: str, interval: Interval) -> Pair:
        """The rows that have a value of a metric, seen from both."""
        other = None if self.other is None else self.other.about(metric, interval)
        return replace(self, mine=self.mine.about(metric, interval), other=other)

    @property
    def weights(self) -> Floats:
        """(n,) of the baseline."""
        return np.ones(len(self.mine.rows)) if self.other is None else self.other.weights

    @property
    def difference(self) -> Floats:
        """(n,) of the weights."""
        return self.mine.weights - self.weights

    @property
    def ceilings(self) -> tuple[Floats, Floats]:
        """(k,) how large weights of each arm could be, of the target and of its baseline."""
        most = self.mine.ceilings
        return most, np.ones_like(most) if self.other is None else self.other.ceilings

    def by_weights(self) -> Estimate:
        """The mean of (w - b) r."""
        rewards, (low, high) = self.mine.rows.rewards, self.mine.limits
        low, high = min(low, 0.0), max(high, 0.0)  # a row without weight earns 0
        most, others = (float(ends.max()) for ends in self.ceilings)
        limits = (min(most * low, -others * high), max(most * high, -others * low))
        slack = self.slack((low, high))
        base = float((self.weights * rewards).mean())
        return self.estimate("ips", self.difference * rewards, limits, slack, base)

    def by_model(self, fitted: Fitted, *, proven: bool) -> Estimate:
        """The difference by a model, corrected by weighted rewards beyond what it says."""
        (low, high), rewards = self.mine.limits, self.mine.rows.rewards
        model = fitted.clipped(low, high)
        others = rewards if self.other is None else model.corrected(self.other.target, self.other.weights)
        terms = model.corrected(self.mine.target, self.mine.weights) - others
        slack, base = self.slack((low - high, high - low)), float(others.mean())
        return self.estimate("dr", terms, self.limits_by(model), slack, base, proven=proven)

    def limits_by(self, model: Fitted) -> Limits:
        """Where a term of `by_model` lies, whatever the row: for each arm that may have been played."""
        low, high = self.mine.limits
        if not self.mine.bounded:
            return 0.0, (high - low) * (1 + 2 * max(self.mine.ceiling, float(self.ceilings[1].max())))
        least, most = model.ends
        if self.mine.learns:
            least, most = np.full_like(least, low), np.full_like(most, high)  # it may say anything
        up, down = high - least, most - low  # how far a reward of the arm is above what is expected, or below
        mine, others = self.ceilings
        if self.other is None:  # expected + w (r - expected) - r
            above, below = float((mine * up).max()), float((mine * down).max())
            return float(least.min()) - below - high, float(most.max()) + above - low
        spread = float(most.max() - least.min())
        reach = spread + float(np.maximum(mine * up, others * down).max())
        return -spread - float(np.maximum(mine * down, others * up).max()), reach

    def slack(self, earned: Limits) -> Limits:
        """What arms may add of which no row tells, if they earn between these beyond what is counted."""
        mine = self.mine.unknown
        others = 0.0 if self.other is None else self.other.unknown
        least, most = (mine * earned[0], mine * earned[1]) if mine else (0.0, 0.0)
        return (least - others * earned[1], most - others * earned[0]) if others else (least, most)

    def interval_of(self, terms: Floats, limits: Limits, slack: Limits) -> Found:
        """The interval of the mean of terms, within what differences of rewards can be."""
        mine, value = self.mine, float(terms.mean())
        if not mine.bounded:
            return mine.interval.around(value, terms, limits[1] - limits[0])
        level, room = mine.interval.level, mine.limits[1] - mine.limits[0]
        if mine.before is not None:
            spread = sqrt(2) * mine.guess(mine.before, centred=True)[1]
            ends = guided_interval(terms, guess=0.0, spread=spread, reward_range=limits, level=level)
        else:
            ends = betting_interval(terms, reward_range=limits, level=level)
        low, high = ends[0] + slack[0], ends[1] + slack[1]
        kind = "betting" if mine.before is None else "anytime"
        if low > room or high < -room:
            said = f"its interval, [{low:.4g}, {high:.4g}], is beyond what rewards can differ by"
            return Found(-room, room, kind, f"{said}, {interval_text((-room, room))}")
        return Found(max(low, -room), min(high, room), kind)

    def estimate(
        self, method: str, terms: Floats, limits: Limits, slack: Limits, base: float, *, proven: bool = True
    ) -> Estimate:
        """An estimate of the difference; `base` is what the baseline is said to earn by the same method."""
        mine, other, rows = self.mine, self.other, self.mine.rows
        room = mine.limits[1] - mine.limits[0] if mine.bounded else inf
        found = self.interval_of(terms, limits, slack)
        value = min(max(float(terms.mean()), -room), room)
        difference = np.abs(self.difference)
        counting = difference > 0
        some = counting if counting.any() else np.ones_like(counting)
        events, reason = count_events(rows.rewards[some], difference[some], found.kind)
        if not counting.any():
            reason = ""  # they play the same: the difference is known
        if found.contradicts:
            reason = f"{CANNOT_TELL}: {found.contradicts}"
        reason = reason or self.too_wide(base, found)
        if not reason and found.kind == "normal" and counting.any():
            reason = too_skewed(rows.rewards[counting], events)
        mean, fits = fit_of(mine.weights)
        if other is not None and fits:
            mean, fits = fit_of(other.weights)
        seen = np.bincount(rows.arms, minlength=rows.k) > 0
        return only_if_weights_fit(
            Estimate(
                method=method,
                value=value,
                low=found.low,
                high=found.high,
                level=mine.interval.level,
                interval=found.kind,
                holds=mine.when(found.kind, proven),
                rows=len(rows),
                used=int(counting.sum()) if method == "ips" else len(rows),
                effective=kish(difference),
                events=events,
                enough=not reason,
                reason=reason,
                largest_weight=float(difference.max()),
                mean_weight=mean,
                weights_fit=fits,
                unseen=max(one.target.share_of(~seen) for one in (mine, other) if one is not None),
                learnt=self.learnt,
                beyond=self.beyond,
            )
        )

    def too_wide(self, base: float, found: Found) -> str:
        """Why a bounded interval is too wide to act on, beside what the baseline earns."""
        low, high = self.mine.limits
        width, room = found.high - found.low, min(base - low, high - base)
        if found.kind == "normal" or width <= 2 * room or found.low > 0 or found.high < 0:
            return ""
        end = low if base - low <= high - base else high
        return (
            f"too uncertain to say: the interval is {three_digits(width)} wide, more than twice the "
            f"{three_digits(max(room, 0.0))} between what {self.beyond} earns and {exact(end)}, the end of "
            "the range"
        )


def fit_of(weights: Floats) -> tuple[float, bool]:
    """The mean of weights, and whether it is within five standard errors of 1."""
    mean = float(weights.mean())
    return mean, bool(abs(mean - 1) <= 5 * weights.std() / sqrt(weights.size) + 1e-9)
