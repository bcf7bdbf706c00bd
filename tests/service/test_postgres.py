"""On PostgreSQL a decision is kept once too: whoever else writes, whatever becomes of connections."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from helpers.forks import ForkedCommand, run_forked
from helpers.loops import THOMPSON, decide, digests, reward, run_mixed_traffic
from helpers.loops_with_contexts import POLICIES
from helpers.loops_with_contexts import spec_of as spec_with_contexts
from helpers.postgres import Cluster
from helpers.service_process import FakeClock, create, opened, served

from linoto.client import ServiceError
from linoto.service.copying import copy
from linoto.service.errors import Refused, Unavailable
from linoto.service.forgetting import forget
from linoto.service.loops.explanations import recent
from linoto.service.loops.loop import Loop
from linoto.service.maintenance import backup, check, rebuild, restored_elsewhere
from linoto.service.retention import prune
from linoto.service.server import Service, open_service
from linoto.service.storage import schema, sql
from linoto.service.storage.connection import Connection
from linoto.service.storage.database import open_database
from linoto.service.storage.places import Address, Place, place_of
from linoto.service.web.access import create_token
from linoto.service.web.messages import DecisionResponse, decision_response

COUNT = "SELECT count(*) FROM events"
DRAWN_ANEW = '{"kind":"drawn"}'


@pytest.fixture
def address(postgres: Cluster) -> Iterator[Address]:
    found = postgres.database()
    yield found
    postgres.drop(found)


def name_of(address: Address) -> str:
    return address.url.partition("@/")[2].partition("?")[0]


class Relay:
    """Stands between a client and the server, and can lose what goes to it or the answer."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.target = str(cluster.folder / ".s.PGSQL.5432")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / ".s.PGSQL.5432"))
        self.listener.listen()
        self.lose: tuple[str, bytes] | None = None  # the next "request" with this in it, or its "answer"
        self.lost = 0
        self.ends: list[socket.socket] = []
        self.threads: list[threading.Thread] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, server = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                self.ends += [client, server]
                losing = threading.Event()
                for work in (self.ask, self.answer):
                    self.threads.append(threading.Thread(target=work, args=(client, server, losing)))
                    self.threads[-1].start()

    def ask(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self.lose is not None and self.lose[1] in data:
                    what, self.lose = self.lose[0], None
                    self.lost += 1
                    losing.set()
                    if what == "request":
                        break
                server.sendall(data)
        cut([client, server])

    def answer(self, client: socket.socket, server: socket.socket, losing: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                if losing.is_set():
                    break
                client.sendall(data)
        cut([client, server])

    def close(self) -> None:
        self.listener.close()
        cut(self.ends)
        for thread in self.threads:
            thread.join()
        for end in self.ends:
            end.close()


def cut(ends: Iterable[socket.socket]) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def relayed(cluster: Cluster, address: Address, folder: Path) -> Iterator[tuple[Relay, Address]]:
    relay = Relay(cluster, folder)
    try:
        yield relay, Address(f"postgresql://linoto@/{name_of(address)}?host={folder}")
    finally:
        relay.close()


def test_tables_and_columns_are_those_of_sqlite_in_their_order(address: Address, tmp_path: Path) -> None:
    with open_database(address, create=True) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'linoto' "
            "AND table_name NOT IN ('service', 'servers', 'parts') ORDER BY table_name, ordinal_position"
        ).fetchall()
    with open_database(tmp_path / "x.sqlite", create=True) as file:
        names = sorted(
            name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        )
        expected = [(name, row[1]) for name in names for row in file.execute(f"PRAGMA table_info({name})")]
        assert file.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    assert rows == expected
    assert sorted([*sql.TABLES, "probe"]) == names  # what is copied is all there is


def test_the_same_requests_make_the_same_events_on_both_engines(address: Address, tmp_path: Path) -> None:
    kept = []
    for place in (address, tmp_path / "x.sqlite"):
        clock = FakeClock()
        with opened(place, clock=clock, snapshot_every=7) as service:
            create(service, window=10.0, holdback=0.2)
            run_mixed_traffic(service, clock)
            assert len(set(digests(service))) == 1
        with open_database(place, readonly=True) as connection:
            tables = ("events", "decisions", "rewards", "late_rewards", "metrics")
            kept.append([connection.execute(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall() for t in tables])
    assert kept[0] == kept[1]


def test_one_server_owns_a_database_until_its_session_ends(address: Address, postgres: Cluster) -> None:
    with opened(address) as service:
        create(service)
        with pytest.raises(OSError, match="in use by another server"):
            open_service(address)
        with pytest.raises(OSError, match="in use by another server"):
            list(rebuild(address))
        decide(service)
    with opened(address) as service:
        assert decide(service).decision_id == "1-2"


def test_a_database_that_only_one_server_could_own_is_shared_from_now_on(
    address: Address, postgres: Cluster, tmp_path: Path
) -> None:
    """As version 0.3 left it: without a table of servers."""
    with opened(address) as service:
        create(service)
        first = decide(service, key="k")
    dropped = postgres.psql(name_of(address), "DROP TABLE linoto.servers, linoto.parts")
    assert dropped.returncode == 0
    with served(address, log=tmp_path / "log") as server, closing(server.client()) as client:
        assert client.decide("loop", key="k").decision_id == first.decision_id
        with pytest.raises(OSError, match="in use by another server"):
            open_service(address)


def wait_for_new_keys(service: Service) -> None:
    """Until it is known in memory which keys are new."""
    key = ("loop", "nobody uses this one")
    while not service.store._engine.knows([key]):
        asyncio.run(service.store.write(lambda _: None, [key]))


def decide_at_once(service: Service, key: str) -> DecisionResponse:
    """As a request does: the key is known before, so that the batch is one statement."""
    loops = service.loops

    def job(connection: Connection) -> DecisionResponse:
        return decision_response(loops.get("loop"), loops.decide(connection, "loop", key=key))

    return asyncio.run(service.store.write(job, [("loop", key)]))


@pytest.mark.parametrize("lose", ["request", "answer"])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_connection_lost_in_a_commit_is_looked_after_and_nothing_is_kept_twice(
    address: Address, postgres: Cluster, tmp_path: Path, lose: str, at_once: bool
) -> None:
    """A commit whose answer is lost was done; one that never reached the server was not."""
    with relayed(postgres, address, tmp_path) as (relay, way), opened(way) as service:
        create(service)
        ask = partial(decide_at_once if at_once else decide, service)
        first = ask(key="first")
        for turn in range(5):
            if turn % 2 and at_once:
                wait_for_new_keys(service)
            relay.lose = lose, b'"body"' if at_once else b"COMMIT"
            try:
                made = ask(key=f"k{turn}")
                assert lose == "answer"
            except Unavailable as error:
                assert lose == "request" and "nothing was kept" in str(error)
                made = ask(key=f"k{turn}")
            assert made.decision_id == f"1-{turn + 2}" and ask(key=f"k{turn}") == made
            assert reward(service, made.decision_id, 1.0).status == "applied"
        assert relay.lost == 5 and decide(service, key="first") == first
        assert len(set(digests(service))) == 1
        assert service.loops.get("loop").state.decided == 6


def test_a_second_writer_makes_the_batch_fail_and_memory_is_read_again(
    address: Address, postgres: Cluster
) -> None:
    with opened(address) as service:
        create(service)
        decide(service)
        event = f"INSERT INTO linoto.events VALUES (1, 2, 1e9, '{DRAWN_ANEW}')"
        assert postgres.psql(name_of(address), event).returncode == 0
        with pytest.raises(Unavailable, match="another server has written"):
            decide(service)
        assert service.loops.get("loop").state.seq == 2
        assert decide(service).decision_id == "1-2"
        assert len(set(digests(service))) == 1


def test_a_server_that_was_replaced_while_its_connection_was_cut_writes_no_more(
    address: Address, postgres: Cluster
) -> None:
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'linoto'"
    with opened(address) as service:
        create(service)
        first = decide(service, key="k")
        assert postgres.psql("postgres", f"{end} AND datname = '{name_of(address)}'").returncode == 0
        with opened(address) as second:
            assert decide(second, key="k") == first
            decide(second)
            with pytest.raises(Unavailable, match="in use by another server"):
                decide(service)
        with pytest.raises(Unavailable, match="another server has owned"):
            decide(service)
    with opened(address) as service:
        assert service.loops.get("loop").state.decided == 2


def test_events_that_a_database_had_committed_are_missed_when_it_comes_back_without_them(
    address: Address, postgres: Cluster
) -> None:
    """As after a failover to a machine that had not received them yet."""
    lose = "DELETE FROM linoto.events WHERE seq = 2; DELETE FROM linoto.decisions WHERE seq = 2"
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(address)}'"
    with opened(address) as service:
        create(service)
        decide(service)
        decide(service)
        assert postgres.psql(name_of(address), lose).returncode == 0
        assert postgres.psql("postgres", end).returncode == 0
        for _ in range(2):
            with pytest.raises(Unavailable, match="lost events"):
                decide(service)
    with opened(address) as service:
        assert decide(service).decision_id == "1-2"


def test_a_database_is_said_to_be_new_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A name that was mistyped makes one, and serves nothing."""
    caplog.set_level("INFO", logger="linoto.service")
    for _ in range(2):
        with opened(place):
            pass
    new = [record for record in caplog.records if record.message == "new database"]
    assert [vars(record)["db"] for record in new] == [str(place)]


def test_a_key_that_postgresql_cannot_keep_is_refused_alone(place: Place) -> None:
    """On SQLite as well: a copy could not bring it along."""
    with opened(place) as service:
        create(service)
        with pytest.raises(Refused, match=r"U\+0000"):
            decide(service, key="a\0b")
        with pytest.raises(Refused, match=r"U\+0000"):
            service.store.write_sync(lambda c: service.loops.decide_many(c, "loop", [{"key": "a\0b"}]))
        assert decide(service, key="a\u2028\U0001f600'\"\\").decision_id == "1-1"


def test_a_copy_names_a_decision_whose_key_cannot_be_kept(address: Address, tmp_path: Path) -> None:
    """Of an earlier version, which took such keys on SQLite."""
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        create(service)
        decide(service, key="a")
        service.store.write_sync(lambda c: c.execute("UPDATE decisions SET key = ?", ("a\0b",)))
    with pytest.raises(
        ValueError, match=r"decision 1 of loop number 1 has a key with U\+0000, which Postgre"
    ):
        list(copy(path, address))


def test_commands_do_on_postgresql_what_they_do_on_a_file(address: Address, tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(address, clock=clock, snapshot_every=5) as service:
        create(service, window=10.0)
        for number in range(20):
            clock.now += 1.0
            reward(service, decide(service, key=str(number)).decision_id, 1.0)
    agree = "loop: 40 events, snapshot, replay and tables agree"
    assert list(check(address)) == [f"{address}: database ok", agree]
    assert list(rebuild(address)) == ["loop: replayed 40 events"]
    pruned = list(prune(address, before=clock.now - 5, now=clock.now, sleep=lambda _: None))
    assert pruned == ["loop: pruned 14 decisions and 28 events, 6 decisions and 12 events stay"]
    assert "loop: 40 events, 12 of them kept after pruning, " in list(check(address))[1]
    with pytest.raises(ValueError, match="pg_dump"):
        backup(address, tmp_path / "copy")
    db = ["--db", address.url]
    code, token = run_forked(["db", "token", "create", "shop", "--role", "writer", *db], tmp_path)
    assert code == 0 and len(token.strip()) > 30
    code, listed = run_forked(["db", "token", "list", "--json", *db], tmp_path / ".")
    assert json.loads(listed.removeprefix(token))[0]["name"] == "shop"
    lines = restored_elsewhere(address, clock=clock)
    assert "now safe-only" in lines[1] and "shop revoked" in lines[2]
    with opened(address, clock=clock) as service:
        loop = service.loops.get("loop")
        assert loop.state.mode == "safe-only" and re.fullmatch(r"1-\w+-21", decide(service).decision_id)
        assert len(set(digests(service))) == 1


def test_a_server_answers_again_when_postgresql_does(
    address: Address, postgres: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with served(address, log=log) as server, closing(server.client(retries=0)) as client:
        client.create("loop", arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
        made = [client.decide("loop", key=str(number)) for number in range(5)]
        postgres.stop()
        with pytest.raises(ServiceError, match="503"):
            client.decide("loop", key="while it is gone")
        postgres.start()
        with closing(server.client(retries=50)) as patient:
            later = patient.decide("loop", key="while it is gone")
            assert [patient.decide("loop", key=str(number)) for number in range(5)] == made
            assert patient.reward("loop", later.decision_id, 1.0)
            assert patient.loop("loop")["decisions"] == 6
    assert list(check(address))[1].startswith("loop: 7 events")


def test_a_database_is_copied_in_both_directions_and_goes_on_there(address: Address, tmp_path: Path) -> None:
    """Ids, keys, secret draws and tokens too: the copy of a copy decides as the first one would have."""
    clock, file, back = FakeClock(), tmp_path / "x.sqlite", tmp_path / "back.sqlite"
    with opened(file, clock=clock, snapshot_every=30) as service:
        for name in ("loop", "other"):
            create(service, name, policy=THOMPSON, seed=None, holdback=0.2, window=10.0)
        run_mixed_traffic(service, clock)
        first = decide(service, key="k")
    with open_database(file) as connection:
        create_token(connection, "shop", "viewer", 1.0, 2.5, loops=["loop"])
    assert "loops: 2 rows" in list(copy(file, address))
    assert list(copy(address, back))[-1].startswith(f"{address} is copied to {back}: serve only one")
    said = [list(check(place))[1:] for place in (file, address, back)]
    assert said[0] == said[1] == said[2] and len(said[0]) == 2
    tables: list[list[list[Any]]] = []
    for place in (file, address, back):
        with open_database(place, readonly=True) as connection:
            tables.append([sorted(map(repr, sql.all_rows(connection, table))) for table in sql.TABLES])
    assert tables[0] == tables[1] == tables[2]
    made = []
    for place in (file, address, back):
        with opened(place, clock=clock) as service:
            assert decide(service, key="k") == first
            made.append([decide(service) for _ in range(30)])
            create(service, "third")
            assert service.loops.get("third").id == 3
    assert made[0] == made[1] == made[2]


def test_nothing_is_copied_over_another_database_nor_while_it_is_served(
    address: Address, tmp_path: Path
) -> None:
    file, other = tmp_path / "x.sqlite", tmp_path / "other.sqlite"
    with opened(file) as service:
        create(service)
        with pytest.raises(OSError, match="in use by another server"):
            list(copy(file, address))
    list(copy(file, other))
    with pytest.raises(FileExistsError, match="exists"):
        list(copy(file, other))
    list(copy(file, address))
    with pytest.raises(FileExistsError, match="has loops or tokens"):
        list(copy(file, address))
    with pytest.raises(FileNotFoundError):
        list(copy(tmp_path / "none.sqlite", tmp_path / "new.sqlite"))
    assert not (tmp_path / "new.sqlite").exists() and not list(tmp_path.glob("*.part*"))


def test_what_is_shown_of_an_address_has_no_password() -> None:
    shown = {
        "postgresql://ann:secret@db.example/loops": "postgresql://ann@db.example/loops",
        "postgres://ann:se%3Asecret@a,b:5433/loops?password=secret&user=y": "postgres://ann@a,b:5433/loops",
        "postgresql://ann:secret@[::1]:5433/loops": "postgresql://ann@[::1]:5433/loops",
        "postgresql:///loops": "postgresql:///loops",
    }
    for url, text in shown.items():
        place = place_of(url)
        assert isinstance(place, Address) and str(place) == text and "secret" not in repr(place)
    for name in ("postgres.sqlite", "/data/12:30/x.sqlite", "./a:b.sqlite", "user=5/x.sqlite"):
        assert place_of(name) == Path(name)


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql+psycopg://app:secret@db.example/loops",
        "postgresqll://app:secret@db.example/loops",
        "POSTGRESQL://app:secret@db.example/loops",
        "postgresql:app:secret@db.example",
        "app:secret@db.example/loops",
        "host=db.example user=app password=secret",
        "postgresql://app:p@secret@db.example/loops",
        "postgresql://app:secret%zz@db.example/loops",
    ],
)
def test_what_is_no_address_is_refused_unseen_and_is_no_file(tmp_path: Path, wrong: str) -> None:
    """By flag and by environment: nothing of it is printed, in which a password may be."""
    for words, environment in (
        (["db", "check", "--db", wrong], {}),
        (["serve", "--port", "0"], {"LINOTO_DB": wrong}),
    ):
        printed = tmp_path / "printed"
        command = ForkedCommand([*words], tmp_path, environment, log=printed, out=printed)
        try:
            assert command.wait(60.0) != 0
        finally:
            command.end()
        said = printed.read_text()
        assert "an address like postgresql://" in said
        assert "secret" not in said and "Traceback" not in said
        assert [path.name for path in tmp_path.iterdir()] == ["printed"]


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "ACCESS EXCLUSIVE"])
@pytest.mark.parametrize("key", [None, "k"])
def test_a_table_that_somebody_locks_lets_nobody_wait_for_good(
    address: Address, lock: str, key: str | None
) -> None:
    """What was not written is known not to be kept; what is in memory is shown, as on a file."""
    with opened(address) as service:
        create(service)
        decide(service)
        count = partial(service.store.read_database, lambda c: c.execute(COUNT).fetchone()[0])
        with psycopg.connect(address.url) as other:
            other.execute(f"LOCK TABLE linoto.events IN {lock} MODE".encode())
            with pytest.raises(Unavailable, match=r"nothing was kept: .*lock timeout"):
                decide_at_once(service, key) if key else decide(service)
            if lock == "EXCLUSIVE":
                view = service.store.read_memory(lambda: service.loops.get("loop").state.decided)
                assert count() == 1 and asyncio.run(view) == 1
            else:
                with pytest.raises(Unavailable, match=r"could not be read: .*lock timeout"):
                    count()
            other.rollback()
        assert decide(service, key=key).decision_id == "1-2"
        assert len(set(digests(service))) == 1 and count() == 2


SAMPLES = """
SELECT s::text FROM pg_stats s WHERE schemaname = 'linoto'
AND (attname IN ('body', 'key', 'books', 'agent') OR s::text ~ 'visit')
"""


@pytest.mark.parametrize("sampled", [False, True], ids=["new", "of an older version"])
def test_the_planner_keeps_no_samples_of_a_person(address: Address, postgres: Cluster, sampled: bool) -> None:
    """Nor bytes of them, where they were taken before: `forget` writes them anew too."""
    spec, name = spec_with_contexts(POLICIES["coin"]), name_of(address)
    tables = ("events", "decisions", "snapshots", "bases")
    with opened(address, clock=FakeClock(), snapshot_every=3) as service:
        service.store.write_sync(lambda c: service.loops.create(c, loop=Loop.fresh("loop", spec)))
        for i in range(20):
            made = decide(service, key=f"visit {i}", context={"age": 30, "country": "Atlantis"})
            reward(service, made.decision_id, 1.0)
    if sampled:
        for table, column in (("events", "body"), ("decisions", "key")):
            postgres.psql(name, f"ALTER TABLE linoto.{table} ALTER {column} SET STATISTICS -1")
    for table in tables:
        assert postgres.psql(name, f"ANALYZE linoto.{table}").returncode == 0
    assert ("visit" in postgres.psql(name, SAMPLES).stdout) == sampled
    list(forget(address, {"country": "Atlantis"}))
    for table in tables:
        assert postgres.psql(name, f"ANALYZE linoto.{table}").returncode == 0
    assert postgres.psql(name, SAMPLES).stdout == ""
    assert postgres.psql(name, "CHECKPOINT").returncode == 0
    files = [path for path in (postgres.data / "base").rglob("*") if path.is_file()]
    assert files and not any(b"visit 1" in path.read_bytes() for path in files)


def test_a_database_of_an_older_version_is_served_without_samples(
    address: Address, postgres: Cluster
) -> None:
    with opened(address) as service:
        create(service)
        for number in range(20):
            decide(service, key=f"visit {number}")
    name = name_of(address)
    postgres.psql(name, "ALTER TABLE linoto.decisions ALTER key SET STATISTICS -1")
    assert postgres.psql(name, "ANALYZE linoto.decisions").returncode == 0
    assert "visit" in postgres.psql(name, SAMPLES).stdout
    with opened(address) as service:
        assert decide(service, key="visit 3").decision_id == "1-4"
    assert postgres.psql(name, "ANALYZE linoto.decisions").returncode == 0
    assert postgres.psql(name, SAMPLES).stdout == ""


def test_a_person_is_erased_there_too_and_a_viewer_is_a_role(address: Address) -> None:
    spec = spec_with_contexts(POLICIES["coin"])
    with opened(address, clock=FakeClock(), snapshot_every=3) as service:
        service.store.write_sync(lambda c: service.loops.create(c, loop=Loop.fresh("loop", spec)))
        service.store.write_sync(lambda c: create_token(c, "board", "viewer", 0.0))
        for i, country in enumerate(("DE", "Atlantis", "NO", "Atlantis")):
            made = decide(service, key=f"visit {i}", context={"age": 30, "country": country})
            reward(service, made.decision_id, 1.0)
        before = digests(service)
    lines = list(forget(address, {"country": "Atlantis"}))
    assert "2 decisions forgotten" in lines[0] and "write-ahead log of the server" in lines[-1]
    assert "agree" in list(check(address))[-1]
    with opened(address, clock=FakeClock()) as service:
        assert digests(service) == before
        loop = service.loops.get("loop")
        rows = service.store.read_database(lambda c: recent(c, loop, None, 10))
        assert [row.context for row in rows if row.key is None] == [{"forgotten": True}] * 2
