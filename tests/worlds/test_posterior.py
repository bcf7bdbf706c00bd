"""Average rewards that could have written a log: exact posteriors, limits, and where the log is silent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import Confidence, Offline
from linoto.worlds.posterior import LOGGED_ARMS, Draws, are_unrelated, choices, draw_means, have_level
from linoto.worlds.reward_laws import measure_law

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
MANY = 20_000


def drawn(actions: np.ndarray, log: Offline, confidence: Confidence, **options: Any) -> Draws:
    options = {"worlds": MANY, "rng": np.random.default_rng(0), **options}
    return draw_means(actions, log, measure_law(log, confidence), **options)


def test_a_linear_posterior_is_the_textbooks() -> None:
    """Against N(theta, noise^2 V^-1); 20,000 draws, beyond 6 standard errors once in 5e8 a number."""
    rng = np.random.default_rng(1)
    actions = rng.standard_normal((6, 2))
    log = Offline(pulls=[9, 9, 0, 9, 0, 0], reward_sums=[3.0, -2.0, 0.0, 5.0, 0.0, 0.0])
    prior = 0.8
    means = drawn(actions, log, Confidence(noise=0.5), prior=prior).values
    size = np.sqrt((actions**2).sum(axis=1).mean())
    precision = actions.T @ (log.pulls[:, None] * actions) / 0.25 + (size / prior) ** 2 * np.eye(2)
    cover = np.linalg.inv(precision)
    exact = actions @ cover @ (actions.T @ log.reward_sums / 0.25)
    variance = np.diag(actions @ cover @ actions.T)
    assert (np.abs(means.mean(axis=0) - exact) < 6 * np.sqrt(variance / MANY)).all()
    np.testing.assert_allclose(means.var(axis=0), variance, rtol=0.07)


def test_unrelated_normal_arms_are_drawn_towards_their_level() -> None:
    """With a level that is known nearly exactly, shrinkage is s^2 / (s^2 + noise^2 / n)."""
    pulls = np.r_[4, np.full(200, 100_000)]
    averages = np.r_[3.0, np.tile([0.5, -0.5], 100)]
    log = Offline(pulls=pulls, reward_sums=pulls * averages)
    means = drawn(np.eye(201), log, Confidence(noise=2.0), prior=1.0, worlds=4000).values
    level = averages[1:].mean()
    assert means[:, 0].mean() == pytest.approx(level + 0.5 * (3.0 - level), abs=0.15)
    assert means[:, 0].var() == pytest.approx(0.5, rel=0.15)


def test_clicks_of_unrelated_arms_have_beta_posteriors() -> None:
    """At a known level the posterior mean is (m c + clicks) / (c + rows)."""
    pulls = np.r_[100, np.full(300, 10**6)]
    clicks = np.r_[6.0, np.full(300, 0.02 * 10**6)]
    log = Offline(pulls=pulls, reward_sums=clicks, reward_squares=clicks)
    means = drawn(np.eye(301), log, CLICKS, prior=0.01, worlds=2000).values
    strength = 0.02 * 0.98 / 0.01**2 - 1
    exact = (0.02 * strength + 6) / (strength + 100)
    assert means[:, 0].mean() == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize("true", [0.02, 0.1, 0.4])
def test_many_rewards_tell_how_much_arms_differ(true: float) -> None:
    rng = np.random.default_rng(2)
    k, rows = 150, 4000
    means = rng.normal(0.5, true, k)
    log = Offline(pulls=np.full(k, rows), reward_sums=rows * means + np.sqrt(rows) * rng.standard_normal(k))
    found = drawn(np.eye(k), log, Confidence(noise=1.0), worlds=500)
    assert found.spreads.mean() == pytest.approx(true, rel=0.26)  # a step of the grid
    assert found.spreads.std() < 0.25 * true


@pytest.mark.few(0)
def test_few_clicks_leave_open_how_much_arms_differ() -> None:
    pulls = np.full(80, 100)
    clicks = np.r_[np.ones(30), np.full(3, 2.0), np.zeros(47)]
    found = drawn(np.eye(80), Offline(pulls=pulls, reward_sums=clicks, reward_squares=clicks), CLICKS)
    low, high = np.quantile(found.spreads, [0.1, 0.9])
    assert high > 5 * low and high < 0.02
    assert found.values.min() >= 0 and found.values.max() < 0.2


@pytest.mark.parametrize("actions", [np.eye(4), np.column_stack([np.ones(4), [0.0, 0.1, 0.5, 0.9]])])
def test_no_mean_leaves_the_range(actions: np.ndarray) -> None:
    log = Offline(pulls=[400, 300, 0, 20], reward_sums=[2.0, 0.0, 0.0, 1.0])
    for prior in (None, 0.001, 5.0):
        means = drawn(actions, log, CLICKS, prior=prior, worlds=300).values
        assert np.isfinite(means).all() and means.min() >= 0 and means.max() <= 1


def test_worlds_scale_with_the_unit_of_the_reward() -> None:
    """Cents instead of euros: the same worlds, a hundred times as large."""
    pulls, sums = np.array([50, 40, 0]), np.array([60.0, 30.0, 0.0])
    squares = sums**2 / np.maximum(pulls, 1) + pulls * 4.0
    for limits in (None, (0.0, 20.0)):
        one, cents = (
            drawn(
                np.eye(3),
                Offline(pulls=pulls, reward_sums=c * sums, reward_squares=c * c * squares),
                Confidence(noise=3.0 * c, reward_range=limits and (0.0, 20.0 * c)),
                worlds=50,
            )
            for c in (1.0, 100.0)
        )
        np.testing.assert_allclose(cents.values, 100 * one.values, rtol=1e-6)


def test_an_empty_log_leaves_the_prior() -> None:
    for actions in (np.eye(3), np.array([[1.0, 0.2], [0.5, -1.0], [0.3, 0.3]])):
        for confidence in (Confidence(noise=0.5), CLICKS):
            means = drawn(actions, Offline.empty(3), confidence, worlds=100).values
            assert means.shape == (100, 3) and np.isfinite(means).all()


def test_arms_are_known_to_be_unrelated_or_to_share_a_level() -> None:
    assert (
        are_unrelated(np.eye(4)) and are_unrelated(2 * np.eye(4)[:, ::-1]) and are_unrelated(np.ones((1, 1)))
    )
    assert not are_unrelated(np.ones((2, 2))) and not are_unrelated(np.ones((3, 1)))
    assert have_level(np.eye(3)) and have_level(np.ones((5, 1)))
    assert not have_level(np.array([[1.0, 0.2], [0.5, -1.0], [0.3, 0.3]]))


# -- how the logged arms were chosen ----------------------------------------------------------------------


@pytest.mark.parametrize("logged, k", [(5, 50), (40, 60)])
@pytest.mark.few(1)
def test_what_choosing_makes_of_arms_is_what_choosing_them_makes(logged: int, k: int) -> None:
    """Against 40,000 choices among normal arms by a score of each correlation: within 3 % of the spread."""
    rng = np.random.default_rng(3)
    for r, choice in zip((0.0, 1 / 3, 2 / 3, 1.0), choices(logged, k, "good"), strict=True):
        means = rng.standard_normal((40_000, k))
        scores = r * means + np.sqrt(1 - r**2) * rng.standard_normal(means.shape)
        cut = np.quantile(scores, 1 - logged / k)  # arms beyond one point, as many as are logged on average
        chosen = scores > cut
        gap = means[chosen].mean() - means[~chosen].mean()
        assert (means[chosen].std(), means[~chosen].std()) == pytest.approx(choice[:2], abs=0.03)
        assert gap == pytest.approx(choice.apart, abs=0.03)


LEVELED = np.column_stack([np.ones(12), np.linspace(-1, 1, 12)])
PULLS = np.r_[400, 300, 200, np.zeros(9, dtype=np.int64)]


@pytest.mark.parametrize("actions", [np.eye(12), LEVELED])
@pytest.mark.parametrize("confidence", [CLICKS, Confidence(noise=0.5)])
@pytest.mark.few(2)
def test_untried_arms_are_worse_where_logged_ones_were_chosen_for_being_good(
    actions: np.ndarray, confidence: Confidence
) -> None:
    """And no better than the worst logged one where those were the best; logged arms are drawn alike."""
    clicks = PULLS * 0.3
    log = Offline(pulls=PULLS, reward_sums=clicks, reward_squares=clicks)
    found = {how: drawn(actions, log, confidence, worlds=3000, logged_arms=how).values for how in LOGGED_ARMS}
    gaps = {how: float(means[:, :3].mean() - means[:, 3:].mean()) for how, means in found.items()}
    assert gaps["random"] == pytest.approx(0.0, abs=0.03)
    assert gaps["random"] + 0.01 < gaps["good"] < gaps["best"]
    assert (found["best"][:, 3:].max(axis=1) <= found["best"][:, :3].min(axis=1)).all()
    for means in found.values():
        assert means[:, 0].mean() == pytest.approx(0.3, abs=0.03)


def test_how_arms_were_chosen_says_nothing_where_all_or_none_were() -> None:
    for pulls in (np.full(4, 50), np.zeros(4, dtype=np.int64)):
        log = Offline(pulls=pulls, reward_sums=pulls * 0.5)
        first, *others = (
            drawn(np.eye(4), log, CLICKS, worlds=40, logged_arms=how).values for how in LOGGED_ARMS
        )
        assert all(np.array_equal(first, other) for other in others)


def test_a_spread_that_was_given_is_the_spread_of_all_arms() -> None:
    """Logged arms differ less than all if they were chosen for being alike: good."""
    pulls = np.r_[np.zeros(30, dtype=np.int64), 1, 1]
    log = Offline(pulls=pulls, reward_sums=pulls * 0.5)
    found = drawn(np.eye(32), log, Confidence(noise=1.0), worlds=4000, prior=0.2, logged_arms="random")
    assert found.values[:, :30].std(axis=1).mean() == pytest.approx(0.2, rel=0.05)
    np.testing.assert_allclose(found.spreads, 0.2)
