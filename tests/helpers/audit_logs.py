"""Logs for the tests of the audit: a linear world of twenty arms, and what is drawn from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import linoto
from linoto.core.arrays import Floats, Ints
from linoto.core.offline import Offline
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log

K = 20
ACTIONS = np.column_stack([np.ones(K), np.random.default_rng(0).uniform(-1, 1, (K, 3))])
THETA = np.array([0.5, 0.1, -0.1, 0.1])
PULLS = np.random.default_rng(1).integers(2, 60, K)


def draw_log(means: Floats, pulls: Ints, seed: Any, noise: float = 0.4) -> Offline:
    return linoto.Bandit(actions=np.ones((len(means), 1)), means=means, noise=noise).log(
        pulls, np.random.default_rng(seed)
    )


def table_of(actions: Floats) -> ArmTable:
    columns: dict[str, Any] = {"id": [f"arm {i}" for i in range(len(actions))]}
    columns |= {f"x{j}": column.tolist() for j, column in enumerate(actions.T)}
    return ArmTable.from_columns(columns, intercept=False)


def log_of(early: Offline, late: Offline, actions: Floats = ACTIONS, **more: Any) -> Log:
    facts = {"rows": early.total + late.total, "extent": (-2.0, 3.0), **more}
    return Log(arms=table_of(actions), early=early, late=late, **facts)


def clean_log(seed: int = 0, **more: Any) -> Log:
    halves = (draw_log(ACTIONS @ THETA, PULLS, [seed, half]) for half in (0, 1))
    return log_of(*halves, **more)
