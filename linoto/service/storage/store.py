"""The writer of a server, to a database or its share of one: what waits together is committed together."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from linoto.service.errors import Busy, Refused, Unavailable, Undone
from linoto.service.storage import database
from linoto.service.storage.connection import Connection, InDoubtError, Keys, LateRowError
from linoto.service.storage.parts import View
from linoto.service.storage.places import Place

T = TypeVar("T")
Job = Callable[[Connection], T]
BATCH = 256  # jobs that share a commit: the sync is paid once for all of them
BUSY_TIMEOUT = 1.0  # seconds that jobs wait for another process that writes
RETRY = 0.005  # seconds between two attempts to begin while it does; the event loop goes on meanwhile
READY_INTERVAL = 1.0  # seconds between two tests whether the disk can be written
MOST_WAITING = 4096  # jobs in the queue; more are refused
logger = logging.getLogger("linoto.service")
FULL_OR_BROKEN = "the database could not be used, nothing was kept: {}"
IN_DOUBT = "this may have been kept or not, which a request with the same key finds out: {}"
NOT_OWNED = "it cannot be reached, or another server has taken it over"
CLOSING = 5.0  # seconds that a transaction may take which is open at the end


class Outcome(Enum):
    """How far a batch of jobs came."""

    ROLLED_BACK = "rolled back"  # nothing of it was kept, and every job in it has an error
    READ = "read"  # nothing has to be written
    WROTE = "wrote"  # the transaction is open, and must be committed


class QueuedJob(Generic[T]):
    """A job, and its result or error; one that reads memory only needs no transaction."""

    def __init__(
        self, job: Job[T], future: asyncio.Future[T] | None = None, *, memory: bool = False, keys: Keys = ()
    ) -> None:
        self.job, self.future, self.memory, self.keys = job, future, memory, keys
        self.again = self.alone = False  # it is to be run again, in a batch of its own
        self.result: Any = None
        self.error: BaseException | None = None

    def resolve(self) -> None:
        """Give the result to whoever awaits it."""
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


def do_nothing(connection: Connection) -> None:
    """Leave everything as it is."""


@dataclass
class Store:
    """Runs jobs one after the other, commits those that wait together at once, and then answers.

    Jobs run in the event loop: in a thread of their own they would compete with it for the interpreter at
    every statement. Only the commit, which is waiting for the disk, has a thread; requests that come
    meanwhile make up the next batch.

    A job may raise `Refused` only with memory and database in agreement. Any other exception, `Undone` among
    them, rolls the transaction back; `on_rollback` then brings memory back to what is on disk, and the other
    jobs of the batch run again. Rows may be written later than the job that appended them ran: where one is
    refused, every job runs again in a batch of its own, so that nobody else pays for it.
    """

    path: Place
    on_commit: Callable[[], None] = lambda: None
    on_rollback: Callable[[Connection], None] = do_nothing
    measures: Measures = field(default_factory=Measures)
    busy_timeout: float = BUSY_TIMEOUT
    watch: Callable[[Job[Any]], tuple[Job[Any], Callable[[], None]]] | None = None  # when jobs begin and end
    url: str = ""  # where other servers of the database reach this one; "": it has the database alone

    def __post_init__(self) -> None:
        self._engine = database.own(self.path, self.url)
        self._connection = self._engine.connection
        self._queue: deque[QueuedJob[Any]] = deque()
        self._transaction = threading.Lock()  # held from the beginning of a transaction to its end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = False  # a batch runs, or is scheduled
        self._memory_ahead = False  # memory may hold what is not on disk
        self._failed = False  # the last transaction was rolled back, or could not begin
        self._locked_since: float | None = None  # another process has been writing
        self._tested = 0.0  # when it was last tested whether the disk can be written
        self._closed = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="linoto-writer")
        try:
            self._engine.prepare()
            self.write_sync(lambda connection: connection.add_tables())
            self.write_sync(lambda connection: connection.check_writable())
            self._engine.settle()
        except Unavailable as error:
            self.close()
            raise OSError(f"cannot write the database {self.path}: {error.__cause__}") from error
        except BaseException:
            self.close()
            raise

    # -- reading and writing

    def write_sync(self, job: Job[T]) -> T:
        """Run a job and wait until it is on disk: for callers that are not in an event loop."""
        self._check_open()
        queued = QueuedJob(job)
        with self._transaction:
            self._engine.wait_for_others(self.busy_timeout)
            try:
                self._finish([queued], self._perform([queued]))
            finally:
                self._engine.wait_for_others(0.0)
        if queued.error is not None:
            raise queued.error
        result: T = queued.result
        return result

    async def write(self, job: Job[T], keys: Keys = ()) -> T:
        """Run a job, which looks these keys up, and return when it is on disk."""
        if self.watch is None:
            return await self._enqueue(job, keys=keys)
        watched, ended = self.watch(job)
        try:
            return await self._enqueue(watched, keys=keys)
        finally:
            ended()

    async def read_memory(self, job: Callable[[], T]) -> T:
        """Run a job that reads memory between two batches, when memory and disk agree; no transaction."""
        return await self._enqueue(lambda _: job(), memory=True)

    def reading(self) -> Connection:
        """A connection that sees what is committed now and cannot write; the caller closes it."""
        return self._engine.read()

    def read_database(self, job: Job[T]) -> T:
        """Run a job on a connection of its own that sees what is committed and cannot write."""
        try:
            with closing(self._engine.read()) as connection:
                return job(connection)
        except self._engine.errors as error:
            raise Unavailable(f"the database could not be read: {error}") from error

    async def check_ready(self) -> None:
        """Really write something, if that was not tested within the last second."""
        if time.monotonic() - self._tested > READY_INTERVAL:
            self._tested = time.monotonic()
            await self.write(lambda connection: connection.check_writable())
        elif self._memory_ahead or self._failed:
            raise Unavailable("the last write failed")

    async def drain(self) -> None:
        """Wait until every job is done."""
        while self._running:
            await asyncio.sleep(0.001)

    def close(self) -> None:
        """Finish the commit that runs, then close the database."""
        if self._closed:
            return
        self._closed = True
        self._writer.shutdown()
        self._transaction.acquire(timeout=CLOSING)  # a batch that nobody runs any more keeps it
        self._engine.release()

    def is_owned(self) -> bool:
        """Whether what is in memory is what is on disk: not where another server may have taken over."""
        return self._engine.leased and not self._engine.cut

    async def regain(self) -> bool:
        """The same, after a lost connection was opened again, if it can be."""
        if not self._engine.cut:
            return self._engine.leased
        with suppress(Unavailable):
            await self.write(do_nothing)
        return self.is_owned()

    @property
    def is_replaced(self) -> bool:
        """Whether another server has taken over, for good."""
        return self._engine.replaced

    def check_owned(self) -> None:
        """An error where another server has taken over: what is in memory is of no use any more."""
        if self.is_replaced:
            raise OSError(f"another server has taken over the database {self.path}")

    # -- servers that share a database

    @property
    def shared(self) -> bool:
        """Whether other servers may have parts of the database."""
        return self._engine.shared

    @property
    def view(self) -> View | None:
        """The servers as last seen; None before this one has joined them."""
        return self._engine.view

    def join(self) -> None:
        """Be one of the servers that share the database."""
        with self._transaction:
            self._engine.join()

    @property
    def held(self) -> Set[int]:
        """The parts that are this server's."""
        return self._engine.held

    @property
    def leads(self) -> bool:
        """Whether what is done once for the whole database is done here."""
        return self._engine.leads

    async def take(self, parts: list[int]) -> list[int]:
        """Take those of these parts that nobody has: which ones."""
        await self.write(lambda _: self._engine.take(parts))
        return [part for part in parts if part in self.held]

    async def give_up(self, parts: list[int]) -> None:
        """Let others have parts that nothing in memory belongs to any more."""
        await self.write(lambda _: self._engine.give_up(parts))

    async def retire(self) -> None:
        """Let the others take over what is here, before this server ends."""
        await self.write(lambda _: self._engine.retire())

    def read_where_written(self, job: Job[T]) -> T:
        """Run a job on a connection of its own that sees all that is committed, and must not write."""
        try:
            with closing(self._engine.read_where_written()) as connection:
                return job(connection)
        except self._engine.errors as error:
            raise Unavailable(f"the database could not be read: {error}") from error

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return len(self._queue)

    # -- batches

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the service is stopping")

    def _enqueue(self, job: Job[T], *, memory: bool = False, keys: Keys = ()) -> asyncio.Future[T]:
        """Add a job to the queue, and schedule a batch if none is."""
        self._check_open()
        if len(self._queue) >= MOST_WAITING:
            raise Busy(f"more than {MOST_WAITING} requests are waiting")
        loop = asyncio.get_running_loop()
        if loop is not self._loop:  # an earlier one may have ended while a batch was running
            self._loop, self._running = loop, False
        future: asyncio.Future[T] = loop.create_future()
        self._queue.append(QueuedJob(job, future, memory=memory, keys=keys))
        if not self._running:
            self._running = True
            loop.call_soon(self._next_batch, loop)
        return future

    def _next_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run what waits, and hand the commit to the writer."""
        count = 1 if self._queue and self._queue[0].alone else min(len(self._queue), BATCH)
        batch = [self._queue.popleft() for _ in range(count)]
        if not self._engine.leased:
            set_errors(batch, OSError(NOT_OWNED))
            self._answer(loop, batch)
            return
        if self._engine.remote and self._needs_database(batch):
            if self._waits_for_network(batch) or not self._transaction.acquire(blocking=False):
                self._writer.submit(self._look_ahead, loop, batch)
            else:
                self._run(loop, batch, self._open(batch))
            return
        self._transaction.acquire()
        if not self._begin(batch):
            batch = self._postpone(batch)
        self._run(loop, batch)

    def _needs_database(self, batch: list[QueuedJob[Any]]) -> bool:
        return self._memory_ahead or self._engine.cut or not all(queued.memory for queued in batch)

    def _waits_for_network(self, batch: list[QueuedJob[Any]]) -> bool:
        """Whether something has to be read before a batch runs: else nobody waits for another thread."""
        if self._memory_ahead or self._engine.cut:
            return True
        return not all(self._engine.knows(queued.keys) for queued in batch)

    def _open(self, batch: list[QueuedJob[Any]]) -> Exception | None:
        """Begin a transaction, with all that a batch looks up; an error is given to every job of it."""
        try:
            if self._memory_ahead:
                self.on_rollback(self._connection)
                self._memory_ahead = False
            self._connection.begin([key for queued in batch for key in queued.keys])
        except Exception as error:
            return error
        return None

    def _look_ahead(self, loop: asyncio.AbstractEventLoop, batch: list[QueuedJob[Any]]) -> None:
        """Look up what a batch needs, in the writer's thread: nobody else waits for the network."""
        self._transaction.acquire()
        failed = self._open(batch)
        try:
            loop.call_soon_threadsafe(self._run, loop, batch, failed)
        except RuntimeError:  # the event loop is closed
            self._transaction.release()

    def _run(
        self, loop: asyncio.AbstractEventLoop, batch: list[QueuedJob[Any]], failed: Exception | None = None
    ) -> None:
        """Run a batch whose transaction is open, and end it."""
        if failed is not None:
            self.measures.failures += 1
            self._failed = True
            set_errors(batch, failed)
        outcome = Outcome.ROLLED_BACK if failed else self._perform(batch)
        if outcome is Outcome.WROTE or (self._engine.remote and self._connection.in_transaction):
            self._writer.submit(self._write, loop, batch)
            return
        try:
            self._finish(batch, outcome)
        finally:
            self._transaction.release()
        self._answer(loop, batch)

    def _begin(self, batch: list[QueuedJob[Any]]) -> bool:
        """Begin the transaction of a batch that needs one; not while another process writes.

        After a second of that it is left to fail. Other errors are found again when the batch runs.
        """
        if all(queued.memory for queued in batch):
            return True
        try:
            self._connection.begin()
        except self._engine.errors as error:
            if self._engine.is_busy(error):
                now = time.monotonic()
                self._locked_since = self._locked_since or now
                if now - self._locked_since < self.busy_timeout:
                    return False
                batch += self._queue  # they have waited as long, or will
                self._queue.clear()
        self._locked_since = None
        return True

    def _postpone(self, batch: list[QueuedJob[Any]]) -> list[QueuedJob[Any]]:
        """Keep what must be written for later, and go on with what only reads memory."""
        waiting = [*batch, *self._queue]
        self._queue = deque(queued for queued in waiting if not queued.memory)
        return [queued for queued in waiting if queued.memory]

    def _write(self, loop: asyncio.AbstractEventLoop, batch: list[QueuedJob[Any]]) -> None:
        """Commit in the writer's thread; the transaction ends here, even if nobody awaits it any more."""
        try:
            self._conclude(batch, self._commit(len(batch)))
        finally:
            self._transaction.release()
        with suppress(RuntimeError):  # the event loop is closed
            loop.call_soon_threadsafe(self._answer, loop, batch)

    def _answer(self, loop: asyncio.AbstractEventLoop, batch: list[QueuedJob[Any]]) -> None:
        """Resolve every job of a batch that is not to be run again, and schedule the next batch."""
        for queued in reversed(batch):
            if queued.again:
                queued.again, queued.alone = False, True
                self._queue.appendleft(queued)
            else:
                queued.resolve()
        self._running = bool(self._queue)
        if self._running and self._locked_since is not None:
            loop.call_later(RETRY, self._next_batch, loop)
        elif self._running:
            loop.call_soon(self._next_batch, loop)

    def _finish(self, batch: list[QueuedJob[Any]], outcome: Outcome) -> None:
        """End the transaction of a batch in this thread, if one is open."""
        if outcome is not Outcome.ROLLED_BACK and self._connection.in_transaction:
            self._conclude(batch, self._commit(len(batch)))

    def _perform(self, batch: list[QueuedJob[Any]]) -> Outcome:
        """Run a batch in an open transaction."""
        remaining = list(batch)
        while remaining:
            before = self._connection.total_changes
            failed, error = self._attempt(remaining)
            if error is None:
                return Outcome.WROTE if self._connection.total_changes != before else Outcome.READ
            self._roll_back(healthy=isinstance(error, Refused))
            if failed is None:
                set_errors(remaining, error)
                return Outcome.ROLLED_BACK
            if isinstance(error, LateRowError):
                charge(remaining, error)
                return Outcome.ROLLED_BACK
            failed.error = error  # a job that fails by itself does not fail the others: again without it
            remaining.remove(failed)
        return Outcome.ROLLED_BACK

    def _attempt(self, batch: list[QueuedJob[Any]]) -> tuple[QueuedJob[Any] | None, Exception | None]:
        """Run every job; if one failed, which, and why. An error without a job is that of the disk."""
        current: QueuedJob[Any] | None = None
        try:
            if self._memory_ahead:
                self.on_rollback(self._connection)
                self._memory_ahead = False
            if not all(queued.memory for queued in batch):
                self._engine.check_place()
                if not self._connection.in_transaction:
                    self._connection.begin()
            for current in batch:
                current.error = None
                try:
                    current.result = current.job(self._connection)
                except Refused as refusal:
                    current.error = refusal
        except Undone as undone:
            return current, undone.refusal
        except self._engine.errors as error:
            return current if self._engine.is_conflict(error) else None, error
        except Exception as error:  # a mistake in our code: answered with 500, and nothing of it is kept
            return current, error
        return None, None

    def _commit(self, jobs: int) -> Exception | None:
        """On disk when this returns None."""
        started = time.perf_counter()
        try:
            self._connection.commit()
        except Exception as error:  # whatever it is, everybody who waits must hear of it
            return error
        self._failed = False
        seconds, m = time.perf_counter() - started, self.measures
        m.commits += 1
        m.jobs += jobs
        m.commit_seconds += seconds
        m.slowest_commit = max(m.slowest_commit, seconds)
        return None

    def _conclude(self, batch: list[QueuedJob[Any]], error: Exception | None) -> None:
        """Make memory agree with the result of the commit."""
        if error is None:
            self.on_commit()
            return
        self._roll_back()
        if self._engine.is_conflict(error):
            charge(batch, error)
        else:
            set_errors(batch, error)

    def _roll_back(self, *, healthy: bool = False) -> None:
        """Roll back disk and memory; where that fails too, the next batch tries again before it begins."""
        if not healthy:
            self.measures.failures += 1
            self._failed = True
        self._memory_ahead = True
        try:
            self._connection.rollback()
            self.on_rollback(self._connection)
            self._memory_ahead = False
        except Exception as error:
            logger.error("memory is ahead of the disk", extra={"error": str(error)})


def charge(batch: list[QueuedJob[Any]], error: Exception) -> None:
    """A row was refused, by whichever of these jobs: that shows when each of them runs alone."""
    if len(batch) == 1:
        batch[0].error = error
        return
    for queued in batch:
        queued.again = True


def set_errors(batch: list[QueuedJob[Any]], error: Exception) -> None:
    """Nothing of these jobs was kept."""
    for queued in batch:
        queued.error = Unavailable(
            (IN_DOUBT if isinstance(error, InDoubtError) else FULL_OR_BROKEN).format(error)
        )
        queued.error.__cause__ = error
