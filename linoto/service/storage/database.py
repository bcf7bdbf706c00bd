"""A database file: how it is opened, who owns it, and its transactions."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Self

from linoto.service.storage import schema

PROBE = 24_000  # bytes: a decision writes a page of each of some tables and indices, seven when they are full
Files = tuple[tuple[int, int] | None, ...]

# -- opening


def connect(path: Path, *, readonly: bool = False) -> Connection:
    """A connection whose transactions are ours to begin and end."""
    mode = "ro" if readonly else "rwc"
    try:
        if not readonly:  # files of SQLite beside it get the same permissions
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise OSError(f"cannot open the database {path}: {error}") from error
    except OSError as error:
        raise OSError(f"cannot open the database {path}: {error.strerror}") from error


def prepare(connection: Connection, path: Path, *, older: bool = False) -> None:
    """Make the tables of a new database; refuse one that is not ours, or of a version we do not know.

    Nothing is written before it is known whose it is: also the mode of the journal is kept in the file.
    """
    try:
        set_busy_timeout(connection, 5.0)
        application, version = schema.versions(connection)
        if schema.is_empty(connection) and (application, version) == (0, 0):
            set_durable(connection)
            schema.create(connection)
            application, version = schema.versions(connection)
        elif application == schema.APPLICATION:
            set_durable(connection)
    except sqlite3.Error as error:
        raise OSError(f"cannot use the database {path}: {error}") from error
    ours = schema.VERSION
    if application != schema.APPLICATION:
        raise ValueError(f"{path} must be a database of linoto, got one of another program")
    if version > ours:
        raise ValueError(f"{path} must have schema {ours} or older, got {version}: written by a newer linoto")
    if version < ours and not older:
        raise ValueError(
            f"{path} must have schema {ours}, got {version}: back it up, then run `linoto db migrate`"
        )


def set_durable(connection: Connection) -> None:
    """Write-ahead log, synced at every commit; wait a little for another process that writes."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = 1")
    set_busy_timeout(connection, 5.0)
    connection.execute("PRAGMA wal_autocheckpoint = 16000")  # pages; each checkpoint costs two more syncs


def set_busy_timeout(connection: Connection, seconds: float) -> None:
    """How long to wait for another process that writes."""
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")


@contextmanager
def open_database(
    path: Path, *, create: bool = False, readonly: bool = False, older: bool = False
) -> Iterator[Connection]:
    """A connection that may be used while a server runs: SQLite orders the writers, so it needs no lock.

    With `create` every table is there, in a new file and in one that is older than some of them.
    """
    if not create and not path.exists():
        raise FileNotFoundError(f"there is no database {path}")
    connection = connect(path, readonly=readonly)
    try:
        prepare(connection, path, older=older)
        if create:
            schema.add_tables(connection)
        yield connection
    except sqlite3.Error as error:
        raise OSError(f"cannot use the database {path}: {error}") from error
    finally:
        connection.close()


@contextmanager
def open_exclusively(path: Path, *, older: bool = False) -> Iterator[Connection]:
    """A connection to a database that no server may use meanwhile."""
    if not path.exists():
        raise FileNotFoundError(f"there is no database {path}")
    with Owned(path) as owned:
        owned.lock_file()
        with open_database(path, older=older) as connection:
            yield connection


class Owned:
    """A database that no other server may use, until this is closed or the process ends, however it ends.

    Its name is locked, by a file beside it: there may be no database yet, or another is put in its place.
    Once it is there, so is the file itself: it may have other names, and the one beside it may be deleted.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._handles = path, list[int]()
        name = path.resolve()
        self._lock(name.with_name(name.name + ".lock"))

    def lock_file(self) -> None:
        """Lock the file itself, which is made if it is not there.

        SQLite has locks of another kind, which do not know of this one. But they end where any handle of the
        file is closed in this process: so this one is closed last.
        """
        self._lock(self.path)

    def _lock(self, file: Path) -> None:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.close()
            raise OSError(f"cannot open the database {self.path}: {error.strerror}") from error
        self._handles.append(handle)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise OSError(
                f"the database {self.path} is in use by another server: one process owns it"
            ) from None

    def close(self) -> None:
        """Let others have it."""
        while self._handles:
            os.close(self._handles.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


# -- transactions


def begin(connection: Connection) -> None:
    """A transaction that has the lock from the start; on a disk that cannot be written, one that reads.

    One that reads first and then writes fails at once if another process has written in between.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        connection.execute("BEGIN")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process is writing."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def commit(connection: Connection) -> None:
    """On disk when this returns."""
    connection.execute("COMMIT")


def rollback(connection: Connection) -> None:
    """Undo the transaction, if one is open."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


# -- the file


def check_writable(connection: Connection) -> None:
    """An error where a decision would be one: as many pages are really written, always the same ones."""
    connection.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (PROBE,))


def files(path: Path) -> Files:
    """Which files are meant by the name of a database: its own, and its write-ahead log."""
    return file_at(path), file_at(path.with_name(path.name + "-wal"))


def file_at(path: Path) -> tuple[int, int] | None:
    """Which file has this name now, if any."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_integrity(connection: Connection) -> str:
    """'ok', or what is wrong with the file."""
    return str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])


def shrink(connection: Connection) -> None:
    """Give free pages back to the file system."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
