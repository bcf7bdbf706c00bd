"""Explorers that are told of guardrails propose what those may accept; practice, coin and books stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Control, Gated, Greedy, Guardrail, LinTS, LinUCB, Moments, Offline, SquareCB
from linoto.core import kernels
from linoto.core.acceptable import MOST_FEATURES, Estimates
from linoto.core.arrays import Bools, Floats
from linoto.core.coins import KeyedCoins
from linoto.core.snapshots import read_snapshot

LOG = Offline(pulls=[60, 40, 0, 0], reward_sums=[18.0, 12.0, 0.0, 0.0])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
RAIL = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=30, mean=0.03)
UP = replace(RAIL, lower_is_better=False)
CLICKED, COMPLAINED = np.array([0.3, 0.3, 0.6, 0.45]), np.array([0.03, 0.03, 0.5, 0.02])
EXPLORERS: dict[str, Any] = {
    "ucb": LinUCB(scale=0.25),
    "thompson": LinTS(scale=0.25),
    "gaps": SquareCB(),
    "random": linoto.Random(),
    "greedy": Greedy(),
}


def policy(explorer: Any = EXPLORERS["ucb"], **other: Any) -> Gated:
    options: dict[str, Any] = {"gate": Control(budget=40.0), "guardrails": [RAIL], **other}
    return Gated(explorer=explorer, confidence=CLICKS, **options)


def accepted(estimates: Estimates, actions: Floats, room: float) -> Bools:
    """What may be proposed where practice plays the first arm, and so much of the metric may be lost."""
    books = np.zeros(1, kernels.RUN)
    books["room"] = room
    return estimates.among(actions, np.arange(len(actions)) == 0, books)


class InRounds:
    """The same arms in every round, with practice drawn by weights: one view of both kinds of agents."""

    def __init__(self, agent: Any) -> None:
        self.inner = agent
        self.question = {"actions": np.eye(4), "practice": LOG.pulls / LOG.total}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def decide(self) -> Any:
        return self.inner.decide(**self.question)

    def propensity(self, arm: int, **more: Any) -> Any:
        return self.inner.propensity(arm, **self.question, **more)


def started(kind: str, explorer: Any = EXPLORERS["ucb"], seed: int = 0, **other: Any) -> Any:
    if kind == "fixed arms":
        return policy(explorer, **other).start(np.eye(4), LOG, rng=seed)
    moments = Moments.from_rows(np.repeat(np.eye(4), LOG.pulls, axis=0), np.repeat(CLICKED, LOG.pulls))
    return InRounds(policy(explorer, **other).start(moments, rng=seed))


every_kind = pytest.mark.parametrize("kind", ["fixed arms", "contexts"])


def played(agent: Any, rounds: int, seed: int = 1) -> list[Any]:
    rng, decisions = np.random.default_rng(seed), []
    for _ in range(rounds):
        decisions.append(agent.decide())
        arm = decisions[-1].arm
        complaint = float(rng.random() < COMPLAINED[arm])
        agent.update(decisions[-1], float(rng.random() < CLICKED[arm]), {"complaints": complaint})
    return decisions


@every_kind
@pytest.mark.parametrize("name", EXPLORERS)
def test_an_arm_that_annoys_is_tried_and_then_left_alone(kind: str, name: str) -> None:
    """It is clicked most. Everything is drawn by fixed seeds."""
    decisions = played(started(kind, EXPLORERS[name]), 600)
    proposed = np.array([decision.proposal for decision in decisions])
    if name in ("ucb", "random"):
        assert (proposed[:200] == 2).any() and (proposed == 3).any()
    assert (proposed[300:] == 2).mean() < 0.02


@every_kind
@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("name", EXPLORERS)
def test_propensities_of_a_thrown_coin_are_those_of_its_snapshot(kind: str, name: str, guarded: bool) -> None:
    """Restored at any moment, and whatever was told of other rounds since the coin was thrown."""
    agent = started(kind, EXPLORERS[name], **({} if guarded else {"guardrails": []}))
    rng, thrown, late = np.random.default_rng(1), 0, None
    for t in range(90):
        decision = agent.decide()
        clicked = float(rng.random() < CLICKED[decision.arm])
        complaint = {"complaints": float(rng.random() < COMPLAINED[decision.arm])} if guarded else None
        if decision.control_share is not None and t % 2 == 0:
            if late is not None:
                agent.observe(late, metrics={"complaints": 1.0})
                late = None
            blob = agent.snapshot()
            twin = linoto.restore(blob)
            assert twin.snapshot() == blob
            twin = InRounds(twin) if kind == "contexts" else twin
            found = [[each.propensity(arm) for arm in range(4)] for each in (agent, twin)]
            assert found[0] == found[1]
            assert sum(found[0]) == pytest.approx(1.0)
            assert twin.snapshot() == blob
            thrown += 1
        late = decision if guarded and t % 4 == 0 else late
        agent.update(decision, clicked, None if late is decision else complaint)
    assert thrown > 10


@pytest.mark.parametrize("scale", [2.0**-10, 2.0**10])
def test_what_may_be_proposed_does_not_depend_on_the_unit_of_features(scale: float) -> None:
    """With a ridge in the same unit: scaled by a power of 2, no bit changes."""
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((8, 4))
    plain, scaled = Estimates([RAIL], 4, 1.0), Estimates([RAIL], 4, scale**2)
    for _ in range(300):
        arm = int(rng.integers(8))
        value = -float(rng.random() < (0.5 if arm == 2 else 0.03))
        plain.learn(actions[arm], 0, value)
        scaled.learn(scale * actions[arm], 0, value)
    found = accepted(plain, actions, 20.0)
    assert 0 < found.sum() < 8
    assert (accepted(scaled, scale * actions, 20.0) == found).all()


@pytest.mark.parametrize("ridge", [None, 0.25])
@pytest.mark.parametrize("scale", [2.0**-10, 1.0, 2.0**10])
def test_the_ridge_of_guardrails_is_that_of_the_reward(scale: float, ridge: float | None) -> None:
    """Where none is said too: it follows the bound, and with it the unit of features."""
    stated = None if ridge is None else ridge * scale**2
    confidence = replace(CLICKS, ridge=stated, bound=2 / scale)
    agent = Gated(gate=Control(budget=40.0), confidence=confidence, guardrails=[RAIL]).start(
        scale * np.eye(4), LOG, rng=0
    )
    assert agent.running.rails is not None
    found = agent.running.rails.estimates_for(4).ridge
    assert found == agent.running.params[0]["ridge"] == (0.25 * scale**2 if ridge is None else stated)


@pytest.mark.parametrize("scale", [1e40, 1e160])
def test_what_cannot_be_computed_may_be_proposed(scale: float) -> None:
    estimates, actions = Estimates([RAIL], 3, 1.0), scale * np.ones((2, 3))
    estimates.told.theta[:], estimates.told.inverse[:] = np.nan, np.inf
    assert accepted(estimates, actions, 20.0).all()
    estimates.told.theta[:], estimates.told.inverse[:] = -1.0, -np.eye(3)  # by rounding below 0
    assert accepted(estimates, actions, 20.0).all()


@every_kind
def test_practice_is_drawn_as_before(kind: str) -> None:
    """By the log's shares, though an arm of practice is not proposed any more."""
    agent = started(kind)
    learnt = agent.running.rails.estimates_for(4)
    for _ in range(200):
        learnt.learn(np.eye(4)[0], 0, -1.0)
    for _ in range(60):
        draw = float(agent.running.run["practice_draw"])
        decision = agent.decide()
        assert decision.fallback == (0 if draw < 0.6 else 1) and decision.proposal != 0
        agent.update(decision, 0.5, {"complaints": 0.0})


@every_kind
@pytest.mark.parametrize("name", ["thompson", "gaps", "random"])
def test_propensities_are_the_frequencies(kind: str, name: str) -> None:
    """1,000 draws after an arm is known to annoy: |frequency - propensity| <= .08, which is 5 standard
    deviations of a frequency at the most, and 3.5 of both where redraws are counted: false alarm 5e-4 each.
    """
    agent = started(kind, EXPLORERS[name])
    for _ in range(300):
        agent.running.rails.estimates_for(4).learn(np.eye(4)[2], 0, -1.0)
    played(agent, 50)
    said = np.array([agent.propensity(arm, redraws=1000) for arm in range(4)])
    assert abs(said.sum() - 1) < 1e-9 and said[2] == 0.0
    counts = np.zeros(4)
    for turn in range(1000):
        agent.running.state.run["coin_thrown"], agent.running.coins = 0, KeyedCoins(turn.to_bytes(32, "big"))
        if kind == "contexts":
            agent.driver.standing = None
        agent.driver.draw()
        counts[agent.decide().arm] += 1
    np.testing.assert_allclose(counts / 1000, said, atol=0.08)


@every_kind
@pytest.mark.parametrize("name", ["ucb", "thompson", "gaps"])
def test_restored_at_any_round_it_proposes_the_same(kind: str, name: str) -> None:
    agent, late, rng = started(kind, EXPLORERS[name]), [], np.random.default_rng(3)
    for t in range(60):
        decision = agent.decide()
        if t % 7 == 0:
            agent = other = linoto.restore(agent.snapshot())
            agent = agent if kind == "fixed arms" else InRounds(agent)
            assert agent.decide() == decision and other.snapshot() == agent.snapshot()
        agent.commit(decision)
        late.append(decision)
        agent.observe(decision, float(rng.random() < CLICKED[decision.arm]))
        if t % 3 == 0:
            told = late.pop(int(rng.integers(len(late))))
            agent.observe(told, metrics={"complaints": float(rng.random() < COMPLAINED[told.arm])})


def test_what_is_known_is_a_ridge_regression() -> None:
    """An oracle solves it anew; new features change nothing of what is known."""
    rng, rows = np.random.default_rng(0), np.random.default_rng(1).normal(size=(40, 3))
    values, estimates = rng.random(40), Estimates([UP], 3, 1.0)
    for row, value in zip(rows[:20], values, strict=False):
        estimates.learn(row, 0, value)
    estimates = estimates.grown([UP], np.array([0, 2, 3]), 4)
    wide = np.insert(rows, 1, 0.0, axis=1)
    wide[20:, 1] = rng.normal(size=20)
    for row, value in zip(wide[20:], values[20:], strict=True):
        estimates.learn(row, 0, value)
    gram = np.eye(4) + wide.T @ wide
    np.testing.assert_allclose(estimates.told.inverse[0], np.linalg.inv(gram), atol=1e-12)
    solved = np.linalg.solve(gram, wide.T @ (values - 0.03))
    np.testing.assert_allclose(estimates.told.theta[0], solved, atol=1e-12)


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_what_is_not_known_is_accepted_and_what_is_worse_is_not(turn: float) -> None:
    """Whatever the unit and the direction: the rule knows differences and what may be lost."""
    for unit in (1.0, 1000.0):
        rail = Guardrail(
            "m", reward_range=(0, unit), lower_is_better=turn < 0, budget=20 * unit, mean=unit / 2
        )
        estimates, arms = Estimates([rail], 3, 1.0), np.eye(3)
        for _ in range(300):
            for arm, value in ((0, 0.5), (1, 0.5 - 0.2 * turn)):
                estimates.learn(arms[arm], 0, turn * unit * value)
        assert accepted(estimates, arms, 20 * unit).tolist() == [True, False, True]
        accepting = Estimates([replace(rail, rate=0.3 * unit)], 3, 1.0)
        accepting.told.inverse[:], accepting.told.theta[:] = estimates.told.inverse, estimates.told.theta
        assert accepted(accepting, arms, 20 * unit).all()


@every_kind
def test_arms_may_come_and_go(kind: str) -> None:
    if kind == "contexts":
        age = linoto.Numeric(name="age", mean=40.0, scale=10.0)
        recipe = linoto.Recipe(items=("a", "b", "c"), context=(age,), crosses=(("item", "age"),))
        agent: Any = policy().start(None, features=recipe, rng=0)
        agent.add_arms(["d"])
        asked: dict[str, Any] = {"context": {"age": 45}, "practice": "a"}
    else:
        agent, asked = policy().start(np.eye(4), LOG, rng=0), {}
        agent.add_arms([[0, 0, 0, 0, 1.0]])
        agent.remove_arms([3])
    for t in range(40):
        if t == 20 and kind == "fixed arms":
            agent.add_arms([[0, 0, 0, 0, 0, 1.0]])
        if t == 20 and kind == "contexts":
            agent.add_arms(["e"])
        decision = agent.decide(**asked)
        agent.update(decision, 0.5, {"complaints": float(t % 3 == 0)})
    assert agent.running.rails.estimates.d == agent.d


REFUNDS = Guardrail("refunds", reward_range=(0, 5), lower_is_better=True, budget=150, mean=0.2)
REFUNDED = np.array([0.2, 0.3, 0.1, 0.2])


def compiled(kind: str, agent: Any, n: int, draws: Floats) -> Any:
    """What an agent plays in a compiled loop, its draws (3, n) being those of reward and metrics."""
    means = CLICKED if kind == "fixed arms" else np.tile(CLICKED, n)
    world = {} if kind == "fixed arms" else world_of(n)
    besides = (
        (COMPLAINED, REFUNDED) if kind == "fixed arms" else (np.tile(COMPLAINED, n), np.tile(REFUNDED, n))
    )
    metrics = {"complaints": (besides[0], draws[1]), "refunds": (besides[1], draws[2])}
    return agent.play_rounds(means, draws[0], bernoulli=True, metrics=metrics, **world)


def world_of(n: int) -> dict[str, Any]:
    practice = LOG.pulls / LOG.total
    return {
        "ends": 4 * np.arange(1, n + 1),
        "actions": np.tile(np.eye(4), (n, 1)),
        "weights": np.tile(practice, n),
    }


def by_hand(agent: Any, draws: Floats, missing: int = 0) -> tuple[list[int], list[int]]:
    """The same by asking round by round; every so many rounds, one of the values is `missing`."""
    arms, proposals = [], []
    for t, (click, complaint, refund) in enumerate(draws.T):
        decision = agent.decide()
        arms.append(decision.arm)
        proposals.append(decision.proposal)
        values = {
            "refunds": 5.0 * (refund * 5 < REFUNDED[decision.arm]),
            "complaints": float(complaint < COMPLAINED[decision.arm]),
        }
        if missing and t % missing == 0:
            del values["refunds"]
        agent.update(decision, float(click < CLICKED[decision.arm]), values)
    return arms, proposals


@every_kind
@pytest.mark.parametrize("name", EXPLORERS)
def test_compiled_rounds_are_told_as_those_by_hand_are(kind: str, name: str) -> None:
    """Bit for bit, after rounds in which metrics know the same plays and after some in which they do not."""
    rails, rng = {"guardrails": [RAIL, REFUNDS]}, np.random.default_rng(5)
    loop, hand = (started(kind, EXPLORERS[name], 7, **rails) for _ in range(2))
    proposed: list[int] = []
    for n, missing in ((250, 0), (40, 3), (120, 0)):
        draws = rng.random((3, n))
        arms, proposals = by_hand(hand, draws, missing)
        if missing:
            assert by_hand(loop, draws, missing)[0] == arms
        else:
            assert compiled(kind, loop, n, draws).arms.tolist() == arms
        proposed += proposals
    assert loop.rooms == hand.rooms
    known = [read_snapshot(agent.snapshot())[1] for agent in (loop, hand)]
    assert all((known[0][part] == known[1][part]).all() for part in ("rails.inverse", "rails.theta"))
    assert (known[0]["rails.inverse"][0] != known[0]["rails.inverse"][1]).any()
    assert proposed[-120:].count(2) < 6  # it is clicked most, and annoys


def test_where_features_are_many_an_explorer_is_not_told_and_rounds_are_compiled() -> None:
    """Compiled play and play by hand are the same, bit for bit."""
    arms = np.eye(4, MOST_FEATURES + 1) + 1e-3
    compiled, by_hand = (policy().start(arms, LOG, rng=5) for _ in range(2))
    rng, n = np.random.default_rng(2), 60
    draws, besides = rng.random((2, n))
    metrics = {"complaints": (COMPLAINED, besides)}
    rounds = compiled.play_rounds(CLICKED, draws, bernoulli=True, metrics=metrics)
    for t in range(n):
        decision = by_hand.decide()
        assert decision.arm == rounds.arms[t] and decision.fallback == rounds.fallbacks[t]
        values = {"complaints": float(besides[t] < COMPLAINED[decision.arm])}
        by_hand.update(decision, float(draws[t] < CLICKED[decision.arm]), values)
    assert compiled.rooms == by_hand.rooms and by_hand.running.rails.estimates is None


def test_a_loop_that_breaks_off_leaves_all_metrics_with_the_plays_they_know() -> None:
    known = Estimates([RAIL, replace(RAIL, name="refunds")], 2, 1.0)

    def broken() -> None:
        with known.in_loop(3, same_arms=True) as told:
            kernels.told_learn(told, 0, np.array([1.0, 2.0]), -1.0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert known.is_known
    np.testing.assert_array_equal(known.told.inverse[0], known.told.inverse[1])


@pytest.mark.parametrize("shared", [True, False])
def test_a_variance_of_before_refuses_only_what_would_be_refused_anyway(shared: bool) -> None:
    rng = np.random.default_rng(0)
    rails = [RAIL, replace(RAIL, name="refunds", lower_is_better=False)]
    known, actions = Estimates(rails, 3, 1.0), rng.normal(size=(12, 3))
    books, weights = np.zeros(2, kernels.RUN), np.full(12, 1 / 12)
    with known.in_loop(12, same_arms=True) as told:
        told = told._replace(shared=int(shared))
        refused = 0
        for _ in range(300):
            books["room"], arm = rng.uniform(-1, 30, 2), int(rng.integers(12))
            for place in range(2):
                kernels.told_learn(told, place, actions[arm], float(rng.random() < 0.3) * (2 * place - 1))
            fresh, again = np.empty((2, 12), np.int64)
            kernels.told_compare(told, actions, weights)
            kernels.told_accept(told._replace(variances=np.zeros(0)), books, actions, fresh)
            kernels.told_accept(told, books, actions, again)
            np.testing.assert_array_equal(fresh, again)
            refused += 12 - int(fresh.sum())
    assert refused > 100
