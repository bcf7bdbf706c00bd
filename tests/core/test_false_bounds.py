"""A bound on |theta| that a log contradicts is refused, and the more so the falser it is."""

from __future__ import annotations

import pickle
import re
from math import inf
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from linoto import Confidence, Gated, Guardrail, LinUCB, Moments, Offline, Tolerance
from linoto.core.confidence import least_length
from linoto.core.false_bounds import FalseBoundError, at_any_ridge, enough, least_possible

GATE = Tolerance(budget=60.0, evidence="model")
FALSE = [0.3, 0.1, 1e-2, 1e-3, 1e-6, 1e-12]


def assumed(bound: float) -> Confidence:
    return Confidence(noise=0.5, bound=bound)


def rows(seed: int, length: float) -> tuple[Moments, float]:
    """A log of 2,000 rows whose parameter has this length."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(5)
    theta *= length / np.linalg.norm(theta)
    actions = rng.standard_normal((2000, 5)) / 2
    return Moments.from_rows(actions, actions @ theta + 0.5 * rng.standard_normal(2000)), length


@pytest.mark.parametrize("bound", FALSE)
def test_a_false_bound_is_refused_however_false_it_is(bound: float) -> None:
    log = Offline(pulls=[900, 600, 500], reward_sums=[540.0, 300.0, 200.0])
    with pytest.raises(ValueError, match="bound must be at least"):
        Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(bound)).start(np.eye(3), log, rng=0)
    with pytest.raises(ValueError, match="bound must be at least"):
        Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(bound)).start(rows(0, 2.0)[0], rng=0)


@pytest.mark.parametrize("bound", FALSE)
def test_so_it_is_of_arms_that_share_features(bound: float) -> None:
    rng = np.random.default_rng(0)
    arms = rng.standard_normal((30, 4)) / 2
    log = Offline(pulls=np.full(30, 100), reward_sums=100 * arms @ np.array([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="bound must be at least"):
        Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(bound)).start(arms, log, rng=0)
    Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(2.0)).start(arms, log, rng=0)


@pytest.mark.parametrize("bound", FALSE)
def test_so_is_that_of_a_guardrail(bound: float) -> None:
    log = Offline(pulls=[900, 600, 500], reward_sums=[540.0, 300.0, 200.0])
    rail = Guardrail("visits", reward_range=(0, 1), lower_is_better=True, budget=60.0)
    policy = Gated(
        explorer=LinUCB(),
        gate=GATE,
        confidence=Confidence(noise="bounded", reward_range=(0, 1), bound=2.0),
        guardrails=[rail.logged_in(log, bound=bound)],
    )
    with pytest.raises(ValueError, match=r"visits.*bound must be at least"):
        policy.start(np.eye(3), log, rng=0)


def random_log(rng: np.random.Generator, kind: str) -> tuple[tuple[Any, ...], float, float]:
    """A log as `start` takes it, the length of its parameter, and its noise."""
    d, rows = int(rng.integers(2, 7)), int(rng.integers(100, 5000))
    length, noise = (float(10.0 ** rng.uniform(*powers)) for powers in ((-1, 1), (-2, 0)))
    theta = rng.standard_normal(d)
    theta *= length / np.linalg.norm(theta)
    if kind == "rounds":
        actions = rng.standard_normal((rows, d)) / 2
        return (
            (Moments.from_rows(actions, actions @ theta + noise * rng.standard_normal(rows)),),
            length,
            noise,
        )
    arms = np.eye(d) if kind == "one-hot" else rng.standard_normal((int(rng.integers(d, 30)), d)) / 2
    pulls = rng.integers(0, max(rows // len(arms), 2), len(arms)) + 1
    sums = pulls * (arms @ theta) + noise * np.sqrt(pulls) * rng.standard_normal(len(arms))
    return (arms, Offline(pulls=pulls, reward_sums=sums)), length, noise


@pytest.mark.parametrize("kind", ["one-hot", "shared features", "rounds"])
@pytest.mark.parametrize("ridge", ["usual", "given"])
def test_a_bound_that_a_refusal_names_is_taken_and_no_longer_than_the_truth(kind: str, ridge: str) -> None:
    """The usual ridge follows the bound. A log refutes the truth with a probability below 0.05, far below it.

    None does at these seeds; what is named is rounded up to three digits.
    """
    refused = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, len(kind)])
        args, length, noise = random_log(rng, kind)
        bound = length * float(10.0 ** rng.uniform(-3, -0.05))
        fixed = None if ridge == "usual" else float(10.0 ** rng.uniform(-3, 2))

        def start(bound: float) -> None:
            assumed = Confidence(noise=noise, bound=bound, ridge=fixed)  # noqa: B023 (called in this turn only)
            Gated(explorer=LinUCB(), gate=GATE, confidence=assumed).start(*args, rng=0)  # noqa: B023

        try:
            start(bound)
        except ValueError as refusal:
            named = named_by(refusal)
            assert bound < named <= 1.01 * length
            start(named)
            refused += 1
    assert refused > 20


def named_by(refusal: BaseException) -> float:
    found = re.search(r"bound must be at least (\S+) for this log", str(refusal))
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("bound", FALSE)
def test_so_is_the_bound_of_a_metric_that_is_named(bound: float) -> None:
    log = Offline(pulls=[900, 600, 500], reward_sums=[540.0, 300.0, 200.0])
    rail = Guardrail("visits", reward_range=(0, 1), lower_is_better=True, budget=60.0)
    confidence = Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)

    def start(bound: float) -> None:
        rails = [rail.logged_in(log, bound=bound)]
        Gated(explorer=LinUCB(), gate=GATE, confidence=confidence, guardrails=rails).start(np.eye(3), log)

    with pytest.raises(ValueError, match=r"visits.*bound must be at least") as refusal:
        start(bound)
    start(named_by(refusal.value))


def test_a_bound_that_is_taken_is_found_however_little_each_refusal_asks_for() -> None:
    """And one that cannot even be tried is named as it was."""
    tried = list[float]()

    def start(bound: float) -> None:
        tried.append(bound)
        if bound < 1e9:
            raise FalseBoundError(bound * (1 + 1e-9), bound, "it is too short")

    assert enough(1.0, start) >= 1e9 and tried == sorted(set(tried)) and len(tried) < 200
    assert enough(inf, start) == inf

    def refuse(bound: float) -> None:
        raise ValueError("another reason")

    assert enough(1.0, refuse) == 1.0


def test_a_true_bound_is_taken() -> None:
    """In all of 100 logs: each would be refused with a probability below delta = 0.05, and far below it."""
    for seed in range(100):
        log, length = rows(seed, 0.5 + 0.05 * seed)
        summed = log.gram, log.reward_vector
        assert least_possible(*summed, assumed(length)) == 0.0
        assert 0.5 * length < least_possible(*summed, assumed(length / 10)) <= length
        Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(length)).start(log, rng=0)


@pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
def test_the_shortest_parameter_lies_on_the_border(unit: float) -> None:
    """Where the distance from the center is the radius; of one feature, it is the border itself."""
    rng = np.random.default_rng(3)
    for _ in range(100):
        d = int(rng.integers(1, 8))
        spectrum, center = np.sort(10.0 ** rng.uniform(-4, 6, d)), rng.standard_normal(d)
        reach = float(np.sqrt(spectrum @ center**2))
        radius = reach * float(rng.uniform(1e-6, 1.2))
        least = least_length(spectrum, center * unit, radius * unit) / unit
        if radius >= reach:
            assert least == 0.0
            continue

        def distance(log_t: float) -> float:
            away = center / (1.0 + spectrum * np.exp(log_t))  # noqa: B023 (called in this turn only)
            return float(np.sqrt(spectrum @ away**2)) - radius  # noqa: B023

        t = np.exp(brentq(distance, -60.0, 60.0, xtol=1e-13))
        exact = float(np.linalg.norm(center * spectrum * t / (1.0 + spectrum * t)))
        assert exact * (1 - 1e-5) <= least <= exact * (1 + 1e-12)
        if d == 1:
            assert least == pytest.approx(abs(center[0]) - radius / np.sqrt(spectrum[0]), rel=1e-5)


def test_what_an_older_version_took_is_started_as_it_was() -> None:
    log = Offline(pulls=[900, 600, 500], reward_sums=[540.0, 300.0, 200.0])
    with at_any_ridge(False):
        Gated(explorer=LinUCB(), gate=GATE, confidence=assumed(1e-6)).start(np.eye(3), log, rng=0)


def test_no_log_contradicts_nothing() -> None:
    assert least_possible(np.zeros((3, 3)), np.zeros(3), assumed(1e-3)) == 0.0


def test_a_refusal_comes_out_of_another_process_as_it_was() -> None:
    refusal = FalseBoundError(1.23456, 0.5, "no shorter parameter explains its rewards")
    again = pickle.loads(pickle.dumps(refusal))
    assert (str(again), again.least, again.bound) == (str(refusal), refusal.least, refusal.bound)
