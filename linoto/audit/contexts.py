"""The audit of a log with contexts: what it shows, what it cannot tell, and whether to build on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from linoto.audit.assume import (
    has_rewards_outside,
    is_binary,
    limits_of_rewards,
    round_up,
    stated,
    too_few_events,
)
from linoto.audit.bound import propose_bound, shortest_parameter
from linoto.audit.context_findings import (
    ContextCoverage,
    ContextGain,
    find_context_coverage,
    find_gain,
    find_mean_interval,
    shares_changed,
)
from linoto.audit.context_promises import NAMES, ContextPromise, find_promises, fitting, promise_texts
from linoto.audit.drift import Drift, find_drift, why_untested
from linoto.audit.noise import LEVEL, Noise, bounded_noise, deviation_of_any, least_scale_of, noise_of
from linoto.audit.propensities import find_miscalibrated
from linoto.audit.pvalues import TEST_LEVEL
from linoto.audit.reasons import DROPPED, HEAVY, bound_reasons, farthest_reasons, names_of, unstated_reasons
from linoto.audit.tails import Tails, find_context_tails
from linoto.audit.verdicts import answer_text, tails_texts, without_nan
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.hints import amount, as_sure_as, counted, shortened_list
from linoto.core.notebook import html_table, text_table
from linoto.core.offline import Offline
from linoto.core.validation import as_range, check_count, exact
from linoto.core.verdicts import HORIZON, Findings, Verdict, judged, surely_earned, why_worthless
from linoto.logs.read import Log
from linoto.logs.rows import Rows
from linoto.logs.saved import SavedLog


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextFindings:
    """What was found, before it is weighed."""

    log: Log
    noise: Noise | None
    least_noise: float  # what the noise is not below, as far as the log can tell
    tails: Tails | None  # None without the rows themselves
    shortest: float  # what |theta| does not fall below, under these assumptions
    horizon: int  # rounds to come that the promise is judged by
    coverage: ContextCoverage
    gain: ContextGain | None
    drift: Drift | None
    miscalibrated: tuple[str, ...]  # items whose propensities cannot be right
    confidence: Confidence | None
    why: dict[str, str]  # where the proposals come from
    promises: tuple[ContextPromise, ...]  # what each gate would promise; none without a confidence


def audit_contexts(
    log: Log,
    rows: Rows | None = None,
    *,
    noise: float | Literal["bounded"] | None = None,
    bound: float | None = None,
    reward_range: tuple[float, float] | None = None,
    delta: float = 0.05,
    budget: float | None = None,
    epsilon: float | None = None,
    horizon: int = HORIZON,
) -> ContextAudit:
    """Look at a log with contexts from every side, and say whether to build on it.

    With the `rows` themselves (`read_rows`, all or some of them) it also says whether contexts
    explain more than the means of items do, and whether tails are heavy. `noise`, `bound` and `reward_range`
    are proposed where not given. Each test that can change the verdict raises a false alarm once in a hundred
    logs. What is promised is that of gates that allow `budget` in all and `epsilon` a round; if neither is
    given, as `Gated()` does. It is judged over `horizon` rounds to come.
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a linoto.Log, got {type(log).__name__}")
    if log.contexts is None:
        raise ValueError("log must have contexts, got one of fixed arms: audit_log is for these")
    if not log.recipe.items:
        raise ValueError("log must have items to be audited, got one of features alone: name the item column")
    limits = None if reward_range is None else as_range(reward_range)
    check_count("horizon", horizon)
    moments = log.moments
    around, degrees = moments.residuals()
    found = noise_of(around, int(degrees))
    confidence, why = propose(log, found, noise=noise, bound=bound, limits=limits, delta=delta)
    ridge = (confidence or Confidence()).ridge_for(moments.d)
    wrong = () if log.propensities is None else find_miscalibrated(log.propensities, log.offline.total)
    findings = ContextFindings(
        log=log,
        noise=None if found is None else within_range(log, found, around, limits_of_rewards(log, confidence)),
        least_noise=least_scale_of(around, float(moments.count), level=TEST_LEVEL),
        tails=None if rows is None else find_context_tails(rows),
        shortest=0.0 if confidence is None else shortest_theta(log, confidence),
        horizon=horizon,
        coverage=find_context_coverage(log.recipe, moments, ridge=ridge),
        gain=None if rows is None else find_gain(rows, ridge=ridge),
        drift=find_drift(log.early, log.late),
        miscalibrated=tuple(log.recipe.items[item] for item in wrong),
        confidence=confidence,
        why=why,
        promises=()
        if confidence is None
        else find_promises(moments, confidence, budget=budget, epsilon=epsilon),
    )
    return ContextAudit(**vars(findings), **judged(weigh(findings)))


def within_range(log: Log, found: Noise, around: float, limits: tuple[float, float] | None) -> Noise:
    """The noise with an interval that holds for rewards of a range, if one is known."""
    sums = log.moments
    if limits is None or sums.reward_squares is None:
        return found
    known = (around, sums.reward_sum, sums.reward_squares, sums.count)
    ends = deviation_of_any(*known, limits, level=LEVEL, adaptive=shares_changed(log))
    return bounded_noise(found, ends, limits)


def propose(
    log: Log,
    found: Noise | None,
    *,
    noise: float | Literal["bounded"] | None,
    bound: float | None,
    limits: tuple[float, float] | None,
    delta: float,
) -> tuple[Confidence | None, dict[str, str]]:
    """What was given, and for the rest what the log suggests, with the reasons; None without any noise."""
    why: dict[str, str] = {}
    if limits is None and is_binary(log):
        limits, why["reward_range"] = (0.0, 1.0), "every logged reward is 0 or 1"
    if noise is None and limits is not None and limits[0] <= log.extent[0] and log.extent[1] <= limits[1]:
        noise, why["noise"] = "bounded", f"no logged reward is outside [{limits[0]:g}, {limits[1]:g}]"
    elif noise is None:
        if found is None or found.high_if_normal == 0:
            return None, why
        noise = found.high_if_normal
        why["noise"] = "upper end of what rewards scatter around the linear model, were they normal"
    started = Confidence(delta=delta, noise=noise, reward_range=limits, design="adaptive")
    if bound is None:
        bound = round_up(propose_bound(*as_log(log), noise=started.scale, delta=delta))
        why["bound"] = (
            "the length of the least-squares parameter and what noise can hide, along directions the log "
            "knows; others are assumed alike; rounded up"
        )
    return Confidence(**(asdict(started) | {"bound": bound})), why


def as_log(log: Log) -> tuple[Floats, Offline]:
    """Arms and a log of them with the same X'X and X'y: one arm for each direction that is known."""
    actions, outcomes = log.moments.as_rows()
    return actions, Offline(pulls=np.ones(len(outcomes), dtype=np.int64), reward_sums=outcomes)


def shortest_theta(log: Log, confidence: Confidence) -> float:
    """What the length of the parameter does not fall below."""
    return shortest_parameter(*as_log(log), noise=confidence.scale, delta=TEST_LEVEL)


# -- verdict ----------------------------------------------------------------------------------------------


def weigh(found: ContextFindings) -> Findings:
    """What speaks for a log and against it, for the one rule of `core.verdicts`."""
    return Findings(
        against=tuple(reasons_against(found)),
        missing=tuple(reasons_to_wait(found)),
        promise=tuple(reasons_in_promise(found)),
        support=tuple(reasons_for(found)),
    )


def reasons_against(found: ContextFindings) -> Iterator[str]:
    """What the log contradicts."""
    log, confidence = found.log, found.confidence
    if sum(log.bad.values()) > DROPPED * log.rows:
        dropped = f"{sum(log.bad.values()) / log.rows:.1%} of the rows were dropped"
        yield f"{dropped}: what is left may be a selection"
    if found.drift is not None and found.drift.rejected:
        yield f"items do not earn late what they earned early (p = {found.drift.combined:.2g})"
    if found.miscalibrated:
        named = shortened_list(found.miscalibrated)
        yield f"propensities do not fit how often items were played: {named}"
    if confidence is not None and confidence.noise != "bounded" and confidence.scale < found.least_noise:
        yield (
            f"the noise of {amount(confidence.scale)} is too small: rewards scatter by at least "
            f"{amount(found.least_noise)} around any linear model of these features"
        )
    elif confidence is not None and confidence.noise != "bounded" and "noise" not in found.why:
        yield from farthest_reasons(
            found.tails, confidence.scale, log.offline.total, "where the linear model puts it"
        )
    if confidence is not None:
        yield from bound_reasons(confidence.bound, found.shortest)
    limits = None if confidence is None else confidence.reward_range
    if limits is not None and has_rewards_outside(log, limits):
        yield f"some logged rewards are outside the stated range [{limits[0]:g}, {limits[1]:g}]"


def reasons_to_wait(found: ContextFindings) -> Iterator[str]:
    """What must be stated, logged or left out first."""
    if found.confidence is None:
        yield "the log cannot tell how much rewards scatter: state the noise or the reward range"
    elif found.confidence.noise != "bounded" and "noise" in found.why:
        yield from unstated_reasons(found.confidence, found.log.extent, found.log.offline.total, "its mean")
    if np.count_nonzero(found.log.offline.pulls) < 2:
        yield "only one item was ever played"
    if few := too_few_events(found.log):
        yield f"{few}: more rows would help"
    elif found.log.extent[0] == found.log.extent[1]:
        same = exact(found.log.extent[0])
        yield f"every reward is {same}, so nothing could be tested: more rows would help"
    if found.gain is not None and not found.gain.reason and found.gain.high < 0:
        yield (
            "the linear model predicts held-out rewards worse than the means of items do: leave columns or "
            "crosses out"
        )


def reasons_in_promise(found: ContextFindings) -> Iterator[str]:
    """Why what would be promised is worth nothing."""
    promise = fitting(found.promises, "deploy")
    if promise is None or promise.certificate is None:
        return
    earned = surely_earned(found.log.offline, found.confidence)
    if why := why_worthless(promise.certificate, earned=earned, horizon=found.horizon):
        yield f"{why}. More rows or a smaller budget would help"


def reasons_for(found: ContextFindings) -> Iterator[str]:
    """What speaks for the log."""
    if found.gain is not None and found.gain.reason:
        yield f"whether contexts help could not be tested: {found.gain.reason}"
    elif found.gain is not None and found.gain.low > 0:
        yield "contexts explain rewards that the means of items do not"
    elif found.gain is not None:
        nothing = "nothing shows that contexts explain more than the means of items do"
        yield f"{nothing}: a log of arms would do as well"
    tested = found.drift is not None
    yield "early and late rows agree" if tested else "whether rewards drift could not be tested"


# -- what a person reads ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class ContextAudit(ContextFindings):
    """Everything there is to say about a log with contexts before anything is built on it."""

    verdict: Verdict
    reasons: tuple[str, ...]
    verdict_of_log: Verdict  # whatever is promised
    reasons_of_log: tuple[str, ...]

    def saved(self, source: str = "") -> SavedLog:
        """What the next step needs: `.save(path)` writes it."""
        return self.log.saved(
            source=source or self.log.source,
            verdict=self.verdict,
            reasons=self.reasons,
            verdict_of_log=self.verdict_of_log,
            reasons_of_log=self.reasons_of_log,
            **stated(self.confidence, self.why),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: null where a number is unknown, never NaN."""
        log, drift = self.log, self.drift
        facts = {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "verdict_of_log": self.verdict_of_log,
            "horizon": self.horizon,
            "tails": None if self.tails is None else asdict(self.tails) | {"heavy": self.tails.heavy},
            "proposed": ({} if self.confidence is None else asdict(self.confidence)) | {"why": self.why},
            "rows": {"read": log.rows, "used": log.offline.total, "bad": log.bad},
            "items": {"known": len(log.recipe.items), "played": np.count_nonzero(log.offline.pulls)},
            "recipe": log.recipe.to_dict(),
            "rewards": {
                "mean": log.moments.reference,
                "mean_interval": self.mean_interval,
                "low": log.extent[0],
                "high": log.extent[1],
            },
            "noise": None if self.noise is None else asdict(self.noise),
            "coverage": asdict(self.coverage),
            "gain": None if self.gain is None else asdict(self.gain),
            "drift": None
            if drift is None
            else {"p": drift.combined, "rejected": drift.rejected, "split": log.split},
            "miscalibrated": self.miscalibrated,
            "notes": self.notes,
            "promises": {
                NAMES[found.kind]: {"reason": found.reason}
                if found.certificate is None
                else found.certificate.to_dict()
                for found in self.promises
            },
            "gate": None if (chosen := fitting(self.promises, self.verdict)) is None else chosen.kind,
        }
        plain: dict[str, Any] = without_nan(facts)
        return plain

    def facts(self) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        log, coverage = self.log, self.coverage
        bad = ", ".join(f"{count:,} {kind}" for kind, count in log.bad.items() if count)
        pulls = log.offline.pulls
        never = (
            f"; never: {names_of(log.recipe.items, np.flatnonzero(pulls == 0))}" if (pulls == 0).any() else ""
        )
        design = (
            f"the log knows {coverage.rank:,} of the {coverage.eigenvalues.size:,} directions that features "
            f"can have, and of {coverage.weak:,} it says less than the ridge of {amount(coverage.ridge)}; it "
            f"determines as much as {coverage.effective:.0f} free features"
        )
        return [
            ("verdict", self.verdict),
            *(("because", reason) for reason in self.reasons),
            *self.assumed_texts(),
            ("rows", f"{log.rows:,} read, {log.offline.total:,} used" + (f"; dropped: {bad}" if bad else "")),
            ("items", f"{np.count_nonzero(pulls):,} of {pulls.size:,} played{never}"),
            ("features", f"{log.recipe.d:,}: {shortened_list(log.recipe.names)}"),
            ("rewards", self.rewards_text()),
            ("noise", self.noise_text()),
            *self.tail_texts(),
            ("design", design),
            *self.unknown_texts(),
            *self.gain_texts(),
            ("steady?", self.drift_text()),
            *self.propensity_texts(),
            ("horizon", f"{counted(self.horizon, 'round')} to come, over which the promise is judged"),
            *promise_texts(self.promises, log.moments, self.verdict, self.horizon),
            *(("note", note) for note in self.notes),
        ]

    def full_text(self) -> str:
        """Everything that was found, one fact a line."""
        return text_table(self.facts())

    def __str__(self) -> str:
        return self.full_text()

    def _repr_html_(self) -> str:
        return html_table(self.facts(), caption="Audit of a log with contexts")

    # -- single facts ---------------------------------------------------------------------------------

    @property
    def bounded(self) -> bool:
        """Whether rewards are taken never to leave a range."""
        return self.confidence is not None and self.confidence.noise == "bounded"

    @property
    def notes(self) -> tuple[str, ...]:
        """Worth knowing, and no reason."""
        heavy = self.tails is not None and self.tails.heavy and not self.bounded
        return (*self.log.notes, *((HEAVY,) if heavy else ()))

    def tail_texts(self) -> Iterator[tuple[str, str]]:
        """How far rewards are from the model, and what caps would cost; nothing for rewards of a range."""
        if self.bounded:
            return
        if self.tails is None:
            yield "tails", "not looked at: that takes the rows themselves"
        mean = self.log.moments.reference
        yield from tails_texts(self.tails, mean, "where the linear model puts it", "its own item")

    @property
    def mean_interval(self) -> tuple[float, float] | None:
        """Where the true mean of what was logged lies; None where no range is known."""
        return find_mean_interval(self.log, self.confidence)

    def rewards_text(self) -> str:
        """The mean with its interval, and the extremes."""
        mean, extent = self.log.moments.reference, " to ".join(map(amount, self.log.extent))
        if self.mean_interval is None or self.confidence is None:
            return f"mean {amount(mean)}, from {extent}"
        shown, low, high = as_sure_as(mean, *self.mean_interval)
        sure = f"with probability {1 - self.confidence.delta:g}"
        return f"mean {shown}, from {extent}; the true mean of what was logged lies in [{low}, {high}] {sure}"

    def assumed_texts(self) -> Iterator[tuple[str, str]]:
        """Noise, bound and range, and where they come from."""
        for name, text in ({} if self.confidence is None else self.confidence.assumptions()).items():
            if text:
                yield f"assumed {name}", f"{text} ({self.why.get(name, 'as given')})"

    def noise_text(self) -> str:
        """The scatter around the linear model, with its interval."""
        noise = self.noise
        if noise is None:
            return "cannot be estimated: there are not more rows than features"
        return noise.text("the linear model")

    def unknown_texts(self) -> Iterator[tuple[str, str]]:
        """Features and directions the log says little or nothing about."""
        if self.coverage.unseen:
            yield "cannot tell", f"anything about {shortened_list(self.coverage.unseen)}: never in the log"
        for direction in self.coverage.weakest:
            if not {*direction} & {*self.coverage.unseen}:
                yield "cannot tell", f"much along {' and '.join(direction)}"

    def gain_texts(self) -> Iterator[tuple[str, str]]:
        """Whether contexts explain more than the means of items."""
        gain = self.gain
        if gain is None:
            return
        if gain.reason:
            yield "contexts help?", gain.reason
            return
        answer = "yes" if gain.low > 0 else "no, they harm" if gain.high < 0 else "no sign of it"
        yield (
            "contexts help?",
            f"{answer}: on held-out rows the squared error of the model is {gain.share:.2%} below that of "
            f"the means of items, within [{gain.low:.2%}, {gain.high:.2%}] at {LEVEL:.0%} (negative: above)",
        )

    def drift_text(self) -> str:
        """The comparison of the halves."""
        if self.drift is None:
            return f"cannot be tested: {why_untested(self.log.early, self.log.late)}"
        drift, means = self.drift, (self.drift.early_reference, self.drift.late_reference)
        return (
            f"{answer_text(drift.rejected)}: p = {drift.combined:.2g} over {drift.arms.size} items, early "
            f"and late by {self.log.split}, means {amount(means[0])} and {amount(means[1])}"
        )

    def propensity_texts(self) -> Iterator[tuple[str, str]]:
        """Whether propensities fit what was played."""
        if self.log.propensities is None:
            return
        found = self.log.propensities
        fits = (
            f"do not fit {shortened_list(self.miscalibrated)}"
            if self.miscalibrated
            else "fit what was played"
        )
        yield "propensities", f"from {amount(found.low)} to {amount(found.high)}; they {fits}"
