"""The statistics of a log with contexts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import Moments

GOOD: dict[str, Any] = {
    "count": 2,
    "gram": [[2.0, 1.0], [1.0, 1.0]],
    "reward_vector": [1.0, 0.5],
    "reward_sum": 1.0,
    "reward_squares": 1.0,
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "half a row": ({"count": 1.5}, "count must be a whole number >= 0, got 1.5"),
    "below 0": ({"count": -1}, "count must be a whole number >= 0"),
    "no rows": ({"count": 0}, "count must be at least 1 where the sums are not 0"),
    "flat": ({"gram": [1.0, 2.0]}, "gram must have 2 dimension"),
    "oblong": ({"gram": [[1.0, 0.0]]}, "gram must be square"),
    "lopsided": ({"gram": [[1.0, 0.5], [0.0, 1.0]]}, "gram must be symmetric"),
    "negative": ({"gram": [[1.0, 2.0], [2.0, 1.0]]}, "gram must be positive semidefinite"),
    "not finite": ({"gram": [[np.inf, 0.0], [0.0, 1.0]]}, "gram must be finite"),
    "too large": ({"gram": [[1e201, 0.0], [0.0, 1.0]]}, "gram must have entries of at most"),
    "three": ({"reward_vector": [1.0, 0.5, 0.0]}, "reward_vector must have 2 entries"),
    "silent": ({"gram": [[2.0, 0.0], [0.0, 0.0]]}, "reward_vector must be 0 where gram is"),
    "nan": ({"reward_sum": np.nan}, "reward_sum must be finite"),
    "word": ({"reward_squares": "one"}, "reward_squares must be a number"),
    "small squares": ({"reward_squares": 0.4}, "reward_squares must be at least 0.5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_sums_that_no_rows_can_have_are_refused_in_one_sentence(name: str) -> None:
    change, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        Moments(**(GOOD | change))


def test_they_are_the_sums_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    rows, rewards = rng.normal(size=(50, 3)), rng.normal(size=50)
    log = Moments.from_rows(rows, rewards)
    np.testing.assert_allclose(log.gram, sum(np.outer(x, x) for x in rows))
    np.testing.assert_allclose(log.reward_vector, sum(y * x for x, y in zip(rows, rewards, strict=True)))
    assert (log.count, log.d) == (50, 3)
    assert log.reference == pytest.approx(rewards.mean())
    fit = np.linalg.lstsq(rows, rewards, rcond=None)
    assert log.residuals() == (pytest.approx(float(fit[1][0])), 47)
    assert log == Moments.from_rows(rows.tolist(), rewards.tolist())
    assert log != Moments.from_rows(rows, -rewards)


def test_logs_merge() -> None:
    rng = np.random.default_rng(1)
    rows, rewards = rng.normal(size=(30, 2)), rng.normal(size=30)
    parts = Moments.from_rows(rows[:10], rewards[:10]) + Moments.from_rows(rows[10:], rewards[10:])
    whole = Moments.from_rows(rows, rewards)
    np.testing.assert_allclose(parts.gram, whole.gram)
    assert parts.count == 30
    assert parts.reward_squares == pytest.approx(whole.reward_squares)
    assert whole + Moments.empty(2) == whole
    unknown = Moments(count=1, gram=np.eye(2), reward_vector=[0, 0], reward_sum=0)
    assert (whole + unknown).reward_squares is None
    assert unknown.residuals() == (0.0, 0.0)
    with pytest.raises(ValueError, match="logs must have the same features, got 2 and 3"):
        whole + Moments.empty(3)


def test_a_few_rows_stand_for_all() -> None:
    rng = np.random.default_rng(2)
    base = rng.normal(size=(2, 5))
    rows = rng.normal(size=(100, 2)) @ base  # of rank 2
    log = Moments.from_rows(rows, rng.normal(size=100))
    few, outcomes = log.as_rows()
    assert few.shape == (2, 5)
    np.testing.assert_allclose(few.T @ few, log.gram, atol=1e-10)
    np.testing.assert_allclose(few.T @ outcomes, log.reward_vector, atol=1e-10)
    assert Moments.empty(4).as_rows()[0].shape == (0, 4)


def test_they_cannot_be_changed() -> None:
    rows = np.eye(2)
    log = Moments.from_rows(rows, [1.0, 0.0])
    rows[:] = 7
    assert log.gram.tolist() == [[1, 0], [0, 1]]
    for array in (log.gram, log.reward_vector):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    assert np.isnan(Moments.empty(1).reference)
    with pytest.raises(ValueError, match="rewards must have one entry per row"):
        Moments.from_rows(np.eye(2), [1.0])
