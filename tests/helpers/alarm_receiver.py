"""A program that takes alarms, and loops that raise them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from helpers.service_process import TOLERANT, Server

import linoto
from linoto.service.webhook import SIGNATURE

SECRET = "a secret"
LOG = linoto.Offline(pulls=[3000, 2000, 0], reward_sums=[2700.0, 1800.0, 0.0])


class Receiver(ThreadingHTTPServer):
    """A real receiver on this machine; answers an alarm of a loop with its statuses in turn, then 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses: dict[str, list[int]] = {}
        self.got: list[tuple[str, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/alarms"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def loops(self) -> list[str]:
        """The loops of the alarms that came, one for each time."""
        return [json.loads(body)["loop"] for _, body in list(self.got)]

    def wait_for(self, count: int, loop: str = "loop") -> None:
        deadline = time.monotonic() + 60
        while self.loops.count(loop) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.loops.count(loop) >= count


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.got.append((self.headers[SIGNATURE], body))
        left = self.server.statuses.get(json.loads(body)["loop"])
        self.send_response(left.pop(0) if left else 200)
        self.send_header("location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    server = Receiver()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def with_webhook(url: str) -> dict[str, Any]:
    return {"webhook": url, "webhook_secret": SECRET}


def alarm(server: Server, loop: str = "loop") -> None:
    """Let a loop earn nothing until it raises an alarm."""
    with closing(server.client(retries=0)) as client:
        client.create(loop, arms=["a", "b", "c"], policy=TOLERANT, default_reward=0.0, offline=LOG)
        while not client.loop(loop)["alarms"]:
            client.reward(loop, client.decide(loop).decision_id, 0.0)
