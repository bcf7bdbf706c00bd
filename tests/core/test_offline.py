"""A log as per-arm statistics: a commutative monoid, owned and immutable, refused where it makes no sense."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from helpers.problems import LAWS
from hypothesis import given
from hypothesis import strategies as st

from linoto import Offline
from linoto.core.offline import as_offline
from linoto.core.validation import as_arm

K = 4
# Eighths add up without rounding, so that laws of sums hold to the last bit.
ROWS = st.lists(st.tuples(st.integers(0, K - 1), st.integers(-800, 800).map(lambda n: n / 8)), max_size=30)


def log_of(rows: list[tuple[int, float]]) -> Offline:
    return Offline.from_rows([arm for arm, _ in rows], [reward for _, reward in rows], k=K)


def without_squares(log: Offline) -> Offline:
    return Offline(pulls=log.pulls, reward_sums=log.reward_sums)


LOGS = st.one_of(ROWS.map(log_of), ROWS.map(log_of).map(without_squares))


# -- a monoid


@LAWS
@given(LOGS, LOGS, LOGS)
def test_merging_is_associative(a: Offline, b: Offline, c: Offline) -> None:
    assert (a + b) + c == a + (b + c)


@LAWS
@given(LOGS, LOGS)
def test_merging_is_commutative(a: Offline, b: Offline) -> None:
    assert a + b == b + a


@LAWS
@given(LOGS)
def test_an_empty_log_changes_nothing(a: Offline) -> None:
    assert a + Offline.empty(K) == a == Offline.empty(K) + a


@LAWS
@given(ROWS, ROWS)
def test_merging_logs_is_counting_all_their_rows(a: list[Any], b: list[Any]) -> None:
    assert log_of(a) + log_of(b) == log_of(a + b)


@LAWS
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[Any], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert log_of(rows) == log_of(shuffled)


@LAWS
@given(LOGS, LOGS)
def test_squares_are_known_only_where_both_logs_know_them(a: Offline, b: Offline) -> None:
    known = a.reward_squares is not None and b.reward_squares is not None
    assert ((a + b).reward_squares is not None) == known


def test_logs_over_other_arms_do_not_merge() -> None:
    with pytest.raises(ValueError, match="same arms, got 3 and 4"):
        Offline.empty(3) + Offline.empty(4)
    with pytest.raises(TypeError):
        Offline.empty(3) + 1  # type: ignore[operator]


# -- counting


@LAWS
@given(ROWS)
def test_a_log_of_rows_is_counted_arm_by_arm(rows: list[tuple[int, float]]) -> None:
    log = log_of(rows)
    for arm in range(K):
        rewards = [reward for other, reward in rows if other == arm]
        assert log.pulls[arm] == len(rewards)
        assert log.reward_sums[arm] == sum(rewards)
        assert log.reward_squares is not None
        assert log.reward_squares[arm] == sum(reward**2 for reward in rewards)
    assert log.total == len(rows)


@LAWS
@given(ROWS.filter(bool))
def test_the_reference_is_the_mean_reward(rows: list[tuple[int, float]]) -> None:
    assert log_of(rows).reference == pytest.approx(np.mean([reward for _, reward in rows]))


def test_an_empty_log_has_no_reference() -> None:
    assert np.isnan(Offline.empty(3).reference)
    assert Offline.from_rows([], [], k=3) == Offline.empty(3)


# -- owned and immutable


def test_a_log_owns_its_arrays() -> None:
    pulls, sums, squares = np.array([2, 1]), np.array([1.0, 0.5]), np.array([1.0, 0.25])
    log = Offline(pulls=pulls, reward_sums=sums, reward_squares=squares)
    for array in (pulls, sums, squares):
        array[:] = 7
    assert log == Offline(pulls=[2, 1], reward_sums=[1.0, 0.5], reward_squares=[1.0, 0.25])


def test_a_log_cannot_be_changed() -> None:
    log = Offline(pulls=[2, 1], reward_sums=[1.0, 0.5], reward_squares=[1.0, 0.25])
    for name in ("pulls", "reward_sums", "reward_squares"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(log, name)[0] = 5
        with pytest.raises(FrozenInstanceError):
            setattr(log, name, None)


def test_arrays_are_of_one_kind_whatever_came() -> None:
    log = Offline(pulls=[2.0, 1.0], reward_sums=(1, 0))
    assert (log.pulls.dtype, log.reward_sums.dtype) == (np.int64, np.float64)
    assert log.pulls.flags.c_contiguous
    strided = Offline(pulls=np.arange(8)[::2], reward_sums=np.arange(8.0)[::2])
    assert strided.reward_sums.flags.c_contiguous
    assert Offline(pulls=np.uint8([2, 1]), reward_sums=np.float32([1, 0])) == log


def test_logs_are_equal_when_their_numbers_are() -> None:
    log = Offline(pulls=[2, 1], reward_sums=[1.0, 0.5])
    assert log == Offline(pulls=[2, 1], reward_sums=[1.0, 0.5])
    assert log != Offline(pulls=[1, 2], reward_sums=[1.0, 0.5])
    assert log != Offline(pulls=[2, 1], reward_sums=[1.0, 0.6])
    assert log != Offline(pulls=[2, 1], reward_sums=[1.0, 0.5], reward_squares=[1.0, 0.25])
    assert log != Offline(pulls=[2, 1, 0], reward_sums=[1.0, 0.5, 0.0])
    assert log != "a log"
    with pytest.raises(TypeError, match="unhashable"):
        hash(log)


# -- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pulls": [1, -1]}, r"pulls must be whole numbers >= 0, got -1"),
        ({"pulls": [1, 0.5]}, r"pulls must be whole numbers >= 0, got 0.5"),
        ({"pulls": [1, np.nan]}, r"pulls must be finite, got nan at \[1\]"),
        ({"pulls": [1, np.inf]}, r"pulls must be finite, got inf at \[1\]"),
        ({"pulls": [1, 1e17]}, r"pulls must be at most 2\*\*53"),
        ({"pulls": [[1, 1]]}, r"pulls must have 1 dimension"),
        ({"pulls": ["a", "b"]}, r"pulls must be an array of numbers"),
        ({"pulls": None}, r"pulls must"),
        ({"pulls": [], "reward_sums": []}, r"pulls must hold at least one arm"),
        ({"reward_sums": [1.0]}, r"reward_sums must have shape \(2,\) like pulls, got \(1,\)"),
        ({"reward_sums": [1.0, np.nan]}, r"reward_sums must be finite, got nan at \[1\]"),
        (
            {"pulls": [1, 0], "reward_sums": [1.0, 3.0]},
            r"reward_sums must be 0 where pulls is 0, got 3 for arm 1",
        ),
        ({"reward_squares": [1.0]}, r"reward_squares must have shape \(2,\)"),
        ({"reward_squares": [1.0, np.inf]}, r"reward_squares must be finite"),
        ({"reward_squares": [0.5, 1.0]}, r"reward_squares must be at least reward_sums\*\*2 / pulls.*arm 0"),
        (
            {"pulls": [1, 0], "reward_sums": [1.0, 0.0], "reward_squares": [1.0, 2.0]},
            r"reward_squares must be 0 where pulls is 0, got 2 for arm 1",
        ),
    ],
)
def test_a_log_that_makes_no_sense_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Offline(**{"pulls": [1, 1], "reward_sums": [1.0, 1.0], **change})


@pytest.mark.parametrize(
    ("arms", "rewards", "message"),
    [
        ([0, 4], [1.0, 1.0], r"arms must be in \[0, 4\), got 4"),
        ([0, -1], [1.0, 1.0], r"arms must be in \[0, 4\), got -1"),
        ([0.0, 1.0], [1.0, 1.0], r"arms must be a list of arm indices, got float64"),
        ([True, False], [1.0, 1.0], r"arms must be a list of arm indices, got bool"),
        ([[0, 1]], [[1.0, 1.0]], r"arms must be a list of arm indices"),
        ([0, 1], [1.0], r"rewards must have one entry per arm: 2 arms, 1 rewards"),
        ([0, 1], [1.0, np.nan], r"rewards must be finite, got nan at \[1\]"),
        ([0, 1], ["x", "y"], r"rewards must be an array of numbers"),
    ],
)
def test_rows_that_make_no_sense_are_refused_by_name(arms: Any, rewards: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Offline.from_rows(arms, rewards, k=K)


@pytest.mark.parametrize("k", [0, -1, 2.5, None])
def test_a_log_over_no_arms_is_refused(k: Any) -> None:
    with pytest.raises(ValueError, match=r"k must|at least one arm"):
        Offline.empty(k)
    with pytest.raises(ValueError, match=r"k must|at least one arm"):
        Offline.from_rows([], [], k=k)


def test_a_log_over_other_arms_than_the_actions_is_refused() -> None:
    log = Offline.empty(3)
    assert as_offline(log, 3) is log
    with pytest.raises(ValueError, match="offline must cover the 4 arms of actions, got 3"):
        as_offline(log, 4)
    with pytest.raises(ValueError, match=r"offline must be a linoto.Offline, got dict"):
        as_offline({"pulls": [1, 2, 3]}, 3)


@pytest.mark.parametrize("arm", [True, np.True_, 1.0, "1", None, -1, 3, 10**30, np.float64(1)])
def test_what_is_not_an_arm_is_refused(arm: Any) -> None:
    with pytest.raises(ValueError, match=r"arm must be .*in \[0, 3\)"):
        as_arm(arm, 3)


@pytest.mark.parametrize("arm", [2, np.int64(2), np.uint8(2)])
def test_an_arm_is_a_python_int(arm: Any) -> None:
    assert type(as_arm(arm, 3)) is int
