"""Arms that changed are found, and steady ones called unsteady no more often than once in a hundred logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.audit_logs import ACTIONS, PULLS, THETA, K, draw_log
from helpers.chance import most
from helpers.selection import sizes

from linoto import audit_log, read_log
from linoto.audit.drift import find_drift
from linoto.core.arrays import Floats, Ints
from linoto.core.offline import Offline
from linoto.logs.many_tests import holm


@pytest.mark.parametrize("worlds", sizes(400, 2000))
def test_the_test_of_drift_keeps_its_size(worlds: int) -> None:
    """Steady worlds: by chance there are too many at 0.01 once in 30,000, and too many or too few at 0.05
    once in 10,000."""
    found = []
    for seed in range(worlds):
        halves = (draw_log(ACTIONS @ THETA, PULLS, [seed, half]) for half in (0, 1))
        found.append(find_drift(*halves))
    assert sum(drift is not None and drift.rejected for drift in found) <= most(worlds, 0.01, 3e-5)
    overall = np.array([drift.overall for drift in found if drift is not None])
    assert worlds - most(worlds, 0.95, 5e-5) <= (overall < 0.05).sum() <= most(worlds, 0.05, 5e-5)


def halves(k: int, rows: int, draw: Callable[[np.random.Generator, Ints], Floats]) -> Any:
    """Two halves of uniform pulls, as a function of a generator."""

    def drawn(rng: np.random.Generator) -> list[Offline]:
        arms = [rng.integers(0, k, rows) for _ in range(2)]
        return [Offline.from_rows(half, draw(rng, half), k=k) for half in arms]

    return drawn


def one_each(k: int, extra: int) -> Any:
    """Every arm once in each half, and one arm a few times more."""

    def drawn(rng: np.random.Generator) -> list[Offline]:
        arms = [np.append(np.arange(k), np.zeros(extra, int)), np.arange(k)]
        return [Offline.from_rows(half, rng.standard_normal(half.size), k=k) for half in arms]

    return drawn


def clicks(k: int, early: int, late: int, chance: float) -> Any:
    """0/1 rewards, as many pulls of every arm in a half."""

    def drawn(rng: np.random.Generator) -> list[Offline]:
        ones = [rng.binomial(n, chance, k).astype(float) for n in (early, late)]
        return [
            Offline(pulls=np.full(k, n), reward_sums=x, reward_squares=x)
            for n, x in zip((early, late), ones, strict=True)
        ]

    return drawn


LOUDNESS = np.exp(np.random.default_rng(0).standard_normal(50))  # standard deviations of arms: 0.1 to 10
STEADY = {
    "one pull each and one more": one_each(100, 1),
    "one pull each and ten more": one_each(100, 10),
    "ten rows, ten arms": halves(10, 10, lambda rng, arms: rng.standard_normal(arms.size)),
    "few Gaussian rows": halves(100, 100, lambda rng, arms: rng.standard_normal(arms.size)),
    "many Gaussian rows": halves(20, 2000, lambda rng, arms: rng.standard_normal(arms.size)),
    "arms of unequal noise": halves(50, 150, lambda rng, arms: rng.normal(0, LOUDNESS[arms])),
    "unequal noise, more rows": halves(50, 400, lambda rng, arms: rng.normal(0, LOUDNESS[arms])),
    "skewed rewards": halves(50, 150, lambda rng, arms: rng.exponential(size=arms.size)),
    "very skewed rewards": halves(50, 150, lambda rng, arms: rng.lognormal(0, 1.5, arms.size)),
    "stars": halves(
        50, 150, lambda rng, arms: rng.choice([1.0, 3.0, 4.0, 5.0], arms.size, p=[0.05, 0.1, 0.25, 0.6])
    ),
    "rare clicks": clicks(100, 100, 100, 0.01),
    "rare clicks, unequal halves": clicks(100, 10, 1000, 0.01),
    "clicks, unequal halves": clicks(50, 1000, 3000, 0.08),
}


def false_alarms(drawn: Any, worlds: int) -> int:
    """How many steady logs are called unsteady."""
    found = (find_drift(*drawn(np.random.default_rng([7, world]))) for world in range(worlds))
    return sum(drift is not None and drift.rejected for drift in found)


@pytest.mark.parametrize("world", STEADY)
@pytest.mark.few(4)
def test_steady_arms_are_called_unsteady_once_in_a_hundred_logs(world: str) -> None:
    """A binomial(200, 0.01) exceeds 10 with probability 7e-6, for each of thirteen worlds. Against one pooled
    scatter, the second world raised 15 % false alarms, the two of unequal noise 50 %."""
    assert false_alarms(STEADY[world], 200) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("world", STEADY)
def test_steady_arms_are_called_unsteady_once_in_a_hundred_logs_of_many(world: str) -> None:
    """A binomial(2000, 0.01) exceeds 40 with probability 3e-5."""
    assert false_alarms(STEADY[world], 2000) <= 40


def test_many_moves_of_rarely_pulled_arms_are_found_together() -> None:
    """Each of 50 arms, pulled three times a half, moves by a standard deviation: found in 85 % of 4000
    worlds, and in fewer than 60 of 100 with probability 1e-9. Halved clicks of 20 arms: always, in 300."""
    drawn, found = halves(50, 150, lambda rng, arms: rng.standard_normal(arms.size)), 0
    for seed in range(100):
        early, late = drawn(np.random.default_rng([8, seed]))
        assert late.reward_squares is not None
        moved = Offline(
            pulls=late.pulls,
            reward_sums=late.reward_sums + late.pulls,
            reward_squares=late.reward_squares + 2 * late.reward_sums + late.pulls,
        )
        drift = find_drift(early, moved)
        found += drift is not None and drift.rejected
    assert found >= 60
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        (early, _), (_, late) = clicks(20, 1000, 1000, 0.02)(rng), clicks(20, 1000, 1000, 0.01)(rng)
        drift = find_drift(early, late)
        assert drift is not None and drift.rejected


def test_clicks_too_rare_for_any_arm_show_a_common_drop() -> None:
    """100 arms with two clicks each in 100 pulls, then a fifth of them: 200 clicks and 40 expected, where a
    level of 0.005 needs a gap of about 45."""
    for seed in range(20):
        rng = np.random.default_rng([10, seed])
        (early, _), (_, late) = clicks(100, 100, 100, 0.02)(rng), clicks(100, 100, 100, 0.004)(rng)
        drift = find_drift(early, late)
        assert drift is not None and drift.overall < 1e-6


def test_clicks_of_an_arm_are_held_against_a_binomial() -> None:
    """Given seven clicks in all, as many early as a coin says; zeros count where they are rarer."""
    from scipy.stats import binom, combine_pvalues

    early, late = (
        Offline(pulls=n, reward_sums=x, reward_squares=x)
        for n, x in (([100, 50], [6.0, 49.0]), ([200, 100], [1.0, 92.0]))
    )
    drift = find_drift(early, late)
    coin = [(6, binom(7, 1 / 3)), (1, binom(9, 1 / 3))]
    middle = [coin.cdf(x) - coin.pmf(x) / 2 for x, coin in coin]
    exact = [2 * min(coin.cdf(x), coin.sf(x - 1)) for x, coin in coin]
    assert drift is not None
    assert drift.overall == pytest.approx(combine_pvalues([2 * min(p, 1 - p) for p in middle]).pvalue)
    assert drift.p == pytest.approx(holm(np.array(exact)))


def test_an_arm_is_held_against_its_own_scatter() -> None:
    """A quiet arm moves by eight of its own standard errors, a twentieth of a loud arm's."""
    noise = np.where(np.arange(K) == 3, 0.01, 1.0)
    arms = np.repeat(np.arange(K), 100)
    for seed in range(20):
        rng = np.random.default_rng([11, seed])
        rewards = noise[arms] * rng.standard_normal((2, arms.size))
        rewards[1] += np.where(arms == 3, 8 * 0.01 * np.sqrt(2 / 100), 0.0)
        drift = find_drift(*(Offline.from_rows(arms, half, k=K) for half in rewards))
        assert drift is not None and drift.moved[0] == 3


def test_arms_without_any_noise_are_compared_exactly() -> None:
    pulls = np.full(K, 20)
    early, moved = np.full(K, 0.7), np.full(K, 0.7) + (np.arange(K) == 4) * 1e-3
    still, late = (
        Offline(pulls=pulls, reward_sums=20 * mu, reward_squares=20 * mu**2) for mu in (early, moved)
    )
    same, other = find_drift(still, still), find_drift(still, late)
    assert same is not None and same.overall == 1.0 and not same.rejected
    assert other is not None and other.moved.tolist() == [4]


def test_one_arm_that_moved_is_found_and_named() -> None:
    """A move of six standard errors, found and nothing else in 98 % of 2000 worlds: 40 of 50 are asked for,
    and fewer have probability below 1e-6."""
    pulls = np.full(K, 100)
    moved = ACTIONS @ THETA + np.where(np.arange(K) == 7, 6 * 0.4 * np.sqrt(2 / 100), 0)
    hits = 0
    for seed in range(50):
        drift = find_drift(draw_log(ACTIONS @ THETA, pulls, [seed, 0]), draw_log(moved, pulls, [seed, 1]))
        assert drift is not None
        hits += drift.moved.tolist() == [7]
    assert hits >= 40


def test_a_single_arm_of_both_halves_is_one_arm() -> None:
    table = pd.DataFrame({"arm": ["a"] * 30 + ["b"] * 30, "reward": [0.0, 1.0, 0.0] * 20})
    table.loc[::7, "arm"] = "b"
    facts = dict(audit_log(read_log(table, item="arm", reward="reward")).facts())
    assert " over 1 arm (" in facts["steady?"]


def test_many_small_moves_are_found_together() -> None:
    """Each arm moves by two standard errors: all together are below 1e-4 in 99.8 % of 2000 worlds, so that
    fewer than 18 of 20 have probability 4e-6."""
    pulls = np.full(K, 100)
    moved = ACTIONS @ THETA + 2 * 0.4 * np.sqrt(2 / 100)
    found = 0
    for seed in range(20):
        drift = find_drift(draw_log(ACTIONS @ THETA, pulls, [seed, 0]), draw_log(moved, pulls, [seed, 1]))
        found += drift is not None and drift.overall < 1e-4
    assert found >= 18


def test_holm_never_calls_more_than_bonferroni_would_miss() -> None:
    p = np.array([0.001, 0.02, 0.02, 0.9])
    adjusted = holm(p)
    assert (adjusted >= p).all() and (adjusted <= np.minimum(4 * p, 1)).all()
    assert adjusted[0] == pytest.approx(0.004)


@pytest.mark.parametrize("context", [{}, {"numeric": ["age"]}], ids=["arms", "contexts"])
def test_a_log_of_one_moment_says_why_it_has_no_halves(context: Any) -> None:
    """It said that no arm was pulled in both halves, or that contexts hide what changed."""
    rng = np.random.default_rng(0)
    table = {"item": np.arange(300) % 3, "reward": rng.integers(2, size=300), "age": rng.normal(size=300)}
    frame = pd.DataFrame({**table, "day": "2024-06-01"})
    for time, why in ((None, None), ("day", "no row is early, by day before 2024-06-01 00:00:00 UTC")):
        audit = audit_log(read_log(frame, item="item", reward="reward", time=time, **context))
        told = [text for name, text in audit.facts() if name == "steady?"]
        assert (told == [f"cannot tell: {why}"]) == (why is not None)
