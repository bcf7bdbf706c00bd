"""Every question to the rows of a log as one statement of SQL, and what can be wrong with a row.

Parquet's statistics leave NaN out, and DuckDB believes them: a comparison, or `isnan` in a filter, may be
answered without a look at the values. `isfinite` looks, so it finds every bad value that may be NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from linoto.core.hints import nearest
from linoto.logs.notation import PLAIN, Notation, other_notation
from linoto.logs.tables import (
    ORIGINAL_ROW,
    ROW_NUMBER,
    Connection,
    StagedFile,
    copy_rows,
    listed,
    literal,
    quoted,
    refuse_rejected,
    scan,
    translate_errors,
)
from linoto.logs.value_sql import (
    Comparable,
    compared_sql,
    constant_sql,
    id_sql,
    is_date,
    is_text,
    number_sql,
    text_sql,
    time_sql,
)

KEPT_UNKNOWN = 100  # ids that are listed, most frequent first
ResultColumns = dict[str, npt.NDArray[Any]]
"""Columns of equal length, masked where a value is NULL."""


class Columns(NamedTuple):
    """Which column means what."""

    action: str
    reward: str
    propensity: str | None = None
    time: str | None = None
    id: str | None = None  # what tells rows apart, where somebody asks
    notation: Notation = PLAIN  # of numbers that are text

    def given(self) -> dict[str, str]:
        """The names in use, by role."""
        return {role: name for role, name in zip(BAD_VALUES, self[:5], strict=True) if name is not None}


class NamedColumns(Protocol):
    """What reading needs to know of columns, whatever they mean."""

    @property
    def notation(self) -> Notation: ...

    def given(self) -> dict[str, str]: ...


class RowRange(NamedTuple):
    """Consecutive rows of a file, and which of its columns means what."""

    file: StagedFile
    columns: Columns
    first: int
    end: int
    late: bool = False  # of the second half, where no time says which half a row is of
    good_only: bool = False

    @classmethod
    def whole(cls, file: StagedFile, columns: Columns, *, good_only: bool = False) -> RowRange:
        """All rows of a file."""
        return cls(file, columns, 0, file.rows, good_only=good_only)


NUMBER = "the {role} must be a finite number, got {value!r}{hint}"
TIME = "the time must be a finite number or a date, got {value!r}"
BAD_VALUES = {  # of each role: the kinds, as they are counted; how SQL tells; and what a message says
    "action": {
        "missing action": ("action IS NULL", "the action is missing"),
        "unknown arm": ("known.id IS NULL", "there is no arm {value!r} among the {k} arms{hint}"),
    },
    "reward": {
        "missing reward": ("reward_given IS NULL", "the reward is missing"),
        "reward not understood": ("reward IS NULL", NUMBER),
        "reward is infinite": ("isinf(reward)", NUMBER),
        "reward is NaN": ("NOT isfinite(reward)", NUMBER),
        "reward too large": (
            "NOT isfinite(reward * reward)",
            "the reward is too large to be squared, got {value}",
        ),
    },
    "propensity": {
        "missing propensity": ("propensity_given IS NULL", "the propensity is missing"),
        "propensity not understood": ("propensity IS NULL", NUMBER),
        "propensity outside (0, 1]": (
            "NOT isfinite(propensity) OR propensity <= 0 OR propensity > 1",
            "the propensity must be in (0, 1], got {value}",
        ),
        "propensity too small": (
            "NOT isfinite(1 / propensity / propensity)",
            "the propensity is too small for 1 / propensity^2, got {value}",
        ),
    },
    "time": {
        "missing time": ("time_given IS NULL", "the time is missing"),
        "time not understood": ("time IS NULL", TIME),
        "time is not finite": ("NOT isfinite(time)", TIME),
    },
    "id": {"missing id": ("given.id IS NULL", "the id is missing")},
}


def refuse_bad_row(connection: Connection, rows: RowRange, ids: Sequence[str]) -> None:
    """Name the first bad row, its column and what it holds."""
    found = first_bad_row(connection, rows)
    if found is None:
        return
    row, kind, given = found
    file, columns = rows.file, rows.columns.given()
    if file.first_rejected is not None and file.first_rejected[0] <= row:
        refuse_rejected([file])
    role = next(role for role in columns if kind in BAD_VALUES[role])
    _, message = BAD_VALUES[role][kind]
    look = other_notation([given[role]]) if rows.columns.notation.plain else ""
    hint = nearest(str(given[role]), ids) if kind == "unknown arm" else f", which {look}" if look else ""
    text = message.format(role=role, value=given[role], k=len(ids), hint=hint)
    raise ValueError(f"{file.name}, row {row + 1}, column {columns[role]!r}: {text}")


# -- rows -------------------------------------------------------------------------------------------------


def select_given(rows: RowRange) -> str:
    """Every value of some rows as given, and reward, propensity, time and id as they are understood."""
    file, parts = rows.file, [f"{row_sql(rows.file)} AS row", f"{quoted(rows.columns.action)} AS action"]
    number = partial(number_sql, notation=rows.columns.notation)
    forms: dict[str, Callable[[str, str], str]] = {
        "reward": number,
        "propensity": number,
        "time": time_sql,
        "id": id_sql,
    }
    for role, name in rows.columns.given().items():
        parts.append(f"{quoted(name)} AS {role}_given")
        if role in forms:
            parts.append(f"{forms[role](file.types[name], quoted(name))} AS {role}")
    return f"SELECT {', '.join(parts)} FROM {range_sql(file, rows.first, rows.end)}"


def range_sql(file: StagedFile, first: int, end: int) -> str:
    """Consecutive rows of a file as a table."""
    if (first, end) == (0, file.rows):
        return scan(file.path)
    return f"{scan(file.path)} WHERE {ROW_NUMBER} >= {first} AND {ROW_NUMBER} < {end}"


def row_sql(file: StagedFile) -> str:
    """The number of a row in the file that the user gave."""
    return ORIGINAL_ROW if ORIGINAL_ROW in file.types else ROW_NUMBER


def select_checked(rows: RowRange) -> str:
    """The same rows with the arm of each and the kind of bad row that it is, NULL where it is good."""
    kinds = [item for role in rows.columns.given() for item in BAD_VALUES[role].items()]
    tests = [f"WHEN {test} THEN {literal(kind)}" for kind, (test, _) in kinds]
    return f"""SELECT given.*, known.arm AS arm, CASE {" ".join(tests)} END AS kind
        FROM ({select_given(rows)}) AS given LEFT JOIN known ON known.id = {action_id(rows)}"""


def select_rows(rows: RowRange) -> str:
    """The rows that a sum is about: all of them, or the good ones."""
    if not rows.good_only:
        return select_given(rows)
    return f"SELECT * FROM ({select_checked(rows)}) WHERE kind IS NULL"


def action_id(rows: RowRange) -> str:
    """The action as the id of an arm."""
    return id_sql(rows.file.types[rows.columns.action], "action")


# -- statements -------------------------------------------------------------------------------------------


def fetch_tuples(connection: Connection, file: StagedFile, statement: str) -> list[tuple[Any, ...]]:
    """What a statement about a file finds, row by row."""
    with translate_errors(file.name, file.kind):
        return connection.execute(statement).fetchall()


def fetch_arrays(connection: Connection, file: StagedFile, statement: str) -> ResultColumns:
    """What a statement about a file finds, column by column."""
    with translate_errors(file.name, file.kind):
        found: Any = connection.execute(statement).fetchnumpy()
    return dict(found)


def introduce_arms(connection: Connection, ids: Sequence[str]) -> None:
    """Tell a database which arms there are."""
    connection.execute(
        "CREATE TABLE known AS SELECT unnest(?::VARCHAR[]) AS id, unnest(range(?)) AS arm",
        [list(ids), len(ids)],
    )


def sum_by_arm(connection: Connection, rows: RowRange, cut: float | None) -> ResultColumns:
    """Pulls, reward sums and squares of each arm, and what its propensities and times add up to.

    Rows from the time `cut` on are late. By action first, and only then by arm: a log has many more rows than
    actions.
    """
    late, groups = (rows.late, "action") if cut is None else (f"time >= {cut!r}", "action, late")
    extra = ""
    if rows.columns.propensity is not None:
        extra = """, sum(1 / propensity) AS inverse, sum(1 / propensity / propensity) AS inverse_square,
            min(propensity) AS low, max(propensity) AS high, count(propensity) AS weighed"""
    if rows.columns.time is not None:
        extra += ", count(*) FILTER (isfinite(time)) AS timed"
    statement = f"""SELECT coalesce(known.arm, -1) AS arm, sums.* EXCLUDE (action) FROM (
            SELECT action, {late} AS late, count(reward) AS pulls, sum(reward) AS sum,
            sum(reward * reward) AS square{extra}
            FROM ({select_rows(rows)}) GROUP BY {groups}
        ) AS sums LEFT JOIN known ON known.id = {action_id(rows)}"""
    return fetch_arrays(connection, rows.file, statement)


def reward_extent(connection: Connection, rows: RowRange) -> tuple[float, float] | None:
    """The smallest and the largest reward; Parquet mostly knows them without being read."""
    statement = f"SELECT min(reward), max(reward) FROM ({select_rows(rows)})"
    low, high = fetch_tuples(connection, rows.file, statement)[0]
    return None if low is None else (low, high)


def reward_ends(connection: Connection, rows: RowRange, most: int) -> tuple[list[float], list[float]]:
    """The smallest rewards, rising, and the largest, falling: at most so many of each."""
    ordered = f"SELECT reward FROM ({select_rows(rows)}) ORDER BY reward"
    low, high = (
        fetch_tuples(connection, rows.file, f"{ordered} {way} LIMIT {most}") for way in ("ASC", "DESC")
    )
    return [value for (value,) in low], [value for (value,) in high]


def extent_by_arm(connection: Connection, rows: RowRange) -> ResultColumns:
    """The smallest and the largest reward of each arm; an arm written in several ways is found as often."""
    statement = f"""SELECT known.arm AS arm, low, high FROM (
            SELECT action, min(reward) AS low, max(reward) AS high FROM ({select_rows(rows)}) GROUP BY action
        ) JOIN known ON known.id = {action_id(rows)}"""
    return fetch_arrays(connection, rows.file, statement)


def fetch_rows(connection: Connection, rows: RowRange) -> ResultColumns:
    """row, arm, reward, propensity, time and id as far as they are given, and the kind of bad row."""
    wanted = ", ".join(role for role in rows.columns.given() if role != "action")
    statement = f"SELECT row, arm, {wanted}, kind FROM ({select_checked(rows)}) ORDER BY row"
    return fetch_arrays(connection, rows.file, statement)


def first_bad_row(connection: Connection, rows: RowRange) -> tuple[int, str, dict[str, str | None]] | None:
    """The first bad row, what kind it is, and what it holds, by role."""
    roles = list(rows.columns.given())
    shown = ", ".join(f"CAST({role}_given AS VARCHAR)" for role in roles)
    statement = f"""SELECT row, kind, {shown} FROM ({select_checked(rows)})
        WHERE kind IS NOT NULL ORDER BY row LIMIT 1"""
    for row, kind, *values in fetch_tuples(connection, rows.file, statement):
        return row, kind, dict(zip(roles, values, strict=True))
    return None


def count_bad_rows(connection: Connection, rows: RowRange) -> Counter[str]:
    """Bad rows of each kind."""
    statement = f"""SELECT kind, count(*) FROM ({select_checked(rows)})
        WHERE kind IS NOT NULL GROUP BY kind"""
    return Counter(dict(fetch_tuples(connection, rows.file, statement)))


def count_unknown_ids(connection: Connection, rows: RowRange) -> Counter[str]:
    """Rows of the most frequent ids that no arm has."""
    statement = f"""SELECT CAST(action AS VARCHAR) AS name, count(*) AS n FROM ({select_checked(rows)})
        WHERE kind = 'unknown arm' GROUP BY name ORDER BY n DESC, name LIMIT {KEPT_UNKNOWN}"""
    return Counter(dict(fetch_tuples(connection, rows.file, statement)))


class Comparison(NamedTuple):
    """A column, how it is compared, and with what."""

    column: str
    operator: str  # SQL's
    value: Comparable


def first_incomparable(
    connection: Connection, file: StagedFile, comparison: Comparison, notation: Notation
) -> list[tuple[int, str]]:
    """The first row whose value is there and cannot be compared, and what it holds."""
    name = quoted(comparison.column)
    value, shown = (
        compared_sql(file.types[comparison.column], name, comparison.value, notation),
        text_sql(name),
    )
    statement = f"""SELECT {ROW_NUMBER}, {shown} FROM {scan(file.path)}
        WHERE {value} IS NULL AND {name} IS NOT NULL AND lower({shown}) <> 'nan'
        ORDER BY {ROW_NUMBER} LIMIT 1"""
    return [(int(row), text) for row, text in fetch_tuples(connection, file, statement)]


def copy_some_rows(
    connection: Connection,
    file: StagedFile,
    names: Sequence[str],
    asked: Sequence[Comparison],
    notation: Notation,
    copy: Path,
) -> None:
    """Write these columns of the rows that are asked for to Parquet, with the numbers of the rows."""
    tests = (
        f"{compared_sql(file.types[name], quoted(name), value, notation)} {operator} {constant_sql(value)}"
        for name, operator, value in asked
    )
    query = f"""SELECT {listed(names)}, {ROW_NUMBER} AS {ORIGINAL_ROW} FROM {scan(file.path)}
        WHERE {" AND ".join(tests)} ORDER BY {ROW_NUMBER}"""
    with translate_errors(file.name, file.kind):
        copy_rows(connection, query, copy)


def fetch_table(connection: Connection, file: StagedFile, names: Sequence[str], id: str) -> list[list[Any]]:
    """The values of these columns, each in the order of rows; ids as the ids of arms are written."""
    columns = (id_sql(file.types[name], quoted(name)) if name == id else quoted(name) for name in names)
    statement = f"SELECT {', '.join(columns)} FROM {scan(file.path)} ORDER BY {ROW_NUMBER}"
    rows = fetch_tuples(connection, file, statement)
    return [list(values) for values in zip(*rows, strict=True)] or [[] for _ in names]


def distinct_ids(connection: Connection, file: StagedFile, column: str, most: int) -> list[str]:
    """The distinct values of a column as ids, at most so many, in any order."""
    ids = id_sql(file.types[column], quoted(column))
    statement = f"""SELECT DISTINCT id FROM (SELECT {ids} AS id FROM {scan(file.path)})
        WHERE id IS NOT NULL LIMIT {most}"""
    return [found[0] for found in fetch_tuples(connection, file, statement)]


# -- times ------------------------------------------------------------------------------------------------


def select_times(files: Sequence[StagedFile], columns: Columns) -> str:
    """The finite times of all rows."""
    rows = (select_rows(RowRange.whole(file, columns)) for file in files)
    times = " UNION ALL ".join(f"SELECT time FROM ({each})" for each in rows)
    return f"SELECT time FROM ({times}) WHERE isfinite(time)"


def median_time(
    connection: Connection, files: Sequence[StagedFile], columns: Columns, *, exact: bool
) -> tuple[float | None, int]:
    """The middle one of all times, or about so, and how many there are; on one thread always the same."""
    median = "quantile_disc" if exact else "approx_quantile"
    statement = f"SELECT {median}(time, 0.5), count(time) FROM ({select_times(files, columns)})"
    middle, count = fetch_tuples(connection, files[0], statement)[0]
    return middle, count


def count_around(
    connection: Connection, files: Sequence[StagedFile], columns: Columns, middle: float
) -> tuple[int, int, float]:
    """How many times are before the middle, how many until it, and which one is next."""
    statement = f"""SELECT count(*) FILTER (time < {middle!r}), count(*) FILTER (time <= {middle!r}),
        min(time) FILTER (time > {middle!r}) FROM ({select_times(files, columns)})"""
    before, until, after = fetch_tuples(connection, files[0], statement)[0]
    return before, until, after


def holds_dates(connection: Connection, file: StagedFile, column: str) -> bool:
    """Whether the times of a file were understood as dates, not as numbers."""
    kind = file.types[column]
    if not is_text(kind):
        return is_date(kind)
    statement = f"""SELECT 1 FROM {scan(file.path)}
        WHERE TRY_CAST({quoted(column)} AS DOUBLE) IS NOT NULL LIMIT 1"""
    return not fetch_tuples(connection, file, statement)
