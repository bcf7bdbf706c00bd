"""PostgreSQL: sessions, who owns a database, and what its connections can do beside statements."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from linoto.service.errors import invalid
from linoto.service.storage import postgres_sql as own_sql
from linoto.service.storage.clocks import since_boot
from linoto.service.storage.connection import (
    NEVER,
    Answered,
    InDoubtError,
    InUseError,
    Keys,
    Row,
    Rows,
    Table,
)
from linoto.service.storage.places import REFUSAL, Address
from linoto.service.storage.schema import SECRET_BYTES

OLDEST = 150000  # of the versions of PostgreSQL
LEASE, BEAT = 3.0, 0.5  # seconds that an owner may be silent for, and between two signs of life
LOCK_WAIT, LOCK_RETRY = 1.0, 0.05  # seconds: the session of a server that was killed may end after it
IDLE = 4  # sessions that are kept for the next reader
AT_ONCE = 5000  # rows that are fetched together where an answer may be larger than memory
USUAL = {  # unless the address says otherwise: that a machine is gone is noticed
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "application_name": "linoto",
}
Raw = psycopg.Connection[Any]
PASSING = re.compile(  # what libpq says of a server that is not there: it has no code before a session
    "failed: (Connection refused|No such file or directory|Connection reset|No route to host)|"
    "timeout expired|the database system is|too many clients|connection slots|closed the connection|"
    "terminating connection|connection is (lost|closed)"
)
PASSING_STATES = ("08", "53300", "55P03", "57P")  # of connections, of too many, of locks, of operators
IN_USE = "the database {} is in use by another server: one process owns it"


def open_session(address: Address, *, readonly: bool, hasty: bool = False) -> Raw:
    """A session in our schema, in which a commit is on disk; its transactions are ours to begin and end.

    A hasty one waits a second for the locks of others, as a server does: its callers wait too.
    """
    try:
        given = conninfo_to_dict(address.url)
    except psycopg.ProgrammingError:  # it says which part is wrong, which may be the password
        raise ValueError(f"db {REFUSAL}") from None
    try:
        usual = {name: value for name, value in USUAL.items() if name not in given}
        if not readonly and "target_session_attrs" not in given:
            usual["target_session_attrs"] = "read-write"
        raw = psycopg.connect(address.url, autocommit=True, cursor_factory=psycopg.RawCursor, **usual)  # type: ignore[arg-type]
    except psycopg.Error as error:
        raise OSError(f"cannot open the database {address}: {one_line(error)}") from error
    try:
        raw.execute(f"SET search_path = {own_sql.SCHEMA}".encode())
        raw.execute("SELECT set_config('synchronous_commit', 'on', false) "
                    "WHERE current_setting('synchronous_commit') = 'off'")  # fmt: skip
        if hasty:
            raw.execute(own_sql.HASTE.encode())
        if readonly:
            raw.execute("SET default_transaction_isolation = 'repeatable read'")
            raw.execute("SET default_transaction_read_only = on")
        else:
            raw.execute(own_sql.BY_KEYS.encode())
    except psycopg.Error as error:
        raw.close()
        raise OSError(f"cannot open the database {address}: {one_line(error)}") from error
    return raw


def one_line(error: Exception) -> str:
    """The first line of what the server says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def may_pass(error: BaseException | None) -> bool:
    """Whether another owner or the absence of PostgreSQL is at fault, and not the address."""
    while error is not None and not isinstance(error, InUseError | psycopg.Error):
        error = error.__cause__
    if isinstance(error, psycopg.Error) and error.sqlstate is not None:
        return error.sqlstate.startswith(PASSING_STATES)
    said = str(error).splitlines()
    refused = any("FATAL" in line and not PASSING.search(line) for line in said)
    return isinstance(error, InUseError) or (not refused and any(PASSING.search(line) for line in said))


@lru_cache(maxsize=256)
def translated(statement: str) -> bytes:
    """A statement with PostgreSQL's own signs for values: `$1` for `?1`, and for the first `?`."""
    if re.search(r"\?\d", statement):
        return re.sub(r"\?(\d+)", r"$\1", statement).encode()
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement).encode()


def now(address: Address) -> float:
    """The time of the server."""
    with open_session(address, readonly=True) as raw:
        row = raw.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    return float(row[0]) if row else 0.0


class ServerConnection:
    """A session of PostgreSQL, opened again where it was lost; rows that are appended are written at once.

    Each statement waits for the network. So what is appended is kept until a statement has to see it, or the
    transaction ends; and keys that are known to be needed are looked up when it begins. Only one server
    writes, and its commit fails where another did: what was looked up stays true.
    """

    def __init__(
        self, address: Address, *, readonly: bool = False, owner: bool = False, hasty: bool = False
    ) -> None:
        self.address, self.total_changes = address, 0
        self._readonly, self._owner, self._hasty = readonly, owner, hasty
        self.fence: int | None = None  # which server in a row this is
        self._kept: dict[int, int] = {}  # the last event of each loop that was committed here
        self._names = count()
        self._forget()
        self._raw = self._connect()

    def _forget(self) -> None:
        """No transaction is open."""
        self._open = self._begun = False
        self._appended: dict[Table, list[Row]] = {table: [] for table in own_sql.COLUMNS}
        self._known: dict[tuple[int, str], Answered] = {}
        self._last: Row | None = None  # the last event that was appended
        self._events: dict[int, int] = {}  # the last one of each loop

    # -- sessions

    def _connect(self) -> Raw:
        raw = open_session(self.address, readonly=self._readonly, hasty=self._hasty)
        try:
            if self._owner:
                self._lock(raw)
        except psycopg.Error as error:
            raw.close()
            raise OSError(f"cannot use the database {self.address}: {one_line(error)}") from error
        except BaseException:
            raw.close()
            raise
        return raw

    def _lock(self, raw: Raw) -> None:
        """Own the database while the session lasts; not if another server owned it since we did.

        Nobody gets the lock before the session that had it has ended, with all that it was told to commit.
        """
        end = time.monotonic() + LOCK_WAIT
        while not raw.execute(own_sql.TRY_LOCK.encode()).fetchone()[0]:  # type: ignore[index]
            if time.monotonic() > end:
                raise InUseError(IN_USE.format(self.address))
            time.sleep(LOCK_RETRY)
        if self.fence is not None:
            self._check_unchanged(raw)

    def _check_unchanged(self, raw: Raw) -> None:
        """Refuse a database that others have written to, or another in its place that lacks events."""
        if raw.execute(own_sql.FENCE).fetchone() != (self.fence,):
            raise InUseError(
                f"another server has owned the database {self.address} meanwhile: restart this one"
            )
        seqs = list(self._kept.values())
        for (loop,) in raw.execute(own_sql.LOST.encode(), (list(self._kept), seqs)):
            raise OSError(
                f"the database {self.address} has lost events of loop number {loop} that it had committed: "
                "is this an older copy? Restart the service to go on with it"
            )

    def raise_fence(self) -> int:
        """This server comes after all others."""
        self.fence = int(self.execute(own_sql.NEXT_FENCE).fetchone()[0])
        return self.fence

    def _session(self) -> Raw:
        """The session, or another one if it was lost."""
        if self._raw.closed:
            self._raw = self._connect()
        return self._raw

    def _ready(self) -> Raw:
        """The session, in the transaction if there is one, with all that was appended."""
        raw = self._raw if self._begun else self._session()
        if self._open and not self._begun:
            raw.execute("BEGIN", prepare=False)
            self._begun = True
        self._write_appended(raw)
        return raw

    # -- statements

    @property
    def in_transaction(self) -> bool:
        """Whether one is open."""
        return self._open or self._raw.info.transaction_status is TransactionStatus.INTRANS

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        """One statement."""
        cursor = self._ready().execute(translated(statement), values)
        if not (cursor.statusmessage or "").startswith("SELECT"):
            self.total_changes += max(cursor.rowcount, 0)
        return cursor

    def executemany(self, statement: str, rows: Iterable[Row], /) -> object:
        """One statement with each of these."""
        with self._ready().cursor() as cursor:
            cursor.executemany(translated(statement), list(rows))
            self.total_changes += max(cursor.rowcount, 0)
        return None

    def stream(self, statement: str, values: Row) -> Iterator[Row]:
        """Rows as they are fetched, some at a time."""
        raw = self._ready()
        name, outlives = f"rows{next(self._names)}", not self.in_transaction
        with psycopg.RawServerCursor(raw, name, withhold=outlives) as cursor:
            cursor.itersize = AT_ONCE
            cursor.execute(translated(statement), values)
            yield from cursor

    def append(self, table: Table, row: Row) -> None:
        """One more row, kept until it is needed; the event of a decision comes just before it."""
        if table == "events":
            self._last, self._events[row[0]] = row, row[1]
        elif table == "decisions" and row[4] is not None:
            assert self._last is not None and self._last[:2] == (row[0], row[2])
            self._known[row[0], row[4]] = row[1], self._last[3]
        self._appended[table].append(row)
        self.total_changes += 1

    def _write_appended(self, raw: Raw) -> None:
        if not any(self._appended.values()):
            return
        documents = [document(table, rows) for table, rows in self._appended.items()]
        try:
            raw.execute(own_sql.APPEND.encode(), documents, prepare=True)
        except psycopg.IntegrityError as error:
            raise OSError(f"another server has written to {self.address}: {one_line(error)}") from error
        for rows in self._appended.values():
            rows.clear()

    def recall(self, loop: int, key: str) -> Answered | None:
        """What a key got, if it was looked up or appended in this transaction."""
        if "\0" in key:
            raise invalid("key must not have the character U+0000, which PostgreSQL cannot keep")
        return self._known.get((loop, key))

    # -- transactions

    def begin(self, keys: Keys = ()) -> None:
        """Look keys up; the transaction itself begins with the first statement, if there is one."""
        self._forget()
        raw, asked = self._session(), {pair for pair in keys if "\0" not in pair[1]}
        if asked:
            names, wanted = map(list, zip(*asked, strict=True))
            found = raw.execute(own_sql.LOOK_UP.encode(), (names, wanted), prepare=True)
            for loop, key, number, body in found:
                self._known[loop, key] = NEVER if number is None else (number, body)
        self._open = True

    def commit(self) -> None:
        """On disk when this returns; where the session is lost meanwhile, whether it is."""
        raw = self._raw if self._begun else self._session()
        try:
            if self._begun:
                self._write_appended(raw)
                raw.execute("COMMIT", prepare=False)
            else:
                self._write_appended(raw)  # one statement is a transaction of its own
        except psycopg.Error as error:
            if not raw.closed:
                raise
            self._find_out(error)
        self._kept |= self._events
        self._forget()

    def _find_out(self, error: Exception) -> None:
        """Whether a commit was done whose answer was lost; an error if it was not, or nobody can tell.

        Another session gets the lock only after the one that was lost has ended, committed or not.
        """
        last = self._last
        try:
            raw = self._session()
            found = None if last is None else raw.execute(
                b"SELECT at, body FROM events WHERE loop = $1 AND seq = $2", last[:2]
            ).fetchone()  # fmt: skip
        except (psycopg.Error, OSError) as again:
            raise InDoubtError(f"the connection was lost during a commit: {one_line(again)}") from error
        if last is None:
            raise InDoubtError(f"the connection was lost during a commit: {one_line(error)}") from error
        if found != last[2:]:
            raise error

    def rollback(self) -> None:
        """Undo the transaction, if one is open."""
        begun = self._begun
        self._forget()
        if begun and not self._raw.closed:
            self._raw.execute("ROLLBACK", prepare=False)

    # -- the database

    def has_table(self, name: str) -> bool:
        """All are made together."""
        return True

    def add_tables(self) -> None:
        """The secret of the database, and that the planner keeps no samples of people."""
        self._leave_no_samples({(table, column) for table, column in self.execute(own_sql.SAMPLED)})
        fresh = secrets.token_bytes(SECRET_BYTES)
        self.execute("INSERT INTO secret VALUES (1, ?, '') ON CONFLICT DO NOTHING", (fresh,))

    def _leave_no_samples(self, sampled: Container[tuple[str, str]] | None = None) -> None:
        """Let the planner sample these columns no more; what it has goes with a type that is set."""
        for table, column, kind in own_sql.PERSONAL:
            if sampled is None or (table, column) in sampled:
                change = f"ALTER COLUMN {column} TYPE {kind}, ALTER COLUMN {column} SET STATISTICS 0"
                self.execute(f"ALTER TABLE {table} {change}")

    def count_on(self) -> None:
        """After the largest one there is."""
        self.execute(own_sql.COUNT_ON)

    def note(self) -> Path | None:
        """None: a server loses no file of its own."""
        return None

    def check_writable(self) -> None:
        """Something is really written, always the same row."""
        self.execute(
            "INSERT INTO probe VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET filler = excluded.filler",
            (secrets.token_bytes(16),),
        )

    def check_integrity(self) -> str:
        """'ok': the server checks its pages itself, where it was made with checksums."""
        return "ok"

    def size(self) -> int:
        """Of the whole database."""
        return int(self.execute("SELECT pg_database_size(current_database())").fetchone()[0])

    def shrink(self) -> None:
        """Write the tables anew, without what was deleted or overwritten; nobody else uses them meanwhile."""
        for table in ("events", "decisions", "rewards", "late_rewards", "metrics", "snapshots"):
            self.execute(f"VACUUM (FULL, ANALYZE) {table}")

    def rewrite(self) -> str:
        """Other files for the tables and for the planner's samples; the server keeps its own log."""
        self._leave_no_samples()
        for table in ("events", "decisions", "snapshots", "bases", "pg_catalog.pg_statistic"):
            self.execute(f"VACUUM (FULL) {table}")
        return "the write-ahead log of the server, until it is recycled, and "

    def close(self) -> None:
        """End the session."""
        self._raw.close()

    # -- opening

    def has_tables(self) -> bool:
        """Whether it was ever used."""
        return self.execute(f"SELECT to_regclass('{own_sql.SCHEMA}.service')").fetchone()[0] is not None

    def prepare(self, *, create: bool) -> None:
        """Make the tables of a new database; refuse one that is too old, or of a version we do not know."""
        if self._raw.info.server_version < OLDEST:
            got = self._raw.info.server_version // 10000
            raise ValueError(f"{self.address} must be PostgreSQL {OLDEST // 10000} or newer, got {got}")
        encoding = self.execute("SHOW server_encoding").fetchone()[0]
        if encoding != "UTF8":
            raise ValueError(f"{self.address} must have the encoding UTF8, got {encoding}")
        if not self.has_tables():
            if not create:
                raise FileNotFoundError(
                    f"there is no database {self.address}: `linoto serve` makes its tables"
                )
            self._create()
        version = self.execute("SELECT version FROM service").fetchone()[0]
        if version != own_sql.VERSION:
            raise ValueError(f"{self.address} must have schema {own_sql.VERSION}, got {version}")

    def _create(self) -> None:
        """All tables at once, or none."""
        there = self.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (own_sql.SCHEMA,)).fetchone()
        schema = "" if there else f"CREATE SCHEMA {own_sql.SCHEMA};"
        self._session().execute(f"BEGIN;{schema}{own_sql.TABLES};COMMIT;".encode())


def document(table: Table, rows: list[Row]) -> str:
    """Rows as JSON, which writes every number so that the same is read back."""
    names = own_sql.COLUMNS[table]
    if table == "events":
        rows = [(*row[:3], row[3].decode()) for row in rows]
    return msgspec.json.encode([dict(zip(names, row, strict=True)) for row in rows]).decode()


class Reading(ServerConnection):
    """A session that sees one moment, and goes back to its pool when it is closed."""

    def __init__(self, address: Address, pool: list[Reading]) -> None:
        super().__init__(address, readonly=True, hasty=True)
        self._pool = pool

    def close(self) -> None:
        """Keep it for the next reader, if it can be used."""
        try:
            self.rollback()
        except psycopg.Error:
            self._raw.close()
        if self._raw.closed or len(self._pool) >= IDLE:
            super().close()
        else:
            self._pool.append(self)


class Lease(threading.Thread):
    """Says that the owner of a database lives, in a session of its own; and knows until when that holds."""

    def __init__(self, address: Address, fence: int) -> None:
        super().__init__(name="linoto-lease", daemon=True)
        self.address, self.fence = address, fence
        self.until, self.replaced = since_boot() + LEASE, False
        self._end = threading.Event()

    def run(self) -> None:
        """Until it is told to end, or another server has taken over."""
        raw: Raw | None = None
        while not self.replaced and not self._end.wait(BEAT):
            sent = since_boot()
            try:
                if raw is None or raw.closed:
                    raw = open_session(self.address, readonly=False, hasty=True)
                self.replaced = raw.execute(own_sql.BEAT.encode(), (self.fence,)).rowcount == 0
                self.until = sent + (0.0 if self.replaced else LEASE)
            except psycopg.errors.LockNotAvailable:
                continue  # the server is there, and nobody else can say that he is the owner either
            except (psycopg.Error, OSError):
                self.until = 0.0  # the database may have another owner when it can be reached again
        if raw is not None:
            raw.close()

    def end(self) -> None:
        """No more signs."""
        self._end.set()
        if self.ident is not None:
            self.join()


class Candidate:
    """A server that waits until a database has no owner, or one that has been silent for too long."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._raw: Raw | None = None

    def is_free(self) -> bool:
        """Whether it can be had now; the session of a silent owner is ended, so that it can be soon."""
        try:
            if self._raw is None or self._raw.closed:
                self._raw = open_session(self.address, readonly=False)
            raw = self._raw
            if raw.execute(own_sql.TRY_LOCK.encode()).fetchone() == (True,):
                raw.execute(own_sql.UNLOCK.encode())
                return True
            raw.execute(own_sql.END_SILENT.encode(), (LEASE,))
        except (psycopg.Error, OSError):
            return False
        return False

    def close(self) -> None:
        """End its session."""
        if self._raw is not None:
            self._raw.close()


class DatabaseServer:
    """A database that one server owns."""

    errors = (psycopg.Error, OSError)
    remote = True

    def __init__(self, address: Address) -> None:
        self.address = address
        self.connection = ServerConnection(address, owner=True, hasty=True)
        self._idle: list[Reading] = []
        self._lease: Lease | None = None

    @property
    def leased(self) -> bool:
        """Whether the last sign of life is young enough."""
        return self._lease is None or since_boot() < self._lease.until

    @property
    def replaced(self) -> bool:
        """Whether another server is the owner now."""
        return self._lease is not None and self._lease.replaced

    def prepare(self) -> None:
        """Make the tables, or refuse what is not ours."""
        try:
            self.connection.prepare(create=True)
            self._lease = Lease(self.address, self.connection.raise_fence())
            self._lease.start()
        except psycopg.Error as error:
            raise OSError(f"cannot use the database {self.address}: {one_line(error)}") from error

    def settle(self) -> None:
        """Nothing can move."""

    def check_place(self) -> None:
        """It is where its address says."""

    def read(self) -> Reading:
        """A session that sees what is committed, and cannot write."""
        while self._idle:
            connection = self._idle.pop()
            try:
                return begun(connection)
            except psycopg.Error:
                connection._raw.close()
        return begun(Reading(self.address, self._idle))

    def wait_for_others(self, seconds: float) -> None:
        """Nobody waits: rows are locked, and not the database."""

    def is_busy(self, error: Exception) -> bool:
        """Never."""
        return False

    def is_conflict(self, error: Exception) -> bool:
        """Whether the values of a statement are refused."""
        return isinstance(error, psycopg.IntegrityError | psycopg.DataError)

    def release(self) -> None:
        """End all sessions."""
        if self._lease is not None:
            self._lease.end()
        for connection in self._idle:
            connection._raw.close()
        self.connection.close()


def begun(connection: Reading) -> Reading:
    """A session at one moment."""
    connection.begin()
    connection.execute("SELECT 1")
    return connection


@contextmanager
def new_database(address: Address) -> Iterator[ServerConnection]:
    """A connection to a database that has no tables of ours yet, and that nobody else uses meanwhile."""
    with open_database(address, create=True, owner=True) as connection:
        if connection.execute("SELECT 1 FROM loops UNION ALL SELECT 1 FROM tokens").fetchone() is not None:
            raise FileExistsError(f"the database {address} has loops or tokens: name one that has none")
        yield connection


@contextmanager
def open_database(
    address: Address, *, create: bool = False, readonly: bool = False, owner: bool = False
) -> Iterator[ServerConnection]:
    """A connection that may be used while a server runs; the owner of the database instead of one."""
    connection = ServerConnection(address, readonly=readonly, owner=owner)
    try:
        connection.prepare(create=create)
        if create:
            connection.add_tables()
        yield connection
    except psycopg.Error as error:
        raise OSError(f"cannot use the database {address}: {one_line(error)}") from error
    finally:
        connection.close()
