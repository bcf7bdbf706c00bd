"""What estimates of one target say of the propensities."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from helpers.logged_rows import TARGET, logged

from linoto.logs.doubts import doubts_of
from linoto.logs.estimates import Interval
from linoto.logs.evaluate import evaluate, ips
from linoto.logs.rows import Rows

EVEN = np.full(3, 1 / 3)
LOOSE = Interval(level=0.5)


@pytest.mark.parametrize(
    "errors, told", [(0.0, False), (2.9, False), (-2.9, False), (3.2, True), (-4.5, True)]
)
def test_weights_that_hardly_average_1_are_told(errors: float, told: bool) -> None:
    """Ten thousand rows of two arms that both were called 1/2: weights average 1 + errors / 100."""
    n = 10_000
    played = round(n / 2 * (1 + errors / sqrt(n)))
    rows = Rows(arms=np.repeat([0, 1], [played, n - played]), rewards=np.ones(n), k=2, propensities="uniform")
    found = ips(rows, 0)
    assert found.weights_fit
    doubts = doubts_of([found])
    assert len(doubts) == told
    if told:
        assert f"weights average {1 + errors / 100:.3g} instead of 1, {abs(errors):.2g} standard" in doubts[0]


def test_weights_that_do_not_fit_are_told_once() -> None:
    """Beyond five standard errors nothing is enough, and that says why."""
    rows = Rows(arms=np.repeat([0, 1], [6000, 4000]), rewards=np.ones(10_000), k=2, propensities="uniform")
    found = ips(rows, 0)
    assert not found.weights_fit and not found.enough and not doubts_of([found])


def amounts(n: int, seed: int, *, level: float, played: Any = EVEN, more: float = 0.0) -> Rows:
    """Rewards around a level, `more` for each next arm; propensities say that all were as likely."""
    rng = np.random.default_rng(seed)
    arms = rng.choice(3, size=n, p=played)
    return Rows(arms=arms, rewards=level + more * arms + rng.normal(size=n), k=3, propensities=EVEN[arms])


def test_methods_that_contradict_each_other_are_told() -> None:
    """`snips` divides by what weights are worth, `dr` adds what a model says: where arms were played in other
    shares than are said, they are about different mixtures."""
    rows = amounts(2000, 0, level=0.0, played=[0.5, 0.3, 0.2], more=2.0)
    found = evaluate(rows, [0.5, 0.0, 0.5])
    of = {each.method: each for each in found}
    assert of["snips"].high < of["dr"].low
    (text,) = [text for text in doubts_of(found) if "do not meet" in text]
    assert text.startswith("the intervals of snips ([") and " and dr ([" in text
    assert not any("meet" in text for text in doubts_of(evaluate(rows, [0.5, 0.0, 0.5], interval=LOOSE)))


@pytest.mark.parametrize("level", [0.0, 10.0, 1000.0])
def test_a_sound_log_of_amounts_raises_few_doubts(level: float) -> None:
    """Mean weights beyond three standard errors: one in 370; of 100 logs 5 or more with probability 1e-5.
    Of intervals that do not meet there was none in 1,200 such logs."""
    told = [doubts_of(evaluate(amounts(600, seed, level=level), [0.0, 0.5, 0.5])) for seed in range(100)]
    assert sum(map(bool, told)) <= 4 and not any("meet" in text for texts in told for text in texts)


def test_a_sound_log_of_clicks_raises_few_doubts() -> None:
    """The same of 200 logs: 7 or more with probability 2e-6."""
    assert sum(bool(doubts_of(evaluate(logged(400, seed), TARGET))) for seed in range(200)) <= 6


@pytest.mark.parametrize("k, n, digits", [(7, 100_000, 10), (6, 1_000_000, 16)])
def test_weights_that_are_1_but_for_rounding_are_1(k: int, n: int, digits: int) -> None:
    arms = np.random.default_rng(0).integers(0, k, n)
    rows = Rows(arms=arms, rewards=np.ones(n), k=k, propensities=np.full(n, round(1 / k, digits)))
    assert doubts_of([ips(rows, np.full(k, 1 / k))]) == ()
