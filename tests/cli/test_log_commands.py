"""`linoto audit` and `linoto evaluate` refuse what would destroy a file or be ignored."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.exits import run

from linoto.cli.audit import warn_of_minutes
from linoto.logs.arms import ArmTable

LOG = ["--action", "arm", "--reward", "r"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    rows = "".join(f"{arm}.0,{rng.random():.3f}\n" for arm in rng.integers(0, 3, 90))
    (tmp_path / "log.csv").write_text("arm,r\n" + rows)
    (tmp_path / "arms.csv").write_text("id,x\n0,1\n1,2\n2,4\n")
    return tmp_path


@pytest.mark.parametrize("option", ["--save", "--out"])
@pytest.mark.parametrize("target", ["log.csv", "arms.csv", "x/../log.csv", "hard.csv", "soft.csv"])
def test_an_audit_never_writes_over_what_it_reads(
    option: str, target: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, arms = files / "log.csv", files / "arms.csv"
    (files / "x").mkdir()
    os.link(log, files / "hard.csv")
    (files / "soft.csv").symlink_to(arms)
    before = log.read_bytes(), arms.read_bytes()
    for source in (log, files / "lo*.csv"):
        assert run("audit", source, "--arms", arms, *LOG, option, files / target) == 2
        assert f"{option} must be another file than" in capsys.readouterr().err
    assert (log.read_bytes(), arms.read_bytes()) == before


def test_an_audit_does_not_write_two_things_to_one_file(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = files / "both.npz"
    words = ("audit", files / "log.csv", "--arms", files / "arms.csv", *LOG)
    assert run(*words, "--out", both, "--save", both) == 2
    assert "--save must be another file than --out" in capsys.readouterr().err
    assert not both.exists()
    assert run(*words, "--save", both) == 0 and run(*words, "--save", both) == 0


@pytest.mark.parametrize("name", ["stats.csv", "stats", "stats.json"])
def test_statistics_are_saved_under_a_name_that_other_commands_read(
    name: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("audit", files / "log.csv", *LOG, "--save", files / name) == 2
    assert "--save must end in .npz, by which other commands know it, got" in capsys.readouterr().err
    assert not (files / name).exists()


def test_a_share_to_start_from_needs_a_policy(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("evaluate", files / "log.csv", "--arms", files / "arms.csv", *LOG, "--uniform")
    assert run(*words, "--play", 1, "--warm", 0.3) == 2
    assert "--warm is for --policy" in capsys.readouterr().err


def test_empty_lines_are_no_probabilities_and_lines_are_counted_as_an_editor_does(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("evaluate", files / "log.csv", "--arms", files / "arms.csv", *LOG, "--uniform", "--json")
    mix = files / "mix.csv"
    found = []
    for text in ("arm,p\n0,0.5\n2,0.5\n", "\narm,p\n0,0.5\n\n2.0,0.5\n\n \n"):
        mix.write_text(text)
        assert run(*words, "--probabilities", mix) == 0
        found.append(json.loads(capsys.readouterr().out)["estimates"])
    assert found[0] == found[1]
    mix.write_text("arm,p\n\n0,0.5\n\n9,0.5\n")
    assert run(*words, "--probabilities", mix) == 1
    assert "mix.csv, line 5: there is no arm '9'" in capsys.readouterr().err


def test_an_arm_to_play_may_be_written_as_the_log_writes_it(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("evaluate", files / "log.csv", "--arms", files / "arms.csv", *LOG, "--uniform", "--json")
    values = []
    for arm in ("2", "2.0"):
        assert run(*words, "--play", arm) == 0
        values.append(json.loads(capsys.readouterr().out)["estimates"][1]["value"])
    assert values[0] == values[1]


def test_an_audit_that_takes_minutes_says_so_before(capsys: pytest.CaptureFixture[str]) -> None:
    """With an effect for each of many arms, and not of arms without features, whose zeros take no time."""
    names = [f"arm {place}" for place in range(1500)]
    sizes = ArmTable.from_columns({"id": names, "size": np.arange(1500.0)})
    for arms in (ArmTable.one_hot(names), sizes):
        warn_of_minutes(arms.actions)
    assert not capsys.readouterr().err
    warn_of_minutes(sizes.with_effects().actions)
    assert capsys.readouterr().err == "linoto: 1,500 arms with 1,502 features: this takes minutes\n"
