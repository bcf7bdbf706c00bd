"""Arms that no file lists are the values of a column, each an arm of its own; other columns are refused."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import MOST_ARMS
from linoto.logs.read_rows import read_rows
from linoto.logs.saved import SavedLog

COLUMNS = {"item": "arm", "reward": "r"}


def log_with(arms: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"arm": arms, "r": [row % 2 for row in range(len(arms))]})


def test_the_values_of_the_column_are_the_arms_and_each_is_its_own() -> None:
    log = linoto.read_log(log_with(["b", "a", "b", "10", "9"] * 4), **COLUMNS)
    assert log.arms.names == ("9", "10", "a", "b") and log.arms.independent
    assert np.array_equal(log.arms.actions, np.eye(4)) and log.offline.pulls.tolist() == [4, 4, 4, 8]
    assert "they are the 4 different values of 'arm'" in log.notes[0]


def test_a_file_of_ids_says_the_same_as_no_file() -> None:
    table = log_with(["b", "a"] * 10)
    alone, listed = linoto.read_log(table, **COLUMNS), linoto.read_arms(pd.DataFrame({"id": ["a", "b"]}))
    assert listed.independent and np.array_equal(listed.actions, alone.arms.actions)
    found = linoto.read_log(table, **COLUMNS, arms=listed)
    assert found.offline.reward_sums.tolist() == alone.offline.reward_sums.tolist()
    rows = read_rows(table, **COLUMNS)
    assert rows.names == ("a", "b") and rows.offline.pulls.tolist() == [10, 10]


@pytest.mark.parametrize(
    "names",
    [
        ["007", "7"],
        [True, False],
        ["yes", "no"],
        ["Größe M", "größe l", "日本語 版"],
        ["9.99", "12.99", "14.50"],
        ["a, b", 'say "no"', "c;d"],
        ["None", "-", "0"],
    ],
)
def test_odd_names_are_arms_like_any_other(names: list[Any], tmp_path: Path) -> None:
    """007 and 7 are different ids; prices of a price test are arms."""
    log_with(names * 10).to_csv(tmp_path / "log.csv", index=False)
    log = linoto.read_log(tmp_path / "log.csv", **COLUMNS)
    written = {str(name).lower() if isinstance(name, bool) else name for name in names}
    assert {name.lower() if name in ("True", "False") else name for name in log.arms.names} == {
        "14.5" if name == "14.50" and "14.5" in log.arms.names else name for name in written
    }
    assert log.offline.pulls.tolist() == [10] * len(names)


DAYS = [str(date(2026, 1, 1) + timedelta(days=day)) for day in range(30)]
REFUSED = {
    "users": ([f"user {row}" for row in range(MOST_ARMS + 1)] * 3, "more than 1,000 different values"),
    "a number each": ([f"{row}" for row in range(40)], "40 different values in 40 rows"),
    "measured": ([f"{row / 7:.3f}" for row in range(1, 60)] * 9, "59 different numbers such as"),
    "dates": (DAYS * 3, "got dates such as '2026-01-01'"),
    "days as dates": ([date(2026, 1, 1 + row % 28) for row in range(90)], "got dates"),
    "compact days": ([20260101 + row % 28 for row in range(90)], "got dates such as '20260101'"),
    "spaces": (["A", "A "] * 9, "got 'A' and 'A ', which differ in spaces only"),
    "nothing in words": (["A", "n/a", "B"] * 9, "got 'n/a': leave such rows out"),
    "lines": (["A", "two\nlines", "B"] * 9, r"got 'two\nlines': write them in one line, or leave such rows"),
    "turned": (["A", "red\u202e", "B"] * 9, r"without control characters or line ends, got 'red\u202e'"),
    "colours": (["A", "\x1b[31mred", "B"] * 9, r"without control characters or line ends, got '\x1b[31mred'"),
    "blank": (["A", "  ", "B"] * 9, "must name an arm in every row"),
    "missing": (["A", None, "B"] * 9, "row 2, column 'arm': the item is missing"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_column_that_is_none_of_arms_is_refused_in_one_sentence(kind: str) -> None:
    values, message = REFUSED[kind]
    with pytest.raises(ValueError) as error:
        linoto.read_log(log_with(values), **COLUMNS)
    text = str(error.value)
    assert message in text and "column 'arm'" in text and "\n" not in text


def test_bad_rows_are_dropped_where_that_is_asked_for() -> None:
    log = linoto.read_log(log_with(["A", "n/a", "B", None, "B\n2"] * 9), **COLUMNS, skip_bad=True)
    assert log.arms.names == ("A", "B") and log.unknown == {"n/a": 9, "B\n2": 9}
    assert log.bad == {"missing item": 9, "unknown arm": 18}


def test_upper_and_lower_case_is_noted() -> None:
    log = linoto.read_log(log_with(["Red", "red", "blue"] * 9), **COLUMNS)
    assert any("differ in upper and lower case only: 'Red' and 'red'" in note for note in log.notes)


@pytest.mark.parametrize("source", ["pandas", "parquet", "two files"])
@pytest.mark.parametrize("arms", [None, ArmTable.one_hot(["1", "2", "b"], "arm")], ids=["found", "listed"])
def test_texts_that_are_taken_for_one_arm_are_noted(source: str, arms: Any, tmp_path: Path) -> None:
    log: Any = log_with(["1", "1.0", "2.0", "b"] * 9)
    if source != "pandas":
        parts = [log] if source == "parquet" else [log[log.arm != "1"], log[log.arm == "1"]]
        for place, part in enumerate(parts):
            part.to_parquet(tmp_path / f"{place}.parquet")
        log = str(tmp_path / "*.parquet")
    found = linoto.read_log(log, **COLUMNS, arms=arms)
    assert found.arms.names == ("1", "2", "b") and found.offline.pulls.tolist() == [18, 9, 9]
    note = "'1' and '1.0' of 'arm' are taken for one arm, '1': a whole number is the same with .0 and without"
    assert found.notes.count(note) == 1


@pytest.mark.parametrize("arms", [["1", "2.0"], [1, 2], [1.0, 2.0], ["007", "007.0"], [1, "1.0"]], ids=str)
def test_texts_that_are_not_taken_for_another_are_not_noted(arms: list[Any]) -> None:
    """Nor are numbers, which are not texts."""
    found = linoto.read_log(log_with(arms * 9), **COLUMNS)
    assert not any("taken for one arm" in note for note in found.notes)


# -- arms that share their features -----------------------------------------------------------------------

TABLE = {"id": ["a", "b", "c"], "size": [1.0, 1.0, 2.0]}


def test_arms_with_the_same_features_have_effects_of_their_own_unless_stated_otherwise() -> None:
    arms = ArmTable.from_columns(TABLE)
    assert arms.labels == ("intercept", "size", "effect of a", "effect of b") and not arms.independent
    assert arms.actions[0].tolist() != arms.actions[1].tolist()
    assert any("the same features (a, b)" in note for note in arms.notes)
    assert ArmTable.from_columns(TABLE, arm_effects=False).labels == ("intercept", "size")
    assert ArmTable.from_columns(TABLE, arm_effects=True).independent
    alike = ArmTable.from_columns({"id": ["a", "b"], "size": [1.0, 1.0]})
    assert alike.independent and alike.effects_of is None


def test_arms_that_share_features_are_saved_as_they_are(tmp_path: Path) -> None:
    arms = ArmTable.from_columns(TABLE)
    offline = linoto.Offline.from_rows([0, 1, 2], [1.0, 0.0, 1.0], k=3)
    found = linoto.load(SavedLog(arms=arms, offline=offline).save(tmp_path / "stats.npz"))
    assert np.array_equal(found.actions, arms.actions) and found.arms.labels == arms.labels


def test_without_features_and_without_effects_there_is_nothing_to_tell_arms_apart_by() -> None:
    with pytest.raises(ValueError, match="must have a feature column beside the id without arm effects"):
        ArmTable.from_columns({"id": ["a", "b"]}, arm_effects=False)
