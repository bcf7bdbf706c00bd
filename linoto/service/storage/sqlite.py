"""SQLite: how a file is opened, who owns it, and what its connections can do beside statements."""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self

from linoto.service.storage import expected, schema
from linoto.service.storage.connection import Answered, Keys, LateRowError, Row, Table

logger = logging.getLogger("linoto.service")
PROBE = 24_000  # bytes: a decision writes a page of each of some tables and indices, seven when they are full
CACHE = 16_384  # kB of pages: keys come in no order, so one may be on any page of their index
Files = tuple[tuple[int, int] | None, ...]
TOGETHER = 32  # rows in one statement: two thirds of the time of a statement each
APPEND: dict[Table, str] = {
    "events": "INSERT INTO events VALUES (?, ?, ?, ?)",
    "decisions": "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "rewards": "INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?)",
    "metrics": "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)",
}


def together(statement: str) -> str:
    """The same for so many rows; whoever is refused one undoes all, so nothing has to be noted for that."""
    head, values = statement.replace("INSERT", "INSERT OR FAIL").split(" VALUES ")
    return f"{head} VALUES {', '.join([values] * TOGETHER)}"


APPEND_TOGETHER = {table: together(statement) for table, statement in APPEND.items()}


class RefusedRowError(LateRowError, sqlite3.IntegrityError):
    """The same in a file."""


class FileConnection(sqlite3.Connection):
    """A connection of SQLite: a statement takes microseconds, so each is run as it comes.

    Only rows that are appended wait for the next one, or for the commit: many at once take half the time.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._appended: defaultdict[Table, list[Row]] = defaultdict(list)

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        """One statement, which sees what was appended before."""
        if self._appended:
            self._insert()
        return super().execute(statement, values)

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        """The same with each of these rows."""
        if self._appended:
            self._insert()
        return super().executemany(statement, rows)

    @property
    def total_changes(self) -> int:
        """Rows that were written, or wait."""
        return super().total_changes + sum(map(len, self._appended.values()))

    def _insert(self) -> None:
        waiting, self._appended = self._appended, defaultdict(list)
        try:
            for table, rows in waiting.items():
                whole = len(rows) - len(rows) % TOGETHER
                for start in range(0, whole, TOGETHER):
                    some = chain.from_iterable(rows[start : start + TOGETHER])
                    super().execute(APPEND_TOGETHER[table], tuple(some))
                super().executemany(APPEND[table], rows[whole:])
        except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError, UnicodeError) as error:
            raise RefusedRowError(f"a row cannot be kept: {error}") from error

    def stream(self, statement: str, values: Row) -> Iterator[Row]:
        """Rows as they are read."""
        return self.execute(statement, values)

    def append(self, table: Table, row: Row) -> None:
        """One more row."""
        self._appended[table].append(row)

    def commit(self) -> None:
        """On disk when this returns."""
        self._insert()
        super().commit()

    def rollback(self) -> None:
        """Undo the transaction."""
        self._appended.clear()
        super().rollback()

    def recall(self, loop: int, key: str) -> Answered | None:
        """Nothing: to ask costs as much."""
        return None

    def has_table(self, name: str) -> bool:
        """Whether there is such a table."""
        return self.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)).fetchone() is not None

    def add_tables(self) -> None:
        """What was added without a new version."""
        schema.add_tables(self)

    def count_on(self) -> None:
        """It does so by itself."""

    def note(self) -> Path | None:
        """The file that belongs to the database."""
        return expected.beside(Path(self.execute("PRAGMA database_list").fetchone()[2]))

    def check_writable(self) -> None:
        """As many pages are really written as by a decision, always the same ones."""
        self.execute("INSERT OR REPLACE INTO probe VALUES (1, randomblob(?))", (PROBE,))

    def check_integrity(self) -> str:
        """'ok', or what is wrong with the file."""
        return str(self.execute("PRAGMA integrity_check(1)").fetchone()[0])

    def size(self) -> int:
        """Of the file."""
        return os.stat(self.execute("PRAGMA database_list").fetchone()[2]).st_size

    def shrink(self) -> None:
        """Give free pages back to the file system."""
        self.execute("VACUUM")
        self.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rewrite(self) -> str:
        """The file holds no free page then, and the write-ahead file nothing."""
        self.shrink()
        return ""

    def begin(self, keys: Keys = ()) -> None:
        """A transaction that has the lock from the start; on a disk that cannot be written, one that reads.

        One that reads first and then writes fails at once if another process has written in between.
        """
        try:
            self.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
                raise
            self.execute("BEGIN")


# -- opening


def connect(path: Path, *, readonly: bool = False) -> FileConnection:
    """A connection whose transactions are ours to begin and end."""
    mode = "ro" if readonly else "rwc"
    try:
        if not readonly:  # files of SQLite beside it get the same permissions
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            factory=FileConnection,
        )
    except sqlite3.Error as error:
        raise OSError(f"cannot open the database {path}: {error}") from error
    except OSError as error:
        raise OSError(f"cannot open the database {path}: {error.strerror}") from error


def prepare(connection: FileConnection, path: Path, *, older: bool = False) -> None:
    """Make the tables of a new database; refuse one that is not ours, or of a version we do not know.

    Nothing is written before it is known whose it is: also the mode of the journal is kept in the file.
    """
    try:
        set_busy_timeout(connection, 5.0)
        application, version = schema.versions(connection)
        if schema.is_empty(connection) and (application, version) == (0, 0):
            set_durable(connection)
            schema.create(connection)
            logger.info("new database", extra={"db": str(path)})
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


def set_durable(connection: FileConnection) -> None:
    """Write-ahead log, synced at every commit; wait a little for another process that writes."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = 1")
    set_busy_timeout(connection, 5.0)
    connection.execute("PRAGMA wal_autocheckpoint = 16000")  # pages; each checkpoint costs two more syncs
    connection.execute(f"PRAGMA cache_size = -{CACHE}")


def set_busy_timeout(connection: FileConnection, seconds: float) -> None:
    """How long to wait for another process that writes."""
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")


@contextmanager
def open_database(
    path: Path, *, create: bool = False, readonly: bool = False, older: bool = False, wait: float = 5.0
) -> Iterator[FileConnection]:
    """A connection that may be used while a server runs: SQLite orders the writers, so it needs no lock.

    With `create` every table is there, in a new file and in one that is older than some of them.
    """
    if not create and not path.exists():
        raise FileNotFoundError(f"there is no database {path}")
    connection = connect(path, readonly=readonly)
    try:
        prepare(connection, path, older=older)
        set_busy_timeout(connection, wait)
        if create:
            schema.add_tables(connection)
        yield connection
    except sqlite3.Error as error:
        raise OSError(f"cannot use the database {path}: {error}") from error
    finally:
        connection.close()


@contextmanager
def open_exclusively(path: Path, *, older: bool = False) -> Iterator[FileConnection]:
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
        self._beside = name.with_name(name.name + ".lock")
        self._made_it = not self._beside.exists()
        self._lock(self._beside)

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
            if file_at(file) != identity(os.fstat(handle)):
                raise FileNotFoundError  # taken away meanwhile: who comes next would not see this lock
        except OSError:
            self.close()
            raise OSError(
                f"the database {self.path} is in use by another server: one process owns it"
            ) from None

    def leave_nothing(self) -> None:
        """Take away the file beside it while it is locked, if it was made for this."""
        if self._made_it:
            self._beside.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it."""
        while self._handles:
            os.close(self._handles.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


# -- the file


def files(path: Path) -> Files:
    """Which files are meant by the name of a database: its own, and its write-ahead log."""
    return file_at(path), file_at(path.with_name(path.name + "-wal"))


def file_at(path: Path) -> tuple[int, int] | None:
    """Which file has this name now, if any."""
    try:
        return identity(path.stat())
    except OSError:
        return None


def identity(found: os.stat_result) -> tuple[int, int]:
    """What tells a file from every other, whatever it is called."""
    return found.st_dev, found.st_ino


class DatabaseFile:
    """A file that one server owns, and the connection that writes."""

    errors = (sqlite3.Error, OSError)
    remote, leased, replaced, cut, leads = False, True, False, False, True
    shared, view, held = False, None, frozenset[int]()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files: Files | None = None  # when all of them were made
        self._owned = Owned(path)
        try:
            self._owned.lock_file()
            self.connection = connect(path)
        except BaseException:
            self._owned.close()
            raise

    def prepare(self) -> None:
        """Make the tables, or refuse what is not ours."""
        prepare(self.connection, self.path)

    def settle(self) -> None:
        """Remember which files there are now."""
        self._files = files(self.path)

    def check_place(self) -> None:
        """What is written to a file that has lost its name would not be found again."""
        if self._files not in (None, files(self.path)):
            raise OSError(f"{self.path} was moved or replaced: put it back with its -wal file, or restart")

    def read(self) -> FileConnection:
        """A connection that sees what is committed, and cannot write."""
        connection = connect(self.path, readonly=True)
        try:
            connection.execute("BEGIN")
        except BaseException:
            connection.close()
            raise
        return connection

    read_where_written = read

    def join(self) -> None:
        """Nobody shares a file."""

    retire = join

    def take(self, parts: list[int]) -> None:
        """All of it is this server's."""

    give_up = take

    def knows(self, keys: Keys) -> bool:
        """To ask costs as much."""
        return True

    def wait_for_others(self, seconds: float) -> None:
        """How long to wait for another process that writes."""
        set_busy_timeout(self.connection, seconds)

    def is_busy(self, error: Exception) -> bool:
        """Whether another process is writing."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY

    def is_conflict(self, error: Exception) -> bool:
        """Whether a row is there already, or cannot be kept."""
        return isinstance(error, sqlite3.IntegrityError)

    def release(self) -> None:
        """Let others have it."""
        self.connection.close()
        self._owned.close()
