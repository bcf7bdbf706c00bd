from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cells import rows_of, wait_for_cells
from helpers.forks import ForkedCommand

from linoto import __version__, cli
from linoto.cli.commands import parser
from linoto.cli.reproduce import FIGURES
from linoto.cli.terminal import print_facts, print_table
from linoto.experiments import paper

STUDY = """
[policies.LinOtO]
type = "LinOtO"

[policies.LinTS]
type = "LinTS"

[[setting]]
name = "small"
k = 12
d = 4
logged_arms = 3
horizon = 50
"""


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    try:
        code = cli.main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    return path


# -- usage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["", "demo", "certificate", "preview", "reproduce", "study"])
def test_help_is_there_with_examples(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = run(capsys, *command.split(), "--help")
    assert code == 0 and not err
    assert ("examples:" in out) == bool(command)
    assert "None" not in out and "==SUPPRESS==" not in out


def test_help_is_instant() -> None:
    # The heavy modules are not even imported: a law on any machine, unlike a number of milliseconds.
    script = (
        "import sys; from linoto import cli\n"
        "try: cli.main(['reproduce', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numba', 'numpy', 'matplotlib', 'rich', 'pandas'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"linoto {__version__}\n", "")


def test_the_figures_offered_are_those_there_are() -> None:
    assert tuple(paper.FIGURES) == FIGURES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("demoo", "there is no command 'demoo': did you mean 'demo'?"),
        ("replay", "there is no command 'replay': did you mean 'evaluate'?"),
        ("reproduce horizn", "there is no figure 'horizn': did you mean 'horizon'?"),
        ("reproduce xyzzy", "it must be one of all, horizon, offline-size"),
        ("reproduce --runs 0", "--runs: must be a whole number >= 1, got '0'"),
        ("reproduce --runs 1e3", "must be a whole number >= 1, got '1e3'"),
        ("reproduce --seed -1", "--seed"),
        ("reproduce alpha remarks --field", "--field is for horizon, offline-size, offline-size-best"),
        ("reproduce --jbos 2", "unrecognized arguments: --jbos: did you mean '--jobs'?"),
        ("demo --run 3", "unrecognized arguments: --run: did you mean '--runs'?"),
        ("audit a.csv -- --budget 30", "unrecognized arguments: --budget 30: --budget must stand before --"),
        ("create -- --x s.npz --budget=30", "arguments: --budget=30: --budget must stand before --"),
        ("study", "the following arguments are required: FILE.toml"),
        ("preview", "give either a STATS file or --paper, and not both"),
        ("certificate log.npz --paper", "give either a STATS file or --paper, and not both"),
        ("preview --paper --evidence modle", "--evidence must be one of model, rewards, both, got 'modle'"),
        ("preview --paper --evidence modle", "did you mean 'model'?"),
        ("preview --paper --explorer thomson", "did you mean 'thompson'?"),
        ("preview --paper --logged-arms bad", "--logged-arms must be one of good, random, best, got 'bad'"),
        ("preview --paper --epsilon-grid 0.1;0.2", "numbers >= 0 with commas between them, got '0.1;0.2'"),
        ("preview --paper --epsilon-grid 0.1 --alpha-grid 1", "not allowed with argument"),
        ("preview --paper --limit 0", "--limit: must be a number > 0, got '0'"),
        ("preview --paper --noise wild", "must be a number > 0 or the word bounded, got 'wild'"),
        ("preview --paper --reward-range 0", "--reward-range: expected 2 arguments"),
        ("preview --paper --horizn 5", "did you mean '--horizon'?"),
        (
            "preview --paper --budget 5",
            "linoto preview: unrecognized arguments: --budget: did you mean '--budget-grid'?",
        ),
        ("token list", "there is no command 'token': did you mean `linoto db token`?"),
        ("db token list --limit 3", "linoto db token list: unrecognized arguments: --limit"),
        ("certificate --paper --epsilon x", "--epsilon: must be a number >= 0, got 'x'"),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    code, out, err = run(capsys, *arguments.split())
    assert code == 2 and not out
    assert message in err and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize("number", ["-3", "-.5", "-1.", "-2.5", "-8e8", "-1E-3", "-.5e+2"])
@pytest.mark.few(7)
def test_negative_numbers_are_no_options_however_they_are_written(number: str) -> None:
    words = ["certificate", "--paper", "--reward-range", number, "1e9"]
    assert parser().parse_args(words).reward_range == [float(number), 1e9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file"),
        ("[policies.x]\ntype = 'LinTS'\nscael = 1\n[[setting]]", "'scael': did you mean 'scale'?"),
        ("[policies.x]\ntype = 'LinTS'\n[[setting]]\nlogged_arms = 500", "logged_arms must be at most 99"),
    ],
)
def test_a_failure_is_one_sentence_and_exit_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None, message: str
) -> None:
    path = tmp_path / "bad.toml"
    if text is not None:
        path.write_text(text)
    code, out, err = run(capsys, "study", path, "--out", tmp_path / "out")
    assert code == 1 and not out
    assert message in err and str(path) in err and err.count("\n") == 1
    assert not (tmp_path / "out").exists()


STATS: dict[str, Any] = {
    "actions": [[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]],
    "pulls": [30, 30, 0],
    "reward_sums": [15.0, 6.0, 0.0],
}


def statistics(tmp_path: Path, changes: dict[str, Any] | str | None) -> Path:
    """A statistics file: with changes (None takes an entry away), or any text, or none at all."""
    path = tmp_path / "log.json"
    if isinstance(changes, dict):
        data = {name: value for name, value in {**STATS, **changes}.items() if value is not None}
        path.write_text(json.dumps(data))
    elif changes is not None:
        path.write_text(changes)
    return path


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (None, "", "No such file"),
        ("{", "", "it is not valid JSON"),
        ("[1]", "", "it must be a JSON object, got list"),
        ({"pulls": None, "pull": [1]}, "", "there is no 'pulls': is it 'pull'?"),
        ({"reward_sums": None}, "", "there is no 'reward_sums'"),
        ({"actions": [[1.0], [2.0, 3.0], [1.0]]}, "", "actions must be an array of numbers"),
        ({"actions": [1.0, 2.0, 3.0]}, "", "actions must have 2 dimension(s), got shape (3,)"),
        ({"pulls": [1, 2]}, "", "reward_sums must have shape (2,) like pulls, got (3,)"),
        ({"pulls": [1, 2], "reward_sums": [0, 0]}, "", "pulls must be of the 3 arms in actions, got 2"),
        ({"pulls": [-1, 2, 0]}, "", "pulls must be whole numbers >= 0, got -1"),
        ({"pulls": [1, 0, 0]}, "", "reward_sums must be 0 where pulls is 0"),
        ({"pulls": [0, 0, 0], "reward_sums": [0, 0, 0]}, "", "at least one reward, got an empty log"),
        ({"names": ["a"]}, "", "names must be a list of 3 names"),
        ({"names": "abc"}, "", "names must be a list of 3 names"),
        (
            {"names": ["a", "b", None]},
            "",
            "texts without control characters or line ends, got None",
        ),
        ({"names": ["a", "b", "c\x1b"]}, "", r"without control characters or line ends, got 'c\x1b'"),
        ({}, "--policy Gatde", "there is no policy 'Gatde': did you mean 'Gated'?"),
        ({}, "--policy {", "--policy is not valid JSON"),
        ({}, '--policy {"type":"LinOto"}', "there is no type 'LinOto': did you mean 'LinOtO'?"),
        ({}, '--policy {"type":"Random"} --noise 2', "Random assumes nothing about rewards"),
        (
            {},
            '--policy {"type":"Doubling","policy":{"type":"LinUCB"}}',
            "--policy must be a policy with a gate, got Doubling",
        ),
        (
            {},
            '--policy {"type":"LinUCB"}',
            "policy must have a Budget, Tolerance, Control or Conservative gate",
        ),
        ({}, "--policy LinOtO --explorer greedy", "--explorer is for Gated"),
        ({}, "--policy LinOtO --evidence model", "--evidence is for a Tolerance gate"),
        ({}, "--policy LinOtO --gate control", "--gate is for Gated, got --policy LinOtO"),
        ({}, "--gate control --evidence model", "--evidence is for a Tolerance gate"),
        ({}, "--gate control", "--reward-range must be given for a Control gate, got None"),
        (
            {},
            "--policy LinOtO --epsilon-grid 0.1",
            "the parameter of this policy is alpha: give --alpha-grid",
        ),
        ({}, "--noise bounded", "--reward-range must be given where noise is 'bounded'"),
        ({}, "--evidence rewards", "--reward-range must be given for --evidence rewards"),
        ({}, "--delta 2", "delta must be in (0, 1)"),
        ({"pulls": [3000, 30, 0], "reward_sums": [9e3, 6, 0]}, "", "bound must be at least"),
    ],
)
def test_a_bad_log_or_policy_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, changes: Any, options: str, message: str
) -> None:
    path = statistics(tmp_path, changes)
    page = tmp_path / "page.html"
    short = ("--horizon", 5, "--worlds", 1, "--out", page)
    code, out, err = run(capsys, "preview", path, *options.split(), *short)
    assert (code, out) == (1, "") and not page.exists()
    assert message in err and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize("content", [b"PK\x03\x04 no zip", b"", b"\x80\x04pickle"])
def test_a_broken_npz_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "log.npz"
    path.write_bytes(content)
    code, out, err = run(capsys, "certificate", path)
    assert (code, out) == (1, "") and str(path) in err and "numpy.savez" in err and err.count("\n") == 1


def test_a_pickled_array_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", actions=np.array([{}, None], dtype=object))
    code, _, err = run(capsys, "certificate", tmp_path / "log.npz")
    assert code == 1 and "numpy.savez" in err


def test_a_failed_cell_is_named(capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY + "\n[policies.Stuck]\ntype = 'Gated'\nfallback = 99\n")
    code, _, err = run(capsys, "study", study, "--out", tmp_path / "out")
    assert code == 1
    assert "setting 'small', policy 'Stuck', run 0 failed: ValueError: " in err


def test_a_file_of_somebody_else_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.cells.sqlite").write_text("precious")
    code, _, err = run(capsys, "study", study, "--out", out)
    assert code == 1 and "move it away" in err
    assert (out / "mine.cells.sqlite").read_text() == "precious"


# -- commands ---------------------------------------------------------------------------------------------


def test_demo_tells_the_story_of_the_flights(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "demo", "--runs", 2, "--horizon", 400, "--out", tmp_path)
    assert code == 0
    assert all(line.endswith("% done") for line in err.splitlines()), "what a slow machine says"
    for policy in ("Gated", "LinOtO", "LinUCB", "LinLCB"):
        assert re.search(rf"^{policy} +\d+\.\d% +\d+ +", out, re.MULTILINE)
    for path in tmp_path.iterdir():
        assert path.stem in out, "every file is named"
    page = (tmp_path / "demo.html").read_text("utf-8")
    assert "What the audit says of this log" in page and "Verdict: " in page
    assert "When the world moves" in page and out.count("Control") >= 2, "both orders of the months"
    told = " ".join(out.split())
    assert told.index("the usual explorer behind Control ends at") < told.index("A warning: a bold explorer")
    assert not re.search(r'(?:src|href)="(?!#)', page), "nothing from outside"
    code, out, _ = run(capsys, "demo", "--runs", 2, "--horizon", 400, "--out", tmp_path, "--json")
    data = json.loads(out)
    usual = {row["months"]: row for row in data["seasons"] if row["policy"] == "Control"}
    gains = " and ".join(f"{usual[months]['gain']:+.0f} {months}" for months in ("forwards", "backwards"))
    worst = max(row["worst_shortfall"] for row in usual.values())
    said = f"behind Control ends at {gains}, and is never more than {worst:.0f} behind."
    assert said in told and said in " ".join(page.split()), "the numbers are those of the run"
    gated = data["table"][0]
    assert gated["policy"] == "Gated" and gated["worst_shortfall_of_all"] <= gated["promised_limit"]
    assert (tmp_path / "demo.html").read_text("utf-8") == page, "the same arguments, the same bytes"


def test_the_papers_demo_prints_a_table_and_where_it_wrote(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "demo", "--paper", "--runs", 2, "--horizon", 60, "--out", tmp_path)
    assert (code, err) == (0, "")
    for policy in ("LinOtO", "LinUCB", "LinLCB", "Random"):
        assert re.search(rf"^{policy} +-?\d+ ± \d+ +-?\d+ ± \d+ +\d+\.\d%$", out, re.MULTILINE)
    assert f"wrote {tmp_path / 'paper'} .png .svg" in out
    assert (tmp_path / "paper.png").exists() and (tmp_path / "paper.svg").exists()


def test_demo_as_json_is_numbers_and_nothing_else(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "demo", "--paper", "--runs", 2, "--horizon", 60, "--out", tmp_path, "--json")
    data = json.loads(out)
    assert code == 0 and data["runs"] == 2
    assert [row["policy"] for row in data["table"]] == ["LinOtO", "LinUCB", "LinLCB", "Random"]
    assert all(isinstance(row["regret"], float) and row["regret_se"] >= 0 for row in data["table"])
    assert all(Path(path).exists() for path in data["wrote"])


def test_without_a_command_there_is_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main([])
    out, err = capsys.readouterr()
    assert stopped.value.code == 0 and out.startswith("usage: linoto") and err == ""
    assert all(word in out for word in ("demo", "audit", "study", "serve"))


def test_tables_fit_eighty_columns_have_no_loose_spaces_and_take_brackets_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table([{"policy": "[red]mine[/red]", "shortfall below the log": "-3 ± 1"}] * 2)
    print_facts([("interval", "[0.2, 0.3]"), ("assumes", "rewards in [0, 1] :smile: " * 9)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "policy            shortfall below the log"
    assert lines[2] == lines[3] == "[red]mine[/red]                    -3 ± 1"
    assert lines[4] == "interval  [0.2, 0.3]" and lines[6].startswith("          ")
    assert ":smile:" in lines[5]
    assert all(len(line) <= 80 and line == line.rstrip() for line in lines)


def test_a_number_and_its_unit_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for start in range(70):
        print_facts([("x", "y" * start + " 95\u00a0%")])
        assert "95\u00a0%" in capsys.readouterr().out


def test_a_narrow_terminal_gets_no_broken_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    _, out, _ = run(capsys, "demo", "--paper", "--runs", 2, "--horizon", 60, "--out", tmp_path)
    table = out[out.index("policy:") : out.index("wrote")]
    assert max(len(line) for line in table.splitlines()) <= 30
    assert "policy: LinOtO\nregret: " in table


def test_a_certificate_is_a_table_and_an_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "log.npz", **STATS)
    command = ("certificate", tmp_path / "log.npz", "--epsilon", 0.02, "--horizon", 1000)
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "")
    assert re.search(r"^most lost per round +0\.02, plus 1 once$", out, re.MULTILINE)
    assert re.search(r"^most lost in 1000 rounds +21$", out, re.MULTILINE)
    code, out, _ = run(capsys, *command, "--json")
    data = json.loads(out)
    assert code == 0 and data["certificate"]["loss"] == 21.0 and data["policy"]["gate"]["epsilon"] == 0.02


def test_a_certificate_says_how_far_the_log_may_have_moved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "log.npz", **STATS)
    command = ("certificate", tmp_path / "log.npz", "--epsilon", 0.02, "--shift", 0.1)
    code, out, err = run(capsys, *command)
    assert (code, err) == (0, "") and re.search(r"^shift +0\.1, as given$", out, re.MULTILINE)
    assert "differ from those" in out and "no drift" not in out
    data = json.loads(run(capsys, *command, "--json")[1])
    assert data["policy"]["confidence"]["shift"] == 0.1
    code, _, err = run(capsys, "certificate", "--paper", "--policy", '{"type": "Greedy"}', "--shift", 0.1)
    assert code == 1 and "shift must be 0 for Greedy without a gate, got 0.1" in err


def test_a_certificate_of_the_papers_policy_is_turned_by_alpha(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "certificate", "--paper", "--policy", "LinOtO", "--alpha", 0.01)
    assert code == 0 and "yes: no play could lose more" in out
    code, _, err = run(capsys, "certificate", "--paper", "--policy", "LinOtO", "--epsilon", 0.01)
    assert code == 1 and "give --alpha" in err


def test_the_same_file_says_the_same_as_npz_and_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "log.npz", **STATS)
    first = run(capsys, "certificate", tmp_path / "log.npz", "--epsilon", 0.02)
    assert run(capsys, "certificate", statistics(tmp_path, {}), "--epsilon", 0.02) == first


def test_preview_answers_in_the_terminal_and_says_where_the_page_is(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "there" / "page.html"
    short = ("--horizon", 200, "--worlds", 4, "--limit", 3, "--out", page)
    code, out, err = run(capsys, "preview", statistics(tmp_path, {}), *short)
    assert (code, err) == (0, "")
    title, verdict, answer, *_ = out.splitlines()
    assert title == "What is the most we can lose, and what do we stand to gain?"
    assert re.fullmatch(r"Verdict +not yet, over 200 rounds to come", verdict)
    assert answer.startswith("What to do ")
    assert f"wrote {page}" in out and page.exists()
    assert re.search(r"^2 +3 ", out, re.MULTILINE)  # 3 - 1: the limit's own budget
    code, out, _ = run(capsys, "preview", statistics(tmp_path, {}), *short, "--json")
    data = json.loads(out)
    assert code == 0 and data["verdict"] == "not yet" and data["wrote"] == [str(page)]
    assert data["recommended"]["guaranteed"] is None, "no promise within the limit is worth having"
    assert [point["summary"]["knob"] for point in data["outlooks"]] == [2, 4, 10, 20, 40, 100]
    assert data["unit"] == "units of reward" and data["earned"] is None  # not surely above 0
    assert len(data["outlooks"][0]["worlds"]["regret"]) == 4


def test_a_budget_of_nothing_stays_a_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ("--worlds", "2", "--horizon", "20", "--budget-grid", "0", "--out", str(tmp_path / "page.html"))
    code, out, _ = run(capsys, "preview", statistics(tmp_path, {}), *short)
    assert code == 0 and "a budget of 0" in out.replace("\u00a0", " ") and "tolerance" not in out


def test_the_papers_problem_can_be_previewed_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = ("--horizon", 50, "--worlds", 2, "--explorer", "thompson", "--out", tmp_path / "page.html")
    code, out, _ = run(capsys, "preview", "--paper", *options)
    assert code == 0 and "a budget of" in out and "units of reward" in out
    options = (*options[:4], "--policy", "LinOtO", "--alpha-grid", "0.0,1", *options[6:])
    code, out, _ = run(capsys, "preview", "--paper", *options)
    assert code == 0 and "alpha = 0" in out


def test_a_built_in_study_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "study", "beyon")
    assert code == 1 and "there is no file 'beyon': did you mean 'beyond'?" in err


def test_reproduce_writes_a_figure_its_tables_and_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "reproduce", "horizon", "--runs", 2, "--out", tmp_path, "--bounds")
    assert (code, err) == (0, "")
    endings = ("png", "svg", "parquet", "table.csv", "table.json", "bounds.png", "bounds.svg", "bounds.csv")
    for name in (*(f"horizon.{ending}" for ending in endings), "claims.json", "report.html"):
        assert (tmp_path / name).stat().st_size > 0
    assert f"wrote {tmp_path / 'report.html'}" in out
    assert "early-tracks-lcb" in out and "parts of 8 claims: holds: " in out
    assert "linoto reproduce horizon --runs 2 --seed 0 --bounds" in (tmp_path / "report.html").read_text()


def test_reproduce_runs_thirty_times_and_says_how_long_and_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run(capsys, "reproduce", "--help")
    words = " ".join(out.split())
    assert "(default: 30)" in words and "minutes" in words and "with --resume goes on" in words


def test_reproduce_as_json_is_one_object(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "reproduce", "horizon", "--runs", 2, "--out", tmp_path, "--json")
    data = json.loads(out)
    assert code == 0 and set(data["tables"]) == {"horizon"} and len(data["tables"]["horizon"]) == 15
    assert {claim["experiment"] for claim in data["claims"]} == {"horizon"}
    assert all(Path(path).exists() for path in data["wrote"])


def test_a_study_runs_resumes_and_says_what_it_replaces(
    capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, text, err = run(capsys, "study", study, "--runs", 2, "--out", out)
    assert (code, err) == (0, "") and "small" in text and f"wrote {out / 'mine'} .png" in text
    fresh = contents(out)
    code, _, err = run(capsys, "study", study, "--runs", 2, "--out", out, "--resume")
    assert (code, err) == (0, "")
    assert contents(out) == fresh
    code, _, err = run(capsys, "study", study, "--runs", 2, "--out", out)
    assert code == 0 and "4 earlier runs were replaced" in err
    assert contents(out) == fresh
    code, text, err = run(capsys, "study", study, "--runs", 1, "--out", out)
    assert code == 1 and not text and "runs must be at least 2 to replace" in err
    assert contents(out) == fresh
    code, _, err = run(capsys, "study", study, "--runs", 1, "--out", out, "--resume")
    assert code == 0 and "2 runs are finished there; the report shows the first 1, as asked" in err


@pytest.mark.parametrize("command", ["audit", "evaluate", "db prune", "db token create"])
def test_a_misspelt_option_is_named_before_one_that_is_missing(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    code, out, err = run(capsys, *command.split(), "--hlep")
    assert code == 2 and not out
    assert err.startswith(f"linoto {command}: unrecognized arguments: --hlep: did you mean '--help'?")


def contents(folder: Path) -> dict[str, Any]:
    """Every file: the rows of a database, else its bytes."""
    return {p.name: rows_of(p) if p.suffix == ".sqlite" else p.read_bytes() for p in folder.iterdir()}


def test_runs_of_an_earlier_version_are_named_and_left_alone(
    capsys: pytest.CaptureFixture[str], study: Path, tmp_path: Path
) -> None:
    old = tmp_path / "out" / "mine.cells.jsonl"
    old.parent.mkdir()
    old.write_text("precious")
    code, _, err = run(capsys, "study", study, "--runs", 1, "--out", old.parent, "--resume")
    assert (code, err) == (0, f"{old} is of an earlier version: it was not read and not changed\n")
    assert old.read_text() == "precious"


def test_ctrl_c_says_how_to_go_on_and_resume_does(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("horizon = 50", "horizon = 20000"))
    cells, log = tmp_path / "cut" / "mine.cells.sqlite", tmp_path / "log"
    words = ["study", str(study), "--out", str(cells.parent), "--runs", "5000"]
    child = ForkedCommand(words, tmp_path, {}, log=log, out=log)
    try:
        wait_for_cells(cells)
        child.send_signal(signal.SIGINT)
        assert child.wait() == 130
    finally:
        child.end()
    assert list(cells.parent.iterdir()) == [cells]  # everything is in the one file
    err = log.read_text()
    assert "interrupted" in err and "--resume" in err and str(tmp_path / "cut") in err
    assert "Traceback" not in err
    kept = rows_of(cells)
    assert len(kept) > 8
    assert cli.main(["study", str(study), "--runs", "3", "--out", str(tmp_path / "cut"), "--resume"]) == 0
    assert cli.main(["study", str(study), "--runs", "3", "--out", str(tmp_path / "whole")]) == 0
    assert rows_of(cells) == kept  # all three runs were there
    for name in ("mine.parquet", "mine.table.csv", "mine.svg", "report.html"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
