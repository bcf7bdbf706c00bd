"""Rewards in the coordinates of the last refresh: the arms of plain coordinates, and bits of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.plain_kernels import in_plain_python  # noqa: F401 - a fixture

import linoto
from linoto import (
    PAPER,
    Agent,
    Budget,
    Confidence,
    Control,
    Gated,
    Greedy,
    LinearBandit,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Tolerance,
)
from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.slices import slicing
from linoto.core.validation import MANY_ARMS
from linoto.core.whitening import whitening

WHITENED: dict[str, Any] = {
    "LinOtO": LinOtO(),
    "LinOtO, scaled": LinOtO(alpha=0.3, confidence=Confidence(noise=0.3, reward_range=(-4.0, 4.0))),
    "LinUCB": LinUCB(),
    "LinUCB of the paper": LinUCB(scale=1.0, confidence=PAPER),
    "LinLCB": LinLCB(confidence=PAPER),
    "Greedy": Greedy(),
    "every arm is asked about": Gated(explorer=LinUCB(), gate=Budget(alpha=0.1), fallback="frozen"),
}
BOUNDED = Confidence(reward_range=(-3.0, 3.0), noise="bounded")
PLAIN: dict[str, Any] = {
    "sums of plays": LinOtO(budget="aggregate"),
    "draws": LinTS(),
    "a memory": LinUCB(memory=100),
    "a shift": LinUCB(confidence=Confidence(shift=0.1)),
    "a tolerance": Gated(explorer=LinUCB(), gate=Tolerance(budget=3.0)),
    "a coin": Gated(
        explorer=LinUCB(),
        gate=Control(budget=40.0),
        confidence=Confidence(reward_range=(-3, 3), noise="bounded"),
    ),
}


def world(seed: int, *, k: int = 30, d: int = 7) -> tuple[LinearBandit, Offline, np.random.Generator]:
    """The paper's arms and log at some size: ten arms of it are logged."""
    rng = np.random.default_rng(seed)
    bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
    return bandit, bandit.log(linoto.logged_pulls(bandit, rng=rng), rng), rng


def start(policy: Any, bandit: LinearBandit, log: Offline, *, whitened: bool = True) -> Agent:
    with whitening(whitened):
        agent: Agent = policy.start(bandit.actions, log, rng=0)
    assert agent.running.run["whitened"] == whitened
    return agent


def check_near(agent: Agent, plain: Agent, digits: float = 1e-9) -> None:
    """Whatever is known of arms, and of V and theta, up to rounding."""
    for name in ("means", "lcb", "ucb", "theta"):
        one, other = getattr(agent, name), getattr(plain, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=digits * np.abs(other).max(), err_msg=name)
    np.testing.assert_allclose(agent.ellipsoid.V, plain.ellipsoid.V, rtol=digits)
    assert agent.ellipsoid.radius == pytest.approx(plain.ellipsoid.radius, rel=digits)


@pytest.mark.parametrize("policy", WHITENED.values(), ids=WHITENED)
def test_the_arms_of_plain_coordinates_are_played(policy: Any) -> None:
    for seed in range(4):
        bandit, log, rng = world(seed, k=30 + 7 * seed, d=4 + 3 * seed)
        draws = bandit.draw(2500, rng)  # a refresh, besides those of leaps
        agent, plain = (start(policy, bandit, log, whitened=whitened) for whitened in (True, False))
        for ours, theirs in zip(
            agent.play_rounds(bandit.means, draws), plain.play_rounds(bandit.means, draws), strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
        check_near(agent, plain)


@pytest.mark.parametrize("policy", WHITENED.values(), ids=WHITENED)
def test_the_loop_one_decision_at_a_time_and_a_restored_agent_have_the_same_bits(policy: Any) -> None:
    bandit, log, rng = world(5)
    draws = bandit.draw(2300, rng)
    looped, by_hand, restored = (start(policy, bandit, log) for _ in range(3))
    looped.play(bandit.means, draws)
    for t, draw in enumerate(draws.tolist()):
        by_hand.update(by_hand.select(), bandit.means[by_hand.select()] + draw)
        if t % 97 == 0:
            restored = linoto.restore(restored.snapshot())
        restored.play(bandit.means, draws[t : t + 1])
    assert looped.snapshot() == by_hand.snapshot() == restored.snapshot()


@pytest.mark.usefixtures("in_plain_python")
def test_kernels_without_a_compiler_have_the_same_bits() -> None:
    bandit, log, rng = world(6, k=12, d=5)
    draws = bandit.draw(30, rng)
    agent = start(LinOtO(), bandit, log)
    agent.play(bandit.means, draws)
    again = linoto.restore(agent.snapshot())
    assert again.snapshot() == agent.snapshot()
    for row in (kernels.WHITE + i for i in range(agent.d)):
        np.testing.assert_array_equal(again.running.held.arms[row], agent.running.held.arms[row])


def test_who_reads_the_estimate_changes_nothing() -> None:
    bandit, log, rng = world(7)
    silent, read = start(LinOtO(), bandit, log), start(LinOtO(), bandit, log)
    for draw in bandit.draw(200, rng).tolist():
        for agent in (silent, read):
            arm = agent.select()
            agent.update(arm, float(bandit.means[arm]) + draw)
        assert read.theta.size and read.ellipsoid.radius > 0 and read.certificate.holds is not None
    assert silent.snapshot() == read.snapshot()


def test_one_pass_over_the_arms_has_the_bits_of_several() -> None:
    """What lost rewards do to bounds needs all widths first; with a doubt of 0 nothing else may differ."""
    bandit, log, rng = world(8)
    once, apart = start(LinOtO(), bandit, log), start(LinOtO(), bandit, log)
    apart.running.held.run["lost_sum"] = 1e-300
    draws = bandit.draw(600, rng)
    once.play(bandit.means, draws)
    apart.play(bandit.means, draws)
    apart.running.held.run["lost_sum"] = 0.0
    assert once.snapshot() == apart.snapshot()


@pytest.mark.parametrize("name", ["LinOtO, scaled", "LinUCB"])
def test_lost_rewards_widen_bounds_as_in_plain_coordinates(name: str) -> None:
    bandit, log, rng = world(9)
    agent, plain = (start(WHITENED[name], bandit, log, whitened=whitened) for whitened in (True, False))
    for t, draw in enumerate(bandit.draw(120, rng).tolist()):
        decisions = agent.decide(), plain.decide()
        assert decisions[0].arm == decisions[1].arm
        for one, decision in zip((agent, plain), decisions, strict=True):
            one.commit(decision)
            if t % 11 == 3:
                one.lose(decision, 0.0)
            else:
                one.observe(decision, float(bandit.means[decision.arm]) + draw)
    ours, theirs = (float(one.running.run["lost_radius"]) for one in (agent, plain))
    assert 0 < ours == pytest.approx(theirs, rel=1e-9)
    check_near(agent, plain)
    assert linoto.restore(agent.snapshot()).snapshot() == agent.snapshot()


@pytest.mark.parametrize("width", [0, 2])
def test_arms_come_and_go_as_in_plain_coordinates(width: int) -> None:
    bandit, log, rng = world(10)
    agent, plain = (start(LinOtO(), bandit, log, whitened=whitened) for whitened in (True, False))
    new = rng.standard_normal((3, 7 + width)) / 4
    draws, means = bandit.draw(900, rng), np.append(bandit.means, [0.1, 0.2, 0.3])
    for one in (agent, plain):
        one.play(bandit.means, draws[:300])
        one.add_arms(new)
        one.play(means, draws[300:600])
        one.remove_arms([2, 31])
        one.play(means, draws[600:])
        assert one.running.run["whitened"] == (one is agent)
    plays = (one.running.held.arms[kernels.PLAYS] for one in (agent, plain))
    np.testing.assert_array_equal(*plays)
    check_near(agent, plain)
    again = linoto.restore(agent.snapshot())
    for one in (agent, again):
        one.play(means, draws)
    assert again.snapshot() == agent.snapshot()


def test_who_grows_to_many_arms_goes_on_in_plain_coordinates_and_may_have_lists() -> None:
    rng = np.random.default_rng(15)
    arms = rng.standard_normal((MANY_ARMS - 1, 3)) / 3
    log = Offline(pulls=np.ones(len(arms), dtype=np.int64), reward_sums=arms[:, 0])
    agents = []
    for whitened in (True, False):
        with whitening(whitened):
            agents.append(LinUCB().start(arms, log, rng=0))
        assert agents[-1].running.run["whitened"] == whitened
        agents[-1].play(arms[:, 0], 0.1 * np.random.default_rng(0).standard_normal(40))
        agents[-1].add_arms(np.ones((2, 3)))
        agents[-1].play(np.append(arms[:, 0], [0.1, 0.2]), 0.1 * np.random.default_rng(1).standard_normal(40))
        assert agents[-1].running.run["whitened"] == 0
        assert agents[-1].running.lists is not None
    check_near(*agents)
    assert linoto.restore(agents[0].snapshot()).snapshot() == agents[0].snapshot()


def exactly(agent: Agent) -> tuple[Floats, Floats]:
    """Variances by QR of all rows, and V, from the counts alone."""
    seen, ridge = agent.running.held.arms[kernels.SEEN], float(agent.running.params[0]["ridge"])
    rows = np.vstack([np.sqrt(seen)[:, None] * agent.actions, np.sqrt(ridge) * np.eye(agent.d)])
    factor = np.linalg.qr(rows, mode="r")
    return (np.linalg.solve(factor.T, agent.actions.T) ** 2).sum(axis=0), rows.T @ rows


def test_no_digits_are_lost_between_refreshes() -> None:
    """2,047 steps from a log that knows ten arms, at ridge 1e-4: the longest way, and badly conditioned."""
    for name in ("LinOtO", "LinLCB", "LinUCB of the paper"):
        bandit, log, rng = world(11, k=60, d=20)
        agent = start(WHITENED[name], bandit, log)
        agent.play(bandit.means, bandit.draw(2000, rng))
        while agent.running.run["since_refresh"] < kernels.REFRESH_WHITENED - 1:
            agent.play(bandit.means, bandit.draw(1, rng))
        variances, V = exactly(agent)
        np.testing.assert_allclose(agent.running.held.arms[kernels.VARIANCE], variances, rtol=1e-9)
        np.testing.assert_allclose(agent.ellipsoid.V, V, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("policy", PLAIN.values(), ids=PLAIN)
def test_who_needs_more_than_means_and_widths_has_plain_coordinates(policy: Any) -> None:
    bandit, log, _ = world(12)
    assert policy.start(bandit.actions, log, rng=0).running.run["whitened"] == 0


def is_whitened_with(arms: Floats) -> bool:
    return bool(LinUCB().start(arms, Offline.empty(len(arms)), rng=0).running.run["whitened"])


def test_many_arms_and_one_hot_arms_have_plain_coordinates() -> None:
    rng = np.random.default_rng(13)
    many, large = rng.standard_normal((MANY_ARMS, 2)), rng.standard_normal((1100, 64))
    assert is_whitened_with(many[1:])
    for arms in (np.eye(5), many, large):
        assert not is_whitened_with(arms)
    with slicing(False):
        assert is_whitened_with(large)


def test_epochs_of_an_older_doubling_have_plain_coordinates() -> None:
    bandit, log, _ = world(14)
    for wanted in (True, False):
        with whitening(wanted):
            agent = linoto.Doubling(policy=LinUCB()).start(bandit.actions, log, rng=0)
        again = linoto.restore(agent.snapshot())
        for one in (agent, again):
            for _ in range(5):
                one.update(one.decide(), 0.5)
            assert bool(one.inner.running.run["whitened"]) is wanted
        assert agent.snapshot() == again.snapshot()


def test_whoever_reads_an_estimate_changes_nothing_that_a_round_needs() -> None:
    bandit, log, rng = world(9)
    agent = start(LinOtO(), bandit, log)
    agent.play(bandit.means, bandit.draw(50, rng))
    before = [part.tobytes() for part in agent.running.held.arrays]
    assert agent.theta.any() and agent.ellipsoid.radius > 0
    assert [part.tobytes() for part in agent.running.held.arrays] == before


def test_an_agent_that_was_stored_before_its_first_reward_has_the_same_estimate() -> None:
    bandit, log, _ = world(10)
    agent = start(LinOtO(), bandit, log)
    restored = linoto.restore(agent.snapshot())
    np.testing.assert_array_equal(agent.theta, restored.theta)
    np.testing.assert_array_equal(agent.ellipsoid.V, restored.ellipsoid.V)


def test_epochs_that_began_without_slices_go_on_in_plain_coordinates() -> None:
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((1100, 64)) / 8
    log = Offline(pulls=np.ones(1100, dtype=np.int64), reward_sums=arms[:, 0])
    with slicing(False), whitening(False):  # as before there were any
        agent = linoto.Doubling(policy=LinUCB()).start(arms, log, rng=0)
    restored = linoto.restore(agent.snapshot())
    for one in (agent, restored):
        for _ in range(3):
            decision = one.decide()
            one.update(decision, float(arms[decision.arm, 0]))
    assert agent.snapshot() == restored.snapshot()


def test_longer_and_longer_arms_in_one_direction_leave_a_variance_its_digits() -> None:
    """Every step is below that of a refresh, but together they make the first variances 1e15 times less."""
    lengths = np.sqrt(8.5) * np.sqrt(9.5) ** np.arange(16)
    actions = np.vstack([np.column_stack([lengths, np.zeros(16)]), [[1e8, 1.0]]])
    agent = LinUCB(confidence=Confidence(ridge=1.0)).start(actions, Offline.empty(17), rng=0)
    assert agent.running.run["whitened"]
    for arm in range(16):
        agent.update(arm, 0.0)
    exact = lengths**2 / (1.0 + (lengths**2).sum())
    np.testing.assert_allclose(agent.running.held.arms[kernels.VARIANCE, :16], exact, rtol=1e-6)
