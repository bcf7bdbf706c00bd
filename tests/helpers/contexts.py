"""A small world with contexts that several test files share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto import Agent, Decision, Moments

Floats = npt.NDArray[np.float64]


class World:
    """Rounds with their own arms, and a parameter of length 1 that says what they earn."""

    def __init__(self, seed: int, *, d: int = 4, m: int = 30, noise: float = 0.5) -> None:
        self.rng, self.d, self.noise = np.random.default_rng(seed), d, noise
        theta = self.rng.normal(size=d)
        self.theta = theta / np.linalg.norm(theta)
        self.rows = self.arms(m)
        self.outcomes = self.rows @ self.theta + noise * self.rng.normal(size=m)
        self.log = Moments.from_rows(self.rows, self.outcomes)

    def arms(self, k: int) -> Floats:
        """(k, d) inside the unit ball."""
        rows = self.rng.normal(size=(k, self.d))
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)

    def rounds(self, n: int) -> Iterator[tuple[Floats, Any, Floats]]:
        """The arms of each round, practice as it may be given, and its features on average."""
        for t in range(n):
            actions = self.arms(int(self.rng.integers(1, 8)))
            k = len(actions)
            if t % 3 == 0:
                arm = int(self.rng.integers(k))
                yield actions, arm, actions[arm]
            elif t % 3 == 1:
                weights = self.rng.dirichlet(np.ones(k))
                yield actions, weights, weights @ actions
            else:
                own = self.arms(1)
                yield actions, own, own[0]

    def reward(self, decision: Decision) -> float:
        """What it earns."""
        return float(self.theta @ np.array(decision.action) + self.noise * self.rng.normal())

    def shortfall(self, decision: Decision) -> float:
        """What is lost on average below practice."""
        assert decision.practice is not None
        if decision.by_practice:
            return 0.0
        return float(self.theta @ (np.array(decision.practice) - np.array(decision.action)))


def played(agent: Agent, world: World, n: int) -> list[Decision]:
    """The decisions of n rounds whose rewards come at once."""
    decisions = []
    for actions, practice, _ in world.rounds(n):
        decisions.append(agent.decide(actions=actions, practice=practice))
        agent.update(decisions[-1], world.reward(decisions[-1]))
    return decisions


class Clicks(World):
    """The same where rewards are 0 or 1: nonnegative features and a parameter that keep means in [0, 1].

    With `turned`, what an action earns online is 1 less what the log says: the model is wrong, and nobody
    is told.
    """

    def __init__(self, seed: int, *, d: int = 3, m: int = 200, turned: bool = False) -> None:
        self.rng, self.d, self.noise = np.random.default_rng(seed), d, 0.5
        self.theta, self.turned = np.full(d, 1.0), False
        self.rows = self.arms(m)
        self.outcomes = (self.rng.random(m) < self.rows @ self.theta).astype(float)
        self.log = Moments.from_rows(self.rows, self.outcomes)
        self.turned = turned

    def arms(self, k: int) -> Floats:
        """(k, d) with sums in [0, 1]."""
        rows = self.rng.dirichlet(np.ones(self.d), size=k)
        return np.asarray(rows * self.rng.random((k, 1)))

    def mean(self, action: Floats) -> float:
        """What an action earns on average."""
        earned = float(np.clip(self.theta @ action, 0, 1))
        return 1 - earned if self.turned else earned

    def reward(self, decision: Decision) -> float:
        return float(self.rng.random() < self.mean(np.array(decision.action)))

    def shortfall(self, decision: Decision) -> float:
        assert decision.practice is not None
        if decision.by_practice:
            return 0.0
        return self.mean(np.array(decision.practice)) - self.mean(np.array(decision.action))
