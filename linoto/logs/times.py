"""Early and late: where the middle of a log is by its times, and how to say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from linoto.core.cells import text_of
from linoto.logs.queries import Columns, count_around, holds_dates, median_time
from linoto.logs.tables import Connection, StagedFile

SORTED = 5_000_000  # times that are held in memory to find the middle one


def time_cut(connection: Connection, files: Sequence[StagedFile], columns: Columns) -> float:
    """The time from which rows are late: half of them, or in a log too long to sort about half."""
    exact = sum(file.rows for file in files) <= SORTED
    middle, count = median_time(connection, files, columns, exact=exact)
    if middle is None:
        return 0.0
    before, until, after = count_around(connection, files, columns, middle)
    closer = abs(2 * before - count) <= abs(2 * until - count)  # always so where nothing comes after
    return float(middle if closer else after)


def describe_cut(connection: Connection, cut: float, files: Sequence[StagedFile], time: str) -> str:
    """What is early, with a date where times are dates and with the number where they are numbers."""
    number = f"{time} before {text_of(cut)}"
    if not all(holds_dates(connection, file, time) for file in files):
        return number
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=cut)
        return f"{time} before {moment:%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:  # Python's dates end with the year 9999
        return number
