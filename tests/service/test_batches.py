"""Many decisions in one request: as if they came one after the other, all of them or none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import loops_with_contexts, service_process
from helpers.loops import THOMPSON, change, decide, digests, reward
from helpers.loops_with_contexts import POLICIES, RECIPE, context_of, log_of
from helpers.service_process import FakeClock, opened, served
from litestar.testing import TestClient

import linoto
from linoto.client import AsyncClient, ServiceError
from linoto.service.errors import Refused
from linoto.service.loops.batches import most_in_batch
from linoto.service.loops.operations import RewardResult
from linoto.service.loops.recipe_spec import RecipeSpec
from linoto.service.server import Service
from linoto.service.storage import sql
from linoto.service.storage.connection import LateRowError
from linoto.service.storage.places import Place
from linoto.service.storage.sqlite import TOGETHER
from linoto.service.web.framework import read_body
from linoto.service.web.messages import DecideBatch, DecisionResponse, RewardReport, decision_response

Request = dict[str, Any]
CLOSED = linoto.Gated(gate=linoto.Closed(), fallback=0)  # explores nothing, and only arm a is safe


def decide_many(service: Service, requests: list[Request], name: str = "loop") -> list[DecisionResponse]:
    loops = service.loops
    made = service.store.write_sync(lambda connection: loops.decide_many(connection, name, requests))
    return [decision_response(loops.get(name), event) for event in made]


def fixed(rng: np.random.Generator, i: int) -> Request:
    allowed = {"allowed": ["a", "b"]} if rng.random() < 0.3 else {}
    return {"key": f"k{i}", **allowed} if rng.random() < 0.5 else allowed


def in_context(rng: np.random.Generator, i: int) -> Request:
    arms = {"arms": ["A", "C"]} if rng.random() < 0.3 else {}
    return {"context": context_of(rng), **arms, **({"key": f"k{i}"} if rng.random() < 0.5 else {})}


LOOPS: dict[str, tuple[Callable[..., None], Any, Callable[..., Request]]] = {
    "fixed arms": (service_process.create, service_process.TOLERANT, fixed),
    "fixed arms, Thompson": (service_process.create, THOMPSON, fixed),
    "contexts, model": (loops_with_contexts.create, POLICIES["model"], in_context),
    "contexts, coin": (loops_with_contexts.create, POLICIES["coin"], in_context),
    "contexts, Thompson": (loops_with_contexts.create, POLICIES["Thompson"], in_context),
}


def play(service: Service, kind: str, size: int) -> list[DecisionResponse]:
    """24 requests in batches of this size (0: each by itself), and rewards after every twelfth."""
    create, policy, make = LOOPS[kind]
    create(service, policy=policy)
    rng, values, made = np.random.default_rng(4), np.random.default_rng(5), list[DecisionResponse]()
    while len(made) < 24:
        requests = [make(rng, len(made) + i) for i in range(max(size, 1))]
        made += decide_many(service, requests) if size else [decide(service, **requests[0])]
        if len(made) % 12 == 0:
            for answer in made[-12:]:
                reward(service, answer.decision_id, float(values.random() < 0.5))
    return made


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.few(2)
def test_a_batch_is_the_same_requests_one_after_the_other(tmp_path: Path, kind: str) -> None:
    """The same answers and the same state, bit for bit; in memory, from a snapshot, and from the events."""
    seen = []
    for size in (0, 4):
        path = tmp_path / f"{size}.sqlite"
        with opened(path, clock=FakeClock(), snapshot_every=11) as service:
            made = play(service, kind, size)
            (digest,) = set(digests(service))
        with opened(path, clock=FakeClock()) as service:
            assert set(digests(service)) == {digest}
        seen.append((digest, made))
    assert seen == seen[:1] * 2 and len({made.decision_id for made in seen[0][1]}) == 24


def test_repeating_a_batch_changes_nothing_and_a_key_is_one_decision(any_place: Place) -> None:
    with opened(any_place) as service:
        loops_with_contexts.create(service)
        rng = np.random.default_rng(0)
        requests = [{"context": context_of(rng), "key": f"k{i}"} for i in range(6)]
        requests.append(requests[2])  # the same key twice in one batch
        before = service.store.measures.commits
        first = decide_many(service, requests)
        assert service.store.measures.commits == before + 1  # one sync for all of them
        assert first[6] == first[2] and len({each.decision_id for each in first}) == 6
        digest = digests(service)
        assert decide_many(service, requests) == first
        assert decide(service, **requests[3]) == first[3]
        assert digests(service) == digest


WRONG: dict[str, tuple[int, Request, str]] = {
    "unknown field": (422, {"context": {"age": 1, "country": "DE", "x": 1}}, "fields of the recipe only"),
    "missing field": (422, {"context": {"age": 1}}, "must have the field 'country'"),
    "unknown arm": (422, {"context": {"age": 1, "country": "DE"}, "arms": ["Q"]}, "among the 3 items"),
    "key of another request": (409, {"context": {"age": 2, "country": "DE"}, "key": "old"}, "used with"),
    "key of the same batch": (409, {"context": {"age": 3, "country": "DE"}, "key": "new"}, "used with"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.few(2)
def test_a_refused_request_is_named_and_nothing_of_its_batch_is_kept(any_place: Place, name: str) -> None:
    status, wrong, message = WRONG[name]
    good = {"context": {"age": 30, "country": "NO"}}
    with opened(any_place) as service:
        loops_with_contexts.create(service)
        decide(service, **good, key="old")
        digest = digests(service)
        with pytest.raises(Refused, match=rf"^decisions\[2\]: .*{message}") as refusal:
            decide_many(service, [{**good, "key": "new"}, good, wrong, good])
        assert refusal.value.status == status
        assert digests(service) == digest
        assert service.store.measures.failures == 0
        assert decide(service, **good, key="new").decision_id == "1-2"  # the key is free again


def test_what_only_shows_in_the_middle_is_undone_and_the_requests_of_others_are_kept(
    place: Place,
) -> None:
    """They wait together, so they share the transaction that is rolled back."""
    unsafe = [{}, {"allowed": ["b"]}]  # the first is decided before the second turns out to have no safe arm

    async def together(service: Service) -> list[Any]:
        loops, write = service.loops, service.store.write
        answers = await asyncio.gather(
            write(lambda connection: loops.decide(connection, "loop", key="before")),
            write(lambda connection: loops.decide_many(connection, "loop", unsafe)),
            write(lambda connection: loops.decide(connection, "loop", key="after")),
            return_exceptions=True,
        )
        await service.store.check_ready()  # refusing is no failure of the disk
        return answers

    with opened(place) as service:
        service_process.create(service, policy=CLOSED)
        before, refused, after = asyncio.run(together(service))
        assert (before.number, after.number) == (1, 2)
        assert isinstance(refused, Refused) and refused.code == "no_safe_arm"
        assert refused.message.startswith("decisions[1]: ")
        assert service.loops.get("loop").state.decided == 2 and len(set(digests(service))) == 1
        assert service.store.measures.failures == 0


def test_a_batch_is_limited_by_what_it_makes_others_wait(any_place: Place) -> None:
    with opened(any_place) as service:
        loops_with_contexts.create(service)
        assert most_in_batch(service.loops.get("loop")) == 1000
        many = linoto.Recipe(
            items=tuple(f"i{i}" for i in range(100)),
            context=(linoto.Numeric(name="age"),),
            crosses=(("item", "age"),),
        )
        recipe = msgspec.convert(many.to_dict(), RecipeSpec)
        loops_with_contexts.create(service, "many", recipe=recipe, moments=None, practice="i0")
        loop = service.loops.get("many")
        most = most_in_batch(loop)
        assert most == 200_000_000 // (100 * many.d**2) < 100
        with pytest.raises(Refused, match=f"decisions must be at most {most} at once in loop 'many', got"):
            decide_many(service, [{"context": {"age": 3}}] * (most + 1), "many")


def test_an_archived_loop_refuses_a_batch_but_knows_old_keys(any_place: Place) -> None:
    with opened(any_place) as service:
        service_process.create(service)
        first = decide_many(service, [{"key": "a"}, {"key": "b"}])
        change(service, mode="safe-only")
        service.store.write_sync(lambda connection: service.loops.archive(connection, "loop", "test"))
        assert decide_many(service, [{"key": "b"}, {"key": "a"}]) == first[::-1]
        with pytest.raises(Refused, match="archived"):
            decide_many(service, [{"key": "a"}, {"key": "c"}])


def test_both_clients_decide_and_report_many(tmp_path: Path) -> None:
    contexts = [{"age": age, "country": country} for age in (20, 60) for country in ("DE", "NO", None)]
    with served(tmp_path / "x.sqlite") as server:
        with server.client() as client:
            client.create(
                "shop",
                policy=POLICIES["coin"],
                practice="C",
                recipe=RECIPE,
                moments=log_of(),
                default_reward=0.0,
            )
            made = client.decide_many("shop", [{"context": context} for context in contexts])
            assert [each.decision_id for each in made] == [f"1-{i}" for i in range(1, 7)]
            assert all(each.reason for each in made)
            results = client.rewards("shop", [(each.decision_id, 1.0) for each in made])
            assert {result.status for result in results} == {"applied"}
            with pytest.raises(ServiceError, match=r"decisions\[1\]: context must have") as refusal:
                client.decide_many("shop", [{"context": contexts[0]}, {"context": {}}])
            assert refusal.value.status == 422

        async def ask() -> list[str]:
            async with AsyncClient(server.url) as other:
                found = await other.decide_many("shop", [{"context": contexts[0], "key": k} for k in "xyx"])
                return [each.decision_id for each in found]

        assert asyncio.run(ask()) == ["1-7", "1-8", "1-7"]


def test_rewards_without_a_decision_are_refused_before_any_is_recorded(any_place: Place) -> None:
    with opened(any_place) as service:
        service_process.create(service)
        decide(service, key="a")
        with TestClient(service.app, base_url="http://127.0.0.1") as client:
            body = {"rewards": [{"key": "a", "reward": 1}, {"key": "a", "decision_id": "1-1", "reward": 1}]}
            refused = client.post("/v1/loops/loop/rewards", json=body)
            assert refused.status_code == 422
            assert refused.json()["error"]["message"].startswith("rewards[1]: a reward must have")
            assert service.loops.get("loop").state.learned == 0
            assert client.post("/v1/loops/loop/decisions", json={"decisions": []}).status_code == 400


def reward_many(service: Service, reports: list[Request]) -> list[RewardResult]:
    told = [RewardReport(**report) for report in reports]
    return service.store.write_sync(lambda connection: service.loops.reward_many(connection, "loop", told))


def test_many_rewards_are_the_same_rewards_one_after_the_other(any_place: Place, tmp_path: Path) -> None:
    """By id or by key, applied, repeated, contradicted and unknown: the same answers, and the same state."""
    reports: list[Request] = [
        {"key": "a", "reward": 1.0},
        {"decision_id": "1-3", "reward": 0.0},
        {"key": "a", "reward": 1.0},  # again
        {"decision_id": "1-1", "reward": 0.0},  # the same decision, contradicted
        {"key": "nobody", "reward": 1.0},
        {"decision_id": "1-9", "reward": 1.0},
        {"key": "b", "reward": 7.0},
        {"key": "b", "reward": 0.0},
    ]
    seen = []
    for place, together in ((any_place, True), (tmp_path / "single.sqlite", False)):
        with opened(place, clock=FakeClock()) as service:
            service_process.create(service)
            decide_many(service, [{"key": "a"}, {"key": "b"}, {}])
            if together:
                results = reward_many(service, reports)
            else:
                results = [each for report in reports for each in reward_many(service, [report])]
            (digest,) = set(digests(service))
            seen.append((digest, results))
    assert seen[0] == seen[1]
    statuses = " ".join(result.status for result in seen[0][1])
    assert statuses == "applied applied duplicate conflict unknown unknown invalid applied"


def test_a_batch_looks_all_its_keys_up_together(tmp_path: Path) -> None:
    """What is read of the database does not grow with the number of requests, up to hundreds of them."""
    with opened(tmp_path / "x.sqlite") as service:
        service_process.create(service)
        for size in (3, 300):
            keys, read = [f"{size}-{i}" for i in range(size)], list[str]()

            def counted(connection: Any, keys: list[str] = keys, read: list[str] = read) -> None:
                connection.set_trace_callback(read.append)
                service.loops.decide_many(connection, "loop", [{"key": key} for key in keys])
                told = [RewardReport(key=key, reward=1.0) for key in keys]
                results = service.loops.reward_many(connection, "loop", told)
                connection.set_trace_callback(None)
                assert {result.status for result in results} == {"applied"}

            service.store.write_sync(counted)
            asking = [statement for statement in read if "SELECT" in statement]
            assert len(asking) == 2
            for statement in asking:  # one key costs the same, however many decisions a loop has
                steps = plan_of(service, statement)
                assert any("decision_keys (loop=? AND key=?)" in step for step in steps), steps
                assert not any(step.endswith("(loop=?)") for step in steps), steps


def plan_of(service: Service, statement: str) -> list[str]:
    """How SQLite finds what a statement asks for."""
    with closing(service.store.reading()) as connection:
        return [step[3] for step in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]


def test_rows_that_are_written_together_are_those_that_are_written_one_by_one(tmp_path: Path) -> None:
    """As many as a statement takes, one more and one fewer; a row that is refused undoes all of them."""
    for size in (TOGETHER - 1, TOGETHER, 2 * TOGETHER + 1):
        with opened(tmp_path / f"{size}.sqlite") as service:
            service_process.create(service)
            decide_many(service, [{"key": f"{i}"} for i in range(size)])
            with closing(service.store.reading()) as connection:
                rows = connection.execute("SELECT number, key FROM decisions ORDER BY number").fetchall()
                assert rows == [(i + 1, f"{i}") for i in range(size)]
                assert connection.execute("SELECT count(*) FROM events").fetchone()[0] >= size

            def twice(connection: Any, size: int = size) -> None:
                for number in [*range(size + 1, 2 * size + 1), size]:
                    connection.append("rewards", (1, number, 0.0, 1.0, "reported", number))
                connection.append("rewards", (1, size, 0.0, 1.0, "reported", size))

            before = digests(service)
            with pytest.raises(LateRowError):
                service.store.write_sync(twice)
            with closing(service.store.reading()) as connection:
                assert connection.execute("SELECT count(*) FROM rewards").fetchone()[0] == 0
            assert digests(service) == before


def test_what_is_appended_is_seen_in_its_transaction_and_gone_with_it(any_place: Place) -> None:
    """Rows wait until they are asked for or committed; who asks does not notice."""
    with opened(any_place) as service:
        service_process.create(service)
        loops = service.loops

        def twice(connection: Any) -> list[int]:
            made = [loops.decide(connection, "loop", key="a").number for _ in range(2)]
            return [*made, sql.numbers_of_keys(connection, 1, ["a", "b"])["a"]]

        assert service.store.write_sync(twice) == [1, 1, 1]

        def fail(connection: Any) -> None:
            loops.decide(connection, "loop", key="b")
            raise RuntimeError("not kept")

        with pytest.raises(RuntimeError, match="not kept"):
            service.store.write_sync(fail)
        assert service.store.write_sync(lambda c: sql.numbers_of_keys(c, 1, ["a", "b"])) == {"a": 1}
        assert loops.get("loop").state.decided == 1 and len(set(digests(service))) == 1


def put(fields: list[tuple[str, str]]) -> str:
    """An object with these fields, as they are written."""
    return "{" + ",".join(f'"{name}":{value}' for name, value in fields) + "}"


@pytest.mark.parametrize("again", [True, False])
def test_a_field_that_is_named_twice_is_refused_wherever_it_is_and_whatever_texts_hold(again: bool) -> None:
    """Colons in texts, escaped or not, hide nothing, and values that could be left out are no second name."""
    rng, texts = np.random.default_rng(2), ['"a"', '"a:b"', '"\\u003a"', '"\u00e4:"', '":::"']
    for _ in range(300):
        requests = []
        for _ in range(3):
            fields = [("key", rng.choice(texts)), ("context", put([("x", rng.choice(texts)), ("y", "null")]))]
            fields += [("arms", "null")] if rng.random() < 0.5 else []
            requests.append(fields)
        if again:
            asked = requests[rng.integers(3)]
            asked.append((asked[rng.integers(len(asked))][0], "null"))
        body = put([("decisions", "[" + ", ".join(map(put, requests)) + "]")]).encode()
        if again:
            with pytest.raises(Refused, match=r"a field must be given once, got '(key|context|arms)' twice"):
                read_body(body, DecideBatch)
        else:
            assert len(read_body(body, DecideBatch).decisions) == 3
