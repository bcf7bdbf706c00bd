"""RandUCB: one luck for all arms, chances that are exact, and what is left of luck where all is known."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from helpers.contexts import Clicks

import linoto
from linoto import (
    Budget,
    Confidence,
    Control,
    Gated,
    Greedy,
    Moments,
    Offline,
    Open,
    RandUCB,
    Rows,
    Tolerance,
)
from linoto.core import kernels
from linoto.core.shortlists import Sizes
from linoto.logs.estimates import Interval
from tests.core.test_square_cb import ACTIONS, CLICKS, LOG, MODEL, plays, refuses_some, refuted, taught

BOLD = RandUCB(scale=4.0)  # many arms are likely: a wrong chance is seen in few draws
POLICIES: dict[str, Any] = {
    "no gate": replace(BOLD, confidence=CLICKS),
    "tolerance": Gated(explorer=BOLD, gate=MODEL, confidence=CLICKS),
    "tolerance, proposal": Gated(explorer=BOLD, gate=MODEL, reach="proposal", confidence=CLICKS),
    "control": Gated(explorer=BOLD, gate=Control(budget=6.0, share=0.3), confidence=CLICKS),
    "budget": Gated(explorer=BOLD, gate=Budget(alpha=0.2), confidence=CLICKS),
    "budget, proposal": Gated(explorer=BOLD, gate=Budget(alpha=0.2), reach="proposal", confidence=CLICKS),
}
IN_ROUNDS = [name for name in POLICIES if not name.startswith("budget")]


def chances_by_grid(mean: Any, slope: Any, points: int = 2000) -> Any:
    """How likely mean + |z| slope is the largest, z standard normal, from quantiles of |z|."""
    luck = np.array([NormalDist().inv_cdf(0.5 + (i + 0.5) / (2 * points)) for i in range(points)])
    best = (mean + luck[:, None] * slope).argmax(axis=1)
    return np.bincount(best, minlength=mean.size) / best.size


# -- chances


@pytest.mark.parametrize("allowed", [None, [0, 2, 3]], ids=str)
@pytest.mark.parametrize("name", POLICIES)
def test_frequencies_are_the_stated_propensities(name: str, allowed: Any) -> None:
    agent = taught(POLICIES[name])
    stated = np.array([agent.propensity(arm, allowed) for arm in range(4)])
    assert stated.sum() == pytest.approx(1.0)
    assert refuses_some(agent)
    assert not refuted(plays(agent, 300, allowed=allowed), stated)


@pytest.mark.parametrize("name", POLICIES)
def test_frequencies_are_the_stated_propensities_after_an_arm_has_gone(name: str) -> None:
    agent = taught(POLICIES[name])
    agent.remove_arms([1])
    stated = np.array([agent.propensity(arm) for arm in range(4)])
    assert stated[1] == 0
    assert stated.sum() == pytest.approx(1.0)
    assert not refuted(plays(agent, 300), stated)


@pytest.mark.parametrize("name", IN_ROUNDS)
def test_frequencies_in_rounds_are_the_stated_propensities(name: str) -> None:
    world = Clicks(8)
    asked: dict[str, Any] = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    policy = POLICIES[name]
    if "tolerance" in name:
        policy = replace(policy, gate=Tolerance(budget=0.3, evidence="model"))
    agent = policy.start(world.log, rng=0)
    stated = np.array([agent.propensity(arm, **asked) for arm in range(4)])
    assert stated.sum() == pytest.approx(1.0)
    assert not refuted(plays(agent, 300, **asked), stated)


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


def test_what_was_thrown_keeps_its_chances_through_rewards_and_a_snapshot() -> None:
    """A propensity is that of the draw that was made, also where it is asked for later."""
    world = Clicks(8)
    asked: dict[str, Any] = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    policy = POLICIES["control"]
    for agent, question in ((policy.start(ACTIONS, LOG, rng=3), {}), (policy.start(world.log, rng=3), asked)):
        late = agent.decide(**question)
        agent.commit(late)
        while (decision := agent.decide(**question)).control_share is None:
            agent.commit(decision)
        stated = [agent.propensity(arm, **question) for arm in range(4)]
        agent.observe(late, 1.0)
        again = linoto.restore(agent.snapshot())
        twice = linoto.restore(again.snapshot())
        for each in (agent, again, twice):
            assert [each.propensity(arm, **question) for arm in range(4)] == stated
            assert each.decide(**question).arm == decision.arm


def test_what_the_caller_proposed_was_not_drawn() -> None:
    agent = POLICIES["control"].start(ACTIONS, LOG, rng=0)
    agent.update(agent.decide(), 1.0)
    agent.guard(2)
    of_all = [agent.propensity(arm) for arm in range(4)]
    assert of_all == [agent.propensity(arm, proposal=2) for arm in range(4)]


@pytest.mark.parametrize("arms", [1, 2, 5])
def test_equal_arms_leave_the_first_one_certain(arms: int) -> None:
    """Luck is the same for all of them, so that it decides nothing."""
    agent = RandUCB().start(np.ones((arms, 1)), Offline(pulls=[3] * arms, reward_sums=[1.0] * arms))
    assert [agent.propensity(arm) for arm in range(arms)] == [1.0] + [0.0] * (arms - 1)
    assert agent.decide().arm == 0


def test_its_log_judges_another_policy() -> None:
    """Each of 8 intervals misses in fewer than 1 of 10,000 right programs."""
    means, rng = np.array([0.4, 0.5, 0.45, 0.55]), np.random.default_rng(3)
    log = Offline(pulls=[10, 40, 20, 5], reward_sums=[4.0, 20.0, 9.0, 2.75])
    agent = RandUCB(scale=30.0, confidence=CLICKS).start(np.eye(4), log, rng=1)
    arms, rewards, propensities = [], [], []
    for _ in range(1000):
        arm = agent.select()
        arms.append(arm)
        propensities.append(agent.propensity(arm))
        rewards.append(float(rng.random() < means[arm]))
        agent.update(arm, rewards[-1])
    assert min(propensities) < 0.5
    rows = Rows(arms=arms, rewards=rewards, k=4, propensities=propensities)
    for other in range(4):
        for found in linoto.evaluate(rows, other, methods=["ips", "dr"], interval=Interval(level=0.9999)):
            assert found.low < means[other] < found.high


# -- the rule


@pytest.mark.parametrize("unit", [2.0**-40, 0.01, 3.0, 2.0**40])
def test_other_units_of_rewards_change_nothing(unit: float) -> None:
    plain = RandUCB(confidence=Confidence(noise=0.5, bound=1.0)).start(ACTIONS, LOG, rng=7)
    squares = unit**2 * np.asarray(LOG.reward_squares)
    log = Offline(pulls=LOG.pulls, reward_sums=unit * LOG.reward_sums, reward_squares=squares)
    scaled = Confidence(noise=0.5 * unit, bound=unit)
    other = RandUCB(confidence=scaled).start(ACTIONS, log, rng=7)
    for t in range(60):
        expected = [plain.propensity(arm) for arm in range(4)]
        assert [other.propensity(arm) for arm in range(4)] == pytest.approx(expected)
        arm = plain.select()
        assert other.select() == arm
        plain.update(arm, float(t % 2))
        other.update(arm, unit * float(t % 2))


def test_the_order_of_arms_changes_nothing() -> None:
    order = np.array([2, 0, 3, 1])
    agent = RandUCB().start(ACTIONS, LOG)
    moved = Offline(
        pulls=LOG.pulls[order],
        reward_sums=LOG.reward_sums[order],
        reward_squares=np.asarray(LOG.reward_squares)[order],
    )
    other = RandUCB().start(ACTIONS[order], moved)
    assert [other.propensity(place) for place in range(4)] == pytest.approx(
        [agent.propensity(int(arm)) for arm in order]
    )


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


def test_rounds_with_the_same_arms_have_the_chances_of_arms_that_stay_the_same() -> None:
    rows = np.repeat(ACTIONS, [7, 5, 0, 1], axis=0)
    rewards = np.random.default_rng(0).random(len(rows))
    sums = [float(rewards[(rows == action).all(axis=1)].sum()) for action in ACTIONS]
    fixed = RandUCB().start(ACTIONS, Offline(pulls=[7, 5, 0, 1], reward_sums=sums), rng=0)
    rounds = RandUCB().start(replace(Moments.from_rows(rows, rewards), reward_squares=None), rng=1)
    for _ in range(20):
        chances = [fixed.propensity(arm) for arm in range(4)]
        assert chances == pytest.approx([rounds.propensity(arm, actions=ACTIONS) for arm in range(4)])
        decision = rounds.decide(actions=ACTIONS)
        rounds.update(decision, 0.5)
        fixed.update(decision.arm, 0.5)


@pytest.mark.parametrize("scale", [-1.0, float("nan"), "wide"])
def test_a_scale_that_is_none_is_refused(scale: Any) -> None:
    with pytest.raises(ValueError, match="scale must be"):
        RandUCB(scale=scale)


def test_another_prior_is_refused() -> None:
    wrong: Any = "half"
    with pytest.raises(ValueError, match="prior must be"):
        RandUCB(prior=wrong)
