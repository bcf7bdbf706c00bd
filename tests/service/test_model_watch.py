"""A Tolerance loop with contexts is watched: what its plays earn against the linear model of its log."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from helpers.loops import change, decide, digests, reward
from helpers.loops_with_contexts import POLICIES, RECIPE, context_of, create, log_of, spec_of
from helpers.service_process import opened

import linoto
from linoto.service.loops.loop import Loop
from linoto.service.loops.model_watch import ModelClaim
from linoto.service.loops.recipe_spec import as_statistics
from linoto.service.loops.views import loop_view
from linoto.service.loops.watch import log_evidence
from linoto.service.server import Service

LARGE = 6000  # rows: enough to know the items within a tenth of a click


def world(rng: np.random.Generator, arm: str, context: dict[str, Any], factor: float) -> float:
    best = (arm, context["country"]) in (("A", "DE"), ("B", "NO"))
    return float(rng.random() < factor * (0.2 + 0.5 * best))


def play(service: Service, rounds: int, factor: float, seed: int, name: str = "loop") -> int | None:
    """Rounds in a world that earns `factor` times what the log's did; the round of the first alarm."""
    rng, loops = np.random.default_rng(seed), service.loops

    def job(connection: Connection) -> int | None:
        for t in range(rounds):
            context, loop = context_of(rng), loops.get(name)
            made = loops.decide(connection, name, context=context)
            value = world(rng, loop.names[made.arm], context, factor)
            loops.reward(connection, name, loop.decision_id(made.number), value)
            if loop.open_alarms:
                return t
        return None

    return service.store.write_sync(job)


def test_the_bounds_are_those_of_the_confidence_set_of_the_log() -> None:
    """Plain NumPy: V = ridge I + X'X, the ridge estimate, and |S| in the norm of V^-1."""
    loop = Loop.fresh("loop", spec_of())
    claim, agent = loop.watch.model, loop.agent
    assert claim is not None
    log = log_of()
    ridge, bound = agent.confidence.ridge_for(log.d), agent.confidence.bound
    V = log.gram + ridge * np.eye(log.d)
    theta = np.linalg.solve(V, log.reward_vector)
    radius = agent.ellipsoid.radius - np.sqrt(ridge) * bound  # of the noise alone
    rng = np.random.default_rng(0)
    for _ in range(20):
        S = sum(RECIPE.transform(context_of(rng))[rng.integers(3)] for _ in range(30))
        image = np.linalg.solve(V, S)
        spread = np.sqrt(S @ image)
        bias = min(np.sqrt(ridge) * bound * spread, ridge * bound * np.linalg.norm(image))
        width = radius * spread + bias
        assert np.allclose(claim.bounds(S), (theta @ S - width, theta @ S + width), rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_the_sum_of_means_and_evidence_is_no_more_than_with_the_means_known(seed: int) -> None:
    """The set of one log holds the parameter with probability 0.95; these three do."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=RECIPE.d) * 0.1
    played = [RECIPE.transform(context_of(rng))[rng.integers(3)] for _ in range(1500)]
    means = np.array([0.5 + theta @ x for x in played])
    rewards = (rng.random(1500) < means).astype(float)
    log = linoto.Moments.from_rows(played[:1000], rewards[:1000])
    agent = POLICIES["model"].start(log, features=RECIPE)
    claim = ModelClaim.of(agent)
    watch = Loop.fresh("loop", spec_of()).watch
    assert claim is not None
    for n in (1, 10, 100, 500):
        S = np.sum(played[1000 : 1000 + n], axis=0)
        low, high = claim.bounds(S)
        true, seen = float(means[1000 : 1000 + n].sum()), float(rewards[1000 : 1000 + n].sum())
        assert low <= true <= high
        for earned in (seen, 0.3 * seen):
            assert log_evidence(watch.scale, earned, n, low) <= log_evidence(watch.scale, earned, n, true)


def test_a_world_that_is_the_logs_raises_no_alarm_and_one_that_halves_does(tmp_path: Path) -> None:
    """False alarms at 0.01 + 0.05; with these seeds there is none."""
    with opened(tmp_path / "x.sqlite") as service:
        for name in ("same", "halved"):
            create(service, name, moments=as_statistics(log_of(LARGE)))
        assert play(service, 300, 1.0, seed=1, name="same") is None
        found = play(service, 600, 0.4, seed=2, name="halved")
        assert found is not None
        loop = service.loops.get("halved")
        (alarm,) = loop.open_alarms
        assert alarm.kind == "drift" and "linear model of the log" in alarm.message
        assert loop.state.mode == "safe-only"  # as every loop does if nothing else is said
        view = loop_view(loop)
        assert view.drift_alarm_at == pytest.approx(100)
        assert view.evidence_of_drift is not None and view.evidence_of_drift > view.drift_alarm_at
        for name in ("same", "halved"):
            assert len(set(digests(service, name))) == 1
        change(service, "halved", mode="live")  # a person knows: the next one needs ten times the evidence
        assert not loop.open_alarms and play(service, 1, 0.4, seed=3, name="halved") is None
        assert loop_view(loop).drift_alarm_at > 10 * 100


def test_better_than_the_model_is_an_alarm_too_and_open_decisions_are_none(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, moments=as_statistics(log_of(LARGE)))
        loops, rng = service.loops, np.random.default_rng(0)

        def ask(connection: Connection) -> None:
            for _ in range(200):
                loops.decide(connection, "loop", context=context_of(rng))

        def tell(connection: Connection, numbers: range) -> None:
            for number in numbers:
                loops.reward(connection, "loop", f"1-{number}", 1.0)

        service.store.write_sync(ask)
        service.store.write_sync(lambda connection: tell(connection, range(141, 201)))
        assert not loops.get("loop").open_alarms  # the open ones, which came before, may earn nothing
        service.store.write_sync(lambda connection: tell(connection, range(1, 61)))
        assert [alarm.kind for alarm in service.loops.get("loop").open_alarms] == ["drift"]


@pytest.mark.parametrize("name", ["coin", "Thompson", "open", "closed"])
def test_only_a_promise_that_rests_on_the_model_is_watched_by_it(name: str) -> None:
    assert Loop.fresh("loop", spec_of(policy=POLICIES[name])).watch.model is None


def test_without_a_log_there_is_nothing_to_compare_with() -> None:
    assert Loop.fresh("loop", spec_of(moments=None)).watch.model is None


def test_without_a_range_nothing_is_said_while_a_reward_is_open(tmp_path: Path) -> None:
    policy = linoto.Gated(
        gate=linoto.Tolerance(budget=40.0, evidence="model"),
        confidence=linoto.Confidence(noise=0.5, bound=2.0),
    )
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=policy)
        rng = np.random.default_rng(0)
        waiting = decide(service, context=context_of(rng)).decision_id
        for _ in range(60):
            reward(service, decide(service, context=context_of(rng)).decision_id, 9.0)
        assert loop_view(service.loops.get("loop")).evidence_of_drift == 0.0
        reward(service, waiting, 9.0)
        assert service.loops.get("loop").open_alarms
