"""Were arms played more often than propensities allow, in all rows or in those with something in common?

docs/evaluation.md has the mathematics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.rows import Rows

LARGEST_TERM = 0.02  # of a sum's variance: beyond it one row may decide, and the sum is hardly normal
LEAST_ROWS = 4 / LARGEST_TERM  # with a value: fewer never tell, w^2 / (w - 1) being 4 at the least


class Excess(NamedTuple):
    """Arms that were played more often than propensities allow."""

    field: str  # of the context, with some values of which they were; "": in all rows
    arms: Ints


def find_excess(rows: Rows, level: float = TEST_LEVEL) -> list[Excess]:
    """Where arms were played more often than their propensities allow, if chance does not explain it.

    For any weights g_i >= 0 of rows, sum 1[a_i = a] g_i / p_i is at most sum g_i on average: as much as the
    rows where a could be played make up. So a sum that is too large refutes propensities, and one that is too
    small need not. Its variance is what sum 1[a_i = a] (1 / p_i) (1 / p_i - 1) g_i^2 estimates without bias.
    Numbers weigh rows by their rank, from below and from above, so that a tail decides nothing; texts by each
    of their values.
    """
    from scipy.special import ndtr  # type: ignore[import-untyped]

    if rows.propensities is None:
        return []
    weighed, none = Weighed.of(rows), np.zeros(len(rows), np.int64)
    found = {"": weighed.of_values(none, np.array([len(rows)]))}
    found |= {field: weighed.of_field(np.asarray(values)) for field, values in rows.context.items()}
    told = {field: z[np.isfinite(z)] for field, z in found.items()}
    adjusted = holm(ndtr(-np.concatenate(list(told.values()))))
    parts = np.split(adjusted, np.cumsum([z.size for z in told.values()]))
    excess = []
    for (field, z), those in zip(found.items(), parts, strict=False):
        p = np.ones(z.shape)
        p[np.isfinite(z)] = those
        if (arms := np.flatnonzero((p < level).any(axis=0))).size:
            excess.append(Excess(field, arms))
    return excess


class Weighed(NamedTuple):
    """Rows by their weights 1 / p."""

    arms: Ints  # (n,)
    weights: Floats  # (n,)
    squares: Floats  # (n,) w (w - 1)
    usual: Floats  # (k,) mean of w^2 over the rows of each arm
    offered: Bools | None  # (n, k) where not every arm could be played

    @classmethod
    def of(cls, rows: Rows) -> Weighed:
        """Those of a log."""
        weights = 1 / np.asarray(rows.propensities)
        pulls = np.maximum(np.bincount(rows.arms, minlength=rows.k), 1)
        usual = np.bincount(rows.arms, weights**2, minlength=rows.k) / pulls
        return cls(rows.arms, weights, weights * (weights - 1), usual, rows.candidates)

    def of_field(self, values: npt.NDArray[Any]) -> Floats:
        """(m, k) by how many deviations each of a field's m sums is too large for each arm.

        NaN where it does not tell: where one row makes up much of the variance, or one more would. Of a value
        that an arm was hardly played in, too little is known for that.
        """
        if values.ndim != 1:
            return np.zeros((0, self.usual.size))  # vectors
        if values.dtype.kind in "biufM":
            _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
            return self.of_ranks((np.cumsum(counts) - counts / 2)[codes] / codes.size)
        known: dict[str, int] = {}
        codes = np.array([known.setdefault(str(value), len(known)) for value in values.tolist()])
        return self.of_values(codes, np.bincount(codes))

    def of_ranks(self, ranks: Floats) -> Floats:
        """Of numbers by their rank between 0 and 1, from below and from above."""
        return np.stack([self.too_large(each) for each in (ranks, 1 - ranks)])

    def too_large(self, share: Floats) -> Floats:
        """(k,) of rows that weigh so much each."""
        expected = float(share.sum()) if self.offered is None else share @ self.offered
        places = np.zeros(share.size, np.int64)
        sums = self.crossed(self.weights * share, places, 1)[0]
        largest = self.largest((self.weights * share) ** 2, places, 1)[0]
        variance = self.crossed(self.squares * share**2, places, 1)[0]
        return deviations(sums - expected, variance, np.maximum(largest, self.usual))

    def of_values(self, codes: Ints, counts: Ints) -> Floats:
        """Of the rows with each of the values that are common enough to tell."""
        common = np.flatnonzero(counts >= LEAST_ROWS)
        if not common.size:
            return np.zeros((0, self.usual.size))
        place = np.full(counts.size, common.size)  # of all others
        place[common] = np.arange(common.size)
        places, size = place[codes], common.size + 1
        expected = counts[common, None].astype(np.float64)
        if self.offered is not None:
            expected = np.array([self.offered[places == each].sum(axis=0) for each in range(common.size)])
        sums, variance = (self.crossed(each, places, size)[:-1] for each in (self.weights, self.squares))
        largest = self.largest(self.weights**2, places, size)[:-1]
        return deviations(sums - expected, variance, np.maximum(largest, self.usual))

    def crossed(self, values: Floats, places: Ints, size: int) -> Floats:
        """(size, k) sums over the rows of each place and arm."""
        k = self.usual.size
        found = np.bincount(places * k + self.arms, values, minlength=size * k)
        return np.asarray(found, np.float64).reshape(size, k)

    def largest(self, values: Floats, places: Ints, size: int) -> Floats:
        """(size, k) the largest of them, where `crossed` adds them up."""
        found = np.zeros((size, self.usual.size))
        np.maximum.at(found, (places, self.arms), values)
        return found


def deviations(excess: Floats, variance: Floats, largest: Floats) -> Floats:
    """By how many deviations sums are too large; NaN: a squared term, up to `largest`, may decide that."""
    tells = (variance > 0) & (largest <= LARGEST_TERM * variance)
    return np.where(tells, excess / np.sqrt(np.where(tells, variance, 1.0)), np.nan)
