"""How often something may happen by chance before a test says that it happens too often."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

ALARM = 1e-6


def most(runs: int, rate: float, alarm: float = ALARM) -> int:
    """The least c with P(Binomial(runs, rate) > c) <= alarm: the false-alarm rate of one comparison."""
    tail, c = 0.0, runs
    while tail <= alarm:
        ways = lgamma(runs + 1) - lgamma(c + 1) - lgamma(runs - c + 1)
        tail += exp(ways + c * log(rate) + (runs - c) * log1p(-rate))
        c -= 1
    return c + 1
