"""What each gate that knows contexts would promise on a log, and which of them fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from typing import Any, Literal, NamedTuple

from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates import Control, Tolerance
from linoto.core.hints import amount, counted
from linoto.core.policies import Gated
from linoto.core.usual import usual_contextual_gate
from linoto.core.verdicts import why_worthless

DOUBTS = {"do not trust": "the log speaks against that", "not yet": "see the reasons above"}
GateKind = Literal["control", "tolerance"]
NAMES: dict[GateKind, str] = {"control": "Control", "tolerance": "Tolerance by the model"}
NEEDS: dict[GateKind, str] = {
    "control": "no linear model and no log, but rounds in which practice is played",
    "tolerance": "that rewards are linear in these features in every context, and that the log still holds",
}

TIMID = 20.0  # times what a round can lose: a smaller budget explores little (docs/control.md)
UNKNOWN_RANGE = "state the reward range: it must know what a round can lose"


class ContextPromise(NamedTuple):
    """What one gate would promise, or why nothing."""

    kind: GateKind
    certificate: Certificate | None
    reason: str  # why there is no certificate

    @property
    def holds(self) -> bool:
        """Whether there is a promise."""
        return self.certificate is not None and self.certificate.holds


def contextual_gate(
    kind: GateKind,
    confidence: Confidence,
    moments: Moments,
    *,
    budget: float | None = None,
    epsilon: float | None = None,
) -> Control | Tolerance:
    """A gate that allows so much; if neither is given, the usual budget for what this log earned."""
    if budget is None and epsilon is None:
        usual: Any = usual_contextual_gate(confidence, earned=moments.reward_sum, rows=moments.count)
        if isinstance(usual, Control) and kind == "control":
            return usual
        budget = usual.budget
    budget, epsilon = budget or 0.0, epsilon or 0.0
    if kind == "tolerance":
        return Tolerance(evidence="model", budget=budget, epsilon=epsilon)
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"
    return Control(promise=promise, budget=budget, epsilon=epsilon)


def find_promises(
    moments: Moments, confidence: Confidence, *, budget: float | None, epsilon: float | None
) -> tuple[ContextPromise, ...]:
    """What each gate would promise on this log, as a policy says it before its first round."""
    found = []
    for kind in NAMES:
        if kind == "control" and confidence.reward_range is None:
            found.append(ContextPromise(kind, None, UNKNOWN_RANGE))
            continue
        gate = contextual_gate(kind, confidence, moments, budget=budget, epsilon=epsilon)
        try:
            certificate = Gated(gate=gate, confidence=confidence).certificate(moments)
            found.append(ContextPromise(kind, certificate, "" if certificate.holds else certificate.theorem))
        except ValueError as error:
            found.append(ContextPromise(kind, None, str(error)))
    return tuple(found)


def fitting(promises: tuple[ContextPromise, ...], verdict: str) -> ContextPromise | None:
    """The gate to take: that with the fewest assumptions, and none that rests on a log in doubt."""
    sound = (promise for promise in promises if promise.kind == "control" or verdict == "deploy")
    return next((promise for promise in sound if promise.holds), None)


def promise_texts(
    promises: tuple[ContextPromise, ...], moments: Moments, verdict: str, horizon: int
) -> Iterator[tuple[str, str]]:
    """What a person reads; a log in doubt is no reason against Control, which does not rest on it."""
    doubt = DOUBTS.get(verdict, "")
    for promise in promises:
        certificate = promise.certificate
        if certificate is None or not certificate.holds:
            yield "promise", f"{NAMES[promise.kind]}: none, {promise.reason}"
            continue
        text = f"{NAMES[promise.kind]}: at most {lost(certificate)} less than practice in the same rounds"
        text += f", with probability {1 - certificate.delta:g}; it needs {NEEDS[promise.kind]}"
        yield "promise", text + (f" ({doubt})" if doubt and promise.kind == "tolerance" else "")
    chosen = fitting(promises, verdict)
    if chosen is None or chosen.certificate is None:
        yield "gate", "none fits yet: see the reasons above"
        return
    yield "gate", f"{NAMES[chosen.kind]} fits: of those that promise something it assumes the least"
    yield from budget_texts(chosen.certificate, moments, horizon)


def budget_texts(certificate: Certificate, moments: Moments, horizon: int) -> Iterator[tuple[str, str]]:
    """How large the budget is, in rows of the log and in the worst that a round can be."""
    low, high = certificate.reward_range
    worth = []
    if certificate.budget and moments.reward_sum > 0:
        rows = certificate.budget / moments.reference
        more = ", more than it has" if rows > moments.count else ""
        worth.append(f"what the log earns in {counted(rows, 'row')}{more}")
    if certificate.budget and isfinite(high - low):
        rounds = certificate.budget / (high - low)
        worth.append(f"what {counted(rounds, 'round')} can lose at the most")
    if worth:
        timid = timid_text(certificate, moments, horizon)
        yield "budget", f"{amount(certificate.budget)} is {', and '.join(worth)}{timid}"


def timid_text(certificate: Certificate, moments: Moments, horizon: int) -> str:
    """That little is explored with so small a budget; a larger one, if its promise is worth something."""
    low, high = certificate.reward_range
    timid = TIMID * (high - low)
    if certificate.per_round or not certificate.budget or certificate.budget >= timid or not isfinite(timid):
        return ""
    larger = replace(certificate, constant=timid, budget=timid)
    earned = moments.reference if low >= 0 else 0.0  # a part of what may be nothing says nothing
    worthless = why_worthless(larger, earned=earned, horizon=horizon)
    try_it = "" if worthless else f", more from about {amount(timid)} on (--budget)"
    return f"; so small a budget is kept, but little is explored with it{try_it}"


def lost(certificate: Certificate) -> str:
    """The most that may be lost, in words."""
    in_all = f"{amount(certificate.budget)} in all" if certificate.budget else ""
    per_round = f"{amount(certificate.per_round)} a round" if certificate.per_round else ""
    return " and ".join(part for part in (in_all, per_round) if part) or "nothing"
