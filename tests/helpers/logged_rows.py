"""Rows of a known logger and known means, which offline evaluation is tested on."""

from __future__ import annotations

from typing import Any

import numpy as np

from linoto.logs.evaluate import doubly_robust, ips, replay, snips
from linoto.logs.rows import Rows

MEANS = np.array([0.2, 0.5, 0.8])
LOGGER = np.array([0.5, 0.3, 0.2])
TARGET = np.array([0.1, 0.3, 0.6])
TRUTH = float(TARGET @ MEANS)
ALL = (replay, ips, snips, doubly_robust)


def logged(n: int, seed: int, *, logger: Any = LOGGER, means: Any = MEANS, ids: bool = False) -> Rows:
    """Bernoulli rewards of arms drawn from the logger."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(len(logger), size=n, p=logger)
    rewards = (rng.random(n) < np.asarray(means)[arms]).astype(float)
    return Rows(
        arms=arms,
        rewards=rewards,
        k=len(logger),
        propensities=np.asarray(logger)[arms],
        ids=range(n) if ids else None,
    )
