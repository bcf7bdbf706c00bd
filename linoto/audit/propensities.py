"""Do propensities fit how often arms were pulled?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from linoto.audit.sentences import names_of
from linoto.core.arrays import Ints
from linoto.core.hints import amount
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.read import Log
from linoto.logs.sums import Propensities


def find_wrong_propensities(log: Log) -> Ints:
    """The arms of a log whose propensities cannot be right; none where it has no propensities."""
    if log.propensities is None:
        return np.zeros(0, dtype=np.int64)
    return find_miscalibrated(log.propensities, log.offline.total)


def propensity_notes(wrong: Ints, log: Log) -> Iterator[str]:
    """That they are wrong: no promise rests on them, but whoever evaluates by them must know."""
    if wrong.size:
        yield f"propensities do not fit how often these were pulled: {names_of(log.arms.names, wrong)}"


def propensity_facts(wrong: Ints, log: Log) -> Iterator[tuple[str, str]]:
    """How large they are, and whether they fit what was pulled."""
    if log.propensities is None:
        return
    fit = f"do not fit {names_of(log.arms.names, wrong)}" if wrong.size else "fit what was pulled"
    low, high = log.propensities.low, log.propensities.high
    yield "propensities", f"from {amount(low)} to {amount(high)}; they {fit}"


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
