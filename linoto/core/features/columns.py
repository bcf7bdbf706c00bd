"""The columns that a recipe makes features of: numbers, categories, and what is known of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.cells import is_missing, level_of, number_of
from linoto.core.validation import check_positive, is_number

MISSING, OTHER = "(missing)", "(other)"


@dataclass(frozen=True, kw_only=True)
class Numeric:
    """A column of numbers: its feature is (value - mean) / scale.

    >>> Numeric(name="age", mean=40.0, scale=10.0).vector(55)
    array([1.5])
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_name(self.name)
        if not is_number(self.mean) or not isfinite(self.mean):
            raise ValueError(f"mean of {self.name!r} must be a finite number, got {self.mean!r}")
        check_positive(f"scale of {self.name!r}", self.scale)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of its one feature."""
        return (self.name,)

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return "a finite number"

    def vector(self, value: Any) -> Floats:
        """(1,) the feature of a value."""
        number = None if is_missing(value) else number_of(value)
        if number is None or not isfinite(number):
            raise ValueError(f"{self.name!r} must be {self.expected}, got {value!r}")
        return np.array([(number - self.mean) / self.scale])


@dataclass(frozen=True, kw_only=True)
class Category:
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

    name: str
    levels: tuple[str, ...]
    missing: bool = False  # whether rows without a value have a level
    other: bool = False  # whether rare levels have one together

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "levels", tuple(self.levels))
        if not self.labels:
            raise ValueError(f"levels of {self.name!r} must be at least one, got none")
        if len(set(self.labels)) != len(self.labels):
            raise ValueError(f"levels of {self.name!r} must differ from each other, got {self.levels}")

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
            raise ValueError(f"{self.name!r} must be {self.expected}, got a {type(value).__name__}")
        return self.places.get(level_of(value), self.other_code)

    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        vector, code = np.zeros(len(self.all_levels)), self.code(value)
        if code >= 0:
            vector[code] = 1.0
        return vector


@dataclass(frozen=True, kw_only=True)
class ItemColumn:
    """What is known of every item: the features of one column, one row for each item."""

    name: str
    labels: tuple[str, ...]  # (w,)
    values: tuple[tuple[float, ...], ...]  # (k, w)

    def __post_init__(self) -> None:
        check_name(self.name)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "values", tuple(tuple(map(float, row)) for row in self.values))
        if not self.labels or any(len(row) != len(self.labels) for row in self.values):
            raise ValueError(f"values of {self.name!r} must have one number for each label in every row")
        if not np.isfinite(self.values).all():
            raise ValueError(f"values of {self.name!r} must be finite, got one that is not")


Column = Numeric | Category
KINDS: dict[str, type] = {"numeric": Numeric, "category": Category, "item": ItemColumn}


def check_name(name: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of a column must be a text, got {name!r}")


def column_to_dict(column: Column | ItemColumn) -> dict[str, Any]:
    """Plain JSON data."""
    kind = next(word for word, cls in KINDS.items() if isinstance(column, cls))
    return {"kind": kind, **asdict(column)}


def column_from_dict(data: Mapping[str, Any]) -> Any:
    """What `column_to_dict` wrote."""
    fields = {name: value for name, value in data.items() if name != "kind"}
    return KINDS[data["kind"]](**fields)
