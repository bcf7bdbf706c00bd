"""What is acknowledged is on disk; what is not on disk is not in memory either."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers.disk import state_on_disk
from helpers.forks import ForkedServer
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, create, opened

import linoto
from linoto.service.errors import Refused, Unavailable
from linoto.service.maintenance import backup, check, rebuild
from linoto.service.server import Service, check_address, open_service
from linoto.service.sockets import open_socket
from linoto.service.storage import schema
from linoto.service.storage.sqlite import connect
from linoto.service.storage.store import Store


def test_a_second_server_on_the_same_file_is_refused_even_by_another_name(tmp_path: Path) -> None:
    """Nor where the lock beside it was deleted: the file itself is locked."""
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "x.sqlite")
    with opened(tmp_path / "x.sqlite") as service:
        (tmp_path / "hard.sqlite").hardlink_to(tmp_path / "x.sqlite")
        create(service)
        for deleted in (False, True):
            for name in ("x.sqlite", "link.sqlite", "hard.sqlite"):
                with pytest.raises(OSError, match="in use by another server"):
                    open_service(tmp_path / name)
                second = ForkedServer(tmp_path / name, log=tmp_path / f"{name} {deleted}.log", port=0)
                assert second.wait() != 0
                assert "in use by another server" in (tmp_path / f"{name} {deleted}.log").read_text()
            (tmp_path / "x.sqlite.lock").unlink()
        decide(service)
    with opened(tmp_path / "hard.sqlite") as service:
        assert service.loops.get("loop").state.decided == 1
    open_service(tmp_path / "x.sqlite").close()


def break_disk(connection: sqlite3.Connection, how: str) -> None:
    if how == "full":
        connection.execute("PRAGMA max_page_count = 1")  # becomes as many pages as there are: none to spare
    elif how == "read-only":
        connection.execute("PRAGMA query_only = 1")
    else:
        connection.execute("PRAGMA busy_timeout = 50")


def mend_disk(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA max_page_count = {2**30}")
    connection.execute("PRAGMA query_only = 0")


def decide_until_refused(service: Service) -> str:
    for _ in range(2000):
        try:
            decide(service)
        except Unavailable as error:
            return str(error)
    raise AssertionError("the disk never failed")


@pytest.mark.parametrize("how", ["full", "read-only", "locked"])
@pytest.mark.few(1)
def test_a_failed_commit_rolls_memory_back_and_service_resumes(tmp_path: Path, how: str) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path, snapshot_every=25) as service:
        create(service)
        acknowledged = [decide(service) for _ in range(30)]
        service.store.write_sync(lambda connection: break_disk(connection, how))
        other = sqlite3.connect(path, isolation_level=None)
        if how == "locked":
            other.execute("BEGIN IMMEDIATE")
        message = decide_until_refused(service)
        assert "nothing was kept" in message
        assert "nothing was kept" in decide_until_refused(service)
        other.close()
        service.store.write_sync(mend_disk)
        memory, short, long = digests(service)
        assert memory == short == long
        assert service.loops.get("loop").state.decided >= 30
        assert reward(service, acknowledged[0].decision_id, 1.0).status == "applied"
        assert decide(service).arm


def test_a_database_that_cannot_be_used_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot open the database"):
        open_service(Path("/proc/linoto.sqlite"))  # no file can be made there, whoever asks
    (tmp_path / "text.sqlite").write_text("this is not a database, and it is longer than a header is" * 20)
    with pytest.raises(OSError, match="cannot use the database"):
        open_service(tmp_path / "text.sqlite")
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE t (x)")
    other.close()
    with pytest.raises(ValueError, match="another program"):
        open_service(tmp_path / "other.sqlite")
    open_service(tmp_path / "new.sqlite").close()
    newer = sqlite3.connect(tmp_path / "new.sqlite")
    newer.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    newer.close()
    with pytest.raises(ValueError, match="newer linoto"):
        open_service(tmp_path / "new.sqlite")


@pytest.mark.parametrize("cut", [1, 17, 24, 1000])
@pytest.mark.few(2)
def test_a_torn_last_write_loses_nothing_before_it(tmp_path: Path, cut: int) -> None:
    """The image of a crash with a torn tail recovers to the fold of the events before the tear."""
    path, image = tmp_path / "x.sqlite", tmp_path / "crash" / "x.sqlite"
    image.parent.mkdir()
    with opened(path, snapshot_every=50) as service:  # the last snapshot is not the last event
        create(service)
        for _ in range(60):
            reward(service, decide(service).decision_id, 1.0)
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{image}{suffix}")
        complete = digests(service)[0]
    log = Path(f"{image}-wal")
    whole = log.read_bytes()
    log.write_bytes(whole + whole[-4120:-cut])  # a torn frame after the last commit
    assert state_on_disk(image) == (120, complete, complete)
    for suffix in ("", "-wal", "-shm"):
        Path(f"{image}{suffix}").unlink(missing_ok=True)
    shutil.copy(path, image)
    events, short, long = state_on_disk(image)
    assert events == 120 and short == long == complete


def test_one_failing_job_does_not_fail_the_others(tmp_path: Path) -> None:
    store = Store(tmp_path / "x.sqlite")
    gate, results = threading.Event(), {}

    def wait(connection: Any) -> None:
        gate.wait(60)

    def fail(connection: Any) -> None:
        raise KeyError("a fault")

    def ask(name: str, job: Any) -> None:
        try:
            results[name] = store.write_sync(job)
        except KeyError as error:
            results[name] = error

    jobs = {"wait": wait, "good": lambda c: 1, "bad": fail, "also good": lambda c: 2}
    threads = [threading.Thread(target=ask, args=item) for item in jobs.items()]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join(60)
    store.close()
    assert results["good"] == 1 and results["also good"] == 2 and isinstance(results["bad"], KeyError)
    with pytest.raises(Unavailable, match="stopping"):
        store.write_sync(lambda connection: None)


def test_a_backup_is_complete_and_a_check_replays_everything(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.sqlite", tmp_path / "copy.sqlite"
    with opened(path, clock=FakeClock(), snapshot_every=5) as service:
        create(service)
        for _ in range(20):
            decide(service)
        backup(path, copy)
        digest = digests(service)[0]
    assert state_on_disk(copy) == (20, digest, digest)
    assert list(check(copy)) == [f"{copy}: file ok", "loop: 20 events, snapshot, replay and tables agree"]
    with pytest.raises(FileExistsError):
        backup(path, copy)
    tampered = sqlite3.connect(copy)
    tampered.execute("DELETE FROM events WHERE seq = 3")
    tampered.commit()
    tampered.close()
    with pytest.raises(ValueError, match="gap"):
        list(check(copy))


def test_only_loopback_is_served_without_tokens_and_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        with pytest.raises(ValueError, match=r"must be 127\.0\.0\.1"):
            check_address("0.0.0.0", service.access)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(OSError, match="cannot serve"):
                open_socket("127.0.0.1", taken.getsockname()[1], {})


def test_a_snapshot_of_another_policy_is_refused_and_rebuilt_by_command(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with opened(path, clock=FakeClock(), snapshot_every=5) as service:
        create(service)
        create(service, "other", window=1.0, policy=linoto.LinUCB())
        for _ in range(20):
            decide(service)
            decide(service, "other")
        digest = digests(service)[0]
    swapped = sqlite3.connect(path)
    swapped.execute(
        "UPDATE snapshots SET agent = (SELECT agent FROM snapshots WHERE loop = 2) WHERE loop = 1"
    )
    swapped.commit()
    swapped.close()
    with opened(path, clock=FakeClock()) as service:  # which serves the other one
        assert set(service.loops.by_name) == {"other"}
        with pytest.raises(Refused, match="linoto db rebuild"):
            service.loops.get("loop")
    assert list(rebuild(path)) == ["loop: replayed 20 events", "other: replayed 20 events"]
    with opened(path, clock=FakeClock()) as service:
        assert set(digests(service)) == {digest}


def test_a_command_that_writes_while_the_server_runs_fails_no_request(tmp_path: Path) -> None:
    """A request reads before it writes: what another has written in between must not undo it."""
    path = tmp_path / "x.sqlite"
    with opened(path) as service:
        create(service)
        first = decide(service, key="first")
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        other.execute(
            "INSERT INTO tokens (name, role, digest, created_at) VALUES ('shop', 'reader', x'00', 0)"
        )
        ending = threading.Timer(0.2, lambda: other.execute("COMMIT"))
        ending.start()
        assert decide(service, key="second").decision_id == "1-2"
        ending.join()
        other.close()
        assert decide(service, key="first") == first
        assert service.store.measures.failures == 0


def event(seq: int) -> tuple[int, int, float, bytes]:
    return 1, seq, 0.0, b"{}"


@pytest.mark.parametrize("bad", [event(1), event(2**63)], ids=["there already", "cannot be kept"])
def test_a_row_that_is_refused_fails_the_job_that_appended_it_and_no_other(tmp_path: Path, bad: Any) -> None:
    """Rows are written at the next statement, or at the commit: in another job's time than their own."""

    async def run(store: Store) -> list[Any]:
        await store.write(lambda c: c.append("events", event(1)))
        jobs = [
            lambda c: c.append("events", event(2)),
            lambda c: c.append("events", bad),
            lambda c: c.execute("SELECT count(*) FROM events").fetchone()[0],
            lambda c: c.append("events", event(3)),
            lambda c: c.append("events", bad),
        ]
        return await asyncio.gather(*(store.write(job) for job in jobs), return_exceptions=True)

    with closing(Store(tmp_path / "x.sqlite")) as store:
        first, refused, count, last, again = asyncio.run(asyncio.wait_for(run(store), 60))
        assert (first, count, last) == (None, 2, None)
        assert isinstance(refused, sqlite3.DatabaseError) and isinstance(again, sqlite3.DatabaseError)
        kept = store.read_database(lambda c: c.execute("SELECT seq FROM events ORDER BY seq").fetchall())
        assert kept == [(1,), (2,), (3,)]
        with pytest.raises(sqlite3.DatabaseError):
            store.write_sync(lambda c: c.append("events", bad))
