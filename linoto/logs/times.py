"""Early and late: where the middle of a log is by its times, and how to say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from linoto.logs.row_queries import Columns, select_rows
from linoto.logs.tables import Piece, is_date, is_text, quoted, readable, scan
from linoto.logs.values import text_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

SORTED = 5_000_000  # times that are held in memory to find the middle one


def time_cut(connection: Connection, pieces: Sequence[Piece], columns: Columns) -> float:
    """The time from which rows are late: half of them, or in a log too long to sort about half.

    On one thread, so that it is always the same.
    """
    rows = " UNION ALL ".join(f"SELECT time FROM ({select_rows(piece, columns)})" for piece in pieces)
    times = f"SELECT time FROM ({rows}) WHERE isfinite(time)"
    median = "quantile_disc" if sum(piece.rows for piece in pieces) <= SORTED else "approx_quantile"
    with readable(pieces[0].name, pieces[0].kind):
        counted = connection.execute(f"SELECT {median}(time, 0.5), count(time) FROM ({times})")
        middle, n = counted.fetchall()[0]
        if middle is None:
            return 0.0
        before, until, after = connection.execute(
            f"""SELECT count(*) FILTER (time < {middle!r}), count(*) FILTER (time <= {middle!r}),
            min(time) FILTER (time > {middle!r}) FROM ({times})"""
        ).fetchall()[0]
    closer = abs(2 * before - n) <= abs(2 * until - n)  # which it is where nothing comes after the middle
    return float(middle if closer else after)


def describe_cut(connection: Connection, cut: float, pieces: Sequence[Piece], time: str) -> str:
    """What is early, with a date where times are dates and with the number where they are numbers."""
    number = f"{time} before {text_of(cut)}"
    if not all(holds_dates(connection, piece, time) for piece in pieces):
        return number
    try:
        return f"{time} before {datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=cut):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # Python's dates end with the year 9999
        return number


def holds_dates(connection: Connection, piece: Piece, time: str) -> bool:
    """Whether the times of a piece were understood as dates, not as numbers."""
    kind = dict(piece.types)[time]
    if not is_text(kind):
        return is_date(kind)
    with readable(piece.name, piece.kind):
        numbers = connection.execute(
            f"SELECT 1 FROM {scan(piece.path)} WHERE TRY_CAST({quoted(time)} AS DOUBLE) IS NOT NULL LIMIT 1"
        ).fetchall()
    return not numbers
