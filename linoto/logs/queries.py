"""Every question to the rows of a log as one statement of SQL, and what can be wrong with a row.

A row has an item, a reward, maybe a propensity, a time and an id. In SQL they are called so, as they are
understood, and item_given, reward_given, ... as they were given. Fields of the context are f0, f1, ... The
features of its columns, as a recipe has them, are c0_0, c0_1, ..., or c0 is the place of the one feature that
is 1. Then y is the reward, and item the place of the item.

Parquet's statistics leave NaN out, and DuckDB believes them: a comparison, or `isnan` in a filter, may be
answered without a look at the values. `isfinite` looks, so it finds every bad value that may be NaN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.features.columns import (
    IN_LOG,
    MARKS,
    Column,
    Fault,
    OptionalColumn,
    is_absent,
    number_literal,
)
from linoto.core.features.recipe import Recipe
from linoto.core.hints import nearest
from linoto.logs.notation import PLAIN, Notation, other_notation
from linoto.logs.sql_words import listed, literal, quoted
from linoto.logs.tables import (
    ORIGINAL_ROW,
    ROW_NUMBER,
    Connection,
    StagedFile,
    copy_rows,
    refuse_rejected,
    scan,
    translate_errors,
)
from linoto.logs.value_sql import (
    Comparable,
    Value,
    compared_sql,
    constant_sql,
    id_sql,
    is_date,
    is_text,
    list_sql,
    text_sql,
)

KEPT_UNKNOWN = 100  # ids that are listed, most frequent first
EVERY_ROW = "(any)"  # the one arm of a log whose rows are features alone
PART_TABLE = "linoto_part"
ResultColumns = dict[str, npt.NDArray[Any]]
"""Columns of equal length, masked where a value is NULL."""
Product = tuple[str, ...]
"""The columns that are multiplied before they are summed; (): rows are counted."""
FLOATS = {"FLOAT", "DOUBLE"}  # as DuckDB calls them
Place = tuple[str, int | None]
"""A column, and a place in the lists that it has; None: it has numbers."""


class Columns(NamedTuple):
    """Which column means what."""

    reward: str
    item: str | None = None  # None: rows are features alone
    propensity: str | None = None
    time: str | None = None
    id: str | None = None  # what tells rows apart, where somebody asks
    candidates: str | None = None  # what could have been played in each row
    context: tuple[Column, ...] = ()  # those of the action itself too
    metrics: tuple[str, ...] = ()  # besides the reward; a value of one may be missing
    of_metric: bool = False  # whether `reward` is one of them
    notation: Notation = PLAIN  # of numbers that are text

    def roles(self) -> dict[str, str]:
        """The names of the columns that are one of a kind, by role."""
        named = {role: getattr(self, role) for role in ROLES}
        return {role: name for role, name in named.items() if name is not None}

    def given(self) -> dict[str, str]:
        """The names in use, by role."""
        found = self.roles() | {f"guardrail {name!r}": name for name in self.metrics}
        for column in self.context:
            role = f"{'vector' if column.holds == 'vector' else column.kind} {column.name!r}"
            found |= {role if f == column.name else f"{role} of {f!r}": f for f in column.reads}
        return found

    def fields(self) -> dict[str, tuple[str, Column]]:
        """The fields of the context: what each is called in SQL, and the first column that reads it."""
        first = {field: column for column in reversed(self.context) for field in column.reads}
        return {field: (f"f{place}", first[field]) for place, field in enumerate(sorted(first))}

    def value_sql(self, column: Column) -> str:
        """The value of a column: its field, or a list of them."""
        fields = self.fields()
        names = [fields[field][0] for field in column.reads]
        return f"[{', '.join(names)}]" if column.several else names[0]

    def faults(self) -> Iterator[tuple[str, str, list[Fault]]]:
        """What can be wrong with each field, by each column that reads it: with its name, also in SQL."""
        fields = self.fields()
        for column in self.context:
            for field in column.reads:
                sql, _ = fields[field]
                yield field, f"{sql}_given", [*column.faults_sql(sql, f"{sql}_given", field)]

    def about(self, metric: str) -> Columns:
        """The same with a metric in the place of the reward."""
        return self._replace(reward=metric, metrics=(), of_metric=True)


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


NUMBER = "must be a finite number, got {value!r}{hint}"
TIME = "the time must be a finite number or a date, got {value!r}"
UNKNOWN = "unknown arm"
MISSING = "missing value"  # of a metric, which may come late or never
ROLES = {  # what can be wrong with each
    "item": (
        Fault("missing item", "item_given IS NULL", "the item is missing"),
        Fault(UNKNOWN, "arm IS NULL", "there is no arm {value!r} among the {k} arms{hint}"),
    ),
    "reward": (
        Fault("missing reward", "reward_given IS NULL", "the reward is missing"),
        Fault("reward not understood", "reward IS NULL", f"the reward {NUMBER}"),
        Fault("reward is infinite", "isinf(reward)", f"the reward {NUMBER}"),
        Fault("reward is NaN", "NOT isfinite(reward)", f"the reward {NUMBER}"),
        Fault(
            "reward too large",
            "NOT isfinite(reward * reward)",
            "the reward is too large to be squared, got {value}",
        ),
    ),
    "propensity": (
        Fault("missing propensity", "propensity_given IS NULL", "the propensity is missing"),
        Fault("propensity not understood", "propensity IS NULL", f"the propensity {NUMBER}"),
        Fault(
            "propensity outside (0, 1]",
            "NOT isfinite(propensity) OR propensity <= 0 OR propensity > 1",
            "the propensity must be in (0, 1], got {value}",
        ),
        Fault(
            "propensity too small",
            "NOT isfinite(1 / propensity / propensity)",
            "the propensity is too small for 1 / propensity^2, got {value}",
        ),
    ),
    "time": (
        Fault("missing time", "time_given IS NULL", "the time is missing"),
        Fault("time not understood", "time IS NULL", TIME),
        Fault("time is not finite", "NOT isfinite(time)", TIME),
    ),
    "id": (Fault("missing id", "id IS NULL", "the id is missing"),),
    "candidates": (),
}


class BadValue(NamedTuple):
    """What can be wrong with a row, and in which column: its name, and what it is called in SQL."""

    fault: Fault
    column: str
    given: str


def bad_values(columns: Columns) -> Iterator[BadValue]:
    """Everything that can be wrong with a row."""
    for role, name in columns.roles().items():
        for fault in ROLES[role]:
            yield BadValue(in_words(fault, columns), name, f"{role}_given")
    for place, name in enumerate(columns.metrics):
        test = f"m{place}_given IS NOT NULL AND (m{place} IS NULL OR NOT isfinite(m{place}))"
        yield BadValue(Fault("value not understood", test, f"the value {NUMBER}"), name, f"m{place}_given")
    for field, given, faults in columns.faults():
        for fault in faults:
            yield BadValue(fault, field, given)


def in_words(fault: Fault, columns: Columns) -> Fault:
    """A fault of the reward, called that of a value where it is a metric."""
    if not columns.of_metric:
        return fault
    kind, message = (text.replace("reward", "value") for text in (fault.kind, fault.message))
    return fault._replace(kind=kind, message=message)


def refuse_bad_row(connection: Connection, rows: RowRange, ids: Sequence[str]) -> None:
    """Name the first bad row, its column and what it holds; a metric may lack a value."""
    found = first_bad_row(connection, rows)
    if found is None:
        return
    (row, place, value), file = found, rows.file
    if file.first_rejected is not None and file.first_rejected[0] <= row:
        refuse_rejected([file])
    fault, column, _ = [*bad_values(rows.columns)][place]
    look = other_notation([value]) if rows.columns.notation.plain else ""
    hint = nearest(str(value), ids) if fault.kind == UNKNOWN else f", which {look}" if look else ""
    numbers = [each.reads for each in rows.columns.context if isinstance(each, OptionalColumn)]
    if is_absent(value) and any(column in fields for fields in numbers):
        hint = f": {IN_LOG}"
    text = fault.message.format(value=value, k=len(ids), hint=hint)
    raise ValueError(f"{file.name}, row {row + 1}, column {column!r}: {text}")


# -- rows -------------------------------------------------------------------------------------------------


def select_given(rows: RowRange) -> str:
    """Every value of some rows as it was given, and as it is understood."""
    file, columns = rows.file, rows.columns
    parts = [f"{row_sql(file)} AS row", *([] if columns.item else [f"{literal(EVERY_ROW)} AS item_given"])]
    for role, name in columns.roles().items():
        value = Value(file.types[name], quoted(name), columns.notation)
        forms = {"reward": value.number, "propensity": value.number, "time": value.time, "id": value.id}
        parts.append(f"{quoted(name)} AS {role}_given")
        if role in forms:
            parts.append(f"{forms[role]} AS {role}")
    for place, name in enumerate(columns.metrics):
        value = Value(file.types[name], quoted(name), columns.notation)
        parts += [f"{quoted(name)} AS m{place}_given", f"{value.number} AS m{place}"]
    for field, (sql, column) in columns.fields().items():
        value = Value(file.types[field], quoted(field), columns.notation)
        parts += [f"{quoted(field)} AS {sql}_given", f"{column.read_sql(value)} AS {sql}"]
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
    """The same rows with the arm of each and what is wrong with it, by its place; NULL where it is good."""
    tests = " ".join(
        f"WHEN {bad.fault.test} THEN {place}" for place, bad in enumerate(bad_values(rows.columns))
    )
    return f"""SELECT *, CASE {tests} END AS kind FROM (
            SELECT given.*, known.arm AS arm
            FROM ({select_given(rows)}) AS given LEFT JOIN known ON known.id = {item_id(rows)}
        )"""


def select_rows(rows: RowRange) -> str:
    """The rows that a question is about: all of them, or the good ones."""
    if not rows.good_only:
        return select_given(rows)
    return f"SELECT * FROM ({select_checked(rows)}) WHERE kind IS NULL"


def select_features(rows: RowRange, recipe: Recipe, cut: float | None) -> str:
    """The rows as a recipe has them: places of levels, numbers scaled."""
    late = str(rows.late) if cut is None else f"time >= {number_literal(cut)}"
    parts = [f"{late} AS late", "reward AS y"]
    if recipe.items:
        parts += [f"{recipe.items_as_column.features_sql(item_id(rows))[0]} AS item"]
    for number, column in enumerate(recipe.columns):
        found = column.features_sql(rows.columns.value_sql(column))
        names = [f"c{number}"] if column.leveled else [f"c{number}_{i}" for i in range(len(column.labels))]
        parts += [f"{value} AS {name}" for value, name in zip(found, names, strict=True)]
    return f"SELECT {', '.join(parts)} FROM ({select_rows(rows)})"


def item_id(rows: RowRange) -> str:
    """The item as the id of an arm."""
    item = rows.columns.item
    return "item_given" if item is None else id_sql(rows.file.types[item], "item_given")


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

    Rows from the time `cut` on are late. By item first, and only then by arm: a log has many more rows than
    items. `sure` counts the rows whose context is as it must be.
    """
    late, groups = (rows.late, "item_given") if cut is None else (f"time >= {cut!r}", "item_given, late")
    extra = ""
    if rows.columns.propensity is not None:
        extra = """, sum(1 / propensity) AS inverse, sum(1 / propensity / propensity) AS inverse_square,
            min(propensity) AS low, max(propensity) AS high, count(propensity) AS weighed"""
    if rows.columns.time is not None:
        extra += ", count(*) FILTER (isfinite(time)) AS timed"
    if tests := [f"NOT ({faults[-1].test})" for *_, faults in rows.columns.faults() if faults]:
        extra += f", count(*) FILTER ({' AND '.join(tests)}) AS sure"
    statement = f"""SELECT coalesce(known.arm, -1) AS arm, sums.* EXCLUDE (item_given) FROM (
            SELECT item_given, {late} AS late, count(reward) AS pulls, sum(reward) AS sum,
            sum(reward * reward) AS square{extra}
            FROM ({select_rows(rows)}) GROUP BY {groups}
        ) AS sums LEFT JOIN known ON known.id = {item_id(rows)}"""
    return fetch_arrays(connection, rows.file, statement)


def reward_extent(connection: Connection, rows: RowRange) -> tuple[float, float] | None:
    """The smallest and the largest reward; Parquet mostly knows them without being read."""
    statement = f"SELECT min(reward), max(reward) FROM ({select_rows(rows)})"
    low, high = fetch_tuples(connection, rows.file, statement)[0]
    return None if low is None else (low + 0.0, high + 0.0)  # Parquet writes of a 0 that it may be -0


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
            SELECT item_given, min(reward) AS low, max(reward) AS high
            FROM ({select_rows(rows)}) GROUP BY item_given
        ) JOIN known ON known.id = {item_id(rows)}"""
    return fetch_arrays(connection, rows.file, statement)


def fetch_rows(connection: Connection, rows: RowRange) -> ResultColumns:
    """The rows themselves in their order: row, arm, every value as it is understood, and what is wrong."""
    columns = rows.columns
    wanted = [role for role in columns.roles() if role not in ("item", "candidates")]
    if columns.candidates is not None:
        shown = list_sql(rows.file.types[columns.candidates], "candidates_given")
        wanted.append(f"{shown} AS candidates")
    fields = [sql for sql, _ in columns.fields().values()]
    wanted += [f"m{place}" for place in range(len(columns.metrics))]
    statement = f"""SELECT {", ".join(["row", "arm", *wanted, *fields])}, kind
        FROM ({select_checked(rows)}) ORDER BY row"""
    return fetch_arrays(connection, rows.file, statement)


def first_bad_row(connection: Connection, rows: RowRange) -> tuple[int, int, str | None] | None:
    """The first bad row, what is wrong with it by its place, and what it holds."""
    found = [*bad_values(rows.columns)]
    shown = " ".join(f"WHEN {place} THEN {text_sql(bad.given)}" for place, bad in enumerate(found))
    bad_kinds = ", ".join(str(place) for place, bad in enumerate(found) if bad.fault.kind != MISSING)
    statement = f"""SELECT row, kind, CASE kind {shown} END FROM ({select_checked(rows)})
        WHERE kind IN ({bad_kinds}) ORDER BY row LIMIT 1"""
    for row, kind, value in fetch_tuples(connection, rows.file, statement):
        return row, kind, value
    return None


def count_bad_rows(connection: Connection, rows: RowRange) -> Counter[str]:
    """Bad rows of each kind."""
    kinds = [bad.fault.kind for bad in bad_values(rows.columns)]
    statement = f"""SELECT kind, count(*) FROM ({select_checked(rows)})
        WHERE kind IS NOT NULL GROUP BY kind"""
    return Counter({kinds[kind]: count for kind, count in fetch_tuples(connection, rows.file, statement)})


def count_unknown_ids(connection: Connection, rows: RowRange) -> Counter[str]:
    """Rows of the most frequent ids that no arm has."""
    statement = f"""SELECT {text_sql("item_given")} AS name, count(*) AS n FROM ({select_checked(rows)})
        WHERE item_given IS NOT NULL AND arm IS NULL
        GROUP BY name ORDER BY n DESC, name LIMIT {KEPT_UNKNOWN}"""
    return Counter(dict(fetch_tuples(connection, rows.file, statement)))


# -- features ---------------------------------------------------------------------------------------------


def describe_columns(connection: Connection, rows: RowRange, columns: Sequence[Column]) -> ResultColumns:
    """About how many levels there are in columns that have some, and what numbers are like.

    By the place of a column, and of the number among those that it learns from.
    """
    parts, shares = ["count(*) AS rows"], [place / MARKS for place in range(MARKS + 1)]
    for place, column in enumerate(columns):
        value = rows.columns.value_sql(column)
        if column.learns == "levels":
            parts.append(f"approx_count_distinct({value}) AS c{place}_levels")
            continue
        for number, sql in enumerate(column.learns_sql(value)):
            asked = {"size": f"count({sql})", "mean": f"avg({sql})", "variance": f"var_pop({sql})"}
            asked |= {"low": f"min({sql})", "high": f"max({sql})"}
            if column.learns == "quantiles":
                asked["marks"] = f"quantile_disc({sql}, {shares})"
            parts += [f"{what} AS c{place}_{number}_{name}" for name, what in asked.items()]
    return fetch_arrays(connection, rows.file, f"SELECT {', '.join(parts)} FROM ({select_rows(rows)})")


def count_levels(connection: Connection, rows: RowRange, sql: str) -> Counter[str | None]:
    """Rows of each level of a column; None: without a value."""
    statement = f"SELECT {sql}, count(*) FROM ({select_rows(rows)}) GROUP BY {sql}"
    return Counter(dict(fetch_tuples(connection, rows.file, statement)))


def stage_part(connection: Connection, rows: RowRange, recipe: Recipe, cut: float | None) -> str:
    """The features of rows as a table: kept in memory where it is asked more than once."""
    features = select_features(rows, recipe, cut)
    if not recipe.items and not any(column.leveled for column in recipe.columns):
        return f"({features})"
    fetch_tuples(connection, rows.file, f"CREATE OR REPLACE TEMP TABLE {PART_TABLE} AS {features}")
    return PART_TABLE


def sum_products(
    connection: Connection, file: StagedFile, table: str, keys: Sequence[str], products: Sequence[Product]
) -> ResultColumns:
    """Sums of products s0, s1, ... by these keys."""
    parts = [
        f"{'sum(' + ' * '.join(product) + ')' if product else 'count(*)'} AS s{place}"
        for place, product in enumerate(products)
    ]
    groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    return fetch_arrays(connection, file, f"SELECT {', '.join([*keys, *parts])} FROM {table}{groups}")


def read_numbers(
    connection: Connection, file: StagedFile, table: str, names: Sequence[str], at_once: int
) -> Iterator[Floats]:
    """(n, w) these columns of numbers, so many rows at a time; 0 where there is none."""
    asked = ", ".join(f"coalesce(CAST({name} AS DOUBLE), 0)" for name in names)
    with translate_errors(file.name, file.kind):
        for batch in connection.sql(f"SELECT {asked} FROM {table}").to_arrow_reader(at_once):
            yield np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns])


# -- some rows, and tables --------------------------------------------------------------------------------


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


def count_of_value(connection: Connection, file: StagedFile, column: str, value: str) -> int:
    """How many rows have this text in a column."""
    statement = f"SELECT count(*) FROM {scan(file.path)} WHERE {text_sql(quoted(column))} = {literal(value)}"
    return int(fetch_tuples(connection, file, statement)[0][0])


def fetch_table(connection: Connection, file: StagedFile, names: Sequence[str], id: str) -> list[list[Any]]:
    """The values of these columns, each in the order of rows; ids as the ids of arms are written."""
    columns = (id_sql(file.types[name], quoted(name)) if name == id else quoted(name) for name in names)
    statement = f"SELECT {', '.join(columns)} FROM {scan(file.path)} ORDER BY {ROW_NUMBER}"
    rows = fetch_tuples(connection, file, statement)
    return [list(values) for values in zip(*rows, strict=True)] or [[] for _ in names]


def fetch_numbers(connection: Connection, file: StagedFile, columns: Sequence[Place]) -> list[Floats]:
    """(k,) the numbers of columns, or of a place in the lists that they have, in the order of the file.

    NaN where there is none, which integers do not have.
    """
    said = ", ".join(
        f"{quoted(name)}{'' if place is None else f'[{place + 1}]'}"
        f"{'' if file.types[name].partition('[')[0] in FLOATS else '::DOUBLE'} AS c{at}"
        for at, (name, place) in enumerate(columns)
    )
    found = fetch_arrays(connection, file, f"SELECT {said} FROM {scan(file.path)} ORDER BY {ROW_NUMBER}")
    return [np.ma.filled(found[f"c{at}"], np.nan) for at in range(len(columns))]


def some_lengths(connection: Connection, file: StagedFile, column: str) -> set[int | None]:
    """How long the lists of a column are: three lengths at most, and None where a row has none."""
    statement = f"SELECT DISTINCT len({quoted(column)}) FROM {scan(file.path)} LIMIT 3"
    return {length for (length,) in fetch_tuples(connection, file, statement)}


def distinct_ids(connection: Connection, file: StagedFile, column: str, most: int) -> list[str]:
    """The distinct values of a column as ids, at most so many, in any order."""
    ids = id_sql(file.types[column], quoted(column))
    statement = f"""SELECT DISTINCT id FROM (SELECT {ids} AS id FROM {scan(file.path)})
        WHERE id IS NOT NULL LIMIT {most}"""
    return [found[0] for found in fetch_tuples(connection, file, statement)]


def distinct_texts(connection: Connection, file: StagedFile, column: str, most: int) -> list[str]:
    """The distinct values of a column of texts as they are written, at most so many; none of another one."""
    if not is_text(file.types[column]):
        return []
    texts = text_sql(quoted(column))
    statement = f"""SELECT DISTINCT text FROM (SELECT {texts} AS text FROM {scan(file.path)})
        WHERE text IS NOT NULL LIMIT {most}"""
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
