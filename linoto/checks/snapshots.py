"""A snapshot holds everything that is needed to continue."""

from __future__ import annotations

from typing import Any

from linoto.checks.problems import ROUNDS, expect_same, problem_for, shown_estimates
from linoto.checks.rewards import agent_with_pending
from linoto.core.codec import encode, foreign_types
from linoto.core.protocols import Policy
from linoto.core.snapshots import restore

SNAPSHOT_ROUNDS = (0, 1, 5, 40, ROUNDS - 1)


def snapshots_have_the_same_future(policy: Policy) -> None:
    """A snapshot of any round continues as its agent did."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    blobs, arms = {}, []
    for t in range(ROUNDS):
        if t in SNAPSHOT_ROUNDS:
            blobs[t] = agent.snapshot()
        arms += problem.play_rounds(agent, range(t, t + 1))
    for t, blob in blobs.items():
        restored = restored_agent(policy, blob)
        expect_same(problem.play_rounds(restored, range(t, ROUNDS)), arms[t:], f"arms from round {t} on")
        expect_same(shown_estimates(restored), shown_estimates(agent), "theta and bounds")


def snapshots_await_the_same_rewards(policy: Policy) -> None:
    """A snapshot takes the rewards that its agent still awaited."""
    problem = problem_for(policy)
    agent, awaited = agent_with_pending(policy)
    restored = restored_agent(policy, agent.snapshot())
    for arm, reward in awaited:
        agent.observe(arm, reward)
        restored.observe(arm, reward)
    future = problem.play_rounds(agent, range(ROUNDS))
    expect_same(problem.play_rounds(restored, range(ROUNDS)), future, "arms")


def restored_agent(policy: Policy, blob: bytes) -> Any:
    """The agent of a snapshot: by `policy.restore`, if yours has one, or `linoto.restore`."""
    if hasattr(policy, "restore"):
        return policy.restore(blob)
    needs_policy = bool(foreign_types(encode(policy)))  # a snapshot holds no code of others
    return restore(blob, policy=problem_for(policy).with_arms_in_range(policy) if needs_policy else None)
