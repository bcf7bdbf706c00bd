"""A loop has the bound and the ridge that its policy would start with in Python, whoever asks for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.loops_with_contexts import CLICKS, RECIPE, log_of, spec_of
from helpers.service_process import opened
from helpers.service_process import spec_of as spec_of_arms

import linoto
from linoto.core.snapshots import from_dict, to_dict
from linoto.service.errors import Refused
from linoto.service.loops.loop import Loop
from linoto.service.loops.recipe_spec import as_statistics
from linoto.service.loops.spec import LogStatistics, LoopSpec
from linoto.service.storage.places import Place

UNSAID: dict[str, Any] = {
    "explorer alone": linoto.LinTS(confidence=replace(CLICKS, bound=1.0)),
    "nothing but a name": linoto.RandUCB(),
    "no gate": linoto.Gated(confidence=replace(CLICKS, bound=1.0)),
}
EMPTY = {"moments": None}


def ridge_of(policy: Any) -> float:
    ridge: float = policy.composed_for_rounds().assumed.ridge_for(RECIPE.d)
    return ridge


@pytest.mark.parametrize("log", [{}, EMPTY], ids=["log", "no log"])
@pytest.mark.parametrize("policy", UNSAID.values(), ids=UNSAID)
def test_a_loop_has_the_ridge_of_python(policy: Any, log: dict[str, Any]) -> None:
    moments = None if log else log_of()
    agent = policy.start(moments, features=RECIPE, rng=0)
    spec = spec_of(policy, **log)
    assert ridge_of(from_dict(spec.policy)) == ridge_of(agent.policy) != ridge_of(policy)
    loop = Loop.fresh("loop", spec)
    assert (loop.agent.theta == agent.theta).all()


@pytest.mark.parametrize(
    "policy",
    [
        linoto.LinTS(confidence=linoto.Confidence(ridge=3.0)),
        linoto.LinUCB(scale=1.0),
        linoto.Gated(gate=linoto.Tolerance(budget=40.0, evidence="model"), confidence=CLICKS),
    ],
    ids=["ridge", "theorem", "model"],
)
def test_what_was_said_is_stored_as_it_was(policy: Any) -> None:
    assert from_dict(spec_of(policy).policy) == policy


def older(spec: LoopSpec, policy: Any) -> LoopSpec:
    """What a version stored that took nothing from the log."""
    return msgspec.structs.replace(spec, policy=to_dict(policy))


@pytest.mark.parametrize("policy", UNSAID.values(), ids=UNSAID)
def test_a_loop_of_before_keeps_its_ridge_and_is_found_by_the_same_request(
    any_place: Place, policy: Any
) -> None:
    asked = spec_of(policy)
    before = Loop.fresh("loop", older(asked, policy))
    with opened(any_place) as service:
        service.store.write_sync(lambda c: service.loops.create(c, before))
    with opened(any_place) as service:
        loop = service.loops.get("loop")
        assert from_dict(loop.spec.policy) == policy, "its ridge is what it always was"
        fresh = Loop.fresh("loop", asked)
        assert service.store.write_sync(lambda c: service.loops.create(c, fresh)) == (loop, False)
        other = Loop.fresh("loop", spec_of(linoto.SquareCB()))
        with pytest.raises(Refused, match="exists with other arms, log, policy or settings"):
            service.store.write_sync(lambda c: service.loops.create(c, other))


def test_a_log_of_other_features_is_refused_with_a_sentence() -> None:
    two = as_statistics(linoto.Moments.from_rows(np.eye(2), [0.0, 1.0]))
    with pytest.raises(Refused, match=f"must have {RECIPE.d} features, got 2"):
        spec_of(linoto.LinTS(), moments=two)


# -- arms that stay

EUROS = linoto.Confidence(noise="bounded", reward_range=(0.0, 2500.0))
COIN = linoto.Control(budget=50_000.0)
IN_EUROS: dict[str, Any] = {
    "coin": linoto.Gated(gate=COIN, confidence=EUROS),
    "explorer alone": linoto.LinUCB(confidence=EUROS),
}
PRICES = LogStatistics([50, 30, 0], [15_700.0, 30_000.0, 0.0], [6e6, 4e7, 0.0])


@pytest.mark.few(2)
@pytest.mark.parametrize("policy", IN_EUROS.values(), ids=IN_EUROS)
def test_a_loop_of_arms_has_the_bound_of_python_and_its_spec_says_it(policy: Any) -> None:
    log = linoto.Offline(
        pulls=PRICES.pulls, reward_sums=PRICES.reward_sums, reward_squares=PRICES.reward_squares
    )
    agent = policy.start(np.eye(3), log)
    spec = spec_of_arms(policy, offline=PRICES)
    assert from_dict(spec.policy) == agent.policy and agent.confidence.bound == 2500.0
    loop = Loop.fresh("loop", spec)
    assert (loop.agent.theta == agent.theta).all() and (agent.theta[:2] > 300.0).all()
    assert spec_of_arms(from_dict(spec.policy), offline=PRICES) == spec, "who repeats what it says finds it"


def test_the_bound_of_a_loop_follows_a_noise_that_was_said_where_no_range_is() -> None:
    policy = linoto.RandUCB(confidence=linoto.Confidence(noise=300.0))
    spec = spec_of_arms(policy)
    assert from_dict(spec.policy) == replace(policy, confidence=linoto.Confidence(noise=300.0, bound=300.0))


@pytest.mark.parametrize(
    "policy",
    [
        linoto.Gated(gate=COIN, confidence=replace(EUROS, bound=3.0)),
        linoto.Gated(gate=COIN, confidence=replace(EUROS, ridge=3.0)),
        linoto.Gated(gate=linoto.Tolerance(budget=50_000.0), confidence=EUROS),
        linoto.Doubling(policy=linoto.LinUCB(confidence=EUROS)),
    ],
    ids=["bound", "ridge", "by the log", "epochs"],
)
def test_what_was_said_of_arms_or_proves_something_is_stored_as_it_was(policy: Any) -> None:
    assert from_dict(spec_of_arms(policy, offline=PRICES).policy) == policy


@pytest.mark.parametrize("policy", IN_EUROS.values(), ids=IN_EUROS)
def test_a_loop_of_arms_of_before_keeps_its_bound_and_is_found_by_the_same_request(
    any_place: Place, policy: Any
) -> None:
    asked = spec_of_arms(policy, offline=PRICES)
    before = Loop.fresh("loop", older(asked, policy))
    with opened(any_place) as service:
        service.store.write_sync(lambda c: service.loops.create(c, before))
    with opened(any_place) as service:
        loop = service.loops.get("loop")
        assert from_dict(loop.spec.policy) == policy and loop.agent.confidence.bound == 1.0
        assert (loop.agent.theta == before.agent.theta).all() and loop.agent.theta[0] < 300.0
        assert loop.agent.certificate == before.agent.certificate
        fresh = Loop.fresh("loop", asked)
        assert service.store.write_sync(lambda c: service.loops.create(c, fresh)) == (loop, False)
        said = Loop.fresh("loop", spec_of_arms(replace(policy, confidence=replace(EUROS, bound=9.0))))
        with pytest.raises(Refused, match="exists with other arms, log, policy or settings"):
            service.store.write_sync(lambda c: service.loops.create(c, said))
