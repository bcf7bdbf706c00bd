"""A column of numbers, scaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor, isfinite, log10
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, number_of
from linoto.core.features.columns.column import (
    Cell,
    Column,
    Fault,
    Levels,
    Spread,
    check_name,
    number_literal,
)
from linoto.core.validation import check_positive, is_number

NUMBER = "the value must be a finite number, got {value!r}{hint}"


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
