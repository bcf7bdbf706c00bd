"""An explorer that promises nothing, and rewards that are not as it assumes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.own_explorers import Optimist

import linoto
from linoto import Confidence, Offline, OwnFeatures, one_hot
from linoto.core.features.moments import Moments

MEANS = np.array([314.0, 764.0, 1108.0, 1211.0, 1055.0])  # of a price, in euros
NOISE = 500.0
EXPLORERS: list[Any] = [linoto.LinTS(), linoto.LinUCB(), linoto.RandUCB(), linoto.SquareCB(), linoto.Greedy()]
names = [type(explorer).__name__ for explorer in EXPLORERS]


def log_of(rows: int, seed: int = 0, unit: float = 1.0) -> Offline:
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 5, rows)
    return Offline.from_rows(arms, unit * (MEANS[arms] + NOISE * rng.normal(size=rows)), k=5)


def earned(policy: Any, log: Offline, seed: int, rounds: int = 600) -> float:
    rng = np.random.default_rng(seed)
    agent, total = policy.start(one_hot(5), log, rng=seed), 0.0
    for _ in range(rounds):
        decision = agent.decide()
        agent.update(decision, float(MEANS[decision.arm] + NOISE * rng.normal()))
        total += MEANS[decision.arm]
    return total / rounds


@pytest.mark.parametrize("policy", EXPLORERS, ids=names)
def test_rewards_in_euros_are_learnt_from_a_log_of_them(policy: Any) -> None:
    """Uniform plays earn 890. With noise 1 and bound 1 the worst of five runs kept to 314 or 764."""
    assert min(earned(policy, log_of(150, seed), seed) for seed in range(5)) > 1050


@pytest.mark.parametrize("policy", EXPLORERS, ids=names)
def test_a_range_alone_holds_no_arm_at_0(policy: Any) -> None:
    """Half its width is the noise; by a bound of 1 every estimate would be a thousandth of the truth."""
    ranged = Confidence(noise="bounded", reward_range=(-2000.0, 5000.0))
    agent = type(policy)(confidence=ranged).start(one_hot(5), log_of(4000))
    assert np.abs(agent.means / MEANS - 1).max() < 0.2
    assert agent.means.argmax() == 3


def test_the_least_that_is_not_refuted_is_a_little_below_the_truth() -> None:
    assumed = linoto.LinTS().start(one_hot(5), log_of(4000)).driver.confidence
    assert 0.9 * NOISE < assumed.noise < NOISE and 1000 < assumed.bound < np.linalg.norm(MEANS)


def test_what_no_reward_refutes_stays() -> None:
    """Rewards of 0 and 1, a log without rows, and whoever says enough."""
    clicks = Offline.from_rows(np.repeat([0, 1], 500), np.tile([0.0, 1.0, 1.0, 1.0, 1.0], 200), k=2)
    for policy in EXPLORERS:
        for log in (clicks, Offline.empty(2)):
            assert policy.start(one_hot(2), log).policy == policy
        for noise, bound in ((700.0, 3000.0), (2.0, 3.0)):  # said, so it stays, however wrong; 1 is not
            said = type(policy)(confidence=Confidence(noise=noise, bound=bound))
            assert said.start(one_hot(5), log_of(4000)).policy == said


def test_an_open_gate_is_no_gate() -> None:
    explorer = linoto.LinUCB()
    alone, gated = (
        explorer.start(one_hot(5), log_of(400)),
        linoto.Gated(explorer=explorer, gate=linoto.Open()),
    )
    assert gated.start(one_hot(5), log_of(400)).driver.confidence == alone.driver.confidence
    assert alone.driver.confidence.noise > 400


def test_the_certificate_before_the_start_is_that_of_the_agent() -> None:
    for policy in EXPLORERS:
        agent = policy.start(one_hot(5), log_of(400))
        assert policy.certificate(one_hot(5), log_of(400)) == agent.certificate


def test_every_epoch_of_a_doubled_policy_assumes_what_was_said() -> None:
    agent: Any = linoto.Doubling(policy=linoto.LinUCB()).start(one_hot(5), log_of(400), rng=0)
    for _ in range(10):
        assert agent.inner.driver.confidence == Confidence()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            agent.update(agent.decide(), 900.0)
    assert agent.epoch > 0


def test_a_million_arms_take_no_matrix() -> None:
    """One-hot arms are never written down: that would be 7 TiB."""
    k = 1_000_000
    pulls = np.full(k, 9)
    log = Offline(
        pulls=pulls, reward_sums=9 * np.linspace(800.0, 900.0, k), reward_squares=9 * np.full(k, 1e6)
    )
    agent = linoto.Greedy().start(one_hot(k), log)
    assumed = agent.driver.confidence
    assert 500 < assumed.noise <= assumed.bound, "else the ridge holds every arm at 0"
    with pytest.warns(UserWarning, match="a reward of 1e\\+06 contradicts|a reward of 1,000,000 contradicts"):
        agent.update(agent.decide(), 1e6)


def test_a_large_level_is_no_noise() -> None:
    """Rewards near 1e8 that differ by less than 1: rounding is not what they scatter by."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(2000), rng.normal(size=2000)])
    assumed = (
        linoto.LinTS().start(Moments.from_rows(rows, 1e8 + rng.uniform(-0.5, 0.5, 2000))).driver.confidence
    )
    assert assumed.noise == 1.0 and assumed.bound > 1e7


def test_small_features_need_a_long_parameter_with_contexts_and_without() -> None:
    """A hundredth of a feature that earns .5: a parameter of 50."""
    rng = np.random.default_rng(0)
    rewards = (rng.random(20_000) < 0.5).astype(float)
    rounds = linoto.LinTS().start(Moments.from_rows(np.full((20_000, 1), 0.01), rewards)).driver.confidence
    fixed = linoto.LinTS().start([[0.01]], Offline.from_rows(np.zeros(20_000, int), rewards, k=1))
    assert 20 < rounds.bound < 50 and 20 < fixed.driver.confidence.bound < 50


def test_a_gate_refuses_what_an_explorer_alone_corrects() -> None:
    """Its promise would rest on it."""
    with pytest.raises(ValueError, match="must be at least"):
        linoto.Gated(gate=linoto.Tolerance(budget=90_000.0)).start(one_hot(5), log_of(4000))


def test_the_papers_radius_stays_as_it_is_written() -> None:
    paper = linoto.LinUCB(confidence=linoto.PAPER)
    assert paper.start(one_hot(5), log_of(4000)).policy == paper


@pytest.mark.parametrize("policy", EXPLORERS, ids=names)
def test_with_contexts_too(policy: Any) -> None:
    rng = np.random.default_rng(0)
    features = OwnFeatures(items=("a", "b"), width=2)
    rows = np.stack([features.transform(np.array([1.0, rng.normal()]), None)[i % 2] for i in range(2000)])
    rewards = rows @ [500.0, 200.0, 800.0, -100.0] + 300.0 * rng.normal(size=2000)
    agent = policy.start(Moments.from_rows(rows, rewards), features=features)
    assumed = agent.driver.confidence
    assert 250 < assumed.noise < 300 and 100 < assumed.bound < 970
    assert np.abs(agent.theta - [500, 200, 800, -100]).max() < 60


@pytest.mark.few(3)
@pytest.mark.parametrize("explorer", [Optimist(), linoto.LinUCB(), linoto.LinTS()], ids=str)
@pytest.mark.parametrize("contexts", [False, True], ids=["arms", "contexts"])
def test_a_snapshot_is_read_with_the_policy_that_was_started(explorer: Any, contexts: bool) -> None:
    """What its start found is in the snapshot; whoever says something else has another policy."""
    features = OwnFeatures(items=("a", "b"), width=1)
    moments = Moments.from_rows(np.tile(np.eye(2), (50, 1)), np.tile([300.0, 900.0, 500.0, 700.0], 25))
    policy = linoto.Gated(explorer=explorer, gate=linoto.Open())
    agent = policy.start(moments, features=features) if contexts else policy.start(one_hot(5), log_of(400))
    assert agent.policy != policy
    for given in (policy, agent.policy):
        twin = linoto.restore(agent.snapshot(), policy=given, features=features if contexts else None)
        assert twin.policy == agent.policy and twin.snapshot() == agent.snapshot()
    for said in ({"noise": 2.0}, {"ridge": 3.0}, {"delta": 0.01}, {"bound": 3.0}):
        other: Any = replace(policy, confidence=Confidence(**said))  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="policy must be the one of the snapshot"):
            linoto.restore(agent.snapshot(), policy=other)


# -- without a log


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", ["bounded", 300.0])
def test_a_range_says_how_much_an_arm_may_earn(noise: Any) -> None:
    """Beside a noise of 300 a bound of 1 would hold every arm at 0, and the first one would be kept to."""
    ranged = linoto.LinUCB(confidence=Confidence(noise=noise, reward_range=(0.0, 1231.0)))
    agent = ranged.start(one_hot(3), Offline.empty(3))
    assert agent.driver.confidence.bound == 1240.0
    for _ in range(90):
        decision = agent.decide()
        agent.update(decision, (314.0, 1200.0, 800.0)[decision.arm])
    assert agent.means.argmax() == 1 and agent.means[1] > 1000
    clicks = linoto.LinUCB(confidence=Confidence(noise="bounded", reward_range=(0.0, 1.0)))
    assert clicks.start(one_hot(3), Offline.empty(3)).policy == clicks


@pytest.mark.few(3)
@pytest.mark.parametrize("arms_stay", [True, False], ids=["arms", "rounds"])
@pytest.mark.parametrize("policy", EXPLORERS, ids=names)
def test_in_the_unit_of_a_noise_that_was_said_the_same_arms_are_played(policy: Any, arms_stay: bool) -> None:
    """By a bound of 1 beside a noise of 300 every arm would be held at 0."""
    known: dict[str, Any] = {"actions": one_hot(3), "offline": Offline.empty(3)} if arms_stay else {"d": 3}
    asked: dict[str, Any] = {} if arms_stay else {"actions": np.eye(3)}
    policies = [replace(policy, confidence=Confidence(noise=unit)) for unit in (1.0, 300.0)]
    agents = [policy.start(**known, rng=0) for policy in policies]
    assert agents[1].policy.confidence == Confidence(noise=300.0, bound=300.0)
    for row in np.random.default_rng(1).normal([0.5, 2.0, 4.0], size=(200, 3)):
        made = [agent.decide(**asked) for agent in agents]
        assert made[0].arm == made[1].arm
        for agent, decision, unit in zip(agents, made, (1.0, 300.0), strict=True):
            agent.update(decision, unit * row[decision.arm])
    np.testing.assert_allclose(agents[1].theta, 300.0 * agents[0].theta, rtol=1e-6)


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_a_small_noise_leaves_the_bound_and_a_range_says_more_than_any_noise(noise: float) -> None:
    for explorer in EXPLORERS:
        said = replace(explorer, confidence=Confidence(noise=noise))
        assert said.start(one_hot(3), Offline.empty(3)).policy == said
    ranged = linoto.LinTS(confidence=Confidence(noise=300.0, reward_range=(0.0, 20.0)))
    assert ranged.start(one_hot(3), Offline.empty(3)).driver.confidence.bound == 20.0


@pytest.mark.parametrize("contexts", [False, True], ids=["arms", "contexts"])
@pytest.mark.parametrize("door", ["update", "observe", "observe_many"])
def test_the_first_reward_that_cannot_be_is_told_once(contexts: bool, door: str) -> None:
    def answer(reward: float) -> None:
        decision = agent.decide(context=np.ones(2)) if contexts else agent.decide()
        if door == "update":
            agent.update(decision, reward)
            return
        agent.commit(decision)
        if door == "observe":
            agent.observe(decision, reward)
        else:
            agent.observe_many([decision], [reward])

    features = OwnFeatures(items=tuple("abc"), width=2)
    agent = (
        linoto.LinUCB().start(features=features)
        if contexts
        else linoto.LinUCB().start(one_hot(3), Offline.empty(3))
    )
    answer(8.0)
    with pytest.warns(UserWarning, match="a reward of -1,?211 contradicts what is assumed: averages") as told:
        answer(-1211.0)
    assert told[0].filename == __file__
    answer(2000.0)


def test_a_reward_that_may_be_is_not_told() -> None:
    for policy in (
        linoto.LinTS(confidence=Confidence(noise=500.0, bound=2000.0)),
        linoto.LinTS(confidence=Confidence(noise="bounded", reward_range=(0.0, 2000.0))),
    ):
        agent = policy.start(one_hot(2), Offline.empty(2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            agent.update(agent.decide(), 1211.0)
