"""Another program that writes, a database that was moved: nobody else waits, and nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from helpers.http import ask
from helpers.loops import decide, digests
from helpers.service_process import TOLERANT, FakeClock, Server, create, opened

import linoto
from linoto.service.errors import Repeats, Unavailable
from linoto.service.loops import views
from linoto.service.loops.records import recover, seal_of
from linoto.service.loops.spec import Arm, LogStatistics
from linoto.service.server import Service, refresh_tokens, tick
from linoto.service.storage import sql
from linoto.service.storage.sqlite import connect
from linoto.service.web.loading import Loading
from linoto.version import __version__


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program in the middle of a write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other


async def decided(service: Service, key: str) -> int:
    return (await service.store.write(lambda c: service.loops.decide(c, "loop", key=key))).number


def test_a_foreign_lock_stops_neither_the_event_loop_nor_what_only_reads_memory(tmp_path: Path) -> None:
    """All this happens before the lock ends; whoever waited for it would wait until writes are given up."""
    path = tmp_path / "x.sqlite"

    async def scene(service: Service, other: sqlite3.Connection) -> None:
        writing = [asyncio.create_task(decided(service, f"{n}")) for n in range(600)]
        for _ in range(40):
            await asyncio.sleep(0.005)
        view = await service.store.read_memory(lambda: views.loop_view(service.loops.get("loop")))
        assert view.decisions == 0 and not any(task.done() for task in writing)
        other.execute("ROLLBACK")
        assert await asyncio.gather(*writing) == list(range(1, 601))

    with opened(path, busy_timeout=60.0) as service:
        create(service)
        with locked(path) as other:
            asyncio.run(scene(service, other))


def test_a_lock_that_stays_is_reported_to_all_who_wait_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"

    async def scene(service: Service) -> list[object]:
        return await asyncio.gather(*(decided(service, f"{n}") for n in range(600)), return_exceptions=True)

    with opened(path) as service:
        create(service)
        before = digests(service)
        with locked(path):
            began = time.monotonic()
            results = asyncio.run(scene(service))
        assert time.monotonic() - began < 60  # a second; one after the other, ten minutes
        assert all(isinstance(result, Unavailable) and "locked" in str(result) for result in results)
        assert digests(service) == before and asyncio.run(decided(service, "0")) == 1


def test_a_database_that_was_moved_is_not_written_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, elsewhere = tmp_path / "x.sqlite", tmp_path / "y.sqlite"

    async def look(service: Service) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(refresh_tokens(service, every=0.01), timeout=0.2)

    with opened(path) as service:
        create(service)
        decide(service)
        before = digests(service)
        for name in (path, Path(f"{path}-wal")):
            name.rename(elsewhere)
            with caplog.at_level(logging.ERROR), pytest.raises(Unavailable, match="moved or replaced"):
                decide(service)
            asyncio.run(look(service))
            elsewhere.rename(name)
            assert digests(service) == before
            decide(service)
            before = digests(service)
    unread = [record for record in caplog.records if record.message == "tokens cannot be read"]
    assert len(unread) <= 2
    with opened(path) as service:
        assert digests(service) == before


def test_a_message_that_repeats_is_logged_once_a_minute() -> None:
    clock = FakeClock()
    repeats = Repeats(every=60.0, clock=clock)
    seen = []
    for _ in range(130):
        seen.append((repeats.is_new("a"), repeats.is_new("b") if clock.now > 1100 else None))
        clock.now += 1
    assert [n for n, (a, _) in enumerate(seen) if a] == [0, 60, 120]
    assert sum(bool(b) for _, b in seen) == 1


def test_many_windows_that_end_at_once_do_not_keep_other_loops_waiting(tmp_path: Path) -> None:
    """Decisions of another loop come between slices, and a third loop gets its turn before all are closed."""
    clock, many = FakeClock(), 1500

    async def scene(service: Service) -> list[int]:
        ticking = asyncio.create_task(tick(service, every=0.001))
        loop, small = service.loops.get("loop"), service.loops.get("small")
        left, open_when_small_was_closed = [len(loop.pending)], None
        while loop.pending:
            await service.store.write(lambda c: service.loops.decide(c, "other"))
            left.append(len(loop.pending))
            if not small.pending and open_when_small_was_closed is None:
                open_when_small_was_closed = left[-1]
        ticking.cancel()
        assert open_when_small_was_closed is not None and open_when_small_was_closed > many / 2
        return left

    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        for name in ("loop", "other", "small"):
            create(service, name, window=10.0)
        service.store.write_sync(lambda c: [service.loops.decide(c, "loop") for _ in range(many)])
        decide(service, "small")
        clock.now += 20.0
        left = asyncio.run(scene(service))
        assert len(left) > 20 and max(a - b for a, b in pairwise(left)) < 400
        assert (
            service.loops.get("loop").state.groups["safe"].closed
            + service.loops.get("loop").state.groups["explore"].closed
            == many
        )


def test_the_service_is_alive_before_it_has_read_its_loops_and_ready_after() -> None:
    loops: dict[str, object] = {}
    loading = Loading(loops)

    async def ready(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ready"})

    def ask(path: str) -> tuple[int, bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(loading({"type": "http", "path": path}, None, send))
        return sent[0]["status"], sent[1]["body"]

    assert ask("/healthz") == (200, b"ok")
    loops["a"] = 1
    for path in ("/readyz", "/v1/loops/a/decide"):
        status, body = ask(path)
        assert status == 503 and b"1 so far" in body and b'"loading"' in body
    loading.app = ready
    assert ask("/readyz") == (200, b"ready")


@pytest.mark.parametrize("policy", [TOLERANT, linoto.LinOtO(), linoto.Doubling(policy=linoto.LinUCB())])
def test_a_snapshot_with_its_promise_needs_no_fit_and_leads_to_the_same_loop(
    tmp_path: Path, policy: Any
) -> None:
    """A mark in what was kept is found again: nothing was fitted to know it."""
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        create(service, policy=policy)
        for _ in range(5):
            decide(service)
        before, loop = digests(service), service.loops.get("loop")
    for mark in ("", "as it was kept: "):
        with closing(connect(path)) as connection:
            kept = str(sql.promise_of(connection, loop.id, __version__)).partition(" ")[2]
            marked = kept.replace('"theorem": "', f'"theorem": "{mark}')
            seal = seal_of(sql.secret_of(connection)[0], loop.id, marked)
            sql.put_promise(connection, loop.id, __version__, f"{seal} {marked}")
            (row,) = sql.all_loops(connection)
            again = recover(connection, row)
        assert again.certificate == replace(loop.certificate, theorem=f"{mark}{loop.certificate.theorem}")
        assert again.reference == loop.reference
        assert repr(again.watch) == repr(loop.watch)
        assert again.digest() == before[0]


@pytest.mark.slow
def test_a_loop_of_many_arms_without_features_does_not_delay_the_first_answer(tmp_path: Path) -> None:
    path, k = tmp_path / "x.sqlite", 1200
    with opened(path) as service:
        arms, log = [Arm(name=f"{n}") for n in range(k)], LogStatistics(pulls=[9] * k, reward_sums=[4.0] * k)
        create(service, arms=arms, offline=log)
        decide(service)
    server, seen = Server(path), set[int]()
    try:
        while 200 not in seen:
            with suppress(OSError):
                began = time.monotonic()
                assert ask(server, "GET", "/healthz") == (200, "ok")
                assert time.monotonic() - began < 1.0
                seen.add(ask(server, "GET", "/readyz")[0])
            time.sleep(0.05)
        assert seen == {503, 200}
    finally:
        server.kill()
