"""The radius of each arm's own model: optimism that does not count the features of other arms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.chance import most

from linoto import (
    Agent,
    Confidence,
    Control,
    Gated,
    LinUCB,
    Moments,
    Numeric,
    Offline,
    OwnFeatures,
    Recipe,
    Tolerance,
    restore,
)

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
OWN = replace(CLICKS, radius="own", ridge=0.7)
K, P = 5, 3
FEATURES = OwnFeatures(items=tuple("abcde"), width=P)


class ModelPerArm:
    """OFUL for each arm by itself, as one would write it in NumPy."""

    def __init__(self, k: int, p: int, ridge: float, noise: float, bound: float, delta: float) -> None:
        self.V, self.b = np.stack([ridge * np.eye(p)] * k), np.zeros((k, p))
        self.ridge, self.noise, self.bound, self.level = ridge, noise, bound, 2 * np.log(k / delta)

    def learn(self, arm: int, x: Any, reward: float) -> None:
        self.V[arm] += np.outer(x, x)
        self.b[arm] += reward * x

    def of(self, arm: int, x: Any) -> tuple[float, float]:
        """What the arm earns in this context, and how far it may be from that."""
        V = self.V[arm]
        growth = np.linalg.slogdet(V / self.ridge)[1]
        radius = self.noise * np.sqrt(self.level + growth) + np.sqrt(self.ridge) * self.bound
        return float(np.linalg.solve(V, self.b[arm]) @ x), float(radius * np.sqrt(x @ np.linalg.solve(V, x)))


def log_of(rng: np.random.Generator, rows: int = 40) -> tuple[Any, Any, Any, Moments]:
    """Contexts, arms and rewards of a log, and its sums; the last arm was never played."""
    x, arms, rewards = rng.normal(size=(rows, P)), rng.integers(K - 1, size=rows), rng.random(rows)
    actions = np.zeros((rows, K, P))
    actions[np.arange(rows), arms] = x
    return x, arms, rewards, Moments.from_rows(actions.reshape(rows, -1), rewards)


def oracle_of(confidence: Confidence, *rows: Any) -> ModelPerArm:
    """The oracle that has learnt a log."""
    oracle = ModelPerArm(K, P, float(confidence.ridge or 0.0), confidence.scale, confidence.bound, 0.05)
    for x, arm, reward in zip(*rows, strict=True):
        oracle.learn(arm, x, reward)
    return oracle


@pytest.mark.parametrize("by", ["context", "actions"])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_arms_and_intervals_are_those_of_a_model_for_each_arm(scale: float, by: str) -> None:
    rng = np.random.default_rng(3)
    *rows, log = log_of(rng)
    oracle = oracle_of(OWN, *rows)
    policy = LinUCB(scale=scale, noise="assumed", confidence=OWN)
    agent = policy.start(log, features=FEATURES, rng=0)
    for _ in range(120):
        x = rng.normal(size=P)
        asked: dict[str, Any] = {"context": x} if by == "context" else {"actions": np.kron(np.eye(K), x)}
        known = [oracle.of(arm, x) for arm in range(K)]
        decision = agent.decide(**asked)
        assert decision.arm == int(np.argmax([mean + scale * away for mean, away in known]))
        mean, away = known[decision.arm]
        np.testing.assert_allclose(agent.bounds(decision), (mean - away, mean + away), rtol=1e-9, atol=1e-9)
        assert agent.interval(decision.action) == pytest.approx(agent.bounds(decision))
        reward = float(rng.random())
        agent.update(decision, reward)
        oracle.learn(decision.arm, x, reward)


def test_an_action_of_several_arms_is_away_by_all_their_radii() -> None:
    rng = np.random.default_rng(4)
    *rows, log = log_of(rng)
    oracle, agent = oracle_of(OWN, *rows), LinUCB(confidence=OWN).start(log, features=FEATURES, rng=0)
    vector = np.zeros((K, P))
    vector[1], vector[3] = rng.normal(size=(2, P))
    parts = [oracle.of(arm, vector[arm]) for arm in (1, 3)]
    width = np.sqrt(sum(vector[a] @ np.linalg.solve(oracle.V[a], vector[a]) for a in (1, 3)))
    radii = [
        away / np.sqrt(vector[a] @ np.linalg.solve(oracle.V[a], vector[a]))
        for a, (_, away) in zip((1, 3), parts, strict=True)
    ]
    lower, upper = agent.interval(vector.ravel())
    assert (upper + lower) / 2 == pytest.approx(sum(mean for mean, _ in parts))
    assert (upper - lower) / 2 == pytest.approx(np.hypot(*radii) * width)
    assert (upper - lower) / 2 >= sum(away for _, away in parts) - 1e-12, "the sum of both margins, at least"
    assert agent.interval(np.zeros(K * P)) == (0.0, 0.0)


class Feature(OwnFeatures):
    """The same features, ordered by what they are instead of by the item that has them."""

    @property
    def by_item(self) -> Any:
        return np.arange(self.d).reshape(self.width, -1).T.ravel()

    def transform(self, context: Any, arms: Any = None) -> Any:
        return super().transform(context, arms)[:, np.argsort(self.by_item)]


def test_features_may_come_in_another_order() -> None:
    rng, features = np.random.default_rng(5), Feature(items=tuple("abcd"), width=3)
    agent = LinUCB(scale=1.0, confidence=OWN).start(features=features, rng=0)
    oracle = ModelPerArm(4, 3, 0.7, 0.5, 1.0, 0.05)
    for number in range(60):
        x = rng.normal(size=3)
        decision = agent.decide(context=x)
        assert decision.arm == int(np.argmax([sum(oracle.of(arm, x)) for arm in range(4)]))
        assert number > 0 or decision.action == tuple(features.transform(x)[decision.arm])
        reward = float(rng.random())
        agent.update(decision, reward)
        oracle.learn(decision.arm, x, reward)


def test_a_snapshot_and_items_that_come_later_go_on_with_it() -> None:
    rng = np.random.default_rng(6)
    banners = Recipe(items=("a", "b", "c"), intercept=False)
    agent: Agent = LinUCB(confidence=OWN).start(features=banners, rng=0)
    other: Agent = LinUCB(confidence=OWN).start(features=banners, rng=0)
    for number in range(90):
        reward = float(rng.random())
        for one in (agent, other):
            one.update(one.decide(context={}), reward)
        if number == 40:
            agent.add_arms(["z"])
            other.add_arms(["z"])
        if number in (20, 60):
            agent = restore(agent.snapshot(), features=agent.driver.features)
        assert (agent.theta == other.theta).all()
    decision = agent.decide(context={})
    assert agent.bounds(decision) == other.bounds(other.decide(context={}))
    pulls = agent.ellipsoid.V[decision.arm, decision.arm]
    level = 2 * np.log(4 / 0.05) + np.log(pulls / 0.7)  # of the four arms that there are now
    away = (0.5 * np.sqrt(level) + np.sqrt(0.7)) / np.sqrt(pulls)
    assert agent.theta[decision.arm] + away == pytest.approx(agent.bounds(decision)[1])


def test_the_intervals_of_all_arms_hold_together() -> None:
    """At delta .2 true means leave them in a fifth of the runs at the most; false alarm of `most`: 1e-6."""
    missed, runs = 0, 60
    for seed in range(runs):
        rng = np.random.default_rng([9, seed])
        thetas = rng.normal(size=(K, P))
        thetas /= np.linalg.norm(thetas) * 2  # |theta| of all arms together is 1/2: the bound holds for each
        confidence = Confidence(noise=0.3, bound=0.5, radius="own", delta=0.2, ridge=0.5)
        agent = LinUCB(scale=1.0, confidence=confidence).start(features=FEATURES, rng=0)
        left = False
        for _ in range(60):
            x = rng.normal(size=P)
            decision = agent.decide(context=x)
            for arm in range(K):
                lower, upper = agent.interval(np.kron(np.eye(K)[arm], x))
                left |= not lower <= thetas[arm] @ x <= upper
            agent.update(decision, float(thetas[decision.arm] @ x + 0.3 * rng.normal()))
        missed += left
    assert missed <= most(runs, 0.2)


AGES = Recipe(
    items=("a", "b", "c"),
    context=(Numeric(name="age"), Numeric(name="size")),
    crosses=(("item", "age"), ("item", "size")),
)


class OneModel:
    """One model of all features, and the radius of what each arm can have of them."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.V, self.b = recipe, 0.7 * np.eye(recipe.d), np.zeros(recipe.d)

    def learn(self, x: Any, reward: float) -> None:
        self.V += np.outer(x, x)
        self.b += reward * x

    def places(self, item: str) -> Any:
        """Where features of one item are, and those of all."""
        other = [f"item={one}" for one in self.recipe.items if one != item]
        return [i for i, name in enumerate(self.recipe.names) if not any(word in name for word in other)]

    def radius_of(self, item: str) -> float:
        """By det V of an action's own features and those of all, the other arms' integrated out."""
        places, known = self.places(item), np.linalg.inv(self.V)
        growth = -np.linalg.slogdet(0.7 * known[np.ix_(places, places)])[1]
        level = 2 * np.log(len(self.recipe.items) / 0.05)
        return float(0.5 * np.sqrt(level + growth) + np.sqrt(0.7))

    def radius(self) -> float:
        """The theorem's, of all features."""
        growth = np.linalg.slogdet(self.V / 0.7)[1]
        return float(0.5 * np.sqrt(2 * np.log(1 / 0.05) + growth) + np.sqrt(0.7))

    def measure(self, actions: Any) -> tuple[Any, Any]:
        """What each earns, and how wide it is."""
        return actions @ np.linalg.solve(self.V, self.b), np.sqrt(
            np.einsum("kd,kd->k", actions, np.linalg.solve(self.V, actions.T).T)
        )


@pytest.mark.parametrize("by", ["context", "actions"])
def test_with_shared_features_arms_are_scored_by_what_one_can_have_and_bounded_by_all(by: str) -> None:
    rng, oracle = np.random.default_rng(11), OneModel(AGES)
    assert len(oracle.places("a")) == 6 and AGES.d == 12
    agent = LinUCB(scale=0.5, noise="assumed", confidence=OWN).start(features=AGES, rng=0)
    differs = 0
    for number in range(150):
        context = dict(zip(("age", "size"), rng.normal(size=2).tolist(), strict=True))
        items = agent.driver.features.items
        actions = agent.driver.features.transform(context)
        mean, width = oracle.measure(actions)
        own = [oracle.radius_of(item) for item in items]
        decision = agent.decide(**({"context": context} if by == "context" else {"actions": actions}))
        assert decision.arm == int(np.argmax(mean + 0.5 * np.array(own) * width))
        differs += decision.arm != int(np.argmax(mean + 0.5 * oracle.radius() * width))
        away = oracle.radius() * width[decision.arm]
        np.testing.assert_allclose(
            agent.bounds(decision), (mean[decision.arm] - away, mean[decision.arm] + away), rtol=1e-9
        )
        reward = float(rng.random())
        agent.update(decision, reward)
        oracle.learn(actions[decision.arm], reward)
        if number == 70:
            agent = restore(agent.snapshot(), features=AGES)
    assert differs > 0


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (lambda: LinUCB(confidence=OWN).start(np.eye(3), Offline.empty(3)), "for arms that stay"),
        (lambda: LinUCB(confidence=OWN).start(d=6), "no feature is one arm's own"),
        (
            lambda: Gated(gate=Tolerance(budget=5.0, evidence="model"), confidence=OWN).start(
                features=FEATURES
            ),
            "its bounds are of all features",
        ),
        (lambda: replace(OWN, shift=0.1), "shift must be 0 for radius 'own'"),
    ],
    ids=["arms that stay", "no features", "sums", "shift"],
)
def test_where_there_are_no_such_models_it_is_refused(start: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        start()


def test_arms_that_were_played_together_are_one_model_from_then_on() -> None:
    """Where rows hold features of two arms, no arm has a model of its own that rewards could teach."""
    features = OwnFeatures(items=("a", "b", "c"), width=1)
    agent = LinUCB(scale=1.0, confidence=replace(OWN, ridge=1.0)).start(features=features, rng=0)
    for _ in range(200):
        agent.update(agent.decide(actions=[[1.0, 1.0, 0.0]]), 0.0)
    V = np.eye(3) + 200.0 * np.outer([1, 1, 0], [1, 1, 0])
    level = 2 * np.log(3 / 0.05)
    together = 0.5 * np.sqrt(level + np.linalg.slogdet(V)[1]) + 1.0
    for action, radius in (
        ([1.0, 0.0, 0.0], together),
        ([0.0, 1.0, 0.0], together),
        ([1.0, -1.0, 0.0], together),
        ([0.0, 0.0, 1.0], 0.5 * np.sqrt(level) + 1.0),
    ):
        away = radius * np.sqrt(action @ np.linalg.solve(V, action))
        assert agent.interval(action) == pytest.approx((-away, away))
    truth = np.array([1.0, -1.0, 0.0]) / np.sqrt(2)  # of the length of the bound, as no reward denies
    assert agent.interval([1.0, 0.0, 0.0])[1] > truth[0]
    again: Agent = restore(agent.snapshot(), features=features)
    assert again.interval([1.0, 0.0, 0.0]) == agent.interval([1.0, 0.0, 0.0])
    logged = Moments(count=200, gram=V - np.eye(3), reward_vector=np.zeros(3), reward_sum=0.0)
    warm = LinUCB(scale=1.0, confidence=replace(OWN, ridge=1.0)).start(logged, features=features, rng=0)
    assert warm.interval([1.0, 0.0, 0.0]) == pytest.approx(agent.interval([1.0, 0.0, 0.0]))


def test_behind_a_coin_it_is_taken_too() -> None:
    policy = Gated(explorer=LinUCB(), gate=Control(budget=20), confidence=OWN)
    agent = policy.start(features=FEATURES, rng=0)
    assert agent.running.run["own_features"] == P
