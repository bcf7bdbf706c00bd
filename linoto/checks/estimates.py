"""The estimate of a linear agent is what the log and the rewards say, to the last digits."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from linoto.checks.problems import (
    MANY_ROUNDS,
    ROUNDS,
    SmallProblem,
    expect,
    expect_close,
    innermost,
    problem_for,
)
from linoto.core import kernels
from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.protocols import Policy


def lower_bounds_never_fall(policy: Policy) -> None:
    """The running lower bounds never fall, except where a Doubling starts anew."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    for t in range(ROUNDS):
        before, epoch = agent.lcb, getattr(agent, "epoch", 0)
        problem.play_rounds(agent, range(t, t + 1))
        restarted = getattr(agent, "epoch", 0) != epoch
        if not (restarted or (agent.lcb >= before).all()):
            raise AssertionError(f"{before} fell to {agent.lcb} in round {t}")


def bounds_enclose_the_estimate(policy: Policy) -> None:
    """The bounds of every arm enclose its estimate, and the upper ones are not above the confidence set."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    for t in range(0, ROUNDS, 10):
        ellipsoid, means = agent.ellipsoid, problem.actions @ agent.theta
        sides = ellipsoid.lower, ellipsoid.upper
        lower, upper = (np.array([side(action) for action in problem.actions]) for side in sides)
        expect(bool((lower <= means).all() and (means <= upper).all()), f"{lower}, {means}, {upper}")
        if getattr(agent, "confidence", Confidence()).shift == 0:  # else online rewards bound each arm too
            expect_close(agent.ucb, upper, "upper bounds")
        expect(bool((agent.ucb <= upper + 1e-8 * np.abs(upper)).all()), f"{agent.ucb} is above {upper}")
        expect(bool((agent.lcb >= lower - 1e-8 * np.abs(lower)).all()), f"{agent.lcb} is below {lower}")
        problem.play_rounds(agent, range(t, t + 10))


def inverse_is_inverse(policy: Policy) -> None:
    """V times V^-1 is the identity."""
    estimate, _ = after_many_rounds(policy, problem_for(policy))
    expect_close(estimate.V @ estimate.inverse, np.eye(len(estimate.V)), "V V^-1")


def estimate_matches_cholesky(policy: Policy) -> None:
    """Means, variances and log det are those of a fresh Cholesky factorisation of V, whatever the log."""
    for problem in (problem_for(policy), problem_for(policy, k=8, d=5, logged=(10, 5, 5))):
        estimate, _ = after_many_rounds(policy, problem)
        root = np.linalg.cholesky(estimate.V)
        whitened = np.linalg.solve(root, problem.actions.T)  # (d, k)
        variances = (whitened**2).sum(axis=0)
        expect_close(estimate.means, np.linalg.solve(root, estimate.b) @ whitened, "means")
        expect_close(estimate.variances / variances, np.ones_like(variances), "variances")
        expect_close(estimate.log_det, 2 * np.log(np.diag(root)).sum(), "log det V")


def estimate_matches_what_was_observed(policy: Policy) -> None:
    """V and b are the sums over the log and the rewards that came in."""
    problem = problem_for(policy)
    actions, log = problem.actions, problem.offline
    estimate, arms = after_many_rounds(policy, problem)
    rewards = problem.means[arms] + problem.noise[MANY_ROUNDS - len(arms) : MANY_ROUNDS]
    counts = log.pulls + np.bincount(arms, minlength=len(actions))
    sums = log.reward_sums + np.bincount(arms, rewards, len(actions))
    V = actions.T @ (counts[:, None] * actions) + estimate.ridge * np.eye(actions.shape[1])
    expect_close(estimate.V, V, "V")
    expect_close(estimate.b, actions.T @ sums, "b")


class LinearEstimate(NamedTuple):
    """What an agent computes with."""

    V: Floats  # (d, d)
    inverse: Floats  # (d, d)
    b: Floats  # (d,)
    means: Floats  # (k,)
    variances: Floats  # (k,) a' V^-1 a
    log_det: float
    ridge: float


def after_many_rounds(policy: Policy, problem: SmallProblem) -> tuple[LinearEstimate, list[int]]:
    """The estimate after many rounds, and the arms that it knows: all, unless the agent starts anew."""
    agent = problem.start_agent(policy)
    arms = problem.play_rounds(agent, range(MANY_ROUNDS))
    inner = cast("Agent", innermost(agent))  # what it knows is of its own rounds
    return estimate_inside(inner), arms[len(arms) - inner.rounds :]


def estimate_inside(agent: Agent) -> LinearEstimate:
    """The numbers in the kernels' state."""
    state, params = agent.running.estimate, agent.running.params[0]
    return LinearEstimate(
        V=kernels.square_of(state, kernels.GRAM),
        inverse=kernels.square_of(state, kernels.INVERSE),
        b=state.vectors[kernels.TARGET],
        means=state.arms[kernels.MEAN],
        variances=state.arms[kernels.VARIANCE],
        log_det=float(state.run[0]["log_det"]),
        ridge=float(params["ridge"]),
    )
