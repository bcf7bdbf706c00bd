"""The columns that a recipe makes features of: numbers, categories, and what is known of items.

A kind of column is one class that owns everything about itself: how a value becomes features in a request, in
SQL and in a table, what it learns from a log, what can be wrong with a value, and how it is kept as JSON.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import floor, isfinite, log10, sqrt
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, level_of, number_of
from linoto.core.validation import check_positive, is_number

MISSING, OTHER = "(missing)", "(other)"
NUMBER = "the value must be a finite number, got {value!r}{hint}"


class Cell(Protocol):
    """A value of a log in SQL, in the ways that a column may read it; NULL where it cannot be read so."""

    @property
    def number(self) -> str: ...

    @property
    def level(self) -> str: ...

    @property
    def time(self) -> str: ...


class Fault(NamedTuple):
    """What can be wrong with a value: as it is counted, how SQL tells, and what a message says."""

    kind: str
    test: str
    message: str  # {value} is what was given, {hint} what it looks like


class Spread(NamedTuple):
    """How many numbers there are, their mean, and the sum of squares around it."""

    size: float = 0.0
    mean: float = 0.0
    squares: float = 0.0

    def merged(self, other: Spread) -> Spread:
        """Of both (Chan, Golub and LeVeque 1983)."""
        size = self.size + other.size
        if not size:
            return self
        gap = other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * self.size * other.size / size
        return Spread(size, self.mean + gap * other.size / size, squares)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return sqrt(self.squares / self.size)

    @property
    def constant(self) -> bool:
        """Whether the numbers differ by no more than rounding."""
        return self.deviation <= 1e-12 * abs(self.mean)


Levels = Mapping[str | None, int]  # rows of each level; None: without a value


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A field of a context, and the features that it becomes: one class for each kind of column.

    Its features are numbers, or (`leveled`) at most one of them is 1 and the others are 0.
    """

    name: str

    kind: ClassVar[str]  # in JSON
    leveled: ClassVar[bool] = False
    holds: ClassVar[Literal["number", "text"]] = "number"  # what a table has in it

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """(w,) the names of its features."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """What a value must be, for messages."""

    @abstractmethod
    def vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""

    @abstractmethod
    def read_sql(self, cell: Cell) -> str:
        """A value of a log as it is understood, in SQL."""

    @abstractmethod
    def features_sql(self, value: str) -> tuple[str, ...]:
        """(w,) the features of a value that was read so; where `leveled` the place of the one that is 1."""

    def faults_sql(self, value: str, given: str) -> Iterator[Fault]:
        """What can be wrong with a value, as read and as given; nothing unless a column says so.

        In the order in which it is said; the last of them is false in no row that has one of the others.
        """
        yield from ()

    def features_of(self, values: npt.NDArray[Any]) -> tuple[Ints, Floats]:
        """(n, m) which features of each value may not be 0, and what they are."""
        found: dict[Any, int] = {}
        codes = [found.setdefault(value, len(found)) for value in values.tolist()]
        table = np.array([self.vector(value) for value in found]).reshape(len(found), len(self.labels))
        places = np.tile(np.arange(table.shape[1]), (len(table), 1))
        if self.leveled:
            places = table.argmax(axis=1)[:, None]
            table = np.take_along_axis(table, places, axis=1)
        return places[codes], table[codes]

    def learned(self, found: Spread | Levels, *, min_count: int) -> Self:
        """The same column with what the values of a log say: their spread, or if `leveled` their levels."""
        return self

    # -- for people, and in a table

    def shown(self, label: str, value: Any) -> str:
        """One of its features as people read it."""
        return label if self.leveled else f"{label}={value}"

    def is_new(self, value: Any) -> bool:
        """Whether there is no feature for a value: a new word, or one that is misspelt."""
        return False

    def cell(self, value: Any) -> str | float | None:
        """A field as a log has it."""
        if is_missing(value):
            return None
        return number_of(value) if self.holds == "number" else level_of(value)

    # -- kept

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"kind": self.kind, **asdict(self)}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Any:
        """What `to_dict` wrote."""
        kinds = {cls.kind: cls for cls in Column.__subclasses__()}
        if data["kind"] not in kinds:
            raise ValueError(f"kind of a column must be one of {', '.join(kinds)}, got {data['kind']!r}")
        return kinds[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})


@dataclass(frozen=True, kw_only=True)
class Numeric(Column):
    """A column of numbers: its feature is (value - mean) / scale.

    >>> Numeric(name="age", mean=40.0, scale=10.0).vector(55)
    array([1.5])
    """

    mean: float = 0.0
    scale: float = 1.0

    kind: ClassVar[str] = "numeric"

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

    def read_sql(self, cell: Cell) -> str:
        """A number."""
        return cell.number

    def features_sql(self, value: str) -> tuple[str, ...]:
        """The number, scaled."""
        return (f"({value} - {number_literal(self.mean)}) / {number_literal(self.scale)}",)

    def faults_sql(self, value: str, given: str) -> Iterator[Fault]:
        """A number must be there, and finite."""
        yield Fault(f"missing {self.name}", f"{given} IS NULL", "the value is missing")
        yield Fault(f"{self.name} not understood", f"{value} IS NULL", NUMBER)
        yield Fault(f"{self.name} is not finite", f"NOT isfinite({value})", NUMBER)

    def features_of(self, values: npt.NDArray[Any]) -> tuple[Ints, Floats]:
        """(n, 1) the numbers, scaled."""
        scaled = (values.astype(np.float64) - self.mean) / self.scale
        return np.zeros((len(values), 1), dtype=np.int64), scaled[:, None]

    def learned(self, found: Spread | Levels, *, min_count: int) -> Numeric:
        """With the mean and the scale of a log, in digits that a person can read.

        Any mean and scale will do, if they are those of serving too. Rounded, they do not depend on the order
        of rows.
        """
        assert isinstance(found, Spread)
        if found.constant:
            return replace(self, mean=found.mean)
        scale = float(f"{found.deviation:.3g}")
        mean = float(f"{found.mean:.12g}")  # two steps: else a mean of 39.65 is rounded up or down by chance
        return replace(self, mean=round(mean, 2 - floor(log10(scale))), scale=scale)


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
    holds: ClassVar[Literal["number", "text"]] = "text"

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

    def learned(self, found: Spread | Levels, *, min_count: int) -> Category:
        """With the levels that have rows enough; the others share one."""
        assert not isinstance(found, Spread)
        kept = [level for level, rows in found.items() if level is not None and rows >= min_count]
        rare = any(level is not None and rows < min_count for level, rows in found.items())
        return replace(self, levels=in_order(kept), missing=None in found, other=rare)

    def is_new(self, value: Any) -> bool:
        """Whether a word is none of the levels, or nothing at all where the log had always something."""
        return not self.missing if is_missing(value) else level_of(value) not in self.places


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {"kind": "item", **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ItemColumn:
        """What `to_dict` wrote."""
        return cls(name=data["name"], labels=data["labels"], values=data["values"])


def check_name(name: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of a column must be a text, got {name!r}")


def in_order(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels in the order of their numbers where all are numbers, else as words."""
    words = sorted(levels)
    whole = all(re.fullmatch(r"-?\d{1,18}", word) for word in words)
    return tuple(sorted(words, key=int) if whole else words)


def number_literal(value: float) -> str:
    """A float in SQL: with a point alone it would be a decimal."""
    return f"'{value!r}'::DOUBLE"


def text_literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
