"""The coin with contexts: its books, its loan, and what adversaries can make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.contexts import Clicks, World
from helpers.problems import bernoulli_problem
from helpers.reference_contexts import ContextReference
from helpers.reference_control import ControlReference

from linoto import (
    Agent,
    Confidence,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    Moments,
    Random,
    Tolerance,
    restore,
    to_dict,
)
from linoto.core import codec, kernels
from linoto.core.snapshots import read_snapshot

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
NORMAL = Confidence(noise=0.5, reward_range=(-1, 1))
BOOKS: dict[str, tuple[dict[str, Any], Confidence]] = {
    "realised": ({"budget": 4.0, "epsilon": 0.02}, CLICKS),
    "expected": ({"budget": 8.0, "promise": "expected"}, CLICKS),
    "stretches": ({"budget": 40.0, "every": 20}, CLICKS),
    "a fixed share": ({"budget": 6.0, "share": 0.3}, CLICKS),
    "sub-Gaussian": ({"budget": 20.0, "promise": "expected"}, NORMAL),
}


def kind_of(decision: Any) -> str:
    """What a decision is called in the books of the oracle."""
    if decision.control_share is not None:
        return "explored" if decision.mode == "explore" else "control"
    return "agreed" if decision.arm == decision.proposal else "closed"


@pytest.mark.parametrize("name", BOOKS)
def test_the_books_are_those_of_the_oracle(name: str) -> None:
    parts, confidence = BOOKS[name]
    world = Clicks(1) if confidence is CLICKS else World(1, d=3)
    centre = float(np.clip(world.log.reference, *(confidence.reward_range or (0, 0))))
    low, high = confidence.reward_range or (0, 0)
    noise = None if confidence is CLICKS else 0.5
    oracle = ControlReference(**parts, low=low, high=high, noise=noise, centre=centre)
    policy = Gated(explorer=Random(), gate=Control(**parts), confidence=confidence)
    agent, late, kinds = policy.start(world.log, rng=2), [], set()
    for t in range(120):
        actions = world.arms(int(world.rng.integers(1, 5)))
        weights = world.rng.dirichlet(np.ones(len(actions)))
        decision = agent.decide(actions=actions, practice=weights)
        kinds.add(kind_of(decision))
        assert decision.budget == pytest.approx(oracle.room, abs=2e-4 * oracle.unit)
        if decision.control_share is not None:
            assert decision.control_share == pytest.approx(oracle.next_share, abs=1e-3)
            assert decision.centre == pytest.approx(oracle.centre)
        agent.commit(decision)
        oracle.commit(kind_of(decision))
        late.append((decision, float(np.clip(world.reward(decision), low, high))))
        if t % 5 == 4:
            for due, reward in late[::-1]:
                if due.round % 6:
                    agent.observe(due, reward)
                    oracle.observe(due.round - 1, reward)
            late = []
    assert kinds >= {"agreed", "control", "explored"}


def test_a_cheap_share_is_larger_where_the_estimates_say_that_practice_costs_little() -> None:
    """By the formula, in NumPy: the best arm, and what practice has besides it, by least squares."""
    world, shares = Clicks(1), []
    V, b = np.eye(3) * 3 / 16 + world.rows.T @ world.rows, world.rows.T @ world.outcomes
    gate = Control(budget=20.0, epsilon=0.01, share="cheap")
    agent = Gated(explorer=LinTS(), gate=gate, confidence=CLICKS).start(world.log, rng=2)
    oracle = ControlReference(budget=20.0, epsilon=0.01, share="cheap", centre=world.log.reference)
    for _ in range(150):
        actions, weights = world.arms(4), world.rng.dirichlet(np.ones(4))
        estimates = actions @ np.linalg.solve(V, b)
        others = np.where(np.arange(4) == estimates.argmax(), 0.0, weights)
        expected = oracle.cheap_share(float(others @ estimates / others.sum()), float(estimates.max()))
        decision = agent.decide(actions=actions, practice=weights)
        if decision.control_share is not None:
            shares.append((decision.control_share, oracle.cheap_share()))
            assert decision.control_share == pytest.approx(expected, abs=1e-4)
        reward, x = world.reward(decision), np.array(decision.action)
        agent.update(decision, reward)
        oracle.commit(kind_of(decision), expected)
        if kind_of(decision) == "explored":
            theta = np.linalg.solve(V, b)
            oracle.foresee(x @ theta, np.array(decision.practice) @ theta)
        oracle.observe(decision.round - 1, reward)
        V, b = V + np.outer(x, x), b + reward * x
    ratios = np.array([share / usual for share, usual in shares])
    assert len(shares) > 50 and ratios.min() < 0.95 and ratios.max() > 1.05


def test_the_usual_coin_is_cheap_and_plays_practice_less_often() -> None:
    """In the same world and by the same log; what is promised is the same."""
    usual, before = Gated(confidence=CLICKS), Gated(gate=Control(budget=50.0), confidence=CLICKS)
    control = {}
    for name, policy in {"usual": usual, "before": before}.items():
        world = Clicks(5)
        agent = policy.start(world.log, rng=1)
        control[name] = 0
        for _ in range(400):
            actions = world.arms(4)
            worst = int(np.argmin([world.mean(action) for action in actions]))
            decision = agent.decide(actions=actions, practice=worst)
            agent.update(decision, world.reward(decision))
            control[name] += decision.source == "control"
        assert agent.certificate.budget == 50.0
    assert 0 < control["usual"] < 0.7 * control["before"]


def test_what_an_older_version_stored_without_a_gate_keeps_the_coin_that_it_had() -> None:
    """Its snapshot does not say that the coin is a cheap one."""
    world, policy = Clicks(4), Gated(confidence=CLICKS)
    before = Gated(gate=Control(budget=50.0), confidence=CLICKS).start(world.log, rng=1)
    header, arrays = read_snapshot(before.snapshot())
    header["policy"] = to_dict(policy)
    stored, today = restore(codec.pack(header, arrays)), policy.start(world.log, rng=1)
    assert (stored.gate.share, restore(stored.snapshot()).gate.share) == (None, None)
    assert (today.gate.share, restore(today.snapshot()).gate.share) == ("cheap", "cheap")
    assert stored.gate == before.gate


def test_a_loan_is_what_the_model_sees_and_no_more() -> None:
    world, spent = Clicks(3), 0
    gate = Control(budget=1.0, epsilon=0.01, loan=3.0, promise="expected")
    agent = Gated(explorer=LinUCB(scale=1.0), gate=gate, confidence=CLICKS).start(world.log, rng=1)
    oracle = ControlReference(
        budget=1.0, epsilon=0.01, promise="expected", delta=0.025, centre=world.log.reference
    )
    model = ContextReference(
        world.rows, world.outcomes, budget=1.0, epsilon=0.01, noise=0.5, bound=2.0, delta=0.025, ridge=3 / 16
    )
    for _ in range(150):
        actions = world.arms(4)
        decision = agent.decide(actions=actions, practice=world.rng.dirichlet(np.ones(4)))
        owed = sum((a - b for a, b in model.explored_plays), np.zeros(3))
        y = owed + actions[decision.proposal] - np.array(decision.practice)
        vouched = 1.0 + 0.01 * decision.round + model.least(y, y, 0 * y)
        expected = max(oracle.room, min(vouched, oracle.room + 3.0))
        assert decision.budget == pytest.approx(expected, abs=1e-3)
        spent += decision.mode == "explore" and oracle.room < 0
        reward = world.reward(decision)
        agent.update(decision, reward)
        share, oracle_share = decision.control_share, oracle.entries
        oracle.commit(kind_of(decision))
        oracle_share[-1].share = 1.0 if share is None else share
        oracle.observe(decision.round - 1, reward)
        model.commit(np.array(decision.action), np.array(decision.practice), decision.by_practice)
        model.observe(np.array(decision.action), reward)
    assert spent > 2


def test_with_the_same_arms_in_every_round_it_is_the_agent_of_fixed_arms() -> None:
    bandit, log = bernoulli_problem(4)
    policy = Gated(explorer=LinUCB(scale=1.0), gate=Control(budget=12.0), confidence=CLICKS)
    rows = np.repeat(bandit.actions, log.pulls, axis=0)
    outcomes = np.concatenate(
        [np.arange(n) < total for n, total in zip(log.pulls, log.reward_sums, strict=True)]
    )
    fixed, agent = (
        policy.start(bandit.actions, log, rng=7),
        policy.start(Moments.from_rows(rows, outcomes.astype(float)), rng=7),
    )
    rng, sources = np.random.default_rng(1), set()
    for _ in range(300):
        before = fixed.decide()
        decision = agent.decide(actions=bandit.actions, practice=log.pulls / log.total)
        assert (decision.arm, decision.mode, decision.proposal) == (before.arm, before.mode, before.proposal)
        assert decision.fallback == before.fallback
        assert decision.budget == pytest.approx(before.budget, abs=1e-6)
        sources.add(decision.source)
        reward = float(rng.random() < bandit.means[before.arm])
        fixed.update(before, reward)
        agent.update(decision, reward)
    assert sources >= {"explorer", "control"}


def opened(seed: int = 5) -> tuple[Agent, Clicks]:
    """An agent whose gate is open, so that a coin is thrown wherever the explorer disagrees."""
    world = Clicks(seed)
    policy = Gated(explorer=Greedy(), gate=Control(budget=50.0), confidence=CLICKS)
    return policy.start(world.log, rng=seed), world


def test_the_coin_is_thrown_once_for_a_round() -> None:
    agent, world = opened()
    actions = world.arms(3)
    worst = int(np.argmin(actions @ agent.theta))
    decision = agent.decide(actions=actions, practice=worst)
    assert decision.control_share is not None
    assert agent.decide(actions=actions, practice=worst) == decision
    assert agent.guard(decision.proposal, actions=actions, practice=worst) == decision
    for other in (
        {"actions": actions, "practice": (worst + 1) % 3},
        {"actions": world.arms(3), "practice": worst},
        {"actions": actions[:2], "practice": 0},
    ):
        with pytest.raises(ValueError, match="for which the coin of this round is thrown, got others"):
            agent.decide(**other)
    with pytest.raises(ValueError, match="got others: commit that decision first"):
        agent.guard(worst, actions=actions, practice=worst)
    with pytest.raises(ValueError, match="practice must be one of the arms or weights for a Control gate"):
        agent.decide(actions=actions, practice=[actions[0] / 2])
    agent.commit(decision)
    agent.decide(actions=world.arms(3), practice=0)


def test_a_decision_kept_in_reserve_cannot_take_the_place_of_a_thrown_coin() -> None:
    world = Clicks(5)
    policy = Gated(explorer=Greedy(), gate=Control(budget=1.3), confidence=CLICKS)
    agent = policy.start(world.log, rng=0)
    actions = world.arms(3)
    worst = int(np.argmin(actions @ agent.theta))
    owed = None
    for _ in range(200):
        decision = agent.decide(actions=actions, practice=worst)
        if decision.control_share is None and owed is not None:
            break
        agent.commit(decision)
        if decision.mode == "explore":
            owed = decision
        else:
            agent.observe(decision, 0.0)
    assert owed is not None
    agent.observe(owed, 1.0)  # now there is room again
    thrown = agent.decide(actions=actions, practice=worst)
    assert thrown.control_share is not None
    with pytest.raises(
        ValueError, match="decision must be the one for which the coin of this round is thrown"
    ):
        agent.commit(decision)
    agent.commit(thrown)


def test_a_reward_between_the_throw_and_the_commit_changes_nothing() -> None:
    agent, world = opened()
    actions = world.arms(3)
    worst = int(np.argmin(actions @ agent.theta))
    first = agent.decide(actions=actions, practice=worst)
    agent.commit(first)
    second = agent.decide(actions=actions, practice=worst)
    agent.observe(first, 0.0)
    assert agent.decide(actions=actions, practice=worst) == second
    agent.update(second, 1.0)


def test_practice_is_drawn_in_every_round_and_the_coin_has_its_frequency() -> None:
    """Each count is 4 standard deviations off in fewer than one of 5,000 right programs."""
    world, weights = Clicks(6), np.array([0.5, 0.3, 0.2])
    gate = Control(budget=1e4, share=0.25)
    agent = Gated(explorer=Greedy(), gate=gate, confidence=CLICKS).start(world.log, rng=3)
    actions, n = world.arms(3), 2000
    practice, control, disputed = np.zeros(3), 0, 0
    for _ in range(n):
        decision = agent.decide(actions=actions, practice=weights)
        practice[decision.fallback] += 1
        control += decision.source == "control"
        disputed += decision.control_share is not None
        assert (decision.control_share is None) == (decision.proposal == decision.fallback)
        agent.commit(decision)
    assert (np.abs(practice - n * weights) <= 4 * np.sqrt(n * weights * (1 - weights))).all()
    assert abs(control - 0.25 * disputed) <= 4 * np.sqrt(disputed * 0.25 * 0.75)


class Worst:
    """An explorer that knows the world, and proposes what earns the least."""

    def __init__(self, world: Clicks) -> None:
        self.world = world

    def propose(self, view: Any) -> int:
        return int(np.argmin([self.world.mean(action) for action in view.actions]))


def most_excess(seed: int, gate: Any, *, delta: float, rounds: int, turned: bool) -> tuple[float, int]:
    """The largest excess over budget and epsilon t in any round, in means, and how often it explored.

    Rewards come five rounds late, and one in seven never.
    """
    world = Clicks(seed, turned=turned)
    confidence = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0, delta=delta)
    explorer = LinTS() if seed % 2 else Worst(world)
    agent = Gated(explorer=explorer, gate=gate, confidence=confidence).start(world.log, rng=seed)
    lost, over, explored, late = 0.0, -np.inf, 0, []
    for t in range(rounds):
        actions = world.arms(4)
        practice = int(np.argmax([world.mean(action) for action in actions]))
        decision = agent.decide(actions=actions, practice=practice)
        agent.commit(decision)
        explored += decision.mode == "explore"
        lost += world.shortfall(decision)
        over = max(over, lost - gate.budget - gate.epsilon * (t + 1))
        late.append(decision)
        if len(late) > 5 and late[0].round % 7:
            agent.observe(late[0], world.reward(late[0]))
        late = late[-5:]
    return over, explored


GATES: dict[str, Any] = {
    "cheap control": Control(budget=12.0, epsilon=0.05, share="cheap"),
    "control": Control(budget=4.0, epsilon=0.05, promise="expected"),
    "loan": Control(budget=2.0, epsilon=0.05, promise="expected", loan=6.0),
    "model": Tolerance(budget=4.0, epsilon=0.05, evidence="model"),
}


@pytest.mark.parametrize("delta", [0.05, 0.5])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.few(1)
def test_no_explorer_breaks_the_promise_more_often_than_delta(name: str, delta: float) -> None:
    """A right program fails with a probability below 1e-3: 6 of 16 at 0.05, 15 of 16 at 0.5."""
    runs = [most_excess(seed, GATES[name], delta=delta, rounds=70, turned=False) for seed in range(16)]
    assert sum(explored for _, explored in runs) > 20
    assert sum(over > 1e-9 for over, _ in runs) < (6 if delta == 0.05 else 15)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.05, 0.5])
@pytest.mark.parametrize("name", GATES)
def test_no_explorer_breaks_the_promise_in_hundreds_of_runs(name: str, delta: float) -> None:
    """A false alarm in one of 100,000."""
    runs = [most_excess(seed, GATES[name], delta=delta, rounds=200, turned=False) for seed in range(250)]
    assert sum(over > 1e-9 for over, _ in runs) <= most(250, delta, alarm=1e-5)


def test_where_the_model_is_wrong_the_loan_is_lost_at_most() -> None:
    """At delta 0.05: 4 of 8 over budget + loan in one of 2,000 right programs, while the model gate is."""
    loans = [most_excess(seed, GATES["loan"], delta=0.05, rounds=120, turned=True) for seed in range(8)]
    models = [most_excess(seed, GATES["model"], delta=0.05, rounds=120, turned=True) for seed in range(8)]
    assert sum(over > 6.0 + 1e-9 for over, _ in loans) < 4
    assert max(over for over, _ in loans) > 0.0  # some of it is lost
    assert np.median([over for over, _ in models]) > 6.0


@pytest.mark.slow
def test_where_the_model_is_wrong_the_loan_is_lost_at_most_in_hundreds_of_runs() -> None:
    """A false alarm in one of 100,000."""
    runs = [most_excess(seed, GATES["loan"], delta=0.05, rounds=300, turned=True) for seed in range(250)]
    assert sum(over > 6.0 + 1e-9 for over, _ in runs) <= most(250, 0.05, alarm=1e-5)


@pytest.mark.parametrize("share", [None, "cheap"])
def test_a_share_that_was_changed_when_the_coin_was_known_is_not_believed(share: Any) -> None:
    """The agent is that of a snapshot from before: nobody has asked in this round."""
    world = Clicks(4)
    gate, believed, changed = Control(budget=30.0, share=share), 0, 0
    agent = Gated(explorer=LinUCB(), gate=gate, confidence=CLICKS).start(world.log, rng=1)
    for _ in range(40):
        before = agent.snapshot()
        decision = agent.decide(actions=world.arms(3), practice=0)
        for factor in (0.6, 0.8, 1.25, 1.6) if decision.control_share is not None else ():
            other = restore(before)
            other.commit(replace(decision, control_share=min(decision.control_share * factor, 0.89)))
            changed += 1
            believed += int(other.running.run["entry"]) != kernels.UNASKED_PLAY
        agent.update(decision, world.reward(decision))
    assert changed >= 20 and believed == 0


def test_a_question_that_was_checked_is_refused_by_others_and_with_more() -> None:
    world = Clicks(4)
    policy = Gated(explorer=LinUCB(), gate=Control(budget=30.0), confidence=CLICKS)
    agent, other = (policy.start(world.log, rng=1) for _ in range(2))
    asked = agent.checked(actions=world.arms(3), practice=0)
    assert agent.decide(**asked) == agent.decide(**asked)
    with pytest.raises(ValueError, match="actions must be checked by this agent"):
        other.decide(**asked)
    with pytest.raises(ValueError, match="must be given alone"):
        agent.decide(**asked, practice=1)


def test_a_propensity_of_what_was_decided_is_that_of_now() -> None:
    """Between the two a reward comes, and something else is looked at."""
    world = Clicks(4)
    gate = Control(budget=10.0)
    agent = Gated(explorer=LinTS(), gate=gate, confidence=CLICKS).start(world.log, rng=1)
    late: list[Any] = []
    for _ in range(40):
        asked = {"actions": world.arms(3), "practice": np.array([0.5, 0.5, 0.0])}
        decision = agent.decide(**asked)
        if late:
            agent.observe(late[0], world.reward(late.pop(0)))
        known = [agent.propensity(a, redraws=20, rng=3, decided=decision, **asked) for a in range(3)]
        anew = [agent.propensity(a, redraws=20, rng=3, **asked) for a in range(3)]
        assert known == anew
        agent.commit(decision)
        late.append(decision)
