"""`Confidence(shift=...)`: agents and gates that allow for a log that has moved, against plain NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import (
    Budget,
    Closed,
    Confidence,
    Conservative,
    Control,
    Gated,
    Greedy,
    LinearBandit,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Random,
    SquareCB,
    Tolerance,
    least_shift,
    shifted_bounds,
)
from linoto.core import kernels
from linoto.core.whitening import whitening
from linoto.research import OOPE, UCB1, OlderTolerance, OtO, RareLinUCB
from tests.core.test_shift import D, K, moved_world

MOVED = Confidence(noise=0.3, delta=0.2, shift=0.3)
RANGE = Confidence(noise=0.3, delta=0.2, shift=0.3, reward_range=(-1.0, 1.0))
POLICIES = {
    "LinUCB": LinUCB(scale=1.0, confidence=MOVED),
    "paper": LinUCB(scale=1.0, confidence=Confidence(radius="paper", ridge=1e-4, noise=0.3, shift=0.3)),
    "hkz": LinUCB(scale=1.0, confidence=Confidence(radius="hkz", noise=0.3, shift=0.3)),
    "LinLCB": LinLCB(confidence=MOVED),
    "LinOtO": LinOtO(confidence=MOVED, alpha=0.1),
    "aggregate": LinOtO(confidence=MOVED, alpha=0.1, budget="aggregate"),
    "max": LinOtO(confidence=MOVED, alpha=0.1, budget="max"),
    "tolerance": Gated(gate=Tolerance(budget=5.0), confidence=MOVED),
    "rewards": Gated(gate=Tolerance(budget=5.0, evidence="rewards"), confidence=RANGE),
    "both": Gated(gate=Tolerance(budget=5.0), explorer=LinTS(), confidence=RANGE),
    "control": Gated(gate=Control(budget=5.0, promise="expected", loan=3.0), confidence=RANGE),
}


def rounds(agent: Any, bandit: LinearBandit, n: int, seed: int = 0) -> tuple[list[int], Offline]:
    """The arms of n rounds, and what they earned."""
    rng, pulls, sums, arms = np.random.default_rng(seed), np.zeros(K, int), np.zeros(K), []
    for _ in range(n):
        decision = agent.decide()
        reward = float(np.clip(bandit.means[decision.arm] + 0.3 * rng.standard_normal(), -1, 1))
        agent.update(decision, reward)
        arms.append(decision.arm)
        pulls[decision.arm] += 1
        sums[decision.arm] += reward
    return arms, Offline(pulls=pulls, reward_sums=sums)


@pytest.mark.parametrize("radius", ["self_normalised", "hkz", "paper"])
@pytest.mark.parametrize("one_hot", [False, True])
def test_the_bounds_of_an_agent_are_those_of_plain_numpy(radius: Any, one_hot: bool) -> None:
    """Lower ones are the best so far; 600 rewards pass the refresh after 512."""
    bandit, log = moved_world(2, 0.2)
    actions = np.eye(K) if one_hot else bandit.actions
    confidence = Confidence(noise=0.3, radius=radius, shift=0.3)
    agent = LinUCB(scale=1.0, confidence=confidence).start(actions, log)
    pulls, sums, best, rng = np.zeros(K, int), np.zeros(K), np.full(K, -np.inf), np.random.default_rng(1)
    for t in range(600):
        if t < 3 or t % 7 == 0 or t > 580:
            since = Offline(pulls=pulls.copy(), reward_sums=sums.copy())
            lower, upper = shifted_bounds(actions, log, since, confidence=confidence)
            best = np.maximum(best, lower)
            np.testing.assert_allclose(agent.ucb, upper, rtol=1e-9, atol=1e-12)
            assert (agent.lcb >= best - 1e-9).all()
            assert upper[agent.select()] >= upper.max() - 1e-9
        if t < 3:  # afterwards, rounds in between may have had better ones
            np.testing.assert_allclose(agent.lcb, best, rtol=1e-9, atol=1e-12)
        arm, reward = int(rng.integers(K)), float(rng.standard_normal())
        agent.update(arm, reward)
        pulls[arm] += 1
        sums[arm] += reward


def test_without_a_shift_nothing_is_different_or_larger() -> None:
    bandit, log = moved_world(0, 0.0)
    agent = LinUCB(scale=1.0, confidence=Confidence(shift=0.0)).start(bandit.actions, log)
    assert Confidence(shift=0.0) == Confidence()
    assert agent.running.params.shape == (1,)
    without = LinUCB(scale=1.0).start(bandit.actions, log).running.state
    assert [part.shape for part in agent.running.state.arrays] == [part.shape for part in without.arrays]
    assert agent.running.state.run.shape == (1,)


def test_with_an_endless_shift_it_is_the_agent_without_a_log_at_half_of_delta() -> None:
    """Bit for bit, in the coordinates that a shift needs: arms, upper bounds, and lower bounds."""
    bandit, log = moved_world(4, 0.0)
    moved = LinUCB(scale=1.0, confidence=Confidence(noise=0.3, delta=0.2, shift=1e9)).start(
        bandit.actions, log
    )
    with whitening(False):
        alone = LinUCB(scale=1.0, confidence=Confidence(noise=0.3, delta=0.1)).start(
            bandit.actions, Offline.empty(K)
        )
    assert rounds(moved, bandit, 200)[0] == rounds(alone, bandit, 200)[0]
    np.testing.assert_array_equal(moved.ucb, alone.ucb)
    np.testing.assert_array_equal(moved.lcb, alone.lcb)


def test_a_larger_shift_never_gives_a_closer_bound() -> None:
    bandit, log = moved_world(5, 0.1)
    arms, rewards = [0, 1, 3, 5, 5, 7, 7, 7, 2, 6], np.linspace(-1, 1, 10)
    before = None
    for shift in (1e-6, 0.03, 0.1, 0.3, 1.0, 10.0):
        agent = LinUCB(scale=1.0, confidence=Confidence(noise=0.3, shift=shift)).start(bandit.actions, log)
        for arm, reward in zip(arms, rewards, strict=True):
            agent.update(arm, float(reward))
        if before is not None:
            assert (agent.ucb >= before[0]).all()
            assert (agent.lcb <= before[1]).all()
        before = agent.ucb, agent.lcb


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_bounds_hold_in_all_rounds_of_an_agent_that_uses_them(shift: float) -> None:
    """A run may fail with probability 0.2: P(binomial(25, 0.2) > 13) = 7.6e-5."""
    missed = 0
    for seed in range(25):
        bandit, log = moved_world(seed, shift)
        agent, rng, bad = (
            LinUCB(scale=1.0, confidence=MOVED).start(bandit.actions, log),
            np.random.default_rng(seed),
            False,
        )
        for _ in range(60):
            bad |= bool((bandit.means < agent.lcb).any() or (bandit.means > agent.ucb).any())
            arm = agent.select()
            agent.update(arm, float(bandit.means[arm] + 0.3 * rng.standard_normal()))
        missed += bad
    assert missed <= 13


class Oracle:
    """The two estimates in plain NumPy, and the least that a sum y of actions earns by either."""

    def __init__(self, arms: Any, log: Offline, since: Offline, confidence: Confidence, share: float) -> None:
        self.arms, self.log, self.c = arms, log, confidence
        ridge = confidence.ridge_for(D)
        self.G = arms.T @ (log.pulls[:, None] * arms)
        self.states = []
        for rows in (log + since, since):
            V = ridge * np.eye(D) + arms.T @ (rows.pulls[:, None] * arms)
            level = 2 * np.log(2 / (confidence.delta * share)) + np.linalg.slogdet(V / ridge)[1]
            radius = confidence.scale * np.sqrt(level) + np.sqrt(ridge) * confidence.bound
            self.states.append((np.linalg.inv(V), np.linalg.inv(V) @ arms.T @ rows.reward_sums, radius))

    def least(self, y: Any) -> float:
        (inverse, theta, radius), (inverse_on, theta_on, radius_on) = self.states
        image = inverse @ y
        moved = self.c.shift * np.sqrt(self.log.total * image @ self.G @ image)
        pooled = theta @ y - radius * np.sqrt(y @ image) - moved
        return float(max(pooled, theta_on @ y - radius_on * np.sqrt(y @ inverse_on @ y)))


def room_of(gate: Any, confidence: Confidence, after: int) -> tuple[Any, Any, LinearBandit, Offline]:
    """A gated agent after some rounds, and the room that it sees for every arm."""
    bandit, log = moved_world(6, 0.1)
    agent = Gated(gate=gate, explorer=LinUCB(scale=1.0), confidence=confidence).start(bandit.actions, log)
    _, since = rounds(agent, bandit, after)
    agent.decide()
    return agent, agent.running.state.arms[kernels.ROOM].copy(), bandit, since


@pytest.mark.parametrize("after", [0, 25])
def test_the_room_of_a_tolerance_is_by_either_estimate(after: int) -> None:
    gate = OlderTolerance(budget=4.0, epsilon=0.1, evidence="model", bias="loose")
    agent, room, bandit, since = room_of(gate, MOVED, after)
    oracle = Oracle(bandit.actions, agent.offline, since, MOVED, 1.0)
    excess, xbar = agent.running.state.vectors[kernels.EXCESS], agent.running.state.vectors[kernels.XBAR]
    np.testing.assert_allclose(xbar, agent.offline.pulls @ bandit.actions / agent.offline.total, rtol=1e-12)
    want = [oracle.least(excess + a - xbar) + 4.0 + 0.1 * (after + 1) for a in bandit.actions]
    np.testing.assert_allclose(room, want, rtol=1e-6)


@pytest.mark.parametrize("after", [0, 25])
def test_the_room_of_a_budget_is_by_either_estimate(after: int) -> None:
    agent, room, bandit, since = room_of(Budget(alpha=0.5, form="aggregate"), MOVED, after)
    oracle, run = Oracle(bandit.actions, agent.offline, since, MOVED, 1.0), agent.running.run
    past = oracle.least(since.pulls @ bandit.actions) if after else 0.0
    np.testing.assert_allclose(room, past + agent.lcb - (after + 1) * run["baseline"], rtol=1e-9)
    slack = (float(run["slack"]) - 0.3 * np.sqrt(D)) / np.sqrt(D / agent.offline.total)
    start = Gated(gate=Budget(alpha=0.5), explorer=LinUCB(scale=1.0), confidence=MOVED).start(
        bandit.actions, agent.offline
    )
    assert slack == pytest.approx(float(start.running.run["radius"]))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["joint", "separate", "arms"])
def test_a_conservative_gate_sees_less_room_the_more_the_log_may_have_moved(form: Any) -> None:
    """Kernels that no other test compiles, fourteen seconds of them; in the usual suite: the gates above."""
    bandit, log = moved_world(6, 0.0)
    log = Offline(pulls=log.pulls, reward_sums=log.pulls * 0.5)
    rooms = []
    for shift in (1e-9, 0.1, 0.3, 1e6):
        confidence = Confidence(noise=0.3, reward_range=(0.0, 2.0), shift=shift)
        policy = Gated(
            gate=Conservative(alpha=0.5, form=form), explorer=LinUCB(scale=1.0), confidence=confidence
        )
        agent = policy.start(bandit.actions, log)
        for t in range(30):
            agent.update(t % K, 0.5)
        agent.decide()
        rooms.append(agent.running.state.arms[kernels.ROOM].copy())
    assert all((later <= sooner + 1e-9).all() for sooner, later in pairwise(rooms))
    assert (rooms[0] > rooms[-1]).any()


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(4)
def test_the_compiled_loop_and_a_restored_agent_play_the_same(name: str) -> None:
    bandit, log = moved_world(7, 0.2)
    draws = np.clip(0.3 * np.random.default_rng(3).standard_normal(60), -0.3, 0.3)
    by_loop = POLICIES[name].start(bandit.actions, log, rng=1)
    by_hand = POLICIES[name].start(bandit.actions, log, rng=1)
    arms, _ = by_loop.play(bandit.means, draws)
    for t, draw in enumerate(draws):
        if t % 20 == 10:
            by_hand.decide()
            by_hand = linoto.restore(by_hand.snapshot())
        decision = by_hand.decide()
        assert decision.arm == arms[t]
        by_hand.update(decision, float(bandit.means[decision.arm] + draw))
    if name != "control":  # what is left of tickets that were used depends on how a reward came back
        assert by_hand.snapshot() == by_loop.snapshot()
    np.testing.assert_array_equal(by_hand.ucb, by_loop.ucb)
    np.testing.assert_array_equal(by_hand.lcb, by_loop.lcb)


@pytest.mark.parametrize("policy", [POLICIES["LinUCB"], POLICIES["both"], POLICIES["LinOtO"]], ids=repr)
@pytest.mark.few(0)
def test_the_laws_of_every_policy_hold(policy: Any) -> None:
    laws = linoto.check_policy(policy)
    assert "compiled_equals_interactive" in laws


def test_one_hot_policies_allow_for_a_shift() -> None:
    """OtO bounds each arm by itself: with the log and its own share of the shift, or by its own rewards."""
    confidence = Confidence(noise=0.3, shift=0.1, reward_range=(-1.0, 1.0))
    log = Offline(pulls=[40, 10, 0], reward_sums=[20.0, 4.0, 0.0])
    agent = OtO(horizon=100, confidence=confidence).start(np.eye(3), log)
    for _ in range(5):
        agent.update(1, 0.5)
    ridge, radius = confidence.ridge_for(1) * 0.01, 0.3 * np.sqrt(2 * np.log(2 * 3 * 101 / 0.025))
    radius += np.sqrt(ridge)
    pooled = 6.5 / (ridge + 15) + radius / np.sqrt(ridge + 15) + 0.1 * np.sqrt(50 * 10) / (ridge + 15)
    alone = 2.5 / (ridge + 5) + radius / np.sqrt(ridge + 5)
    assert agent.ucb[1] == pytest.approx(min(pooled, alone), rel=1e-12)


def test_what_realised_rewards_pay_for_allows_for_a_reference_that_has_moved() -> None:
    """m logged rows and q of the mixture: their mean is off by at most shift m / (m + q)."""
    log, options = (
        Offline(pulls=[60, 40], reward_sums=[30.0, 20.0]),
        {"noise": "bounded", "reward_range": (0, 1)},
    )
    gate = OlderTolerance(budget=5.0, evidence="rewards", rounding="low")
    uppers = []
    for shift in (0.0, 0.1):
        confidence = Confidence(**options, shift=shift)  # type: ignore[arg-type]
        agent = Gated(gate=gate, explorer=LinUCB(scale=1.0), confidence=confidence).start(np.eye(2), log)
        uppers.append(float(agent.running.run["upper_reference"]))
    assert uppers[1] - uppers[0] == pytest.approx(0.1, rel=1e-9)


def test_a_promise_is_kept_where_the_log_has_moved_and_broken_where_it_was_trusted() -> None:
    """Arm 0 earned 1 in the log and earns 0 now; the other logged arm earns 0.9 still.

    A run of the first may break it with probability 0.05: P(binomial(20, 0.05) > 6) = 4e-5.
    """
    log = Offline(pulls=[1000, 1000, 0], reward_sums=[1000.0, 900.0, 0.0])
    means, shift, broken = np.array([0.0, 0.9, 0.0]), np.sqrt(0.5), []
    for assumed in (shift, 0.0):
        confidence = Confidence(noise=0.1, reward_range=(0.0, 1.0), shift=assumed, bound=2.0)
        gate = Tolerance(budget=20.0, evidence="model")
        policy = Gated(gate=gate, explorer=LinUCB(scale=1.0), confidence=confidence)
        promised = policy.certificate(np.eye(3), log)
        worst = 0
        for seed in range(20):
            draws = 0.1 * np.random.default_rng(seed).standard_normal(300)
            arms, _ = policy.start(np.eye(3), log, rng=seed).play(means, draws)
            worst += bool((np.cumsum(0.45 - means[arms]) > 20.0 + promised.constant).any())
        broken.append(worst)
    assert broken[0] <= 6
    assert broken[1] == 20


def test_the_certificate_says_what_is_assumed() -> None:
    bandit, log = moved_world(0, 0.0)
    moved = POLICIES["tolerance"].certificate(bandit.actions, log)
    assert any("differ from those online by at most 0.3" in text for text in moved.assumes)
    assert not any("no drift" in text for text in moved.assumes)
    still = Gated(gate=Tolerance(budget=5.0), confidence=Confidence(noise=0.3, delta=0.2))
    assert (
        "the arms earn online what they earned in the log: no drift"
        in still.certificate(bandit.actions, log).assumes
    )
    width = np.diff(moved.reference_interval) - np.diff(
        still.certificate(bandit.actions, log).reference_interval
    )
    assert width[0] == pytest.approx(0.6)
    loose, tight = (
        p.certificate(bandit.actions, log)
        for p in (LinLCB(confidence=MOVED), LinLCB(confidence=Confidence(noise=0.3, delta=0.1)))
    )
    assert loose.per_round > tight.per_round + 0.3


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: LinTS(confidence=MOVED).composed(), "shift must be 0 for LinTS without a gate, got 0.3"),
        (lambda: Greedy(confidence=MOVED).composed(), "shift must be 0 for Greedy without a gate"),
        (lambda: UCB1(confidence=MOVED).composed(), "shift must be 0 for UCB1 without a gate"),
        (lambda: RareLinUCB(confidence=MOVED).composed(), "shift must be 0 for RareLinUCB"),
        (
            lambda: LinUCB(scale=1.0, memory=10, confidence=MOVED).composed(),
            "memory and discount must be None where the log may",
        ),
        (lambda: OOPE(confidence=MOVED), "shift must be 0 for OOPE"),
        (lambda: Confidence(shift=-0.1), "shift must be a number >= 0, got -0.1"),
        (lambda: Confidence(shift=float("inf")), "shift must be a number >= 0"),
    ],
)
def test_what_cannot_allow_for_a_shift_says_so(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        make()


def test_arms_that_come_and_go_are_refused() -> None:
    bandit, log = moved_world(0, 0.0)
    agent = LinUCB(scale=1.0, confidence=MOVED).start(bandit.actions, log)
    with pytest.raises(ValueError, match="shift must be 0 for arms that come and go"):
        agent.add_arms([[1.0, 0.0, 0.0]])


def test_a_snapshot_without_the_second_estimate_is_refused() -> None:
    bandit, log = moved_world(0, 0.0)
    blob = LinUCB(scale=1.0, confidence=MOVED).start(bandit.actions, log).snapshot()
    with pytest.raises(ValueError, match="snapshot must hold"):
        linoto.restore(without(blob, "arms.online_mean"))


def without(blob: bytes, name: str) -> bytes:
    """A snapshot that lacks one array."""
    import io

    with np.load(io.BytesIO(blob)) as file:
        arrays = {key: file[key] for key in file.files if key != name}
    assert len(arrays) < len(file.files)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def test_explorers_that_read_no_bounds_are_welcome_behind_a_gate() -> None:
    bandit, log = moved_world(0, 0.0)
    for explorer in (LinTS(), SquareCB(), Greedy(), Random()):
        Gated(explorer=explorer, gate=Tolerance(budget=1.0), confidence=MOVED).start(
            bandit.actions, log, rng=0
        ).select()
    Gated(explorer=Greedy(), gate=Closed(), confidence=MOVED).start(bandit.actions, log).select()


def test_the_least_shift_does_not_depend_on_the_stated_one() -> None:
    bandit, log = moved_world(0, 0.8)
    since = Offline(pulls=np.full(K, 60), reward_sums=60 * bandit.means)
    stated = least_shift(bandit.actions, log, since, confidence=MOVED)
    assert stated == least_shift(bandit.actions, log, since, confidence=Confidence(noise=0.3, delta=0.2))
