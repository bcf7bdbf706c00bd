"""Are propensities those by which arms were played? By how often each arm was, and in which contexts.

docs/evaluation.md has the mathematics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.rows import Rows
from linoto.logs.sums import Propensities

LARGEST_TERM = 0.02  # of a sum's variance: beyond it one row may decide, and the sum is hardly normal


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
    return np.bincount(rows.arms, values, minlength=rows.k).astype(np.float64, copy=False)


def offers_of(rows: Rows) -> int | Ints:
    """In how many rows an arm could be played."""
    return len(rows) if rows.candidates is None else rows.candidates.sum(axis=0)


class Unbalanced(NamedTuple):
    """Arms that were played in other contexts than propensities say."""

    field: str  # of the context
    arms: Ints


def find_unbalanced(rows: Rows, level: float = TEST_LEVEL) -> list[Unbalanced]:
    """Fields of the context that the rows of an arm do not have as all rows do, weighted by 1 / propensity.

    With f_i what a row has of a field, less its mean: where propensities are right, 1 / p_i - 1 has mean 0
    over the draws of each row, so that the sum of (1[a_i = a] / p_i - 1) f_i has mean 0 as well, and the
    variance of which sum 1[a_i = a] (1 / p_i) (1 / p_i - 1) f_i^2 is an unbiased estimate. Numbers count by
    their rank, so that a tail decides nothing; a text is one f for each of its values.
    """
    from scipy.special import ndtr

    if rows.propensities is None or not rows.context:
        return []
    found = [(field, *terms_of(rows, feature)) for field, feature in features_of(rows)]
    if not found:
        return []
    tested = np.stack([told for _, _, told in found])
    p = np.ones(tested.shape)
    p[tested] = holm(2 * ndtr(-np.abs(np.stack([z for _, z, _ in found])[tested])))
    wrong = {field: np.zeros(rows.k, dtype=np.bool_) for field, _, _ in found}
    for (field, _, _), each in zip(found, p, strict=True):
        wrong[field] |= each < level
    return [Unbalanced(field, np.flatnonzero(arms)) for field, arms in wrong.items() if arms.any()]


def features_of(rows: Rows) -> Iterator[tuple[str, Floats]]:
    """Each field of the context as numbers (n,) with mean 0: ranks, or whether it has one of its values."""
    for field, given in rows.context.items():
        values = np.asarray(given)
        if values.ndim != 1:
            continue  # vectors
        texts = values.dtype.kind not in "biufM"
        _, codes, counts = np.unique(
            values.astype(str) if texts else values, return_inverse=True, return_counts=True
        )
        if texts:
            for code in np.flatnonzero(counts * LARGEST_TERM >= 1):  # fewer rows decide nothing
                yield field, centred(codes == code)
        elif counts.size > 1:
            yield field, centred((np.cumsum(counts) - counts / 2)[codes])


def centred(values: npt.NDArray[np.number | np.bool_]) -> Floats:
    """These numbers less their mean."""
    found = values.astype(np.float64)
    return np.asarray(found - found.mean())


def terms_of(rows: Rows, feature: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """(k,) by how many deviations the weighted sum of a feature is off for each arm; whether that tells."""
    weights = 1 / np.asarray(rows.propensities)
    terms = weights * feature
    expected = 0.0 if rows.candidates is None else feature @ rows.candidates
    off = summed(terms, rows) - expected
    variance = summed(weights * (weights - 1) * feature**2, rows)
    largest = np.zeros(rows.k)
    np.maximum.at(largest, rows.arms, terms**2)
    tells = (variance > 0) & (largest <= LARGEST_TERM * variance)
    return np.where(tells, off / np.sqrt(np.where(tells, variance, 1.0)), 0.0), tells
