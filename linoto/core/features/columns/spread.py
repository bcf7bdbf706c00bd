"""What many numbers are like: how many, around what, how far apart, and where their quantiles are."""

from __future__ import annotations

from math import floor, inf, isfinite, log10, sqrt
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats

MARKS = 200  # quantiles that a part of a log is known by, and the smallest


class Spread(NamedTuple):
    """How many numbers there are, their mean, the sum of squares around it, their ends and quantiles."""

    size: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    low: float = inf
    high: float = -inf
    marks: tuple[tuple[float, tuple[float, ...]], ...] = ()  # of each part: its rows, and its quantiles

    def merged(self, other: Spread) -> Spread:
        """Of both (Chan, Golub and LeVeque 1983)."""
        size = self.size + other.size
        if not size:
            return self
        gap = other.mean - self.mean
        squares = self.squares + other.squares + gap * gap * self.size * other.size / size
        mean = self.mean + gap * other.size / size
        ends = min(self.low, other.low), max(self.high, other.high)
        return Spread(size, mean, squares, *ends, self.marks + other.marks)

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return sqrt(self.squares / self.size) if self.size else 0.0

    @property
    def constant(self) -> bool:
        """Whether the numbers differ by no more than rounding."""
        return self.deviation <= 1e-12 * abs(self.mean)

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest number; a range around the mean where these are the same."""
        if self.low < self.high:
            return self.low, self.high
        return (self.mean - (abs(self.mean) or 1.0) / 2, self.mean + (abs(self.mean) or 1.0) / 2)

    def mean_and_scale(self, field: str) -> tuple[float, float]:
        """The mean and the standard deviation of a field, in digits that a person can read.

        Any mean and scale will do, if they are those of serving too. Rounded, they do not depend on the order
        of rows.
        """
        if not isfinite(self.deviation):
            ends = f"{self.low:g} to {self.high:g}"
            raise ValueError(f"{field!r} must have a finite variance in the log, got numbers from {ends}")
        if self.constant:
            return self.mean, 1.0
        scale = float(f"{self.deviation:.3g}")
        mean = float(f"{self.mean:.12g}")  # two steps: else a mean of 39.65 is rounded up or down by chance
        return round(mean, 2 - floor(log10(scale))), scale

    def quantiles(self, shares: Floats) -> tuple[float, ...]:
        """Numbers below which about these shares lie: different ones, so many if there are so many.

        Where many numbers are the same, the quantiles of the others take the places that are left.
        """
        if not self.marks:
            return ()
        marks = np.concatenate([values for _, values in self.marks])
        weights = np.concatenate([np.full(len(values), rows / len(values)) for rows, values in self.marks])
        found = np.unique(weighted_quantiles(marks, weights, shares))
        while (missing := shares.size - found.size) > 0 and (rest := ~np.isin(marks, found)).any():
            between = np.arange(1, missing + 1) / (missing + 1)
            found = np.union1d(found, weighted_quantiles(marks[rest], weights[rest], between))
        return tuple(found.tolist())


def weighted_quantiles(values: Floats, weights: Floats, shares: Floats) -> Floats:
    """(n,) of these values, those below which these shares of the weights lie."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    places = np.searchsorted(sums, shares * sums[-1], side="left").clip(0, values.size - 1)
    return np.asarray(values[order][places])
