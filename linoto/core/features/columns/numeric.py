"""Columns of numbers: what all of them have in common, and the plain one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, nan
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.cells import is_missing, number_of
from linoto.core.features.columns.column import Cell, Fault, Found, number_literal
from linoto.core.features.columns.optional import IN_REQUEST, OptionalColumn, is_absent
from linoto.core.validation import check_positive, exact, is_number


@dataclass(frozen=True, kw_only=True)
class NumberColumn(OptionalColumn, ABC):
    """A column whose value is a finite number, in the log and in a request."""

    @property
    def filled_expected(self) -> str:
        """What a value must be, for messages."""
        return "a finite number"

    @abstractmethod
    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, w) the features of numbers (n,), all of which are there."""

    def number(self, value: Any) -> float:
        """A value of its field as a number."""
        return number_in(self.reads[0], value, self.expected)

    def filled_vector(self, value: Any) -> Floats:
        """(w,) the features of a value."""
        return np.asarray(self.of_numbers(np.array([self.number(value)]))[0])

    def features_of(self, values: npt.NDArray[Any]) -> tuple[Ints, Floats]:
        """(n, w) all features of numbers."""
        if values.dtype.kind not in "fiu":
            values = np.array([nan if self.lacks(v) else self.number(v) for v in values.tolist()])
        numbers = values.astype(np.float64)
        lacking = np.isnan(numbers) & self.missing
        found = self.with_missing(self.of_numbers(np.where(lacking, 0.0, numbers)), lacking)
        return np.tile(np.arange(found.shape[1]), (len(found), 1)), found

    @property
    def usual(self) -> float | None:
        """About where the numbers of the log lie, if it is known."""
        return None

    def shown(self, label: str, value: Any) -> str:
        """A number as people read it: with what is usual, where that is known."""
        if self.lacks(value):
            return self.missing_label
        if self.usual is None:
            return f"{self.name}={value}"
        gap = self.number(value) - self.usual
        size = f"{abs(gap):.3g}"
        return f"{self.name}={value} ({size} {'more' if gap > 0 else 'less'} than usual)"

    def read_sql(self, cell: Cell) -> str:
        """A number."""
        return cell.number

    def is_filled_sql(self, value: str) -> str:
        """A finite number is; text that is none, or one that is not finite, is a fault."""
        return f"isfinite({value})"

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """A number must be there, and finite."""
        return number_faults(value, given, field, self.expected)


@dataclass(frozen=True, kw_only=True)
class Numeric(NumberColumn):
    """A column of numbers: its feature is (value - mean) / scale.

    >>> Numeric(name="age", mean=40.0, scale=10.0).vector(55)
    array([1.5])
    """

    mean: float = 0.0
    scale: float = 1.0

    kind: ClassVar[str] = "numeric"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(f"mean of {self.name!r}", self.mean)
        check_positive(f"scale of {self.name!r}", self.scale)

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The name of its one feature."""
        return (self.name,)

    @property
    def usual(self) -> float | None:
        """The mean of the log, if it was learned."""
        return None if (self.mean, self.scale) == (0.0, 1.0) else self.mean

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, 1) the numbers, scaled."""
        return ((numbers - self.mean) / self.scale)[:, None]

    def filled_vector(self, value: Any) -> Floats:
        """(1,) the same of one value."""
        return np.array([(self.number(value) - self.mean) / self.scale])

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The number, scaled."""
        return (scaled_sql(value, self.mean, self.scale),)

    def learned(self, found: Found, *, min_count: int) -> Numeric:
        """With the mean and the scale of a log."""
        assert isinstance(found, tuple)
        mean, scale = found[0].mean_and_scale(self.reads[0])
        return replace(self, mean=mean, scale=scale)


def number_in(field: str, value: Any, expected: str = "a finite number") -> float:
    """The value of a field as a finite number."""
    if type(value) is float and isfinite(value):
        return value
    number = None if is_missing(value) else number_of(value)
    if number is None or not isfinite(number):
        hint = f": {IN_REQUEST}" if is_absent(value) else ""
        raise ValueError(f"{field!r} must be {expected}, got {value!r:.100}{hint}")
    return number


def number_faults(value: str, given: str, field: str, expected: str) -> Iterator[Fault]:
    """What can be wrong with a field that must be a finite number."""
    message = f"the value must be {expected}, got {{value!r}}{{hint}}"
    yield Fault(f"missing {field}", f"{given} IS NULL", "the value is missing")
    yield Fault(f"{field} not understood", f"{value} IS NULL", message)
    yield Fault(f"{field} is not finite", f"NOT isfinite({value})", message)


def check_finite(name: str, value: Any) -> None:
    """Refuse anything but a finite number."""
    if not is_number(value) or not isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")


def rising(name: str, values: Any, *, least: int) -> tuple[float, ...]:
    """Finite numbers, each above the one before, so many at least."""
    numbers = tuple(values) if isinstance(values, list | tuple) else (values,)
    if len(numbers) < least or not all(is_number(value) and isfinite(value) for value in numbers):
        raise ValueError(f"{name} must be {least} finite numbers or more, got {values!r}")
    floats = tuple(map(float, numbers))
    if any(one >= other for one, other in pairwise(floats)):
        raise ValueError(f"{name} must rise, got {', '.join(map(exact, floats))}")
    return floats


def as_ends(name: str, value: Any) -> tuple[float, float]:
    """Two finite numbers that rise, with a finite distance."""
    ends = rising(name, value, least=2)
    if len(ends) != 2 or not isfinite(ends[1] - ends[0]):
        raise ValueError(f"{name} must be two numbers with a finite distance, got {value!r}")
    return ends[0], ends[1]


def scaled_sql(value: str, mean: float, scale: float) -> str:
    """A number in SQL, less a mean and divided by a scale."""
    return f"({value} - {number_literal(mean)}) / {number_literal(scale)}"


def within_sql(value: str, low: float, high: float) -> str:
    """A number in SQL, or the end of a range that is nearest to it."""
    return f"least(greatest({value}, {number_literal(low)}), {number_literal(high)})"


def horner_sql(z: str, coefficients: list[float]) -> str:
    """A polynomial in SQL, from the coefficient of 1 on."""
    *lower, found = (number_literal(coefficient) for coefficient in coefficients)
    for coefficient in reversed(lower):
        found = f"({found} * {z} + {coefficient})"
    return found
