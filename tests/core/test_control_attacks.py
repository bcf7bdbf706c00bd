"""Callers who know more than they should try to break the promise of a Control gate, round by round.

Each attack is played in a few runs at delta = .05. Of 10 runs, 4 or more break a promise that holds with a
probability of 1e-3 at most, and of 8 runs with 4e-4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto.core.decisions import Decision

CLICKS: dict[str, Any] = {"reward_range": (0, 1), "noise": "bounded"}
SURE = linoto.Confidence(**CLICKS)
EVEN = linoto.Offline(pulls=[100, 100, 0], reward_sums=[90.0, 10.0, 0.0])  # right: .9 and .1
TURNED = linoto.Offline(pulls=[100, 100, 0], reward_sums=[10.0, 90.0, 0.0])  # wrong: .1 and .9
MEANS = np.array([0.9, 0.1, 0.0])


def excess_of_picked_rounds(seed: int, log: linoto.Offline, gate: linoto.Control, rounds: int = 250) -> float:
    """Who sees the arm that practice draws, and disputes only the good one, with an arm that earns nothing.

    Practice counts in means; the largest sum above budget and epsilon t.
    """
    guard, rng = linoto.Guard(log, gate=gate, rng=seed, **CLICKS), np.random.default_rng([1, seed])
    lost, over = 0.0, -np.inf
    for t in range(rounds):
        practice = guard.practice
        assert practice is not None
        decision = guard.decide(2 if practice == 0 else practice)
        reward = float(rng.random() < MEANS[decision.arm])
        guard.update(decision, reward)
        if decision.mode == "explore":
            lost += MEANS[practice] - reward
        over = max(over, lost - gate.budget - gate.epsilon * (t + 1))
    return over


@pytest.mark.parametrize("log, allowed", [(EVEN, 0.0), (TURNED, 12.0)], ids=["right", "wrong"])
def test_rounds_picked_by_practices_draw_spend_no_more_than_the_loan(
    log: linoto.Offline, allowed: float
) -> None:
    """The log vouches for practice's mean, not for that of the good arm: it is charged by arm."""
    gate = linoto.Control(budget=4.0, epsilon=0.02, loan=12.0)
    found = [excess_of_picked_rounds(seed, log, gate) for seed in range(10)]
    assert sum(over > allowed + 1e-9 for over in found) < 4
    assert max(found) > allowed - 9.0  # it was tried in earnest


def hides_bad_news(agent: Any, decision: Decision, reward: float, kept: list[tuple[Decision, float]]) -> Any:
    """Good news at once; bad news is kept back, and given in the reverse order when ten have come."""
    if (decision.source == "control") == (reward > 0.5) and decision.source in ("control", "explorer"):
        kept.append((decision, reward))
    else:
        agent.observe(decision, reward)
    while len(kept) > 10:
        agent.observe(*kept.pop())
    return agent


def restores(agent: Any, decision: Decision, reward: float, kept: list[tuple[Decision, float]]) -> Any:
    """A crash between the decision and its reward, every other time that the reward is bad news."""
    kept.append((decision, reward))
    if len(kept) % 2 and (decision.source == "control") == (reward > 0.5):
        agent = linoto.restore(agent.snapshot())
    agent.observe(decision, reward)
    return agent


def excess(
    seed: int, report: Any, *, agent: Any, propose: Any, rounds: int = 150, limit: float, rate: float
) -> float:
    """The largest sum of what practice would have earned more, as rewards come, above the limit."""
    rng, kept = np.random.default_rng([2, seed]), []  # type: ignore[var-annotated]
    lost, over, last = 0.0, -np.inf, ""
    for t in range(rounds):
        rewards = np.array([0.0, 0.0, 1.0]) if last == "explorer" else np.array([1.0, 1.0, 0.0])
        rewards = np.where(rng.random(3) < 0.2, rng.random(3) < 0.5, rewards)  # the ends of the range alone
        decision = propose(agent, rewards)
        agent.commit(decision)
        if decision.mode == "explore":
            lost += rewards[decision.fallback] - rewards[decision.arm]
        over, last = max(over, lost - limit - rate * (t + 1)), decision.source
        agent = report(agent, decision, float(rewards[decision.arm]), kept)
    return over


def ask_guard(guard: linoto.Guard, rewards: Any) -> Decision:
    """Dispute where practice earns more this time than arm 2, or one time in eight."""
    return guard.decide(
        2 if rewards[guard.practice] > rewards[2] or guard.rounds % 8 == 0 else guard.practice
    )


def ask_agent(agent: Any, rewards: Any) -> Decision:
    """The same, of an agent that does not say what practice draws: dispute where arm 2 earns nothing."""
    decision: Decision = agent.guard(2 if rewards[2] == 0 else 0)
    return decision


@pytest.mark.parametrize("report", [hides_bad_news, restores])
@pytest.mark.parametrize("kind", ["guard", "agent"])
@pytest.mark.few(1)
def test_callers_who_foresee_rewards_and_choose_when_to_report_them(kind: str, report: Any) -> None:
    """Rewards turn against the last coin, at the ends of the range; reports are late, turned round, or lost.

    And there are crashes after bad news.
    """
    gate = linoto.Control(budget=3.0, epsilon=0.05)
    found = []
    for seed in range(8):
        agent: Any = linoto.Guard(EVEN, gate=gate, rng=seed, **CLICKS)
        if kind == "agent":
            agent = linoto.Gated(gate=gate, confidence=SURE).start(np.eye(3), EVEN, rng=seed)
        ask = ask_guard if kind == "guard" else ask_agent
        found.append(excess(seed, report, agent=agent, propose=ask, limit=3.0, rate=0.05))
    assert sum(over > 1e-9 for over in found) < 4


def test_a_snapshot_holds_the_coin_that_will_be_thrown() -> None:
    """So a crash throws no new coin; and who restores a snapshot after a decision knows what it will be."""
    guard = linoto.Guard(EVEN, gate=linoto.Control(budget=9.0), rng=3, **CLICKS)
    for _ in range(30):
        blob, decision = guard.snapshot(), guard.decide(2)
        again: Any = linoto.restore(blob)
        assert again.decide(2) == decision
        guard.update(decision, 0.0)
