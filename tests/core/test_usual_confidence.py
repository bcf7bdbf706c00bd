"""The usual ridge of a start: the likeliest behind a coin, else that of what one action can have."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import linoto
from linoto import (
    Confidence,
    Control,
    Gated,
    Greedy,
    LinTS,
    LinUCB,
    LogisticTS,
    Moments,
    OwnFeatures,
    RandUCB,
    SquareCB,
    Tolerance,
)
from linoto.core.evidence import RIDGES, evidence, likeliest_ridge
from linoto.core.usual_confidence import MOST_FEATURES, confidence_from_log, with_usual_confidence

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
BEHIND_A_COIN: dict[str, Any] = {"gate": Control(budget=20), "confidence": CLICKS}


def summed() -> Moments:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((200, 6))
    return Moments.from_rows(x, (rng.random(200) < 0.5 + 0.1 * np.tanh(x[:, 0])).astype(np.float64))


LOG = summed()


@pytest.mark.parametrize("explorer", [LinTS(), RandUCB(), Greedy(), SquareCB()])
def test_a_coin_promises_whatever_the_ridge_is(explorer: Any) -> None:
    policy = with_usual_confidence(Gated(explorer=explorer, **BEHIND_A_COIN), LOG.d, lambda: LOG)
    assert policy.confidence is not None and policy.confidence.ridge == likeliest_ridge(LOG)
    assert policy.confidence.ridge != CLICKS.ridge_for(LOG.d)


@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=Tolerance(budget=20, evidence="model"), confidence=CLICKS),
        Gated(gate=Tolerance(budget=20), confidence=CLICKS),
        Gated(gate=Control(promise="expected", budget=20, loan=10), confidence=CLICKS),
        Gated(explorer=LinUCB(), **BEHIND_A_COIN),
        Gated(explorer=LogisticTS(), **BEHIND_A_COIN),
        Gated(fallback="lcb", **BEHIND_A_COIN),
        Gated(gate=Control(budget=20), confidence=Confidence(reward_range=(0, 1), ridge=7.0)),
        Gated(confidence=CLICKS),
    ],
    ids=["model", "log", "loan", "LinUCB", "LogisticTS", "fallback", "said", "no gate yet"],
)
def test_who_reads_bounds_or_says_a_ridge_keeps_it(policy: Gated) -> None:
    assert with_usual_confidence(policy, LOG.d, lambda: LOG) is policy


def test_a_log_that_cannot_tell_leaves_the_rule() -> None:
    policy = Gated(**BEHIND_A_COIN)
    unsquared = Moments(count=2, gram=np.eye(2), reward_vector=np.ones(2), reward_sum=2.0)
    for log in (Moments.empty(2), unsquared):
        assert with_usual_confidence(policy, 2, lambda log=log: log) is policy  # type: ignore[misc]
    assert with_usual_confidence(policy, MOST_FEATURES + 1, pytest.fail) is policy


@pytest.mark.parametrize(
    ("column", "of_one_size"),
    [([0.5, 1.0, 2.0], True), ([0.01, 0.02, 0.12], False), ([2019.0, 2020.0, 2021.0], False)],
)
def test_one_ridge_is_for_features_of_one_size(column: list[float], of_one_size: bool) -> None:
    raw, policy = np.column_stack([np.ones(3), column]), Gated(**BEHIND_A_COIN)
    assert (with_usual_confidence(policy, LOG.d, lambda: LOG, raw) != policy) == of_one_size
    one_hot = np.eye(3) * [[1.0], [1.0], [2.0]]  # an arm that was seldom logged is no small feature
    assert with_usual_confidence(policy, LOG.d, lambda: LOG, one_hot) != policy


def ridge_at_start(policy: Any, log: Moments = LOG, **features: Any) -> float | None:
    """What an agent says of its ridge."""
    agent: Any = policy.start(log, rng=0, **features)
    confidence = agent.policy.confidence
    return None if confidence is None else confidence.ridge


@pytest.mark.parametrize("features", [None, OwnFeatures(items=("a", "b"), width=3)], ids=["given", "own"])
def test_a_gate_that_nobody_chose_starts_with_the_likeliest_ridge(features: Any) -> None:
    policy = Gated(confidence=CLICKS)
    agent = policy.start(LOG, features=features, rng=0)
    said = replace(policy, confidence=replace(CLICKS, ridge=likeliest_ridge(LOG)))
    assert agent.policy == said
    assert agent.confidence.ridge == likeliest_ridge(LOG)
    assert policy.confidence == CLICKS


def test_a_ridge_that_was_found_is_kept_with_the_agent() -> None:
    """A snapshot says it: what was learnt since does not make another one."""
    agent: Any = Gated(confidence=CLICKS).start(LOG, rng=0)
    rng = np.random.default_rng(0)
    for _ in range(30):
        agent.update(agent.decide(actions=rng.standard_normal((3, 6)), practice=0), 1.0)
    again: Any = linoto.restore(agent.snapshot())
    assert again.policy == agent.policy
    assert again.running.params[0]["ridge"] == agent.running.params[0]["ridge"] == likeliest_ridge(LOG)


@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=Control(budget=20), confidence=CLICKS),
        Gated(confidence=replace(CLICKS, ridge=7.0)),
        Gated(),
        Gated(explorer=LinUCB(), confidence=CLICKS),
        LinTS(confidence=CLICKS),
        LinUCB(confidence=CLICKS),
    ],
    ids=["gate is said", "ridge is said", "range is not known", "reads bounds", "no gate", "no gate, bounds"],
)
def test_what_somebody_chose_starts_as_it_is(policy: Any) -> None:
    assert policy.start(LOG, rng=0).policy is policy


def test_without_a_log_or_for_what_is_stored_the_rule_stays() -> None:
    policy = Gated(confidence=CLICKS)
    assert ridge_at_start(policy, Moments.empty(6)) is None
    with confidence_from_log(False):
        assert ridge_at_start(policy) is None


def test_columns_of_several_sizes_leave_the_rule() -> None:
    """An age in years beside a constant: one ridge would be judged by the age."""
    rng = np.random.default_rng(5)
    age, arm = rng.integers(20, 80, size=300), rng.integers(2, size=300)
    rows = np.zeros((300, 2, 2))
    rows[np.arange(300), arm] = np.column_stack([np.ones(300), age])
    log = Moments.from_rows(rows.reshape(300, 4), (rng.random(300) < 0.5).astype(np.float64))
    own = OwnFeatures(items=("a", "b"), width=2)
    assert ridge_at_start(Gated(confidence=CLICKS), log, features=own) == CLICKS.ridge_for(2)
    rows[:, :, 1] /= 50
    log = Moments.from_rows(rows.reshape(300, 4), (rng.random(300) < 0.5).astype(np.float64))
    assert ridge_at_start(Gated(confidence=CLICKS), log, features=own) == likeliest_ridge(log)


# -- features of each arm's own

OWN = OwnFeatures(items=("a", "b"), width=3)
SHARED = linoto.Recipe(items=("a", "b", "c"), context=(linoto.Numeric(name="x"),), crosses=(("item", "x"),))
ALONE = [LinTS, RandUCB, Greedy, SquareCB]


@pytest.mark.parametrize("log", [None, Moments.empty(6), LOG], ids=["none", "empty", "some"])
@pytest.mark.parametrize("kind", ALONE)
def test_an_explorer_alone_counts_what_one_action_can_have(kind: Any, log: Moments | None) -> None:
    agent = kind(confidence=CLICKS).start(log, features=OWN, rng=0)
    assert agent.confidence.ridge == CLICKS.ridge_for(3) == 3 / 4
    assert agent.confidence.radius == "self_normalised"
    assert agent.running.params[0]["ridge"] == 3 / 4


@pytest.mark.parametrize(
    ("low", "bound", "ridge"),
    [
        (0.0, 0.5, 10.0),  # noise^2 p / bound^2, up to the largest reward
        (0.0, 1.0, 2.5),
        (0.0, 2.0, 2.5),
        (0.0, 4.0, 1.5625),  # noise^2 d / bound^2 is less: the bound is that of everything
        (0.0, 40.0, 0.015625),
        (-3.0, 2.0, 0.625),
        (-3.0, 3.0, 2.5 / 9),  # rewards are far from 0
        (-3.0, 4.0, 2.5 / 9),
        (-inf, 4.0, 2.5 / 16),  # nothing is known of them
    ],
)
@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_a_long_bound_is_that_of_everything(low: float, bound: float, ridge: float, unit: float) -> None:
    limits = (low * unit, (low + 1) * unit) if isfinite(low) else None
    confidence = Confidence(noise=0.5 * unit, bound=bound * unit, reward_range=limits)
    features = OwnFeatures(items=tuple("abcdefghij"), width=10)
    for policy in (LinTS(confidence=confidence), Greedy(confidence=confidence)):
        assert policy.start(features=features, rng=0).confidence.ridge == pytest.approx(ridge)
    agent: Any = LinUCB(confidence=confidence).start(features=features, rng=0)  # the bound is in its radius
    assert agent.confidence.ridge == pytest.approx(confidence.ridge_for(10))


@pytest.mark.few(3)
@pytest.mark.parametrize("explorer", [LinTS(), LinUCB(), RandUCB()], ids=str)
def test_behind_a_coin_the_unit_of_rewards_makes_no_difference(explorer: Any) -> None:
    """Nobody says a bound. By one of 1 euro, whatever the range, the ridge would hold every arm at 0."""
    clicks, euros = (
        Gated(
            explorer=explorer,
            gate=Control(budget=60.0 * unit),
            confidence=Confidence(noise="bounded", reward_range=(0.0, unit)),
        )
        for unit in (1.0, 2000.0)
    )
    agents: list[Any] = [policy.start(features=OWN, rng=0) for policy in (clicks, euros)]
    assert agents[0].confidence.ridge == pytest.approx(agents[1].confidence.ridge)
    context = np.ones(OWN.width)
    for t in range(400):
        made = [agent.decide(context=context, practice=OWN.items[0]) for agent in agents]
        assert made[0].name == made[1].name, t
        share = 0.2 + 0.6 * (made[0].name == OWN.items[1])
        for agent, decision, unit in zip(agents, made, (1.0, 2000.0), strict=True):
            agent.update(decision, share * unit)
    assert agents[1].decide(context=context, practice=OWN.items[0]).proposal == made[0].proposal


# -- a bound in the unit of rewards, for arms that stay and rounds of plain actions

ARMS, UNIT = np.eye(4), 2000.0
EUROS = Confidence(noise="bounded", reward_range=(0.0, UNIT))


def in_units_of(unit: float, explorer: Any, **gate: Any) -> Gated:
    confidence = Confidence(noise="bounded", reward_range=(0.0, unit))
    return Gated(explorer=explorer, gate=Control(budget=60.0 * unit, **gate), confidence=confidence)


def log_of_arms(unit: float) -> linoto.Offline:
    arms = np.repeat([0, 1, 2], [60, 10, 10])
    earned = np.random.default_rng(3).random(80) * (0.5 + 0.25 * arms)
    return linoto.Offline.from_rows(arms, unit * earned, k=4)


@pytest.mark.few(4)
@pytest.mark.parametrize("explorer", [RandUCB(), LinUCB(), LinTS(), LinUCB(scale=1.0)], ids=str)
@pytest.mark.parametrize("arms_stay", [True, False], ids=["arms", "rounds"])
def test_behind_a_coin_the_unit_of_rewards_makes_no_difference_to_plain_actions_either(
    explorer: Any, arms_stay: bool
) -> None:
    agents: list[Any] = [
        in_units_of(unit, explorer).start(ARMS, log_of_arms(unit), rng=0)
        if arms_stay
        else in_units_of(unit, explorer).start(d=4, rng=0)
        for unit in (1.0, UNIT)
    ]
    asked: dict[str, Any] = {} if arms_stay else {"actions": ARMS, "practice": 0}
    for t in range(300):
        made = [agent.decide(**asked) for agent in agents]
        assert made[0].arm == made[1].arm and made[0].proposal == made[1].proposal, t
        earned = (0.3, 0.5, 0.7, 0.9)[made[0].arm] - 0.2 * (t % 2)
        for agent, decision, unit in zip(agents, made, (1.0, UNIT), strict=True):
            agent.update(decision, earned * unit)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=Control(budget=60 * UNIT), confidence=EUROS),
        Gated(gate=Control(budget=60 * UNIT, loan=2 * UNIT), confidence=EUROS),
        Gated(gate=Control(budget=60 * UNIT), fallback=2, confidence=EUROS),
        Gated(gate=Control(budget=60 * UNIT), confidence=replace(EUROS, radius="arms", horizon=500)),
        LinUCB(confidence=EUROS),
    ],
    ids=["coin", "loan by the log", "practice is an arm", "arms one by one", "explorer alone"],
)
def test_agent_certificate_and_snapshot_say_the_bound_that_was_found(policy: Any) -> None:
    log = log_of_arms(UNIT)
    agent = policy.start(ARMS, log)
    assert agent.policy == replace(policy, confidence=replace(policy.confidence, bound=UNIT))
    assert agent.certificate == policy.certificate(ARMS, log) == agent.policy.certificate(ARMS, log)
    for given in (None, policy, agent.policy):
        again: Any = linoto.restore(agent.snapshot(), policy=given)
        assert again.policy == agent.policy and again.snapshot() == agent.snapshot()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=linoto.Tolerance(budget=60 * UNIT), confidence=replace(EUROS, bound=3 * UNIT)),
        Gated(gate=Control(promise="expected", budget=60 * UNIT, loan=UNIT), confidence=EUROS),
        Gated(gate=Control(budget=60 * UNIT), fallback="lcb", confidence=EUROS),
        Gated(gate=Control(budget=60 * UNIT), confidence=replace(EUROS, bound=500.0)),
        Gated(gate=Control(budget=60 * UNIT), confidence=replace(EUROS, ridge=7.0)),
        Gated(gate=Control(budget=60 * UNIT), confidence=replace(EUROS, radius="paper")),
        Gated(explorer=LinUCB(), gate=Control(budget=60 * UNIT), confidence=replace(EUROS, shift=1.0)),
        Gated(gate=Control(budget=60), confidence=CLICKS),
    ],
    ids=["log", "loan by the model", "fallback", "bound", "ridge", "paper", "shift", "clicks"],
)
def test_a_bound_that_is_said_or_proves_something_stays_whatever_the_range(policy: Any) -> None:
    assert policy.suited_to(None, None) is policy
    assert with_usual_confidence(policy, 4, lambda: Moments.empty(4)) is policy


def test_an_agent_that_is_stored_keeps_its_bound_and_its_certificate_says_it() -> None:
    """Older versions started with the bound of 1 euro."""
    policy, log = in_units_of(UNIT, RandUCB()), log_of_arms(UNIT)
    doubled: Any = linoto.Doubling(policy=LinUCB(confidence=EUROS)).start(ARMS, log, rng=0)
    assert doubled.inner.confidence.bound == 1.0 and doubled.confidence == EUROS
    with confidence_from_log(False):
        agent: Any = policy.start(ARMS, log, rng=0)
        certificate = agent.certificate
    again: Any = linoto.restore(agent.snapshot())
    assert again.policy == policy and again.certificate == certificate
    assert again.running.params[0]["ridge"] == EUROS.ridge_for(4)


def test_features_that_arms_share_are_in_every_action() -> None:
    agent: Any = LinTS(confidence=CLICKS).start(features=SHARED, rng=0)
    assert SHARED.d == 8  # each arm has a constant and a slope, and all share both
    assert agent.confidence.ridge == CLICKS.ridge_for(4)
    agent = LinUCB(confidence=CLICKS).start(features=SHARED, rng=0)
    assert agent.confidence == replace(CLICKS, radius="own", ridge=CLICKS.ridge_for(4))


def test_a_gate_that_nobody_chose_does_so_without_a_log() -> None:
    agent: Any = Gated(confidence=CLICKS).start(features=OWN, rng=0)
    assert agent.confidence.ridge == CLICKS.ridge_for(3)


@pytest.mark.parametrize(
    ("policy", "ridge"),
    [
        (LinUCB(confidence=CLICKS), CLICKS.ridge_for(3)),
        (Gated(explorer=LinUCB(), confidence=CLICKS), CLICKS.ridge_for(3)),
        (Gated(explorer=LinUCB(), gate=Control(budget=20), confidence=CLICKS), CLICKS.ridge_for(3)),
    ],
    ids=["alone", "usual gate", "behind a coin"],
)
def test_optimism_at_a_part_of_its_radius_takes_that_of_each_arm(policy: Any, ridge: float) -> None:
    agent = policy.start(LOG, features=OWN, rng=0)
    assert agent.confidence == replace(CLICKS, radius="own", ridge=ridge)
    again: Any = linoto.restore(agent.snapshot(), features=OWN)
    assert again.policy == agent.policy and again.running.run["own_features"] == 3


@pytest.mark.parametrize(
    "policy",
    [
        LinUCB(scale=1.0, confidence=CLICKS),
        LinUCB(confidence=replace(CLICKS, radius="hkz")),
        LinUCB(confidence=replace(CLICKS, ridge=2.0)),
        LinTS(confidence=replace(CLICKS, ridge=2.0)),
        linoto.LogisticTS(confidence=CLICKS),
        LinUCB(scale=2.0, confidence=CLICKS),
        Gated(gate=Tolerance(budget=20, evidence="model"), confidence=CLICKS),
    ],
    ids=["theorem", "radius said", "ridge said", "ridge said to sample", "clicks", "beyond", "by bounds"],
)
def test_with_own_features_too_what_somebody_said_starts_as_it_is(policy: Any) -> None:
    assert policy.start(LOG, features=OWN, rng=0).policy is policy


def test_items_may_come_one_by_one() -> None:
    """Of one arm both radii are the same, and those that come find the radius that they would start with."""
    policy, banners = LinUCB(confidence=CLICKS), linoto.Recipe(items=("a",), intercept=False)
    agent: Any = policy.start(features=banners, rng=0)
    usual: Any = replace(policy, confidence=replace(CLICKS, ridge=1 / 4)).start(features=banners, rng=0)
    assert agent.interval([1.0]) == usual.interval([1.0])
    agent.add_arms(["b", "c"])
    together: Any = policy.start(features=banners.with_items(["b", "c"]), rng=0)
    assert agent.confidence == together.confidence == replace(CLICKS, radius="own", ridge=1 / 4)
    assert agent.interval([0.0, 1.0, 0.0]) == together.interval([0.0, 1.0, 0.0])


def test_what_is_stored_starts_with_the_rule_of_before() -> None:
    with confidence_from_log(False):
        assert LinTS(confidence=CLICKS).start(features=OWN, rng=0).policy == LinTS(confidence=CLICKS)


def log_of_clicks(**columns: Any) -> linoto.Log:
    rng = np.random.default_rng(8)
    arms, age = rng.integers(3, size=600), rng.standard_normal(600)
    clicked = rng.random(600) < 0.4 + 0.2 * np.tanh(age * (arms - 1))
    table = pa.table({"ad": [f"ad {arm}" for arm in arms], "age": age, "clicked": clicked.astype(int)})
    return linoto.read_log(table, item="ad", reward="clicked", **columns)


def test_an_audit_has_the_policy_that_the_commands_make() -> None:
    log = log_of_clicks(numeric=["age"])
    audit = linoto.audit_log(log)
    policy = audit.policy
    assert policy is not None and policy.gate == audit.gate and isinstance(policy.gate, Control)
    assert policy.confidence is not None and policy.confidence.ridge == likeliest_ridge(log.features.moments)
    assert audit.confidence is not None and audit.confidence.ridge is None  # a Tolerance may be made of it
    agent = policy.start(log, rng=0)
    assert agent.decide(context={"age": 1.0}, practice=[1 / 3] * 3).arm in range(3)


def test_an_audit_of_arms_that_stay_proposes_the_gate_it_judged() -> None:
    audit = linoto.audit_log(log_of_clicks())
    policy = audit.policy
    assert policy == Gated(gate=audit.gate, confidence=audit.confidence)  # type: ignore[arg-type]


def test_arms_and_rounds_state_the_same_ridge() -> None:
    """A log of arms has the same sums whether they stay or come with each round."""
    log = log_of_clicks()
    actions, offline = log.arms.actions, log.offline
    arms, rounds = np.repeat(np.arange(3), offline.pulls), Moments.of_arms(actions, offline)
    rewards = np.concatenate(
        [np.arange(n) < s for n, s in zip(offline.pulls, offline.reward_sums, strict=True)]
    )
    again = Moments.from_rows(actions[arms], rewards.astype(np.float64))
    assert likeliest_ridge(rounds) == likeliest_ridge(again)


@pytest.mark.parametrize("clicks", [0, 1])
def test_a_ridge_is_outweighed_by_as_many_rewards_as_the_log_has(clicks: int) -> None:
    """20 rows with hardly a click are the likeliest by the largest ridge of all: 4096 rewards of an arm."""
    rows = np.eye(5)[np.arange(20) % 5]
    log = Moments.from_rows(rows, (np.arange(20) < clicks).astype(np.float64))
    assert evidence(log).argmax() == RIDGES.size - 1
    agent = Gated(confidence=CLICKS).start(log, rng=0)
    assert agent.confidence.ridge == likeliest_ridge(log) <= 4.0
