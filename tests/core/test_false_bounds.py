"""A bound on |theta| that a log contradicts is refused, and the more so the falser it is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from linoto import Confidence, Gated, Guardrail, LinUCB, Moments, Offline, Tolerance
from linoto.core.confidence import least_length
from linoto.core.false_bounds import at_any_ridge, least_possible

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
