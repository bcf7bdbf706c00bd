"""Is a log to be built on? Everything that the findings say, weighed by one rule, for every kind of log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from linoto.audit.adaptive import SHARE_LEVEL, share_p
from linoto.audit.assume import (
    assumed_facts,
    assumed_notes,
    contradictions,
    limits_of_rewards,
    propose_confidence,
    short_bound,
    stated,
)
from linoto.audit.bound import shortest_parameter
from linoto.audit.content import content_facts, dropped_notes, dropped_reasons, nothing_tested
from linoto.audit.coverage import Coverage, design_dict, design_fact
from linoto.audit.curves import Curve
from linoto.audit.drift import REMEDY, Drift, drift_dict, drift_fact, drift_reasons
from linoto.audit.fit import LackOfFit, Linearity
from linoto.audit.gain import Gain, find_gain, gain_facts, gain_reasons, gain_support
from linoto.audit.means import MeansOfArms, means_of
from linoto.audit.metrics import MetricFindings, look_at_metrics
from linoto.audit.missing import MissingValues, find_missing, missing_facts, missing_notes
from linoto.audit.noise import Noise, noise_fact
from linoto.audit.promises import (
    NAMES,
    GatePromise,
    caution_about,
    fitting,
    gate_facts,
    promise_facts,
    promise_reasons,
)
from linoto.audit.propensities import find_wrong_propensities, propensity_facts, propensity_notes
from linoto.audit.sentences import without_nan
from linoto.audit.tails import (
    HEAVY,
    Tails,
    farthest_reasons,
    loss_survived,
    tails_facts,
    unstated_reasons,
)
from linoto.core.arrays import Ints
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Tolerance
from linoto.core.hints import amount, as_sure_as, counted
from linoto.core.intervals import Limits
from linoto.core.notebook import html_table, text_table
from linoto.core.policies import Gated
from linoto.core.usual_confidence import with_usual_confidence
from linoto.core.validation import as_range, check_count, check_nonnegative
from linoto.core.verdicts import BY_PRACTICE, HORIZON, Findings, Verdict, judged
from linoto.logs.many_tests import TEST_LEVEL
from linoto.logs.read import Log
from linoto.logs.rows import Rows
from linoto.logs.saved import SavedLog

SHARES_CHANGED = (
    "arms were pulled late in other shares than early, so rewards may have decided what was pulled: "
    "drift and linearity are judged by tests that allow for it, and see less"
)
SUMMARY = {
    *("verdict", "because", "rows", "arms", "missing values", "rewards", "rewards: level", "noise", "tails"),
    *(
        "contexts help?",
        "linear?",
        "steady?",
        "promise",
        "promise: most lost per round",
        "promise: most lost in all",
        "gate",
    ),
}


def audit_log(
    log: Log,
    rows: Rows | None = None,
    *,
    budget: float | None = None,
    epsilon: float | None = None,
    noise: float | Literal["bounded"] | None = None,
    bound: float | None = None,
    reward_range: tuple[float, float] | None = None,
    delta: float = 0.05,
    horizon: int = HORIZON,
) -> Audit:
    """Look at a log from every side, and say whether to build on it.

    `noise`, `bound` and `reward_range` are proposed from the log where they are not given; a promise is only
    as good as they are. Each test that can change the verdict raises a false alarm once in a hundred logs.
    What is promised is that of a gate that allows `budget` in all and `epsilon` a round, or if neither is
    given what `Gated()` promises. It is judged over `horizon` rounds to come. Of a log with contexts some
    things are told by the `rows` themselves alone (`read_rows`, all or some of them): heavy tails, linearity,
    and whether contexts explain more than the means of arms do.
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a linoto.Log, got {type(log).__name__}")
    means = means_of(log, rows)
    for name, value in (("budget", budget), ("epsilon", epsilon)):
        check_nonnegative(name, value or 0.0)
    limits = None if reward_range is None else as_range(reward_range)
    check_count("horizon", horizon)
    adaptive = share_p(log.early, log.late) < SHARE_LEVEL
    confidence, why = propose_confidence(
        means, noise=noise, bound=bound, reward_range=limits, delta=delta, adaptive=adaptive
    )
    found = AuditFindings(
        means=means,
        given=log,
        horizon=horizon,
        adaptive=adaptive,
        confidence=confidence,
        why=why,
        promises=means.promises(confidence, budget=budget, epsilon=epsilon),
        metrics=look_at_metrics(log, rows, delta=delta, adaptive=adaptive),
        missing=find_missing(log),
        **look_at(means, confidence, adaptive=adaptive, horizon=horizon),
    )
    return Audit(**vars(found), **judged(found.judged_by()))


def look_at(
    means: MeansOfArms, confidence: Confidence | None, *, adaptive: bool, horizon: int
) -> dict[str, Any]:
    """What each test finds in a log under these assumptions."""
    log, rows, shortest = means.log, means.rows, 0.0
    if confidence is not None:
        shortest = shortest_parameter(*log.features.design, noise=confidence.scale, delta=TEST_LEVEL)
    ridge = (confidence or Confidence()).ridge_for(len(log.features.labels))
    return {
        "noise": means.noise(limits=limits_of_rewards(log, confidence), adaptive=adaptive),
        "least_noise": means.least_noise(level=TEST_LEVEL, adaptive=adaptive),
        "shortest": shortest,
        "tails": means.tails(),
        "fit": means.fit(adaptive=adaptive),
        "curves": means.curves(),
        "gain": None if rows is None else find_gain(rows, ridge=ridge),
        "drift": means.drift(),
        "coverage": means.coverage(ridge=ridge, rounds=horizon),
        "wrong_propensities": find_wrong_propensities(log),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditFindings:
    """What was found, before it is weighed."""

    means: MeansOfArms  # what they depend on in this log
    given: Log  # the same with its recipe, though it may have no columns of a context
    horizon: int  # rounds to come that the promise is judged by
    adaptive: bool  # whether arms were not pulled late in the shares of the early half
    confidence: Confidence | None
    why: dict[str, str]  # where the proposals come from
    noise: Noise | None
    least_noise: float  # what the noise is not below, as far as the log can tell
    shortest: float  # what |theta| does not fall below, under these assumptions
    tails: Tails | None
    fit: LackOfFit | None
    curves: tuple[Curve, ...]  # whether numbers of the context bend, the surest first
    gain: Gain | None  # None without contexts, or without the rows themselves
    drift: Drift | None
    coverage: Coverage
    wrong_propensities: Ints  # arms whose propensities cannot be right
    promises: tuple[GatePromise, ...]  # what each gate would promise
    metrics: tuple[MetricFindings, ...] = ()  # of guardrails
    missing: tuple[MissingValues, ...] = ()  # columns of the context that some rows lack

    @property
    def log(self) -> Log:
        """The log as it was judged."""
        return self.means.log

    @property
    def promise(self) -> GatePromise:
        """The promise that is judged: that of the gate with the fewest assumptions."""
        return fitting(self.promises, "deploy") or self.promises[-1]

    @property
    def gate(self) -> Control | Tolerance | None:
        """The gate that would promise it."""
        return self.promise.gate

    @property
    def policy(self) -> Gated | None:
        """What `linoto create` makes of the log: `audit.policy.start(log)` is its loop; None: nothing."""
        if self.gate is None or self.confidence is None:
            return None
        log, rails = self.given.saved(), self.given.guardrails
        if self.gate.compares_with_log:
            rails = tuple(map(log.logged, rails))
        policy = Gated(gate=self.gate, confidence=self.confidence, guardrails=rails)
        known = log.features
        d, raw, features = len(known.labels), known.raw_features, known.to_start.get("features")
        return with_usual_confidence(policy, d, lambda: known.moments, raw, features)

    @property
    def several_gates(self) -> bool:
        """Whether more than one gate suits the log, so that there is a choice to make."""
        return len(self.promises) > 1

    @property
    def rests_on_log(self) -> bool:
        """Whether the verdict is on a log to build on; where Control is the only gate, it is not."""
        return self.several_gates or self.promise.kind != "control"

    @property
    def certificate(self) -> Certificate | None:
        """What is promised; None where nothing is."""
        return self.promise.certificate

    @property
    def linearity(self) -> Linearity:
        """The test of linearity, and what rests on it."""
        return self.means.linearity(
            fit=self.fit,
            curves=self.curves,
            log=self.log,
            centre=self.means.centre,
            adaptive=self.adaptive,
            untested=self.coverage.untested.size,
            certificate=self.certificate,
            horizon=self.horizon,
            untestable="" if self.fit is not None else self.means.why_no_fit(),
        )

    @property
    def least_misfit(self) -> float:
        """The smallest misfit that the test of linearity rather sees than misses; 0: nothing rests on it."""
        return self.linearity.least_misfit

    @property
    def bounded(self) -> bool:
        """Whether rewards are taken never to leave a range."""
        return self.confidence is not None and self.confidence.noise == "bounded"

    @property
    def survives(self) -> float | None:
        """The loss below an arm's mean that noise of this scale allows in 3 of as many rows as the log has;
        None where rewards never leave a range."""
        if self.confidence is None or self.bounded:
            return None
        return loss_survived(self.confidence.scale, self.log.offline.total)

    @property
    def mean_interval(self) -> Limits | None:
        """Where the true mean of what was logged lies; None where that is not known."""
        return self.means.interval(self.certificate, self.confidence, adaptive=self.adaptive)

    def judged_by(self) -> Findings:
        """What the verdict is reached by."""
        found = self.weighed()
        return found if self.rests_on_log else found.by_practice

    @property
    def spared(self) -> tuple[str, ...]:
        """What speaks against promises that rest on the log, where the verdict is on one that does not."""
        return () if self.rests_on_log else self.weighed().spared

    @property
    def beside(self) -> str:
        """What else a log is used for that it speaks against, though no promise rests on it; or nothing."""
        uses = [
            *(["a promise by the model"] if self.linearity.notes() else []),
            *(["an estimate by its propensities"] if self.wrong_propensities.size else []),
        ]
        return f"The log does speak against {' and '.join(uses)}" if uses else ""

    def weighed(self) -> Findings:
        """What speaks for the log and against it, for the one rule of `core.verdicts`."""
        log, centre, confidence, lines = self.log, self.means.centre, self.confidence, self.linearity
        tested = self.fit is not None or self.drift is not None
        drifted = drift_reasons(self.drift, log, centre)
        of_metrics = [metric.weighed() for metric in self.metrics]
        return Findings(
            against=(
                *dropped_reasons(log),
                *drifted,
                *self.contradicted(),
                *(reason for found in of_metrics for reason in found.against),
            ),
            missing=(
                *(unstated_reasons(confidence, log, centre) if confidence and self.guessed else ()),
                *nothing_tested(log, untested="" if tested else self.means.why_no_drift()),
                *gain_reasons(self.gain),
                *lines.missing(),
                *(reason for found in of_metrics for reason in found.missing),
            ),
            features=(*lines.features(), *(reason for found in of_metrics for reason in found.features)),
            blind=lines.unseen(),
            promise=(
                *promise_reasons(self.promise, log, confidence, self.horizon, fewer=centre.fewer),
                *(reason for found in of_metrics for reason in found.promise),
            ),
            support=(
                *gain_support(self.gain),
                *(() if lines.features() else lines.support()),
                *(["early and late rows agree"] if self.drift and not drifted else []),
            ),
            log_only=(*drifted, *(short_bound(confidence, self.shortest) if confidence else ())),
        )

    @property
    def guessed(self) -> bool:
        """Whether nobody stated the noise, and no range limits it."""
        return self.survives is not None and "noise" in self.why

    def contradicted(self) -> Iterator[str]:
        """What is assumed and cannot be so."""
        log, given = self.log, self.confidence
        if given is None:
            yield f"nothing is known of the noise ({self.why['noise']}): give it"
            return
        said = not self.bounded and "noise" not in self.why
        farthest = farthest_reasons(self.tails, given.scale, log, self.means.centre) if said else ()
        facts: dict[str, Any] = {"least_noise": self.least_noise, "shortest": self.shortest}
        yield from contradictions(log, given, farthest=farthest, **facts)
        if self.certificate is None:
            yield f"the assumptions contradict the log: {self.promise.reason}"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a deployer should know, without being a reason for or against."""
        log = self.log
        heavy = self.tails is not None and self.tails.heavy and not self.bounded
        untested = self.drift is None
        return (
            *(*log.arms.notes, *log.notes, *dropped_notes(log)),
            *(f"{text.removesuffix(REMEDY)}; {BY_PRACTICE}" for text in self.spared),
            *([HEAVY] if heavy else []),
            *([SHARES_CHANGED] if self.adaptive else []),
            *assumed_notes(self.means, self.confidence, self.certificate),
            *self.linearity.notes(),
            *([f"drift could not be tested: {self.means.why_no_drift()}"] if untested else []),
            *propensity_notes(self.wrong_propensities, log),
            *missing_notes(self.missing),
            *(note for metric in self.metrics for note in metric.notes),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(AuditFindings):
    """Everything there is to say about a log before anything is built on it."""

    verdict: Verdict
    reasons: tuple[str, ...]  # for the verdict
    verdict_of_log: Verdict  # whatever is promised
    reasons_of_log: tuple[str, ...]

    def saved(self, source: str = "") -> SavedLog:
        """What the next step needs: `.save(path)` writes it. `source` is what messages call the log."""
        return self.given.saved(
            source=source or self.log.source,
            verdict=self.verdict,
            reasons=self.reasons,
            verdict_of_log=self.verdict_of_log,
            reasons_of_log=self.reasons_of_log,
            against_log=self.spared,
            least_misfit=self.least_misfit,
            drift=self.means.size_of_drift(),
            randomised=self.given.randomised and not self.wrong_propensities.size,
            **stated(self.confidence, self.why),
        )

    @property
    def caution(self) -> str:
        """Why the promise is not to be counted on, or nothing."""
        return caution_about(self.verdict, rejected=self.linearity.rejected)

    # -- as data ------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: null where a number is unknown, never NaN."""
        plain: dict[str, Any] = without_nan({**self.verdict_dict(), **self.log_dict(), **self.promise_dict()})
        return plain

    def verdict_dict(self) -> dict[str, Any]:
        """The verdict, and what it rests on."""
        return {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "verdict_of_log": self.verdict_of_log,
            "horizon": self.horizon,
            "assumes": [] if self.certificate is None else self.certificate.assumes,
            "loss_survived": self.survives,
            "proposed": ({} if self.confidence is None else asdict(self.confidence)) | {"why": self.why},
            "notes": self.notes,
        }

    def log_dict(self) -> dict[str, Any]:
        """What was found of the log."""
        log, offline, tails = self.log, self.log.offline, self.tails
        names, likely = log.arms.names, log.propensities
        wrong = [names[arm] for arm in self.wrong_propensities]
        return {
            "rows": {"read": log.rows, "used": offline.total, "bad": log.bad, "unknown_ids": log.unknown},
            "arms": {
                "known": len(names),
                "seen": np.count_nonzero(offline.pulls),
                "unseen": [names[arm] for arm in self.coverage.unseen],
                "effects": log.arms.effects,
                "one_hot": log.arms.featureless,
                "features": log.arms.labels,
            },
            "recipe": self.means.recipe_dict(),
            "rewards": {
                "mean": offline.reference,
                "mean_interval": self.mean_interval,
                "low": log.extent[0],
                "high": log.extent[1],
            },
            "noise": None if self.noise is None else asdict(self.noise),
            "tails": None if tails is None else asdict(tails) | {"heavy": tails.heavy},
            "shares_changed": self.adaptive,
            "design": design_dict(self.coverage, log),
            "gain": None if self.gain is None else asdict(self.gain),
            "lack_of_fit": self.linearity.to_dict(),
            "curves": [{"column": c.column, "p": c.p, "remedy": c.remedy} for c in self.curves],
            "drift": None if self.drift is None else drift_dict(self.drift, log),
            "propensities": None
            if likely is None
            else {"low": likely.low, "high": likely.high, "wrong": wrong},
            "missing": [column._asdict() for column in self.missing],
            **({"metrics": [metric.to_dict() for metric in self.metrics]} if self.metrics else {}),
        }

    def promise_dict(self) -> dict[str, Any]:
        """What would be promised, by the gate that is judged and by others."""
        gate, certificate, fits = self.gate, self.certificate, fitting(self.promises, self.verdict)
        several = {
            NAMES[found.kind]: {"reason": found.reason}
            if found.certificate is None
            else found.certificate.to_dict()
            for found in self.promises
        }
        return {
            "budget": 0.0 if gate is None else gate.budget,
            "epsilon": 0.0 if gate is None else gate.epsilon,
            "relative": getattr(gate, "relative", False),
            "certificate": None if certificate is None else certificate.to_dict(rounds=self.horizon),
            "promises": several if self.several_gates else {},
            "gate": fits.kind if fits is not None and self.several_gates else None,
        }

    # -- as words -----------------------------------------------------------------------------------------

    def facts(self) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        log, verdict, horizon = self.log, self.verdict, self.horizon
        promised = promise_facts(self.certificate, self.caution, horizon)
        if self.several_gates:
            promised = gate_facts(self.promises, log, verdict, horizon)
        return [
            ("verdict", verdict),
            *(("because", reason) for reason in self.reasons),
            *assumed_facts(self.confidence, self.why),
            *self.promise_assumes(),
            *content_facts(log),
            *missing_facts(self.missing),
            *self.means.facts(),
            *self.reward_facts(),
            ("noise", noise_fact(self.noise, self.means.centre)),
            *(() if self.bounded else tails_facts(self.tails, log, self.means.centre)),
            ("design", design_fact(self.coverage, horizon)),
            *self.means.unknown(self.coverage),
            *gain_facts(self.gain),
            ("linear?", self.linearity.fact()),
            ("steady?", drift_fact(self.drift, log, self.means.why_no_drift())),
            *propensity_facts(self.wrong_propensities, log),
            *(fact for metric in self.metrics for fact in metric.facts()),
            ("horizon", f"{counted(horizon, 'round')} to come, over which the promise is judged"),
            *promised,
            *(("note", note) for note in self.notes),
        ]

    def promise_assumes(self) -> Iterator[tuple[str, str]]:
        """What the promise rests on besides noise, bound and range."""
        for text in () if self.certificate is None else self.certificate.assumes:
            yield "promise: assumes", text
        if self.survives is not None:
            often = f"in 3 of {self.log.offline.total:,} rounds"
            below = self.means.centre.below
            yield "promise: survives", f"a loss of {amount(self.survives)} below {below} {often}, not more"

    def reward_facts(self) -> Iterator[tuple[str, str]]:
        """The mean with its interval, the extremes, and how sure the interval is."""
        low, high = (end + 0.0 for end in self.log.extent)  # never "-0"
        mean, within, interval = amount(self.log.offline.reference + 0.0), "", self.mean_interval
        if interval is not None:
            mean, *ends = as_sure_as(self.log.offline.reference, *interval)
            within = f"; the true mean of what was logged lies in [{', '.join(ends)}]"
        yield "rewards", f"mean {mean}, from {amount(low)} to {amount(high)}{within}"
        if interval is None or self.confidence is None:
            return
        level = f"this interval holds the true mean with probability {1 - self.confidence.delta:g}"
        if self.guessed:
            # Of 150 logs of 2,000 Pareto rewards (tail index 1.2) 52 had their true mean above the interval.
            level += (
                f" only if the noise of {amount(self.confidence.scale)} is right, and it is a guess: "
                "rewards too rare to be in the log can put the true mean outside"
            )
        yield "rewards: level", level

    def summary(self) -> list[tuple[str, str]]:
        """The verdict, its reasons, and the numbers a person needs."""
        kept = SUMMARY.union(metric.guardrail.label for metric in self.metrics)
        return [(name, text) for name, text in self.facts() if name in kept]

    def full_text(self) -> str:
        """Everything that was found, one fact a line."""
        return text_table(self.facts())

    def __str__(self) -> str:
        return text_table(self.summary())

    def _repr_html_(self) -> str:
        return html_table(self.summary(), caption="Audit of a log")
