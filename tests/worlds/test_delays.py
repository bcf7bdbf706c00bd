"""Rewards and values of guardrails that come some rounds late, in simulations and in previews."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Control, Gated, Guardrail, LinTS, LinUCB, Offline, preview, simulate
from linoto.core.playing import GivenRounds
from linoto.worlds.bandits import Bandit
from linoto.worlds.contexts import PooledRounds
from linoto.worlds.delays import Delayed
from linoto.worlds.violations import promise_violation

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
RAIL = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=15, mean=0.03)
LOG = Offline(pulls=[400, 0, 0], reward_sums=[120.0, 0.0, 0.0])
CLICKED, COMPLAINED = np.array([0.3, 0.6, 0.4]), np.array([0.03, 0.1, 0.02])


def policy(**other: Any) -> Gated:
    options: dict[str, Any] = {"gate": Control(budget=20), "guardrails": [RAIL]}
    return Gated(**{"explorer": LinUCB(scale=0.25), "confidence": CLICKS, **options, **other})


def arms_world() -> Bandit:
    metric = Bandit(actions=np.eye(3), means=COMPLAINED, rewards="bernoulli")
    return Bandit(actions=np.eye(3), means=CLICKED, rewards="bernoulli", metrics={"complaints": metric})


def pool(means: Any, **how: Any) -> PooledRounds:
    """Two contexts with three arms each, of which the first is practice's."""
    ends, weights = np.array([3, 6]), np.tile([1.0, 0.0, 0.0], 2)
    given = GivenRounds(ends=ends, actions=np.eye(6), weights=weights, means=np.tile(means, 2))
    return PooledRounds(pool=given, chances=np.array([0.5, 0.5]), rewards="bernoulli", **how)


def rounds_world() -> PooledRounds:
    return pool(CLICKED, metrics={"complaints": pool(COMPLAINED)})


WORLDS: dict[str, Any] = {"arms": (arms_world, LOG), "rounds": (rounds_world, None)}


@pytest.mark.parametrize("kind", WORLDS)
def test_no_delay_is_what_is_compiled(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, log = WORLDS[kind]
    compiled = simulate(policy(), make(), log, horizon=400, seed=2)
    monkeypatch.setattr("linoto.worlds.simulate.as_late", lambda agent, delay: Delayed(agent, delay))
    asked = simulate(policy(), make(), log, horizon=400, seed=2)
    assert np.array_equal(compiled.arms, asked.arms) and np.array_equal(compiled.control, asked.control)
    assert compiled.explored.any() and compiled.control.any()


@pytest.mark.parametrize("explorer", [LinUCB(scale=0.25), LinTS()], ids=["ucb", "ts"])
def test_a_delay_is_what_a_loop_by_hand_does(explorer: Any) -> None:
    """Decide, commit, and tell what was paid 9 rounds ago."""
    chosen, delay, horizon = policy(explorer=explorer), 9, 200
    found = simulate(chosen, arms_world(), LOG, horizon=horizon, seed=5, delay=delay)
    draw, own, _, other = (np.random.default_rng(child) for child in np.random.SeedSequence(5).spawn(4))
    uniforms, besides = draw.random(horizon), other.random(horizon)
    agent, late, arms = chosen.start(np.eye(3), LOG, rng=own), deque[Any](), []
    for t in range(horizon):
        decision = agent.decide()
        agent.commit(decision)
        arms.append(decision.arm)
        click, complaint = uniforms[t] < CLICKED[decision.arm], besides[t] < COMPLAINED[decision.arm]
        late.append((decision, float(click), {"complaints": float(complaint)}))
        if len(late) > delay:
            earlier, reward, values = late.popleft()
            agent.observe(earlier, reward, values)
    assert found.arms.tolist() == arms


@pytest.mark.parametrize("kind", WORLDS)
def test_what_is_open_counts_at_its_worst_so_that_less_is_explored(kind: str) -> None:
    make, log = WORLDS[kind]
    explored = [
        simulate(policy(), make(), log, horizon=500, seed=1, delay=delay).explored.mean()
        for delay in (0, 40, 200)
    ]
    assert explored[0] > explored[1] > explored[2] > 0
    late = simulate(policy(), make(), log, horizon=500, seed=1, delay=40)
    assert promise_violation(policy(), make(), log, late) <= 0


def test_a_preview_says_that_rewards_come_late() -> None:
    found = [
        preview(np.eye(3), LOG, policy=policy(guardrails=[]), grid=[20], horizon=150, worlds=3, delay=delay)
        for delay in (0, 60)
    ]
    at_once, late = (one.points[0].explored.mean() for one in found)
    assert late < at_once and found[1].to_dict()["delay"] == 60 and "delay" not in found[0].to_dict()
    assert "rewards 60 rounds late" in found[1]._repr_html_()


class Chooser:
    """A policy of somebody else's, whose agent can only select and update."""

    def start(self, actions: Any, offline: Any, rng: Any) -> Chooser:
        return self

    def select(self) -> int:
        return 0

    def update(self, arm: int, reward: float) -> None: ...


@pytest.mark.parametrize(
    "who, delay, message",
    [
        (policy(), -1, "delay must be a whole number of rounds >= 0, got -1"),
        (policy(), 1.5, "delay must be a whole number of rounds >= 0, got 1.5"),
        (Chooser(), 3, "policy must have agents that decide, commit and observe for a delay"),
    ],
)
def test_what_cannot_be_late_is_refused(who: Any, delay: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        linoto.simulate(who, arms_world(), LOG, horizon=5, delay=delay)
