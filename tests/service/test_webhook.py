"""Alarms reach another program: signed, repeated until taken, lost by no crash, and nobody waits for it."""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from helpers.alarm_receiver import SECRET, Receiver, alarm, receiving, with_webhook
from helpers.service_process import served

from linoto.service.storage import outbox
from linoto.service.storage.database import open_database
from linoto.service.storage.store import Job, Store
from linoto.service.webhook import Webhook


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def test_an_alarm_is_posted_with_a_signature_that_the_receiver_can_check(
    receiver: Receiver, tmp_path: Path
) -> None:
    with served(tmp_path / "x.sqlite", settings=with_webhook(receiver.url)) as server:
        alarm(server)
        receiver.wait_for(1)
    signature, body = receiver.got[0]
    assert signature == "sha256=" + hmac.new(SECRET.encode(), body, "sha256").hexdigest()
    told = json.loads(body)
    assert (told["loop"], told["mode"]) == ("loop", "safe-only") and told["kind"] in ("promise", "drift")
    assert told["id"].startswith("1-") and told["id"].endswith(told["kind"])


def test_an_alarm_that_is_not_taken_holds_up_no_other_and_comes_again_with_the_same_message(
    receiver: Receiver, tmp_path: Path
) -> None:
    """The first is answered 500, 429 and 302, and then 500 until another one was taken."""
    receiver.statuses["loop"] = [500, 429, 302] + [500] * 1000
    with served(tmp_path / "x.sqlite", settings=with_webhook(receiver.url)) as server:
        alarm(server)
        receiver.wait_for(1)
        alarm(server, "other")
        receiver.wait_for(1, "other")
        receiver.wait_for(3)
        receiver.statuses.clear()
        receiver.wait_for(len(receiver.got))
    assert len({body for _, body in receiver.got if b'"other"' not in body}) == 1


def test_a_refusal_leaves_no_connection_open(receiver: Receiver) -> None:
    receiver.statuses["loop"] = [500]
    webhook = Webhook(receiver.url, SECRET)
    error = asyncio.run(webhook._attempt(b'{"loop": "loop"}'))
    assert isinstance(error, HTTPError) and error.code == 500 and error.closed


def test_an_alarm_that_is_refused_is_not_tried_again_before_the_next_start(
    receiver: Receiver, tmp_path: Path
) -> None:
    """Then it is, as long as nobody has answered it."""
    path = tmp_path / "x.sqlite"
    receiver.statuses["loop"] = [404]
    with served(path, settings=with_webhook(receiver.url)) as server:
        alarm(server)
        receiver.wait_for(1)
        alarm(server, "other")
        receiver.wait_for(1, "other")
        assert server.stop() == 0
    assert receiver.loops == ["loop", "other"] and "an alarm was not delivered" in log_of(path)
    with served(path, settings=with_webhook(receiver.url)):
        receiver.wait_for(2)


def wait_until_known(path: Path) -> None:
    """Until what was taken is written down."""
    deadline = time.monotonic() + 60
    with open_database(path, readonly=True) as connection:
        while outbox.waiting(connection) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not outbox.waiting(connection)


def log_of(path: Path) -> str:
    return path.with_suffix(".log").read_text()


def test_no_alarm_is_lost_by_a_crash_and_none_that_was_taken_comes_again(
    receiver: Receiver, tmp_path: Path
) -> None:
    """The alarm was answered on the page, but the receiver does not know of it when the server is killed."""
    path = tmp_path / "x.sqlite"
    receiver.statuses["loop"] = [500] * 1000
    with served(path, settings=with_webhook(receiver.url)) as server:
        alarm(server)
        receiver.wait_for(1)
        with closing(server.client(retries=0)) as client:
            client.change("loop", answer_alarms=True)
        server.kill()
    receiver.statuses.clear()
    receiver.got.clear()
    with served(path, settings=with_webhook(receiver.url)) as server:
        alarm(server, "other")
        receiver.wait_for(1, "other")
        wait_until_known(path)
        server.kill()
    with served(path, settings=with_webhook(receiver.url)) as server:
        alarm(server, "third")
        receiver.wait_for(1, "third")
    assert receiver.loops == ["loop", "other", "third"]


def test_alarms_of_a_time_without_a_webhook_are_posted_if_nobody_has_answered_them(
    receiver: Receiver, tmp_path: Path
) -> None:
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        alarm(server)
        alarm(server, "answered")
        with closing(server.client(retries=0)) as client:
            client.change("answered", answer_alarms=True)
    with served(path, settings=with_webhook(receiver.url)) as server:
        receiver.wait_for(1)
        alarm(server, "other")
        receiver.wait_for(1, "other")
    assert receiver.loops == ["loop", "other"]


@pytest.mark.parametrize("url", ["ftp://host/x", "file:///etc/passwd", "nonsense", "http://"])
def test_only_web_addresses_are_posted_to(url: str) -> None:
    with pytest.raises(ValueError, match="webhook must be an http or https address"):
        Webhook(url, SECRET)


def test_without_a_secret_nothing_is_posted() -> None:
    with pytest.raises(ValueError, match="LINOTO_WEBHOOK_SECRET"):
        Webhook("http://127.0.0.1:1/", "")


def test_a_silent_receiver_delays_neither_requests_nor_the_end(tmp_path: Path) -> None:
    """The receiver takes connections and never answers."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with served(tmp_path / "x.sqlite", settings=with_webhook(url)) as server:
            alarm(server)
            caller, _ = silent.accept()
            with caller:
                caller.settimeout(60)
                assert caller.recv(4) == b"POST"
                alarm(server, "other")
                assert server.stop() == 0


class SharedFile(Store):
    """A database whose alarms may come from elsewhere, and how often it was looked at."""

    looks = 0
    shared = True

    def read_database(self, job: Job[Any]) -> Any:
        self.looks += 1
        return super().read_database(job)


def test_a_shared_outbox_is_looked_at_once_a_second_however_many_alarms_there_were(tmp_path: Path) -> None:
    async def looks_afterwards(store: SharedFile) -> int:
        webhook = Webhook("http://127.0.0.1:1", SECRET)
        running = asyncio.create_task(webhook.run(store))
        for number in range(30):
            while store.looks <= number:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.01)
            webhook.wake()
        before = store.looks
        await asyncio.sleep(2.2)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        return store.looks - before

    with closing(SharedFile(tmp_path / "x.sqlite")) as store:
        assert 1 <= asyncio.run(looks_afterwards(store)) <= 3  # also the last alarm of the thirty


class LateAnswers(SharedFile):
    """Its second answer comes when all alarms in it have been taken."""

    webhook: Webhook

    def read_database(self, job: Job[Any]) -> Any:
        found = super().read_database(job)
        while self.looks == 2 and self.webhook.waiting:
            time.sleep(0.001)
        return found


def test_an_alarm_that_is_taken_while_the_outbox_is_read_is_posted_once(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.statuses["loop"] = [500]  # so that it still waits when the outbox is read again

    async def post(store: LateAnswers) -> None:
        await store.write(lambda connection: outbox.put(connection, "1", time.time(), b'{"loop": "loop"}'))
        running = asyncio.create_task(store.webhook.run(store))
        while store.looks < 4:
            await asyncio.sleep(0.01)
            if len(receiver.got) == 1:
                store.webhook.wake()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    with closing(LateAnswers(tmp_path / "x.sqlite")) as store:
        store.webhook = Webhook(receiver.url, SECRET)
        asyncio.run(post(store))
    assert len(receiver.got) == 2  # one refused, one taken
