"""Did all arms together earn less, or more, than before? The test of Cochran, Mantel and Haenszel.

Given an arm's rewards, and given how many of them came early, every choice of the early ones is equally
likely where nothing changed and where the arm was not chosen by its rewards. So the mean and the variance of
the sum of late rewards are known exactly, arm by arm, and so is its law where rewards are 0 or 1.

Where arms may have been chosen by their rewards, most of that sum is the noise of two halves, which is about
normal whatever was chosen. The rest is bounded whatever the choice was (docs/logs.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.audit.adaptive import STRENGTHS
from linoto.audit.noise import Scatter, scatter_of
from linoto.core.arrays import Floats
from linoto.core.offline import Offline

EXACT_UNTIL = 400.0  # variance of the number of late ones up to which its law is computed exactly
NEGLIGIBLE = 1e-18  # probabilities that are left out of it
DELTAS = (1e-3, 1e-6, 1e-12)  # chances of these bounds to fail, of which the best is taken
PULLS_ALIKE = 5.0  # that the variance of all arms stands for in that of one


class CommonShift(NamedTuple):
    """How much more arms earned late than their own rewards let expect, all together."""

    total: float  # late rewards above what was expected of them
    variance: float  # of that: over all choices of the early ones, or of the noise of two halves
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


def shift_of_chosen(early: Offline, late: Offline) -> CommonShift:
    """The same test where arms may have been chosen by their rewards, for arms of k in both halves or in one.

    With c the share of late rows and c_a that of arm a, E_a and L_a the early and late noise of its rewards,
    the sum is (1 - c) L - c E - sum_a (c_a - c) (E_a + L_a). E and L are the noise of halves that end at a
    row. The last sum is the smaller, the less shares changed.
    """
    from scipy.special import ndtr

    n, m = early.pulls.astype(np.float64), late.pulls.astype(np.float64)
    pulls = np.maximum(n + m, 1.0)
    late_part, part = m / pulls, float(m.sum() / max(pulls.sum(), 1.0))
    variance = variance_of_arms(early, late)
    total = float(((1 - late_part) * late.reward_sums - late_part * early.reward_sums).sum())
    spread = float((variance * ((1 - part) ** 2 * m + part**2 * n)).sum())
    if spread <= 0 or abs(total) <= 1e-12 * float(np.abs(early.reward_sums).sum()):
        return CommonShift(total, max(spread, 0.0), 1.0)
    chances = []
    for delta in DELTAS:
        beyond = abs(total) - most_noise(late_part - part, n + m, variance, delta)
        chances.append(delta + 2 * float(ndtr(-max(beyond, 0.0) / spread**0.5)))
    return CommonShift(total, spread, min(2 * min(chances), 1.0))


def variance_of_arms(early: Offline, late: Offline) -> Floats:
    """(k,) the variance of a reward of each arm, if its mean stayed: nearly that of all where it has few."""
    both = early + late
    seen, found = scatter_of(both), np.zeros(both.pulls.size)
    alike = float(seen.around.sum() / max((seen.pulls - 1).sum(), 1.0))
    found[both.pulls > 0] = (seen.around + PULLS_ALIKE * alike) / (seen.pulls - 1 + PULLS_ALIKE)
    return found


def most_noise(weights: Floats, pulls: Floats, variance: Floats, delta: float) -> float:
    """What a weighted sum of the arms' noise may be, at a chance of delta, whatever chose arms and weights.

    By the mixture of normal laws around 0, of precisions r: sum_a S_a^2 / (s_a^2 (N_a + r)) is at most
    2 log(3 / delta) + sum_a log(1 + N_a / r), for the three r together.
    """
    found = []
    for r in STRENGTHS:
        level = 2 * np.log(len(STRENGTHS) / delta) + np.log1p(pulls / r).sum()
        found.append(np.sqrt((weights**2 * variance * np.where(pulls > 0, pulls + r, 0.0)).sum() * level))
    return float(min(found))


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
