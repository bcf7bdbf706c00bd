"""Tables in Python: the names of their columns, and columns that Arrow can hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from linoto.core.cells import is_missing, text_of
from linoto.core.hints import nearest

Table = Mapping[str, Sequence[Any]]
"""Columns of equal length, by name."""


class UnknownColumn(ValueError):  # noqa: N818 - a mistyped name, not wrong data
    """A table has no column of this name."""


def check_columns(wanted: Mapping[str, str], names: Sequence[str], where: str) -> None:
    """Refuse a name that no column has."""
    for role, name in wanted.items():
        if name not in names:
            if not isinstance(name, str):
                raise ValueError(f"{role} must be the name of a column as text, got {name!r}")
            hint = nearest(name, names) or f": it has {', '.join(map(repr, names[:20])) or 'no column'}"
            raise UnknownColumn(f"{role} must be a column of {where}, which has none called {name!r}{hint}")


class Frame(NamedTuple):
    """A table in memory, or a stream of rows that can be read once."""

    names: list[str]
    arrow: Any  # what DuckDB reads: a pyarrow table or a reader of record batches


def as_arrow(source: Any, wanted: Collection[str] | None) -> Frame:
    """Anything that looks like a table, or streams Arrow; `wanted`: the columns that matter, None: all."""
    try:
        import pyarrow as arrow
    except ImportError:
        raise ImportError('reading tables needs pyarrow: pip install "linoto[logs]"') from None
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return from_pandas(source, wanted)
    if hasattr(source, "scanner"):  # a dataset: files that Arrow reads
        return Frame(list(source.schema.names), source.scanner().to_reader())
    if not hasattr(source, "__arrow_c_stream__") or hasattr(source, "iloc"):
        raise ValueError(
            "source must be a path, a URL, a list of them, a query, a pandas, polars or Arrow table, or any "
            f"stream of Arrow, got {type(source).__name__}"
        )
    reader = arrow.RecordBatchReader.from_stream(source)
    return Frame(list(reader.schema.names), reader)


def from_pandas(source: Any, wanted: Collection[str] | None) -> Frame:
    """A table of pandas, its columns of mixed types as text."""
    import pyarrow as arrow

    names, columns = [str(name) for name in source.columns], {}
    for position, name in enumerate(names):  # by position: the name may be a number, or several in one
        if wanted is not None and name not in wanted:
            continue
        values = source.iloc[:, position]
        if getattr(values.dtype, "kind", "") == "c":
            raise ValueError(f"column {name!r} must have real numbers, got complex ones")
        try:
            columns[name] = arrow.array(values, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            columns[name] = arrow.array([None if is_missing(v) else text_of(v) for v in values])
    return Frame(names, arrow.table(columns))


class Transcript(NamedTuple):
    """A file of another package as columns."""

    name: str
    columns: Table
    rejected: int  # decisions that cannot be used
    first_rejected: tuple[int, str] | None  # line from 0, and what is wrong with it
