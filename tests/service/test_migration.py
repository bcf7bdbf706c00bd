"""A database of an older version is refused, and brought up to date by command: nothing in it is lost."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest
from helpers.loops import decide, digests, reward
from helpers.service_process import FakeClock, create, opened

from linoto.service.maintenance import backup, check, migrate
from linoto.service.server import open_service
from linoto.service.storage import schema
from linoto.service.storage.database import open_database
from linoto.service.web.access import create_token


def test_an_older_schema_is_refused_and_migrated_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    open_service(path).close()
    older = sqlite3.connect(path)
    older.execute("PRAGMA user_version = 0")
    older.close()
    with pytest.raises(ValueError, match="linoto db migrate"):
        open_service(path)
    scripts = {0: "CREATE TABLE step_one (x)", 1: "INSERT INTO step_one VALUES (7)"}
    assert migrate(path, scripts).endswith("schema 0 is now 2")
    with opened(path) as service:
        assert service.store.read_database(lambda c: c.execute("SELECT x FROM step_one").fetchall()) == [(7,)]
        with pytest.raises(OSError, match="in use"):
            migrate(path)


SCHEMA_1 = """
CREATE TABLE loops (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    spec BLOB NOT NULL,
    created_at REAL NOT NULL
) STRICT;
CREATE TABLE events (
    loop INTEGER NOT NULL REFERENCES loops (id),
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (loop, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE decisions (
    loop INTEGER NOT NULL REFERENCES loops (id),
    number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    key TEXT,
    arm INTEGER NOT NULL,
    mode TEXT NOT NULL,
    source TEXT NOT NULL,
    part TEXT NOT NULL,
    loop_mode TEXT NOT NULL,
    propensity REAL,
    PRIMARY KEY (loop, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX decision_keys ON decisions (loop, key) WHERE key IS NOT NULL;
CREATE TABLE rewards (
    loop INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    reward REAL NOT NULL,
    origin TEXT NOT NULL,
    PRIMARY KEY (loop, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE late_rewards (
    loop INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at REAL NOT NULL,
    reward REAL NOT NULL,
    PRIMARY KEY (loop, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE snapshots (
    loop INTEGER NOT NULL REFERENCES loops (id),
    seq INTEGER NOT NULL,
    books BLOB NOT NULL,
    agent BLOB NOT NULL,
    PRIMARY KEY (loop, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('reader', 'writer', 'admin')),
    digest BLOB NOT NULL UNIQUE,
    created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
"""


def write_as_schema_1(source: Path, target: Path) -> None:
    """Everything in a database of today, in one that was made with schema 1."""
    older = sqlite3.connect(target, isolation_level=None)
    older.executescript(SCHEMA_1)
    older.executescript(f"PRAGMA journal_mode = WAL; PRAGMA application_id = {schema.APPLICATION};")
    older.execute("PRAGMA user_version = 1")
    older.execute("ATTACH ? AS today", (str(source),))
    for table in tables(older):
        names = ", ".join(row[1] for row in older.execute(f"PRAGMA main.table_info({table})"))
        older.execute(f"INSERT INTO main.{table} SELECT {names} FROM today.{table}")
    older.close()


def tables(connection: Connection) -> list[str]:
    return [
        name for (name,) in connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'")
    ]


def rows_of_schema_1(path: Path) -> dict[str, list[Any]]:
    """Every row of every table that schema 1 has, in the columns it has there."""
    connection, reference = sqlite3.connect(path), sqlite3.connect(":memory:")
    reference.executescript(SCHEMA_1)
    found = {}
    for table in tables(reference):
        names = ", ".join(row[1] for row in reference.execute(f"PRAGMA table_info({table})"))
        found[table] = connection.execute(f"SELECT {names} FROM {table} ORDER BY {names}").fetchall()
    connection.close()
    reference.close()
    return found


def shape(path: Path) -> dict[str, Any]:
    """Every table and index with its columns."""
    connection = sqlite3.connect(path)
    found = {}
    for kind, name in connection.execute("SELECT type, name FROM sqlite_schema").fetchall():
        found[f"{kind} {name}"] = connection.execute(f"PRAGMA {kind}_xinfo({name})").fetchall()
    connection.close()
    return found


def test_everything_written_with_schema_1_is_there_after_its_migration(tmp_path: Path) -> None:
    today, path = tmp_path / "today.sqlite", tmp_path / "x.sqlite"
    clock = FakeClock()
    with opened(today, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0)
        made = [decide(service, key=f"key {i}") for i in range(20)]
        reward(service, made[0].decision_id, 1.0)
        clock.now += 11.0
        reward(service, made[1].decision_id, 1.0)  # too late: kept for audit
        digest = digests(service)[0]
        token = service.store.write_sync(lambda c: create_token(c, "shop", "writer", clock.now))
    write_as_schema_1(today, path)
    before = rows_of_schema_1(path)
    assert all(before.values()), "a table without rows shows nothing"
    for attempt in (lambda: open_service(path), lambda: list(check(path))):
        with pytest.raises(ValueError, match="linoto db migrate"):
            attempt()
    backup(path, tmp_path / "copy.sqlite")  # as the message advises
    assert migrate(path).endswith("schema 1 is now 2")
    assert rows_of_schema_1(path) == before and shape(path) == shape(today)
    with opened(path, clock=clock) as service:
        assert set(digests(service)) == {digest}
        assert decide(service, key="key 5") == made[5]
        caller = service.access.identify({b"authorization": f"Bearer {token}".encode()})
        assert (caller.name, caller.role, caller.rate) == ("shop", "writer", None)


def test_a_token_can_be_made_in_a_file_that_was_not_there(tmp_path: Path) -> None:
    with open_database(tmp_path / "new.sqlite", create=True) as connection:
        assert create_token(connection, "shop", "writer", 0.0).startswith("linoto_")
