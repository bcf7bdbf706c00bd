"""The logging mixture: how far playing the log's own proportions can fall behind them."""

from __future__ import annotations

from math import e, gcd

import numpy as np

from linoto.core import kernels
from linoto.core.offline import Offline
from linoto.core.plain_python import run_once


def mixture_rounding(offline: Offline) -> float:
    """kappa: how far mixture plays can fall behind the log's shares, summed over arms; at most n/e of n.

    >>> mixture_rounding(Offline(pulls=[5, 5, 5, 5], reward_sums=[0.0, 0.0, 0.0, 0.0]))
    1.0
    """
    return deficits(offline)[0]


def rounding_below(offline: Offline, mean: float) -> float:
    """kappa where the log's mean is at most `mean` of the way from the low to the high end of rewards.

    Then few arms can be far above the low end, and only those lose by being behind their share (or gain by
    being ahead of it, which is by one play at most).

    >>> log = Offline(pulls=[5, 5, 5, 5], reward_sums=[0.0, 0.0, 0.0, 0.0])
    >>> rounding_below(log, 0.05), rounding_below(log, 0.9)
    (0.2, 1.0)
    """
    together, single = deficits(offline)
    shares = np.sort(offline.pulls[offline.pulls > 0]) / offline.total
    filled = np.clip((mean - (np.cumsum(shares) - shares)) / shares, 0.0, 1.0)  # arms of small shares first
    return min(together, max(single, 1.0) * float(filled.sum()))


def deficits(offline: Offline) -> tuple[float, float]:
    """How many plays the mixture can be behind its shares, summed over arms, and of one arm."""
    pulls = offline.pulls[offline.pulls > 0]
    shares = pulls // gcd(*pulls.tolist())
    if shares.sum() * shares.size > 5e7:  # a second of counting: beyond it, the bound of every log of n arms
        counts = np.arange(1, shares.size + 1)
        harmonic = np.cumsum(1 / counts)
        most = counts * (harmonic[-1] - harmonic)
        return float(min(most.max(), shares.size / e)), float(most[0])
    steps, total = int(shares.sum() * shares.size), int(shares.sum())
    together, single = run_once(kernels.rounding, shares, np.zeros_like(shares), total, steps=steps)
    return float(together), float(single)
