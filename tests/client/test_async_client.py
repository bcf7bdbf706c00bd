"""The asyncio client: many requests at once, any of which may be cancelled."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from helpers.scripted_service import DECISION, Handler, answer, scripted
from helpers.service_process import TOLERANT, Server, served

import linoto
from linoto import AsyncClient

LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])


@pytest.fixture(scope="module")
def server(shared_folder: Path) -> Iterator[Server]:
    with served(shared_folder / "x.sqlite") as server:
        yield server


def url_of(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


async def make(client: AsyncClient, name: str) -> None:
    await client.create(name, arms=["a", "b", "c"], policy=TOLERANT, default_reward=0.0, offline=LOG)


class Echo:
    """Decides for the arm with the name of the key, when it may; counts its connections."""

    def __init__(self) -> None:
        self.open = self.most = self.ever = 0
        self.keys = asyncio.Queue[str]()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open, self.ever = self.open + 1, self.ever + 1
        self.most = max(self.most, self.open)
        self.writers.append(writer)
        try:
            while True:
                await self.answer(reader, writer)
        except (EOFError, OSError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(head.partition("content-length:")[2].partition("\r\n")[0])
        key = json.loads(await reader.readexactly(size))["key"]
        self.keys.put_nowait(key)
        await self.may_answer.wait()
        body = json.dumps({**DECISION, "arm": key}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Echo, str]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    try:
        yield echo, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in echo.writers:
            writer.transport.abort()
        await until(lambda: echo.open == 0)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, a minute at the most."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def test_sixty_four_requests_at_once_are_sixty_four_decisions(server: Server) -> None:
    async def work() -> None:
        async with AsyncClient(url_of(server)) as client:
            await make(client, "many")
            made = await asyncio.gather(*(client.decide("many") for _ in range(64)))
            assert len({decision.decision_id for decision in made}) == 64
            reports = [(decision.decision_id, 1.0) for decision in made]
            results = await asyncio.gather(*(client.reward("many", *report) for report in reports))
            assert {result.status for result in results} == {"applied"}
            numbers = await client.loop("many")
            assert (numbers["decisions"], numbers["rewards"], numbers["pending"]) == (64, 64, 0)

    asyncio.run(work())


def test_a_cancelled_request_can_be_repeated_with_its_key(server: Server) -> None:
    keys = [f"key-{i}" for i in range(64)]

    async def work() -> None:
        async with AsyncClient(url_of(server), connections=8) as client:
            await make(client, "cancelled")
            tasks = [asyncio.create_task(client.decide("cancelled", key=key)) for key in keys]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            first = dict(zip(keys, await asyncio.gather(*tasks, return_exceptions=True), strict=True))
            assert any(isinstance(made, asyncio.CancelledError) for made in first.values())
            again = await asyncio.gather(*(client.decide("cancelled", key=key) for key in keys))
            for key, made in zip(keys, again, strict=True):
                assert isinstance(first[key], asyncio.CancelledError) or first[key] == made
            assert (await client.loop("cancelled"))["decisions"] == 64

    asyncio.run(work())


def test_the_answer_to_a_cancelled_request_is_given_to_no_other() -> None:
    async def work() -> None:
        async with echoing() as (echo, url), AsyncClient(url, connections=1) as client:
            echo.may_answer.clear()
            cancelled = asyncio.create_task(client.decide("loop", key="cancelled"))
            assert await echo.keys.get() == "cancelled"
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            echo.may_answer.set()
            assert (await client.decide("loop", key="wanted")).arm == "wanted"

    asyncio.run(work())


def test_a_request_can_be_cancelled_while_it_pauses() -> None:
    paused = asyncio.Event()

    async def sleep(_: float) -> None:
        paused.set()
        await asyncio.sleep(3600)

    async def work() -> None:
        async with AsyncClient("http://127.0.0.1:9", sleep=sleep) as client, asyncio.timeout(60):
            sending = asyncio.create_task(client.loops())
            await paused.wait()
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending

    asyncio.run(work())


def test_connections_are_kept_shared_and_closed() -> None:
    async def work() -> None:
        async with echoing() as (echo, url):
            async with AsyncClient(url, connections=4) as client:
                for _ in range(10):
                    await client.decide("loop", key="k")
                assert echo.ever == 1
                keys = [f"key-{i}" for i in range(100)]
                made = await asyncio.gather(*(client.decide("loop", key=key) for key in keys))
                assert [decision.arm for decision in made] == keys
                assert (echo.most, echo.ever, echo.open) == (4, 4, 4)
            await until(lambda: echo.open == 0)

    asyncio.run(work())


def test_connections_that_the_service_closed_cost_nothing() -> None:
    async def work() -> None:
        async with echoing() as (echo, url), AsyncClient(url, retries=0) as client:
            await asyncio.gather(*(client.decide("loop", key="k") for _ in range(8)))
            for writer in echo.writers:
                writer.close()
            await until(lambda: echo.open == 0)
            assert (await client.decide("loop", key="again")).arm == "again"

    asyncio.run(work())


def test_closing_does_not_wait_and_requests_under_way_get_their_answer() -> None:
    async def work() -> None:
        async with echoing() as (echo, url):
            client = AsyncClient(url, connections=2)
            await client.decide("loop", key="one")
            echo.may_answer.clear()
            keys = ["two", "three", "waits for a connection"]
            under_way = [asyncio.create_task(client.decide("loop", key=key)) for key in keys]
            await until(lambda: echo.keys.qsize() == 3)
            await client.close()
            echo.may_answer.set()
            assert [made.arm for made in await asyncio.gather(*under_way)] == keys
            await until(lambda: echo.open == 0)

    asyncio.run(work())


def test_an_export_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    ended = threading.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 100_000)
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass  # until the client goes
        writer.transport.abort()
        ended.set()

    def size() -> int:
        return sum(file.stat().st_size for file in tmp_path.iterdir())

    async def work() -> None:
        service = await asyncio.start_server(endless, "127.0.0.1", 0)
        port = service.sockets[0].getsockname()[1]
        async with service, AsyncClient(f"http://127.0.0.1:{port}") as client:
            exporting = asyncio.create_task(client.export("loop", tmp_path / "log.parquet"))
            await until(lambda: size() > 0)
            exporting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await exporting
            await until(ended.is_set)

    asyncio.run(work())
    assert list(tmp_path.iterdir()) == []


def test_a_client_stays_in_one_event_loop() -> None:
    with scripted(answer(200, [])) as script:
        client = AsyncClient(script.url)
        assert asyncio.run(client.loops()) == []
        with pytest.raises(RuntimeError, match="one event loop"):
            asyncio.run(client.loops())
        asyncio.run(client.close())


def test_a_service_that_is_slow_to_end_tls_leaves_no_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "loopback.pem"))
    closed = threading.Event()
    monkeypatch.setattr(Handler, "finish", lambda handler: closed.wait(60))

    async def work(url: str) -> str | None:
        async with AsyncClient(url) as client:
            return (await client.decide("loop")).arm

    with scripted(answer(200, DECISION), folder=tmp_path) as script:
        assert asyncio.run(work(script.url)) == "a"
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
        closed.set()
    assert [str(warning.message) for warning in left] == []


def test_a_body_that_nobody_reads_leaves_no_connection_open() -> None:
    async def work(url: str) -> None:
        async with AsyncClient(url, timeout=0.3, retries=0) as client:
            with pytest.raises(ConnectionError, match="no answer"):
                await client.rewards("loop", [("1-1", 1.0)] * 400_000)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(work(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with warnings.catch_warnings(record=True) as left:
            warnings.simplefilter("always", ResourceWarning)
            gc.collect()
    assert [str(warning.message) for warning in left] == []


def test_a_client_needs_at_least_one_connection() -> None:
    with pytest.raises(ValueError, match="connections must be a whole number >= 1, got 0"):
        AsyncClient(connections=0)
