"""Rows from files: known by what the file holds, wherever it lies, and read once."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linoto import ArmTable, LinUCB
from linoto.logs.evaluate import ips, replay
from linoto.logs.read import read_log
from linoto.logs.read_rows import read_rows
from linoto.logs.rows import Fingerprint, Rows, split

ARMS = ArmTable.from_columns({"id": ["a", "b"], "size": [1.0, 2.0]})
COLUMNS: dict[str, Any] = {"item": "arm", "reward": "r"}


def write(path: Path, n: int = 200, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    path.parent.mkdir(exist_ok=True)
    rows = zip(rng.integers(0, 2, n), rng.normal(size=n), rng.normal(size=n), strict=True)
    path.write_text("arm,r,other\n" + "".join(f"{'ab'[arm]},{r},{other}\n" for arm, r, other in rows))
    return path


def test_a_file_gives_the_same_split_under_any_name_in_any_folder(tmp_path: Path) -> None:
    here = write(tmp_path / "d1" / "log.csv")
    there = tmp_path / "d2" / "copy.csv"
    there.parent.mkdir()
    shutil.copy(here, there)
    first, second = (split(read_rows(path, **COLUMNS, arms=ARMS)) for path in (here, there))
    assert np.array_equal(first[0].rewards, second[0].rewards)
    assert list(first[1].ids) == list(second[1].ids)  # type: ignore[arg-type]


def test_a_copy_of_the_rows_that_built_a_warm_start_cannot_judge_it(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv")
    shutil.copy(path, tmp_path / "copy.csv")
    warm = read_rows(path, **COLUMNS, arms=ARMS)
    judge = read_rows(tmp_path / "copy.csv", item="arm", reward="other", arms=ARMS)
    with pytest.raises(ValueError, match="got 200 of 200 that are"):
        ips(judge, 0, warm_start=warm)
    with pytest.raises(ValueError, match=r"log\.csv must hold other rows than .*copy\.csv, got the same"):
        read_rows(str(tmp_path / "*.csv"), **COLUMNS, arms=ARMS)


def test_rows_of_a_part_are_known_in_the_whole(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{seed}.csv", seed=seed) for seed in (0, 1)]
    whole = read_rows(files, **COLUMNS, arms=ARMS)
    part = read_rows(files[1], **COLUMNS, arms=ARMS)
    shared = part.fingerprint.shares(whole.ids)  # type: ignore[arg-type]
    assert shared.tolist() == [False] * 200 + [True] * 200
    assert np.array_equal(whole.rewards[200:], part.rewards)


def test_an_id_of_a_row_is_the_same_in_every_type() -> None:
    known = Fingerprint.of([17, 18])
    for ids in ([17, 18], [17.0, 18.0], ["17", "18"], ["17.0", "18.0"], np.array([17.0, 18.0])):
        assert known.shares(ids).all()
        table = pa.table({"arm": ["a", "b"], "r": [1.0, 2.0], "row": pa.array(list(ids))})
        assert known.shares(read_rows(table, **COLUMNS, arms=ARMS, id="row").ids).all()  # type: ignore[arg-type]


def test_ids_stay_the_texts_that_they_are_and_a_row_taken_twice_is_refused() -> None:
    rows = Rows(arms=[0, 1, 0], rewards=[0.0, 1.0, 2.0], k=2, ids=[17.0, "18.0", True])  # type: ignore[arg-type]
    part = rows.take(np.array([2, 0]))
    assert list(part.ids) == ["true", "17"]  # type: ignore[arg-type]
    again = pickle.loads(pickle.dumps(part))
    assert again.fingerprint.shares(rows.ids).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="ids must differ from row to row, got '17' twice"):
        rows.take(np.array([0, 0]))


def test_parts_of_rows_know_that_their_ids_differ() -> None:
    """Else they would be compared once more for each part, which takes a tenth of an audit."""
    rows = Rows(arms=[0, 1, 0, 1], rewards=[0.0, 1.0, 1.0, 0.0], k=2, ids=["a", "b", "c", "d"])
    ids: Any = rows.ids
    assert ids.distinct and not ids[:2].distinct and not ids.flags.writeable
    for chosen in (rows.arms == 1, np.array([0, 2, 3]), np.arange(2), np.zeros(4, np.bool_) | True):
        part: Any = rows.take(chosen).ids
        assert part.distinct and part.tolist() == ids[chosen].tolist() and not part.flags.writeable
    for twice in ([1, 1], [0, 2, 0], [0, -4]):
        with pytest.raises(ValueError, match=r"ids must differ from row to row, got '[ab]' twice"):
            rows.take(np.array(twice))
    assert np.asarray(rows.take(np.array([2, 0])).ids).tolist() == ["c", "a"]


def test_ids_that_somebody_holds_and_changes_are_compared() -> None:
    rows = Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2, ids=["a", "b"])
    mine: Any = np.asanyarray(rows.ids).copy()
    again = Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2, ids=mine)
    mine[1] = "a"
    assert np.asarray(again.ids).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="ids must differ from row to row, got 'a' twice"):
        Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2, ids=mine)


def test_numbers_that_are_made_of_ids_are_ids_again() -> None:
    rows = Rows(arms=[0, 1] * 20, rewards=[0.0, 1.0] * 20, k=2, ids=range(40)).take(np.arange(30))
    numbered = replace(rows, ids=np.asanyarray(rows.ids).astype(float))
    assert [list(part.ids) for part in split(numbered)] == [list(part.ids) for part in split(rows)]  # type: ignore[arg-type]


def test_rows_come_in_their_order_from_many_row_groups(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arms, rewards, times = rng.integers(0, 2, 50_000), rng.normal(size=50_000), rng.permutation(50_000)
    path = tmp_path / "log.parquet"
    table = pa.table({"arm": np.array(["a", "b"])[arms], "r": rewards, "t": times})
    pq.write_table(table, path, row_group_size=3000)
    rows = read_rows(path, **COLUMNS, arms=ARMS)
    assert np.array_equal(rows.arms, arms) and np.array_equal(rows.rewards, rewards)
    sorted_rows = read_rows(path, **COLUMNS, arms=ARMS, time="t")
    assert np.array_equal(sorted_rows.rewards[times], rewards)


def test_an_arm_that_nobody_logged_is_called_by_its_name(tmp_path: Path) -> None:
    table = pa.table({"arm": ["a"] * 5, "r": [0.0] * 5, "p": [1.0] * 5})
    rows = read_rows(table, **COLUMNS, arms=ARMS, propensity="p")
    with pytest.raises(ValueError, match="got none of arm 'b', which it waits for"):
        replay(rows, LinUCB(), actions=ARMS.actions)
    with pytest.raises(ValueError, match="names must be one for each of the 2 arms, got 1"):
        Rows(arms=[0], rewards=[1.0], k=2, names=["a"])


@pytest.mark.parametrize("contexts", [False, True], ids=["arms", "contexts"])
def test_bad_rows_are_left_out_of_rows_as_they_are_of_a_log(contexts: bool, tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv")
    lines = good.read_text().splitlines()
    bad = tmp_path / "bad.csv"
    bad.write_text("\n".join([lines[0], "a,none,1", *lines[1:], ",1,1", "b,1,none"]))
    numeric = ["other"] if contexts else []
    log = read_log(bad, **COLUMNS, numeric=numeric, skip_bad=True)
    recipe = log.recipe if contexts else None
    with pytest.raises(ValueError, match=r"bad.csv, row 1, column 'r': the reward must be a finite number"):
        read_rows(bad, **COLUMNS, recipe=recipe)
    rows = read_rows(bad, **COLUMNS, recipe=recipe, skip_bad=True)
    expected = read_rows(good, **COLUMNS, recipe=recipe)
    assert len(rows) == log.offline.total
    assert np.array_equal(rows.rewards[:200], expected.rewards)
    np.testing.assert_allclose(rows.offline.reward_sums, log.offline.reward_sums, rtol=1e-12)
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("arm,r,other\na,none,1\nb,none,1\n")
    with pytest.raises(ValueError, match=r"nothing.csv must have at least one usable row, got none"):
        read_rows(nothing, **COLUMNS, skip_bad=True)
