"""Events: made from choices, answered to callers, written as rows, and folded back into loops."""

from __future__ import annotations

import msgspec

from linoto.service import inside, sql
from linoto.service.choice import Choice
from linoto.service.errors import Refused
from linoto.service.loop import EVENTS, Loop, finite
from linoto.service.messages import Closed, Decided, Decision, Event, LoopSpec
from linoto.service.sql import Connection


def recover(connection: Connection, row: sql.Row, *, from_scratch: bool = False) -> Loop:
    """A loop as its events made it, from the last snapshot on or from the beginning."""
    id, name, spec, created_at = row
    loop = Loop.fresh(id, name, created_at, msgspec.json.decode(spec, type=LoopSpec))
    saved = None if from_scratch else sql.latest_snapshot(connection, id)
    if saved is not None:
        try:
            loop.restored(saved[1], saved[2])
        except ValueError as error:
            hint = "`linoto db rebuild` replays its events"
            raise ValueError(f"loop {name!r} cannot go on from its snapshot: {error}; {hint}") from error
    for seq, at, body in sql.events_after(connection, id, loop.books.seq):
        if seq != loop.books.seq + 1:
            raise ValueError(
                f"loop {name!r} must have event {loop.books.seq + 1}, got {seq}: the log has a gap"
            )
        loop.apply(EVENTS.decode(body), at)
    loop.told = len(loop.books.alarms)
    return loop


def event_of(
    loop: Loop,
    choice: Choice,
    number: int,
    expires_at: float,
    key: str | None,
    proposal: int | None,
    allowed: list[int] | None,
) -> Decided:
    """A choice as an event."""
    played = choice.decision
    lcb, ucb = inside.interval(loop.agent, played.arm)
    return Decided(
        number=number,
        arm=played.arm,
        mode=played.mode,
        source=played.source,
        round=played.round,
        group=choice.group,
        counted=choice.counted,
        favourite=choice.live.proposal,
        fallback=choice.live.fallback,
        budget=finite(choice.live.budget),
        loop_mode=loop.books.mode,
        live_arm=choice.live.arm,
        live_mode=choice.live.mode,
        propensity=choice.propensity,
        lcb=lcb,
        ucb=ucb,
        version=loop.books.learned,
        expires_at=expires_at,
        key=key,
        proposal=proposal,
        allowed=allowed,
    )


def answer(loop: Loop, event: Decided) -> Decision:
    """An event as the caller sees it."""
    return Decision(
        decision_id=loop.decision_id(event.number),
        arm=loop.names[event.arm],
        mode=event.mode,
        propensity=event.propensity,
        lcb=event.lcb,
        ucb=event.ucb,
        budget=event.budget,
        reference=loop.reference,
        model_version=event.version,
        expires_at=event.expires_at,
        loop_mode=event.loop_mode,
        holdback=event.group == "holdback",
    )


def repeat(loop: Loop, event: Event, proposal: int | None, allowed: list[int] | None) -> Decision:
    """The answer a key has had before, to the same question."""
    assert isinstance(event, Decided)
    if (event.proposal, event.allowed) != (proposal, allowed):
        raise Refused(409, "key_reused", f"key {event.key!r} was used with another proposal or allowed set")
    return answer(loop, event)


def decision_row(loop: Loop, event: Decided) -> sql.Row:
    """The event just applied, as a row of decisions."""
    return (
        loop.id,
        event.number,
        loop.books.seq,
        loop.books.at,
        event.key,
        event.arm,
        event.mode,
        event.source,
        event.group,
        event.loop_mode,
        event.propensity,
    )


def default_of(loop: Loop, number: int) -> Closed:
    """What closes a decision whose reward never came."""
    return Closed(number=number, reward=loop.spec.default_reward, origin="default")
