"""What every kind of column is: fields of a context, and the features that they become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, level_of, number_of
from linoto.core.features.columns.spread import Spread


class Cell(Protocol):
    """A value of a log in SQL, in the ways that a column may read it; NULL where it cannot be read so."""

    @property
    def number(self) -> str: ...

    @property
    def level(self) -> str: ...

    @property
    def time(self) -> str: ...

    @property
    def vector(self) -> str: ...


class Fault(NamedTuple):
    """What can be wrong with a value: as it is counted, how SQL tells, and what a message says."""

    kind: str
    test: str
    message: str  # {value} is what was given, {hint} what it looks like


MISSING = "(missing)"  # the level of no value at all
Held = Literal["number", "text", "time", "vector"]
Learns = Literal["levels", "spread", "quantiles"]
Levels = Mapping[str | None, int]  # rows of each level; None: without a value
Found = Levels | tuple[Spread, ...]  # what the values of a log are like


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """Fields of a context, mostly one, and the features that they become: one class for each kind of column.

    Its features are numbers, or (`leveled`) at most one of them is 1 and the others are 0.
    """

    name: str
    fields: tuple[str, ...] = ()  # of the context that it reads; (): the one that is called like it

    kind: ClassVar[str]  # in JSON
    leveled: ClassVar[bool] = False
    several: ClassVar[bool] = False  # whether it may have more than one field: a value is then one of each
    learns: ClassVar[Learns] = "spread"  # what it must know of a log

    def __post_init__(self) -> None:
        check_name(self.name)
        fields = as_fields(self.name, self.fields)
        if len(fields) > 1 and not self.several:
            raise ValueError(f"fields of {self.name!r} must be one for a {self.kind} column, got {fields}")
        object.__setattr__(self, "fields", () if fields == (self.name,) else fields)

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of the context that it is made of."""
        return self.fields or (self.name,)

    @property
    def holds(self) -> Held:
        """What its fields are, in a table: columns that share a field must agree."""
        return "number"

    @property
    def draft(self) -> bool:
        """Whether a log must say something of its values before it has features."""
        return False

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

    def faults_sql(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """What can be wrong with the value of a field, as read and as given; nothing unless a column says so.

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

    def taken(self, context: Mapping[str, Any]) -> Any:
        """Its value in a context; of columns with `several` fields, the values of all."""
        values = [context[field] for field in self.reads]
        return values if self.several else values[0]

    # -- what a log says

    def learns_sql(self, value: str) -> tuple[str, ...]:
        """The numbers whose spread it must know, of a value that was read; NULL where there is none."""
        return (value,)

    def learned(self, found: Found, *, min_count: int) -> Self:
        """The same column with what the values of a log say: spreads of numbers, or rows of each level."""
        return self

    def possible(self, rows: int, rng: np.random.Generator) -> Floats:
        """(n, w) features that span all that its features can be, where they are not levels."""
        return rng.normal(size=(rows, len(self.labels)))

    # -- for people, and in a table

    def shown(self, label: str, value: Any) -> str:
        """One of its features, or all of them together, as people read it."""
        return label if self.leveled else f"{label}={value}"

    def part(self, label: str) -> str:
        """What an explanation calls a feature: that of a level has its own name, numbers share one."""
        return label if self.leveled else self.name

    def is_new(self, value: Any) -> bool:
        """Whether there is no feature for a value: a new word, or one that is misspelt."""
        return False

    def lacks(self, value: Any) -> bool:
        """Whether a value is none at all, which has a feature among those of numbers."""
        return False

    def is_beyond(self, value: Any) -> bool:
        """Whether a value lies outside all that the log had, and is taken for one that lies inside."""
        return False

    def cell(self, value: Any) -> Any:
        """The value of a field as a log has it."""
        if is_missing(value):
            return None
        return number_of(value) if self.holds == "number" else level_of(value)

    # -- kept

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        found = {"kind": self.kind, **asdict(self)}
        return found if self.fields else {name: value for name, value in found.items() if name != "fields"}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Any:
        """What `to_dict` wrote."""
        kinds = Column.kinds()
        if data["kind"] not in kinds:
            known = ", ".join(sorted(kinds))
            raise ValueError(f"kind of a column must be one of {known}, got {data['kind']!r}")
        return kinds[data["kind"]](**{name: value for name, value in data.items() if name != "kind"})

    @staticmethod
    def kinds() -> dict[str, type[Column]]:
        """Every kind of column there is, by its name in JSON."""
        found, seen = dict[str, type[Column]](), [*Column.__subclasses__()]
        for cls in seen:
            seen += cls.__subclasses__()
            if "kind" in vars(cls):
                found[cls.kind] = cls
        return found


def check_name(name: Any) -> None:
    """Refuse anything but a text."""
    if not isinstance(name, str) or not name:
        raise ValueError(f"name of a column must be a text, got {name!r}")


def as_fields(name: str, fields: Any) -> tuple[str, ...]:
    """The fields of a column of this name, each once."""
    found = (fields,) if isinstance(fields, str) else tuple(fields)
    if not all(isinstance(field, str) and field for field in found) or len({*found}) < len(found):
        raise ValueError(f"fields of {name!r} must be different names of fields, got {fields!r}")
    return found


def number_literal(value: float) -> str:
    """A float in SQL: with a point alone it would be a decimal."""
    return f"'{value!r}'::DOUBLE"


def text_literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"
