"""Both clients when something fails: a lost answer is asked for again, and a partial one is not an answer."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_service import (
    DECISION,
    NOTHING,
    AnyClient,
    KeepAlive,
    answer,
    error,
    keeping_alive,
    scripted,
)
from helpers.service_process import TOLERANT

import linoto
from linoto import AsyncClient, Client
from linoto.client import ServiceError
from linoto.client.operations import get


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_lost_answer_is_asked_for_again_with_the_same_key(kind: Any) -> None:
    answers = (NOTHING, error(503, "unavailable"), answer(200, DECISION))
    with scripted(*answers) as script, AnyClient(kind, script.url) as client:
        assert client.decide("loop").arm == "a"
        assert client.pauses == [0.05, 0.1]
    assert len(script.seen) == 3 and len(set(script.seen)) == 1
    assert len(json.loads(script.seen[0])["key"]) == 32


def test_a_pause_is_as_long_as_the_service_says_within_reason(kind: Any) -> None:
    answers = (
        error(429, "too_many", retry_after="2"),
        error(503, "unavailable", retry_after="99999999999"),
        error(429, "too_many", retry_after="0"),
        error(503, "unavailable", retry_after="Wed, 21 Oct 2026 07:28:00 GMT"),
        error(503, "unavailable", retry_after="-1"),
        answer(200, DECISION),
    )
    with scripted(*answers) as script, AnyClient(kind, script.url) as client:
        client.decide("loop", key="k")
        assert client.pauses == [2.0, 10.0, 0.2, 0.4, 0.8]


@pytest.mark.parametrize(("status", "code"), [(429, "too_many"), (503, "unavailable")])
def test_after_the_last_repetition_the_last_refusal_is_raised(kind: Any, status: int, code: str) -> None:
    answers = [error(status, code, retry_after="1")] * 3
    with scripted(*answers) as script, AnyClient(kind, script.url, retries=2) as client:
        with pytest.raises(ServiceError) as refused:
            client.decide("loop")
        assert (refused.value.status, refused.value.code) == (status, code)
        assert client.pauses == [1.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 500])
def test_a_final_refusal_is_not_repeated(kind: Any, status: int) -> None:
    with scripted(error(status, "no")) as script, AnyClient(kind, script.url) as client:
        with pytest.raises(ServiceError, match=f"no \\({status} no\\)"):
            client.decide("loop")
        assert client.pauses == []


@pytest.mark.parametrize(
    "raw",
    [
        answer(200, b"<html>please log in</html>"),
        answer(200, []),
        answer(200, {"arm": "a"}),
        answer(302, b"", location="/login"),
        answer(404, b"<html>not here</html>"),
        answer(500, {"error": "no"}),
    ],
)
def test_an_answer_from_something_else_is_an_error(kind: Any, raw: bytes) -> None:
    with scripted(raw) as script, AnyClient(kind, script.url) as client:
        with pytest.raises(ServiceError, match="not its own") as refused:
            client.decide("loop")
        assert refused.value.code == "unreadable"


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000 + b"\r\ncontent-length: 2\r\n\r\n{}",
    ],
)
def test_a_partial_or_garbled_answer_is_asked_for_again(kind: Any, raw: bytes) -> None:
    with scripted(raw, answer(200, DECISION)) as script, AnyClient(kind, script.url) as client:
        assert client.decide("loop").arm == "a"
        assert client.pauses == [0.05]
        assert len(set(script.seen)) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b'HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n{"name": "x"}',
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nCONTENT-LENGTH:13\r\n\r\n{"name": "x"}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5;why=not\r\n{"nam\r\n8\r\ne": "x"}\r\n0\r\nafter: all\r\n\r\n',
    ],
)
def test_every_framing_of_http_1_is_read(kind: Any, raw: bytes) -> None:
    with scripted(raw) as script, AnyClient(kind, script.url, retries=0) as client:
        assert client.loop("x") == {"name": "x"}


def test_unknown_fields_of_a_newer_service_are_ignored(kind: Any) -> None:
    with scripted(answer(200, {**DECISION, "new": 1})) as script, AnyClient(kind, script.url) as client:
        assert client.decide("loop").arm == "a"


def test_a_new_loop_is_sent_as_it_is_given(kind: Any) -> None:
    log = {"file": "june.parquet", "action": "banner", "reward": "clicked"}
    with scripted(answer(200, {})) as script, AnyClient(kind, script.url + "/bandits/", token="t") as client:
        client.create("loop", policy=TOLERANT, default_reward=0, log=log, seed=3)
        sent, (method, path, headers) = json.loads(script.seen[0]), script.heads[0]
    assert sent == {"policy": linoto.to_dict(TOLERANT), "default_reward": 0.0, "log": log, "seed": 3}
    assert (method, path, headers["authorization"]) == ("PUT", "/bandits/v1/loops/loop", "Bearer t")


def test_no_server_is_an_error_after_all_repetitions(kind: Any) -> None:
    with AnyClient(kind, "http://127.0.0.1:9", retries=3) as client:
        with pytest.raises(ConnectionError, match=r"no answer from http://127\.0\.0\.1:9: ") as refused:
            client.loops()
        assert "host=" not in str(refused.value)  # of an object of ours
        assert client.pauses == [0.05, 0.1, 0.2]


@pytest.mark.parametrize("rewards", [1, 200_000])
def test_a_silent_service_is_waited_for_no_longer_than_the_timeout(kind: Any, rewards: int) -> None:
    silent = socket.create_server(("127.0.0.1", 0))  # which does not even read
    url = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with AnyClient(kind, url, timeout=0.1, retries=1) as client:
        with silent, pytest.raises(ConnectionError, match="no answer"):
            client.rewards("loop", [("1-1", 1.0)] * rewards)
        assert client.pauses == [0.05]
        client.wait(0.05)  # a connection with unsent data ends when the service does


def test_an_answer_may_take_longer_than_the_timeout_while_it_goes_on(kind: Any) -> None:
    def slow() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n"
        for _ in range(8):
            time.sleep(0.2)
            yield b"1"

    with (
        scripted(slow(), slow(), slow()) as script,
        AnyClient(kind, script.url, timeout=1.0, retries=2) as client,
    ):
        assert client._send(get("/")) == 11111111


@pytest.mark.parametrize(
    ("scheme", "sent"),
    [
        ("http", b""),
        ("http", b"HTTP/1.1 200 OK\r\ncontent-le"),
        ("http", b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{}"),
        ("https", b""),
        ("https", b"HTTP/1.1 400 this is not TLS\r\ncontent-length: 0\r\n\r\n"),
    ],
)
def test_a_reset_connection_is_a_lost_answer(kind: Any, scheme: str, sent: bytes) -> None:
    def reset(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            if sent or scheme == "https":  # Python leaves a socket open whose TLS begins after the reset
                connection.recv(65536)
            if sent:
                connection.sendall(sent)
                time.sleep(0.05)  # a reset overtakes what was sent just before it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        threads.submit(reset, listener)
        with AnyClient(kind, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", retries=1) as client:
            with pytest.raises(ConnectionError, match="no answer"):
                client.decide("loop")
            assert client.pauses == [0.05]


def test_a_secure_service_must_have_a_known_certificate(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(answer(200, DECISION), folder=tmp_path) as script:
        with (
            AnyClient(kind, script.url, retries=0) as stranger,
            pytest.raises(ConnectionError, match="CERTIFICATE"),
        ):
            stranger.decide("loop")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "loopback.pem"))
        with AnyClient(kind, script.url, retries=0) as client:
            assert client.decide("loop").arm == "a"
    assert len(script.seen) == 1


# -- connections


def test_one_request_after_another_needs_one_connection(kind: Any) -> None:
    with keeping_alive() as server, AnyClient(kind, server.url, retries=0) as client:
        for _ in range(10):
            client.decide("loop")
        assert len(server.connections) == 1


def test_a_connection_that_the_service_closed_is_not_used_again(kind: Any) -> None:
    with keeping_alive() as server, AnyClient(kind, server.url, retries=0) as client:
        client.decide("loop")
        server.hang_up()
        client.wait(0.05)
        client.decide("loop")
        assert len(server.connections) == 2


def test_a_connection_that_was_not_used_for_long_is_not_used_again(kind: Any) -> None:
    with keeping_alive() as server, AnyClient(kind, server.url, retries=0, idle=0.2) as client:
        client.decide("loop")
        client.wait(0.5)
        client.decide("loop")
        assert len(server.connections) == 2


def test_after_a_lost_answer_no_old_connection_is_used(kind: Any) -> None:
    with keeping_alive() as server, AnyClient(kind, server.url, timeout=2.0, retries=1) as client:
        open_connections(client, server, 4)
        server.silent += server.connections  # as behind a router that has forgotten them
        assert client.decide("loop").arm == "a"
        assert client.pauses == [0.05]
        assert len(server.connections) == 5


def test_closing_does_not_wait_and_a_request_of_another_thread_gets_its_answer() -> None:
    with keeping_alive() as server, ThreadPoolExecutor(1) as threads:
        server.may_answer.clear()
        client = Client(server.url, retries=0)
        under_way = threads.submit(client.decide, "loop")
        server.requests.acquire()
        client.close()
        server.may_answer.set()
        assert under_way.result().arm == "a"


def open_connections(client: AnyClient, server: KeepAlive, count: int) -> None:
    """Let a client have so many connections that are open and unused."""
    server.may_answer.clear()

    def answer_when_all_are_there() -> None:
        for _ in range(count):
            server.requests.acquire()
        server.may_answer.set()

    async def together() -> None:
        await asyncio.gather(*(client.client.decide("loop") for _ in range(count)))

    with ThreadPoolExecutor(count + 1) as threads:
        threads.submit(answer_when_all_are_there)
        if isinstance(client.client, AsyncClient):
            client.runner.run(together())
        else:
            list(threads.map(lambda _: client.decide("loop"), range(count)))
    assert len(server.connections) == count


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_service_that_is_away_is_asked_again_until_the_deadline(
    kind: type[Client] | type[AsyncClient],
) -> None:
    """Pauses double up to a second, and together they fill the deadline."""
    with AnyClient(kind, "http://127.0.0.1:9", deadline=30.0) as client:
        with pytest.raises(ConnectionError, match="no answer from"):
            client.overview()
        assert client.pauses[:6] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0] and set(client.pauses[6:]) == {1.0}
        assert 28.0 < sum(client.pauses) <= 30.0
