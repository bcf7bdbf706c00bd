"""A number and its powers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import legendre

from linoto.core.arrays import Floats
from linoto.core.features.columns.column import Found, number_literal
from linoto.core.features.columns.numeric import NumberColumn, as_ends, horner_sql, within_sql
from linoto.core.validation import check_count

MOST_DEGREE = 8


@dataclass(frozen=True, kw_only=True)
class Powers(NumberColumn):
    """A polynomial of a number: one feature for each degree from 1 on.

    The range of the log becomes [-1, 1], and features are Legendre polynomials there: any polynomial is a
    sum of them, none is longer than 1, and they hardly depend on each other. A number outside the range of
    the log is taken for the end that is nearest, since polynomials grow fast.

    >>> Powers(name="price", degree=2, range=(0, 10)).vector(10).tolist()
    [1.0, 1.0]
    """

    degree: int = 3
    range: tuple[float, float] | None = None  # of the log

    kind: ClassVar[str] = "powers"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(f"degree of {self.name!r}", self.degree)
        if self.degree > MOST_DEGREE:
            raise ValueError(f"degree of {self.name!r} must be at most {MOST_DEGREE}, got {self.degree}")
        if self.range is not None:
            object.__setattr__(self, "range", as_ends(f"range of {self.name!r}", self.range))

    @property
    def draft(self) -> bool:
        """Whether its range is to be that of a log."""
        return self.range is None

    @property
    def ends(self) -> tuple[float, float]:
        """The range, once it is known."""
        return self.range or (-1.0, 1.0)

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return (self.name, *(f"{self.name}^{degree}" for degree in range(2, self.degree + 1)))

    @cached_property
    def coefficients(self) -> Floats:
        """(w, degree + 1) of each feature: those of 1, z, z^2, ..."""
        found = np.zeros((self.degree, self.degree + 1))
        for place in range(self.degree):
            found[place, : place + 2] = legendre.leg2poly(np.eye(place + 2)[-1])
        return found

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, w) the features of numbers."""
        (low, high), found = self.ends, np.zeros((len(numbers), self.degree))
        z = (np.clip(numbers, low, high) - low) / (high - low) * 2.0 - 1.0
        for coefficient in self.coefficients.T[::-1]:
            found = found * z[:, None] + coefficient
        return found

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same, by Horner's rule."""
        low, high = self.ends
        share = f"({within_sql(value, low, high)} - {number_literal(low)}) / {number_literal(high - low)}"
        z = f"({share} * {number_literal(2.0)} - {number_literal(1.0)})"
        return tuple(horner_sql(z, row.tolist()) for row in self.coefficients)

    def learned(self, found: Found, *, min_count: int) -> Powers:
        """With the range of a log."""
        assert isinstance(found, tuple)
        return replace(self, range=found[0].ends)

    def is_beyond(self, value: Any) -> bool:
        """Whether a number lies outside the range of the log."""
        low, high = self.ends
        return not self.lacks(value) and not low <= self.number(value) <= high
