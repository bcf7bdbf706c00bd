"""Guardrails behind a Tolerance gate: one ledger for each metric, compared with what the log had of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.reference import Problem
from helpers.reference_tolerance import ToleranceReference

import linoto
from linoto import (
    Confidence,
    Gated,
    Guard,
    Guardrail,
    LinTS,
    LinUCB,
    Moments,
    Offline,
    Random,
    SquareCB,
    Tolerance,
)
from linoto.core.snapshots import read_snapshot

LOG = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
COMPLAINTS = Guardrail(
    "complaints", reward_range=(0, 1), lower_is_better=True, budget=12, rate=0.02, mean=0.1, logged=100
)
MARGIN = Guardrail("margin", reward_range=(-2, 4), budget=60, rate=0.1, mean=1.0, logged=100)
RAILS = (COMPLAINTS, MARGIN)
MEANS, COMPLAINED, EARNED = np.array([0.6, 0.5, 0.7]), np.array([0.1, 0.1, 0.15]), np.array([1.0, 1.0, 0.9])
PROMISES = ("expected", "realised")
every_promise = pytest.mark.parametrize("promise", PROMISES)


def guard(promise: Any, log: Offline = LOG, **other: Any) -> Guard:
    options: dict[str, Any] = {"budget": 12.0, "epsilon": 0.05, "guardrails": RAILS, **other}
    return Guard(log, reward_range=(0, 1), noise="bounded", promise=promise, **options)


def gated(promise: Any = "realised", **other: Any) -> Gated:
    gate = Tolerance(budget=12.0, epsilon=0.05, evidence="rewards", promise=promise)
    options: dict[str, Any] = {"gate": gate, "guardrails": RAILS, "explorer": LinUCB(scale=0.25), **other}
    return Gated(**{"confidence": CLICKS, **options})


def values_of(arm: int, rng: np.random.Generator) -> dict[str, float]:
    margin = float(np.clip(EARNED[arm] + rng.normal(), -2, 4))
    return {"complaints": float(rng.random() < COMPLAINED[arm]), "margin": margin}


def oracle(rail: Guardrail, promise: str) -> ToleranceReference:
    """The gate of a metric that is alone, with a third of delta: it shares no code with the books."""
    sums = rail.turn * (rail.mean or 0.0) * LOG.pulls
    return ToleranceReference(
        Problem(np.eye(3), LOG.pulls, sums),
        **{"epsilon": rail.rate, "budget": rail.budget, "ridge": 1.0, "evidence": "rewards"},
        **{"promise": promise, "delta": 0.05 / 3, "noise": "bounded", "reward_range": rail.limits},
    )


@every_promise
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.few(1)
def test_the_books_of_every_metric_are_those_of_its_oracle(promise: str, late: bool) -> None:
    """`late`: each value comes by itself, in any order, or never. Explored is where all can afford it."""
    rng, watch, books = np.random.default_rng(5), guard(promise), {r.name: oracle(r, promise) for r in RAILS}
    waiting: list[tuple[int, Any, str, float]] = []
    sources = []
    for t in range(60 if promise == "realised" else 25):  # its oracle looks at every round again
        decision = watch.decide(int(rng.choice([0, 2, 2])))
        rooms = watch.rooms
        for name, reference in books.items():
            assert rooms[name] == pytest.approx(reference.rewards_room(), abs=1e-6), (name, t)
        assert (decision.mode == "explore") == (min(decision.budget or 0.0, *rooms.values()) > 0)
        sources.append(decision.source)
        watch.commit(decision)
        watch.observe(decision, float(rng.random() < MEANS[decision.arm]))
        values = values_of(decision.arm, rng)
        for name, reference in books.items():
            reference.commit(decision.arm, decision.source)
            if not late or rng.random() < 0.9:
                due = t + (int(rng.integers(1, 15)) if late else 0)
                waiting.append((due, decision, name, values[name]))
        for item in [item for item in waiting if item[0] <= t]:
            _, earlier, name, value = item
            watch.observe(earlier, metrics={name: value})
            play = books[name].plays[earlier.round - 1]
            play.reward = -value if name == "complaints" else value
            books[name].learn(play)
            waiting.remove(item)
    assert sources.count("explorer") >= 5 and (sources.count("mixture") >= 5 or not late)


@every_promise
def test_a_guardrail_on_the_reward_itself_changes_its_delta_and_nothing_else(promise: str) -> None:
    twin = Guardrail("again", reward_range=(0, 1), budget=12.0, rate=0.05, mean=0.56, logged=100)
    both, alone = guard(promise, guardrails=[twin]), guard(promise, guardrails=(), delta=0.025)
    rng = np.random.default_rng(0)
    for _ in range(150):
        mine, theirs = both.decide(2), alone.decide(2)
        assert mine == theirs and both.rooms["again"] == pytest.approx(mine.budget, rel=1e-9)
        reward = float(rng.random() < MEANS[mine.arm])
        both.update(mine, reward, {"again": reward})
        alone.update(theirs, reward)


@every_promise
def test_a_guard_and_an_agent_keep_the_same_books_and_survive_their_snapshots(promise: str) -> None:
    """Values come in any order; what was lost with a restored snapshot is refused."""
    agent, watch, rng = gated(promise).start(np.eye(3), LOG, rng=4), guard(promise), np.random.default_rng(3)
    waiting: list[Any] = []
    for t in range(80):
        mine, theirs = agent.guard(2), watch.decide(2)
        assert (mine.arm, mine.source) == (theirs.arm, theirs.source) and agent.rooms == watch.rooms
        if t % 19 == 0:
            agent, watch = (linoto.restore(each.snapshot()) for each in (agent, watch))
            assert agent.guard(2) == mine and watch.decide(2) == theirs
        for each, decision in ((agent, mine), (watch, theirs)):
            each.commit(decision)
            each.observe(decision, 1.0)
        waiting += [(mine, theirs, name, value) for name, value in values_of(mine.arm, rng).items()]
        for _ in range(2):
            own, other, name, value = waiting.pop(int(rng.integers(len(waiting))))
            agent.observe(own, metrics={name: value})
            watch.observe(other, metrics={name: value})
            with pytest.raises(ValueError, match=f"decision must await its {name}"):
                agent.observe(own, metrics={name: value})


def test_compiled_equals_interactive() -> None:
    rng, n = np.random.default_rng(0), 300
    draws, besides = rng.random(n), rng.random((2, n))
    metrics = {"complaints": (COMPLAINED, besides[0]), "margin": (EARNED, besides[1])}
    loop, hand = (gated().start(np.eye(3), LOG, rng=7) for _ in range(2))
    rounds = loop.play_rounds(MEANS, draws, bernoulli=True, metrics=metrics)
    for t in range(n):
        decision = hand.decide()
        assert decision.arm == rounds.arms[t]
        values = {
            "complaints": float(besides[0, t] < COMPLAINED[decision.arm]),
            "margin": 4.0 if besides[1, t] * 6 < EARNED[decision.arm] + 2 else -2.0,
        }
        hand.update(decision, float(draws[t] < MEANS[decision.arm]), values)
    books = [read_snapshot(agent.snapshot())[1]["rails"].tobytes() for agent in (loop, hand)]
    assert books[0] == books[1] and {0, 2} <= set(rounds.sources.tolist())


@pytest.mark.parametrize(
    "explorer", [LinUCB(scale=1.0), LinTS(), SquareCB()], ids=lambda each: type(each).__name__
)
def test_compiled_and_asked_reach_for_the_same_arm_where_the_model_pays(explorer: Any) -> None:
    """The favourite cannot be afforded, another one can: worlds in which they parted in the first rounds."""
    rail = Guardrail("c", reward_range=(0, 1), lower_is_better=True, budget=4000, mean=0.1, logged=500)
    gate = Tolerance(budget=3.0, evidence="model")
    policy = gated(gate=gate, explorer=explorer, guardrails=[rail], confidence=replace(CLICKS, bound=2.0))
    explored, n = 0, 40
    for seed in range(4):
        rng = np.random.default_rng(seed)
        arms = rng.standard_normal((6, 3))
        arms /= np.linalg.norm(arms, axis=1, keepdims=True)
        means = np.clip(0.5 + arms @ (rng.standard_normal(3) * 0.3), 0.05, 0.95)
        pulls = np.array([300, 200, 0, 0, 0, 0])
        draws, besides, complained = rng.random(n), rng.random(n), np.full(6, 0.1)
        loop, hand = (
            policy.start(arms, Offline(pulls=pulls, reward_sums=pulls * means), rng=0) for _ in "ab"
        )
        rounds = loop.play_rounds(means, draws, bernoulli=True, metrics={"c": (complained, besides)})
        for t in range(n):
            decision = hand.decide()
            assert decision.arm == rounds.arms[t], (seed, t)
            explored += decision.mode == "explore"
            reward = float(draws[t] < means[decision.arm])
            hand.update(decision, reward, {"c": float(besides[t] < 0.1)})
    assert explored > 0


def test_what_a_guardrail_refuses_has_no_propensity() -> None:
    rail = Guardrail("c", reward_range=(0, 1), lower_is_better=True, budget=300, mean=0.1, logged=500)
    log, gate = (
        Offline(pulls=[500, 0, 0, 0], reward_sums=[250.0, 0, 0, 0]),
        Tolerance(budget=300.0, evidence="rewards"),
    )
    agent = gated(explorer=Random(), gate=gate, guardrails=[rail]).start(np.eye(4), log, rng=0)
    for _ in range(200):
        decision = agent.decide()
        agent.update(decision, 0.5, {"c": float(decision.arm == 3)})
    assert agent.decide().mode == "explore"
    assert [agent.propensity(arm) for arm in range(4)] == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


def test_a_guard_takes_metrics_after_a_reward_by_arm() -> None:
    watch = guard("realised")
    decision = watch.decide(2)
    watch.commit(decision)
    watch.observe(decision.arm, 1.0)
    before = watch.rooms["complaints"]
    watch.observe(decision, metrics={"complaints": 0.0, "margin": 1.0})
    assert watch.rooms["complaints"] > before


def test_whatever_pays_for_the_reward_the_mixture_is_what_is_safe() -> None:
    """An arm that the model proves good for the reward may be any for another metric."""
    policy = gated(gate=Tolerance(budget=12.0, epsilon=0.05))
    assert policy.resolved_fallback() == "mixture"
    assert replace(policy, guardrails=()).resolved_fallback() == "certified"


def test_a_closed_metric_leaves_the_shares_of_the_log() -> None:
    shut = replace(COMPLAINTS, budget=0, rate=0)
    agent = gated(guardrails=[shut]).start(np.eye(3), LOG, rng=0)
    for _ in range(100):
        decision = agent.decide()
        assert decision.source == "mixture"
        agent.update(decision, 1.0, {"complaints": 0.0})
    assert agent.mixture_plays.tolist() == [60, 40, 0]


def test_the_certificate_says_what_the_rounding_of_the_mixture_adds() -> None:
    certificate = gated().certificate(np.eye(3), LOG)
    line = dict(certificate.rows(rounds=1000))["complaints"]
    assert line.startswith("at most 12 and 0.02 a round more than ") and "by the rounding of the" in line
    assert len(certificate.roundings) == 2 and linoto.Certificate(**certificate.to_dict()) == certificate
    one = Offline(pulls=[100, 0, 0], reward_sums=[56.0, 0.0, 0.0])
    assert gated().certificate(np.eye(3), one).roundings == ()


# -- adversaries

RELATIONS = ("correlated", "opposed", "apart", "lost by the other")
ATTACKS = ("spends what it has", "falls after luck", "always bad", "honest")


def attacked_mean(attack: str, room: float, spending: bool, last: float) -> tuple[float, bool]:
    """The mean of what is explored, where the attacked metric of practice has .6."""
    if attack == "spends what it has":
        spending = room > (0.5 if spending else 6.0)
    elif attack == "falls after luck":
        spending = last > 0.5
    else:
        spending = attack == "always bad"
    return (0.0 if spending else 0.9), spending


def excess(promise: str, attack: str, relation: str, attacked: int, rounds: int, seed: int) -> float:
    """How far more than promised was ever lost of either metric, by values or by means."""
    rng = np.random.default_rng([seed, attacked, *map(ord, attack[:3] + relation[:3])])
    sums = rng.binomial(100, 0.6, size=2)
    rail = Guardrail("other", reward_range=(0, 1), budget=10, rate=0.05, mean=sums[1] / 100, logged=100)
    log = Offline(pulls=[100, 0], reward_sums=[float(sums[0]), 0.0])
    watch = guard(promise, log, guardrails=[rail], budget=10.0)
    lost, over, spending, last = np.zeros(2), -np.inf, False, 0.0
    for t in range(rounds):
        decision = watch.decide(1)
        room = watch.rooms["other"] if attacked else decision.budget or 0.0
        mean, spending = attacked_mean(attack, room, spending, last)
        mean = mean if decision.arm == 1 else 0.6
        value = float(rng.random() < mean)
        other_mean = {"correlated": mean, "apart": 0.6}.get(relation, 1 - mean if decision.arm else 0.6)
        other = float(rng.random() < other_mean)
        if relation == "correlated":
            other = value
        elif relation != "apart" and decision.arm == 1:
            other = 1.0 - value
        pair = (value, other) if attacked == 0 else (other, value)
        means = (mean, other_mean) if attacked == 0 else (other_mean, mean)
        if decision.mode == "explore":
            lost += 0.6 - np.array(pair if promise == "realised" else means)
        over, last = max(over, float(lost.max()) - 10 - 0.05 * (t + 1)), value
        hidden = relation == "lost by the other" and other > 0.5
        watch.commit(decision)
        if attacked == 1 or not hidden:
            watch.observe(decision, pair[0])
        if attacked == 0 or not hidden:
            watch.observe(decision, metrics={"other": pair[1]})
    return over


@every_promise
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_adversary_breaks_either_metric_more_often_than_delta(relation: str, promise: str) -> None:
    """P(binomial(3, .05) > 2) = 1.3e-4 for each attack."""
    for place, attack in enumerate(ATTACKS):
        broken = [excess(promise, attack, relation, place % 2, 60, seed) > 1e-9 for seed in range(3)]
        assert sum(broken) <= 2


@pytest.mark.slow
@every_promise
@pytest.mark.parametrize("attacked", [0, 1])
@pytest.mark.parametrize("relation", RELATIONS)
def test_so_it_is_in_many_long_runs(relation: str, attacked: int, promise: str) -> None:
    """P(binomial(60, .05) > 10) = 3e-4 for each attack; 500 rounds each."""
    for attack in ATTACKS:
        broken = [excess(promise, attack, relation, attacked, 500, seed) > 1e-9 for seed in range(60)]
        assert sum(broken) <= 10, attack


# -- what cannot be promised


def removes_practice() -> None:
    gated().start(np.eye(3), LOG, rng=0).remove_arms([1])


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: gated(guardrails=[replace(MARGIN, logged=None)]),
            "guardrail 'margin': mean and logged must be given for a Tolerance gate, got 1.0 and None",
        ),
        (lambda: gated(guardrails=[replace(MARGIN, mean=None)]), "mean and logged must be given"),
        (
            lambda: gated(guardrails=[replace(MARGIN, logged=99)]).start(np.eye(3), LOG),
            "guardrail 'margin': logged must be 100, the rows of this log, got 99",
        ),
        (lambda: replace(MARGIN, logged=0), "logged must be a number of rows >= 1 or None, got 0"),
        (
            lambda: Gated(
                gate=Tolerance(budget=9.0), confidence=replace(CLICKS, shift=0.1), guardrails=RAILS
            ),
            "shift must be 0 for guardrails behind a Tolerance gate, got 0.1",
        ),
        (lambda: gated(fallback="lcb"), "fallback must be 'mixture' or 'auto' for guardrails behind a Tol"),
        (lambda: gated(fallback=1), "fallback must be 'mixture' or 'auto' for guardrails behind a Tol"),
        (
            lambda: gated(gate=Tolerance(budget=9.0, evidence="model")).start(Moments.empty(2)),
            "gate must be a Control for guardrails with contexts, got Tolerance",
        ),
        (removes_practice, "arms must be ones without rows in the log for guardrails behind a Tolerance"),
        (
            lambda: gated(gate=linoto.Budget()),
            "gate must be a Control or a Tolerance for guardrails, got Bud",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_an_arm_that_the_log_does_not_have_may_go() -> None:
    agent = gated().start(np.eye(3), LOG, rng=0)
    agent.remove_arms([2])
    assert agent.decide().arm in (0, 1)
