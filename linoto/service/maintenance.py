"""Commands for a database, apart from the server: back up, check, rebuild, migrate, add a loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex

from linoto.service.loops.closeness import same_state
from linoto.service.loops.keys import EPOCH_BYTES
from linoto.service.loops.loop import Loop
from linoto.service.loops.operations import Clock, Loops, check_new
from linoto.service.loops.records import (
    UNREADABLE,
    check_promise,
    check_tables,
    insert,
    keep_promise,
    raise_wrong,
    recover,
    why_unreadable,
)
from linoto.service.loops.restores import note_of, restored_event, restored_text
from linoto.service.loops.spec import LoopSpec
from linoto.service.storage import expected, features, schema, sql, sqlite, tokens
from linoto.service.storage.connection import Connection, Row
from linoto.service.storage.database import open_database, open_exclusively
from linoto.service.storage.expected import discard, put_in_place
from linoto.service.storage.features import StoredArms
from linoto.service.storage.places import Address, Place
from linoto.service.storage.store import Store

PG_DUMP = "back a PostgreSQL database up with pg_dump --format=custom, or with what your server has for it"


def backup(path: Place, out: Path) -> None:
    """A copy as of one moment, complete on disk when this returns."""
    if isinstance(path, Address):
        raise ValueError(f"{path} must be a file of SQLite: {PG_DUMP}")
    if out.exists():
        raise FileExistsError(f"{out} exists: name a file that does not")
    copy_database(path, out)


def restore(copy: Path, path: Path, *, keep_tokens: bool = False, clock: Clock = time.time) -> list[str]:
    """Put a backup in the place of a database that is not there any more; nothing is overwritten.

    What came after the backup is lost, but was seen: no id, coin or number of an event is given out again.
    The lines say what this means for each loop, and what is to be done. What fails leaves nothing behind.
    """
    with sqlite.Owned(path) as owned:
        try:
            return restore_owned(copy, path, keep_tokens, clock)
        except BaseException:
            owned.leave_nothing()
            raise


def restore_owned(copy: Path, path: Path, keep_tokens: bool, clock: Clock) -> list[str]:
    """The same under a name that nobody else uses."""
    wal = path.with_name(path.name + "-wal")  # SQLite would apply it to what is restored
    for there in (path, wal):
        if there.exists() and (there == path or there.stat().st_size):
            raise FileExistsError(
                f"{there} exists: move it away first, it would be mixed with what is restored"
            )
    with open_database(copy, readonly=True, older=True) as source:
        found = source.check_integrity()
    if found != "ok":
        raise ValueError(f"{copy} is damaged: {found}")
    note, part = expected.beside(path), path.with_name(path.name + ".part")
    noted = expected.read(note)
    try:
        copy_into(copy, part)
        with sqlite.open_database(part, older=True) as connection:
            schema.migrate(connection, schema.MIGRATIONS, schema.VERSION)
            lines, loops = begin_epoch(connection, noted, keep_tokens, clock())
        put_in_place(part, path)  # if it ends here, the old note is one that this file keeps to
    finally:
        discard(part)
    expected.put(note, map(note_of, loops))
    if loops and not noted:
        lines.append(
            f"there was no {note.name} beside it: to have lost decisions counted, restore again with it"
        )
    return [f"{path}: restored from {copy}", *lines]


def restored_elsewhere(address: Address, *, keep_tokens: bool = False, clock: Clock = time.time) -> list[str]:
    """The same for a database that pg_restore has brought back: nobody knows what came after its backup."""
    with open_exclusively(address) as connection:
        lines, _ = begin_epoch(connection, {}, keep_tokens, clock())
    return [f"{address}: restored by PostgreSQL's own tools", *lines]


def begin_epoch(
    connection: Connection, noted: dict[int, expected.Note], keep_tokens: bool, now: float
) -> tuple[list[str], list[Loop]]:
    """Tell every loop of a copy that it was restored; what to say of it, and the loops.

    `noted` is what was noted of each loop beside the database that is gone.
    """
    epoch, lines, loops = token_hex(EPOCH_BYTES), list[str](), list[Loop]()
    connection.begin()
    connection.add_tables()
    sql.put_epoch(connection, epoch)
    for row in sql.all_loops(connection):
        loop = recover_for_restore(connection, row)
        event = restored_event(loop, epoch, noted.get(loop.id))
        loop.apply(event, max(now, loop.state.at))
        insert(connection, loop, event)
        sql.insert_snapshot(connection, loop.id, loop.state.seq, *loop.snapshot())
        keep_promise(connection, loop)
        loops.append(loop)
        lines.append(
            f"{loop.name}: now safe-only; {restored_text(event.missing, event.costly, event.decided)}"
        )
    tags = {note_of(loop).tag for loop in loops}
    lost = sorted(id for id, note in noted.items() if note.tag not in tags)
    lines += [f"loop number {id}: made after the backup, and lost with it" for id in lost]
    lines += revoke_tokens(connection, keep_tokens, now)
    connection.commit()
    return lines, loops


def recover_for_restore(connection: Connection, row: Row) -> Loop:
    """A loop of a copy; it cannot be left out, as it would miss its new epoch when it is mended later."""
    try:
        return recover(connection, row)
    except UNREADABLE as error:
        raise ValueError(
            "nothing is restored, because a loop that is left out would give ids out twice once it is "
            f"mended; take another backup, or mend a copy of this one: {why_unreadable(row[1], error)}"
        ) from error


def revoke_tokens(connection: Connection, keep: bool, now: float) -> list[str]:
    """A token that was revoked after the backup is valid in it: revoke them all, unless they are kept."""
    names = ", ".join(row[0] for row in tokens.all_tokens(connection))
    if not tokens.had_tokens(connection):
        return [
            "tokens: the backup has none, so everybody on this machine may do everything; if there were some "
            "after it, make new ones before it is served: `linoto db token create NAME --role ROLE`"
        ]
    if not names:
        return []
    if keep:
        return [f"tokens: as in the backup ({names}); revoke again what was revoked after it"]
    tokens.revoke_all(connection, now)
    hint = "make new ones with `linoto db token create NAME --role ROLE`, or restore with --keep-tokens"
    return [f"tokens: {names} revoked, because the backup does not know what was revoked after it; {hint}"]


def copy_database(path: Path, out: Path) -> None:
    """The database with its write-ahead file as one new file, on disk when this returns."""
    part = out.with_name(out.name + ".part")
    copy_into(path, part)
    put_in_place(part, out)


def copy_into(path: Path, part: Path) -> None:
    """The same without a sync, as a file that is not in its place yet."""
    discard(part)  # what an attempt before has left
    with sqlite.open_database(path, readonly=True, older=True) as source:
        target = sqlite.connect(part)
        try:
            source.backup(target)
        finally:
            target.close()


def create_loop(
    path: Place, name: str, spec: LoopSpec, clock: Clock = time.time, *, arms: StoredArms | None = None
) -> tuple[Loop, bool]:
    """Add a loop of a canonical spec, or find the one made from the same; whether it is new.

    `arms` are those of its file, which is stored with it, in one transaction. What is refused leaves no
    database behind that was not there.
    """
    loops, loop = Loops(clock), Loop.fresh(name, spec)
    if isinstance(path, Path) and not path.exists():
        check_new(loop)
    store = Store(path, on_commit=loops.committed, on_rollback=loops.rolled_back)
    try:
        store.write_sync(loops.load)
        return store.write_sync(partial(create_with, loops, loop, arms))
    finally:
        store.close()


def create_with(
    loops: Loops, loop: Loop, arms: StoredArms | None, connection: Connection
) -> tuple[Loop, bool]:
    """A loop and the file of its arms, both or none."""
    if arms is not None:
        features.put(connection, arms, loops.clock())
    return loops.create(connection, loop)


def rebuild(path: Place) -> Iterator[str]:
    """Replay every loop from its beginning, and keep the result as its snapshot.

    One that cannot be replayed is left as it is; at last ValueError, where there are such.
    """
    wrong = dict[str, str]()
    with open_exclusively(path) as connection:
        rows = sql.all_loops(connection)
        for row in rows:
            try:
                loop = recover(connection, row, from_scratch=True)
            except UNREADABLE as error:
                wrong[row[1]] = why_unreadable(row[1], error)
                yield f"{row[1]}: NOT REPLAYED: {wrong[row[1]]}"
                continue
            connection.begin()
            sql.delete_snapshots(connection, loop.id)
            sql.insert_snapshot(connection, loop.id, loop.state.seq, *loop.snapshot())
            connection.add_tables()
            keep_promise(connection, loop)
            connection.commit()
            yield f"{loop.name}: replayed {loop.state.seq - sql.base_seq(connection, loop.id)} events"
    raise_wrong(wrong, len(rows), "were not replayed")


def migrate(path: Place, scripts: dict[int, str] = schema.MIGRATIONS, target: int = schema.VERSION) -> str:
    """Bring an older database to the schema of this version, while no server uses it."""
    if isinstance(path, Address):
        return f"{path}: schema {schema.VERSION} is that of this version"
    with sqlite.open_exclusively(path, older=True) as connection:
        before = schema.versions(connection)[1]
        schema.migrate(connection, scripts, target)
        schema.add_tables(connection)
        return f"{path}: schema {before} is now {schema.versions(connection)[1]}"


def check(path: Place) -> Iterator[str]:
    """One line for the file and one per loop; at last ValueError, where a snapshot and its events disagree.

    And where there are fewer events than the note beside the database says: a start would refuse it. The note
    is read before, as a server may write more meanwhile.
    """
    wrong = dict[str, str]()
    note = None if isinstance(path, Address) else expected.beside(path)
    noted = {} if note is None else expected.read(note)
    with open_database(path, readonly=True) as connection:
        connection.execute("BEGIN")
        found = connection.check_integrity()
        if found != "ok":
            raise ValueError(f"{path} is damaged: {found}")
        yield f"{path}: {'database' if note is None else 'file'} ok"
        rows = sql.all_loops(connection)
        for row in rows:
            mine = {id: noted.pop(id) for id in row[:1] if id in noted}
            try:
                line = check_loop(connection, row, note, mine)
            except UNREADABLE as error:
                wrong[row[1]] = why_unreadable(row[1], error)
                line = f"{row[1]}: NOT OK: {wrong[row[1]]}"
            yield line
        damaged = list(features.find_damaged(connection))
        yield from (f"NOT OK: {why}" for why in damaged)
        raise_wrong(wrong, len(rows), "are not as they should be")
        if damaged:
            raise ValueError(damaged[0])
        if note is not None:
            expected.check(note, noted, {})


def check_loop(connection: Connection, row: Row, note: Path | None, noted: dict[int, expected.Note]) -> str:
    """What to say of a loop of which all that is kept agrees; ValueError where it does not."""
    check_tables(connection, row[0], row[1])
    short, long = recover(connection, row), recover(connection, row, from_scratch=True)
    if not same_state(short, long):
        raise ValueError(
            f"loop {row[1]!r}: its snapshot is not what its events make of it; if an earlier version "
            "of linoto wrote it, stop the server and make another: `linoto db rebuild`"
        )
    check_promise(connection, long)
    if note is not None:
        expected.check(note, noted, {row[0]: (row[1], note_of(long))})
    there = sql.count_rows(connection, row[0], 0, 0)[3]
    pruned = f", {there} of them kept after pruning" if sql.base_seq(connection, row[0]) else ""
    return f"{row[1]}: {long.state.seq} events{pruned}, snapshot, replay and tables agree"
