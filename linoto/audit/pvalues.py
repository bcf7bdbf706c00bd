"""p-values: of several tests as one, and of sums of squares whose arms differ in noise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats

SURE = 1e4  # a noncentrality that every test sees: beyond it nothing is computed


def fisher(p: Floats) -> float:
    """One p-value from independent ones; 1 from none.

    >>> round(fisher(np.array([0.05, 0.05])), 4), fisher(np.array([]))
    (0.0175, 1.0)
    """
    from scipy.special import chdtrc  # type: ignore[import-untyped]

    return float(chdtrc(2 * p.size, -2 * np.log(np.maximum(p, 1e-300)).sum())) if p.size else 1.0


class SquaresLaw(NamedTuple):
    """The law of a residual sum of squares: `expected` times an F with these degrees."""

    expected: float
    numerator: float
    denominator: float

    def p(self, missed: float) -> float:
        """How often it is this large by chance alone."""
        from scipy.special import fdtrc

        return (
            float(fdtrc(self.numerator, self.denominator, missed / self.expected)) if self.expected else 1.0
        )

    def power(self, added: float, level: float) -> float:
        """How often p is below a level where so many squares are added that chance does not explain."""
        from scipy.special import fdtri, ncfdtr

        if self.expected == 0:
            return 1.0
        away = min(added * self.numerator / self.expected, SURE + 10.0 * self.numerator)
        beyond = float(fdtri(self.numerator, self.denominator, 1 - level))
        return 1.0 - float(ncfdtr(self.numerator, self.denominator, away, beyond))


def unequal_law(variance: Floats, degrees: Floats, fitted: Floats) -> SquaresLaw:
    """Of |(I - Q Q') y|^2 where every arm has a noise of its own (Brunner, Dette and Munk, 1997).

    y has one entry per arm with `variance` estimated on `degrees` (q,), and Q (q, r) is an orthonormal basis
    of what was fitted. Mean and spread are matched by an F whose degrees follow from how unequal the arms
    are.
    """
    left = 1 - (fitted**2).sum(axis=1)  # of each arm's noise
    expected = float((left * variance).sum())
    if expected <= 0:
        return SquaresLaw(0.0, 1.0, 1.0)
    fourth = variance**2 * degrees / (degrees + 2)  # unbiased for sigma^4
    shared = fitted.T @ (variance[:, None] * fitted)
    between = max(float((shared**2).sum() - (variance**2 * (1 - left) ** 2).sum()), 0.0)
    own = left**2 * fourth
    numerator = expected**2 / (float(own.sum()) + between)
    denominator = expected**2 / float((own / degrees).sum())
    most = min(numerator, variance.size - fitted.shape[1]), min(denominator, float(degrees.sum()))
    return SquaresLaw(expected, max(most[0], 1.0), max(most[1], 1.0))
