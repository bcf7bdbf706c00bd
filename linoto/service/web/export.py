"""Decisions and rewards as Parquet, in pieces: a log for later audits and loops."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from linoto.service.loops.events import DECISIONS
from linoto.service.loops.loop import Loop
from linoto.service.storage import sql
from linoto.service.storage.database import connect
from linoto.service.storage.store import Store

ROWS_AT_ONCE = 20_000  # per piece


def parquet(store: Store, loop: Loop, *, pending: bool) -> Iterator[bytes]:
    """A Parquet file with one row per decision; those still without a reward only if asked for.

    `linoto audit` reads it with `--action action --reward reward --propensity propensity --time time`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("time", pa.timestamp("us", tz="UTC")),
            ("decision_id", pa.string()),
            ("action", pa.string()),
            ("reward", pa.float64()),
            ("propensity", pa.float64()),
            ("mode", pa.string()),
            ("source", pa.string()),
            ("group", pa.string()),
            ("loop_mode", pa.string()),
            ("origin", pa.string()),
            ("reward_time", pa.timestamp("us", tz="UTC")),
            ("late_reward", pa.float64()),
            ("key", pa.string()),
            ("proposal", pa.string()),
            ("allowed", pa.list_(pa.string())),
            ("control_share", pa.float64()),
            ("practice", pa.string()),
        ]
    )
    connection = connect(store.path, readonly=True)
    sink = io.BytesIO()
    try:
        rows = sql.all_decisions(connection, loop.id)
        with pq.ParquetWriter(sink, schema) as writer:
            while piece := list(islice(rows, ROWS_AT_ONCE)):
                kept = [as_row(loop, row) for row in piece if pending or row[8] is not None]
                writer.write_table(pa.Table.from_pylist(kept, schema=schema))
                yield take_bytes(sink)
        yield take_bytes(sink)
    finally:
        connection.close()


def as_row(loop: Loop, row: sql.Row) -> dict[str, Any]:
    """A row of the database as a row of the file."""
    number, at, arm, mode, source, part, loop_mode, propensity, *rest = row
    reward, origin, closed_at, late, key, body = rest
    event = DECISIONS.decode(body)
    return {
        "time": as_datetime(at),
        "decision_id": loop.decision_id(number),
        "action": loop.names[arm],
        "reward": reward,
        "propensity": propensity,
        "mode": mode,
        "source": source,
        "group": part,
        "loop_mode": loop_mode,
        "origin": origin,
        "reward_time": None if closed_at is None else as_datetime(closed_at),
        "late_reward": late,
        "key": key,
        "proposal": name_of(loop, event.proposal),
        "allowed": None if event.allowed is None else [loop.names[arm] for arm in event.allowed],
        "control_share": event.control_share,
        "practice": name_of(loop, event.fallback) if loop.agent.gate.throws_coin else None,
    }


def name_of(loop: Loop, arm: int | None) -> str | None:
    """The name of an arm, if there is one."""
    return None if arm is None else loop.names[arm]


def as_datetime(seconds: float) -> datetime:
    """A time of the clock."""
    return datetime.fromtimestamp(seconds, UTC)


def take_bytes(sink: io.BytesIO) -> bytes:
    """What was written since the last call."""
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data
