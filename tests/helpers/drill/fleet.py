"""Servers on one database, each started again when it ends, as an init system does."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

from helpers.drill.loops import KINDS
from helpers.forks import ForkedServer, Parent, parent
from helpers.service_process import free_port

from linoto.client import Client, ServiceError
from linoto.service.storage.places import Address

SNAPSHOT_EVERY = 150  # events: many servers go on from the snapshots of others
LOOK = 0.05  # seconds between two looks at who has ended
COMPILING = 600.0  # seconds: once on a machine, however busy it is
GENERIC = (("NUMBA_CPU_NAME", "generic"),)  # kernels compiled for another processor


def answers(url: str) -> bool:
    """Whether a server answers for loops."""
    with Client(url, retries=0) as client:
        try:
            client.overview()
        except (ConnectionError, ServiceError):
            return False
    return True


def compile_all(forks: Parent, folder: Path) -> None:
    """Let a server serve every kind of loop once: who must compile what it takes over is silent for long."""
    port = free_port()
    path = folder / f"compiled-{port}.sqlite"
    server = ForkedServer(path, log=path.with_suffix(".log"), forked_by=forks, port=port)
    try:
        with Client(f"http://127.0.0.1:{port}", timeout=COMPILING, deadline=COMPILING) as client:
            for name, kind in KINDS.items():
                kind.create(client, name)
                made = client.decide(name, **kind.question(random.Random(0)))
                client.reward(name, made.decision_id, 1.0)
    finally:
        server.terminate()
        server.wait(60.0)


class Fleet:
    """Numbered servers, each at a port of its own."""

    def __init__(
        self, address: Address, folder: Path, *, size: int, generic: bool, without: tuple[str, ...]
    ) -> None:
        self.address, self.folder = address, folder
        self.ports = [free_port() for _ in range(size)]
        modules = tuple(f"helpers.drill.without_{safeguard}" for safeguard in without)
        self.parents: list[Parent] = [
            parent(GENERIC if generic and n == size - 1 else (), modules) for n in range(size)
        ]
        for forks in dict.fromkeys(self.parents):
            compile_all(forks, folder)
        self._lock, self._ended = threading.Lock(), threading.Event()
        self.servers = [self._start(0)]
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def start_others(self) -> None:
        """Beside the first one."""
        self.servers += [self._start(n) for n in range(1, len(self.ports))]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def log(self, n: int) -> Path:
        return self.folder / f"server-{n}.log"

    def _start(self, n: int) -> ForkedServer:
        options = {"port": self.ports[n], "snapshot_every": SNAPSHOT_EVERY, "drain": 2.0}
        return ForkedServer(self.address, log=self.log(n), forked_by=self.parents[n], **options)

    def _keep(self) -> None:
        while not self._ended.wait(LOOK):
            for n, server in enumerate(list(self.servers)):
                with self._lock:
                    if server.poll() is not None and not self._ended.is_set():
                        self.servers[n] = self._start(n)

    def wait(self, patience: float = COMPILING) -> str:
        """The address of one that answers: the first time, kernels may have to be compiled."""
        end = time.monotonic() + patience
        while True:
            for url in self.urls:
                if answers(url):
                    return url
            assert time.monotonic() < end, f"no server answers, see {self.folder}"
            time.sleep(LOOK)

    def signal(self, n: int, number: signal.Signals) -> None:
        """Tell a server something, if it is there."""
        with self._lock:
            if self.servers[n].poll() is None:
                os.kill(self.servers[n].pid, number)

    def stop(self) -> None:
        """Let every one end as it should."""
        self._ended.set()
        self._keeper.join()
        for n, server in enumerate(self.servers):
            self.signal(n, signal.SIGCONT)
            self.signal(n, signal.SIGTERM)
            server.wait(60.0)

    def kill(self) -> None:
        """End whatever is left."""
        self._ended.set()
        self._keeper.join()
        for n, server in enumerate(self.servers):
            self.signal(n, signal.SIGKILL)
            server.wait(60.0)
