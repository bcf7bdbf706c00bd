"""Rewards by key, keys and contexts in lists and exports, tokens that expire or are for some loops only."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from helpers.service_process import FakeClock, create, opened
from litestar.testing import TestClient

from linoto.cli import main
from linoto.service.errors import Refused, Unavailable
from linoto.service.server import Service
from linoto.service.storage import tokens
from linoto.service.storage.database import open_database
from linoto.service.storage.parts import View
from linoto.service.storage.places import Place
from linoto.service.web.access import LOOKS, Access, create_token, rotate_token
from linoto.service.web.peers import Answer, Peers, UntrustedError
from linoto.service.web.shared import Shared


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        yield service


@pytest.fixture
def client(service: Service) -> Iterator[TestClient[Any]]:
    with TestClient(service.app, base_url="http://127.0.0.1") as client:
        yield client


def test_a_reward_finds_its_decision_by_key_as_by_id(client: TestClient[Any]) -> None:
    made = client.post("/v1/loops/loop/decide", json={"key": "visit/1 ü"}).json()
    told = [
        client.put("/v1/loops/loop/reward", json={"key": "visit/1 ü", "reward": reward})
        for reward in (1, 1, 0)
    ]
    assert [each.status_code for each in told] == [200, 200, 409]
    assert told[0].json() == {
        "decision_id": made["decision_id"],
        "status": "applied",
        "code": 200,
        "reward": 1.0,
    }
    by_id = client.put("/v1/loops/loop/reward", json={"decision_id": made["decision_id"], "reward": 1})
    assert by_id.json()["status"] == "duplicate"
    assert client.put("/v1/loops/loop/reward", json={"key": "nobody", "reward": 1}).status_code == 404
    for wrong in ({"reward": 1}, {"key": "a", "decision_id": "1-1", "reward": 1}):
        refused = client.put("/v1/loops/loop/reward", json=wrong)
        assert refused.status_code == 422 and "decision_id or a key" in refused.text


def test_many_rewards_may_be_named_either_way(client: TestClient[Any]) -> None:
    made = [
        client.post("/v1/loops/loop/decide", json={"key": f"{n}"}).json()["decision_id"] for n in range(3)
    ]
    rewards: list[dict[str, Any]] = [{"key": "0", "reward": 1}, {"decision_id": made[1], "reward": 0}]
    rewards += [{"key": "0", "reward": 0}, {"key": "nobody", "reward": 1}]
    results = client.post("/v1/loops/loop/rewards", json={"rewards": rewards}).json()["results"]
    assert [each["status"] for each in results] == ["applied", "applied", "conflict", "unknown"]
    assert [each["decision_id"] for each in results] == [made[0], made[1], made[0], ""]


def test_lists_explanations_and_exports_say_what_a_decision_was_asked_for_with(
    client: TestClient[Any],
) -> None:
    asked = [{"key": "k"}, {"key": "m", "proposal": "b", "allowed": ["b", "a"]}, {}]
    made = [client.post("/v1/loops/loop/decide", json=body).json()["decision_id"] for body in asked]
    said = [("k", None, None), ("m", "b", ["a", "b"]), (None, None, None)]
    rows = client.get("/v1/loops/loop/decisions").json()[::-1]
    assert [(row["key"], row["proposal"], row["allowed"]) for row in rows] == said
    assert [row["decision_id"] for row in client.get("/v1/loops/loop/decisions?key=m").json()] == [made[1]]
    why = client.get(f"/v1/loops/loop/decisions/{made[1]}").json()
    assert (why["key"], why["allowed"]) == ("m", ["a", "b"])
    exported = client.get("/v1/loops/loop/export?pending=true").content
    table = pq.read_table(io.BytesIO(exported)).to_pylist()
    assert [(row["key"], row["proposal"], row["allowed"]) for row in table] == said


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_token_is_worth_nothing_after_it_has_expired(service: Service) -> None:
    clock = service.access.wall = FakeClock(1000.0)
    token = service.store.write_sync(lambda c: create_token(c, "shop", "reader", 1000.0, expires_at=1100.0))
    service.store.write_sync(service.access.refresh)
    headers = {b"authorization": b"Bearer " + token.encode()}
    clock.now = 1099.9
    assert service.access.identify(headers).name == "shop"
    clock.now = 1100.0
    with pytest.raises(Refused, match="has expired") as refused:
        service.access.identify(headers)
    assert refused.value.status == 401
    with pytest.raises(ValueError, match="expire in the future"):
        service.store.write_sync(lambda c: create_token(c, "late", "reader", 5.0, expires_at=5.0))


def test_a_token_for_some_loops_sees_and_does_nothing_elsewhere(
    service: Service, client: TestClient[Any]
) -> None:
    create(service, "other")
    for name in ("loop", "other"):
        service.store.write_sync(lambda c, name=name: service.loops.decide(c, name, key="k"))
    some = service.store.write_sync(lambda c: create_token(c, "some", "admin", 0.0, loops=["other", "new"]))
    service.store.write_sync(service.access.refresh)
    client.headers.update(bearer(some))
    assert [loop["name"] for loop in client.get("/v1/loops").json()] == ["other"]
    metrics = client.get("/metrics").text
    assert 'loop="other"' in metrics and 'loop="loop"' not in metrics
    assert client.post("/v1/loops/other/decide", json={}).status_code == 200
    assert [row["loop"] for row in client.get("/v1/decisions?key=k").json()] == ["other"]
    requests: list[tuple[str, str, Any]] = [
        ("GET", "/v1/loops/loop", None),
        ("POST", "/v1/loops/loop/decide", {}),
        ("PUT", "/v1/loops/loop/reward", {"key": "k", "reward": 1}),
        ("PATCH", "/v1/loops/loop", {"mode": "safe-only"}),
        ("DELETE", "/v1/loops/loop", None),
        ("GET", "/v1/loops/loop/export", None),
        (
            "PUT",
            "/v1/loops/third",
            {"arms": [{"name": "a"}], "policy": {"type": "LinUCB"}, "default_reward": 0},
        ),
    ]
    for method, path, body in requests:
        refused = client.request(method, path, json=body)
        assert refused.status_code == 403 and "is not for the loop" in refused.text, (method, path)
    assert client.put("/v1/loops/new", json=requests[-1][2]).status_code == 200
    assert service.loops.get("loop").state.seq == 1


def test_token_and_db_commands_speak_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        create(service)

    def said(*words: str) -> Any:
        assert main([*words, "--db", str(path), "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = said("db", "token", "create", "shop", "--days", "30", "--loop", "loop", "--loop", "a")
    assert made["token"].startswith("linoto_") and made["loops"] == ["loop", "a"]
    (listed,) = said("db", "token", "list")
    assert (listed["name"], listed["role"], listed["loops"]) == ("shop", "writer", ["a", "loop"])
    assert listed["expires_at"] == made["expires_at"] and "digest" not in listed
    assert main(["db", "token", "list", "--db", str(path)]) == 0
    assert capsys.readouterr().out == "writer  shop  (only a, loop; expires in 30.0 days)\n"
    assert said("db", "token", "revoke", "shop") == {"revoked": "shop"}
    assert said("db", "check")["lines"][0] == f"{path}: file ok"
    for words in (
        ["backup", str(tmp_path / "copy.sqlite")],
        ["rebuild"],
        ["migrate"],
        ["prune", "--days", "1"],
    ):
        assert len(said("db", *words)["lines"]) == 1


def test_a_token_is_followed_by_another_while_both_are_valid_for_a_time(tmp_path: Path) -> None:
    """With the same role and limits; and what is revoked is revoked with those before it."""
    path = tmp_path / "x.sqlite"
    with open_database(path, create=True) as connection:
        first = create_token(connection, "shop", "writer", 1000.0, 5.0, loops=["loop"])
        second = rotate_token(connection, "shop", 1100.0, 60.0)
        third = rotate_token(connection, "shop", 1110.0, 60.0)
        clock = FakeClock()
        access = Access(wall=clock)
        access.refresh(connection)

        def valid(token: str) -> bool:
            try:
                caller = access.identify({b"authorization": f"Bearer {token}".encode()})
            except Refused:
                return False
            assert (caller.role, caller.rate, caller.loops) == ("writer", 5.0, frozenset({"loop"}))
            return True

        for clock.now, good in (
            (1120.0, {first, second, third}),
            (1165.0, {second, third}),
            (1175.0, {third}),
        ):
            assert {token for token in (first, second, third) if valid(token)} == good
        clock.now = 1120.0
        create_token(connection, "shop (before", "reader", 1000.0)  # of somebody else
        assert tokens.revoke_token(connection, "shop", clock.now)
        access.refresh(connection)
        assert [valid(token) for token in (first, second, third)] == [False] * 3
        assert [row[0] for row in tokens.all_tokens(connection)] == ["shop (before"]
        with pytest.raises(ValueError, match="there is no token 'shop'"):
            rotate_token(connection, "shop", clock.now, 60.0)
    assert main(["db", "token", "rotate", "shop (before", "--db", str(path), "--overlap", "5"]) == 0


def test_a_token_works_from_the_moment_it_is_made(any_place: Place) -> None:
    """Whoever made it: it is looked for before it is refused."""
    with opened(any_place) as service, TestClient(service.app, base_url="http://127.0.0.1") as client:
        made = []
        for name in ("first", "second"):
            with open_database(any_place) as connection:
                made.append(create_token(connection, name, "reader", 0.0))
            if name == "first":
                service.store.write_sync(service.access.refresh)  # from now on every request needs one
            assert client.get("/v1/loops", headers=bearer(made[-1])).status_code == 200
        assert client.get("/v1/loops", headers=bearer(made[0] + "x")).status_code == 401


def test_many_wrong_tokens_are_refused_without_many_readings(service: Service) -> None:
    clock, readings = FakeClock(), list[object]()
    read = service.access.read
    assert read is not None
    service.access.clock, service.access.guarded = clock, True
    service.access.read = lambda job: (readings.append(job), read(job))[1]

    async def knock(names: list[str]) -> int:
        """How many of these are refused, all at once."""
        asked = (service.access.recognise({b"authorization": f"Bearer {name}".encode()}) for name in names)
        return sum(isinstance(each, Refused) for each in await asyncio.gather(*asked, return_exceptions=True))

    async def one_by_one(count: int) -> None:
        for n in range(count):
            assert await knock([f"linoto_{n}"]) == 1

    asyncio.run(one_by_one(50))
    assert len(readings) == LOOKS
    token = service.store.write_sync(lambda c: create_token(c, "shop", "reader", 0.0))
    assert asyncio.run(knock([token])) == 1  # so many came that nobody looks: the next reading finds it
    clock.now += 1.0 / LOOKS
    assert asyncio.run(knock([token, "linoto_x", "linoto_y", "other", ""])) == 4
    assert len(readings) == LOOKS + 1  # together they are one reading
    clock.now += 10.0
    assert asyncio.run(knock(["other", ""])) == 2 and len(readings) == LOOKS + 1  # none of ours


def shared_with(service: Service, peers: Peers) -> Shared:
    """As one of two servers, which has no loop yet."""
    view = View(me=0, servers={0: "http://a", 1: "http://b"}, owners={}, awake={0, 1})
    spread: Any = SimpleNamespace(served=set(), store=SimpleNamespace(view=view, url="http://a"))
    return Shared(service.app, spread, peers, service.access)


async def ask(app: Any, path: str, headers: dict[str, str] | None = None) -> httpx.Response:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get(path, headers=headers)


@pytest.mark.parametrize("path", ["/v1/loops", "/v1/loops?after=x", "/v1/loops/x", "/v1/loops/x/report"])
@pytest.mark.few(4)
def test_where_tokens_cannot_be_read_an_unknown_one_is_told_so_in_the_one_shape(
    service: Service, path: str
) -> None:
    """By a server that shares its loops with others too, whichever of them has the loop."""

    def fail(_: object) -> None:
        raise Unavailable("the database could not be read: it is away")

    service.access.guarded, service.access.read = True, fail
    for app in (service.app, shared_with(service, Peers(None))):
        answer = asyncio.run(ask(app, path, bearer("linoto_unknown")))
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (503, "unavailable"), answer.text
        assert "it is away" in error["message"]


class Strangers(Peers):
    """Other servers, none of which is trusted."""

    async def ask(self, url: str, scope: Any, place: str) -> Answer:
        raise UntrustedError(f"{url} is not trusted here: its certificate is not known")


def test_a_list_names_a_server_that_is_not_trusted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linoto.service.web.shared.PATIENCE", 0.0)
    answer = asyncio.run(ask(shared_with(service, Strangers(None)), "/v1/overview"))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (503, "moving")
    assert "http://b is not trusted here" in error["message"] and "see --tls-cert" in error["message"]
