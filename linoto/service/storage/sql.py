"""All SQL: one statement, or one script, per named function of a connection."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

Connection = sqlite3.Connection
Row = tuple[Any, ...]
LAST = 2**62  # after every event
PAGE = 5000  # events read at a time

APPLICATION = 0x6C696E6F  # "lino", so that another program's database is not taken for ours
VERSION = 2

SCHEMA = """
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
    seq INTEGER NOT NULL DEFAULT 0,
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
CREATE TABLE bases (
    loop INTEGER PRIMARY KEY REFERENCES loops (id),
    seq INTEGER NOT NULL,
    books BLOB NOT NULL,
    agent BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('reader', 'writer', 'admin')),
    digest BLOB NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    rate REAL,
    revoked_at REAL
) STRICT, WITHOUT ROWID;
"""

MIGRATIONS = {  # the script that leads from each older version to the next
    1: """
CREATE TABLE bases (
    loop INTEGER PRIMARY KEY REFERENCES loops (id),
    seq INTEGER NOT NULL,
    books BLOB NOT NULL,
    agent BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;
ALTER TABLE tokens ADD COLUMN rate REAL;
ALTER TABLE tokens ADD COLUMN revoked_at REAL;
ALTER TABLE rewards ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
CREATE TEMP TABLE closed AS
    SELECT loop, seq, json_extract(CAST(body AS TEXT), '$.number') AS number FROM events
    WHERE json_extract(CAST(body AS TEXT), '$.kind') = 'closed';
CREATE UNIQUE INDEX closed_numbers ON closed (loop, number);
UPDATE rewards SET seq =
    (SELECT c.seq FROM closed c WHERE c.loop = rewards.loop AND c.number = rewards.number);
DROP TABLE closed;
""",
}


def set_durable(connection: Connection) -> None:
    """Write-ahead log, synced at every commit; wait a little for a command that writes beside us."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = 1")
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA wal_autocheckpoint = 16000")  # pages; each checkpoint costs two more syncs


def set_patience(connection: Connection, seconds: float) -> None:
    """How long to wait for somebody else who writes."""
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * seconds)}")


def versions(connection: Connection) -> tuple[int, int]:
    """Whose database this is, and in which version of the schema."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return application, connection.execute("PRAGMA user_version").fetchone()[0]


def is_empty(connection: Connection) -> bool:
    """Whether nothing was ever made in it."""
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_schema").fetchone()[0])


def create_schema(connection: Connection) -> None:
    """All tables at once, or none."""
    marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}{marks}COMMIT;")


def migrate(connection: Connection, scripts: dict[int, str], target: int) -> None:
    """From the version of the database to `target`, one script and one transaction at a time."""
    for version in range(versions(connection)[1], target):
        connection.executescript(
            f"BEGIN IMMEDIATE;{scripts[version]};PRAGMA user_version = {version + 1};COMMIT;"
        )


def begin(connection: Connection) -> None:
    """A transaction that has the lock from the start; on a disk that cannot be written, one that reads.

    One that reads first and then writes fails at once if a command has written beside us in between.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
        connection.execute("BEGIN")


def commit(connection: Connection) -> None:
    """On disk when this returns."""
    connection.execute("COMMIT")


def rollback(connection: Connection) -> None:
    """Forget the transaction, if one is open."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def insert_loop(connection: Connection, name: str, spec: bytes, at: float) -> int:
    """A new loop, and its id."""
    cursor = connection.execute(
        "INSERT INTO loops (name, spec, created_at) VALUES (?, ?, ?)", (name, spec, at)
    )
    return int(cursor.lastrowid or 0)


def all_loops(connection: Connection) -> list[Row]:
    """(id, name, spec, created_at), oldest first."""
    return connection.execute("SELECT id, name, spec, created_at FROM loops ORDER BY id").fetchall()


def one_loop(connection: Connection, loop: int) -> Row | None:
    """(id, name, spec, created_at) of one loop."""
    row: Row | None = connection.execute(
        "SELECT id, name, spec, created_at FROM loops WHERE id = ?", (loop,)
    ).fetchone()
    return row


def insert_event(connection: Connection, loop: int, seq: int, at: float, body: bytes) -> None:
    """The next event of a loop."""
    connection.execute("INSERT INTO events VALUES (?, ?, ?, ?)", (loop, seq, at, body))


def events_after(connection: Connection, loop: int, seq: int, last: int = LAST) -> Iterator[Row]:
    """(seq, at, body) of every later event up to `last`, in order; a long read would hold up checkpoints."""
    select = "SELECT seq, at, body FROM events WHERE loop = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?"
    while rows := connection.execute(select, (loop, seq, last, PAGE)).fetchall():
        yield from rows
        seq = rows[-1][0]


def last_seq_before(connection: Connection, loop: int, at: float) -> int:
    """The last event before this time, which never goes back within a loop; 0 if there is none."""
    row = connection.execute(
        "SELECT coalesce((SELECT seq - 1 FROM events WHERE loop = ?1 AND at >= ?2 ORDER BY seq LIMIT 1), "
        "(SELECT max(seq) FROM events WHERE loop = ?1), 0)",
        (loop, at),
    ).fetchone()
    return int(row[0])


def seqs_after(connection: Connection, loop: int, seq: int, last: int, limit: int) -> list[Row]:
    """(seq,) of the next events up to `last`."""
    return connection.execute(
        "SELECT seq FROM events WHERE loop = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?",
        (loop, seq, last, limit),
    ).fetchall()


def delete_events(connection: Connection, loop: int, seqs: list[int]) -> None:
    """Let go of these events."""
    connection.executemany("DELETE FROM events WHERE loop = ? AND seq = ?", [(loop, seq) for seq in seqs])


def event_of_decision(connection: Connection, loop: int, number: int) -> Row | None:
    """(at, body) of the event that decided."""
    row: Row | None = connection.execute(
        "SELECT e.at, e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "WHERE d.loop = ? AND d.number = ?",
        (loop, number),
    ).fetchone()
    return row


def event_of_key(connection: Connection, loop: int, key: str) -> bytes | None:
    """The body of the event that answered this key."""
    row = connection.execute(
        "SELECT e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "WHERE d.loop = ? AND d.key = ?",
        (loop, key),
    ).fetchone()
    return None if row is None else row[0]


def insert_decision(connection: Connection, values: Row) -> None:
    """(loop, number, seq, at, key, arm, mode, source, part, loop_mode, propensity)."""
    connection.execute("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)


def insert_reward(connection: Connection, values: Row) -> None:
    """(loop, number, at, reward, origin, seq): the primary key lets each decision have one."""
    connection.execute("INSERT INTO rewards VALUES (?, ?, ?, ?, ?, ?)", values)


def reward_of(connection: Connection, loop: int, number: int) -> Row | None:
    """(reward, origin) of a decision that is closed."""
    row: Row | None = connection.execute(
        "SELECT reward, origin FROM rewards WHERE loop = ? AND number = ?", (loop, number)
    ).fetchone()
    return row


def insert_late_reward(connection: Connection, values: Row) -> None:
    """(loop, number, at, reward): the first late value is kept, for audit only."""
    connection.execute("INSERT OR IGNORE INTO late_rewards VALUES (?, ?, ?, ?)", values)


def late_reward_of(connection: Connection, loop: int, number: int) -> Row | None:
    """(reward, at) of a reward that came after its window."""
    row: Row | None = connection.execute(
        "SELECT reward, at FROM late_rewards WHERE loop = ? AND number = ?", (loop, number)
    ).fetchone()
    return row


def recent_decisions(connection: Connection, loop: int, before: int, limit: int) -> list[Row]:
    """(number, at, arm, mode, part, propensity, reward, origin), newest first."""
    return connection.execute(
        "SELECT d.number, d.at, d.arm, d.mode, d.part, d.propensity, r.reward, r.origin FROM decisions d "
        "LEFT JOIN rewards r ON r.loop = d.loop AND r.number = d.number "
        "WHERE d.loop = ? AND d.number < ? ORDER BY d.number DESC LIMIT ?",
        (loop, before, limit),
    ).fetchall()


def all_decisions(connection: Connection, loop: int) -> Iterator[Row]:
    """Every decision with its reward and its late one: what is exported."""
    return connection.execute(
        "SELECT d.number, d.at, d.arm, d.mode, d.source, d.part, d.loop_mode, d.propensity, "
        "r.reward, r.origin, r.at, l.reward FROM decisions d "
        "LEFT JOIN rewards r ON r.loop = d.loop AND r.number = d.number "
        "LEFT JOIN late_rewards l ON l.loop = d.loop AND l.number = d.number "
        "WHERE d.loop = ? ORDER BY d.number",
        (loop,),
    )


def decisions_after(connection: Connection, loop: int, number: int, last: int, limit: int) -> list[Row]:
    """(number, seq) of the next decisions up to `last`."""
    return connection.execute(
        "SELECT number, seq FROM decisions WHERE loop = ? AND number > ? AND number <= ? "
        "ORDER BY number LIMIT ?",
        (loop, number, last, limit),
    ).fetchall()


def delete_decisions(connection: Connection, loop: int, numbers: list[int]) -> None:
    """Let go of these decisions and of their rewards."""
    for table in ("decisions", "rewards", "late_rewards"):
        connection.executemany(
            f"DELETE FROM {table} WHERE loop = ? AND number = ?", [(loop, number) for number in numbers]
        )


def count_rows(connection: Connection, loop: int, seq: int, number: int) -> Row:
    """(decisions up to `number`, all decisions, events up to `seq`, all events)."""
    row: Row = connection.execute(
        "SELECT (SELECT count(*) FROM decisions WHERE loop = ?1 AND number <= ?3), "
        "(SELECT count(*) FROM decisions WHERE loop = ?1), "
        "(SELECT count(*) FROM events WHERE loop = ?1 AND seq <= ?2), "
        "(SELECT count(*) FROM events WHERE loop = ?1)",
        (loop, seq, number),
    ).fetchone()
    return row


def insert_snapshot(connection: Connection, loop: int, seq: int, books: bytes, agent: bytes) -> None:
    """What a loop was after event `seq`, instead of what it was before."""
    connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?)", (loop, seq, books, agent))
    connection.execute("DELETE FROM snapshots WHERE loop = ? AND seq < ?", (loop, seq))


def latest_snapshot(connection: Connection, loop: int) -> Row | None:
    """(seq, books, agent) of the newest one."""
    row: Row | None = connection.execute(
        "SELECT seq, books, agent FROM snapshots WHERE loop = ? ORDER BY seq DESC LIMIT 1", (loop,)
    ).fetchone()
    return row


def open_decisions(connection: Connection, loop: int, seq: int, oldest: int) -> Iterator[Row]:
    """(body,) of every decision, from number `oldest` on, that was open after event `seq`; in order."""
    return connection.execute(
        "SELECT e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "LEFT JOIN rewards r ON r.loop = d.loop AND r.number = d.number "
        "WHERE d.loop = ?1 AND d.number >= ?3 AND d.seq <= ?2 AND (r.seq IS NULL OR r.seq > ?2) "
        "ORDER BY d.number",
        (loop, seq, oldest),
    )


def delete_snapshots(connection: Connection, loop: int) -> None:
    """Forget what a loop was, which its events still know."""
    connection.execute("DELETE FROM snapshots WHERE loop = ?", (loop,))


def put_base(connection: Connection, values: Row) -> None:
    """(loop, seq, books, agent, at): what replays begin from; a later base is not replaced by an earlier."""
    connection.execute(
        "INSERT INTO bases VALUES (?, ?, ?, ?, ?) ON CONFLICT (loop) DO UPDATE SET "
        "seq = excluded.seq, books = excluded.books, agent = excluded.agent, at = excluded.at "
        "WHERE excluded.seq > bases.seq",
        values,
    )


def base_of(connection: Connection, loop: int) -> Row | None:
    """(seq, books, agent) that a replay begins from; none where every event is there."""
    row: Row | None = connection.execute(
        "SELECT seq, books, agent FROM bases WHERE loop = ?", (loop,)
    ).fetchone()
    return row


def insert_token(connection: Connection, values: Row) -> bool:
    """(name, role, digest, created_at, rate), if the name has no token or one that was revoked."""
    return (
        connection.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (name) DO UPDATE SET "
            "role = excluded.role, digest = excluded.digest, created_at = excluded.created_at, "
            "rate = excluded.rate, revoked_at = NULL WHERE revoked_at IS NOT NULL",
            values,
        ).rowcount
        == 1
    )


def revoke_token(connection: Connection, name: str, at: float) -> bool:
    """Whether there was such a token. Its row stays, so that it is known that there were tokens."""
    return (
        connection.execute(
            "UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL", (at, name)
        ).rowcount
        == 1
    )


def all_tokens(connection: Connection) -> list[Row]:
    """(name, role, digest, created_at, rate) of those that were not revoked."""
    return connection.execute(
        "SELECT name, role, digest, created_at, rate FROM tokens WHERE revoked_at IS NULL "
        "ORDER BY created_at, name"
    ).fetchall()


def had_tokens(connection: Connection) -> bool:
    """Whether a token was ever made."""
    return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM tokens)").fetchone()[0])


def check_writable(connection: Connection) -> None:
    """An error where a write would be one: a page is really written, and says what it said."""
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check_integrity(connection: Connection) -> str:
    """'ok', or what is wrong with the file."""
    return str(connection.execute("PRAGMA integrity_check(1)").fetchone()[0])


def shrink(connection: Connection) -> None:
    """Give free pages back to the file system."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
