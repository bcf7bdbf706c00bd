"""The same reductions and sweeps on threads, in processes, or on a Dask cluster: the same bits either way.

Nothing here depends on who finishes first. Parts are added in the order in which they are given, and results
are handed out in that order: one process, many threads and a cluster that loses a worker agree bit for bit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from logging import CRITICAL
from multiprocessing import get_context
from operator import add
from signal import SIG_IGN, SIGINT, signal
from typing import Any, Literal, Protocol, TypeVar

from linoto.core.offline import Offline
from linoto.core.validation import check_choice, check_count

Track = Callable[[int, int], None]
"""Progress: called with the number of items that are done and the number of all."""
AHEAD = 4  # tasks handed out ahead of the one waited for, per worker: memory does not grow with the sweep
THREADS_DO = (
    3  # runs at a time from which on the interpreter's lock, held for a fifth of a run, is waited for
)
POOLS: dict[tuple[int, int], ProcessPoolExecutor] = {}  # by process and jobs: one takes 1.5 s to start
# Heard on this machine only. Without a dashboard the scheduler still serves its health page, at port 8787
# unless told otherwise, and a second cluster would complain: so at any free port.
PRIVATE: dict[str, Any] = {
    "host": "127.0.0.1",
    "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    "silence_logs": CRITICAL,
}
Item = TypeVar("Item")
Result = TypeVar("Result")


class Submit(Protocol):
    """Start a call somewhere; what comes back has `result()` and `cancel()`."""

    def __call__(self, function: Callable[..., Any], /, *arguments: Any) -> Any: ...


KINDS = ("threads", "processes", "dask")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where work is done: on threads of this process, in processes of this machine, or on a Dask cluster.

    Kernels leave the interpreter to others, the rest of a run does not: above three at a time "processes" are
    faster. They stay for the next sweep until Python ends, and a script that uses them has its work below
    `if __name__ == "__main__":`. "dask" uses the cluster whose scheduler has this address, or without one
    starts `jobs` processes on this machine and stops them afterwards; `linoto` must be installed where the
    workers are. Functions and items must pickle for both. The results are the same bits either way.

    >>> Engine(jobs=2)
    Engine(kind='threads', jobs=2, scheduler=None)
    """

    kind: Literal["threads", "processes", "dask"] = "threads"
    jobs: int | None = None  # calls at a time; None: one for each core
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if self.jobs is not None:
            check_count("jobs", self.jobs)
        if self.scheduler is not None and self.kind != "dask":
            raise ValueError(
                f"scheduler must be None where this machine does the work, got {self.scheduler!r}: "
                "kind='dask' uses a cluster"
            )

    @property
    def workers(self) -> int:
        """How many calls are made at a time."""
        return cores() if self.jobs is None else self.jobs

    def open(self) -> AbstractContextManager[tuple[Submit, int]]:
        """What starts a call, and how many run at a time."""
        if self.kind == "dask":
            return cluster(self.scheduler, self.workers)
        return processes(self.workers) if self.many_processes else threads(self.workers)

    @property
    def many_processes(self) -> bool:
        """Whether calls are made in other processes of this machine; one at a time is made here."""
        return self.kind == "processes" and self.workers > 1

    @classmethod
    def for_runs(cls, kind: str | None, *, jobs: int | None, scheduler: str | None) -> Engine:
        """The engine that was asked for, or for runs the faster one of threads and processes."""
        usual = "processes" if (jobs or cores()) > THREADS_DO and scheduler is None else "threads"
        return cls(kind=kind or usual, jobs=jobs, scheduler=scheduler)  # type: ignore[arg-type]


THREADS = Engine()


def reduce_offline(parts: Sequence[Callable[[], Offline]], *, engine: Engine = THREADS) -> Offline:
    """Count every part of a log, wherever it is, and add the counts in the order of the parts.

    >>> from functools import partial
    >>> days = ([0, 1], [1.0, 0.5]), ([1], [0.25])
    >>> reduce_offline([partial(Offline.from_rows, *day, k=2) for day in days]).reward_sums.tolist()
    [1.0, 0.75]
    """
    if not parts:
        raise ValueError("parts must hold at least one part of the log, got none")
    return reduce(add, map_cells(count_part, parts, engine=engine))


def count_part(part: Callable[[], Offline]) -> Offline:
    """One part of a log."""
    offline = part()
    if not isinstance(offline, Offline):
        raise ValueError(f"parts must return a linoto.Offline, got {type(offline).__name__}")
    return offline


def map_cells(
    function: Callable[[Item], Result], items: Iterable[Item], *, engine: Engine = THREADS
) -> Generator[Result]:
    """`function` of every item, some at a time, in the order of the items.

    A worker that dies leaves no trace in the results: its calls are made again elsewhere. A call that raises
    ends the sweep with its own error. After Ctrl-C the calls that have started on threads are finished, and
    their results come before the KeyboardInterrupt.

    >>> list(map_cells(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if not isinstance(engine, Engine):
        raise ValueError(f"engine must be a linoto.Engine, got {engine!r}")
    return in_order(function, items, engine)


def in_order(function: Callable[[Item], Result], items: Iterable[Item], engine: Engine) -> Generator[Result]:
    """Keep a window of calls under way, and hand out the oldest."""
    waiting: deque[Any] = deque()
    left = iter(items)
    if (
        engine.many_processes
    ):  # the first one here, so that kernels are compiled once and the others load them
        for item in left:
            yield function(item)
            break
    with engine.open() as (submit, workers):
        try:
            for item in left:
                waiting.append(submit(function, item))
                if len(waiting) > AHEAD * workers:
                    yield take_oldest(waiting)
            while waiting:
                yield take_oldest(waiting)
        except GeneratorExit:
            raise  # nobody wants the others
        except BaseException:
            started = [future for future in waiting if future.cancel() is False]  # False: too late
            for future in started:
                if future.exception() is not None:
                    break  # what comes after a failure is not handed out: results have no holes
                yield future.result()
            raise
        finally:
            for future in waiting:
                future.cancel()


def take_oldest(waiting: deque[Any]) -> Any:
    """Wait for the oldest call; an interrupted wait leaves it where it is."""
    result = waiting[0].result()
    waiting.popleft()
    return result


def tracked(results: Iterable[Result], track: Track | None, *, total: int, done: int = 0) -> Iterator[Result]:
    """The results as they come; `track` is called at the start and after the use of each."""
    report = track or (lambda done, total: None)
    report(done, total)
    for count, result in enumerate(results, start=done + 1):
        yield result
        report(count, total)


@contextmanager
def threads(jobs: int) -> Iterator[tuple[Submit, int]]:
    """Calls on threads of this process: the kernels release the interpreter."""
    with ThreadPoolExecutor(jobs) as pool:
        yield pool.submit, jobs


@contextmanager
def processes(jobs: int) -> Iterator[tuple[Submit, int]]:
    """Calls in processes of this machine, each with an interpreter of its own."""
    key = os.getpid(), jobs
    if key not in POOLS:
        POOLS[key] = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=leave_ctrl_c)
    try:
        yield POOLS[key].submit, jobs
    except BrokenProcessPool:
        POOLS.pop(key).shutdown(wait=False)
        raise RuntimeError(
            "a process that made a call ended: is there memory enough, and is the work of the script below "
            'if __name__ == "__main__":?'
        ) from None


def leave_ctrl_c() -> None:
    """Ctrl-C is for the process that waits: it takes what the others have started."""
    signal(SIGINT, SIG_IGN)


@contextmanager
def cluster(scheduler: str | None, jobs: int) -> Iterator[tuple[Submit, int]]:
    """Calls on a Dask cluster: somebody's, or one of our own on this machine."""
    try:
        from distributed import Client, KilledWorker, LocalCluster
    except ImportError:
        raise ImportError('engine "dask" needs Dask: pip install "linoto[cluster]"') from None
    try:
        if scheduler is not None:
            with connected(Client, scheduler) as client:
                yield submit_to(client), max(sum(client.nthreads().values()), 1)
            return
        own = LocalCluster(n_workers=jobs, threads_per_worker=1, **PRIVATE)  # type: ignore[no-untyped-call]
        with own, Client(own, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            yield submit_to(client), jobs
    except KilledWorker:
        raise RuntimeError("a call ended every worker that tried it: is there memory enough?") from None
    except CancelledError:
        raise RuntimeError("the connection to the Dask scheduler was lost") from None


def connected(client: Any, scheduler: str) -> Any:
    """A client of a running scheduler, or one sentence about why not."""
    made = client.__new__(client)  # made in two steps, to have hold of it if the second fails
    try:
        made.__init__(scheduler, set_as_default=False, timeout="5s")
    except (OSError, ValueError, TypeError) as error:
        made.status = "closed"  # else it would wait ten seconds for its own end, and print a traceback
        raise OSError(
            f"scheduler must be the address of a running Dask scheduler, got {scheduler!r}: {error}"
        ) from None
    return made


def submit_to(client: Any) -> Submit:
    """`pure=False`: equal calls are separate calls, none is answered from an earlier one's result."""

    def submit(function: Callable[..., Any], /, *arguments: Any) -> Any:
        return client.submit(function, *arguments, pure=False)

    return submit


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
