"""Some rows of a log: comparisons of columns with fixed values, joined by "and"; and what is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from linoto.core.cells import TRUTH_WORDS, text_of
from linoto.core.hints import counted
from linoto.logs.notation import PLAIN, Notation
from linoto.logs.queries import Columns, Comparison, copy_some_rows, count_of_value, first_incomparable
from linoto.logs.tables import (
    OPTIONAL,
    Connection,
    StagedFile,
    inspect_parquet,
    open_source,
    source_name,
)
from linoto.logs.value_sql import is_date, is_text

OPERATORS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
COMPARISON = re.compile(
    r"""\s*(?P<column>"(?:[^"]|"")+"|[^\W\d][\w.]*)
    \s*(?P<operator><=|>=|<>|!=|==|=|<|>)
    \s*(?P<value>'(?:[^']|'')*'|[^\s'"<>=!]+)
    \s*(?P<next>\band\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
GRAMMAR = "comparisons such as month >= 6 or \"my country\" = 'NO', joined by 'and'"


KINDS = {float: "a number", str: "a text", datetime: "a date"}


def check_type(comparison: Comparison, file: StagedFile) -> None:
    """Refuse a comparison that the type of the column cannot have."""
    kind, value = file.types[comparison.column], comparison.value
    if is_text(kind) or isinstance(value, str):
        return
    if is_date(kind) != isinstance(value, datetime):
        must = "a date such as 2026-05-31" if is_date(kind) else "a number"
        raise ValueError(
            f"where must compare {comparison.column!r} of {file.name} with {must}, got {KINDS[type(value)]}"
        )


def parse_where(text: str | None) -> tuple[Comparison, ...]:
    """The comparisons that a text asks for.

    >>> [(c.column, c.operator, c.value) for c in parse_where("month >= 6 and country = 'NO'")]
    [('month', '>=', 6.0), ('country', '=', 'NO')]
    """
    if text is None:
        return ()
    if not isinstance(text, str):
        raise ValueError(f"where must be {GRAMMAR}, got {type(text).__name__}")
    found, place, more = [], 0, True
    while more:
        match = COMPARISON.match(text, place)
        if match is None:
            raise ValueError(f"where must be {GRAMMAR}, got {text!r}")
        found.append(read_comparison(match))
        place, more = match.end(), bool(match["next"])
    return tuple(found)


def read_comparison(match: re.Match[str]) -> Comparison:
    """One comparison, as it was written."""
    column, operator, written = match["column"], OPERATORS[match["operator"]], match["value"]
    if column.startswith('"'):
        column = column[1:-1].replace('""', '"')
    value = read_value(written)
    if isinstance(value, str) and operator not in ("=", "<>"):
        raise ValueError(f"where must compare a text by = or !=, got {match['operator']} {written}")
    return Comparison(column, operator, value)


def read_value(written: str) -> float | str | datetime:
    """A number, true or false, a date, or a text in quotes."""
    bare = written[1:-1].replace("''", "'") if written.startswith("'") else written
    try:
        when = datetime.fromisoformat(bare) if re.match(r"\d{4}-\d\d-\d\d", bare) else None
    except ValueError:
        raise ValueError(f"where must have dates such as 2026-05-31, got {written}") from None
    if when is not None:
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    if written.startswith("'"):
        return text_of(bare)
    number = TRUTH_WORDS.get(bare.lower(), PLAIN.read(bare))
    if number is None:
        raise ValueError(f"where must have a number, a date or a text in single quotes, got {written}")
    return number


# -- the rows ---------------------------------------------------------------------------------------------


@contextmanager
def open_rows(
    source: Any, columns: Columns, where: str | None
) -> Iterator[tuple[Connection, list[StagedFile], tuple[str, ...]]]:
    """A database, the files of a source with the rows that are asked for, and what there is to note."""
    asked = parse_where(where)
    wanted = columns.given() | {f"{one.column!r} in where": one.column for one in asked}
    with (
        open_source(source, with_origin(wanted, columns)) as (connection, files),
        TemporaryDirectory() as folder,
    ):
        if not asked:
            yield connection, files, (*file_notes(files), *lost_notes(connection, files, columns))
            return
        kept = [
            keep_rows(connection, file, columns, asked, Path(folder) / f"{number}.parquet")
            for number, file in enumerate(files)
        ]
        left, all_rows = (sum(file.rows for file in some) for some in (kept, files))
        if not left:
            raise ValueError(f"where must leave a row of {source_name(source)}, got none by {where}")
        note = f"where {where} kept {left:,} of {all_rows:,} rows"
        yield connection, kept, (*file_notes(files), note, *lost_notes(connection, kept, columns))


def file_notes(files: Sequence[StagedFile]) -> Iterator[str]:
    """What was noticed of how they are written."""
    return (note for file in files for note in file.notes)


def keep_rows(
    connection: Connection, file: StagedFile, columns: Columns, asked: Sequence[Comparison], copy: Path
) -> StagedFile:
    """The rows of a file that are asked for, as a file that knows which rows they were."""
    for comparison in asked:
        check_type(comparison, file)
        refuse_incomparable(connection, file, comparison, columns.notation)
    needed = list(dict.fromkeys(columns.given().values()))
    if (origin := origin_in(file, columns)) is not None:
        needed.append(origin)
    copy_some_rows(connection, file, needed, asked, columns.notation, copy)
    kept = inspect_parquet(connection, copy, file.name, file.kind, columns.given())
    return kept._replace(rejected=file.rejected, first_rejected=file.first_rejected, counted=file.counted)


def refuse_incomparable(
    connection: Connection, file: StagedFile, comparison: Comparison, notation: Notation
) -> None:
    """Name the first row whose value is not of the kind that it is compared with; missing values are."""
    if isinstance(comparison.value, str):
        return
    for row, given in first_incomparable(connection, file, comparison, notation):
        raise ValueError(
            f"{file.name}, row {row + 1}, column {comparison.column!r}: must be "
            f"{KINDS[type(comparison.value)]} to be compared in where, got {given!r}"
        )


# -- rewards that never came ------------------------------------------------------------------------------


def origin_in(file: StagedFile, columns: Columns) -> str | None:
    """The column in which an export of the service says where a reward is from, if a file has it."""
    name = origin_name(columns.given())
    return name if name is not None and is_text(file.types.get(name, "")) else None


def origin_name(wanted: Mapping[str, str]) -> str | None:
    """What an export calls that column beside these, unless one of them has its name."""
    read = {str(name).lower() for name in wanted.values()}  # what is no text is refused later
    name = "decision_origin" if "origin" in read else "origin"
    return None if name in read else name


def with_origin(wanted: dict[str, str], columns: Columns) -> dict[str, str]:
    """The columns that are read, and that one, which a copy of a file would lack otherwise."""
    name, read = origin_name(columns.given()), {str(name).lower() for name in wanted.values()}
    return wanted if name is None or name in read else wanted | {f"{OPTIONAL}origin": name}


def lost_notes(connection: Connection, files: Sequence[StagedFile], columns: Columns) -> tuple[str, ...]:
    """That some rewards never came, and only the default stands in their place."""
    named = [(file, origin) for file in files if (origin := origin_in(file, columns)) is not None]
    lost = sum(count_of_value(connection, file, origin, "default") for file, origin in named)
    if not lost:
        return ()
    told = f"the reward of {counted(lost, 'row')} never came, and counts as the default"
    return (f"{told}: if it was lost, leave them out by --where \"{named[0][1]} = 'reported'\"",)
