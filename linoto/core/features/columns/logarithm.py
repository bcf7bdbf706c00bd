"""The logarithm of an amount."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import expm1
from typing import Any, ClassVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.columns.column import Fault
from linoto.core.features.columns.scaled import ScaledColumn


@dataclass(frozen=True, kw_only=True)
class Logarithm(ScaledColumn):
    """The logarithm of 1 + an amount that is not negative: its feature is (log(1 + value) - mean) / scale.

    >>> Logarithm(name="price", mean=0.0, scale=1.0).vector(0).tolist()
    [0.0]
    """

    kind: ClassVar[str] = "logarithm"

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The name of its one feature."""
        return (f"log(1 + {self.name})",)

    @property
    def filled_expected(self) -> str:
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

    def measured(self, numbers: Floats) -> Floats:
        """(n,) the logarithms."""
        return np.asarray(np.log(1.0 + numbers))

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """A number must be there, finite and not negative."""
        faults = [*super().filled_faults(value, given, field)]
        yield from faults
        yield Fault(f"{field} is negative", f"NOT (isfinite({value}) AND {value} >= 0)", faults[-1].message)

    def filled_learns(self, value: str) -> tuple[str, ...]:
        """The logarithm."""
        return (f"ln(1.0::DOUBLE + greatest({value}, 0.0::DOUBLE))",)
