"""Unusual files and frames: line ends, names of columns, quotes, ids, and rows that are counted alike."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linoto import ArmTable, read_arms, read_log
from linoto.logs import tables
from linoto.logs.read_rows import read_rows

ARMS = ArmTable.from_columns({"id": ["a", "b"]})
COLUMNS = {"item": "arm", "reward": "r"}
MARK = b"\xef\xbb\xbf"
JSON = b'{"arm": "a", "r": 1}\n{"arm": "b", "r": 2}\n'

ODD = {
    "an empty first line": ("log.csv", b"\narm,r\na,1\nb,2\n"),
    "a mark and an empty line": ("log.csv", MARK + b"\r\n\r\narm,r\r\na,1\r\nb,2\r\n"),
    "a line of spaces first": ("log.csv", b"  \narm,r\na,1\nb,2\n"),
    "ends of Windows, then of Unix": ("log.csv", b"arm,r\r\na,1\nb,2\r\n"),
    "ends of Unix, then of Windows": ("log.csv", b"arm,r\na,1\r\nb,2\n"),
    "mixed ends after an empty line": ("log.csv", b"\n\r\narm,r\r\na,1\nb,2\r\n"),
    "mixed ends, zipped": ("log.csv.gz", gzip.compress(b"arm,r\r\na,1\nb,2\r\n")),
    "ends of old": ("log.csv", b"arm,r\ra,1\rb,2\r"),
    "JSON with a mark": ("log.jsonl", MARK + JSON),
    "JSON with a mark, zipped": ("log.jsonl.gz", gzip.compress(MARK + JSON)),
    "JSON with an empty first line": ("log.jsonl", b"\n" + JSON),
}


@pytest.mark.parametrize("what", ODD)
def test_how_lines_begin_and_end_changes_nothing(what: str, tmp_path: Path) -> None:
    name, content = ODD[what]
    path = tmp_path / name
    path.write_bytes(content)
    log = read_log(path, **COLUMNS, arms=ARMS)
    assert (log.rows, log.bad) == (2, {})
    assert log.offline.reward_sums.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("start", [b"", b"\n", MARK])
@pytest.mark.parametrize("kept", [0.2, 0.5, 0.99])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.few(6)
def test_a_zipped_file_that_is_cut_off_is_one_sentence(
    start: bytes, kept: float, kind: str, tmp_path: Path
) -> None:
    rows = b"arm,r\n" + b"a,1\nb,2\n" * 5_000 if kind == "csv" else JSON * 5_000
    path = tmp_path / f"log.{kind}.gz"
    content = gzip.compress(start + rows)
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(ValueError, match=r"^.*\.gz (must be a whole file of gzip|cannot be read as)[^\n]*$"):
        read_log(path, **COLUMNS, arms=ARMS)


def test_mixed_ends_are_seen_however_late_they_come(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"r,arm\n" + b"1,a\n" * 300_000 + b"2,b\r\n3,b\n")
    assert read_log(path, **COLUMNS, arms=ARMS).offline.reward_sums.tolist() == [300_000.0, 5.0]


@pytest.mark.parametrize("first", [0, 40])
@pytest.mark.parametrize("lost", [1, 60, 40_000])  # DuckDB keeps 10,000 characters of a rejected row
@pytest.mark.few(4)
def test_lines_that_an_open_quote_takes_in_are_counted(first: int, lost: int, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    good = 'a,1,x\nb,2,"y\n\nz"\n' * first
    path.write_text(f'arm,r,note\n{good}a,1,"open\n' + "b,2,x\n" * (lost - 1))
    with pytest.raises(ValueError, match=rf"row {2 * first + 1}: .* got a quote that is not closed$"):
        read_log(path, **COLUMNS, arms=ARMS)
    if not first:
        return
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert (log.rows, log.offline.total, log.bad) == (2 * first + lost, 2 * first, {"malformed row": lost})
    said = (
        f"row {2 * first + 1}: 1 malformed row of {lost:,} lines, which count as rows: is a quote not closed?"
    )
    assert [note.partition(", ")[2] for note in log.notes] == ([said] if lost > 1 else [])
    rows = read_rows(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert rows.left_out == lost and rows.notes == log.notes


@pytest.mark.parametrize("column", ["note", "r"])  # one that is not read, and one that is
def test_a_value_of_many_lines_is_noted(column: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = ["a,1,x", "b,2,y"] * 100
    read = {"item": "arm", "reward": "r" if column == "note" else "note", "arms": ARMS, "skip_bad": True}
    lines[20], lines[99] = 'a,1,"open', 'b,2,close"'
    if column == "r":
        lines[20], lines[99] = 'a,"open,x', 'b,close",y'
    path.write_text("\n".join(["arm,r,note", *[line.replace("x", "3").replace("y", "3") for line in lines]]))
    (note,) = read_log(path, **read).notes
    assert f"column {column!r}: a value holds 80 lines, from 'open" in note
    path.write_text("arm,r,note\n" + 'a,1,"3\n\n\n3"\nb,2,3\n\n' * 100)
    assert read_log(path, **COLUMNS, arms=ARMS).notes == ()


@pytest.mark.parametrize("start", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("between", ["", "\n", "\n\n", '"a",1,"x\n\ny"\n'])
@pytest.mark.few(2)
def test_rows_are_counted_alike_whatever_is_wrong(start: str, between: str, tmp_path: Path) -> None:
    """Empty lines are no rows, and a line end within quotes ends none: for each kind of bad row."""
    row = 3 + between.startswith('"')
    wrong = (("b,2,3,4", f"row {row}: must have 3 columns"), ("b,x,n", f"row {row}, column 'r'"))
    for bad_row, message in wrong:
        path = tmp_path / "log.csv"
        path.write_text(f"{start}arm,r,note\na,1,n\n{between}a,1,n\n{bad_row}\n\nb,y,n\nb\n")
        for read in (read_log, read_rows):
            with pytest.raises(ValueError, match=message):
                read(path, **COLUMNS, arms=ARMS)


def test_a_row_that_is_no_text_is_one_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"arm,r\n" + b"a,1\n" * 5000 + b"\n\xff\xfe,1\nb,2\n")
    with pytest.raises(ValueError, match="row 5001: must be a row of CSV in UTF-8"):
        read_log(path, **COLUMNS, arms=ARMS)
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert log.bad == {"malformed row": 1} and log.offline.pulls.tolist() == [5000, 1]


@pytest.mark.parametrize("skip_bad", [False, True])
def test_where_every_row_is_malformed_the_first_says_why(skip_bad: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('arm,r\n"a,1\nb,2\n')
    for read in (read_log, read_rows):
        with pytest.raises(ValueError, match=r"row 1: .* got a quote that is not closed$"):
            read(path, **COLUMNS, skip_bad=skip_bad)  # it has no arm to name either


QUOTES = {  # with the lines that a malformed row holds
    "never closed, in a column that nobody needs": (b'a,1,"x\nb,2,"y"\nb,4,z\n', 2),
    "never closed, until the end": (b'a,1,"x\nb,2,y\nb,4,z\n', 3),
    "within quotes": (b'a,1,"he said "hi" to me"\nb,4,z\n', 1),
    "closed too early": (b'a,"1"0,x\nb,4,z\n', 1),
}


@pytest.mark.parametrize("what", QUOTES)
def test_a_row_with_wrong_quotes_is_never_lost_in_silence(what: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    content, lines = QUOTES[what]
    path.write_bytes(b"arm,r,note\n" + content)
    for read in (read_log, read_rows):
        with pytest.raises(ValueError, match=r"log\.csv, row 1: must be a row of CSV in UTF-8"):
            read(path, **COLUMNS, arms=ARMS)
    path.write_bytes(b"arm,r,note\nb,8,z\n" + content)
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert log.bad == {"malformed row": lines} and log.offline.reward_sums[0] == 0.0


# -- names of columns -------------------------------------------------------------------------------------

FRAMES: dict[str, tuple[Any, str, str]] = {
    "numbers": (pd.DataFrame({0: ["a", "b"], 1: [1.0, 2.0]}), "0", "1"),
    "several in one": (
        pd.DataFrame({("x", "arm"): ["a", "b"], ("x", "r"): [1.0, 2.0]}),
        "('x', 'arm')",
        "('x', 'r')",
    ),
}


@pytest.mark.parametrize("what", FRAMES)
def test_columns_of_a_frame_are_known_by_their_names_as_text(what: str) -> None:
    frame, action, reward = FRAMES[what]
    log = read_log(frame, item=action, reward=reward, arms=ARMS)
    assert log.offline.reward_sums.tolist() == [1.0, 2.0]
    assert read_rows(frame, item=action, reward=reward, arms=ARMS).rewards.tolist() == [1.0, 2.0]
    assert read_arms(frame).names == ("a", "b")


def test_a_column_that_is_there_twice_is_refused() -> None:
    frame = pd.DataFrame([["a", 1.0, 2.0]], columns=["arm", "r", "r"])
    for source in (frame, pa.table([["a"], [1.0], [2.0]], names=["arm", "r", "r"])):
        with pytest.raises(ValueError, match="must name each column once, got 'r' twice"):
            read_log(source, **COLUMNS, arms=ARMS)


def test_a_name_that_is_no_text_is_one_sentence() -> None:
    frame, *_ = FRAMES["numbers"]
    with pytest.raises(ValueError, match="item must be the name of a column as text, got 0"):
        read_log(frame, item=0, reward="1", arms=ARMS)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["file_row_number", "File_Row_Number"])
def test_a_column_with_a_name_of_duckdbs_own_is_no_harm_unless_it_is_needed(
    name: str, tmp_path: Path
) -> None:
    table = pa.table({"arm": ["b", "a"], "r": [1.0, 2.0], name: [7.0, 7.0]})
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    table.to_pandas().to_csv(tmp_path / "log.csv", index=False)
    table.to_pandas().to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    for source in (*sorted(tmp_path.iterdir()), table):
        assert read_log(source, **COLUMNS, arms=ARMS).offline.reward_sums.tolist() == [2.0, 1.0]
        with pytest.raises(ValueError, match=f"must have another name for its column '{name}'"):
            read_log(source, item="arm", reward=name, arms=ARMS)
        with pytest.raises(ValueError, match=f"must have another name for its column '{name}'"):
            read_arms(source)


# -- ids --------------------------------------------------------------------------------------------------


def test_an_id_is_the_same_in_every_type_on_either_side(tmp_path: Path) -> None:
    """The arms in each type, through files and in Python; the log in the same type and in three others."""
    from decimal import Decimal

    forms: list[list[Any]] = [
        [3, 40],
        [3.0, 40.0],
        ["3", "40"],
        ["3.0", "40.00"],
        [Decimal("3.00"), Decimal("40.00")],
        np.array([3, 40], np.float32).tolist(),
    ]
    columns = [pa.array(form) for form in forms] + [pa.array([3, 40], pa.float32())]
    for i, ids in enumerate(columns):
        from_file = read_arms(pa.table({"id": ids, "x": [1.0, 2.0]}))
        in_python = ArmTable.from_columns({"id": ids.to_pylist()})
        for arms, steps in ((from_file, (0, 1)), (in_python, (2, 4))):
            assert arms.names == ("3", "40")
            for step in steps:
                actions = columns[(i + step) % len(columns)]
                log = read_log(pa.table({"arm": actions, "r": [1.0, 2.0]}), **COLUMNS, arms=arms)
                assert log.offline.reward_sums.tolist() == [1.0, 2.0]
    mixed = pd.DataFrame({"arm": pd.Series([3.0, "40", Decimal("3.0")], dtype=object), "r": [1.0, 2.0, 4.0]})
    assert read_log(mixed, **COLUMNS, arms=from_file).offline.reward_sums.tolist() == [5.0, 2.0]
    path = tmp_path / "log.csv"
    path.write_text("arm,r\n3.0,1\n40,2\n3,4\n")
    assert read_log(path, **COLUMNS, arms=from_file).offline.reward_sums.tolist() == [5.0, 2.0]


def test_ids_that_only_look_like_numbers_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "arms.csv"
    names = ("7", "007", "007.0", "1.10", "1.1", "1e3", "1000", "-0.5", "7.", "nan", "v1.0")
    path.write_text("id\n" + "\n".join(names) + "\n")
    arms = read_arms(path)
    assert arms.names == names
    (tmp_path / "log.csv").write_text("id,r\n" + "".join(f"{name},{row}\n" for row, name in enumerate(names)))
    log = read_log(tmp_path / "log.csv", item="id", reward="r", arms=arms)
    assert log.offline.reward_sums.tolist() == list(range(len(names)))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.decimal128(20, 6)])
def test_ids_with_a_fraction_are_written_the_same_by_python_and_by_duckdb(kind: pa.DataType) -> None:
    from decimal import Decimal

    rng = np.random.default_rng(0)
    values = {*np.round(rng.normal(size=200), 3), *np.round(rng.normal(size=50) * 1e5, 1), 0.25, -2.0, 1e12}
    if kind != pa.decimal128(20, 6):
        values |= {1e-7, 1.5e-5, 2.5e30, -1e22, 3.0e38}
        column = pa.array(list(values), kind)
        given = column.to_numpy().tolist() if kind == pa.float64() else list(column.to_numpy())
    else:
        given = [Decimal(str(value)).quantize(Decimal("1.000000")) for value in values]
        column = pa.array(given, kind)
    arms = ArmTable.from_columns({"id": given})
    assert read_arms(pa.table({"id": column})).names == arms.names
    log = read_log(pa.table({"arm": column, "r": [1.0] * len(given)}), **COLUMNS, arms=arms)
    assert log.offline.pulls.tolist() == [1] * len(given)


def test_an_id_that_is_nan_is_no_id(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"arm": [1.0, float("nan")], "r": [1.0, 2.0], "played": [1, 2]}), path)
    with pytest.raises(ValueError, match="row 2, column 'arm': the id is missing"):
        read_arms(path)
    with pytest.raises(ValueError, match="row 2, column 'arm': there is no arm 'nan'"):
        read_log(path, **COLUMNS, arms=ArmTable.from_columns({"id": [1]}))
    with pytest.raises(ValueError, match="row 2, column 'arm': the id is missing"):
        read_rows(path, item="played", reward="r", id="arm", arms=ArmTable.from_columns({"id": [1, 2]}))


def test_every_query_knows_the_settings_of_its_database() -> None:
    """A query has a cursor of its own: without GLOBAL it had the time zone of the machine."""
    with tables.new_database() as connection, connection.cursor() as cursor:
        for name, value in (("TimeZone", "UTC"), ("disable_parquet_prefetching", True)):
            assert cursor.execute(f"SELECT current_setting('{name}')").fetchone() == (value,)


ROWS = pd.DataFrame({"arm": ["a", "b"], "r": [1.0, 2.0]})


def test_what_one_reading_left_is_unknown_to_the_next() -> None:
    """A database is used again, and is as empty as a new one."""
    views = "SELECT view_name FROM duckdb_views() WHERE NOT internal"
    left = f"SELECT count(*) FROM (SELECT table_name FROM duckdb_tables() UNION ALL {views})"
    with tables.open_source(ROWS, None) as (connection, _):
        connection.execute("CREATE TABLE known AS SELECT 1")
        connection.execute("CREATE TEMP TABLE part AS SELECT 1")
        assert connection.execute(left).fetchall() == [(3,)]  # and the frame
    with tables.open_source(ROWS, None) as (connection, _):
        assert connection.execute(left).fetchall() == [(1,)]


def test_a_database_in_which_something_failed_is_not_used_again() -> None:
    with pytest.raises(ZeroDivisionError), tables.open_source(ROWS, None) as (connection, _):
        connection.execute("SET threads = 2")
        raise ZeroDivisionError
    with tables.open_source(ROWS, None) as (connection, _):
        assert connection.execute("SELECT current_setting('threads')").fetchall() == [(1,)]


def test_databases_that_are_open_at_once_know_nothing_of_each_other() -> None:
    with tables.open_source(ROWS, None) as (one, _), tables.open_source(ROWS, None) as (other, _):
        one.execute("CREATE TABLE known AS SELECT 1")
        assert other.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_that_is_written_anew_is_read_anew_whatever_its_time(kind: str, tmp_path: Path) -> None:
    """DuckDB knows a file by its name and time."""
    path = tmp_path / f"log.{kind}"
    for rows in (1, 3):
        table = pd.concat([ROWS] * rows)
        table.to_parquet(path) if kind == "parquet" else table.to_csv(path)
        os.utime(path, (10**9, 10**9))
        assert read_log(path, **COLUMNS, arms=ARMS).offline.reward_sums.tolist() == [rows, 2.0 * rows]


FORKED = """
import os
import pyarrow
from linoto.logs.tables import open_source

def read():
    with open_source(pyarrow.table({"a": range(300_000)}), None) as (connection, files):
        found = connection.execute(f"SELECT sum(a) FROM '{files[0].path}'").fetchall()
        assert found == [(299_999 * 150_000,)]

read()
if pid := os.fork():
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
read()
os._exit(0)
"""


def test_a_fork_of_a_process_that_has_read_can_read_too_and_both_end_in_silence() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]  # Python 3.12 warns of every fork
    end = subprocess.run(command, capture_output=True, timeout=120, check=False)
    assert (end.returncode, end.stderr) == (0, b"")
