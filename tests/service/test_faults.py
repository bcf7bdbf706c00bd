"""What can fail inside: other jobs, disks that fail twice, numbers that are not finite, clocks."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, close_due, create, opened, served, spec_of

import linoto
from linoto.service.errors import Unavailable
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.loop import Loop
from linoto.service.server import Service, refresh_tokens, steady_clock, tick
from linoto.service.web.access import create_token
from linoto.service.web.creation import LoopCreation


def test_memory_never_runs_ahead_of_a_disk_that_fails_twice(tmp_path: Path) -> None:
    """A write fails, and so does the reading that would undo it in memory: the next request tries again."""
    broken = False

    def judge(action: int, table: str | None, *_: str | None) -> int:
        denied = action == sqlite3.SQLITE_READ or (action == sqlite3.SQLITE_INSERT and table == "decisions")
        return sqlite3.SQLITE_DENY if broken and denied else sqlite3.SQLITE_OK

    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        for _ in range(3):
            decide(service)
        service.store._connection.set_authorizer(judge)
        broken = True
        for _ in range(2):
            with pytest.raises(Unavailable):
                decide(service)
        broken = False
        assert decide(service).decision_id == "1-4"
        assert len(set(digests(service))) == 1
        service.store._connection.set_authorizer(None)


def test_a_loop_and_its_first_decision_survive_another_job_that_fails(tmp_path: Path) -> None:
    """The batch runs again without the culprit, and must begin with a fresh loop again."""

    def fault(connection: sqlite3.Connection) -> None:
        raise KeyError("any fault")

    async def batch(service: Service) -> list[Any]:
        fresh = Loop.fresh("loop", spec_of())
        jobs = [
            lambda c: service.loops.create(c, fresh),
            lambda c: service.loops.decide(c, "loop"),
            fault,
        ]
        return await asyncio.gather(*(service.store.write(job) for job in jobs), return_exceptions=True)

    with opened(tmp_path / "x.sqlite") as service:
        _, made, failed = asyncio.run(batch(service))
        assert made.number == 1 and isinstance(failed, KeyError)
        assert service.loops.get("loop").agent.rounds == 1
        assert len(set(digests(service))) == 1


def test_a_snapshot_does_not_grow_with_open_decisions_and_none_is_lost(tmp_path: Path) -> None:
    sizes = []
    with opened(tmp_path / "x.sqlite", snapshot_every=10**9) as service:
        create(service, window=1e6)
        loops = service.loops
        for _ in range(3):
            service.store.write_sync(lambda c: [loops.decide(c, "loop") for _ in range(300)])
            reward(service, f"1-{loops.get('loop').state.decided - 5}", 1.0)
            service.store.write_sync(loops.save_all)
            sizes.append(len(loops.get("loop").snapshot()[0]))
            reward(service, f"1-{loops.get('loop').state.decided - 7}", 1.0)  # after the snapshot
            assert len(set(digests(service))) == 1
    assert max(sizes) - min(sizes) < 2000  # three more points, and at most 64 pages of its books
    with opened(tmp_path / "x.sqlite") as service:
        assert len(service.loops.get("loop").pending) == 900 - 6


def test_a_bound_that_is_not_finite_can_be_read_again(tmp_path: Path) -> None:
    wide = linoto.LinUCB(confidence=linoto.Confidence(delta=1e-320))
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=wide)
        assert decide(service).ucb is None
        assert all(arm.ucb is None for arm in arm_views(service.loops.get("loop")))
    with opened(tmp_path / "x.sqlite") as service:
        assert service.loops.get("loop").state.decided == 1


def test_setting_the_clock_of_the_machine_does_not_move_that_of_the_server() -> None:
    wall, ticks = FakeClock(1e9), FakeClock(50.0)
    clock = steady_clock(wall, ticks)
    assert clock() == 1e9
    wall.now += 3e8
    ticks.now += 2.0
    assert clock() == 1e9 + 2.0
    assert abs(steady_clock()() - time.time()) < 60


def test_one_bad_loop_stops_neither_the_others_nor_the_server(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(service: Service) -> None:
        ticking = asyncio.create_task(tick(service, every=0.01))
        while service.loops.get("good").pending:
            await asyncio.sleep(0.01)
        assert not ticking.done()
        ticking.cancel()

    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        for name in ("bad", "good"):
            create(service, name, window=10.0)
            decide(service, name)
        bad = service.loops.get("bad")
        bad.pending[1] = msgspec.structs.replace(bad.pending[1], arm=99)  # a fault: no such arm
        clock.now += 20.0
        asyncio.run(asyncio.wait_for(work(service), 240.0))
        assert service.loops.get("good").state.counted.defaults == 1


def test_no_window_is_closed_twice_or_early(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service, window=10.0)
        loop = service.loops.get("loop")
        assert not service.loops.is_due(loop)
        decide(service)
        clock.now += 9.9
        assert not service.loops.is_due(loop)
        clock.now += 0.1
        assert service.loops.is_due(loop) and close_due(service) == 1 and not service.loops.is_due(loop)


def test_the_same_loop_requested_while_it_is_made_is_made_once(tmp_path: Path) -> None:
    """Four equal requests at once: one makes the loop, the others find it."""
    made: list[str] = []

    async def put(creation: LoopCreation, loops: dict[str, str]) -> str:
        async with creation.lock("loop"):
            if "loop" not in loops:
                loops["loop"] = await creation.run(lambda: (time.sleep(0.05), made.append("loop"), "loop")[2])
        return loops["loop"]

    async def four() -> list[str]:
        creation, loops = LoopCreation(), dict[str, str]()
        answers = await asyncio.gather(*(put(creation, loops) for _ in range(4)))
        assert creation._locks == {}
        return answers

    assert asyncio.run(four()) == ["loop"] * 4 and made == ["loop"]


def test_the_same_loop_requested_again_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        with closing(server.client()) as client:
            for _ in range(3):
                client.create("loop", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
        server.stop()
    lines = [json.loads(line) for line in path.with_suffix(".log").read_text().splitlines()]
    assert [line["message"] for line in lines].count("loop created") == 1


def test_revoked_tokens_are_noticed_however_many_decisions_are_due(tmp_path: Path) -> None:
    clock = FakeClock()

    async def work(service: Service) -> None:
        tasks = [asyncio.create_task(run(service, every=0.01)) for run in (refresh_tokens, tick)]
        clock.now += 100.0
        while not service.access.guarded:
            await asyncio.sleep(0.005)
        assert service.loops.get("loop").pending  # still busy closing
        for task in tasks:
            task.cancel()

    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service, window=10.0)
        loops = service.loops
        service.store.write_sync(lambda c: [loops.decide(c, "loop") for _ in range(3_000)])
        service.store.write_sync(lambda c: create_token(c, "shop", "reader", 0.0))
        asyncio.run(asyncio.wait_for(work(service), 240.0))
