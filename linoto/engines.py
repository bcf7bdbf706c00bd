"""The same reductions and sweeps on threads, or on a Dask cluster: the same bits either way.

Nothing here depends on who finishes first. Parts are added in the order in which they are given, and results
are handed out in that order: one process, many threads and a cluster that loses a worker agree bit for bit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from logging import CRITICAL
from operator import add
from typing import Any, Literal, Protocol, TypeVar

from linoto.core.offline import Offline
from linoto.core.validation import check_choice, check_count

Track = Callable[[int, int], None]
"""Progress: called with the number of items that are done and the number of all."""
AHEAD = 4  # tasks handed out ahead of the one waited for, per worker: memory does not grow with the sweep
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


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where work is done: on threads of this process, or on a Dask cluster.

    "dask" uses the cluster whose scheduler has this address, or without one starts `jobs` processes on this
    machine and stops them afterwards; functions and items must then pickle, and `linoto` must be installed
    where the workers are. The results are the same bits either way.

    >>> Engine(jobs=2)
    Engine(kind='threads', jobs=2, scheduler=None)
    """

    kind: Literal["threads", "dask"] = "threads"
    jobs: int | None = None  # calls at a time; None: one for each core
    scheduler: str | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("threads", "dask"))
        if self.jobs is not None:
            check_count("jobs", self.jobs)
        if self.scheduler is not None and self.kind != "dask":
            raise ValueError(
                f"scheduler must be None where threads of this machine do the work, got {self.scheduler!r}: "
                "kind='dask' uses a cluster"
            )

    @property
    def workers(self) -> int:
        """How many calls are made at a time."""
        return cores() if self.jobs is None else self.jobs

    def open(self) -> AbstractContextManager[tuple[Submit, int]]:
        """What starts a call, and how many run at a time."""
        return threads(self.workers) if self.kind == "threads" else cluster(self.scheduler, self.workers)


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
    with engine.open() as (submit, workers):
        try:
            for item in items:
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
