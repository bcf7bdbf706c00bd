"""The likelihood of a log by a linear model, against the density of all its rewards at once."""

from __future__ import annotations

import numpy as np
import pytest

from linoto import Moments
from linoto.core.evidence import RIDGES, evidence, likeliest_ridge


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


def test_neither_the_unit_nor_the_zero_of_rewards_matters() -> None:
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(80), rng.standard_normal((80, 3))])
    y, ones = x @ [0.2, 1.0, 0.0, 0.5] + rng.standard_normal(80), np.array([1.0, 0.0, 0.0, 0.0])
    here = evidence(Moments.from_rows(x, y), ones=ones)
    there = evidence(Moments.from_rows(x, 1000 + 50 * y), ones=ones)
    assert there - here == pytest.approx(-80 * np.log(50) * np.ones(here.size), abs=1e-6)


def test_a_log_without_rewards_has_a_likelihood() -> None:
    assert np.isfinite(evidence(Moments.from_rows(np.ones((5, 1)), np.zeros(5)))).all()
