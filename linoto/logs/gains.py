"""What a target earns beyond a baseline, on the same rows: an answer that neither value gives alone.

Two intervals that overlap say little, since both targets were judged by the same rows. Here every row says
what it makes of the difference: with weights w of the target and b of the baseline

    ips   (w - b) r
    dr    sum_a (target(a) - baseline(a)) model(a) + (w - b) (r - model(played))

The baseline may be what was logged: then b = 1, and what a row says of it is its reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.intervals import Limits, MeanSequence, betting_interval, guided_interval
from linoto.core.learnt import LearntPolicy
from linoto.core.validation import interval_text
from linoto.logs.doubts import far_from_1
from linoto.logs.estimates import Estimate, Found, Interval, Weighted, fit_of, kish
from linoto.logs.fits import Fitted, fit_earlier_blocks, fit_other_folds
from linoto.logs.learning import choices_by_block, said_of_blocks
from linoto.logs.odd_weights import of_metric, only_if_weights_fit
from linoto.logs.plays import OneArm, Plays, Shares, are_same
from linoto.logs.row_kinds import Practice
from linoto.logs.rows import Rows
from linoto.logs.targets import (
    Target,
    Word,
    as_plays,
    is_learnt,
    is_policy,
    per_arm,
    place_of,
    places_in,
    taught,
)

ROW_BY_ROW = ("ips", "dr")  # methods whose rows have a term each
LOGGED = "logged"  # the baseline that is what the rows show


def check_baseline(
    rows: Rows, target: Target, baseline: Target, methods: Sequence[str] | None, interval: Interval
) -> None:
    """Refuse what has no difference row by row, and a word that is an arm, too."""
    for what, one, words in (("target", target, ()), ("baseline", baseline, (LOGGED,))):
        says_word = isinstance(one, str) and (is_learnt(one) or one in words)
        if says_word and not isinstance(one, Word) and one in (rows.names or ()):
            raise ValueError(
                f"{what} must be clear, got {one!r}, which is an arm and more: the arm is {{{one!r}: 1}}, "
                f"the word is linoto.logs.evaluate.Word({one!r})"
            )
    if baseline is None:
        return
    if is_policy(target):
        raise ValueError(
            "baseline must be None for a policy that learns as it plays, which a replay judges by other rows "
            "than its baseline"
        )
    if is_policy(baseline):
        raise ValueError(
            f"baseline must be an arm, probabilities, {LOGGED!r}, a function or what was learnt, got "
            f"{type(baseline).__name__}, which learns as it plays"
        )
    if is_logged(baseline) and interval.kind == "bernstein":
        raise ValueError(
            "interval must not be bernstein beyond what was logged, whose mean may move, got 'bernstein'"
        )
    if methods is not None and not set(methods) & set(ROW_BY_ROW):
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
    model: npt.ArrayLike | None,
    practice: Practice,
    seed: int,
    learnt: str,
) -> list[Estimate]:
    """What the target earns beyond the baseline, and what it has more of each metric.

    Where one of them is learnt from earlier rows, both are judged by the rows after the first block.
    """
    asked, in_blocks = [one for one in methods or ROW_BY_ROW if one in ROW_BY_ROW], False
    textbook = interval.kind not in ("auto", "normal")
    if is_learnt(target) or is_learnt(baseline):
        (fitted, before), in_blocks = fit_earlier_blocks(rows, blocks=folds, ridge=ridge), True
        if interval.kind == "bernstein":
            raise ValueError("interval must not be bernstein where something learns, got 'bernstein'")
    elif model is not None or "dr" not in asked:
        known = np.zeros(rows.k) if model is None else per_arm("model", model, rows)
        fitted, before = Fitted(rows=rows, parts=[np.arange(len(rows))], predicted=[known]), None
    else:
        fitted, before = fit_other_folds(rows, folds=folds, ridge=ridge), None
    if textbook and "dr" in asked and (model is None or in_blocks):
        raise ValueError(f"interval must be auto or normal for dr with a fitted model, got {interval.kind!r}")

    def seen_from(what: str, one: Target) -> Weighted:
        try:
            plays = plays_in(one, rows, fitted, ridge, practice, seed)
            return Weighted.of(fitted.rows, plays, "a gain", interval, before=before)
        except ValueError as error:  # whatever is wrong with it is said of a target
            raise ValueError(str(error).replace("target", what, 1)) from None

    def said(one: Target, known: str) -> str:
        return said_of_blocks(one, folds, before) if before is not None and is_learnt(one) else known

    by = said(baseline, taught(baseline))
    pair = Pair(
        mine=seen_from("target", target),
        other=None if is_logged(baseline) else seen_from("baseline", baseline),
        beyond=described(baseline, rows),
        learnt="; ".join(filter(None, (said(target, learnt), by and f"baseline: {by}"))),
    )
    proven = in_blocks or model is not None
    found = [pair.by_weights() if one == "ips" else pair.by_model(fitted, proven=proven) for one in asked]
    for metric, own in intervals.items() if "ips" in asked else ():
        found.append(of_metric(pair.about(metric, own).by_weights(), metric, fitted.rows))
    return found


def plays_in(
    target: Target, rows: Rows, fitted: Fitted, ridge: float, practice: Practice, seed: int
) -> Plays:
    """What is played in the rows that are judged, by what was fixed or is learnt before each block."""
    if not is_learnt(target):
        plays = as_plays(target, rows, "a gain", practice=practice, seed=seed)
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
    if isinstance(baseline, str):
        return f"arm {baseline!r}"
    arm = only_arm(baseline, rows)
    return "the baseline" if arm is None else rows.name(arm)


def only_arm(baseline: Target, rows: Rows) -> int | None:
    """The arm that a baseline always plays, where that is plain to see."""
    if isinstance(baseline, int | np.integer):
        return int(baseline)
    if isinstance(baseline, Mapping) and len(baseline) == 1:
        return place_of(next(iter(baseline)), rows, places_in(rows))
    if isinstance(baseline, OneArm):
        return int(baseline.arms[0]) if (baseline.arms == baseline.arms[0]).all() else None
    if isinstance(baseline, Shares) and not baseline.per_row and baseline.values.max() == 1:
        return int(baseline.values.argmax())
    return None


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
    def ceilings(self) -> tuple[Floats, Floats]:
        """(k,) how large weights of each arm could be, of the target and of its baseline."""
        most = self.mine.ceilings
        return most, np.ones_like(most) if self.other is None else self.other.ceilings

    @property
    def width(self) -> float:
        """How much rewards can differ by: infinite where they may be anything."""
        return self.mine.limits[1] - self.mine.limits[0]

    def by_weights(self) -> Estimate:
        """The mean of (w - b) r."""
        rewards, (low, high) = self.mine.rows.rewards, self.mine.limits
        low, high = min(low, 0.0), max(high, 0.0)  # a row without weight earns 0
        most, others = (float(ends.max()) for ends in self.ceilings)
        limits = (min(most * low, -others * high), max(most * high, -others * low))
        base = float((self.weights * rewards).mean())
        terms = (self.mine.weights - self.weights) * rewards
        return self.estimate("ips", terms, limits, self.slack(low, high), base)

    def by_model(self, fitted: Fitted, *, proven: bool) -> Estimate:
        """The difference by a model, corrected by weighted rewards beyond what it says."""
        (low, high), rewards = self.mine.limits, self.mine.rows.rewards
        model = fitted.clipped(low, high)
        others = rewards if self.other is None else model.corrected(self.other.target, self.other.weights)
        terms, base = model.corrected(self.mine.target, self.mine.weights) - others, float(others.mean())
        slack = self.slack(low - high, high - low)
        return self.estimate("dr", terms, self.limits_by(model), slack, base, proven=proven)

    def limits_by(self, model: Fitted) -> Limits:
        """Where a term of `by_model` lies, whatever the row: for each arm that may have been played."""
        low, high = self.mine.limits
        if not isfinite(self.width):
            return -inf, inf
        least, most = model.ends
        if self.mine.learns:
            least, most = np.full_like(least, low), np.full_like(most, high)  # it may say anything
        up, down = high - least, most - low  # how far a reward of the arm is above what is expected, or below
        mine, others = self.ceilings
        if self.other is None:  # expected + w (r - expected) - r
            above, below = float((mine * up).max()), float((mine * down).max())
            return float(least.min()) - below - high, float(most.max()) + above - low
        apart = float(most.max() - least.min())  # that what is expected of both can be
        above = float(np.maximum(mine * up, others * down).max())
        below = float(np.maximum(mine * down, others * up).max())
        return -apart - below, apart + above

    def slack(self, low: float, high: float) -> Limits:
        """What arms may add of which no row tells, if they earn between these beyond what is counted."""
        mine, others = self.mine.unknown, 0.0 if self.other is None else self.other.unknown
        ends = [(mine * low, mine * high)] if mine else []
        ends += [(-others * high, -others * low)] if others else []
        return sum(least for least, _ in ends), sum(most for _, most in ends)

    def interval_of(self, terms: Floats, limits: Limits, slack: Limits) -> Found:
        """The interval of the mean of terms, within what differences of rewards can be.

        What was logged may have been decided by what earlier rows earned, so the mean of its terms may move:
        then the interval is of the average of these means, as where the target learns.
        """
        mine, level, width = self.mine, self.mine.interval.level, self.width
        if not mine.bounded:
            found = mine.interval.around(float(terms.mean()), terms, limits[1] - limits[0])
            if found.kind == "normal":
                return found
        else:
            inside, kind = np.clip(terms, *limits), "betting"  # they are within, but for rounding
            if mine.before is not None:
                spread, kind = sqrt(2) * mine.guess(mine.before, centred=True)[1], "anytime"
                ends = guided_interval(inside, guess=0.0, spread=spread, reward_range=limits, level=level)
            elif self.other is None:
                ends, kind = MeanSequence.of(inside, reward_range=limits).interval(level), "anytime"
            else:
                ends = betting_interval(inside, reward_range=limits, level=level)
            found = Found(*ends, kind)
        low, high = found.low + slack[0], found.high + slack[1]
        if low > width or high < -width:
            said = f"its interval, [{low:.4g}, {high:.4g}], is beyond what rewards can differ by"
            return Found(-width, width, found.kind, f"{said}, {interval_text((-width, width))}")
        return Found(max(low, -width), min(high, width), found.kind)

    def estimate(
        self, method: str, terms: Floats, limits: Limits, slack: Limits, base: float, *, proven: bool = True
    ) -> Estimate:
        """An estimate of the difference; `base` is what the baseline is said to earn by the same method."""
        mine, other, value, wide = self.mine, self.other, float(terms.mean()), ""
        found, apart = self.interval_of(terms, limits, slack), np.abs(mine.weights - self.weights)
        counting = apart > 0
        if other is not None and not apart.any():
            counting = np.ones(apart.size, np.bool_)  # where no row tells them apart, none says enough
        if other is not None and are_same(mine.target, other.target):
            value, found, counting = 0.0, Found(0.0, 0.0, found.kind), np.zeros(apart.size, np.bool_)
        elif found.low <= 0 <= found.high:  # else it says which of both is more
            wide = mine.too_wide(base, found, "what the baseline earns")
        used = int((apart > 0).sum()) if method == "ips" else apart.size
        value, rewards = min(max(value, -self.width), self.width), mine.rows.rewards[counting]
        said = mine.judged(method, value, found, apart[counting], rewards, wide, used, proven)
        said = replace(said, largest_weight=float(apart.max()), learnt=self.learnt, beyond=self.beyond)
        return only_if_weights_fit(said if other is None else self.doubted(said, other))

    def doubted(self, said: Estimate, other: Weighted) -> Estimate:
        """With what the weights of the baseline say against the propensities, and what it plays unseen."""
        mean, fits = fit_of(other.weights)
        shown = np.bincount(other.rows.arms, minlength=other.rows.k) > 0
        said = replace(said, unseen=max(said.unseen, other.target.share_of(~shown)))
        if said.weights_fit:
            said = replace(said, mean_weight=mean, weights_fit=fits)
        effective = kish(other.weights[other.weights > 0])
        return replace(said, doubt=far_from_1(mean, effective, other.weights.size, "of the baseline"))
