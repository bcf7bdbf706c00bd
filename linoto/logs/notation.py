"""How numbers are written as text: with a point or a comma, with or without marks between thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from linoto.core.cells import TRUTH_WORDS, number_of, text_of

SPACES = " \u00a0\u202f"  # also those that do not break, which spreadsheets write
SIGNS = "$€£¥%"  # beside a number they are no part of it
MONTHS = "jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?"
MONTH = rf"({MONTHS}|nov(ember)?|dec(ember)?)\.?"
DATE = "|".join(
    (
        r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([ T].*)?",  # 2026-01-31, also with a time
        r"\d{1,2}[-/.](\d{1,2}|[a-z]{3,9})[-/.]\d{2,4}( .*)?",  # 31.1.2026, 31-Jan-26
        r"(19|20)\d\d[-/.](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])[-/](19|20)\d\d",  # 2026-01, 01/2026
        rf"(\d{{1,2}}\.? )?{MONTH}[ ,-]*((\d{{1,2}},? )?\d{{4}}|'?\d\d)( .*)?",  # Jan 31, 2026
        rf"\d{{4}}[ -]{MONTH}([ -]\d{{1,2}})?",  # 2026 Jan
        r"\d{4}[ -]?[qw]\d{1,2}|q[1-4][ -/]\d{4}",  # 2026-Q1, 2026W05, Q1 2026
        r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[ap]m)?",  # 10:30
    )
)


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
    texts = [text for text in texts if PLAIN.read(text) is None]
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
    """Whether half of these values or more are dates, months, quarters, weeks or times of the day.

    >>> looks_like_dates(["Jan 2026", "Feb 2026"]), looks_like_dates(["Mayor 12", "jan"])
    (True, False)
    """
    found = [isinstance(value, date | time) or is_date(value) for value in values]
    return 2 * sum(found) >= len(found) > 0


def is_date(value: Any) -> bool:
    """Whether a value is a text that says when."""
    return isinstance(value, str) and re.fullmatch(DATE, value.strip().lower()) is not None


def looks_like_compact_dates(values: Sequence[Any]) -> bool:
    """Whether all of these numbers are days of the calendar such as 20260131, and not all the same day.

    >>> looks_like_compact_dates([20260131, "20251201"]), looks_like_compact_dates([20260131, 20260132])
    (True, False)
    """
    texts = {text_of(value) for value in values}
    return len(texts) > 1 and all(is_compact_date(text) for text in texts)


def is_compact_date(text: str) -> bool:
    """Whether eight digits are a day between 1900 and 2099."""
    if re.fullmatch(r"(19|20)\d{6}", text) is None:
        return False
    try:
        date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        return False
    return True
