"""Loops that several servers share: each has one, any server answers for all, and none is lost on its way."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from helpers.alarm_receiver import alarm, receiving, with_webhook
from helpers.postgres import Cluster
from helpers.service_process import Server, served

from linoto.client import AsyncClient, Client, ServiceError
from linoto.service.maintenance import check, rebuild
from linoto.service.storage.database import open_database
from linoto.service.storage.parts import PARTS, View, part_of
from linoto.service.storage.places import Address
from linoto.service.web.access import create_token

PATIENCE = 60.0  # seconds after which a test gives up
NAMES = [f"loop{number}" for number in range(12)]
TWO_ARMS = {"arms": ["a", "b"], "policy": {"type": "LinUCB"}, "default_reward": 0.0}


@contextmanager
def new_database(postgres: Cluster) -> Iterator[Address]:
    address = postgres.database()
    try:
        yield address
    finally:
        postgres.drop(address)


@contextmanager
def several(address: Address, count: int, folder: Path, **options: Any) -> Iterator[list[Server]]:
    servers = [Server(address, log=folder / f"{number}.log", **options) for number in range(count)]
    try:
        for server in servers:
            server.wait()
        yield servers
    finally:
        for server in servers:
            if server.process.poll() is None:
                os.kill(server.process.pid, signal.SIGCONT)
            server.kill()


def every(servers: list[Server], **options: float) -> Client:
    return Client([server.url for server in servers], **{"deadline": 240.0, **options})  # type: ignore[arg-type]


def parts_of_servers(address: Address) -> list[int]:
    """How many parts each server has; those that nobody has are counted too."""
    with open_database(address, readonly=True) as connection:
        rows = connection.execute("SELECT server FROM parts").fetchall()
    return sorted(Counter(rows).values())


def until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


# -- who should have what


@pytest.mark.parametrize("count", [1, 2, 3, 7, 128, 200])
def test_shares_are_equal_and_together_are_all(count: int) -> None:
    servers = dict.fromkeys(range(10, 10 + count), "http://a")
    shares = [View(me, servers, {}, frozenset()).share for me in servers]
    assert sum(shares) == PARTS and max(shares) - min(shares) <= 1


def test_what_nobody_living_has_is_free_and_nothing_else() -> None:
    owners = {part: (None, 1, 2, 9)[part % 4] for part in range(PARTS)}
    view = View(1, {1: "http://a", 2: "http://b"}, owners, frozenset({1, 2}))
    held = {part for part, owner in owners.items() if owner == 1}
    assert sorted(view.free(held)) == [part for part in range(PARTS) if part % 4 in (0, 3)]
    assert view.elsewhere(2) == "http://b" and view.elsewhere(1) is None and view.elsewhere(3) is None


def test_names_fall_into_all_parts() -> None:
    assert len({part_of(f"loop-{number}") for number in range(2000)}) == PARTS


# -- three servers


@pytest.fixture(scope="module")
def shared(
    postgres: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Address, list[Server]]]:
    """A database and three servers that started together, with loops that were made through them in turn."""
    folder = tmp_path_factory.mktemp("three")
    with new_database(postgres) as address, several(address, 3, folder) as servers:
        clients = [server.client() for server in servers]
        for number, name in enumerate(NAMES):
            clients[number % 3].create(name, description=f"number {number}", **TWO_ARMS)  # type: ignore[arg-type]
        until(lambda: parts_of_servers(address) == [42, 43, 43])
        for client in clients:
            client.close()
        yield address, servers


@pytest.fixture
def three(shared: tuple[Address, list[Server]]) -> list[Server]:
    return shared[1]


def test_every_server_answers_for_every_loop(three: list[Server], tmp_path: Path) -> None:
    made = {}
    for number, server in enumerate(three):
        with closing(server.client()) as client:
            for name in NAMES:
                first = client.decide(name, key="same")
                assert made.setdefault(name, first) == first
                mine = client.decide(name, key=f"of {number}")
                assert client.reward(name, mine.decision_id, 1.0).status == "applied"
                assert client.explain(name, mine.decision_id)["reward"] == 1.0
                assert client.decide_many(name, [{"key": "same"}])[0] == first
    with closing(three[0].client()) as client:
        for name in NAMES:
            assert client.loop(name)["decisions"] == 4 and client.report(name)["loop"]["rewards"] == 3
            assert pq.read_table(client.export(name, tmp_path / "log.parquet")).num_rows == 3
        assert client.change("loop3", mode="safe-only")["mode"] == "safe-only"
        with pytest.raises(ServiceError, match="404"):
            client.loop("nobody-made-this")
        with pytest.raises(ServiceError, match="409"):
            client.create("loop1", **{**TWO_ARMS, "arms": ["c", "d"]})  # type: ignore[arg-type]


def test_lists_hold_the_loops_of_all_servers_oldest_first(three: list[Server]) -> None:
    for server in three:
        with closing(server.client()) as client:
            assert [loop["name"] for loop in client.loops()] == NAMES
            assert [line["name"] for line in client.overview()] == NAMES
            assert [loop["name"] for loop in client.loops(limit=5, after="loop3")] == NAMES[4:9]
            assert [line["name"] for line in client.overview(search="number 1")] == ["loop1", *NAMES[10:]]
            client.decide("loop2", key="found")
            assert [each["loop"] for each in client.find("found")] == ["loop2"]
            for name in NAMES:
                client.decide(name, key="everywhere")
            assert [each["loop"] for each in client.find("everywhere")] == sorted(NAMES)
            with pytest.raises(ServiceError, match="400"):
                client.loops(limit=0)
        with urllib.request.urlopen(f"{server.url}/v1/overview?limit=2") as answer:
            assert answer.headers["x-total-count"] == "12" and len(json.load(answer)) == 2


def test_every_spelling_of_a_path_means_the_loops_of_all_servers(three: list[Server]) -> None:
    for server in three:
        for path in ("/v1/loops/", "/v1//loops", "//v1/loops", "/v1/loops//?limit=100", "/v1/overview/"):
            with urllib.request.urlopen(server.url + path) as answer:
                assert [each["name"] for each in json.load(answer)] == NAMES
        for name in NAMES:
            with urllib.request.urlopen(f"{server.url}/v1//loops/{name}/") as answer:
                assert json.load(answer)["name"] == name


def test_metrics_of_all_servers_together_show_each_loop_once(three: list[Server]) -> None:
    shown = list[str]()
    for server in three:
        with urllib.request.urlopen(f"{server.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        shown += [line for line in lines if line.startswith("linoto_decisions_total{")]
    counted = Counter(line.split('loop="')[1].split('"')[0] for line in shown)
    assert counted == dict.fromkeys(NAMES, 3)  # a line for each group of decisions


def counters(server: Server) -> dict[str, int]:
    """How often loops came to a server and left it."""
    with urllib.request.urlopen(f"{server.url}/metrics") as answer:
        lines = [line.split() for line in answer.read().decode().splitlines()]
    return {words[0]: int(float(words[1])) for words in lines if re.match("linoto_(parts|loops)_", words[0])}


@pytest.mark.slow
def test_metrics_count_the_loops_that_change_their_server(postgres: Cluster, tmp_path: Path) -> None:
    with new_database(postgres) as address, served(address, log=tmp_path / "first.log") as first:
        with closing(first.client()) as client:
            for name in NAMES:
                client.create(name, **TWO_ARMS)  # type: ignore[arg-type]
        assert counters(first)["linoto_loops_taken_total"] == 0  # they were made here
        with served(address, log=tmp_path / "second.log") as second:
            until(lambda: parts_of_servers(address) == [64, 64])
            until(lambda: counters(second)["linoto_parts_taken_total"] == 64)
            moved = counters(second)["linoto_loops_taken_total"]
            assert 0 < moved == counters(first)["linoto_loops_given_up_total"] < len(NAMES)
            second.stop()
        until(lambda: counters(first)["linoto_parts_taken_total"] == 128 + 64)
        assert counters(first)["linoto_loops_taken_total"] == moved


def test_a_client_goes_straight_to_who_has_a_loop(three: list[Server]) -> None:
    async def ask() -> set[int]:
        async with AsyncClient([server.url for server in three], deadline=240.0) as client:
            await asyncio.gather(*(client.loop(name) for name in NAMES))
            return set(client._servers._owners.values())

    assert asyncio.run(ask()) == {0, 1, 2}


def test_a_command_that_needs_the_database_alone_is_refused_while_any_server_runs(
    shared: tuple[Address, list[Server]],
) -> None:
    with pytest.raises(OSError, match="in use by another server"):
        list(rebuild(shared[0]))


# -- servers that come and go


class Traffic:
    """Threads that decide and reward, each key until it is answered, and remember what they were told."""

    def __init__(self, urls: list[str], names: list[str], threads: int = 3) -> None:
        self.client, self.names = Client(urls, deadline=240.0), names
        self.told: dict[tuple[str, str], str] = {}  # the decision of each key
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(threads)]

    def _run(self, number: int) -> None:
        for turn in range(10**6):
            if self._end.is_set():
                return
            name, key = self.names[turn % len(self.names)], f"{number}-{turn}"
            made = self.client.decide(name, key=key)
            self.told[name, key] = made.decision_id
            assert self.client.reward(name, made.decision_id, 1.0).status in ("applied", "duplicate")

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *reason: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()
        self.client.close()


def check_told(address: Address, traffic: Traffic) -> None:
    """Every answer is in the database, once, and every loop is what its events make it."""
    with open_database(address, readonly=True) as connection:
        rows = connection.execute(
            "SELECT l.name, d.key, d.number FROM decisions d JOIN loops l ON l.id = d.loop"
        ).fetchall()
    kept = {(name, key): f"1-{number}" for name, key, number in rows}
    assert kept == {key: made.replace(made.partition("-")[0], "1", 1) for key, made in traffic.told.items()}
    assert len(rows) == len(kept) == len(traffic.told)
    said = list(check(address))[1:]
    assert len(said) == len(traffic.names) and all(
        "snapshot, replay and tables agree" in line for line in said
    )


def test_nothing_is_lost_or_doubled_while_servers_come_and_go(postgres: Cluster, tmp_path: Path) -> None:
    with new_database(postgres) as address, several(address, 1, tmp_path) as servers:
        coming = Server(address, log=tmp_path / "coming.log")
        servers.append(coming)  # before it answers: a client passes over who does not
        names = NAMES[:6]
        with closing(every(servers)) as client:
            for name in names:
                client.create(name, **TWO_ARMS)  # type: ignore[arg-type]
        with Traffic([server.url for server in servers], names) as traffic:
            until(lambda: parts_of_servers(address) == [64, 64])
            asked = len(traffic.told)
            until(lambda: len(traffic.told) > asked + 20)
            assert servers[0].stop() == 0
            until(lambda: parts_of_servers(address) == [PARTS])
            asked = len(traffic.told)
            until(lambda: len(traffic.told) > asked + 20)
        assert coming.stop() == 0
        check_told(address, traffic)


def test_servers_whose_sessions_are_cut_go_on_with_what_they_had(postgres: Cluster, tmp_path: Path) -> None:
    with new_database(postgres) as address, several(address, 2, tmp_path) as servers:
        name = address.url.partition("@/")[2].partition("?")[0]
        end = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}'"
        until(lambda: parts_of_servers(address) == [64, 64])
        names = NAMES[:4]
        with closing(every(servers)) as client:
            for loop in names:
                client.create(loop, **TWO_ARMS)  # type: ignore[arg-type]
        with Traffic([server.url for server in servers], names) as traffic:
            for _ in range(3):
                asked = len(traffic.told)
                assert postgres.psql("postgres", end).returncode == 0
                until(lambda asked=asked: len(traffic.told) > asked + 20)  # type: ignore[misc]
        assert [server.process.poll() for server in servers] == [None, None]
        assert parts_of_servers(address) == [64, 64]
        check_told(address, traffic)


def test_tokens_are_known_to_all_servers_and_passed_on_with_a_request(
    postgres: Cluster, tmp_path: Path
) -> None:
    with new_database(postgres) as address, several(address, 2, tmp_path) as servers:
        with closing(every(servers)) as client:
            for name in NAMES:
                client.create(name, **TWO_ARMS)  # type: ignore[arg-type]
        with open_database(address) as connection:
            token = create_token(connection, "shop", "writer", 1.0, loops=NAMES[:6])
            viewer = create_token(connection, "page", "viewer", 1.0)
            admin = create_token(connection, "me", "admin", 1.0)
        for server in servers:  # each of them reads tokens once a second
            until(lambda server=server: refuses_strangers(server))  # type: ignore[misc]
        with open_database(address) as connection:
            fresh = create_token(connection, "fresh", "writer", 2.0)
        for server in servers:  # but looks for one that it does not know
            with closing(server.client(token=fresh, retries=0)) as client:
                assert [client.decide(name).arm for name in NAMES]
        for server in servers:
            with closing(server.client(token=token)) as client:
                assert [client.decide(name).arm for name in NAMES[:6]]
                assert [loop["name"] for loop in client.loops()] == NAMES[:6]
                hidden = client.loops(after="loop7")  # as if there were none of this name
                assert [loop["name"] for loop in hidden] == NAMES[:6]
                with pytest.raises(ServiceError, match="403"):
                    client.decide("loop7")
            for name in NAMES[:6]:  # wherever they are; only the head is sent where it must be enough
                assert status_of(server, "POST", f"{name}/decide", viewer, 60_000_000) == 403
                assert status_of(server, "PUT", name, token, 60_000_000) == 403
                assert status_of(server, "POST", f"{name}/decide", token, 2_000_000) == 413
                assert status_of(server, "PUT", name, admin, 65_000_000) == 413
                assert status_of(server, "PUT", name, admin, 2_000_000, b" " * 1_999_998 + b"{}") == 400
            assert status_of(server, "POST", "loop7/decide", token, 60_000_000) == 403


def status_of(server: Server, method: str, path: str, token: str, length: int, body: bytes = b"") -> int:
    """What is answered to a request with a body of this length, of which so much is sent."""
    head = f"{method} /v1/loops/{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + body)
        return int(connection.recv(12).split()[1])


def refuses_strangers(server: Server) -> bool:
    """As its metrics do, for which it asks nobody else."""
    try:
        with urllib.request.urlopen(f"{server.url}/metrics"):
            return False
    except urllib.error.HTTPError as error:
        with error:
            return error.code == 401


def test_an_alarm_is_posted_once_whichever_server_raised_it(postgres: Cluster, tmp_path: Path) -> None:
    with (
        receiving() as receiver,
        new_database(postgres) as address,
        several(address, 2, tmp_path, settings=with_webhook(receiver.url)) as servers,
    ):
        until(lambda: parts_of_servers(address) == [64, 64])
        for number in range(4):
            alarm(servers[number % 2], f"loop{number}")
        for number in range(4):
            receiver.wait_for(1, f"loop{number}")
        ids = [json.loads(body)["id"] for _, body in receiver.got]
        assert len(set(ids)) == len(ids)
