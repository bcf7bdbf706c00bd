"""What estimates of one target say of the propensities."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from helpers.logged_rows import LOGGER, TARGET, logged

from linoto.logs.doubts import doubts_of
from linoto.logs.estimates import Interval
from linoto.logs.evaluate import doubly_robust, evaluate, ips
from linoto.logs.rows import Rows


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


def wrong(n: int) -> Rows:
    """Rows of a logger that played two arms more rarely than it says; every reward is about 1000."""
    rng = np.random.default_rng(3)
    arms = rng.choice(3, size=n, p=[0.38, 0.31, 0.31])
    said = np.array([1 / 3, 1 / 3, 1 / 3])
    return Rows(arms=arms, rewards=1000 + rng.normal(size=n), k=3, propensities=said[arms])


def test_methods_that_contradict_each_other_are_told() -> None:
    """`ips` loses a part of the rewards where weights fall short; the model of `dr` puts it back."""
    rows = wrong(600)
    found = [each for each in evaluate(rows, [0.0, 0.5, 0.5]) if each.method != "replay"]
    of = {each.method: each for each in found}
    assert all(each.weights_fit for each in found) and of["ips"].high < of["dr"].low
    text = doubts_of(found)[-1]
    assert text.startswith("the intervals of ips ([") and "do not meet" in text
    loose = Interval(level=0.5)
    unlikely = [
        ips(rows, [0.0, 0.5, 0.5], interval=loose),
        doubly_robust(rows, [0.0, 0.5, 0.5], interval=loose),
    ]
    assert unlikely[0].high < unlikely[1].low and not any(
        "do not meet" in each for each in doubts_of(unlikely)
    )


def test_a_log_by_its_own_propensities_raises_few_doubts() -> None:
    """Mean weights beyond three standard errors: one in 370; of 200 logs 7 or more with probability 2e-6.

    Intervals of 95 % about the same rows miss each other more rarely still."""
    told = sum(bool(doubts_of(evaluate(logged(400, seed), TARGET))) for seed in range(200))
    assert LOGGER.size == 3 and told <= 6
