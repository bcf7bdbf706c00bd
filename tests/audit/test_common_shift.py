"""The shift that arms have in common: its law is exact, and it is found where single arms show nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audit_worlds import UNSTEADY, alarm_rate

from linoto.audit.common_shift import (
    DELTAS,
    EXACT_UNTIL,
    common_shift,
    exact_p,
    most_noise,
    shift_of_chosen,
    variance_of_arms,
)
from linoto.audit.drift import find_drift, why_untested
from linoto.audit.noise import scatter_of
from linoto.core.offline import Offline


def clicks(pulls: list[int], ones: list[float]) -> Offline:
    return Offline(pulls=pulls, reward_sums=ones, reward_squares=ones)


def test_clicks_have_the_law_of_a_sum_of_hypergeometrics() -> None:
    """Against SciPy's laws, convolved by brute force over all outcomes of three arms."""
    from scipy.stats import hypergeom

    early, late = clicks([20, 15, 8], [6.0, 3.0, 8.0]), clicks([25, 5, 9], [2.0, 0.0, 7.0])
    laws = [hypergeom(45, 8, 25), hypergeom(20, 3, 5), hypergeom(17, 15, 9)]
    chances: dict[int, float] = {}
    for a in range(9):
        for b in range(4):
            for c in range(16):
                chances[a + b + c] = chances.get(a + b + c, 0.0) + float(
                    laws[0].pmf(a) * laws[1].pmf(b) * laws[2].pmf(c)
                )
    below = sum(chance for total, chance in chances.items() if total < 9) + chances[9] / 2
    found = common_shift(scatter_of(early), scatter_of(late), clicks=True)
    assert found.p == pytest.approx(2 * min(below, 1 - below), abs=1e-12)
    mean = sum(total * chance for total, chance in chances.items())
    assert found.total == pytest.approx(9 - mean)
    assert found.variance == pytest.approx(sum((x - mean) ** 2 * p for x, p in chances.items()), rel=1e-9)


def test_many_clicks_have_the_normal_limit_of_that_law() -> None:
    rng = np.random.default_rng(5)
    for drop in (0.0, 0.02):
        halves = [
            clicks([400] * 30, rng.binomial(400, 0.3 - d, 30).astype(float).tolist()) for d in (0, drop)
        ]
        scatter = [scatter_of(half) for half in halves]
        normal = common_shift(*scatter, clicks=True)
        assert normal.variance > EXACT_UNTIL
        assert exact_p(*scatter) == pytest.approx(normal.p, rel=0.02)


def test_rewards_of_any_kind_have_the_moments_of_all_orders_of_their_rows() -> None:
    """Against 20,000 permutations within arms: the standard error of a variance is 1 % of it."""
    rng = np.random.default_rng(6)
    arms, rewards = np.repeat([0, 1, 2], [6, 4, 2]), rng.exponential(size=12)
    late = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1], bool)
    found = common_shift(
        *(scatter_of(Offline.from_rows(arms[part], rewards[part], k=3)) for part in (~late, late)),
        clicks=False,
    )
    sums = []
    for _ in range(20_000):
        mixed = rewards.copy()
        for arm in range(3):
            mixed[arms == arm] = rng.permutation(mixed[arms == arm])
        sums.append(mixed[late].sum())
    assert found.variance == pytest.approx(np.var(sums), rel=0.05)
    assert found.total == pytest.approx(rewards[late].sum() - np.mean(sums), abs=0.05)


def test_a_common_drop_is_found_where_no_arm_shows_it() -> None:
    """Its power is in docs/logs.md; at 0.7, fewer than 12 of 30 have probability 1e-4."""
    assert alarm_rate(UNSTEADY["uniform, clicks 90 %, all fall by 3 points"], 30) >= 12 / 30


def test_moves_that_cancel_are_left_to_the_tests_of_arms() -> None:
    early, late = clicks([500] * 2, [100.0, 200.0]), clicks([500] * 2, [200.0, 100.0])
    drift = find_drift(early, late)
    assert drift is not None and drift.common > 0.9 and drift.rejected and drift.moved.size == 2


def test_why_nothing_can_be_said_is_said() -> None:
    assert (
        why_untested(clicks([5, 0], [1.0, 0.0]), clicks([0, 5], [0.0, 1.0]))
        == "no arm was pulled in both halves"
    )
    few = clicks([500, 500], [1.0, 0.0])
    assert find_drift(few, few) is None
    assert why_untested(few, few) == "too few ones to say: 2 among 2,000 rewards"
    sure = clicks([500, 500], [499.0, 500.0])
    assert why_untested(sure, sure) == "too few zeros to say: 2 among 2,000 rewards"
    apart = clicks([100, 100], [100.0, 0.0])
    assert find_drift(apart, apart) is None
    assert why_untested(apart, apart) == "too few rewards differ from what their arm usually earns: 0 of 400"
    once = Offline.from_rows([0], [0.5], k=2)
    assert why_untested(once, once) == "no arm was pulled often enough in both halves"


# -- arms that may have been chosen by their rewards


def test_a_shift_of_chosen_arms_is_that_of_halves_and_of_what_shares_let_through() -> None:
    """T = (1 - c) L - c E - sum (c_a - c)(E_a + L_a), E and L the noise around the true means."""
    rng, means = np.random.default_rng(8), np.array([0.2, 0.5, 0.7, 0.4])
    n, m = np.array([50, 40, 0, 30]), np.array([30, 80, 20, 0])
    ones = [rng.binomial(pulls, means).astype(float) for pulls in (n, m)]
    early, late = (clicks(p.tolist(), x.tolist()) for p, x in zip((n, m), ones, strict=True))
    E, L = ones[0] - n * means, ones[1] - m * means
    part, parts = m.sum() / (n + m).sum(), m / (n + m)
    found = shift_of_chosen(early, late)
    expected = (1 - part) * L.sum() - part * E.sum() - ((parts - part) * (E + L)).sum()
    assert found.total == pytest.approx(expected)
    variance = variance_of_arms(early, late)
    assert found.variance == pytest.approx((variance * ((1 - part) ** 2 * m + part**2 * n)).sum())


def test_what_shares_let_through_is_bounded_whoever_stops() -> None:
    """One arm, whose weighted noise is looked at after each of 3000 pulls, and told at its worst.

    It is beyond the bound for .1 in at most a tenth of 2000 runs (and five standard errors: false alarm
    3e-7). The bound is used up: without log(1 + N / r), or at four fifths of it, there would be far more.
    """
    rng, runs = np.random.default_rng(9), 2000
    pulls = np.arange(1.0, 3001.0)
    bound = np.array([most_noise(np.ones(1), np.array([n]), np.ones(1), 0.1) for n in pulls])
    beyond = np.zeros(3)
    for _ in range(runs):
        noise = np.abs(rng.standard_normal(pulls.size).cumsum())
        without = np.sqrt((pulls + 10) * 2 * np.log(3 / 0.1))
        for place, most in enumerate((bound, 0.8 * bound, without)):
            beyond[place] += (noise > most).any()
    assert beyond[0] <= 0.1 * runs + 5 * (0.09 * runs) ** 0.5
    assert (beyond[1:] > beyond[0] + 5 * beyond[0] ** 0.5).all(), beyond


def test_many_arms_share_what_their_noise_may_be() -> None:
    """Twenty arms, each pulled until its noise is 1.5 deviations large, or 400 times, and the worst weights
    there are. Beyond the bound for .1 in at most one of ten of 300 runs (false alarm 1e-6), and in most
    of them beyond what a sum of noise that nobody chose would be."""
    rng, k, most = np.random.default_rng(10), 20, 400
    beyond, normal = 0, 0
    for _ in range(300):
        noise = rng.standard_normal((k, most)).cumsum(axis=1)
        large = np.abs(noise) > 1.5 * np.sqrt(np.arange(1, most + 1) + 10)
        pulls = np.where(large.any(axis=1), large.argmax(axis=1), most - 1)
        sums = np.abs(noise[np.arange(k), pulls])
        weights = sums / (pulls + 11.0)
        total = (weights * sums).sum()
        beyond += total > most_noise(weights, pulls + 1.0, np.ones(k), 0.1)
        normal += total > 1.64 * (weights**2 * (pulls + 1)).sum() ** 0.5
    assert beyond <= 30 + 5 * 27**0.5 and normal > 250


@pytest.mark.parametrize("late", [0.001, 0.004])
def test_many_arms_of_few_clicks_are_tested_together_where_shares_changed(late: float) -> None:
    """An arm with one click tells nothing: all together they do, as where shares stayed.

    Whatever choosing may have made of so many arms is taken off: that takes 80,000 rows of each half.
    """
    rng, k = np.random.default_rng(3), 300
    shares = 1 + 0.5 * rng.choice([-1.0, 1.0], k)
    arms = rng.integers(0, k, 80_000), rng.choice(k, 80_000, p=shares / shares.sum())
    halves = [
        Offline.from_rows(part, (rng.random(part.size) < chance).astype(float), k=k)
        for part, chance in zip(arms, (0.004, late), strict=True)
    ]
    found = find_drift(*halves)
    assert found is not None and found.adaptive and found.arms.size == k
    assert found.rejected == (late == 0.001)


def test_arms_that_fall_together_are_found_though_their_shares_changed() -> None:
    alarms = UNSTEADY["other shares, clicks 56 %, all fall by 8 points"]
    assert alarm_rate(alarms, 10) == 1.0


def test_shares_that_turned_over_leave_nothing_to_tell() -> None:
    early = clicks([500, 500, 1, 1], [300.0, 300.0, 0.0, 1.0])
    late = clicks([1, 1, 500, 500], [0.0, 1.0, 200.0, 200.0])
    assert shift_of_chosen(early, late).p == 1.0
    same = clicks([500, 500], [250.0, 250.0])
    assert shift_of_chosen(same, same).p == 1.0
    fell = shift_of_chosen(same, clicks([500, 500], [150.0, 150.0]))
    assert fell.p == pytest.approx(2 * min(DELTAS), rel=0.01), "shares are the same: beyond any bound"
