"""What goes wrong at the command line is said in one sentence, in the words that were typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.exits import run

from linoto.cli.commands import parser, sentence
from linoto.cli.terminal import print_facts, print_table
from linoto.core.cells import has_controls
from linoto.logs.arms_in_log import notes_on

IMPORTING = """
import os, signal, sys
class Interrupted:  # somebody presses Ctrl-C while the commands are imported
    def find_spec(self, name, path=None, target=None):
        if name == "linoto.cli.commands":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupted())
from linoto.cli import main
sys.exit(main(["demo"]))
"""


def log_in(folder: Path, rows: str = "A,1\nB,0\n") -> Path:
    (folder / "log.csv").write_text("arm,r\n" + rows * 40)
    return folder / "log.csv"


def test_an_interrupt_while_commands_are_imported_is_one_sentence() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "linoto: interrupted\n")


def test_control_characters_of_a_log_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts([("changed", "country=\x1b[31mred")])
    print_table([{"level": "a\x07\x9b", "rows": "1"}])
    print_table([{"level": "b\x1b" * 30, "rows": "1"}])
    text = capsys.readouterr().out
    assert r"country=\x1b[31mred" in text and r"a\x07\x9b" in text and r"b\x1bb" in text
    assert not has_controls(text.replace("\n", ""))


@pytest.mark.parametrize("option", ["--out", "--save"])
def test_a_folder_is_not_a_file_to_write(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("audit", log_in(tmp_path), "--action", "arm", "--reward", "r")
    assert run(*words, option, tmp_path) == 2
    assert f"{option}: must be a file, not a folder, got '{tmp_path}'" in capsys.readouterr().err
    assert run("preview", "--paper", "--out", tmp_path) == 2


@pytest.mark.parametrize("option", ["--out", "--save"])
def test_no_folder_is_made_for_a_file_that_cannot_be_written(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said before the log is read: this one has no such column."""
    words = ("audit", log_in(tmp_path), "--action", "arm", "--reward", "none")
    assert run(*words, option, tmp_path / "nope" / "x.npz") == 2
    assert f"{option} must be in a folder that is there" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["log.csv"]


def test_a_file_that_cannot_be_opened_is_named_without_a_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mix = tmp_path / "none.csv"
    words = ("evaluate", log_in(tmp_path), "--action", "arm", "--reward", "r", "--uniform")
    assert run(*words, "--probabilities", mix) == 1
    assert capsys.readouterr().err == f"linoto: {mix}: No such file or directory\n"


@pytest.mark.parametrize("command", ["audit", "evaluate", "preview"])
@pytest.mark.few(1)
def test_a_file_that_begins_with_a_dash_is_named_with_what_to_type(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("-log.csv", "--log.csv"):
        Path(name).write_text("item,click\nA,1\n")
        assert run(command, name, "--item", "item", "--reward", "click") == 2
        said = f"a file must not begin with a dash, as options do, got {name}: say ./{name}"
        assert capsys.readouterr().err == f"linoto {command}: {said} (see linoto {command} --help)\n"


def test_what_the_system_says_is_said_without_its_number() -> None:
    assert sentence(OSError(28, "No space left on device")) == "No space left on device"
    assert sentence(OSError(2, "No such file or directory", "x.csv")) == "x.csv: No such file or directory"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("reward_range must be given for a Control gate", "--reward-range must be given for a Control gate"),
        (
            "reward_range must be given for evidence='rewards'",
            "--reward-range must be given for --evidence rewards",
        ),
        ("noise must be at least 2", "--noise must be at least 2"),
        ("log.npz: noise must be at least 2", "log.npz: --noise must be at least 2"),
        ("the noise must not change", "the noise must not change"),
        ("guardrail 'visits': bound must be at least 2", "guardrail 'visits': bound must be at least 2"),
        (
            "offline must have rewards in reward_range (0, 1)",
            "the log must have rewards in --reward-range (0, 1)",
        ),
    ],
)
def test_a_sentence_names_the_option_that_was_typed(message: str, said: str) -> None:
    asked = parser().parse_args(["certificate", "--paper"])
    assert asked.command.in_options(message) == said


def test_no_message_of_an_audit_names_an_argument_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that stands for no arm, and a range that the rewards leave."""
    words = ("audit", log_in(tmp_path, "A,1\nNULL,0\n"), "--action", "arm", "--reward", "r")
    assert run(*words) != 0
    first = capsys.readouterr().err
    assert "--skip-bad" in first
    assert run("audit", log_in(tmp_path), *words[2:], "--noise", "bounded", "--reward-range", 0, 0.5) == 0
    second = capsys.readouterr().out
    assert "--reward-range (0.0, 0.5)" in " ".join(second.split())
    assert not re.search(r"\b[a-z]+_[a-z]+\b", first.replace(str(tmp_path), "") + second), (first, second)


def test_one_is_not_said_in_the_plural(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "the only one is the value of 'arm'" in notes_on(["A"], "arm")[0]
    assert run("certificate", "--paper", "--horizon", 1) == 0
    out = capsys.readouterr().out
    assert "1 rounds" not in out and "most lost in 1 round" in out
    assert run("audit", log_in(tmp_path), "--action", "arm", "--reward", "r", "--horizon", 1) == 0
    assert not re.search(r"\b1 (rounds|rows|arms|different)\b", capsys.readouterr().out)
