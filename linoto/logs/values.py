"""Tables in Python: the names of their columns, and single values as text or as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from linoto.core.hints import nearest

TRUTH_WORDS = {"true": 1.0, "false": 0.0}
WHOLE = 1e38  # whole floats up to here are written without a point, the others as Python writes them
WHOLE_TEXT = r"(0|-?[1-9][0-9]*)\.0+"  # not 007.0, which is somebody's code
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


def is_missing(value: Any) -> bool:
    """None, nothing at all, or a NaN of any kind."""
    return value is None or value == "" or bool(value != value)


def number_of(value: Any) -> float | None:
    """A number, also one written as text; true is 1 and false 0; None for anything else."""
    if isinstance(value, Real):
        return float(value)
    text = str(value).strip()
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    try:
        return float(text)
    except ValueError:
        return None


def text_of(value: Any) -> str:
    """An id or a level as text: 7, 7.0, "7" and "7.0" are one, and so are True and "true".

    >>> text_of(7.0), text_of("7.00"), text_of(Decimal("7.50")), text_of("007.0")
    ('7', '7', '7.5', '007.0')
    """
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, float | np.floating) and abs(float(value)) < WHOLE and float(value).is_integer():
        return str(int(value))
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    text = str(value)
    whole = re.fullmatch(WHOLE_TEXT, text)
    return whole[1] if whole else text
