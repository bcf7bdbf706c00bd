"""The restore drill: what came after a backup is lost, but nothing of it is given out twice."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from helpers.loops import change, decide, digests, reward
from helpers.loops_with_contexts import POLICIES
from helpers.loops_with_contexts import create as create_with_contexts
from helpers.service_process import TOLERANT, FakeClock, close_due, create, opened, served

import linoto
from linoto.cli import main
from linoto.client import Client, ServiceError
from linoto.service.loops.restores import note_of, restored_event, restores_of
from linoto.service.loops.rooms import room_now
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.views import certificate, history, loop_view
from linoto.service.maintenance import backup, check, restore
from linoto.service.server import Service
from linoto.service.storage import expected, tokens
from linoto.service.storage.database import open_database
from linoto.service.web.access import create_token

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
COIN = linoto.Gated(gate=linoto.Control(budget=30.0, share=0.4), confidence=CLICKS)
ROUNDS = 40


def lose(path: Path) -> None:
    """The disk of the database is gone; the note beside it is on another one."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)


def command(*words: str) -> str:
    """What a command prints."""
    out = StringIO()
    with redirect_stdout(out):
        main(list(words))
    return out.getvalue()


def coins_of(service: Service, rounds: int = ROUNDS) -> list[tuple[float, float]]:
    """The coins that the loop will throw."""
    loop = service.loops.get("loop")
    first = loop.agent.rounds + 1
    return [loop.draws.coins().at(t) for t in range(first, first + rounds)]


def test_a_restore_gives_nothing_out_twice_and_every_reward_is_accounted_for(tmp_path: Path) -> None:
    """Over HTTP, as operators do it: a reward is applied once, or refused as lost, and to nobody else."""
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with open_database(path, create=True) as connection:
        boss, leaver = (create_token(connection, name, "admin", 0.0) for name in ("boss", "leaver"))
    policy = {"policy": COIN, "default_reward": 0.0, "arms": ["a", "b", "c"], "window": 3600.0}
    rows = [("a", 1.0), ("b", 0.0)] * 20

    def play(client: Client, rounds: int) -> list[str]:
        return [client.decide("loop", proposal="c").decision_id for _ in range(rounds)]

    with served(path) as server, server.client(token=boss) as client:
        client.create("loop", rows=rows, **policy)
        kept = play(client, ROUNDS)
        client.rewards("loop", [(each, 0.0) for each in kept[::2]])
        backup(path, copy)
        client.rewards("loop", [(each, 0.0) for each in kept[1::2][:5]])  # told, and lost
        lost = play(client, ROUNDS)
        client.rewards("loop", [(each, 0.0) for each in lost[::2]])
        command("db", "token", "revoke", "leaver", "--db", str(path))
        spent = client.loop("loop")["left_to_lose"]
    lose(path)

    said = command("db", "restore", str(copy), "--db", str(path))
    missing = 5 + ROUNDS + ROUNDS // 2
    assert "loop: now safe-only; the database was restored from a backup: " in said
    assert f"what came after it is lost: {missing} events, among them" in said
    assert "tokens: boss, leaver revoked" in said and "linoto db token create NAME --role ROLE" in said
    new = command("db", "token", "create", "boss", "--role", "admin", "--db", str(path)).strip()
    with served(path) as server:
        for old in (boss, leaver):
            with server.client(token=old) as refused, pytest.raises(ServiceError, match="valid token"):
                refused.loops()
        with server.client(token=new) as client:
            seen = client.loop("loop")
            assert seen["mode"] == "safe-only" and seen["left_to_lose"] <= spent
            assert [alarm["kind"] for alarm in seen["alarms"] if not alarm["answered"]] == ["restored"]
            made = play(client, ROUNDS)
            assert len({*kept, *lost, *made}) == 3 * ROUNDS
            told = client.rewards("loop", [(each, 1.0) for each in [*kept, *lost, *made]])
            with pytest.raises(ServiceError, match="was lost when a backup was restored") as late:
                client.reward("loop", lost[3], 1.0)
            assert (late.value.status, late.value.code) == (410, "restored")
            with pytest.raises(ServiceError) as gone:
                client.explain("loop", lost[3])
            assert (gone.value.status, gone.value.code) == (410, "restored")
            after = client.loop("loop")
    statuses = [result.status for result in told]
    assert Counter(statuses[:ROUNDS]) == {"conflict": ROUNDS // 2, "applied": ROUNDS // 2}
    assert set(statuses[ROUNDS : 2 * ROUNDS]) == {"restored"}
    assert set(statuses[2 * ROUNDS :]) == {"applied"}
    assert after["rewards"] == Counter(statuses)["applied"] + ROUNDS // 2 == 2 * ROUNDS
    assert after["realised"] == ROUNDS // 2 + ROUNDS  # what was told of lost decisions is nobody's
    assert all(line.endswith(("ok", "agree")) for line in check(path))


@pytest.mark.parametrize("with_note", [True, False])
def test_two_restores_of_one_backup_are_two_epochs_with_other_coins(tmp_path: Path, with_note: bool) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service, policy=COIN, seed=None)
        decide(service)
        backup(path, copy)
        coins = [coins_of(service)]
        ids = [decide(service).decision_id for _ in range(3)]
    missing = []
    for _ in range(2):
        lose(path)
        if not with_note:
            expected.beside(path).unlink()
        restore(copy, path)
        with opened(path) as service:
            loop = service.loops.get("loop")
            missing.append(restores_of(loop)[-1].missing)
            coins.append(coins_of(service))
            ids += [decide(service).decision_id for _ in range(3)]
            assert len(set(digests(service))) == 1
            with pytest.raises(ValueError, match="must have event"):
                older = note_of(loop)._replace(seq=loop.state.seq - 1)
                note = expected.beside(path)
                expected.check(note, expected.read(note), {loop.id: (loop.name, older)})
    assert len(set(ids)) == 9
    assert len({coin for some in coins for coin in some}) == 3 * ROUNDS
    assert missing == ([3, 3 + 1 + 3] if with_note else [None, None])  # the first restore is an event too


def test_what_the_lost_decisions_may_have_cost_is_not_spent_again(tmp_path: Path) -> None:
    """The room is that of the backup, less a whole reward for each lost decision that a coin let explore."""
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service, policy=COIN)
        for _ in range(10):
            reward(service, decide(service, proposal="c").decision_id, 0.0)
        room, before = room_now(service.loops.get("loop")), history(service.loops.get("loop")).points[:-1]
        assert room is not None
        backup(path, copy)
        spent = sum(decide(service, proposal="c").mode == "explore" for _ in range(40))
    lose(path)
    restore(copy, path)
    with opened(path) as service:
        change(service, mode="live")
        loop = service.loops.get("loop")
        assert room_now(loop) == room - spent and 0 < spent < 40
        assert history(loop).points[-1].left_to_lose == loop_view(loop).left_to_lose == room - spent + 1
        assert history(loop).points[:-1] == before
        assert loop_view(loop).restores[0].missing == 40
        said = certificate(loop)
        told = f"40 events are lost, 40 decisions among them, of which {spent} that explored count"
        assert f"{told} at their worst" in said["changes"][-1] and said["holds"]
        told = (
            f"40 events, among them 40 decisions; {spent} of them, which explored, are counted at the worst"
        )
        assert f"{told}, in the others practice itself was played; set" in loop.state.alarms[-1].message
        made = [decide(service, proposal="c").mode for _ in range(60)]  # none of them is rewarded
        assert made.count("explore") < room / 2 and set(made[-20:]) == {"safe"}  # 20 of 26 are gone
        assert len(set(digests(service))) == 1


def test_a_note_of_an_earlier_version_is_read_and_what_it_does_not_say_is_not_said(tmp_path: Path) -> None:
    """It has no number of decisions; nor has what is remembered of a restore by it, after another one too."""
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service, policy=COIN)
        backup(path, copy)
        for _ in range(6):
            decide(service, proposal="c")
        noted = note_of(service.loops.get("loop"))
    lose(path)
    format, record = expected.BEFORE
    old = record.pack(noted.tag, noted.seq + 1, noted.costly)
    expected.beside(path).write_bytes(format.ljust(record.size, b"\0") + old)
    (note,) = expected.read(expected.beside(path)).values()
    assert note == noted._replace(decided=None) and noted.decided == 6
    said = f"6 events, among them {noted.costly} decisions, counted at the worst; set the mode"
    assert said in restore(copy, path)[1]
    with opened(path) as service:
        loop = service.loops.get("loop")
        assert said in loop.state.alarms[-1].message and note_of(loop).decided is None
        assert len(set(digests(service))) == 1
    again = restored_event(loop, "next", note_of(loop)._replace(seq=loop.state.seq + 3))
    assert (again.missing, again.decided) == (3, None)


GATES = {
    "Control": (linoto.Control(budget=100.0), "coin"),
    "Tolerance, rewards": (linoto.Tolerance(budget=100.0, evidence="rewards"), None),
    "Tolerance, model": (linoto.Tolerance(budget=100.0, evidence="model"), "model"),
    "Tolerance, relative": (linoto.Tolerance(budget=0.9, epsilon=0.9, relative=True), None),
    "Budget": (linoto.Budget(alpha=100.0), None),
}


@pytest.mark.parametrize("gate", sorted(GATES))
@pytest.mark.few(2)
def test_every_gate_plays_safe_until_there_is_room_for_what_was_lost(tmp_path: Path, gate: str) -> None:
    """Each lost decision takes one reward from the room; where none is left, what is safe is played."""
    path, copy, note = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", tmp_path / "x.sqlite.seq"
    fallback = "mixture" if gate == "Control" else "auto"
    explorer = linoto.LinUCB()  # wants arm c too, whose room is the one that is shown
    policy = linoto.Gated(explorer=explorer, gate=GATES[gate][0], confidence=CLICKS, fallback=fallback)
    with opened(path) as service:
        create(service, policy=policy)
        loop = service.loops.get("loop")
        made = [decide(service, proposal="c") for _ in range(3)]
        room, noted = room_now(loop), note_of(loop)
        assert room is not None
        backup(path, copy)
    for missing in (0, int(room), int(room) + 1):
        lose(path)
        lost = {"seq": noted.seq + 2 * missing, "costly": noted.costly + missing}
        expected.put(note, [noted._replace(**lost)])
        restore(copy, path)
        with opened(path) as service:
            change(service, mode="live")
            left = room_now(service.loops.get("loop"))
            assert left == pytest.approx(room - missing)
            mode = decide(service, proposal="c").mode
            if missing > room:
                assert mode == "safe"
            elif missing == 0 and gate != "Control":  # whose coin decides
                assert mode == made[-1].mode == "explore"


@pytest.mark.parametrize("kind", ["model", "coin", "Thompson"])
@pytest.mark.few(1)
def test_a_loop_with_contexts_plays_practice_until_there_is_room_for_what_was_lost(
    tmp_path: Path, kind: str
) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    asked = {"context": {"age": 30, "country": "DE"}}
    with opened(path) as service:
        create_with_contexts(service, policy=POLICIES[kind])
        explored = {decide(service, **asked).mode for _ in range(20)}
        backup(path, copy)
        for _ in range(200):
            decide(service, **asked)
    lose(path)
    restore(copy, path)
    with opened(path) as service:
        change(service, mode="live")
        assert {decide(service, **asked).arm for _ in range(20)} == {"C"} and "explore" in explored
        assert len(set(digests(service))) == 1


def test_decisions_that_were_open_count_as_lost_because_their_reward_may_have_been(tmp_path: Path) -> None:
    """Also where a missing reward was said to be the default: it may have been told after the backup."""
    path, copy, clock = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", FakeClock()
    with opened(path, clock=clock) as service:
        create(service, policy=COIN, missing_reward="default", window=10.0)
        for _ in range(12):
            decide(service, proposal="c")
        backup(path, copy)
    lose(path)
    restore(copy, path, clock=clock)
    rooms = []
    with opened(path, clock=clock) as service:
        loop = service.loops.get("loop")
        rooms.append(loop.agent.budget)
        clock.now += 11.0
        close_due(service)
        rooms.append(loop.agent.budget)
        assert not loop.pending and loop.ledger is not None and loop.ledger.practice.missing > 0
    assert rooms[0] is not None and rooms[1] is not None and rooms[1] <= rooms[0]


def test_a_start_that_misses_events_says_how_to_go_on_without_giving_anything_out_twice(
    tmp_path: Path,
) -> None:
    """An older copy was put there by hand; what the message says is done."""
    path, copy, away = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", tmp_path / "away.sqlite"
    with opened(path) as service:
        create(service, policy=COIN, seed=None)
        decide(service)
        backup(path, copy)
        lost = [decide(service).decision_id for _ in range(3)]
        coins = coins_of(service)
    lose(path)
    shutil.copy(copy, path)
    refusal = r"must have event 4, .* leave .*x.sqlite.seq, and bring it back with `linoto db restore`"
    with pytest.raises(ValueError, match=refusal), opened(path):
        pass
    path.rename(away)
    restore(away, path)
    with opened(path) as service:
        assert [each.missing for each in loop_view(service.loops.get("loop")).restores] == [3]
        assert {reward(service, each, 1.0).status for each in lost} == {"restored"}
        assert not {decide(service).decision_id for _ in range(3)} & set(lost)
        assert not set(coins_of(service)) & set(coins)


@pytest.mark.parametrize("later", [False, True], ids=["the same backup", "one taken since"])
@pytest.mark.few(1)
def test_what_nobody_knows_is_lost_stays_unknown_when_an_older_backup_is_restored_again(
    tmp_path: Path, later: bool
) -> None:
    """The note was gone at the first restore: what is noted since says nothing of what was lost by it."""
    path, copy, second = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", tmp_path / "second.sqlite"
    with opened(path) as service:
        create(service, policy=COIN, seed=None)
        backup(path, copy)
        for _ in range(20):
            decide(service)
    lose(path)
    expected.beside(path).unlink()
    restore(copy, path)
    with opened(path) as service:
        decide(service)
        backup(path, second)
        for _ in range(3):
            decide(service)
    lose(path)
    restore(second if later else copy, path)
    with opened(path) as service:
        missing = [each.missing for each in loop_view(service.loops.get("loop")).restores]
        assert missing == ([None, 3] if later else [None])
        decide(service)
    assert all(line.endswith(("ok", "agree")) for line in check(path))


@pytest.mark.parametrize("contexts", [False, True])
@pytest.mark.few(1)
def test_rewards_that_a_restore_has_lost_are_no_evidence_against_a_promise(
    tmp_path: Path, contexts: bool
) -> None:
    """Where no reward means the default: all of 200 were told 1 after the backup, and nobody knows it."""
    path, copy, clock = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", FakeClock()
    log = LogStatistics(pulls=[5000, 5000, 0], reward_sums=[2500.0, 2500.0, 0.0])
    with opened(path, clock=clock) as service:
        if contexts:
            create_with_contexts(service, missing_reward="default", window=60.0)
        else:
            create(service, policy=TOLERANT, missing_reward="default", offline=log, window=60.0)
        asked = {"context": {"age": 30, "country": "DE"}} if contexts else {}
        made = [decide(service, **asked).decision_id for _ in range(200)]
        backup(path, copy)
        assert {reward(service, each, 1.0).status for each in made} == {"applied"}
    lose(path)
    restore(copy, path, clock=clock)
    with opened(path, clock=clock) as service:
        clock.now += 61.0
        close_due(service)
        seen = loop_view(service.loops.get("loop"))
        assert [alarm.kind for alarm in seen.alarms] == ["restored"]
        assert (seen.lost, seen.known, seen.closed) == (200, 0.0, 200) and not seen.gain
        assert len(set(digests(service))) == 1
    assert all(line.endswith(("ok", "agree")) for line in check(path))


def test_a_loop_made_after_the_backup_is_named_and_its_ids_are_not_given_to_another(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service)
        backup(path, copy)
        create(service, "young", seed=None, policy=COIN)
        lost, coin = decide(service, "young").decision_id, service.loops.get("young").draws.coins().at(1)
    lose(path)
    assert "loop number 2: made after the backup, and lost with it" in restore(copy, path)
    with opened(path) as service:
        create(service, "young", seed=None, policy=COIN)
        assert service.loops.get("young").draws.coins().at(1) != coin
        made = decide(service, "young").decision_id
        assert made != lost and made.startswith("2-")
        assert reward(service, lost, 1.0, "young").status == "restored"
        assert reward(service, made, 1.0, "young").status == "applied"
        assert service.loops.get("young").state.mode == "live"  # it knows everything about itself
        assert len(set(digests(service, "young"))) == 1


def test_an_id_that_was_never_given_is_unknown_and_not_lost(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path) as service:
        create(service)
        first = decide(service).decision_id
        assert reward(service, "1-0123456789-1", 1.0).status == "unknown"
        backup(path, copy)
    lose(path)
    restore(copy, path)
    with opened(path) as service:
        made = decide(service).decision_id
        epoch = service.loops.get("loop").epoch
        assert (first, made) == ("1-1", f"1-{epoch}-2")
        for unknown in (
            f"1-{epoch}-3",
            f"1-{epoch}-0",
            f"1-{epoch}-02",
            f"2-{epoch}-2",
            f"1-{epoch}-",
            "1-x-2",
        ):
            assert reward(service, unknown, 1.0).status == "unknown"
        for lost in ("1-2", "1-0123456789-2"):
            assert reward(service, lost, 1.0).status == "restored"
        assert reward(service, first, 1.0).status == "applied"


def test_a_restored_loop_goes_on_after_pruning_and_rebuilding(tmp_path: Path) -> None:
    path, copy, clock = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", FakeClock()
    with opened(path, clock=clock) as service:
        create(service, policy=COIN)
        for _ in range(6):
            reward(service, decide(service).decision_id, 1.0)
        backup(path, copy)
        decide(service)
    lose(path)
    restore(copy, path, clock=clock)
    with opened(path, clock=clock) as service:
        for _ in range(6):
            reward(service, decide(service).decision_id, 1.0)
    command("db", "rebuild", "--db", str(path))
    command("db", "prune", "--days", "0", "--db", str(path))
    assert all(line.endswith(("ok", "agree")) for line in check(path))
    with opened(path, clock=clock) as service:
        made = decide(service).decision_id
        assert made == f"1-{service.loops.get('loop').epoch}-13"
        assert reward(service, "1-7", 1.0).status == "restored"


def test_tokens_of_a_backup_are_kept_only_where_it_is_asked_for(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with open_database(path, create=True) as connection:
        create_token(connection, "shop", "writer", 0.0)
    backup(path, copy)
    lose(path)
    assert "tokens: as in the backup (shop)" in "\n".join(restore(copy, path, keep_tokens=True))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT revoked_at FROM tokens").fetchall() == [(None,)]
    connection.close()


@pytest.mark.parametrize("had", [False, True])
def test_a_restore_says_so_where_the_backup_lets_everybody_in(tmp_path: Path, had: bool) -> None:
    """Tokens may have been made after it; once there was one in it, every request needs one."""
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with open_database(path, create=True) as connection:
        if had:
            create_token(connection, "shop", "writer", 0.0)
            tokens.revoke_token(connection, "shop", 1.0)
    backup(path, copy)
    lose(path)
    said = "tokens: the backup has none, so everybody on this machine may do everything"
    assert (said in "\n".join(restore(copy, path))) == (not had)


def test_a_backup_of_an_older_version_is_brought_up_to_date_and_keyed(tmp_path: Path) -> None:
    copy = Path(__file__).parents[1] / "data" / "version-0.1" / "loops.sqlite"
    path, before = tmp_path / "x.sqlite", copy.read_bytes()
    said = restore(Path(shutil.copy(copy, tmp_path / "copy.sqlite")), path)
    assert sum("how many events came after it is not known" in line for line in said) == 3
    assert copy.read_bytes() == before and all(line.endswith(("ok", "agree")) for line in check(path))
    with opened(path) as service:
        for loop in service.loops.by_name.values():
            assert loop.is_keyed and loop.state.mode == "safe-only" and loop.open_alarms
            assert decide(service, loop.name).decision_id.startswith(f"{loop.id}-{loop.epoch}-")
            assert (
                "because nobody knows how much" in " ".join(certificate(loop)["changes"])
                or loop.name == "thompson"
            )


def test_a_reward_by_the_key_of_a_lost_decision_is_refused_as_lost(tmp_path: Path) -> None:
    """Within the window of rewards: after that no lost decision awaits one. A known key is as ever."""
    path, copy, clock, kept = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", FakeClock(), "kept"

    def told(service: Service, key: str) -> str:
        job = service.loops.reward_by_key
        return service.store.write_sync(lambda connection: job(connection, "loop", key, 1.0)).status

    with opened(path, clock=clock) as service:
        create(service, window=10.0)
        decide(service, key="kept")
        backup(path, copy)
        assert told(service, "lost") == "unknown"
        decide(service, key="lost")
    for status in ("restored", "unknown"):  # nothing came after the second backup
        lose(path)
        restore(copy, path, clock=clock)
        with opened(path, clock=clock) as service:
            assert (told(service, "lost"), told(service, kept)) == (status, "applied")
            clock.now += 10.0
            assert told(service, "lost") == "unknown"
            if status == "restored":
                decide(service, key=(kept := "another"))
                backup(path, copy := tmp_path / "second.sqlite")


def test_what_is_noted_of_a_loop_says_nothing_of_another_one_with_its_id(tmp_path: Path) -> None:
    """A loop is lost, another one gets its number; then a backup of the first is restored: 70 are missing."""
    path, copy, later = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", tmp_path / "later.sqlite"
    with opened(path) as service:
        backup(path, copy)
        create(service, "young")
        for n in range(100):
            if n == 30:
                backup(path, later)
            decide(service, "young")
    lose(path)
    restore(copy, path)
    with opened(path) as service:
        create(service, "other")
        for _ in range(50):
            decide(service, "other")
        assert service.loops.get("other").id == 1
    lose(path)
    said = restore(later, path)
    assert "loop number 1: made after the backup, and lost with it" in said
    with opened(path) as service:
        assert [each.missing for each in loop_view(service.loops.get("young")).restores] == [None]


def step_of(part: int, copy: Path, path: Path) -> bool:
    """Restore in a process that dies at a step of the file system; whether it came to its end."""
    process = os.fork()
    if process == 0:
        steps = iter(range(10**6))

        def die(event: str, _: tuple[object, ...]) -> None:
            if event in ("os.rename", "os.remove", "open", "os.truncate") and next(steps) == part:
                os._exit(9)

        sys.addaudithook(die)
        try:
            restore(copy, path)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def test_a_restore_that_is_killed_at_any_step_loses_nothing_of_what_is_noted(tmp_path: Path) -> None:
    """Tried again it finds what was noted before, or what it noted itself, and one event more."""
    path, copy, steps = tmp_path / "x.sqlite", tmp_path / "copy.sqlite", 0
    with opened(path) as service:
        create(service, policy=COIN, seed=None)
        backup(path, copy)
        for _ in range(20):
            decide(service, proposal="c")
    note = expected.beside(path)
    before, ended = note.read_bytes(), False
    while not ended:
        lose(path)
        note.write_bytes(before)
        ended = step_of(steps, copy, path)
        steps += 1
        assert expected.read(note)[1].seq in (20, 21)
        if not ended:
            lose(path)
            restore(copy, path)
            with opened(path) as service:
                assert [each.missing for each in restores_of(service.loops.get("loop"))] in ([20], [21])
    assert steps > 5


def test_the_note_is_on_disk_after_a_start_once_a_second_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, clock, synced = tmp_path / "x.sqlite", FakeClock(), list[str]()
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))[1]
    )
    note = expected.beside(path)
    with opened(path, clock=clock) as service:
        assert synced == [f"{note}.part", str(note.parent)]  # also the name
        create(service)
        decide(service)
        assert len(synced) == 2
        clock.now += 1.0
        decide(service)
        assert synced[2:] == [str(note)]
        decide(service)
        decide(service)
        assert len(synced) == 3
    assert synced[3:] == [str(note)]
