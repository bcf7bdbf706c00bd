"""Decisions and rewards as Parquet, in pieces: a log for later audits and loops."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from linoto.service.loops.events import DecisionMade
from linoto.service.loops.explanations import read_decision
from linoto.service.loops.loop import Loop
from linoto.service.storage import sql
from linoto.service.storage.connection import Connection, Row
from linoto.service.storage.store import Store

ROWS_AT_ONCE = 20_000  # per piece
KINDS: dict[str, Callable[[Any], Any]] = {  # of columns, made from the module of Arrow
    "time": lambda arrow: arrow.timestamp("us", tz="UTC"),
    "text": lambda arrow: arrow.string(),
    "number": lambda arrow: arrow.float64(),
    "vector": lambda arrow: arrow.list_(arrow.float64()),
    "texts": lambda arrow: arrow.list_(arrow.string()),
}
COLUMNS = {
    "time": "time",
    "decision_id": "text",
    "action": "text",
    "reward": "number",
    "propensity": "number",
    "mode": "text",
    "source": "text",
    "group": "text",
    "loop_mode": "text",
    "origin": "text",
    "reward_time": "time",
    "late_reward": "number",
    "key": "text",
    "proposal": "text",
    "allowed": "texts",
    "control_share": "number",
    "practice": "text",
}


def parquet(store: Store, loop: Loop, *, pending: bool, contexts: bool = True) -> Iterator[bytes]:
    """A Parquet file with one row per decision; those still without a reward only if asked for.

    `linoto audit` reads it with `--item action --reward reward --propensity propensity --time time`. With
    contexts it has a column for each of their fields: `read_log(..., recipe=recipe)` reads it. Where the
    caller must not see `contexts`, these are empty, and so are keys.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([(name, KINDS[kind](pa)) for name, kind in columns_of(loop).items()])
    connection = store.reading()
    sink = io.BytesIO()
    try:
        rows = sql.all_decisions(connection, loop.id)
        with pq.ParquetWriter(sink, schema) as writer:
            while piece := list(islice(rows, ROWS_AT_ONCE)):
                values = values_of(connection, loop, piece)
                asked = (row for row in piece if pending or row[8] is not None)
                kept = [as_row(loop, row, contexts) | values.get(row[0], {}) for row in asked]
                writer.write_table(pa.Table.from_pylist(kept, schema=schema))
                yield take_bytes(sink)
        yield take_bytes(sink)
    finally:
        connection.close()


def columns_of(loop: Loop) -> dict[str, str]:
    """The columns of the file with their kinds; those of the context keep their names."""
    recipe = loop.arms.recipe
    own = {field: column.holds for column in recipe.context for field in column.reads}
    metrics = dict.fromkeys(metric_columns(loop).values(), "number")
    ours = {own_name(loop, name): kind for name, kind in COLUMNS.items()}
    return ours | {recipe.item: "text"} | own | metrics


def metric_columns(loop: Loop) -> dict[str, str]:
    """What the column of each guardrail is called: its name, unless another column has it already.

    Then it has a prefix, as often as it takes until no other column, of a metric either, is called so.
    """
    recipe = loop.arms.recipe
    others = {recipe.item, *COLUMNS, *(own_name(loop, name) for name in COLUMNS)}
    others |= {field for column in recipe.context for field in column.reads}
    found = {name: name for name in loop.metrics if name not in others}
    for name in (name for name in loop.metrics if name in others):
        column = f"metric_{name}"
        while column in others or column in found.values():
            column = f"metric_{column}"
        found[name] = column
    return {name: found[name] for name in loop.metrics}


def values_of(connection: Connection, loop: Loop, rows: list[Row]) -> dict[int, dict[str, float | None]]:
    """The values of guardrails that came, by decision and column."""
    found: dict[int, dict[str, float | None]] = {}
    if loop.metrics:
        columns = metric_columns(loop)
        for number, name, value, _ in sql.metrics_between(connection, loop.id, rows[0][0], rows[-1][0]):
            found.setdefault(number, {})[columns[name]] = value
    return found


def own_name(loop: Loop, column: str) -> str:
    """What a column of ours is called where a field of the context, or the item, has its name already."""
    recipe = loop.arms.recipe
    taken = {recipe.item, *(field for column in recipe.context for field in column.reads)} - {"action"}
    return f"decision_{column}" if column in taken else column


def as_row(loop: Loop, row: Row, contexts: bool) -> dict[str, Any]:
    """A row of the database as a row of the file."""
    found, event = plain_row(loop, row, contexts)
    given = event.context or {}
    columns = loop.arms.recipe.context
    context = {field: column.cell(given.get(field)) for column in columns for field in column.reads}
    named = {own_name(loop, column): value for column, value in found.items()}
    return named | {loop.arms.recipe.item: found["action"]} | context


def plain_row(loop: Loop, row: Row, contexts: bool) -> tuple[dict[str, Any], DecisionMade]:
    """The columns that every loop has, and the event."""
    number, at, arm, mode, source, part, loop_mode, propensity, *rest = row
    reward, origin, closed_at, late, _, body = rest
    event = read_decision(body, contexts)
    found = {
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
        "key": event.key,
        "proposal": name_of(loop, event.proposal),
        "allowed": None if event.allowed is None else [loop.names[arm] for arm in event.allowed],
        "control_share": event.control_share,
        "practice": name_of(loop, practice_of(loop, event)),
    }
    return found, event


def practice_of(loop: Loop, event: DecisionMade) -> int | None:
    """What practice would have played, where that is one arm and not weights."""
    if loop.agent.gate.throws_coin:
        return event.fallback
    return event.practice[0][0] if event.practice is not None and len(event.practice) == 1 else None


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
