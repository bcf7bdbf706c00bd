"""Many rounds at once: what as many calls would do, within what the gate allows, all of them or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.own_explorers import Optimist

import linoto
from linoto import (
    Agent,
    Confidence,
    Control,
    Decision,
    Gated,
    Guardrail,
    LinOtO,
    LinTS,
    LinUCB,
    Moments,
    Offline,
    SquareCB,
    Tolerance,
)
from linoto.core.decisions import NoSafeArm

LOG = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0])
ACTIONS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
RAILS = (Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=8, rate=0.02, mean=0.1),)
BUDGET, EPSILON = 6.0, 0.05
CONTROL, TOLERANCE = Control(budget=BUDGET, epsilon=EPSILON), Tolerance(budget=BUDGET, epsilon=EPSILON)
MODEL = Tolerance(budget=BUDGET, epsilon=EPSILON, evidence="model")
Question = dict[str, Any]


def gated(gate: Any, explorer: Any = None, **parts: Any) -> Gated:
    return Gated(explorer=LinUCB() if explorer is None else explorer, gate=gate, confidence=CLICKS, **parts)


def fixed(policy: Any) -> Callable[[], Agent]:
    return lambda: policy.start(ACTIONS, LOG, rng=5)


def in_rounds(policy: Any) -> Callable[[], Agent]:
    rows = np.repeat([0, 1], LOG.pulls[:2])
    return lambda: policy.start(Moments.from_rows(ACTIONS[rows], np.repeat([0.6, 0.5], LOG.pulls[:2])), rng=5)


def any_arms(rng: np.random.Generator) -> Question:
    return {"allowed": [0, 1]} if rng.random() < 0.3 else {}


def own_arms(rng: np.random.Generator) -> Question:
    actions = rng.dirichlet(np.ones(2), size=int(rng.integers(2, 6)))
    weights = rng.dirichlet(np.ones(len(actions)))
    return {"actions": actions, "practice": 0 if rng.random() < 0.5 else weights}


AGENTS: dict[str, tuple[Callable[[], Agent], Callable[..., Question]]] = {
    "LinOtO": (fixed(LinOtO()), any_arms),
    "tolerance": (fixed(gated(TOLERANCE)), any_arms),
    "control": (fixed(gated(CONTROL)), any_arms),
    "control, Thompson": (fixed(gated(CONTROL, LinTS())), any_arms),
    "SquareCB": (fixed(SquareCB()), any_arms),
    "guardrails": (fixed(gated(CONTROL, guardrails=RAILS)), any_arms),
    "an explorer of one's own": (fixed(gated(TOLERANCE, Optimist())), any_arms),
    "contexts, model": (in_rounds(gated(MODEL)), own_arms),
    "contexts, control": (in_rounds(gated(CONTROL)), own_arms),
    "contexts, Thompson": (in_rounds(gated(CONTROL, LinTS())), own_arms),
    "contexts, guardrails": (in_rounds(gated(CONTROL, guardrails=RAILS)), own_arms),
}
agents = pytest.mark.parametrize("name", AGENTS)


def one_by_one(agent: Agent, questions: list[Question]) -> list[Decision]:
    """The oracle: each is decided and committed before the next."""
    made = []
    for question in questions:
        made.append(agent.decide(**question))
        agent.commit(made[-1])
    return made


def told(agent: Agent, made: list[Decision], rng: np.random.Generator) -> list[Question]:
    """What is told of some of these decisions, in any order: rewards, values of guardrails, or both."""
    found, metrics = [], list(agent.rooms)
    for place in rng.permutation(len(made))[: len(made) * 2 // 3].tolist():
        report = {"reward": float(rng.random() < 0.5), "metrics": dict.fromkeys(metrics, 0.0) or None}
        found.append({"decision": made[place], **report})
    return found


# -- what as many calls would do


@agents
def test_a_batch_is_as_many_rounds_one_after_the_other(name: str) -> None:
    """The same decisions and the same state, bit for bit, after rewards of some of them in any order."""
    start, ask = AGENTS[name]
    batch, single, rng = start(), start(), np.random.default_rng(1)
    for t in range(6):
        questions = [ask(rng) for _ in range(8)]
        made = batch.decide_many(questions)
        assert made == one_by_one(single, questions)
        assert [decision.round for decision in made] == list(range(8 * t + 1, 8 * t + 9))
        assert batch.snapshot() == single.snapshot()
        reports = told(batch, made, rng)
        columns = ([report[key] for report in reports] for key in ("decision", "reward", "metrics"))
        batch.observe_many(*columns)
        for report in reports:
            single.observe(report["decision"], report["reward"], report["metrics"])
        assert batch.snapshot() == single.snapshot()
    assert batch.rounds == 48 and batch.awaited == 18


@agents
def test_a_number_is_the_same_question_as_often(name: str) -> None:
    start, ask = AGENTS[name]
    same = ask(np.random.default_rng(2))
    counted, listed = start(), start()
    assert counted.decide_many(7, **same) == listed.decide_many([same] * 7)
    assert counted.decide_many(2, **same, safe=True) == listed.decide_many([{"safe": True}] * 2, **same)
    assert all(decision.mode == "safe" for decision in counted.decide_many(3, **same, safe=True))
    listed.decide_many([{**same, "safe": True}] * 3)
    assert counted.decide_many(0, **same) == listed.decide_many([]) == []
    assert counted.snapshot() == listed.snapshot()


@agents
def test_propensities_are_asked_for_before_each_commit(name: str) -> None:
    start, ask = AGENTS[name]
    batch, single, rng = start(), start(), np.random.default_rng(3)
    questions, seen, likely = [ask(rng) for _ in range(12)], list[Any](), list[Any]()

    def look(decision: Decision) -> None:
        seen.append(batch.propensity(decision.arm, **questions[len(seen)]))

    batch.decide_many(questions, look=look)
    for question in questions:
        decision = single.decide(**question)
        likely.append(single.propensity(decision.arm, **question))
        single.commit(decision)
    assert seen == likely and len(seen) == 12
    assert batch.snapshot() == single.snapshot()


@agents
def test_a_restored_agent_goes_on_with_the_next_batch(name: str) -> None:
    start, ask = AGENTS[name]
    agent, rng = start(), np.random.default_rng(4)
    first = agent.decide_many([ask(rng) for _ in range(10)])
    again: Any = linoto.restore(agent.snapshot(), policy=agent.policy if agent.driver.own else None)
    questions = [ask(rng) for _ in range(10)]
    assert again.decide_many(questions) == agent.decide_many(questions)
    for each in (agent, again):
        each.observe_many(first, [1.0] * 10)
    assert again.snapshot() == agent.snapshot()


# -- what is spent


UNKNOWN = np.eye(3)  # of the last arm nothing is known, so it is what is explored
COSTS: dict[str, tuple[Any, float]] = {  # what an explored play costs at worst: what practice may have earned
    "tolerance": (Tolerance(budget=BUDGET, epsilon=EPSILON, evidence="rewards"), 0.56),
    "control": (CONTROL, 1.0),
    "contexts, model": (MODEL, 0.56),
    "contexts, control": (CONTROL, 1.0),
}


def explorer_of_unknown(name: str) -> tuple[Agent, Question, float]:
    gate, cost = COSTS[name]
    if "contexts" not in name:
        return gated(gate, LinUCB(scale=1.0)).start(UNKNOWN, LOG, rng=5), {}, cost
    log = Moments.from_rows(np.repeat(UNKNOWN[:1], 100, axis=0), np.repeat([1.0, 0.0], [56, 44]))
    return gated(gate, LinUCB(scale=1.0)).start(log, rng=5), {"actions": UNKNOWN[::2], "practice": 0}, cost


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("comes", ["the worst", "nothing", "the best, late"])
def test_a_batch_spends_no_more_than_the_gate_allows(name: str, comes: str) -> None:
    """Nothing that is to come is counted on before it has come, so explored plays are paid for as if lost."""
    (agent, question, cost), late, explored = explorer_of_unknown(name), list[Decision](), 0
    unknown = 1 if question else 2
    for _ in range(5):
        made = agent.decide_many(80, **question)
        explored += sum(decision.arm == unknown for decision in made)
        if comes == "the worst":
            agent.observe_many(made, [float(decision.arm != unknown) for decision in made])
        late += made
        assert 0 < explored * cost <= BUDGET + EPSILON * agent.rounds
    if comes == "the best, late":
        agent.observe_many(late[::-1], [float(decision.arm == unknown) for decision in late[::-1]])
        assert agent.awaited == 0
        more = [decision.arm for decision in agent.decide_many(80, **question)]
        assert more.count(unknown) > 8  # now it has come, and pays


# -- all or none


WRONG: dict[str, tuple[Any, str]] = {
    "unknown": (
        [{}, {"alowed": [0]}],
        r"^questions\[1\]: a question must .* got 'alowed': did you mean 'allowed'",
    ),
    "no arm": ([{}, {"allowed": []}], r"^questions\[1\]: allowed must hold at least one arm"),
    "context": ([{"context": {"age": 3}}], r"^questions\[0\]: context must be None"),
    "not a mapping": (
        [{}, 3],
        r"^questions\[1\]: a question must be a mapping of arguments of decide, got 3",
    ),
    "negative": (-1, "^questions must be a whole number >= 0 or a list"),
    "too many": (10**30, "^questions must be as many as memory can hold, got more$"),
    "a share": (0.5, "^questions must be a whole number"),
    "yes": (True, "^questions must be a whole number"),
    "one question": ({"allowed": [0]}, "^questions must be a whole number >= 0 or a list"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_asked_is_refused_before_anything_is_decided(name: str) -> None:
    questions, message = WRONG[name]
    agent = AGENTS["tolerance"][0]()
    before = agent.snapshot()
    with pytest.raises(ValueError, match=message):
        agent.decide_many(questions)
    assert agent.snapshot() == before and agent.rounds == 0


def poor() -> Agent:
    """The gate can afford two plays of arm 1, then nothing that is not the fallback, arm 0."""
    gate, log = Tolerance(budget=1.5, evidence="rewards"), Offline(pulls=[1000, 0], reward_sums=[560.0, 0.0])
    return gated(gate, fallback=0).start(np.eye(2), log, rng=0)


def test_rounds_before_one_that_has_no_safe_arm_are_undone() -> None:
    agent, again = poor(), poor()
    before = agent.snapshot()
    with pytest.raises(NoSafeArm, match=r"^questions\[2\]: allowed must hold an arm that is safe"):
        agent.decide_many(4, allowed=[1])
    assert agent.snapshot() == before and agent.rounds == 0
    assert agent.decide_many(2, allowed=[1]) == one_by_one(again, [{"allowed": [1]}] * 2)
    assert agent.snapshot() == again.snapshot()


class EnoughError(Exception):
    """A caller's own mistake."""


def failing_at(place: int, seen: list[Decision]) -> Callable[[Decision], None]:
    def fail(decision: Decision) -> None:
        seen.append(decision)
        if len(seen) == place:
            raise EnoughError

    return fail


@agents
def test_where_the_caller_fails_rounds_are_undone_unless_coins_were_thrown(name: str) -> None:
    """Without a coin everything is as before; with one they stay, and their rewards may still be told."""
    start, ask = AGENTS[name]
    agent, other, rng = start(), start(), np.random.default_rng(6)
    questions, seen = [ask(rng) for _ in range(6)], list[Decision]()
    for each in (agent, other):
        each.observe_many(each.decide_many(questions), [1.0] * 6)
    with pytest.raises(EnoughError):
        agent.decide_many(questions, look=failing_at(4, seen))
    if agent.running.coins is None:
        assert agent.rounds == 6 and agent.awaited == 0
        with pytest.raises(ValueError, match="await"):
            agent.observe(seen[0], 1.0)
        assert agent.decide() == other.decide()
    else:
        assert agent.rounds == 10 and agent.awaited == 4
        assert seen == one_by_one(other, questions[:4])
        agent.observe_many(seen, [1.0] * 4)
        assert agent.awaited == 0


class Always:
    """Proposes arm 1."""

    def propose(self, view: Any) -> int:
        return 1


def test_who_fails_after_control_rounds_and_asks_again_loses_no_more() -> None:
    """A log of .1, practice that earns 1 today, and a caller who would keep explored rounds only."""
    log = Offline(pulls=[1000, 0], reward_sums=[100.0, 0.0])
    for seed in range(4):
        agent, lost = gated(Control(budget=20.0), Always()).start(np.eye(2), log, rng=seed), 0
        while agent.rounds < 600:
            seen = list[Decision]()

            def look(decision: Decision, seen: list[Decision] = seen) -> None:
                seen.append(decision)
                if len(seen) == 2 and seen[0].source == "control":
                    raise EnoughError

            try:
                made = agent.decide_many([{}, {"safe": True}], look=look)
            except EnoughError:
                continue
            agent.observe_many(made, [float(decision.arm == 0) for decision in made])
            lost += sum(decision.arm for decision in made)
        assert lost <= 20


@agents
def test_rewards_of_a_batch_are_taken_all_or_none(name: str) -> None:
    start, ask = AGENTS[name]
    agent, rng = start(), np.random.default_rng(7)
    made = agent.decide_many([ask(rng) for _ in range(5)])
    agent.observe(made[0], 1.0)
    shown = agent.decide(**ask(rng))
    before = agent.snapshot()
    wrong: list[tuple[Any, Any, str]] = [
        (made[1:3], [1.0], "^rewards must be as many as decisions, 2, got 1"),
        (made[1:4], [1.0, 2.0, 0.0], r"^decisions\[1\]: reward must be"),
        (made[1:4], [1.0, None, 0.0], r"^decisions\[1\]: reward must be"),
        ([made[1], made[1]], [1.0, 1.0], r"^decisions\[1\]: decision must be there once"),
        ([made[1], made[0]], [1.0, 1.0], "await"),
        ([made[1], shown], [1.0, 1.0], "await|round"),
        (None, None, "^decisions must be a list, got None$"),
        (made[1:3], None, "^rewards must be a list, got None$"),
        ([made[1], 0], [1.0, 1.0], r"^decisions\[1\]: decision must be what decide_many returned"),
    ]
    for decisions, rewards, message in wrong[:1] if "SquareCB" in name or name == "LinOtO" else wrong:
        with pytest.raises(ValueError, match=message):
            agent.observe_many(decisions, rewards)
        assert agent.snapshot() == before
    if agent.rooms:
        with pytest.raises(ValueError, match=r"^decisions\[1\]: metrics must be of complaints"):
            agent.observe_many(made[1:3], [1.0, 1.0], [None, {"complants": 1.0}])
        assert agent.snapshot() == before
    agent.observe_many(made[1:], [1.0] * 4)
    assert agent.awaited == 0
