"""Features of each item beside features that items share: blocks and a border, and the same decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python

from linoto import (
    Agent,
    Category,
    Confidence,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    Moments,
    Numeric,
    Recipe,
    Tolerance,
    restore,
)
from linoto.core import kernels
from linoto.core.features.columns import ItemColumn
from linoto.core.features.moments import rows_of
from linoto.core.kernels import sampling
from linoto.core.one_hot import recognising

ITEMS = tuple(f"item {number}" for number in range(13))
RECIPE = Recipe(
    items=ITEMS,
    item_columns=(ItemColumn(name="price", values=[[0.1 * i] for i in range(13)], labels=("price",)),),
    context=(
        Numeric(name="age", mean=40.0, scale=10.0),
        Category(name="country", levels=("DE", "NO", "FR")),
    ),
    crosses=(("item", "age"), ("country", "item")),
)
CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
RIDGE = 4.0  # said, so that the radius counts all features: that of an item's own needs a border
POLICIES: dict[str, Any] = {
    "ucb": LinUCB(scale=0.5, confidence=Confidence(ridge=RIDGE)),
    "greedy": Greedy(),
    "control": Gated(
        explorer=LinUCB(scale=0.3), gate=Control(budget=20), confidence=replace(CLICKS, ridge=RIDGE)
    ),
    "model": Gated(explorer=LinUCB(), gate=Tolerance(budget=5.0, evidence="model"), confidence=CLICKS),
    "forgetting": LinUCB(scale=0.5, memory=40, confidence=Confidence(ridge=RIDGE)),
    "fading": LinUCB(scale=0.5, discount=0.98, confidence=Confidence(ridge=RIDGE)),
}


class Visits:
    """Visits drawn beforehand, and the log of a practice that never showed the last three items."""

    def __init__(self, rounds: int = 90, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.theta = rng.normal(size=RECIPE.d) * 0.2
        self.contexts = [self.context(rng) for _ in range(rounds)]
        self.uniforms = rng.random(rounds)
        self.shown = [sorted(rng.choice(13, size=6, replace=False).tolist()) for _ in range(rounds)]
        rows = [RECIPE.transform(self.context(rng), [ITEMS[rng.integers(10)]])[0] for _ in range(300)]
        clicks = (rng.random(300) < 0.5 + np.clip(np.array(rows) @ self.theta, -0.4, 0.4)).astype(float)
        self.log = Moments.from_rows(rows, clicks)

    @staticmethod
    def context(rng: np.random.Generator) -> dict[str, Any]:
        return {"age": float(rng.normal(40, 12)), "country": str(rng.choice(["DE", "NO", "FR"]))}

    def reward(self, decision: Any, draw: float) -> float:
        theta = np.resize(self.theta, len(decision.action))  # items may have come
        return float(draw < 0.5 + np.clip(np.array(decision.action) @ theta, -0.4, 0.4))


def started(policy: Any, visits: Visits, hybrid: bool) -> Agent:
    with recognising(hybrid):
        agent: Agent = policy.start(visits.log, features=RECIPE, rng=1)
    assert (agent.running.run["border"] > 0) == hybrid
    return agent


def played(agent: Agent, visits: Visits, *, changes: bool = False) -> tuple[list[Any], Agent]:
    """Decisions with some items only, rewards that are late and lost, and a snapshot on the way."""
    decisions, late = [], []
    for t, draw in enumerate(visits.uniforms):
        if changes and t == 20:
            agent.add_arms(["new", "newer"], values=[[0.5], [0.7]])
        if changes and t == 50:
            agent.remove_arms(["item 3"])
        allowed = [ITEMS[place] for place in visits.shown[t]] if t % 4 == 1 and not changes else None
        practice = "item 0" if allowed is None else allowed[0]
        decision = agent.decide(allowed, context=visits.contexts[t], practice=practice)
        decisions.append(decision)
        if t % 10 == 9:
            agent.commit(decision)
            agent.lose(decision, 0.5)
        elif t % 5 == 3:
            agent.commit(decision)
            late.append((decision, visits.reward(decision, draw)))
        else:
            agent.update(decision, visits.reward(decision, draw))
        if t == 30:
            agent = restore(agent.snapshot(), features=RECIPE)
        if t == 60:
            for earlier, reward in late:
                agent.observe(earlier, reward)
            late = []
    return decisions, agent


@pytest.mark.parametrize("changes", [False, True], ids=["same items", "items come and go"])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_blocks_with_a_border_decide_as_one_block(policy: Any, changes: bool) -> None:
    visits = Visits()
    found, agent = played(started(policy, visits, True), visits, changes=changes)
    wanted, other = played(started(policy, visits, False), visits, changes=changes)
    assert [decision.arm for decision in found] == [decision.arm for decision in wanted]
    assert [decision.source for decision in found] == [decision.source for decision in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.action, ours.name, ours.round) == (theirs.action, theirs.name, theirs.round)
        np.testing.assert_allclose(ours.budget or 0.0, theirs.budget or 0.0, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(agent.theta, other.theta, rtol=1e-9, atol=1e-10)
    for name in ("log_det", "radius", "gate_radius", "lost_radius", "residuals"):
        np.testing.assert_allclose(agent.running.run[name], other.running.run[name], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(agent.ellipsoid.V, other.ellipsoid.V, rtol=1e-9, atol=1e-9)


def test_means_and_widths_are_those_of_the_whole_matrix() -> None:
    """An oracle in NumPy: V of all rows, inverted anew in every round."""
    visits = Visits(rounds=60)
    agent = started(LinUCB(confidence=Confidence(noise=0.5, ridge=0.3)), visits, True)
    V, b = 0.3 * np.eye(RECIPE.d) + visits.log.gram, visits.log.reward_vector.copy()
    for context, draw in zip(visits.contexts, visits.uniforms, strict=True):
        decision, actions = agent.decide(context=context), RECIPE.transform(context)
        mean, width = agent.running.state.arms[[kernels.MEAN, kernels.WIDTH]]
        np.testing.assert_allclose(mean, actions @ np.linalg.solve(V, b), rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(width**2, np.diag(actions @ np.linalg.solve(V, actions.T)), rtol=1e-8)
        agent.update(decision, draw)
        action = np.array(decision.action)
        V += np.outer(action, action)
        b += draw * action


@pytest.mark.parametrize("kind", [LinUCB, LinTS, Greedy])
def test_a_discounted_estimate_is_that_of_weighted_least_squares(kind: Any) -> None:
    """After every five rewards all of them weigh 0.98^5, and so does the log; the ridge stays."""
    visits = Visits(rounds=40)
    agent = started(kind(discount=0.98), visits, True)
    ridge = agent.confidence.ridge_for(RECIPE.d) * np.eye(RECIPE.d)
    gram, target = visits.log.gram.copy(), visits.log.reward_vector.copy()
    for number, (context, draw) in enumerate(zip(visits.contexts, visits.uniforms, strict=True), 1):
        decision = agent.decide(context=context)
        agent.update(decision, draw)
        weight, action = 0.98**5 if number % 5 == 0 else 1.0, np.array(decision.action)
        gram, target = weight * (gram + np.outer(action, action)), weight * (target + draw * action)
        np.testing.assert_allclose(agent.ellipsoid.V, gram + ridge, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(agent.theta, np.linalg.solve(gram + ridge, target), atol=1e-9)


def test_a_draw_has_the_covariance_of_the_estimate() -> None:
    """A draw is M xi with xi standard normal: M M' is V^-1, whatever the order of the features."""
    visits = Visits(rounds=40)
    _, agent = played(started(LinTS(scale=0.5), visits, True), visits)
    d, order = agent.d, agent.driver.order  # type: ignore[attr-defined]
    image, draw = np.empty((d, d)), from_python(sampling.unwhiten)
    state = agent.running.state
    for place, normals in enumerate(np.eye(d)):
        draw(state, state.square[kernels.FACTOR], normals, image[place], state.blocks)
    image = order.outside(image).T
    np.testing.assert_allclose(image @ image.T @ agent.ellipsoid.V, np.eye(d), atol=1e-9)


@pytest.mark.parametrize("policy", [*POLICIES.values(), LinTS(scale=0.5)], ids=[*POLICIES, "thompson"])
def test_a_snapshot_has_the_same_future_to_the_last_bit(policy: Any) -> None:
    visits = Visits(rounds=40)
    agent = started(policy, visits, True)
    for t, context in enumerate(visits.contexts):
        other = restore(agent.snapshot(), features=RECIPE) if t % 13 == 5 else agent
        decision = agent.decide(context=context, practice="item 1")
        if other is not agent:
            assert other.decide(context=context, practice="item 1") == decision
            other.update(decision, visits.uniforms[t])
        agent.update(decision, visits.uniforms[t])
        assert other.snapshot() == agent.snapshot()


def test_actions_given_as_vectors_are_those_that_the_recipe_makes() -> None:
    visits = Visits(rounds=30)
    agents = [started(LinUCB(), visits, True) for _ in range(2)]
    for context, draw in zip(visits.contexts, visits.uniforms, strict=True):
        first = agents[0].decide(context=context, practice="item 1")
        second = agents[1].decide(actions=RECIPE.transform(context), practice=1, names=ITEMS)
        assert first == second
        for agent in agents:
            agent.update(first, draw)
    assert agents[0].snapshot() == agents[1].snapshot()


def test_practice_with_features_of_several_items_joins_their_blocks() -> None:
    visits, rng = Visits(rounds=12), np.random.default_rng(2)
    policy = Gated(explorer=LinUCB(), gate=Tolerance(budget=0.001, evidence="model"), confidence=CLICKS)
    agents, blend = (
        [started(policy, visits, hybrid) for hybrid in (True, False)],
        rng.normal(size=RECIPE.d) / 20,
    )
    for t, context in enumerate(visits.contexts):
        decisions = [agent.decide(context=context, practice=blend) for agent in agents]
        assert decisions[0].arm == decisions[1].arm
        for agent, decision in zip(agents, decisions, strict=True):
            agent.update(decision, float(t % 2))
    np.testing.assert_allclose(agents[0].theta, agents[1].theta, rtol=1e-8, atol=1e-10)


def test_no_row_of_a_log_has_features_of_two_items() -> None:
    order, log = RECIPE.by_item, Visits().log
    border, width = RECIPE.own_width * 13, RECIPE.own_width
    gram, vector = log.gram[np.ix_(order, order)], log.reward_vector[order]
    rows, outcomes = rows_of(gram, vector, 0, border)
    np.testing.assert_allclose(rows.T @ rows, gram, atol=1e-9 * gram.max())
    np.testing.assert_allclose(rows.T @ outcomes, vector, atol=1e-9 * np.abs(vector).max())
    items = (rows[:, :border].reshape(len(rows), 13, width) != 0).any(axis=2)
    assert (items.sum(axis=1) <= 1).all()


def test_few_features_are_all_that_are_not_0() -> None:
    context = {"age": 61.0, "country": "FR"}
    rows, places = RECIPE.few(context, ["item 4", "item 2"])
    whole = RECIPE.transform(context, ["item 4", "item 2"])[:, RECIPE.by_item]
    width, border = RECIPE.own_width, RECIPE.own_width * 13
    for row, place, features in zip(rows, places, whole, strict=True):
        np.testing.assert_array_equal(features[place : place + width], row[:width])
        np.testing.assert_array_equal(features[border:], row[width:])
        assert np.count_nonzero(features) == np.count_nonzero(row)
