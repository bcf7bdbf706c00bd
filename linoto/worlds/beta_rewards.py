"""Rewards of a range with any mean and any variance: Beta laws, as few values that have their moments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats, Ints

VALUES = 8  # of a reward: the first fifteen moments are those of the Beta law
LEAST = 1e-12  # share of the largest variance: what is less is as good as none


class BetaRewards(NamedTuple):
    """What n arms pay, each by VALUES values of its range and their chances."""

    values: Floats  # (n, VALUES) from the lowest on
    chances: Floats  # (n, VALUES) of this value or a lower one

    def paid(self, arms: Ints, draws: Floats) -> Floats:
        """(m,) rewards of these arms (m,), by uniform draws (m,)."""
        place = (draws[:, None] >= self.chances[arms, :-1]).sum(axis=1)
        return np.asarray(self.values[arms, place])

    def table(self, draws: Floats) -> Floats:
        """(m, n) what every arm would pay in rounds with these uniform draws (m,)."""
        place = np.zeros((draws.size, len(self.values)), dtype=np.int8)
        for chance in self.chances.T[:-1]:
            place += draws[:, None] >= chance
        return np.asarray(self.values[np.arange(len(self.values)), place])


def beta_rewards(means: Floats, shares: Floats, limits: tuple[float, float]) -> BetaRewards:
    """Rewards within limits with these means (n,), whose variance is a share (n,) of the largest possible.

    In a range scaled to [0, 1] the variance is s m (1 - m), that of a Beta(m c, (1 - m) c) with c = 1/s - 1:
    0/1 rewards for s = 1, none for s = 0. Values and chances are the nodes and weights of its Gauss
    quadrature (Golub and Welsch 1969): a law on VALUES points of the range with the moments of the Beta up to
    2 VALUES - 1. So mean and variance are exact, and a reward costs a comparison and no special function.
    """
    low, high = limits
    m = np.clip((means - low) / (high - low), 0.0, 1.0)
    c = 1 / np.clip(shares, LEAST, 1 - LEAST) - 1
    nodes, axes = np.linalg.eigh(jacobi(m, c))
    chances = np.cumsum(axes[:, 0, :] ** 2, axis=1)
    return BetaRewards(low + (high - low) * np.clip(nodes, 0.0, 1.0), chances / chances[:, -1:])


def jacobi(m: Floats, c: Floats) -> Floats:
    """(n, VALUES, VALUES) the recurrence of polynomials that are orthogonal for Beta(m c, (1 - m) c)."""
    found = np.zeros((m.size, VALUES, VALUES))
    found[:, 0, 0] = m
    for i in range(1, VALUES):
        lean = (
            (2 * m - 1) * (c - 2) / (c + 2)
            if i == 1
            else (2 * m - 1) * c * (c - 2) / (2 * i + c - 2) / (2 * i + c)
        )
        found[:, i, i] = (1 + lean) / 2
        square = m * (1 - m) / (1 + c)
        if i > 1:
            ends = (i - 1 + m * c) * (i - 1 + (1 - m) * c)
            square = i * ends * (i + c - 2) / ((2 * i + c - 2) ** 2 * (2 * i + c - 1) * (2 * i + c - 3))
        found[:, i, i - 1] = found[:, i - 1, i] = np.sqrt(np.maximum(square, 0.0))
    return found
