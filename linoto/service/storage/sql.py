"""SQL of loops and their records: one statement per named function of a connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from linoto.service.storage.connection import NEVER, Answered, Connection, Row

LAST = 2**62  # after every event
PAGE = 5000  # events read at a time
MOST_KEYS = 500  # in one statement


def one_row(connection: Connection, statement: str, values: Row) -> Row | None:
    """The first row of an answer, if it has any."""
    row: Row | None = connection.execute(statement, values).fetchone()
    return row


# -- loops


def insert_loop(connection: Connection, name: str, spec: bytes, at: float) -> int:
    """A new loop, and its id."""
    insert = "INSERT INTO loops (name, spec, created_at) VALUES (?, ?, ?) RETURNING id"
    return int(connection.execute(insert, (name, spec, at)).fetchone()[0])


def all_loops(connection: Connection) -> list[Row]:
    """(id, name, spec, created_at), oldest first."""
    return connection.execute("SELECT id, name, spec, created_at FROM loops ORDER BY id").fetchall()


def loop_names(connection: Connection) -> list[Row]:
    """(id, name), oldest first."""
    return connection.execute("SELECT id, name FROM loops ORDER BY id").fetchall()


def created_at(connection: Connection, name: str) -> float | None:
    """When a loop was made, if there is one of this name."""
    row = one_row(connection, "SELECT created_at FROM loops WHERE name = ?", (name,))
    return None if row is None else float(row[0])


def one_loop(connection: Connection, loop: int) -> Row | None:
    """(id, name, spec, created_at) of one loop."""
    return one_row(connection, "SELECT id, name, spec, created_at FROM loops WHERE id = ?", (loop,))


# -- the secret


def secret_of(connection: Connection) -> tuple[bytes | None, str]:
    """The secret bits of the database, if it has any yet, and the epoch that new loops begin in."""
    if not connection.has_table("secret"):
        return None, ""  # nobody has written to it since there is such a table
    row = one_row(connection, "SELECT bits, epoch FROM secret", ())
    return (None, "") if row is None else (bytes(row[0]), str(row[1]))


def put_epoch(connection: Connection, epoch: str) -> None:
    """The epoch that new loops begin in."""
    connection.execute("UPDATE secret SET epoch = ?", (epoch,))


# -- events


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
    """Prune these events."""
    connection.executemany("DELETE FROM events WHERE loop = ? AND seq = ?", [(loop, seq) for seq in seqs])


def replace_event(connection: Connection, loop: int, seq: int, body: bytes) -> None:
    """Another body in the place of one that is forgotten."""
    connection.execute("UPDATE events SET body = ? WHERE loop = ? AND seq = ?", (body, loop, seq))


def forget_key(connection: Connection, loop: int, number: int) -> None:
    """A decision without the key that it was asked for with."""
    connection.execute("UPDATE decisions SET key = NULL WHERE loop = ? AND number = ?", (loop, number))


def event_of_decision(connection: Connection, loop: int, number: int) -> Row | None:
    """(at, body) of the event that decided."""
    return one_row(
        connection,
        "SELECT e.at, e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "WHERE d.loop = ? AND d.number = ?",
        (loop, number),
    )


def event_of_key(connection: Connection, loop: int, key: str) -> bytes | None:
    """The body of the event that answered this key."""
    known = connection.recall(loop, key)
    if known is not None:
        return None if known == NEVER else known[1]
    row = connection.execute(
        "SELECT e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "WHERE d.loop = ? AND d.key = ?",
        (loop, key),
    ).fetchone()
    return None if row is None else row[0]


def events_of_keys(connection: Connection, loop: int, keys: Sequence[str]) -> dict[str, bytes]:
    """The same of many, by key, in a statement for hundreds of them; without those that got nothing."""
    known, unknown = recalled(connection, loop, keys)
    found = {key: body for key, (_, body) in known.items()}
    for some in parts(unknown):  # of many keys in an IN, SQLite reads all decisions of the loop instead
        asked = ", ".join(["(?)"] * len(some))
        found |= connection.execute(
            f"WITH asked (key) AS (VALUES {asked}) SELECT d.key, e.body FROM asked "
            "JOIN decisions d ON d.loop = ? AND d.key = asked.key "
            "JOIN events e ON e.loop = d.loop AND e.seq = d.seq",
            (*some, loop),
        )
    return found


def numbers_of_keys(connection: Connection, loop: int, keys: Sequence[str]) -> dict[str, int]:
    """The decisions that answered these keys, by key, in a statement for hundreds of them."""
    known, unknown = recalled(connection, loop, keys)
    found = {key: number for key, (number, _) in known.items()}
    for some in parts(unknown):
        places = ", ".join("?" * len(some))
        select = f"SELECT key, number FROM decisions WHERE loop = ? AND key IN ({places})"
        found |= connection.execute(select, (loop, *some))
    return found


def recalled(connection: Connection, loop: int, keys: Sequence[str]) -> tuple[dict[str, Answered], list[str]]:
    """What is known of keys without a statement, and those of which nothing is."""
    found = {key: connection.recall(loop, key) for key in keys}
    known = {key: answer for key, answer in found.items() if answer is not None and answer != NEVER}
    return known, [key for key, answer in found.items() if answer is None]


def parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """As many as one statement takes."""
    return (keys[start : start + MOST_KEYS] for start in range(0, len(keys), MOST_KEYS))


# -- decisions and rewards


def decision_row(connection: Connection, loop: int, number: int) -> Row | None:
    """The row of one decision."""
    return one_row(
        connection,
        "SELECT loop, number, seq, at, key, arm, mode, source, part, loop_mode, propensity "
        "FROM decisions WHERE loop = ? AND number = ?",
        (loop, number),
    )


def reward_row(connection: Connection, loop: int, number: int) -> Row | None:
    """The row of one reward."""
    return one_row(
        connection,
        "SELECT loop, number, at, reward, origin, seq FROM rewards WHERE loop = ? AND number = ?",
        (loop, number),
    )


def rows_without_event(connection: Connection, loop: int, seq: int) -> Iterator[Row]:
    """(table, number, seq) of decisions, and of rewards after event `seq`, whose event is not there."""
    return connection.stream(
        "SELECT 'decisions', d.number, d.seq FROM decisions d LEFT JOIN events e "
        "ON e.loop = d.loop AND e.seq = d.seq WHERE d.loop = ?1 AND e.seq IS NULL UNION ALL "
        "SELECT 'rewards', r.number, r.seq FROM rewards r LEFT JOIN events e "
        "ON e.loop = r.loop AND e.seq = r.seq WHERE r.loop = ?1 AND r.seq > ?2 AND e.seq IS NULL LIMIT 1",
        (loop, seq),
    )


def late_without_default(connection: Connection, loop: int) -> Row | None:
    """(number,) of a late reward whose decision was not closed by the default."""
    return one_row(
        connection,
        "SELECT l.number FROM late_rewards l LEFT JOIN rewards r ON r.loop = l.loop AND r.number = l.number "
        "WHERE l.loop = ? AND (r.origin IS NULL OR r.origin <> 'default') LIMIT 1",
        (loop,),
    )


def reward_of(connection: Connection, loop: int, number: int) -> Row | None:
    """(reward, origin) of a decision that is closed."""
    return one_row(
        connection, "SELECT reward, origin FROM rewards WHERE loop = ? AND number = ?", (loop, number)
    )


def insert_late_reward(connection: Connection, values: Row) -> None:
    """(loop, number, at, reward): the first late value is kept, for audit only."""
    connection.execute("INSERT INTO late_rewards VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", values)


def late_reward_of(connection: Connection, loop: int, number: int) -> Row | None:
    """(reward, at) of a reward that came after its window."""
    return one_row(
        connection, "SELECT reward, at FROM late_rewards WHERE loop = ? AND number = ?", (loop, number)
    )


def recent_decisions(
    connection: Connection, loop: int, before: int, limit: int, key: str | None = None
) -> list[Row]:
    """(number, at, arm, mode, part, propensity, key, body, reward, origin), newest first."""
    return connection.execute(
        "SELECT d.number, d.at, d.arm, d.mode, d.part, d.propensity, d.key, e.body, r.reward, r.origin "
        "FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "LEFT JOIN rewards r ON r.loop = d.loop AND r.number = d.number "
        "WHERE d.loop = ?1 AND d.number < ?2 AND (CAST(?4 AS TEXT) IS NULL OR d.key = ?4) "
        "ORDER BY d.number DESC LIMIT ?3",
        (loop, before, limit, key),
    ).fetchall()


def all_decisions(connection: Connection, loop: int) -> Iterator[Row]:
    """Every decision with its reward and its late one: what is exported."""
    return connection.stream(
        "SELECT d.number, d.at, d.arm, d.mode, d.source, d.part, d.loop_mode, d.propensity, "
        "r.reward, r.origin, r.at, l.reward, d.key, e.body "
        "FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
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
    """Prune these decisions and their rewards."""
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


# -- values of guardrails: a database has them once it was served by a version that knows them


def metrics_of(connection: Connection, loop: int, number: int) -> dict[str, float | None]:
    """The values of a decision that have come, or are lost, by name."""
    rows = connection.execute(
        "SELECT name, value FROM metrics WHERE loop = ? AND number = ? ORDER BY name", (loop, number)
    )
    return dict(rows.fetchall())


def metrics_between(connection: Connection, loop: int, first: int, last: int) -> list[Row]:
    """(number, name, value, seq) of these decisions."""
    return connection.execute(
        "SELECT number, name, value, seq FROM metrics WHERE loop = ? AND number BETWEEN ? AND ? "
        "ORDER BY number, name",
        (loop, first, last),
    ).fetchall()


def metric_rows(connection: Connection, loop: int, number: int, seq: int) -> list[Row]:
    """The rows of one event."""
    return connection.execute(
        "SELECT loop, number, name, at, value, seq FROM metrics "
        "WHERE loop = ? AND number = ? AND seq = ? ORDER BY name",
        (loop, number, seq),
    ).fetchall()


def metric_without_event(connection: Connection, loop: int, seq: int) -> Row | None:
    """(number, seq) of a value that came after event `seq`, and whose event is not there."""
    if not connection.has_table("metrics"):
        return None  # nobody has served it since there is such a table
    return one_row(
        connection,
        "SELECT m.number, m.seq FROM metrics m LEFT JOIN events e ON e.loop = m.loop AND e.seq = m.seq "
        "WHERE m.loop = ? AND m.seq > ? AND e.seq IS NULL LIMIT 1",
        (loop, seq),
    )


def unmeasured(connection: Connection, loop: int, seq: int, oldest: int, metrics: int) -> list[Row]:
    """(seq, body) of every decision, from number `oldest` on, that awaited a value after event `seq`."""
    return connection.execute(
        "SELECT e.seq, e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "WHERE d.loop = ?1 AND d.number >= ?3 AND d.seq <= ?2 AND (SELECT count(*) FROM metrics m "
        "WHERE m.loop = d.loop AND m.number = d.number AND m.seq <= ?2) < ?4 ORDER BY d.number",
        (loop, seq, oldest, metrics),
    ).fetchall()


def delete_metrics(connection: Connection, loop: int, numbers: list[int]) -> None:
    """Prune the values of these decisions."""
    connection.executemany(
        "DELETE FROM metrics WHERE loop = ? AND number = ?", [(loop, number) for number in numbers]
    )


# -- snapshots and bases


def insert_snapshot(connection: Connection, loop: int, seq: int, state: bytes, agent: bytes) -> None:
    """The state of a loop after event `seq`; earlier snapshots are deleted."""
    connection.execute(
        "INSERT INTO snapshots VALUES (?, ?, ?, ?) ON CONFLICT (loop, seq) DO UPDATE SET "
        "books = excluded.books, agent = excluded.agent",
        (loop, seq, state, agent),
    )
    connection.execute("DELETE FROM snapshots WHERE loop = ? AND seq < ?", (loop, seq))


def latest_snapshot(connection: Connection, loop: int) -> Row | None:
    """(seq, state, agent) of the newest one."""
    return one_row(
        connection,
        "SELECT seq, books, agent FROM snapshots WHERE loop = ? ORDER BY seq DESC LIMIT 1",
        (loop,),
    )


def put_promise(connection: Connection, loop: int, version: str, certificate: str) -> None:
    """What was promised before the first decision, as this version of linoto computes it."""
    connection.execute(
        "INSERT INTO promises VALUES (?, ?, ?) ON CONFLICT (loop) DO UPDATE SET "
        "version = excluded.version, certificate = excluded.certificate",
        (loop, version, certificate),
    )


def promise_of(connection: Connection, loop: int, version: str) -> str | None:
    """The same, if it was kept."""
    if not connection.has_table("promises"):
        return None  # nobody has served it since there is such a table
    select = "SELECT certificate FROM promises WHERE loop = ? AND version = ?"
    row = one_row(connection, select, (loop, version))
    return None if row is None else str(row[0])


def open_decisions(connection: Connection, loop: int, seq: int, oldest: int) -> Iterator[Row]:
    """(seq, body) of every decision, from number `oldest` on, that was open after event `seq`; in order."""
    return connection.stream(
        "SELECT e.seq, e.body FROM decisions d JOIN events e ON e.loop = d.loop AND e.seq = d.seq "
        "LEFT JOIN rewards r ON r.loop = d.loop AND r.number = d.number "
        "WHERE d.loop = ?1 AND d.number >= ?3 AND d.seq <= ?2 AND (r.seq IS NULL OR r.seq > ?2) "
        "ORDER BY d.number",
        (loop, seq, oldest),
    )


def delete_snapshots(connection: Connection, loop: int) -> None:
    """Delete the snapshots of a loop; its events are kept."""
    connection.execute("DELETE FROM snapshots WHERE loop = ?", (loop,))


def put_base(connection: Connection, values: Row) -> None:
    """(loop, seq, state, agent, at): what replays begin from; a later base is not replaced by an earlier."""
    connection.execute(
        "INSERT INTO bases VALUES (?, ?, ?, ?, ?) ON CONFLICT (loop) DO UPDATE SET "
        "seq = excluded.seq, books = excluded.books, agent = excluded.agent, at = excluded.at "
        "WHERE excluded.seq > bases.seq",
        values,
    )


def base_of(connection: Connection, loop: int) -> Row | None:
    """(seq, state, agent) that a replay begins from; none where nothing was pruned."""
    return one_row(connection, "SELECT seq, books, agent FROM bases WHERE loop = ?", (loop,))


def base_seq(connection: Connection, loop: int) -> int:
    """The event that a replay begins after: 0, or that of the base."""
    base = base_of(connection, loop)
    return 0 if base is None else int(base[0])


# -- arms by file: a database has them once it was served by a version that knows them


def features_head(connection: Connection, digest: str) -> bytes | None:
    """What is said of a file whose parts are all there."""
    if not connection.has_table("features"):
        return None
    row = one_row(connection, "SELECT body FROM features WHERE sha256 = ? AND part = 0", (digest,))
    return None if row is None else bytes(row[0])


def count_parts(connection: Connection, digest: str, last: int) -> int:
    """How many of the parts 1 to `last` of a file are there."""
    count = "SELECT count(*) FROM features WHERE sha256 = ? AND part BETWEEN 1 AND ?"
    return int(connection.execute(count, (digest, last)).fetchall()[0][0])


def features_part(connection: Connection, digest: str, part: int) -> bytes:
    """One part of a file; nothing where it is missing."""
    row = one_row(connection, "SELECT body FROM features WHERE sha256 = ? AND part = ?", (digest, part))
    return b"" if row is None else bytes(row[0])


def put_features(connection: Connection, values: Row) -> None:
    """(sha256, part, body, at): the same part of the same file is the same, unless it was damaged."""
    connection.execute(
        "INSERT INTO features VALUES (?, ?, ?, ?) ON CONFLICT (sha256, part) "
        "DO UPDATE SET body = excluded.body, at = excluded.at",
        values,
    )


def hold_parts(connection: Connection, digest: str, parts: int, at: float) -> bool:
    """Whether all parts of a file are there; until the transaction ends, nobody deletes one.

    Whoever does changes the first part before, and so waits or has ended.
    """
    connection.execute("UPDATE features SET at = ? WHERE sha256 = ? AND part = 1", (at, digest))
    return count_parts(connection, digest, parts) == parts


def use_features(connection: Connection, digest: str, at: float) -> bool:
    """Whether a file is there; until the transaction ends, nobody deletes it."""
    update = "UPDATE features SET at = ? WHERE sha256 = ? AND part = 0"
    return connection.execute(update, (at, digest)).rowcount == 1


def old_features(connection: Connection, before: float) -> list[Row]:
    """(sha256, bytes) of files that nobody has put or used since, complete or not."""
    if not connection.has_table("features"):
        return []
    return connection.execute(
        "SELECT sha256, sum(length(body)) FROM features GROUP BY sha256 HAVING max(at) < ? ORDER BY sha256",
        (before,),
    ).fetchall()


def delete_head(connection: Connection, digest: str, before: float) -> None:
    """Delete what says that a file is complete, if nobody has put or used it since."""
    connection.execute("DELETE FROM features WHERE sha256 = ? AND part = 0 AND at < ?", (digest, before))


def delete_parts(connection: Connection, digest: str, before: float, most: int) -> int:
    """Delete some parts of a file that is not complete, if nobody has put them since; how many were there.

    The first part is changed before, and deleted last: whoever completes the file comes first or waits.
    """
    connection.execute("UPDATE features SET at = at WHERE sha256 = ? AND part = 1", (digest,))
    whole = "SELECT 1 FROM features WHERE sha256 = ? AND part = 0"
    some = "SELECT part FROM features WHERE sha256 = ? AND at < ? ORDER BY part DESC LIMIT ?"
    return connection.execute(
        f"DELETE FROM features WHERE sha256 = ? AND part IN ({some}) AND NOT EXISTS ({whole})",
        (digest, digest, before, most, digest),
    ).rowcount


def features_keys(connection: Connection) -> list[Row]:
    """(sha256, part) of every row."""
    if not connection.has_table("features"):
        return []
    return connection.execute("SELECT sha256, part FROM features ORDER BY sha256, part").fetchall()


def features_row(connection: Connection, key: Row) -> Row:
    """One of them."""
    row = one_row(connection, "SELECT * FROM features WHERE sha256 = ? AND part = ?", key)
    assert row is not None
    return row


# -- whole tables

TABLES = (
    "loops",
    "events",
    "decisions",
    "rewards",
    "late_rewards",
    "metrics",
    "snapshots",
    "bases",
    "promises",
    "features",
    "tokens",
    "token_limits",
    "outbox",
    "secret",
)  # all that a database is; their columns have the same order in both engines


def all_rows(connection: Connection, table: str) -> Iterator[Row]:
    """Every row of a table."""
    return connection.stream(f"SELECT * FROM {table}", ())


def insert_rows(connection: Connection, table: str, rows: list[Row]) -> None:
    """Rows as they are in another database."""
    values = ", ".join("?" * len(rows[0]))
    connection.executemany(f"INSERT INTO {table} VALUES ({values})", rows)


def delete_secret(connection: Connection) -> None:
    """Make room for that of another database."""
    connection.execute("DELETE FROM secret")
