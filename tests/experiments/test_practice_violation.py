"""A promise about practice is judged against practice, however far the log is from it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.worlds.violations import promise_violation


def test_control_is_judged_by_the_explored_rounds_against_practice_as_realised() -> None:
    """The log earned .1 by bad luck and practice earns .8: no shortfall below the log would show."""
    means = np.array([0.8, 0.2])
    bandit = linoto.Bandit(actions=np.eye(2), means=means, rewards="bernoulli")
    log = linoto.Offline(pulls=[40, 0], reward_sums=[4.0, 0.0])
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policy = linoto.Gated(
        explorer=linoto.Random(), gate=linoto.Control(budget=5, epsilon=0.1), confidence=sure
    )
    run = linoto.simulate(policy, bandit, log, horizon=400, seed=1)
    lost = np.cumsum(np.where(run.explored, means[0] - run.rewards, 0.0))
    expected = (lost - 0.1 * np.arange(1, 401)).max() - 5
    assert run.explored.any()
    assert promise_violation(policy, bandit, log, run) == pytest.approx(expected)


def worst_stretch(lost: np.ndarray, per_round: float, every: int) -> float:
    """The most that any stretch from a multiple of `every` on lost beyond its rate, by trying all of them."""
    before = np.append(0.0, lost)
    return max(
        before[t] - before[i] - per_round * (t - i)
        for i in range(0, lost.size, every)
        for t in range(i + 1, lost.size + 1)
    )


def test_every_stretch_is_judged() -> None:
    """B is better for the first half and worse in the second: the sum gains, a stretch loses."""
    table = np.array([[0.3, 0.8], [0.9, 0.2]])
    bandit = linoto.DriftingBandit(actions=np.eye(2), table=table, starts=[0, 300], rewards="bernoulli")
    log = linoto.Offline(pulls=[40, 0], reward_sums=[12.0, 0.0])
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    gates = linoto.Control(budget=30, epsilon=0.01, every=50), linoto.Control(budget=30, epsilon=0.01)
    bold = linoto.LinUCB(scale=1.0)
    policies = [linoto.Gated(explorer=bold, gate=gate, confidence=sure) for gate in gates]
    run = linoto.simulate(policies[1], bandit, log, horizon=600, seed=1)
    means = table[np.repeat([0, 1], 300)]
    lost = np.cumsum(np.where(run.explored, means[:, 0] - run.rewards, 0.0))
    by_stretch, in_all = (promise_violation(policy, bandit, log, run) for policy in policies)
    assert by_stretch == pytest.approx(worst_stretch(lost, 0.01, 50) - 30)
    assert in_all == pytest.approx((lost - 0.01 * np.arange(1, 601)).max() - 30)
    assert in_all < 0 < by_stretch


@pytest.mark.parametrize("every", [1, 7, 50, 400])
def test_the_excess_of_a_certificate_is_that_of_its_worst_stretch(every: int) -> None:
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    log = linoto.Offline(pulls=[40, 0], reward_sums=[12.0, 0.0])
    gate = linoto.Control(budget=9, epsilon=0.02, every=every)
    certificate = linoto.Gated(gate=gate, confidence=sure).certificate(np.eye(2), log)
    lost = np.cumsum(np.random.default_rng(every).normal(size=120))
    assert certificate.excess(lost) == pytest.approx(worst_stretch(lost, 0.02, every) - 9)


def test_with_contexts_stretches_are_judged_too() -> None:
    parts = {"explored": np.ones(4, bool), "rewards": np.array([1.0, 1.0, 0.0, 0.0])}
    shortfall = np.array([-1.0, -2.0, -1.0, 0.0])
    nothing = {"arms": np.zeros(4, int), "regret": shortfall, "control": ~parts["explored"]}
    run = linoto.Run(
        **parts, **nothing, means=parts["rewards"], offline_regret=shortfall, practice_shortfall=shortfall
    )
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policies = [
        linoto.Gated(gate=linoto.Control(budget=9, every=every), confidence=sure) for every in (2, None)
    ]
    world, log = linoto.ContextualBandit.synthetic(k=3, d=2, rewards="bernoulli"), linoto.Moments.empty(2)
    found = [promise_violation(policy, world, log, run) for policy in policies]
    assert found == [2.0 - 9.0, 0.0 - 9.0]


@pytest.mark.parametrize("promise", ["expected", "realised"])
def test_a_guardrail_behind_a_tolerance_is_judged_by_what_the_log_had(promise: Any) -> None:
    """The mixture and the explored plays, by hand: in means, or with explored plays as they came."""
    means, complained = np.array([0.5, 0.4, 0.6]), np.array([0.1, 0.3, 0.5])
    metric = linoto.Bandit(actions=np.eye(3), means=complained, rewards="bernoulli")
    world = linoto.Bandit(actions=np.eye(3), means=means, rewards="bernoulli", metrics={"complaints": metric})
    log = linoto.Offline(pulls=[60, 40, 0], reward_sums=[30.0, 16.0, 0.0])
    rail = linoto.Guardrail(
        "complaints", reward_range=(0, 1), lower_is_better=True, budget=9, rate=0.01, mean=0.18, logged=100
    )
    gate = linoto.Tolerance(budget=500.0, epsilon=0.05, evidence="rewards", promise=promise)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policy = linoto.Gated(gate=gate, confidence=confidence, explorer=linoto.Random(), guardrails=[rail])
    run = linoto.simulate(policy, world, log, horizon=300, seed=3)
    draws = np.random.default_rng(np.random.SeedSequence(3).spawn(4)[3]).random(300)
    values = (draws < complained[run.arms]).astype(float)
    came = run.explored if promise == "realised" else np.zeros(300, np.bool_)
    counted = np.where(came, values, complained[run.arms])
    (rounding,) = policy.certificate(np.eye(3), log).roundings
    lost, allowed = np.cumsum(counted - 0.18) - rounding, 9 + 0.01 * np.arange(1, 301)
    free = run.offline_regret.max() - 500
    assert run.explored.any() and (lost - allowed).max() > free
    assert promise_violation(policy, world, log, run) == pytest.approx((lost - allowed).max())
    closer = replace(policy, guardrails=[replace(rail, budget=0.0, rate=0.0)])
    assert promise_violation(closer, world, log, run) == pytest.approx(lost.max())
    assert lost.max() > 0
