"""Both clients on a bad way: what is lost is asked for again, and what breaks off is no answer."""

from __future__ import annotations

import errno
import json
import resource
import socket
import struct
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_service import DECISION, LOST, Twin, answer, error, scripted
from helpers.service_process import TOLERANT

import linoto
from linoto import AsyncClient, Client
from linoto.client import ServiceError


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_lost_answer_is_asked_for_again_with_the_same_key(kind: Any) -> None:
    answers = (LOST, error(503, "unavailable"), answer(200, DECISION))
    with scripted(*answers) as script, Twin(kind, script.url) as client:
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
    with scripted(*answers) as script, Twin(kind, script.url) as client:
        client.decide("loop", key="k")
        assert client.pauses == [2.0, 10.0, 0.2, 0.4, 0.8]


@pytest.mark.parametrize(("status", "code"), [(429, "too_many"), (503, "unavailable")])
def test_patience_ends_with_what_the_service_said_last(kind: Any, status: int, code: str) -> None:
    answers = [error(status, code, retry_after="1")] * 3
    with scripted(*answers) as script, Twin(kind, script.url, retries=2) as client:
        with pytest.raises(ServiceError) as refused:
            client.decide("loop")
        assert (refused.value.status, refused.value.code) == (status, code)
        assert client.pauses == [1.0, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 500])
def test_what_does_not_pass_is_asked_once(kind: Any, status: int) -> None:
    with scripted(error(status, "no")) as script, Twin(kind, script.url) as client:
        with pytest.raises(ServiceError, match=f"no \\({status} no\\)"):
            client.decide("loop")
        assert client.pauses == []


@pytest.mark.parametrize(
    "said",
    [
        answer(200, b"<html>welcome to the hotel</html>"),
        answer(200, []),
        answer(200, {"arm": "a"}),
        answer(302, b"", location="/login"),
        answer(404, b"<html>not here</html>"),
        answer(500, {"error": "no"}),
    ],
)
def test_an_answer_that_is_not_the_services_is_an_error(kind: Any, said: bytes) -> None:
    with scripted(said) as script, Twin(kind, script.url) as client:
        with pytest.raises(ServiceError, match="not its own") as refused:
            client.decide("loop")
        assert refused.value.code == "unreadable"


@pytest.mark.parametrize(
    "said",
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
def test_an_answer_that_breaks_off_is_asked_for_again(kind: Any, said: bytes) -> None:
    with scripted(said, answer(200, DECISION)) as script, Twin(kind, script.url) as client:
        assert client.decide("loop").arm == "a"
        assert client.pauses == [0.05]
        assert len(set(script.seen)) == 1


@pytest.mark.parametrize(
    "said",
    [
        b'HTTP/1.0 200 OK\r\nContent-Length: 13\r\n\r\n{"name": "x"}',
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nCONTENT-LENGTH:13\r\n\r\n{"name": "x"}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5;why=not\r\n{"nam\r\n8\r\ne": "x"}\r\n0\r\nafter: all\r\n\r\n',
    ],
)
def test_an_answer_is_read_however_it_is_framed(kind: Any, said: bytes) -> None:
    with scripted(said) as script, Twin(kind, script.url, retries=0) as client:
        assert client.loop("x") == {"name": "x"}


def test_a_newer_service_may_say_more(kind: Any) -> None:
    with scripted(answer(200, {**DECISION, "mood": "good"})) as script, Twin(kind, script.url) as client:
        assert client.decide("loop").arm == "a"


def test_what_a_loop_is_made_from_is_sent_as_it_is_given(kind: Any) -> None:
    log = {"file": "june.parquet", "action": "banner", "reward": "clicked"}
    with scripted(answer(200, {})) as script, Twin(kind, script.url + "/bandits/", token="t") as client:
        client.create("loop", policy=TOLERANT, default_reward=0, log=log, seed=3)
        sent, (method, path, headers) = json.loads(script.seen[0]), script.heads[0]
    assert sent == {"policy": linoto.to_dict(TOLERANT), "default_reward": 0.0, "log": log, "seed": 3}
    assert (method, path, headers["authorization"]) == ("PUT", "/bandits/v1/loops/loop", "Bearer t")


def test_no_server_is_an_error_after_all_repetitions(kind: Any) -> None:
    with Twin(kind, "http://127.0.0.1:9", retries=3) as client:
        with pytest.raises(ConnectionError, match=r"no answer from http://127\.0\.0\.1:9: "):
            client.loops()
        assert client.pauses == [0.05, 0.1, 0.2]


def test_silence_is_waited_for_no_longer_than_the_timeout(kind: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Twin(kind, url, timeout=0.1, retries=1) as client:
            with pytest.raises(ConnectionError, match="no answer"):
                client.loops()
            assert client.pauses == [0.05]


def test_a_long_answer_may_take_longer_than_the_timeout_while_it_goes_on(kind: Any) -> None:
    def slow() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n"
        for _ in range(8):
            time.sleep(0.2)  # a service that is at work
            yield b"1"

    with scripted(slow(), slow(), slow()) as script, Twin(kind, script.url, timeout=1.0, retries=2) as client:
        assert client._ask("GET", "/") == b"1" * 8


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_is_torn_down_is_a_lost_answer(kind: Any, scheme: str) -> None:
    def tear(listener: socket.socket) -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        threads.submit(tear, listener)
        with Twin(kind, f"{scheme}://127.0.0.1:{listener.getsockname()[1]}", retries=1) as client:
            with pytest.raises(ConnectionError, match="no answer"):
                client.decide("loop")
            assert client.pauses == [0.05]


def test_a_secure_service_is_checked_by_its_certificate(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(answer(200, DECISION), folder=tmp_path) as script:
        with (
            Twin(kind, script.url, retries=0) as stranger,
            pytest.raises(ConnectionError, match="CERTIFICATE"),
        ):
            stranger.decide("loop")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "loopback.pem"))
        with Twin(kind, script.url, retries=0) as client:
            assert client.decide("loop").arm == "a"
    assert len(script.seen) == 1


# -- exports


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1234",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n1234\r\n",
    ],
)
def test_an_export_is_whole_or_not_there(kind: Any, head: bytes, tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    file.write_bytes(b"of yesterday")
    answers = (head, head, head, answer(200, b"123456789"))
    with scripted(*answers) as script, Twin(kind, script.url, retries=1) as client:
        with pytest.raises(ConnectionError, match="no answer"):
            client.export("loop", file)
        assert file.read_bytes() == b"of yesterday"
        assert client.export("loop", file) == file
    assert file.read_bytes() == b"123456789"
    assert list(tmp_path.iterdir()) == [file]


def test_an_export_is_not_held_in_memory(kind: Any, tmp_path: Path) -> None:
    piece, pieces = b"x" * 2**20, 64

    def said() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        for _ in range(pieces):
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        yield b"0\r\n\r\n"

    with scripted(said()) as script, Twin(kind, script.url) as client:
        tracemalloc.start()
        try:
            file = client.export("loop", tmp_path / "log.parquet")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert file.stat().st_size == pieces * len(piece)
    assert peak < 8 * len(piece)


def test_a_full_disk_is_said_and_not_asked_again(kind: Any, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with scripted(answer(200, b"x" * 2**20)) as script, Twin(kind, script.url) as client:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, limits[1]))
        try:
            with pytest.raises(OSError, match=r"cannot write .*log\.parquet") as failed:
                client.export("loop", tmp_path / "log.parquet")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert failed.value.errno == errno.EFBIG and client.pauses == []
    assert list(tmp_path.iterdir()) == []


def test_an_export_replaces_what_a_link_leads_to_and_nothing_but_files(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.parquet"
    link.symlink_to(tmp_path / "real" / "log.parquet")
    with scripted(answer(200, b"new")) as script, Twin(kind, script.url) as client:
        assert client.export("loop", link) == link
        assert link.is_symlink() and (tmp_path / "real" / "log.parquet").read_bytes() == b"new"
        with pytest.raises(ValueError, match="path must be a file"):
            client.export("loop", tmp_path / "real")
        with pytest.raises(FileNotFoundError, match="there is no folder"):
            client.export("loop", tmp_path / "nowhere" / "log.parquet")
    assert len(script.heads) == 1
