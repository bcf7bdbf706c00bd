"""The same reductions and sweeps on threads, or on a Dask cluster: the same bits either way.

Nothing here depends on who finishes first. Parts are added in the order in which they are given, and results
are handed out in that order: one process, many threads and a cluster that loses a worker agree bit for bit.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from logging import CRITICAL
from operator import add
from typing import Any, Literal, Protocol, TypeVar

from linoto.core.offline import Offline
from linoto.core.validation import check_choice, check_count

ENGINES = ("threads", "dask")
Engine = Literal["threads", "dask"]
WINDOW = 4  # tasks handed out ahead of the one waited for, per worker: memory does not grow with the sweep
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


def reduce_offline(
    parts: Sequence[Callable[[], Offline]],
    *,
    engine: Engine = "threads",
    scheduler: str | None = None,
    jobs: int | None = None,
) -> Offline:
    """Count every part of a log, wherever it is, and add the counts in the order of the parts.

    >>> from functools import partial
    >>> days = ([0, 1], [1.0, 0.5]), ([1], [0.25])
    >>> reduce_offline([partial(Offline.from_rows, *day, k=2) for day in days]).reward_sums.tolist()
    [1.0, 0.75]
    """
    if not parts:
        raise ValueError("parts must hold at least one part of the log, got none")
    return reduce(add, map_cells(counted, parts, engine=engine, scheduler=scheduler, jobs=jobs))


def counted(part: Callable[[], Offline]) -> Offline:
    """One part of a log."""
    offline = part()
    if not isinstance(offline, Offline):
        raise ValueError(f"parts must return a linoto.Offline, got {type(offline).__name__}")
    return offline


def map_cells(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    engine: Engine = "threads",
    scheduler: str | None = None,
    jobs: int | None = None,
) -> Iterator[Result]:
    """`function` of every item, `jobs` at a time, in the order of the items.

    "threads" runs here. "dask" runs on the cluster whose scheduler has this address, or without one on
    `jobs` processes of this machine (None: one for each core) that go away afterwards; function and items
    must then pickle, and `linoto` must be installed where the workers are. A worker that dies leaves no
    trace in the results: its calls are made again elsewhere. A call that raises ends the sweep with its own
    error.

    >>> list(map_cells(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    workers = check_engine(engine, scheduler, jobs)
    return in_order(function, items, engine, scheduler, workers)


def check_engine(engine: Engine, scheduler: str | None, jobs: int | None) -> int:
    """How many calls at a time, or a complaint, before anything is opened or started."""
    check_choice("engine", engine, ENGINES)
    workers = cores() if jobs is None else jobs
    check_count("jobs", workers)
    if scheduler is not None and engine != "dask":
        raise ValueError(f"scheduler must be None for engine {engine!r}, got {scheduler!r}")
    return workers


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    engine: Engine,
    scheduler: str | None,
    jobs: int,
) -> Iterator[Result]:
    """Keep a window of calls under way, and hand out the oldest."""
    waiting: deque[Any] = deque()
    opened = threads(jobs) if engine == "threads" else cluster(scheduler, jobs)
    with opened as (submit, workers):
        try:
            for item in items:
                waiting.append(submit(function, item))
                if len(waiting) > WINDOW * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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
