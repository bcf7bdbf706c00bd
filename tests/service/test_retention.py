"""Pruning old records changes neither the state of a loop nor the records that stay."""

from __future__ import annotations

import io
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.disk import state_on_disk
from helpers.loops import THOMPSON, decide, digests, reward, run_mixed_traffic
from helpers.service_process import FakeClock, close_due, create, opened

import linoto
from linoto.cli import main
from linoto.service.loops import views
from linoto.service.maintenance import backup, check, rebuild
from linoto.service.retention import base_at, prune, prune_loop
from linoto.service.server import Service
from linoto.service.storage import sql
from linoto.service.storage.sqlite import connect
from linoto.service.web.export import parquet

TABLES = ("events", "decisions", "rewards", "late_rewards")


def prune_before(path: Path, before: float, **options: Any) -> list[str]:
    """Prune without rests: nobody else is there to need them."""
    return list(prune(path, before=before, now=before, **{"sleep": lambda _: None, **options}))


def rows(path: Path) -> dict[str, list[Any]]:
    connection = connect(path)
    found = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
    connection.close()
    return found


def execute(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def play(service: Service, clock: FakeClock, rounds: int = 60, seed: int = 0) -> None:
    """A decision a second with a key; of four rewards one never comes, and one comes too late."""
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        clock.now += 1.0
        made = decide(service, key=f"at {clock.now}")
        kind = rng.integers(4)
        if kind < 2:
            reward(service, made.decision_id, float(rng.random() < 0.6))
        elif kind == 2 and service.loops.get("loop").state.decided > 15:
            reward(service, f"1-{int(made.decision_id[2:]) - 15}", 1.0)


@pytest.mark.parametrize(
    "policy",
    [None, THOMPSON, linoto.LinOtO(), linoto.Doubling(policy=linoto.LinUCB())],
    ids=["tolerance", "thompson", "paper", "doubling"],
)
@pytest.mark.few(1)
def test_pruning_changes_neither_the_state_nor_the_next_decisions(tmp_path: Path, policy: Any) -> None:
    path, whole, clock = tmp_path / "x.sqlite", tmp_path / "whole.sqlite", FakeClock()
    changes = {} if policy is None else {"policy": policy}
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0, holdback=0.2, **changes)
        run_mixed_traffic(service, clock)
        digest = digests(service)[0]
        backup(path, whole)
        for cutoff in (1020.0, 1040.0, clock.now):
            before = len(rows(path)["events"])
            prune_before(path, cutoff)
            assert len(rows(path)["events"]) < before
            assert set(digests(service)) == {digest}
        futures = [future_of(service, clock)]
    with opened(whole, clock=FakeClock(clock.now - 60.0)) as service:
        futures.append(future_of(service, service.loops.clock))
    assert futures[0] == futures[1]
    assert list(check(path))[1].startswith("loop: ")


def future_of(service: Service, clock: Any) -> set[str]:
    run_mixed_traffic(service, clock)
    return set(digests(service))


def test_exactly_what_was_closed_before_the_cutoff_is_pruned(tmp_path: Path) -> None:
    path, clock, cutoff = tmp_path / "x.sqlite", FakeClock(), 1035.5
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
        before = rows(path)
        assert len(before["late_rewards"]) > 3
        (line,) = prune_before(path, cutoff)
        after = rows(path)
        closed = {number for _, number, at, *_ in before["rewards"] if at < cutoff}
        opens = {
            seq for _, number, seq, at, *_ in before["decisions"] if number not in closed and at < cutoff
        }
        assert len(closed) > 20 and opens
        for table in ("decisions", "rewards", "late_rewards"):
            assert after[table] == [row for row in before[table] if row[1] not in closed]
        assert after["events"] == [row for row in before["events"] if row[2] >= cutoff or row[1] in opens]
        went, stay = len(before["events"]) - len(after["events"]), len(after["events"])
        assert line == (
            f"loop: pruned {len(closed)} decisions and {went} events, "
            f"{60 - len(closed)} decisions and {stay} events stay"
        )
        for again in (cutoff, 1010.0, 0.0):
            (line,) = prune_before(path, again)
            assert line.startswith("loop: pruned 0 decisions and 0 events, ")
        assert rows(path) == after


def test_nothing_after_the_last_snapshot_is_pruned_and_without_one_nothing(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=50) as service:
        create(service)
        create(service, "young")
        decide(service, "young")
        for _ in range(30):
            clock.now += 1.0
            reward(service, decide(service).decision_id, 1.0)
        clock.now += 1e6
        first, second = prune_before(path, clock.now)
        assert first == "loop: pruned 25 decisions and 50 events, 5 decisions and 10 events stay"
        assert second == "young: not pruned, it has no snapshot yet"
        assert [row[1] for row in rows(path)["events"] if row[0] == 1] == list(range(51, 61))
    assert prune_before(path, clock.now, loop="loop")[0].endswith("0 decisions and 0 events stay")
    with pytest.raises(ValueError, match="there is no loop 'other'"):
        prune_before(path, clock.now, loop="other")


def test_callers_are_told_that_a_decision_was_pruned(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=2) as service:
        create(service, window=100.0)
        old, open_one = decide(service, key="old"), decide(service, key="open")
        reward(service, old.decision_id, 1.0)
        clock.now += 50.0
        young = decide(service, key="young")
        reward(service, young.decision_id, 0.0)
        prune_before(path, clock.now - 1.0)
        said = reward(service, old.decision_id, 1.0)
        assert (said.status, said.code, said.reward) == ("expired", 410, None)
        assert said.message == "the records of this decision were pruned: the reward it had stands"
        assert rows(path)["late_rewards"] == []
        loop, store = service.loops.get("loop"), service.store
        assert decide(service, key="old").decision_id == "1-4"
        recent = store.read_database(lambda c: sql.recent_decisions(c, loop.id, 99, 99))
        assert [number for number, *_ in recent] == [4, 3, 2]
        table = pq.read_table(io.BytesIO(b"".join(parquet(store, loop, pending=False))))
        assert table["decision_id"].to_pylist() == ["1-3"]
        assert decide(service, key="open") == open_one and decide(service, key="young") == young
        assert reward(service, open_one.decision_id, 1.0).status == "applied"
        assert reward(service, young.decision_id, 0.0).status == "duplicate"
        assert len(set(digests(service))) == 1


def test_a_commit_that_fails_after_pruning_is_rolled_back_from_disk(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
        prune_before(path, clock.now)
        before = digests(service)[0]

        def fail(connection: Connection) -> None:
            service.loops.decide(connection, "loop")
            raise KeyError("a fault")

        with pytest.raises(KeyError):
            service.store.write_sync(fail)
        assert set(digests(service)) == {before}
        play(service, clock, rounds=10)
        assert len(set(digests(service))) == 1


def test_a_loop_whose_snapshot_is_not_the_fold_of_its_events_is_not_pruned(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
    execute(path, """UPDATE events SET body = CAST(replace(body, '"reward":1.0', '"reward":0.5') AS BLOB)""")
    before = rows(path)
    for options in ({}, {"dry_run": True}):
        with pytest.raises(ValueError, match="so nothing is pruned: see `linoto db check`"):
            prune_before(path, 1030.0, **options)
    assert rows(path) == before
    assert sql_value(path, "SELECT count(*) FROM bases") == 0
    execute(path, "UPDATE rewards SET reward = 0.5 WHERE reward = 1.0")  # as the events say
    with pytest.raises(ValueError, match=r"not what its events make of it; .*`linoto db rebuild`"):
        list(check(path))
    assert list(rebuild(path)) and list(check(path))


def test_nor_is_one_whose_tables_are_not_what_its_events_say(tmp_path: Path) -> None:
    """The events say what the tables should: they must not go first."""
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
    execute(path, "UPDATE rewards SET reward = 0.25 WHERE number = (SELECT max(number) FROM rewards)")
    before = rows(path)
    for options in ({}, {"dry_run": True}):
        with pytest.raises(ValueError, match=r"the table of rewards must say .* 0\.25"):
            prune_before(path, 1030.0, **options)
    assert rows(path) == before


def sql_value(path: Path, statement: str) -> Any:
    connection = connect(path)
    value = connection.execute(statement).fetchone()[0]
    connection.close()
    return value


def test_a_gap_is_found_after_pruning_too_and_a_rebuild_begins_at_the_base(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
        digest = digests(service)[0]
    prune_before(path, 1040.0)
    base, last = sql_value(path, "SELECT seq FROM bases"), sql_value(path, "SELECT max(seq) FROM events")
    there = sql_value(path, "SELECT count(*) FROM events")
    assert there > last - base  # decisions that were open at the base are there too
    assert list(check(path))[1] == (
        f"loop: {last} events, {there} of them kept after pruning, snapshot, replay and tables agree"
    )
    assert list(rebuild(path)) == [f"loop: replayed {last - base} events"]
    assert state_on_disk(path) == (last, digest, digest)
    for seq in (base + 1, base + 5, last - 1):
        copy = tmp_path / f"{seq}.sqlite"
        shutil.copy(path, copy)
        execute(copy, f"DELETE FROM events WHERE seq = {seq}")
        with pytest.raises(ValueError, match="the log has a gap"):
            list(check(copy))
    execute(path, "UPDATE bases SET agent = x'00'")
    with pytest.raises(ValueError, match="only a version of linoto that reads this can go on"):
        list(check(path))


def test_an_archived_loop_keeps_its_spec_and_its_report(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock) as service:
        create(service, window=10.0)
        play(service, clock)
        clock.now += 20.0
        close_due(service)
        service.store.write_sync(lambda c: service.loops.archive(c, "loop", "test"))
        account = views.report(service.loops.get("loop"))
    assert prune_before(path, clock.now + 1.0)[0].endswith(", 0 decisions and 0 events stay")
    assert all(table == [] for table in rows(path).values())
    with opened(path, clock=clock) as service:
        assert views.report(service.loops.get("loop")) == account and account.loop.archived
        assert reward(service, "1-3", 1.0).status == "expired"
        assert reward(service, "1-61", 1.0).status == "unknown"


class Interrupted(Exception):  # noqa: N818 - what happens, not what is wrong
    """Somebody pulled the plug."""


def after(calls: int) -> Callable[[float], None]:
    """A rest that is interrupted at the last of so many calls."""
    left = iter(range(calls))

    def sleep(_: float) -> None:
        if next(left, None) is None:
            raise Interrupted

    return sleep


def test_pruning_can_be_interrupted_anywhere_and_is_finished_by_the_next(tmp_path: Path) -> None:
    source, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(source, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
        digest = digests(service)[0]
    done = tmp_path / "done.sqlite"
    shutil.copy(source, done)
    prune_before(done, 1040.0)
    finished, calls = False, 0
    while not finished:
        path = tmp_path / f"{calls}.sqlite"
        shutil.copy(source, path)
        try:
            prune_before(path, 1040.0, sleep=after(calls), batch=10)
            finished = True
        except Interrupted:
            pass
        assert state_on_disk(path)[1:] == (digest, digest)
        prune_before(path, 1040.0)
        assert rows(path) == rows(done)
        calls += 1
    assert calls > 10


def test_two_prunings_at_once_lose_nothing(tmp_path: Path) -> None:
    """The slower one was planned before the other moved the base beyond it."""
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        play(service, clock)
        digest = digests(service)[0]
        reading, writing = connect(path, readonly=True), connect(path)
        base = base_at(reading, sql.all_loops(reading)[0], 1030.0)
        assert base is not None
        prune_before(path, 1050.0)
        after_one = rows(path)
        prune_loop(reading, writing, base, clock.now, lambda _: None, 10)
        reading.close()
        writing.close()
        assert rows(path) == after_one
        assert set(digests(service)) == {digest}


def test_the_command_says_what_is_pruned_and_shrinks_only_what_nobody_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path) as service:  # at the time it is now
        create(service)
        for _ in range(300):
            reward(service, decide(service, key="k" * 150 + str(_)).decision_id, 1.0)
        service.store.write_sync(service.loops.save_all)
        assert main(["db", "prune", "--db", str(path), "--days", "0", "--shrink"]) == 1
        assert "in use by another server" in capsys.readouterr().err
        before = rows(path)
        assert main(["db", "prune", "--db", str(path), "--days", "0", "--dry-run"]) == 0
        line = "300 decisions and 600 events, 0 decisions and 0 events stay\n"
        assert capsys.readouterr().out == f"loop: would prune {line}"
        assert main(["db", "prune", "--db", str(path), "--days", "1"]) == 0
        assert "pruned 0 decisions and 0 events" in capsys.readouterr().out
        assert rows(path) == before
        assert sql_value(path, "SELECT count(*) FROM bases") == 0
    size = path.stat().st_size
    assert main(["db", "prune", "--db", str(path), "--days", "0", "--shrink"]) == 0
    assert f"loop: pruned {line}" in capsys.readouterr().out
    assert path.stat().st_size < size / 3
    assert main(["db", "check", "--db", str(path)]) == 0
    with pytest.raises(SystemExit):
        main(["db", "prune", "--db", str(path), "--days", "0", "--shrink", "--dry-run"])
