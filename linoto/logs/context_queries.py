"""Every question to the rows of a log with contexts as one statement of SQL.

A row has an item, a reward, maybe a propensity and a time, numbers and categories. In SQL they are called
item, reward, propensity, time, n0, n1, ... and c0, c1, ...; encoded as a recipe has them, item and c0, c1,
... are the numbers of levels, z0, z1, ... scaled numbers, y is the reward and w one over the propensity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from linoto.core.features.columns import Category, Numeric
from linoto.core.features.recipe import Recipe
from linoto.core.hints import nearest
from linoto.logs.notation import PLAIN, Notation, other_notation
from linoto.logs.row_queries import (
    BAD_VALUES,
    NUMBER,
    ResultColumns,
    fetch_arrays,
    fetch_tuples,
    range_sql,
    row_sql,
)
from linoto.logs.tables import Connection, StagedFile, literal, quoted, refuse_rejected
from linoto.logs.value_sql import id_sql, level_sql, list_sql, number_sql, time_sql

PART_TABLE = "linoto_part"
Sums = tuple[str, ...]  # the columns that are multiplied before they are summed; (): rows are counted


SINGLE = ("item", "reward", "propensity", "time", "candidates")  # roles that one column has


class ContextColumns(NamedTuple):
    """Which column of a log with contexts means what."""

    reward: str
    item: str | None = None
    propensity: str | None = None
    time: str | None = None
    numbers: tuple[str, ...] = ()  # n0, n1, ...
    categories: tuple[str, ...] = ()  # c0, c1, ...
    candidates: str | None = None  # the items that could be played in each row
    notation: Notation = PLAIN

    def given(self) -> dict[str, str]:
        """The names in use, by role."""
        single = {role: getattr(self, role) for role in SINGLE}
        several = {f"number {name!r}": name for name in self.numbers}
        several |= {f"category {name!r}": name for name in self.categories}
        return {role: name for role, name in single.items() if name is not None} | several

    @property
    def keys(self) -> dict[str, str]:
        """The columns that have levels, and what they are called in SQL."""
        items = {} if self.item is None else {self.item: "item"}
        return items | {name: f"c{place}" for place, name in enumerate(self.categories)}


class ContextRange(NamedTuple):
    """Consecutive rows of a file, and what its columns mean."""

    file: StagedFile
    columns: ContextColumns
    first: int
    end: int
    late: bool = False
    items: tuple[str, ...] = ()  # the only ones there may be, if any are named
    good_only: bool = False


class BadValue(NamedTuple):
    """A kind of bad row: as it is counted, how SQL tells, what a message says, and of which column."""

    kind: str
    test: str
    message: str
    column: str
    shown: str  # the column as given, in SQL


def bad_values(rows: ContextRange) -> Iterator[BadValue]:
    """Everything that can be wrong with a row."""
    columns = rows.columns
    if columns.item is not None:
        yield BadValue("missing item", "item IS NULL", "the item is missing", columns.item, "item")
    if rows.items:
        text = f"there is no item {{value!r}} among the {len(rows.items)} items{{hint}}"
        yield BadValue("unknown item", f"{known_item()} IS NULL", text, str(columns.item), "item")
    for role in ("reward", "propensity", "time"):
        name = getattr(columns, role)
        for kind, (test, message) in BAD_VALUES[role].items() if name is not None else ():
            yield BadValue(kind, test, message.replace("{role}", role), name, f"{role}_given")
    for place, name in enumerate(columns.numbers):
        sql, given = f"n{place}", f"n{place}_given"
        must = NUMBER.replace("{role}", "value")
        yield BadValue(f"missing {name}", f"{given} IS NULL", "the value is missing", name, given)
        yield BadValue(f"{name} not understood", f"{sql} IS NULL", must, name, given)
        yield BadValue(f"{name} is not finite", f"NOT isfinite({sql})", must, name, given)


def refuse_bad_row(connection: Connection, rows: ContextRange) -> None:
    """Name the first bad row, its column and what it holds."""
    found = first_bad_row(connection, rows)
    if found is None:
        return
    (row, place, value), file = found, rows.file
    if file.first_rejected is not None and file.first_rejected[0] <= row:
        refuse_rejected([file])
    bad = [*bad_values(rows)][place]
    look = other_notation([value]) if rows.columns.notation.plain else ""
    hint = nearest(str(value), rows.items) if rows.items else ""
    hint = hint if bad.kind == "unknown item" else f", which {look}" if look else ""
    text = bad.message.format(value=value, hint=hint)
    raise ValueError(f"{file.name}, row {row + 1}, column {bad.column!r}: {text}")


# -- rows -------------------------------------------------------------------------------------------------


def select_given(rows: ContextRange) -> str:
    """Every value of some rows as it is understood, and numbers as given too."""
    file, columns = rows.file, rows.columns
    parts = [f"{row_sql(file)} AS row"]
    numbers = {f"n{place}": name for place, name in enumerate(columns.numbers)} | {"reward": columns.reward}
    if columns.propensity is not None:
        numbers["propensity"] = columns.propensity
    for sql, name in numbers.items():
        value = number_sql(file.types[name], quoted(name), columns.notation)
        parts += [f"{quoted(name)} AS {sql}_given", f"{value} AS {sql}"]
    if columns.time is not None:
        value = time_sql(file.types[columns.time], quoted(columns.time))
        parts += [f"{quoted(columns.time)} AS time_given", f"{value} AS time"]
    if columns.candidates is not None:
        parts.append(f"{list_sql(file.types[columns.candidates], quoted(columns.candidates))} AS candidates")
    for name, sql in columns.keys.items():
        form = id_sql if sql == "item" else level_sql
        parts.append(f"nullif({form(file.types[name], quoted(name))}, '') AS {sql}")
    return f"SELECT {', '.join(parts)} FROM {range_sql(file, rows.first, rows.end)}"


def kind_sql(rows: ContextRange) -> str:
    """Which kind of bad row a row is, by its place among all kinds; NULL where it is good."""
    tests = (f"WHEN {bad.test} THEN {place}" for place, bad in enumerate(bad_values(rows)))
    return f"CASE {' '.join(tests)} END"


def select_rows(rows: ContextRange) -> str:
    """The rows that a question is about: all of them, or the good ones."""
    given = select_given(rows)
    return given if not rows.good_only else f"SELECT * FROM ({given}) WHERE {kind_sql(rows)} IS NULL"


def select_encoded(rows: ContextRange, recipe: Recipe, cut: float | None) -> str:
    """The rows as a recipe has them: levels by number, numbers scaled."""
    late = str(rows.late) if cut is None else f"time >= {number(cut)}"
    parts = [f"{late} AS late", "reward AS y"]
    if rows.columns.propensity is not None:
        parts.append("1 / propensity AS w")
    for name, sql in rows.columns.keys.items():
        parts.append(f"{code_sql(sql, category_of(recipe, name))} AS {sql}")
    for place, column in enumerate(numerics(recipe)):
        parts.append(f"(n{place} - {number(column.mean)}) / {number(column.scale)} AS z{place}")
    return f"SELECT {', '.join(parts)} FROM ({select_rows(rows)})"


def numerics(recipe: Recipe) -> list[Numeric]:
    """The columns of numbers, in the order of n0, n1, ..."""
    return [column for column in (*recipe.context, *recipe.action) if isinstance(column, Numeric)]


def category_of(recipe: Recipe, name: str) -> Category:
    """A column that has levels; the items are one too."""
    if recipe.items and name == recipe.item:
        return Category(name=name, levels=recipe.items)
    return next(c for c in recipe.context if isinstance(c, Category) and c.name == name)


def code_sql(sql: str, category: Category) -> str:
    """The number of a level, as `Category.code` has it."""
    code = "NULL" if not category.levels else f"enum_code(TRY_CAST({sql} AS {levels_type(sql)}))"
    return f"""CASE WHEN {sql} IS NULL THEN {category.missing_code}
        ELSE coalesce(CAST({code} AS INTEGER), {category.other_code}) END"""


def levels_type(sql: str) -> str:
    """The name of the type of a column's levels."""
    return f"linoto_levels_{sql}"


def known_item() -> str:
    """The item where it is one of those that there may be, else NULL."""
    return f"TRY_CAST(item AS {levels_type('known')})"


def number(value: float) -> str:
    """A float in SQL: with a point alone it would be a decimal."""
    return f"'{value!r}'::DOUBLE"


# -- statements -------------------------------------------------------------------------------------------


def introduce_levels(connection: Connection, levels: Mapping[str, Sequence[str]]) -> None:
    """Tell a database which levels the columns have, by their names in SQL."""
    for sql, words in levels.items():
        if words:
            listed = ", ".join(map(literal, words))
            connection.execute(f"CREATE TYPE {levels_type(sql)} AS ENUM ({listed})")


def introduce_items(connection: Connection, items: Sequence[str]) -> None:
    """Tell a database which items there may be, if only some."""
    introduce_levels(connection, {"known": items})


def introduce_recipe(connection: Connection, columns: ContextColumns, recipe: Recipe) -> None:
    """Tell a database which levels a recipe has."""
    keys = columns.keys
    introduce_levels(connection, {sql: category_of(recipe, name).levels for name, sql in keys.items()})


def survey_numbers(connection: Connection, rows: ContextRange) -> ResultColumns:
    """How many rows are surely good, about how many levels there are, and what numbers are like."""
    columns = rows.columns
    sure = [f"isfinite({' + '.join(['reward * reward', *(f'n{i}' for i in range(len(columns.numbers)))])})"]
    parts = ["min(reward) AS low", "max(reward) AS high"]
    if columns.item is not None:
        sure.append(f"{known_item() if rows.items else 'item'} IS NOT NULL")
    if columns.propensity is not None:
        sure.append("isfinite(1 / propensity / propensity) AND propensity > 0 AND propensity <= 1")
        parts += ["min(propensity) AS least", "max(propensity) AS most"]
    if columns.time is not None:
        sure.append("isfinite(time)")
    for place in range(len(columns.numbers)):
        parts += [f"avg(n{place}) AS mean{place}", f"var_pop(n{place}) AS variance{place}"]
    parts += [f"approx_count_distinct({sql}) AS levels_{sql}" for sql in columns.keys.values()]
    statement = f"""SELECT count(*) AS rows, count(*) FILTER ({" AND ".join(sure)}) AS good,
        {", ".join(parts)} FROM ({select_rows(rows)})"""
    return fetch_arrays(connection, rows.file, statement)


def count_levels(connection: Connection, rows: ContextRange, sql: str) -> Counter[str | None]:
    """Rows of each level of a column; None: without a value."""
    statement = f"SELECT {sql}, count(*) FROM ({select_rows(rows)}) GROUP BY {sql}"
    return Counter(dict(fetch_tuples(connection, rows.file, statement)))


def first_bad_row(connection: Connection, rows: ContextRange) -> tuple[int, int, str | None] | None:
    """The first bad row, which kind it is, and what it holds."""
    shown = (f"WHEN {place} THEN CAST({bad.shown} AS VARCHAR)" for place, bad in enumerate(bad_values(rows)))
    statement = f"""SELECT row, kind, CASE kind {" ".join(shown)} END FROM (
            SELECT *, {kind_sql(rows)} AS kind FROM ({select_given(rows)})
        ) WHERE kind IS NOT NULL ORDER BY row LIMIT 1"""
    for row, kind, value in fetch_tuples(connection, rows.file, statement):
        return row, kind, value
    return None


def count_bad_rows(connection: Connection, rows: ContextRange) -> Counter[str]:
    """Bad rows of each kind."""
    kinds = [bad.kind for bad in bad_values(rows)]
    statement = f"""SELECT {kind_sql(rows)} AS kind, count(*) FROM ({select_given(rows)})
        WHERE kind IS NOT NULL GROUP BY kind"""
    return Counter({kinds[kind]: count for kind, count in fetch_tuples(connection, rows.file, statement)})


def stage_part(connection: Connection, rows: ContextRange, recipe: Recipe, cut: float | None) -> str:
    """The encoded rows as a table: kept in memory where it is asked more than once."""
    encoded = select_encoded(rows, recipe, cut)
    if not rows.columns.keys:
        return f"({encoded})"
    fetch_tuples(connection, rows.file, f"CREATE OR REPLACE TEMP TABLE {PART_TABLE} AS {encoded}")
    return PART_TABLE


def sum_products(
    connection: Connection, file: StagedFile, table: str, keys: Sequence[str], sums: Sequence[Sums]
) -> ResultColumns:
    """Sums of products s0, s1, ... by these keys."""
    parts = [
        f"{'sum(' + ' * '.join(product) + ')' if product else 'count(*)'} AS s{place}"
        for place, product in enumerate(sums)
    ]
    groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    return fetch_arrays(connection, file, f"SELECT {', '.join([*keys, *parts])} FROM {table}{groups}")


def fetch_context_rows(connection: Connection, rows: ContextRange) -> ResultColumns:
    """The rows themselves in their order: values as they are understood, and the kind of bad row."""
    columns = rows.columns
    named = [role for role in ("propensity", "time", "candidates") if getattr(columns, role) is not None]
    numbers = [f"n{place}" for place in range(len(columns.numbers))]
    wanted = ", ".join(["row", "reward", *named, *numbers, *columns.keys.values()])
    statement = f"SELECT {wanted}, {kind_sql(rows)} AS kind FROM ({select_given(rows)}) ORDER BY row"
    return fetch_arrays(connection, rows.file, statement)
