"""Which keys are new is known in memory on PostgreSQL: no used one is among them, whoever used it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from hashlib import sha256
from typing import Any

import pytest
from helpers.loops import decide, digests
from helpers.postgres import Cluster, name_of
from helpers.service_process import create, opened

from linoto.service.errors import Unavailable
from linoto.service.server import Service
from linoto.service.storage import postgres_keys
from linoto.service.storage import postgres_sql as own_sql
from linoto.service.storage.places import Address
from linoto.service.storage.postgres_keys import NewKeys, Scan, UsedKeys

Work = Callable[[Service], Coroutine[Any, Any, None]]
PATIENCE = 30.0  # seconds after which a test gives up
NOWHERE = Address("postgresql://nobody@nowhere/nothing")
ODD = ["", " ", "a", "ä", "日本", "'", "\\", "\t\n", "k" * 200, "🙂"]


@pytest.fixture
def address(postgres: Cluster) -> Iterator[Address]:
    found = postgres.database()
    yield found
    postgres.drop(found)


async def ask(service: Service, key: str) -> str:
    """As a request does: it says before which key it will look up."""
    loops = service.loops
    made = await service.store.write(lambda c: loops.decide(c, "loop", key=key), [("loop", key)])
    return loops.get("loop").decision_id(made.number)


def knows(service: Service, *keys: str) -> bool:
    """Whether all of these are new without a question to the database."""
    return service.store._engine.knows([("loop", key) for key in keys])


async def until(service: Service, done: Callable[[], bool]) -> None:
    """Nothing but questions for two keys, one of which may have been used."""
    keys, end = [("loop", "nobody uses this one"), ("loop", "k0")], time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        await service.store.write(lambda _: None, keys)
        await asyncio.sleep(0.01)


async def until_known(service: Service) -> None:
    await until(service, lambda: knows(service, "nobody uses this one"))


def with_service(
    address: Address, work: Callable[[Service], Coroutine[Any, Any, None]], *, new: bool = True
) -> None:
    with opened(address) as service:
        if new:
            create(service)
        asyncio.run(work(service))
        assert len(set(digests(service))) == 1


def test_a_set_has_the_same_bits_key_by_key_and_by_hashes() -> None:
    one, many = UsedKeys(3000), UsedKeys(3000)
    keys = ODD + [f"key {number}" for number in range(3000)]
    for key in keys:
        one.add(key)
    many.add_hashes(b"".join(sha256(key.encode()).digest()[:8] for key in keys))
    assert one._bits == many._bits and one.count == many.count == len(keys)
    assert all(key in one for key in keys)


def test_a_set_takes_few_new_keys_for_used_ones_until_it_is_full() -> None:
    """The keys are always the same, so this cannot fail by chance."""
    used = UsedKeys(0)
    while not used.is_full:
        used.add(f"used {used.count}")
    wrong = sum(f"new {number}" in used for number in range(50_000))
    assert used.count == 8193 and 10 <= wrong <= 50  # 29 are expected
    assert used.size == 2**17 and UsedKeys(10**9).size == postgres_keys.LARGEST
    assert UsedKeys(8193).size == 2**19  # twice the keys before it is full


@pytest.mark.parametrize("keys", [0, 1, 3000, 8192, 8193])
def test_a_folded_set_is_the_one_of_its_keys(keys: int) -> None:
    large, right = UsedKeys(10**6), UsedKeys(keys)
    for number in range(keys):
        large.add(f"key {number}")
        right.add(f"key {number}")
    large.fold()
    assert (large.size, large._bits, large.count) == (right.size, right._bits, right.count)


def ended(keys: NewKeys, name: str, loop: int, used: UsedKeys) -> None:
    """As if all keys of a loop had been read."""
    keys._scan = scan = Scan(keys.address, name, loop, ())
    scan.used, scan.ended = used, True
    keys.settle()


def test_a_loop_that_found_no_room_is_read_when_another_leaves_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_keys, "ROOM", postgres_keys.SMALLEST)
    keys = NewKeys(NOWHERE)
    ended(keys, "first", 1, UsedKeys(0))
    ended(keys, "second", 2, UsedKeys(0))
    assert keys.find_new("first", "a") == 1 and keys.find_new("second", "a") is None
    keys.keep(lambda name: True)
    assert not keys.wants("second")
    keys.keep(lambda name: name == "second")
    assert keys.wants("second")
    ended(keys, "second", 2, UsedKeys(0))
    assert keys.find_new("second", "a") == 2


def test_where_no_thread_can_be_started_keys_are_read_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Scan) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Scan, "start", fail)
    monkeypatch.setattr(postgres_keys, "PAUSE", 0.0)
    keys = NewKeys(NOWHERE)
    keys.scan("loop", 1, ())
    assert keys.wants("loop")


def test_decisions_without_a_key_take_no_room(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_keys, "SMALLEST", 2**7)

    async def work(service: Service) -> None:
        for _ in range(50):
            decide(service)
        await ask(service, "k0")
        await until_known(service)
        keys: Any = service.store._engine.connection._new_keys  # type: ignore[attr-defined]
        assert keys._used["loop"][1].size == 2**7

    with_service(address, work)


def test_a_new_key_is_decided_by_one_statement_and_a_used_one_is_looked_up(address: Address) -> None:
    async def work(service: Service) -> None:
        first = await ask(service, "first")
        await until_known(service)
        assert not knows(service, "first") and knows(service, "a", "b") and not knows(service, "a", "first")
        raw: Any = service.store._engine.connection._raw  # type: ignore[attr-defined]
        execute, said = raw.execute, []

        def listen(statement: Any, *values: Any, **options: Any) -> Any:
            said.append(statement)
            return execute(statement, *values, **options)

        raw.execute = listen
        second = await ask(service, "second")
        assert said == [own_sql.APPEND.encode()]
        assert await ask(service, "second") == second and await ask(service, "first") == first
        assert said[1:] == [own_sql.LOOK_UP.encode()] * 2

    with_service(address, work)


def test_every_used_key_is_found_after_a_restart(address: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page by page, with decisions without a key among them, and keys that are not plain."""
    monkeypatch.setattr(postgres_keys, "PAGE", 4)
    made = dict[str, str]()

    async def use(service: Service) -> None:
        for key in ODD:
            made[key] = await ask(service, key)
            decide(service)

    async def look(service: Service) -> None:
        await until_known(service)
        assert not any(knows(service, key) for key in ODD)
        assert {key: await ask(service, key) for key in ODD} == made

    with_service(address, use)
    with_service(address, look, new=False)


@pytest.mark.parametrize("together", [True, False])
def test_a_key_of_two_groups_under_way_gets_one_decision(address: Address, together: bool) -> None:
    """In one group, and in one that waits while the other is committed."""

    async def work(service: Service) -> None:
        await ask(service, "first")
        await until_known(service)
        for number in range(10):
            asked = asyncio.ensure_future(ask(service, f"k{number}"))
            while not together and not (service.store._running and not service.store.waiting):
                await asyncio.sleep(0)
            again = [asyncio.ensure_future(ask(service, f"k{number}")) for _ in range(3)]
            assert together or not asked.done()
            assert len({await each for each in [asked, *again]}) == 1
        assert service.loops.get("loop").state.decided == 11

    with_service(address, work)


def test_a_key_that_is_used_while_keys_are_read_is_not_missed(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, was_read, go_on = Scan._read, threading.Event(), threading.Event()

    def stand_still(scan: Scan, raw: Any) -> None:
        read(scan, raw)
        was_read.set()
        assert go_on.wait(PATIENCE)

    monkeypatch.setattr(Scan, "_read", stand_still)

    async def work(service: Service) -> None:
        await ask(service, "before")
        assert await asyncio.to_thread(was_read.wait, PATIENCE)
        made = await ask(service, "meanwhile")
        go_on.set()
        await until_known(service)
        assert not knows(service, "before") and not knows(service, "meanwhile")
        assert await ask(service, "meanwhile") == made

    with_service(address, work)


def test_a_key_whose_commit_failed_is_not_used_and_gets_a_decision(
    address: Address, postgres: Cluster
) -> None:
    """Another server has written an event, so a group is refused and memory is read again."""

    async def work(service: Service) -> None:
        await ask(service, "first")
        await until_known(service)
        event = 'INSERT INTO linoto.events VALUES (1, 2, 1e9, \'{"kind":"drawn"}\')'
        assert postgres.psql(name_of(address), event).returncode == 0
        asked = await asyncio.gather(*(ask(service, key) for key in "aab"), return_exceptions=True)
        assert [type(each) for each in asked] == [Unavailable] * 3
        again = [await ask(service, key) for key in "aab"]
        assert again == ["1-2", "1-2", "1-3"]

    with_service(address, work)


def test_a_key_that_another_has_used_is_refused_and_then_found(address: Address, postgres: Cluster) -> None:
    """Nobody can, while the lock is held: the index of keys is the last defence."""

    async def work(service: Service) -> None:
        first = await ask(service, "first")
        await until_known(service)
        row = "INSERT INTO linoto.decisions SELECT loop, 99, seq, at, 'theirs', arm, mode, source, part, "
        row += "loop_mode, propensity FROM linoto.decisions"
        assert postgres.psql(name_of(address), row).returncode == 0
        assert knows(service, "theirs")
        with pytest.raises(Unavailable, match="another server has written"):
            await ask(service, "theirs")
        assert not knows(service, "another")  # where one was missed, others may be
        assert await ask(service, "theirs") == first

    with_service(address, work)


def test_what_is_known_of_keys_goes_with_the_session_that_has_the_locks(
    address: Address, postgres: Cluster
) -> None:
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(address)}'"

    async def work(service: Service) -> None:
        made = [await ask(service, key) for key in "ab"]
        await until_known(service)
        assert postgres.psql("postgres", end).returncode == 0
        while not service.store._engine.cut:
            await asyncio.sleep(0.01)
        await service.store.regain()
        assert not knows(service, "new")
        assert [await ask(service, key) for key in "ab"] == made
        await until_known(service)
        assert [await ask(service, key) for key in "abc"] == [*made, "1-3"]

    with_service(address, work)


def test_a_key_that_was_pruned_gets_a_new_decision(address: Address, postgres: Cluster) -> None:
    async def work(service: Service) -> None:
        made = await ask(service, "old")
        await until_known(service)
        delete = "DELETE FROM linoto.decisions WHERE key = 'old'"
        assert postgres.psql(name_of(address), delete).returncode == 0
        assert not knows(service, "old")
        again = await ask(service, "old")
        assert again != made and await ask(service, "old") == again

    with_service(address, work)


def test_a_set_that_is_full_is_read_again_and_misses_nothing(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_keys, "SMALLEST", 2**7)

    async def work(service: Service) -> None:
        made = {f"k{number}": await ask(service, f"k{number}") for number in range(100)}
        keys: Any = service.store._engine.connection._new_keys  # type: ignore[attr-defined]
        await until(service, lambda: "loop" in keys._used and keys._used["loop"][1].size >= 16 * 100)
        assert not any(knows(service, key) for key in made)
        assert {key: await ask(service, key) for key in made} == made

    with_service(address, work)


@pytest.mark.parametrize("limit", ["LARGEST", "ROOM"])
def test_a_loop_with_too_many_keys_is_looked_up_as_ever(
    address: Address, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(postgres_keys, limit, 2**7)

    async def work(service: Service) -> None:
        made = {f"k{number}": await ask(service, f"k{number}") for number in range(20)}
        keys: Any = service.store._engine.connection._new_keys  # type: ignore[attr-defined]
        await until(service, lambda: "loop" in keys._without)
        assert not knows(service, "new") and not keys.wants("loop")
        assert {key: await ask(service, key) for key in made} == made

    with_service(address, work)
