"""Single values of a table, as text or as numbers: the same for a log, an arm table and a request."""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf
from numbers import Real
from typing import Any

import numpy as np

TRUTH_WORDS = {"true": 1.0, "false": 0.0}
WHOLE = 1e38  # whole floats up to here are written without a point, the others as Python writes them
JSON_NUMBER = r"(?:-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|-?Infinity)"
VECTOR_TEXT = rf"[ \t]*\[[ \t]*{JSON_NUMBER}(?:[ \t]*,[ \t]*{JSON_NUMBER})*[ \t]*\][ \t]*"
CONTROLS = re.compile(  # line ends, turns of a text, spaces of no width; not joiners of scripts and emoji
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
WHOLE_NUMBER = r"0|-?[1-9][0-9]*"
WHOLE_TEXT = rf"({WHOLE_NUMBER})\.0+"  # not 007.0, which is somebody's code


def is_missing(value: Any) -> bool:
    """None, nothing at all, a NaN of any kind, or the NA of pandas.

    >>> is_missing(""), is_missing(float("nan")), is_missing(0)
    (True, True, False)
    """
    if value is None or isinstance(value, str):
        return not value
    differs = value != value
    if isinstance(differs, bool | np.bool_):
        return bool(differs)
    return type(value).__name__ == "NAType"  # which says of nothing whether it differs; a table of each entry


def has_controls(text: str) -> bool:
    """Whether a text has characters that move a terminal, or the text around them, instead of being shown.

    >>> has_controls("two\\nlines"), has_controls("café 👩‍💻")
    (True, False)
    """
    return CONTROLS.search(text) is not None


def in_one_spacing(text: str) -> str:
    """The same for all texts that differ in spaces only.

    >>> in_one_spacing(" red  shoe ")
    'red shoe'
    """
    return " ".join(text.split())


def number_of(value: Any) -> float | None:
    """A number, also one written as text; true is 1 and false 0; None for anything else."""
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:  # more than 308 digits, which as a text are infinite too
            return inf if value > 0 else -inf
    if isinstance(value, Real):
        return float(value)
    text = str(value).strip()
    if text.lower() in TRUTH_WORDS:
        return TRUTH_WORDS[text.lower()]
    try:
        return float(text) if text.isascii() else None  # as SQL has it: no digits of other scripts
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
    if "." not in text:
        return text
    whole = re.fullmatch(WHOLE_TEXT, text)
    return whole[1] if whole else text


def level_of(value: Any) -> str:
    """A level of a category as text: as `text_of`, and "True" as pandas writes it is true."""
    text = text_of(value)
    return text.lower() if text.lower() in TRUTH_WORDS else text
