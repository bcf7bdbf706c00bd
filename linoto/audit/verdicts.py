"""Is a log to be built on? Everything that the audit finds, weighed, and said in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from linoto.audit.assume import certify_tolerance, propose_confidence
from linoto.audit.bound import shortest_parameter
from linoto.audit.coverage import find_coverage
from linoto.audit.drift import Drift, find_drift
from linoto.audit.fit import lack_of_fit
from linoto.audit.noise import estimate_noise
from linoto.audit.pvalues import TEST_LEVEL
from linoto.audit.reasons import AuditFindings, AuditVerdict, audit_notes, names_of, reach_verdict
from linoto.core.confidence import ASSUMED, Confidence
from linoto.core.notebook import html_table, text_table
from linoto.core.validation import as_range, check_count, check_nonnegative
from linoto.logs.read import Log
from linoto.logs.saved import SavedLog

UNTRUSTED = "would be this, but the log speaks against what it assumes"
PROMISED = ("most lost per round", "most lost in all", "vacuous", "probability", "assumes")
SUMMARY = (
    *("verdict", "because", "rows", "arms", "rewards", "noise", "linear?", "steady?"),
    *("promise", "promise: most lost per round", "promise: most lost in all"),
)


def audit_log(
    log: Log,
    *,
    epsilon: float = 0.1,
    noise: float | Literal["bounded"] | None = None,
    bound: float | None = None,
    reward_range: tuple[float, float] | None = None,
    delta: float = 0.05,
    rounds: int | None = None,
) -> Audit:
    """Look at a log from every side, and say whether to build on it.

    `noise`, `bound` and `reward_range` are proposed from the log where they are not given; a promise is only
    as good as they are. Each test that can change the verdict raises a false alarm once in a hundred logs.
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be a linoto.Log, got {type(log).__name__}")
    check_nonnegative("epsilon", epsilon)
    limits = None if reward_range is None else as_range(reward_range)
    actions, offline = log.arms.actions, log.offline
    horizon = max(offline.total, 1) if rounds is None else rounds
    check_count("rounds", horizon)
    confidence, why = propose_confidence(log, noise=noise, bound=bound, reward_range=limits, delta=delta)
    certificate, broken, shortest = None, "", 0.0
    if confidence is not None:
        certificate, broken = certify_tolerance(log, confidence, epsilon=epsilon)
        shortest = shortest_parameter(actions, offline, noise=confidence.scale, delta=TEST_LEVEL)
    ridge = (confidence or Confidence()).ridge_for(actions.shape[1])
    found = AuditFindings(
        log=log,
        epsilon=epsilon,
        noise=estimate_noise(offline),
        fit=lack_of_fit(actions, offline),
        drift=find_drift(log.early, log.late),
        coverage=find_coverage(actions, offline, ridge=ridge, rounds=horizon),
        confidence=confidence,
        why=why,
        certificate=certificate,
        broken=broken,
        shortest=shortest,
    )
    verdict, reasons = reach_verdict(found)
    return Audit(**vars(found), verdict=verdict, reasons=reasons, notes=audit_notes(found))


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(AuditFindings):
    """Everything there is to say about a log before anything is built on it."""

    verdict: AuditVerdict
    reasons: tuple[str, ...]  # for the verdict
    notes: tuple[str, ...]  # worth knowing, and no reason

    def saved(self, source: str = "") -> SavedLog:
        """What the next step needs: `.save(path)` writes it. `source` is what messages call the log."""
        known = () if self.confidence is None else ASSUMED
        given = (name for name in known if getattr(self.confidence, name) is not None)
        return SavedLog(
            arms=self.log.arms,
            offline=self.log.offline,
            confidence=self.confidence,
            stated=tuple(name for name in given if name not in self.why),
            source=source,
            verdict=self.verdict,
            reasons=self.reasons,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: null where a number is unknown, never NaN."""
        log, coverage, fit, propensities = self.log, self.coverage, self.fit, self.log.propensities
        offline, names, labels = log.offline, log.arms.names, log.arms.labels
        facts = {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "notes": self.notes,
            "rows": {"read": log.rows, "used": offline.total, "bad": log.bad, "unknown_ids": log.unknown},
            "arms": {
                "known": len(names),
                "seen": np.count_nonzero(offline.pulls),
                "unseen": [names[arm] for arm in coverage.unseen],
                "effects": log.arms.effects,
                "features": labels,
            },
            "rewards": {"mean": offline.reference, "low": log.extent[0], "high": log.extent[1]},
            "noise": None if self.noise is None else asdict(self.noise),
            "proposed": ({} if self.confidence is None else asdict(self.confidence)) | {"why": self.why},
            "design": {
                "dimension": len(labels),
                "rank": coverage.rank,
                "rank_of_arms": coverage.eigenvalues.size,
                "eigenvalues": coverage.eigenvalues,
                "effective_dimension": coverage.effective,
                "unknown_arms": [names[arm] for arm in coverage.unknown],
                "unknown_directions": [[labels[i] for i in direction] for direction in coverage.directions],
            },
            "lack_of_fit": None if fit is None else asdict(fit) | {"rejected": fit.rejected},
            "drift": None if self.drift is None else self.drift_dict(self.drift),
            "propensities": None
            if propensities is None
            else {"low": propensities.low, "high": propensities.high},
            "epsilon": self.epsilon,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }
        plain: dict[str, Any] = without_nan(facts)
        return plain

    def drift_dict(self, drift: Drift) -> dict[str, Any]:
        """The drift, the arms that moved by name."""
        return {
            "split": self.log.split,
            "tested_arms": drift.arms.size,
            "p": drift.overall,
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
        rewards = f"mean {offline.reference:.4g}, from {log.extent[0]:.4g} to {log.extent[1]:.4g}"
        if self.certificate is not None:
            low, high = self.certificate.reference_interval
            rewards += f"; the true mean of what was logged lies in [{low:.4g}, {high:.4g}]"
        design = (
            f"the log knows {coverage.rank} of the {coverage.eigenvalues.size} directions the arms have; "
            f"effective dimension {coverage.effective} over {max(offline.total, 1):,} rounds"
        )
        return [
            ("verdict", self.verdict),
            *(("because", reason) for reason in self.reasons),
            ("rows", f"{log.rows:,} read, {offline.total:,} used" + (f"; dropped: {bad}" if bad else "")),
            ("arms", f"{np.count_nonzero(offline.pulls):,} of {len(names):,} pulled{never}"),
            ("rewards", rewards),
            ("noise", self.noise_text()),
            *self.assumed_texts(),
            ("design", design),
            *(("cannot tell", text) for text in self.unknown_texts()),
            ("linear?", self.fit_text()),
            ("steady?", self.drift_text()),
            *self.promise_texts(),
            *(("note", note) for note in self.notes),
        ]

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

    def noise_text(self) -> str:
        """The noise estimate with its interval."""
        noise = self.noise
        if noise is None:
            return "cannot be estimated: no arm was pulled twice"
        return f"{noise.value:.4g} around the mean of an arm, within [{noise.low:.4g}, {noise.high:.4g}]"

    def assumed_texts(self) -> Iterator[tuple[str, str]]:
        """Noise, bound and range as they are assumed, and where proposals come from."""
        if self.confidence is None:
            return
        for name in ("noise", "bound", "reward_range"):
            value = getattr(self.confidence, name)
            if isinstance(value, tuple):
                value = f"[{value[0]:g}, {value[1]:g}]"
            if value is not None:
                shown = value if isinstance(value, str) else f"{value:.4g}"
                yield f"assumed {name}", f"{shown} ({self.why.get(name, 'as given')})"

    def unknown_texts(self) -> Iterator[str]:
        """Directions and arms the log says nothing about."""
        labels, names = self.log.arms.labels, self.log.arms.names
        for direction in self.coverage.directions if self.log.arms.effects is None else ():
            yield f"anything along {' and '.join(labels[i] for i in direction)}"
        if self.coverage.unknown.size:
            yield f"how good these are: {names_of(names, self.coverage.unknown)}"

    def fit_text(self) -> str:
        """The test of linearity."""
        fit = self.fit
        if self.log.arms.effects is not None:
            return "not needed: every arm has an effect of its own"
        if fit is None:
            return "cannot be tested: it needs more logged arms than features, and arms pulled more than once"
        misfit = f"; the model misses an arm's mean by {fit.misfit:.2g} on average" if fit.rejected else ""
        unequal = f", {fit.p_unequal:.2g} where arms differ in noise" if fit.p < TEST_LEVEL else ""
        f = f"F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}"
        return f"{answer_text(fit.rejected)}: {f}, p = {fit.p:.2g}{unequal}{misfit}"

    def drift_text(self) -> str:
        """The comparison of the halves."""
        drift = self.drift
        if drift is None:
            return "cannot be tested: no arm was pulled often enough in both halves"
        moved = f"; changed: {names_of(self.log.arms.names, drift.moved)}" if drift.moved.size else ""
        return (
            f"{answer_text(drift.rejected)}: p = {drift.overall:.2g} over "
            f"{drift.arms.size} arms, early and late by {self.log.split}, means {drift.early_reference:.4g} "
            f"and {drift.late_reference:.4g}{moved}"
        )

    def promise_texts(self) -> Iterator[tuple[str, str]]:
        """What a tolerance would promise."""
        if self.certificate is None:
            return
        if self.verdict != "deploy":
            yield "promise", UNTRUSTED
        for name, text in self.certificate.rows():
            if name in PROMISED:
                yield f"promise: {name}", text


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
