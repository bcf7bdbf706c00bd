"""Studies and comparisons with metrics besides the reward."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.exits import run

from linoto import Confidence, Control, Gated, Guardrail, LinUCB, run_experiment
from linoto.experiments.compare import compare
from linoto.experiments.run import draw_instance
from linoto.experiments.settings import ContextualSetting, Experiment, Setting

RAIL = Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=20)
CLICKS = Confidence(noise="bounded", reward_range=(0, 1))


def policies(*rails: Guardrail) -> Gated:
    return Gated(explorer=LinUCB(scale=0.25), gate=Control(budget=40), confidence=CLICKS, guardrails=rails)


def small(kind: Any = Setting, **changes: Any) -> Any:
    facts: dict[str, Any] = {"name": "small", "k": 6, "d": 3, "horizon": 150, "rewards": "bernoulli"}
    facts |= {"policies": {"free": policies(), "guarded": policies(RAIL)}, "metrics": ("complaints",)}
    facts |= {"logged_arms": 3} if kind is Setting else {}
    return kind(**facts | changes)


@pytest.mark.parametrize("kind", [Setting, ContextualSetting])
def test_a_comparison_counts_every_metric_and_keeps_its_promise(kind: Any) -> None:
    setting = small(kind)
    league = compare([setting], runs=2).league(setting)
    for row in league:
        assert set(row["metrics"]) == {"complaints"} and np.isfinite(row["metrics"]["complaints"]["mean"])
        assert row["promise"] == {"kept": 2, "runs": 2}  # false alarm: 1 in 5


@pytest.mark.parametrize("kind", [Setting, ContextualSetting])
def test_metrics_of_a_setting_change_neither_its_worlds_nor_its_logs(kind: Any) -> None:
    with_metrics, without = small(kind), small(kind, policies={"free": policies()}, metrics=())
    (one, log, seed), (other, same_log, same) = (draw_instance(s, 0, 1) for s in (with_metrics, without))
    assert seed == same and set(one.metrics) == {"complaints"} and not other.metrics
    a, b = (np.asarray(getattr(each, "gram", getattr(each, "reward_sums", None))) for each in (log, same_log))
    assert np.array_equal(a, b)


def test_finished_cells_hold_metrics_and_are_taken_up_again(tmp_path: Path) -> None:
    experiment = Experiment(name="guarded", settings=(small(),))
    first = run_experiment(experiment, runs=2, out=tmp_path)
    again = run_experiment(experiment, runs=2, out=tmp_path, resume=True)
    for label in ("free", "guarded"):
        values = first.metric("small", label, "complaints")
        assert np.array_equal(values, again.metric("small", label, "complaints")) and values.size == 2
    assert "more complaints" in first.table()[0]


def test_a_guardrail_needs_a_metric_of_its_setting() -> None:
    with pytest.raises(ValueError, match="metrics must have 'complaints', which 'guarded' guards, got none"):
        small(metrics=())
    with pytest.raises(ValueError, match="metrics must be a list of names"):
        small(metrics="complaints")
    with pytest.raises(ValueError, match="metrics must have distinct names"):
        small(metrics=("complaints", "complaints"))


TOML = """
[policies.guarded]
type = "Gated"
confidence = {type = "Confidence", noise = "bounded", reward_range = [0, 1]}
gate = {type = "Control", budget = 40}
[[policies.guarded.guardrails]]
type = "Guardrail"
name = "complaints"
reward_range = [0, 1]
lower_is_better = true
budget = 20

[[setting]]
name = "two numbers"
k = 5
d = 3
logged_arms = 2
rewards = "bernoulli"
horizon = 60
metrics = ["complaints"]
"""


def test_a_file_of_a_study_has_guardrails_and_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "guarded.toml"
    path.write_text(TOML)
    assert run("compare", path, "--runs", 1, "--out", tmp_path / "out", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["leagues"]["two numbers"]
    assert set(row["metrics"]) == {"complaints"}
    assert run("study", path, "--runs", 1, "--out", tmp_path / "study") == 0
