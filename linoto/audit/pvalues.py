"""p-values: of many tests together, and of sums of squares whose arms differ in noise."""

from __future__ import annotations

import numpy as np

from linoto.core.arrays import Floats

TEST_LEVEL = 0.01  # of each test that can change the verdict: its chance to raise a false alarm


def holm(p: Floats) -> Floats:
    """p-values adjusted for their number: below a level, no more false alarms than that level at all.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate((p.size - np.arange(p.size)) * p[order]), 1.0)
    return adjusted


def fisher(p: Floats) -> float:
    """One p-value from independent ones; 1 from none.

    >>> round(fisher(np.array([0.05, 0.05])), 4), fisher(np.array([]))
    (0.0175, 1.0)
    """
    from scipy.special import chdtrc  # type: ignore[import-untyped]

    return float(chdtrc(2 * p.size, -2 * np.log(np.maximum(p, 1e-300)).sum())) if p.size else 1.0


def unequal_noise_p(missed: float, variance: Floats, degrees: Floats, fitted: Floats) -> float:
    """p of a residual sum of squares where every arm has a noise of its own (Brunner, Dette and Munk, 1997).

    `missed` is |(I - Q Q') y|^2, one entry of y per arm with `variance` estimated on `degrees` (q,), and Q
    (q, r) an orthonormal basis of what was fitted. Mean and spread of `missed` are matched by an F whose
    degrees follow from how unequal the arms are.
    """
    from scipy.special import fdtrc

    left = 1 - (fitted**2).sum(axis=1)  # of each arm's noise
    expected = float((left * variance).sum())
    if expected <= 0:
        return 1.0
    fourth = variance**2 * degrees / (degrees + 2)  # unbiased for sigma^4
    shared = fitted.T @ (variance[:, None] * fitted)
    between = max(float((shared**2).sum() - (variance**2 * (1 - left) ** 2).sum()), 0.0)
    own = left**2 * fourth
    numerator = expected**2 / (float(own.sum()) + between)
    denominator = expected**2 / float((own / degrees).sum())
    most = min(numerator, variance.size - fitted.shape[1]), min(denominator, float(degrees.sum()))
    return float(fdtrc(max(most[0], 1.0), max(most[1], 1.0), missed / expected))
