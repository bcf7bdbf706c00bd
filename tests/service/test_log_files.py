"""A loop from a log on the server: read once, never needed again, and never from outside its folder."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
from helpers.command import Process
from helpers.http import ask
from helpers.service_process import TOLERANT, FakeClock, opened
from pyarrow import parquet

import linoto
from linoto.service.errors import Refused
from linoto.service.loops.spec import (
    MOST_ARMS,
    Arm,
    LogFile,
    LogStatistics,
    LoopSpec,
    canonical,
)
from linoto.service.loops.starting import start_agent
from linoto.service.storage.log_files import open_folder

ROWS = [("b", 1.0), ("a", 0.0), ("b", 0.0), ("a", 1.0), ("a", 1.0)]
NO_FILE = "file must be a file in the log folder, got"


def write(path: Path, rows: list[tuple[Any, Any]], names: tuple[str, str] = ("arm", "click")) -> Path:
    """Rows as the kind of file that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        columns = zip(*rows, strict=True)
        table = pyarrow.table({name: list(values) for name, values in zip(names, columns, strict=True)})
        parquet.write_table(table, path)
    else:
        lines = [",".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)]
        path.write_text("\n".join(lines + [f"{arm},{reward}" for arm, reward in rows]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return open_folder(tmp_path / "logs")


def spec_of(
    file: str | None, arms: str = "", columns: tuple[str, str] = ("arm", "click"), **more: Any
) -> LoopSpec:
    log = None if file is None else LogFile(file=file, action=columns[0], reward=columns[1])
    names = [Arm(name=name) for name in arms]
    return LoopSpec(arms=names, policy=linoto.to_dict(TOLERANT), default_reward=0.0, log=log, **more)


def refusal(spec: LoopSpec, folder: Path | None) -> str:
    """Why there is no such loop: one sentence."""
    with pytest.raises(Refused) as caught:
        start_agent(canonical(spec, logs=folder))
    assert (caught.value.status, caught.value.code) == (422, "invalid")
    assert "\n" not in caught.value.message
    return caught.value.message


# -- what is counted


@pytest.mark.parametrize("name", ["may.parquet", "may.csv", "deep/er/may.csv"])
def test_a_file_rows_and_statistics_make_the_same_loop(folder: Path, name: str) -> None:
    write(folder / name, ROWS)
    from_file = canonical(spec_of(name), logs=folder)
    assert from_file == canonical(spec_of(name, arms="ab"), logs=folder)
    assert from_file == canonical(spec_of(None, arms="ab", rows=ROWS))
    assert from_file == canonical(spec_of(None, arms="ab", offline=from_file.offline))
    assert from_file.log is None and from_file.rows is None and from_file.offline is not None
    assert [arm.name for arm in from_file.arms] == ["a", "b"]
    assert from_file.offline.pulls == [3, 2] and from_file.offline.reward_sums == [2.0, 1.0]
    assert start_agent(from_file).offline.total == 5


def test_arms_that_are_given_keep_their_order_and_features(folder: Path) -> None:
    write(folder / "may.csv", ROWS)
    arms = [Arm(name=name, features=[1.0, float(i)]) for i, name in enumerate("cba")]
    made = canonical(msgspec.structs.replace(spec_of("may.csv"), arms=arms), logs=folder)
    assert made.arms == arms
    assert made.offline is not None and made.offline.pulls == [0, 2, 3]


def test_numbers_can_be_names_of_arms(folder: Path) -> None:
    write(folder / "may.parquet", [(7.0, 1), (10.0, 0), (7.0, 1)])
    made = canonical(spec_of("may.parquet"), logs=folder)
    assert [arm.name for arm in made.arms] == ["10", "7"]
    assert made.offline is not None and made.offline.pulls == [1, 2]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.few(0)
def test_two_hundred_thousand_rows_are_counted_exactly_every_time(folder: Path, suffix: str) -> None:
    rng = random.Random(5)
    rows = [(f"arm {rng.randrange(40)}", float(rng.random() < 0.3)) for _ in range(200_000)]
    write(folder / f"big.{suffix}", rows)
    made = canonical(spec_of(f"big.{suffix}"), logs=folder)
    assert made.offline is not None and sum(made.offline.pulls) == len(rows)
    sums = {arm.name: total for arm, total in zip(made.arms, made.offline.reward_sums, strict=True)}
    assert sums == {name: sum(r for arm, r in rows if arm == name) for name in sums}
    assert canonical(spec_of(f"big.{suffix}"), logs=folder) == made


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("column", ['a"b; DROP', "name", "a'b", "action", "x) FROM y --", "{a}", "$1", "ä ?"])
@pytest.mark.few(5)
def test_a_column_may_have_any_name(folder: Path, suffix: str, column: str) -> None:
    write(folder / f"odd.{suffix}", ROWS, names=(column, "click"))
    made = canonical(spec_of(f"odd.{suffix}", columns=(column, "click")), logs=folder)
    assert made.offline is not None and made.offline.pulls == [3, 2]


# -- what is refused


def test_without_a_folder_no_file_can_be_named() -> None:
    assert refusal(spec_of("may.csv"), None) == "this server has no log folder: start it with --logs FOLDER"


def test_no_file_outside_the_folder_can_be_named(folder: Path, tmp_path: Path) -> None:
    """Whether what it names exists or not, the answer is the same."""
    outside = write(tmp_path / "secret.csv", ROWS)
    (tmp_path / "beside").mkdir()
    write(tmp_path / "logs-too" / "may.csv", ROWS)
    inside = write(folder / "may.csv", ROWS)
    (folder / "link.csv").symlink_to(outside)
    (folder / "broken.csv").symlink_to(tmp_path / "nothing.csv")
    (folder / "itself.csv").symlink_to(folder / "itself.csv")
    (folder / "door").symlink_to(tmp_path)
    (folder / "folder.csv").mkdir()
    os.mkfifo(folder / "pipe.csv")
    names = [
        str(outside),
        str(tmp_path / "nothing.csv"),
        str(inside),  # an absolute path is none of ours, wherever it leads
        "../secret.csv",
        "../nothing.csv",
        "../logs/may.csv",
        "x/../may.csv",
        "../logs-too/may.csv",
        "link.csv",
        "broken.csv",
        "itself.csv",
        "door/secret.csv",
        "door/nothing.csv",
        "folder.csv",
        "pipe.csv",
        "none.csv",
        "*.csv",
        "ma?.csv",
        "[m]ay.csv",
        "{may,june}.csv",
        ".",
        "..",
        "~/may.csv",
        "http://127.0.0.1:9/may.csv",
        "s3://bucket/may.csv",
        "file:///etc/passwd",
        f"file://{inside}",
        "may.csv\0",
        "x" * 1000,
        "x/" * 400 + "may.csv",
    ]
    for name in names:
        assert refusal(spec_of(name), folder) == f"{NO_FILE} {name!r}"
    assert canonical(spec_of("may.csv"), logs=folder).offline is not None


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    write(folder / "2025" / "may.csv", ROWS)
    (folder / "latest.csv").symlink_to(folder / "2025" / "may.csv")
    assert canonical(spec_of("latest.csv"), logs=folder) == canonical(spec_of("2025/may.csv"), logs=folder)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("stem", ["m[ab]y", "m*y", "m?y", "m{a,b}y", "m'; DROP"])
@pytest.mark.few(3)
def test_a_file_name_is_never_a_pattern(folder: Path, stem: str, suffix: str) -> None:
    write(folder / f"{stem}.{suffix}", ROWS)
    write(folder / f"may.{suffix}", [("z", 1.0)])
    write(folder / f"mby.{suffix}", [("z", 1.0)])
    made = canonical(spec_of(f"{stem}.{suffix}"), logs=folder)
    assert [arm.name for arm in made.arms] == ["a", "b"]


def test_errors_about_a_log_do_not_tell_its_folder(folder: Path) -> None:
    write(folder / "may.csv", ROWS)
    write(folder / "bad.csv", [("a", 1), ("b", "many")])
    write(folder / "none.csv", [("a", 1), ("", 0)])
    write(folder / "nobody.parquet", [(None, 1.0)])
    write(folder / "empty.csv", [])
    write(folder / "long.csv", [("x" * 201, 1.0)])
    (folder / "broken.parquet").write_bytes(b"PAR1 and then nothing like it")
    (folder / "zero.csv").write_bytes(b"")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)))
    (folder / "may.sqlite").write_bytes(b"x")
    cases = [
        (spec_of("may.csv", arms="xb"), "may.csv, row 2, column 'arm': there is no arm 'a' among the 2 arms"),
        (spec_of("may.csv", columns=("x", "click")), "action must be a column of may.csv, which has none"),
        (spec_of("may.csv", columns=("arm", "x")), "reward must be a column of may.csv, which has none"),
        (
            spec_of("bad.csv"),
            "bad.csv, row 2, column 'click': the reward must be a finite number, got 'many'",
        ),
        (spec_of("none.csv"), "none.csv, row 2, column 'arm': the item is missing"),
        (spec_of("nobody.parquet"), "nobody.parquet, column 'arm': must name at least one arm, got none"),
        (spec_of("empty.csv"), "empty.csv must have at least one row, got none"),
        (spec_of("long.csv"), "long.csv, column 'arm': an arm must have 1 to 200 characters, got 201"),
        (spec_of("broken.parquet"), "broken.parquet cannot be read as Parquet"),
        (spec_of("zero.csv"), "zero.csv must have at least one row, got an empty file"),
        (spec_of("binary.csv"), "binary.csv must be text in UTF-8"),
        (spec_of("may.sqlite"), "may.sqlite must end in one of .csv"),
        (spec_of("may.csv", arms="aba"), "arms, row 3, column 'name': the id 'a' is that of row 1 too"),
    ]
    for spec, expected in cases:
        said = refusal(spec, folder)
        assert said.startswith(expected) and str(folder) not in said


def test_a_log_with_too_many_arms_says_how_many_are_allowed(folder: Path) -> None:
    write(folder / "wide.csv", [(f"arm {i}", 1) for i in range(MOST_ARMS + 1)])
    said = refusal(spec_of("wide.csv"), folder)
    assert said == f"wide.csv must name at most {MOST_ARMS} arms where arms are left out, got more"


def test_a_log_is_given_once(folder: Path) -> None:
    write(folder / "may.csv", ROWS)
    said = refusal(spec_of("may.csv", arms="ab", rows=ROWS), folder)
    assert said == "a log must be given once, as offline, rows or log, got rows and log"
    assert refusal(spec_of(None), folder).startswith("arms must be given where there is no log file")


def test_a_loop_that_could_not_be_read_again_is_not_made() -> None:
    """Sums may pass limits that each row keeps; within theirs they are read back as they were."""
    wide = linoto.LinUCB(confidence=linoto.Confidence(reward_range=(0.0, 1e15)))
    plain = {"arms": [Arm(name="a")], "policy": linoto.to_dict(wide), "default_reward": 0.0}
    kept = canonical(LoopSpec(**plain, rows=[("a", 1e15)] * 2))
    assert kept.offline is not None and kept.offline.reward_sums == [2e15]
    assert "reward_sums[0]" in refusal(LoopSpec(**plain, offline=LogStatistics([2], [1e101])), None)


def test_the_log_folder_must_be_a_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"logs must be a folder, got .*nowhere"),
        opened(tmp_path / "x.sqlite", logs=tmp_path / "nowhere", clock=FakeClock()),
    ):
        pass


# -- over HTTP


def test_a_loop_outlives_its_file_and_is_the_same_only_from_the_same_log(
    folder: Path, tmp_path: Path
) -> None:
    database, url = tmp_path / "x.sqlite", "/v1/loops/may"
    body = msgspec.to_builtins(spec_of("may.parquet"))
    write(folder / "may.parquet", ROWS)
    with Process(database, logs=folder) as server:
        status, made = ask(server, "PUT", url, body)
        assert status == 200 and made["reference"] == 0.6
        assert ask(server, "GET", f"{url}/spec")[1]["offline"]["pulls"] == [3, 2]
        assert ask(server, "PUT", url, body) == (200, made)
        write(folder / "may.parquet", [*ROWS, ("a", 1.0)])
        status, answer = ask(server, "PUT", url, body)
        assert (status, answer["error"]["code"]) == (409, "exists")
        escape = body | {"log": {**body["log"], "file": "../x.sqlite"}}
        status, answer = ask(server, "PUT", "/v1/loops/other", escape)
        assert (status, answer["error"]["message"]) == (422, f"{NO_FILE} '../x.sqlite'")
        first = ask(server, "POST", f"{url}/decide", {})[1]
    (folder / "may.parquet").unlink()
    with Process(database) as server:
        report = {"decision_id": first["decision_id"], "reward": 1.0}
        assert (
            ask(server, "POST", f"{url}/rewards", {"rewards": [report]})[1]["results"][0]["status"]
            == "applied"
        )
        assert ask(server, "POST", f"{url}/decide", {})[1]["reference"] == 0.6
        status, answer = ask(server, "PUT", url, body)
        assert (status, answer["error"]["message"][:31]) == (422, "this server has no log folder: ")
