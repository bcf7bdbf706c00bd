"""Explorers that say how likely each arm is: what they draw is what they say, behind every gate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from helpers.contexts import Clicks

import linoto
from linoto import (
    Budget,
    Confidence,
    Control,
    Gated,
    Moments,
    Offline,
    Open,
    RandUCB,
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
EXPLORERS: dict[str, Any] = {"gaps": SquareCB(), "luck": RandUCB()}
BOLD = {  # many arms are likely: a wrong chance is seen in few draws
    "gaps": SquareCB(scale=2.0),
    "luck": RandUCB(scale=4.0),
}
GATES: dict[str, dict[str, Any]] = {
    "no gate": {"gate": Open()},
    "tolerance": {"gate": MODEL},
    "tolerance, proposal": {"gate": MODEL, "reach": "proposal"},
    "control": {"gate": Control(budget=6.0, share=0.3)},
    "budget": {"gate": Budget(alpha=0.2)},
    "budget, proposal": {"gate": Budget(alpha=0.2), "reach": "proposal"},
}
POLICIES = {
    f"{name}, {explorer}": Gated(explorer=BOLD[explorer], confidence=CLICKS, **words)
    for explorer in BOLD
    for name, words in GATES.items()
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


@pytest.mark.parametrize("explorer", BOLD)
def test_what_was_thrown_keeps_its_chances_through_rewards_and_a_snapshot(explorer: str) -> None:
    """A propensity is that of the draw that was made, also where it is asked for later."""
    world = Clicks(8)
    asked: dict[str, Any] = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    policy = POLICIES[f"control, {explorer}"]
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


@pytest.mark.parametrize("name", EXPLORERS)
def test_rounds_with_the_same_arms_have_the_chances_of_arms_that_stay_the_same(name: str) -> None:
    rows = np.repeat(ACTIONS, [7, 5, 0, 1], axis=0)
    rewards = np.random.default_rng(0).random(len(rows))
    sums = [float(rewards[(rows == action).all(axis=1)].sum()) for action in ACTIONS]
    fixed = EXPLORERS[name].start(ACTIONS, Offline(pulls=[7, 5, 0, 1], reward_sums=sums), rng=0)
    moments = replace(Moments.from_rows(rows, rewards), reward_squares=None)
    rounds = EXPLORERS[name].start(moments, rng=1)
    for _ in range(20):
        chances = [fixed.propensity(arm) for arm in range(4)]
        assert chances == pytest.approx([rounds.propensity(arm, actions=ACTIONS) for arm in range(4)])
        decision = rounds.decide(actions=ACTIONS)
        rounds.update(decision, 0.5)
        assert decision.arm is not None
        fixed.update(decision.arm, 0.5)


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("unit", [2.0**-40, 0.01, 3.0, 2.0**40])
def test_other_units_of_rewards_change_nothing(unit: float, name: str) -> None:
    plain = replace(EXPLORERS[name], confidence=Confidence(noise=0.5, bound=1.0)).start(ACTIONS, LOG, rng=7)
    squares = unit**2 * np.asarray(LOG.reward_squares)
    log = Offline(pulls=LOG.pulls, reward_sums=unit * LOG.reward_sums, reward_squares=squares)
    scaled = Confidence(noise=0.5 * unit, bound=unit)
    other = replace(EXPLORERS[name], confidence=scaled).start(ACTIONS, log, rng=7)
    for t in range(60):
        expected = [plain.propensity(arm) for arm in range(4)]
        assert [other.propensity(arm) for arm in range(4)] == pytest.approx(expected)
        arm = plain.select()
        assert other.select() == arm
        plain.update(arm, float(t % 2))
        other.update(arm, unit * float(t % 2))


@pytest.mark.parametrize("name", EXPLORERS)
def test_the_order_of_arms_changes_nothing(name: str) -> None:
    order = np.array([2, 0, 3, 1])
    agent = EXPLORERS[name].start(ACTIONS, LOG)
    moved = Offline(
        pulls=LOG.pulls[order],
        reward_sums=LOG.reward_sums[order],
        reward_squares=np.asarray(LOG.reward_squares)[order],
    )
    other = EXPLORERS[name].start(ACTIONS[order], moved)
    assert [other.propensity(place) for place in range(4)] == pytest.approx(
        [agent.propensity(int(arm)) for arm in order]
    )


@pytest.mark.parametrize("explorer", BOLD)
def test_what_the_caller_proposed_was_not_drawn(explorer: str) -> None:
    """After decisions of its own, a proposal that a coin was thrown for is certain, but for the coin."""
    agent = POLICIES[f"control, {explorer}"].start(ACTIONS, LOG, rng=0)
    agent.update(agent.decide(), 1.0)
    agent.guard(2)
    of_all = [agent.propensity(arm) for arm in range(4)]
    assert of_all == [agent.propensity(arm, proposal=2) for arm in range(4)]
    assert sum(of_all) == pytest.approx(1.0)


@pytest.mark.parametrize("explorer", [SquareCB(scale=20.0), RandUCB(scale=30.0)], ids=["gaps", "luck"])
def test_its_log_judges_another_policy(explorer: Any) -> None:
    """Each of 8 intervals misses in fewer than 1 of 10,000 right programs."""
    means, rng = np.array([0.4, 0.5, 0.45, 0.55]), np.random.default_rng(3)
    log = Offline(pulls=[10, 40, 20, 5], reward_sums=[4.0, 20.0, 9.0, 2.75])
    agent = replace(explorer, confidence=CLICKS).start(np.eye(4), log, rng=1)
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
