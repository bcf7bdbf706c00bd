"""Is a log to be built on? Everything that the audit finds, weighed, and said in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from linoto.audit.adaptive import SHARE_LEVEL, share_p
from linoto.audit.assume import certify_tolerance, limits_of_rewards, propose_confidence, stated
from linoto.audit.bound import shortest_parameter
from linoto.audit.coverage import find_coverage
from linoto.audit.drift import Drift, find_drift, size_of_drift, why_untested
from linoto.audit.fit import LackOfFit, lack_of_fit
from linoto.audit.noise import estimate_noise, least_scale
from linoto.audit.pvalues import TEST_LEVEL
from linoto.audit.reasons import AuditFindings, audit_notes, names_of, weigh
from linoto.audit.tails import Tails, find_tails
from linoto.core.confidence import Confidence
from linoto.core.gates import Tolerance
from linoto.core.hints import amount, as_sure_as, counted
from linoto.core.notebook import html_table, text_table
from linoto.core.usual import usual_gate
from linoto.core.validation import as_range, check_count, check_nonnegative
from linoto.core.verdicts import HORIZON, Verdict, judged
from linoto.logs.read import Log
from linoto.logs.saved import SavedLog

UNTRUSTED = "would be this, but the log speaks against what it assumes"
UNTESTED = "would be this, but the log cannot show that rewards are linear, which it assumes"
UNKNOWN = "would be this, if what it assumes were known and it were worth something: see the reasons"
PROMISED = ("most lost per round", "most lost in all", "vacuous", "probability")
SUMMARY = (
    *(
        "verdict",
        "because",
        "rows",
        "arms",
        "rewards",
        "rewards: level",
        "noise",
        "tails",
        "linear?",
        "steady?",
    ),
    *("promise", "promise: most lost per round", "promise: most lost in all"),
)


def audit_log(
    log: Log,
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
    What is promised is that of `Tolerance(budget=budget, epsilon=epsilon)`, or if neither is given what
    `Gated()` promises. It is judged over `horizon` rounds to come.
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a linoto.Log, got {type(log).__name__}")
    for name, value in (("budget", budget), ("epsilon", epsilon)):
        check_nonnegative(name, value or 0.0)
    limits = None if reward_range is None else as_range(reward_range)
    actions, offline = log.arms.actions, log.offline
    check_count("horizon", horizon)
    adaptive = share_p(log.early, log.late) < SHARE_LEVEL
    given: dict[str, Any] = {"noise": noise, "bound": bound, "reward_range": limits, "delta": delta}
    confidence, why = propose_confidence(log, **given, adaptive=adaptive)
    gate = Tolerance(budget=budget or 0.0, epsilon=epsilon or 0.0)
    if budget is None and epsilon is None:
        gate = usual_gate(confidence or Confidence())
    certificate, broken, shortest = None, "", 0.0
    if confidence is not None:
        certificate, broken = certify_tolerance(log, confidence, gate)
        shortest = shortest_parameter(actions, offline, noise=confidence.scale, delta=TEST_LEVEL)
    ridge = (confidence or Confidence()).ridge_for(actions.shape[1])
    found = AuditFindings(
        log=log,
        gate=gate,
        noise=estimate_noise(offline, limits=limits_of_rewards(log, confidence), adaptive=adaptive),
        least_noise=least_scale(offline, level=TEST_LEVEL, adaptive=adaptive),
        tails=find_tails(log),
        fit=lack_of_fit(actions, offline, adaptive=adaptive),
        drift=find_drift(log.early, log.late),
        coverage=find_coverage(actions, offline, ridge=ridge, rounds=horizon),
        confidence=confidence,
        why=why,
        certificate=certificate,
        broken=broken,
        shortest=shortest,
        adaptive=adaptive,
        horizon=horizon,
    )
    return Audit(**vars(found), **judged(weigh(found)), notes=audit_notes(found))


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(AuditFindings):
    """Everything there is to say about a log before anything is built on it."""

    verdict: Verdict
    reasons: tuple[str, ...]  # for the verdict
    verdict_of_log: Verdict  # whatever is promised
    reasons_of_log: tuple[str, ...]
    notes: tuple[str, ...]  # worth knowing, and no reason

    def saved(self, source: str = "") -> SavedLog:
        """What the next step needs: `.save(path)` writes it. `source` is what messages call the log."""
        return self.log.saved(
            source=source,
            verdict=self.verdict,
            reasons=self.reasons,
            verdict_of_log=self.verdict_of_log,
            reasons_of_log=self.reasons_of_log,
            least_misfit=self.least_misfit,
            drift=size_of_drift(self.log.early, self.log.late),
            **stated(self.confidence, self.why),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: null where a number is unknown, never NaN."""
        log, coverage, fit, propensities = self.log, self.coverage, self.fit, self.log.propensities
        offline, names, labels = log.offline, log.arms.names, log.arms.labels
        facts = {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "verdict_of_log": self.verdict_of_log,
            "horizon": self.horizon,
            "assumes": [] if self.certificate is None else self.certificate.assumes,
            "loss_survived": self.survives,
            "proposed": ({} if self.confidence is None else asdict(self.confidence)) | {"why": self.why},
            "notes": self.notes,
            "rows": {"read": log.rows, "used": offline.total, "bad": log.bad, "unknown_ids": log.unknown},
            "arms": {
                "known": len(names),
                "seen": np.count_nonzero(offline.pulls),
                "unseen": [names[arm] for arm in coverage.unseen],
                "effects": log.arms.effects,
                "one_hot": log.arms.featureless,
                "features": labels,
            },
            "rewards": {"mean": offline.reference, "low": log.extent[0], "high": log.extent[1]},
            "noise": None if self.noise is None else asdict(self.noise),
            "tails": None if self.tails is None else asdict(self.tails) | {"heavy": self.tails.heavy},
            "shares_changed": self.adaptive,
            "design": {
                "dimension": len(labels),
                "rank": coverage.rank,
                "rank_of_arms": coverage.eigenvalues.size,
                "eigenvalues": coverage.eigenvalues,
                "effective_dimension": coverage.effective,
                "unknown_arms": [names[arm] for arm in coverage.unknown],
                "unknown_directions": [[labels[i] for i in direction] for direction in coverage.directions],
            },
            "lack_of_fit": None if fit is None else self.fit_dict(fit),
            "drift": None if self.drift is None else self.drift_dict(self.drift),
            "propensities": None
            if propensities is None
            else {"low": propensities.low, "high": propensities.high},
            "budget": self.gate.budget,
            "epsilon": self.gate.epsilon,
            "relative": self.gate.relative,
            "certificate": None
            if self.certificate is None
            else self.certificate.to_dict(rounds=self.horizon),
        }
        plain: dict[str, Any] = without_nan(facts)
        return plain

    def fit_dict(self, fit: LackOfFit) -> dict[str, Any]:
        """The test of linearity, with the p that decides and what the test could have seen."""
        return asdict(fit) | {
            "p_decides": fit.cautious_p,
            "power": self.fit_power,
            "misfit_that_matters": self.misfit_that_matters,
            "least_misfit": self.least_misfit,
            "rejected": fit.rejected,
        }

    def drift_dict(self, drift: Drift) -> dict[str, Any]:
        """The drift, the arms that moved by name."""
        return {
            "split": self.log.split,
            "tested_arms": drift.arms.size,
            "p": drift.combined,
            "p_arms": drift.overall,
            "p_common": drift.common,
            "p_shares": drift.shares,
            "adaptive": drift.adaptive,
            "rejected": drift.rejected,
            "moved": [
                {
                    "arm": self.log.arms.names[drift.arms[i]],
                    "early": drift.early[i],
                    "late": drift.late[i],
                    "p": drift.p[i],
                }
                for i in np.searchsorted(drift.arms, drift.moved)
            ],
            "early_reference": drift.early_reference,
            "late_reference": drift.late_reference,
        }

    def facts(self) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        log, coverage, offline, names = self.log, self.coverage, self.log.offline, self.log.arms.names
        bad = ", ".join(f"{count:,} {kind}" for kind, count in log.bad.items())
        never = f"; never pulled: {names_of(names, coverage.unseen)}" if coverage.unseen.size else ""
        low, high = (end + 0.0 for end in log.extent)  # never "-0"
        mean, within = amount(offline.reference + 0.0), ""
        if self.certificate is not None:
            mean, *ends = as_sure_as(offline.reference, *self.certificate.reference_interval)
            within = f"; the true mean of what was logged lies in [{', '.join(ends)}]"
        rewards = f"mean {mean}, from {amount(low)} to {amount(high)}{within}"
        design = (
            f"the log knows {coverage.rank} of the {coverage.eigenvalues.size} directions the arms have; "
            f"effective dimension {coverage.effective} over {counted(self.horizon, 'round')}"
        )
        return [
            ("verdict", self.verdict),
            *(("because", reason) for reason in self.reasons),
            *self.assumed_texts(),
            ("rows", f"{log.rows:,} read, {offline.total:,} used" + (f"; dropped: {bad}" if bad else "")),
            ("arms", f"{np.count_nonzero(offline.pulls):,} of {len(names):,} pulled{never}"),
            ("rewards", rewards),
            *self.level_texts(),
            ("noise", self.noise_text()),
            *self.tail_texts(),
            ("design", design),
            *(("cannot tell", text) for text in self.unknown_texts()),
            ("linear?", self.fit_text()),
            ("steady?", self.drift_text()),
            ("horizon", f"{counted(self.horizon, 'round')} to come, over which the promise is judged"),
            *self.promise_texts(),
            *(("note", note) for note in self.notes),
        ]

    @property
    def caution(self) -> str:
        """Why the promise is not to be counted on, or nothing."""
        if self.verdict == "deploy with arm effects" and not (self.fit and self.fit.rejected):
            return UNTESTED
        return {"deploy": "", "not yet": UNKNOWN}.get(self.verdict, UNTRUSTED)

    def summary(self) -> list[tuple[str, str]]:
        """The verdict, its reasons, and the numbers a person needs."""
        return [(name, text) for name, text in self.facts() if name in SUMMARY]

    def full_text(self) -> str:
        """Everything that was found, one fact a line."""
        return text_table(self.facts())

    def __str__(self) -> str:
        return text_table(self.summary())

    def _repr_html_(self) -> str:
        return html_table(self.summary(), caption="Audit of a log")

    # -- single facts ---------------------------------------------------------------------------------

    def level_texts(self) -> Iterator[tuple[str, str]]:
        """How sure the interval of the true mean is."""
        if self.certificate is None or self.confidence is None:
            return
        sure = f"this interval holds the true mean with probability {1 - self.certificate.delta:g}"
        if self.survives is not None and "noise" in self.why:
            # Of 150 logs of 2,000 Pareto rewards (tail index 1.2) 52 had their true mean above the interval.
            sure += (
                f" only if the noise of {amount(self.confidence.scale)} is right, and it is a guess: "
                "rewards too rare to be in the log can put the true mean outside"
            )
        yield "rewards: level", sure

    def noise_text(self) -> str:
        """The noise estimate with its interval."""
        noise = self.noise
        if noise is None:
            return "cannot be estimated: no arm was pulled twice"
        return noise.text("the mean of an arm")

    def assumed_texts(self) -> Iterator[tuple[str, str]]:
        """What the promise rests on: noise, bound and range, where they come from, and all the rest."""
        if self.confidence is None:
            return
        for name in ("noise", "bound", "reward_range"):
            value = getattr(self.confidence, name)
            if isinstance(value, tuple):
                value = f"[{value[0]:g}, {value[1]:g}]"
            if value is not None:
                shown = value if isinstance(value, str) else f"{amount(value)}"
                yield f"assumed {name}", f"{shown} ({self.why.get(name, 'as given')})"
        for text in () if self.certificate is None else self.certificate.assumes:
            yield "promise: assumes", text
        if self.survives is not None:
            often = f"in 3 of {self.log.offline.total:,} rounds"
            yield (
                "promise: survives",
                f"a loss of {amount(self.survives)} below an arm's mean {often}, not more",
            )

    def tail_texts(self) -> Iterator[tuple[str, str]]:
        """How far rewards are from their means, and what caps would cost; nothing for rewards of a range."""
        if not self.bounded:
            yield from tails_texts(self.tails, self.log.offline.reference, "its arm's mean", "its own arm")

    def unknown_texts(self) -> Iterator[str]:
        """Directions and arms the log says nothing about."""
        labels, names = self.log.arms.labels, self.log.arms.names
        for direction in () if self.log.arms.independent else self.coverage.directions:
            yield f"anything along {' and '.join(labels[i] for i in direction)}"
        if self.coverage.unknown.size:
            yield f"how good these are: {names_of(names, self.coverage.unknown)}"

    def fit_text(self) -> str:
        """The test of linearity."""
        fit = self.fit
        if self.log.arms.independent:
            return "not needed: every arm has an effect of its own"
        if fit is None:
            return "cannot be tested: it needs more logged arms than features, and arms pulled more than once"
        misfit = f"; the model misses an arm's mean by {fit.misfit:.2g} on average" if fit.rejected else ""
        f = f"F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}"
        return f"{answer_text(fit.rejected)}: {f}, p = {fit.p:.2g}{fit.caution_text()}{misfit}"

    def drift_text(self) -> str:
        """The comparison of the halves."""
        drift = self.drift
        if drift is None:
            return f"cannot be tested: {why_untested(self.log.early, self.log.late)}"
        moved = f"; changed: {names_of(self.log.arms.names, drift.moved)}" if drift.moved.size else ""
        how = f"all together {drift.common:.2g}"
        if drift.adaptive:
            how = "their shares changed, so by betting"
        return (
            f"{answer_text(drift.rejected)}: p = {drift.combined:.2g} over "
            f"{drift.arms.size} arms ({how}), early and late by {self.log.split}, means "
            f"{amount(drift.early_reference)} and {amount(drift.late_reference)}{moved}"
        )

    def promise_texts(self) -> Iterator[tuple[str, str]]:
        """What a tolerance would promise."""
        if self.certificate is None:
            return
        if self.caution:
            yield "promise", self.caution
        rounds = self.horizon
        lost, part = self.certificate.loss(rounds), self.certificate.part_of_log(rounds)
        total = (
            f"; {amount(lost)} in {counted(rounds, 'round')}, {part} of what the log earns in as many"
            if part
            else ""
        )
        for name, text in self.certificate.rows():
            if name in PROMISED:
                yield f"promise: {name}", text + total * name.startswith("most lost")


def tails_texts(tails: Tails | None, mean: float, centre: str, of: str) -> Iterator[tuple[str, str]]:
    """How far rewards are from where they belong, and what caps would cost."""
    if tails is None:
        return
    top = "" if tails.top_share is None else f"; the top 1 % of rows earn {tails.top_share:.0%} of all"
    index = f"; tail index {tails.index:.2g}" if tails.heavy and tails.index is not None else ""
    text = (
        f"the farthest reward is {tails.farthest:.3g} standard deviations of {of} from {centre}, and "
        f"sub-Gaussian noise allows {tails.expected:.3g}{top}{index}"
    )
    yield "tails", f"{'heavy' if tails.heavy else 'no sign of heavy ones'}: {text}"
    for cap in tails.caps if tails.heavy else ():
        cost = f"changes {cap.rows:,} rows, and the mean from {amount(mean)} to {amount(cap.mean)}"
        yield "possible cap", f"{amount(cap.limit)}: {cost}"


def answer_text(rejected: bool) -> str:
    """What a test says of what it tests."""
    return "no" if rejected else "no sign against it"


def without_nan(value: Any) -> Any:
    """The same with plain numbers and lists, and None for what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): without_nan(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
