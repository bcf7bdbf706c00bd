"""Alarms reach another program: signed, repeated until taken, and nobody waits for it."""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from helpers.loop_in_memory import fresh
from helpers.loops import change, decide, reward
from helpers.service_process import create, opened

from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.state import Alarm
from linoto.service.server import post_alarms
from linoto.service.webhook import SECRET as VARIABLE
from linoto.service.webhook import SIGNATURE, Webhook

SECRET = "a secret"
ALARM = Alarm(kind="drift", at=5.0, seq=7, message="it changed")


class Receiver(HTTPServer):
    """A real receiver on this machine; answers with the given statuses, then 200."""

    def __init__(self, statuses: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses, self.got = statuses, []  # type: ignore[var-annotated]
        self.url = f"http://127.0.0.1:{self.server_port}/alarms"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while len(self.got) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(self.got) >= count


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.headers[SIGNATURE], body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver([])
    yield server
    server.shutdown()
    server.server_close()


def test_an_alarm_is_posted_with_a_signature_that_the_receiver_can_check(receiver: Receiver) -> None:
    hook = Webhook(receiver.url, SECRET)
    hook.send(fresh(), ALARM)
    receiver.wait_for(1)
    hook.close()
    signature, body = receiver.got[0]
    assert signature == "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    told = json.loads(body)
    assert (told["loop"], told["kind"], told["message"], told["id"]) == (
        "loop",
        "drift",
        "it changed",
        "0-7-drift",
    )


def test_a_receiver_that_fails_is_tried_again_with_the_same_message(receiver: Receiver) -> None:
    receiver.statuses[:] = [500, 404, 503]
    pauses: list[float] = []
    hook = Webhook(receiver.url, SECRET, wait=lambda seconds: pauses.append(seconds) is not None)
    hook.send(fresh(), ALARM)
    receiver.wait_for(4)
    hook.close()
    assert len({body for _, body in receiver.got}) == 1 and pauses == [1.0, 2.0, 4.0]


def test_after_the_last_attempt_it_goes_on_with_the_next_alarm(receiver: Receiver) -> None:
    receiver.statuses[:] = [500, 500]
    hook = Webhook(receiver.url, SECRET, wait=lambda _: False, attempts=2)
    for seq in (1, 2):
        hook.send(fresh(), Alarm(kind="drift", at=5.0, seq=seq, message="it changed"))
    receiver.wait_for(3)
    hook.close()
    assert [json.loads(body)["id"] for _, body in receiver.got] == ["0-1-drift", "0-1-drift", "0-2-drift"]


def test_alarms_that_nobody_has_answered_are_posted_again_at_the_next_start(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    with opened(tmp_path / "x.sqlite") as service:
        create(service, offline=LogStatistics(pulls=[3000, 2000, 0], reward_sums=[2700.0, 1800.0, 0.0]))
        while not service.loops.get("loop").state.alarms:
            reward(service, decide(service).decision_id, 0.0)
    for answered in (False, True):
        with opened(tmp_path / "x.sqlite") as service:
            hook = post_alarms(service.loops, receiver.url)
            receiver.wait_for(1)
            assert len(receiver.got) == 1 and answered == (service.loops.get("loop").open_alarms == [])
            hook.close()
            change(service, mode="safe-only")


@pytest.mark.parametrize("url", ["ftp://host/x", "file:///etc/passwd", "nonsense", "http://"])
def test_only_web_addresses_are_posted_to(url: str) -> None:
    with pytest.raises(ValueError, match="webhook must be an http or https address"):
        Webhook(url, SECRET)


def test_without_a_secret_nothing_is_posted() -> None:
    with pytest.raises(ValueError, match="LINOTO_WEBHOOK_SECRET"):
        Webhook("http://127.0.0.1:1/", "")


def test_alarms_are_sent_once_they_are_on_disk_and_a_silent_receiver_delays_nothing(tmp_path: Path) -> None:
    """The receiver takes connections and never answers: 60 decisions and rewards do not wait for it."""
    import socket

    with socket.socket() as silent, opened(tmp_path / "x.sqlite") as service:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hook = Webhook(f"http://127.0.0.1:{silent.getsockname()[1]}/", SECRET, timeout=200.0)
        service.loops.on_alarm = hook.send
        create(service, offline=LogStatistics(pulls=[3000, 2000, 0], reward_sums=[2700.0, 1800.0, 0.0]))
        began = time.monotonic()
        for _ in range(60):
            reward(service, decide(service).decision_id, 0.0)
        assert service.loops.get("loop").state.alarms and time.monotonic() - began < 100
        silent.settimeout(60)
        caller, _ = silent.accept()
        with caller:
            caller.settimeout(60)
            assert caller.recv(4) == b"POST"
        hook._stopping.set()
