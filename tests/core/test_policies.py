"""Policies as compositions: the paper's algorithms are special cases, the gate is safe for any explorer."""

from math import erf, sqrt
from typing import Any

import numpy as np
import pytest

from linoto.checks.problems import small_problem
from linoto.core.confidence import PAPER, Confidence
from linoto.core.gates import Budget, Closed, Open
from linoto.core.offline import Offline
from linoto.core.policies import Gated, Greedy, LinLCB, LinOtO, LinTS, LinUCB, Random
from linoto.worlds.bandits import LinearBandit, on_sphere
from linoto.worlds.simulate import simulate

SEEDS = range(4)


def instance(
    seed: int, *, k: int = 8, d: int = 3, logged: int = 3, pulls: int = 8
) -> tuple[LinearBandit, Offline]:
    """A small instance on the sphere, its log spread over the first arms."""
    rng = np.random.default_rng([seed, k, d])
    bandit = LinearBandit(actions=on_sphere(k, d, rng), theta=on_sphere(1, d, rng)[0])
    return bandit, bandit.log([pulls] * logged + [0] * (k - logged), rng)


def arms_of(policy: Any, seed: int, horizon: int = 400) -> list[int]:
    bandit, offline = instance(seed)
    arms: list[int] = simulate(policy, bandit, offline, horizon=horizon, seed=seed).arms.tolist()
    return arms


# -- special cases ------------------------------------------------------------------------------------------

SAME = [
    (
        LinOtO(alpha=0.01, budget=form),  # type: ignore[arg-type]
        Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=0.01, form=form),
            fallback="lcb",
            reach="proposal",
            confidence=PAPER,
        ),
    )
    for form in ("exact", "aggregate", "max")
] + [
    (LinUCB(scale=0.5, confidence=PAPER), Gated(explorer=LinUCB(scale=0.5), gate=Open(), confidence=PAPER)),
    (LinUCB(scale=1.0), Gated(explorer=LinUCB(scale=1.0), gate=Open(), reach="proposal")),
    (LinLCB(confidence=PAPER), Gated(explorer=Random(), gate=Closed(), fallback="lcb", confidence=PAPER)),
    (LinLCB(frozen=True), Gated(gate=Closed(), fallback="frozen")),
    (LinTS(scale=0.3), Gated(explorer=LinTS(scale=0.3), gate=Open())),
    (Greedy(), Gated(explorer=Greedy(), gate=Open())),
    (Random(), Gated(explorer=Random(), gate=Open(), confidence=PAPER)),
]


@pytest.mark.parametrize("policy, gated", SAME, ids=[str(policy)[:40] for policy, _ in SAME])
def test_every_policy_is_a_case_of_gated(policy: Any, gated: Gated) -> None:
    for seed in SEEDS:
        assert arms_of(policy, seed) == arms_of(gated, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_infinite_budget_is_linucb(seed: int) -> None:
    assert arms_of(LinOtO(alpha=1e9), seed) == arms_of(LinUCB(scale=1.0, confidence=PAPER), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_exploration_is_greedy(seed: int) -> None:
    greedy = arms_of(Greedy(), seed)
    assert arms_of(LinTS(scale=0.0, prior="scaled"), seed) == greedy
    assert arms_of(LinUCB(scale=0.0), seed) == greedy


@pytest.mark.parametrize("seed", SEEDS)
def test_a_frozen_pessimist_never_moves_and_the_other_only_up(seed: int) -> None:
    bandit, offline = instance(seed)
    agent = LinLCB(confidence=PAPER).start(bandit.actions, offline)
    assert set(arms_of(LinLCB(frozen=True, confidence=PAPER), seed)) == {int(np.argmax(agent.lcb))}
    for t in range(200):
        decision = agent.decide()
        assert decision.arm == np.argmax(agent.lcb)
        assert (decision.mode, decision.source, decision.budget) == ("safe", "lcb", None)
        agent.update(decision, float(bandit.means[decision.arm] + (-1) ** t))


def test_an_empty_log_leaves_the_budget_open() -> None:
    bandit, _ = instance(0)
    run = simulate(LinOtO(), bandit, Offline.empty(8), horizon=200, seed=1)
    free = simulate(LinUCB(scale=1.0, confidence=PAPER), bandit, Offline.empty(8), horizon=200, seed=1)
    assert run.explored.all() and np.array_equal(run.arms, free.arms)


# -- the gate -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["exact", "aggregate", "max"])
@pytest.mark.parametrize("seed", SEEDS)
def test_without_budget_the_arm_is_pessimistic_and_with_it_optimistic(seed: int, form: Any) -> None:
    bandit, offline = instance(seed, pulls=30)
    rng = np.random.default_rng(seed)
    agent = LinOtO(alpha=0.03, budget=form).start(bandit.actions, offline)
    modes = set()
    for _ in range(400):
        decision = agent.decide()
        assert decision.budget is not None
        assert decision.proposal == np.argmax(agent.ucb) and decision.fallback == np.argmax(agent.lcb)
        assert decision.arm == (decision.proposal if decision.budget > 0 else decision.fallback)
        assert decision.mode == ("explore" if decision.budget > 0 else "safe")
        modes.add(decision.mode)
        agent.update(decision, float(bandit.means[decision.arm] + rng.standard_normal()))
    assert modes == {"explore", "safe"}


def test_the_exact_budget_is_the_sum_of_the_paper() -> None:
    bandit, offline = instance(3, pulls=30)
    rng = np.random.default_rng(3)
    agent = LinOtO(alpha=0.03).start(bandit.actions, offline)
    played: list[int] = []
    for t in range(1, 301):
        decision = agent.decide()
        wanted = agent.lcb[played].sum() + agent.lcb[decision.proposal] - t * agent.baseline
        assert decision.budget == pytest.approx(wanted, abs=1e-9)
        played.append(decision.arm)
        agent.update(decision, float(bandit.means[decision.arm] + rng.standard_normal()))


@pytest.mark.parametrize("form", ["aggregate", "max"])
def test_the_other_budgets_are_lower_bounds_of_sums_of_actions(form: Any) -> None:
    bandit, offline = instance(3, pulls=30)
    rng = np.random.default_rng(3)
    agent = LinOtO(alpha=0.03, budget=form).start(bandit.actions, offline)
    played: list[int] = []
    for t in range(1, 201):
        decision = agent.decide()
        x, past = bandit.actions[decision.proposal], bandit.actions[played].sum(axis=0)
        lcb, lower = agent.lcb, agent.ellipsoid.lower
        aggregate = lower(past) + lcb[decision.proposal]
        wanted = {
            "aggregate": aggregate,
            "max": max(aggregate, lower(past + x), lcb[played].sum() + lcb[decision.proposal]),
        }
        assert decision.budget == pytest.approx(wanted[form] - t * agent.baseline, abs=1e-8)
        played.append(decision.arm)
        agent.update(decision, float(bandit.means[decision.arm] + rng.standard_normal()))


POLITE = [
    LinOtO(alpha=0.05),
    LinOtO(alpha=0.05, budget="aggregate"),
    LinOtO(alpha=0.05, budget="max"),
    Gated(explorer=Random(), gate=Budget(alpha=0.2), confidence=PAPER),
    Gated(gate=Budget(alpha=0.2, slack="coverage", form="max")),
    Gated(explorer=LinTS(), gate=Budget(alpha=0.2), reach="proposal", confidence=Confidence(radius="hkz")),
]


def outcome(
    agent: Any, bandit: LinearBandit, rng: np.random.Generator, enemy: bool
) -> tuple[bool, bool, int]:
    """60 rounds: did theta stay in every confidence set, did M(t) >= t r_b hold, how often did it explore."""
    worst, earned, explored = int(np.argmin(bandit.means)), 0.0, 0
    good = kept = True
    for t in range(1, 61):
        good &= agent.ellipsoid.contains(bandit.theta)
        decision = agent.guard(worst) if enemy else agent.decide()
        assert not enemy or decision.arm in (worst, decision.fallback)
        explored += decision.mode == "explore"
        earned += bandit.means[decision.arm]
        kept &= earned >= t * agent.baseline - 1e-9
        agent.update(decision, float(bandit.means[decision.arm] + rng.standard_normal()))
    return good, kept, explored


@pytest.mark.parametrize("enemy", [False, True], ids=["explorer", "enemy"])
@pytest.mark.parametrize("policy", POLITE, ids=str)
@pytest.mark.parametrize(("runs", "good_ones"), [(16, 11), pytest.param(200, 175, marks=pytest.mark.slow)])
@pytest.mark.few(2)
def test_mean_reward_never_falls_below_the_baseline(
    policy: Any, enemy: bool, runs: int, good_ones: int
) -> None:
    """On the good event no run breaks the promise, even if an enemy proposes the worst arm in every round.

    The good event has probability 0.95 or more in each run: fewer than 11 good ones of 16, or than 175 of
    200, would be a false alarm with probability below 1e-4.
    """
    good_runs, explored = 0, 0
    for seed in range(runs):
        bandit, offline = instance(seed, k=5, pulls=10)
        agent = policy.start(bandit.actions, offline, rng=seed)
        good, kept, plays = outcome(agent, bandit, np.random.default_rng([2, seed]), enemy)
        assert kept or not good
        good_runs += good
        explored += plays
    assert good_runs >= good_ones
    assert explored > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wider_reach_explores_whenever_a_proposal_would(seed: int) -> None:
    bandit, offline = instance(seed, pulls=30)
    rng = np.random.default_rng(seed)
    wide = Gated(explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.01), confidence=PAPER).start(
        bandit.actions, offline
    )
    narrow = LinOtO(alpha=0.01).start(bandit.actions, offline)
    for _ in range(300):
        asked, reached = narrow.decide(), wide.decide()
        assert asked.proposal == reached.proposal
        if asked.mode == "explore":
            assert (reached.mode, reached.arm) == ("explore", asked.arm)
        reward = float(bandit.means[asked.arm] + rng.standard_normal())
        for agent in (wide, narrow):  # the same history for both
            agent.update(asked.arm, reward)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wider_reach_takes_the_best_affordable_score(seed: int) -> None:
    bandit, offline = instance(seed, pulls=30)
    rng = np.random.default_rng(seed)
    agent = Gated(explorer=LinUCB(scale=1.0), gate=Budget(alpha=0.01), confidence=PAPER).start(
        bandit.actions, offline
    )
    for _ in range(200):
        affordable = [arm for arm in range(8) if agent.guard(arm).mode == "explore"]
        decision = agent.decide()
        assert (decision.mode == "explore") == bool(affordable)
        if affordable:
            assert decision.arm == max(affordable, key=lambda arm: agent.ucb[arm])
        agent.update(decision, float(bandit.means[decision.arm] + rng.standard_normal()))


def test_coverage_slack_is_never_larger() -> None:
    for seed in range(20):
        bandit, offline = instance(seed, pulls=1 + seed)
        by_slack = [
            Gated(gate=Budget(alpha=1.0, slack=slack)).start(bandit.actions, offline).baseline  # type: ignore[arg-type]
            for slack in ("coverage", "paper")
        ]
        assert by_slack[0] >= by_slack[1]


# -- what a policy refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "explorer", [LinUCB(scale=1.0, confidence=PAPER), LinTS(confidence=PAPER), Greedy(confidence=PAPER)]
)
def test_an_explorer_behind_a_gate_has_no_confidence_of_its_own(explorer: Any) -> None:
    with pytest.raises(ValueError, match="explorer must leave confidence=None"):
        Gated(explorer=explorer)


@pytest.mark.parametrize("radius", ["paper", "hkz"])
def test_an_adaptive_design_refuses_radii_that_need_a_fixed_one(radius: Any) -> None:
    with pytest.raises(ValueError, match="radius must be 'self_normalised' for an adaptive design"):
        Confidence(radius=radius, design="adaptive")
    assert Confidence(design="adaptive").radius == "self_normalised"


# -- the multi-armed case -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ridge", [1e-4, 1.0])
def test_one_hot_arms_have_the_widths_of_a_multi_armed_bandit(ridge: float) -> None:
    pulls = np.array([9, 4, 1, 0])
    confidence = Confidence(radius="paper", ridge=ridge)
    agent = LinUCB(scale=1.0, confidence=confidence).start(
        np.eye(4), Offline(pulls=pulls, reward_sums=[3.0, 1.0, 0.5, 0.0])
    )
    counts = np.zeros(4)
    for t in range(100):
        width = (agent.ucb - agent.theta) / agent.ellipsoid.radius
        np.testing.assert_allclose(width, 1 / np.sqrt(counts + pulls + ridge), rtol=1e-9)
        arm = agent.select()
        agent.update(arm, float(np.cos(t)))
        counts[arm] += 1


def test_thompson_draws_from_its_posterior() -> None:
    """Arm 1 beats arm 0 as often as N(theta, V^-1) says: 4000 draws, 4 standard errors; false alarm 6e-5."""
    w = small_problem(k=2, d=2, logged=(5, 5))
    agent = LinTS().start(w.actions, w.offline, rng=5)
    difference = w.actions[1] - w.actions[0]
    spread = np.sqrt(difference @ np.linalg.inv(agent.ellipsoid.V) @ difference)
    chance = (1 + erf(float(difference @ agent.theta / spread) / sqrt(2))) / 2
    wins = 0
    for _ in range(4000):
        wins += agent.select()
        agent.commit(0)  # draws anew, learns nothing
    assert abs(wins / 4000 - chance) < 4 * np.sqrt(chance * (1 - chance) / 4000)


@pytest.mark.parametrize("policy", [LinUCB, LinOtO, LinLCB, LinTS])
def test_a_reward_out_of_the_range_it_never_leaves_is_refused_by_every_policy(policy: Any) -> None:
    w = small_problem()
    bounded = Confidence(noise="bounded", reward_range=(-1.0, 1.0))
    agent = policy(confidence=bounded).start(w.actions, w.offline, rng=0)
    with pytest.raises(ValueError, match=r"reward must be in \[-1, 1\], got 1e\+06"):
        agent.update(agent.decide(), 1e6)
    assert agent.rounds == 0
