"""Backups by themselves, and what the metrics say of the parts of the server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from helpers.http import ask
from helpers.loops import decide, digests
from helpers.service_process import FakeClock, create, opened, served
from prometheus_client.parser import text_string_to_metric_families

from linoto.service.backups import Backups
from linoto.service.maintenance import check
from linoto.service.server import Settings, backups_of


def gauges_of(text: str) -> dict[str, float]:
    """The numbers without labels."""
    families = text_string_to_metric_families(text)
    return {sample.name: sample.value for each in families for sample in each.samples if not sample.labels}


def wait_for_files(folder: Path, count: int) -> list[Path]:
    deadline = time.monotonic() + 120
    while len(found := sorted(folder.glob("*.sqlite"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_service_backs_itself_up_and_says_how_old_the_last_one_is(tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    settings = {"backups": str(folder), "backup_every": 3600.0}
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        decide(service)
        before = digests(service)
    with served(tmp_path / "x.sqlite", settings=settings) as server:
        (made,) = wait_for_files(folder, 1)
        told = gauges_of(ask(server, "GET", "/metrics")[1])
    assert 0 <= told["linoto_backup_age_seconds"] < 3600 and told["linoto_connections"] >= 1
    assert told["process_resident_memory_bytes"] > 1e6 and told["process_open_fds"] > 3
    assert list(check(made))[1] == "loop: 1 events, snapshot, replay and tables agree"
    with opened(made) as copy:
        assert digests(copy) == before


def test_only_the_newest_few_are_kept_and_nothing_else_is_touched(tmp_path: Path) -> None:
    clock, folder = FakeClock(1_800_000_000.0), tmp_path / "backups"
    folder.mkdir()
    (folder / "x-notes.sqlite").write_text("of somebody else")
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
    backups = Backups(tmp_path / "x.sqlite", folder, every=60.0, kept=3, clock=clock)
    assert backups.age() is None
    made = []
    for _ in range(5):
        made.append(backups.make())
        clock.now += 60.0
    assert backups.all() == made[2:] and (folder / "x-notes.sqlite").exists()
    assert not list(folder.glob("*.part"))
    with pytest.raises(ValueError, match="backups must be a folder"):
        Backups(tmp_path / "x.sqlite", tmp_path / "none", every=60.0, kept=3)
    with pytest.raises(ValueError, match="must be given together"):
        backups_of(tmp_path / "x.sqlite", Settings(backup_every=60.0))


def test_no_backup_is_deleted_while_a_loop_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An old one may be the last that has the loop whole."""
    clock, folder = FakeClock(1_800_000_000.0), tmp_path / "backups"
    folder.mkdir()
    with opened(tmp_path / "x.sqlite") as service:
        create(service, "bad")
    damaged = {"bad": "why"}
    settings = Settings(backups=folder, backup_every=60.0, backups_kept=1)
    backups = backups_of(tmp_path / "x.sqlite", settings, damaged)
    assert backups is not None
    backups.clock, made = clock, list[Path]()
    for _ in range(3):
        made.append(backups.make())
        clock.now += 60.0
    assert backups.all() == made
    said = [vars(each) for each in caplog.records if each.message.startswith("old backups are kept")]
    assert [(each["loops"], each["kept"]) for each in said] == [("bad", 1), ("bad", 2)]
    damaged.clear()
    last = backups.make()
    assert backups.all() == [last]
