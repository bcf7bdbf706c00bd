"""What a coin must be allowed to lose before control rounds can prove anything."""

from __future__ import annotations

from math import log

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.hints import amount
from linoto.core.validation import rounded_up

SPENT = "so small a budget is spent before control rounds can prove anything"


def bet_fractions(unit: float) -> Floats:
    """(16,) what each bet stakes of its wealth, for rewards in a range of this width."""
    return np.asarray(np.cumprod([0.9 / unit] + [0.6] * (kernels.COIN_BETS - 1)), np.float64)


def stakes_for(budget: float, delta: float) -> Floats:
    """(16,) the share of the stake on each bet, for a budget in units of the range; they sum to 1.

    Any shares that are fixed before the first round are valid. Those here are largest for the first bet whose
    entrance fee is a third of the budget, fall in proportion to the fractions after it, and faster before it.
    """
    fee = kernels.FEES * log(kernels.COIN_BETS / delta)
    first = log(max(0.9 * budget / (0.95 * fee), 1.0)) / log(1 / 0.6)
    away = np.arange(kernels.COIN_BETS) - min(first, kernels.COIN_BETS - 1)
    stakes = np.where(away >= 0, 0.6**away, 0.4**-away)
    return np.asarray(stakes / stakes.sum())


def opening_budget(unit: float, delta: float) -> float:
    """What may be lost, at the least, before control rounds can prove anything: a round, and the entrance fee
    of the largest bet."""
    return unit * (1 + log(1 / (stakes_for(0.0, delta)[0] * delta)) / 0.9)


def spent_text(least: float, rate: str) -> str:
    """That a smaller budget than the least, without this rate, closes for good; a part of a sentence."""
    return (
        f"{SPENT}, and then practice is played for good: it learns with a budget of "
        f"{amount(rounded_up(least))} or more, or with a small {rate} besides"
    )
