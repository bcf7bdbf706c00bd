"""The same bits from one thread, from many, and from a cluster that loses a worker on the way.

The parts hold rewards whose sums depend on the order of addition, so agreement is not an accident. Clusters
are real: worker processes on this machine, loopback only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linoto import LinOtO, LinUCB, Offline
from linoto.engines import POOLS, PRIVATE, Engine, map_cells, reduce_offline, tracked
from linoto.experiments.run import all_cells, run_cell, run_experiment
from linoto.experiments.settings import Experiment, Setting

PARTS = 12


def part(i: int) -> Offline:
    """One part of a log, its rewards over sixteen orders of magnitude."""
    rng = np.random.default_rng(i)
    rewards = rng.standard_normal(2000) * 10.0 ** rng.integers(-8, 8, 2000)
    return Offline.from_rows(rng.integers(0, 20, 2000), rewards, k=20)


def part_that_kills_once(i: int, marker: Path) -> Offline:
    """The same part; in the middle of the log, the first process to get there dies without a word."""
    if i == PARTS // 2:
        try:
            marker.open("x").write(str(os.getpid()))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return part(i)


def one_by_one() -> Offline:
    """The parts added in order, by hand."""
    total = part(0)
    for i in range(1, PARTS):
        total = total + part(i)
    return total


def bits(offline: Offline) -> tuple[bytes, bytes, bytes]:
    assert offline.reward_squares is not None
    return offline.pulls.tobytes(), offline.reward_sums.tobytes(), offline.reward_squares.tobytes()


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended and awaits burial does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_the_order_of_addition_would_show() -> None:
    backwards = part(PARTS - 1)
    for i in reversed(range(PARTS - 1)):
        backwards = backwards + part(i)
    assert bits(backwards) != bits(one_by_one())


@pytest.mark.parametrize("jobs", [1, 2, 5, None])
def test_threads_give_the_bits_of_a_single_process(jobs: int | None) -> None:
    found = reduce_offline([partial(part, i) for i in range(PARTS)], engine=Engine(jobs=jobs))
    assert bits(found) == bits(one_by_one())


def late(i: int) -> int:
    """The first items take longest."""
    time.sleep(0.02 * max(0, 5 - i))
    return i


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(map_cells(late, range(10), engine=Engine(jobs=5))) == list(range(10))


def test_a_long_sweep_is_not_started_all_at_once() -> None:
    taken = []

    def items() -> Any:
        for i in range(1000):
            taken.append(i)
            yield i

    results = map_cells(abs, items(), engine=Engine(jobs=2))
    assert next(results) == 0
    assert len(taken) < 20
    results.close()  # type: ignore[attr-defined]


def test_a_call_that_raises_ends_the_sweep_with_its_own_error() -> None:
    def fails(i: int) -> int:
        if i == 3:
            raise ValueError("part 3 must be readable, got nonsense")
        return i

    with pytest.raises(ValueError, match="part 3 must be readable"):
        list(map_cells(fails, range(100), engine=Engine(jobs=2)))


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Control-C is heard, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
def test_after_an_interrupt_the_calls_that_have_started_are_finished_and_handed_out() -> None:
    """It comes when two results were handed out and the third is waited for, however slow the machine is."""
    started, found = list[int](), list[int]()
    here = threading.main_thread().ident
    assert here is not None

    def slow(i: int) -> int:
        started.append(i)
        while i >= 2 and len(found) < 2:
            time.sleep(0.005)
        time.sleep(0.1)
        if i == 2:
            signal.pthread_kill(here, signal.SIGINT)
            time.sleep(0.1)
        return i

    with pytest.raises(KeyboardInterrupt):
        for result in map_cells(slow, range(100), engine=Engine(jobs=2)):
            found.append(result)
    assert found == sorted(started) and len(found) < 10


def test_progress_is_told_from_the_start_and_after_the_use_of_each_result() -> None:
    told: list[Any] = []
    for item in tracked("ab", lambda *counts: told.append(counts), total=5, done=3):
        told.append(item)
    assert told == [(3, 5), "a", (4, 5), "b", (5, 5)]
    assert list(tracked("ab", None, total=2)) == ["a", "b"]


# -- processes --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Engine]:
    """Two that stay for the sweeps of these tests."""
    yield Engine(kind="processes", jobs=2)
    POOLS.pop((os.getpid(), 2)).shutdown()


def pid_when_two_are_there(_: int, folder: Path, home: int) -> int:
    """That of this process, as soon as a second one has come too, which may take it longer to start."""
    end = time.monotonic() + 120
    (folder / str(os.getpid())).touch()
    while os.getpid() != home and len(list(folder.iterdir())) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    return os.getpid()


def test_processes_give_the_bits_of_a_single_one_and_stay_for_the_next_sweep(
    two_processes: Engine, tmp_path: Path
) -> None:
    found = reduce_offline([partial(part, i) for i in range(PARTS)], engine=two_processes)
    assert bits(found) == bits(one_by_one())
    meet = partial(pid_when_two_are_there, folder=tmp_path, home=os.getpid())
    first, *others = map_cells(meet, range(20), engine=two_processes)
    assert first == os.getpid()  # what it compiles, the others load
    assert os.getpid() not in others and len(set(others)) == 2
    assert set([*map_cells(pid_of, range(20), engine=two_processes)][1:]) <= set(others)
    assert set(map_cells(pid_of, range(3), engine=Engine(kind="processes", jobs=1))) == {os.getpid()}


def test_an_experiment_has_the_same_bits_on_any_number_of_threads_and_processes(
    two_processes: Engine,
) -> None:
    policies = {"LinOtO": LinOtO(), "LinUCB": LinUCB()}
    setting = Setting(name="small", k=10, d=3, m=30, logged_arms=4, horizon=50, policies=policies)
    experiment = Experiment(name="sweep", settings=(setting,))
    engines = [Engine(jobs=1), Engine(jobs=3), two_processes]
    one, *others = [list(run_experiment(experiment, runs=3, engine=engine).columns()) for engine in engines]
    for other in others:
        for mine, yours in zip(one, other, strict=True):
            assert mine.keys() == yours.keys()
            assert all(np.array_equal(mine[name], yours[name]) for name in mine)


def raise_for(i: int) -> int:
    if i == 3:
        raise ValueError("part 3 must be readable, got nonsense")
    return i


def test_a_call_that_raises_in_a_process_ends_the_sweep_and_not_the_process(two_processes: Engine) -> None:
    with pytest.raises(ValueError, match="part 3 must be readable"):
        list(map_cells(raise_for, range(100), engine=two_processes))
    assert list(map_cells(abs, [-1, -2], engine=two_processes)) == [1, 2]


def die_elsewhere(home: int) -> int:
    if os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return home


def test_a_process_that_dies_is_said_in_one_sentence_and_the_next_sweep_has_others() -> None:
    engine = Engine(kind="processes", jobs=2)
    POOLS.pop((os.getpid(), 2), None)
    with pytest.raises(RuntimeError, match="a process that made a call ended"):
        list(map_cells(die_elsewhere, [os.getpid()] * 3, engine=engine))
    assert list(map_cells(abs, [-1, -2], engine=engine)) == [1, 2]


@pytest.mark.parametrize(
    ("kind", "jobs", "expected"),
    [
        (None, 3, "threads"),
        (None, 4, "processes"),
        ("threads", 16, "threads"),
        ("processes", 2, "processes"),
    ],
)
def test_runs_are_played_in_processes_where_threads_would_wait_for_the_lock(
    kind: str | None, jobs: int, expected: str
) -> None:
    assert Engine.for_runs(kind, jobs=jobs, scheduler=None).kind == expected


# -- a real cluster ---------------------------------------------------------------------------------------


def pid_of(_: int) -> int:
    time.sleep(0.05)  # long enough that both workers get some
    return os.getpid()


def test_a_cluster_gives_the_same_bits_even_if_a_worker_dies_in_the_middle(tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    parts = [partial(part_that_kills_once, i, marker) for i in range(PARTS)]
    found = reduce_offline(parts, engine=Engine(kind="dask", jobs=2))
    assert bits(found) == bits(one_by_one())
    killed = int(marker.read_text())
    assert killed != os.getpid()
    assert not alive(killed)


@pytest.mark.slow
def test_a_sweep_on_a_cluster_equals_the_experiment_runner_and_leaves_no_process() -> None:
    """In the usual suite: the cluster above and the two below."""
    policies = {"LinOtO": LinOtO(), "LinUCB": LinUCB()}
    setting = Setting(name="small", k=10, d=3, m=30, logged_arms=4, horizon=50, policies=policies)
    experiment = Experiment(name="sweep", settings=(setting,))
    here = run_experiment(experiment, runs=2, seed=5, engine=Engine(jobs=1))
    cells = list(all_cells(experiment, 2))

    work = [partial(run_cell, cell, 5) for cell in cells] + [partial(pid_of, i) for i in range(20)]
    *curves, pids = grouped(list(map_cells(call, work, engine=Engine(kind="dask", jobs=2))), len(cells))
    for cell, found in zip(cells, curves, strict=True):
        kept = here.store.read("small", cell.label, cell.run)
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(found, kept, strict=True))
    assert pids
    assert os.getpid() not in pids
    assert not any(alive(pid) for pid in pids)


def call(function: Any) -> Any:
    return function()


def grouped(results: list[Any], cells: int) -> list[Any]:
    """The cells' curves, then the set of all process ids."""
    return [*results[:cells], set(results[cells:])]


def test_a_running_scheduler_is_used_and_left_running() -> None:
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=1, processes=False, protocol="tcp", **PRIVATE) as cluster:
        address = cluster.scheduler_address
        parts = [partial(part, i) for i in range(PARTS)]
        assert bits(reduce_offline(parts, engine=Engine(kind="dask", scheduler=address))) == bits(
            one_by_one()
        )
        with Client(address, set_as_default=False) as client:
            assert client.submit(abs, -1).result() == 1


def children(pid: int) -> list[int]:
    """A process and all that it started, directly or not; Linux only."""
    found = [pid]
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
        if parent == pid:
            found += children(int(stat.parent.name))
    return found


def listeners(pid: int) -> set[str]:
    """Where a process and its children listen, as the kernel writes it: 0100007F is 127.0.0.1."""
    sockets = set()
    for owner in children(pid):
        for link in Path(f"/proc/{owner}/fd").glob("*"):
            if link.is_symlink() and (target := os.readlink(link)).startswith("socket:["):
                sockets.add(target[8:-1])
    lines = [line.split() for name in ("tcp", "tcp6") for line in table(Path(f"/proc/net/{name}"))]
    return {line[1] for line in lines if line[3] == "0A" and line[9] in sockets}


def table(path: Path) -> list[str]:
    return path.read_text().splitlines()[1:] if path.exists() else []


@pytest.mark.few(0)
def test_two_clusters_live_side_by_side_and_nobody_outside_can_reach_them() -> None:
    """And when the sweeps end, so do their processes."""
    first, second = (map_cells(pid_of, range(3), engine=Engine(kind="dask", jobs=1)) for _ in range(2))
    one, two = next(first), next(second)
    assert len({one, two, os.getpid()}) == 3
    opened = listeners(os.getpid())
    assert opened or sys.platform != "linux"
    assert all(address.startswith("0100007F:") for address in opened)
    assert [*first, *second] == [one, one, two, two]
    assert not alive(one) and not alive(two)


def die(i: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return i


@pytest.mark.few(0)
def test_a_call_that_ends_every_worker_is_given_up_in_one_sentence() -> None:
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(RuntimeError, match="a call ended every worker that tried it"),
    ):
        list(map_cells(die, [1], engine=Engine(kind="dask", jobs=1)))


def test_a_scheduler_that_goes_away_is_said_in_one_sentence() -> None:
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=1, processes=False, protocol="tcp", **PRIVATE)
    results = map_cells(late, range(100), engine=Engine(kind="dask", scheduler=cluster.scheduler_address))
    assert next(results) == 0
    cluster.close()
    with pytest.raises(RuntimeError, match="the connection to the Dask scheduler was lost"):
        list(results)


# -- what is wrong ----------------------------------------------------------------------------------------


def test_without_dask_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from linoto.engines import Engine, map_cells\n"
        "assert list(map_cells(abs, [-1])) == [1]\n"
        "list(map_cells(abs, [-1], engine=Engine(kind='dask')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        'ImportError: engine "dask" needs Dask: pip install "linoto[cluster]"'
    )


def test_importing_the_engines_does_not_import_dask() -> None:
    code = "import sys, linoto.engines; assert not {'dask', 'distributed'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "spark"}, "kind must be one of 'threads', 'processes', 'dask', got 'spark'"),
        ({"jobs": 0}, "jobs must be a whole number >= 1, got 0"),
        ({"jobs": "two"}, "jobs must be a whole number >= 1, got 'two'"),
        (
            {"scheduler": "tcp://x:1"},
            "scheduler must be None where this machine does the work, got 'tcp://x:1'",
        ),
    ],
)
def test_an_impossible_engine_is_refused_when_it_is_made(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(**options)


def test_anything_but_an_engine_is_refused_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"engine must be a linoto\.Engine, got 'dask'"):
        map_cells(abs, [1], engine="dask")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "scheduler",
    ["nonsense://x", pytest.param("tcp://127.0.0.1:1", marks=pytest.mark.slow)],  # waits five seconds
)
def test_a_scheduler_that_is_not_there_is_named(scheduler: str) -> None:
    with pytest.raises(OSError, match=f"running Dask scheduler, got '{scheduler}'"):
        list(map_cells(abs, [1], engine=Engine(kind="dask", scheduler=scheduler)))


@pytest.mark.parametrize("scheduler", ["foo", "tls://127.0.0.1:9"])
@pytest.mark.few(1)
def test_an_address_that_cannot_be_is_refused_in_one_sentence(scheduler: str) -> None:
    """In a process of its own: what a half-made client has to say, it says when the interpreter ends."""
    call = f"list(map_cells(abs, [1], engine=Engine(kind='dask', scheduler={scheduler!r})))"
    imports = "import distributed\nfrom linoto.engines import Engine, map_cells"
    command = [sys.executable, "-c", f"{imports}\n{call}"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert said.splitlines()[-1].startswith("OSError: scheduler must be the address of a running Dask")
    assert said.count("Traceback") == 1


def test_an_empty_log_and_parts_that_are_no_logs_are_refused() -> None:
    with pytest.raises(ValueError, match="parts must hold at least one part of the log"):
        reduce_offline([])
    with pytest.raises(ValueError, match=r"parts must return a linoto\.Offline, got int"):
        reduce_offline([lambda: 3])  # type: ignore[list-item,return-value]
