"""PostgreSQL: sessions, who owns a database, and what its connections can do beside statements."""

from __future__ import annotations

import logging
import re
import secrets
import select
import time
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import psycopg
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
from linoto.service.storage.last_events import LastEvents
from linoto.service.storage.parts import View, part_of
from linoto.service.storage.places import Address
from linoto.service.storage.postgres_keys import NewKeys
from linoto.service.storage.postgres_servers import LEASE, Candidate, Lease
from linoto.service.storage.postgres_sessions import Raw, may_pass, one_line, open_session
from linoto.service.storage.schema import SECRET_BYTES

__all__ = ["Candidate", "DatabaseServer", "may_pass", "new_database", "now", "open_database"]
logger = logging.getLogger("linoto.service")
OLDEST = 150000  # of the versions of PostgreSQL
LOCK_WAIT, LOCK_RETRY = 1.0, 0.05  # seconds: the session of a server that was killed may end after it
IDLE = 4  # sessions that are kept for the next reader
HUNG_UP = getattr(select, "POLLRDHUP", 0)  # the other end was closed, also where more is to be read
AT_ONCE = 5000  # rows that are fetched together where an answer may be larger than memory
IN_USE = "the database {} is in use by another server, or by a command that needs all of it"


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
        row = raw.execute(own_sql.NOW.encode()).fetchone()
    return float(row[0]) if row else 0.0


class ServerConnection:
    """A session of PostgreSQL, opened again where it was lost; rows that are appended are written at once.

    Each statement waits for the network. So what is appended is kept until a statement has to see it, or the
    transaction ends; and keys that are known to be needed are looked up when it begins, unless they are
    surely new. Only one server writes to a loop, and its commit fails where another did: what was looked up
    stays true.
    """

    def __init__(
        self,
        address: Address,
        *,
        readonly: bool = False,
        owner: bool = False,
        shared: bool = False,
        hasty: bool = False,
    ) -> None:
        self.address, self.total_changes = address, 0
        self._readonly, self._owner, self._shared, self._hasty = readonly, owner, shared, hasty
        self.fence: int | None = None  # which server in a row this is
        self.held: Set[int] = frozenset()  # the parts that are this server's; replaced, never changed
        self._locked: set[int] = set()  # those that this session has locked
        self._giving: set[int] = set()  # those that others may have, if a commit was done that failed
        self._kept = LastEvents()
        self._names = count()
        self._new_keys = NewKeys(address)
        self._forget()
        self._raw = self._connect()

    def _forget(self) -> None:
        """No transaction is open."""
        self._open = self._begun = False
        self._appended: dict[Table, list[Row]] = {table: [] for table in own_sql.COLUMNS}
        self._known: dict[tuple[int, str], Answered] = {}
        self._last: Row | None = None  # the last event that was appended
        self._events: dict[int, int] = {}  # the last one of each loop
        self._taking: set[int] = set()  # parts that are ours when it is committed
        self._leaving: set[int] = set()  # and those that are not any more

    # -- sessions

    def _connect(self) -> Raw:
        self._new_keys.forget()
        raw = open_session(self.address, readonly=self._readonly, hasty=self._hasty)
        try:
            if self._owner or self._shared:
                self._lock(raw)
        except psycopg.Error as error:
            raw.close()
            raise OSError(f"cannot use the database {self.address}: {one_line(error)}") from error
        except BaseException:
            raw.close()
            raise
        return raw

    def _lock(self, raw: Raw) -> None:
        """Own the database while the session lasts, or what is ours of it; not if others had it meanwhile.

        Nobody gets a lock before the session that had it has ended, with all that it was told to commit. Who
        refuses an older copy never has the lock of its number there: others, and its own lease, would see the
        lock go, and forget this server, which alone knows what is lost.
        """
        end = time.monotonic() + LOCK_WAIT
        if self.fence is not None:  # the database may not know yet that the session before was lost
            raw.execute(own_sql.END_MINE.encode(), (self.fence,))
        self._try(raw, own_sql.TRY_SHARED if self._shared else own_sql.TRY_LOCK, (), end)
        if self.fence is None:
            return
        self._check_complete(raw)
        self._try(raw, own_sql.TRY_NUMBER, (self.fence,), end)
        self.held, self._giving = self.held - self._giving, set()
        missing = list(self.held)
        while missing:
            got = {part for (part,) in raw.execute(own_sql.TRY_PARTS.encode(), (missing,))}
            missing = [part for part in missing if part not in got]
            if missing:
                self._wait_until(end)
        self._locked = set(self.held)
        self._check_known(raw)

    def _try(self, raw: Raw, statement: str, values: Row, end: float) -> None:
        """Get a lock, if it can be had until then: the session of a server that was killed ends after it."""
        while not raw.execute(statement.encode(), values).fetchone()[0]:  # type: ignore[index]
            self._wait_until(end)

    def _wait_until(self, end: float) -> None:
        if time.monotonic() > end:
            raise InUseError(IN_USE.format(self.address))
        time.sleep(LOCK_RETRY)

    def _check_known(self, raw: Raw) -> None:
        """Refuse a database that others have taken over."""
        if raw.execute(own_sql.IS_SERVER.encode(), (self.fence,)).fetchone() is None:
            raise InUseError(
                f"another server has owned the database {self.address} meanwhile: restart this one"
            )

    def _check_complete(self, raw: Raw) -> None:
        """Refuse another database in its place that lacks events."""
        for (loop,) in raw.execute(own_sql.LOST.encode(), self._kept.columns()):
            raise OSError(
                f"the database {self.address} has lost events of loop number {loop} that it had committed: "
                "is this an older copy? Restart the service to go on with it"
            )

    def join(self, url: str) -> int:
        """This server comes after all others; its number, whose lock says that it lives."""
        number = int(self.execute(own_sql.NEXT_FENCE).fetchone()[0])
        self._forget_before(url)
        self._raw.execute(own_sql.JOIN.encode(), (number, url))
        self._try(self._raw, own_sql.TRY_NUMBER, (number,), time.monotonic() + LOCK_WAIT)
        self.fence = number
        return number

    def _forget_before(self, url: str) -> None:
        """Have this address alone; whoever had it before may take a while to end."""
        end = time.monotonic() + LEASE + LOCK_WAIT
        while True:
            self._raw.execute(own_sql.FORGET_BEFORE.encode(), (url, LEASE))
            if self._raw.execute(own_sql.HAS_ADDRESS.encode(), (url,)).fetchone() is None:
                return
            if time.monotonic() > end:
                raise OSError(
                    f"another server of {self.address} has the address {url}: "
                    "give each its own with --advertise"
                )
            time.sleep(LOCK_RETRY)

    def leave(self) -> None:
        """Let others know at once that this server has ended."""
        if self.fence is not None and not self.is_cut():
            with suppress(psycopg.Error):
                self.rollback()
                self._raw.execute(own_sql.LEAVE.encode(), (self.fence,))

    def is_cut(self) -> bool:
        """Whether the session has ended, as this machine knows without asking: others may have its locks."""
        try:
            waiting = select.poll()
            waiting.register(self._raw.fileno(), HUNG_UP)
            return bool(waiting.poll(0))
        except (psycopg.Error, OSError, ValueError):  # it is closed
            return True

    def _session(self) -> Raw:
        """The session, or another one if it was lost."""
        if self._raw.closed or self.is_cut():
            self._raw.close()
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
            self._new_keys.add(row[0], row[4])
        self._appended[table].append(row)
        self.total_changes += 1

    def _write_appended(self, raw: Raw) -> None:
        if not any(self._appended.values()):
            return
        documents = [document(table, rows) for table, rows in self._appended.items()]
        try:
            raw.execute(own_sql.APPEND.encode(), documents, prepare=True)
        except psycopg.IntegrityError as error:
            self._new_keys.forget()
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
        raw, asked = self._session(), set[tuple[str, str]]()
        self._new_keys.settle()
        for name, key in keys:
            if (new := self._new_keys.find_new(name, key)) is not None:
                self._known[new, key] = NEVER
            elif "\0" not in key:
                asked.add((name, key))
        if asked:
            self._look_up(raw, asked)
        self._open = True

    def _look_up(self, raw: Raw, asked: Set[tuple[str, str]]) -> None:
        """What these keys got; next time it is known without asking which of a loop are new."""
        names, wanted = map(list, zip(*asked, strict=True))
        for name, loop, key, number, body in raw.execute(
            own_sql.LOOK_UP.encode(), (names, wanted), prepare=True
        ):
            self._known[loop, key] = NEVER if number is None else (number, body)
            if self._new_keys.wants(name) and self._writes_to(name):
                server = raw.execute(own_sql.WHICH_SERVER.encode()).fetchone()
                assert server is not None
                self._new_keys.scan(name, loop, server)

    def _writes_to(self, name: str) -> bool:
        """Whether nobody else writes to the loop of this name while the session lasts."""
        return self._owner or part_of(name) in self.held & self._locked

    def knows(self, keys: Keys) -> bool:
        """Whether all of these are surely new; as soon as a transaction begins it may be otherwise."""
        return all(self._new_keys.find_new(name, key) is not None for name, key in keys)

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
        self._kept.keep(self._events)
        self.held = (self.held | (self._taking & self._locked)) - self._leaving
        self._giving -= self._leaving | self._taking
        if self._leaving:
            self._new_keys.keep(self._writes_to)
        self._forget()
        self._unlock(self._locked - self.held)

    def _find_out(self, error: Exception) -> None:
        """Whether a commit was done whose answer was lost; an error if it was not, or nobody can tell.

        Another session gets the lock only after the one that was lost has ended, committed or not.
        """
        last = self._last
        try:
            raw = self._session()
            found = None if last is None else raw.execute(own_sql.EVENT.encode(), last[:2]).fetchone()
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
        self._unlock(self._locked - self.held)

    # -- parts

    def take(self, parts: list[int]) -> None:
        """Those of these parts that nobody has are this server's when the transaction is committed."""
        raw, wanted = self._ready(), set(parts)
        found = raw.execute(own_sql.TRY_PARTS.encode(), (sorted(wanted - self._locked),))
        self._locked |= {part for (part,) in found}
        assert self.fence is not None
        taken = raw.execute(own_sql.TAKE_PARTS.encode(), (sorted(wanted & self._locked), self.fence))
        self._taking |= {part for (part,) in taken}
        self.total_changes += 1

    def give_up(self, parts: list[int]) -> None:
        """These parts are nobody's when the transaction is committed."""
        self._ready().execute(own_sql.FREE_PARTS.encode(), (parts, self.fence))
        self._leaving |= set(parts)
        self._giving |= set(parts)
        self.total_changes += 1

    def retire(self) -> None:
        """Others count on this server no more, when the transaction is committed."""
        self._ready().execute(own_sql.RETIRE.encode(), (self.fence,))
        self.total_changes += 1

    def _unlock(self, parts: set[int]) -> None:
        """After the transaction: until then nobody else may read what it has written."""
        if parts:
            self._locked -= parts
            with suppress(psycopg.Error):  # the locks went with the session
                self._raw.execute(own_sql.UNLOCK_PARTS.encode(), (sorted(parts),))

    # -- the database

    def has_table(self, name: str) -> bool:
        """Whether there is such a table."""
        found = self.execute("SELECT to_regclass(?)", (f"{own_sql.SCHEMA}.{name}",)).fetchone()
        return found[0] is not None

    def add_tables(self) -> None:
        """The secret of the database, and that the planner keeps no samples of people."""
        self._leave_no_samples({(table, column) for table, column in self.execute(own_sql.SAMPLED)})
        fresh = secrets.token_bytes(SECRET_BYTES)
        self.execute(own_sql.PUT_SECRET, (fresh,))

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
        self.execute(own_sql.PROBE, (secrets.token_bytes(16),))

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
        self._new_keys.forget()
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
        if create:
            self._create()
        elif not self.has_tables():
            raise FileNotFoundError(f"there is no database {self.address}: `linoto serve` makes its tables")
        version = self.execute("SELECT version FROM service").fetchone()[0]
        if version != own_sql.VERSION:
            raise ValueError(f"{self.address} must have schema {own_sql.VERSION}, got {version}")

    def _create(self) -> None:
        """All tables that are missing at once, or none; one server at a time."""
        self.execute(own_sql.MAKING)
        try:
            new = not self.has_tables()
            made = f"{self._missing_schema()}{own_sql.TABLES};" if new else ""
            made += "" if self.has_table("features") else own_sql.FEATURES  # its owner alone may alter it
            self._session().execute(f"BEGIN;{made}{own_sql.SERVERS};COMMIT;".encode())
            if new:
                logger.info("new database", extra={"db": str(self.address)})
        finally:
            if not self._raw.closed:
                self._raw.rollback()  # else what went wrong is hidden by what comes after it
                self.rollback()
                self._raw.execute(own_sql.MADE.encode())

    def _missing_schema(self) -> str:
        there = self.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (own_sql.SCHEMA,)).fetchone()
        return "" if there else f"CREATE SCHEMA {own_sql.SCHEMA};"


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


class DatabaseServer:
    """A database that one server owns, or several share: then each has parts of it, and an address."""

    errors = (psycopg.Error, OSError)
    remote = True

    def __init__(self, address: Address, url: str = "") -> None:
        self.address, self.url = address, url
        self.shared = bool(url)
        self.connection = ServerConnection(address, owner=not url, shared=self.shared, hasty=True)
        self._idle: list[Reading] = []
        self._lease: Lease | None = None

    @property
    def leased(self) -> bool:
        """Whether the last sign of life is young enough."""
        return self._lease is None or since_boot() < self._lease.until

    @property
    def cut(self) -> bool:
        """Whether the session that has the locks is lost."""
        return self.connection.is_cut()

    @property
    def replaced(self) -> bool:
        """Whether another server is the owner now."""
        return self._lease is not None and self._lease.replaced

    @property
    def leads(self) -> bool:
        """Whether what is to be done once for the whole database is done here."""
        return not self.shared or (self._lease is not None and self._lease.leads)

    @property
    def view(self) -> View | None:
        """The servers as they were last read."""
        return None if self._lease is None else self._lease.view

    @property
    def held(self) -> Set[int]:
        """The parts that are this server's."""
        return self.connection.held

    def take(self, parts: list[int]) -> None:
        """Take what nobody has, with the transaction."""
        self.connection.take(parts)

    def give_up(self, parts: list[int]) -> None:
        """Let others have these, with the transaction."""
        self.connection.give_up(parts)

    def knows(self, keys: Keys) -> bool:
        """Whether no key has to be looked up."""
        return self.connection.knows(keys)

    def retire(self) -> None:
        """Let others have all, bit by bit, with the transaction."""
        self.connection.retire()

    def prepare(self) -> None:
        """Make the tables, or refuse what is not ours."""
        try:
            self.connection.prepare(create=True)
            if not self.shared:
                self.join()
        except psycopg.Error as error:
            raise OSError(f"cannot use the database {self.address}: {one_line(error)}") from error

    def join(self) -> None:
        """From now on others count on this server."""
        self._lease = Lease(self.address, self.connection.join(self.url), shared=self.shared)
        self._lease.begin()

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

    def read_where_written(self) -> ServerConnection:
        """A session with the server that writes go to: a replica may not have all that was committed."""
        return ServerConnection(self.address, hasty=True)

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
        self.connection.leave()
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
