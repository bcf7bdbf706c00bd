"""Worlds and the logs drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.problems import LAWS, bernoulli_problem
from hypothesis import given
from hypothesis import strategies as st

from linoto import LinearBandit, logged_pulls, sphere_bandit


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("d", [1, 2, 20])
def test_actions_and_parameter_lie_on_the_unit_sphere(d: int) -> None:
    bandit = sphere_bandit(k=50, d=d, rng=rng())
    assert bandit.actions.shape == (50, d)
    np.testing.assert_allclose(np.linalg.norm(bandit.actions, axis=1), 1)
    assert np.linalg.norm(bandit.theta) == pytest.approx(1)
    assert np.abs(bandit.means).max() <= 1 + 1e-12


def test_the_papers_problem_is_the_default() -> None:
    bandit = sphere_bandit(rng=rng())
    pulls = logged_pulls(bandit, rng=rng())
    assert (bandit.actions.shape, bandit.noise, bandit.rewards) == ((100, 20), 1.0, "gaussian")
    assert sorted(pulls.tolist()) == [0] * 90 + [10] * 10
    assert pulls[bandit.best] == 0


def test_directions_are_uniform_on_the_sphere() -> None:
    # sqrt(n d) times the mean of n unit vectors is standard normal: an entry beyond 5 for 3e-6 of the seeds.
    actions = sphere_bandit(k=20_000, d=5, rng=rng()).actions
    assert (np.sqrt(20_000 * 5) * np.abs(actions.mean(axis=0)) < 5).all()
    np.testing.assert_allclose(actions.T @ actions / 20_000, np.eye(5) / 5, atol=0.01)


def test_means_are_inner_products_and_the_best_is_the_largest() -> None:
    bandit = sphere_bandit(k=30, d=4, rng=rng(1))
    np.testing.assert_allclose(bandit.means, [bandit.theta @ action for action in bandit.actions])
    assert bandit.means[bandit.best] == bandit.means.max()
    tied = LinearBandit(actions=[[0.0], [1.0], [1.0]], theta=[1.0])
    assert tied.best == 1


def test_the_same_seed_gives_the_same_world_and_log() -> None:
    one, two, other = (sphere_bandit(k=9, d=3, rng=rng(seed)) for seed in (2, 2, 3))
    np.testing.assert_array_equal(one.actions, two.actions)
    np.testing.assert_array_equal(one.theta, two.theta)
    assert not np.array_equal(one.actions, other.actions)
    pulls = logged_pulls(one, arms=3, rng=rng(4))
    np.testing.assert_array_equal(pulls, logged_pulls(two, arms=3, rng=rng(4)))
    assert one.log(pulls, rng(5)) == two.log(pulls, rng(5)) != one.log(pulls, rng(6))


def test_a_seed_is_as_good_as_a_generator_and_anything_else_is_refused() -> None:
    one, two = sphere_bandit(k=9, d=3, rng=2), sphere_bandit(k=9, d=3, rng=rng(2))
    np.testing.assert_array_equal(one.actions, two.actions)
    pulls = logged_pulls(one, arms=3, rng=4)
    np.testing.assert_array_equal(pulls, logged_pulls(two, arms=3, rng=rng(4)))
    assert one.log(pulls, 5) == two.log(pulls, rng(5))
    for wrong in (-1, 0.5, None, True):
        with pytest.raises(ValueError, match="rng must be a seed >= 0 or a numpy Generator, got"):
            sphere_bandit(rng=wrong)  # type: ignore[arg-type]  # that is the point


# -- offline designs


@LAWS
@given(st.integers(2, 12), st.integers(1, 60), st.data())
def test_pulls_are_spread_evenly_over_as_many_arms_as_asked_for(k: int, m: int, data: st.DataObject) -> None:
    include = data.draw(st.booleans())
    arms = data.draw(st.integers(1, k if include else k - 1))
    bandit = sphere_bandit(k=k, d=3, rng=rng(k))
    pulls = logged_pulls(bandit, m=m, arms=arms, include_best=include, rng=rng(m))
    logged = pulls[pulls > 0]
    assert pulls.shape == (k,)
    assert pulls.sum() == m
    assert logged.size == min(arms, m)
    assert logged.max() - logged.min() <= 1
    assert (pulls[bandit.best] > 0) == include


def test_every_arm_but_the_best_is_equally_likely_to_be_logged() -> None:
    # Each arm is in Binomial(2000, 1/3) of the designs: one beyond 5 deviations for 5e-6 of the seeds.
    bandit, draws = sphere_bandit(k=10, d=3, rng=rng()), rng(1)
    times = sum((logged_pulls(bandit, m=3, arms=3, rng=draws) for _ in range(2000)), np.zeros(10))
    others = np.delete(times, bandit.best)
    assert times[bandit.best] == 0
    assert (np.abs(others - 2000 / 3) < 5 * np.sqrt(2000 * 2 / 9)).all()


# -- logs


def test_logged_means_are_near_the_truth() -> None:
    # |z| > 5 has probability 6e-7; over ten arms a false alarm once in 170,000 seeds.
    bandit = sphere_bandit(k=20, d=5, rng=rng(7), noise=0.5)
    pulls = logged_pulls(bandit, m=4000, rng=rng(8))
    log = bandit.log(pulls, rng(9))
    seen = pulls > 0
    z = (log.reward_sums[seen] / pulls[seen] - bandit.means[seen]) * np.sqrt(pulls[seen]) / 0.5
    assert (np.abs(z) < 5).all()
    assert z.std() > 0.2, "the noise is there"
    np.testing.assert_array_equal(log.pulls, pulls)


def test_the_noise_of_a_log_is_the_worlds() -> None:
    # The variance estimate over n = 20,000 rewards has standard error sqrt(2/n) = 1 %: beyond 5 % is 6e-7.
    bandit = LinearBandit(actions=[[1.0], [2.0]], theta=[0.3], noise=0.7)
    log = bandit.log([10_000, 10_000], rng(10))
    assert log.reward_squares is not None
    variance = (log.reward_squares - log.reward_sums**2 / log.pulls).sum() / 19_998
    assert variance == pytest.approx(0.49, rel=0.05)


def test_a_world_without_noise_logs_its_means() -> None:
    bandit = sphere_bandit(k=5, d=2, rng=rng(11), noise=0.0)
    log = bandit.log([1, 2, 3, 0, 4], rng(12))
    np.testing.assert_allclose(log.reward_sums, bandit.means * log.pulls)


def test_clicks_are_logged_as_zeros_and_ones() -> None:
    bandit, log = bernoulli_problem(13, m=4000)
    assert log.reward_squares is not None
    np.testing.assert_array_equal(log.reward_sums, log.reward_squares)
    np.testing.assert_array_equal(log.reward_sums, np.round(log.reward_sums))
    seen = log.pulls > 0
    p, n = bandit.means[seen], log.pulls[seen]
    assert (np.abs(log.reward_sums[seen] / n - p) < 5 * np.sqrt(p * (1 - p) / n)).all()  # false alarm 2e-6


def test_certain_clicks_are_certain() -> None:
    bandit = LinearBandit(actions=[[0.0], [1.0]], theta=[1.0], rewards="bernoulli")
    assert bandit.log([500, 500], rng(14)).reward_sums.tolist() == [0.0, 500.0]


def test_a_world_owns_its_arrays() -> None:
    actions, theta = np.eye(2), np.ones(2)
    bandit = LinearBandit(actions=actions, theta=theta)
    actions[:], theta[:] = 7, 7
    np.testing.assert_array_equal(bandit.means, [1.0, 1.0])


# -- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": []}, "actions must"),
        ({"actions": np.zeros((0, 2))}, "actions must hold at least one arm"),
        ({"actions": np.zeros((2, 0)), "theta": []}, "actions must hold at least one arm and one feature"),
        ({"actions": [1.0, 2.0]}, r"actions must have 2 dimension"),
        ({"actions": [[1.0, np.nan]]}, r"actions must be finite, got nan at \[0, 1\]"),
        ({"actions": [[1.0, 2.0], [1.0]]}, "actions must be an array of numbers"),
        ({"theta": [1.0]}, "theta must have 2 entries like actions, got 1"),
        ({"theta": [1.0, np.inf]}, "theta must be finite"),
        ({"noise": -1.0}, "noise must be"),
        ({"noise": np.nan}, "noise must be"),
        ({"rewards": "poisson"}, "rewards must be one of 'gaussian', 'bernoulli', 'beta', got 'poisson'"),
        ({"rewards": "beta"}, "spread must be given for Beta rewards"),
        ({"rewards": "beta", "spread": [0.5, 1.5]}, "spread must be given for Beta rewards"),
        ({"rewards": "beta", "spread": [0.5, 0.5], "theta": [2.0, 0.0]}, "theta must give means in"),
        ({"rewards": "bernoulli", "theta": [2.0, 0.0]}, r"theta must give means in \[0, 1\]"),
        ({"rewards": "bernoulli", "theta": [-0.1, 0.0]}, r"theta must give means in \[0, 1\]"),
        ({"spread": [1.0]}, "spread must be 2 numbers >= 0"),
        ({"spread": [1.0, -1.0]}, "spread must be 2 numbers >= 0"),
        ({"rewards": "bernoulli", "spread": [1.0, 0.4]}, "spread must reach above every mean"),
        ({"rewards": "bernoulli", "spread": [1.0, 1.1]}, "spread must reach above every mean"),
    ],
)
def test_a_world_that_makes_no_sense_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearBandit(**{"actions": np.eye(2), "theta": [0.5, 0.5], **change})


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("k", 2.5), ("d", 0), ("d", -1), ("d", True)])
def test_a_sphere_without_arms_or_dimensions_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number >= 1"):
        sphere_bandit(**{"k": 3, "d": 2, name: value}, rng=rng())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 0}, "m must be a whole number >= 1, got 0"),
        ({"arms": 0}, "arms must be a whole number >= 1, got 0"),
        ({"arms": 5}, "arms must be at most 4 here, got 5"),
        ({"arms": 6, "include_best": True}, "arms must be at most 5 here, got 6"),
    ],
)
def test_a_design_that_cannot_be_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    bandit = sphere_bandit(k=5, d=2, rng=rng())
    with pytest.raises(ValueError, match=message):
        logged_pulls(bandit, **{"m": 10, "arms": 2, **change}, rng=rng())


def test_pulls_for_other_arms_are_refused() -> None:
    bandit = sphere_bandit(k=5, d=2, rng=rng())
    with pytest.raises(ValueError, match="pulls must have one entry for each of the 5 arms, got 4"):
        bandit.log([1, 2, 3, 4], rng())
    with pytest.raises(ValueError, match="pulls must be whole numbers"):
        bandit.log([1, 2, 3, 4, -1], rng())
