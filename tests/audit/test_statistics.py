"""Linearity, noise and propensities: the tests are as wrong as they say, and the intervals cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.audit_logs import ACTIONS, PULLS, THETA, K, draw_log
from helpers.chance import most
from helpers.selection import sizes

from linoto.audit.fit import lack_of_fit
from linoto.audit.noise import arm_intervals, estimate_noise
from linoto.audit.propensities import find_miscalibrated
from linoto.core.confidence import Confidence
from linoto.core.offline import Offline
from linoto.logs.sums import Propensities


@pytest.mark.parametrize("worlds", sizes(400, 2000))
@pytest.mark.few(0)
def test_the_test_of_linearity_keeps_its_size(worlds: int) -> None:
    """Linear worlds: by chance there are too many or too few alarms once in 10,000."""
    p = np.array(
        [lack_of_fit(ACTIONS, draw_log(ACTIONS @ THETA, PULLS, seed)).p for seed in range(worlds)]  # type: ignore[union-attr]
    )
    assert worlds - most(worlds, 0.95, 5e-5) <= (p < 0.05).sum() <= most(worlds, 0.05, 5e-5)
    assert abs(p.mean() - 0.5) < 4.6 * (12 * worlds) ** -0.5  # uniform: once in 200,000


def test_the_test_of_linearity_has_power() -> None:
    """Arms off the plane by 0.15 at noise 0.4: with a noncentrality of 70 a test at level 0.01 misses it with
    probability 1e-4, and 4 of 100 with probability 4e-10."""
    nonlinear = ACTIONS @ THETA + 0.15 * np.where(np.arange(K) % 2, 1, -1)
    found = [lack_of_fit(ACTIONS, draw_log(nonlinear, PULLS, seed)) for seed in range(100)]
    assert sum(test is not None and test.rejected for test in found) >= 97
    misfits = [test.misfit for test in found if test is not None]
    assert 0.12 < np.mean(misfits) < 0.16


def test_the_test_of_linearity_is_the_textbook_one() -> None:
    """Against the residual sums of squares of two regressions on the rows themselves."""
    from scipy.stats import f as fisher

    rng = np.random.default_rng(3)
    arms = np.repeat(np.arange(K), PULLS)
    rewards = rng.standard_normal(arms.size)
    log = Offline.from_rows(arms, rewards, k=K)
    linear = np.linalg.lstsq(ACTIONS[arms], rewards)[1][0]
    saturated = np.linalg.lstsq(np.eye(K)[arms], rewards)[1][0]
    between, within = K - 4, arms.size - K
    expected = ((linear - saturated) / between) / (saturated / within)
    found = lack_of_fit(ACTIONS, log)
    assert found is not None and found.degrees == (between, within)
    assert found.f == pytest.approx(expected) and found.p == pytest.approx(
        fisher.sf(expected, between, within)
    )


def test_arms_that_differ_in_noise_are_no_curve() -> None:
    """Rarely pulled arms thirty times as noisy as the others: the F test rejects 95 % of such linear worlds,
    both tests together 5 %. A binomial(400, 0.05) exceeds 45 with probability 1e-7."""
    x = np.linspace(0, 1, 10)
    line, noise = np.column_stack([np.ones(10), x]), np.where(np.arange(10) < 5, 0.1, 3.0)
    chances, alarms, by_f = np.repeat([0.19, 0.01], 5), 0, 0
    for seed in range(400):
        rng = np.random.default_rng([12, seed])
        arms = rng.choice(10, 200, p=chances)
        fit = lack_of_fit(
            line, Offline.from_rows(arms, x[arms] + noise[arms] * rng.standard_normal(200), k=10)
        )
        assert fit is not None
        alarms, by_f = alarms + fit.rejected, by_f + (fit.p < 0.01)
    assert alarms <= 45 and by_f >= 300


def test_moving_and_scaling_features_beside_an_intercept_changes_no_test() -> None:
    """Seconds since 1970, parts per million: what is linear in one unit is so in all."""
    rng = np.random.default_rng(13)
    features, pulls = rng.uniform(-1, 1, (K, 2)), rng.integers(2, 30, K)
    log = draw_log(0.5 + features @ [0.3, -0.2], pulls, 13)
    plain = lack_of_fit(np.column_stack([np.ones(K), features]), log)
    assert plain is not None and plain.p > 0.01
    for centre, unit in (
        ((1.7e9, 0.0), (1e6, 1e-6)),
        ((2020.0, 1.7e12), (5.0, 1e10)),
        ((0.0, 0.0), (1e6, 1e-5)),
    ):
        moved = lack_of_fit(np.column_stack([np.ones(K), np.array(centre) + np.array(unit) * features]), log)
        assert moved is not None and moved.degrees == plain.degrees == (K - 3, log.total - K)
        assert moved.f == pytest.approx(plain.f, rel=1e-5)
        assert moved.p_unequal == pytest.approx(plain.p_unequal, rel=1e-4)


def test_linearity_is_not_tested_where_nothing_is_left_over() -> None:
    assert lack_of_fit(np.eye(3), Offline.from_rows([0, 0, 1], [1.0, 2.0, 3.0], k=3)) is None
    assert lack_of_fit(ACTIONS, draw_log(ACTIONS @ THETA, np.ones(K, int), 0)) is None


def test_rewards_without_any_noise_are_judged_exactly() -> None:
    pulls = np.full(K, 5)
    linear, nonlinear = ACTIONS @ THETA, np.arange(K) ** 2.0
    good, bad = (
        lack_of_fit(ACTIONS, Offline(pulls=pulls, reward_sums=5 * mu, reward_squares=5 * mu**2))
        for mu in (linear, nonlinear)
    )
    assert good is not None and bad is not None
    assert good.p == 1.0 and bad.p == 0.0


def test_the_noise_interval_of_normal_rewards_covers() -> None:
    """1000 Gaussian logs at 95 %: a binomial(1000, 0.95) is below 920 with probability 2e-5."""
    hits = 0
    for seed in range(1000):
        noise = estimate_noise(draw_log(ACTIONS @ THETA, PULLS, seed))
        assert noise is not None
        assert noise.low is None  # nothing is known of rewards without a range
        hits += noise.low_if_normal <= 0.4 <= noise.high_if_normal
    assert hits >= 920


def test_noise_needs_an_arm_pulled_twice() -> None:
    assert estimate_noise(Offline.from_rows([0, 1], [1.0, 2.0], k=2)) is None
    with pytest.raises(ValueError, match="offline must know reward_squares"):
        estimate_noise(Offline(pulls=[3], reward_sums=[1.0]))


def test_an_arms_interval_covers_its_mean() -> None:
    """20 arms x 200 logs at 95 %: a binomial(4000, 0.95) is below 3745 with probability 1e-4."""
    hits = 0
    for seed in range(200):
        _, low, high = arm_intervals(draw_log(ACTIONS @ THETA, PULLS, seed))
        hits += int(((low <= ACTIONS @ THETA) & (high >= ACTIONS @ THETA)).sum())
    assert hits >= 3745


@pytest.mark.parametrize("design", ["fixed", "adaptive"])
@pytest.mark.few(1)
def test_an_arms_interval_covers_its_click_rate_at_any_number_of_pulls(design: Any) -> None:
    """20 arms x 100 logs at 95 %: a binomial(2000, 0.95) is below 1850 with probability 6e-7."""
    rates, pulls = np.repeat([0.002, 0.004, 0.04, 0.5], 5), np.tile([5, 30, 200, 1000, 4000], 4)
    bounded = Confidence(noise="bounded", reward_range=(0, 1), design=design)
    rng, hits = np.random.default_rng(0), 0
    for _ in range(100):
        clicks = rng.binomial(pulls, rates).astype(float)
        log = Offline(pulls=pulls, reward_sums=clicks, reward_squares=clicks)
        mean, low, high = arm_intervals(log, bounded)
        assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()
        hits += int(((low <= rates) & (rates <= high)).sum())
    assert hits >= 1850


def test_only_asked_arms_have_bounded_intervals_and_a_contradicted_range_has_none() -> None:
    log = Offline(pulls=[10, 0, 20], reward_sums=[3.0, 0.0, 5.0], reward_squares=[2.5, 0.0, 4.0])
    bounded = Confidence(noise="bounded", reward_range=(0, 1))
    _, low, high = arm_intervals(log, bounded, arms=np.array([1, 2]))
    assert np.isnan(low[:2]).all() and low[2] < 0.25 < high[2]
    wrong = Confidence(noise="bounded", reward_range=(0, 0.1))
    assert np.array_equal(arm_intervals(log, wrong), arm_intervals(log), equal_nan=True)


@pytest.mark.parametrize("logs", sizes(400, 2000))
def test_propensities_that_cannot_be_right_are_named(logs: int) -> None:
    """False alarms at 0.01: by chance there are too many once in 50,000. The wrong arm is 17
    standard errors off and always named."""
    rng = np.random.default_rng(0)
    chances, told = np.array([0.5, 0.3, 0.2]), np.array([0.5, 0.3, 0.3])
    alarms = 0
    for _ in range(logs):
        pulls = rng.multinomial(5000, chances)
        right, wrong = (
            Propensities(low=0.2, high=0.5, inverse=pulls / p, inverse_squares=pulls / p**2)
            for p in (chances, told)
        )
        alarms += bool(find_miscalibrated(right, 5000).size)
        assert 2 in find_miscalibrated(wrong, 5000)
    assert alarms <= most(logs, 0.01, 2e-5)


@pytest.mark.parametrize("logs", sizes(200, 1000))
@pytest.mark.few(0)
def test_rare_arms_of_a_uniform_log_have_right_propensities(logs: int) -> None:
    """Ten pulls of each of 100 arms: a variance estimated from them raised an alarm in two logs of three.
    By chance there are too many once in 20,000."""
    rng, alarms = np.random.default_rng(19), 0
    for _ in range(logs):
        pulls = rng.multinomial(1000, np.full(100, 0.01)).astype(float)
        told = Propensities(low=0.01, high=0.01, inverse=100 * pulls, inverse_squares=1e4 * pulls)
        alarms += bool(find_miscalibrated(told, 1000).size)
    assert alarms <= most(logs, 0.01, 5e-5)


@pytest.mark.few(0)
def test_propensities_that_change_from_row_to_row_may_be_right() -> None:
    """Epsilon-greedy with a new favourite in every row: most pulls at 0.91, few at 0.01. As above."""
    rng, alarms = np.random.default_rng(20), 0
    for _ in range(1000):
        favourite = rng.integers(0, 10, 500)
        arms = np.where(rng.random(500) < 0.9, favourite, rng.integers(0, 10, 500))
        p = np.where(arms == favourite, 0.91, 0.01)
        sums = (np.bincount(arms, weights=1 / p**power, minlength=10) for power in (1, 2))
        told = Propensities(low=0.01, high=0.91, inverse=next(sums), inverse_squares=next(sums))
        alarms += bool(find_miscalibrated(told, 500).size)
    assert alarms <= 24
