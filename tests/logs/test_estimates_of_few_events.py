"""What an estimate says where rewards are rare, rows are few, or arms were not shown.

Statistical tests have a fixed seed and state their false-alarm rate.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.logged_rows import ALL, MEANS, TARGET, logged

from linoto.core.intervals import mean_from_total
from linoto.logs.evaluate import Interval, doubly_robust, evaluate, ips, replay, snips
from linoto.logs.rows import Rows


def test_no_click_in_127_rows_is_not_an_interval_of_no_width() -> None:
    rows = Rows(arms=[0] * 127 + [1] * 127, rewards=np.zeros(254), k=2, propensities="uniform")
    for method in ALL:
        found = method(rows, 0)
        assert abs(found.value) < 1e-12 and found.low == 0
        assert 0.02 < found.high < 0.04
        assert not found.enough and found.events == 0
        assert found.reason == (
            "too few events to say: 0 of the 127 rewards that count differ from 0; it takes 10"
        )
    halved = 0.025 / 2  # nobody said that rewards had to be 0 or 1
    assert replay(rows, 0).high == pytest.approx(1 - halved ** (1 / 127), rel=1e-3)


@pytest.mark.parametrize("method", [ips, doubly_robust])
def test_a_value_never_leaves_a_known_range_of_rewards(method: Any) -> None:
    """Clicks of heavy weight are more than one a row, and corrections without any are less than none."""
    arms = np.repeat([0, 1], [95, 5])
    rows: dict[str, Any] = {"arms": arms, "k": 2, "propensities": np.where(arms == 0, 0.98, 0.02)}
    for clicked, end in ((arms == 1, 1.0), (arms == 0, 0.0)):
        found = method(Rows(rewards=clicked.astype(float), **rows), 1)
        assert found.low <= found.value == end <= found.high
    unknown = method(Rows(rewards=3.0 * (arms == 1), **rows), 1)
    assert unknown.value > 3  # no range is known: the plain mean


def test_rewards_of_0_and_1_are_noticed_and_said() -> None:
    rows = logged(400, seed=30)
    kinds = [found.interval for found in evaluate(rows, TARGET)]
    assert kinds == ["binomial", "betting", "betting", "betting"]
    for found in evaluate(rows, TARGET):
        assert "rewards lie in [0, 1] (every reward is 0 or 1)" in found.holds
        assert found.enough and not found.reason
        assert 0 <= found.low < found.value < found.high <= 1
    assert ips(rows, TARGET).holds.startswith("for any number of rows")
    assert doubly_robust(rows, TARGET).holds.startswith("in simulations")
    assert doubly_robust(rows, TARGET, model=MEANS).holds.startswith("for any number of rows")


def test_a_given_range_is_used_and_without_one_money_needs_a_hundred_events() -> None:
    rows = logged(400, seed=31)
    money = Rows(arms=rows.arms, rewards=20 * rows.rewards, k=3, propensities=rows.propensities)
    for plain, scaled in zip(
        evaluate(rows, TARGET),
        evaluate(money, TARGET, interval=Interval(reward_range=(0, 20))),
        strict=True,
    ):
        assert (scaled.low, scaled.high) == pytest.approx((20 * plain.low, 20 * plain.high))
        assert "rewards lie in [0, 20] (as given)" in scaled.holds
    for found in evaluate(money, TARGET):
        assert (found.interval, found.holds) == ("normal", "in the limit of many rows")
        assert found.enough == (found.events >= 100)
    few = money.take(np.arange(60))
    assert not any(found.enough for found in evaluate(few, TARGET))
    assert "it takes 100" in ips(few, TARGET).reason


def test_events_are_counted_by_their_weights() -> None:
    arms = [0] * 90 + [1] * 10
    rewards = [1.0] + [0.0] * 89 + [1.0] + [0.0] * 9
    rows = Rows(arms=arms, rewards=rewards, k=2, propensities=[0.9] * 90 + [0.1] * 10)
    weights = np.array([0.5 / 0.9, 0.5 / 0.1])
    found = ips(rows, [0.5, 0.5])
    assert found.events == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
    assert "2 of the 100 rewards that count differ from 0, worth 1.22 by their weights" in found.reason


def test_an_interval_too_wide_to_act_on_says_so() -> None:
    """Fifty prices of about 5 in a range up to 1000: enough events, but a single price could be all."""
    rng = np.random.default_rng(34)
    rewards = np.where(np.arange(500) % 10 == 0, rng.uniform(4, 6, 500), 0.0)
    rows = Rows(arms=np.zeros(500, int), rewards=rewards, k=1, propensities="uniform")
    wide, narrow = (ips(rows, 0, interval=Interval(reward_range=(0, top))) for top in (1000, 10))
    assert wide.events == narrow.events == 50
    assert not wide.enough and narrow.enough
    assert "too uncertain to say: the interval is" in wide.reason and "between the value and 0" in wide.reason


@pytest.mark.parametrize("rewards", ["coins", "stars"])
def test_a_plain_mean_has_the_interval_that_the_audit_shows(rewards: str) -> None:
    rng = np.random.default_rng(3)
    drawn = rng.integers(0, 2, 400) if rewards == "coins" else rng.integers(1, 6, 400)
    limits = (0.0, 1.0) if rewards == "coins" else (1.0, 5.0)
    rows = Rows(arms=rng.integers(0, 2, 400), rewards=drawn, k=2, propensities="uniform")
    log, interval = rows.offline, Interval(reward_range=limits)
    squares = np.asarray(log.reward_squares)
    expected = mean_from_total(
        float(log.reward_sums[1]), int(log.pulls[1]), squares=float(squares[1]), reward_range=limits
    )
    for found in evaluate(rows, 1, methods=("replay", "snips"), interval=interval):
        assert (found.low, found.high) == pytest.approx(expected, abs=1e-9)


def test_a_normal_interval_that_is_shown_covers_where_rewards_have_long_tails() -> None:
    """Of the logs whose interval is shown, not of all: 800 of 300 rewards with the mean 0. A rule by the
    sample skewness shows those that happen to miss the largest values, and a quarter of these miss the mean.
    """
    rng, shown, missed = np.random.default_rng(5), 0, 0
    for _ in range(800):
        rewards = rng.pareto(2.5, 300) - 1 / 1.5
        rows = Rows(arms=np.zeros(300, np.int64), rewards=rewards, k=1, propensities="uniform")
        (found,) = evaluate(rows, 0, methods=("ips",))
        shown, missed = shown + found.enough, missed + (found.enough and not found.low <= 0 <= found.high)
        assert found.enough or found.reason.startswith("too skewed to say")
    assert missed <= most(shown, 0.08)


@pytest.mark.parametrize("law", ["normal", "uniform", "exponential"])
def test_rewards_with_light_tails_are_shown_with_intervals_that_cover(law: str) -> None:
    """100 logs of 2,000 rows, where the chance of a caution is below 0.01 and that of a miss about 0.05."""
    rng, missed = np.random.default_rng(8), 0
    mean, cautions = {"normal": 0.0, "uniform": 0.5, "exponential": 1.0}[law], 0
    for _ in range(100):
        rewards = getattr(rng, law)(size=2000)
        rows = Rows(arms=np.zeros(2000, np.int64), rewards=rewards, k=1, propensities="uniform")
        (found,) = evaluate(rows, 0, methods=("ips",))
        cautions, missed = cautions + (not found.enough), missed + (not found.low <= mean <= found.high)
    assert cautions <= 5 and missed <= most(100, 0.06)


def test_rewards_that_are_nearly_even_have_no_caution() -> None:
    rng = np.random.default_rng(6)
    rows = Rows(arms=np.zeros(300, np.int64), rewards=rng.normal(2, 1, 300), k=1, propensities="uniform")
    assert evaluate(rows, 0, methods=("ips",))[0].enough


def test_rows_that_weigh_alike_are_judged_like_their_own_mean() -> None:
    """One arm of a uniform log: ips and snips know that their terms are coins."""
    rows = Rows(arms=np.arange(3000) % 3, rewards=np.arange(3000) % 70 == 0, k=3, propensities="uniform")
    by_replay, by_ips, by_snips, by_dr = evaluate(rows, 1)
    assert (by_snips.low, by_snips.high) == (by_replay.low, by_replay.high)
    assert by_ips.interval == by_snips.interval == "binomial"
    assert by_ips.high - by_ips.low < 1.1 * (by_replay.high - by_replay.low)
    assert by_dr.interval == "betting" and by_dr.high - by_dr.low < 2 * (by_replay.high - by_replay.low)


def test_the_order_of_rows_does_not_change_an_interval() -> None:
    rows = logged(500, seed=32, means=[0.01, 0.02, 0.05])
    sorted_rows = rows.take(np.argsort(rows.rewards + 10 * rows.arms, kind="stable"))
    for method in (ips, snips):
        ends = [(found.low, found.high) for found in (method(rows, TARGET), method(sorted_rows, TARGET))]
        assert ends[0] == pytest.approx(ends[1])


# In more than half of these logs no row shows the arm that the target nearly always plays: what it earns is
# unknown then, and the interval says so. 200 logs at level 0.8.
def test_arms_that_no_row_shows_may_earn_anything_in_the_range() -> None:
    logger, means, target = [0.9985, 0.001, 0.0005], [0.1, 0.5, 0.9], [0.1, 0.0, 0.9]
    truth, missed, blind = float(np.dot(target, means)), dict.fromkeys(ALL, 0), 0
    for seed in range(100):
        rows = logged(1000, seed, logger=logger, means=means)
        blind += ips(rows, target).unseen > 0
        for method in ALL:
            found = method(rows, target, interval=Interval(level=0.8))
            missed[method] += not found.low <= truth <= found.high
    assert blind > 50
    assert max(missed.values()) <= most(100, 0.2)


# The arm that half of the target plays is one of 500, and 300 rows show it in about half of the logs. Its
# propensity is known, so nothing is added for it: the weight that it would have is enough. 100 logs.
def test_a_uniform_log_that_misses_the_targets_arm_does_not_fool_the_others() -> None:
    k, means = 500, np.full(500, 0.02)
    means[7], target = 0.9, np.full(500, 0.5 / 499)
    target[7] = 0.5
    truth, missed, blind = float(target @ means), Counter[str](), 0
    for seed in range(100):
        rows = logged(300, seed, logger=np.full(k, 1 / k), means=means)
        blind += 7 not in rows.arms
        for method in ALL:
            try:
                found = method(rows, target, interval=Interval(level=0.8))
            except ValueError as error:
                assert method is replay and "rows must leave at least one" in str(error)
                continue
            missed[found.method] += not found.low <= truth <= found.high
    assert blind > 40
    assert max(missed.values()) <= most(100, 0.2)


def test_rows_of_one_weight_are_no_coins_if_others_could_weigh_more() -> None:
    """Three rows of one arm, where the target has arms of other weights: nothing is a binomial."""
    rows = Rows(arms=[0, 0, 0], rewards=[0.0, 1.0, 1.0], k=3, propensities="uniform")
    for method in (ips, snips):
        found = method(rows, [0.2, 0.3, 0.5])
        assert found.interval == "betting"
        assert found.low <= found.value <= found.high


def test_arms_of_a_uniform_log_are_known_even_if_no_row_shows_them() -> None:
    rng = np.random.default_rng(33)
    arms = rng.integers(0, 400, 2000)
    rows = Rows(arms=arms, rewards=rng.random(2000) < 0.01, k=400, propensities="uniform")
    found = ips(rows, np.full(400, 1 / 400))
    assert found.unseen > 0 and found.high < 0.03
