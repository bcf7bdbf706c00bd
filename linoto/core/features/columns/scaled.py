"""What is measured of a number, with the mean and the scale that a log has of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.columns.column import Found
from linoto.core.features.columns.numeric import NumberColumn, check_finite, scaled_sql
from linoto.core.validation import check_positive


@dataclass(frozen=True, kw_only=True)
class ScaledColumn(NumberColumn):
    """One feature: (what is measured - mean) / scale."""

    mean: float | None = None  # of what is measured in the log, as the scale
    scale: float | None = None

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

    @abstractmethod
    def measured(self, numbers: Floats) -> Floats:
        """(n,) what is measured of numbers; `filled_learns` says the same in SQL."""

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, 1) what is measured, scaled."""
        return np.asarray(((self.measured(numbers) - (self.mean or 0.0)) / (self.scale or 1.0))[:, None])

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same."""
        return (scaled_sql(self.filled_learns(value)[0], self.mean or 0.0, self.scale or 1.0),)

    def learned(self, found: Found, *, min_count: int) -> Self:
        """With the mean and the scale of a log."""
        assert isinstance(found, tuple)
        mean, scale = found[0].mean_and_scale(self.reads[0])
        return replace(self, mean=mean, scale=scale)
