"""Names of arms and axes of features mean nothing: for deterministic policies, where no two arms tie."""

from __future__ import annotations

import numpy as np

from linoto.checks.problems import expect_same, problem_for, rename_arms, takes_any_arms
from linoto.core.protocols import Policy


def permuting_arms_permutes_decisions(policy: Policy) -> None:
    """An arm's index means nothing: other names for the arms, the same plays."""
    problem = problem_for(policy, logged=(307, 199, 101))  # a prime in all: no ties in the logging mixture
    order = np.random.default_rng(1).permutation(len(problem.actions))
    names = np.argsort(order)  # (k,) arm a is now called names[a]
    renamed = rename_arms(policy, lambda arm: int(names[arm % len(names)]))
    arms = problem.with_arms(order).arms_played(renamed)
    expect_same(order[arms].tolist(), problem.arms_played(policy), "arms")


def rotating_the_space_changes_no_decision(policy: Policy) -> None:
    """A single feature means nothing: other axes, the same plays."""
    problem = problem_for(policy)
    d = problem.actions.shape[1]
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((d, d)))[0]
    turned = problem._replace(actions=problem.actions @ rotation)
    expect_same(turned.arms_played(policy), problem.arms_played(policy), "arms")


def is_deterministic(policy: Policy) -> bool:
    """Policies that play the same whatever the seed, on arms that no log has to tell apart."""
    if not takes_any_arms(policy) or getattr(policy, "scores_by_arm", False):  # unplayed arms tie
        return False
    problem = problem_for(policy)
    arms = problem.arms_played(policy, 0)
    return all(problem.arms_played(policy, seed) == arms for seed in (1, 2, 3))
