"""What an agent is given stays the caller's; what it cannot use is refused by name."""

from __future__ import annotations

import math

import numpy as np

from linoto.checks.problems import ROUNDS, expect_refusal, expect_same, problem_for, shown_estimates
from linoto.core.offline import Offline
from linoto.core.protocols import Policy

BAD_ARMS = (-1, 6, 10**30, 1.0, "0", None, True)  # k is 6
BAD_REWARDS = (math.nan, math.inf, -math.inf, None, "high", 1j, 10**400)


def inputs_are_not_mutated(policy: Policy) -> None:
    """Starting and playing leave the actions as they were; logs are read-only anyway."""
    problem, actions = problem_for(policy), problem_for(policy).actions.copy()
    agent = problem.with_arms_in_range(policy).start(actions, problem.offline, rng=0)
    problem.play_rounds(agent, range(ROUNDS))
    expect_same([actions], [problem.actions], "actions before and after")


def inputs_are_not_aliased(policy: Policy) -> None:
    """An agent keeps a copy of the actions: what the caller does with them later changes nothing."""
    problem, actions = problem_for(policy), problem_for(policy).actions.copy()
    agent = problem.with_arms_in_range(policy).start(actions, problem.offline, rng=0)
    actions[:] = 7.0
    untouched = problem.arms_played(policy)
    expect_same(problem.play_rounds(agent, range(ROUNDS)), untouched, "arms")


def bad_actions_are_refused(policy: Policy) -> None:
    """NaN, infinite, misshapen or missing actions are a ValueError that names `actions`."""
    actions, offline = problem_for(policy).actions, problem_for(policy).offline
    nan, inf = actions.copy(), actions.copy()
    nan[0, 0], inf[1, 1] = np.nan, -np.inf
    for bad in (nan, inf, actions[0], actions[None], actions[:0], actions[:, :0], "actions"):
        expect_refusal("actions", lambda bad=bad: policy.start(bad, offline, rng=0))  # type: ignore[misc]


def bad_logs_are_refused(policy: Policy) -> None:
    """A log of other arms, or of another type, is a ValueError that names `offline`."""
    problem = problem_for(policy)
    for bad in (Offline.empty(len(problem.actions) + 1), problem.offline.pulls, None):
        expect_refusal("offline", lambda bad=bad: policy.start(problem.actions, bad, rng=0))  # type: ignore[misc]


def bad_arms_are_refused(policy: Policy) -> None:
    """An arm out of range, or not an integer, is a ValueError that names `arm`."""
    problem = problem_for(policy)
    agent = problem.start_agent(policy)
    for bad in BAD_ARMS:
        expect_refusal("arm", lambda bad=bad: agent.update(bad, problem.reward(0, 0)))  # type: ignore[misc]


def bad_rewards_are_refused(policy: Policy) -> None:
    """A reward that is not a finite number is a ValueError that names `reward`."""
    agent = problem_for(policy).start_agent(policy)
    for bad in BAD_REWARDS:
        expect_refusal("reward", lambda bad=bad: agent.update(0, bad))  # type: ignore[misc]


def refused_calls_change_nothing(policy: Policy) -> None:
    """After a refused update, the run continues as if there had been no call."""
    problem = problem_for(policy)
    tried, untouched = problem.start_agent(policy), problem.start_agent(policy)
    for t in range(ROUNDS):
        for arm, reward in (
            (BAD_ARMS[t % len(BAD_ARMS)], problem.reward(0, t)),
            (t % 6, BAD_REWARDS[t % len(BAD_REWARDS)]),
        ):
            expect_refusal("", lambda arm=arm, reward=reward: tried.update(arm, reward))  # type: ignore[misc]
        now = range(t, t + 1)
        expect_same(problem.play_rounds(tried, now), problem.play_rounds(untouched, now), f"round {t}")
    expect_same(shown_estimates(tried), shown_estimates(untouched), "theta and bounds")
