"""What can be seen of a loop: its numbers, arms, decisions with their reasons, and its report."""

from __future__ import annotations

from math import sqrt
from typing import Any

from msgspec import Struct

from linoto.service import sql
from linoto.service.errors import not_found
from linoto.service.loop import EVENTS, Loop, Tally, finite
from linoto.service.messages import GROUPS, Decided, Mode
from linoto.service.sql import Connection
from linoto.service.watch import as_factor

WHY_SAFE = {
    "lcb": "it has the best lower bound so far",
    "mixture": "it is the next arm of the logging mixture",
    "fixed": "it is the arm the policy names as safe",
}


class GroupView(Struct):
    """What one group of decisions has earned."""

    plays: int
    closed: int
    defaults: int
    rewards: float
    mean: float | None
    standard_error: float | None


class AlarmView(Struct):
    """An alarm, for the page and the log."""

    kind: str
    at: float
    message: str


class LoopView(Struct):
    """The live numbers of a loop."""

    name: str
    mode: Mode
    holdback: float
    archived: bool
    created_at: float
    decisions: int
    pending: int
    rewards: int
    model_version: int
    budget: float | None
    reference: float | None
    realised: float  # summed reward of every closed decision
    expected_by_log: float | None  # the reference, as often
    promised_least: float | None  # what the promise allows it to be at the least
    evidence_against_promise: float | None
    evidence_of_drift: float | None
    groups: dict[str, GroupView]
    alarms: list[AlarmView]


class ArmView(Struct):
    """An arm with its interval."""

    name: str
    plays: int
    pending: int
    logged: int
    mean: float
    lcb: float
    ucb: float


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
    lcb: float
    ucb: float
    model_version: int
    reward: float | None
    origin: str | None
    late_reward: float | None
    reasons: list[str]


class Report(Struct):
    """A loop's account: the promise, what was earned, and the control group beside it."""

    loop: LoopView
    certificate: dict[str, Any]
    lift_over_holdback: float | None
    lift_standard_error: float | None


def group_view(tally: Tally) -> GroupView:
    """A tally with its mean."""
    n = tally.closed
    mean = tally.rewards / n if n else None
    error = None
    if mean is not None and n > 1:
        error = sqrt(max(tally.squares / n - mean**2, 0.0) / (n - 1))
    return GroupView(tally.plays, n, tally.defaults, tally.rewards, mean, error)


def loop_view(loop: Loop) -> LoopView:
    """The numbers of now."""
    books, watch = loop.books, loop.watch
    tallies = [books.groups[group] for group in GROUPS]
    closed = sum(tally.closed for tally in tallies)
    counted = books.counted.closed
    least = None
    if watch.per_round is not None and loop.reference is not None:
        least = counted * (loop.reference - watch.per_round) - watch.constant
    return LoopView(
        name=loop.name,
        mode=books.mode,
        holdback=books.holdback,
        archived=books.archived,
        created_at=loop.created_at,
        decisions=books.decided,
        pending=len(books.pending),
        rewards=closed,
        model_version=books.learned,
        budget=finite(loop.agent.decide().budget),
        reference=loop.reference,
        realised=sum(tally.rewards for tally in tallies),
        expected_by_log=None if loop.reference is None else closed * loop.reference,
        promised_least=least,
        evidence_against_promise=None if watch.per_round is None else as_factor(books.promise_evidence),
        evidence_of_drift=None if loop.reference is None else as_factor(books.drift_evidence),
        groups={group: group_view(books.groups[group]) for group in GROUPS},
        alarms=[AlarmView(alarm.kind, alarm.at, alarm.message) for alarm in books.alarms],
    )


def arm_views(loop: Loop) -> list[ArmView]:
    """Every arm with its interval, in the order of the loop."""
    agent = loop.agent
    means, lcb, ucb = agent.actions @ agent.theta, agent.lcb, agent.ucb
    pending, logged = agent.pending, agent.offline.pulls
    plays = loop.books.plays
    return [
        ArmView(
            name,
            plays[i],
            int(pending[i]),
            int(logged[i]),
            float(means[i]),
            float(lcb[i]),
            float(ucb[i]),
        )
        for i, name in enumerate(loop.names)
    ]


def recent(connection: Connection, loop: Loop, before: int | None, limit: int) -> list[DecisionRow]:
    """The newest decisions first."""
    rows = sql.recent_decisions(connection, loop.id, before if before is not None else 2**53, limit)
    return [
        DecisionRow(loop.decision_id(number), at, loop.names[arm], mode, part, propensity, reward, origin)
        for number, at, arm, mode, part, propensity, reward, origin in rows
    ]


def explain(connection: Connection, loop: Loop, decision_id: str) -> Explanation:
    """What was proposed, what the gate made of it, and why the arm was played."""
    number = loop.number_of(decision_id)
    row = None if number is None else sql.event_of_decision(connection, loop.id, number)
    if number is None or row is None:
        raise not_found("decision", decision_id)
    at, body = row
    event = EVENTS.decode(body)
    assert isinstance(event, Decided)
    reward = sql.reward_of(connection, loop.id, number)
    late = sql.late_reward_of(connection, loop.id, number)
    names = loop.names
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
        affordable=event.live_mode == "explore",
        budget=event.budget,
        fallback=None if event.fallback is None else names[event.fallback],
        live_arm=names[event.live_arm],
        propensity=event.propensity,
        lcb=event.lcb,
        ucb=event.ucb,
        model_version=event.version,
        reward=None if reward is None else reward[0],
        origin=None if reward is None else reward[1],
        late_reward=None if late is None else late[0],
        reasons=reasons(event, names),
    )


def reasons(event: Decided, names: list[str]) -> list[str]:
    """The decision in sentences."""
    who = "The policy" if event.proposal is None else "The caller"
    lines = [f"{who} wanted to play {names[event.favourite]}."]
    room = "" if event.budget is None else f" with {event.budget:.4g} to spare"
    if event.live_mode == "explore":
        best = (
            "it"
            if event.live_arm == event.favourite
            else f"{names[event.live_arm]}, its best affordable arm,"
        )
        lines.append(f"The gate found that {best} can be afforded{room}.")
    else:
        short = "" if event.budget is None else f": it would leave the budget at {event.budget:.4g}"
        lines.append(f"The gate refused{short}.")
    if event.group == "holdback":
        lines.append(f"This decision was drawn for the control group, so {names[event.arm]} was played.")
    elif event.mode == "safe":
        if event.loop_mode != "live" and event.live_mode == "explore":
            lines.append(f"The loop was in {event.loop_mode} mode, which plays the fallback.")
        lines.append(
            f"{names[event.arm]} was played as the safe arm: {WHY_SAFE.get(event.source, 'it is safe')}."
        )
    return lines


def report(loop: Loop) -> Report:
    """The account of a loop."""
    view = loop_view(loop)
    treated, control = Tally(), loop.books.groups["holdback"]
    for group in ("explore", "safe"):
        tally = loop.books.groups[group]
        treated.closed += tally.closed
        treated.rewards += tally.rewards
        treated.squares += tally.squares
    a, b = group_view(treated), group_view(control)
    lift = error = None
    if a.mean is not None and b.mean is not None:
        lift = a.mean - b.mean
    if a.standard_error is not None and b.standard_error is not None:
        error = sqrt(a.standard_error**2 + b.standard_error**2)
    plain = {
        key: finite(value) if isinstance(value, float) else value for key, value in certificate(loop).items()
    }
    return Report(view, plain, lift, error)


def certificate(loop: Loop) -> dict[str, Any]:
    """What was promised before the first decision, and over the decisions so far."""
    data = loop.certificate.to_dict(rounds=loop.books.counted.plays)
    return {key: finite(value) if isinstance(value, float) else value for key, value in data.items()}
