"""Whether to build on a log: everything `linoto.audit` finds, weighed, and said in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np

from linoto.audit import (
    Coverage,
    Drift,
    LackOfFit,
    Noise,
    estimate_noise,
    find_coverage,
    find_drift,
    find_miscalibrated,
    lack_of_fit,
    promise_of,
    propose_confidence,
)
from linoto.certificates import Certificate
from linoto.confidence import Confidence
from linoto.data import as_range, check_count, check_nonnegative
from linoto.features import ArmTable
from linoto.kernels import Ints
from linoto.logs import Log

DROPPED = 0.01  # share of bad rows from which what is left may be a selection
FAR = 10.0  # standard deviations from its arm's mean that no sub-Gaussian reward should be
SHOWN = 8  # arms that are listed by name
Verdict = Literal["deploy", "deploy with arm effects", "do not trust"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """Everything there is to say about a log before anything is built on it."""

    log: Log
    epsilon: float
    noise: Noise | None
    fit: LackOfFit | None
    drift: Drift | None
    coverage: Coverage
    confidence: Confidence | None
    why: dict[str, str]  # where the proposals come from
    certificate: Certificate | None
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


UNTRUSTED = "would be this, but the log speaks against what it assumes"
PROMISED = ("most lost per round", "vacuous", "probability", "assumes")


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
    certificate, broken = None, ""
    if confidence is not None:
        certificate, broken = promise_of(log, confidence, epsilon=epsilon)
    assumed_ = confidence or Confidence()
    found = Audit(
        log=log,
        epsilon=epsilon,
        noise=estimate_noise(offline),
        fit=lack_of_fit(actions, offline),
        drift=find_drift(log.early, log.late),
        coverage=find_coverage(actions, offline, ridge=assumed_.ridge_for(actions.shape[1]), rounds=horizon),
        confidence=confidence,
        why=why,
        certificate=certificate,
        verdict="deploy",
        reasons=(),
        notes=(),
    )
    verdict, reasons = judge(found, broken)
    return replace(found, verdict=verdict, reasons=reasons, notes=notes_on(found))


def judge(audit: Audit, broken: str) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and everything that speaks for it."""
    against = reasons_against(audit, broken)
    nonlinear = reasons_for_effects(audit)
    if against:
        return "do not trust", tuple(against + nonlinear)
    if nonlinear:
        return "deploy with arm effects", tuple(nonlinear)
    good = [fit_reason(audit), "early and late rows agree" if audit.drift else "drift could not be tested"]
    return "deploy", tuple(good)


def reasons_against(audit: Audit, broken: str) -> list[str]:
    """What no choice of features would mend."""
    log, drift, noise, assumed_ = audit.log, audit.drift, audit.noise, audit.confidence
    reasons = []
    dropped = sum(log.bad.values()) / max(log.rows, 1)
    if dropped > DROPPED:
        reasons.append(f"{dropped:.1%} of the rows are bad: what is left may not be like what was lost")
    if drift is not None and drift.rejected:
        reasons.append(
            f"arms did not earn late what they earned early (p = {drift.overall:.2g}, {drift.moved.size} of "
            f"{drift.arms.size} arms changed for sure): build on recent rows only, or promise less"
        )
    if assumed_ is None:
        reasons.append(f"nothing is known of the noise ({audit.why.get('noise', '')}): give it")
    elif noise is not None and assumed_.scale < noise.low:
        reasons.append(f"the log is noisier ({noise.low:.3g} at least) than assumed ({assumed_.scale:.3g})")
    if broken:
        reasons.append(f"the assumptions contradict the log: {broken}")
    return reasons


def reasons_for_effects(audit: Audit) -> list[str]:
    """Why the features alone should not be believed."""
    if audit.log.arms.effects is not None:
        return []
    if audit.fit is not None and audit.fit.rejected:
        return [
            f"rewards are not linear in these features (p = {audit.fit.p:.2g}): the model misses an arm's "
            f"mean by {audit.fit.misfit:.2g} on average, so give every arm an effect of its own"
        ]
    if audit.fit is None and audit.coverage.untested.size:
        return [
            f"whether rewards are linear cannot be tested, and {audit.coverage.untested.size} unlogged arms "
            "are judged by that alone, so give every arm an effect of its own"
        ]
    return []


def fit_reason(audit: Audit) -> str:
    """Why the model may be believed."""
    if audit.log.arms.effects is not None:
        return "every arm has an effect of its own, so no linearity is needed"
    if audit.fit is None:
        return "no unlogged arm is judged by the linear model alone"
    return "the logged means lie where a linear model puts them"


def notes_on(audit: Audit) -> tuple[str, ...]:
    """What a deployer should know, without being a reason for or against."""
    log, noise = audit.log, audit.noise
    names, notes = log.arms.names, []
    if log.bad and sum(log.bad.values()) / max(log.rows, 1) <= DROPPED:
        notes.append(f"{sum(log.bad.values()):,} bad rows were dropped; it should not depend on the reward")
    if noise is not None and 0 < noise.value * FAR < max(
        abs(end - log.offline.reference) for end in log.extent
    ):
        notes.append(f"some reward is more than {FAR:g} standard deviations from the mean: tails are heavy")
    limits = audit.confidence.reward_range if audit.confidence else None
    if limits is not None and (log.extent[0] < limits[0] or log.extent[1] > limits[1]):
        notes.append(f"some rewards are outside [{limits[0]:g}, {limits[1]:g}]: only their means may not be")
    if audit.certificate is not None and audit.certificate.vacuous:
        notes.append(f"a tolerance of {audit.epsilon:g} promises nothing: no play could lose more")
    if audit.drift is None:
        notes.append("drift could not be tested: too few arms were pulled in both halves")
    if log.propensities is not None:
        wrong = find_miscalibrated(log.propensities, log.offline.total)
        if wrong.size:
            notes.append(f"propensities do not fit how often these were pulled: {some(names, wrong)}")
    return tuple(notes)


# -- words ------------------------------------------------------------------------------------------------


def some(names: tuple[str, ...], arms: Ints) -> str:
    """A few names, and how many more."""
    shown = ", ".join(names[arm] for arm in arms[:SHOWN])
    return shown + (f" and {arms.size - SHOWN:,} more" if arms.size > SHOWN else "")


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
    return f"{answer}: F({fit.degrees[0]}, {fit.degrees[1]:,}) = {fit.f:.3g}, p = {fit.p:.2g}{misfit}"


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
