"""Whether propensities fit how often arms were pulled."""

from __future__ import annotations

import numpy as np

from linoto.audit.pvalues import TEST_LEVEL, holm
from linoto.core.arrays import Ints
from linoto.logs.sums import Propensities


def find_miscalibrated(propensities: Propensities, rows: int) -> Ints:
    """Arms whose propensities cannot be right: 1 / propensity over all rows must average 1 for each arm.

    A sum that is too large is held against a binomial count, exact where an arm's propensity never changes
    (else, that of the constant propensity with the same sums of 1 / p and 1 / p^2). One that is too small may
    only lack a pull as unlikely as any in the log, and is held against one of that propensity: no mix of
    larger ones has a wider spread.
    """
    from scipy.special import betainc, betaincc  # type: ignore[import-untyped]

    pulled = propensities.inverse > 0
    inverse, squares = propensities.inverse[pulled], propensities.inverse_squares[pulled]
    many, chance = np.minimum(inverse**2 / squares, rows), np.minimum(inverse / squares, 1.0)
    at_least = betainc(many, rows - many + 1, chance)
    few = inverse * propensities.low
    at_most = np.where(few < rows, betaincc(few + 1, np.maximum(rows - few, 1e-9), propensities.low), 1.0)
    p = holm(np.minimum(2 * np.minimum(at_least, at_most), 1.0))
    return np.asarray(np.flatnonzero(pulled)[p < TEST_LEVEL])
