"""Worlds with contexts: what rounds, logs and practice are, and runs that are the same compiled or asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from linoto import (
    Closed,
    Confidence,
    ContextualBandit,
    Control,
    Gated,
    Greedy,
    LinLCB,
    LinTS,
    LinUCB,
    Moments,
    Random,
    Run,
    Tolerance,
    simulate,
)
from linoto.core.playing import GivenRounds, ask_in_rounds
from linoto.worlds.contexts import PooledRounds

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2)
POLICIES: dict[str, Any] = {
    "linucb": LinUCB(scale=1.0),
    "thompson": LinTS(scale=0.5),
    "greedy": Greedy(),
    "random": Random(),
    "linlcb": LinLCB(),
    "practice": Gated(gate=Closed(), fallback="mixture"),
    "model": Gated(gate=Tolerance(budget=20, evidence="model"), confidence=CLICKS),
    "model, thompson": Gated(explorer=LinTS(), gate=Tolerance(budget=9, evidence="model"), confidence=CLICKS),
    "control": Gated(gate=Control(budget=5, epsilon=0.02), confidence=CLICKS),
    "control, random": Gated(explorer=Random(), gate=Control(budget=5, epsilon=0.1), confidence=CLICKS),
    "loan": Gated(gate=Control(budget=5, loan=9, promise="expected"), confidence=CLICKS),
}


def pool(seed: int, *, contexts: int = 12, d: int = 4) -> PooledRounds:
    """Contexts with one to seven arms each, practice drawn, rewards of 0 and 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 8, size=contexts)
    points = rng.random((sizes.sum(), d)) / d
    weights = np.concatenate([rng.dirichlet(np.ones(size)) for size in sizes])
    drawn = GivenRounds(np.cumsum(sizes), points, weights, points.sum(axis=1))
    return PooledRounds(pool=drawn, chances=np.full(contexts, 1 / contexts), rewards="bernoulli")


def asked(policy: Any, world: ContextualBandit, log: Moments | None, horizon: int, seed: int) -> Any:
    """A run by asking an agent round by round, as a caller does."""
    draws, own, contexts = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    noise = world.draw(horizon, draws)
    agent = policy.start(log, d=world.d, rng=own)
    drawn = [
        world.rounds(min(256, horizon - first), contexts, first).each() for first in range(0, horizon, 256)
    ]
    rounds = [round for block in drawn for round in block]
    return ask_in_rounds(agent, rounds, noise, world.rewards == "bernoulli"), rounds


# -- one loop, two ways


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_compiled_is_interactive_bit_for_bit(policy: Any) -> None:
    world = pool(3)
    log = world.log(40, rng=4)
    run = simulate(policy, world, log, horizon=700, seed=5)
    played, _ = asked(policy, world, log, 700, 5)
    np.testing.assert_array_equal(run.arms, played.arms)
    np.testing.assert_array_equal(run.explored, played.explored)


@pytest.mark.parametrize("name", ["thompson", "control", "model"])
def test_an_agent_knows_the_same_bits_after_compiled_rounds(name: str) -> None:
    world, draws = pool(3), np.random.default_rng(1).random(300)
    log, drawn = world.log(40, rng=4), world.rounds(300, np.random.default_rng(2))
    one, other = (POLICIES[name].start(log, rng=6) for _ in range(2))
    one.play_rounds(draws=draws, bernoulli=True, **drawn._asdict())
    ask_in_rounds(other, drawn.each(), draws, True)
    np.testing.assert_array_equal(one.theta, other.theta)
    for actions, weights, _ in world.rounds(20, np.random.default_rng(9)).each():
        assert one.decide(actions=actions, practice=weights) == other.decide(
            actions=actions, practice=weights
        )
        one.update(one.decide(actions=actions, practice=weights), 1.0)
        other.update(other.decide(actions=actions, practice=weights), 1.0)


# -- both regrets


@pytest.mark.parametrize("name", ["linucb", "model", "control", "practice", "linlcb"])
def test_regrets_add_up_from_the_arms_played(name: str) -> None:
    world = pool(7)
    log = world.log(40, rng=1)
    run = simulate(POLICIES[name], world, log, horizon=300, seed=2)
    played, rounds = asked(POLICIES[name], world, log, 300, 2)
    regret = behind = 0.0
    for t, (_, weights, means) in enumerate(rounds):
        arm = int(run.arms[t])
        regret += means.max() - means[arm]
        if played.sources[t] not in (2, 4):  # neither practice nor control
            practice = means[played.fallbacks[t]] if name == "control" else weights @ means
            behind += practice - means[arm]
        assert run.regret[t] == pytest.approx(regret)
        assert run.offline_regret[t] == pytest.approx(behind)
    assert run.practice_shortfall.tolist() == run.offline_regret.tolist()
    assert set(run.rewards.tolist()) <= {0.0, 1.0}


def test_practice_itself_is_never_short_of_practice() -> None:
    run = simulate(POLICIES["practice"], pool(7), None, horizon=200)
    assert not run.offline_regret.any() and not run.explored.any() and run.regret[-1] > 0


def test_control_rounds_are_marked() -> None:
    world = pool(1)
    run = simulate(POLICIES["control, random"], world, None, horizon=300)
    assert run.control.any() and run.explored.any() and not (run.control & run.explored).any()


def test_learning_beats_practice_and_random() -> None:
    world = ContextualBandit.synthetic(k=5, d=5, rng=1, error=2.0, noise=0.3)
    log = world.log(200, rng=2)
    learnt, random = (simulate(p, world, log, horizon=1500, seed=3) for p in (LinUCB(scale=1.0), Random()))
    assert learnt.offline_regret[-1] < 0 < random.offline_regret[-1]
    assert learnt.regret[-1] < random.regret[-1] / 5


# -- the same luck for everybody


def test_every_policy_meets_the_same_rounds_and_the_same_noise() -> None:
    world = ContextualBandit.synthetic(k=4, d=3, rng=1)
    runs: list[Run] = [simulate(p, world, None, horizon=400, seed=8) for p in (Greedy(), Random(), LinTS())]
    for run in runs[1:]:
        same = run.arms == runs[0].arms
        assert same.any()
        np.testing.assert_array_equal(run.rewards[same], runs[0].rewards[same])
    again = simulate(LinTS(), world, None, horizon=400, seed=8)
    assert again.arms.tolist() == runs[2].arms.tolist()


def test_given_noise_is_what_is_added() -> None:
    world = ContextualBandit.synthetic(k=4, d=3, rng=1)
    run = simulate(Random(), world, None, noise=np.zeros(50))
    best = np.array([means.max() for *_, means in asked(Random(), world, None, 50, 0)[1]])
    np.testing.assert_allclose(np.cumsum(best - run.rewards), run.regret)


@dataclass(frozen=True)
class FirstArm:
    """A policy of a user's own: plays arm 0, and keeps what it was told."""

    def start(self, offline: Any, *, d: int, rng: Any) -> FirstArm:
        return self

    def decide(self, *, actions: Any, practice: Any) -> FirstArm:
        return self

    arm = 0

    def update(self, decision: FirstArm, reward: float) -> None:
        assert decision is self and reward in (0.0, 1.0)


def test_a_policy_of_ones_own_can_be_played() -> None:
    run = simulate(FirstArm(), pool(2), None, horizon=60)  # type: ignore[arg-type]
    assert not run.arms.any() and run.explored.all()


def test_a_policy_without_contexts_is_refused() -> None:
    class Fixed:
        def start(self, actions: Any, offline: Any, rng: Any = 0) -> Any:
            raise AssertionError

    with pytest.raises(ValueError, match="policy must start without arms"):
        simulate(Fixed(), pool(2), None, horizon=5)


# -- worlds


def test_a_table_earns_one_for_the_right_label_only() -> None:
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(30, 2)), rng.choice(["a", "b", "c"], size=30)
    world = ContextualBandit.from_table(features, labels, practice=labels)
    assert world.d == 6
    for actions, weights, means in world.rounds(50, rng).each():
        right = int(means.argmax())
        row = int(np.flatnonzero((features == actions[0, :2]).all(axis=1))[0])
        assert sorted(means.tolist()) == [0, 0, 1] and "abc"[right] == labels[row]
        assert weights.tolist() == means.tolist()
        for arm in range(3):  # its own place has the features of the row, the others nothing
            np.testing.assert_array_equal(actions[arm].reshape(3, 2), np.outer(np.eye(3)[arm], features[row]))


def test_a_table_may_have_features_for_every_arm() -> None:
    features = np.arange(24.0).reshape(4, 3, 2)
    world = ContextualBandit.from_table(features, [5, 6, 7, 5], practice=[0.5, 0.5, 0.0])
    actions, weights, _ = world.round(rng=0)
    assert world.d == 2 and actions.tolist() in features.tolist() and weights.tolist() == [0.5, 0.5, 0]


def test_practice_that_was_not_given_is_a_rule_learnt_from_a_few_rows() -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=400)
    features = np.column_stack([np.ones(400), 3 * np.eye(3)[labels] + rng.normal(size=(400, 3))])
    world = ContextualBandit.from_table(features, labels, taught=30)
    drawn = world.rounds(1000, rng)
    right = (drawn.weights * drawn.means).sum() / 1000
    assert 0.7 < right < 1.0  # better than guessing (1/3), and not perfect
    assert ContextualBandit.from_table(features, labels, taught=30, rng=0).round(rng=1)[1].tolist() == (
        world.round(rng=1)[1].tolist()
    )


def test_a_log_is_what_practice_did() -> None:
    world = ContextualBandit.synthetic(k=4, d=3, rng=1, weights=[1, 0, 0, 0], noise=0.0)
    log = world.log(600, rng=1)
    assert log.count == 600
    theta = np.linalg.solve(log.gram, log.reward_vector)  # without noise the log says it exactly
    actions, _, means = world.round(rng=3)
    np.testing.assert_allclose(actions @ theta, means, atol=1e-9)
    uniform = world.log(600, rng=1, uniform=1.0)
    assert not np.allclose(log.gram, uniform.gram)


def test_synthetic_practice_is_as_good_as_its_parameter_is_near() -> None:
    earned = []
    for error in (0.0, 1.0, 100.0):
        world = ContextualBandit.synthetic(k=10, d=5, rng=1, error=error)
        drawn = world.rounds(2000, np.random.default_rng(1))
        earned.append(float(drawn.weights @ drawn.means) / 2000)
    best = float(drawn.means.reshape(2000, 10).max(axis=1).mean())
    assert earned[0] == pytest.approx(best) and best > earned[1] > earned[2]


def test_clicks_have_means_between_0_and_1() -> None:
    world = ContextualBandit.synthetic(k=10, d=4, rng=1, rewards="bernoulli")
    drawn = world.rounds(500, np.random.default_rng(1))
    assert 0 <= drawn.means.min() < 0.2 and 0.8 < drawn.means.max() <= 1
    assert (np.linalg.norm(drawn.actions, axis=1)).max() == pytest.approx(1.0)


def test_a_world_that_changes_does_so_at_its_round() -> None:
    features, labels = np.eye(2), [0, 1]
    before = ContextualBandit.from_table(features, labels, practice=labels)
    after = ContextualBandit.from_table(features, [1, 0], practice=[1, 0])
    drawn = before.until(300, after).rounds(600, np.random.default_rng(1))
    same = drawn.actions.reshape(600, 2, 2, 2)[:, 0, 0].argmax(axis=1) == drawn.means.reshape(600, 2).argmax(
        1
    )
    assert same[:300].all() and not same[300:].any()
    again = [before.until(300, after).rounds(200, np.random.default_rng(2), first) for first in (0, 200, 400)]
    assert [len(part.ends) for part in again] == [200] * 3


def test_a_world_that_changes_pays_as_before() -> None:
    paid = {"noise": 0.3, "rewards": "beta", "reward_range": (-5.0, 5.0), "share": 0.2}
    before, after = (replace(pool(seed), **paid) for seed in (1, 2))
    changing = before.until(10, after)
    assert {name: getattr(changing, name) for name in paid} == paid
    with pytest.raises(ValueError, match=r"reward_range = \(-5.0, 5.0\), got \(0.0, 1.0\)"):
        before.until(10, replace(after, reward_range=(0.0, 1.0)))


# -- what is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ContextualBandit.synthetic(k=0), "k must be"),
        (lambda: ContextualBandit.synthetic(d=1, rewards="bernoulli"), "d must be at least 2"),
        (lambda: ContextualBandit.synthetic(k=3, weights=[0.5, 0.5]), "weights must have one entry"),
        (lambda: ContextualBandit.synthetic(k=2, weights=[0.5, 0.6]), "sum to 1"),
        (lambda: ContextualBandit.from_table([[1.0]], [0, 1]), "features must have a row for each of the 2"),
        (lambda: ContextualBandit.from_table(np.ones((2, 3, 1)), [0, 1]), "features must have 2 arms"),
        (lambda: ContextualBandit.from_table(np.ones((2, 1)), [0, 1], practice=[7, 0]), "practice must"),
        (lambda: pool(1).log(5, rng=0, uniform=2), "uniform must be in"),
        (lambda: pool(1).until(5, ContextualBandit.synthetic()), "then must be"),
        (
            lambda: simulate(LinUCB(scale=1.0), pool(1), Moments.empty(9), horizon=5),
            "offline must have 4 features",
        ),
        (lambda: simulate(LinUCB(scale=1.0), pool(1), None), "horizon must be"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
