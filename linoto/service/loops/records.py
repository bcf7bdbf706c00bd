"""A loop and its rows in the database: read back from events, and written as they happen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from linoto.core.certificates import Certificate
from linoto.core.snapshots import stored_policy
from linoto.service.errors import Refused
from linoto.service.loops.closeness import is_close
from linoto.service.loops.events import (
    DECISIONS,
    EVENTS,
    DecisionMade,
    Event,
    MetricsRecorded,
    RewardRecorded,
)
from linoto.service.loops.keys import keyed
from linoto.service.loops.loop import Loop
from linoto.service.loops.loop_data import Unmeasured
from linoto.service.loops.restores import skipped_by
from linoto.service.loops.spec import VERSION, LoopSpec
from linoto.service.loops.starting import arms_of
from linoto.service.storage import features, sql
from linoto.service.storage.connection import Connection, Row
from linoto.version import __version__

REBUILD = "`linoto db rebuild` replays its events"
RESTORE = "bring back a backup with `linoto db restore`"
UNREADABLE = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, Refused)  # of one loop
ENCODER = msgspec.json.Encoder()
PRUNED = "its earlier events were pruned, so only a version of linoto that reads this can go on"


def recover(connection: Connection, row: Row, *, from_scratch: bool = False, last: int = sql.LAST) -> Loop:
    """A loop as its events made it, from the last snapshot on or from its beginning.

    The beginning is its first event or, where earlier ones were pruned, its base. From there the promise is
    computed again too.
    """
    saved, hint = None if from_scratch else sql.latest_snapshot(connection, row[0]), REBUILD
    if saved is None:
        saved, hint = sql.base_of(connection, row[0]), PRUNED
    loop = restored(connection, row, saved, hint, computed=from_scratch)
    apply_events(connection, loop, last)
    return loop


def restored(
    connection: Connection, row: Row, saved: Row | None, hint: str = REBUILD, *, computed: bool = False
) -> Loop:
    """A loop as it was saved, or before its first event.

    Where its promise was saved too, that needs no fit, unless it is to be `computed` again.
    """
    id, name, body, created_at = row
    spec = read_spec(name, body)
    parts: dict[str, Any] = {"id": id, "created_at": created_at, "secret": sql.secret_of(connection)[0]}
    with saying(f"loop {name!r} cannot be made from its spec", RESTORE):
        stored = features.find(connection, spec.features)  # somebody has it until the loop does
        if saved is None:
            loop = Loop.fresh(name, spec, **parts)
            loop.promise_altered = is_altered(connection, id, parts["secret"])
            return loop
        arms, policy = arms_of(spec), stored_policy(spec.policy)
    with saying(f"loop {name!r} cannot go on from its snapshot", hint):
        agent = arms.restore(saved[2], spec)
        if agent is None or agent.policy != policy:
            raise ValueError("it must have the policy and arms of the loop, got others")
        promised = None if computed else kept_promise(connection, id, parts["secret"])
        known = None if promised is None else (agent, promised)
        loop = Loop.fresh(name, spec, known=known, **parts)
        loop.restore(saved[1], agent)
    del stored
    loop.promise_altered = known is None and is_altered(connection, id, parts["secret"])
    loop.reopen(open_decisions(connection, loop), unmeasured(connection, loop))
    loop.alarms_logged = len(loop.state.alarms)
    return loop


def read_spec(name: str, body: bytes) -> LoopSpec:
    """What a loop was made from."""
    try:
        return msgspec.json.decode(body, type=LoopSpec)
    except ValueError as error:
        if version_of(body) > VERSION:
            raise ValueError(
                f"loop {name!r} was made by a later version of linoto: go on with that"
            ) from error
        raise ValueError(f"loop {name!r} has a spec that is damaged: {error}; {RESTORE}") from error


def version_of(body: bytes) -> int:
    """The version of a spec that may be of any version, or damaged: then 0."""
    try:
        fields = msgspec.json.decode(body)
    except ValueError:
        return 0
    version = fields.get("version") if isinstance(fields, dict) else None
    return version if isinstance(version, int) else 0


@contextmanager
def saying(what: str, hint: str) -> Iterator[None]:
    """Say what cannot be done with a loop, whatever the error is, and what helps."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(f"{what}: {reason(error)}; {hint}") from error


def reason(error: Exception) -> str:
    """An error in words; of one that has none for people, its kind too."""
    return str(error) if isinstance(error, (ValueError, Refused)) else f"{type(error).__name__}: {error}"


def why_unreadable(name: str, error: Exception) -> str:
    """The same with the name of the loop."""
    why = reason(error)
    return why if repr(name) in why else f"loop {name!r} cannot be read: {why}; {RESTORE}"


class LeftOutError(ValueError):
    """Something was done for all loops but some."""


def raise_wrong(wrong: dict[str, str], loops: int, what: str) -> None:
    """Fail, at the end, for loops that were left out, by name and why; `what` is said of several."""
    if len(wrong) > 1:
        raise LeftOutError(f"{len(wrong)} of {loops} loops {what}: {', '.join(wrong)}")
    for why in wrong.values():
        raise LeftOutError(why)


def keep_promise(connection: Connection, loop: Loop) -> None:
    """What was promised before the first decision, so that the next start need not compute it."""
    text = json.dumps(loop.first_certificate.to_dict())
    seal = seal_of(sql.secret_of(connection)[0], loop.id, text)
    sql.put_promise(connection, loop.id, __version__, f"{seal} {text}")


def seal_of(secret: bytes | None, loop: int, text: str) -> str:
    """What only a server of this database writes before a promise of this loop."""
    return keyed(secret or b"", "promise", loop, __version__, text).hex()


def kept_promise(connection: Connection, loop: int, secret: bytes | None) -> Certificate | None:
    """The same, if this version of linoto has kept it as it is: else it is computed again."""
    seal, _, text = (sql.promise_of(connection, loop, __version__) or "").partition(" ")
    if seal != seal_of(secret, loop, text):
        return None
    try:
        fields = json.loads(text).items()
        parts: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in fields}
        return Certificate(**parts)
    except (ValueError, TypeError, AttributeError):
        return None


def is_altered(connection: Connection, loop: int, secret: bytes | None) -> bool:
    """Whether a promise was kept, and is not as it was."""
    kept = sql.promise_of(connection, loop, __version__)
    return kept is not None and kept_promise(connection, loop, secret) is None


def check_promise(connection: Connection, loop: Loop) -> None:
    """Refuse a promise that was kept and is not the one that was just computed for this loop."""
    kept = sql.promise_of(connection, loop.id, __version__)
    if kept is None:
        return
    wanted = json.loads(json.dumps(loop.first_certificate.to_dict()))
    try:
        found = json.loads(kept[kept.find("{") :])  # without its seal
    except ValueError:
        found = None
    if not is_close(found, wanted):
        raise ValueError(
            f"loop {loop.name!r}: the promise that was kept is not the one that its spec and log give; stop "
            "the server and have it computed again: `linoto db rebuild`"
        )


def open_decisions(connection: Connection, loop: Loop) -> Iterator[DecisionMade]:
    """The decisions that are open in the state of a loop, in their order."""
    for seq, body in sql.open_decisions(connection, loop.id, loop.state.seq, loop.state.oldest):
        with naming(loop.name, seq):
            event = DECISIONS.decode(body)
        yield event


def unmeasured(connection: Connection, loop: Loop) -> Iterator[Unmeasured]:
    """The decisions that await values of guardrails in the state of a loop, in their order."""
    if not loop.metrics:
        return
    last = loop.state.seq
    rows = sql.unmeasured(connection, loop.id, last, loop.state.oldest, len(loop.metrics))
    waiting = list[DecisionMade]()
    for seq, body in rows:
        with naming(loop.name, seq):
            waiting.append(DECISIONS.decode(body))
    known: dict[int, set[str]] = {event.number: set() for event in waiting}
    ends = min(known, default=0), max(known, default=0)
    for number, name, _, seq in sql.metrics_between(connection, loop.id, *ends):
        if number in known and seq <= last:
            known[number].add(name)
    for event in waiting:
        yield Unmeasured(event, tuple(name for name in loop.metrics if name not in known[event.number]))


def apply_events(connection: Connection, loop: Loop, last: int = sql.LAST) -> None:
    """Apply the events that come next, up to number `last`."""
    for seq, at, body in sql.events_after(connection, loop.id, loop.state.seq, last):
        with naming(loop.name, seq):
            event = EVENTS.decode(body)
        next_event(loop.name, loop.state.seq + skipped_by(event), seq)
        with naming(loop.name, seq):
            loop.apply(event, at)
    loop.alarms_logged = len(loop.state.alarms)


@contextmanager
def naming(loop: str, seq: int) -> Iterator[None]:
    """Say which event cannot be read, or cannot have happened: its bytes are not those that were written."""
    try:
        yield
    except UNREADABLE as error:
        said = isinstance(error, (ValueError, Refused))
        why = str(error) if said else f"it does not follow from those before ({error})"
        raise ValueError(f"loop {loop!r}, event {seq} is damaged: {why}; {RESTORE}") from error


def next_event(name: str, last: int, seq: int) -> int:
    """The number of the event after the last one; refuse another."""
    if seq != last + 1:
        raise ValueError(f"loop {name!r} must have event {last + 1}, got {seq}: the log has a gap")
    return seq


def insert(connection: Connection, loop: Loop, event: Event) -> None:
    """The event just applied, and what can be looked up of it."""
    id, seq, at = loop.id, loop.state.seq, loop.state.at
    connection.append("events", (id, seq, at, ENCODER.encode(event)))
    if isinstance(event, DecisionMade):
        connection.append("decisions", decision_row(id, seq, at, event))
    elif isinstance(event, RewardRecorded):
        connection.append("rewards", reward_row(id, seq, at, event))
    elif isinstance(event, MetricsRecorded):
        for row in metric_rows(id, seq, at, event):
            connection.append("metrics", row)


def decision_row(loop: int, seq: int, at: float, e: DecisionMade) -> Row:
    """What can be looked up of a decision."""
    return (loop, e.number, seq, at, e.key, e.arm, e.mode, e.source, e.group, e.loop_mode, e.propensity)


def reward_row(loop: int, seq: int, at: float, event: RewardRecorded) -> Row:
    """What can be looked up of a reward."""
    return (loop, event.number, at, event.reward, event.origin, seq)


def metric_rows(loop: int, seq: int, at: float, event: MetricsRecorded) -> list[Row]:
    """What can be looked up of values of guardrails, by name."""
    values: dict[str, float | None] = {**event.values, **dict.fromkeys(event.lost)}
    return [(loop, event.number, name, at, values[name], seq) for name in sorted(values)]


def check_tables(connection: Connection, id: int, name: str) -> None:
    """Refuse where the tables that are looked things up in do not say what the events say.

    What was closed before the base may be pruned; everything after it must be there.
    """
    last = base = sql.base_seq(connection, id)
    for seq, at, body in sql.events_after(connection, id, 0):
        with naming(name, seq):
            event = EVENTS.decode(body)
        last = next_event(name, last + skipped_by(event), seq) if seq > base else last
        if isinstance(event, DecisionMade):
            table, found = "decisions", sql.decision_row(connection, id, event.number)
            wanted = decision_row(id, seq, at, event)
        elif isinstance(event, RewardRecorded):
            table, found = "rewards", sql.reward_row(connection, id, event.number)
            wanted = reward_row(id, seq, at, event)
        elif isinstance(event, MetricsRecorded):
            table, rows = "metrics", sql.metric_rows(connection, id, event.number, seq)
            found = (id, event.number, *rows) if rows else None
            wanted = (id, event.number, *metric_rows(id, seq, at, event))
        else:
            continue
        if found != wanted and not (found is None and seq <= base):
            got = "nothing" if found is None else f"{found[2:]}"
            raise ValueError(
                f"loop {name!r}, event {seq}: the table of {table} must say {wanted[2:]} of decision "
                f"{event.number}, got {got}"
            )
    for table, number, seq in sql.rows_without_event(connection, id, base):
        raise ValueError(f"loop {name!r}: decision {number} in the table of {table} has no event {seq}")
    lone = sql.metric_without_event(connection, id, base)
    if lone is not None:
        raise ValueError(f"loop {name!r}: decision {lone[0]} in the table of metrics has no event {lone[1]}")
    late = sql.late_without_default(connection, id)
    if late is not None:
        raise ValueError(
            f"loop {name!r}: decision {late[0]} has a late reward, but was not closed by the default"
        )
