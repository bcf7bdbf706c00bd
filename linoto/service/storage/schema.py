"""The tables of a database, and the scripts that bring older ones up to date."""

from __future__ import annotations

import secrets
from sqlite3 import Connection

APPLICATION = 0x6C696E6F  # "lino", so that another program's database is not taken for ours
VERSION = 2
SECRET_BYTES = 32  # of the system's entropy: what every draw of every loop is made from

BASES = """
CREATE TABLE bases (
    loop INTEGER PRIMARY KEY REFERENCES loops (id),
    seq INTEGER NOT NULL,
    books BLOB NOT NULL,
    agent BLOB NOT NULL,
    at REAL NOT NULL
) STRICT;
"""
TOKENS = """
CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'reader', 'writer', 'admin')),
    digest BLOB NOT NULL UNIQUE,
    created_at REAL NOT NULL,
    rate REAL,
    revoked_at REAL
) STRICT, WITHOUT ROWID;
"""
NEW_ROLES = f"""
ALTER TABLE tokens RENAME TO older_tokens;
{TOKENS}
INSERT INTO tokens SELECT name, role, digest, created_at, rate, revoked_at FROM older_tokens;
DROP TABLE older_tokens;
"""  # where a table refuses a role that came later; older programs know none of its name, and refuse it
SCHEMA = f"""
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
{BASES}
{TOKENS}
"""
ADDED = """
CREATE TABLE IF NOT EXISTS probe (
    id INTEGER PRIMARY KEY,
    filler BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS token_limits (
    name TEXT PRIMARY KEY,
    expires_at REAL,
    loops TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS promises (
    loop INTEGER PRIMARY KEY,
    version TEXT NOT NULL,
    certificate TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS secret (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    bits BLOB NOT NULL,
    epoch TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS metrics (
    loop INTEGER NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    value REAL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (loop, number, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS features (
    sha256 TEXT NOT NULL,
    part INTEGER NOT NULL,
    body BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (sha256, part)
) STRICT;
CREATE TABLE IF NOT EXISTS outbox (
    id TEXT PRIMARY KEY,
    made_at REAL NOT NULL,
    body BLOB NOT NULL,
    taken_at REAL
) STRICT, WITHOUT ROWID;
"""  # since version 2: other programs of that version do not miss them, so no migration is needed

MIGRATIONS = {  # the script that leads from each older version to the next
    1: BASES
    + """
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


def versions(connection: Connection) -> tuple[int, int]:
    """Whose database this is, and in which version of the schema."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return application, connection.execute("PRAGMA user_version").fetchone()[0]


def is_empty(connection: Connection) -> bool:
    """Whether nothing was ever made in it."""
    return bool(connection.execute("SELECT count(*) = 0 FROM sqlite_schema").fetchone()[0])


def create(connection: Connection) -> None:
    """All tables at once, or none."""
    marks = f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}{marks}COMMIT;")


def add_tables(connection: Connection) -> None:
    """What was added to the schema without a new version of it, and the secret of the database."""
    for statement in filter(str.strip, ADDED.split(";")):
        connection.execute(statement)
    add_roles(connection)
    if connection.execute("SELECT 1 FROM secret").fetchone() is None:
        fresh = secrets.token_bytes(SECRET_BYTES)
        connection.execute("INSERT OR IGNORE INTO secret VALUES (1, ?, '')", (fresh,))


def add_roles(connection: Connection) -> None:
    """Let the table of tokens take every role, in one step."""
    made = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'tokens'").fetchone()
    if made is None or "'viewer'" in made[0]:
        return
    connection.execute("SAVEPOINT roles")
    for statement in filter(str.strip, NEW_ROLES.split(";")):
        connection.execute(statement)
    connection.execute("RELEASE roles")


def migrate(connection: Connection, scripts: dict[int, str], target: int) -> None:
    """From the version of the database to `target`, one script and one transaction at a time."""
    for version in range(versions(connection)[1], target):
        connection.executescript(
            f"BEGIN IMMEDIATE;{scripts[version]};PRAGMA user_version = {version + 1};COMMIT;"
        )
