"""What a loop exports closes the circle: other policies are judged by the propensities that it logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.loops import decide, reward
from helpers.service_process import TOLERANT, create, opened

import linoto
from linoto.cli import main
from linoto.service.web.export import parquet

MEANS = {"a": 0.6, "b": 0.3, "c": 0.5}
DRAWING = linoto.Gated(
    explorer=linoto.Random(), gate=linoto.Tolerance(budget=500.0), confidence=TOLERANT.confidence
)


def exported(folder: Path, policy: Any, rounds: int, **settings: Any) -> Path:
    rng, file = np.random.default_rng(5), folder / "played.parquet"
    with opened(folder / "x.sqlite") as service:
        create(service, policy=policy, **settings)
        for _ in range(rounds):
            made = decide(service)
            reward(service, made.decision_id, float(rng.random() < MEANS[made.arm]))
        pieces = parquet(service.store, service.loops.get("loop"), pending=False)
        file.write_bytes(b"".join(pieces))
    (folder / "arms.csv").write_text("id\na\nb\nc\n")
    return file


def evaluated(folder: Path, file: Path, arm: str, *words: str) -> list[str]:
    columns = ["--action", "action", "--reward", "reward", "--propensity", "propensity"]
    return ["evaluate", str(file), "--arms", str(folder / "arms.csv"), *columns, "--play", arm, *words]


def test_served_exported_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = exported(tmp_path, DRAWING, 250, holdback=0.2)
    for arm, mean in MEANS.items():
        assert main(evaluated(tmp_path, file, arm, "--json")) == 0
        found = json.loads(capsys.readouterr().out)
        assert not found["every_propensity_is_1"]
        for estimate in found["estimates"]:  # at a level of .95 each; fixed seed
            assert estimate["low"] <= mean <= estimate["high"], estimate["method"]
            assert estimate["high"] - estimate["low"] < 0.6


def test_a_loop_that_throws_coins_is_exported_with_its_coins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = linoto.Control(budget=40.0, epsilon=0.1, share=0.3)
    file = exported(tmp_path, linoto.Gated(gate=gate, confidence=TOLERANT.confidence), 150)
    rows = pq.read_table(file).to_pylist()
    assert {row["control_share"] for row in rows} == {0.3, None}
    assert {row["practice"] for row in rows} == {"a", "b"}
    assert all(row["action"] == row["practice"] for row in rows if row["mode"] == "safe")
    assert {row["group"] for row in rows if row["source"] == "control"} == {"holdback"}
    assert main(evaluated(tmp_path, file, "a", "--json")) == 0
    for estimate in json.loads(capsys.readouterr().out)["estimates"]:  # at a level of .95 each; fixed seed
        assert estimate["low"] <= MEANS["a"] <= estimate["high"], estimate["method"]


def test_a_deterministic_rule_closes_no_circle_and_the_command_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(tmp_path, TOLERANT, 10)
    assert main(evaluated(tmp_path, file, "a")) == 0
    assert "every propensity is 1: only what was logged" in " ".join(capsys.readouterr().out.split())
