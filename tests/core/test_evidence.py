"""The likelihood of a log by a linear model, against the density of all its rewards at once."""

from __future__ import annotations

import numpy as np
import pytest

from linoto import Moments
from linoto.core.evidence import RIDGES, beside, evidence, foretold_errors, likeliest_ridge


def test_it_is_the_density_of_all_rewards_at_once() -> None:
    """Gaussian, with covariance noise^2 (I + X X' / ridge)."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 12)) * np.where(np.arange(12) < 10, 1.0, 0.0)  # two say nothing
    y = x @ rng.standard_normal(12) * 0.3 + rng.standard_normal(60)

    def density(ridge: float) -> float:
        spread = np.eye(60) + x @ x.T / ridge
        noise = y @ np.linalg.solve(spread, y) / 60
        return float(-0.5 * (60 * np.log(noise) + np.linalg.slogdet(spread)[1]))

    log = Moments.from_rows(x, y)
    direct = np.array([density(ridge) for ridge in RIDGES])
    assert evidence(log) == pytest.approx(direct, rel=1e-9)
    assert likeliest_ridge(log) == RIDGES[direct.argmax()] not in (RIDGES[0], RIDGES[-1])


def test_features_that_explain_nothing_make_a_log_less_likely() -> None:
    """By about half a logarithm of 200 for each of 40; less by chance is below one in a million."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 42))
    y = x[:, :2] @ [1.0, -1.0] + rng.standard_normal(200)
    whole = Moments.from_rows(x, y)
    assert evidence(whole).max() < evidence(whole.leading(2)).max() - 20
    assert evidence(whole).max() > evidence(whole.leading(1)).max() + 10


def test_beside_others_it_is_the_density_of_what_these_leave() -> None:
    """Three features have no prior, one of them twice: only what is across them is left, 57 of 60 rewards."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((60, 9))
    x[:, 3] = x[:, 0] + x[:, 1]
    y = 5 + 2 * x[:, 0] + x[:, 4:] @ rng.standard_normal(5) * 0.4 + rng.standard_normal(60)
    across = np.linalg.svd(x[:, :4])[0][:, 3:].T  # (57, 60)
    x_left, y_left = across @ x[:, 4:], across @ y
    found, rows = beside(Moments.from_rows(x, y), np.arange(9) < 4), Moments.from_rows(x_left, y_left)
    assert found.count == rows.count == 57
    assert found.reward_squares == pytest.approx(rows.reward_squares)
    np.testing.assert_allclose(found.gram, rows.gram, atol=1e-9)
    np.testing.assert_allclose(found.reward_vector, rows.reward_vector, atol=1e-9)
    assert evidence(found) == pytest.approx(evidence(rows), rel=1e-9)


def test_what_others_know_already_makes_no_model_likelier() -> None:
    """A model with the same effect in many features has a wider prior of it, unless it has none."""
    rng = np.random.default_rng(8)
    arms, x = np.eye(3)[rng.integers(3, size=300)], rng.standard_normal((300, 2))
    y = arms @ [1.0, 2.0, 3.0] + rng.standard_normal(300)
    narrow, wide = (
        Moments.from_rows(np.hstack([arms, x, *again]), y) for again in ([], [arms, arms, arms, arms])
    )
    assert evidence(wide).max() > evidence(narrow).max() + 1
    first = np.arange(17) < 3
    likelihoods = [float(evidence(beside(log, first[: log.d])).max()) for log in (narrow, wide)]
    assert likelihoods[1] == pytest.approx(likelihoods[0], abs=1e-6)


def test_neither_the_unit_nor_the_zero_of_rewards_matters() -> None:
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(80), rng.standard_normal((80, 3))])
    y, ones = x @ [0.2, 1.0, 0.0, 0.5] + rng.standard_normal(80), np.arange(4) < 1
    here = evidence(beside(Moments.from_rows(x, y), ones))
    there = evidence(beside(Moments.from_rows(x, 1000 + 50 * y), ones))
    assert there - here == pytest.approx(-79 * np.log(50) * np.ones(here.size), abs=1e-6)


def test_rewards_that_do_not_differ_leave_nothing() -> None:
    for reward in (0.0, 0.1, 1e9):
        log = Moments.from_rows(np.column_stack([np.ones(30), np.arange(30)]), np.full(30, reward))
        assert beside(log, np.array([True, False])).reward_squares == 0


def test_halves_are_foretold_by_each_other() -> None:
    """By ridge regression on the rows of the other half; where one is empty, by 0."""
    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((50, 4)), rng.standard_normal(50)
    halves = [Moments.from_rows(x[some], y[some]) for some in (slice(20), slice(20, None))]

    def errors(ridge: float) -> float:
        found = 0.0
        for known, asked in ((slice(20), slice(20, None)), (slice(20, None), slice(20))):
            gram = x[known].T @ x[known] + ridge * np.eye(4)
            found += float(((y[asked] - x[asked] @ np.linalg.solve(gram, x[known].T @ y[known])) ** 2).sum())
        return found

    assert foretold_errors(halves) == pytest.approx(np.array([errors(ridge) for ridge in RIDGES]))
    assert foretold_errors([halves[0], Moments.empty(4)]) == pytest.approx(float(y[:20] @ y[:20]))


def test_a_log_without_rewards_has_a_likelihood() -> None:
    assert np.isfinite(evidence(Moments.from_rows(np.ones((5, 1)), np.zeros(5)))).all()
