"""What every kind of column is: a field of a context, and the features that it becomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, level_of, number_of


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
            known = ", ".join(sorted(kinds))
            raise ValueError(f"kind of a column must be one of {known}, got {data['kind']!r}")
        return kinds[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})


def check_name(name: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of a column must be a text, got {name!r}")


def number_literal(value: float) -> str:
    """A float in SQL: with a point alone it would be a decimal."""
    return f"'{value!r}'::DOUBLE"


def text_literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
