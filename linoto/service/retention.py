"""Letting go of old records, also while they are served: what a loop was then becomes its new beginning.

A loop's state is the fold of its events. So before events go, the state they lead to is kept as the loop's
base, and a replay begins there from then on. Recovery never needed them: it goes from the last snapshot.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from linoto.service.loops.records import begun, follow, recover
from linoto.service.maintenance import first_seq, opened, owned
from linoto.service.storage import sql
from linoto.service.storage.sql import Connection

PIECE = 1000  # rows that go in one transaction; the server waits for the disk no longer than that takes
REST = 2.0  # times as long as a transaction took, in which the server has the database to itself
ATTEMPTS = 12  # to get the lock; each waits five seconds
Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """The base of a loop: all before it may go, but for the decisions that await their reward there."""

    id: int
    name: str
    seq: int
    decided: int
    pending: frozenset[int]
    books: bytes
    agent: bytes


def prune(
    path: Path,
    *,
    before: float,
    now: float,
    loop: str | None = None,
    dry_run: bool = False,
    sleep: Sleep = time.sleep,
    piece: int = PIECE,
) -> Iterator[str]:
    """Let go of decisions closed before a time, and of their events; a line per loop on what goes and stays.

    Nothing after a loop's last snapshot goes, nor a decision that awaits its reward.
    """
    with opened(path, readonly=True) as reading:
        rows = [row for row in sql.all_loops(reading) if loop in (None, row[1])]
        if loop is not None and not rows:
            raise ValueError(f"there is no loop {loop!r}")
        for row in rows:
            plan = plan_of(reading, row, before)
            if plan is None:
                yield f"{row[1]}: left alone, it has no snapshot yet"
                continue
            decisions, events, line = account(reading, plan)
            if (decisions or events) and not dry_run:
                with opened(path) as writing:
                    carry_out(reading, writing, plan, now, sleep, piece)
            yield f"{plan.name}: {'would let go of' if dry_run else 'let go of'} {line}"


def prune_and_shrink(path: Path, *, before: float, now: float, loop: str | None = None) -> Iterator[str]:
    """The same for a database that nobody serves, and the space goes back to the file system."""
    with owned(path) as connection:
        yield from prune(path, before=before, now=now, loop=loop, sleep=lambda _: None)
        size = path.stat().st_size
        sql.shrink(connection)
        yield f"{path}: {size / 1e6:.1f} MB are now {path.stat().st_size / 1e6:.1f} MB"


def plan_of(connection: Connection, row: sql.Row, before: float) -> Plan | None:
    """The state at the cutoff, or at the last snapshot if that is earlier; None where there is no snapshot.

    The replay goes on from there to the snapshot, which must come out the same before anything is let go.
    """
    saved = sql.latest_snapshot(connection, row[0])
    if saved is None:
        return None
    base = first_seq(connection, row[0])
    seq = max(base, min(saved[0], sql.last_seq_before(connection, row[0], before)))
    loop = recover(connection, row, from_scratch=True, last=seq)
    decided, pending = loop.books.decided, frozenset(loop.books.pending)
    plan = Plan(loop.id, loop.name, seq, decided, pending, *loop.snapshot())
    if seq > base:
        follow(connection, loop, saved[0])
        if loop.digest() != begun(connection, row, saved).digest():
            raise ValueError(
                f"loop {loop.name!r}: its snapshot is not what its events make of it, so nothing goes: "
                "see `linoto db check`"
            )
    return plan


def account(connection: Connection, plan: Plan) -> tuple[int, int, str]:
    """(decisions, events) that go, and a line on what goes and what stays."""
    old, decisions, old_events, events = sql.count_rows(connection, plan.id, plan.seq, plan.decided)
    gone, gone_events = old - len(plan.pending), old_events - len(plan.pending)
    stay = f"{decisions - gone} decisions and {events - gone_events} events stay"
    return gone, gone_events, f"{gone} decisions and {gone_events} events, {stay}"


def carry_out(
    reading: Connection, writing: Connection, plan: Plan, now: float, sleep: Sleep, piece: int
) -> None:
    """First the base is on disk, then decisions go, then events: to stop anywhere in between is harmless."""
    base = (plan.id, plan.seq, plan.books, plan.agent, now)
    change(writing, sleep, partial(sql.put_base, writing, base))
    kept: set[int] = set()  # the events of decisions that stay
    for rows in pieces(sql.decisions_after, reading, plan.id, plan.decided, piece):
        kept.update(seq for number, seq in rows if number in plan.pending)
        numbers = [number for number, _ in rows if number not in plan.pending]
        change(writing, sleep, partial(sql.delete_decisions, writing, plan.id, numbers))
    for rows in pieces(sql.seqs_after, reading, plan.id, plan.seq, piece):
        seqs = [seq for (seq,) in rows if seq not in kept]
        change(writing, sleep, partial(sql.delete_events, writing, plan.id, seqs))


def pieces(
    find: Callable[[Connection, int, int, int, int], list[sql.Row]],
    connection: Connection,
    loop: int,
    last: int,
    piece: int,
) -> Iterator[list[sql.Row]]:
    """Rows up to `last`, some at a time."""
    after = 0
    while rows := find(connection, loop, after, last, piece):
        yield rows
        after = rows[-1][0]


def change(connection: Connection, sleep: Sleep, write: Callable[[], None]) -> None:
    """One short transaction, and then a rest for the others."""
    take_turn(connection)
    began = time.perf_counter()
    write()
    sql.commit(connection)
    sleep(REST * (time.perf_counter() - began))


def take_turn(connection: Connection) -> None:
    """Begin between two transactions of the server, however busy it is."""
    for attempt in range(ATTEMPTS):
        try:
            sql.begin(connection)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or attempt == ATTEMPTS - 1:
                raise
