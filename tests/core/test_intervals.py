"""Intervals of bounded means: exact probabilities by enumeration, an independent binomial, and adversaries.

Statistical tests have a fixed seed and state their false-alarm rate: the probability that they would fail for
another seed although the law holds.
"""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.selection import sizes

from linoto.core.intervals import MeanSequence, betting_interval, mean_from_total

UNIT = (0.0, 1.0)


def tail(n: int, least: int, chance: float) -> float:
    """P(binomial(n, chance) >= least), term by term."""
    return sum(comb(n, s) * chance**s * (1 - chance) ** (n - s) for s in range(least, n + 1))


def sum_of(chances: Any) -> Any:
    """(n + 1,) the distribution of the sum of independent 0/1 rewards with these chances."""
    found = np.array([1.0])
    for chance in chances:
        found = np.convolve(found, [1 - chance, chance])
    return found


def covers(limits: tuple[float, float], mean: float) -> bool:
    return limits[0] <= mean <= limits[1]


# -- from a sum -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 7, 50, 400])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_binary_limits_are_where_a_binomial_leaves_alpha_in_its_tail(n: int, level: float) -> None:
    alpha = (1 - level) / 2
    for successes in {2, n // 3, n // 2, n - 2, n} - {0, 1}:
        low, high = mean_from_total(successes, n, level=level, binary=True)
        assert tail(n, successes, low) == pytest.approx(alpha, rel=1e-3)
        if successes < n - 1:
            assert 1 - tail(n, successes + 1, high) == pytest.approx(alpha, rel=1e-3)


def test_limits_never_lie_inside_those_that_were_searched_for() -> None:
    """The search stops on the safe side: the tail is at most alpha."""
    for n, successes in ((30, 2), (300, 40), (1000, 999)):
        low, high = mean_from_total(successes, n, binary=True)
        assert tail(n, successes, low) <= 0.025 * (1 + 1e-9)
        assert 1 - tail(n, successes + 1, high) <= 0.025 * (1 + 1e-9)


def test_nothing_seen_and_everything_seen_have_closed_forms() -> None:
    for n in (1, 10, 127, 100_000):
        for binary in (True, False):
            low, high = mean_from_total(0, n, binary=binary)
            assert low == 0 and high == pytest.approx(1 - 0.025 ** (1 / n), rel=1e-3)
            low, high = mean_from_total(n, n, binary=binary)
            assert high == 1 and 1 - low == pytest.approx(1 - 0.025 ** (1 / n), rel=1e-3)
    assert mean_from_total(1, 500, binary=True)[0] == pytest.approx(0.025 / 500, rel=1e-3)


CHANCES = {
    "equal": lambda n, rng: np.full(n, 0.1),
    "rare": lambda n, rng: np.full(n, 0.0251 / n),
    "all in one": lambda n, rng: np.where(np.arange(n) == 0, 0.0252, 0.0),
    "scattered": lambda n, rng: np.minimum(0.2 * rng.exponential(size=n), 1.0),
    "sure or never": lambda n, rng: (rng.random(n) < 0.3).astype(float),
    "halves": lambda n, rng: np.where(np.arange(n) % 2 == 0, 0.004, 0.9),
}


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("chances", list(CHANCES))
def test_the_average_chance_of_unequal_coins_is_covered_exactly(chances: str, binary: bool) -> None:
    """Coverage is computed, not simulated."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 20, 60):
        limits = [mean_from_total(successes, n, level=0.9, binary=binary) for successes in range(n + 1)]
        for _ in range(10):
            coins = CHANCES[chances](n, rng)
            covered = [covers(found, coins.mean()) for found in limits]
            assert sum_of(coins) @ covered >= 0.9 - 1e-9


def test_rewards_between_the_ends_are_covered_exactly() -> None:
    """Rewards of 0, 1/2 and 1 with different chances: their sum in halves, by convolution."""
    rng = np.random.default_rng(1)
    for n in (1, 3, 12, 40):
        limits = [mean_from_total(half / 2, n, level=0.9) for half in range(2 * n + 1)]
        for _ in range(20):
            chances = rng.dirichlet([1.0, 0.3, 0.2], size=n)
            total = np.array([1.0])
            for row in chances:
                total = np.convolve(total, row)
            mean = float((chances @ [0, 0.5, 1]).mean())
            assert total @ [covers(found, mean) for found in limits] >= 0.9 - 1e-9


def test_a_sum_alone_costs_at_most_a_fifth_more_width_than_clopper_and_pearson() -> None:
    for n in (5, 200, 8000, 1_000_000):
        for successes in {0, 1, 2, 5, 30, 180, n // 250, n // 25, n // 2} - set(range(n, 200)):
            exact = mean_from_total(successes, n, binary=True)
            by_sum = mean_from_total(successes, n)
            assert by_sum[0] <= exact[0] and exact[1] <= by_sum[1]
            assert by_sum[1] - by_sum[0] <= 1.2 * (exact[1] - exact[0])


def test_ranges_are_scaled_and_rounding_is_forgiven() -> None:
    low, high = mean_from_total(-10 + 5 * 3, 10, reward_range=(-1, 4))
    unit = mean_from_total(3, 10)
    assert (low, high) == pytest.approx((-1 + 5 * unit[0], -1 + 5 * unit[1]))
    assert mean_from_total(sum([0.1] * 30), 30, reward_range=(0, 0.1))[1] == pytest.approx(0.1)


# -- from rows --------------------------------------------------------------------------------------------


def misses(rows: list[tuple[float, float, float]], n: int, level: float) -> tuple[float, float]:
    """The exact probability that the interval of n rows lies above v, and below; rows are (chance, x, w)."""
    value = sum(p * x * w for p, x, w in rows) / sum(p * w for p, _, w in rows)
    above = below = 0.0
    ceiling = max(w for _, _, w in rows)
    for drawn in product(rows, repeat=n):
        chance, x, w = (np.array(part) for part in zip(*drawn, strict=True))
        low, high = betting_interval(x, weights=w, ceiling=ceiling, level=level)
        above, below = above + chance.prod() * (low > value), below + chance.prod() * (high < value)
    return above, below


@pytest.mark.parametrize(
    "rows",
    [
        [(0.7, 0.0, 1.0), (0.3, 1.0, 1.0)],
        [(0.5, 0.1, 1.0), (0.4, 0.3, 1.0), (0.1, 1.0, 1.0)],
        [(0.5, 0.0, 0.5), (0.2, 1.0, 0.5), (0.2, 0.0, 3.0), (0.1, 1.0, 3.0)],
        [(0.6, 0.5, 0.0), (0.3, 0.0, 2.5), (0.1, 1.0, 2.5)],
    ],
)
def test_betting_misses_with_at_most_alpha_on_each_side_exactly(
    rows: list[tuple[float, float, float]],
) -> None:
    """Every outcome of up to five rows is listed."""
    for n in (1, 2, 3, 5) if len(rows) < 3 else (1, 2, 3):
        for level in (0.5, 0.8):
            assert max(misses(rows, n, level)) <= (1 - level) / 2 + 1e-9


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    x, w = rng.random(300) ** 3, rng.choice([0.0, 0.5, 4.0], 300)
    shuffled = rng.permutation(300)
    first = betting_interval(x, weights=w, ceiling=4.0)
    assert betting_interval(x[shuffled], weights=w[shuffled], ceiling=4.0) == first
    assert betting_interval(np.sort(x)) == betting_interval(x)


def test_betting_knows_how_little_rewards_scatter() -> None:
    rng = np.random.default_rng(3)
    calm = 0.5 + 0.01 * rng.standard_normal(1000)
    low, high = betting_interval(calm)
    assert low < 0.5 < high
    assert high - low < 0.15 * np.subtract(*mean_from_total(float(calm.sum()), 1000)[::-1])


def test_an_interval_holds_its_mean_and_grows_with_its_level() -> None:
    rng = np.random.default_rng(4)
    for n in (1, 5, 400):
        x, w = rng.random(n) ** 4, rng.exponential(size=n)
        value, ceiling = float(w @ x / w.sum()), float(w.max())
        stream = MeanSequence.of(x, reward_range=UNIT)
        last: Any = {}
        for level in (0.5, 0.9, 0.99, 0.999999):
            found = {
                "bets": (betting_interval(x, level=level), x.mean()),
                "weighted": (betting_interval(x, weights=w, ceiling=ceiling, level=level), value),
                "sum": (mean_from_total(float(x.sum()), n, level=level), x.mean()),
                "stream": (stream.interval(level), x.mean()),
            }
            for name, ((low, high), mean) in found.items():
                assert 0 <= low <= mean <= high <= 1
                assert name not in last or (low <= last[name][0] and last[name][1] <= high)
                last[name] = (low, high)


def test_rare_events_and_huge_numbers_are_found() -> None:
    """A millionth of a million, and ten million rows by their sum."""
    low, high = betting_interval(np.array([1.0] + [0.0] * 999_999))
    assert 0 < low < 1e-6 < high < 1e-5
    low, high = mean_from_total(5_000_000, 10_000_000, binary=True)
    assert (high - low) / 2 == pytest.approx(1.959964 * 0.5 / 10_000_000**0.5, rel=1e-3)


# -- from a sum and squares -------------------------------------------------------------------------------

REWARDS: dict[str, Any] = {
    "calm": lambda rng, n: np.clip(0.5 + 0.05 * rng.standard_normal(n), 0, 1),
    "any": lambda rng, n: rng.random(n),
    "rare": lambda rng, n: np.where(rng.random(n) < 0.05, rng.random(n) ** 3, 0.0),
    "clicks": lambda rng, n: (rng.random(n) < 0.03).astype(float),
    "high": lambda rng, n: 1 - 0.2 * rng.random(n) ** 8,
}


def by_squares(x: Any, **options: Any) -> tuple[float, float]:
    return mean_from_total(float(x.sum()), x.size, squares=float(x @ x), **options)


@pytest.mark.parametrize("kind", REWARDS)
def test_no_rows_with_the_same_sum_and_squares_say_less(kind: str) -> None:
    """Fact 5: bets on the rows themselves never end wider, and 0/1 rewards get the exact interval. Half of
    the error is kept for rewards that turn out to be the other kind (fact 6)."""
    rng = np.random.default_rng(11)
    for n in (1, 7, 60, 900):
        x = REWARDS[kind](rng, n)
        low, high = by_squares(x)
        least, most = betting_interval(x, level=0.975)
        if np.isin(x, (0, 1)).all():
            assert (low, high) == mean_from_total(float(x.sum()), n, binary=True, level=0.975)
        else:
            assert low <= least + 1e-9 and most - 1e-9 <= high
        least, most = MeanSequence.of(x, reward_range=UNIT).interval()
        low, high = by_squares(x, adaptive=True)
        assert low <= least + 1e-9 and most - 1e-9 <= high


def test_squares_never_say_less_to_a_stream_than_a_sum() -> None:
    rng = np.random.default_rng(12)
    for draw in REWARDS.values():
        x = draw(rng, 400)
        low, high = mean_from_total(float(x.sum()), 400, adaptive=True)
        least, most = by_squares(x, adaptive=True)
        assert low - 1e-9 <= least <= x.mean() <= most <= high + 1e-9


@pytest.mark.parametrize("sums", sizes(300, 1000))
def test_an_interval_by_squares_covers_means_that_differ(sums: int) -> None:
    """Sums of rewards with different means at 90 %: by chance too few hold once in 30,000."""
    rng, held = np.random.default_rng(13), 0
    for _ in range(sums):
        means = rng.choice([0.02, 0.5], 50, p=[0.8, 0.2])
        x = rng.beta(2 * means, 2 * (1 - means))
        held += covers(by_squares(x, level=0.9), float(means.mean()))
    assert sums - held <= most(sums, 0.1, 3e-5)


def test_squares_make_intervals_about_as_narrow_as_rewards_are_calm() -> None:
    """As multiples of the normal interval at 5000 rows; by the sum alone they were 12, 2 and 4."""
    rng = np.random.default_rng(14)
    for kind, widest in {"calm": 2.4, "any": 1.7, "high": 2.6}.items():
        x = REWARDS[kind](rng, 5000)
        low, high = by_squares(x)
        assert 1 < (high - low) / (2 * 1.96 * x.std() / 5000**0.5) < widest
        wide = mean_from_total(float(x.sum()), 5000)
        assert high - low < 0.85 * (wide[1] - wide[0])


def test_squares_in_other_units_give_the_same_interval() -> None:
    x = REWARDS["rare"](np.random.default_rng(15), 700)
    y = 40 * x - 10
    low, high = mean_from_total(float(y.sum()), 700, squares=float(y @ y), reward_range=(-10, 30))
    assert ((low + 10) / 40, (high + 10) / 40) == pytest.approx(by_squares(x), rel=1e-6)
    with pytest.raises(ValueError, match=r"squares must be at least total\*\*2 / n"):
        mean_from_total(50, 100, squares=20)


# -- from a stream ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(REWARDS))
def test_no_zero_of_rewards_makes_an_interval_narrower(kind: str) -> None:
    """Far from 0 rounding hides how rewards scatter: that costs width, and never makes 0 and 1 of them."""
    x = REWARDS[kind](np.random.default_rng(9), 200)
    known = by_squares(x)
    for low in (-1e8, -1e6, -1e4, -1e2, -1.0, 1.0, 1e2, 1e4, 1e6, 1e8):
        y = low + x
        found = by_squares(y, reward_range=(low, low + 1))
        digits = 1e-9 + 1e-15 * abs(low)
        assert found[0] - low <= known[0] + digits
        assert found[1] - low >= known[1] - digits


def test_streams_merge_and_keep_as_little_as_they_began_with() -> None:
    rng = np.random.default_rng(5)
    rewards = rng.uniform(-1, 3, 1000)
    whole = MeanSequence.of(rewards, reward_range=(-1, 3))
    parts = MeanSequence.of(rewards[:1], reward_range=(-1, 3))
    for some in np.array_split(rewards[1:], 7):
        parts = parts + MeanSequence.of(some, reward_range=(-1, 3))
    assert parts.count == whole.count == 1000
    assert parts.logs.shape == MeanSequence.of([], reward_range=(-1, 3)).logs.shape
    assert np.allclose(parts.logs, whole.logs)
    assert parts.interval() == pytest.approx(whole.interval())
    assert MeanSequence.of([], reward_range=(-1, 3)).interval() == (-1, 3)


def test_a_sum_says_as_much_of_0_and_1_and_less_of_what_lies_between() -> None:
    rng = np.random.default_rng(6)
    clicks, shares = (rng.random(500) < 0.02).astype(float), rng.random(500)
    for rewards, same in ((clicks, True), (shares, False)):
        rows = MeanSequence.of(rewards, reward_range=UNIT).interval()
        by_sum = MeanSequence.from_total(float(rewards.sum()), 500, reward_range=UNIT).interval()
        assert by_sum == pytest.approx(rows) if same else by_sum[0] < rows[0] and rows[1] < by_sum[1]


def test_a_stream_costs_at_most_twice_the_width_of_a_fixed_number_of_rows() -> None:
    for n, clicks in ((200, 0), (1000, 4), (10_000, 40), (1_000_000, 4000), (1000, 500)):
        fixed = mean_from_total(clicks, n, binary=True)
        low, high = MeanSequence.from_total(clicks, n, reward_range=UNIT).interval()
        assert high - low <= 2 * (fixed[1] - fixed[0])


def adversary(rng: np.random.Generator, rounds: int) -> tuple[Any, Any]:
    """Rewards and their conditional means: arms of .5, .02 or 0, the last as soon as luck was good."""
    rewards, means = np.zeros(rounds), np.zeros(rounds)
    luck, spread = 0.0, 1e-9
    rich = rng.random() < 0.5
    for t in range(rounds):
        if luck > 1.8 * spread**0.5 and t > 20:
            break  # what follows earns nothing, for certain: the luck stays in the sum
        means[t] = 0.5 if rich and luck > 0 else 0.02
        rewards[t] = rng.random() < means[t]
        luck, spread = luck + rewards[t] - means[t], spread + means[t] * (1 - means[t])
    return rewards, means


@pytest.mark.parametrize("streams", sizes(50, 100))
@pytest.mark.few(0)
def test_a_stream_holds_at_every_time_against_an_adversary_who_stops_when_lucky(streams: int) -> None:
    """Streams at level 0.8, looked at 15 times each. The law allows 0.2 of them to miss at any look, by
    chance more once in a million; an interval for a fixed number of rows misses in far more."""
    rng = np.random.default_rng(7)
    looks = np.unique(np.geomspace(5, 2000, 15).astype(int))
    missed = {"stream": 0, "fixed": 0}
    for _ in range(streams):
        rewards, means = adversary(rng, 2000)
        totals, averages = np.cumsum(rewards), np.cumsum(means) / np.arange(1, 2001)
        for name, interval in (
            ("stream", lambda s, n: MeanSequence.from_total(s, n, reward_range=UNIT).interval(0.8)),
            ("fixed", lambda s, n: mean_from_total(s, n, level=0.8, binary=True)),
        ):
            found = (covers(interval(float(totals[n - 1]), int(n)), averages[n - 1]) for n in looks)
            missed[name] += not all(found)
    assert missed["stream"] <= most(streams, 0.2) < missed["fixed"]


# -- what is wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_from_total(3, 2), r"total must be the sum of 2 rewards in \(0.0, 1.0\), got 3"),
        (lambda: mean_from_total(0, 0), "n must be a whole number >= 1, got 0"),
        (lambda: mean_from_total(1, 2, level=1), r"level must be in \(0, 1\), got 1"),
        (lambda: betting_interval([]), "number of rewards must be a whole number >= 1, got 0"),
        (
            lambda: betting_interval([0.5, 2.0]),
            r"rewards must be in reward_range \(0.0, 1.0\), got \[0.5, 2\]",
        ),
        (lambda: betting_interval([0.5], weights=[2.0]), r"weights must be 1 numbers in \[0, 1\]"),
        (lambda: betting_interval([0.5], weights=[1.0, 1.0]), r"weights must be 1 numbers in \[0, 1\]"),
        (lambda: betting_interval([0.5], ceiling=0), "ceiling must be a positive number, got 0"),
        (
            lambda: MeanSequence.of([], reward_range=UNIT) + MeanSequence.of([], reward_range=(0, 2)),
            "streams must have the same reward_range",
        ),
        (lambda: MeanSequence.of([3.0], reward_range=UNIT), "rewards must be in reward_range"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_rewards_that_may_or_may_not_all_be_ends_are_covered_exactly() -> None:
    """Fact 6: rewards 0, h and 1, listed; and what either interval misses by itself adds up to the level."""
    rng = np.random.default_rng(14)
    for n in (1, 2, 4, 7):
        for h, level in product((0.01, 0.3, 0.9, 0.999), (0.5, 0.8)):
            law = rng.dirichlet([1.0, 0.2, 0.5])
            missed = dict.fromkeys(("ends", "between"), 0.0)
            for zeros, ones in product(range(n + 1), repeat=2):
                others = n - zeros - ones
                if others < 0:
                    continue
                chance = comb(n, zeros) * comb(n - zeros, ones) * law[0] ** zeros * law[1] ** others
                total, squares = ones + h * others, ones + h**2 * others
                found = mean_from_total(total, n, squares=squares, level=level)
                missed["between" if others else "ends"] += (
                    chance * law[2] ** ones * (not covers(found, float(law @ [0, h, 1])))
                )
            assert max(missed.values()) <= (1 - level) / 2 + 1e-9  # so that both together keep to the level


LOGS: dict[str, tuple[Any, tuple[float, float], float]] = {
    "clicks, 0.4 %": (lambda rng: (rng.random(500) < 0.004).astype(float), UNIT, 0.004),
    "revenue, mostly none": (
        lambda rng: np.where(rng.random(300) < 0.01, 1000 * rng.random(300), 0.0),
        (0.0, 1000.0),
        5.0,
    ),
    "orders of the tutorial": (
        lambda rng: (rng.random(600) < np.array([0.10, 0.15])[rng.integers(0, 2, 600)]).astype(float),
        UNIT,
        0.125,
    ),
}


@pytest.mark.parametrize("kind", LOGS)
def test_the_mean_of_a_log_is_covered_though_nobody_said_that_rewards_are_0_or_1(kind: str) -> None:
    """400 logs at 90 %: below 335 with probability 4e-5.

    One in twenty of those of revenue is all zeros: fewer than 5 or more than 40 with probability 3e-5."""
    draw, limits, mean = LOGS[kind]
    rng, held, ends = np.random.default_rng(15), 0, 0
    for _ in range(400):
        x = draw(rng)
        held += covers(by_squares(x, reward_range=limits, level=0.9), mean)
        ends += bool(np.isin(x, limits).all())
    assert held >= 335 and (5 <= ends <= 40 if kind.startswith("revenue") else ends == 400)
