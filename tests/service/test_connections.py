"""Connections that are silent or slow take nobody else's place, and a stop has a deadline."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import select
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from helpers.http import ask
from helpers.service_process import Server, served

from linoto.service.sockets import bind
from linoto.service.web.limits import Limits
from linoto.service.web.listener import Listener

SPEC = {"arms": [{"name": "a"}, {"name": "b"}], "policy": {"type": "LinUCB"}, "default_reward": 0}
HEAD = b"POST /v1/loops/loop/decide HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
HALF = HEAD + b"content-length: 2\r\n\r\n{"  # a request without its last byte
WHOLE = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
BIG = 50_000_000  # bytes: more than sockets hold


async def read_and_answer(scope: Any, receive: Any, send: Any) -> None:
    """An application that reads the body, and answers `ok` or, if asked for it, very much."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message["more_body"]:
            break
    body = b"x" * BIG if scope["path"] == "/big" else b"ok"
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


@contextmanager
def listening(**limits: Any) -> Iterator[int]:
    """The port of a listener with these limits, in a thread; no limit of time is met unless it is given."""
    bound = bind("127.0.0.1", 0)
    stop: Queue[Any] = Queue()

    async def listen() -> None:
        given = Limits(**{"head": 600.0, "body": 600.0, "idle": 600.0, "stall": 600.0, **limits})
        listener, end = Listener(read_and_answer, bound, given), asyncio.Event()
        listener.start()
        watching = asyncio.create_task(listener.watch())
        stop.put(lambda: listener.loop.call_soon_threadsafe(end.set))
        await end.wait()
        await listener.close(0.0, asyncio.Event())
        watching.cancel()
        while listener.connections or listener._joining:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)  # a turn for those whose place was taken

    thread = threading.Thread(target=asyncio.run, args=(listen(),))
    port = bound.getsockname()[1]
    thread.start()
    end = stop.get()
    try:
        yield port
    finally:
        end()
        thread.join()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    raw = socket.create_connection(("127.0.0.1", port), timeout=240)
    raw.sendall(sent)
    return raw


def everything(raw: socket.socket) -> bytes:
    """What is answered before the server closes."""
    said = bytearray()
    with suppress(ConnectionResetError):
        while piece := raw.recv(65_536):
            said += piece
    return bytes(said)


def answer(raw: socket.socket) -> tuple[int, Any]:
    """(status, JSON) of what is answered before the server closes; (0, None) where it closes silently."""
    head, _, body = everything(raw).partition(b"\r\n\r\n")
    return (int(head.split()[1]), json.loads(body)) if head else (0, None)


def first_answer(raw: socket.socket) -> bytes:
    """One answer of the application, on a connection that is kept."""
    said = b""
    while not said.endswith(b"\r\n\r\nok"):
        piece = raw.recv(65_536)
        assert piece, said
        said += piece
    return said


def status_of(port: int) -> int:
    """What a request on a new connection is answered."""
    with connect(port, WHOLE) as raw:
        return int(raw.recv(65_536).split()[1])


def test_silent_connections_take_nobody_elses_place() -> None:
    """Three times as many as there may be, without a word; others are answered at once all the same."""
    with listening(connections=20) as port, ExitStack() as stack, connect(port, WHOLE) as kept:
        assert first_answer(kept).startswith(b"HTTP/1.1 200 ")
        for _ in range(60):
            stack.enter_context(connect(port))
        assert [status_of(port) for _ in range(10)] == [200] * 10
        kept.sendall(WHOLE)  # this one had spoken before, so a silent one went for it
        assert first_answer(kept).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_thousand_silent_connections_lock_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server, ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(connect(server.port))
        assert [status_of(server.port) for _ in range(20)] == [200] * 20


def test_half_bodies_take_nobody_elses_place() -> None:
    """Four times as many as there may be; who goes on with a body is answered."""
    with listening(connections=20, stall=0.0) as port, ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(connect(port, HALF))
        deadline = time.monotonic() + 60
        while status_of(port) != 200 and time.monotonic() < deadline:  # in the burst, none has had its turn
            time.sleep(0.05)
        assert [status_of(port) for _ in range(10)] == [200] * 10
        with connect(port, HALF) as raw:
            raw.sendall(b"}")
            assert first_answer(raw).startswith(b"HTTP/1.1 200 ")


@pytest.mark.slow
def test_a_thousand_half_bodies_lock_nobody_out(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server, ExitStack() as stack:
        for _ in range(1100):
            stack.enter_context(connect(server.port, HALF))
        time.sleep(1.5)
        assert [status_of(server.port) for _ in range(20)] == [200] * 20


def test_beyond_the_limit_those_who_speak_get_503_and_later_their_answer() -> None:
    """Every place is taken by somebody in the middle of a request."""
    with listening(connections=5) as port, ExitStack() as stack:
        speaking = [stack.enter_context(connect(port, HALF)) for _ in range(5)]
        with connect(port, WHOLE) as raw:
            status, said = answer(raw)
        assert (status, said["error"]["code"]) == (503, "busy")
        for raw in speaking:
            raw.sendall(b"}")
            assert raw.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert status_of(port) == 200


def test_a_burst_beyond_the_limit_is_answered_to_the_last() -> None:
    with listening(connections=8) as port, ExitStack() as stack:
        asked = [stack.enter_context(connect(port, WHOLE)) for _ in range(40)]
        said = [int(raw.recv(65_536).split()[1]) for raw in asked]
    assert set(said) <= {200, 503} and said.count(200) >= 8


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        (b"", 0, None),
        (WHOLE[:20], 408, "timeout"),
        (HALF, 408, "timeout"),
        (b"nonsense\r\n\r\n", 400, "bad_request"),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 15_000, 431, "too_large"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", 431, "too_large"),
        (b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\n\r\n", 431, "too_large"),
        (WHOLE[:-2] + b"Host: evil.example\r\n\r\n", 400, "bad_request"),
        (WHOLE[:-2] + b"authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n", 400, "bad_request"),
    ],
    ids=[
        "silent",
        "half a head",
        "half a body",
        "not HTTP",
        "headers without end",
        "a long header",
        "a long address",
        "two hosts",
        "two tokens",
    ],
)
def test_what_is_too_slow_or_too_long_is_refused_and_closed(sent: bytes, status: int, why: str) -> None:
    """There is a limit of time only where it must be met: a busy machine is slow to send as well."""
    slow: dict[str, Any] = {"head": 0.3, "body": 0.3} if status in (0, 408) else {}
    with listening(**slow) as port, connect(port, sent) as raw:
        found, said = answer(raw)
        assert found == status and (said is None or said["error"]["code"] == why)


def test_a_connection_without_a_further_request_is_closed() -> None:
    with listening(idle=0.3) as port, connect(port, WHOLE + WHOLE) as raw:
        assert everything(raw).count(b"HTTP/1.1 200 ") == 2


def test_bytes_that_trickle_do_not_buy_time() -> None:
    with listening(head=0.5) as port, connect(port) as raw:
        for byte in WHOLE[:-4] + b"\r\nx: " + b"y" * 100:
            if select.select([raw], [], [], 0.05)[0]:
                break
            raw.sendall(bytes([byte]))
        else:
            pytest.fail("every byte was waited for")
        assert answer(raw)[0] == 408


def test_a_long_body_has_as_much_time_as_its_bytes_need() -> None:
    """Each 64 KiB is worth a second, so a body that keeps coming is not cut off."""
    with listening(body=0.3) as port, connect(port) as raw:
        raw.sendall(HEAD + b"content-length: 600000\r\n\r\n" + b"x" * 300_000)
        for _ in range(6):
            time.sleep(0.1)
            raw.sendall(b"x" * 50_000)
        assert raw.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    with listening(idle=0.3) as port, connect(port, WHOLE.replace(b"/healthz", b"/big")) as raw:
        for _ in range(20):  # however busy the machine is, the server has had its turns by then
            time.sleep(0.05)
            assert status_of(port) == 200
        assert len(everything(raw)) < BIG


def read_slowly(port: int) -> int:
    """How many bytes come where the answer is read for longer than the service waits for a silent reader."""
    with connect(port, WHOLE.replace(b"/healthz", b"/big")) as raw:
        began, read = time.monotonic(), 0
        while time.monotonic() - began < 1.6:
            time.sleep(0.05)
            read += len(raw.recv(1 << 20))
        return read + len(everything(raw))


def test_an_answer_that_is_read_slowly_is_complete_and_then_the_connection_is_closed() -> None:
    """A machine that stands still for a second is a silent reader too: then it is read once more."""
    with listening(idle=1.0) as port:
        assert any(read_slowly(port) > BIG for _ in range(4))


# -- stopping


@contextmanager
def serving(path: Path, drain: float) -> Iterator[Server]:
    """A server with a loop."""
    with served(path, settings={"drain": drain}) as server:
        assert ask(server, "PUT", "/v1/loops/loop", SPEC)[0] == 200
        yield server


def decided(path: Path) -> list[str]:
    """The keys of the decisions on disk."""
    with closing(sqlite3.connect(path)) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM decisions ORDER BY number")]


def test_a_stop_waits_for_a_body_only_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with serving(path, drain=0.5) as server, connect(server.port, HALF) as raw:
        assert ask(server, "POST", "/v1/loops/loop/decide", {"key": "k"})[0] == 200
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=240) == 0 and time.monotonic() - began > 0.4
        status, said = answer(raw)
        assert (status, said["error"]["code"]) == (503, "unavailable")
    assert decided(path) == ["k"]


def test_a_request_that_is_completed_while_the_service_stops_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with serving(path, drain=100) as server, connect(server.port, HALF) as raw:
        assert ask(server, "GET", "/healthz")[0] == 200
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        raw.sendall(b"}")
        assert answer(raw)[0] == 200
        assert server.process.wait(timeout=240) == 0
    assert decided(path) == [None]


def stopped_by_signals(server: Server) -> int:
    """The exit code after one more signal; after several where the machine was slow to deliver the first."""
    for _ in range(60):
        server.process.send_signal(signal.SIGTERM)
        with suppress(AssertionError):  # still there, since two that come before one is handled are one
            return server.process.wait(timeout=1.0)
    return server.process.wait(timeout=1.0)


def test_a_second_signal_stops_at_once_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    path, keys = tmp_path / "x.sqlite", [f"{n}" for n in range(20)]
    with serving(path, drain=600) as server, connect(server.port, HALF):
        for key in keys:
            assert ask(server, "POST", "/v1/loops/loop/decide", {"key": key})[0] == 200
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert server.process.poll() is None
        assert stopped_by_signals(server) == 0
    assert decided(path) == keys


# -- file descriptors


def test_without_file_descriptors_the_answer_is_503_once_logged_and_it_recovers(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with serving(path, drain=1) as server:
        in_use = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (in_use + 4, hard))
        for _ in range(2):  # the second time is not logged again
            with ExitStack() as stack:
                for _ in range(40):  # more than there are descriptors for
                    stack.enter_context(connect(server.port, HALF))
                time.sleep(0.5)
                refused = [ask(server, "POST", "/v1/loops/loop/decide", {}) for _ in range(5)]
                assert {status for status, _ in refused} <= {200, 503} and refused[0][0] == 503
                assert server.process.poll() is None
            time.sleep(0.5)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (hard, hard))
        deadline = time.monotonic() + 240
        while ask(server, "POST", "/v1/loops/loop/decide", {})[0] != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.stop() == 0
    lines = [json.loads(line) for line in path.with_suffix(".log").read_text().splitlines()]
    assert sum(line["message"] == "no connection can be taken" for line in lines) == 1
    assert not any(re.search("fault|Traceback", json.dumps(line)) for line in lines)
