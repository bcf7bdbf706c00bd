"""What would be promised on a log, by which gate, and is it worth having?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from typing import Any, Literal, NamedTuple

from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.default_gate import default_gate, default_gate_in_rounds
from linoto.core.features.moments import Summed
from linoto.core.gates import Control, Tolerance
from linoto.core.hints import amount, counted
from linoto.core.policies import Gated
from linoto.core.verdicts import surely_earned, why_worthless
from linoto.logs.read import Log

UNTRUSTED = "would be this, but the log speaks against what it assumes"
UNTESTED = "would be this, but the log cannot show that rewards are linear, which it assumes"
UNKNOWN = "would be this, if what it assumes were known and it were worth something: see the reasons"
PROMISED = ("most lost per round", "most lost in all", "vacuous", "probability")
DOUBTS = {"do not trust": "the log speaks against that", "not yet": "see the reasons above"}
GateKind = Literal["control", "tolerance"]
NAMES: dict[GateKind, str] = {"control": "Control", "tolerance": "Tolerance by the model"}
NEEDS: dict[GateKind, str] = {
    "control": "no linear model and no log, but rounds in which practice is played",
    "tolerance": "that rewards are linear in these features in every context, and that the log still holds",
}
TIMID = 20.0  # times what a round can lose: a smaller budget explores little (docs/control.md)
UNKNOWN_RANGE = "state the reward range: it must know what a round can lose"


class GatePromise(NamedTuple):
    """What one gate would promise, or why nothing."""

    kind: GateKind
    gate: Control | Tolerance | None  # None where it cannot be made
    certificate: Certificate | None  # None where there is no promise
    reason: str  # why there is none

    @property
    def tolerated(self) -> str:
        """What may be lost, in words."""
        gate = self.gate
        if isinstance(gate, Tolerance) and gate.relative:
            return (
                f"a budget of {gate.budget:g} rounds and a tolerance of {gate.epsilon:.0%} of what "
                "the log earns per round"
            )
        budget, epsilon = (0.0, 0.0) if gate is None else (gate.budget, gate.epsilon)
        given = {"budget": budget, "tolerance": epsilon}.items()
        return " and ".join(f"a {name} of {value:g}" for name, value in given if value) or "a budget of 0"


def find_promise(
    log: Log, confidence: Confidence | None, *, budget: float | None, epsilon: float | None
) -> GatePromise:
    """What a Tolerance would promise on a log of fixed arms; if nothing is given, what `Gated()` has.

    With guardrails that it does not take it is a Control gate, where rewards have a range.
    """
    gate: Any = Tolerance(budget=budget or 0.0, epsilon=epsilon or 0.0)
    if budget is None and epsilon is None:
        gate = default_gate(confidence or Confidence())
    ranged = confidence is not None and confidence.reward_range is not None
    if (
        log.guardrails
        and confidence is not None
        and ranged
        and gate.why_no_guardrails(confidence, log.guardrails)
    ):
        gate = contextual_gate("control", confidence, log.totals, budget=budget, epsilon=epsilon)
        return promise_of("control", gate, confidence, log)
    return promise_of("tolerance", gate, confidence, log)


def find_promises(
    log: Log, confidence: Confidence | None, *, budget: float | None, epsilon: float | None
) -> tuple[GatePromise, ...]:
    """What each gate would promise on a log with contexts, as a policy says it before its first round."""
    found = []
    for kind in NAMES:
        if confidence is None or (kind == "control" and confidence.reward_range is None):
            found.append(GatePromise(kind, None, None, UNKNOWN_RANGE))
            continue
        made = contextual_gate(kind, confidence, log.totals, budget=budget, epsilon=epsilon)
        found.append(promise_of(kind, made, confidence, log))
    return tuple(found)


def promise_of(
    kind: GateKind, gate: Control | Tolerance, confidence: Confidence | None, log: Log
) -> GatePromise:
    """What a gate promises on a log."""
    if confidence is None:
        return GatePromise(kind, gate, None, "")
    policy = Gated(gate=gate, confidence=confidence)
    try:
        found = policy.certificate(log)
    except ValueError as error:
        return GatePromise(kind, gate, None, str(error))
    if not found.holds:
        return GatePromise(kind, gate, None, found.theorem)
    # one that nothing may be lost of is refused by a policy, and by its own finding here
    rails = tuple(replace(rail, bound=None, sums=None) for rail in log.guardrails if kind == "control")
    return GatePromise(kind, gate, replace(found, guardrails=rails), "")


def contextual_gate(
    kind: GateKind,
    confidence: Confidence,
    summed: Summed,
    *,
    budget: float | None = None,
    epsilon: float | None = None,
) -> Control | Tolerance:
    """A gate that allows so much; if neither is given, the usual budget for what this log earned."""
    if budget is None and epsilon is None:
        usual: Any = default_gate_in_rounds(summed, confidence)
        if isinstance(usual, Control) and kind == "control":
            return usual
        budget = usual.budget
    budget, epsilon = budget or 0.0, epsilon or 0.0
    if kind == "tolerance":
        return Tolerance(evidence="model", budget=budget, epsilon=epsilon)
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"
    return Control(promise=promise, budget=budget, epsilon=epsilon, share="cheap")


def fitting(promises: tuple[GatePromise, ...], verdict: str) -> GatePromise | None:
    """The gate to take: that with the fewest assumptions, and none that rests on a log in doubt."""
    sound = (promise for promise in promises if promise.kind == "control" or verdict == "deploy")
    return next((promise for promise in sound if promise.certificate is not None), None)


def promise_reasons(
    promise: GatePromise, log: Log, confidence: Confidence | None, horizon: int, *, fewer: str
) -> tuple[str, ...]:
    """Why what would be promised is worth nothing, and what would help."""
    certificate, reference = promise.certificate, log.offline.reference
    if certificate is None:
        return ()
    why = why_worthless(certificate, earned=surely_earned(log.offline, confidence), horizon=horizon)
    if not why:
        return ()
    if certificate.vacuous:
        part = f". The log earns {amount(reference)} per row: choose a part of that"
        return (f"with {promise.tolerated}, {why}" + (part if reference > 0 else ""),)
    return (
        f"{why} ({amount(certificate.constant)} of the loss is allowed from the first round). More rows, "
        f"{fewer}a smaller reward range or a smaller tolerance would help",
    )


# -- what a person reads ----------------------------------------------------------------------------------


def caution_about(verdict: str, *, rejected: bool) -> str:
    """Why a promise about the log is not to be counted on, or nothing."""
    if verdict == "deploy with arm effects" and not rejected:
        return UNTESTED
    return {"deploy": "", "not yet": UNKNOWN}.get(verdict, UNTRUSTED)


def promise_facts(certificate: Certificate | None, caution: str, rounds: int) -> Iterator[tuple[str, str]]:
    """What is promised about the mean of a log."""
    if certificate is None:
        return
    if caution:
        yield "promise", caution
    allowed, part = certificate.loss(rounds), certificate.part_of_log(rounds)
    total = (
        f"; {amount(allowed)} in {counted(rounds, 'round')}, {part} of what the log earns in as many"
        if part
        else ""
    )
    for name, text in certificate.rows():
        if name in PROMISED:
            yield f"promise: {name}", text + total * name.startswith("most lost")


def gate_facts(
    promises: tuple[GatePromise, ...], log: Log, verdict: str, horizon: int
) -> Iterator[tuple[str, str]]:
    """What each gate promises about practice in the same rounds, and which of them fits.

    A log in doubt is no reason against Control, which does not rest on it.
    """
    doubt = DOUBTS.get(verdict, "")
    for promise in promises:
        certificate = promise.certificate
        if certificate is None:
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
    yield from budget_texts(chosen.certificate, log.totals, horizon)


def budget_texts(certificate: Certificate, log: Summed, horizon: int) -> Iterator[tuple[str, str]]:
    """How large the budget is, in rows of the log and in the worst that a round can be."""
    low, high = certificate.reward_range
    worth = []
    if certificate.budget and log.reward_sum > 0:
        rows = certificate.budget / log.reference
        more = ", more than it has" if rows > log.count else ""
        worth.append(f"what the log earns in {counted(rows, 'row')}{more}")
    if certificate.budget and isfinite(high - low):
        rounds = certificate.budget / (high - low)
        worth.append(f"what {counted(rounds, 'round')} can lose at the most")
    if worth:
        timid = timid_text(certificate, log, horizon)
        yield "budget", f"{amount(certificate.budget)} is {', and '.join(worth)}{timid}"


def timid_text(certificate: Certificate, log: Summed, horizon: int) -> str:
    """That little is explored with so small a budget; a larger one, if its promise is worth something."""
    low, high = certificate.reward_range
    timid = TIMID * (high - low)
    if certificate.per_round or not certificate.budget or certificate.budget >= timid or not isfinite(timid):
        return ""
    larger = replace(certificate, constant=timid, budget=timid)
    earned = log.reference if low >= 0 else 0.0  # a part of what may be nothing says nothing
    worthless = why_worthless(larger, earned=earned, horizon=horizon)
    try_it = "" if worthless else f", more from about {amount(timid)} on (--budget)"
    return f"; so small a budget is kept, but little is explored with it{try_it}"


def lost(certificate: Certificate) -> str:
    """The most that may be lost, in words."""
    in_all = f"{amount(certificate.budget)} in all" if certificate.budget else ""
    per_round = f"{amount(certificate.per_round)} a round" if certificate.per_round else ""
    return " and ".join(part for part in (in_all, per_round) if part) or "nothing"
