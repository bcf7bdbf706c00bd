"""Rows from files, and `linoto evaluate` on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.exits import run
from helpers.logged_rows import TARGET, logged

from linoto.cli.evaluate import add_evaluate
from linoto.cli.usage import Parser
from linoto.logs.evaluate import evaluate, ips
from linoto.logs.learning import learn_policy
from linoto.logs.read import read_arms, read_log
from linoto.logs.read_rows import read_rows
from linoto.logs.rows import Rows, split


def write_files(folder: Path, n: int = 600) -> Rows:
    """log.csv, log.parquet, arms.csv and mix.csv; and the same rows."""
    rows = logged(n, seed=21)
    table = {
        "row": [f"r{i}" for i in range(n)],
        "time": list(range(n, 0, -1)),
        "arm": ["ABC"[arm] for arm in rows.arms],
        "click": rows.rewards.astype(int).tolist(),
        "p": np.asarray(rows.propensities).tolist(),
    }
    lines = [",".join(table), *(",".join(map(str, row)) for row in zip(*table.values(), strict=True))]
    (folder / "log.csv").write_text("\n".join(lines) + "\n")
    pq.write_table(pa.table(table), folder / "log.parquet")
    (folder / "arms.csv").write_text("arm,size,colour\nA,1,red\nB,2,red\nC,3,blue\n")
    (folder / "mix.csv").write_text("arm,probability\nC,0.6\nA,0.1\nB,0.3\n")
    return rows


COLUMNS: dict[str, Any] = {"item": "arm", "reward": "click", "propensity": "p"}


def test_rows_are_the_same_from_every_kind_of_file(tmp_path: Path) -> None:
    expected = write_files(tmp_path)
    arms = read_arms(tmp_path / "arms.csv")
    table = pq.read_table(tmp_path / "log.parquet")
    for source in (tmp_path / "log.csv", tmp_path / "log.parquet", table):
        found = read_rows(source, arms=arms, id="row", **COLUMNS)
        assert np.array_equal(found.arms, expected.arms)
        assert np.array_equal(found.rewards, expected.rewards)
        assert np.array_equal(found.propensities, expected.propensities)  # type: ignore[arg-type]
        assert list(found.ids) == [f"r{i}" for i in range(600)]  # type: ignore[arg-type]


def test_rows_of_a_file_are_known_by_their_place_and_come_in_the_order_of_time(tmp_path: Path) -> None:
    expected = write_files(tmp_path)
    arms = read_arms(tmp_path / "arms.csv")
    first = read_rows(tmp_path / "log.csv", arms=arms, **COLUMNS)
    again = read_rows(str(tmp_path / "log.csv"), arms=arms, time="time", **COLUMNS)
    assert np.array_equal(again.arms, expected.arms[::-1])
    assert list(again.ids) == list(first.ids)[::-1]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 600 of 600 that are"):
        ips(first, TARGET, warm_start=again)
    table = read_rows(pq.read_table(tmp_path / "log.parquet"), arms=arms, **COLUMNS)
    assert table.ids is None, "two tables may have rows in the same places"


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    write_files(tmp_path)
    arms = read_arms(tmp_path / "arms.csv")
    text = (tmp_path / "log.csv").read_text().splitlines()
    for column, value, message in (
        (2, "D", r"row 2.*'arm'.*D"),
        (3, "", r"row 2.*'click'"),
        (4, "1.5", r"row 2.*'p'.*1\.5"),
        (0, "", r"row 2.*'row': the id is missing"),
    ):
        cells = text[2].split(",")
        cells[column] = value
        (tmp_path / "bad.csv").write_text("\n".join([*text[:2], ",".join(cells), *text[3:]]))
        with pytest.raises(ValueError, match=message):
            read_rows(tmp_path / "bad.csv", arms=arms, id="row", **COLUMNS)


def command(folder: Path, *words: str) -> Any:
    """The parsed arguments of `linoto evaluate` on the files of a folder."""
    top = Parser(prog="linoto")
    add_evaluate(top.add_subparsers(required=True, parser_class=Parser))
    files = [str(folder / "log.csv"), "--arms", str(folder / "arms.csv"), "--action", "arm"]
    return top.parse_args(["evaluate", *files, "--reward", "click", *words])


def answer(arguments: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    arguments.run(arguments)
    return json.loads(capsys.readouterr().out)


def test_the_command_says_what_the_functions_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = write_files(tmp_path)
    mix = str(tmp_path / "mix.csv")
    found = answer(command(tmp_path, "--propensity", "p", "--probabilities", mix, "--json"), capsys)
    expected = [estimate.to_dict() for estimate in evaluate(rows, TARGET)]
    assert found["estimates"] == [pytest.approx(estimate) for estimate in expected]
    assert (found["rows"], found["warm_rows"]) == (600, 0)
    found = answer(command(tmp_path, "--uniform", "--play", "C", "--json"), capsys)
    assert found["target"] == {"arm": "C"}
    assert found["estimates"][1]["value"] == pytest.approx(3 * (rows.rewards * (rows.arms == 2)).mean())


def test_the_command_never_lets_rows_judge_what_they_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    words = ("--propensity", "p", "--policy", "Gated", "--epsilon", "0.2", "--bound", "2", "--json")
    for extra, warm in ((("--row", "row"), None), (("--time", "time", "--warm", "0.25"), 150)):
        found = answer(command(tmp_path, *words, *extra), capsys)
        (estimate,) = found["estimates"]
        assert estimate["method"] == "replay"
        assert estimate["rows"] + found["warm_rows"] == 600
        assert warm is None or found["warm_rows"] == warm
        assert found["target"]["policy"]["gate"]["epsilon"] == 0.2


def test_the_command_prints_a_table_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_files(tmp_path)
    arguments = command(tmp_path, "--uniform", "--probabilities", str(tmp_path / "mix.csv"))
    arguments.run(arguments)
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[2:6]] == ["replay", "ips", "snips", "dr"]
    assert "the propensities do not fit" in " ".join(text.split())
    assert "every reward is 0 or 1" in " ".join(text.split())


def test_the_command_says_where_there_is_too_little(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    lines = (tmp_path / "log.csv").read_text().splitlines()
    for click, table, note in (
        ("0", "[0, 0.0", "it takes 10"),
        ("2.5", "too few events to say", "it takes 100"),
    ):
        silent = [
            lines[0],
            *(",".join([*line.split(",")[:3], click, line.split(",")[4]]) for line in lines[1:]),
        ]
        (tmp_path / "log.csv").write_text("\n".join(silent) + "\n")
        arguments = command(tmp_path, "--propensity", "p", "--play", "C")
        arguments.run(arguments)
        text = " ".join(capsys.readouterr().out.split())
        assert table in text and f"rewards that count differ from {click}; {note}" in text
        found = answer(command(tmp_path, "--propensity", "p", "--play", "C", "--json"), capsys)
        assert not any(estimate["enough"] for estimate in found["estimates"])
        assert note in found["estimates"][0]["reason"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--play", "C"), "one of the arguments --propensity --uniform is required"),
        (("--uniform",), "one of the arguments --play --probabilities --greedy --learn --policy is required"),
        (("--propensity", "q", "--play", "C"), "propensity must be a column of"),
        (("--uniform", "--play", "C", "--epsilon", "0.1"), "--epsilon is for --policy"),
    ],
)
def test_wrong_usage_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    write_files(tmp_path, n=30)
    with pytest.raises(SystemExit) as stopped:
        arguments = command(tmp_path, *words)
        arguments.run(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_wrong_targets_are_named(tmp_path: Path) -> None:
    write_files(tmp_path, n=30)
    bad = tmp_path / "bad.csv"
    for text, message in (
        ("arm,probability\nA,1\nD,0\n", r"bad\.csv, line 3: there is no arm 'D'"),
        ("arm,probability\nA,x\n", r"bad\.csv, line 2: a probability must be a number, got 'x'"),
        ("arm,probability\nA,0.4\n", "probabilities must sum to 1, got 0.4"),
        ("arm,probability\nA\n", r"line 2: must have two columns, got 1"),
        ("", "must have two columns"),
    ):
        bad.write_text(text)
        arguments = command(tmp_path, "--uniform", "--probabilities", str(bad))
        with pytest.raises(ValueError, match=message):
            arguments.run(arguments)
    arguments = command(tmp_path, "--uniform", "--play", "a")
    with pytest.raises(ValueError, match="--play: there is no arm 'a'"):
        arguments.run(arguments)
    arguments = command(tmp_path, "--uniform", "--policy", "Gated", "--warm", "1")
    with pytest.raises(ValueError, match="--warm must be less than 1"):
        arguments.run(arguments)


@pytest.mark.parametrize("way", ["pessimistic", "doubly robust"])
@pytest.mark.parametrize("contexts", [False, True], ids=["arms", "contexts"])
def test_what_is_learnt_from_one_part_is_judged_by_the_other(
    contexts: bool, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    words = ["evaluate", tmp_path / "log.csv", "--item", "arm", "--reward", "click", "--propensity", "p"]
    words += ["--numeric", "time"] if contexts else []
    learn = ["--learn"] if way == "pessimistic" else ["--learn", "doubly-robust"]
    assert run(*words, *learn, "--warm", 0.7, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    recipe = read_log(tmp_path / "log.csv", **COLUMNS, numeric=["time"]).recipe if contexts else None
    taught, others = split(read_rows(tmp_path / "log.csv", **COLUMNS, recipe=recipe), share=0.7)
    expected = evaluate(others, learn_policy(taught, method=way), seed=0)
    assert told["warm_rows"] == len(taught) and told["estimates"] == [each.to_dict() for each in expected]
    assert run(*words, *learn, "--warm", 0.7) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"learnt from {len(taught)} other rows; they judged nothing" in said
    assert run(*words, "--play", "A", "--warm", 0.5) == 2
    assert "--warm is for --policy, --learn and --against-learnt" in capsys.readouterr().err


def test_a_second_table_says_how_much_more_than_the_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_files(tmp_path)
    named = ["evaluate", str(tmp_path / "log.csv"), "--item", "arm", "--reward", "click", "--propensity", "p"]
    run(*named, "--play", "C", "--against-log", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["baseline"] == {"logged": True}
    gains = [found for found in told["estimates"] if found.get("beyond")]
    assert [found["value"] for found in gains] == [
        found.value for found in evaluate(rows, 2, baseline="logged") if found.beyond
    ]
    run(*named, "--play", "C", "--against", "A")
    assert "more per round than arm 'A' (dr, 0.95 interval)" in " ".join(capsys.readouterr().out.split())
    run(*named, "--play", "A", "--against", "A")
    said = " ".join(capsys.readouterr().out.split())
    assert "verdict it plays the same as arm 'A' in each of these rows" in said
    run(*named, "--play", "A", "--against-learnt", "--warm", "0.4")
    said = " ".join(capsys.readouterr().out.split())
    assert "less per round than what was learnt (pessimistic) (dr, 0.95 interval)" in said
    assert "learnt from" in said
    run(*named, "--learn", "--against-learnt", "doubly-robust", "--json")
    assert json.loads(capsys.readouterr().out)["baseline"] == {"learn": "doubly-robust"}
    run(*named, "--probabilities", str(tmp_path / "mix.csv"), "--against-log", "--level", "0.999")
    assert "gain per round" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--policy", "Gated", "--against-log"], "--against-log is not for --policy"),
        (["--play", "A", "--against", "purple"], "--against: there is no arm 'purple'"),
        (["--play", "A", "--against-log", "--against", "B"], "not allowed with argument"),
    ],
)
def test_baselines_that_do_not_fit_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    write_files(tmp_path)
    named = ["evaluate", str(tmp_path / "log.csv"), "--item", "arm", "--reward", "click", "--propensity", "p"]
    assert run(*named, *options) == (1 if "purple" in options else 2)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("word", ["greedy", "logged", "pessimistic"])
def test_arms_may_be_called_like_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    """What an option says is what is meant; and an audit asks for its own greedy target."""
    write_files(tmp_path)
    log = tmp_path / "log.csv"
    log.write_text(log.read_text().replace(",C,", f",{word},"))
    named = [str(log), "--item", "arm", "--reward", "click", "--propensity", "p"]
    assert run("evaluate", *named, "--greedy", "--against-log", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"].endswith("than what was logged (dr, 0.95 interval)")
    assert run("evaluate", *named, "--play", word, "--against-log", "--json") == 0
    assert "more per round than what was logged" in json.loads(capsys.readouterr().out)["verdict"]
    assert run("evaluate", *named, "--play", "A", "--against", word) == 0
    assert f"less per round than arm {word!r}" in " ".join(capsys.readouterr().out.split())
    assert run("audit", *named, "--numeric", "time") in (0, 1)
    assert "must be clear" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A,0.4\nB,0.6\n", "must begin with the names of its columns, got A,0.4"),
        ("arm,p\nA,0.4\nA,0.6\n", "line 3: an arm must be named once, got 'A' again"),
        ("arm,p\nA,1.5\nB,-0.5\n", "target must be probabilities, none below 0, got -0.5"),
    ],
)
def test_odd_files_of_probabilities_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    write_files(tmp_path)
    (tmp_path / "mix.csv").write_text(text)
    named = ["evaluate", tmp_path / "log.csv", "--item", "arm", "--reward", "click", "--propensity", "p"]
    assert run(*named, "--probabilities", tmp_path / "mix.csv") == 1
    assert words in capsys.readouterr().err


def test_no_option_is_recommended_that_the_command_has_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(tmp_path)
    log = tmp_path / "log.csv"
    log.write_text(log.read_text().replace(",C,", ", ,"))
    named = [str(log), "--item", "arm", "--reward", "click", "--propensity", "p"]
    assert run("evaluate", *named, "--play", "A") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "leave such rows out (--where)" in said and "skip" not in said
    assert run("audit", *named) == 1
    assert "leave such rows out (--skip-bad, --where)" in " ".join(capsys.readouterr().err.split())
