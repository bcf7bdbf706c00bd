"""One database, one process, one writer: requests that wait together are committed together."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar

from linoto.service.errors import Busy, Refused, Unavailable
from linoto.service.storage import sql
from linoto.service.storage.sql import Connection

T = TypeVar("T")
Job = Callable[[Connection], T]
BATCH = 256  # jobs that share a commit: the sync is paid once for all of them
PATIENCE = 1.0  # seconds that the event loop may wait for a command that writes beside us
READY = 1.0  # seconds between two looks whether the disk can be written
WAITING = 4096  # jobs that may wait; more are turned away
logger = logging.getLogger("linoto.service")
FULL_OR_BROKEN = "the database could not be used, nothing was kept: {}"


class Outcome(Enum):
    """How far a batch of jobs came."""

    UNDONE = "undone"  # nothing of it is left, and everybody in it has an error
    READ = "read"  # nothing to wait for the disk for
    WROTE = "wrote"  # the transaction is open, and must be committed


class Ticket(Generic[T]):
    """A job on its way to the disk, and what came of it; one that only looks needs no transaction."""

    def __init__(self, job: Job[T], future: asyncio.Future[T] | None = None, *, looks: bool = False) -> None:
        self.job, self.future, self.looks = job, future, looks
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        """Answer whoever awaits it."""
        if self.future is None or self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


@dataclass
class Measures:
    """What the writer has done since it started."""

    commits: int = 0
    jobs: int = 0
    failures: int = 0
    commit_seconds: float = 0.0
    slowest_commit: float = 0.0


def connect(path: Path, *, readonly: bool = False) -> Connection:
    """A connection whose transactions are ours to begin and end."""
    mode = "ro" if readonly else "rwc"
    try:
        return sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise OSError(f"cannot open the database {path}: {error}") from error


def prepare(connection: Connection, path: Path, *, older: bool = False) -> None:
    """Make the tables of a new database; refuse one that is not ours, or of a version we do not know."""
    try:
        sql.set_durable(connection)
        if sql.is_empty(connection):
            sql.create_schema(connection)
        application, version = sql.versions(connection)
    except sqlite3.Error as error:
        raise OSError(f"cannot use the database {path}: {error}") from error
    if application != sql.APPLICATION:
        raise ValueError(f"{path} must be a database of linoto, got one of another program")
    if version > sql.VERSION:
        raise ValueError(
            f"{path} must have schema {sql.VERSION} or older, got {version}: written by a newer linoto"
        )
    if version < sql.VERSION and not older:
        raise ValueError(
            f"{path} must have schema {sql.VERSION}, got {version}: back it up, then run `linoto db migrate`"
        )


def lock(path: Path) -> int:
    """Own the database until the process ends, however it ends; refuse if somebody else does."""
    name = path.resolve().with_name(path.resolve().name + ".lock")
    try:
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OSError(f"cannot open the database {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise OSError(f"the database {path} is in use by another server: one process owns it") from None
    return handle


def nothing(connection: Connection) -> None:
    """Leave everything as it is."""


@dataclass
class Store:
    """Runs jobs one after the other, commits those that wait together at once, and then answers.

    Jobs run where they are asked for, in the event loop: in a thread of their own they would fight it for the
    interpreter at every statement. Only the commit, which is waiting for the
    disk, has a thread; requests that come meanwhile make up the next batch.

    A job may raise `Refused` only with memory and database in agreement. Any other exception undoes the
    transaction; `on_rollback` then brings memory back to what is on disk, and the jobs that are not to blame
    run again.
    """

    path: Path
    on_commit: Callable[[], None] = lambda: None
    on_rollback: Callable[[Connection], None] = nothing
    measures: Measures = field(default_factory=Measures)

    def __post_init__(self) -> None:
        self._handle = lock(self.path)
        try:
            self._connection = connect(self.path)
        except BaseException:
            os.close(self._handle)
            raise
        self._queue: deque[Ticket[Any]] = deque()
        self._turn = threading.Lock()  # held from the beginning of a transaction to its end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = False  # a batch is under way, or about to be
        self._ahead = False  # memory may be ahead of the disk
        self._failed = False  # the last transaction was undone
        self._tried = 0.0  # when it was last tried whether the disk can be written
        self._closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="linoto-writer")
        try:
            prepare(self._connection, self.path)
            sql.set_patience(self._connection, PATIENCE)
            self.call(sql.check_writable)
        except Unavailable as error:
            self.close()
            raise OSError(f"cannot write the database {self.path}: {error.__cause__}") from error
        except BaseException:
            self.close()
            raise

    # -- asking

    def call(self, job: Job[T]) -> T:
        """Run a job and wait for it: for those who are not in an event loop."""
        if self._closed:
            raise Unavailable("the service is stopping")
        ticket = Ticket(job)
        with self._turn:
            self._finish([ticket], self._perform([ticket]))
        if ticket.error is not None:
            raise ticket.error
        result: T = ticket.result
        return result

    async def ask(self, job: Job[T], *, looks: bool = False) -> T:
        """Run a job, and go on when it is on disk; one that `looks` at memory only leaves the disk alone."""
        if self._closed:
            raise Unavailable("the service is stopping")
        if len(self._queue) >= WAITING:
            raise Busy(f"more than {WAITING} requests are waiting")
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # an earlier one may have ended with work under way
            self._loop, self._running = loop, False
        future: asyncio.Future[T] = loop.create_future()
        self._queue.append(Ticket(job, future, looks=looks))
        if not self._running:
            self._running = True
            loop.call_soon(self._next_batch, loop)
        return await future

    async def ready(self) -> None:
        """Really write something, if that was not tried within the last second."""
        if time.monotonic() - self._tried > READY:
            self._tried = time.monotonic()
            await self.ask(sql.check_writable)
        elif self._ahead or self._failed:
            raise Unavailable("the last write failed")

    async def drain(self) -> None:
        """Until everything that was asked for is answered."""
        while self._running:
            await asyncio.sleep(0.001)

    def read(self, job: Job[T]) -> T:
        """Run a job on a connection of its own that sees what is committed and cannot write."""
        connection = connect(self.path, readonly=True)
        try:
            connection.execute("BEGIN")
            return job(connection)
        except sqlite3.Error as error:
            raise Unavailable(f"the database could not be read: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Finish the commit under way, then let go of the database."""
        if self._closed:
            return
        self._closed = True
        self._writer.shutdown()
        with self._turn:
            self._connection.close()
        os.close(self._handle)

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._queue)

    # -- writing

    def _next_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what waits, and hand the commit to the writer."""
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
        self._turn.acquire()
        outcome = self._perform(batch)
        if outcome is Outcome.WROTE:
            self._writer.submit(self._write, loop, batch)
            return
        try:
            self._finish(batch, outcome)
        finally:
            self._turn.release()
        self._answer(loop, batch)

    def _write(self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]]) -> None:
        """Commit in the writer's thread; the turn ends here, whether or not somebody still waits."""
        try:
            self._conclude(batch, self._commit(len(batch)))
        finally:
            self._turn.release()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(self._answer, loop, batch)

    def _answer(self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]]) -> None:
        """Tell everybody in a batch, and begin the next."""
        for ticket in batch:
            ticket.settle()
        self._running = bool(self._queue)
        if self._running:
            loop.call_soon(self._next_batch, loop)

    def _finish(self, batch: list[Ticket[Any]], outcome: Outcome) -> None:
        """End the transaction of a batch here and now, if one is open."""
        if outcome is not Outcome.UNDONE and self._connection.in_transaction:
            self._conclude(batch, self._commit(len(batch)))

    def _perform(self, batch: list[Ticket[Any]]) -> Outcome:
        """Run a batch in an open transaction."""
        live = list(batch)
        while live:
            before = self._connection.total_changes
            culprit, error = self._attempt(live)
            if error is None:
                return Outcome.WROTE if self._connection.total_changes != before else Outcome.READ
            self._undo()
            if culprit is None:
                fail(live, error)
                return Outcome.UNDONE
            culprit.error = error  # what fails by itself does not fail the others: again without it
            live.remove(culprit)
        return Outcome.UNDONE

    def _attempt(self, batch: list[Ticket[Any]]) -> tuple[Ticket[Any] | None, Exception | None]:
        """Run every job; if one failed, which, and why. No culprit: it is the disk."""
        current: Ticket[Any] | None = None
        try:
            if self._ahead:
                self.on_rollback(self._connection)
                self._ahead = False
            if not all(ticket.looks for ticket in batch):
                sql.begin(self._connection)
            for current in batch:
                current.error = None
                try:
                    current.result = current.job(self._connection)
                except Refused as refusal:
                    current.error = refusal
        except sqlite3.IntegrityError as error:
            return current, error
        except (sqlite3.Error, OSError) as error:
            return None, error
        except Exception as error:  # a fault of ours: answered with 500, and nothing of it is kept
            return current, error
        return None, None

    def _commit(self, jobs: int) -> Exception | None:
        """On disk when this returns None."""
        started = time.perf_counter()
        try:
            sql.commit(self._connection)
        except (sqlite3.Error, OSError) as error:
            return error
        self._failed = False
        seconds, m = time.perf_counter() - started, self.measures
        m.commits += 1
        m.jobs += jobs
        m.commit_seconds += seconds
        m.slowest_commit = max(m.slowest_commit, seconds)
        return None

    def _conclude(self, batch: list[Ticket[Any]], error: Exception | None) -> None:
        """Make memory agree with how the commit went."""
        if error is None:
            self.on_commit()
            return
        self._undo()
        fail(batch, error)

    def _undo(self) -> None:
        """Roll back disk and memory; where that fails too, the next batch tries again before it begins."""
        self.measures.failures += 1
        self._failed = True
        self._ahead = True
        try:
            sql.rollback(self._connection)
            self.on_rollback(self._connection)
            self._ahead = False
        except Exception as error:
            logger.error("memory is ahead of the disk", extra={"error": str(error)})


def fail(batch: list[Ticket[Any]], error: Exception) -> None:
    """Nothing of these was kept."""
    for ticket in batch:
        ticket.error = Unavailable(FULL_OR_BROKEN.format(error))
        ticket.error.__cause__ = error
