"""The law of rewards that a log shows: clicks, amounts of money, normal rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import Bandit, Confidence, Offline
from linoto.worlds.beta_rewards import beta_rewards
from linoto.worlds.reward_laws import RewardLaw, around_model, measure_law

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))


def log_of(samples: list[np.ndarray]) -> Offline:
    arms = np.repeat(np.arange(len(samples)), [sample.size for sample in samples])
    return Offline.from_rows(arms, np.concatenate(samples), k=len(samples))


def test_clicks_stay_clicks() -> None:
    rng = np.random.default_rng(0)
    law = measure_law(log_of([(rng.random(4000) < 0.004).astype(float) for _ in range(5)]), CLICKS)
    assert law.shares is not None and (law.shares == 1).all()
    assert law.noise == pytest.approx(np.sqrt(0.004), rel=0.3)  # 80 clicks: a third is five standard errors
    world = law.world(np.eye(2), np.array([0.004, 0.5]))
    assert world.pay(np.array([0, 1, 1]), np.array([0.9, 0.2, 0.8])).tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("limits", [(0.0, 500.0), (-100.0, 500.0), (1.0, 300.0)])
def test_bounded_amounts_keep_their_mean_and_variance_and_their_range(limits: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    low, high = limits
    rows = np.clip(
        low + np.exp(2 + rng.standard_normal((3, 5000))) * (rng.random((3, 5000)) < 0.3), low, high
    )
    law = measure_law(log_of(list(rows)), Confidence(noise="bounded", reward_range=limits))
    assert law.noise == pytest.approx(rows.std(), rel=0.02)
    world = law.world(np.eye(3), np.full(3, rows.mean()))
    paid = world.pay(np.arange(200_000) % 3, world.draw(200_000, rng))
    assert low <= paid.min() and paid.max() <= high
    assert paid.mean() == pytest.approx(
        rows.mean(), abs=6 * rows.std() / np.sqrt(200_000)
    )  # false alarm 2e-9
    assert paid.std() == pytest.approx(rows.std(), rel=0.05)


def exact_moments(world: Bandit) -> tuple[np.ndarray, np.ndarray]:
    """(k,) means and variances of what each arm pays, from all its values."""
    every = beta_rewards(world.means, world.steps, world.reward_range)
    chances = np.diff(every.chances, axis=1, prepend=0.0)
    means = (chances * every.values).sum(axis=1)
    return means, (chances * (every.values - means[:, None]) ** 2).sum(axis=1)


def revenue_log(rng: np.random.Generator) -> tuple[Offline, np.ndarray]:
    """Four offers to 4000 visitors each: 5 % buy, for amounts that differ little, or much."""
    sizes = np.array([[40.0, 0.1], [400.0, 0.1], [120.0, 1.0], [900.0, 0.6]])
    rows = [
        np.where(rng.random(4000) < 0.05, np.minimum(mean * np.exp(s * rng.standard_normal(4000)), 5000), 0)
        for mean, s in sizes
    ]
    rows.append(
        np.clip(400 + 10 * rng.standard_normal(4000), 0, 5000)
    )  # a subscription: always about the same
    return log_of(rows), np.array([row.var(ddof=1) for row in rows])


@pytest.mark.parametrize("bounded", [True, False])
def test_every_arm_is_paid_with_its_own_mean_and_variance(bounded: bool) -> None:
    """Where it earns what it earned in the log: within 4 %, the price of drawing it towards the others.
    Exact moments: no chance is involved."""
    log, variances = revenue_log(np.random.default_rng(3))
    noise: Any = "bounded" if bounded else 100.0
    law = measure_law(log, Confidence(noise=noise, reward_range=(0, 5000)))
    averages = log.reward_sums / log.pulls
    world = law.world(np.eye(5), averages)
    means, found = exact_moments(world)
    np.testing.assert_allclose(means, averages, rtol=1e-9)
    np.testing.assert_allclose(found, variances, rtol=0.04)


@pytest.mark.parametrize("limits, share", [((0.0, 5000.0), 0.01), ((-2.0, 3.0), 0.4), ((1.0, 5.0), 1e-6)])
def test_an_arm_of_any_mean_has_the_variance_that_was_asked_for(
    limits: tuple[float, float], share: float
) -> None:
    """Arms far above and below what the log earned; 100,000 rewards of each, beyond 6 standard errors once in
    5e8 a mean. Such arms were paid without noise."""
    low, high = limits
    means = low + (high - low) * np.array([0.0, 0.001, 0.1, 0.5, 0.9, 1.0])
    world = Bandit(
        actions=np.eye(6), means=means, rewards="beta", reward_range=limits, spread=np.full(6, share)
    )
    asked = share * (means - low) * (high - means)
    found, variances = exact_moments(world)
    np.testing.assert_allclose(found, means, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(variances, asked, rtol=1e-6, atol=1e-12)
    rng = np.random.default_rng(5)
    for arm in range(6):
        paid = world.pay(np.full(100_000, arm), world.draw(100_000, rng))
        assert low <= paid.min() and paid.max() <= high
        assert abs(paid.mean() - means[arm]) <= 6 * np.sqrt(asked[arm] / 100_000) + 1e-9


def test_rewards_have_the_moments_of_a_beta_law() -> None:
    m, c = 0.3, 3.0
    every = beta_rewards(np.array([m]), np.array([1 / (c + 1)]), (0.0, 1.0))
    chances = np.diff(every.chances, axis=1, prepend=0.0)[0]
    moment = 1.0
    for power in range(1, 16):
        moment *= (m * c + power - 1) / (c + power - 1)
        assert chances @ every.values[0] ** power == pytest.approx(moment, rel=1e-6)


def test_the_variance_of_money_grows_with_its_mean() -> None:
    law = measure_law(
        log_of([np.array([0.0, 0.0, 0.0, 40.0] * 20), np.zeros(0)]),
        Confidence(noise=30.0, reward_range=(0, 100)),
    )
    _, variances = exact_moments(law.world(np.eye(2), np.array([5.0, 20.0])))
    assert variances[1] == pytest.approx(4 * variances[0], rel=0.1)
    assert (law.world(np.eye(2), np.array([5.0, 90.0])).steps > 0).all()


def test_normal_rewards_have_the_measured_noise_of_each_arm() -> None:
    rng = np.random.default_rng(2)
    law = measure_law(
        log_of([rng.standard_normal(4000), 3 * rng.standard_normal(4000)]), Confidence(noise=10.0)
    )
    assert law.shares is None
    np.testing.assert_allclose(np.sqrt(law.variances), [1.0, 3.0], rtol=0.06)
    np.testing.assert_array_equal(law.world(np.eye(2), np.zeros(2)).steps, np.sqrt(law.variances))


@pytest.mark.parametrize(
    "log",
    [
        Offline(pulls=[5, 0], reward_sums=[2.0, 0.0]),
        Offline(pulls=[2, 2], reward_sums=[1.0, 1.0], reward_squares=[1.0, 1.0]),
        Offline(pulls=[50, 50], reward_sums=[50.0, 50.0], reward_squares=[50.0, 50.0]),
    ],
    ids=["no squares", "too few rows", "always the same"],
)
def test_what_is_assumed_stands_where_nothing_can_be_measured(log: Offline) -> None:
    assert measure_law(log, Confidence(noise=0.7)).noise == pytest.approx(0.7)
    p = (log.reward_sums.sum() + 0.5) / (log.total + 1)
    assert measure_law(log, CLICKS).noise == pytest.approx(np.sqrt(p * (1 - p)))


@pytest.mark.parametrize("sums", [[0.0, 0.0], [400.0, 400.0]])
def test_a_log_without_a_click_or_without_a_miss_has_a_law(sums: list[float]) -> None:
    law = measure_law(Offline(pulls=[400, 400], reward_sums=sums, reward_squares=sums), CLICKS)
    assert isinstance(law, RewardLaw) and 0 < law.variance < 0.01
    assert law.world(np.eye(2), np.array([0.0, 1.0])).best == 1


def test_what_a_model_explains_is_no_noise() -> None:
    """Beta rewards whose share of the largest variance is known, and means that differ by more than they
    scatter. 20,000 rows: the share is within a twentieth, which is beyond five standard errors."""
    rng, (low, high), share = np.random.default_rng(0), (-1.0, 5.0), 0.02
    means = rng.uniform(0.0, 4.0, 20_000)
    centre, size = (means - low) / (high - low), 1 / share - 1
    rewards = low + (high - low) * rng.beta(centre * size, (1 - centre) * size)
    whole = Offline.from_rows(np.zeros(20_000, np.int64), rewards, k=1)
    law = measure_law(whole, Confidence(noise="bounded", reward_range=(low, high)))
    left = float(((rewards - means) ** 2).mean())
    found = around_model(law, left, whole.reference)
    assert law.shares is not None and law.shares[0] > 5 * share, "of all that differs"
    assert found.shares == pytest.approx([share], rel=0.05) and found.variance == left
    assert found.quieter(left / 4).shares == pytest.approx(0.75 * found.shares)
    assert found.quieter(left / 4).noise == pytest.approx(0.75**0.5 * found.noise)


@pytest.mark.parametrize("left", [0.0, 1e-9, 0.5, 2.0])
def test_amounts_stay_amounts_however_little_or_much_a_model_leaves(left: float) -> None:
    """Forty rewards of which one is no end of the range: nearly the largest variance there is."""
    whole = Offline.from_rows([0] * 40, [0.5, *[1.0, 0.0] * 19, 1.0], k=1)
    law = measure_law(whole, CLICKS)
    found = around_model(law, left * law.variance, whole.reference)
    assert found.event == 0 and found.shares is not None and 0 < found.shares[0] < 1
    assert found.variance >= 1e-6 * law.variance


def test_events_scatter_by_their_mean_whatever_a_model_explains() -> None:
    whole = Offline.from_rows([0] * 100, [1.0] * 10 + [0.0] * 90, k=1)
    law = measure_law(whole, Confidence(noise="bounded", reward_range=(0, 1)))
    assert law.event == 1 and around_model(law, 0.05, 0.1).shares == pytest.approx([1.0])
    assert around_model(law, 0.05, 0.1).variance == 0.05
    assert around_model(law, 1e-9, 0.1).variance == 0.01 * law.variance, "ten events prove no more"
    assert around_model(law, 1.0, 0.1).variance == law.variance
