"""An agent decides: an arm, without side effects, the same for the same seed."""

from __future__ import annotations

import numpy as np

from linoto.checks.problems import ROUNDS, expect, expect_same, problem_for, shown_estimates
from linoto.core.playing import play_in_python
from linoto.core.protocols import Policy
from linoto.worlds.simulate import simulate


def select_gives_an_arm(policy: Policy) -> None:
    """select() is a Python int in [0, k), in every round."""
    problem = problem_for(policy)
    for arm in problem.arms_played(policy):
        expect(type(arm) is int and 0 <= arm < len(problem.actions), f"select gave {arm!r}")


def select_is_pure(policy: Policy) -> None:
    """Selecting twice is selecting once: the same arm until something is committed or observed."""
    problem = problem_for(policy)
    agent = problem.start_agent(policy)
    for t in range(ROUNDS):
        arm = agent.select()
        again = agent.select()
        expect(arm == again, f"round {t} gave {arm}, then {again}")
        agent.update(arm, problem.reward(arm, t))


def selecting_more_changes_nothing(policy: Policy) -> None:
    """A run does not depend on how often its agent was asked."""
    problem = problem_for(policy)
    asked, once = problem.start_agent(policy), problem.start_agent(policy)
    for t in range(ROUNDS):
        for _ in range(t % 3):
            asked.select()
        now = range(t, t + 1)
        expect_same(problem.play_rounds(asked, now), problem.play_rounds(once, now), f"arms of round {t}")


def same_seed_same_run(policy: Policy) -> None:
    """The seed decides a run."""
    problem = problem_for(policy)
    fitting = problem.with_arms_in_range(policy)
    for seed in (0, 1):
        worlds = (problem.world for _ in range(2))
        one, two = (simulate(fitting, w, problem.offline, horizon=ROUNDS, seed=seed) for w in worlds)
        expect_same([one.arms, one.explored], [two.arms, two.explored], f"arms of seed {seed}")


def agents_are_independent(policy: Policy) -> None:
    """What one agent goes through does not reach another agent of the same policy."""
    problem = problem_for(policy)
    undisturbed = problem.arms_played(policy)
    one, other = problem.start_agent(policy), problem.start_agent(policy, seed=1)
    for t, arm in enumerate(undisturbed):
        other.update(t % len(problem.actions), problem.largest_reward)
        expect_same(problem.play_rounds(one, range(t, t + 1)), [arm], f"arms of round {t}")


def compiled_equals_interactive(policy: Policy) -> None:
    """play() gives the arms, the modes and the estimate of as many select() and update(), bit for bit."""
    problem = problem_for(policy)
    chances = np.clip(problem.means, 0.1, 0.9)
    low, high = problem.limits or (0.0, 1.0)
    worlds = [(problem.means, problem.noise, False), (chances, np.abs(problem.noise) % 1, True)]
    for means, draws, bernoulli in worlds if low <= 0 and high >= 1 else worlds[:1]:
        compiled = problem.start_full_agent(policy)
        interactive = problem.start_agent(policy)
        arms, explored = compiled.play(means, draws, bernoulli=bernoulli)
        by_steps = play_in_python(interactive, means, draws, bernoulli=bernoulli)
        expect_same([arms, explored], list(by_steps), "arms and modes")
        expect_same(shown_estimates(compiled), shown_estimates(interactive), "theta and bounds")
