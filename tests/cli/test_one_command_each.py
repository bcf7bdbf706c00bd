"""One command for each thing to do, with contexts or without, and the same options everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.exits import run

from linoto.cli.commands import COMMANDS, parser
from linoto.cli.usage import Parser


def commands() -> dict[str, Parser]:
    return parser().commands()


def test_there_are_no_more_than_fourteen_commands() -> None:
    assert len(commands()) == len(COMMANDS) <= 14


@pytest.mark.parametrize("name", sorted(commands()))
def test_a_help_page_fits_eighty_columns_and_ends_with_an_example(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that can be typed are left as they are, and names of long files are not broken."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(name, "--help") == 0
    page, _, examples = capsys.readouterr().out.partition("examples:\n")
    assert examples.startswith(f"  linoto {name}")
    assert [line for line in page.splitlines() if len(line) > 80] == []
    assert "[]" not in page


def test_the_log_is_described_by_the_same_options_everywhere() -> None:
    """What a launch is told of its log is what its audit is told."""
    options = {name: set(command.words()) for name, command in commands().items()}
    log = {"--item", "--reward", "--arms", "--numeric", "--category", "--cross", "--time", "--propensity"}
    assert log <= options["audit"] & options["launch"] & options["evaluate"] & options["preview"]


def test_the_action_of_version_0_2_is_read_as_the_item_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arm,r\n" + "A,1\nB,0\n" * 40)
    said = []
    for option in ("--item", "--action"):
        assert run("audit", log, option, "arm", "--reward", "r", "--json") == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == said[1]
    assert run("audit", "--help") == 0
    assert "--action" not in capsys.readouterr().out


def test_contexts_of_a_table_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arm,r\n" + "A,1\nB,0\n" * 40)
    assert run("audit", log, "--item", "arm", "--reward", "r", "--contexts") == 2
    assert "--contexts is for a log of another package" in capsys.readouterr().err
