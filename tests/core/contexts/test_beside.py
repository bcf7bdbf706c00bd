"""R with the blocks of all arms side by side: which of two layouts is read changes no bit of anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import (
    Agent,
    Confidence,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    Moments,
    OwnFeatures,
    Tolerance,
    restore,
)
from linoto.core import kernels

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
MODEL = Tolerance(budget=5.0, evidence="model")
POLICIES: dict[str, Any] = {
    "ucb": LinUCB(scale=1.0),
    "thompson": LinTS(scale=0.5),
    "greedy": Greedy(),
    "forgetting": LinTS(scale=0.5, memory=20),
    "fading": LinUCB(scale=0.5, discount=0.98),
    "control": Gated(explorer=LinUCB(scale=0.3), gate=Control(budget=20), confidence=CLICKS),
    "model": Gated(explorer=LinTS(scale=0.5), gate=MODEL, confidence=CLICKS),
}
SIZES = ((22, 3), (8, 9), (13, 5))
ROUNDS = 70


def features_of(k: int, p: int) -> OwnFeatures:
    return OwnFeatures(items=tuple(f"item {number}" for number in range(k)), width=p)


def contexts_of(p: int, *, rounds: int = ROUNDS) -> Any:
    """Full ones; then with a 0 in front, behind or both; then one number alone."""
    found = np.random.default_rng(p).normal(size=(rounds, p))
    found[20:30, 0] = 0.0
    found[26:36, p - 1] = -0.0
    found[40:50] *= np.eye(p)[np.arange(10) % p]
    return found


def beside(agent: Agent) -> Agent:
    """The same agent, of which it is known that it has both layouts."""
    assert agent.running.held.blocks.size
    return agent


def arm_by_arm(agent: Agent) -> Agent:
    """The same agent without the blocks beside each other."""
    agent.running.held = agent.running.held._replace(blocks=np.zeros(kernels.NO_BLOCKS))
    return agent


def played(policy: Any, k: int, p: int, prepared: Any, log: Moments | None) -> tuple[list[Any], Agent]:
    """Decisions among all items or some, a play across two, lost rewards, and a snapshot on the way."""
    features, rng = features_of(k, p), np.random.default_rng(k)
    agent, decisions = prepared(policy.start(log, features=features, rng=1)), []
    for t, x in enumerate(contexts_of(p)):
        if t == 60:
            across = features.transform(x)
            across[1] += 0.5 * across[2]
            decision = agent.decide(actions=across[1:2], practice=0)
        else:
            allowed = features.items[t % 5 :: 2] if t % 7 == 3 else None
            decision = agent.decide(allowed, context=x, practice=t % 2)
        if t % 10 == 9:
            agent.commit(decision)
            agent.lose(decision, 0.5)
        else:
            agent.update(decision, float(rng.random() < 0.5))
        decisions.append(decision)
        if t == 33:
            agent = prepared(restore(agent.snapshot(), features=features))
    return decisions, agent


def a_log(k: int, p: int) -> Moments:
    """Of the first half of the items."""
    rng, features = np.random.default_rng(2), features_of(k, p)
    rows = [features.transform(rng.normal(size=p))[arm] for arm in rng.integers(k // 2, size=80)]
    return Moments.from_rows(rows, rng.integers(2, size=80).astype(np.float64))


@pytest.mark.parametrize("log", [False, True], ids=["no log", "log"])
@pytest.mark.parametrize(("k", "p"), SIZES)
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_blocks_beside_each_other_change_no_bit(policy: Any, k: int, p: int, log: bool) -> None:
    known = a_log(k, p) if log or policy is POLICIES["model"] else None
    decisions, agent = played(policy, k, p, beside, known)
    others, other = played(policy, k, p, arm_by_arm, known)
    assert decisions == others
    assert agent.snapshot() == other.snapshot()
    assert not other.running.held.blocks.size


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_blocks_beside_each_other_are_those_of_r(policy: Any) -> None:
    k, p = 8, 9
    _, agent = played(policy, k, p, beside, a_log(k, p))
    for one in (agent, restore(agent.snapshot(), features=features_of(k, p))):
        held = beside(one).running.held
        factor, half = held.square[kernels.FACTOR], held.vectors[kernels.HALF]
        for arm in range(k):
            own = slice(arm * p, arm * p + p)
            np.testing.assert_array_equal(held.blocks[:p, :p, arm], factor[own, own])
            np.testing.assert_array_equal(held.blocks[p + 1, :p, arm], half[own])
            begins, ends = held.vectors[kernels.BLOCK_BEGIN, own], held.vectors[kernels.BLOCK_END, own]
            single = ends == np.arange(arm * p, arm * p + p) + 1
            assert held.blocks[p + 3, 0, arm] == single.all()
            inside = (begins >= arm * p) & ((ends == arm * p + p) | single)
            assert held.blocks[p + 3, 1, arm] == inside.all()


def test_compiled_rounds_are_those_that_are_asked_with_blocks_beside_each_other() -> None:
    k, p = 8, 4  # places of arms are multiples of four, as the loop makes them
    features = OwnFeatures(items=tuple(map(str, range(2 * k))), width=p)
    contexts, draws = contexts_of(p), np.random.default_rng(3).normal(size=ROUNDS)
    actions = np.concatenate([features.transform(x) for x in contexts])
    world = {
        "ends": np.arange(1, ROUNDS + 1) * 2 * k,
        "actions": actions,
        "weights": np.tile(np.eye(2 * k)[0], ROUNDS),
    }
    agents = [beside(LinTS(scale=0.5).start(None, features=features, rng=4)) for _ in range(2)]
    agents[0].play_rounds(means=np.zeros(len(actions)), draws=draws, **world)
    for x, draw in zip(contexts, draws, strict=True):
        agents[1].update(agents[1].decide(context=x, practice=0), float(draw))
    assert agents[0].snapshot() == agents[1].snapshot()


def test_a_copy_of_a_state_has_blocks_of_its_own() -> None:
    agent = beside(LinUCB().start(None, features=features_of(8, 9), rng=0))
    before, asked = agent.running.copied(), np.arange(1.0, 10.0)
    kept = before.held.blocks.copy()
    agent.update(agent.decide(context=asked), 1.0)
    np.testing.assert_array_equal(before.held.blocks, kept)
    assert not np.array_equal(agent.running.held.blocks, kept)


def test_items_of_whom_each_has_many_features_are_measured_one_by_one() -> None:
    agent = LinUCB().start(None, features=features_of(3, 30), rng=0)
    assert not agent.running.held.blocks.size and agent.running.run["border"] == 90
