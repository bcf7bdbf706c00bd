"""`linoto preview --drift`: a size, or as far as the log itself moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from linoto.cli import main
from linoto.logs.saved import load

SHORT = ("--worlds", "3", "--horizon", "60", "--noise", "bounded", "--reward-range", "0", "1")


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out.replace("\u00a0", " "), err


def plain_statistics(folder: Path) -> Path:
    path = folder / "stats.json"
    facts = {"actions": [[1, 0], [0, 1]], "pulls": [60, 40], "reward_sums": [30.0, 18.0]}
    path.write_text(json.dumps(facts))
    return path


def test_drift_is_said_in_the_terminal_on_the_page_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = (
        "preview",
        plain_statistics(tmp_path),
        *SHORT,
        "--budget-grid",
        "10",
        "--drift",
        "0.2",
        "--out",
        page,
    )
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert "If the world moves" in out and "wanders at random" in out and "| " in out
    assert all(f"\n{gate} " in out for gate in ("no gate", "the log's gate", "Control"))
    assert "--drift 0.2" in page.read_text("utf-8")
    data = json.loads(run(capsys, *words, "--json")[1])
    assert data["drift"] == 0.2 and [row["gate"] for row in data["gates"]["gates"]][-1] == "Control"
    plain = json.loads(run(capsys, *words[:-4], "--out", page, "--json")[1])
    assert plain["drift"] == 0.0 and "gates" not in plain


def test_the_log_says_how_far_it_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    late = np.repeat([0, 1], 300)
    clicks = (rng.random(600) < np.where(late, 0.8, 0.4)).astype(int)
    rows = "\n".join(f"{i % 2},{clicks[i]}" for i in range(600))
    (tmp_path / "log.csv").write_text(f"arm,clicked\n{rows}\n")
    (tmp_path / "arms.csv").write_text("arm,kind\n0,a\n1,b\n")
    stats = tmp_path / "stats.npz"
    read = ("--arms", tmp_path / "arms.csv", "--action", "arm", "--reward", "clicked")
    assert run(capsys, "audit", tmp_path / "log.csv", *read, "--save", stats)[0] == 0
    found = load(stats).drift
    gap = clicks[300:].mean() - clicks[:300].mean()
    assert found == pytest.approx(np.sqrt(3) * gap, rel=0.03)
    words = ("preview", stats, *SHORT, "--drift", "log", "--out", tmp_path / "page.html", "--json")
    assert json.loads(run(capsys, *words)[1])["drift"] == pytest.approx(found * np.sqrt(60 / 600))


def test_a_log_without_halves_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("preview", plain_statistics(tmp_path), *SHORT, "--out", tmp_path / "page.html")
    code, _, err = run(capsys, *words, "--drift", "log")
    assert code == 1 and "--drift log needs statistics that linoto audit --save wrote" in err
    with pytest.raises(SystemExit):
        main([*map(str, words), "--drift", "much"])
    assert "must be a number > 0 or the word log, got 'much'" in capsys.readouterr().err
