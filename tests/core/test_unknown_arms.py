"""Thompson sampling at a scale: noise misleads less, what nobody knows stays as wide as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.reference import spreads_of

import linoto
from linoto import Confidence, LinTS, Moments, Offline
from linoto.core import kernels

NOISE, RIDGE, K, WIDE = 0.5, 2.0, 6, 3
SURE = Confidence(noise=NOISE, ridge=RIDGE)
SCALES = [0.0, 0.1, 0.5, 0.99, 1.0]
PULLS = np.array([400, 30, 0, 5, 1, 0])
LENGTHS = np.array([1.0, 2.0, 0.7, 0.1, 1.5, 3.0])
CONTEXT = np.array([0.4, -1.3, 0.9])


def arms_of(form: str) -> np.ndarray:
    """(k, d): of which the last and the third are never logged, and share no feature with the others."""
    if form == "one-hot":
        return np.diag(LENGTHS)
    if form == "dense":  # turned: no zeros, as orthogonal as before
        return np.diag(LENGTHS) @ np.linalg.qr(np.random.default_rng(2).standard_normal((K, K)))[0]
    rows = np.zeros((K, K, WIDE))
    rows[range(K), range(K)] = CONTEXT
    return rows.reshape(K, -1)


def deviations(form: str, policy: LinTS) -> np.ndarray:
    """(k,) what one draw adds to the mean of every arm, in the next round after the log."""
    arms = arms_of(form)
    sums = 0.3 * PULLS
    if form in ("one-hot", "dense", "stay"):
        agent: Any = policy.start(arms, Offline(pulls=PULLS, reward_sums=sums), rng=3)
        agent.decide()
    else:
        rows, rewards = np.repeat(arms, PULLS, axis=0), np.repeat(np.full(K, 0.3), PULLS)
        log = Moments.from_rows(rows, rewards)
        if form == "rounds":
            agent = policy.start(log, rng=3)
            agent.decide(actions=arms)
        else:
            agent = policy.start(log, rng=3, features=linoto.OwnFeatures(items=tuple("abcdef"), width=WIDE))
            agent.decide(context=CONTEXT)
    state = agent.running.state
    return np.array(state.arms[kernels.SCORE] - state.arms[kernels.MEAN])


FORMS = ["one-hot", "dense", "rounds", "own features"]


def normals_of(form: str) -> np.ndarray:
    """(k,) what one draw adds if it is as wide as the noise: a R^-1 xi times the noise."""
    return deviations(form, LinTS(scale=1.0, noise="assumed", prior="scaled", confidence=SURE))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("noise", ["assumed", "estimated"])
def test_an_arm_that_was_never_logged_is_drawn_in_full_at_any_scale(
    form: str, scale: float, noise: Any
) -> None:
    drawn = deviations(form, LinTS(scale=scale, noise=noise, prior="whole", confidence=SURE))
    np.testing.assert_allclose(drawn[PULLS == 0], normals_of(form)[PULLS == 0], rtol=1e-9)


@pytest.mark.parametrize("form", ["one-hot", "dense"])
@pytest.mark.parametrize("scale", SCALES)
def test_an_arm_that_is_known_is_drawn_as_its_scale_says(form: str, scale: float) -> None:
    """Of its first variance, 1 / (1 + n |a|^2 / ridge) is left after n rewards."""
    drawn = deviations(form, LinTS(scale=scale, noise="assumed", prior="whole", confidence=SURE))
    left = 1 / (1 + PULLS * LENGTHS**2 / RIDGE)
    wanted = np.sqrt(scale**2 + (1 - scale**2) * left)
    np.testing.assert_allclose(drawn / normals_of(form), wanted, rtol=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_at_scale_one_it_is_the_posterior_bit_for_bit_and_beside_it_close_to_that(form: str) -> None:
    whole, near = (
        deviations(form, LinTS(scale=scale, noise="assumed", prior="whole", confidence=SURE))
        for scale in (1.0, 1 - 1e-9)
    )
    assert (whole == normals_of(form)).all()
    np.testing.assert_allclose(near, whole, rtol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_above_one_there_is_nothing_to_keep(form: str) -> None:
    wide = [LinTS(scale=1.5, noise="assumed", prior=prior, confidence=SURE) for prior in ("whole", "scaled")]
    assert (deviations(form, wide[0]) == deviations(form, wide[1])).all()


@pytest.mark.parametrize("form", ["dense", "rounds", "own features"])
def test_arms_that_share_features_are_drawn_by_what_is_left_of_each(form: str) -> None:
    arms = arms_of(form)
    V = RIDGE * np.eye(arms.shape[1]) + arms.T @ (PULLS[:, None] * arms)
    variance = np.einsum("ij,jk,ik->i", arms, np.linalg.inv(V), arms)
    drawn = deviations(form, LinTS(scale=0.3, noise="assumed", prior="whole", confidence=SURE))
    spreads = spreads_of(0.3 * NOISE, NOISE, RIDGE, arms, variance)
    np.testing.assert_allclose(drawn, spreads / NOISE * normals_of(form), rtol=1e-9)


def test_rounds_that_bring_the_same_arms_spread_as_arms_that_stay() -> None:
    """Arms with features of their own, of which what is left depends on their variance alone."""
    policy = LinTS(scale=0.4, noise="assumed", prior="whole", confidence=SURE)
    spreads = [deviations(form, policy) / normals_of(form) for form in ("stay", "rounds", "own features")]
    np.testing.assert_allclose(spreads[1], spreads[0], rtol=1e-9)
    np.testing.assert_allclose(spreads[2], spreads[0], rtol=1e-9)


def test_an_arm_of_length_zero_is_worth_its_mean() -> None:
    arms = np.array([[0.0, 0.0], [1.0, 0.5]])
    agent = LinTS(prior="whole", scale=0.5, confidence=SURE).start(
        arms, Offline(pulls=[1, 1], reward_sums=[0.0, 0.2]), rng=0
    )
    assert agent.decide().arm in (0, 1)
    assert agent.running.state.arms[kernels.SCORE, 0] == 0.0


def test_what_was_stored_before_draws_what_is_unknown_by_its_scale_too() -> None:
    stored = {"type": "LinTS", "scale": 0.5, "noise": "auto", "memory": None, "confidence": None}
    before = linoto.from_dict(stored, stored=True)
    assert before == LinTS(scale=0.5, prior="scaled") != LinTS(scale=0.5) == linoto.from_dict(stored)
    assert linoto.from_dict(linoto.to_dict(before), stored=True) == before
    drawn = deviations("one-hot", LinTS(scale=0.5, prior="scaled", noise="assumed", confidence=SURE))
    np.testing.assert_allclose(drawn, 0.5 * normals_of("one-hot"), rtol=1e-12)


def test_another_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="prior must be one of 'whole', 'scaled', got 'none'"):
        LinTS(prior="none")  # type: ignore[arg-type]
