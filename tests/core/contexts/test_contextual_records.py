"""What a contextual agent keeps and says: snapshots, decisions, propensities, certificates, refusals."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers.contexts import Clicks

import linoto
from linoto import (
    Budget,
    Closed,
    Confidence,
    Control,
    Decision,
    Doubling,
    Gated,
    Greedy,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    LogisticTS,
    Moments,
    Offline,
    Open,
    Random,
    SquareCB,
    Tolerance,
)
from linoto.core.default_gate import default_gate_in_rounds

CLICKS = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
CHEAP = partial(Control, share="cheap")
MODEL = Tolerance(budget=2.0, epsilon=0.05, evidence="model")
POLICIES: dict[str, Any] = {
    "ucb": LinUCB(scale=1.0),
    "thompson": LinTS(confidence=CLICKS),
    "chance": Random(),
    "by gaps": SquareCB(confidence=CLICKS),
    "clicks": LogisticTS(),
    "model": Gated(explorer=LinTS(), gate=MODEL, confidence=CLICKS),
    "model, proposal": Gated(
        explorer=Random(), gate=MODEL, reach="proposal", fallback="mixture", confidence=CLICKS
    ),
    "model, hkz": Gated(gate=MODEL, confidence=Confidence(radius="hkz", noise=0.5, bound=2.0)),
    "control": Gated(explorer=Greedy(), gate=Control(budget=6.0), confidence=CLICKS),
    "control, by gaps": Gated(
        explorer=SquareCB(scale=2.0), gate=Control(budget=6.0, share=0.3), confidence=CLICKS
    ),
    "cheap control": Gated(gate=Control(budget=6.0, share="cheap"), confidence=CLICKS),
    "control, random": Gated(explorer=Random(), gate=Control(budget=6.0, share=0.3), confidence=CLICKS),
    "loan": Gated(
        explorer=LinTS(), gate=Control(budget=2.0, loan=4.0, promise="expected"), confidence=CLICKS
    ),
}


def question(world: Clicks) -> dict[str, Any]:
    actions = world.arms(int(world.rng.integers(2, 6)))
    return {"actions": actions, "practice": world.rng.dirichlet(np.ones(len(actions)))}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(3)
def test_restored_at_any_round_it_has_the_same_future(name: str) -> None:
    world = Clicks(2)
    agent = POLICIES[name].start(world.log, rng=4)
    other = linoto.restore(agent.snapshot())
    late = []
    for t in range(40):
        asked = question(world)
        decision = agent.decide(**asked)
        if t % 3 == 0:
            other = linoto.restore(agent.snapshot())  # the coin is thrown
        assert other.decide(**asked) == decision
        for each in (agent, other):
            each.commit(decision)
        late.append((decision, world.reward(decision)))
        if t % 4 == 3:
            for due, reward in late:
                for each in (agent, other):
                    (each.lose if due.round % 5 == 0 else each.observe)(due, reward)
            late = []
        if t % 5 == 0:
            other = linoto.restore(agent.snapshot())
        assert other.snapshot() == agent.snapshot()
    assert np.array_equal(agent.theta, other.theta)


@pytest.mark.parametrize("trusting", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_stored_decisions_replay_bit_for_bit(name: str, trusting: bool) -> None:
    """What a service does: it keeps decisions as JSON, and never asks again. Else a coin vouches for them.

    A cheap coin cannot, without the arms: what it decided counts at its worst unless decisions are trusted.
    """
    world = Clicks(3)
    agent, again = (POLICIES[name].start(world.log, rng=5) for _ in range(2))
    if not (trusting or agent.gate.throws_coin):
        return
    for each in (agent, again) if trusting else ():
        each.trust_decisions()
    events: list[tuple[str, float]] = []
    for _ in range(30):
        decision = agent.decide(**question(world))
        reward = world.reward(decision)
        agent.update(decision, reward)
        events.append((json.dumps(decision.to_dict(), allow_nan=False), reward))
    for text, reward in events:
        stored = Decision.from_dict(json.loads(text))
        again.update(stored, reward)
    if not trusting and name == "cheap control":
        asked = question(world)
        assert (again.decide(**asked).budget or 0.0) < (agent.decide(**asked).budget or 0.0)
    else:
        assert again.snapshot() == agent.snapshot()


def test_what_a_decision_is_read_from_is_checked() -> None:
    good = LinUCB(scale=1.0).start(None, d=2).decide(actions=np.eye(2)).to_dict()
    assert Decision.from_dict(good).to_dict() == good
    for change, message in (
        ({"source": "nobody"}, "source must be one of"),
        ({"mode": "bold"}, "mode must be one of"),
        ({"round": 0}, "round must be a whole number >= 1"),
        ({"action": [1.0, np.nan]}, "action must be finite"),
        ({"budget": "much"}, "budget must be a number or None"),
        ({"extra": 1}, "decision must have the fields"),
    ):
        with pytest.raises(ValueError, match=message):
            Decision.from_dict(good | change)
    agent = LinUCB(scale=1.0).start(None, d=3)
    with pytest.raises(ValueError, match="decision must have an action of 3 features, got 2"):
        agent.commit(Decision.from_dict(good))


def test_a_snapshot_that_does_not_fit_is_refused() -> None:
    agent = LinUCB(scale=1.0).start(None, d=2)
    blob = agent.snapshot()
    with pytest.raises(ValueError, match="actions must be None for the snapshot of an agent whose rounds"):
        linoto.restore(blob, np.eye(2))
    with pytest.raises(ValueError, match="snapshot must be"):
        linoto.restore(blob[:-40])
    fixed = LinUCB(scale=1.0).start(np.eye(2), Offline.empty(2)).snapshot()

    class Three:
        d = 3

        def transform(self, context: Any, arms: Any = None) -> Any:
            return np.eye(3)

    with pytest.raises(ValueError, match="features must have d = 2 like the snapshot, got 3"):
        linoto.restore(blob, features=Three())
    with pytest.raises(ValueError, match="features must be None"):
        linoto.restore(fixed, features=Three())
    kept = LinUCB(scale=1.0).start(None, features=Three()).snapshot()
    assert linoto.restore(kept, features=Three()).decide(context={}).arm == 0
    with pytest.raises(ValueError, match="this agent was started without features"):
        linoto.restore(kept).decide(context={})


@pytest.mark.parametrize(
    "name", ["thompson", "chance", "model", "model, proposal", "control", "cheap control", "control, random"]
)
@pytest.mark.few(1)
def test_propensities_are_the_frequencies(name: str) -> None:
    """Each of a few counts is 4.5 standard deviations off in fewer than one of 50,000 right programs."""
    world, n = Clicks(8), 300
    asked = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    agent = POLICIES[name].start(world.log, rng=0)
    kept = agent.snapshot()
    likely = [agent.propensity(arm, redraws=2000, **asked) for arm in range(4)]
    assert agent.snapshot() == kept
    assert sum(likely) == pytest.approx(1.0)
    counts = np.zeros(4)
    for seed in range(n):
        counts[POLICIES[name].start(world.log, rng=seed).decide(**asked).arm] += 1
    spread = np.sqrt(n * np.maximum(np.array(likely) * (1 - np.array(likely)), 1e-3) * (1 + n / 2000))
    assert (np.abs(counts - n * np.array(likely)) <= 4.5 * spread).all()


def test_where_nobody_can_say_how_likely_an_arm_was_there_is_no_propensity() -> None:
    world = Clicks(8)
    asked = {"actions": world.arms(4), "practice": [0.1, 0.2, 0.3, 0.4]}
    assert POLICIES["loan"].start(world.log, rng=0).propensity(0, **asked) is None
    assert POLICIES["thompson"].start(world.log, rng=0).propensity(0, redraws=0, **asked) is None

    class Own:
        def score(self, view: Any) -> Any:
            return view.rng.random(view.mean.size)

    own = Gated(explorer=Own(), gate=Open()).start(world.log, rng=0)
    assert own.propensity(0, **asked) is None
    closed = Gated(explorer=Own(), gate=Closed(), fallback="mixture").start(world.log, rng=0)
    assert closed.propensity(1, **asked) == pytest.approx(0.2)


def test_the_certificate_says_what_is_promised_against_which_practice() -> None:
    model = Gated(gate=MODEL, confidence=CLICKS).certificate(d=3)
    assert (model.holds, model.per_round, model.constant) == (True, 0.05, 2.0)
    assert model.against == "what practice earns on average in the same rounds"
    assert any("linear in the features, in every context" in text for text in model.assumes)
    assert "budget + epsilon t less on average than practice" in model.theorem
    coin = Gated(gate=Control(budget=9.0), confidence=CLICKS).start(None, d=3, rng=0).certificate
    assert (coin.holds, coin.per_round, coin.budget) == (True, 0.0, 9.0)
    assert (
        "current practice is what the caller gives with each decision, and can still be played"
        in coin.assumes
    )
    assert "a linear model" in coin.not_assumed
    promised = "an open gate promises nothing about what practice earns on average in the same rounds"
    assert LinUCB(scale=1.0).certificate(d=3).theorem == promised
    assert not LinLCB().certificate(d=3).holds
    assert Gated(gate=Closed(), fallback="mixture").certificate(d=3).loss(1000) == 0.0
    unknown = Gated(gate=MODEL).certificate(d=3)
    assert json.loads(unknown.to_json())["reward_range"] == [None, None]
    assert "what practice earns on average in the same rounds" in str(unknown)


def test_a_log_that_scatters_more_than_is_assumed_carries_no_promise() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 2)) / 2
    log = Moments.from_rows(rows, rows @ [0.5, 0.5] + rng.normal(size=500))
    policy = Gated(gate=MODEL, confidence=Confidence(noise=0.3))
    certificate = policy.certificate(log)
    assert not certificate.holds
    assert "noise must be at least" in certificate.theorem
    assert Gated(gate=MODEL, confidence=Confidence(noise=1.0)).certificate(log).holds
    for rewards, message in (
        (np.full(500, 1.4), "offline must have rewards in reward_range"),
        (np.where(np.arange(500) % 2, 2.0, -1.0), "reward_range must hold every logged reward"),
    ):
        with pytest.raises(ValueError, match=message):
            Gated(gate=Control(budget=9.0), confidence=CLICKS).start(Moments.from_rows(rows, rewards))


REFUSED: dict[str, tuple[Any, str]] = {
    "budget": (LinOtO(), "gate must be Open, Closed, Tolerance or Control with contexts, got Budget"),
    "gated budget": (Gated(gate=Budget()), "what it promises is about arms that stay the same"),
    "rewards": (
        Gated(gate=Tolerance(budget=9, evidence="rewards"), confidence=CLICKS),
        "evidence must be 'model' with contexts, got 'rewards'",
    ),
    "both": (Gated(gate=Tolerance(budget=9)), "evidence must be 'model' with contexts, got 'both'"),
    "relative": (
        Gated(gate=Tolerance(budget=9, evidence="model", relative=True), confidence=CLICKS),
        "relative must be False with contexts",
    ),
    "paper": (
        Gated(gate=MODEL, confidence=linoto.PAPER),
        "radius must be another than 'paper' with contexts",
    ),
    "doubling": (Doubling(policy=LinUCB(scale=1.0)), "policy must not be Doubling with contexts"),
    "frozen": (
        LinLCB(frozen=True),
        "fallback must be 'auto', 'lcb' or 'mixture' with contexts, got 'frozen'",
    ),
    "an arm": (Gated(gate=MODEL, fallback=1), "with contexts, got 1: practice is given with each decision"),
    "control, lcb": (
        Gated(gate=Control(budget=9), fallback="lcb", confidence=CLICKS),
        "fallback must be 'auto' or 'mixture' with contexts, got 'lcb'",
    ),
    "loan": (
        Gated(gate=Control(budget=9, loan=3), confidence=CLICKS),
        "promise must be 'expected' for a loan with contexts, got 'realised'",
    ),
    "no range": (
        Gated(gate=Control(budget=9, promise="expected")),
        "reward_range must be given for a Control gate",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_theorem_is_refused_with_the_reason(name: str) -> None:
    policy, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        policy.start(None, d=2)


def test_without_a_gate_it_is_a_budget_of_a_hundred_times_the_noise() -> None:
    assert Gated().composed_for_rounds().gate == Tolerance(budget=100.0, evidence="model")
    assert Gated(confidence=CLICKS).composed_for_rounds().gate == CHEAP(budget=50.0)
    normal = Confidence(noise=0.2, reward_range=(-1, 1))
    assert Gated(confidence=normal).composed_for_rounds().gate == CHEAP(budget=20.0, promise="expected")
    Gated().start(None, d=2)
    Gated(confidence=CLICKS).start(None, d=2, rng=0)


def log_that_earned(total: float) -> Moments:
    """10,000 rows of one feature."""
    return Moments(count=10_000, gram=np.eye(1), reward_vector=np.zeros(1), reward_sum=total)


@pytest.mark.parametrize("earned, budget", [(1e6, 50.0), (90.0, 9.0), (-3.0, 50.0)])
def test_the_usual_budget_is_a_tenth_of_what_a_log_earned_at_most(earned: float, budget: float) -> None:
    assert default_gate_in_rounds(log_that_earned(earned), CLICKS) == CHEAP(budget=budget)
    negative = Confidence(noise="bounded", reward_range=(-1, 1))
    assert default_gate_in_rounds(log_that_earned(earned), negative) == CHEAP(budget=100.0)


@pytest.mark.parametrize(
    "earned, budget, rate", [(38.0, 3.8, 0.00038), (7.0, 1.0, 7e-5), (53.0, 5.3, 0.00053)]
)
def test_where_the_usual_budget_would_never_open_there_is_a_rate(
    earned: float, budget: float, rate: float
) -> None:
    """A tenth of what a round of the log earns; where that is not known, 2 % of the noise."""
    gate = default_gate_in_rounds(log_that_earned(earned), CLICKS)
    assert gate == CHEAP(budget=budget, epsilon=rate)
    small = Confidence(noise=0.01, reward_range=(-1, 1))
    assert default_gate_in_rounds(Moments.empty(1), small) == CHEAP(
        budget=2.0, epsilon=0.0002, promise="expected"
    )


def test_a_lost_reward_stays_at_its_worst_in_the_books() -> None:
    world = Clicks(4)
    agents = [POLICIES["control"].start(world.log, rng=1) for _ in range(2)]
    for _ in range(60):
        asked = question(world)
        decisions = [agent.decide(**asked) for agent in agents]
        if decisions[0].mode == "explore":
            break
        for agent, decision in zip(agents, decisions, strict=True):
            agent.update(decision, 0.0)
    for agent, decision in zip(agents, decisions, strict=True):
        agent.commit(decision)
    agents[0].lose(decisions[0], 1.0)
    books = [agent.running.state.run[["upper_practice", "earned", "pending"]] for agent in agents]
    assert books[0] == books[1]
