"""Features of each arm's own: V has blocks, and what is computed in them has the bits of one large block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import (
    Agent,
    Confidence,
    ContextualBandit,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    Moments,
    OwnFeatures,
    Recipe,
    Tolerance,
    restore,
)
from linoto.core import kernels
from linoto.core.playing import ask_in_rounds

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
MODEL = Tolerance(budget=5.0, evidence="model")
POLICIES: dict[str, Any] = {
    "ucb": LinUCB(scale=1.0),
    "thompson": LinTS(scale=0.5),
    "greedy": Greedy(),
    "forgetting": LinTS(scale=0.5, memory=40),
    "fading": LinTS(scale=0.5, discount=0.98),
    "control": Gated(explorer=LinUCB(scale=0.3), gate=Control(budget=20), confidence=CLICKS),
    "model": Gated(explorer=LinTS(scale=0.5), gate=MODEL, confidence=CLICKS),
}
SIZES = ((4, 7), (6, 5), (5, 9))  # d = 28 is a multiple of four, 30 and 45 are not
ROUNDS = 90


def in_one_block(agent: Agent) -> Agent:
    """The same agent, which takes all features for one block from now on."""
    state = agent.running.state
    state.vectors[kernels.BLOCK_BEGIN], state.vectors[kernels.BLOCK_END] = 0.0, agent.d
    state.run["split"] = 0
    return agent


def in_blocks(agent: Agent) -> Agent:
    """The same agent, of which it is known that there are several blocks."""
    assert agent.running.run["split"] == 1
    return agent


def own_features(x: Any, k: int) -> Any:
    """(k, k p) an arm for each of k blocks, with these features (p,)."""
    return np.kron(np.eye(k), x)


class Clicks:
    """A world of clicks, drawn beforehand, and its log."""

    def __init__(self, k: int, p: int, rounds: int = ROUNDS) -> None:
        rng = np.random.default_rng(k * p)
        self.k, self.theta, self.contexts = k, rng.normal(size=(k, p)), rng.normal(size=(rounds, p))
        self.uniforms, self.weights = rng.random(rounds), rng.dirichlet(np.ones(k), size=rounds)
        logged, arms = rng.normal(size=(200, p)), rng.integers(k, size=200)
        rows = [own_features(x, k)[arm] for x, arm in zip(logged, arms, strict=True)]
        clicks = [rng.random() < self.chance(x, arm) for x, arm in zip(logged, arms, strict=True)]
        self.log = Moments.from_rows(rows, np.array(clicks, dtype=np.float64))

    def chance(self, x: Any, arm: int) -> float:
        return float(1 / (1 + np.exp(-self.theta[arm] @ x)))

    def arms(self, t: int) -> Any:
        """In round 50 one arm has features of two blocks."""
        found = own_features(self.contexts[t], self.k)
        if t == 50:
            found[1] += 0.5 * found[2]
        return found


def played(policy: Any, world: Clicks, prepared: Any) -> tuple[list[Any], Agent]:
    """Decisions, with rewards that are lost, and a snapshot on the way; `prepared` is done to the agent."""
    agent, decisions = prepared(policy.start(world.log, rng=1)), []
    for t, draw in enumerate(world.uniforms):
        practice = world.weights[t] if t % 3 else t % world.k
        decision = agent.decide(actions=world.arms(t), practice=practice)
        reward = float(draw < world.chance(world.contexts[t], decision.arm))
        if t % 10 == 9:
            agent.commit(decision)
            agent.lose(decision, 0.5)
        else:
            agent.update(decision, reward)
        decisions.append(decision)
        if t == 30:
            agent = prepared(restore(agent.snapshot()))
    return decisions, agent


@pytest.mark.parametrize(("k", "p"), SIZES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_blocks_change_no_bit_of_any_decision(policy: Any, k: int, p: int) -> None:
    world = Clicks(k, p)
    decisions, agent = played(policy, world, in_blocks)
    others, other = played(policy, world, in_one_block)
    assert decisions == others
    assert agent.running.run["split"] == 1
    assert agent.snapshot() == other.snapshot()


@pytest.mark.parametrize(("k", "p"), [*SIZES, (8, 9)])  # from 64 features on, contexts have only R
@pytest.mark.parametrize("given", ["actions", "context"])
def test_means_and_widths_are_those_of_a_ridge_model_per_arm(k: int, p: int, given: str) -> None:
    rng = np.random.default_rng(3)
    features = OwnFeatures(items=tuple(map(str, range(k))), width=p)
    known: dict[str, Any] = {"features": features} if given == "context" else {"d": k * p}
    agent = LinUCB(scale=1.0, confidence=Confidence(noise=0.5, ridge=0.3)).start(None, **known)
    V, b = np.tile(0.3 * np.eye(p), (k, 1, 1)), np.zeros((k, p))
    for x in rng.normal(size=(600, p)):  # a refresh comes after 512 rewards
        asked = {"context": x} if given == "context" else {"actions": own_features(x, k)}
        decision, reward = agent.decide(**asked), float(rng.normal())
        mean, width = agent.running.state.arms[[kernels.MEAN, kernels.WIDTH]]
        spread = np.linalg.solve(V, np.tile(x, (k, 1))[..., None])[..., 0]
        np.testing.assert_allclose(mean, (spread * b).sum(axis=1), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(width, np.sqrt(spread @ x), rtol=1e-9)
        agent.update(decision, reward)
        V[decision.arm] += np.outer(x, x)
        b[decision.arm] += reward * x


def test_contexts_are_the_actions_that_own_features_make() -> None:
    features, rng = OwnFeatures(items=tuple("abcdefgh"), width=9), np.random.default_rng(1)
    agents = [Gated(gate=MODEL, confidence=CLICKS).start(None, features=features, rng=2) for _ in range(2)]
    for t, x in enumerate(rng.normal(size=(40, 9))):
        few, items = (
            agents[0].decide(["c", "a", "h"] if t % 3 else None, context=x, practice="a"),
            features.items,
        )
        names = ("c", "a", "h") if t % 3 else items
        actions = features.transform(x, names)
        np.testing.assert_array_equal(actions, own_features(x, 8)[[items.index(name) for name in names]])
        whole = agents[1].decide(actions=actions, practice="a", names=names)
        assert few == whole
        for agent in agents:
            agent.update(few, float(t % 2))
        if t % 7 == 3:
            agents[1] = restore(agents[0].snapshot(), features=features)
    assert agents[0].snapshot() == agents[1].snapshot()


@pytest.mark.parametrize(
    ("context", "arms", "message"),
    [
        ([1.0, 2.0], None, "context must have 3 numbers, got 2"),
        ([1.0, 2.0, np.nan], None, "context must be finite"),
        ([1.0, 2.0, 3.0], ["reed"], "arms must be among the 2 items, got 'reed'"),
        ([1.0, 2.0, 3.0], [], "arms must be at least one item, got none"),
    ],
)
def test_own_features_refuse_what_they_do_not_know(context: Any, arms: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OwnFeatures(items=("red", "blue"), width=3).transform(context, arms)


def test_a_row_across_two_blocks_makes_one_of_them() -> None:
    rng = np.random.default_rng(5)
    agent = LinUCB(scale=1.0, confidence=Confidence(ridge=0.5)).start(None, d=12)
    V, b = 0.5 * np.eye(12), np.zeros(12)
    for t in range(40):
        action = own_features(rng.normal(size=3), 4)[t % 4]
        if t == 21:
            action[3:9] = rng.normal(size=6)
        agent.update(agent.decide(actions=[action]), float(t))
        V += np.outer(action, action)
        b += t * action
        ends = [3, 3, 3, 6, 6, 6, 9, 9, 9, 12, 12, 12]
        if t >= 21:
            ends[3:6] = [9, 9, 9]
        if t >= 4:
            assert agent.running.state.vectors[kernels.BLOCK_END].tolist() == ends
    np.testing.assert_allclose(agent.theta, np.linalg.solve(V, b), rtol=1e-9)
    np.testing.assert_allclose(agent.running.state.square[kernels.INVERSE], np.linalg.inv(V), atol=1e-12)
    agent.update(agent.decide(actions=np.ones((1, 12))), 1.0)
    assert agent.running.run["split"] == 0


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_compiled_rounds_with_own_features_are_those_that_are_asked(policy: Any) -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(size=(300, 5))
    world = ContextualBandit.from_table(table, (table @ rng.normal(size=(5, 6))).argmax(axis=1), rng=0)
    log, drawn, draws = world.log(200, rng=0), world.rounds(ROUNDS, rng), rng.random(ROUNDS)
    agents = [prepared(policy.start(log, rng=4)) for prepared in (in_blocks, in_blocks, in_one_block)]
    asked = ask_in_rounds(agents[0], drawn.each(), draws, True)
    for agent in agents[1:]:
        found = agent.play_rounds(draws=draws, bernoulli=True, **drawn._asdict())
        np.testing.assert_array_equal(found, asked)
        assert agent.snapshot() == agents[0].snapshot()


def test_items_that_come_and_go_keep_every_bit() -> None:
    recipe = Recipe(items=tuple("abcdefgh"), intercept=False)
    log = Moments.from_rows(np.eye(8)[[0, 1, 2, 3] * 5], np.arange(20) % 2)
    found = []
    for prepared in (in_blocks, in_one_block):
        agent, decisions = prepared(LinTS().start(log, features=recipe, rng=0)), []
        for t in range(60):
            if t == 21:
                agent.add_arms(["i", "j"])
                prepared(agent)
            if t == 40:
                agent.remove_arms(["c"])
            decisions.append(agent.decide(context={}))
            agent.update(decisions[-1], float(t % 3 == 0))
        found.append((decisions, agent.snapshot()))
    assert found[0] == found[1]


def test_practice_with_an_action_of_its_own_may_have_features_of_all_arms() -> None:
    world, x = Clicks(5, 9), np.linspace(-1, 1, 45)
    agents = [prepared(POLICIES["model"].start(world.log, rng=1)) for prepared in (in_blocks, in_one_block)]
    for t in range(20):
        decisions = [agent.decide(actions=world.arms(t), practice=x) for agent in agents]
        assert decisions[0] == decisions[1]
        for agent in agents:
            agent.update(decisions[0], 1.0)
    assert agents[0].running.run["split"] == agents[1].running.run["split"]
