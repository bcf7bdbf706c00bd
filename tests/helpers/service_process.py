"""A real server in a process of its own, and small loops for it to serve."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any

from helpers.forks import ForkedServer

import linoto
from linoto.client import Client
from linoto.client.exchange import Request
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical
from linoto.service.server import Service, open_service
from linoto.service.storage.connection import Connection
from linoto.service.storage.places import Place

TOLERANT = linoto.Gated(
    explorer=linoto.LinUCB(),  # draws nothing, so that an agent alone decides as a loop does
    gate=linoto.Tolerance(epsilon=0.1),
    confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0)),
)


HELD: deque[int] = deque()  # the descriptors of sockets


def free_port() -> int:
    """A port that nobody else is given for as long as a test lasts, also while its server is restarted.

    One that was merely free a moment ago is given to one of 14,000 who ask for any, and the servers of other
    tests do all the time. A socket that is bound and does not listen keeps it; a server can still have it.
    """
    if len(HELD) == 50:  # more than a test asks for
        os.close(HELD.popleft())
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        HELD.append(bound.detach())
    return port


class Server:
    """A server process in a group of its own, so that it can be killed whole."""

    def __init__(
        self,
        path: Place,
        *,
        snapshot_every: int = 10_000,
        log: Path | None = None,
        port: int | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.port = port or free_port()
        options = {"port": self.port, "snapshot_every": snapshot_every, **(settings or {})}
        beside = path.with_suffix(".log") if isinstance(path, Path) else Path(os.devnull)
        self.process = ForkedServer(path, log=log or beside, **options)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> Client:
        return Client(self.url, **{"deadline": 240.0, **options})  # a machine may have to compile first

    def wait(self) -> None:
        """Until it answers, as long as it lives."""
        client = self.client(retries=10**6, sleep=self.sleep_while_it_lives)
        client._send(Request("GET", "/readyz", lambda _: None, file=BytesIO()))  # its answer is not JSON
        client.close()

    def sleep_while_it_lives(self, _: float) -> None:
        assert self.process.poll() is None, "the server has ended"
        time.sleep(0.02)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait()


@contextmanager
def served(path: Place, **options: Any) -> Iterator[Server]:
    server = Server(path, **options)
    try:
        server.wait()
        yield server
    finally:
        server.kill()


def spec_of(policy: Any = TOLERANT, **changes: Any) -> LoopSpec:
    """Three arms, of which two were logged."""
    fields: dict[str, Any] = {
        "arms": [Arm(name=name) for name in ("a", "b", "c")],
        "policy": linoto.to_dict(policy),
        "default_reward": 0.0,
        "offline": LogStatistics(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0]),
        "window": 60.0,
        "seed": 0,  # what is drawn is fixed; without one it comes from the secret of a database
    }
    return canonical(LoopSpec(**{**fields, **changes}))


class FakeClock:
    """A clock that stands still until told otherwise."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@contextmanager
def opened(path: Place, **options: Any) -> Iterator[Service]:
    """A service without its door; a decision closes all that is due, however slow the machine is."""
    service = open_service(path, **{"closing": inf, **options})
    try:
        yield service
    finally:
        service.close()


def create(service: Service, name: str = "loop", **changes: Any) -> None:
    spec = spec_of(**changes)
    service.store.write_sync(lambda connection: service.loops.create(connection, Loop.fresh(name, spec)))


def close_due(service: Service) -> int:
    """What the ticker does: close whatever is due, in every loop."""
    loops = service.loops

    def job(connection: Connection) -> int:
        return sum(loops.close_due(connection, loop) for loop in loops.by_name.values())

    return service.store.write_sync(job)
