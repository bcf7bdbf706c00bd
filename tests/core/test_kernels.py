"""The rules of Algorithm 1 as laws: the budget, the running bounds, ties, and one source for both loops."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.problems import bernoulli_problem, problem

import linoto
from linoto import (
    PAPER,
    Agent,
    Budget,
    Confidence,
    Gated,
    Greedy,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Random,
)
from linoto.core import kernels

FORMS = ("exact", "aggregate", "max")
POLICIES: dict[str, Any] = {
    "linoto-exact": LinOtO(alpha=0.05),
    "linoto-aggregate": LinOtO(alpha=0.05, budget="aggregate"),
    "linoto-max": LinOtO(alpha=0.05, budget="max"),
    "linucb": LinUCB(scale=1.0, confidence=PAPER),
    "linlcb": LinLCB(confidence=Confidence(radius="hkz")),
    "linlcb-frozen": LinLCB(frozen=True),
    "thompson": LinTS(),
    "greedy": Greedy(),
    "random": Random(),
    "gated": Gated(),
    "gated-thompson": Gated(explorer=LinTS(), gate=Budget(alpha=0.05, form="max", slack="coverage")),
    "gated-random": Gated(explorer=Random(), gate=Budget(alpha=0.05), fallback="frozen", reach="proposal"),
    "gated-fixed": Gated(explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.05), fallback=2, reach="proposal"),
}


def started(policy: Any, seed: int = 1, **sizes: Any) -> tuple[Agent, linoto.LinearBandit]:
    bandit, offline = problem(seed, **sizes)
    return policy.start(bandit.actions, offline, rng=seed), bandit


def lower(agent: Agent) -> np.ndarray:
    """(k,) the current lower bounds, without the running maximum."""
    return 2 * agent.running.state.arms[kernels.MEAN] - agent.ucb


def room(agent: Agent) -> np.ndarray:
    """(k,) B(t) with each arm in the place of U_t."""
    return np.array([agent.guard(arm).budget for arm in range(agent.k)])


# -- the budget


def test_the_exact_budget_is_the_sum_over_past_rounds() -> None:
    agent, bandit = started(LinOtO(alpha=0.05))
    rng, played = np.random.default_rng(2), []
    for t in range(1, 400):
        lcb = agent.lcb
        literal = sum(lcb[arm] for arm in played) + lcb - t * agent.baseline  # eq. (5)
        np.testing.assert_allclose(room(agent), literal, atol=1e-10 * t)
        arm = agent.select()
        agent.update(arm, bandit.means[arm] + rng.standard_normal())
        played.append(arm)


def test_the_aggregate_budget_is_the_lower_bound_of_the_sum_of_past_actions() -> None:
    agent, bandit = started(LinOtO(alpha=0.05, budget="aggregate"))
    rng, total = np.random.default_rng(3), np.zeros(5)
    for t in range(1, 400):
        literal = agent.ellipsoid.lower(total) + agent.lcb - t * agent.baseline
        np.testing.assert_allclose(room(agent), literal, atol=1e-8 * t)
        arm = int(rng.integers(agent.k)) if t % 3 else agent.select()
        agent.update(arm, bandit.means[arm] + rng.standard_normal())
        total += bandit.actions[arm]


def test_the_forms_of_the_budget_are_ordered() -> None:
    agents = {form: started(LinOtO(alpha=0.05, budget=form))[0] for form in FORMS}
    bandit, _ = problem(1)
    rng = np.random.default_rng(4)
    for t in range(1, 300):
        rooms = {form: room(agent) for form, agent in agents.items()}
        some = agents["exact"]
        plays = some.running.state.arms[kernels.PLAYS]
        current = plays @ lower(some) + some.lcb - t * some.baseline
        assert (rooms["aggregate"] >= current - 1e-9 * t).all(), "the triangle inequality"
        assert (rooms["exact"] >= current - 1e-9 * t).all(), "the running maximum"
        assert (rooms["max"] >= np.maximum(rooms["exact"], rooms["aggregate"]) - 1e-9 * t).all()
        arm = int(rng.integers(some.k))
        reward = bandit.means[arm] + rng.standard_normal()
        for agent in agents.values():
            agent.update(arm, reward)


def test_neither_the_exact_nor_the_aggregate_budget_is_always_the_larger() -> None:
    agents = [started(LinOtO(budget=form), k=10, d=4)[0] for form in ("exact", "aggregate")]
    bandit, _ = problem(1, k=10, d=4)
    rng, larger = np.random.default_rng(5), set()
    for _ in range(200):
        exact, aggregate = (agent.guard(0).budget for agent in agents)
        larger.add(np.sign(aggregate - exact))
        arm = int(rng.integers(10))
        for agent in agents:
            agent.update(arm, bandit.means[arm] + 0.1 * rng.standard_normal())
    for _ in range(400):  # the radius grows, current bounds fall, and the running maximum remembers
        exact, aggregate = (agent.guard(0).budget for agent in agents)
        larger.add(np.sign(aggregate - exact))
        for agent in agents:
            agent.update(0, bandit.means[0])
    assert {-1.0, 1.0} <= larger


@pytest.mark.parametrize("slack", ["paper", "coverage"])
def test_a_safe_play_earns_at_least_the_slack(slack: Any) -> None:
    policy = Gated(
        explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.05, slack=slack), reach="proposal", confidence=PAPER
    )
    agent, bandit = started(policy)
    rng = np.random.default_rng(6)
    promised = 0.05 * float(agent.running.run["slack"])
    earned = []
    balance = agent.decide().budget - agent.lcb[agent.decide().proposal] + agent.baseline
    for _ in range(400):
        decision = agent.decide()
        agent.update(decision, bandit.means[decision.arm] + rng.standard_normal())
        after = agent.decide()
        before, balance = balance, after.budget - agent.lcb[asked(after)] + agent.baseline
        if decision.mode == "safe":
            earned.append(balance - before)
    assert len(earned) > 10
    assert min(earned) >= promised - 1e-9 > 0


def asked(decision: linoto.Decision) -> int:
    """The arm whose room the decision reports."""
    return decision.arm if decision.mode == "explore" else decision.proposal


def test_optimism_plays_while_the_budget_is_positive_and_pessimism_otherwise() -> None:
    for form in FORMS:
        agent, bandit = started(LinOtO(alpha=0.01, budget=form))
        rng = np.random.default_rng(7)
        for _ in range(400):
            decision = agent.decide()
            if decision.mode == "explore":
                assert decision.budget > 0
            else:
                assert decision.budget <= 0
                assert decision.arm == agent.lcb.argmax() == decision.fallback
            agent.update(decision, bandit.means[decision.arm] + rng.standard_normal())


def test_a_huge_slack_is_linucb_and_a_closed_gate_is_linlcb() -> None:
    bandit, offline = problem(8)
    noise = np.random.default_rng(9).standard_normal(1000)
    arms = {
        name: policy.start(bandit.actions, offline).play(bandit.means, noise)[0]
        for name, policy in (
            ("reckless", LinOtO(alpha=1e9)),
            ("linucb", LinUCB(scale=1.0, confidence=PAPER)),
            ("closed", Gated(explorer=LinUCB(scale=1.0), gate=linoto.Closed(), confidence=PAPER)),
            ("linlcb", LinLCB(confidence=PAPER)),
        )
    }
    np.testing.assert_array_equal(arms["reckless"], arms["linucb"])
    np.testing.assert_array_equal(arms["closed"], arms["linlcb"])


def test_a_frozen_fallback_never_changes() -> None:
    agent, bandit = started(LinLCB(frozen=True))
    arms, explored = agent.play(bandit.means, np.random.default_rng(10).standard_normal(500))
    assert len(set(arms.tolist())) == 1
    assert not explored.any()


# -- the bounds


@pytest.mark.parametrize("name", POLICIES)
def test_lower_bounds_never_fall(name: str) -> None:
    agent, bandit = started(POLICIES[name])
    rng, before = np.random.default_rng(11), agent.lcb
    np.testing.assert_allclose(before, lower(agent), rtol=1e-12)
    for _ in range(200):
        arm = agent.select()
        agent.update(arm, bandit.means[arm] + rng.standard_normal())
        assert (agent.lcb >= before).all()
        assert (agent.lcb >= lower(agent) - 1e-12 * np.abs(agent.ucb).max()).all()
        assert (lower(agent) <= agent.ucb).all()
        before = agent.lcb


def test_a_commit_moves_the_budget_and_not_the_estimate() -> None:
    agent, _ = started(LinOtO())
    theta, lcb, before = agent.theta, agent.lcb, room(agent)
    agent.commit(4)
    np.testing.assert_array_equal(agent.theta, theta)
    np.testing.assert_array_equal(agent.lcb, lcb)
    np.testing.assert_allclose(room(agent) - before, lcb[4] - agent.baseline, rtol=1e-9)
    counts = (agent.rounds, agent.rewards, agent.pending.tolist())
    assert counts == (1, 0, [0, 0, 0, 0, 1] + [0] * 15)


# -- ties


@pytest.mark.parametrize("name", [name for name in POLICIES if "random" not in name])
@pytest.mark.parametrize("k", [3, 7, 8])
def test_ties_go_to_the_lowest_index(name: str, k: int) -> None:
    rng = np.random.default_rng(k)
    bandit = linoto.LinearBandit(actions=np.tile(rng.standard_normal((k, 3)), (2, 1)), theta=np.full(3, 0.3))
    pulls = np.zeros(2 * k, dtype=np.int64)
    pulls[[0, k - 1]] = 5
    agent = POLICIES[name].start(bandit.actions, bandit.log(pulls, rng), rng=0)
    arms, _ = agent.play(bandit.means, rng.standard_normal(1200))
    assert arms.max() < k, "the second copy of an arm is never better than the first"
    for row in (kernels.MEAN, kernels.VARIANCE, kernels.LCB):
        np.testing.assert_array_equal(agent.running.state.arms[row, :k], agent.running.state.arms[row, k:])


def test_equal_uniforms_tie_too() -> None:
    agent, _ = started(Random())
    agent.running.state.arms[kernels.GIVEN_SCORES] = 0.5
    assert agent.select() == 0


# -- one source for both loops


def by_hand(agent: Agent, means: np.ndarray, draws: np.ndarray, *, bernoulli: bool) -> tuple[list, list]:
    arms, explored = [], []
    for draw in draws:
        decision = agent.decide()
        agent.commit(decision)
        reward = float(draw < means[decision.arm]) if bernoulli else means[decision.arm] + draw
        agent.observe(decision.arm, reward)
        arms.append(decision.arm)
        explored.append(decision.mode == "explore")
    return arms, explored


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("bernoulli", [False, True])
def test_the_compiled_loop_is_the_interactive_one_bit_for_bit(name: str, bernoulli: bool) -> None:
    bandit, offline = bernoulli_problem(12) if bernoulli else problem(12, k=11, d=6, arms=4)
    draws = bandit.draw(700, np.random.default_rng(13))
    compiled, manual = (POLICIES[name].start(bandit.actions, offline, rng=3) for _ in range(2))
    arms, explored = compiled.play(bandit.means, draws, bernoulli=bernoulli)
    assert (arms.tolist(), explored.tolist()) == by_hand(manual, bandit.means, draws, bernoulli=bernoulli)
    assert_same_state(compiled, manual)


@pytest.mark.parametrize("name", ["thompson", "random"])
def test_a_long_compiled_run_draws_the_same_randomness_in_pieces(name: str) -> None:
    bandit, offline = problem(14, k=4, d=2, arms=2)
    draws = bandit.draw(9000, np.random.default_rng(15))
    whole, pieces = (POLICIES[name].start(bandit.actions, offline, rng=3) for _ in range(2))
    arms, _ = whole.play(bandit.means, draws)
    parts = [pieces.play(bandit.means, part)[0] for part in np.split(draws, [1, 4096, 4100, 8999])]
    np.testing.assert_array_equal(arms, np.concatenate(parts))
    assert_same_state(whole, pieces)


def assert_same_state(a: Agent, b: Agent) -> None:
    """Equal to the last bit, scratch rows included where a decision was taken last."""
    a.decide(), b.decide()
    for left, right in zip(a.running.state.arrays, b.running.state.arrays, strict=True):
        assert left.tobytes() == right.tobytes()
    assert a.running.rng.bit_generator.state == b.running.rng.bit_generator.state


# -- bounds of arrays, which compiled code does not check by itself

BOUNDS_CHECK = """
import numpy as np
import linoto
from linoto.core import kernels

rng = np.random.default_rng(0)
bandit = linoto.sphere_bandit(k=7, d=5, rng=rng)
log = bandit.log(linoto.logged_pulls(bandit, m=20, arms=3, rng=rng), rng)
gate = linoto.Budget(form="max", slack="coverage")
for explorer in (linoto.LinUCB(scale=1.0), linoto.LinTS(), linoto.Greedy(), linoto.Random()):
    for reach in ("proposal", "affordable"):
        policy = linoto.Gated(explorer=explorer, gate=gate, fallback=6, reach=reach)
        agent = policy.start(bandit.actions, log, rng=0)
        agent.play(bandit.means, rng.standard_normal(600))
        agent.update(agent.decide([2, 6]), 0.0)
        agent.update(agent.guard(6), 0.0)
for policy in (linoto.LinLCB(), linoto.LinLCB(frozen=True), linoto.LinOtO(budget="aggregate")):
    policy.start(bandit.actions, log).play(bandit.means, rng.standard_normal(600))
try:
    kernels.combine(np.zeros((1, 1)), np.zeros(1), np.zeros(0))  # reads past the end
except IndexError:
    print("checked")
"""


@pytest.mark.slow
def test_no_kernel_leaves_its_arrays(tmp_path: Path) -> None:
    env = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    root = Path(linoto.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", BOUNDS_CHECK], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["checked"], "the check itself must be on"


def test_a_log_without_pulls_leaves_the_budget_open() -> None:
    agent = LinOtO().start(np.eye(3), Offline.empty(3))
    assert agent.baseline == -np.inf
    for _ in range(10):
        decision = agent.decide()
        assert (decision.mode, decision.budget) == ("explore", np.inf)
        agent.update(decision, -1.0)
