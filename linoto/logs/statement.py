"""The one statement that a warehouse runs, and whose rows are a log: sums by item and by levels of contexts.

It has nothing in it that one of these warehouses lacks, so dialects differ in quotes and in names of types
only. Numbers are centred by their means before they are multiplied, so that nothing cancels: with means known
to the sums, any mean and scale of a recipe is a polynomial of them (`logs/statistics.py`).

A row that comes back has in `linoto` what it is: "rows" are those of one item with the same levels, in one
half; "bad" counts those that cannot be used; "low" and "high" are the rewards at either end; and the one that
is JSON says what was asked. Rows about a guardrail are the same with its values in the place of rewards; what
they are begins with `metric 0: `.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import combinations, combinations_with_replacement
from typing import Any

from linoto.core.features.columns import Column
from linoto.core.features.recipe import as_crosses
from linoto.core.validation import check_choice
from linoto.logs.dialects import Dialect
from linoto.logs.metrics import asked_guardrails, check_metric
from linoto.logs.queries import Columns
from linoto.logs.where import parse_where

FORMAT = 1
PART = "linoto"  # the column that says what a row is, and no other file has
LARGEST = 1e150  # a number whose square is finite; and 1 / propensity
MOST_ENDS = 10_000  # different rewards at either end
REWARD = "y"
MISSING_NUMBERS = ("refuse", "feature")  # what they are
METRIC = "metric {}: "  # before what a row is, where it is about a guardrail
Factors = tuple[str, ...]  # numbers that are multiplied before they are summed: z0, z1, ..., y


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a warehouse is asked: which columns mean what, as `read_log` calls them."""

    table: str
    reward: str
    item: str
    propensity: str | None = None
    time: str | None = None
    where: str | None = None
    numeric: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    crosses: tuple[tuple[str, str], ...] | None = None  # None: the usual ones
    min_count: int = 1
    guardrails: tuple[str, ...] = ()  # as --guardrail takes them
    missing: str = "refuse"  # or "feature": numbers may be missing

    def __post_init__(self) -> None:
        for name in ("numeric", "categories", "guardrails"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.crosses is not None:
            object.__setattr__(self, "crosses", as_crosses(self.crosses))
        check_choice("missing", self.missing, MISSING_NUMBERS)
        if not self.table.strip():
            raise ValueError("table must be the name of a table or a query, got nothing")
        parse_where(self.where)
        for rail in asked_guardrails(self.guardrails):
            rail.check_direction()
            check_metric(rail.name, Columns(self.reward, self.item, self.propensity, self.time))
            if rail.name in (*self.numeric, *self.categories):
                raise ValueError(
                    f"guardrail {rail.name!r} must be a column of its own, got one of the context"
                )

    @property
    def metrics(self) -> list[str]:
        """The columns of its guardrails."""
        return [rail.name for rail in asked_guardrails(self.guardrails)]

    def about(self, metric: str) -> Question:
        """The same with a metric in the place of the reward."""
        return replace(self, reward=metric, guardrails=())

    @property
    def header(self) -> str:
        """Everything that was asked, in one row of what comes back; an older reader knows no guardrails, and
        crosses nothing unless it is told."""
        said = asdict(self)
        usual = {"guardrails": not self.guardrails, "crosses": self.crosses is None}
        for name, unsaid in {**usual, "missing": not self.gone}.items():
            if unsaid:
                del said[name]
        return json.dumps({"format": FORMAT, **said}, sort_keys=True)

    @classmethod
    def from_header(cls, text: str) -> Question:
        """What was asked, by the row that says it."""
        found: dict[str, Any] = json.loads(text)
        if (known := found.pop("format")) != FORMAT:
            raise ValueError(f"it must be of format {FORMAT}, got format {known!r}")
        return cls(**found)

    @property
    def factors(self) -> list[Factors]:
        """The products whose sums say everything of any recipe of these columns, () first: rows."""
        called = {name: f"z{place}" for place, name in enumerate(self.numeric)}
        terms = {(), *((name,) for name in called.values())}
        terms |= {tuple(called[name] for name in cross if name in called) for cross in self.crosses or ()}
        whole = {(*one, *other) for one, other in combinations_with_replacement(sorted(terms), 2)}
        whole |= {(*term, REWARD) for term in terms} | {(REWARD, REWARD)}
        parts = {
            tuple(sorted(some)) for all in whole for n in range(len(all) + 1) for some in combinations(all, n)
        }
        return sorted(parts, key=lambda some: (len(some), some))

    @property
    def levels(self) -> list[str]:
        """What its columns of words are called in what comes back."""
        return [f"level{place}" for place in range(len(self.categories))]

    @property
    def gone(self) -> list[str]:
        """What says whether a number is missing in what comes back, for each number."""
        return [f"gone{place}" for place in range(len(self.numeric))] if self.missing != "refuse" else []

    @property
    def names(self) -> list[str]:
        """The columns of what comes back."""
        chances = ["inverse", "inverse_square", "low_chance", "high_chance"] if self.propensity else []
        numbers = [
            f"{what}{place}" for place in range(len(self.numeric)) for what in ("mean", "least", "most")
        ]
        sums = [f"s{place}" for place in range(len(self.factors))]
        cut = ["cut"] if self.time else []
        keys = ["late", "item", *self.levels, *self.gone]
        return [PART, *keys, "low", "high", *chances, *cut, *numbers, *sums]


def refuse_columns(columns: list[Column]) -> None:
    """Refuse kinds of columns that sums of products cannot make."""
    for column in columns:
        raise ValueError(
            f"columns must be numbers or words to be summed up by a statement, got {column.kind} "
            f"{column.name!r}: it is learned from rows, so read these (--query)"
        )


# -- the statement ----------------------------------------------------------------------------------------


def statement_of(question: Question, dialect: Dialect) -> str:
    """The statement: one query that is read-only and ends without a semicolon."""
    tables = dict(tables_of(question, dialect))
    parts = ",\n".join(f"{name} AS (\n{sql}\n)" for name, sql in tables.items())
    return f"WITH {parts}\n" + "\nUNION ALL\n".join(results_of(question, dialect))


def tables_of(question: Question, dialect: Dialect) -> Iterator[tuple[str, str]]:
    """The steps, each a table that the next ones use."""
    q, name = question, dialect.alias
    yield "given", select_given(q, dialect)
    yield from checked_rows(q, dialect, REWARD)
    if q.time is not None:
        t, n, before, total = map(name, ("t", "n", "before", "total"))
        yield "times", f"SELECT {t}, count(*) AS {n} FROM given WHERE {t} IS NOT NULL GROUP BY {t}"
        sums = f"sum({n}) OVER (ORDER BY {t}) - {n} AS {before}, sum({n}) OVER () AS {total}"
        yield "ordered", f"SELECT {t}, {sums} FROM times"
        nearest = f"ORDER BY abs(2 * {before} - {total}), {t} LIMIT 1"
        yield "middle", f"SELECT {t} AS {name('cut')} FROM ordered {nearest}"
    if q.numeric:
        facts = (
            f"{sql}({name(f'x{place}')}) AS {name(f'{what}{place}')}"
            for place in range(len(q.numeric))
            for sql, what in (("avg", "mean"), ("min", "least"), ("max", "most"))
        )
        yield "facts", f"SELECT {', '.join(facts)} FROM good"
    yield from summed_rows(q, dialect, REWARD)
    for place in range(len(q.metrics)):
        yield from checked_rows(q, dialect, f"m{place}")
        yield from summed_rows(q, dialect, f"m{place}")


def of(step: str, value: str) -> str:
    """The name of a step: that of a metric's values beside the one of rewards."""
    return step if value == REWARD else f"{step}_{value}"


def checked_rows(question: Question, dialect: Dialect, value: str) -> Iterator[tuple[str, str]]:
    """What is wrong with each row, and those with which nothing is; `value` are rewards, or a metric."""
    bad, checked = dialect.alias("bad"), of("checked", value)
    tests = " ".join(f"WHEN {test} THEN '{kind}'" for kind, test in faults_of(question, dialect, value))
    yield checked, f"SELECT given.*, CASE {tests} END AS {bad} FROM given"
    yield of("good", value), f"SELECT * FROM {checked} WHERE {bad} IS NULL"


def summed_rows(question: Question, dialect: Dialect, value: str) -> Iterator[tuple[str, str]]:
    """The sums of good rows, and their values at either end."""
    y, n, good = dialect.alias(value), dialect.alias("n"), of("good", value)
    yield of("centred", value), select_centred(question, dialect, good)
    yield of("grouped", value), select_grouped(question, dialect, value)
    for end, way in (("lowest", "ASC"), ("highest", "DESC")):
        ends = f"SELECT {y}, count(*) AS {n} FROM {good} GROUP BY {y} ORDER BY {y} {way} LIMIT {MOST_ENDS}"
        yield of(end, value), ends


def select_given(question: Question, dialect: Dialect) -> str:
    """The columns that are read, by names of ours, of the rows that are asked for."""
    q, column, name = question, dialect.column, dialect.alias
    parts = [f"{column(q.item)} AS {name('item')}", f"{dialect.number(column(q.reward))} AS {name(REWARD)}"]
    if q.propensity is not None:
        parts.append(f"{dialect.number(column(q.propensity))} AS {name('p')}")
    if q.time is not None:
        parts.append(f"{column(q.time)} AS {name('t')}")
    parts += [
        f"{column(words)} AS {name(level)}" for words, level in zip(q.categories, q.levels, strict=True)
    ]
    parts += [f"{dialect.number(column(one))} AS {name(f'x{i}')}" for i, one in enumerate(q.numeric)]
    parts += [f"{dialect.number(column(one))} AS {name(f'm{i}')}" for i, one in enumerate(q.metrics)]
    is_query = re.match(r"\s*(\(|select\b|with\b)", q.table, re.IGNORECASE)
    inner = q.table.strip().rstrip(";")
    table = inner if not is_query or inner.startswith("(") else f"({inner})"
    tests = " AND ".join(
        compared(dialect, one.column, one.operator, one.value) for one in parse_where(q.where)
    )
    alias = " AS asked" if is_query else ""
    return f"SELECT {', '.join(parts)} FROM {table}{alias}" + (f" WHERE {tests}" if tests else "")


def compared(dialect: Dialect, column: str, operator: str, value: float | str | datetime) -> str:
    """A comparison of --where."""
    sql = dialect.column(column)
    if isinstance(value, str):
        return f"CAST({sql} AS {dialect.text}) {operator} {dialect.literal(value)}"
    if isinstance(value, datetime):
        moment = f"CAST('{value.isoformat(sep=' ')}' AS {dialect.moment})"
        return f"CAST({sql} AS {dialect.moment}) {operator} {moment}"
    return f"{dialect.number(sql)} {operator} {dialect.constant(float(value))}"


def faults_of(question: Question, dialect: Dialect, value: str) -> Iterator[tuple[str, str]]:
    """What can be wrong with a row, in the words of `logs/queries.py`; no warehouse calls NaN small."""
    if value == REWARD:
        yield from faults_with(question, dialect, "reward", value)
        return
    for kind, test in faults_with(question, dialect, "value", value):
        yield METRIC.format(value[1:]) + kind, test


def faults_with(question: Question, dialect: Dialect, word: str, value: str) -> Iterator[tuple[str, str]]:
    """The same where rewards are called by a word."""
    name, large = dialect.alias, dialect.constant(LARGEST)
    roles = {"item": "item", word: value}
    roles |= {"propensity": "p"} if question.propensity else {}
    roles |= {"time": "t"} if question.time else {}
    for role, sql in roles.items():
        yield f"missing {role}", f"{name(sql)} IS NULL"
    yield f"{word} is not finite or too large", f"NOT (abs({name(value)}) <= {large})"
    if question.propensity is not None:
        least = dialect.constant(1 / LARGEST)
        yield "propensity outside (0, 1]", f"NOT ({name('p')} >= {least} AND {name('p')} <= 1)"
    for place, number in enumerate(question.numeric):
        shown = number.replace("'", " ").replace("\\", " ")
        if not question.gone:
            yield f"missing {shown}", f"{name(f'x{place}')} IS NULL"
        yield f"{shown} is not finite", f"NOT (abs({name(f'x{place}')}) <= {large})"


def select_centred(question: Question, dialect: Dialect, good: str) -> str:
    """The good rows with their half, and numbers as they differ from their means."""
    q, name = question, dialect.alias
    late = "0" if q.time is None else f"CASE WHEN {name('t')} >= {name('cut')} THEN 1 ELSE 0 END"
    parts = [f"{late} AS {name('late')}", f"{good}.*"]
    parts += [name("cut")] if q.time else []
    for place in range(len(q.numeric)):
        parts += [name(f"{what}{place}") for what in ("mean", "least", "most")]
        away = f"{name(f'x{place}')} - {name(f'mean{place}')}"
        if q.gone:
            parts.append(f"CASE WHEN {name(f'x{place}')} IS NULL THEN 1 ELSE 0 END AS {name(q.gone[place])}")
            away = f"coalesce({away}, {dialect.constant(0.0)})"
        parts.append(f"{away} AS {name(f'z{place}')}")
    others = "".join(
        f" CROSS JOIN {table}" for table, there in (("facts", q.numeric), ("middle", q.time)) if there
    )
    return f"SELECT {', '.join(parts)} FROM {good}{others}"


def select_grouped(question: Question, dialect: Dialect, value: str) -> str:
    """Sums of the rows that have the same half, item and levels; factors call a metric's value a reward."""
    q, name = question, dialect.alias
    keys = ", ".join(map(name, ("late", "item", *q.levels, *q.gone)))
    y, p = name(value), name("p")
    parts = [keys, f"min({y}) AS {name('low')}", f"max({y}) AS {name('high')}"]
    if q.propensity is not None:
        parts += [f"sum(1 / {p}) AS {name('inverse')}", f"sum(1 / {p} / {p}) AS {name('inverse_square')}"]
        parts += [f"min({p}) AS {name('low_chance')}", f"max({p}) AS {name('high_chance')}"]
    parts += [f"max({name('cut')}) AS {name('cut')}"] if q.time else []
    for place in range(len(q.numeric)):
        parts += [
            f"max({name(f'{what}{place}')}) AS {name(f'{what}{place}')}" for what in ("mean", "least", "most")
        ]
    for place, factors in enumerate(q.factors):
        product = " * ".join(name(value if factor == REWARD else factor) for factor in factors)
        parts.append(f"{f'sum({product})' if factors else 'count(*)'} AS {name(f's{place}')}")
    return f"SELECT {', '.join(parts)} FROM {of('centred', value)} GROUP BY {keys}"


def results_of(question: Question, dialect: Dialect) -> Iterator[str]:
    """What comes back, part by part; the first has a value of each type."""
    q, name = question, dialect.alias

    def select(part: str, table: str, **known: str) -> str:
        values = {PART: part, **known}
        columns = (f"{values.get(column, 'NULL')} AS {name(column)}" for column in q.names)
        return f"SELECT {', '.join(columns)}{table}"

    own, bad, n = {column: name(column) for column in q.names if column != PART}, name("bad"), name("n")
    for value in (REWARD, *(f"m{place}" for place in range(len(q.metrics)))):
        about, y = "" if value == REWARD else METRIC.format(value[1:]), name(value)
        yield select(f"'{about}rows'", f" FROM {of('grouped', value)}", **own)
        if value == REWARD:
            yield select(dialect.literal(q.header), "")
        table = f" FROM {of('checked', value)} WHERE {bad} IS NOT NULL GROUP BY {bad}"
        yield select(bad, table, s0="count(*)")
        yield select(f"'{about}low'", f" FROM {of('lowest', value)}", low=y, s0=n)
        yield select(f"'{about}high'", f" FROM {of('highest', value)}", high=y, s0=n)
