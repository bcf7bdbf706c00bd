"""`linoto launch` does what its printed commands do, and stops where a log is not to be trusted."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from helpers.exits import run

from linoto import load
from linoto.cli.launch import loop_name
from linoto.service.server import open_service

LOG = ("--action", "arm", "--reward", "r")
QUICK = ("--horizon", "400", "--budget", "30")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clicks of four arms whose rates are linear in one feature."""
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 4, 800)
    clicks = rng.random(800) < 0.2 + 0.1 * arms
    rows = "".join(f"{arm},{int(click)}\n" for arm, click in zip(arms, clicks, strict=True))
    (tmp_path / "june clicks.csv").write_text("arm,r\n" + rows)
    (tmp_path / "arms.csv").write_text("id,x\n0,0\n1,1\n2,2\n3,3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_step_is_a_command_that_does_the_same_alone(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = files / "june clicks.csv"
    assert run("launch", log, "--arms", "arms.csv", *LOG, *QUICK, "--holdback", "0.1") == 0
    out = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"^\$ linoto (.*)", out, re.MULTILINE)]
    assert [command[0] for command in commands] == ["audit", "certificate", "preview", "create"]
    assert "To serve it: linoto serve --db linoto-launch/loops.sqlite" in out  # nobody is at a terminal
    saved = load("linoto-launch/stats.npz")
    assert saved.verdict == "deploy" and saved.source.startswith("june clicks.csv")
    service = open_service(files / "linoto-launch" / "loops.sqlite")
    loop = service.loops.get("june-clicks")
    service.close()
    assert loop.spec.holdback == 0.1 and loop.certificate.budget == 30
    limit, promised = float(commands[2][commands[2].index("--limit") + 1]), loop.certificate.loss(400)
    assert promised is not None and promised <= limit <= 1.001 * promised, "no larger budget is advised"
    pages = {path.name: path.read_bytes() for path in Path("linoto-launch").glob("*.html")}
    assert set(pages) == {"audit.html", "preview.html"}
    for command in commands:
        assert run(*command) == 0, command
    assert pages == {path.name: path.read_bytes() for path in Path("linoto-launch").glob("*.html")}
    assert "there is already loop 'june-clicks'" in capsys.readouterr().out


def test_names_that_begin_with_a_dash_are_said_again_as_they_must_be_typed(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    drawn = zip(["-a", "b"] * 300, rng.random((600, 2)).tolist(), strict=True)
    rows = "".join(f"{arm},{x:.2f},{int(reward < 0.5)}\n" for arm, (x, reward) in drawn)
    Path("dashes.csv").write_text("-item,-x,--got\n" + rows)
    words = ("--item=-item", "--numeric=-x", "--reward=--got", "--practice=-a=0.5", "--practice", "b=0.5")
    assert run("launch", "dashes.csv", *words, "--unit=-u", "--force", *QUICK) == 0
    out = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"^\$ linoto (.*)", out, re.MULTILINE)]
    assert [command[0] for command in commands][-3:] == ["certificate", "preview", "create"]
    assert {"--item=-item", "--numeric=-x", "--reward=--got"} <= set(commands[0])
    for command in commands[:-1]:
        assert run(*command) == 0, command


def test_a_log_that_is_not_to_be_trusted_stops_it_unless_told_otherwise(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rewards without a range: no finite log excludes a tail."""
    rng = np.random.default_rng(1)
    rows = "".join(f"{arm},{rng.normal():.4f}\n" for arm in rng.integers(0, 4, 400))
    (files / "money.csv").write_text("arm,r\n" + rows)
    words = ("launch", "money.csv", "--arms", "arms.csv", *LOG, *QUICK, "--default-reward", "-3")
    assert run(*words) == 1
    captured = capsys.readouterr()
    assert "stopped at the verdict 'not yet'; --force goes on" in captured.err
    assert "$ linoto certificate" not in captured.out and not (files / "linoto-launch/loops.sqlite").exists()
    assert run(*words, "--force") == 0
    assert (files / "linoto-launch" / "loops.sqlite").exists()


@pytest.mark.parametrize("name", ["???", "ü x/.."])
def test_a_name_that_no_loop_can_have_is_refused_before_anything_is_written(
    files: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("launch", "june clicks.csv", "--arms", "arms.csv", *LOG, *QUICK, "--name", name) != 0
    captured = capsys.readouterr()
    assert "--name must match" in captured.err and repr(name) in captured.err
    assert not captured.out and not (files / "linoto-launch").exists()


@pytest.mark.parametrize(
    ("log", "name"), [("a/june clicks.csv", "june-clicks"), ("log-*.parquet", "log"), ("*.csv", "loop")]
)
def test_a_loop_is_named_after_its_log(log: str, name: str) -> None:
    assert loop_name(log.replace("/", os.sep)) == name


def test_every_step_is_about_the_gate_that_was_asked_for(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "launch",
        "june clicks.csv",
        "--arms",
        "arms.csv",
        *LOG,
        *QUICK,
        "--gate",
        "control",
        "--unit",
        "clicks",
    )
    assert run(*words) == 0
    out = capsys.readouterr().out
    assert "clicks compared with" in " ".join(out.split()) and "units of reward" not in out
    commands = re.findall(r"^\$ linoto (certificate|preview|create) (.*)", out, re.MULTILINE)
    assert len(commands) == 3 and all("--gate control" in line for _, line in commands)
    assert "current practice in the explored rounds" in out


def ab_log(seed: int, rows: int = 600) -> str:
    """Orders of two variants, with true rates of .10 and .15."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, 2, rows)
    orders = rng.random(rows) < np.array([0.10, 0.15])[arms]
    return "variant,order\n" + "".join(
        f"{'AB'[arm]},{int(one)}\n" for arm, one in zip(arms, orders, strict=True)
    )


def test_the_simplest_log_needs_no_second_file(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No budget either: it takes the one that the preview finds best."""
    (files / "orders.csv").write_text(ab_log(3))
    assert run("launch", "orders.csv", "--action", "variant", "--reward", "order", "--horizon", "800") == 0
    out = capsys.readouterr().out
    commands = [shlex.split(line) for line in re.findall(r"^\$ linoto (.*)", out, re.MULTILINE)]
    assert [command[0] for command in commands] == ["audit", "preview", "certificate", "create"]
    best = re.search(r"Deploy with a budget of (\d+)", out)
    assert best is not None
    service = open_service(files / "linoto-launch" / "loops.sqlite")
    loop = service.loops.get("orders")
    service.close()
    assert loop.certificate.budget == float(best[1]) and [arm.name for arm in loop.spec.arms] == ["A", "B"]
    assert all(arm.features is None for arm in loop.spec.arms), "others can be added by their names"


@pytest.mark.few(0)
def test_its_own_preview_stops_it_and_names_a_budget_that_passes(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So small a budget gains nothing that anybody would notice; nobody is asked, and nothing is served.

    With --force it goes on, even with a budget of nothing."""
    (files / "orders.csv").write_text(ab_log(3))
    words = ("launch", "orders.csv", "--action", "variant", "--reward", "order", "--horizon", "400")
    assert run(*words, "--budget", "0.01", "--yes") == 1
    captured = capsys.readouterr()
    assert "stopped at the verdict 'not yet' of the preview" in captured.err and captured.err.count("\n") == 1
    assert "Do not deploy" in captured.out and "linoto serve" not in captured.out
    assert not (files / "linoto-launch" / "loops.sqlite").exists()
    assert run(*words, "--budget", "0", "--force") == 0
    assert (files / "linoto-launch" / "loops.sqlite").exists()
    out = capsys.readouterr().out  # of a budget of nothing, which is the one that is previewed
    assert "--budget-grid 0 " in out and "linoto create orders linoto-launch/stats.npz --budget 0" in out


def test_a_second_launch_into_one_folder_changes_nothing_in_it(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "linoto-launch").mkdir()
    (files / "linoto-launch" / "loops.sqlite").write_text("of the first")
    (files / "linoto-launch" / "audit.html").write_text("of the first")
    assert run("launch", "june clicks.csv", "--arms", "arms.csv", *LOG, *QUICK) == 1
    captured = capsys.readouterr()
    assert "--out must be a folder without a launch in it" in captured.err and captured.err.count("\n") == 1
    assert captured.out == ""
    assert {path.read_text() for path in (files / "linoto-launch").iterdir()} == {"of the first"}
    assert run("launch", "june clicks.csv", "--arms", "arms.csv", *LOG, "--out", "arms.csv") == 1
    assert "--out must be a folder, got the file 'arms.csv'" in capsys.readouterr().err


def test_a_log_that_cannot_be_read_leaves_no_folder(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for log, told in (("nope.csv", "nope.csv must be a file"), ("arms.csv", "must be a column of arms.csv")):
        assert run("launch", log, "--arms", "arms.csv", *LOG, *QUICK) != 0
        assert told in capsys.readouterr().err
        assert not (files / "linoto-launch").exists()
    (files / "linoto-launch").mkdir()
    assert run("launch", "nope.csv", *LOG, *QUICK) != 0
    assert (files / "linoto-launch").is_dir(), "a folder that was there stays"
