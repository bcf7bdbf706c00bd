"""Published explorers by their formulas: rarely switching LinUCB, and three laws of Thompson sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.problems import problem

import linoto
from linoto import Confidence, Gated, LinTS, LinUCB, Offline, Tolerance
from linoto.core import kernels
from linoto.core.kernels import sampling
from linoto.research import RareLinUCB, WideLinTS

SURE = Confidence(noise=0.5, delta=0.1)


def played(policy: Any, rounds: int, seed: int = 0, **size: Any) -> Any:
    bandit, log = problem(seed, **size)
    agent = policy.start(bandit.actions, log, rng=seed)
    arms, _ = agent.play(bandit.means, 0.5 * np.random.default_rng(seed).standard_normal(rounds))
    return agent, arms, bandit, log


# -- rarely switching


@pytest.mark.parametrize("growth", [0.1, 0.5, 3.0])
def test_arms_are_scored_no_more_often_than_the_determinant_allows(growth: float) -> None:
    """log(det V_n / det V_0) / log(1 + growth), and once at the start; a scoring changes the arm once."""
    for seed in range(5):
        agent, arms, bandit, log = played(RareLinUCB(growth=growth, confidence=SURE), 2000, seed)
        ridge = SURE.ridge_for(5) * np.eye(5)
        counts = log.pulls + np.bincount(arms, minlength=20)
        before, after = (
            np.linalg.slogdet(ridge + bandit.actions.T @ (n[:, None] * bandit.actions))[1]
            for n in (log.pulls, counts)
        )
        scorings = int(agent.running.run["scorings"])
        assert 1 < scorings <= 1 + (after - before) / np.log1p(growth)
        assert np.count_nonzero(np.diff(arms)) <= scorings - 1


def test_it_switches_when_the_determinant_has_grown_and_plays_what_was_best_then() -> None:
    bandit, log = problem(3)
    agent = RareLinUCB(growth=0.5, confidence=SURE).start(bandit.actions, log)
    always = LinUCB(scale=1.0, confidence=SURE).start(bandit.actions, log)
    rng, ridge = np.random.default_rng(0), SURE.ridge_for(5) * np.eye(5)
    V = ridge + bandit.actions.T @ (log.pulls[:, None] * bandit.actions)
    last, kept = np.linalg.slogdet(V)[1], always.select()
    for _ in range(300):
        assert agent.select() == kept
        reward = float(bandit.means[kept] + 0.5 * rng.standard_normal())
        for each in (agent, always):
            each.update(kept, reward)
        V += np.outer(bandit.actions[kept], bandit.actions[kept])
        if np.linalg.slogdet(V)[1] > last + np.log(1.5):
            last, kept = np.linalg.slogdet(V)[1], always.select()


def test_without_growth_it_is_linucb() -> None:
    rare, often = (played(p, 400)[1] for p in (RareLinUCB(growth=0.0), LinUCB(scale=1.0, noise="assumed")))
    np.testing.assert_array_equal(rare, often)


def test_rarely_switching_goes_on_from_a_snapshot_and_through_a_gate() -> None:
    bandit, log = problem(5)
    policy = Gated(explorer=RareLinUCB(), gate=Tolerance(epsilon=0.1), confidence=SURE)
    agent = policy.start(bandit.actions, log)
    draws = 0.5 * np.random.default_rng(1).standard_normal(200)
    agent.play(bandit.means, draws)
    again = linoto.restore(agent.snapshot())
    np.testing.assert_array_equal(agent.play(bandit.means, draws)[0], again.play(bandit.means, draws)[0])


def test_contexts_bring_new_arms_that_nobody_has_scored() -> None:
    with pytest.raises(ValueError, match="explorer must score the arms in every round with contexts"):
        RareLinUCB().start(d=2)


@pytest.mark.parametrize("options", [{"growth": -0.1}, {"scale": -1.0}])
def test_bad_numbers_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(options))} must be a number >= 0"):
        RareLinUCB(**options)


# -- Thompson sampling


def width_of(law: str, agent: Any, V: np.ndarray, t: int) -> float:
    """v of a draw N(theta, v^2 V^-1) in round t, by the papers."""
    d = len(V)
    if law == "agrawal-goyal":
        return float(0.5 * np.sqrt(9 * d * np.log(t / 0.1)))
    if law == "abeille-lazaric":
        ridge = SURE.ridge_for(d)
        growth = np.linalg.slogdet(V)[1] - d * np.log(ridge)
        return float(0.5 * np.sqrt(2 * np.log(1 / 0.1) + growth) + np.sqrt(ridge))
    return 0.5


@pytest.mark.parametrize("d", range(1, 10))
def test_a_draw_solves_the_triangle_in_every_dimension(d: int) -> None:
    """Four rows at a time, and what is left over: R times the draw gives the normals back."""
    rng = np.random.default_rng(d)
    arms = rng.standard_normal((d + 2, d))
    state = (
        LinTS().start(arms, Offline(pulls=[3] * (d + 2), reward_sums=[1.0] * (d + 2)), rng=0).running.state
    )
    normals, draw = rng.standard_normal(d), np.empty(d)
    from_python(sampling.unwhiten)(state, state.square[kernels.FACTOR], normals, draw, state.blocks)
    back = kernels.square_of(state, kernels.FACTOR) @ draw
    np.testing.assert_allclose(back, normals, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("law", ["posterior", "agrawal-goyal", "abeille-lazaric"])
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_draw_is_as_wide_as_its_law_says(law: Any, scale: float) -> None:
    """Scores are A (theta + scale v R^-1 xi) with V = R'R: exactly, for the xi that were drawn."""
    policy: Any = LinTS(scale=scale, noise="assumed", prior="scaled", confidence=SURE)
    if law != "posterior":
        policy = WideLinTS(law=law, scale=scale, confidence=SURE)
    for rounds in (0, 1, 37):
        agent, arms, bandit, log = played(policy, rounds)
        agent.decide()
        A, counts = bandit.actions, log.pulls + np.bincount(arms, minlength=20)
        V = SURE.ridge_for(5) * np.eye(5) + A.T @ (counts[:, None] * A)
        xi = agent.running.state.vectors[kernels.NORMALS]
        draw = agent.theta + scale * width_of(law, agent, V, rounds + 1) * np.linalg.solve(
            np.linalg.cholesky(V).T, xi
        )
        np.testing.assert_allclose(agent.running.state.arms[kernels.SCORE], A @ draw, rtol=1e-8, atol=1e-10)


def test_the_wider_laws_assume_their_noise_and_the_posterior_sees_it() -> None:
    assert LinTS().estimates_noise and not LinTS(noise="assumed").estimates_noise
    assert not hasattr(WideLinTS(law="abeille-lazaric"), "estimates_noise")
    with pytest.raises(ValueError, match="law must be one of 'agrawal-goyal', 'abeille-lazaric'"):
        WideLinTS(law="normal")  # type: ignore[arg-type]


def test_what_was_stored_before_there_were_laws_is_a_posterior() -> None:
    stored = {"type": "LinTS", "scale": 0.5, "noise": "auto", "confidence": None}
    assert linoto.from_dict(stored, stored=True) == LinTS(scale=0.5, prior="scaled")
