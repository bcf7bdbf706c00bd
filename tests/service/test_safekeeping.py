"""What was lost or changed in a database is noticed and named, and a backup can be put back."""

from __future__ import annotations

import fcntl
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, close_due, create, opened, spec_of
from litestar.testing import TestClient

from linoto.cli import main
from linoto.service.errors import Refused
from linoto.service.maintenance import backup, check, create_loop, restore
from linoto.service.server import open_service
from linoto.service.storage import expected
from linoto.service.storage.database import open_database
from linoto.service.storage.sqlite import Owned


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A loop of twelve decisions: the first was closed by the default, and its reward came late."""
    path, clock = tmp_path / "x.sqlite", FakeClock()
    with opened(path, clock=clock, snapshot_every=5) as service:
        create(service, window=10.0)
        lost = decide(service)
        clock.now += 11.0
        close_due(service)
        reward(service, lost.decision_id, 1.0)
        for t in range(11):
            made = decide(service, key=f"key {t}")
            reward(service, made.decision_id, float(t % 2))
    return path


CHANGES = {
    "UPDATE rewards SET reward = 0.5": r"loop 'loop', event 2: the table of rewards must say .* decision 1",
    "DELETE FROM rewards WHERE number = 4": r"event 8: the table of rewards .* decision 4, got nothing",
    "DELETE FROM decisions WHERE number = 3": r"event 5: the table of decisions .* decision 3, got nothing",
    "UPDATE decisions SET key = 'other' WHERE number = 3": r"event 5: .* decision 3, got .*'other'",
    "UPDATE decisions SET arm = 2 WHERE number = 12": r"event 23: the table of decisions .* decision 12",
    "DELETE FROM late_rewards": None,
    "UPDATE late_rewards SET number = 2": "decision 2 has a late reward",
    "DELETE FROM events WHERE seq = 24": "decision 12 in the table of rewards has no event 24",
    "DELETE FROM events WHERE seq = 7": "loop 'loop' must have event 7, got 8: the log has a gap",
    "INSERT INTO rewards VALUES (1, 99, 0.0, 1.0, 'reported', 99)": "decision 99 .* has no event 99",
}


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.few(4)
def test_every_change_of_a_table_is_found_and_named(path: Path, change: str) -> None:
    assert "snapshot, replay and tables agree" in list(check(path))[1]
    with sqlite3.connect(path) as connection:
        connection.execute(change)
    connection.close()
    wanted = CHANGES[change]
    if wanted is None:  # kept for audit only: nothing else says that it must be there
        assert len(list(check(path))) == 2
        return
    with pytest.raises(ValueError, match=wanted):
        list(check(path))


WRITE_AHEAD: dict[str, Callable[[bytes], bytes]] = {
    "gone": lambda _: b"",
    "cut": lambda written: written[: len(written) // 2],
    "flipped": lambda written: (
        written[: (k := len(written) // 2)] + bytes([written[k] ^ 1]) + written[k + 1 :]
    ),
}


@pytest.mark.parametrize("damage", sorted(WRITE_AHEAD))
def test_a_lost_write_ahead_file_is_noticed_at_the_start_and_by_a_check(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        create(service)
        for _ in range(5):
            decide(service)
        with open_database(path) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(7):
            decide(service)
        for name in ("x.sqlite", "x.sqlite.seq"):  # what is left after a crash
            shutil.copy(tmp_path / name, tmp_path / f"crashed-{name}")
        left = tmp_path / "crashed-x.sqlite"
        left.with_name(f"{left.name}-wal").write_bytes(
            WRITE_AHEAD[damage]((tmp_path / "x.sqlite-wal").read_bytes())
        )
    wanted = r"loop 'loop' must have event 12, but it ends at event \d+: .*-wal"
    with pytest.raises(ValueError, match=wanted):
        list(check(left))
    with pytest.raises(ValueError, match=wanted):
        open_service(left)
    expected.beside(left).unlink()
    with opened(left) as service:
        assert 5 <= service.loops.get("loop").state.decided < 12
        assert (damage == "gone") == (service.loops.get("loop").state.decided == 5)


def test_a_check_of_a_served_database_knows_that_more_is_written_meanwhile(path: Path) -> None:
    with opened(path) as service:
        lines = check(path)
        assert next(lines) == f"{path}: file ok"
        decide(service)
        assert [line.partition(":")[0] for line in lines] == ["loop"]
        decide(service)
        assert len(list(check(path))) == 2


DAMAGES = {
    "UPDATE events SET body = CAST(substr(CAST(body AS TEXT), 2) AS BLOB) WHERE seq = 22": 22,
    "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), 'number', 'no') AS BLOB) WHERE seq = 23": 23,
    'UPDATE events SET body = CAST(\'{"kind":"closed","number":70,"reward":1.0,"origin":"reported"}\' '
    "AS BLOB) WHERE seq = 24": 24,
    "UPDATE events SET body = CAST(replace(CAST(body AS TEXT), '\"arm\":', '\"arm\":77') AS BLOB) "
    "WHERE seq = 23": 23,
}


@pytest.mark.parametrize("change", sorted(DAMAGES))
@pytest.mark.parametrize("look", ["check", "start"])
def test_a_damaged_event_is_named_by_its_loop_and_number(path: Path, change: str, look: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM snapshots")
        connection.execute(change)
    connection.close()
    with pytest.raises(ValueError, match=rf"loop 'loop', event {DAMAGES[change]}\b"):
        list(check(path)) if look == "check" else open_service(path)


def test_a_damaged_decision_that_is_open_is_named_too(path: Path) -> None:
    """Its event is before the snapshot."""
    with opened(path) as service:
        decide(service)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET body = CAST('{' AS BLOB) WHERE seq = 25")
    connection.close()
    with pytest.raises(ValueError, match="loop 'loop', event 25 is damaged: Input data was truncated"):
        open_service(path)


@pytest.fixture
def two_of_three(tmp_path: Path) -> Path:
    """Three loops with a decision each, of which the first and the last are damaged."""
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        for name in ("first", "sound", "last"):
            create(service, name)
            service.store.write_sync(lambda c, name=name: service.loops.decide(c, name, key="k"))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM snapshots")
        connection.execute("UPDATE events SET body = CAST('{' AS BLOB) WHERE loop != 2 AND seq = 1")
    connection.close()
    return path


def test_a_check_goes_on_to_every_loop_and_names_all_that_are_damaged(
    two_of_three: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["db", "check", "--db", str(two_of_three)]
    assert main(words) == 1
    out, error = capsys.readouterr()
    file, first, sound, last = out.splitlines()
    assert file.endswith("file ok") and sound.startswith("sound: 1 events, snapshot, replay and tables agree")
    for name, line in (("first", first), ("last", last)):
        assert line.startswith(f"{name}: NOT OK: loop '{name}', event 1 is damaged: ")
    assert "2 of 3 loops are not as they should be: first, last" in error
    assert main([*words, "--json"]) == 1 and len(json.loads(capsys.readouterr().out)["lines"]) == 4


def test_a_damaged_loop_keeps_no_other_from_being_served(two_of_three: Path) -> None:
    """It is shown as what it is, nothing takes its place, and its note stays."""
    note = expected.beside(two_of_three)
    before = expected.read(note)
    with opened(two_of_three) as service, TestClient(service.app, base_url="http://127.0.0.1") as client:
        assert client.post("/v1/loops/sound/decide", json={}).status_code == 200
        refused = [
            client.post("/v1/loops/first/decide", json={}),
            client.put("/v1/loops/first/reward", json={"key": "k", "reward": 1}),
            client.get("/v1/loops/first"),
            client.get("/v1/loops/first/ready"),
            client.get("/v1/loops/first/export"),
            client.put("/v1/loops/first", json=msgspec.to_builtins(spec_of())),
        ]
        for answer in refused:
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (503, "damaged"), answer.request.url
            assert "loop 'first' cannot be served: loop 'first', event 1 is damaged" in error["message"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.text) == (200, "ok, but 2 loops cannot be served")
        assert [loop["name"] for loop in client.get("/v1/loops").json()] == ["sound"]
        lines = client.get("/v1/overview").json()
        assert [line["name"] for line in lines] == ["first", "sound", "last"]
        assert [line["mode"] for line in lines] == [None, "live", None]
        assert "event 1 is damaged" in lines[0]["damaged"] and lines[1]["damaged"] is None
        found = client.get("/v1/overview?search=LAST&limit=1")
        assert [line["name"] for line in found.json()] == ["last"] and found.headers["x-total-count"] == "1"
        decided = client.get("/v1/loops/sound").json()["decisions"]
    after = expected.read(note)
    assert {id: after[id] for id in (1, 3)} == {id: before[id] for id in (1, 3)} and decided == 2
    with pytest.raises(Refused, match="cannot be served"):
        create_loop(two_of_three, "first", spec_of())


def test_a_database_of_which_nothing_can_be_read_is_refused(two_of_three: Path) -> None:
    with sqlite3.connect(two_of_three) as connection:
        connection.execute("UPDATE events SET body = CAST('{' AS BLOB)")
    connection.close()
    with pytest.raises(ValueError, match=r"'first', event 1 is damaged: .* \(and 2 more loops cannot"):
        open_service(two_of_three)


def test_a_loop_that_was_lost_with_the_write_ahead_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        with open_database(path) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        create(service)
        for name in ("x.sqlite", "x.sqlite.seq"):
            shutil.copy(tmp_path / name, tmp_path / f"crashed-{name}")
    with pytest.raises(ValueError, match="the loop itself is missing"):
        open_service(tmp_path / "crashed-x.sqlite")


def test_a_backup_is_restored_and_goes_on(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drill: back up, go on, lose the database, restore, check, serve."""
    copy = tmp_path / "copy.sqlite"
    backup(path, copy)
    with opened(path) as service:
        before = digests(service)[0]
        decide(service)
    for name in ("x.sqlite", "x.sqlite-wal", "x.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    main(["db", "restore", str(copy), "--db", str(path)])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{path}: restored from {copy}" and "it is lost: 1 event, among them" in said[1]
    assert said[-1].startswith(f"next: `linoto serve --db {path}`, ")  # not another database
    assert len(list(check(path))) == 2 and path.stat().st_mode & 0o777 == 0o600
    with opened(path) as service:
        assert len({before, *digests(service)}) == 2  # it knows that it was restored
        assert decide(service).loop_mode == "safe-only"


@pytest.mark.parametrize("stale", ["x.sqlite", "x.sqlite-wal"])
def test_a_backup_is_never_mixed_with_what_is_left_of_another_database(path: Path, stale: str) -> None:
    copy, kept = path.with_name("copy.sqlite"), path.with_name(stale)
    backup(path, copy)
    path.unlink()
    path.with_name("x.sqlite-wal").unlink(missing_ok=True)
    kept.write_bytes(b"left behind")
    with pytest.raises(FileExistsError, match=f"{stale} exists: move it away first"):
        restore(copy, path)
    assert kept.read_bytes() == b"left behind"


def test_a_served_database_is_not_restored(path: Path) -> None:
    copy = path.with_name("copy.sqlite")
    backup(path, copy)
    with opened(path), pytest.raises(OSError, match="in use by another server"):
        restore(copy, path)


def test_what_is_no_backup_of_ours_is_not_restored(tmp_path: Path) -> None:
    copy, path = tmp_path / "copy.sqlite", tmp_path / "x.sqlite"
    copy.write_bytes(b"no database" * 1000)
    with pytest.raises(OSError, match="cannot use the database"):
        restore(copy, path)
    assert not path.exists()


def no_database(copy: Path) -> None:
    copy.write_bytes(b"no database" * 1000)


def other_program(copy: Path) -> None:
    copy.unlink()
    with sqlite3.connect(copy) as connection:
        connection.execute("CREATE TABLE songs (name)")
    connection.close()


def torn_event(copy: Path) -> None:
    with sqlite3.connect(copy) as connection:
        connection.execute("UPDATE events SET body = x'7b'")
        connection.execute("DELETE FROM snapshots")
    connection.close()


@pytest.mark.parametrize("spoil", [no_database, other_program, torn_event, Path.unlink])
def test_a_restore_that_fails_leaves_nothing_behind(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Neither the file that locks the name, nor a part of a database; what was there before stays."""
    served, copy, path = tmp_path / "served.sqlite", tmp_path / "copy.sqlite", tmp_path / "lost" / "x.sqlite"
    with opened(served) as service:
        create(service)
        decide(service)
        backup(served, copy)
    path.parent.mkdir()
    spoil(copy)
    for there in ([], [path.with_name("x.sqlite.lock")], [path]):
        for file in there:
            file.touch()
        before = sorted(path.parent.iterdir())  # beside the copy SQLite leaves its own, as after any read
        with pytest.raises((OSError, ValueError)):
            restore(copy, path)
        assert sorted(path.parent.iterdir()) == before
        for file in there:
            file.unlink()
    backup(served, tmp_path / "whole.sqlite")
    restore(tmp_path / "whole.sqlite", path)
    with opened(path) as service:
        assert decide(service).loop_mode == "safe-only"


def test_a_lock_that_was_taken_away_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who holds a file without a name would not be seen by who comes next."""
    path, flock = tmp_path / "x.sqlite", fcntl.flock

    def too_late(handle: int, how: int) -> None:
        tmp_path.joinpath("x.sqlite.lock").unlink()
        flock(handle, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", too_late)
        with pytest.raises(OSError, match="in use by another server"):
            Owned(path)
    with Owned(path), pytest.raises(OSError, match="in use by another server"):
        Owned(path)


@pytest.mark.parametrize(
    "mark", ["PRAGMA application_id = 7", "CREATE TABLE songs (name)", "PRAGMA user_version = 3"]
)
def test_a_database_of_another_program_is_refused_before_anything_is_changed(
    tmp_path: Path, mark: str
) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(mark)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match="got one of another program"):
        open_service(path)
    assert path.read_bytes() == before and not path.with_name("other.sqlite-wal").exists()


def test_only_the_owner_can_read_the_files(path: Path, tmp_path: Path) -> None:
    backup(path, tmp_path / "copy.sqlite")
    with opened(path) as service:
        decide(service)
        files = [file for file in tmp_path.iterdir() if file.is_file()]
        assert {file.name for file in files} >= {"x.sqlite", "x.sqlite-wal", "x.sqlite.seq", "copy.sqlite"}
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)
