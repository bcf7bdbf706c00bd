"""Pruning old records, also while they are served: the state at the cutoff becomes the loop's beginning.

A loop's state is the fold of its events. So before events are pruned, the state they lead to is kept as the
loop's base, and a replay begins there from then on. Recovery never needed them: it starts from the last
snapshot.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from linoto.service.loops.closeness import same_state
from linoto.service.loops.records import (
    UNREADABLE,
    LeftOutError,
    apply_events,
    check_tables,
    raise_wrong,
    read_spec,
    recover,
    restored,
    why_unreadable,
)
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection, Row
from linoto.service.storage.database import open_database, open_exclusively
from linoto.service.storage.places import Place

BATCH = 1000  # rows pruned in one transaction; the server waits for the disk no longer than that takes
PARTS = 8  # the same of files of arms, of a megabyte each
PAUSE = 2.0  # times as long as a transaction took, in which the server has the database to itself
PATIENCE = 60.0  # seconds that a transaction waits for its turn, however busy the server is
Sleep = Callable[[float], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Base:
    """The state of a loop at the cutoff: all before it is pruned, except decisions that are open there."""

    id: int
    name: str
    seq: int
    decided: int
    pending: frozenset[int]  # open ones: a reward, or a value of a guardrail, is to come
    measured: bool  # whether it has guardrails
    state: bytes
    agent: bytes


def prune(
    path: Place,
    *,
    before: float,
    now: float,
    loop: str | None = None,
    dry_run: bool = False,
    sleep: Sleep = time.sleep,
    batch: int = BATCH,
) -> Iterator[str]:
    """Prune decisions closed before a time, and their events; a line per loop says what goes and stays.

    Nothing after a loop's last snapshot is pruned, nor a decision that awaits its reward. A loop that cannot
    be read is left as it is; at last ValueError, where there was one.
    """
    wrong = dict[str, str]()
    with open_database(path, readonly=True) as reading:
        rows = [row for row in sql.all_loops(reading) if loop in (None, row[1])]
        if loop is not None and not rows:
            raise ValueError(f"there is no loop {loop!r}")
        for row in rows:
            try:
                base = sound_base(reading, row, before)
            except UNREADABLE as error:
                wrong[row[1]] = why_unreadable(row[1], error)
                yield f"{row[1]}: NOT PRUNED: {wrong[row[1]]}"
                continue
            if base is None:
                yield f"{row[1]}: not pruned, it has no snapshot yet"
                continue
            decisions, events, line = count_pruned(reading, base)
            if (decisions or events) and not dry_run:
                with open_database(path, wait=PATIENCE) as writing:
                    prune_loop(reading, writing, base, now, sleep, batch)
            yield f"{base.name}: {'would prune' if dry_run else 'pruned'} {line}"
        if loop is None and not wrong:
            yield from prune_features(path, reading, before, dry_run, sleep)
    raise_wrong(wrong, len(rows), "were not pruned")


def prune_features(
    path: Place, reading: Connection, before: float, dry_run: bool, sleep: Sleep
) -> Iterator[str]:
    """Delete features by file that no loop has, and that nobody has sent or used since a time."""
    used = {read_spec(name, spec).features for _, name, spec, _ in sql.all_loops(reading)}
    for digest, size in sql.old_features(reading, before):
        if digest in used:
            continue
        if not dry_run:
            with open_database(path, wait=PATIENCE) as writing:
                change(writing, sleep, partial(sql.delete_head, writing, digest, before))
                while change(writing, sleep, partial(sql.delete_parts, writing, digest, before, PARTS)):
                    pass
        done = "would delete" if dry_run else "deleted"
        yield f"features {digest}: {done} {int(size) / 1e6:.1f} MB that no loop has"


def prune_and_shrink(path: Place, *, before: float, now: float, loop: str | None = None) -> Iterator[str]:
    """The same for a database that no server uses, and the space goes back to the file system.

    Also where a loop was left out: what is free is free.
    """
    failed: LeftOutError | None = None
    with open_exclusively(path) as connection:
        try:
            yield from prune(path, before=before, now=now, loop=loop, sleep=lambda _: None)
        except LeftOutError as error:
            failed = error
        size = connection.size()
        connection.shrink()
        yield f"{path}: {size / 1e6:.1f} MB are now {connection.size() / 1e6:.1f} MB"
    if failed is not None:
        raise failed


def sound_base(connection: Connection, row: Row, before: float) -> Base | None:
    """The same of a loop in which everything agrees, also after the cutoff: of others nothing is deleted."""
    connection.begin()  # as of one moment
    try:
        recover(connection, row)
        base = base_at(connection, row, before)
        check_tables(connection, row[0], row[1])
        return base
    finally:
        connection.rollback()


def base_at(connection: Connection, row: Row, before: float) -> Base | None:
    """The state at the cutoff, or at the last snapshot if that is earlier; None where there is no snapshot.

    The replay goes on from there to the snapshot, and must lead to the same state before anything is pruned.
    """
    saved = sql.latest_snapshot(connection, row[0])
    if saved is None:
        return None
    first = sql.base_seq(connection, row[0])
    seq = max(first, min(saved[0], sql.last_seq_before(connection, row[0], before)))
    loop = recover(connection, row, from_scratch=True, last=seq)
    decided, pending = loop.state.decided, frozenset(loop.pending) | frozenset(loop.unmeasured)
    base = Base(loop.id, loop.name, seq, decided, pending, bool(loop.metrics), *loop.snapshot())
    if seq > first:
        apply_events(connection, loop, saved[0])
        if not same_state(loop, restored(connection, row, saved)):
            raise ValueError(
                f"loop {loop.name!r}: its snapshot is not what its events make of it, so nothing is pruned: "
                "see `linoto db check`"
            )
    return base


def count_pruned(connection: Connection, base: Base) -> tuple[int, int, str]:
    """(decisions, events) that are pruned, and a line on what goes and what stays."""
    old, decisions, old_events, events = sql.count_rows(connection, base.id, base.seq, base.decided)
    gone, gone_events = old - len(base.pending), old_events - len(base.pending)
    stay = f"{decisions - gone} decisions and {events - gone_events} events stay"
    return gone, gone_events, f"{gone} decisions and {gone_events} events, {stay}"


def prune_loop(
    reading: Connection, writing: Connection, base: Base, now: float, sleep: Sleep, batch: int
) -> None:
    """First the base is on disk, then decisions go, then events: to stop anywhere in between is harmless."""
    values = (base.id, base.seq, base.state, base.agent, now)
    change(writing, sleep, partial(sql.put_base, writing, values))
    kept: set[int] = set()  # the events of decisions that stay
    for rows in batches(sql.decisions_after, reading, base.id, base.decided, batch):
        kept.update(seq for number, seq in rows if number in base.pending)
        numbers = [number for number, _ in rows if number not in base.pending]
        change(writing, sleep, partial(sql.delete_decisions, writing, base.id, numbers))
        if base.measured:
            change(writing, sleep, partial(sql.delete_metrics, writing, base.id, numbers))
    for rows in batches(sql.seqs_after, reading, base.id, base.seq, batch):
        seqs = [seq for (seq,) in rows if seq not in kept]
        change(writing, sleep, partial(sql.delete_events, writing, base.id, seqs))


def batches(
    find: Callable[[Connection, int, int, int, int], list[Row]],
    connection: Connection,
    loop: int,
    last: int,
    batch: int,
) -> Iterator[list[Row]]:
    """Rows up to `last`, some at a time."""
    after = 0
    while rows := find(connection, loop, after, last, batch):
        yield rows
        after = rows[-1][0]


def change(connection: Connection, sleep: Sleep, write: Callable[[], T]) -> T:
    """One short transaction, and then a pause for the server."""
    connection.begin()
    began = time.perf_counter()
    done = write()
    connection.commit()
    sleep(PAUSE * (time.perf_counter() - began))
    return done
