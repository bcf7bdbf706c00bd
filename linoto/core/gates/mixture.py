"""The logging mixture: how far playing the log's own proportions can fall behind them."""

from __future__ import annotations

from math import e, gcd

import numpy as np

from linoto.core import kernels
from linoto.core.offline import Offline


def mixture_rounding(offline: Offline) -> float:
    """kappa: how far mixture plays can fall behind the log's shares, summed over arms; at most n/e of n.

    >>> mixture_rounding(Offline(pulls=[5, 5, 5, 5], reward_sums=[0.0, 0.0, 0.0, 0.0]))
    1.0
    """
    pulls = offline.pulls[offline.pulls > 0]
    shares = pulls // gcd(*pulls.tolist())
    if shares.sum() * shares.size > 5e7:  # a second of counting: beyond it, the bound of every log of n arms
        harmonic = np.cumsum(1 / np.arange(1, shares.size + 1))
        counts = np.arange(1, shares.size + 1)
        return float(min((counts * (harmonic[-1] - harmonic)).max(), shares.size / e))
    return float(kernels.rounding(shares, np.zeros_like(shares)))
