"""Inverse gap weighting: its rule."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.contexts import Clicks
from helpers.reference import inverse_gap_chances

import linoto
from linoto import (
    Confidence,
    Gated,
    Greedy,
    Offline,
    Open,
    SquareCB,
)
from linoto.core import kernels

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
ACTIONS = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
BOLD = SquareCB(scale=2.0)  # many arms are likely


# -- rounds that bring their own arms


def test_an_action_of_practice_that_is_no_arm_is_never_drawn() -> None:
    """It lies among the arms of the kernel, and here it looks better than all of them."""
    world = Clicks(8)
    best = np.ones((1, 3)) / np.sqrt(3)
    arms = 0.1 * world.arms(3)
    for reach in ("proposal", "affordable"):
        policy = Gated(explorer=BOLD, gate=Open(), reach=reach, confidence=CLICKS)
        agent, alone = policy.start(world.log, rng=0), policy.start(world.log, rng=0)
        stated = [agent.propensity(arm, actions=arms, practice=best) for arm in range(3)]
        assert stated == [alone.propensity(arm, actions=arms) for arm in range(3)]
        assert agent.decide(actions=arms, practice=best).arm in range(3)


# -- the rule


@pytest.mark.parametrize("seed", range(6))
def test_the_chances_are_those_of_the_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    actions = rng.standard_normal((k, d))
    pulls = rng.integers(0, 30, k)
    log = Offline(pulls=pulls, reward_sums=(pulls > 0) * rng.standard_normal(k))
    noise = float(10 ** rng.uniform(-2, 2))
    agent = SquareCB(scale=0.7, confidence=Confidence(noise=noise)).start(actions, log)
    arms = agent.running.state.arms
    expected = inverse_gap_chances(arms[kernels.MEAN], arms[kernels.VARIANCE], 0.7 * noise)
    assert [agent.propensity(arm) for arm in range(k)] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_no_world_makes_the_regret_of_a_round_larger_than_the_bound(seed: int) -> None:
    """Any means: sum_a p_a (mu* - mu_a) <= 2 (k - 1) / gamma + gamma / 4 sum_a p_a (estimate_a - mu_a)^2."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        k, gamma = int(rng.integers(2, 8)), float(10 ** rng.uniform(-2, 2))
        estimate = rng.standard_normal(k)
        top = int(estimate.argmax())
        chances = 1 / (k + gamma * (estimate[top] - estimate))
        chances[top] += 1 - chances.sum()
        best = int(rng.integers(k))  # the means that are worst if this arm is the best one
        wrong = 2 / gamma * (np.ones(k) - np.eye(k)[best] / chances[best])
        for means in (estimate - wrong, estimate + rng.standard_normal(k) / gamma):
            regret = chances @ (means[best] - means)
            error = chances @ (estimate - means) ** 2
            assert regret <= 2 * (k - 1) / gamma + gamma / 4 * error + 1e-9


def test_without_scale_it_is_greedy_and_with_much_of_it_uniform() -> None:
    bandit = linoto.sphere_bandit(k=8, d=3, rng=0)
    log = bandit.log(np.full(8, 3), np.random.default_rng(1))
    greedy, sure = Greedy().start(bandit.actions, log), SquareCB(scale=0.0).start(bandit.actions, log)
    for t in range(30):
        assert sure.select() == greedy.select()
        assert sure.propensity(sure.select()) == 1.0
        for agent in (sure, greedy):
            agent.update(agent.select(), float(t % 2))
    wide = SquareCB(scale=1e9).start(bandit.actions, log)
    assert [wide.propensity(arm) for arm in range(8)] == pytest.approx(np.full(8, 1 / 8))


def test_knowing_nothing_every_arm_is_as_likely() -> None:
    agent = SquareCB().start(np.eye(5), Offline.empty(5))
    assert [agent.propensity(arm) for arm in range(5)] == pytest.approx(np.full(5, 0.2))


def test_the_longer_the_log_the_surer_it_begins() -> None:
    shares = []
    for times in (1, 10, 100, 10_000):
        log = Offline(pulls=times * np.array([6, 5, 4]), reward_sums=times * np.array([5.0, 2.0, 1.0]))
        agent = SquareCB(confidence=CLICKS).start(np.eye(3), log)
        shares.append(agent.propensity(0) or 0.0)
    assert shares == sorted(shares)
    assert shares[-1] > 0.99


def test_the_only_arm_that_is_allowed_is_certain() -> None:
    agent = SquareCB().start(np.eye(3), Offline.empty(3))
    assert agent.propensity(2, [2]) == 1.0
