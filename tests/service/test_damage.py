"""Whatever is damaged of one loop, all others go on, and what is wrong is said with its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers.loops import decide, reward
from helpers.service_process import FakeClock, create, opened
from litestar.testing import TestClient

from linoto.cli import main
from linoto.service.errors import Refused
from linoto.service.loops.records import kept_promise
from linoto.service.maintenance import check, rebuild
from linoto.service.retention import prune_and_shrink
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection
from linoto.service.storage.database import open_database, open_exclusively
from linoto.service.storage.places import Address, Place


def make_two(place: Place) -> None:
    """A loop `bad`, number 1, and a loop `good`, with three decisions each."""
    with opened(place) as service:
        for name in ("bad", "good"):
            create(service, name)
            for t in range(3):
                decide(service, name, key=f"k{t}")


def execute(place: Place, statement: str, *values: Any) -> None:
    with open_exclusively(place) as connection:
        connection.begin()
        connection.execute(statement, values)
        connection.commit()


def test_a_loop_that_is_damaged_while_it_is_served_stops_no_other(place: Place) -> None:
    make_two(place)
    with opened(place) as service, TestClient(service.app, base_url="http://127.0.0.1") as client:

        def fail(connection: Connection) -> None:
            service.loops.decide(connection, "bad")
            service.loops.decide(connection, "good")
            raise ZeroDivisionError

        service.store.write_sync(
            lambda connection: connection.execute("UPDATE snapshots SET agent = ? WHERE loop = 1", (b"{",))
        )
        assert decide(service, "bad").loop_mode == "live"  # nobody has looked
        with pytest.raises(ZeroDivisionError):
            service.store.write_sync(fail)
        for _ in range(2):
            refused = client.post("/v1/loops/bad/decide", json={})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "damaged")
            assert client.post("/v1/loops/good/decide", json={}).status_code == 200
        assert client.get("/readyz").text == "ok, but 1 loop cannot be served"
        assert [line["damaged"] is None for line in client.get("/v1/overview").json()] == [False, True]
        assert service.loops.get("good").state.decided == 5
    with pytest.raises(ValueError, match="'bad' cannot go on from its snapshot"):
        list(check(place))
    assert list(rebuild(place)) == ["bad: replayed 4 events", "good: replayed 5 events"]
    assert len(list(check(place))) == 3


PROMISES = ["{}", "[]", "7", "{", '{"budgets": 4}']


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.few(3)
def test_a_promise_that_cannot_be_read_is_computed_again(any_place: Place, promise: str) -> None:
    make_two(any_place)
    execute(any_place, "UPDATE promises SET certificate = ? WHERE loop = 1", promise)
    with pytest.raises(ValueError, match="'bad': the promise that was kept is not the one"):
        list(check(any_place))
    with opened(any_place) as service:
        bad, good = (service.loops.get(name).first_certificate for name in ("bad", "good"))
        assert not service.loops.damaged and bad == good
    assert len(list(check(any_place))) == 3  # the start has kept it


@pytest.mark.parametrize("pruned", [False, True])
def test_a_check_computes_the_promise_that_is_kept_and_a_rebuild_mends_it(
    any_place: Place, pruned: bool
) -> None:
    make_two(any_place)
    if pruned:
        execute(any_place, "INSERT INTO bases SELECT loop, seq, books, agent, 0.0 FROM snapshots")
    with open_exclusively(any_place) as connection:
        kept = connection.execute("SELECT certificate FROM promises WHERE loop = 1").fetchone()[0]
    seal, text = kept.split(" ", 1)
    wrong = {key: 0.123 if isinstance(value, float) else value for key, value in json.loads(text).items()}
    altered = f"{seal} {json.dumps(wrong)}"
    execute(any_place, "UPDATE promises SET certificate = ? WHERE loop = 1", altered)
    with pytest.raises(ValueError, match=r"'bad': the promise that was kept .* `linoto db rebuild`"):
        list(check(any_place))
    with opened(any_place) as service:  # a start does not believe it either
        bad, good = (service.loops.get(name).first_certificate for name in ("bad", "good"))
        assert bad == good
    assert len(list(check(any_place))) == 3  # and has put it right
    execute(any_place, "UPDATE promises SET certificate = ? WHERE loop = 1", altered)
    list(rebuild(any_place))
    assert len(list(check(any_place))) == 3


def test_a_promise_that_nobody_changed_is_not_computed_again(any_place: Place) -> None:
    make_two(any_place)
    with open_database(any_place, readonly=True) as connection:
        secret = sql.secret_of(connection)[0]
        assert kept_promise(connection, 1, secret) is not None
        assert kept_promise(connection, 1, b"another database") is None
    execute(any_place, "UPDATE promises SET certificate = (SELECT certificate FROM promises WHERE loop = 1)")
    with open_database(any_place, readonly=True) as connection:
        assert kept_promise(connection, 2, secret) is None  # it is that of the other loop


def test_loops_as_they_were_kept_are_settled_without_a_statement(any_place: Place) -> None:
    make_two(any_place)
    execute(any_place, "UPDATE promises SET certificate = '' WHERE loop = 1")
    with opened(any_place) as service:
        bad, good = (service.loops.get(name) for name in ("bad", "good"))
        assert bad.promise_altered and not good.promise_altered
        nothing: Any = None  # in the place of the connection
        service.loops.settle(nothing, [good])
        with pytest.raises(AttributeError):
            service.loops.settle(nothing, [bad])


def test_a_rebuild_goes_on_after_a_loop_that_cannot_be_replayed(
    any_place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    make_two(any_place)
    execute(any_place, "UPDATE events SET body = ? WHERE loop = 1 AND seq = 2", b"{")
    execute(any_place, "DELETE FROM snapshots WHERE loop = 2")
    place = any_place.url if isinstance(any_place, Address) else str(any_place)
    assert main(["db", "rebuild", "--db", place]) == 1
    said = capsys.readouterr()
    assert "bad: NOT REPLAYED: loop 'bad', event 2 is damaged" in said.out
    assert "good: replayed 3 events" in said.out and "loop 'bad', event 2" in said.err
    with open_database(any_place, readonly=True) as connection:
        kept = connection.execute("SELECT loop FROM snapshots ORDER BY loop").fetchall()
    assert {row[0] for row in kept} == {1, 2}  # that of the damaged one stays, too


def test_a_file_shrinks_also_where_a_loop_was_left_out(place: Place) -> None:
    make_two(place)
    execute(place, "UPDATE events SET body = ? WHERE loop = 1 AND seq = 2", b"{")
    lines = list[str]()
    with pytest.raises(ValueError, match="'bad', event 2 is damaged"):
        for line in prune_and_shrink(place, before=2e9, now=2e9):
            lines.append(line)
    assert lines[0].startswith("bad: NOT PRUNED") and "MB are now" in lines[-1]


MADE = "loop 'bad' cannot be made from its spec: "
SPECS = {  # and what is said with a snapshot, and without one
    "not JSON": (b"\x00", *2 * ["loop 'bad' has a spec that is damaged: JSON is malformed.*db restore"]),
    "later": (b'{"version": 99, "new": 1}', *2 * ["loop 'bad' was made by a later version of linoto"]),
    "no arms": (b'{"policy": {}, "default_reward": 0.0}', *2 * [f"{MADE}recipe must .*db restore"]),
    "refused": (
        b'{"arms": [{"name": "a"}], "policy": {"type": "LinUCB", "ridge": -1.0}, "default_reward": 0.0, '
        b'"offline": {"pulls": [1], "reward_sums": [0.0]}, "version": 8}',
        f"{MADE}.*ridge.*db restore",
        f"{MADE}.*ridge.*db restore",
    ),
    "of others": (
        b'{"arms": [{"name": "a"}], "policy": {"type": "LinUCB"}, "default_reward": 0.0, "window": 1.0, '
        b'"offline": {"pulls": [-1], "reward_sums": [0.0]}, "version": 8}',
        "loop 'bad' .*; .*linoto db re",
        "loop 'bad' .*pulls.*db restore",
    ),
}


@pytest.mark.parametrize("kind", sorted(SPECS))
@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.few(4)
def test_a_spec_that_is_refused_is_that_loops_damage(any_place: Place, kind: str, saved: bool) -> None:
    make_two(any_place)
    spec, with_snapshot, without = SPECS[kind]
    why = with_snapshot if saved else without
    execute(any_place, "UPDATE loops SET spec = ? WHERE id = 1", spec)
    if not saved:
        execute(any_place, "DELETE FROM snapshots WHERE loop = 1")
    with pytest.raises(ValueError, match=why):
        list(check(any_place))
    with opened(any_place) as service:
        with pytest.raises(Refused, match=why):
            decide(service, "bad")
        assert decide(service, "good").loop_mode == "live"


@pytest.mark.parametrize("damage", ["the last event", "the snapshot"])
def test_of_a_damaged_loop_nothing_is_pruned_and_of_others_all_that_is_due(
    any_place: Place, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(any_place, clock=FakeClock()) as service:
        for name in ("bad", "good"):
            create(service, name)
            for _ in range(3):
                reward(service, decide(service, name).decision_id, 1.0, name)
    if damage == "the snapshot":
        execute(any_place, "UPDATE snapshots SET agent = ? WHERE loop = 1", b"{")
    else:
        execute(any_place, "INSERT INTO events VALUES (1, 7, 2000.0, ?)", b"{")
    words = ["db", "prune", "--days", "1", "--db", str(any_place)]
    if isinstance(any_place, Address):
        words[-1] = any_place.url
    for extra in (["--dry-run"], []):
        assert main([*words, *extra]) == 1
        out, error = capsys.readouterr()
        bad, good = out.splitlines()
        assert bad.startswith("bad: NOT PRUNED: loop 'bad'") and "prune" in good and "loop 'bad'" in error
    with open_exclusively(any_place) as connection:
        left = connection.execute("SELECT loop, count(*) FROM events GROUP BY loop ORDER BY loop").fetchall()
        based = connection.execute("SELECT loop FROM bases").fetchall()
    assert [tuple(each) for each in left] == [(1, 6 if damage == "the snapshot" else 7)]
    assert [tuple(each) for each in based] == [(2,)]
