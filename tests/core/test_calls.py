"""Calls of kernels that do not look at the types of their arguments every time."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import linoto
from linoto.core import kernels
from linoto.core.arrays import reader, writer
from linoto.core.calls import entry_of
from linoto.core.kernels import State

ROUNDS = 60
RANGE = linoto.Confidence(noise="bounded", reward_range=(-1, 1))
POLICIES = {
    "the plain parts": linoto.LinOtO(),
    "a draw": linoto.LinTS(),
    "a coin": linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Control(budget=20), confidence=RANGE),
    "a log that may have moved": linoto.LinUCB(confidence=linoto.Confidence(shift=0.1, bound=1.0)),
}


def started(policy: linoto.Policy, *, k: int = 5, d: int = 3) -> linoto.Agent:
    rng = np.random.default_rng(5)
    actions = rng.standard_normal((k, d))
    log = linoto.Offline(pulls=np.arange(k) + 1, reward_sums=0.3 * np.arange(k))
    agent: linoto.Agent = policy.start(actions, log, rng=0)
    return agent


def bits(state: State) -> list[bytes]:
    return [array.tobytes() for array in state.arrays]


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
def test_a_call_does_what_the_kernel_does(policy: linoto.Policy) -> None:
    agent = started(policy)
    driver, running = agent.driver, agent.running
    other, parts = running.copied(), driver.parts
    for t in range(ROUNDS):
        arm = driver.calls.decide(running.params, running.held, -1)
        assert arm == kernels.decide(other.params, other.held, -1, *parts)
        assert bits(running.held) == bits(other.held)
        driver.calls.commit(running.params, running.held, arm, False)
        kernels.commit(other.params, other.held, arm, False, *parts[:2])
        now = arm, False, float(np.sin(t)), 0.0, True
        driver.calls.observe(running.params, running.held, *now)
        kernels.observe(other.params, other.held, *now, *parts[:6])
        assert bits(running.held) == bits(other.held)


def test_a_state_of_another_kind_is_looked_at_anew() -> None:
    agent = started(linoto.LinUCB())
    agent.update(agent.select(), 0.5)
    agent.add_arms(np.eye(3)[:2])
    agent.update(agent.select(), 0.5)
    agent.update(6, 5.0)
    again = linoto.restore(agent.snapshot())
    assert again.select() == agent.select()
    assert agent.driver.calls.known is agent.running.held


def test_each_kind_of_array_has_its_own_code() -> None:
    numbers = np.arange(12.0).reshape(3, 4)
    row, column = numbers[0], numbers[:, 0]
    of_rows, of_columns = entry_of(kernels.dot, row, row), entry_of(kernels.dot, column, column)
    assert of_rows(row, row) == 14.0
    assert of_columns(column, column) == 80.0
    assert of_rows is entry_of(kernels.dot, row, row)


def test_scalars_are_read_in_the_order_in_which_they_are_asked_for() -> None:
    kind = np.dtype([("a", np.int64), ("b", np.float64), ("c", np.int64)])
    record = np.array([(1, 0.5, 3)], dtype=kind)
    assert reader(kind, "a", "c")(record) == (1, 3)
    assert reader(kind, "c", "b")(record) == (3, 0.5)
    assert reader(kind, "b")(record) == (0.5,)


def test_an_agent_that_has_decided_is_copied_by_pickle() -> None:
    agent = started(linoto.LinUCB())
    agent.update(agent.select(), 0.5)
    again = pickle.loads(pickle.dumps(agent))
    assert again.select() == agent.select() and again.snapshot() == agent.snapshot()


IN_ROUNDS = {
    "no gate": linoto.LinTS(),
    "a coin": linoto.Gated(explorer=linoto.LinUCB(), gate=linoto.Control(budget=20), confidence=RANGE),
}


def own_arms(policy: linoto.Gated | linoto.LinTS) -> linoto.Agent:
    features = linoto.OwnFeatures(items=tuple("abcdefgh"), width=9)
    agent: linoto.Agent = policy.start(None, features=features, rng=0)
    return agent


@pytest.mark.parametrize("policy", IN_ROUNDS.values(), ids=IN_ROUNDS.keys())
def test_a_call_of_a_round_does_what_the_kernel_does(policy: linoto.Gated | linoto.LinTS) -> None:
    agent, rng = own_arms(policy), np.random.default_rng(6)
    driver, running = agent.driver, agent.running
    for t in range(ROUNDS):
        asked = driver.question(context=rng.standard_normal(9), practice=t % 8)
        driver.bring(asked)
        other = running.copied()
        given = driver.whitened.copy(), asked.weights, asked.offered, -1
        driver.calls.decide(running.params, running.held, driver.whitened, *given[1:])
        kernels.context_decide(other.params, other.held, *given, driver.coin, driver.shift)
        assert bits(running.held) == bits(other.held)
        played = asked.action(t % 8), asked.action(3)
        driver.calls.commit(running.params, running.held, *played, False)
        kernels.context_commit(other.params, other.held, *played, False, driver.coin)
        driver.calls.observe(running.params, running.held, played[0], float(np.sin(t)), 0.0)
        now = *played, -1, -1, False, float(np.sin(t)), 0.0, True
        kernels.context_observe(other.params, other.held, *now, driver.coin, driver.shift)
        assert bits(running.held) == bits(other.held)


@pytest.mark.parametrize("policy", IN_ROUNDS.values(), ids=IN_ROUNDS.keys())
@pytest.mark.parametrize("width", [9, 3])
def test_a_play_and_its_reward_are_one_call_with_the_same_bits(
    policy: linoto.Gated | linoto.LinTS, width: int
) -> None:
    """At once, one after the other, of a decision from a file, and after another question was asked."""
    items = tuple("abcdefgh")
    features = linoto.OwnFeatures(items=items, width=width)
    one, two, stored, asked = (policy.start(None, features=features, rng=0) for _ in range(4))
    rng = np.random.default_rng(8)
    for t in range(ROUNDS):
        context = rng.standard_normal(width)
        practice = [0, "c", np.full(8, 0.125), {"a": 0.5, "h": 0.5}][t % 4]
        question = {"context": context, "practice": practice}
        reward = float(rng.random() < 0.5)
        decision = one.decide(**question)
        one.update(decision, reward)
        assert decision == two.decide(**question)
        if t % 3:
            two.commit(decision)
            two.observe(decision, reward)
        else:
            two.update(two.decide(**question), reward)
        stored.decide(**question)
        stored.update(linoto.Decision.from_dict(decision.to_dict()), reward)
        again = asked.decide(**question)
        if not isinstance(policy, linoto.Gated):
            asked.decide(context=-context, practice=1, allowed=["b", "a"] if t % 2 else None)
        asked.update(again, reward)
    assert one.snapshot() == two.snapshot() == stored.snapshot() == asked.snapshot()


def test_arms_that_lie_otherwise_in_memory_are_the_same_arms() -> None:
    agents = own_arms(linoto.LinUCB()), own_arms(linoto.LinUCB())
    context = np.random.default_rng(7).standard_normal(9)
    for agent, order in zip(agents, "CF", strict=True):
        driver = agent.driver
        asked = driver.question(context=context)
        asked = asked._replace(actions=np.asarray(asked.actions, order=order))
        agent.update(driver.answer(None, asked), 0.5)
    assert agents[0].snapshot() == agents[1].snapshot()


def test_what_a_decision_plays_is_written_down_when_it_is_read() -> None:
    agent, context = own_arms(linoto.LinUCB()), np.arange(1.0, 10.0)
    decision = agent.decide(context=context, practice=2)
    assert "action" not in vars(decision) and "practice" not in vars(decision)
    copies = pickle.loads(pickle.dumps(decision)), replace(decision, budget=decision.budget)
    rows = agent.features.transform(context) if agent.features is not None else []
    assert decision.action == tuple(rows[decision.arm]) and decision.practice == tuple(rows[2])
    assert "action" in vars(decision) and decision.action is decision.action
    read = linoto.Decision.from_dict(decision.to_dict())
    assert copies == (decision, decision) and read == decision


def test_a_decision_without_an_action_has_none() -> None:
    decision = started(linoto.LinUCB()).decide()
    assert decision.action is None and decision.practice is None


def test_whole_numbers_in_a_decision_are_numbers() -> None:
    agents = own_arms(linoto.LinUCB()), own_arms(linoto.LinUCB())
    for agent, kind in zip(agents, (int, float), strict=True):
        decision = agent.decide(context=np.arange(1.0, 10.0))
        agent.update(replace(decision, action=tuple(map(kind, decision.action or ()))), 0.5)
    assert agents[0].snapshot() == agents[1].snapshot()


def test_numbers_that_are_no_neighbours_are_not_written_together() -> None:
    kind = np.dtype([("a", np.int64), ("b", np.float64), ("c", np.int64)])
    with pytest.raises(ValueError, match=r"^names must be neighbours of one record, got a, c$"):
        writer(kind, "a", "c")
