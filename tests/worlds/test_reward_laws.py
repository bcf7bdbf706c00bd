"""The law of rewards that a log shows: clicks, amounts of money, normal rewards."""

from __future__ import annotations

import numpy as np
import pytest

from linoto import Confidence, Offline
from linoto.worlds.reward_laws import RewardLaw, measure_law

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))


def log_of(samples: list[np.ndarray]) -> Offline:
    arms = np.repeat(np.arange(len(samples)), [sample.size for sample in samples])
    return Offline.from_rows(arms, np.concatenate(samples), k=len(samples))


def test_clicks_stay_clicks() -> None:
    rng = np.random.default_rng(0)
    law = measure_law(log_of([(rng.random(4000) < 0.004).astype(float) for _ in range(5)]), CLICKS)
    assert law.step == 1.0
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
    world = law.world(np.eye(1), np.array([rows.mean()]))
    paid = world.pay(np.zeros(200_000, dtype=np.int64), world.draw(200_000, rng))
    assert low <= paid.min() and paid.max() <= high
    assert paid.mean() == pytest.approx(
        rows.mean(), abs=6 * rows.std() / np.sqrt(200_000)
    )  # false alarm 2e-9
    assert paid.std() == pytest.approx(rows.std(), rel=0.05)


def test_the_variance_of_money_grows_with_its_mean() -> None:
    law = measure_law(
        log_of([np.array([0.0, 0.0, 0.0, 40.0] * 20)]), Confidence(noise=30.0, reward_range=(0, 100))
    )
    world = law.world(np.eye(2), np.array([5.0, 20.0]))
    steps = world.steps
    deviations = np.sqrt(world.means * (steps - world.means))
    assert deviations[1] > 1.4 * deviations[0]
    assert steps[0] == pytest.approx(40.0, rel=0.03)  # what was paid when something was paid


def test_normal_rewards_have_the_measured_noise_of_each_arm() -> None:
    rng = np.random.default_rng(2)
    law = measure_law(
        log_of([rng.standard_normal(4000), 3 * rng.standard_normal(4000)]), Confidence(noise=10.0)
    )
    assert law.step is None
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
