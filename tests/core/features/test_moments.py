"""The statistics of a log with contexts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
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


# -- the same bits everywhere

OLDER_CORE = {"aarch64": "ARMV8", "arm64": "ARMV8", "x86_64": "Nehalem", "AMD64": "Nehalem"}
PRINTED_BITS = """
import hashlib
import numpy as np
from linoto.core.features.moments import Moments

rng = np.random.default_rng(4)
features = rng.integers(0, 5, (60, 21)).astype(float)  # sums of whole numbers: the same in any order
log = Moments.from_rows(features, rng.integers(0, 2, 60).astype(float))
rows, outcomes = log.as_rows()
print(hashlib.sha256(rows.tobytes() + outcomes.tobytes() + repr(log.residuals()).encode()).hexdigest())
"""


def test_rows_have_the_same_bits_with_other_linear_algebra() -> None:
    """A loop that is stored on one machine is replayed on another, whose library sums in another order."""
    cores = ("", OLDER_CORE.get(platform.machine(), ""))
    environments = [{**os.environ, **({"OPENBLAS_CORETYPE": core} if core else {})} for core in cores]
    found = {
        subprocess.run(
            [sys.executable, "-c", PRINTED_BITS], env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in environments
    }
    assert len(found) == 1


@pytest.mark.parametrize("d, n", [(1, 3), (6, 40), (12, 5), (30, 200)])
def test_rows_have_the_sums_of_the_log(d: int, n: int) -> None:
    rng = np.random.default_rng(d)
    features = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d)
    features[:, d // 2 :] = np.eye(d - d // 2)[rng.integers(0, d - d // 2, n)]  # one-hot: not of full rank
    features[:, 0] = 1.0
    rewards = rng.standard_normal(n)
    log = Moments.from_rows(features, rewards)
    rows, outcomes = log.as_rows()
    scale = np.sqrt(np.diag(log.gram))
    scale[scale == 0] = 1.0
    np.testing.assert_allclose(
        rows.T @ rows / np.outer(scale, scale), log.gram / np.outer(scale, scale), atol=1e-12
    )
    np.testing.assert_allclose(rows.T @ outcomes / scale, log.reward_vector / scale, atol=1e-12)
    assert len(rows) == np.linalg.matrix_rank(features / scale)


def test_logs_that_are_added_up_are_not_too_large_either() -> None:
    """What two logs sum to is not looked at again, but for its size: later steps would overflow."""
    log = Moments.from_rows([[1e100]], [1.0])
    with pytest.raises(ValueError, match="gram must have entries of at most 1e200, got 2e"):
        log + log
    assert not (Moments.from_rows([[1.0]], [1.0]) + Moments.empty(1)).gram.flags.writeable


@pytest.mark.parametrize("n", [400, 4000, 40_000])
def test_what_is_left_of_sums_of_many_rows_is_no_direction(n: int) -> None:
    """Items add up to the intercept, and their crosses to the number: two directions less than features."""
    rng = np.random.default_rng(n)
    age, item = rng.integers(18, 90, n) / 7.3, rng.integers(9, size=n)
    own = np.eye(9)[item]
    rows = np.column_stack([np.ones(n), age, own, own * age[:, None]])
    log = Moments.from_rows(rows, (rng.random(n) < 0.2) * 1.0)
    known, outcomes = log.as_rows()
    assert len(known) == 18 == np.linalg.matrix_rank(rows)
    assert np.abs(outcomes).max() < np.sqrt(n)
    np.testing.assert_allclose(known.T @ known, log.gram, atol=1e-9 * log.gram.max())
    np.testing.assert_allclose(known.T @ outcomes, log.reward_vector, atol=1e-9 * log.reward_vector.max())
    exact = np.linalg.pinv(log.gram, rcond=1e-9, hermitian=True) @ log.reward_vector
    np.testing.assert_allclose(np.linalg.lstsq(known, outcomes, rcond=None)[0], exact, atol=1e-6)


def test_a_direction_that_a_log_of_many_rows_knows_is_kept() -> None:
    """Beside an intercept: the seconds of one day in a million rows, and two years in ten million."""
    for column, count in ((1.7e9 + 86_400 * SPREAD, 10**6), (2025 + (SPREAD > 0.5), 10**7)):
        rows = np.column_stack([np.ones(2000), column])
        log = Moments.from_rows(rows, SPREAD > 0.3)
        times = count // 2000
        many = Moments(
            count=count,
            gram=log.gram * times,
            reward_vector=log.reward_vector * times,
            reward_sum=log.reward_sum * times,
        )
        assert len(many.as_rows()[0]) == len(many.leading(2).as_rows()[0]) == 2


SPREAD = np.random.default_rng(0).random(2000)
