"""A disk that is full, read-only or locked by another process: real ones, made by the kernel."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import resource
import select
import sqlite3
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.disk import state_on_disk
from helpers.http import ask
from helpers.loops import change, decide, reward
from helpers.service_process import TOLERANT, FakeClock, Server, close_due, create, opened, served

import linoto
from linoto.client import Client, ServiceError
from linoto.service.loops.events import EVENTS, DecisionMade, RewardRecorded
from linoto.service.maintenance import check
from linoto.service.storage import sql
from linoto.service.storage.sqlite import connect
from linoto.service.storage.store import READY_INTERVAL, Store

LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])
WORKERS = 6
NOTHING_KEPT = "nothing was kept"

# Root writes where it may not: without these two capabilities (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH) the
# permissions of files are for root too. Dropped from the bounding set (24), they are gone after the exec.
UNPRIVILEGED = """
import ctypes, os, sys
prctl = ctypes.CDLL(None, use_errno=True).prctl
for capability in (1, 2):
    if os.geteuid() == 0 and prctl(24, capability, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the capability cannot be dropped")
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""
SERVE_EACH = """
import sys
from linoto.cli import main
for path in sys.argv[1:]:
    print(main(["serve", "--db", path, "--port", "0"]), flush=True)
"""


@contextmanager
def client_of(server: Server, *, create: bool = True) -> Iterator[Client]:
    """A client that asks once, and its loop."""
    with closing(server.client(retries=0)) as client:
        if create:
            make_loop(client, "loop")
        yield client


def make_loop(client: Client, name: str) -> None:
    client.create(name, arms=["a", "b", "c"], policy=TOLERANT, default_reward=0.0, offline=LOG, window=9e5)


def limit_files(server: Server, size: int) -> None:
    """No file of the server may be written beyond this offset: a full disk, as the kernel sees it."""
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@dataclass
class Told:
    """What one caller was told: what stands, and why the rest does not."""

    decisions: dict[str, str] = field(default_factory=dict)  # key -> decision_id
    rewards: dict[str, float] = field(default_factory=dict)  # decision_id -> value
    refusals: list[ServiceError] = field(default_factory=list)


def ask_until_refused(server: Server, told: Told, name: str, refusals: int) -> None:
    """Decide and reward, with a key of its own each time, until so many were refused."""
    with client_of(server, create=False) as client:
        for n in range(5000):
            if len(told.refusals) >= refusals:
                return
            try:
                made = client.decide("loop", key=f"{name}-{n}")
                told.decisions[f"{name}-{n}"] = made.decision_id
                client.reward("loop", made.decision_id, float(n % 3 == 0))
                told.rewards[made.decision_id] = float(n % 3 == 0)
            except ServiceError as error:
                told.refusals.append(error)


def fill(server: Server, refusals: int) -> Told:
    """Callers side by side, so that commits are shared, until each was refused so often; what they heard."""
    told = [Told() for _ in range(WORKERS)]
    threads = [
        threading.Thread(target=ask_until_refused, args=(server, one, f"caller-{i}", refusals))
        for i, one in enumerate(told)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(one.refusals) >= refusals for one in told), "a caller broke off, or the disk never failed"
    together = Told()
    for one in told:
        together.decisions |= one.decisions
        together.rewards |= one.rewards
        together.refusals += one.refusals
    return together


def on_disk(path: Path) -> tuple[dict[str | None, str], dict[str, float]]:
    """(decision_id by key, reward by decision_id) as the events say; nothing is there twice."""
    connection = connect(path, readonly=True)
    rows = list(sql.events_after(connection, 1, 0))
    connection.close()
    events = [EVENTS.decode(body) for _, _, body in rows]
    decided = [event for event in events if isinstance(event, DecisionMade)]
    closed = [event for event in events if isinstance(event, RewardRecorded)]
    assert [seq for seq, _, _ in rows] == list(range(1, len(rows) + 1))
    assert [event.number for event in decided] == list(range(1, len(decided) + 1))
    assert len({event.number for event in closed}) == len(closed)
    return (
        {event.key: f"1-{event.number}" for event in decided},
        {f"1-{event.number}": event.reward for event in closed},
    )


def check_database(path: Path) -> None:
    """The file is whole, and the snapshot is what a replay from scratch gives."""
    events = len(on_disk(path)[0]) + len(on_disk(path)[1])
    assert list(check(path))[1:] == [f"loop: {events} events, snapshot, replay and tables agree"]


@pytest.mark.parametrize(
    ("room", "after"),
    [(60_000, "room again"), (60_000, "killed"), (0, "room again"), (0, "stopped")],
    ids=[
        "full, then room again",
        "full, then killed",
        "unwritable, then room again",
        "unwritable, then stopped",
    ],
)
@pytest.mark.few(1)
def test_a_full_disk_is_reported_and_nothing_acknowledged_is_lost(
    tmp_path: Path, room: int, after: str
) -> None:
    path = tmp_path / "x.sqlite"
    with served(path, snapshot_every=25) as server:
        with client_of(server) as client:
            first = client.decide("loop", key="first")
            limit_files(server, room and Path(f"{path}-wal").stat().st_size + room)
            told = fill(server, refusals=4)
            told.decisions["first"] = first.decision_id
            assert bool(room) == (len(told.decisions) > 1)
            assert {error.status for error in told.refusals} == {503}
            assert all(NOTHING_KEPT in str(error) and "\n" not in str(error) for error in told.refusals)
            assert on_disk(path) == (told.decisions, told.rewards)
            numbers = client.loop("loop")
            assert (numbers["decisions"], numbers["rewards"]) == (len(told.decisions), len(told.rewards))
            if after == "room again":
                limit_files(server, resource.RLIM_INFINITY)
                go_on(client, told)
        if after == "killed":
            server.kill()
        else:
            assert server.stop() in (0, 120)  # 120: what it had to say at the end had no room either
    with served(path) as server:
        with client_of(server, create=False) as client:
            go_on(client, told)
        assert server.stop() == 0
    assert on_disk(path) == (told.decisions, told.rewards)
    check_database(path)


def go_on(client: Client, told: Told) -> None:
    """The next decision has the next number, and what was acknowledged is what is answered again."""
    for key, decision_id in list(told.decisions.items())[-3:]:
        assert client.decide("loop", key=key).decision_id == decision_id
    key = f"after-{len(told.decisions)}"
    made = client.decide("loop", key=key)
    assert made.decision_id == f"1-{len(told.decisions) + 1}"
    told.decisions[key] = made.decision_id
    assert client.reward("loop", made.decision_id, 1.0).status == "applied"
    told.rewards[made.decision_id] = 1.0


def test_what_could_not_be_written_cannot_be_read(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server, client_of(server) as client:
        made, before = client.decide("loop"), client.loops()
        attempts: list[Callable[[], Any]] = [
            lambda: make_loop(client, "other"),
            lambda: client.change("loop", mode="safe-only"),
            lambda: client.rewards("loop", [(made.decision_id, 1.0)]),
            lambda: client.archive("loop"),
        ]
        limit_files(server, 0)
        for attempt in attempts:
            with pytest.raises(ServiceError, match=NOTHING_KEPT):
                attempt()
            assert client.loops() == before
        limit_files(server, resource.RLIM_INFINITY)
        for attempt in attempts:
            attempt()
        assert [loop["archived"] for loop in client.loops()] == [True, False]


def test_readiness_fails_where_a_decide_would(tmp_path: Path) -> None:
    """There is room for one page, and a decision needs more."""
    path = tmp_path / "x.sqlite"
    with served(path) as server, client_of(server) as client:
        client.decide("loop")
        limit_files(server, Path(f"{path}-wal").stat().st_size + 5_000)
        time.sleep(READY_INTERVAL)
        assert ask(server, "GET", "/readyz")[0] == 503
        with pytest.raises(ServiceError, match=NOTHING_KEPT):
            client.decide("loop")
        assert ask(server, "GET", "/healthz") == (200, "ok")
        limit_files(server, resource.RLIM_INFINITY)
        client.decide("loop")
        assert ask(server, "GET", "/readyz") == (200, "ok")


@contextmanager
def held_lock(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program in the middle of a write."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield other
    finally:
        other.close()


@contextmanager
def asked(
    server: Server, method: str, url: str, body: dict[str, Any]
) -> Iterator[http.client.HTTPConnection]:
    """A request that was sent; its answer is still to be read."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)) as connection:
        connection.request(method, url, json.dumps(body), {"content-type": "application/json"})
        yield connection


def answer(connection: http.client.HTTPConnection) -> tuple[int, Any]:
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_no_answer_comes_before_its_event_can_be_written(tmp_path: Path) -> None:
    path, made = tmp_path / "x.sqlite", "/v1/loops/loop"
    with served(path) as server, client_of(server) as client:
        first = client.decide("loop")
        requests = [
            ("POST", f"{made}/decide", {}),
            ("PUT", f"{made}/decisions/{first.decision_id}/reward", {"reward": 1.0}),
            ("PATCH", made, {"mode": "safe-only"}),
        ]
        for method, url, body in requests:
            with held_lock(path) as other, asked(server, method, url, body) as connection:
                assert not select.select([connection.sock], [], [], 0.25)[0]
                other.execute("ROLLBACK")
                assert answer(connection)[0] == 200
        numbers = client.loop("loop")
    assert (numbers["decisions"], numbers["rewards"], numbers["mode"]) == (2, 1, "safe-only")


def test_a_lock_that_is_not_released_is_reported_and_nothing_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        with client_of(server) as client:
            before = client.loops()
            with held_lock(path), asked(server, "POST", "/v1/loops/loop/decide", {"key": "k"}) as connection:
                status, said = answer(connection)
            assert (status, said["error"]["code"]) == (503, "unavailable")
            assert said["error"]["message"].endswith(f"{NOTHING_KEPT}: database is locked")
            assert client.loops() == before and on_disk(path) == ({}, {})
            assert client.decide("loop", key="k").decision_id == "1-1"
        assert server.stop() == 0
    check_database(path)


def test_a_read_only_database_is_refused_at_the_start(tmp_path: Path) -> None:
    """Only the file or its folder too, with its lock file and without; one process tries them all."""
    made = tmp_path / "made.sqlite"
    with opened(made) as service:
        create(service)
        decide(service)
    paths = []
    for mode in (0o555, 0o755):
        for lock in (True, False):
            paths.append(tmp_path / f"served {mode:o} {lock}" / "x.sqlite")
            paths[-1].parent.mkdir()
            paths[-1].write_bytes(made.read_bytes())
            if lock:
                Path(f"{paths[-1]}.lock").touch()
            for file in paths[-1].parent.iterdir():
                file.chmod(0o444)
            paths[-1].parent.chmod(mode)
    command = [sys.executable, "-c", UNPRIVILEGED, SERVE_EACH, *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    finally:
        for path in paths:
            path.parent.chmod(0o755)
    assert done.stdout == "1\n" * 4, done.stderr
    for path, line in zip(paths, done.stderr.splitlines(), strict=True):
        assert line.startswith("linoto: cannot") and str(path) in line
        assert path.read_bytes() == made.read_bytes()


# -- what no disk shows by itself


def test_a_commit_is_synced_to_the_disk(tmp_path: Path) -> None:
    """No crash of a process can tell; only one of the machine would."""
    with opened(tmp_path / "x.sqlite") as service:
        kept = [
            service.store.write_sync(
                lambda connection, name=name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            )
            for name in ("journal_mode", "synchronous")
        ]
    assert kept == ["wal", 2]


def test_a_torn_tail_loses_exactly_the_commits_that_are_incomplete(tmp_path: Path) -> None:
    path, image, rng = tmp_path / "x.sqlite", tmp_path / "image.sqlite", random.Random(8)
    ends = []  # of every commit in the write-ahead log
    with opened(path, snapshot_every=7) as service:
        create(service)
        for _ in range(20):
            decide(service)
            ends.append(Path(f"{path}-wal").stat().st_size)
        base, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
    cuts = [end + step for end in ends[-6:] for step in (-1, 0)] + rng.choices(range(ends[0], ends[-1]), k=8)
    torn = [(log[:cut], bisect_right(ends, cut)) for cut in cuts]
    spot = rng.randrange(ends[-2], ends[-1])
    torn.append((log[:spot] + bytes([log[spot] ^ 1]) + log[spot + 1 :], 19))
    for rest, events in torn:
        image.write_bytes(base)
        Path(f"{image}-wal").write_bytes(rest)
        found, short, long = state_on_disk(image)
        assert found == events and short == long


def test_one_job_that_fails_in_a_shared_commit_fails_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.sqlite")
    store.write_sync(lambda connection: connection.execute("CREATE TABLE names (name TEXT UNIQUE)"))

    def insert(connection: sqlite3.Connection, name: str) -> None:
        connection.execute("INSERT INTO names VALUES (?)", (name,))
        if name == "fault":
            raise KeyError(name)

    async def ask(*names: str) -> list[Any]:
        jobs = [partial(insert, name=name) for name in names]
        return await asyncio.gather(*(store.write(job) for job in jobs), return_exceptions=True)

    before = store.measures.commits
    results = [type(result) for result in asyncio.run(ask("a", "a", "b", "fault", "c"))]
    together = store.measures.commits - before
    names = store.write_sync(lambda connection: connection.execute("SELECT name FROM names").fetchall())
    store.close()
    assert results == [type(None), sqlite3.IntegrityError, type(None), KeyError, type(None)]
    assert names == [("a",), ("b",), ("c",)] and together == 1


def test_the_time_of_events_never_goes_back_even_over_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    for _ in range(2):
        with opened(path, clock=clock) as service:
            create(service, window=10.0)
            for step in (0.0, 5.0, -500.0, 1.0):
                clock.now += step
                decide(service)
    with opened(path, clock=clock) as service:
        times = service.store.read_database(
            lambda connection: [row[1] for row in sql.events_after(connection, 1, 0)]
        )
    assert len(times) >= 8 and times == sorted(times)


def test_a_window_that_is_over_stays_over_when_the_clock_goes_back(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service, window=10.0)
        late, _ = decide(service), decide(service)
        clock.now += 20.0
        change(service, mode="shadow")  # an event, by which the loop knows what time it is
        clock.now -= 15.0
        assert reward(service, late.decision_id, 1.0).status == "expired"
        assert close_due(service) == 1
