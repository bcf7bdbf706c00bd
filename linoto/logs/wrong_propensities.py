"""Are propensities those by which arms were played? By how often each arm was, and in which contexts.

docs/evaluation.md has the mathematics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.rows import Rows
from linoto.logs.sums import Propensities

LARGEST_TERM = 0.02  # of a sum's variance: beyond it one row may decide, and the sum is hardly normal
LEAST_ROWS = 4 / LARGEST_TERM  # with a value: fewer never tell, w^2 / (w - 1) being 4 at the least


def find_miscalibrated(propensities: Propensities, rows: int | Ints, level: float = TEST_LEVEL) -> Ints:
    """Arms whose propensities cannot be right: 1 / propensity must average 1 for each arm.

    `rows` is of how many: of all of them, or (k,) of those where each arm could be played.

    A sum that is too large is held against a binomial count, exact where an arm's propensity never changes
    (else, that of the constant propensity with the same sums of 1 / p and 1 / p^2). One that is too small may
    only lack a pull as unlikely as any in the log, and is held against one of that propensity: no mix of
    larger ones has a wider spread.
    """
    from scipy.special import betainc, betaincc  # type: ignore[import-untyped]

    pulled = propensities.inverse > 0
    rows = np.broadcast_to(rows, pulled.shape)[pulled]
    inverse, squares = propensities.inverse[pulled], propensities.inverse_squares[pulled]
    many, chance = np.minimum(inverse**2 / squares, rows), np.minimum(inverse / squares, 1.0)
    at_least = betainc(many, rows - many + 1, chance)
    few = inverse * propensities.low
    at_most = np.where(few < rows, betaincc(few + 1, np.maximum(rows - few, 1e-9), propensities.low), 1.0)
    p = holm(np.minimum(2 * np.minimum(at_least, at_most), 1.0))
    return np.asarray(np.flatnonzero(pulled)[p < level])


def propensities_of(rows: Rows) -> Propensities:
    """What rows say of their propensities, arm for arm."""
    stated = np.asarray(rows.propensities)
    return Propensities(
        low=float(stated.min()),
        high=float(stated.max()),
        inverse=summed(1 / stated, rows),
        inverse_squares=summed(1 / stated**2, rows),
    )


def summed(values: Floats, rows: Rows) -> Floats:
    """(k,) over the rows that played each arm."""
    return np.asarray(np.bincount(rows.arms, values, minlength=rows.k), np.float64)


def offers_of(rows: Rows) -> int | Ints:
    """In how many rows an arm could be played."""
    return len(rows) if rows.candidates is None else rows.candidates.sum(axis=0)


class Unbalanced(NamedTuple):
    """Arms that were played in other contexts than propensities say."""

    field: str  # of the context
    arms: Ints


def find_unbalanced(rows: Rows, level: float = TEST_LEVEL) -> list[Unbalanced]:
    """Fields of the context that the rows of an arm do not have as all rows do, weighted by 1 / propensity.

    With f_i what a row has of a field, less its mean: where propensities are right, 1[a_i = a] / p_i - 1 has
    mean 0 in each row where a could be played, so its sum with f_i has mean 0 as well, and a variance which
    sum 1[a_i = a] (1 / p_i) (1 / p_i - 1) f_i^2 estimates without bias. Numbers count by their rank, so that
    a tail decides nothing; a text is one f for each of its values.
    """
    from scipy.special import ndtr

    if rows.propensities is None:
        return []
    given = Weighed.of(rows)
    off = {field: given.off(np.asarray(values)) for field, values in rows.context.items()}
    z = [np.abs(found[np.isfinite(found)]) for found in off.values()]
    p = np.split(holm(2 * ndtr(-np.concatenate([*z, np.zeros(0)]))), np.cumsum([each.size for each in z]))
    found = []
    for (field, deviations), those in zip(off.items(), p, strict=False):
        wrong = np.full(deviations.shape, 1.0)
        wrong[np.isfinite(deviations)] = those
        if (arms := np.flatnonzero((wrong < level).any(axis=0))).size:
            found.append(Unbalanced(field, arms))
    return found


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
        usual = summed(weights**2, rows) / np.maximum(np.bincount(rows.arms, minlength=rows.k), 1)
        return cls(rows.arms, weights, weights * (weights - 1), usual, rows.candidates)

    def off(self, values: npt.NDArray[Any]) -> Floats:
        """(m, k) how many deviations the sum of each of a field's m features is off for each arm.

        NaN where it does not tell: where one row makes up much of the variance, or one more would. Of a value
        that an arm was hardly played in, too little is known for that.
        """
        if values.ndim != 1:
            return np.zeros((0, self.usual.size))  # vectors
        texts = values.dtype.kind not in "biufM"
        values = values.astype(str) if texts else values
        _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
        return self.of_values(codes, counts) if texts else self.of_ranks(codes, counts)

    def of_ranks(self, codes: Ints, counts: Ints) -> Floats:
        """Of numbers, where equal ones have one rank."""
        ranks = (np.cumsum(counts) - counts / 2)[codes]
        feature = ranks - ranks.mean()
        sums, squares = self.summed(self.weights * feature), self.summed(self.squares * feature**2)
        expected = 0.0 if self.offered is None else feature @ self.offered
        largest = self.largest((self.weights * feature) ** 2, np.zeros_like(codes), 1)[0]
        return self.deviations(
            sums - expected, squares, np.maximum(largest, self.usual * (feature**2).max())
        )[None]

    def of_values(self, codes: Ints, counts: Ints) -> Floats:
        """Of whether a row has each of the values that are common enough to tell."""
        common = np.flatnonzero(counts >= LEAST_ROWS)
        place = np.full(counts.size, common.size)  # of all others
        place[common] = np.arange(common.size)
        places, size = place[codes], common.size + 1
        shares = counts[common, None] / codes.size
        sums, squares = (self.crossed(each, places, size) for each in (self.weights, self.squares))
        off = sums[:-1] - shares * sums.sum(axis=0)
        if self.offered is not None:
            could = np.stack([self.offered[places == each].sum(axis=0) for each in range(size)])
            off -= could[:-1] - shares * could.sum(axis=0)
        variance = (1 - shares) ** 2 * squares[:-1] + shares**2 * (squares.sum(axis=0) - squares[:-1])
        heaviest = self.largest(self.weights**2, places, size)
        inside, outside = np.maximum(heaviest[:-1], self.usual), heaviest.max(axis=0)
        return self.deviations(off, variance, np.maximum((1 - shares) ** 2 * inside, shares**2 * outside))

    def summed(self, values: Floats) -> Floats:
        """(k,) over the rows of each arm."""
        return np.asarray(np.bincount(self.arms, values, minlength=self.usual.size), np.float64)

    def crossed(self, values: Floats, places: Ints, size: int) -> Floats:
        """(size, k) the same by another number of the rows too."""
        k = self.usual.size
        found = np.bincount(places * k + self.arms, values, minlength=size * k)
        return np.asarray(found, np.float64).reshape(size, k)

    def largest(self, squares: Floats, places: Ints, size: int) -> Floats:
        """(size, k) the largest of them, where `crossed` adds them up."""
        found = np.zeros((size, self.usual.size))
        np.maximum.at(found, (places, self.arms), squares)
        return found

    def deviations(self, off: Floats, variance: Floats, largest: Floats) -> Floats:
        """Of sums with these variances, whose terms are up to so large, squared."""
        tells = (variance > 0) & (largest <= LARGEST_TERM * variance)
        return np.where(tells, off / np.sqrt(np.where(tells, variance, 1.0)), np.nan)
