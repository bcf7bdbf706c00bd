"""Erasing one person: what was stored of who asked goes, what was learnt from it stays, in sums.

A loop's state is the fold of its events, and an event of a decision holds the context and the features made
from it. So the state of now becomes the loop's base first, as when it is pruned: a replay begins there, and
nobody needs what is erased before it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

import msgspec

from linoto.service.loops.events import EVENTS, FORGOTTEN, DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.records import naming, recover
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection
from linoto.service.storage.database import open_exclusively
from linoto.service.storage.places import Place

BACKUPS = "backups, exports and logs that were made before still hold it: they are yours to delete"


def forget(path: Place, wanted: Mapping[str, str], *, loop: str | None = None) -> Generator[str, None, int]:
    """Erase contexts, their features, reasons and keys of decisions that were asked for with these fields.

    A line per loop says how many; no server may use the database meanwhile. The file is written anew, and its
    write-ahead log is emptied. Again, it finds nothing, and does the last part again. Returned is how many
    decisions still hold it, because they are open.
    """
    if not wanted:
        raise ValueError("context must name at least one field, got none")
    found = kept = 0
    with open_exclusively(path) as connection:
        rows = [row for row in sql.all_loops(connection) if loop in (None, row[1])]
        if loop is not None and not rows:
            raise ValueError(f"there is no loop {loop!r}")
        loops = [recover(connection, row) for row in rows]
        check_fields(loops, wanted)
        for each in loops:
            closed, waiting = yield from forget_in(connection, each, wanted)
            found, kept = found + closed + waiting, kept + waiting
        also = connection.rewrite()
    done = "written anew without it" if found else "found nothing, and written anew all the same"
    yield f"{path}: {f'not done, {kept} decisions still hold it' if kept else done}; {also}{BACKUPS}"
    return kept


def check_fields(loops: list[Loop], wanted: Mapping[str, str]) -> None:
    """Refuse a field that no decision can have been asked for with: nobody would be found by it."""
    known = {field for loop in loops for field in loop.arms.context_fields or ()}
    if not known:
        names = ", ".join(repr(loop.name) for loop in loops) or "no loop at all"
        raise ValueError(f"context must be that of a loop with contexts, got {names} without any")
    for field in wanted:
        if field not in known:
            raise ValueError(f"context must have known fields ({', '.join(sorted(known))}), got {field!r}")


def forget_in(
    connection: Connection, loop: Loop, wanted: Mapping[str, str]
) -> Generator[str, None, tuple[int, int]]:
    """The same in one loop, in one transaction: how many were forgotten, and how many are open."""
    found = list(events_of(connection, loop, wanted))
    waiting = loop.pending.keys() | loop.unmeasured.keys()
    closed = [(seq, event) for seq, event in found if event.number not in waiting]
    if closed:
        connection.begin()
        keep_state(connection, loop)
        for seq, event in closed:
            sql.replace_event(connection, loop.id, seq, msgspec.json.encode(event.without_person(FORGOTTEN)))
            sql.forget_key(connection, loop.id, event.number)
        connection.commit()
    kept = len(found) - len(closed)
    if closed:
        yield f"{loop.name}: {len(closed)} decisions forgotten; what was learnt from them stays, in sums"
    if kept:
        yield f"{loop.name}: {kept} decisions await a reward or a value: forget again when they are closed"
    named = [f"{field}={value}" for field, value in wanted.items() if names_level(loop, field, value)]
    if named:
        yield f"{loop.name}: its recipe has a level for {' and '.join(named)}, which stays: it is the loop"
    return len(closed), kept


def keep_state(connection: Connection, loop: Loop) -> None:
    """Let every replay begin from now."""
    state, agent = loop.snapshot()
    sql.put_base(connection, (loop.id, loop.state.seq, state, agent, time.time()))
    sql.insert_snapshot(connection, loop.id, loop.state.seq, state, agent)


def events_of(
    connection: Connection, loop: Loop, wanted: Mapping[str, str]
) -> Iterator[tuple[int, DecisionMade]]:
    """The decisions that were asked for with these fields, with the numbers of their events."""
    for seq, _, body in sql.events_after(connection, loop.id, 0):
        with naming(loop.name, seq):
            event = EVENTS.decode(body)
        if isinstance(event, DecisionMade) and event.context is not None:
            context = event.context
            if all(is_said(context.get(field), value) for field, value in wanted.items()):
                yield seq, event


def is_said(value: Any, text: str) -> bool:
    """Whether a value of a context is what somebody wrote on the command line."""
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    return isinstance(value, str) and value == text


def names_level(loop: Loop, field: str, value: str) -> bool:
    """Whether the recipe of a loop itself has a level of this name."""
    columns = [column for column in loop.arms.recipe.context if field in column.reads]
    return any(value in getattr(column, "levels", ()) for column in columns)
