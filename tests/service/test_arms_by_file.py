"""Loops whose arms come as a file: stored once, whole or not at all, and as durable as the loop itself."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.exits import run
from helpers.http import ask
from helpers.loops import digests
from helpers.postgres import Cluster
from helpers.service_process import FakeClock, Server, opened, served

import linoto
from linoto.client import ServiceError
from linoto.core.names import Numbered
from linoto.logs.arm_files import SLICE
from linoto.service.copying import copy
from linoto.service.errors import Refused
from linoto.service.loops.arm_views import first_shown
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import Arm, LogStatistics, LoopSpec, canonical
from linoto.service.maintenance import backup, check, create_loop, restore
from linoto.service.retention import PARTS, prune
from linoto.service.storage import features, sql
from linoto.service.storage.database import open_database
from linoto.service.storage.places import Place

K, D = 5000, 8
FEATURES = np.random.default_rng(1).standard_normal((K, D)).astype(np.float32)
POLICY = linoto.LinUCB(confidence=linoto.Confidence(noise=0.3))
PULLS = np.bincount(np.random.default_rng(2).integers(K, size=2000), minlength=K)
LOG = linoto.Offline(pulls=PULLS, reward_sums=PULLS * FEATURES[:, 0].astype(np.float64))
FIRST_DECISION = """
import sys
import threading
from functools import partial
from pathlib import Path
import linoto
from linoto.core.names import Numbered
from linoto.core.warm_up import all_kernels
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LogStatistics, LoopSpec, canonical
from linoto.service.server import open_service
from linoto.service.storage import features
import numpy as np

place, numbers, policy = sys.argv[1:]
service = open_service(Path(place))
if "loop" not in service.loops.by_name:
    rows = np.random.default_rng(0).standard_normal((5000, 8)).astype(numbers)
    arms = features.arms_of_file(rows, Numbered(5000))
    policy = linoto.to_dict(getattr(linoto, policy)(confidence=linoto.Confidence(noise=0.3)))
    log = LogStatistics(pulls=[1] * 2000, reward_sums=[0.1] * 2000, arms=list(range(2000)))
    made = LoopSpec(features=arms.sha256, policy=policy, default_reward=0.0, offline=log, redraws=0)
    spec = canonical(made)
    service.store.write_sync(lambda connection: features.put(connection, arms, 1.0))
    service.store.write_sync(partial(service.loops.create, loop=Loop.fresh("loop", spec)))

def loaded():
    return {(k.__name__, kinds) for k in all_kernels() if hasattr(k, "signatures") for kinds in k.signatures}

loop = service.loops.get("loop")
before = loaded()
for allowed in (None, ["1", "2", "3"]):
    event = service.store.write_sync(partial(service.loops.decide, name="loop", allowed=allowed))
    id = loop.decision_id(event.number)
    service.store.write_sync(partial(service.loops.reward, name="loop", decision_id=id, reward=0.5))
assert loop.agent.running.lists is not None
print(len(before) > 10, sorted(name for name, kinds in loaded() - before))
service.close()
"""
ARRAY = {"content-type": "application/octet-stream"}


def file_of(*arrays: Any) -> bytes:
    file = io.BytesIO()
    for array in arrays:
        np.save(file, array)
    return file.getvalue()


def spec_of(digest: str, **changes: Any) -> LoopSpec:
    fields: dict[str, Any] = {"features": digest, "policy": linoto.to_dict(POLICY), "default_reward": 0.0}
    some = np.flatnonzero(PULLS)
    offline = LogStatistics(
        pulls=PULLS[some].tolist(), reward_sums=LOG.reward_sums[some].tolist(), arms=some.tolist()
    )
    return canonical(LoopSpec(**{"offline": offline, **fields, **changes}))


def make(place: Place, name: str = "loop", **options: Any) -> str:
    arms = features.arms_of_file(FEATURES, Numbered(K))
    create_loop(place, name, spec_of(arms.sha256), arms=arms, **options)
    return arms.sha256


def play(server: Server, agent: Any, pairs: int) -> None:
    """Decide and tell a reward, as the agent does."""
    with server.client() as client:
        for n in range(pairs):
            made = client.decide("loop")
            decision = agent.decide()
            assert made.arm == str(decision.arm)
            client.reward("loop", made.decision_id, 0.1 * n)
            agent.update(decision, 0.1 * n)


def test_a_loop_of_a_file_decides_as_an_agent_and_goes_on_after_a_crash(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "items.npy"
    path.write_bytes(file_of(FEATURES))
    agent = POLICY.start(FEATURES, LOG)
    with served(place, snapshot_every=25) as server:
        with server.client() as client:
            digest = client.store_features(path)
            assert client.store_features(path) == digest  # the same file again
            loop = {"policy": POLICY, "default_reward": 0.0, "features": digest, "offline": LOG}
            made = client.create("loop", **loop)
            assert made["arms"] == K and client.create("loop", **loop)["created_at"] == made["created_at"]
            said = client.spec("loop")
            assert said["features"] == digest and "arms" not in said
            assert len(said["offline"]["pulls"]) == np.count_nonzero(PULLS)
            status, rows = ask(server, "GET", "/v1/loops/loop/arms?limit=12")
            assert status == 200 and len(rows) == 12 and rows[0]["name"].isdecimal()
        play(server, agent, 20)
        server.kill()
    with served(place, snapshot_every=25) as server:
        play(server, agent, 20)
    assert "loop: 80 events" in " ".join(check(place))


@pytest.mark.parametrize(
    "numbers, policy", [("float32", "LinUCB"), ("float64", "LinUCB"), ("float32", "LinTS")]
)
@pytest.mark.few(0)
def test_no_decision_or_reward_waits_for_kernels(tmp_path: Path, numbers: str, policy: str) -> None:
    """They are there once a loop is made, and once it is read back, for such features as it has."""
    command = [sys.executable, "-c", FIRST_DECISION, str(tmp_path / "x.sqlite"), numbers, policy]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.stdout == "True []\n", done.stderr


def test_the_same_arms_are_stored_and_held_once(place: Place) -> None:
    first, second = make(place), make(place, "other")
    assert first == second == features.read_upload(file_of(np.asfortranarray(FEATURES))).sha256
    with opened(place) as service:
        loop, other = (service.loops.get(name) for name in ("loop", "other"))
        assert loop.agent.running.held.actions.base is not None
        assert np.shares_memory(loop.agent.running.held.actions, other.agent.running.held.actions)
        assert loop.names == Numbered(K) and loop.index["17"] == 17
        assert len(set(digests(service))) == 1
    with open_database(place, readonly=True) as connection:
        keys = sql.features_keys(connection)
    assert len(keys) == 2 and {digest for digest, _ in keys} == {first}


def test_a_file_is_refused_for_names_that_one_in_store_may_have() -> None:
    for odd, message in (("b\u202e", "control characters"), ("a ", "spaces only"), (" ", "more than spaces")):
        names = ["a", odd, *(f"arm {number}" for number in range(K - 2))]
        body = file_of(np.asfortranarray(FEATURES), features.encoded(names))
        with pytest.raises(Refused, match=message):
            features.read_upload(body)
        assert features.arms_in(body)[1][1] == odd


def test_names_come_with_the_file() -> None:
    names = np.array([f"sku {i} é" for i in range(K)])
    arms = features.read_upload(file_of(FEATURES, names))
    assert arms.names == tuple(names) and arms.sha256 != features.arms_of_file(FEATURES, Numbered(K)).sha256
    again = features.arms_in(arms.blob)
    assert again[1] == arms.names and np.array_equal(again[0], FEATURES)
    spec = spec_of(arms.sha256, offline=None, rows=[("sku 7 é", 0.5), ("sku 7 é", 1.0)])
    loop = Loop.fresh("loop", spec)
    assert loop.names[7] == "sku 7 é" and loop.agent.offline.pulls[7] == 2
    assert spec.offline is not None and spec.offline.arms == [7]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_names_are_converted_few_at_a_time_to_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """numpy lets no other thread run meanwhile: with millions of names a server would lose its lease."""
    k, sizes = 2 * SLICE + 1, list[int]()
    names = np.array([f"é {i}" if i % 3 else f"{i}" for i in range(k)])
    whole = np.char.encode(names, "utf-8")

    def watched(convert: Any, some: Any, encoding: str) -> Any:
        sizes.append(len(some))
        return convert(some, encoding)

    for which in ("encode", "decode"):
        monkeypatch.setattr(np.char, which, partial(watched, getattr(np.char, which)))
    array = np.zeros((k, 1), np.float32)
    arms = features.read_upload(file_of(array, names if kind == "U" else whole))
    assert set(sizes) == {1, SLICE}
    assert arms.names == tuple(names) and arms.blob == file_of(np.asfortranarray(array), whole)


def test_what_cannot_be_stored_or_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    def sent(server: Server, body: bytes, **headers: str) -> tuple[int, str]:
        status, said = ask(server, "POST", "/v1/features", body, {**ARRAY, **headers})
        return status, said["error"]["message"]

    holes = np.where(FEATURES > 3, np.nan, FEATURES)
    with served(tmp_path / "x.sqlite") as server:
        assert sent(server, b"{}", **{"content-type": "application/json"})[0] == 415
        status, said = sent(server, b"")
        assert status == 422 and said.endswith("as numpy.save writes it, got something else")
        assert "got a part of one" in sent(server, file_of(FEATURES)[:-1])[1]
        assert "float32 or float64, got int64" in sent(server, file_of(FEATURES.astype(int)))[1]
        assert "actions must be finite, got nan" in sent(server, file_of(holes))[1]
        assert "5000 names as a second one" in sent(server, file_of(FEATURES, np.array(["a"])))[1]
        assert "is that of row 1 too" in sent(server, file_of(FEATURES, np.array(["a"] * K)))[1]
        with server.client() as client:
            loop = partial(client.create, "loop", policy=POLICY, default_reward=0.0)
            with pytest.raises(ServiceError, match="features must be those of a file that was uploaded"):
                loop(features="0" * 64)
            status, said = ask(server, "POST", "/v1/features", file_of(FEATURES), ARRAY)
            assert (status, said["arms"], said["features"]) == (200, K, D)
            with pytest.raises(ServiceError, match="arms must be left out where they are by file"):
                loop(features=said["sha256"], arms=["a", "b"])
            with pytest.raises(ServiceError, match="offline must cover the 5000 arms of actions, got 1"):
                loop(features=said["sha256"], offline=linoto.Offline(pulls=[1], reward_sums=[1.0]))
            assert client.loops() == []


def test_what_is_more_than_a_file_may_have_is_refused_on_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "stats.npz", pulls=PULLS, reward_sums=0.4 * PULLS)
    policy = json.dumps(linoto.to_dict(linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Open())))
    words = ("create", "shop", tmp_path / "stats.npz", "--arms", tmp_path / "items.npy", "--no-intercept")
    rest = ("--policy", policy, "--noise", "0.5", "--default-reward", 0, "--db", tmp_path / "x.sqlite")

    def refused(said: str, *arrays: Any) -> None:
        (tmp_path / "items.npy").write_bytes(file_of(*arrays))
        with pytest.raises(Refused, match=said):
            features.read_upload(file_of(*arrays))
        assert run(*words, *rest) == 1 and said in capsys.readouterr().err
        assert not (tmp_path / "x.sqlite").exists()

    names = [f"item {i}" for i in range(K)]
    longest = [*names[1:], "é" * 200]
    features.read_upload(file_of(FEATURES, np.array(longest)))
    too_long = "names of arms must have at most 200 characters, got one of 201"
    refused(too_long, FEATURES, np.array([*names[1:], "x" * 201]))
    monkeypatch.setattr(features, "MOST_BYTES", 4 * K * D + 400 * K - 1)
    features.read_upload(file_of(FEATURES, np.array(names)))
    refused("arms by file must take at most 2159999 bytes with their names, got 2160000", FEATURES, longest)
    monkeypatch.setattr(features, "MOST_ARMS", K - 1)
    refused("a file must have at most 4999 arms, got 5000", FEATURES)


def test_the_number_of_arms_is_checked_before_their_names_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "MOST_ARMS", K - 1)
    with pytest.raises(Refused, match="at most 4999 arms, got 5000"):
        features.read_upload(file_of(FEATURES, np.array(["the same"] * K)))


def test_a_file_that_was_not_sent_to_its_end_is_none(tmp_path: Path) -> None:
    arms = features.arms_of_file(FEATURES, Numbered(K))
    with opened(tmp_path / "x.sqlite") as service:
        for number, body in arms.parts():
            service.store.write_sync(
                lambda connection, row=(arms.sha256, number, body, 1.0): sql.put_features(connection, row)
            )
        fresh = Loop.fresh("loop", spec_of(arms.sha256))
        with pytest.raises(Refused, match="must be those of a file that was uploaded"):
            service.store.write_sync(partial(service.loops.create, loop=fresh))
        assert service.store.write_sync(lambda c: sql.features_head(c, arms.sha256)) is None


def damage(place: Path, part: int = 1) -> None:
    with open_database(place) as connection:
        connection.begin()
        connection.execute(f"UPDATE features SET body = zeroblob(length(body)) WHERE part = {part}")
        connection.commit()
    gc.collect()  # what is in memory is not read again


@pytest.mark.parametrize("part", [0, 1])
def test_a_damaged_file_is_found_and_refused_until_it_is_sent_again(tmp_path: Path, part: int) -> None:
    place, body = tmp_path / "x.sqlite", file_of(FEATURES)
    with served(place) as server:
        assert ask(server, "POST", "/v1/features", body, ARRAY)[0] == 200
    assert len(list(check(place))) == 1
    damage(place, part)
    with pytest.raises(ValueError, match=r"are damaged: .* send the same file again"):
        list(check(place))  # though no loop has it
    with served(place) as server, server.client() as client:
        digest = features.read_upload(body).sha256
        loop = partial(client.create, "loop", policy=POLICY, default_reward=0.0, features=digest)
        with pytest.raises(ServiceError, match="are damaged") as refused:
            loop()
        assert refused.value.status == 422
        assert ask(server, "POST", "/v1/features", body, ARRAY)[0] == 200
        assert loop()["arms"] == K
    damage(place, part)
    make(place, "other")  # with the file at hand
    assert "other: 0 events, snapshot, replay and tables agree" in list(check(place))


def test_a_damaged_head_is_refused_whatever_number_of_parts_it_says(place: Place) -> None:
    arms = features.arms_of_file(FEATURES, Numbered(K))
    with opened(place) as service:
        service.store.write_sync(lambda connection: features.put(connection, arms, 1.0))
        for parts in (10**30, 2**31 - 1, 2, 0, -3):
            row = (arms.sha256, 0, json.dumps({"arms": K, "features": D, "parts": parts}).encode(), 1.0)
            service.store.write_sync(lambda connection, row=row: sql.put_features(connection, row))
            found = service.store.write_sync(lambda connection: list(features.find_damaged(connection)))
            assert [f"{arms.sha256} are damaged" in why for why in found] == [True]


def test_damaged_features_damage_their_loop_and_no_other(tmp_path: Path) -> None:
    place = tmp_path / "x.sqlite"
    make(place)
    arms = [Arm(name="a"), Arm(name="b")]
    plain = canonical(LoopSpec(policy=linoto.to_dict(POLICY), default_reward=0.0, arms=arms))
    create_loop(place, "plain", plain)
    damage(place)
    with opened(place) as service:
        assert set(service.loops.by_name) == {"plain"}
        assert "are damaged" in service.loops.damaged["loop"].why
    with pytest.raises(ValueError, match="are damaged: their bytes are not those that were stored"):
        list(check(place))


def test_no_loop_is_made_of_a_damaged_file_that_another_has_in_memory(tmp_path: Path) -> None:
    place, body = tmp_path / "x.sqlite", file_of(FEATURES)
    with served(place) as server, server.client() as client:
        digest = ask(server, "POST", "/v1/features", body, ARRAY)[1]["sha256"]
        create = partial(client.create, policy=POLICY, default_reward=0.0, features=digest)
        create("first")
        damage(place)
        with pytest.raises(ServiceError, match="are damaged"):
            create("second")
        assert create("first")["arms"] == K  # it is there, and goes on
        assert ask(server, "POST", "/v1/features", body, ARRAY)[0] == 200
        assert create("second")["arms"] == K


def test_a_damaged_file_that_every_loop_has_is_replaced_by_create(tmp_path: Path) -> None:
    """No server starts that it could be sent to; nothing is restored of it, as its loop could not be told."""
    place, back = tmp_path / "x.sqlite", tmp_path / "back.sqlite"
    make(place)
    damage(place)
    backup(place, tmp_path / "backup.sqlite")
    said = r"are damaged: .*`linoto create` with it .* next start"
    with pytest.raises(ValueError, match=said), opened(place):
        pass
    with pytest.raises(ValueError, match=r"nothing is restored, .* give ids out twice .* are damaged"):
        restore(tmp_path / "backup.sqlite", back)
    assert not back.exists()
    for each in (place, tmp_path / "backup.sqlite"):
        make(each)
        gc.collect()
        assert any("agree" in line for line in check(each))
    assert any("loop: now safe-only" in line for line in restore(tmp_path / "backup.sqlite", back))
    with opened(place) as service:
        assert set(service.loops.by_name) == {"loop"}


def test_copies_and_backups_have_the_file_too(tmp_path: Path, postgres: Cluster) -> None:
    place, address = tmp_path / "x.sqlite", postgres.database()
    make(place)
    backup(place, tmp_path / "backup.sqlite")
    assert any("agree" in line for line in check(tmp_path / "backup.sqlite"))
    assert "features: 2 rows" in list(copy(place, address))
    assert any("agree" in line for line in check(address))
    assert "features: 2 rows" in list(copy(address, tmp_path / "back.sqlite"))
    assert any("agree" in line for line in check(tmp_path / "back.sqlite"))
    postgres.drop(address)


def test_pruning_deletes_files_that_no_loop_has(place: Place) -> None:
    used, clock = make(place, clock=FakeClock(100.0)), FakeClock(100.0)
    unused = features.arms_of_file(FEATURES[::-1], Numbered(K))
    with opened(place, clock=clock) as service:
        service.store.write_sync(lambda connection: features.put(connection, unused, 100.0))

    def pruned(before: float, **options: Any) -> list[str]:
        lines = prune(place, before=before, now=before, sleep=lambda _: None, **options)
        return [line for line in lines if line.startswith("features")]

    assert pruned(50.0) == []
    said = f"features {unused.sha256}: {{}} 0.2 MB that no loop has"
    assert pruned(200.0, dry_run=True) == [said.format("would delete")]
    assert pruned(200.0) == [said.format("deleted")] and pruned(200.0) == []
    with open_database(place, readonly=True) as connection:
        assert {digest for digest, _ in sql.features_keys(connection)} == {used}


def test_pruning_a_large_file_lets_the_server_write_in_between(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What says that it is complete goes first; to stop anywhere in between leaves what the next one ends."""
    monkeypatch.setattr(features, "PART", 20_000)
    arms, left = features.arms_of_file(FEATURES, Numbered(K)), list[list[int]]()
    assert arms.head.parts == PARTS + 1

    def stop(_: float) -> None:
        with open_database(place, readonly=True) as connection:
            left.append([part for _, part in sql.features_keys(connection)])
        if len(left) == 2:
            raise KeyboardInterrupt

    with opened(place) as service:
        service.store.write_sync(lambda connection: features.put(connection, arms, 100.0))
    with pytest.raises(KeyboardInterrupt):
        list(prune(place, before=200.0, now=200.0, sleep=stop))
    list(prune(place, before=200.0, now=200.0, sleep=stop))
    assert left == [[*range(1, PARTS + 2)], [1], [1], [], []]


def test_an_upload_that_was_pruned_meanwhile_is_refused_and_can_be_sent_again(place: Place) -> None:
    rows = np.random.default_rng(3).standard_normal((100_000, D)).astype(np.float32)
    arms = features.arms_of_file(rows, Numbered(len(rows)))
    assert arms.head.parts == 4

    def put(*numbers: int) -> None:
        for number, body in arms.parts():
            if number in numbers:
                row = (arms.sha256, number, body, 100.0)
                service.store.write_sync(lambda connection, row=row: sql.put_features(connection, row))

    with opened(place, clock=FakeClock(100.0)) as service:
        finish = partial(features.finish, arms=arms, at=300.0)
        for first, rest in (((1, 2), (3, 4)), ((), (1, 2, 4))):
            put(*first)
            list(prune(place, before=200.0, now=200.0, sleep=lambda _: None))
            put(*rest)
            with pytest.raises(Refused, match="pruned while it was sent: send it again") as refused:
                service.store.write_sync(finish)
            assert refused.value.status == 503
        put(1, 2, 3, 4)
        service.store.write_sync(finish)
        assert service.store.write_sync(lambda c: features.read(c, arms.sha256)) == arms.blob


def test_whoever_completes_a_file_waits_for_who_deletes_a_part_of_it(
    postgres: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL no statement sees what another session has not committed yet."""
    monkeypatch.setattr(features, "PART", 20_000)
    address, arms, said = postgres.database(), features.arms_of_file(FEATURES, Numbered(K)), list[str]()

    def complete() -> None:
        with pytest.raises(Refused) as refused:
            service.store.write_sync(partial(features.finish, arms=arms, at=300.0))
        said.append(refused.value.code)

    with opened(address) as service:
        for number, body in arms.parts():
            row = (arms.sha256, number, body, 100.0)
            service.store.write_sync(lambda connection, row=row: sql.put_features(connection, row))
        with open_database(address) as deleting:
            deleting.begin()
            assert sql.delete_parts(deleting, arms.sha256, 200.0, 1) == 1
            completing = threading.Thread(target=complete)
            completing.start()
            completing.join(0.3)
            assert completing.is_alive()
            deleting.commit()
        completing.join()
    assert said == ["pruned"]
    postgres.drop(address)


def test_create_takes_arms_by_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "items.npy").write_bytes(file_of(FEATURES))
    np.savez(tmp_path / "stats.npz", pulls=PULLS, reward_sums=0.4 * PULLS)
    policy = json.dumps(linoto.to_dict(linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Open())))
    words = ("create", "shop", tmp_path / "stats.npz", "--arms", tmp_path / "items.npy", "--no-intercept")
    rest = ("--policy", policy, "--noise", "0.5", "--default-reward", 0, "--db", tmp_path / "x.sqlite")
    assert run(*words, *rest, "--json") == 0 and json.loads(capsys.readouterr().out)["made"]
    assert run(*words, *rest, "--json") == 0 and not json.loads(capsys.readouterr().out)["made"]
    with opened(tmp_path / "x.sqlite") as service:
        loop = service.loops.get("shop")
        assert loop.arm_count == K and loop.spec.features and not loop.spec.arms
        assert loop.agent.actions.shape == (K, D)


def test_redraws_that_take_too_long_are_refused_with_what_to_give(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = np.random.default_rng(5).standard_normal((K, 120)).astype(np.float32)
    (tmp_path / "items.npy").write_bytes(file_of(wide))
    np.savez(tmp_path / "stats.npz", pulls=PULLS, reward_sums=0.4 * PULLS)
    policy = json.dumps(linoto.to_dict(linoto.Gated(explorer=linoto.LinTS(), gate=linoto.Open())))
    words = ("create", "shop", tmp_path / "stats.npz", "--arms", tmp_path / "items.npy", "--no-intercept")
    rest = ("--policy", policy, "--noise", "0.5", "--default-reward", 0, "--db", tmp_path / "x.sqlite")
    assert run(*words, *rest) == 1
    assert capsys.readouterr().err == (
        "linoto: --redraws must be at most 81 for 5000 arms with 120 features, got 100: give 81, or 0 where "
        "decisions need no propensity\n"
    )
    assert run(*words, *rest, "--redraws", 0) == 0
    with opened(tmp_path / "x.sqlite") as service:
        assert service.loops.get("shop").spec.redraws == 0
        with pytest.raises(Refused, match=r"arms must be among the 5000 items, got '4999x'$"):
            service.store.write_sync(partial(service.loops.decide, name="shop", allowed=["4999x"]))


def test_the_arms_that_are_shown_first_are_those_of_a_full_sort() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        logged, plays = rng.integers(3, size=40) * (rng.random(40) < 0.3), rng.integers(2, size=40)
        present = rng.random(40) < 0.8
        limit = int(rng.integers(1, 41))
        wanted = np.lexsort((-logged, -plays, ~present))[:limit]
        assert first_shown(logged, plays, present, limit).tolist() == wanted.tolist()


def test_a_loop_that_states_no_propensities_keeps_lists_for_draws(tmp_path: Path) -> None:
    confidence = linoto.Confidence(noise=0.3, reward_range=(-4.0, 4.0))
    policy = linoto.Gated(gate=linoto.Tolerance(budget=1000.0), confidence=confidence)
    arms = features.arms_of_file(FEATURES, Numbered(K))
    spec = spec_of(arms.sha256, policy=linoto.to_dict(policy), redraws=0, seed=3)
    played = []
    for lists in (True, False):
        place = tmp_path / f"{lists}.sqlite"
        create_loop(place, "loop", spec, arms=arms)
        with opened(place) as service:
            loop = service.loops.get("loop")
            assert loop.arms.keeps_lists(loop.agent)
            if not lists:
                loop.agent.look_at_every_arm()
            events = []
            for n in range(30):
                events.append(service.store.write_sync(partial(service.loops.decide, name="loop")))
                id = loop.decision_id(events[-1].number)
                service.store.write_sync(
                    partial(service.loops.reward, name="loop", decision_id=id, reward=0.1 * n)
                )
            played.append([(event.arm, event.mode, event.lcb, event.ucb) for event in events])
            assert all(event.propensity is None for event in events if event.mode == "explore")
            assert (loop.agent.running.lists is not None) == lists
    assert played[0] == played[1] and any(mode == "explore" for _, mode, _, _ in played[0])
