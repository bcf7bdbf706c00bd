"""Events: made from choices, answered to callers, written as rows, and folded back into loops."""

from __future__ import annotations

from collections.abc import Iterator
from sqlite3 import Connection

import msgspec

from linoto.service.errors import Refused
from linoto.service.loops import inside
from linoto.service.loops.books import finite
from linoto.service.loops.choice import Choice
from linoto.service.loops.loop import EVENTS, Loop
from linoto.service.loops.messages import Closed, Decided, Decision, Event, LoopSpec
from linoto.service.storage import sql

REBUILD = "`linoto db rebuild` replays its events"
BASE = "its earlier events were pruned, so only a version of linoto that reads this can go on"


def recover(
    connection: Connection, row: sql.Row, *, from_scratch: bool = False, last: int = sql.LAST
) -> Loop:
    """A loop as its events made it, from the last snapshot on or from its beginning.

    The beginning is its first event or, where earlier ones were pruned, its base.
    """
    saved, hint = None if from_scratch else sql.latest_snapshot(connection, row[0]), REBUILD
    if saved is None:
        saved, hint = sql.base_of(connection, row[0]), BASE
    loop = begun(connection, row, saved, hint)
    follow(connection, loop, last)
    return loop


def begun(connection: Connection, row: sql.Row, saved: sql.Row | None, hint: str = REBUILD) -> Loop:
    """A loop as it was saved, or before its first event."""
    id, name, spec, created_at = row
    loop = Loop.fresh(name, msgspec.json.decode(spec, type=LoopSpec), id=id, created_at=created_at)
    if saved is not None:
        try:
            loop.restored(saved[1], saved[2])
        except ValueError as error:
            raise ValueError(f"loop {name!r} cannot go on from its snapshot: {error}; {hint}") from error
        loop.reopen(still_open(connection, loop))
    loop.told = len(loop.books.alarms)
    return loop


def still_open(connection: Connection, loop: Loop) -> Iterator[Decided]:
    """The decisions that are open where a loop stands, in their order."""
    for (body,) in sql.open_decisions(connection, loop.id, loop.books.seq, loop.books.oldest):
        event = EVENTS.decode(body)
        assert isinstance(event, Decided)
        yield event


def follow(connection: Connection, loop: Loop, last: int = sql.LAST) -> None:
    """Apply the events that come next, up to number `last`."""
    for seq, at, body in sql.events_after(connection, loop.id, loop.books.seq, last):
        if seq != loop.books.seq + 1:
            raise ValueError(
                f"loop {loop.name!r} must have event {loop.books.seq + 1}, got {seq}: the log has a gap"
            )
        loop.apply(EVENTS.decode(body), at)
    loop.told = len(loop.books.alarms)


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
        compared=choice.compared,
        favourite=choice.live.proposal,
        fallback=choice.live.fallback,
        budget=finite(choice.live.budget),
        loop_mode=loop.books.mode,
        live_arm=choice.live.arm,
        live_mode=choice.live.mode,
        propensity=choice.propensity,
        lcb=finite(lcb),
        ucb=finite(ucb),
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
