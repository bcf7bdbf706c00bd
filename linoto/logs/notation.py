"""How numbers are written as text: with a point or a comma, with or without marks between thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from linoto.core.cells import TRUTH_WORDS, number_of

SPACES = " \u00a0\u202f"  # also those that do not break, which spreadsheets write
SIGNS = "$€£¥%"  # beside a number they are no part of it
DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?|\d{1,2}[-/.]([A-Za-z]{3,9}|\d{1,2})[-/.]\d{2,4}( .*)?"


@dataclass(frozen=True)
class Notation:
    """The decimal mark, and the mark between thousands if there is one.

    >>> Notation(",", ".").read("1.234,50"), Notation(",", ".").read("1.2"), Notation(",").read("1.5")
    (1234.5, None, None)
    """

    decimal: str = "."
    thousands: str | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise ValueError(f"decimal must be '.' or ',', got {self.decimal!r}")
        if self.thousands is not None and self.thousands not in (".", ",", " ", "'", "_"):
            raise ValueError(
                f"thousands must be one of '.', ',', ' ', \"'\" and '_', or None, got {self.thousands!r}"
            )
        if self.thousands == self.decimal:
            raise ValueError(f"thousands must be another mark than decimal, got {self.thousands!r} for both")

    @property
    def plain(self) -> bool:
        """Whether numbers are written as programs write them."""
        return self == PLAIN

    @property
    def mark(self) -> str:
        """The mark between thousands as a class of characters."""
        return f"[{SPACES}]" if self.thousands == " " else f"[{self.thousands}]"

    @property
    def pattern(self) -> str:
        """A number, as a regular expression of Python and of DuckDB."""
        groups = "" if self.thousands is None else rf"[0-9]{{1,3}}(?:{self.mark}[0-9]{{3}})+|"
        point = f"[{self.decimal}]"
        return rf"[+-]?(?:(?:{groups}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"

    def read(self, text: str) -> float | None:
        """The number that a text is in this notation, or None."""
        text = text.strip()
        if re.fullmatch(self.pattern, text) is None:
            return None
        bare = text if self.thousands is None else re.sub(self.mark, "", text)
        return float(bare.replace(self.decimal, "."))

    def read_column(self, values: Sequence[Any], name: str, where: str) -> Sequence[Any]:
        """A column with its texts as numbers; words stay, a number in another notation is refused."""
        if self.plain:
            return values
        found = [self.read(value) if isinstance(value, str) else None for value in values]
        for row, (value, number) in enumerate(zip(values, found, strict=True)):
            other = isinstance(value, str) and value.strip().lower() not in TRUTH_WORDS
            if number is None and other and number_of(value) is not None:
                raise ValueError(
                    f"{where}, row {row + 1}, column {name!r}: must be a number with {self.decimal!r} as its "
                    f"decimal mark, got {value!r}"
                )
        return [value if number is None else number for value, number in zip(values, found, strict=True)]


PLAIN = Notation()
OTHERS = (
    *(Notation(",", thousands) for thousands in (None, ".", " ", "'")),
    *(Notation(".", thousands) for thousands in (",", " ", "'")),
)


def other_notation(values: Iterable[Any]) -> str:
    """How half of these texts or more are numbers in another notation, as advice; nothing if they are not.

    >>> other_notation(["12,50", "3,20", "n/a"])
    "looks like a number with the decimal mark ',' (decimal)"
    """
    texts = [value.strip() for value in values if isinstance(value, str)]
    for notation in OTHERS:
        if texts and 2 * sum(notation.read(text) is not None for text in texts) >= len(texts):
            marks = [f"the decimal mark {notation.decimal!r} (decimal)"] if notation.decimal != "." else []
            if notation.thousands is not None:
                marks.append(f"the mark {notation.thousands!r} between thousands (thousands)")
            return f"looks like a number with {' and '.join(marks)}"
    bare = [text.strip(SIGNS + SPACES) for text in texts]
    read = [any(notation.read(text) is not None for notation in (PLAIN, *OTHERS)) for text in bare]
    return "looks like a number with a sign beside it" if texts and 2 * sum(read) >= len(read) else ""


def looks_like_dates(values: Sequence[Any]) -> bool:
    """Whether half of these values or more are dates."""
    found = [
        isinstance(value, date) or (isinstance(value, str) and re.fullmatch(DATE, value.strip()) is not None)
        for value in values
    ]
    return 2 * sum(found) >= len(found) > 0
