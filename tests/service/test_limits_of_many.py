"""Limits that are computed for many loops at once: those of each loop alone, and on the safe side."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from math import inf, log
from typing import Any

import numpy as np
import pytest

from linoto.core.intervals import BETS, mean_from_total
from linoto.service.loops.limits import Kept, Line, Sum, alarm_values, mean_intervals
from linoto.service.loops.means import Earned
from linoto.service.loops.state import RewardTotals
from linoto.service.loops.watch import Scale, log_evidence

COUNTS = 1, 2, 7, 300, 20_000, 10**7
SHARES = 0.0, 1e-6, 0.004, 0.3, 0.5, 0.97, 1.0
SUMS = [Sum(n * share, n, n * share, (0.0, 1.0)) for n in COUNTS for share in SHARES]  # zeros and ones
SHIFTED = [Sum(4 * s.total - s.plays, s.plays, 16 * s.total, (-1.0, 3.0)) for s in SUMS]
NARROW = [  # a few percent around their mean
    Sum(n * share, n, n * share**2 * 1.01, (0.0, 1.0)) for n in COUNTS for share in (0.02, 0.3, 0.9)
]


def evidence_against(mean: float, share: float, n: int) -> float:
    """log of the average over bets of prod (1 + b x) / (1 + b m), by the sum of x alone."""
    logs = n * (share * np.log1p(BETS) - np.log1p(BETS * mean))
    return float(np.logaddexp.reduce(logs)) - log(BETS.size)


def test_intervals_of_many_sums_are_those_of_each_alone() -> None:
    sums = SUMS + SHIFTED + NARROW
    for each, found in zip(sums, mean_intervals(sums), strict=True):
        least = each.limits[0]
        squares = each.squares + 2 * least * each.total - each.plays * least**2  # of rewards themselves
        options: dict[str, Any] = {"squares": squares, "reward_range": each.limits}
        low, high = mean_from_total(each.total, each.plays, adaptive=True, **options)
        assert found == pytest.approx((low, high), abs=1e-4 * (high - low))
        assert mean_intervals([each])[0] == pytest.approx(found, rel=1e-9)
    assert mean_intervals([]) == []


@pytest.mark.parametrize("limits", [(0.0, 10.0), (-180.0, 60.0), (-1e6, -9e5), (1e6, 1e6 + 1), (0.0, 1e-9)])
@pytest.mark.parametrize("lost", [0, 7])
@pytest.mark.few(10)
def test_units_and_zero_of_rewards_move_intervals_and_nothing_else(
    limits: tuple[float, float], lost: int
) -> None:
    low, unit = limits[0], limits[1] - limits[0]
    plain, moved = RewardTotals(), RewardTotals()
    for place, x in enumerate(np.random.default_rng(2).beta(5, 5, 300).tolist()):
        value = 0.25 if place < lost else x
        for totals, reward in ((plain, value), (moved, low + unit * value)):
            totals.plays += 1
            totals.add(reward, default=place < lost)
    wanted = Earned(plain, (0.0, 1.0), lost, 0.25).interval
    found = Earned(moved, limits, lost, low + unit * 0.25).interval
    assert wanted is not None and found is not None
    scaled = [(end - low) / unit for end in found]
    assert scaled == pytest.approx(wanted, abs=1e-8)


def test_a_limit_is_a_mean_that_is_refuted_and_a_little_above_none_is() -> None:
    for each, (low, _) in zip(SUMS, mean_intervals(SUMS), strict=True):
        share = each.total / each.plays
        if low > 0:
            assert 0 < evidence_against(low, share, each.plays) - log(40) < 1e-6
        else:
            assert evidence_against(0.0, share, each.plays) < log(40) + 1e-8


def test_alarm_lines_of_many_loops_are_where_the_evidence_of_each_reaches_its_threshold() -> None:
    click, price = (
        Scale(low=0.0, high=1.0, noise=0.5, bounded=True),
        Scale(low=-inf, high=inf, noise=3.0, bounded=False),
    )
    lines = [
        Line(scale, threshold, plays, least * plays)
        for plays in (0, 5, 200, 50_000)
        for threshold in (log(100), log(1e4))
        for scale, least in ((click, 0.1), (price, 4.0), (click, 0.6))
    ]
    found = alarm_values(lines)
    alone = [alarm_values([line])[0] for line in lines]
    assert [value is None for value in alone] == [value is None for value in found]
    assert [v for v in alone if v is not None] == pytest.approx([v for v in found if v is not None], rel=1e-9)
    for line, value in zip(lines, found, strict=True):
        if value is not None:
            assert log_evidence(line.scale, value, line.plays, line.least) == pytest.approx(
                line.threshold, abs=1e-6
            )
        elif line.plays:
            assert log_evidence(line.scale, 0.0, line.plays, line.least) < line.threshold
    assert {line.plays for line, value in zip(lines, found, strict=True) if value is None} == {0, 5}


def test_what_is_known_is_not_computed_again_and_memory_is_bounded() -> None:
    asked: list[list[int]] = []

    def squares(numbers: list[int]) -> list[int]:
        asked.append(numbers)
        return [number**2 for number in numbers]

    square = Kept(squares, most=3)
    square.know([1, 2, 2, 3])
    assert [square(n) for n in (1, 2, 3, 4)] == [1, 4, 9, 16] and asked == [[1, 2, 3], [4]]
    square.know(range(10, 20))
    assert square(15) == 225 and len(asked) == 3
    for n in range(100):
        assert square(n) == n**2
    assert len(square._known) <= 4


def test_what_is_known_is_told_to_several_threads_at_once() -> None:
    """Rows of arms are made in threads while the loop of events looks at all loops."""
    square = Kept(lambda numbers: [number**2 for number in numbers], most=3)

    def ask(first: int) -> bool:
        return all(square(n % 11) == (n % 11) ** 2 for n in range(first, first + 20_000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(ask, range(4)))
    finally:
        sys.setswitchinterval(before)


def test_rewards_that_scatter_little_have_narrow_intervals() -> None:
    """By their sum alone a price that is always about a half could be zeros and ones."""
    for sure, rough in zip(NARROW, [each._replace(squares=each.total) for each in NARROW], strict=True):
        (low, high), (least, most) = mean_intervals([sure, rough])
        assert least <= low * (1 + 1e-9) and high <= most * (1 + 1e-9)
        if sure.plays >= 300:
            assert high - low < 0.5 * (most - least)
