"""OOPE: its designs are optimal on top of a log, its phases end known well enough, and the best arm stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Offline
from linoto.checks import check_policy
from linoto.core.designs import Design, optimal_design, sparse_design
from linoto.research import OOPE
from linoto.worlds.bandits import on_sphere

K, D = 12, 3
RNG = np.random.default_rng(0)
ARMS = on_sphere(K, D, RNG)
LOGGED = ARMS[:2].T @ (np.array([[30.0], [5.0]]) * ARMS[:2]) + 0.5 * np.eye(D)  # V_off
DESIGNS = {"optimal": (optimal_design, 0.01), "frank_wolfe": (sparse_design, 0.1)}


def log_det(weights: Any, known: Any, pulls: float) -> float:
    return float(np.linalg.slogdet(known + pulls * ARMS.T @ (weights[:, None] * ARMS))[1])


# -- designs


@pytest.mark.parametrize("pulls", [1.0, 40.0, 3000.0])
@pytest.mark.parametrize("design", DESIGNS)
def test_no_arm_is_less_known_than_the_theorem_of_kiefer_and_wolfowitz_says(
    design: str, pulls: float
) -> None:
    """With a log: max_a n |a|^2 in W^-1 is d - tr(V_off W^-1), at most d, up to the solver's tolerance."""
    solve, tolerance = DESIGNS[design]
    found: Design = solve(ARMS, LOGGED, pulls)
    W = LOGGED + pulls * ARMS.T @ (found.weights[:, None] * ARMS)
    inverse = np.linalg.inv(W)
    assert found.weights.sum() == pytest.approx(1) and (found.weights >= 0).all()
    np.testing.assert_allclose(found.gains, pulls * np.einsum("ai,ij,aj->a", ARMS, inverse, ARMS), rtol=1e-9)
    assert found.effective == pytest.approx(D - np.trace(LOGGED @ inverse))
    assert found.widest <= (1 + 2 * tolerance) * found.effective
    assert found.effective < D


@pytest.mark.parametrize("design", DESIGNS)
def test_no_other_weights_know_more(design: str) -> None:
    """log det is concave: the gap to the best is at most widest - effective; no random weights beat it."""
    found: Design = DESIGNS[design][0](ARMS, LOGGED, 40.0)
    others = np.random.default_rng(1).dirichlet(np.full(K, 0.3), size=500)
    most = max(log_det(weights, LOGGED, 40.0) for weights in others)
    assert log_det(found.weights, LOGGED, 40.0) >= most - (found.widest - found.effective)


def test_without_a_log_the_design_is_g_optimal() -> None:
    found = optimal_design(ARMS, 1e-9 * np.eye(D), 1.0)
    assert found.widest == pytest.approx(D, rel=0.02)


def test_frank_and_wolfe_pull_fewer_different_arms() -> None:
    arms = on_sphere(60, 5, np.random.default_rng(2))
    full, sparse = (solve(arms, 0.1 * np.eye(5), 100.0) for solve in (optimal_design, sparse_design))
    assert 5 <= np.count_nonzero(sparse.weights) < np.count_nonzero(full.weights)
    assert sparse.widest <= 1.25 * full.widest


# -- phases


def play_phase(agent: Any, means: Any, rng: np.random.Generator) -> None:
    """All rounds of the phase that the agent is in."""
    phase = agent.phase
    while agent.phase == phase and agent.due.any():
        arm = agent.select()
        agent.update(arm, float(means[arm] + 0.3 * rng.standard_normal()))


def world(seed: int) -> tuple[Any, Any, Offline, np.random.Generator]:
    rng = np.random.default_rng(seed)
    arms = on_sphere(8, 2, rng)
    means = arms @ on_sphere(1, 2, rng)[0]
    pulls = np.array([60, 20, 0, 0, 0, 0, 0, 10])
    noise = np.array([0.3 * rng.standard_normal(n).sum() for n in pulls])
    return arms, means, Offline(pulls=pulls, reward_sums=pulls * means + noise), rng


@pytest.mark.parametrize(("runs", "allowed"), [(6, 4), pytest.param(40, 17, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("design", "bound"), [("optimal", "proven"), ("frank_wolfe", "fixed_design")])
@pytest.mark.few(1)
def test_the_best_arm_stays_and_what_is_left_is_known(
    design: Any, bound: Any, runs: int, allowed: int
) -> None:
    """At delta = 0.2 a run may fail in one of five: more than 4 of 6, or 17 of 40, are rarer than 2e-3.

    After phase l every arm that is left is within 4 * 2^-l of the best, and the estimates within 2^-l.
    """
    confidence, failures = Confidence(delta=0.2, noise=0.3), 0
    for seed in range(runs):
        arms, means, log, rng = world(seed)
        agent = OOPE(design=design, bound=bound, confidence=confidence).start(arms, log)
        failed = False
        for _ in range(3):
            before = agent.active.copy()
            phase = agent.phase
            if not agent.due.any():
                break
            play_phase(agent, means, rng)
            failed |= bool((np.abs(arms @ agent.theta - means)[before] > 2.0 ** -(agent.phase - 1)).any())
            failed |= not agent.active[means.argmax()]
            failed |= bool((means.max() - means[agent.active] > 4 * 2.0**-phase).any())
        failures += failed
    assert failures <= allowed


def test_a_phase_pulls_what_its_precision_asks_for_and_hardly_more() -> None:
    arms, _, log, _ = world(3)
    agent = OOPE(bound="fixed_design", confidence=Confidence(noise=0.3, ridge=0.1)).start(arms, log)
    due, active = agent.due.copy(), np.flatnonzero(agent.active)
    W = agent.known + arms.T @ (due[:, None] * arms)
    share = 0.05 / (agent.phase * (agent.phase + 1))
    radius = 0.3 * np.sqrt(2 * np.log(2 * active.size / share)) + np.sqrt(0.1)
    widths = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(W), arms))[active]
    assert radius * widths.max() <= 2.0**-agent.phase
    fewer = agent.known + arms.T @ ((due // 2)[:, None] * arms)
    too_wide = np.sqrt(np.einsum("ai,ij,aj->a", arms, np.linalg.inv(fewer), arms))[active]
    assert radius * too_wide.max() > 2.0**-agent.phase


def test_a_rich_log_saves_the_first_phases() -> None:
    arms, means, _, _ = world(4)
    rich = Offline(pulls=[4000] * 8, reward_sums=4000 * means)
    poor = Offline(pulls=[1] * 8, reward_sums=means)
    phases = [OOPE(confidence=Confidence(noise=0.3)).start(arms, log).phase for log in (poor, rich)]
    assert phases[0] == 1 and phases[1] >= 3


def test_the_proven_radius_pays_for_using_the_log_again() -> None:
    """The fixed-design radius is smaller: it holds only where the design did not look at logged rewards."""
    arms, _, log, _ = world(5)
    pulls = [int(OOPE(bound=bound).start(arms, log).due.sum()) for bound in ("fixed_design", "proven")]  # type: ignore[arg-type]
    assert 0 < pulls[0] < pulls[1]


def test_when_one_arm_is_left_it_is_played_for_ever() -> None:
    arms = np.array([[1.0, 0.0], [0.0, 1.0]])
    sure = Offline(pulls=[10_000, 10_000], reward_sums=[9000.0, 1000.0])
    agent = OOPE(confidence=Confidence(noise=0.5)).start(arms, sure)
    for _ in range(5):
        assert agent.select() == 0
        agent.update(0, 0.9)
    assert agent.active.tolist() == [True, False]


@pytest.mark.parametrize("design", ["optimal", pytest.param("frank_wolfe", marks=pytest.mark.slow)])
@pytest.mark.few(0)
def test_it_obeys_the_laws_of_every_policy(design: Any) -> None:
    assert "memory_is_constant" in check_policy(OOPE(design=design))


def test_unknown_choices_are_refused() -> None:
    for bad in ({"design": "best"}, {"bound": "none"}, {"confidence": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            OOPE(**bad)  # type: ignore[arg-type]
    assert linoto.from_dict({"type": "OOPE", "design": "frank_wolfe"}) == OOPE(design="frank_wolfe")
