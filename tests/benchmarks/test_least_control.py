"""How few control rounds could do: the bound against the best test there is of two coins."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import least_control

        yield least_control
    finally:
        sys.path.remove(str(BENCHMARKS))


def most_likely_explored(seen: int, practice: float, other: float, delta: float) -> float:
    """How likely the best rule explores where practice earns little, if in the other world it may by delta.

    By Neyman and Pearson it explores where few of the rewards that were seen are 1, at one number by chance.
    """
    power, left = 0.0, delta
    for clicks in range(seen + 1):
        there = float(binom.pmf(clicks, seen, other))
        if there >= left:
            return power + left / there * float(binom.pmf(clicks, seen, practice))
        power, left = power + float(binom.pmf(clicks, seen, practice)), left - there
    return power


@pytest.mark.parametrize(
    ("practice", "explored", "budget", "rounds"),
    [(0.15, 0.41, 26.0, 1045), (0.27, 0.49, 37.0, 832), (0.5, 0.55, 50.0, 5000), (0.02, 0.03, 5.0, 20_000)],
)
def test_with_fewer_no_rule_can_tell_the_two_worlds_apart(
    bench: Any, practice: float, explored: float, budget: float, rounds: float
) -> None:
    """And with five times as many the best one can."""
    least, other = bench.least_rounds(practice, explored, budget, rounds), explored + budget / rounds
    assert least > 5
    assert most_likely_explored(int(least), practice, other, bench.DELTA) < 1 - bench.MISSED
    assert most_likely_explored(int(5 * least), practice, other, bench.DELTA) > 1 - bench.MISSED


def test_nothing_has_to_be_told_where_practice_is_no_worse(bench: Any) -> None:
    assert bench.least_rounds(0.4, 0.3, 5.0, 100) == 0
    assert bench.least_rounds(0.4, 0.9, 50.0, 100) == 0, "the budget pays for the worst there is"
