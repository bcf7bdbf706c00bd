"""Single values of a table as text or as numbers, and the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np

WORDS = {"true": 1.0, "false": 0.0}
WHOLE = 1e38  # whole floats up to here are written without a point, the others as Python writes them
WHOLE_TEXT = r"(0|-?[1-9][0-9]*)\.0+"  # not 007.0, which is somebody's code
Table = Mapping[str, Sequence[Any]]
"""Columns of equal length, by name."""


class UnknownColumn(ValueError):  # noqa: N818 - a name that was mistyped, not a fault of the data
    """A table has no column of this name."""


def nearest(word: str, words: Sequence[str]) -> str:
    """What was probably meant, as the end of a sentence."""
    close = get_close_matches(word, words[:10_000], n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""


def check_columns(wanted: Mapping[str, str], names: Sequence[str], where: str) -> None:
    """Refuse a name that no column has."""
    for role, name in wanted.items():
        if name not in names:
            if not isinstance(name, str):
                raise ValueError(f"{role} must be the name of a column as text, got {name!r}")
            hint = nearest(name, names) or f": it has {', '.join(map(repr, names[:20]))}"
            raise UnknownColumn(f"{role} must be a column of {where}, which has none called {name!r}{hint}")


def is_missing(value: Any) -> bool:
    """None, nothing at all, or a NaN of any kind."""
    return value is None or value == "" or bool(value != value)


def number_of(value: Any) -> float | None:
    """A number, also one written as text; true is 1 and false 0; None for anything else."""
    if isinstance(value, Real):
        return float(value)
    text = str(value).strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
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
