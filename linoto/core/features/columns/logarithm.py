"""The logarithm of an amount."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import expm1
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.columns.column import Fault, Found
from linoto.core.features.columns.numeric import NumberColumn, check_finite, scaled_sql
from linoto.core.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class Logarithm(NumberColumn):
    """The logarithm of 1 + an amount that is not negative: its feature is (log(1 + value) - mean) / scale.

    >>> Logarithm(name="price", mean=0.0, scale=1.0).vector(0).tolist()
    [0.0]
    """

    mean: float | None = None  # of the logarithms of the log, as the scale
    scale: float | None = None

    kind: ClassVar[str] = "logarithm"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.mean is None) != (self.scale is None):
            raise ValueError(f"mean and scale of {self.name!r} must be given together, got one of them")
        if self.scale is not None:
            check_finite(f"mean of {self.name!r}", self.mean)
            check_positive(f"scale of {self.name!r}", self.scale)

    @property
    def draft(self) -> bool:
        """Whether its mean and scale are to be those of a log."""
        return self.scale is None

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of its one feature."""
        return (f"log(1 + {self.name})",)

    @property
    def expected(self) -> str:
        """What a value must be, for messages."""
        return "a finite number of 0 or more"

    @property
    def usual(self) -> float | None:
        """The amount whose logarithm is the mean."""
        return None if self.mean is None else expm1(min(self.mean, 700.0))

    def number(self, value: Any) -> float:
        """A value of its field as a number."""
        number = super().number(value)
        if number < 0:
            raise ValueError(f"{self.reads[0]!r} must be {self.expected}, got {value!r}")
        return number

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, 1) the logarithms, scaled."""
        return np.asarray(((np.log(1.0 + numbers) - (self.mean or 0.0)) / (self.scale or 1.0))[:, None])

    def features_sql(self, value: str) -> tuple[str, ...]:
        """The same."""
        return (scaled_sql(self.learns_sql(value)[0], self.mean or 0.0, self.scale or 1.0),)

    def faults_sql(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """A number must be there, finite and not negative."""
        faults = [*super().faults_sql(value, given, field)]
        yield from faults
        yield Fault(f"{field} is negative", f"NOT (isfinite({value}) AND {value} >= 0)", faults[-1].message)

    def learns_sql(self, value: str) -> tuple[str, ...]:
        """The logarithm."""
        return (f"ln(1.0::DOUBLE + greatest({value}, 0.0::DOUBLE))",)

    def learned(self, found: Found, *, min_count: int) -> Logarithm:
        """With the mean and the scale of the logarithms of a log."""
        assert isinstance(found, tuple)
        mean, scale = found[0].mean_and_scale
        return replace(self, mean=mean, scale=scale)
