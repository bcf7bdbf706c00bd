"""The shift that arms have in common: its law is exact, and it is found where single arms show nothing."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.audit_worlds import UNSTEADY, alarm_rate

from linoto.audit.common_shift import EXACT_UNTIL, common_shift, exact_p
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
