"""What an audit saved is what the next command assumes, unless it is told otherwise; both are said."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.cli import main
from linoto.logs.saved import load
from linoto.service.server import open_service

OLD = Path(__file__).parents[1] / "data" / "version-0.1" / "stats.npz"


def write_log(folder: Path, rewards: Any, *, drift: float = 0.0) -> None:
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 4, 2000)
    values = rewards(rng, arms) + drift * (np.arange(2000) > 1000)
    rows = "".join(f"{arm},{value:.6g}\n" for arm, value in zip(arms, values, strict=True))
    (folder / "log.csv").write_text("arm,r\n" + rows)
    (folder / "arms.csv").write_text("id,x\n0,0\n1,0.3\n2,0.6\n3,1\n")


def clicks(rng: np.random.Generator, arms: Any) -> Any:
    return (rng.random(arms.size) < 0.02 + 0.02 * arms).astype(float)


def prices(rng: np.random.Generator, arms: Any) -> Any:
    return 40 + 5 * arms + 12 * rng.normal(size=arms.size)


def audit(folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> Path:
    stats = folder / "stats.npz"
    log = [str(folder / "log.csv"), "--arms", str(folder / "arms.csv"), "--action", "arm", "--reward", "r"]
    assert main(["audit", *log, "--save", str(stats), *words]) == 0
    capsys.readouterr()
    return stats


def certificate(capsys: pytest.CaptureFixture[str], stats: Path, *words: str) -> Any:
    assert main(["certificate", str(stats), "--budget", "40", "--json", *words]) == 0
    return json.loads(capsys.readouterr().out)


def test_clicks_are_bounded_for_the_next_command_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, clicks)
    stats = audit(tmp_path, capsys, "--arm-effects")
    found, saved = certificate(capsys, stats), load(stats)
    assert saved.confidence is not None and saved.confidence.noise == "bounded"
    assert found["policy"]["confidence"] == linoto.to_dict(saved.confidence)
    assert found["assumed"]["noise"] == {"value": "bounded", "origin": "from the audit of log.csv"}
    assert found["verdict"] == "deploy"
    low, high = found["certificate"]["reference_interval"]
    assert 0 < low < saved.offline.reference < high < 2 * saved.offline.reference


def test_each_origin_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, clicks)
    stats = audit(tmp_path, capsys, "--reward-range", "0", "1")
    assert main(["certificate", str(stats), "--budget", "40", "--bound", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split("  ")[0] == "noise" and lines[0].endswith(
        "bounded in [0, 1], from the audit of log.csv"
    )
    assert lines[1].endswith("3, as given")
    assert load(stats).stated == ("reward_range",)


def test_prices_get_their_noise_and_bound_and_a_smaller_noise_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, prices)
    stats = audit(tmp_path, capsys)
    found = certificate(capsys, stats)
    assert 11 < found["assumed"]["noise"]["value"] < 14 and found["certificate"]["holds"]
    assert found["assumed"]["bound"]["value"] > 40
    assert main(["certificate", str(stats), "--noise", "1"]) == 1
    assert "noise must be at least 11" in capsys.readouterr().err


def test_what_was_stated_in_the_audit_is_kept_as_stated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, prices)
    found = certificate(capsys, audit(tmp_path, capsys, "--noise", "15", "--bound", "90"))
    assert found["assumed"]["noise"] == {"value": 15, "origin": "as stated in the audit of log.csv"}
    assert found["assumed"]["bound"] == {"value": 90, "origin": "as stated in the audit of log.csv"}


def test_options_and_a_policy_of_ones_own_say_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, prices)
    stats = audit(tmp_path, capsys)
    own = linoto.Gated(confidence=linoto.Confidence(noise=20.0, bound=100.0))
    found = certificate(capsys, stats, "--policy", json.dumps(linoto.to_dict(own)), "--noise", "30")
    assert found["assumed"]["noise"] == {"value": 30, "origin": "as given"}
    assert found["assumed"]["bound"]["value"] == 100
    assert found["assumed"]["bound"]["origin"].startswith("as the policy assumes")


def test_a_preview_uses_and_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, clicks)
    stats = audit(tmp_path, capsys)
    page = str(tmp_path / "page.html")
    words = ["--budget-grid", "20,40", "--horizon", "50", "--worlds", "2", "--out", page]
    assert main(["preview", str(stats), *words]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "noise bounded in [0, 1], from the audit of log.csv" in out


def test_an_untrusted_log_is_marked_and_the_next_command_warns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, prices, drift=20.0)
    stats = audit(tmp_path, capsys)
    assert load(stats).verdict == "do not trust"
    assert main(["certificate", str(stats), "--budget", "40"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("linoto: warning: the audit of log.csv says: do not trust, because")
    assert err.count("\n") == 1
    assert "would hold, but the log is not to be trusted" in " ".join(out.split())


def test_a_file_of_version_0_1_is_used_without_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    saved = load(OLD)
    assert saved.verdict is None and saved.source == "" and saved.stated == () and saved.warning == ""
    found = certificate(capsys, OLD)
    assert found["assumed"]["noise"]["origin"] == "from the audit" and found["verdict"] is None
    assert found["policy"]["confidence"] == linoto.to_dict(saved.confidence)


def test_statistics_of_ones_own_say_that_nobody_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.json"
    sums = {"actions": [[1, 0], [0, 1]], "pulls": [90, 10], "reward_sums": [9.0, 1.0]}
    own.write_text(json.dumps(sums))
    assert certificate(capsys, own)["assumed"]["noise"]["origin"].startswith("as the policy assumes")
    own.write_text(json.dumps(sums | {"reward_squares": [9000.0, 1000.0]}))
    assert main(["certificate", str(own)]) == 1
    assert "noise must be at least" in capsys.readouterr().err


def test_a_loop_starts_with_what_the_audit_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_log(tmp_path, clicks)
    stats, db = audit(tmp_path, capsys), tmp_path / "loops.sqlite"
    assert main(["create", "banner", str(stats), "--budget", "40", "--db", str(db), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["assumed"]["noise"]["value"] == "bounded"
    service = open_service(db)
    try:
        loop = service.loops.get("banner")
        assert loop.agent.confidence == load(stats).confidence and loop.spec.default_reward == 0.0
    finally:
        service.close()


def test_a_control_gate_without_a_budget_takes_the_usual_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path, clicks)
    stats = audit(tmp_path, capsys)
    assert main(["certificate", str(stats), "--gate", "control", "--json"]) == 0
    gate, log = json.loads(capsys.readouterr().out)["policy"]["gate"], load(stats).offline
    assert gate["budget"] == pytest.approx(min(50, 0.1 * log.reward_sums.sum()), rel=0.05)
    assert main(["certificate", str(stats), "--budget", "4", "--epsilon", "0", "--horizon", "1000"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    shown = re.search(r"most lost in 1000 rounds ([\d.]+): ([\d.]+) % of the ([\d.]+) that", out)
    assert shown is not None
    lost, part, total = (float(text) for text in shown.groups())
    assert total == pytest.approx(1000 * log.reference, rel=1e-3) and part == float(
        f"{100 * lost / total:.2g}"
    )
