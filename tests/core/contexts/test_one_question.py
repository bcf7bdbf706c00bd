"""A round with contexts has one question once something of its draw was shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Control, Gated, Moments, Tolerance

SURE = Confidence(reward_range=(0.0, 1.0), noise="bounded", bound=2.0)
GOOD, BAD = [1.0, 1.0], [1.0, 0.0]


def log_of(rows: int = 500) -> Moments:
    rng = np.random.default_rng(1)
    features = np.column_stack([np.ones(rows), rng.integers(0, 2, rows)])
    return Moments.from_rows(features, (rng.random(rows) < 0.2 + 0.6 * features[:, 1]).astype(float))


def agent_of(gate: Any, **options: Any) -> Any:
    return Gated(gate=gate, confidence=SURE, **options).start(log_of(), rng=0)


@pytest.mark.parametrize("gate", [Tolerance(budget=1.0, evidence="model"), Control(budget=1.0)])
def test_what_is_only_looked_at_changes_nothing_that_is_safe(gate: Any) -> None:
    agent, other = (agent_of(gate, fallback="mixture") for _ in range(2))
    for _ in range(20):
        decisions = []
        for looks, one in ((True, agent), (False, other)):
            decision = one.decide(actions=[GOOD, BAD], practice=0, safe=True)
            if looks:
                one.propensity(0, actions=[BAD, BAD], practice=0)
            bounds, safe = one.bounds(decision), one.play_safe(decision)
            decisions.append((bounds, safe))
            one.update(safe, 1.0)
        assert decisions[0] == decisions[1] and decisions[0][1].action == tuple(GOOD)


def test_only_the_decision_just_made_is_played_safe() -> None:
    agent = agent_of(Tolerance(budget=1.0, evidence="model"), fallback="mixture")
    first = agent.decide(actions=[GOOD, BAD], practice=0)
    agent.decide(actions=[BAD, BAD], practice=0)
    with pytest.raises(ValueError, match="decision must be the one just made"):
        agent.play_safe(first)


@pytest.mark.parametrize("safe", [False, True])
def test_practices_draw_binds_once_it_is_shown(safe: bool) -> None:
    """Who could ask for another order of arms afterwards would choose among draws."""
    agent = agent_of(Tolerance(budget=1.0, evidence="model"), fallback="mixture")
    for _ in range(20):
        question: dict[str, Any] = {"actions": [GOOD, BAD], "practice": [0.5, 0.5], "safe": safe}
        shown = agent.play_safe(agent.decide(**question))
        assert shown.source == "practice"
        with pytest.raises(ValueError, match="practice was drawn"):
            agent.decide(actions=[BAD, GOOD], practice=[0.5, 0.5], safe=safe and agent.running.stays_safe)
        if safe:
            assert agent.play_safe(agent.decide(**question)).arm == shown.arm
        with pytest.raises(ValueError, match="practice was drawn"):
            agent.commit(replace(shown, arm=1 - shown.arm))
        agent.update(shown, 1.0)


def test_a_certified_arm_binds_nobody() -> None:
    """Practice may be played in its place: what is certified shows nothing of practice's draw."""
    agent = agent_of(Tolerance(budget=50.0, evidence="model"))
    shown = agent.play_safe(agent.decide(actions=[BAD, GOOD, BAD], practice=[0.5, 0.0, 0.5]))
    assert shown.source == "lcb" and shown.arm == 1
    agent.commit(replace(shown, arm=0, source="practice", action=tuple(BAD)))


def test_a_restored_agent_knows_the_decision_that_stands() -> None:
    agent = agent_of(Control(budget=5.0))
    decision = agent.decide(actions=[GOOD, BAD], practice=[0.5, 0.5])
    again = linoto.restore(agent.snapshot())
    assert again.bounds(decision) == agent.bounds(decision)
    assert again.play_safe(decision) == agent.play_safe(decision)


# -- many rounds at once


def rounds(n: int = 3) -> dict[str, Any]:
    return {
        "ends": np.arange(1, n + 1) * 2,
        "actions": np.array([GOOD, BAD] * n),
        "weights": np.array([1.0, 0.0] * n),
    }


def test_rewards_beyond_the_range_are_not_played() -> None:
    agent = agent_of(Control(budget=5.0))
    with pytest.raises(ValueError, match="reward_range must hold every reward"):
        agent.play_rounds(np.array([0.8, 0.2] * 3), np.full(3, 4.0), **rounds())
    assert agent.rounds == 0


def test_rounds_are_not_played_over_one_that_is_decided() -> None:
    agent = agent_of(Control(budget=5.0))
    agent.decide(actions=[BAD, GOOD], practice=0, safe=True)
    with pytest.raises(ValueError, match="safe=True"):
        agent.play_rounds(np.array([0.8, 0.2] * 3), np.zeros(3), **rounds())
    agent = agent_of(Control(budget=5.0))
    agent.update(agent.decide(actions=[BAD, GOOD], practice=0), 0.0)
    while agent.decide(actions=[BAD, GOOD], practice=0).control_share is None:
        agent.update(agent.decide(actions=[BAD, GOOD], practice=0), 1.0)
    with pytest.raises(ValueError, match="rounds must begin after a commit"):
        agent.play_rounds(np.array([0.8, 0.2] * 3), np.zeros(3), **rounds())
