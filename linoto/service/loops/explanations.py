"""Decisions as they can be looked up: a row each, and one with its reasons."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from linoto.core.hints import amount
from linoto.service.errors import not_found
from linoto.service.loops.events import DECISIONS, FORGOTTEN, Context, Contribution, DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.restores import budget_of
from linoto.service.loops.shown import bounds_of
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection

WHY_SAFE = {
    "lcb": "it has the best lower bound so far",
    "mixture": "it is the next arm of the logging mixture",
    "fixed": "it is the arm the policy names as safe",
    "practice": "it is what current practice plays in this round",
}


class DecisionRow(Struct):
    """One of the recent decisions."""

    decision_id: str
    at: float
    arm: str
    mode: str
    group: str
    propensity: float | None
    reward: float | None
    origin: str | None
    key: str | None
    proposal: str | None  # the arm that the caller wanted
    allowed: list[str] | None  # the arms that the caller allowed, if not all
    context: Context | None  # who asked, in a loop with contexts


class FoundDecision(Struct):
    """A decision that was looked for in many loops."""

    loop: str
    decision: DecisionRow


class Explanation(Struct):
    """Why a decision was made as it was."""

    decision_id: str
    at: float
    arm: str
    mode: str
    group: str
    loop_mode: str
    source: str
    proposed: str
    proposed_by: str
    affordable: bool
    budget: float | None
    fallback: str | None
    live_arm: str
    propensity: float | None
    lcb: float | None
    ucb: float | None
    model_version: int
    key: str | None
    allowed: list[str] | None
    reward: float | None
    origin: str | None
    late_reward: float | None
    metrics: dict[str, float | None]  # values of guardrails that came, by name; None: it is lost
    reasons: list[str]
    control_share: float | None  # how likely a coin made it a control round; None: no coin was thrown
    context: Context | None  # who asked, in a loop with contexts
    practice: dict[str, float] | None  # what practice does there: items with their weights
    gain: float | None  # how much more than practice the arm is expected to earn
    because: list[Contribution]  # what that is due to, the largest part first


def recent(
    connection: Connection,
    loop: Loop,
    before: int | None,
    limit: int,
    key: str | None = None,
    contexts: bool = True,
) -> list[DecisionRow]:
    """The newest decisions first; without `contexts`, nothing of who asked."""
    rows = sql.recent_decisions(connection, loop.id, 2**53 if before is None else before, limit, key)
    return [decision_row(loop, contexts, *row) for row in rows]


def with_key(connection: Connection, loops: list[Loop], key: str) -> list[FoundDecision]:
    """The decisions of these loops that were asked for with a key: one lookup per loop."""
    found = []
    for loop in loops:
        number = sql.numbers_of_keys(connection, loop.id, [key]).get(key)
        if number is not None:
            found += [FoundDecision(loop.name, row) for row in recent(connection, loop, number + 1, 1)]
    return found


def decision_row(
    loop: Loop, contexts: bool, number: int, at: float, arm: int, mode: str, part: str, *rest: Any
) -> DecisionRow:
    """A row of the database as it is shown."""
    propensity, _, body, reward, origin = rest
    event = read_decision(body, contexts)
    return DecisionRow(
        loop.decision_id(number),
        at,
        loop.names[arm],
        mode,
        part,
        propensity,
        reward,
        origin,
        event.key,
        None if event.proposal is None else loop.names[event.proposal],
        allowed_names(loop, event),
        event.context,
    )


def read_decision(body: bytes, contexts: bool) -> DecisionMade:
    """A decision as it was stored; without `contexts`, nothing of who asked."""
    event = DECISIONS.decode(body)
    return event if contexts else event.without_person(None)


def allowed_names(loop: Loop, event: DecisionMade) -> list[str] | None:
    """The arms that a decision was restricted to."""
    return None if event.allowed is None else [loop.names[arm] for arm in event.allowed]


def explain(connection: Connection, loop: Loop, decision_id: str, contexts: bool = True) -> Explanation:
    """What was proposed, what the gate made of it, and why the arm was played."""
    number = loop.number_of(decision_id)
    row = None if number is None else sql.event_of_decision(connection, loop.id, number)
    if number is None or row is None:
        raise not_found("decision", decision_id)
    at, body = row
    event = read_decision(body, contexts)
    reward = sql.reward_of(connection, loop.id, number)
    late = sql.late_reward_of(connection, loop.id, number)
    names, (lower, upper) = loop.names, bounds_of(loop, event)
    return Explanation(
        decision_id=decision_id,
        at=at,
        arm=names[event.arm],
        mode=event.mode,
        group=event.group,
        loop_mode=event.loop_mode,
        source=event.source,
        proposed=names[event.favourite],
        proposed_by="policy" if event.proposal is None else "caller",
        affordable=is_affordable(event, loop),
        budget=budget_of(loop, event),
        fallback=None if event.fallback is None else names[event.fallback],
        live_arm=names[event.live_arm],
        propensity=event.propensity,
        lcb=lower,
        ucb=upper,
        model_version=event.version,
        key=event.key,
        allowed=allowed_names(loop, event),
        reward=None if reward is None else reward[0],
        origin=None if reward is None else reward[1],
        late_reward=None if late is None else late[0],
        metrics=sql.metrics_of(connection, loop.id, number) if loop.metrics else {},
        reasons=reasons(event, loop),
        control_share=event.control_share,
        context=event.context,
        practice=None if event.practice is None else {names[item]: weight for item, weight in event.practice},
        gain=event.gain,
        because=event.because,
    )


def reason(event: DecisionMade, loop: Loop) -> str | None:
    """The decision in one sentence, in a loop with contexts."""
    if event.context is None:
        return None
    said = gain_reason(event, loop) if event.source == "explorer" else decided_reasons(event, loop)[-1]
    return " ".join([said, *unseen_reasons(event, loop)])


def unseen_reasons(event: DecisionMade, loop: Loop) -> list[str]:
    """What the log never had: a misspelt word, or a number in other units, must not stay unnoticed."""
    if event.context is None and loop.arms.context_fields is not None:
        return ["Who asked is not shown to this role, so no part of the context is named."]
    if event.context == FORGOTTEN:
        return ["Who asked was forgotten, so no part of the context is named."]
    return loop.arms.remarks(event.context, loop.agent) if event.context else []


def is_affordable(event: DecisionMade, loop: Loop) -> bool:
    """Whether the gate could afford what was wanted, or something in its place, whatever was played then."""
    if event.live_mode == "explore" or event.control_share is not None:
        return True
    budget = budget_of(loop, event)
    return loop.agent.gate.throws_coin and not event.shut and budget is not None and budget >= 0


def gain_reason(event: DecisionMade, loop: Loop) -> str:
    """What is expected of the arm, compared with practice, and which parts of the context say so."""
    arm, gain, other = loop.names[event.arm], event.gain or 0.0, compared_with(event, loop)
    if event.practice is not None and [item for item, _ in event.practice] == [event.arm]:
        return f"{arm} is what current practice plays, too."
    if gain == 0:
        return f"{arm} is tried: nothing is known yet of how it compares with {other}."
    if gain < 0:
        return (
            f"{arm} is expected to earn {amount(-gain)} less than {other}, but it may earn more: it is tried "
            "to find out."
        )
    return f"{arm} is expected to earn {amount(gain)} more than {other}{because_of(event)}."


def because_of(event: DecisionMade) -> str:
    """The parts of the context that speak for an arm; nothing where who asked is hidden, or was forgotten."""
    if event.context is None or event.context == FORGOTTEN:
        return ""
    parts = [f"{each.part} ({each.amount:+.2g})" for each in event.because if each.amount > 0]
    return (
        f", because of {' and '.join(parts)}" if parts else ": many small parts of the context add up to that"
    )


def compared_with(event: DecisionMade, loop: Loop) -> str:
    """What an arm is compared with, in words."""
    if event.practice is None:
        return "the average arm"
    items = [item for item, _ in event.practice]
    if loop.agent.gate.throws_coin and event.fallback is not None:
        items = [event.fallback]
    return f"{loop.names[items[0]]}, current practice" if len(items) == 1 else "current practice on average"


def reasons(event: DecisionMade, loop: Loop) -> list[str]:
    """The decision in sentences, and what was not known of the context."""
    return [*decided_reasons(event, loop), *unseen_reasons(event, loop)]


def decided_reasons(event: DecisionMade, loop: Loop) -> list[str]:
    """What was wanted, what the gate said, and what was played."""
    names = loop.names
    who = "The policy" if event.proposal is None else "The caller"
    lines = [f"{who} wanted to play {names[event.favourite]}."]
    if loop.agent.gate.throws_coin:
        lines.append(coin_reason(event, loop))
    elif event.live_mode == "explore":
        best = (
            "it"
            if event.live_arm == event.favourite
            else f"{names[event.live_arm]}, its best affordable arm,"
        )
        lines.append(f"The gate found that {best} can be afforded{to_spare(event, loop)}.")
    else:
        lines.append(loop.agent.gate.refusal(budget_of(loop, event)))
    if event.gain is not None and event.source == "explorer":
        lines.append(gain_reason(event, loop))
    if event.group == "holdback":
        drawn = "was drawn for the control group" if event.control_share is None else "is a control round"
        lines.append(f"This decision {drawn}, so {names[event.arm]} was played.")
    elif event.mode == "safe":
        if event.loop_mode != "live" and event.live_mode == "explore":
            lines.append(f"The loop was in {event.loop_mode} mode, which plays the fallback.")
        elif event.live_mode == "explore" and not loop.agent.gate.throws_coin:
            lines.append("But the loop had earned less than promised, so nothing was tried.")
        source = "practice" if loop.agent.gate.throws_coin else event.source
        lines.append(f"{names[event.arm]} was played as the safe arm: {WHY_SAFE.get(source, 'it is safe')}.")
    return lines


def to_spare(event: DecisionMade, loop: Loop) -> str:
    """How much more could have been lost."""
    budget = budget_of(loop, event)
    if event.budget == 0.0 and event.live_mode == "explore" and not loop.agent.gate.throws_coin:
        return ", although the books are below the promise: that is within their uncertainty"
    return "" if budget is None else f" with {amount(budget)} to spare"


def coin_reason(event: DecisionMade, loop: Loop) -> str:
    """What a gate that throws a coin made of the arm that was wanted."""
    practice = loop.names[event.arm if event.fallback is None else event.fallback]
    if event.favourite == event.fallback:
        return f"Current practice would play {practice} too, so there was nothing to decide."
    if event.control_share is not None:
        return (
            f"The gate found that it can be afforded{to_spare(event, loop)}, and threw a coin between it and "
            f"{practice}, current practice: a control round with probability {event.control_share:.2g}."
        )
    budget = budget_of(loop, event)
    if budget is not None and budget < 0:
        return loop.agent.gate.refusal(budget)
    if event.shut:
        return f"Nothing more may be lost of {' and '.join(event.shut)}, so nothing is tried."
    if event.loop_mode == "live":
        return (
            f"It is expected to gain too little over {practice}, current practice, to be worth a coin, so "
            f"{practice} is played."
        )
    return f"No coin was thrown: {practice}, current practice, is played in this mode."
