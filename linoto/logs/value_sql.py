"""Single values in SQL, by the type of their column: as numbers, as times, as ids."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from linoto.core.cells import VECTOR_TEXT, WHOLE, WHOLE_TEXT
from linoto.logs.notation import PLAIN, Notation
from linoto.logs.sql_words import literal

Comparable = float | str | datetime


class Value(NamedTuple):
    """A value of a column of this type, in the ways that it may be read."""

    kind: str
    sql: str
    notation: Notation = PLAIN

    @property
    def number(self) -> str:
        """As a float."""
        return number_sql(self.kind, self.sql, self.notation)

    @property
    def time(self) -> str:
        """As seconds, or as the number that it is."""
        return time_sql(self.kind, self.sql)

    @property
    def vector(self) -> str:
        """As a list of floats, also one that is written as JSON."""
        if is_text(self.kind):
            text = text_sql(self.sql)
            written = f"regexp_full_match({text}, {literal(VECTOR_TEXT)})"
            return f"CASE WHEN {written} THEN TRY_CAST({text} AS DOUBLE[]) END"
        return f"TRY_CAST({self.sql if self.kind.endswith(']') else 'NULL'} AS DOUBLE[])"

    @property
    def id(self) -> str:
        """As the id of an arm is written."""
        return id_sql(self.kind, self.sql)

    @property
    def level(self) -> str:
        """As a level is written."""
        return level_sql(self.kind, self.sql)


def number_sql(kind: str, value: str, notation: Notation = PLAIN) -> str:
    """A value of this type as a float; text that is not a number, true or false becomes NULL."""
    if kind == "DOUBLE":
        return value  # unchanged, so that DuckDB can answer from the file's own statistics
    if is_text(kind):
        truth = f"CASE lower(trim({value})) WHEN 'true' THEN 1.0 WHEN 'false' THEN 0.0 END"  # not yes or t
        number = f"TRY_CAST({value} AS DOUBLE)" if notation.plain else notated_sql(value, notation)
        return f"coalesce({number}, {truth})"
    return f"TRY_CAST({value} AS DOUBLE)"


def notated_sql(value: str, notation: Notation) -> str:
    """A text in a notation of its own as a float, as `Notation.read` reads it."""
    bare = f"trim({value})"
    if notation.thousands is not None:
        bare = f"regexp_replace({bare}, {literal(notation.mark)}, '', 'g')"
    number = f"TRY_CAST(replace({bare}, {literal(notation.decimal)}, '.') AS DOUBLE)"
    return f"CASE WHEN regexp_full_match(trim({value}), {literal(notation.pattern)}) THEN {number} END"


def compared_sql(kind: str, value: str, constant: Comparable, notation: Notation) -> str:
    """A value of this type as what it is compared with: NULL where it cannot be, or is missing."""
    if isinstance(constant, str):
        return id_sql(kind, value)
    if isinstance(constant, datetime):
        return f"epoch(TRY_CAST({value} AS TIMESTAMPTZ))"
    return f"nullif({number_sql(kind, value, notation)}, 'NaN'::DOUBLE)"  # NaN would be the largest number


def constant_sql(constant: Comparable) -> str:
    """What values are compared with: dates in seconds."""
    if isinstance(constant, str):
        return literal(constant)
    return repr(constant.timestamp() if isinstance(constant, datetime) else float(constant))


def text_sql(value: str) -> str:
    """A value as text."""
    return f"CAST({value} AS VARCHAR)"


def time_sql(kind: str, value: str) -> str:
    """A value of this type as seconds, or as the number that it is."""
    if is_date(kind):
        return f"epoch(CAST({value} AS TIMESTAMPTZ))"
    if is_text(kind):
        return f"coalesce(TRY_CAST({value} AS DOUBLE), epoch(TRY_CAST({value} AS TIMESTAMPTZ)))"
    return f"TRY_CAST({value} AS DOUBLE)"


def id_sql(kind: str, value: str) -> str:
    """An id as `values.text_of` writes it: 7.0 is 7. NULL where it is NaN."""
    text = f"CAST({value} AS VARCHAR)"
    if kind in ("DOUBLE", "FLOAT"):
        whole = f"CAST(TRY_CAST({value} AS HUGEINT) AS VARCHAR)"
        return f"""CASE WHEN {value} = floor({value}) AND abs({value}) < {WHOLE!r} THEN {whole}
            WHEN isfinite({value}) OR isinf({value}) THEN {text} END"""
    if kind.startswith("DECIMAL"):
        return f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
    if is_text(kind):
        return f"regexp_replace({text}, {literal(f'^{WHOLE_TEXT}$')}, '\\1')"
    return text


def list_sql(kind: str, value: str) -> str:
    """A list as JSON; a text as it is, which may be a list in JSON or words between bars."""
    return f"CAST(to_json({value}) AS VARCHAR)" if kind.endswith("[]") else text_sql(value)


def level_sql(kind: str, value: str) -> str:
    """A level as `cells.level_of` writes it."""
    text = id_sql(kind, value)
    if not is_text(kind):
        return text
    return f"CASE WHEN lower({text}) IN ('true', 'false') THEN lower({text}) ELSE {text} END"


def is_date(kind: str) -> bool:
    """Whether a DuckDB type is a date, or one with a time."""
    return kind.startswith(("TIMESTAMP", "DATE"))


def is_text(kind: str) -> bool:
    """Whether a DuckDB type is written in words."""
    return kind == "VARCHAR" or kind.startswith("ENUM") or kind == "JSON"
