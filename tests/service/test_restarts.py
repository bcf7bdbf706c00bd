"""Restarts that nobody notices, a socket that is handed over, and secure connections."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.http import ask
from helpers.service_process import Server, free_port, served

from linoto.client import Client
from linoto.service.server import run
from linoto.service.sockets import bind, inherited
from linoto.service.tls import Tls

TLS = Path(__file__).parents[1] / "data" / "tls"
LOOP = {"arms": [{"name": "a"}, {"name": "b"}], "policy": {"type": "LinUCB"}, "default_reward": 0}


def visit(
    url: str, name: str, stop: threading.Event, rate: float, done: list[str], failed: list[str]
) -> None:
    """Decide and reward at this rate, with a client as it comes, until told to stop."""
    with Client(url) as client:
        n = 0
        while not stop.wait(1.0 / rate):
            key, n = f"{name}-{n}", n + 1
            try:
                made = client.decide("loop", key=key)
                client.reward("loop", made.decision_id, 1.0)
                done.append(key)
            except Exception as error:
                failed.append(f"{key}: {error!r}")


@contextmanager
def visited(url: str, *, threads: int, rate: float) -> Iterator[tuple[list[str], list[str]]]:
    """(keys that were answered, what failed), while visits come from so many threads."""
    stop, done, failed = threading.Event(), list[str](), list[str]()
    visitors = [
        threading.Thread(target=visit, args=(url, f"v{n}", stop, rate / threads, done, failed))
        for n in range(threads)
    ]
    for visitor in visitors:
        visitor.start()
    try:
        yield done, failed
    finally:
        stop.set()
        for visitor in visitors:
            visitor.join()


def wait_for_more(done: list[str], count: int) -> None:
    before, deadline = len(done), time.monotonic() + 120
    while len(done) < before + count:
        assert time.monotonic() < deadline, "no visit was answered"
        time.sleep(0.02)


def check_books(server: Server, done: list[str]) -> None:
    """Nothing is lost, and nothing is there twice."""
    assert len(set(done)) == len(done)
    told = ask(server, "GET", "/v1/loops/loop")[1]
    assert (told["decisions"], told["rewards"], told["pending"]) == (len(done), len(done), 0)


def test_the_port_of_a_test_is_given_to_its_servers_and_to_nobody_else() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):
        with bind("127.0.0.1", port) as bound:
            bound.listen()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_no_request_fails_while_the_service_is_restarted(tmp_path: Path, end: str) -> None:
    path, port = tmp_path / "x.sqlite", free_port()
    server = Server(path, port=port)
    try:
        server.wait()
        assert ask(server, "PUT", "/v1/loops/loop", LOOP)[0] == 200
        with visited(server.url, threads=3, rate=40.0) as (done, failed):
            for _ in range(2):
                wait_for_more(done, 5)
                server.kill() if end == "kill" else server.stop()
                time.sleep(0.3)
                server = Server(path, port=port)
            wait_for_more(done, 5)
        assert failed == []
        check_books(server, done)
    finally:
        server.kill()


def command(path: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "linoto.cli", "serve", "--db", str(path), "--port", str(port)]
    with log.open("ab") as errors:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)


@pytest.mark.slow
def test_no_request_of_a_hundred_a_second_fails_in_ten_restarts(tmp_path: Path) -> None:
    """The whole command, with all that it has to load."""
    path, port, log = tmp_path / "x.sqlite", free_port(), tmp_path / "log"
    process = command(path, port, log)
    try:
        with Client(f"http://127.0.0.1:{port}", deadline=240.0) as client:
            client.create("loop", arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
        with visited(f"http://127.0.0.1:{port}", threads=10, rate=100.0) as (done, failed):
            for _ in range(10):
                wait_for_more(done, 20)
                process.terminate()
                assert process.wait(timeout=120) == 0
                process = command(path, port, log)
            wait_for_more(done, 20)
        assert failed == []
        process.terminate()
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
    with served(path) as server:
        check_books(server, done)


def test_a_service_that_is_told_to_read_its_files_again_while_it_starts_goes_on(tmp_path: Path) -> None:
    """As by `systemctl reload` just after a restart: the port is there before what reads files is."""
    port, log = free_port(), tmp_path / "log"
    process = command(tmp_path / "x.sqlite", port, log)
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline and process.poll() is None, log.read_text()
                time.sleep(0.005)
        process.send_signal(signal.SIGHUP)
        with Client(f"http://127.0.0.1:{port}", deadline=120.0) as client:
            assert client.overview() == []
        process.terminate()
        assert process.wait(timeout=120) == 0
    finally:
        process.kill()
        process.wait()


HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.mark.few(0)
def test_a_socket_that_is_handed_over_holds_requests_while_there_is_no_service(tmp_path: Path) -> None:
    """As systemd does: a client that asks once is answered by the next process."""
    words = [sys.executable, "-m", "linoto.cli", "serve", "--db", str(tmp_path / "x.sqlite"), "--port", "1"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answers: list[bytes] = []

        def ask_once() -> None:
            with socket.create_connection(listening.getsockname(), timeout=200.0) as raw:
                raw.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
                answers.append(raw.recv(15))

        for _ in range(2):
            asking = threading.Thread(target=ask_once)
            asking.start()
            shell = [sys.executable, "-c", HAND_OVER, str(listening.fileno()), *words]
            with (tmp_path / "log").open("ab") as log:
                process = subprocess.Popen(shell, pass_fds=[listening.fileno()], stdout=log, stderr=log)
            try:
                deadline = time.monotonic() + 200
                while asking.is_alive() and process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                process.terminate()
                assert process.wait(timeout=120) == 0, (tmp_path / "log").read_text()
            finally:
                process.kill()
            asking.join()
        assert answers == [b"HTTP/1.1 200 OK"] * 2


def test_only_one_socket_of_tcp_that_is_meant_for_this_process_is_taken() -> None:
    assert inherited({}) is None and inherited({"LISTEN_PID": "1", "LISTEN_FDS": "1"}) is None
    with pytest.raises(ValueError, match="LISTEN_FDS must be 1 socket, got '2'"):
        inherited({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})


# -- TLS


def certificate_of(port: int, known: Path) -> str:
    """The certificate that a caller who trusts this one alone is shown, after a request was answered."""
    context = ssl.create_default_context(cafile=str(known))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 200 ")
        return ssl.DER_cert_to_PEM_cert(secure.getpeercert(binary_form=True) or b"")


def test_both_clients_of_a_secure_service_are_answered_and_another_certificate_is_read_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for end in ("crt", "key"):
        shutil.copy(TLS / f"first.{end}", tmp_path / f"own.{end}")
    pair = {"tls_cert": str(tmp_path / "own.crt"), "tls_key": str(tmp_path / "own.key")}
    server = Server(tmp_path / "x.sqlite", settings=pair)
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "first.crt"))
        with Client(f"https://127.0.0.1:{server.port}") as client:
            client.create("loop", arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
            client.reward("loop", client.decide("loop").decision_id, 1.0)
            assert certificate_of(server.port, TLS / "first.crt") == (TLS / "first.crt").read_text()
            shutil.copy(TLS / "second.crt", tmp_path / "own.crt")  # without its key: nothing changes
            server.process.send_signal(signal.SIGHUP)
            wait_for_line(tmp_path / "x.log", "certificate not read")
            assert certificate_of(server.port, TLS / "first.crt")
            shutil.copy(TLS / "second.key", tmp_path / "own.key")
            server.process.send_signal(signal.SIGHUP)
            wait_for_line(tmp_path / "x.log", "certificate read again")
            assert certificate_of(server.port, TLS / "second.crt") == (TLS / "second.crt").read_text()
            assert client.decide("loop").arm in ("a", "b")  # on the connection that it has
        assert server.stop() == 0
    finally:
        server.kill()


def wait_until_secure(server: Server) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            assert certificate_of(server.port, TLS / "first.crt")
            return
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def wait_for_line(log: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while text not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert text in log.read_text()


def test_who_speaks_no_tls_or_is_silent_in_the_handshake_keeps_nobody_out(tmp_path: Path) -> None:
    pair = {"tls_cert": str(TLS / "first.crt"), "tls_key": str(TLS / "first.key")}
    server = Server(tmp_path / "x.sqlite", settings=pair)
    try:
        wait_until_secure(server)
        plain = Client(f"http://127.0.0.1:{server.port}", retries=1, timeout=60.0)
        with plain, pytest.raises(ConnectionError):
            plain.overview()
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
        wait_until_secure(server)
        for each in held:
            each.close()
        assert server.stop() == 0
    finally:
        server.kill()


def test_a_key_without_its_certificate_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tls_cert and tls_key must be given together"):
        run(tmp_path / "x.sqlite", tls_key=TLS / "first.key")
    with pytest.raises(ValueError, match="must be a pair in PEM"):
        Tls(TLS / "first.crt", TLS / "second.key")
