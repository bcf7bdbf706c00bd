"""`linoto preview --delay`: rewards that come some rounds late."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.exits import run


def test_a_delay_is_said_in_the_terminal_on_the_page_and_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats, page = tmp_path / "stats.json", tmp_path / "page.html"
    facts = {"actions": [[1, 0], [0, 1]], "pulls": [60, 40], "reward_sums": [30.0, 18.0]}
    stats.write_text(json.dumps(facts))
    words = ["preview", str(stats), "--noise", "bounded", "--reward-range", "0", "1", "--budget-grid", "10"]
    words += ["--horizon", "40", "--worlds", "10", "--out", str(page)]
    assert run(*words, "--delay", "15") == 0
    assert "came at once there, and 15 rounds late here" in " ".join(capsys.readouterr().out.split())
    assert "Rewards come 15 rounds late" in page.read_text()
    assert run(*words, "--delay", "15", "--json") == 0
    late = json.loads(capsys.readouterr().out)
    assert late["delay"] == 15
    assert run(*words, "--json") == 0
    assert "delay" not in json.loads(capsys.readouterr().out)
    assert "Rewards come" not in page.read_text()
    assert run(*words, "--delay", "0", "--json") == 0
    assert "delay" not in json.loads(capsys.readouterr().out)
    assert run(*words, "--delay", "-1") == 2
