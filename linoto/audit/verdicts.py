"""Whether to build on a log: everything `linoto.audit` finds, weighed, and said in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np

from linoto.audit import (
    ALPHA,
    Drift,
    Findings,
    LackOfFit,
    Noise,
    Verdict,
    estimate_noise,
    find_coverage,
    find_drift,
    judge,
    lack_of_fit,
    notes_on,
    promise_of,
    propose_confidence,
    shortest_parameter,
    some,
)
from linoto.core.confidence import Confidence
from linoto.core.notebook import html_table, text_table
from linoto.core.validation import as_range, check_count, check_nonnegative
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit(Findings):
    """Everything there is to say about a log before anything is built on it."""

    verdict: Verdict
    reasons: tuple[str, ...]  # for the verdict
    notes: tuple[str, ...]  # worth knowing, and no reason

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: null where a number is unknown, never NaN."""
        log, coverage, names = self.log, self.coverage, self.log.arms.names
        offline = log.offline
        facts = {
            "verdict": self.verdict,
            "reasons": self.reasons,
            "notes": self.notes,
            "rows": {"read": log.rows, "used": offline.total, "bad": log.bad, "unknown_ids": log.unknown},
            "arms": {
                "known": len(names),
                "seen": int((offline.pulls > 0).sum()),
                "unseen": [names[arm] for arm in coverage.unseen],
                "effects": log.arms.effects,
                "features": log.arms.labels,
            },
            "rewards": {"mean": offline.reference, "low": log.extent[0], "high": log.extent[1]},
            "noise": None if self.noise is None else asdict(self.noise),
            "proposed": {
                **({} if self.confidence is None else asdict(self.confidence)),
                "why": self.why,
            },
            "design": {
                "dimension": len(log.arms.labels),
                "rank": coverage.rank,
                "rank_of_arms": coverage.eigenvalues.size,
                "eigenvalues": coverage.eigenvalues.tolist(),
                "effective_dimension": coverage.effective,
                "unknown_arms": [names[arm] for arm in coverage.unknown],
                "unknown_directions": [
                    [log.arms.labels[i] for i in direction] for direction in coverage.directions
                ],
            },
            "lack_of_fit": None if self.fit is None else {**asdict(self.fit), "rejected": self.fit.rejected},
            "drift": None if self.drift is None else self.drift_dict(self.drift),
            "propensities": None
            if log.propensities is None
            else {"low": log.propensities.low, "high": log.propensities.high},
            "epsilon": self.epsilon,
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
        }
        plain: dict[str, Any] = without_nan(facts)
        return plain

    def drift_dict(self, drift: Drift) -> dict[str, Any]:
        """The drift, the arms that moved by name."""
        place = {int(arm): i for i, arm in enumerate(drift.arms)}
        moved = [(int(arm), place[int(arm)]) for arm in drift.moved]
        return {
            "split": self.log.split,
            "tested_arms": drift.arms.size,
            "p": drift.overall,
            "rejected": drift.rejected,
            "moved": [
                {
                    "arm": self.log.arms.names[arm],
                    "early": float(drift.early[i]),
                    "late": float(drift.late[i]),
                    "p": float(drift.p[i]),
                }
                for arm, i in moved
            ],
            "early_reference": drift.early_reference,
            "late_reference": drift.late_reference,
        }

    def facts(self) -> list[tuple[str, str]]:
        """What a person reads, line by line."""
        log, coverage, offline = self.log, self.coverage, self.log.offline
        bad = ", ".join(f"{count:,} {kind}" for kind, count in log.bad.items())
        silent = f"; never pulled: {some(log.arms.names, coverage.unseen)}" if coverage.unseen.size else ""
        lines = [
            ("verdict", self.verdict),
            *(("because", reason) for reason in self.reasons),
            ("rows", f"{log.rows:,} read, {offline.total:,} used" + (f"; dropped: {bad}" if bad else "")),
            ("arms", f"{int((offline.pulls > 0).sum()):,} of {len(log.arms.names):,} pulled{silent}"),
            (
                "rewards",
                f"mean {offline.reference:.4g}, from {log.extent[0]:.4g} to {log.extent[1]:.4g}"
                + self.reference_text(),
            ),
            ("noise", noise_text(self.noise)),
            *(
                (f"assumed {name}", f"{value}{because(self.why, name)}")
                for name, value in assumed(self.confidence).items()
            ),
            (
                "design",
                f"the log knows {coverage.rank} of the {coverage.eigenvalues.size} directions the arms have; "
                f"effective dimension {coverage.effective} over {max(offline.total, 1):,} rounds",
            ),
        ]
        lines += [("cannot tell", text) for text in self.cannot_tell()]
        lines += [("linear?", fit_text(self.fit, log.arms)), ("steady?", self.drift_text())]
        if self.certificate is not None:
            if self.verdict != "deploy":
                lines.append(("promise", UNTRUSTED))
            lines += [
                (f"promise: {name}", text) for name, text in self.certificate.rows() if name in PROMISED
            ]
        lines += [("note", note) for note in self.notes]
        return lines

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

    def reference_text(self) -> str:
        """Where the mean of what was logged lies."""
        if self.certificate is None:
            return ""
        low, high = self.certificate.reference_interval
        return f"; the true mean of what was logged lies in [{low:.4g}, {high:.4g}]"

    def cannot_tell(self) -> list[str]:
        """Directions and arms the log says nothing about."""
        labels, names = self.log.arms.labels, self.log.arms.names
        texts = [
            f"anything along {' and '.join(labels[i] for i in direction)}"
            for direction in (self.coverage.directions if self.log.arms.effects is None else ())
        ]
        if self.coverage.unknown.size:
            texts.append(f"how good these are: {some(names, self.coverage.unknown)}")
        return texts

    def drift_text(self) -> str:
        """The comparison of the halves."""
        if self.drift is None:
            return "cannot be tested: no arm was pulled often enough in both halves"
        drift, names = self.drift, self.log.arms.names
        moved = f"; changed: {some(names, drift.moved)}" if drift.moved.size else ""
        return (
            f"{'no' if drift.rejected else 'no sign against it'}: p = {drift.overall:.2g} over "
            f"{drift.arms.size} arms, early and late by {self.log.split}, means {drift.early_reference:.4g} "
            f"and {drift.late_reference:.4g}{moved}"
        )


SUMMARY = (
    "verdict",
    "because",
    "rows",
    "arms",
    "rewards",
    "noise",
    "linear?",
    "steady?",
    "promise",
    "promise: most lost per round",
    "promise: most lost in all",
)
UNTRUSTED = "would be this, but the log speaks against what it assumes"
PROMISED = ("most lost per round", "most lost in all", "vacuous", "probability", "assumes")


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
        certificate, broken = promise_of(log, confidence, epsilon=epsilon)
        shortest = shortest_parameter(actions, offline, noise=confidence.scale, delta=ALPHA)
    ridge = (confidence or Confidence()).ridge_for(actions.shape[1])
    found = Findings(
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
    verdict, reasons = judge(found)
    return Audit(**vars(found), verdict=verdict, reasons=reasons, notes=notes_on(found))


# -- words ------------------------------------------------------------------------------------------------


def noise_text(noise: Noise | None) -> str:
    """The noise estimate with its interval."""
    if noise is None:
        return "cannot be estimated: no arm was pulled twice"
    return f"{noise.value:.4g} around the mean of an arm, within [{noise.low:.4g}, {noise.high:.4g}]"


def fit_text(fit: LackOfFit | None, arms: ArmTable) -> str:
    """The test of linearity in a sentence."""
    if arms.effects is not None:
        return "not needed: every arm has an effect of its own"
    if fit is None:
        return "cannot be tested: it needs more logged arms than features, and arms pulled more than once"
    answer = "no" if fit.rejected else "no sign against it"
    misfit = f"; the model misses an arm's mean by {fit.misfit:.2g} on average" if fit.rejected else ""
    unequal = f", {fit.p_unequal:.2g} where arms differ in noise" if fit.p < ALPHA else ""
    f = f"F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}"
    return f"{answer}: {f}, p = {fit.p:.2g}{unequal}{misfit}"


def assumed(confidence: Confidence | None) -> dict[str, str]:
    """Noise, bound and range as they are assumed."""
    if confidence is None:
        return {}
    noise = confidence.noise if isinstance(confidence.noise, str) else f"{confidence.noise:.4g}"
    values = {"noise": noise, "bound": f"{confidence.bound:.4g}"}
    if confidence.reward_range is not None:
        low, high = confidence.reward_range
        values["reward_range"] = f"[{low:g}, {high:g}]"
    return values


def because(why: dict[str, str], name: str) -> str:
    """Where a proposal comes from."""
    return f" ({why[name]})" if name in why else " (as given)"


def without_nan(value: Any) -> Any:
    """The same with plain numbers, and None for what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not isfinite(value) else value
