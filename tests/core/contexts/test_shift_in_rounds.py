"""A log that may have moved, where rounds bring their own arms: against plain NumPy, and its promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto import (
    Confidence,
    Control,
    Gated,
    LinLCB,
    LinTS,
    LinUCB,
    Moments,
    Tolerance,
    least_shift,
    shifted_bounds,
)
from linoto.core import kernels

D, K = 4, 5
MOVED = Confidence(noise=0.3, delta=0.2, shift=0.3)
RANGE = Confidence(noise="bounded", reward_range=(-1.0, 1.0), delta=0.2, shift=0.3, bound=2.0)
UCB = LinUCB(scale=1.0, confidence=MOVED)
POLICIES: dict[str, Any] = {
    "LinUCB": UCB,
    "LinLCB": LinLCB(confidence=MOVED),
    "tolerance": Gated(explorer=LinTS(), gate=Tolerance(budget=5.0, evidence="model"), confidence=MOVED),
    "mixture": Gated(
        explorer=LinUCB(scale=0.25),
        gate=Tolerance(budget=5.0, evidence="model"),
        fallback="mixture",
        confidence=MOVED,
    ),
    "control": Gated(
        explorer=LinUCB(scale=0.25), gate=Control(budget=5.0, promise="expected", loan=3.0), confidence=RANGE
    ),
}


def unit(rng: np.random.Generator, *shape: int) -> Any:
    found = rng.standard_normal(shape)
    return found / np.linalg.norm(found, axis=-1, keepdims=True)


def moved_log(seed: int, shift: float, m: int = 300) -> tuple[Any, Moments]:
    """theta, and a log whose rows have moved by `shift` at random signs: not linear in the features."""
    rng = np.random.default_rng(seed)
    theta, rows = 0.8 * unit(rng, D), unit(rng, m, D) * [1.0, 1.0, 0.3, 0.1]
    wrong = shift * np.sign(rows @ unit(rng, D))
    return theta, Moments.from_rows(rows, rows @ theta + wrong + 0.3 * rng.standard_normal(m))


class Two:
    """Both estimates in plain NumPy, from the log's sums and the history."""

    def __init__(self, log: Moments, confidence: Confidence) -> None:
        self.log, self.c, self.rows, self.rewards = log, confidence, np.zeros((0, D)), np.zeros(0)
        self.ridge = confidence.ridge_for(D)

    def add(self, row: Any, reward: float) -> None:
        self.rows, self.rewards = np.vstack([self.rows, row]), np.append(self.rewards, reward)

    def estimates(self, y: Any) -> list[tuple[float, float, float]]:
        """<theta, y>, its margin without the ridge's pull, and that pull; with the log and without it."""
        found = []
        for logged in (True, False):
            V = self.ridge * np.eye(D) + self.rows.T @ self.rows + logged * self.log.gram
            theta = np.linalg.solve(V, self.rows.T @ self.rewards + logged * self.log.reward_vector)
            growth = np.linalg.slogdet(V)[1] - D * np.log(self.ridge)
            image = np.linalg.solve(V, y)
            width = np.sqrt(y @ image)
            noise = self.c.scale * np.sqrt(2 * np.log(2 / self.c.delta) + growth)
            lift = self.c.shift * np.sqrt(self.log.count * image @ self.log.gram @ image)
            pull = np.sqrt(self.ridge) * self.c.bound * width
            found.append((float(theta @ y), float(noise * width + logged * lift), float(pull)))
        return found

    def bounds(self, y: Any) -> tuple[float, float]:
        (a, b, c), (d, e, f) = self.estimates(y)
        return max(a - b - c, d - e - f), min(a + b + c, d + e + f)

    def least_with_arm(self, y: Any, arm: Any) -> float:
        """The least that y + arm earns by either, with the smaller of two bounds on the ridge's pull."""
        most = -np.inf
        for logged, (middle, margin, pull) in zip((True, False), self.estimates(y + arm), strict=True):
            V = self.ridge * np.eye(D) + self.rows.T @ self.rows + logged * self.log.gram
            apart = self.ridge * self.c.bound * np.linalg.norm(np.linalg.solve(V, y))
            apart += np.sqrt(self.ridge) * self.c.bound * np.sqrt(arm @ np.linalg.solve(V, arm))
            most = max(most, middle - margin - min(pull, apart))
        return most


def test_bounds_are_those_of_plain_numpy_before_and_after_a_refresh() -> None:
    """Every arm of a round by the oracle and by `shifted_bounds`, and LinUCB plays the best upper one."""
    theta, log = moved_log(1, 0.2)
    agent, oracle, rng = UCB.start(log, rng=0), Two(log, MOVED), np.random.default_rng(1)
    for t in range(600):
        arms = unit(rng, K, D)
        if t < 3 or t % 40 == 0 or t > 595:
            decision = agent.decide(actions=arms)
            upper = [oracle.bounds(arm)[1] for arm in arms]
            assert upper[decision.arm] == pytest.approx(max(upper), rel=1e-9)
            np.testing.assert_allclose(agent.bounds(decision), oracle.bounds(arms[decision.arm]), rtol=1e-8)
            np.testing.assert_allclose(agent.interval(arms[0]), oracle.bounds(arms[0]), rtol=1e-8)
            since = Moments.from_rows(oracle.rows, oracle.rewards) if t else Moments.empty(D)
            lower, upper_ = shifted_bounds(arms, log, since, confidence=MOVED)
            np.testing.assert_allclose((lower[0], upper_[0]), oracle.bounds(arms[0]), rtol=1e-8)
        decision = agent.decide(actions=arms)
        reward = float(arms[decision.arm] @ theta + 0.3 * rng.standard_normal())
        agent.update(decision, reward)
        oracle.add(arms[decision.arm], reward)


def test_a_gate_affords_what_either_estimate_affords() -> None:
    theta, log = moved_log(2, 0.3)
    gate = Tolerance(budget=1.0, evidence="model")
    agent = Gated(explorer=LinTS(), gate=gate, reach="proposal", confidence=MOVED).start(log, rng=0)
    oracle, rng = Two(log, MOVED), np.random.default_rng(2)
    excess, modes = np.zeros(D), set()
    for _ in range(150):
        arms = unit(rng, K, D)
        decision = agent.decide(actions=arms, practice=1)
        rooms = [1.0 + oracle.least_with_arm(excess - arms[1], arm) for arm in arms]
        found = agent.running.state.arms[kernels.ROOM]
        np.testing.assert_allclose(found, rooms, rtol=1e-6, atol=1e-6)
        modes.add(decision.mode)
        reward = float(arms[decision.arm] @ theta + 0.3 * rng.standard_normal())
        agent.update(decision, reward)
        if not decision.by_practice:
            excess += arms[decision.arm] - arms[1]
        oracle.add(arms[decision.arm], reward)
    assert modes == {"explore", "safe"}


def test_without_a_shift_nothing_is_different_or_larger() -> None:
    _, log = moved_log(0, 0.0)
    agent = LinUCB(scale=1.0, confidence=Confidence(shift=0.0)).start(log)
    assert agent.running.params.shape == (1,)
    assert len(agent.running.state.square) == len(kernels.SQUARE_ROWS) + 1


def test_with_an_endless_shift_it_is_the_agent_without_a_log_at_half_of_delta() -> None:
    theta, log = moved_log(4, 0.0)
    endless, half = (
        Confidence(noise=0.3, delta=delta, shift=shift) for delta, shift in ((0.2, 1e9), (0.1, 0))
    )
    agents = LinUCB(scale=1.0, confidence=endless).start(log), LinUCB(scale=1.0, confidence=half).start(d=D)
    rng = np.random.default_rng(0)
    for _ in range(100):
        arms = unit(rng, K, D)
        first, second = (agent.decide(actions=arms) for agent in agents)
        assert first.arm == second.arm
        np.testing.assert_allclose(agents[0].bounds(first), agents[1].bounds(second), rtol=1e-12)
        reward = float(arms[first.arm] @ theta + 0.3 * rng.standard_normal())
        for agent, decision in zip(agents, (first, second), strict=True):
            agent.update(decision, reward)


@pytest.mark.parametrize("name", POLICIES)
def test_a_snapshot_has_the_same_future_and_the_loop_plays_the_same(name: str) -> None:
    theta, log = moved_log(5, 0.2)
    rng = np.random.default_rng(3)
    n = 60
    arms, draws = unit(rng, n * K, D), 0.1 * rng.uniform(-1, 1, n)
    world = {"ends": np.arange(1, n + 1) * K, "actions": arms, "weights": np.tile(np.eye(K)[1], n)}
    means = arms @ theta  # of one arm alone it may have other last digits
    whole = POLICIES[name].start(log, rng=7)
    played = whole.play(means, draws, **world)[0]
    agent = POLICIES[name].start(log, rng=7)
    for t in range(n):
        if t in (20, 45):
            agent = linoto.restore(agent.snapshot())
        of_round = arms[t * K : (t + 1) * K]
        decision = agent.decide(actions=of_round, practice=1)
        assert decision.arm == played[t]
        agent.update(decision, float(means[t * K + decision.arm] + draws[t]))
    assert agent.snapshot() == whole.snapshot()


def test_the_promise_holds_for_a_log_that_lies_as_far_as_is_stated_and_not_for_one_that_is_trusted() -> None:
    """The log hides most of what a bad arm loses. At delta = 0.05, P(binomial(20, 0.05) > 5) = 3e-4."""
    theta = np.array([0.5, -0.5])
    broken = {0.0: 0, 0.4: 0}
    for shift in broken:
        for seed in range(20):
            rng = np.random.default_rng(seed)
            rows = np.tile(np.eye(2), (500, 1))
            wrong = np.tile([-0.4, 0.4], 500)
            log = Moments.from_rows(rows, rows @ theta + wrong + 0.3 * rng.standard_normal(1000))
            stated = Confidence(noise=0.3, shift=shift, bound=1.5)
            gate = Tolerance(budget=2.0, evidence="model")
            agent = Gated(explorer=Always(1), gate=gate, confidence=stated).start(log, rng=seed)
            lost = 0.0
            for _ in range(60):
                decision = agent.decide(actions=np.eye(2), practice=0)
                lost += float(theta[0] - theta[decision.arm])
                agent.commit(decision)  # no reward comes: the log is all there is
            broken[shift] += lost > 2.0
    assert broken[0.4] <= 5
    assert broken[0.0] == 20


class Always:
    """It wants one arm."""

    deterministic = True

    def __init__(self, arm: int) -> None:
        self.arm = arm

    def propose(self, view: Any) -> int:
        return self.arm


def test_what_has_moved_is_seen_in_rounds_too() -> None:
    theta, log = moved_log(6, 0.0, m=2000)
    rng = np.random.default_rng(6)
    rows = unit(rng, 2000, D)
    still = Moments.from_rows(rows, rows @ theta + 0.3 * rng.standard_normal(2000))
    moved = Moments.from_rows(rows, rows @ -theta + 0.3 * rng.standard_normal(2000))
    sure = Confidence(noise=0.3)
    assert least_shift(None, log, still, confidence=sure) == 0.0
    assert least_shift(None, log, moved, confidence=sure) > 0.1


def test_a_certificate_says_what_is_assumed_of_the_log() -> None:
    _, log = moved_log(0, 0.0)
    stated = POLICIES["tolerance"].certificate(log).assumes
    assert any("differ from those online by at most 0.3" in text for text in stated)
    assert not any("no drift" in text for text in stated)


def test_looking_changes_nothing() -> None:
    """Propensities and decisions that nobody commits leave no trace, behind a coin too."""
    _, log = moved_log(7, 0.1)
    rng = np.random.default_rng(7)
    for name in ("control", "tolerance"):
        agent = POLICIES[name].start(log, rng=1)
        arms = unit(rng, K, D)
        agent.update(agent.decide(actions=arms, practice=1), 0.5)
        before = agent.snapshot()
        for arm in range(K):
            agent.propensity(arm, actions=arms, practice=1)
        assert agent.snapshot() == before
        if name == "tolerance":
            agent.decide(actions=arms, practice=1)
            assert agent.snapshot() == before
