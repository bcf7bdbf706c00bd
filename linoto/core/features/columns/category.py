"""A column of words: one feature for each level."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import is_missing, level_of
from linoto.core.features.columns.column import MISSING, Cell, Column, Found, Held, Learns, text_literal

OTHER = "(other)"


@dataclass(frozen=True, kw_only=True)
class Category(Column):
    """A column of words: one feature for each level.

    Rows of the log without a value, and levels too rare for a feature of their own, have a level each where
    there were any. A level that the log did not have is taken for a rare one. Where the log had no rare
    ones, all features are 0: nothing is known of it, and it earns what the other features say.

    >>> country = Category(name="country", levels=("DE", "NO"), missing=True)
    >>> country.labels
    ('country=DE', 'country=NO', 'country=(missing)')
    >>> country.vector("NO").tolist(), country.vector(None).tolist(), country.vector("XX").tolist()
    ([0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0])
    """

    levels: tuple[str, ...]
    missing: bool = False  # whether rows without a value have a level
    other: bool = False  # whether rare levels have one together

    kind: ClassVar[str] = "category"
    leveled: ClassVar[bool] = True
    learns: ClassVar[Learns] = "levels"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "levels", tuple(self.levels))
        if not self.labels:
            raise ValueError(f"levels of {self.name!r} must be at least one, got none")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"levels of {self.name!r} must differ from each other, got {self.levels}")

    @property
    def holds(self) -> Held:
        """What its field is."""
        return "text"

    @property
    def all_levels(self) -> tuple[str, ...]:
        """The levels in the order of their features."""
        return (*self.levels, *((MISSING,) if self.missing else ()), *((OTHER,) if self.other else ()))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(f"{self.name}={level}" for level in self.all_levels)

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        shown = ", ".join(map(repr, self.levels[:5])) + (", ..." if len(self.levels) > 5 else "")
        return f"a word such as {shown}" if shown else "a word"

    @cached_property
    def places(self) -> dict[str, int]:
        """Which feature a level has."""
        return {level: place for place, level in enumerate(self.levels)}

    @property
    def missing_code(self) -> int:
        """The feature of a row without a value, -1 if it has none."""
        return len(self.levels) if self.missing else self.other_code

    @property
    def other_code(self) -> int:
        """The feature of a level that is rare or new, -1 if it has none."""
        return len(self.all_levels) - 1 if self.other else -1

    def code(self, value: Any) -> int:
        """Which feature a value has; -1: none."""
        if is_missing(value):
            return self.missing_code
        if isinstance(value, dict | list | tuple | set):
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got a {type(value).__name__}")
        return self.places.get(level_of(value), self.other_code)

    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        vector, code = np.zeros(len(self.all_levels)), self.code(value)
        if code >= 0:
            vector[code] = 1.0
        return vector

    def read_sql(self, cell: Cell) -> str:
        """A word; an empty one is none."""
        return f"nullif({cell.level}, '')"

    def features_sql(self, value: str) -> tuple[str, ...]:
        """The place of a level, as `code` has it."""
        code = "NULL"
        if self.levels:
            words = ", ".join(map(text_literal, self.levels))
            code = f"enum_code(TRY_CAST({value} AS ENUM ({words})))"
        return (
            f"""CASE WHEN {value} IS NULL THEN {self.missing_code}
            ELSE coalesce(CAST({code} AS INTEGER), {self.other_code}) END""",
        )

    def learned(self, found: Found, *, min_count: int) -> Category:
        """With the levels that have rows enough; the others share one."""
        assert not isinstance(found, tuple)
        kept = [level for level, rows in found.items() if level is not None and rows >= min_count]
        rare = any(level is not None and rows < min_count for level, rows in found.items())
        return replace(self, levels=in_order(kept), missing=None in found, other=rare)

    def is_new(self, value: Any) -> bool:
        """Whether a word is none of the levels, or nothing at all where the log had always something."""
        return not self.missing if is_missing(value) else level_of(value) not in self.places


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels in the order of their numbers where all are numbers, else as words."""
    words = sorted(levels)
    whole = all(re.fullmatch(r"-?\d{1,18}", word) for word in words)
    return tuple(sorted(words, key=int) if whole else words)
