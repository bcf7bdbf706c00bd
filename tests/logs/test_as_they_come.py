"""Logs as people have them: an index without a name, decimal commas, dates, nested columns, some rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.problems import LAWS
from hypothesis import given
from hypothesis import strategies as st

from linoto import ArmTable, load, read_arms, read_log, read_rows
from linoto.cli import main
from linoto.logs.notation import Notation, looks_like_dates, other_notation
from linoto.logs.tables import new_database
from linoto.logs.value_sql import notated_sql
from linoto.logs.values import UnknownColumn
from linoto.logs.where import parse_where

ARMS = ArmTable.from_columns({"id": ["a", "b"]})
COLUMNS: dict[str, Any] = {"item": "arm", "reward": "r", "arms": ARMS}
ROWS = pd.DataFrame(
    {
        "arm": ["a", "b", "a", "b", "a"],
        "r": [1.0, 2.0, 3.0, 4.0, 5.0],
        "month": [1, 2, 3, 4, None],
        "day": ["2026-01-31", "2026-02-28", "2026-03-31", None, "2026-05-31"],
        "my country": ["NO", "SE", "N'O", "DK", "NO"],
        "new": [True, False, True, False, True],
    }
)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# -- an index without a name


def test_the_index_that_pandas_writes_is_no_arm_and_no_feature(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0]})
    table.to_csv(tmp_path / "arms.csv")
    again = pd.read_csv(tmp_path / "arms.csv")  # whose first column is called Unnamed: 0
    for source in (tmp_path / "arms.csv", again):
        arms = read_arms(source)
        assert arms.names == ("a", "b", "c") and arms.encoding.features == ("intercept", "x")
        assert "has no name and counts rows" in arms.notes[0] and "ids are in 'id'" in arms.notes[0]
    ROWS.to_csv(tmp_path / "log.csv")
    assert read_log(tmp_path / "log.csv", **COLUMNS).offline.reward_sums.tolist() == [9.0, 6.0]


def test_ids_in_a_column_without_a_name_are_ids(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"]).to_csv(tmp_path / "arms.csv")
    assert read_arms(tmp_path / "arms.csv").names == ("a", "b")
    numbered = written(tmp_path / "numbers.csv", ",x\n0,5\n1,6\n")
    assert read_arms(numbered, id="unnamed column 1").names == ("0", "1")


# -- notation


@LAWS
@given(st.floats(-1e9, 1e9), st.sampled_from([(",", "."), (",", " "), (".", ","), (",", None), (".", "'")]))
def test_a_number_written_with_marks_is_read_as_that_number(value: float, marks: tuple[str, str]) -> None:
    plain = f"{value:,.4f}"
    text = "".join({",": marks[1] or "", ".": marks[0]}.get(sign, sign) for sign in plain)
    assert Notation(*marks).read(text) == float(f"{value:.4f}")


def test_sql_reads_numbers_as_python_does() -> None:
    texts = [
        "1.234,5",
        "1,5",
        "1.5",
        "12",
        ",5",
        "5,",
        "1.23.456",
        " -1.234.567,25 ",
        "1e3",
        "",
        "x",
        "1 234",
    ]
    texts += ["1\u00a0234,5", "+3", "--3", "1,2,3", "1.234", "٣", "1'000"]
    with new_database() as connection:
        for notation in (Notation(","), Notation(",", "."), Notation(",", " "), Notation(".", "'")):
            for text in texts:
                found = connection.execute(
                    f"SELECT {notated_sql('x', notation)} FROM (SELECT ? AS x)", [text]
                )
                assert found.fetchall()[0][0] == notation.read(text), (text, notation)


@pytest.mark.parametrize(
    "marks, message",
    [
        ((";", None), "decimal must be '.' or ','"),
        ((",", ","), "thousands must be another mark than decimal"),
        ((".", "x"), "thousands must be one of"),
    ],
)
def test_marks_that_are_none_are_refused(marks: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Notation(*marks)


def test_rewards_and_features_with_commas_are_numbers(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "arm;r\na;1.234,50\nb;0,25\n")
    table = written(tmp_path / "arms.csv", "id;price\na;10,5\nb;1.000\n")
    marks = {"decimal": ",", "thousands": "."}
    arms = read_arms(table, **marks)  # type: ignore[arg-type]
    assert arms.features.tolist() == [[1.0, 10.5], [1.0, 1000.0]]
    found = read_log(log, item="arm", reward="r", arms=arms, decimal=",", thousands=".")
    assert found.offline.reward_sums.tolist() == [1234.5, 0.25]
    rows = read_rows(log, item="arm", reward="r", arms=arms, decimal=",", thousands=".")
    assert rows.rewards.tolist() == [1234.5, 0.25]


def test_a_number_in_another_notation_than_was_said_is_refused(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "arm;r\na;1,5\nb;1.5\n")
    with pytest.raises(
        ValueError, match=r"row 2, column 'r': the reward must be a finite number, got '1\.5'"
    ):
        read_log(log, **COLUMNS, decimal=",")
    table = written(tmp_path / "arms.csv", "id;price\na;10,5\nb;1.5\n")
    with pytest.raises(ValueError, match=r"row 2, column 'price': must be a number with ',' .* got '1\.5'"):
        read_arms(table, decimal=",")


@pytest.mark.parametrize("price", ["12,50", "1.234,50", "1 234,5", "1,234.50", "1'234", "€ 12", "12.5%"])
def test_numbers_in_disguise_are_never_one_hot(price: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"id": ["a", "b"], "price": [price, price.replace("2", "3")]})
    with pytest.raises(ValueError, match=r"column 'price': .* looks like a number with"):
        read_arms(table)
    assert len(read_arms(table, categorical=["price"]).encoding.features) == 3


def test_a_comma_among_whole_numbers_is_named_too() -> None:
    with pytest.raises(ValueError, match=r"got '3,5', which looks like a number with the decimal mark ','"):
        read_arms(pd.DataFrame({"id": ["a", "b", "c"], "price": ["12", "3,5", "4"]}))


def test_words_with_digits_are_words() -> None:
    table = pd.DataFrame({"id": ["a", "b"], "version": ["1.2.3", "1.10.0"], "hours": ["9 to 12", "before 9"]})
    assert len(read_arms(table).encoding.features) == 5
    assert other_notation(["red", "blue, 5", "B2"]) == ""


def test_a_plain_number_is_in_no_other_notation() -> None:
    assert other_notation(["-1.0"]) == other_notation(["7"]) == ""


def test_a_reward_with_a_comma_is_refused_with_the_reason(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "arm;r\na;1,5\n")
    with pytest.raises(ValueError, match=r"got '1,5', which looks like a number with the decimal mark ','"):
        read_log(log, **COLUMNS)


DAYS = "2026-01-31 | 31.1.2026 | 01/31/2026 | 2026-01-31 10:00 | 31-Jan-2026 | Jan 31, 2026 | 31 January 2026"
MONTHS = (
    "Jan 2026 | january 2026 | Jan-26 | Sept. '26 | 2026 Jan | 2026-01 | 1/2026 | Q1 2026 | 2026-Q1 | 2026W05"
)


@pytest.mark.parametrize("day", [*DAYS.split(" | "), *MONTHS.split(" | "), "10:30", "9:05 pm", "20260131"])
@pytest.mark.few(7)
def test_dates_are_never_one_hot(day: str) -> None:
    later = day.replace("31", "30").replace("26", "25").replace(":", ":1", 1)[: len(day)]
    table = pd.DataFrame({"id": ["a", "b"], "since": [day, later]})
    with pytest.raises(ValueError, match=r"column 'since': must be numbers or words, got dates such as"):
        read_arms(table)
    with pytest.raises(ValueError, match=r"column 'since': .* got dates"):
        read_arms(pd.DataFrame({"id": ["a", "b"], "since": [date(2026, 1, 31), date(2026, 2, 28)]}))


def test_eight_digits_are_dates_only_if_all_of_them_are_days() -> None:
    def features(*values: int) -> int:
        return len(read_arms(pd.DataFrame({"id": range(len(values)), "n": values})).encoding.features)

    with pytest.raises(
        ValueError, match=r"column 'n': must be numbers or words, got dates such as '20200101'"
    ):
        features(20200101, 20191231)
    assert features(20200101, 20200101) == features(20200101, 20201301) == features(18991231, 20200101) == 2


def test_words_that_begin_like_months_are_words() -> None:
    words = "Mayor 12 | Marseille 24 | Decider 10 | jan | Monday | v2026-1 | 2026-13 | 12-pack | B 10:30"
    assert not any(looks_like_dates([word]) for word in words.split(" | "))


def test_the_arms_may_be_written_otherwise_than_the_log(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "arm;r\n" + "a;1.000,5\nb;0,25\n" * 20)
    table = written(tmp_path / "arms.csv", "id,size\na,1.5\nb,2.5\n")
    words = ["audit", str(log), "--arms", str(table), "--action", "arm", "--reward", "r"]
    words += ["--decimal", ",", "--thousands", "."]
    assert main([*words, "--save", str(tmp_path / "stats.npz")]) == 1  # 1.5 is no number with a comma
    assert main([*words, "--arms-decimal", ".", "--save", str(tmp_path / "stats.npz")]) == 0
    saved = load(tmp_path / "stats.npz")
    assert saved.offline.reward_sums.tolist() == [20010.0, 5.0]
    assert saved.arms.actions[:, 1].tolist() == [1.5, 2.5]


# -- nested columns


def test_a_part_of_a_nested_column_has_a_dotted_name(tmp_path: Path) -> None:
    seen = [{"arm": "a", "by": {"country": "NO"}}, {"arm": "b", "by": {"country": "SE"}}]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"seen": seen * 2, "r": [1.0, 2.0, 3.0, 4.0]}), path)
    found = read_log(path, item="seen.arm", reward="r", arms=ARMS)
    assert found.offline.reward_sums.tolist() == [4.0, 6.0]
    norway = read_log(path, item="seen.arm", reward="r", arms=ARMS, where="seen.by.country = 'NO'")
    assert norway.offline.pulls.tolist() == [2, 0]
    for wrong in ("seen.arms", "r.x", "seen.by"):
        with pytest.raises(ValueError, match=r"a column of|one value per row"):
            read_log(path, item=wrong, reward="r", arms=ARMS)


# -- some rows


@pytest.fixture(params=["csv", "parquet"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    path = tmp_path / f"log.{request.param}"
    ROWS.to_csv(path, index=False) if request.param == "csv" else ROWS.to_parquet(path)
    return path


@pytest.mark.parametrize(
    "where, kept",
    [
        ("month >= 2", [2.0, 3.0, 4.0]),
        ("month > 1 and month != 3", [2.0, 4.0]),
        ("r<2.5 AND r>=1", [1.0, 2.0]),
        ("day >= 2026-02-28", [2.0, 3.0, 5.0]),
        ("day < '2026-02-28 12:00'", [1.0, 2.0]),
        ("\"my country\" = 'NO'", [1.0, 5.0]),
        ("\"my country\" == 'N''O'", [3.0]),
        ("\"my country\" != 'NO' and arm = 'b'", [2.0, 4.0]),
        ("new = true", [1.0, 3.0, 5.0]),
        ("month = 2.0", [2.0]),
    ],
)
@pytest.mark.few(3)
def test_where_keeps_the_rows_that_it_says(source: Any, where: str, kept: list[float]) -> None:
    assert sorted(read_rows(source, **COLUMNS, where=where).rewards) == kept
    log = read_log(source, **COLUMNS, where=where)
    assert log.offline.reward_sums.sum() == sum(kept)
    assert log.notes == (f"where {where} kept {len(kept)} of 5 rows",) and log.rows == len(kept)


def test_rows_keep_their_ids_and_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    ROWS.to_csv(path, index=False)
    whole, some = read_rows(path, **COLUMNS), read_rows(path, **COLUMNS, where="month >= 3")
    assert whole.ids is not None and some.ids is not None
    assert list(some.ids) == list(whole.ids)[2:4]
    ROWS.assign(r=["1", "2", "3", "x", "5"]).to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"row 4, column 'r'"):
        read_log(path, **COLUMNS, where="month >= 3")
    assert read_log(path, **COLUMNS, where="month < 3").offline.total == 2


@pytest.mark.parametrize(
    "where, message",
    [
        ("", "where must be comparisons"),
        ("month", "where must be comparisons"),
        ("month >= 2 or r > 1", "where must be comparisons"),
        ("month >= 2 and", "where must be comparisons"),
        ("month >= 2; DROP TABLE known", "where must"),
        ("month >= 2 -- all", "where must be comparisons"),
        ("month = (SELECT 1)", "where must be comparisons"),
        ("month = arm", "a text in single quotes, got arm"),
        ("arm > 'a'", "where must compare a text by = or !="),
        ("day > 2026-02-31", "where must have dates such as"),
        ("month >= 2 and 1=1", "where must be comparisons"),
        (5, "where must be comparisons .* got int"),
    ],
)
def test_what_is_no_comparison_is_refused_in_one_sentence(where: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        read_log(ROWS, **COLUMNS, where=where)
    assert "\n" not in str(refused.value)


def test_a_column_that_is_not_there_and_values_of_another_kind_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownColumn, match=r"'mnth' in where must be a column of .*did you mean 'month'"):
        read_log(ROWS, **COLUMNS, where="mnth > 1")
    with pytest.raises(ValueError, match=r"where must compare 'month' of .* with a number, got a date"):
        read_log(ROWS, **COLUMNS, where="month > 2026-01-01")
    path = tmp_path / "log.csv"
    ROWS.to_csv(path, index=False)
    with pytest.raises(
        ValueError, match=r"row 1, column 'day': must be a number to be compared in where, got"
    ):
        read_log(path, **COLUMNS, where="day > 5")
    with pytest.raises(ValueError, match=r"where must leave a row of .*, got none by month > 99"):
        read_log(path, **COLUMNS, where="month > 99")


HOSTILE = ["x' OR '1'='1", "'; DROP TABLE known; --", 'a"; SELECT 1', "\\'", "%", "a'' OR 1=1", "\x00", "☃'"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_and_names_are_only_texts_and_names(text: str, tmp_path: Path) -> None:
    rows = pd.DataFrame({"arm": ["a", "b"], "r": [1.0, 2.0], text: ["x", text]})
    value, name = text.replace("'", "''"), text.replace('"', '""')
    if "\x00" not in text:
        rows.to_parquet(tmp_path / "log.parquet")
        found = read_log(tmp_path / "log.parquet", **COLUMNS, where=f"\"{name}\" = '{value}'")
        assert found.offline.pulls.tolist() == [0, 1]
    (only,) = parse_where(f"arm = '{value}'")
    assert only.value == text
    if "'" in text:
        with pytest.raises(ValueError, match="where must"):
            read_log(rows, **COLUMNS, where=f"arm = '{text}'")


@LAWS
@given(st.text(max_size=40))
def test_any_text_is_a_comparison_or_is_refused(text: str) -> None:
    try:
        parse_where(text)
    except ValueError as error:
        assert str(error).startswith("where must")
