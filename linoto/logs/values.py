"""Tables in Python: the names of their columns, and columns that Arrow can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
            hint = nearest(name, names) or f": it has {', '.join(map(repr, names[:20]))}"
            raise UnknownColumn(f"{role} must be a column of {where}, which has none called {name!r}{hint}")


def column_names(source: Any) -> list[str]:
    """The columns of anything that looks like a table."""
    names = getattr(source, "column_names", None)
    names = getattr(source, "columns", None) if names is None else names
    if names is None or not hasattr(source, "__arrow_c_stream__"):
        raise ValueError(
            f"source must be a path, a list of paths, or a pandas, polars or Arrow table, "
            f"got {type(source).__name__}"
        )
    return [str(name) for name in names]


def as_arrow(source: Any, names: Sequence[str]) -> Any:
    """A pyarrow table of these columns; those of mixed types as text."""
    try:
        import pyarrow as arrow
    except ImportError:
        raise ImportError('reading tables needs pyarrow: pip install "linoto[logs]"') from None
    if not hasattr(source, "iloc"):
        return arrow.table(source.select(list(names)))
    place = {str(name): position for position, name in enumerate(source.columns)}
    columns = {}
    for name in names:
        values = source.iloc[:, place[name]]  # by position: the name may be a number, or several in one
        try:
            columns[name] = arrow.array(values, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            columns[name] = arrow.array([None if is_missing(v) else text_of(v) for v in values])
    return arrow.table(columns)


class Transcript(NamedTuple):
    """A file of another package as columns."""

    name: str
    columns: Table
    rejected: int  # decisions that cannot be used
    first_rejected: tuple[int, str] | None  # line from 0, and what is wrong with it
