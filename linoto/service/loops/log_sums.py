"""Sums of numbers that are kept as their logarithms.

Scalar functions, and not NumPy's, whose last bits depend on what the processor can do: evidence is stored and
decides, so it must be the same wherever a loop is replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import exp, inf, log, log1p

LOG_2 = log(2.0)


def log_add(x: float, y: float) -> float:
    """log (exp x + exp y)."""
    if x == y:
        return x + LOG_2
    return x + log1p(exp(y - x)) if x > y else y + log1p(exp(x - y))


def log_sum_exp(logs: Sequence[float]) -> float:
    """log of the sum of exp."""
    return reduce(log_add, logs) if logs else -inf


def log_mean_exp(logs: Sequence[float]) -> float:
    """log of the average of exp."""
    return log_sum_exp(logs) - log(len(logs))
