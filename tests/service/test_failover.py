"""PostgreSQL with a standby by streaming replication: the first server is gone, and the other one writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path

import pytest
from helpers.postgres import Cluster, Standby, cluster, name_of, standby_of
from helpers.service_process import Server

from linoto.client import Client, ServiceError
from linoto.client.responses import ServedDecision
from linoto.service.maintenance import check
from linoto.service.storage.places import Address

PATIENCE = 120.0  # seconds after which a test gives up
POLICY = {"type": "LinUCB"}


class Visitor(threading.Thread):
    """Decides and rewards until it is told to stop, and keeps what was acknowledged."""

    def __init__(self, label: str, urls: list[str], stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.label, self.urls, self.stop = label, urls, stop
        self.made: dict[str, ServedDecision] = {}
        self.rewarded: set[str] = set()
        self.error: BaseException | None = None

    def run(self) -> None:
        with closing(Client(self.urls, timeout=10.0, deadline=PATIENCE)) as client:
            try:
                for number in count():
                    if self.stop.is_set():
                        return
                    key = f"{self.label}-{number}"
                    self.made[key] = made = client.decide("loop", key=key)
                    client.reward("loop", made.decision_id, 1.0)
                    self.rewarded.add(made.decision_id)
            except BaseException as error:
                self.error = error


@contextmanager
def visited(urls: list[str]) -> Iterator[list[Visitor]]:
    stop = threading.Event()
    visitors = [Visitor(f"v{n}", urls, stop) for n in range(4)]
    for visitor in visitors:
        visitor.start()
    try:
        yield visitors
    finally:
        stop.set()
        for visitor in visitors:
            visitor.join()


@contextmanager
def replicated(*, synchronous: bool) -> Iterator[tuple[Cluster, Standby, Address]]:
    with cluster() as primary, standby_of(primary, synchronous=synchronous) as standby:
        yield primary, standby, standby.both(primary.database())


def until(done: Callable[[], bool], visitors: list[Visitor]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        for visitor in visitors:
            assert visitor.error is None, visitor.error
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_synchronous_standby_takes_over_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """Two servers and four visitors know both hosts; the first one is killed with all its processes."""
    with replicated(synchronous=True) as (primary, standby, address), ExitStack() as started:
        servers = [Server(address, log=tmp_path / f"{n}.log") for n in range(2)]
        for server in servers:
            started.callback(server.kill)
            server.wait()
        with closing(servers[0].client()) as client:
            client.create("loop", arms=["a", "b"], policy=POLICY, default_reward=0.0)
        with visited([server.url for server in servers]) as visitors:

            def acknowledged() -> int:
                return sum(len(visitor.rewarded) for visitor in visitors)

            until(lambda: acknowledged() >= 40, visitors)
            primary.kill()
            time.sleep(1.0)  # nobody can write meanwhile
            before = acknowledged()
            standby.promote()
            until(lambda: acknowledged() >= before + 40, visitors)
        for visitor in visitors:
            assert visitor.error is None, visitor.error
        for server in servers:
            assert server.stop() == 0
        made = {key: each for visitor in visitors for key, each in visitor.made.items()}
        rows = standby.psql(name_of(address), "SELECT key, number FROM linoto.decisions").stdout.split()
        found = dict(row.split("|") for row in rows)
        assert len(rows) == len(found) == len(made)
        assert {key: f"1-{number}" for key, number in found.items()} == {
            key: each.decision_id for key, each in made.items()
        }
        rewards = standby.psql(name_of(address), "SELECT count(*) FROM linoto.rewards").stdout
        assert int(rewards) == acknowledged() == len(made)
        assert "snapshot, replay and tables agree" in list(check(address))[1]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_an_asynchronous_standby_never_got_is_not_written_over(tmp_path: Path) -> None:
    """Its decisions were acknowledged and are lost: a server that knows more events than that writes none."""
    with replicated(synchronous=False) as (primary, standby, address), ExitStack() as started:
        server = Server(address, log=tmp_path / "log")
        started.callback(server.kill)
        server.wait()
        with closing(server.client()) as client:
            client.create("loop", arms=["a", "b"], policy=POLICY, default_reward=0.0)
            until(lambda: standby.psql(name_of(address), "SELECT 1 FROM linoto.loops").stdout == "1\n", [])
            standby.stop_following()
            lost = client.decide("loop", key="lost")
        primary.kill()
        standby.promote()
        with closing(server.client(retries=0)) as client:
            refused = set[int]()
            for _ in range(5):
                with pytest.raises(ServiceError) as failed:
                    client.decide("loop", key="next")
                refused.add(failed.value.status)
                time.sleep(0.5)
            assert refused == {503} and lost.decision_id == "1-1"
        assert standby.psql(name_of(address), "SELECT count(*) FROM linoto.decisions").stdout == "0\n"
