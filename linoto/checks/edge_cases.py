"""The smallest and the oddest problems are problems too."""

from __future__ import annotations

import numpy as np

from linoto.checks.problems import ROUNDS, SmallProblem, expect, problem_for, shown_estimates
from linoto.core.protocols import Policy


def one_arm(policy: Policy) -> None:
    """k = 1 works: there is one arm to play."""
    expect_finite_run(policy, problem_for(policy, k=1))


def one_feature(policy: Policy) -> None:
    """d = 1 works."""
    expect_finite_run(policy, problem_for(policy)._replace(actions=problem_for(policy).actions[:, :1]))


def empty_log(policy: Policy) -> None:
    """Without a logged pull, a policy starts from nothing, or refuses the empty log by name."""
    problem = problem_for(policy, logged=())
    try:
        policy.start(problem.actions, problem.offline, rng=0)
    except ValueError as error:
        expect("offline" in str(error), f"the message must name offline, got: {error}")
        return
    expect_finite_run(policy, problem)


def duplicate_arms(policy: Policy) -> None:
    """Arms with the same action are allowed."""
    every_arm = np.arange(len(problem_for(policy).actions))
    expect_finite_run(policy, problem_for(policy).with_arms(np.r_[every_arm, every_arm]))


def rank_deficient_log(policy: Policy) -> None:
    """A log that saw one direction only gives finite bounds."""
    expect_finite_run(policy, problem_for(policy, k=8, d=5, logged=(40,)))


def expect_finite_run(policy: Policy, problem: SmallProblem) -> None:
    """Some rounds, every arm in range and every number finite."""
    agent = problem.start_agent(policy)
    arms = problem.play_rounds(agent, range(ROUNDS))
    expect(all(0 <= arm < len(problem.actions) for arm in arms), f"arms must be in range, got {set(arms)}")
    for estimate in shown_estimates(agent):
        expect(bool(np.isfinite(estimate).all()), f"estimates must be finite, got {estimate}")
