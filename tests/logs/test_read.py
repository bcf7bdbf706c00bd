"""Files in, statistics out: the same bits from every kind of input, and every bad row named."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.small_parts import read_in_parts

from linoto.core.features.recipe import Recipe
from linoto.core.offline import Offline
from linoto.engines import Engine
from linoto.logs import sums
from linoto.logs.arms import ArmTable
from linoto.logs.read import Log, read_arms, read_log
from linoto.logs.read_rows import read_rows
from linoto.logs.values import UnknownColumn

ARMS = ArmTable.from_columns({"id": ["a", "b", "7"], "size": [1.0, 2.0, 3.0]})
COLUMNS = {"item": "arm", "reward": "r"}
CONTEXTS: dict[str, dict[str, Any]] = {
    "fixed arms": {},
    "contexts": {"numeric": ["x"], "categories": ["c"], "crosses": [("arm", "c"), ("arm", "x")]},
}
either = pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS.keys())
"""Laws of logs with and without contexts."""


def sample(n: int = 3000, seed: int = 0) -> dict[str, Any]:
    """Columns of a log, its times shuffled."""
    rng = np.random.default_rng(seed)
    return {
        "arm": np.array(["a", "b", "7"])[rng.integers(0, 3, n)].tolist(),
        "r": rng.standard_normal(n).tolist(),
        "p": rng.uniform(0.1, 1.0, n).tolist(),
        "t": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), unit="min"),
        "x": (rng.integers(0, 9, n) / 4).tolist(),
        "c": np.array(["red", "it's", 'a "b"'])[rng.integers(0, 3, n)].tolist(),
    }


def as_json_lines(columns: dict[str, Any]) -> str:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True)), default=str) + "\n" for row in rows)


def csv_file(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "log.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def semicolons(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "log.tsv"
    pd.DataFrame(columns).to_csv(path, index=False, sep=";")
    return path


def zipped_csv(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "log.csv.gz"
    path.write_bytes(gzip.compress(csv_file(folder, columns).read_bytes()))
    return path


def windows_csv(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "windows.csv"
    path.write_bytes(b"\xef\xbb\xbf" + csv_file(folder, columns).read_bytes().replace(b"\n", b"\r\n"))
    return path


def parquet_file(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "odd [name]*.parquet"
    pd.DataFrame(columns).to_parquet(path, row_group_size=700)
    return path


def json_file(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "log.jsonl"
    path.write_text(as_json_lines(columns))
    return path


SOURCES: dict[str, Callable[[Path, dict[str, Any]], Any]] = {
    "csv": csv_file,
    "semicolons": semicolons,
    "gzip": zipped_csv,
    "windows": windows_csv,
    "parquet": parquet_file,
    "json lines": json_file,
    "path as text": lambda folder, columns: str(csv_file(folder, columns)),
    "list": lambda folder, columns: [csv_file(folder, columns)],
    "pandas": lambda folder, columns: pd.DataFrame(columns),
    "polars": lambda folder, columns: pl.DataFrame(columns),
    "arrow": lambda folder, columns: pa.table(pd.DataFrame(columns)),
}


every_source = pytest.mark.parametrize(
    ("kind", "context"),
    [
        pytest.param(
            kind,
            context,
            id=f"{kind}-{name}",
            marks=pytest.mark.slow if context and kind not in ("csv", "parquet") else (),
        )
        for kind in SOURCES
        for name, context in CONTEXTS.items()
    ],
)
"""With contexts most of them in the slow suite: they are staged as without."""


def same(left: Log, right: Log) -> bool:
    return (
        left.early == right.early
        and left.late == right.late
        and left.extent == right.extent
        and left.contexts == right.contexts
    )


# -- the same statistics, whatever they come from ---------------------------------------------------------


@every_source
def test_every_kind_of_input_gives_the_same_bits(kind: str, context: dict[str, Any], tmp_path: Path) -> None:
    columns = sample()
    source = SOURCES[kind](tmp_path, columns)
    log = read_log(source, **COLUMNS, **context, arms=ARMS)
    assert log.contexts == read_log(pa.table(pd.DataFrame(columns)), **COLUMNS, **context, arms=ARMS).contexts
    index = np.array([ARMS.names.index(name) for name in columns["arm"]])
    rewards = np.array(columns["r"])
    halves = [Offline.from_rows(index[part], rewards[part], k=3) for part in (slice(1500), slice(1500, None))]
    assert (log.early, log.late) == tuple(halves)
    assert log.offline == halves[0] + halves[1]
    assert log.extent == (rewards.min(), rewards.max())
    assert log.rows == 3000 and log.bad == {} and log.unknown == {} and log.propensities is None


@every_source
@pytest.mark.few(5)
def test_time_decides_what_is_early_and_propensities_are_summed(
    kind: str, context: dict[str, Any], tmp_path: Path
) -> None:
    columns = sample()
    log = read_log(
        SOURCES[kind](tmp_path, columns), **COLUMNS, **context, arms=ARMS, propensity="p", time="t"
    )
    early = columns["t"] < columns["t"].sort_values()[1500]
    index = np.array([ARMS.names.index(name) for name in columns["arm"]])
    assert log.early == Offline.from_rows(index[early], np.array(columns["r"])[early], k=3)
    assert log.split.startswith("t before 2024-01-0")
    assert log.propensities is not None
    inverse = np.bincount(index, weights=1 / np.array(columns["p"]))
    np.testing.assert_allclose(log.propensities.inverse, inverse, rtol=1e-13)
    assert (log.propensities.low, log.propensities.high) == (min(columns["p"]), max(columns["p"]))


@either
def test_a_glob_is_its_files_in_order(context: dict[str, Any], tmp_path: Path) -> None:
    frame = pd.DataFrame(sample())
    for number, first in enumerate(range(0, 3000, 750)):
        frame.iloc[first : first + 750].to_csv(tmp_path / f"part-{number}.csv", index=False)
    frame.iloc[:750].to_parquet(tmp_path / "part-0.parquet")
    log = read_log(str(tmp_path / "part-*.csv"), **COLUMNS, **context, arms=ARMS)
    assert log.rows == 3000
    whole = read_log(frame, **COLUMNS, arms=ARMS)
    np.testing.assert_allclose(log.offline.reward_sums, whole.offline.reward_sums, rtol=1e-12)
    np.testing.assert_array_equal(log.early.pulls, whole.early.pulls)
    mixed = [tmp_path / "part-0.parquet", *(tmp_path / f"part-{number}.csv" for number in (1, 2, 3))]
    assert same(read_log(mixed, **COLUMNS, **context, arms=ARMS), log)


@either
@pytest.mark.parametrize("time", [None, "t"])
@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.few(1)
def test_the_bits_do_not_depend_on_threads_or_runs(
    kind: str, time: str | None, context: dict[str, Any], tmp_path: Path
) -> None:
    """Many small parts, so that threads would disagree about the order if they could."""
    source = SOURCES[kind](tmp_path, sample(5_000))
    options: dict[str, Any] = {**COLUMNS, **context, "time": time, "arms": ARMS}
    first = read_in_parts(source, 2**10, **options, engine=Engine(jobs=1))
    for jobs in (8, 8):
        assert same(read_in_parts(source, 2**10, **options, engine=Engine(jobs=jobs)), first)


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS.values())
def test_a_cluster_gives_the_same_bits(context: dict[str, Any], tmp_path: Path) -> None:
    """In the usual suite: threads above, and the cluster of tests/test_engines.py."""
    columns = sample(5000)
    columns["r"][7] = None
    source = parquet_file(tmp_path, columns)
    options: dict[str, Any] = {**COLUMNS, **context, "arms": ARMS, "skip_bad": True}
    here = read_in_parts(source, 2**10, **options)
    there = read_in_parts(source, 2**10, **options, engine=Engine(kind="dask", jobs=2))
    assert same(here, there) and here.bad == there.bad == {"missing reward": 1}


@pytest.mark.parametrize("time", [None, "t"])
def test_both_ways_of_stating_the_same_log_give_the_same_bits(time: str | None, tmp_path: Path) -> None:
    """A context adds features to a log and changes nothing else of it; a recipe of arms has their counts."""
    source = parquet_file(tmp_path, sample())
    options: dict[str, Any] = {**COLUMNS, "time": time, "propensity": "p"}
    plain, rich = (read_log(source, **options, **context) for context in CONTEXTS.values())
    recipe = Recipe(item="arm", items=plain.arms.names, intercept=False)
    alone = read_log(source, reward="r", propensity="p", time=time, recipe=recipe)
    for log in (rich, alone):
        assert same(replace(log, contexts=None), plain) and log.arms.names == plain.arms.names
        assert (log.rows, log.split, log.unknown) == (plain.rows, plain.split, plain.unknown)
        assert log.propensities is not None and plain.propensities is not None
        np.testing.assert_array_equal(log.propensities.inverse, plain.propensities.inverse)
    np.testing.assert_array_equal(alone.moments.gram, plain.moments.gram)
    np.testing.assert_array_equal(alone.moments.reward_vector, plain.moments.reward_vector)
    assert alone.moments.reward_sum == pytest.approx(plain.moments.reward_sum, rel=1e-12)


def test_parts_cover_every_row_once_and_the_middle_is_an_edge(tmp_path: Path) -> None:
    files = [sums.StagedFile("x", "x", "Parquet", rows, {}) for rows in (sums.PART + 5, 3, 2 * sums.PART)]
    columns = sums.Columns("r", "arm")
    parts = sums.cut_parts(files, columns, size=sums.PART, halves=True)
    sizes = [part.end - part.first for part in parts]
    total = sum(file.rows for file in files)
    assert sum(sizes) == total
    assert sum(size for size, part in zip(sizes, parts, strict=True) if not part.late) == total // 2
    assert max(sizes) <= sums.PART
    assert not any(part.late for part in sums.cut_parts(files, columns, size=sums.PART, halves=False))


@pytest.mark.parametrize("kind", ["threads", pytest.param("dask", marks=pytest.mark.slow)])
def test_ids_written_in_many_ways_add_up_to_the_same_bits(kind: Any, tmp_path: Path) -> None:
    """Each spelling of an id is summed for itself, and the sums of one arm are added in one order."""
    rng = np.random.default_rng(4)
    spelt = np.array(["7", "7.0", "7.00", "7.000", "a", "b"])[rng.integers(0, 6, 20_000)]
    table = pa.table({"arm": spelt, "r": rng.standard_normal(20_000), "t": rng.random(20_000)})
    path = tmp_path / "log.parquet"
    pq.write_table(table, path, row_group_size=1500)
    first = read_in_parts(path, 2**10, **COLUMNS, arms=ARMS, time="t", engine=Engine(jobs=1))
    again = read_in_parts(path, 2**10, **COLUMNS, arms=ARMS, time="t", engine=Engine(kind=kind, jobs=3))
    assert same(first, again) and first.offline.pulls[2] == np.char.startswith(spelt, "7").sum()


def test_ids_are_text_however_they_are_stored() -> None:
    arms = ArmTable.from_columns({"id": [7, 8.0, "nine", True]})
    assert arms.names == ("7", "8", "nine", "true")
    for ids in ([7, 8], [7.0, 8.0], ["7", "8"]):
        log = read_log(pa.table({"arm": ids, "r": [1, 2]}), **COLUMNS, arms=arms)
        assert log.offline.reward_sums.tolist() == [1.0, 2.0, 0.0, 0.0]
    log = read_log(pa.table({"arm": [True], "r": [1.0]}), **COLUMNS, arms=arms)
    assert log.offline.pulls.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("rewards", [[True, False], [1, 0], ["true", "False"], [1.0, 0.0]])
def test_rewards_may_be_true_and_false(rewards: list[Any]) -> None:
    log = read_log(pa.table({"arm": ["a", "b"], "r": rewards}), **COLUMNS, arms=ARMS)
    assert log.offline.reward_sums.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("word", ["yes", "no", "t", "F", "y", "on"])
def test_other_words_for_true_and_false_are_no_rewards(word: str) -> None:
    """A stray "no" in a column of money must not become 0 in silence."""
    with pytest.raises(ValueError, match=f"row 2, .*the reward must be a finite number, got '{word}'"):
        read_log(pa.table({"arm": ["a", "b"], "r": ["6.5", word]}), **COLUMNS, arms=ARMS)


def test_equal_times_are_split_as_evenly_as_they_can() -> None:
    for times, early in (([1, 1, 1, 2], 3), ([1, 2, 2, 2], 1), ([5, 5, 5, 5], 0), ([4, 3, 2, 1], 2)):
        table = pa.table({"arm": ["a"] * 4, "r": [1.0] * 4, "t": times})
        assert read_log(table, **COLUMNS, arms=ARMS, time="t").early.total in (early, 4 - early)


# -- bad rows ---------------------------------------------------------------------------------------------

BAD_ROWS = {
    "a word for a reward": (
        "arm,r\na,1\nb,abc\nb,x\n",
        "row 2, column 'r': the reward must be a finite number, got 'abc'",
        {"reward not understood": 2},
    ),
    "a missing reward": (
        "arm,r\na,1\nb,\n",
        "row 2, column 'r': the reward is missing",
        {"missing reward": 1},
    ),
    "NaN": (
        "arm,r\na,1\nb,nan\n",
        "row 2, column 'r': the reward must be a finite number, got 'nan'",
        {"reward is NaN": 1},
    ),
    "infinity": (
        "arm,r\na,-inf\na,1\nb,inf\n",
        "row 1, column 'r': the reward must be a finite number, got '-inf'",
        {"reward is infinite": 2},
    ),
    "an unknown arm": (
        "arm,r\na,1\nbb,2\nbb,2\nc,1\n",
        "row 2, column 'arm': there is no arm 'bb' among the 3 arms: did you mean 'b'?",
        {"unknown arm": 3},
    ),
    "a missing arm": (
        "arm,r\na,1\n,2\n",
        "row 2, column 'arm': the item is missing",
        {"missing item": 1},
    ),
    "a row too long": (
        "arm,r\na,1\nb,2,3\nb,x\n",
        "row 2: must have 2 columns like the header, got 3",
        {"malformed row": 1, "reward not understood": 1},
    ),
    "a row too short": (
        "arm,r\na,1\nb\n",
        "row 2: must have 2 columns like the header, got 1",
        {"malformed row": 1},
    ),
    "a bad value before a bad row": (
        "arm,r\na,1\nb,x\nb,2,3\n",
        "row 2, column 'r': the reward must be a finite number, got 'x'",
        {"malformed row": 1, "reward not understood": 1},
    ),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_the_first_bad_row_is_named_and_skipping_counts_them_all(what: str, tmp_path: Path) -> None:
    text, message, counts = BAD_ROWS[what]
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(ValueError) as caught:
        read_log(path, **COLUMNS, arms=ARMS)
    assert str(caught.value) == f"{path}, {message}"
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert log.bad == counts
    assert log.rows == text.count("\n") - 1
    assert log.offline.total == log.rows - sum(counts.values())
    assert log.extent == (1.0, 1.0)


def test_the_first_bad_row_is_the_first_of_all_parts_and_files(tmp_path: Path) -> None:
    rewards = ["1.5"] * 1000
    for row in (350, 351, 920):
        rewards[row] = "oops"
    good, bad = pa.table({"arm": ["a"] * 50, "r": ["2"] * 50}), pa.table({"arm": ["a"] * 1000, "r": rewards})
    for number, table in enumerate((good, bad, bad)):
        pq.write_table(table, tmp_path / f"{number}.parquet")
    for jobs in (1, 4):
        with pytest.raises(ValueError, match=r"1\.parquet, row 351, column 'r'"):
            read_in_parts(str(tmp_path / "*.parquet"), 100, **COLUMNS, arms=ARMS, engine=Engine(jobs=jobs))
    log = read_in_parts(str(tmp_path / "*.parquet"), 100, **COLUMNS, arms=ARMS, skip_bad=True)
    assert (log.rows, log.bad, log.offline.total) == (2050, {"reward not understood": 6}, 2044)
    assert log.offline.reward_sums[0] == 2 * 50 + 1.5 * 1994


@pytest.mark.parametrize("value, message", [("0", "0"), ("1.5", "1.5"), ("-1", "-1"), ("nan", "nan")])
def test_a_propensity_must_be_a_probability(value: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"arm,r,p\na,1,0.5\nb,2,{value}\n")
    with pytest.raises(
        ValueError, match=r"row 2, column 'p': the propensity must be in \(0, 1\], got " + message
    ):
        read_log(path, **COLUMNS, arms=ARMS, propensity="p")
    log = read_log(path, **COLUMNS, arms=ARMS, propensity="p", skip_bad=True)
    assert log.bad == {"propensity outside (0, 1]": 1}


def test_a_time_must_be_a_number_or_a_date(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,r,t\na,1,2024-01-01T10:00:00+02:00\nb,2,yesterday\n")
    with pytest.raises(ValueError, match=r"row 2, column 't': the time must be .* got 'yesterday'"):
        read_log(path, **COLUMNS, arms=ARMS, time="t")


def test_json_lines_that_are_no_objects_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"arm": "a", "r": 1}\nnot json\n{"arm": 7, "r": true}\n{"arm": "b"}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl, row 2: must be one JSON object"):
        read_log(path, **COLUMNS, arms=ARMS)
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert log.bad == {"malformed row": 1, "missing reward": 1}
    assert log.offline.reward_sums.tolist() == [1.0, 0.0, 1.0]


def test_a_frame_of_mixed_types_is_read_as_text() -> None:
    frame = pd.DataFrame({"arm": ["a", 7, "b"], "r": pd.Series([1.0, "x", 2], dtype=object)})
    with pytest.raises(ValueError, match=r"the DataFrame, row 2, column 'r': .* got 'x'"):
        read_log(frame, **COLUMNS, arms=ARMS)
    assert read_log(frame, **COLUMNS, arms=ARMS, skip_bad=True).offline.pulls.tolist() == [1, 1, 0]


UNREADABLE: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("log.csv", b"", "must have at least one row, got an empty file"),
    "only a header": ("log.csv", b"arm,r\n", "must have at least one row, got none"),
    "not Parquet": (
        "log.parquet",
        b"PAR1 no PAR1",
        "cannot be read as Parquet: it is damaged, or something else",
    ),
    "half a Parquet file": ("log.parquet", b"PAR1", "cannot be read as Parquet"),
    "not text": ("log.csv", b"arm,r\n\xff\xfe\x00,1\n", "must be text in UTF-8"),
    "not zipped": ("log.csv.gz", b"arm,r\na,1\n", "must be text in UTF-8"),
    "a list in JSON": ("log.json", b'[{"arm": "a"}]', "must be JSON lines, one object per line, got a list"),
    "no JSON": ("log.jsonl", b"hello\nyou\n", "must be JSON lines"),
    "a column twice": ("log.csv", b"arm,r,r\na,1,2\n", "must name each column once, got 'r' twice"),
    "a column in two cases": (
        "log.csv",
        b"arm,Arm,r\na,b,1\n",
        "must have names of columns that differ in more than case, got 'arm' and 'Arm'",
    ),
    "another kind": ("log.xlsx", b"PK", "must end in one of .csv"),
    "an open quote": ("log.csv", b'arm,r\na,"1\na,2\n', "row 1: must be a row of CSV"),
    "rewards beyond squares": (
        "log.csv",
        b"arm,r\na,1e200\n",
        "row 1, column 'r': the reward is too large to be squared, got 1e200",
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_file_that_cannot_be_read_is_one_sentence(what: str, tmp_path: Path) -> None:
    name, content, message = UNREADABLE[what]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        read_log(path, **COLUMNS, arms=ARMS, where="Arm = 'b'" if "two cases" in what else None)
    text = str(caught.value)
    assert text.startswith(str(path)) and message in text and "\n" not in text
    assert "Error" not in text  # not DuckDB's own words


@pytest.mark.parametrize("reward, total", [("r", 1.0), ("R", 5.0)])
def test_columns_of_a_csv_file_may_differ_in_case_only(reward: str, total: float, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("arm,r,R,ARM\na,1,5,z\n")
    log = read_log(tmp_path / "log.csv", item="arm", reward=reward, arms=ARMS)
    assert log.offline.reward_sums.sum() == total


def test_a_damaged_parquet_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pd.DataFrame(sample()).to_parquet(path)
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"log\.parquet cannot be read as Parquet"):
        read_log(path, **COLUMNS, arms=ARMS)


def test_a_source_that_is_not_there_is_named(tmp_path: Path) -> None:
    for source, message in (
        (tmp_path / "none.csv", "none.csv must be a file or match some, got none"),
        (str(tmp_path / "*.csv"), "must be a file or match some, got none"),
        (tmp_path, "must be a file, got a folder: name its files"),
        ([], "must have at least one file"),
        (3, "source must be a path, a URL, a list of them, a query, a pandas, polars or Arrow table, "),
        (pd.DataFrame({"arm": [], "r": []}), "the DataFrame must have at least one row"),
    ):
        with pytest.raises(ValueError, match=message.replace("*", r"\*")):
            read_log(source, **COLUMNS, arms=ARMS)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_wrong_column_suggests_the_nearest(kind: str, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path, {**sample(10), "reward": [0.5] * 10})
    with pytest.raises(UnknownColumn, match=r"reward must be a column .* 'rewrad': did you mean 'reward'\?"):
        read_log(source, item="arm", reward="rewrad", arms=ARMS)


@either
def test_a_column_with_two_meanings_is_refused_in_one_sentence(context: dict[str, Any]) -> None:
    """A time may be anything else too, but not the reward."""
    table = pa.table(pd.DataFrame(sample(10)))
    with pytest.raises(ValueError, match=r"^'r' must have one meaning, got item and reward$"):
        read_log(table, item="r", reward="r", **(context and {"numeric": ["x"]}))
    with pytest.raises(ValueError, match=r"^'p' must have one meaning, got reward and propensity$"):
        read_log(table, item="arm", reward="p", propensity="p", **context)
    assert read_log(table, **COLUMNS, **context, time="x").rows == 10
    with pytest.raises(ValueError, match=r"^'r' must have one meaning, got reward and time$"):
        read_log(table, **COLUMNS, **context, time="r")


@pytest.mark.parametrize(
    ("kind", "named"), [(pa.float16(), "halffloat"), (pa.decimal256(50, 3), r"decimal256\(50, 3\)")]
)
def test_numbers_of_a_type_that_cannot_be_read_are_named(kind: pa.DataType, named: str) -> None:
    ones = pa.array([1.0, 1.0]).cast(kind) if kind == pa.float16() else pa.array([Decimal(1)] * 2, kind)
    with pytest.raises(ValueError, match=rf"32 or 64 bits in column 'r', got {named}"):
        read_log(pa.table({"item": ["a", "b"], "r": ones}), item="item", reward="r")


def test_a_log_without_an_item_must_have_features() -> None:
    table = pa.table(pd.DataFrame(sample(10)))
    with pytest.raises(ValueError, match="item must be the column of what was played, got None"):
        read_log(table, reward="r")
    log = read_log(table, reward="r", features=["x"])
    assert (log.arms.names, log.offline.total, log.recipe.items) == (("(any)",), 10, ())


def test_a_column_of_lists_is_no_reward(tmp_path: Path) -> None:
    table = pa.table({"arm": ["a"], "r": [[1.0, 2.0]]})
    with pytest.raises(ValueError, match="the reward must be one value per row"):
        read_log(table, **COLUMNS, arms=ARMS)


def test_a_log_without_a_usable_row_is_refused() -> None:
    with pytest.raises(ValueError, match="must have at least one usable row"):
        read_log(pa.table({"arm": ["z"], "r": [1.0]}), **COLUMNS, arms=ARMS, skip_bad=True)


def test_frequent_unknown_ids_are_listed_first() -> None:
    table = pa.table({"arm": ["y", "x", "x", "a"], "r": [1.0] * 4})
    log = read_log(table, **COLUMNS, arms=ARMS, skip_bad=True)
    assert list(log.unknown.items()) == [("x", 2), ("y", 1)]


# -- arms -------------------------------------------------------------------------------------------------


def test_arms_are_the_same_from_every_kind_of_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"id": ["a", "b"], "price": [1.5, 2.0], "colour": ["red", "blue"], "new": [True, False]}
    )
    frame.to_csv(tmp_path / "arms.csv", index=False)
    frame.to_parquet(tmp_path / "arms.parquet")
    frame.to_json(tmp_path / "arms.jsonl", orient="records", lines=True)
    expected = [[1.0, 1.5, 0.0, 1.0, 1.0], [1.0, 2.0, 1.0, 0.0, 0.0]]
    for source in (*sorted(tmp_path.iterdir()), frame, pl.from_pandas(frame)):
        arms = read_arms(source)
        assert arms.names == ("a", "b")
        assert arms.labels == ("intercept", "price", "colour=blue", "colour=red", "new")
        assert arms.actions.tolist() == expected


def test_a_bad_arm_is_named(tmp_path: Path) -> None:
    path = tmp_path / "arms.csv"
    for text, message in (
        ("id,x\na,1\nb,2\na,3\n", "row 3, column 'id': the id 'a' is that of row 1 too"),
        ("id,x\na,1\n,2\n", "row 2, column 'id': the id is missing"),
        ("id,x\na,1\nb,\n", "row 2, column 'x': a feature is missing"),
        ("id,x\na,1\nb,2\nc,n/a\n", "row 3, column 'x': numbers and words are mixed, got 'n/a'"),
        ("id,x\na,1\nb,inf\n", "row 2, column 'x': must be a finite number"),
        ("id,x\na,1,2\n", "row 1: must have 2 columns"),
        ("id,x\n", "must have at least one row"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError) as caught:
            read_arms(path)
        assert message in str(caught.value) and str(caught.value).startswith(str(path))


def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    table = pd.DataFrame({"item": ["a", "b", None, "a"], "r": ["1", "x", "0", "0"]})
    table.to_csv(tmp_path / "log.csv", index=False)
    assert read_rows(tmp_path / "log.csv", item="item", reward="r", skip_bad=True).left_out == 2
    assert read_rows(table.iloc[[0, 3]], item="item", reward="r").left_out == 0


def test_zeros_of_a_parquet_file_are_not_less_than_zero(tmp_path: Path) -> None:
    """Its statistics say -0 of the smallest 0."""
    pd.DataFrame({"arm": ["a", "b"] * 20, "r": [0.0] * 40}).to_parquet(tmp_path / "log.parquet")
    assert [*map(str, read_log(tmp_path / "log.parquet", **COLUMNS).extent)] == ["0.0", "0.0"]
