"""Inverse gap weighting: what it draws is what it says, whatever the gate, the arms and the units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.contexts import Clicks
from helpers.reference import inverse_gap_chances

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
    Rows,
    SquareCB,
    Tolerance,
)
from linoto.core import kernels
from linoto.core.coins import KeyedCoins
from linoto.logs.estimates import Interval

Floats = npt.NDArray[np.float64]
CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
MODEL = Tolerance(budget=1.0, evidence="model")
ACTIONS = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0], [-0.6, 0.8]])
LOG = Offline(pulls=[60, 30, 0, 0], reward_sums=[30.0, 12.0, 0.0, 0.0], reward_squares=[30.0, 12.0, 0.0, 0.0])
BOLD = SquareCB(scale=2.0)  # many arms are likely: a wrong chance is seen in few draws

POLICIES: dict[str, Any] = {
    "no gate": replace(BOLD, confidence=CLICKS),
    "tolerance": Gated(explorer=BOLD, gate=MODEL, confidence=CLICKS),
    "tolerance, proposal": Gated(explorer=BOLD, gate=MODEL, reach="proposal", confidence=CLICKS),
    "control": Gated(explorer=BOLD, gate=Control(budget=6.0, share=0.3), confidence=CLICKS),
    "budget": Gated(explorer=BOLD, gate=Budget(alpha=0.2), confidence=CLICKS),
    "budget, proposal": Gated(explorer=BOLD, gate=Budget(alpha=0.2), reach="proposal", confidence=CLICKS),
}
IN_ROUNDS = [name for name in POLICIES if not name.startswith("budget")]


def refuted(counts: Floats, chances: Floats) -> bool:
    """Pearson's chi-square far in its tail: 1 right program in 10,000 fails; rare arms together."""
    n = counts.sum()
    assert not counts[chances == 0].any()
    rare = (chances > 0) & (n * chances < 3)
    cells = [(counts[a], chances[a]) for a in np.flatnonzero((chances > 0) & ~rare)]
    if rare.any():
        cells.append((counts[rare].sum(), chances[rare].sum()))
    square = sum((count - n * chance) ** 2 / (n * chance) for count, chance in cells)
    freedom = max(len(cells) - 1, 1)
    # Laurent and Massart (2000): above this with probability at most e^-x
    x = 9.3
    return bool(square > freedom + 2 * np.sqrt(freedom * x) + 2 * x)


def refuses_some(agent: Any) -> bool:
    """Whether the gate affords some arms and not others, or is not asked about arms at all."""
    affordable = agent.running.state.arms[kernels.ROOM] > 0
    return not agent.gate.measures or agent.gate.throws_coin or 0 < affordable.sum() < 4


def taught(policy: Any) -> Any:
    """An agent of fixed arms that has seen some rounds."""
    agent = policy.start(ACTIONS, LOG, rng=5)
    for t in range(12):
        agent.update(agent.decide(), float(t % 3 == 0))
    return agent


def plays(agent: Any, n: int, **question: Any) -> Floats:
    """How often each arm is decided in the next round, each time with draws and coins of their own."""
    counts, blob, rng = np.zeros(4), agent.snapshot(), np.random.default_rng(1000)
    for seed in range(n):
        if agent.driver.coin_is_thrown:  # it stands
            agent = linoto.restore(blob)
        agent.use_draws(rng)
        agent.use_coins(KeyedCoins(seed.to_bytes(32, "big")))
        counts[agent.decide(**question).arm] += 1
    return counts


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


# -- rounds that bring their own arms


@pytest.mark.parametrize("name", IN_ROUNDS)
@pytest.mark.few(0)
def test_frequencies_in_rounds_are_the_stated_propensities(name: str) -> None:
    world = Clicks(8)
    asked: dict[str, Any] = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    policy = POLICIES[name]
    if "tolerance" in name:
        policy = replace(policy, gate=Tolerance(budget=0.3, evidence="model"))
    agent = policy.start(world.log, rng=0)
    stated = np.array([agent.propensity(arm, **asked) for arm in range(4)])
    assert stated.sum() == pytest.approx(1.0)
    assert refuses_some(agent)
    assert not refuted(plays(agent, 300, **asked), stated)


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


def test_rounds_with_the_same_arms_have_the_chances_of_arms_that_stay_the_same() -> None:
    rows = np.repeat(ACTIONS, [7, 5, 0, 1], axis=0)
    rewards = np.random.default_rng(0).random(len(rows))
    sums = [float(rewards[(rows == action).all(axis=1)].sum()) for action in ACTIONS]
    fixed = SquareCB().start(ACTIONS, Offline(pulls=[7, 5, 0, 1], reward_sums=sums), rng=0)
    moments = replace(Moments.from_rows(rows, rewards), reward_squares=None)
    rounds = SquareCB().start(moments, rng=1)
    for _ in range(20):
        chances = [fixed.propensity(arm) for arm in range(4)]
        assert chances == pytest.approx([rounds.propensity(arm, actions=ACTIONS) for arm in range(4)])
        decision = rounds.decide(actions=ACTIONS)
        rounds.update(decision, 0.5)
        assert decision.arm is not None
        fixed.update(decision.arm, 0.5)


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


@pytest.mark.parametrize("unit", [2.0**-40, 0.01, 3.0, 2.0**40])
def test_other_units_of_rewards_change_nothing(unit: float) -> None:
    plain = SquareCB(confidence=Confidence(noise=0.5, bound=1.0)).start(ACTIONS, LOG, rng=7)
    squares = unit**2 * np.asarray(LOG.reward_squares)
    log = Offline(pulls=LOG.pulls, reward_sums=unit * LOG.reward_sums, reward_squares=squares)
    scaled = Confidence(noise=0.5 * unit, bound=unit)
    other = SquareCB(confidence=scaled).start(ACTIONS, log, rng=7)
    for t in range(60):
        expected = [plain.propensity(arm) for arm in range(4)]
        assert [other.propensity(arm) for arm in range(4)] == pytest.approx(expected)
        arm = plain.select()
        assert other.select() == arm
        plain.update(arm, float(t % 2))
        other.update(arm, unit * float(t % 2))


def test_the_order_of_arms_changes_nothing() -> None:
    order = np.array([2, 0, 3, 1])
    agent = SquareCB().start(ACTIONS, LOG)
    moved = Offline(
        pulls=LOG.pulls[order],
        reward_sums=LOG.reward_sums[order],
        reward_squares=np.asarray(LOG.reward_squares)[order],
    )
    other = SquareCB().start(ACTIONS[order], moved)
    assert [other.propensity(place) for place in range(4)] == pytest.approx(
        [agent.propensity(int(arm)) for arm in order]
    )


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


# -- what its log is good for


def test_its_log_judges_another_policy() -> None:
    """Each of 8 intervals misses in fewer than 1 of 10,000 right programs."""
    means, rng = np.array([0.2, 0.5, 0.4, 0.7]), np.random.default_rng(3)
    log = Offline(pulls=[20, 20, 20, 20], reward_sums=[4.0, 10.0, 8.0, 14.0])
    agent = SquareCB(scale=20.0, confidence=CLICKS).start(np.eye(4), log, rng=1)
    arms, rewards, propensities = [], [], []
    for _ in range(1000):
        arm = agent.select()
        arms.append(arm)
        propensities.append(agent.propensity(arm))
        rewards.append(float(rng.random() < means[arm]))
        agent.update(arm, rewards[-1])
    rows = Rows(arms=arms, rewards=rewards, k=4, propensities=propensities)
    for other in range(4):
        for found in linoto.evaluate(rows, other, methods=["ips", "dr"], interval=Interval(level=0.9999)):
            assert found.low < means[other] < found.high
            assert found.high - found.low < 0.5


def test_what_the_caller_proposed_was_not_drawn_by_gaps() -> None:
    """After decisions of its own, a proposal that a coin was thrown for is certain, but for the coin."""
    agent = POLICIES["control"].start(ACTIONS, LOG, rng=0)
    agent.update(agent.decide(), 1.0)
    agent.guard(2)
    of_all = [agent.propensity(arm) for arm in range(4)]
    assert of_all == [agent.propensity(arm, proposal=2) for arm in range(4)]
    assert sum(of_all) == pytest.approx(1.0)
