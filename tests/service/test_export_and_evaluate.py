"""What a loop exports closes the circle: other policies are judged by the propensities that it logged."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.loops import decide, reward
from helpers.service_process import TOLERANT, FakeClock, close_due, create, opened

import linoto
from linoto.cli import main
from linoto.service.web.export import parquet

MEANS = {"a": 0.6, "b": 0.3, "c": 0.5}
DRAWING = linoto.Gated(
    explorer=linoto.Random(), gate=linoto.Tolerance(budget=500.0), confidence=TOLERANT.confidence
)


def exported(folder: Path, policy: Any, rounds: int, lost: int = 0, **settings: Any) -> Path:
    """The file of a loop of which the last `lost` rewards never came."""
    rng, file, clock = np.random.default_rng(5), folder / "played.parquet", FakeClock()
    with opened(folder / "x.sqlite", clock=clock) as service:
        create(service, policy=policy, window=10.0, **settings)
        for number in range(rounds):
            made = decide(service)
            if number < rounds - lost:
                reward(service, made.decision_id, float(rng.random() < MEANS[made.arm]))
        clock.now += 10.0
        assert close_due(service) == lost
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


REPORTED = "origin = 'reported'"


def lost_in(notes: Any) -> list[str]:
    return [note for note in notes if "never came" in note]


def test_rewards_that_never_came_are_told_of_where_an_export_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = exported(tmp_path, DRAWING, 90, lost=30)
    (note,) = lost_in(linoto.read_log(file, item="action", reward="reward").notes)
    assert note.startswith("the reward of 30 rows never came, and counts as the default")
    assert f'--where "{REPORTED}"' in note
    some = linoto.read_log(file, item="action", reward="reward", where="action != 'c'")
    table = pq.read_table(file).to_pylist()
    kept = sum(row["action"] != "c" and row["origin"] == "default" for row in table)
    assert 1 < kept < 30 and f"the reward of {kept} rows" in lost_in(some.notes)[0]
    assert lost_in(linoto.read_log(file, item="action", reward="reward", where=REPORTED).notes) == []
    for words, told in (((), [note]), (("--where", REPORTED), [])):
        assert main(evaluated(tmp_path, file, "a", "--json", *words)) == 0
        assert lost_in(json.loads(capsys.readouterr().out)["notes"]) == told
        audit = ["audit", str(file), "--item", "action", "--reward", "reward", *words]
        for command in (evaluated(tmp_path, file, "a", *words), audit):
            assert main(command) in (0, 1)
            assert (note in " ".join(capsys.readouterr().out.split())) == bool(told)


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": lambda table, folder: saved(folder / "log.csv", table.to_pandas().to_csv(index=False)),
    "tsv": lambda table, folder: saved(folder / "log.tsv", table.to_pandas().to_csv(index=False, sep="\t")),
    "json lines": lambda table, folder: saved(
        folder / "log.jsonl", "".join(f"{json.dumps(row, default=str)}\n" for row in table.to_pylist())
    ),
    "pandas": lambda table, folder: table.to_pandas(),
    "words by number": lambda table, folder: table.to_pandas().astype({"origin": "category"}),
    "arrow": lambda table, folder: table,
    "stream": lambda table, folder: table.to_reader(),
}


def saved(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


def test_rewards_that_never_came_are_told_of_in_every_form_of_an_export(tmp_path: Path) -> None:
    """What is no Parquet file is copied first, with the columns that are read: that one too."""
    table = pq.read_table(exported(tmp_path, DRAWING, 60, lost=20))
    columns: dict[str, Any] = {"item": "action", "reward": "reward"}
    for name, form in FORMS.items():
        for where, told in ((None, 1), ("action != 'none'", 1), (REPORTED, 0), ("origin != 'none'", 1)):
            notes = lost_in(linoto.read_log(form(table, tmp_path), **columns, where=where).notes)
            assert len(notes) == told and all("of 20 rows" in note for note in notes), (name, where)
        rows = linoto.read_rows(form(table, tmp_path), propensity="propensity", **columns)
        assert len(lost_in(rows.notes)) == 1, name
        if name != "words by number":
            without = form(table.drop_columns(["origin"]), tmp_path)
            assert lost_in(linoto.read_log(without, **columns).notes) == [], "nobody knows"


@pytest.mark.parametrize("values", [np.float16([0, 1] * 20), [["default"]] * 40, [1, 2] * 20])
def test_a_column_called_origin_of_another_kind_is_no_reason_to_refuse_a_log(
    tmp_path: Path, values: Any
) -> None:
    columns = {"action": ["a", "b"] * 20, "reward": [0.0, 1.0, 1.0, 0.0] * 10, "origin": list(values)}
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    for source in (pd.DataFrame(columns), tmp_path / "log.parquet"):
        assert lost_in(linoto.read_log(source, item="action", reward="reward").notes) == []


def test_a_field_called_origin_is_not_taken_for_where_a_reward_is_from(tmp_path: Path) -> None:
    """Beside it the export calls its own column decision_origin."""
    columns: dict[str, Any] = {"action": ["a", "b"] * 20, "reward": [0.0, 1.0, 1.0, 0.0] * 10}
    columns["origin"] = (["default"] * 2 + ["mail"] * 2) * 10
    asked: dict[str, Any] = {"item": "action", "reward": "reward", "categories": ["origin"]}
    for more, told in (({}, 0), ({"decision_origin": ["reported", "default"] * 20}, 1)):
        table = pa.table(columns | more)
        pq.write_table(table, tmp_path / "log.parquet")
        for source, where in product((tmp_path / "log.parquet", table), (None, "action != 'c'")):
            notes = lost_in(linoto.read_log(source, **asked, where=where).notes)
            assert len(notes) == told and all("20 rows" in n and "decision_origin =" in n for n in notes)
