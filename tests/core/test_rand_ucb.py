"""RandUCB: one luck for all arms, chances that are exact, and what is left of luck where all is known."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import (
    Confidence,
    Gated,
    Greedy,
    Offline,
    Open,
    RandUCB,
)
from linoto.core import kernels
from linoto.core.shortlists import Sizes

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)


def chances_by_grid(mean: Any, slope: Any, points: int = 2000) -> Any:
    """How likely mean + |z| slope is the largest, z standard normal, from quantiles of |z|."""
    luck = np.array([NormalDist().inv_cdf(0.5 + (i + 0.5) / (2 * points)) for i in range(points)])
    best = (mean + luck[:, None] * slope).argmax(axis=1)
    return np.bincount(best, minlength=mean.size) / best.size


# -- chances


@pytest.mark.parametrize("seed", range(12))
def test_chances_are_those_of_a_fine_grid_of_luck(seed: int) -> None:
    """2,000 quantiles: a chance is met within one of them at each of its two ends."""
    rng = np.random.default_rng(seed)
    k, d = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    actions, pulls = rng.standard_normal((k, d)), rng.integers(0, 30, k)
    log = Offline(pulls=pulls, reward_sums=(pulls > 0) * rng.standard_normal(k))
    agent = RandUCB(scale=0.7, prior="scaled", confidence=Confidence(noise=2.0)).start(actions, log)
    arms = agent.running.state.arms
    expected = chances_by_grid(arms[kernels.MEAN], 1.4 * np.sqrt(arms[kernels.VARIANCE]))
    assert [agent.propensity(arm) for arm in range(k)] == pytest.approx(expected, abs=1.1e-3)


@pytest.mark.parametrize("arms", [1, 2, 5])
def test_equal_arms_leave_the_first_one_certain(arms: int) -> None:
    """Luck is the same for all of them, so that it decides nothing."""
    agent = RandUCB().start(np.ones((arms, 1)), Offline(pulls=[3] * arms, reward_sums=[1.0] * arms))
    assert [agent.propensity(arm) for arm in range(arms)] == [1.0] + [0.0] * (arms - 1)
    assert agent.decide().arm == 0


# -- the rule


def test_with_no_luck_it_is_greedy() -> None:
    bandit = linoto.sphere_bandit(k=8, d=3, rng=0)
    log = bandit.log(np.full(8, 3), np.random.default_rng(1))
    unlucky = RandUCB(scale=0.0, prior="scaled")
    greedy, sure = Greedy().start(bandit.actions, log), unlucky.start(bandit.actions, log)
    for t in range(30):
        assert sure.select() == greedy.select()
        assert sure.propensity(sure.select()) == 1.0
        for agent in (sure, greedy):
            agent.update(agent.select(), float(t % 2))


def test_with_much_luck_the_arm_that_is_known_least_is_played() -> None:
    log = Offline(pulls=[50, 2, 9], reward_sums=[40.0, 0.0, 3.0])
    agent = RandUCB(scale=1e9, prior="scaled").start(np.eye(3), log, rng=0)
    assert agent.propensity(1) == pytest.approx(1.0)


def test_an_arm_that_is_as_good_and_known_less_is_rather_played() -> None:
    """Optimism: of two estimates that are equal, luck only lifts the one that is less certain."""
    log = Offline(pulls=[100, 10], reward_sums=[50.0, 5.0], reward_squares=[50.0, 5.0])
    agent = RandUCB(confidence=Confidence(noise=0.5, ridge=1e-6)).start(np.eye(2), log, rng=0)
    assert (agent.propensity(1) or 0.0) > 0.9


@pytest.mark.parametrize("explorer", [RandUCB(memory=40), RandUCB(discount=0.99)], ids=str)
def test_it_follows_a_change_if_it_forgets(explorer: RandUCB) -> None:
    """Arms that change places after 200 of 1,200 rounds; who forgets plays the new best one most of the time.

    In 300 other seeds it was played in 300 or more of the last 600 rounds.
    """
    agent = Gated(explorer=explorer, gate=Open(), confidence=CLICKS).start(
        np.eye(2), Offline(pulls=[5, 5], reward_sums=[4.0, 1.0]), rng=0
    )
    rng, played = np.random.default_rng(2), []
    for t in range(1200):
        means = (0.8, 0.2) if t < 200 else (0.2, 0.8)
        decision = agent.decide()
        agent.update(decision, float(rng.random() < means[decision.arm]))
        played.append(decision.arm)
    assert sum(played[-600:]) > 200


def test_lists_have_the_bits_of_plain_rounds() -> None:
    rng = np.random.default_rng(0)
    actions, means = rng.standard_normal((600, 4)), rng.random(600)
    pulls = np.where(np.arange(600) < 50, 4, 0)
    log = Offline(pulls=pulls, reward_sums=pulls * means)
    listed, plain = (RandUCB(confidence=CLICKS).start(actions, log, rng=1) for _ in range(2))
    listed.driver.listing.use(Sizes(short=8, long=64, least_arms=1))
    plain.driver.listing.use(None)
    by_lists = 0
    for _ in range(400):
        one, other = listed.decide(), plain.decide()
        by_lists += listed.running.lists is not None
        assert (one.arm, one.proposal, one.mode) == (other.arm, other.proposal, other.mode)
        for agent, decision in ((listed, one), (plain, other)):
            agent.update(decision, float(means[one.arm] > 0.5))
    assert by_lists > 300
    assert [listed.propensity(arm) for arm in range(600)] == [plain.propensity(arm) for arm in range(600)]


@pytest.mark.parametrize("scale", [-1.0, float("nan"), "wide"])
def test_a_scale_that_is_none_is_refused(scale: Any) -> None:
    with pytest.raises(ValueError, match="scale must be"):
        RandUCB(scale=scale)


def test_another_prior_is_refused() -> None:
    wrong: Any = "half"
    with pytest.raises(ValueError, match="prior must be"):
        RandUCB(prior=wrong)
