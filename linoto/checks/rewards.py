"""Rewards may come late, out of order, or never."""

from __future__ import annotations

import numpy as np

from linoto.checks.problems import (
    ROUNDS,
    expect,
    expect_close,
    expect_refusal,
    expect_same,
    problem_for,
    shown_estimates,
)
from linoto.core.agent import Agent
from linoto.core.protocols import Policy

BEFORE, PENDING = 31, 24  # after 31 rounds a Doubling begins 32 more: those left pending fit into one epoch


def update_is_commit_and_observe(policy: Policy) -> None:
    """commit(arm) and observe(arm, reward) together are update(arm, reward), bit for bit."""
    problem = problem_for(policy)
    one = problem.start_agent(policy)
    two = problem.start_full_agent(policy)
    for t in range(ROUNDS):
        arm = two.select()
        two.commit(arm)
        two.observe(arm, problem.reward(arm, t))
        expect_same([arm], problem.play_rounds(one, range(t, t + 1)), f"arms of round {t}")
    expect_same(shown_estimates(one), shown_estimates(two), "theta and bounds")


def rewards_come_in_any_order(policy: Policy) -> None:
    """Rewards out of order give the estimate that they give in order."""
    (in_order, awaited), (shuffled, _) = agent_with_pending(policy), agent_with_pending(policy)
    for arm, reward in awaited:
        in_order.observe(arm, reward)
    of_arm = {arm: [reward for other, reward in awaited if other == arm] for arm, _ in awaited}
    for i in np.random.default_rng(3).permutation(len(awaited)):
        arm = awaited[i][0]
        shuffled.observe(arm, of_arm[arm].pop(0))
    if hasattr(in_order, "theta"):
        expect_close(shuffled.theta, in_order.theta, "theta", 1e-9)
    if hasattr(in_order, "ellipsoid"):
        expect_close(shuffled.ellipsoid.V, in_order.ellipsoid.V, "V", 1e-9)


def lost_rewards_block_nothing(policy: Policy) -> None:
    """An agent decides and learns on while some rewards never come."""
    problem = problem_for(policy)
    agent, awaited = agent_with_pending(policy)
    for arm, reward in awaited[::3]:
        agent.observe(arm, reward)
    arms = problem.play_rounds(agent, range(ROUNDS))
    expect(all(0 <= arm < len(problem.actions) for arm in arms), f"arms must be in range, got {set(arms)}")


def rewards_without_a_commit_are_refused(policy: Policy) -> None:
    """More rewards than commits of an arm are a ValueError that names `arm`."""
    agent, awaited = agent_with_pending(policy)
    for arm, reward in awaited:
        agent.observe(arm, reward)
    for arm, reward in dict(awaited).items():
        expect_refusal("arm", lambda arm=arm, reward=reward: agent.observe(arm, reward))  # type: ignore[misc]


def agent_with_pending(policy: Policy) -> tuple[Agent, list[tuple[int, float]]]:
    """An agent that awaits rewards, and those rewards in order."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    problem.play_rounds(agent, range(BEFORE))
    awaited = []
    for t in range(BEFORE, BEFORE + PENDING):
        arm = agent.select() if t % 2 else t % len(problem.actions)
        agent.commit(arm)
        awaited.append((arm, problem.reward(arm, t)))
    return agent, awaited
