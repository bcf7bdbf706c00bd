"""The promise around changes of the arms: whoever proposes the worst arms, and whoever chooses what goes.

Every run is an adversary who knows the true means. A promise of probability 1 - delta may break in a share
delta of the runs; a test fails by mistake with a probability below 1e-6 (a binomial tail).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.chance import most

from linoto import Agent, Budget, Confidence, Control, Gated, Offline, Tolerance
from linoto.research import OlderTolerance

DELTA = 0.2
BOUNDED = Confidence(noise="bounded", reward_range=(0, 1), bound=4.0, delta=DELTA)
RUNS = [20, pytest.param(400, marks=pytest.mark.slow)]


class World:
    """One-hot or shared features, a short log, and true means that only the adversary knows."""

    def __init__(self, seed: int, *, one_hot: bool) -> None:
        self.rng = np.random.default_rng(seed)
        k = 12
        self.actions = np.eye(k) if one_hot else self.rng.random((k, 4)) / 2
        self.means = (
            self.rng.uniform(0.3, 0.7, k) if one_hot else self.actions @ self.rng.uniform(0.1, 0.5, 4)
        )
        self.one_hot = one_hot
        pulls = np.append(self.rng.integers(2, 9, k - 2), [0, 0])
        self.log = Offline(pulls=pulls, reward_sums=self.rng.binomial(pulls, self.means).astype(float))

    def unlucky(self, agent: Agent) -> int | None:
        """The logged arm that earned most above its mean in the log: without it the log looks poor."""
        luck = self.log.reward_sums - self.log.pulls * self.means[: self.log.pulls.size]
        left = (self.log.pulls > 0) & agent.present[: self.log.pulls.size]
        return int(np.where(left, luck, -np.inf).argmax()) if left.sum() > 2 else None

    def poorest(self, agent: Agent) -> int | None:
        """The logged arm that earns the least: without it practice is better."""
        k = self.log.pulls.size
        left = (self.log.pulls > 0) & agent.present[:k]
        return int(np.where(left, self.means[:k], np.inf).argmin()) if left.sum() > 2 else None

    def add_worse(self, agent: Agent) -> None:
        """An arm that comes and earns nearly nothing."""
        width = agent.actions.shape[1]
        new = np.append(np.zeros(width), 1.0) if self.one_hot else np.full(width, 0.01)
        agent.add_arms([new])
        self.means = np.append(self.means, 0.05 if self.one_hot else 0.01 * 4 * 0.1)


def practice_mean(world: World, agent: Agent) -> float:
    """mu of the logged arms that are left, in the log's shares."""
    k = world.log.pulls.size
    weights = world.log.pulls * agent.present[:k]
    return float(weights @ world.means[:k] / weights.sum())


def excess(agent: Agent, world: World, leaving: Callable[[Agent], int | None], rounds: int) -> float:
    """The most that the shortfall below practice ever exceeds what the certificate allows."""
    lost, most = 0.0, -np.inf
    realised = agent.gate.promise == "realised" if isinstance(agent.gate, Tolerance) else False
    certificate = agent.certificate
    for t in range(1, rounds + 1):
        if t % 15 == 0:
            gone = leaving(agent)
            if gone is not None:
                agent.remove_arms([gone])
            world.add_worse(agent)
            certificate = agent.certificate
        worst = int(np.where(agent.present, world.means, np.inf).argmin())
        decision = agent.guard(worst)
        reward = float(world.rng.random() < world.means[decision.arm])
        earned = reward if realised and decision.source != "mixture" else world.means[decision.arm]
        agent.update(decision, reward)
        lost += practice_mean(world, agent) - earned
        limit = certificate.loss(t)
        assert limit is not None
        most = max(most, lost - limit)
    return most


TOLERANCES: dict[str, Any] = {
    "model": Tolerance(epsilon=0.05, budget=2.0, evidence="model"),
    "rewards": Tolerance(epsilon=0.1, budget=2.0, evidence="rewards"),
    "union": OlderTolerance(epsilon=0.1, budget=2.0, evidence="rewards"),
    "realised": Tolerance(epsilon=0.1, budget=2.0, evidence="rewards", promise="realised"),
    "both-relative": Tolerance(epsilon=0.1, budget=3.0, relative=True),
}


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("name", TOLERANCES)
@pytest.mark.few(1)
def test_a_tolerance_holds_whatever_comes_and_goes(name: str, runs: int) -> None:
    broken = 0
    for seed in range(runs):
        world = World(seed, one_hot=seed % 2 == 0)
        agent = Gated(gate=TOLERANCES[name], confidence=BOUNDED).start(world.actions, world.log)
        leaving = world.unlucky if seed % 4 < 2 else world.poorest
        broken += excess(agent, world, leaving, 75) > 1e-9
    assert broken <= most(runs, DELTA)


@pytest.mark.parametrize("runs", RUNS)
def test_a_budget_keeps_every_baseline_it_ever_had(runs: int) -> None:
    broken = 0
    for seed in range(runs):
        world = World(seed, one_hot=seed % 2 == 0)
        agent = Gated(gate=Budget(alpha=0.5), confidence=BOUNDED).start(world.actions, world.log)
        surplus, least = 0.0, 0.0
        for t in range(1, 76):
            if t % 15 == 0:
                agent.remove_arms([int(np.where(agent.present, agent.lcb, -np.inf).argmax())])
                world.add_worse(agent)
            decision = agent.guard(int(np.where(agent.present, world.means, np.inf).argmin()))
            agent.update(decision, float(world.rng.random() < world.means[decision.arm]))
            surplus += world.means[decision.arm] - agent.baseline
            least = min(least, surplus)
        broken += least < -1e-9
    assert broken <= most(runs, DELTA)


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("promise", ["realised", "expected"])
@pytest.mark.few(1)
def test_control_holds_whatever_comes_and_goes(promise: Any, runs: int) -> None:
    broken = 0
    for seed in range(runs):
        world = World(seed, one_hot=seed % 2 == 0)
        gate = Control(budget=3.0, epsilon=0.1, promise=promise, loan=2.0)
        agent = Gated(gate=gate, confidence=BOUNDED).start(world.actions, world.log, rng=seed)
        lost, exceeded = 0.0, False
        for t in range(1, 91):
            if t % 15 == 0:
                gone = world.poorest(agent)
                if gone is not None:
                    agent.remove_arms([gone])
                world.add_worse(agent)
            decision = agent.guard(int(np.where(agent.present, world.means, np.inf).argmin()))
            reward = float(world.rng.random() < world.means[decision.arm])
            agent.update(decision, reward)
            if decision.mode == "explore":
                assert decision.fallback is not None
                mine = reward if promise == "realised" else world.means[decision.arm]
                lost += world.means[decision.fallback] - mine
            exceeded = exceeded or lost > 3.0 + 2.0 + 0.1 * t + 1e-9
        broken += exceeded
    assert broken <= most(runs, DELTA)
