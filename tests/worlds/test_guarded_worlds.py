"""Worlds with metrics besides the reward: what a policy is told, what is counted, and what a preview says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.guarded_logs import KINDS, guarded_table

import linoto
from linoto import (
    Confidence,
    Control,
    Gated,
    Guardrail,
    LinUCB,
    Offline,
    Tolerance,
    audit_log,
    preview,
    read_log,
    simulate,
)
from linoto.core.playing import GivenRounds
from linoto.worlds.bandits import Bandit
from linoto.worlds.contexts import PooledRounds

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
RAILS = (
    Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=15, mean=0.03),
    Guardrail("margin", reward_range=(-2, 4), budget=90),
)
LOG = Offline(pulls=[400, 0, 0], reward_sums=[120.0, 0.0, 0.0])
HORIZON = 700


def policy(rails: Any = RAILS) -> Gated:
    return Gated(explorer=LinUCB(scale=0.25), gate=Control(budget=20), confidence=CLICKS, guardrails=rails)


def arms_world() -> Bandit:
    arms = np.eye(3)
    complaints = Bandit(actions=arms, means=[0.03, 0.2, 0.02], rewards="bernoulli")
    margin = Bandit(
        actions=arms, means=[1.0, 1.2, 0.9], rewards="beta", reward_range=(-2, 4), spread=np.full(3, 0.2)
    )
    return Bandit(
        actions=arms,
        means=[0.3, 0.6, 0.4],
        rewards="bernoulli",
        metrics={"complaints": complaints, "margin": margin},
    )


def pool(means: Any, **how: Any) -> PooledRounds:
    """Two contexts with three arms each, of which the first is practice's."""
    contexts, k = 2, 3
    actions = np.kron(np.eye(contexts), np.ones((k, 1))) + 0.0
    actions = np.column_stack([actions, np.tile(np.eye(k), (contexts, 1))]) / np.sqrt(2)
    given = GivenRounds(
        ends=np.array([3, 6]),
        actions=np.ascontiguousarray(actions),
        weights=np.tile([1.0, 0.0, 0.0], contexts),
        means=np.asarray(means, dtype=np.float64),
    )
    return PooledRounds(pool=given, chances=np.array([0.5, 0.5]), **how)


def rounds_world() -> PooledRounds:
    complaints = pool([0.03, 0.2, 0.02, 0.05, 0.3, 0.02], rewards="bernoulli")
    margin = pool([1.0, 1.2, 0.9, 1.1, 1.2, 0.8], rewards="beta", reward_range=(-2, 4), share=0.2)
    metrics = {"complaints": complaints, "margin": margin}
    return pool([0.3, 0.6, 0.4, 0.2, 0.5, 0.4], rewards="bernoulli", metrics=metrics)


WORLDS: dict[str, tuple[Any, Any]] = {"arms": (arms_world, LOG), "rounds": (rounds_world, None)}


@pytest.mark.parametrize("kind", WORLDS)
def test_metrics_of_a_world_change_nothing_for_a_policy_without_guardrails(kind: str) -> None:
    make, log = WORLDS[kind]
    world = make()
    one = simulate(policy(()), world, log, horizon=HORIZON, seed=3)
    bare = type(world)(**{**vars(world), "metrics": {}})
    other = simulate(policy(()), bare, log, horizon=HORIZON, seed=3)
    assert np.array_equal(one.arms, other.arms) and np.array_equal(one.rewards, other.rewards)
    assert set(one.metrics) == {"complaints", "margin"} and not other.metrics


@pytest.mark.parametrize("kind", KINDS)
def test_a_preview_plays_guardrails_that_the_model_pays_for(kind: str) -> None:
    rail = Guardrail("minutes", reward_range=(0, 30), lower_is_better=True, budget=600)
    log = read_log(guarded_table(), item="arm", reward="click", guardrails=[rail], **KINDS[kind])
    known = log.saved().logged(replace(log.guardrails[0], bound=60.0))
    chosen = Gated(
        explorer=LinUCB(scale=0.25),
        gate=Tolerance(budget=60, evidence="model"),
        confidence=replace(CLICKS, bound=2.0),
        guardrails=[known],
    )
    point = preview(log, policy=chosen, grid=[60], horizon=40, worlds=2).points[0]
    assert (point.metrics[0].excess <= 0).all() and (point.explored > 0).all()
    lost = point.metrics[0].worst_loss
    assert kind != "arms" or (lost >= point.metrics[0].final_loss).all()  # both against the log
    assert (lost <= 40 * 2.5).all()  # minutes differ by at most about 2 between arms


def by_hand(kind: str, seed: int) -> tuple[list[int], dict[str, np.ndarray[Any, Any]]]:
    """Decide, pay, tell: an independent loop over the same draws. The arms, and what each metric had more
    in explored rounds."""
    make, log = WORLDS[kind]
    world = make()
    children = np.random.SeedSequence(seed).spawn(5)
    draw, own, contexts, *others = (np.random.default_rng(child) for child in children)
    draws = world.draw(HORIZON, draw)
    besides = {
        name: each.draw(HORIZON, rng) for (name, each), rng in zip(world.metrics.items(), others, strict=True)
    }
    if kind == "arms":
        agent = policy().start(world.actions, log, rng=own)
    else:
        agent = policy().start(offline=None, d=world.d, rng=own)
    arms, more = [], {name: [] for name in besides}  # type: ignore[var-annotated]
    for t in range(HORIZON):
        if kind == "rounds" and t % 256 == 0:
            n = min(256, HORIZON - t)
            picked = contexts.choice(2, size=n, p=[0.5, 0.5])
        asked: dict[str, Any] = {}
        first = 0
        if kind == "rounds":
            first = 3 * int(picked[t % 256])
            asked = {"actions": world.pool.actions[first : first + 3], "practice": [1.0, 0.0, 0.0]}
        decision = agent.decide(**asked)
        arm = decision.arm

        def paid(each: Any, draw: float, arm: int = arm, first: int = first) -> tuple[float, float]:
            if kind == "arms":
                return float(each.pay(np.array([arm]), np.array([draw]))[0]), float(each.means[0])
            means = each.pool.means
            return float(each.pay(means[[first + arm]], np.array([draw]))[0]), float(means[first])

        values = {name: paid(each, besides[name][t]) for name, each in world.metrics.items()}
        agent.update(decision, paid(world, draws[t])[0], metrics={name: v for name, (v, _) in values.items()})
        arms.append(arm)
        for name, (value, usual) in values.items():
            more[name].append(value - usual if decision.source == "explorer" else 0.0)
    return arms, {name: np.cumsum(found) for name, found in more.items()}


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.few(1)
def test_a_policy_with_guardrails_plays_as_if_it_were_asked_and_told_round_by_round(kind: str) -> None:
    make, log = WORLDS[kind]
    run = simulate(policy(), make(), log, horizon=HORIZON, seed=4)
    arms, more = by_hand(kind, 4)
    assert run.arms.tolist() == arms
    for name, found in more.items():
        np.testing.assert_allclose(run.metrics[name].in_explored, found, atol=1e-9)


@pytest.mark.parametrize("kind", WORLDS)
def test_a_guardrail_holds_in_a_world_in_which_it_would_break(kind: str) -> None:
    make, log = WORLDS[kind]
    free = simulate(policy(()), make(), log, horizon=3000, seed=5)
    held = simulate(policy(), make(), log, horizon=3000, seed=5)
    assert free.metrics["complaints"].in_explored.max() > 60  # of 15
    assert held.metrics["complaints"].in_explored.max() <= 15  # false alarm: 1 in 20


def test_a_world_whose_metric_has_other_arms_is_refused() -> None:
    with pytest.raises(ValueError, match="metrics must be worlds of the same arms"):
        Bandit(actions=np.eye(2), means=[0, 1], metrics={"x": Bandit(actions=np.eye(3), means=[0, 1, 2])})
    with pytest.raises(ValueError, match="noise must be left out in a world with metrics"):
        simulate(policy(), arms_world(), LOG, noise=np.zeros(5))


# -- previews ---------------------------------------------------------------------------------------------


def guarded_log(kind: str) -> Any:
    log = read_log(
        guarded_table(1000),
        item="arm",
        reward="click",
        **KINDS[kind],
        guardrails=["complaint:lower:budget=15", "minutes:lower:range=0..30:budget=900"],
    )
    return audit_log(log).saved()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.few(1)
def test_a_preview_says_what_is_gained_and_lost_of_each_metric(kind: str) -> None:
    log = guarded_log(kind)
    chosen = Gated(
        explorer=LinUCB(scale=0.25), gate=Control(budget=40), confidence=CLICKS, guardrails=log.guardrails
    )
    found = preview(log, policy=chosen, grid=[40.0], horizon=1500, worlds=6)
    (complaints,) = found.metric_table("complaint")
    assert complaints["guaranteed_loss"] == 15
    assert complaints["broken_in"] == 0 and complaints["worst_loss_max"] <= 15  # false alarm: 1 in 3
    assert (complaints["unguarded_broken_in"] or 0) >= 3  # where the log plays b in a fifth of its rows
    assert complaints["unguarded_reward_gain_mean"] > found.points[0].mean_gain
    assert [metric.guardrail.name for metric in found.points[0].metrics] == ["complaint", "minutes"]
    assert set(found.to_dict()["metrics"]) == {"complaint", "minutes"}
    assert found.refuted() is None


def test_a_preview_without_guardrails_is_as_before() -> None:
    log = guarded_log("arms")
    plain = linoto.logs.saved.SavedLog(arms=log.arms, offline=log.offline, confidence=log.confidence)
    chosen = Gated(gate=Control(budget=40), confidence=CLICKS)
    options: dict[str, Any] = {"policy": chosen, "grid": [40.0], "horizon": 300, "worlds": 4}
    one, other = preview(plain, **options), preview(log, **options)
    assert np.array_equal(one.points[0].final_loss, other.points[0].final_loss)
    assert "metrics" not in one.to_dict() and not other.unguarded
    assert other.metric_table("complaint")[0]["guaranteed_loss"] == 15  # counted, though not promised


def test_the_usual_policy_of_a_log_with_guardrails_promises_them() -> None:
    found = preview(guarded_log("arms"), grid=[30.0], horizon=200, worlds=2)
    assert [rail.name for rail in found.points[0].certificate.guardrails] == ["complaint", "minutes"]
