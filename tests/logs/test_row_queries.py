"""Values that hide: NaN that Parquet's statistics leave out, numbers too large, times that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linoto import ArmTable, read_log
from linoto.logs.read_rows import read_rows

ARMS = ArmTable.from_columns({"id": ["a", "b"]})
NAN, INF = float("nan"), float("inf")
COLUMNS = {"item": "arm", "reward": "r", "propensity": "p", "time": "t"}
OUTSIDE = "propensity outside (0, 1]"
HIDDEN: list[tuple[str, float, str, str]] = [
    ("r", NAN, "reward is NaN", "the reward must be a finite number, got 'nan'"),
    ("r", INF, "reward is infinite", "the reward must be a finite number, got 'inf'"),
    ("r", 1e200, "reward too large", "the reward is too large to be squared, got 1e"),
    ("p", NAN, OUTSIDE, "the propensity must be in (0, 1], got nan"),
    ("p", INF, OUTSIDE, "the propensity must be in (0, 1], got inf"),
    ("p", 0.0, OUTSIDE, "the propensity must be in (0, 1], got 0"),
    ("p", 1e-300, "propensity too small", "the propensity is too small for 1 / propensity^2, got 1e-300"),
    ("t", NAN, "time is not finite", "the time must be a finite number or a date, got 'nan'"),
    ("t", INF, "time is not finite", "the time must be a finite number or a date, got 'inf'"),
    ("t", -INF, "time is not finite", "the time must be a finite number or a date, got '-inf'"),
]


def write(path: Path, column: str, value: float, options: dict[str, Any]) -> Path:
    """Four rows, one of them with this value."""
    table = {
        "arm": ["a", "b", "a", "b"],
        "r": [1.0, 2.0, 3.0, 4.0],
        "p": [0.5] * 4,
        "t": [4.0, 3.0, 2.0, 1.0],
    }
    table[column][2] = value
    if path.suffix == ".csv":
        lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
        path.write_text("\n".join(lines) + "\n")
    else:
        pq.write_table(pa.table(table), path, **options)
    return path


@pytest.mark.parametrize(("column", "value", "kind", "message"), HIDDEN)
@pytest.mark.parametrize("form", ["statistics", "csv", pytest.param("no statistics", marks=pytest.mark.slow)])
@pytest.mark.few(2)
def test_a_value_that_hides_is_named_and_can_be_skipped(
    column: str, value: float, kind: str, message: str, form: str, tmp_path: Path
) -> None:
    name = "log.csv" if form == "csv" else "log.parquet"
    path = write(tmp_path / name, column, value, {"write_statistics": form == "statistics"})
    for read in (read_log, read_rows):
        with pytest.raises(ValueError) as caught:
            read(path, **COLUMNS, arms=ARMS)
        assert str(caught.value).startswith(f"{path}, row 3, column '{column}': {message}")
    log = read_log(path, **COLUMNS, arms=ARMS, skip_bad=True)
    assert log.bad == {kind: 1}
    assert log.offline.reward_sums.tolist() == [1.0, 6.0]
    assert log.extent == (1.0, 4.0)
    assert log.propensities is not None and (log.propensities.low, log.propensities.high) == (0.5, 0.5)


@pytest.mark.parametrize("value", [NAN, INF, -INF, None])
def test_rows_without_a_time_have_no_say_in_what_is_early(value: float | None, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    times = [1.0, value, 2.0, value, 3.0, value, 4.0]
    pq.write_table(pa.table({"arm": ["a"] * 7, "r": [1.0] * 7, "t": pa.array(times, pa.float64())}), path)
    log = read_log(path, item="arm", reward="r", time="t", arms=ARMS, skip_bad=True)
    assert (log.early.total, log.late.total, sum(log.bad.values())) == (2, 2, 3)
    assert log.split == "t before 3"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("r", 1e154, "column 'r': rewards are too large to be squared and summed"),
        ("p", 1e-154, "column 'p': propensities are too small to be inverted"),
    ],
)
def test_sums_that_overflow_name_their_column(
    column: str, value: float, message: str, tmp_path: Path
) -> None:
    table = {"arm": ["a"] * 4, "r": [1.0] * 4, "p": [0.5] * 4, "t": [1.0] * 4}
    table[column] = [value] * 4
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    for skip_bad in (False, True):
        with pytest.raises(ValueError, match=message):
            read_log(path, **COLUMNS, arms=ARMS, skip_bad=skip_bad)


# -- how early and late are called ------------------------------------------------------------------------

TIMES: dict[str, tuple[list[Any], str]] = {
    "milliseconds": ([1_700_000_000_000 + i for i in range(4)], "1700000000002"),
    "milliseconds as text": ([str(1_700_000_000_000 + i) for i in range(4)], "1700000000002"),
    "seconds": ([1_700_000_000 + i for i in range(4)], "1700000002"),
    "small numbers as text": (["0.5", "1.5", "2.5", "3.5"], "2.5"),
    "dates as text": ([f"2024-01-0{day}" for day in range(1, 5)], "2024-01-03 00:00:00 UTC"),
    "dates before computers": ([f"1812-01-0{day}" for day in range(1, 5)], "1812-01-03 00:00:00 UTC"),
    "dates and numbers": (["1", "2", "2024-01-01", "2024-01-02"], "1704067200"),
    "a year beyond dates": (
        pa.array([(2**62 + i) // 10**6 * 10**6 for i in range(0, 4 * 10**7, 10**7)], pa.timestamp("us")),
        "4611686018447",
    ),
}


@pytest.mark.parametrize("what", TIMES)
def test_the_middle_is_called_what_it_was_read_as(what: str) -> None:
    times, middle = TIMES[what]
    table = pa.table({"arm": ["a"] * 4, "r": [1.0] * 4, "t": times})
    log = read_log(table, item="arm", reward="r", time="t", arms=ARMS)
    assert log.split == f"t before {middle}"
    assert (log.early.total, log.late.total) == (2, 2), "before means before: the middle itself is late"
