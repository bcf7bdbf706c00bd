"""Logs whose arms were chosen by looking at earlier rewards: how they show, and tests that hold for them.

In such a log early means are not what they seem: an arm is played on because it was lucky, and then earns
less. No p-value of the two halves holds. Evidence by betting does. For one arm with mean m, a mixture over
alternatives around m has an expected likelihood ratio of 1 at any time at which somebody stops pulling the
arm, whatever made them stop. So has the product of the ratios of both halves, and the average over arms. The
true mean is not known, so the smallest ratio over all m is taken, which is no larger than the true one. By
Markov it exceeds 1 / alpha with probability alpha at most (docs/logs.md has the formulas).
"""

from __future__ import annotations

import numpy as np

from linoto.audit.noise import Scatter
from linoto.core.arrays import Floats
from linoto.core.offline import Offline

SHARE_LEVEL = 0.01  # of the test whether arms were pulled late in the shares of the early half
STRENGTHS = (10.0, 100.0, 1000.0)  # of alternatives: as close to m as means of so many rewards are
NARROWED = 60  # steps of the search for the smallest ratio


def share_p(early: Offline, late: Offline) -> float:
    """p of the chi-square test that both halves pull arms in the same shares."""
    from scipy.special import chdtrc  # type: ignore[import-untyped]

    counts = np.array([early.pulls, late.pulls], dtype=np.float64)
    counts = counts[:, counts.sum(axis=0) > 0]
    rows = counts.sum(axis=1)
    if counts.shape[1] < 2 or not rows.all():
        return 1.0
    expected = np.outer(rows, counts.sum(axis=0)) / rows.sum()
    return float(chdtrc(counts.shape[1] - 1, ((counts - expected) ** 2 / expected).sum()))


def gaussian_evidence(early: Floats, late: Floats, squared: Floats) -> Floats:
    """(q,) log evidence that arms changed, from pulls and squared gaps of their means in units of the noise.

    With alternatives m + N(0, 1 / r), the ratio of a half is exp(w (mean - m)^2 / 2) / sqrt(1 + n / r) with
    w = n^2 / (n + r); the product of both is smallest at the mean of their means with weights w.
    """
    found = []
    for r in STRENGTHS:
        a, b = early**2 / (early + r), late**2 / (late + r)
        found.append(a * b / (a + b) * squared / 2 - np.log1p(early / r) / 2 - np.log1p(late / r) / 2)
    return average(np.array(found))


def click_evidence(early: Scatter, late: Scatter) -> Floats:
    """(q,) log evidence that arms of 0/1 rewards changed, exact at any number of pulls and ones."""
    halves = [(x := np.rint(half.pulls * half.mean), half.pulls - x) for half in (early, late)]
    pulls = early.pulls + late.pulls
    low, high = (
        np.clip(end(early.mean, late.mean), 0.1 / pulls, 1 - 0.1 / pulls) for end in (np.minimum, np.maximum)
    )
    ends = np.log(low / (1 - low)) - 3, np.log(high / (1 - high)) + 3
    return average(np.array([smallest_ratio(halves, r, *ends) for r in STRENGTHS]))


def smallest_ratio(halves: list[tuple[Floats, Floats]], r: float, low: Floats, high: Floats) -> Floats:
    """(q,) the smallest log ratio of both halves over the log odds of m, by golden sections."""
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(NARROWED):
        left, right = high - golden * (high - low), low + golden * (high - low)
        falls = log_ratio(halves, r, left) < log_ratio(halves, r, right)
        low, high = np.where(falls, low, left), np.where(falls, right, high)
    return log_ratio(halves, r, (low + high) / 2)


def log_ratio(halves: list[tuple[Floats, Floats]], r: float, odds: Floats) -> Floats:
    """(q,) of ones and zeros in each half: alternatives Beta(r m, r (1 - m)) against m, with its log odds."""
    from scipy.special import betaln, expit, log_expit

    up, down = r * expit(odds), r * expit(-odds)
    found = np.zeros_like(odds)
    for ones, zeros in halves:
        found += betaln(up + ones, down + zeros) - betaln(up, down)
        found -= ones * log_expit(odds) + zeros * log_expit(-odds)
    return found


def average(logs: Floats) -> Floats:
    """The log of an average, over the first axis."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).mean(axis=0)))
