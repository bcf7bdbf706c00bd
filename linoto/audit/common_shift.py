"""Did all arms together earn less, or more, than before? The test of Cochran, Mantel and Haenszel.

Given an arm's rewards, and given how many of them came early, every choice of the early ones is equally
likely where nothing changed and where the arm was not chosen by its rewards. So the mean and the variance of
the sum of late rewards are known exactly, arm by arm, and so is its law where rewards are 0 or 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.audit.noise import Scatter
from linoto.core.arrays import Floats

EXACT_UNTIL = 400.0  # variance of the number of late ones up to which its law is computed exactly
NEGLIGIBLE = 1e-18  # probabilities that are left out of it


class CommonShift(NamedTuple):
    """How much more arms earned late than their own rewards let expect, all together."""

    total: float  # late rewards above what was expected of them
    variance: float  # of that, over all choices of the early ones
    p: float  # two-sided; a mid-p-value where rewards are 0 or 1


def common_shift(early: Scatter, late: Scatter, *, clicks: bool) -> CommonShift:
    """The test that arms have no shift in common; it sees nothing of moves that cancel each other."""
    from scipy.special import ndtr  # type: ignore[import-untyped]

    pulls = early.pulls + late.pulls
    weight = early.pulls * late.pulls / pulls
    gap = late.mean - early.mean
    gap[np.abs(gap) <= 1e-12 * (np.abs(early.mean) + np.abs(late.mean))] = 0.0
    around = early.most + late.most + weight * gap**2
    total = float((weight * gap).sum())
    variance = float((weight * around / np.maximum(pulls - 1, 1)).sum())
    if variance <= 0:
        return CommonShift(total, 0.0, 1.0)
    if clicks and variance <= EXACT_UNTIL:
        return CommonShift(total, variance, exact_p(early, late))
    return CommonShift(total, variance, float(2 * ndtr(-abs(total) / np.sqrt(variance))))


def exact_p(early: Scatter, late: Scatter) -> float:
    """The two-sided mid-p-value of the number of late ones: in each arm it is hypergeometric."""
    pulls = early.pulls + late.pulls
    late_ones = np.rint(late.pulls * late.mean)
    ones = np.rint(early.pulls * early.mean) + late_ones
    law, first = np.ones(1), 0.0
    for n, k, m in zip(pulls, ones, late.pulls, strict=True):
        if not 0 < k < n:
            first += min(k, m)
            continue
        low, chances = hypergeometric(n, k, m)
        law, first = np.convolve(law, chances), first + low
        kept = np.flatnonzero(law > NEGLIGIBLE)
        law, first = law[kept[0] : kept[-1] + 1], first + kept[0]
    place = int(late_ones.sum() - first)
    here = law[place] if 0 <= place < law.size else 0.0
    below = law[: max(place, 0)].sum() + here / 2
    return float(min(2 * min(below, law.sum() - below), 1.0))


def hypergeometric(n: float, k: float, m: float) -> tuple[float, Floats]:
    """Of n rewards k are ones and m are late: the least number of late ones, and the chances from there."""
    from scipy.special import gammaln

    low = max(0.0, k + m - n)
    x = np.arange(low, min(k, m) + 1)
    ways = gammaln(k + 1) - gammaln(x + 1) - gammaln(k - x + 1)
    others = gammaln(n - k + 1) - gammaln(m - x + 1) - gammaln(n - k - m + x + 1)
    return low, np.exp(ways + others - (gammaln(n + 1) - gammaln(m + 1) - gammaln(n - m + 1)))
