"""Policies in plain Python: `start`, `select` and `update`, and as much more as a law needs."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import numpy as np

from linoto.checks.problems import small_problem
from linoto.core.offline import as_offline
from linoto.core.validation import as_actions, as_arm, as_generator, as_reward


class Leader:
    """Follows the best estimate. Plain Python: `start`, `select` and `update` are all there is."""

    def __init__(self, agent: type | None = None) -> None:
        self.agent = agent or LeaderAgent

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
        arms = as_actions(actions)
        return self.agent(arms, as_offline(offline, len(arms)), as_generator(rng))


class LeaderAgent:
    def __init__(self, actions: Any, offline: Any, rng: np.random.Generator) -> None:
        self.actions, self.offline, self.rng = actions, offline, rng
        self.V = np.eye(actions.shape[1]) + actions.T @ (offline.pulls[:, None] * actions)
        self.b = actions.T @ offline.reward_sums

    @property
    def theta(self) -> Any:
        return np.linalg.solve(self.V, self.b)

    def scores(self) -> Any:
        return self.actions @ self.theta

    def select(self) -> int:
        return int(np.argmax(self.scores()))

    def update(self, arm: int, reward: float) -> None:
        self.learn(as_arm(arm, len(self.actions)), as_reward(reward))

    def learn(self, arm: int, reward: float) -> None:
        self.V += np.outer(self.actions[arm], self.actions[arm])
        self.b += reward * self.actions[arm]


class PatientAgent(LeaderAgent):
    """A leader that takes delayed rewards."""

    def __init__(self, *start: Any) -> None:
        super().__init__(*start)
        self.pending = np.zeros(len(self.actions), dtype=int)

    def commit(self, arm: int) -> None:
        self.pending[as_arm(arm, len(self.actions))] += 1

    def observe(self, arm: int, reward: float) -> None:
        arm, reward = as_arm(arm, len(self.actions)), as_reward(reward)
        if not self.pending[arm]:
            raise ValueError(f"arm {arm} awaits no reward")
        self.pending[arm] -= 1
        self.learn(arm, reward)

    def update(self, arm: int, reward: float) -> None:
        arm, reward = as_arm(arm, len(self.actions)), as_reward(reward)
        self.commit(arm)
        self.observe(arm, reward)


class KeptAgent(PatientAgent):
    """A patient leader with snapshots."""

    kept: ClassVar[tuple[str, ...]] = ("V", "b", "pending")

    def snapshot(self) -> bytes:
        return json.dumps({name: getattr(self, name).tolist() for name in self.kept}).encode()


class Kept(Leader):
    """Reads its own snapshots, as a policy that linoto does not know has to."""

    def restore(self, blob: bytes) -> Any:
        problem = small_problem()
        agent = self.start(problem.actions, problem.offline)
        for name, value in json.loads(blob).items():
            setattr(agent, name, np.array(value))
        return agent
