"""A vector that a model made."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import VECTOR_TEXT
from linoto.core.features.columns.column import Cell, Fault, Found, Held, number_literal
from linoto.core.features.columns.optional import IN_REQUEST, OptionalColumn, is_absent
from linoto.core.validation import check_count, check_positive


@dataclass(frozen=True, kw_only=True)
class Embedding(OptionalColumn):
    """A vector of stated `size`, such as a model makes of a text or a picture: its features are its entries.

    They are divided by the average length of the log's vectors. A list of numbers, also one that is written
    as JSON.

    >>> Embedding(name="title", size=2, scale=5.0).vector([3, 4]).tolist()
    [0.6, 0.8]
    """

    size: int
    scale: float | None = None  # the average length in the log

    kind: ClassVar[str] = "embedding"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(f"size of {self.name!r}", self.size)
        if self.scale is not None:
            check_positive(f"scale of {self.name!r}", self.scale)

    @property
    def holds(self) -> Held:
        """What its field is."""
        return "vector"

    @property
    def draft(self) -> bool:
        """Whether its scale is to be that of a log."""
        return self.scale is None

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(f"{self.name}[{place}]" for place in range(self.size))

    @property
    def filled_expected(self) -> str:
        """What a value must be, for messages."""
        return f"a list of {self.size} finite numbers"

    def entries(self, value: Any) -> Floats:
        """(size,) a value as an array."""
        try:
            written = isinstance(value, str) and re.fullmatch(VECTOR_TEXT, value)
            given = json.loads(value) if written else value
            found = np.array([] if given is None else given, dtype=np.float64)
        except (ValueError, TypeError, OverflowError, RecursionError):
            found = np.zeros(0)
        if found.shape != (self.size,) or not np.isfinite(found).all():
            got = f"{len(found)} numbers" if found.ndim == 1 and len(found) else type(value).__name__
            shown = got if np.isfinite(found).all() else "one that is not finite"
            hint = f": {IN_REQUEST}" if is_absent(value) else ""
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got {shown}{hint}")
        return found

    def filled_vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        return self.entries(value) / (self.scale or 1.0)

    def features_of(self, values: npt.NDArray[Any]) -> tuple[Ints, Floats]:
        """(n, w) all features of vectors."""
        width = len(self.labels)
        found = np.array([self.vector(value) for value in values]).reshape(len(values), width)
        return np.tile(np.arange(width), (len(found), 1)), found

    def read_sql(self, cell: Cell) -> str:
        """A list of numbers."""
        return cell.vector

    def is_filled_sql(self, value: str) -> str:
        """A list is; what is none, or has other entries, is a fault."""
        return f"{value} IS NOT NULL"

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """As many numbers as stated, all of them finite."""
        message = f"the value must be {self.expected}, got {{value!r}}"
        yield Fault(f"missing {field}", f"{given} IS NULL", "the value is missing")
        yield Fault(f"{field} not understood", f"{value} IS NULL OR len({value}) <> {self.size}", message)
        finite = f"list_count({value}) = {self.size} AND isfinite(list_sum({value}))"
        yield Fault(f"{field} is not finite", f"NOT ({finite})", message)

    def entries_sql(self, value: str) -> tuple[str, ...]:
        """(w,) single numbers."""
        return tuple(f"{value}[{place + 1}]" for place in range(self.size))

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The entries, scaled."""
        scale = number_literal(self.scale or 1.0)
        return tuple(f"{entry} / {scale}" for entry in self.entries_sql(value))

    def filled_learns(self, value: str) -> tuple[str, ...]:
        """The length; DuckDB has no product of lists of which some rows have none."""
        if self.missing:
            return (f"sqrt({' + '.join(f'{entry} * {entry}' for entry in self.entries_sql(value))})",)
        return (f"sqrt(list_dot_product({value}, {value}))",)

    def learned(self, found: Found, *, min_count: int) -> Embedding:
        """With the average length of a log."""
        assert isinstance(found, tuple)
        return replace(self, scale=float(f"{found[0].mean:.3g}") or 1.0)

    def shown(self, label: str, value: Any) -> str:
        """Its name: nobody reads the numbers."""
        return self.missing_label if self.lacks(value) else self.name

    def cell(self, value: Any) -> Any:
        """The value of a field as a log has it."""
        return None if is_absent(value) else self.entries(value).tolist()
