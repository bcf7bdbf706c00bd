"""Worlds whose average rewards move after the log was taken."""

from __future__ import annotations

from math import sqrt

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.hints import amount
from linoto.worlds.bandits import DriftingBandit
from linoto.worlds.reward_laws import RewardLaw

STEPS = 20  # in which means move: enough for a curve, and the kernel looks up few rows
COMMON = 0.5  # of the variance of a move: what all arms have in common


def moving_world(
    law: RewardLaw, actions: Floats, means: Floats, *, size: float, horizon: int, rng: np.random.Generator
) -> DriftingBandit:
    """A world that begins near these means (k,) and wanders away from them, `size` far by the end."""
    starts = first_rounds(horizon)
    table = means + wander(means.size, starts.size, size, rng)
    if law.limits is not None:
        table = np.clip(table, *law.limits)
    highest = law.world(actions, table.max(axis=0))  # whose rewards can have every mean on the way
    parts = {"noise": highest.noise, "rewards": highest.rewards, "reward_range": highest.reward_range}
    return DriftingBandit(actions=actions, table=table, starts=starts, spread=highest.spread, **parts)  # type: ignore[arg-type]


def first_rounds(horizon: int) -> Ints:
    """(n,) the rounds at which the means move, the first among them."""
    return np.unique(np.arange(STEPS) * horizon // STEPS)


def wander(k: int, steps: int, size: float, rng: np.random.Generator) -> Floats:
    """(steps, k) a random walk for each arm, which is `size` from 0 after the last step on average.

    Half of the variance of every step is common to all arms, and half is each arm's own.
    """
    together, alone = rng.standard_normal((steps, 1)), rng.standard_normal((steps, k))
    moves = sqrt(COMMON) * together + sqrt(1 - COMMON) * alone
    return np.asarray(np.cumsum(moves, axis=0) * size / sqrt(steps))


def drift_text(size: float, unit: str, horizon: int) -> str:
    """Which kind of drift was drawn, in words."""
    steps = first_rounds(horizon).size
    return (
        f"after the log, the average reward of every arm wanders at random: in {steps} equal steps, to a "
        f"standard deviation of {amount(size)}\u00a0{unit} at the end of {horizon:,} rounds; half of the "
        "variance of each step is common to all arms, half is each arm's own; no average leaves the range of "
        "rewards"
    )
