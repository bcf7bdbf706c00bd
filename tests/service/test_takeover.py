"""Servers on one database: whatever becomes of one, the others take over what it had."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.forks import run_forked
from helpers.postgres import Cluster, name_of
from helpers.service_process import Server

from linoto.client import ServiceError
from linoto.service.maintenance import check
from linoto.service.storage.places import Address
from linoto.service.storage.postgres_servers import LEASE, LOOK

PATIENCE = 120.0  # seconds after which a test gives up; how long a takeover takes is measured elsewhere


@pytest.fixture
def address(postgres: Cluster) -> Iterator[Address]:
    found = postgres.database()
    yield found
    postgres.drop(found)


def ask(server: Server, path: str) -> tuple[int, dict[str, Any]]:
    """What a server says to one request; 0 where it is not there."""
    try:
        with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        return answer.status, json.loads(body) if body.startswith(b"{") else {}
    except (OSError, http.client.HTTPException):
        return 0, {}


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def owner_of(servers: Sequence[Server], loop: str = "loop") -> Server | None:
    """Which server has a loop, as the first one that is asked says."""
    with closing(http.client.HTTPConnection("127.0.0.1", servers[0].port, timeout=10)) as connection:
        connection.request("GET", f"/v1/loops/{loop}")
        answer = connection.getresponse()
        answer.read()
    urls = {server.url: server for server in servers}
    return urls.get(answer.headers.get("x-linoto-server", ""))


@contextmanager
def two_servers(address: Address, folder: Path) -> Iterator[tuple[Server, Server]]:
    """The server with a loop in which five decisions were made, and another one."""
    first = Server(address, log=folder / "first.log")
    servers = [first]
    try:
        first.wait()
        with closing(first.client()) as client:
            client.create("loop", arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
            for number in range(5):
                made = client.decide("loop", key=str(number))
                client.reward("loop", made.decision_id, 1.0)
        second = Server(address, log=folder / "second.log")
        servers.append(second)
        second.wait()
        owner = owner_of(servers)
        assert owner is not None
        yield owner, first if owner is second else second
    finally:
        for server in servers:
            if server.process.poll() is None:
                os.kill(server.process.pid, signal.SIGCONT)
            server.kill()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_another_server_takes_over_when_the_owner_of_a_loop_ends(
    address: Address, tmp_path: Path, end: str
) -> None:
    with two_servers(address, tmp_path) as (owner, other), closing(other.client()) as client:
        last = client.decide("loop", key="last")  # passed on
        assert last.decision_id == "1-6"
        owner.kill() if end == "kill" else owner.stop()
        assert client.decide("loop", key="last") == last
        assert client.decide("loop", key="next").decision_id == "1-7"
        assert client.loop("loop")["decisions"] == 7 and owner_of([other]) is other
        other.stop()
    assert list(check(address))[1] == "loop: 12 events, snapshot, replay and tables agree"


def test_an_owner_that_stood_still_is_replaced_and_answers_nothing_afterwards(
    address: Address, tmp_path: Path
) -> None:
    """What it had in memory is old when it goes on: neither numbers nor repeated keys come from there."""
    with two_servers(address, tmp_path) as (owner, other), closing(other.client()) as client:
        os.kill(owner.process.pid, signal.SIGSTOP)
        assert client.decide("loop", key="next").decision_id == "1-6"
        os.kill(owner.process.pid, signal.SIGCONT)
        answers = []

        def has_ended() -> bool:
            answers.append(ask(owner, "/v1/loops/loop")[0])
            return owner.process.poll() is not None

        until(has_ended)
        assert set(answers) <= {0, 503}
        assert owner.process.wait() == 1
        logs = [(tmp_path / name).read_text() for name in ("first.log", "second.log")]
        assert any("another server has taken over" in log for log in logs)
        assert client.loop("loop")["decisions"] == 6


def test_a_server_that_refuses_an_older_copy_of_its_database_is_forgotten_by_nobody(
    address: Address, postgres: Cluster, tmp_path: Path
) -> None:
    """Whoever took its loops over would not know what is lost: so it stays, and answers 503."""
    lose = "DELETE FROM linoto.events WHERE seq = 11; DELETE FROM linoto.decisions WHERE seq = 11"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(address)}'"
    with two_servers(address, tmp_path) as (owner, other), closing(owner.client(retries=0)) as client:
        assert client.decide("loop").decision_id == "1-6"
        assert postgres.psql(name_of(address), lose).returncode == 0
        assert postgres.psql("postgres", cut).returncode == 0
        end = time.monotonic() + 20 * LOOK  # all look at all others so often meanwhile
        while time.monotonic() < end:
            with pytest.raises(ServiceError) as refused:
                client.decide("loop")
            assert refused.value.status == 503
        assert owner.process.poll() is None and other.process.poll() is None
    assert postgres.psql(name_of(address), "SELECT count(*) FROM linoto.decisions").stdout == "5\n"


def is_standing_by(server: Server) -> bool:
    assert server.process.poll() is None, "the server has ended"
    return ask(server, "/readyz")[1].get("error", {}).get("code") == "standby"


def test_a_server_that_starts_before_postgresql_waits_for_it(
    address: Address, postgres: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    postgres.stop()
    try:
        servers = [Server(address, log=log), Server(address, log=tmp_path / "other.log")]
        for server in servers:
            until(lambda server=server: is_standing_by(server))  # type: ignore[misc]
        assert servers[1].stop() == 0
    finally:
        postgres.start()
    try:
        until(lambda: ask(servers[0], "/readyz")[0] == 200)
        assert log.read_text().count("standing by") == 1 and "Traceback" not in log.read_text()
    finally:
        servers[0].kill()


def test_a_server_whose_sessions_are_ended_while_it_takes_over_tries_again(
    address: Address, postgres: Cluster, tmp_path: Path
) -> None:
    ours = f"datname = '{name_of(address)}'"
    end = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {ours}"
    with two_servers(address, tmp_path) as (owner, other):
        owner.kill()
        for _ in range(40):
            postgres.psql("postgres", end)
            time.sleep(0.03)
        until(lambda: ask(other, "/readyz")[0] == 200)
        with closing(other.client()) as client:
            assert client.decide("loop", key="next").decision_id == "1-6"
        for name in ("first.log", "second.log"):
            assert "Traceback" not in (tmp_path / name).read_text()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("postgresql://linoto@/nowhere?host={}", 'database "nowhere" does not exist'),
        ("postgresql://nobody@/postgres?host={}", 'role "nobody" does not exist'),
        ("postgresql://linoto@host.invalid/postgres", "host.invalid"),
    ],
)
def test_an_address_that_names_nothing_ends_a_server_at_once(
    postgres: Cluster, tmp_path: Path, wrong: str, said: str
) -> None:
    words = ["serve", "--port", "0", "--db", wrong.format(postgres.folder)]
    code, printed = run_forked(words, tmp_path)
    assert code != 0 and said in printed and "Traceback" not in printed and "standing by" not in printed


def seconds_until_answered(other: Server, since: float, key: str) -> float:
    """How long a caller of another server got no answer, counted from when the owner was struck."""
    with closing(other.client(retries=10**6, sleep=lambda _: time.sleep(0.01))) as client:
        client.decide("loop", key=key)
    return time.monotonic() - since


def strike(owner: Server, how: signal.Signals) -> float:
    at = time.monotonic()
    os.kill(owner.process.pid, how)
    return at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "most"), [(signal.SIGKILL, 2.0), (signal.SIGTERM, 1.0), (signal.SIGSTOP, LEASE + 2.0)]
)
def test_a_loop_is_answered_for_again_within_seconds(
    postgres: Cluster, tmp_path: Path, how: signal.Signals, most: float
) -> None:
    """The median of five: one in five may be late on a machine that has other work to do."""
    took = []
    for turn in range(5):
        address, folder = postgres.database(), tmp_path / str(turn)
        folder.mkdir()
        try:
            with two_servers(address, folder) as (owner, other):
                took.append(seconds_until_answered(other, strike(owner, how), "next"))
        finally:
            postgres.drop(address)
    assert sorted(took)[2] <= most, took


@pytest.mark.slow
def test_a_database_with_several_addresses_is_where_one_of_them_is(
    postgres: Cluster, address: Address, tmp_path: Path
) -> None:
    """The first one is gone: it is passed over at the start, and when sessions were cut."""
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    both = Address(f"postgresql://linoto@/{name_of(address)}?host={nowhere},{postgres.folder}&port=5432,5432")
    server = Server(both, log=tmp_path / "log")
    try:
        server.wait()
        with closing(server.client()) as client:
            client.create("loop", arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
            assert client.decide("loop", key="1").decision_id == "1-1"
            postgres.psql(
                "postgres",
                f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                f"WHERE datname = '{name_of(address)}'",
            )
            assert client.decide("loop", key="2").decision_id == "1-2"
    finally:
        server.kill()
    assert list(check(address))[1].endswith("replay and tables agree")
