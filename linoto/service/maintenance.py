"""Looking after a database from outside the server: back up, check, rebuild, migrate."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from linoto.service.loops.records import recover
from linoto.service.storage import sql
from linoto.service.storage.sql import Connection
from linoto.service.storage.store import connect, lock, prepare


@contextmanager
def opened(
    path: Path, *, create: bool = False, readonly: bool = False, older: bool = False
) -> Iterator[Connection]:
    """A connection beside a running server, which needs no lock: SQLite orders the writers."""
    if not create and not path.exists():
        raise FileNotFoundError(f"there is no database {path}")
    connection = connect(path, readonly=readonly)
    try:
        prepare(connection, path, older=older)
        yield connection
    except sqlite3.Error as error:
        raise OSError(f"cannot use the database {path}: {error}") from error
    finally:
        connection.close()


@contextmanager
def owned(path: Path, *, older: bool = False) -> Iterator[Connection]:
    """A connection to a database that nobody may be serving meanwhile."""
    if not path.exists():
        raise FileNotFoundError(f"there is no database {path}")
    handle = lock(path)
    try:
        with opened(path, older=older) as connection:
            yield connection
    finally:
        os.close(handle)


def backup(path: Path, out: Path) -> None:
    """A copy as of one moment, complete on disk when this returns."""
    if out.exists():
        raise FileExistsError(f"{out} exists: name a file that does not")
    part = out.with_name(out.name + ".part")
    part.unlink(missing_ok=True)
    with opened(path, readonly=True, older=True) as source:
        target = connect(part)
        try:
            source.backup(target)
        finally:
            target.close()
    with part.open("rb") as copy:
        os.fsync(copy.fileno())
    part.rename(out)
    folder = os.open(out.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the name, too, is on disk
    finally:
        os.close(folder)


def rebuild(path: Path) -> Iterator[str]:
    """Replay every loop from its beginning, and keep what comes out as its snapshot."""
    with owned(path) as connection:
        for row in sql.all_loops(connection):
            loop = recover(connection, row, from_scratch=True)
            sql.begin(connection)
            sql.delete_snapshots(connection, loop.id)
            sql.insert_snapshot(connection, loop.id, loop.books.seq, *loop.snapshot())
            sql.commit(connection)
            yield f"{loop.name}: replayed {loop.books.seq - first_seq(connection, loop.id)} events"


def first_seq(connection: Connection, loop: int) -> int:
    """The event that a replay begins after: 0, or that of the base."""
    base = sql.base_of(connection, loop)
    return 0 if base is None else int(base[0])


def migrate(path: Path, scripts: dict[int, str] = sql.MIGRATIONS, target: int = sql.VERSION) -> str:
    """Bring an older database to the schema of this version; nobody may be serving it."""
    with owned(path, older=True) as connection:
        before = sql.versions(connection)[1]
        sql.migrate(connection, scripts, target)
        return f"{path}: schema {before} is now {sql.versions(connection)[1]}"


def check(path: Path) -> Iterator[str]:
    """One line for the file and one per loop; ValueError where a snapshot and its events disagree."""
    with opened(path, readonly=True) as connection:
        connection.execute("BEGIN")
        found = sql.check_integrity(connection)
        if found != "ok":
            raise ValueError(f"{path} is damaged: {found}")
        yield f"{path}: file ok"
        for row in sql.all_loops(connection):
            short, long = recover(connection, row), recover(connection, row, from_scratch=True)
            if short.digest() != long.digest():
                raise ValueError(f"loop {row[1]!r}: its snapshot is not what its events make of it")
            base = first_seq(connection, row[0])
            gone = f" of which {base} were let go" if base else ""
            yield f"{row[1]}: {long.books.seq} events{gone}, snapshot and replay agree"
