"""Waves in many directions: any smooth function of a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import nan, sqrt
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.features.columns.column import Cell, Fault, Found, number_literal
from linoto.core.features.columns.hashed import hash_of
from linoto.core.features.columns.numeric import (
    as_ends,
    check_finite,
    number_faults,
    number_in,
    scaled_sql,
    within_sql,
)
from linoto.core.features.columns.optional import OptionalColumn, is_absent
from linoto.core.validation import check_count, check_positive, check_seed

USUAL = 0.75  # bandwidth of one field: about the best of 0.25 to 1 on three tables (benchmarks/columns.py)


@dataclass(frozen=True, kw_only=True)
class Fourier(OptionalColumn):
    """Random Fourier features (Rahimi and Recht 2007) of one or several numbers.

    Numbers are scaled by the log. Features are cosines and sines of `waves` directions that are drawn by
    `seed`: the product of two vectors is about waves exp(-|x - x'|^2 / (2 bandwidth^2)), so that a linear
    model is a smooth function of all numbers together, which bends within about a `bandwidth` (1: a standard
    deviation). Their length is the root of `waves`. A number outside the range of the log is taken for the
    end that is nearest.

    >>> Fourier(name="place", fields=("x", "y"), waves=20).labels[:2]
    ('cos place 1', 'sin place 1')
    """

    waves: int = 25
    bandwidth: float | None = None  # None: 0.75 times the root of the number of fields
    seed: int = 0
    means: tuple[float, ...] = ()  # (p,) of the log, as scales and ranges; (): not known yet
    scales: tuple[float, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()

    kind: ClassVar[str] = "fourier"
    several: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        name = repr(self.name)
        check_count(f"waves of {name}", self.waves)
        check_seed(self.seed)
        if self.bandwidth is not None:
            check_positive(f"bandwidth of {name}", self.bandwidth)
        for field in ("means", "scales", "ranges"):
            object.__setattr__(self, field, tuple(getattr(self, field)))
        sizes = {len(self.means), len(self.scales), len(self.ranges)}
        if sizes != {0} and sizes != {len(self.reads)}:
            raise ValueError(f"means, scales and ranges of {name} must be one for each field, got others")
        for mean, scale in zip(self.means, self.scales, strict=True):
            check_finite(f"means of {name}", mean)
            check_positive(f"scales of {name}", scale)
        ranges = tuple(as_ends(f"ranges of {name}", ends) for ends in self.ranges)
        object.__setattr__(self, "ranges", ranges)

    @property
    def draft(self) -> bool:
        """Whether its means and scales are to be those of a log."""
        return not self.means

    @property
    def filled_labels(self) -> tuple[str, ...]:
        """The names of its features."""
        return tuple(f"{wave} {self.name} {i + 1}" for i in range(self.waves) for wave in ("cos", "sin"))

    @property
    def filled_expected(self) -> str:
        """What a value must be, for messages."""
        return "a finite number"

    @cached_property
    def directions(self) -> Floats:
        """(waves, p) how fast each wave turns: normal, the same on every machine and in every version."""
        width = self.bandwidth or USUAL * sqrt(len(self.reads))
        normal = NormalDist(sigma=1.0 / width)
        return np.array(
            [
                [
                    normal.inv_cdf((hash_of(f"{self.seed}:{i}:{j}") + 0.5) / 2.0**64)
                    for j in range(len(self.reads))
                ]
                for i in range(self.waves)
            ]
        )

    def numbers(self, value: Sequence[Any]) -> list[float]:
        """(p,) a number for each field."""
        pairs = zip(self.reads, value, strict=True)
        return [number_in(field, each, self.expected) for field, each in pairs]

    def filled_vector(self, value: Any) -> Floats:
        """(w,) the features of a value for each field."""
        return np.asarray(self.of_numbers(np.array([self.numbers(value)]))[0])

    def of_numbers(self, numbers: Floats) -> Floats:
        """(n, w) the features of numbers (n, p)."""
        low, high = np.array(self.ranges).T
        z = (np.clip(numbers, low, high) - self.means) / self.scales
        angles = sum(z[:, [j]] * self.directions[:, j] for j in range(z.shape[1]))
        both = np.stack([np.cos(angles), np.sin(angles)], axis=2)
        return np.asarray(both.reshape(len(z), -1))

    def features_of(self, values: npt.NDArray[Any]) -> tuple[Ints, Floats]:
        """(n, w) all features of the values of each field (p, n)."""
        numbers = np.array([self.known_numbers(field) for field in values]).T
        lacking = np.isnan(numbers).any(axis=1) & self.missing
        found = self.with_missing(self.of_numbers(np.where(lacking[:, None], 0.0, numbers)), lacking)
        return np.tile(np.arange(found.shape[1]), (len(found), 1)), found

    def known_numbers(self, values: npt.NDArray[Any]) -> Floats:
        """(n,) the numbers of a field; NaN where one is missing, and may be."""
        if not self.missing or values.dtype.kind in "fiu":
            return np.array([*map(float, values)])
        return np.array([nan if is_absent(v) else number_in(self.name, v) for v in values.tolist()])

    def read_sql(self, cell: Cell) -> str:
        """A number."""
        return cell.number

    def lacks(self, value: Any) -> bool:
        """Whether a field is missing, and may be."""
        return self.missing and any(map(is_absent, value))

    def is_filled_sql(self, value: str) -> str:
        """All fields must be."""
        return " AND ".join(f"isfinite({number})" for number in self.filled_learns(value))

    def filled_faults(self, value: str, given: str, field: str) -> Iterator[Fault]:
        """Every field must have a finite number."""
        return number_faults(value, given, field, self.expected)

    def filled_sql(self, value: str) -> tuple[str, ...]:
        """The same."""
        known = zip(self.filled_learns(value), self.means, self.scales, self.ranges, strict=True)
        z = [f"({scaled_sql(within_sql(sql, *ends), mean, scale)})" for sql, mean, scale, ends in known]
        found: list[str] = []
        for turns in self.directions.tolist():
            angle = " + ".join(f"{x} * {number_literal(turn)}" for x, turn in zip(z, turns, strict=True))
            found += [f"cos({angle})", f"sin({angle})"]
        return tuple(found)

    def filled_learns(self, value: str) -> tuple[str, ...]:
        """The number of each field."""
        return tuple(f"({value})[{j + 1}]" for j in range(len(self.reads)))

    def learned(self, found: Found, *, min_count: int) -> Fourier:
        """With the means, the scales and the ranges of a log."""
        assert isinstance(found, tuple)
        each = zip(found, self.reads, strict=True)
        means, scales = zip(*(spread.mean_and_scale(field) for spread, field in each), strict=True)
        return replace(self, means=means, scales=scales, ranges=tuple(spread.ends for spread in found))

    def shown(self, label: str, value: Any) -> str:
        """The numbers that waves are made of."""
        if self.lacks(value):
            return self.missing_label
        return " and ".join(f"{field}={each}" for field, each in zip(self.reads, value, strict=True))

    def is_beyond(self, value: Any) -> bool:
        """Whether a number lies outside the range of the log."""
        if self.lacks(value):
            return False
        pairs = zip(self.numbers(value), self.ranges, strict=True)
        return any(not low <= number <= high for number, (low, high) in pairs)
