"""Servers that share a database, when something goes wrong between two steps: nobody is locked out."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from helpers.postgres import Cluster, name_of
from helpers.service_process import served as served_by
from helpers.service_process import spec_of

from linoto.core.warm_up import warm_up_usual
from linoto.service.errors import Refused, Unavailable, Undone
from linoto.service.loops.loop import Loop
from linoto.service.maintenance import check
from linoto.service.server import Service, open_service
from linoto.service.storage.connection import Connection
from linoto.service.storage.database import open_database
from linoto.service.storage.parts import PARTS, View, part_of
from linoto.service.storage.places import Address
from linoto.service.web.peers import Answer
from linoto.service.web.shared import HAS, is_whole

PATIENCE = 120.0  # seconds after which a test gives up


@pytest.fixture
def address(postgres: Cluster) -> Iterator[Address]:
    found = postgres.database()
    yield found
    postgres.drop(found)


@asynccontextmanager
async def joined(address: Address, *numbers: int, begin: bool = False) -> Any:
    """Servers without doors, which have joined the others and have taken nothing yet, or what was free."""
    services = list[Service]()
    try:
        for number in numbers:
            services.append(open_service(address, url=f"http://127.0.0.1:{number}", load=False))
            spread = services[-1].spread
            assert spread is not None
            await (spread.begin() if begin else asyncio.to_thread(services[-1].store.join))
        yield services
    finally:
        for service in services:
            await asyncio.to_thread(service.close, snapshots=False)


async def spread_until(done: Callable[[], bool], services: Iterable[Service]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        for service in services:
            assert service.spread is not None
            await service.spread.step()
        await asyncio.sleep(0.02)


def served(service: Service) -> int:
    assert service.spread is not None
    return len(service.spread.served)


def run(work: Coroutine[Any, Any, None]) -> None:
    warm_up_usual()  # compiles, where nobody has yet
    asyncio.run(work)


def parts_of_servers(address: Address) -> list[int]:
    """How many parts each server has; those that nobody has are counted too."""
    with open_database(address, readonly=True) as connection:
        return sorted(Counter(connection.execute("SELECT server FROM parts").fetchall()).values())


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


async def create(service: Service, name: str) -> None:
    await service.store.write(
        lambda connection: service.loops.create(connection, Loop.fresh(name, spec_of()))
    )


def refuse(_: Connection) -> None:
    raise Undone(Refused(422, "invalid", "after draws"))


def test_a_loop_that_is_read_while_another_job_is_undone_has_no_gap_in_its_log(address: Address) -> None:
    """The batch in which a loop becomes this server's runs twice, and what was drawn in between stays."""

    async def work() -> None:
        async with joined(address, 1) as (first,):
            await spread_until(lambda: served(first) == PARTS, [first])
            await create(first, "loop")
        async with joined(address, 2) as (second,):
            tasks = list[asyncio.Future[Any]]()

            async def decide() -> None:
                await second.store.write(lambda connection: second.loops.decide(connection, "loop", key="a"))

            async def fail() -> None:
                await second.store.write(refuse)

            def found(loops: Iterable[Loop]) -> None:  # the next job is the one that makes them answer
                if any(loop.name == "loop" for loop in loops):
                    tasks.extend(asyncio.ensure_future(each()) for each in (decide, fail))

            second.spread.check = found
            await spread_until(lambda: served(second) == PARTS, [second])
            told = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(each) for each in told] == [type(None), Refused]
            made = await second.store.write(lambda c: second.loops.decide(c, "loop", key="b"))
            assert made.number == 2
        assert list(check(address))[1].startswith("loop: 2 events,")

    run(work())


async def ask(service: Service, name: str, key: str) -> int:
    """As a request does, which names its key before."""
    made = await service.store.write(lambda c: service.loops.decide(c, name, key=key), [(name, key)])
    return made.number


async def until_new_keys_are_known(service: Service, name: str) -> None:
    end = time.monotonic() + PATIENCE
    while not service.store._engine.knows([(name, "nobody uses this one")]):
        assert time.monotonic() < end, "it did not happen"
        await service.store.write(lambda _: None, [(name, "nobody uses this one")])
        await asyncio.sleep(0.02)


def test_a_key_that_was_used_at_another_server_is_not_new_when_the_loop_comes_back(address: Address) -> None:
    """The session of the first one lasts, and what it knew of keys is older than what the second did."""
    name = next(name for name in "abcdefgh" if part_of(name) >= PARTS // 2)  # the second begins with those

    async def work() -> None:
        async with joined(address, 1, begin=True) as (first,):
            await create(first, name)
            made = [await ask(first, name, "a")]
            await until_new_keys_are_known(first, name)
            async with joined(address, 2) as (second,):
                await first.spread._release(sorted(first.spread.served))
                assert not first.store._engine.knows([(name, "b")])
                await spread_until(lambda: part_of(name) in second.spread.served, [second])
                made.append(await ask(second, name, "b"))
                assert await ask(second, name, "a") == made[0]
                await until_new_keys_are_known(second, name)
                made.append(await ask(second, name, "c"))
                with pytest.raises(Refused):
                    await ask(first, name, "c")
            await spread_until(lambda: served(first) == PARTS, [first])
            assert [await ask(first, name, key) for key in "abc"] == made == [1, 2, 3]
            await until_new_keys_are_known(first, name)
            assert [await ask(first, name, key) for key in "abcd"] == [*made, 4]

    run(work())


def lose_the_answer(service: Service) -> None:
    """To the next commit, which is done."""
    raw: Any = service.store._engine.connection._raw  # type: ignore[attr-defined]
    execute = raw.execute

    def cut(statement: Any, *values: Any, **options: Any) -> Any:
        answer = execute(statement, *values, **options)
        if statement == "COMMIT":
            raw.close()
            raise psycopg.OperationalError("server closed the connection")
        return answer

    raw.execute = cut


def test_parts_that_were_taken_by_a_commit_without_an_answer_are_not_lost_when_others_join(
    address: Address,
) -> None:
    async def work() -> None:
        async with joined(address, 1) as (first,):
            await asyncio.sleep(0.2)
            lose_the_answer(first)
            await first.spread.step()
            assert served(first) == 0
            async with joined(address, 2) as (second,):
                await spread_until(lambda: len(first.store.view.servers) == 2, [])
                await spread_until(lambda: served(first) == served(second) == 64, [first, second])

    run(work())


def test_servers_go_on_after_the_database_was_away_for_longer_than_a_lease(
    address: Address, postgres: Cluster
) -> None:
    """Whoever comes back first waits for the others: they were silent because nobody could be heard."""
    name = name_of(address)
    away = (
        f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = '{name}' "
        "AND pid <> pg_backend_pid(); "
        "UPDATE linoto.servers SET beat = beat - interval '1 minute'"
    )

    async def work() -> None:
        async with joined(address, 1, 2) as services:
            first, second = services
            await spread_until(lambda: served(first) == served(second) == 64, services)
            assert (await asyncio.to_thread(postgres.psql, name, away)).returncode == 0

            def young() -> bool:
                late = "SELECT count(*) FROM linoto.servers WHERE beat > now() - interval '10 seconds'"
                return postgres.psql(name, late).stdout.strip() == "2" or any(
                    service.store.is_replaced for service in services
                )

            await spread_until(young, services)
            assert not first.store.is_replaced and not second.store.is_replaced
            await spread_until(lambda: all(service.store.is_owned() for service in services), services)
            assert served(first) == served(second) == 64

    run(work())


class HalfOpen:
    """A way to PostgreSQL whose near end can be cut while the far end is not told."""

    def __init__(self, folder: Path, target: Path) -> None:
        self.target, self.near, self.far = target, list[socket.socket](), list[socket.socket]()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / target.name))
        self.listener.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, far = self.listener.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(str(self.target))
                self.near.append(near)
                self.far.append(far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)

    def cut(self) -> None:
        for near in self.near:
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.listener.close()
        self.cut()
        for each in (*self.near, *self.far):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


async def answers(work: Callable[[], Awaitable[object]]) -> bool:
    try:
        await work()
    except Unavailable:
        return False
    return True


def test_a_server_is_not_locked_out_by_its_own_session_that_the_database_believes_in(
    address: Address, postgres: Cluster
) -> None:
    async def work(folder: Path) -> None:
        way = HalfOpen(folder, postgres.folder / ".s.PGSQL.5432")
        try:
            through = Address(address.url.replace(str(postgres.folder), str(folder)))
            async with joined(through, 1) as (only,):
                await spread_until(lambda: served(only) == PARTS, [only])
                way.cut()
                end = time.monotonic() + PATIENCE
                while not await answers(lambda: only.store.write(lambda c: c.check_writable())):
                    assert time.monotonic() < end, "its own session has its locks"
                    await asyncio.sleep(0.05)
                assert only.store.held == only.spread.served == set(range(PARTS))
        finally:
            way.close()

    with TemporaryDirectory(dir="/tmp") as folder:  # a short path: that of a socket may not be long
        run(work(Path(folder)))


def test_a_list_is_whole_only_if_every_part_is_in_one_answer() -> None:
    def answer(parts: Iterable[int]) -> Answer:
        return Answer(200, [(HAS, b"%x" % sum(2**part for part in parts))], b"[]")

    every = Counter(range(PARTS))
    assert is_whole([answer(range(50)), answer(range(50, PARTS))])
    assert not is_whole([answer(range(PARTS - 1))])
    thrice = every - Counter({8: 1})  # the sum of three times the seventh is as if the eighth were there
    assert not is_whole([answer(thrice), answer([7]), answer([7])])


def test_a_damaged_loop_ends_no_server_that_takes_it_over(address: Address, postgres: Cluster) -> None:
    broken = "UPDATE linoto.events SET body = '{}'::bytea WHERE seq = 1"

    async def work() -> None:
        async with joined(address, 1, begin=True) as (other,):
            async with joined(address, 2, begin=True) as (owner,):
                await spread_until(lambda: served(owner) == served(other) == 64, [owner, other])
                names = [f"loop{number}" for number in range(100) if owner.loops.serves(f"loop{number}")][:2]
                for name in names:
                    await create(owner, name)
                await owner.store.write(lambda c: owner.loops.decide(c, names[0], key="a"))
                assert postgres.psql(name_of(address), broken).returncode == 0
            await spread_until(lambda: served(other) == PARTS, [other])
            with pytest.raises(Refused, match="event 1 is damaged") as refused:
                await other.store.write(lambda c: other.loops.decide(c, names[0], key="a"))
            assert (refused.value.status, refused.value.code) == (503, "damaged")
            with pytest.raises(Refused, match="event 1 is damaged"):
                await create(other, names[0])
            made = await other.store.write(lambda c: other.loops.decide(c, names[1], key="a"))
            assert made.number == 1
        async with joined(address, 3, begin=True) as (fresh,):  # nor one that starts with it
            assert set(fresh.loops.damaged) == {names[0]} and set(fresh.loops.by_name) == {names[1]}
        assert postgres.psql(name_of(address), "UPDATE linoto.events SET body = '{}'::bytea").returncode == 0
        with pytest.raises(ValueError, match=r"event 1 is damaged: .*and 1 more loop cannot be read"):
            async with joined(address, 4, begin=True):
                pass

    run(work())


def test_a_server_with_the_address_of_one_that_lives_is_refused_and_ends_nobody(address: Address) -> None:
    async def work() -> None:
        async with joined(address, 1) as (first,):
            await spread_until(lambda: served(first) == PARTS, [first])
            with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1: give each its own with --advertise"):
                async with joined(address, 1):
                    pass
            assert not first.store.is_replaced
            first.store._engine.connection._raw.close()  # as if it was killed
            first.store._engine._lease.end()
            async with joined(address, 1) as (again,):
                await spread_until(lambda: served(again) == PARTS, [again])

    run(work())


def test_a_server_that_leaves_has_no_share_and_the_others_have_all() -> None:
    servers = {1: "http://a", 2: "http://b", 3: "http://c"}
    views = [View(me, servers, {}, frozenset(), frozenset({2})) for me in servers]
    assert [view.share for view in views] == [64, 0, 64]
    assert views[1].has_heirs and not View(1, {1: ""}, {}, frozenset(), frozenset({1})).has_heirs


def test_a_server_that_stops_hands_its_loops_over_before_it_waits_for_a_slow_caller(
    address: Address, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        stopping, other = (
            stack.enter_context(served_by(address, log=tmp_path / f"{number}.log", settings={"drain": 600.0}))
            for number in range(2)
        )
        client = stack.enter_context(closing(other.client()))
        for name in (names := [f"loop{number}" for number in range(6)]):
            client.create(name, arms=["a", "b"], policy={"type": "LinUCB"}, default_reward=0.0)
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", stopping.port)))
        slow.sendall(
            b"POST /v1/loops/loop0/decide HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            b"content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        wait_for(lambda: parts_of_servers(address) == [64, 64])
        stopping.process.terminate()
        wait_for(lambda: parts_of_servers(address) == [PARTS])
        for name in names:
            assert client.decide(name, key="a").decision_id.endswith("-1")
        assert stopping.process.poll() is None  # it waits for the rest of what the caller says
        slow.close()
        assert stopping.process.wait() == 0


def test_a_server_that_may_not_end_the_session_of_another_role_goes_on(
    address: Address, postgres: Cluster
) -> None:
    name = name_of(address)
    allow = "; ".join(
        f"GRANT ALL ON {what} linoto TO other"
        for what in ("SCHEMA", "ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA")
    )

    async def work() -> None:
        async with joined(address, 1):
            made = postgres.psql(name, f"CREATE ROLE other LOGIN; {allow}; DELETE FROM linoto.servers")
            assert made.returncode == 0, made.stderr
            through = Address(address.url.replace("linoto@", "other@"))
            async with joined(through, 2) as (second,):
                await spread_until(lambda: served(second) == PARTS, [second])
                assert not second.store.is_replaced

    try:
        run(work())
    finally:
        postgres.psql(name, "DROP OWNED BY other; DROP ROLE other")
