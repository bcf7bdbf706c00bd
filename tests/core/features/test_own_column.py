"""A kind of column of one's own is one class: read from a log, encoded, saved, and decided by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi, sin
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto.core.arrays import Floats
from linoto.core.cells import number_of
from linoto.core.features.columns import Cell, Column, Fault


@dataclass(frozen=True, kw_only=True)
class Clock(Column):
    """A number that comes round, such as an hour: its features are a cosine and a sine."""

    period: float

    kind: ClassVar[str] = "clock"

    @property
    def labels(self) -> tuple[str, ...]:
        return (f"cos {self.name}", f"sin {self.name}")

    @property
    def expected(self) -> str:
        return "a number"

    def vector(self, value: Any) -> Floats:
        number = number_of(value)
        if number is None:
            raise ValueError(f"{self.name!r} must be {self.expected}, got {value!r}")
        angle = 2 * pi * number / self.period
        return np.array([cos(angle), sin(angle)])

    def read_sql(self, cell: Cell) -> str:
        return cell.number

    def features_sql(self, value: str) -> tuple[str, ...]:
        angle = f"2 * pi() * {value} / {self.period!r}"
        return (f"cos({angle})", f"sin({angle})")

    def faults_sql(self, value: str, given: str, field: str) -> Iterator[Fault]:
        yield Fault(f"{self.name} not understood", f"{value} IS NULL", "must be a number, got {value!r}")


@dataclass(frozen=True, kw_only=True)
class Shifts(Column):
    """A number by the shift that it lies in: one feature for each."""

    edges: tuple[float, ...]

    kind: ClassVar[str] = "shifts"
    leveled: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(self.edges))  # JSON has lists

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(f"{self.name} shift {place}" for place in range(len(self.edges) + 1))

    @property
    def expected(self) -> str:
        return "a number"

    def vector(self, value: Any) -> Floats:
        return np.eye(len(self.labels))[sum(float(value) >= edge for edge in self.edges)]

    def read_sql(self, cell: Cell) -> str:
        return cell.number

    def features_sql(self, value: str) -> tuple[str, ...]:
        return (" + ".join(f"CAST({value} >= {edge!r} AS INTEGER)" for edge in self.edges),)


KINDS: dict[str, Column] = {
    "numbers": Clock(name="hour", period=24.0),
    "levels": Shifts(name="hour", edges=(6.0, 12.0, 18.0)),
}
CROSSES = [("item", "hour"), ("hour", "country"), ("price", "hour")]


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "item": rng.choice(["A", "B", "C"], rows),
            "hour": rng.integers(0, 24, rows),
            "country": rng.choice(["DE", "NO"], rows),
            "click": rng.integers(0, 2, rows),
            "p": 1 / 3,
        }
    )


def read(table: pd.DataFrame, column: Column, **options: Any) -> linoto.Log:
    arms = linoto.ArmTable.from_columns({"item": ["A", "B", "C"], "price": [1.0, 2.0, 4.0]})
    given: dict[str, Any] = {"item": "item", "reward": "click", "categories": ["country"], "arms": arms}
    return linoto.read_log(table, **given, columns=[column], crosses=CROSSES, item_effects=True, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_of_ones_own_is_read_encoded_saved_and_decided_by(kind: str, tmp_path: Path) -> None:
    table = frame()
    log = read(table, KINDS[kind])
    recipe = log.recipe
    contexts = table[["hour", "country"]].to_dict("records")
    X = np.array(
        [recipe.transform(context, [item])[0] for context, item in zip(contexts, table["item"], strict=True)]
    )
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(log.moments.reward_vector, X.T @ table["click"], rtol=1e-9, atol=1e-9)

    rows = linoto.read_rows(table, recipe=recipe, reward="click", propensity="p")
    np.testing.assert_allclose(rows.moments(np.arange(300)).gram, X.T @ X, rtol=1e-9, atol=1e-9)
    theta = np.linspace(-1, 1, recipe.d)
    every = [recipe.transform(context) @ theta for context in contexts]
    np.testing.assert_allclose(rows.scores(theta), every, rtol=1e-9, atol=1e-9)
    assert [found.method for found in linoto.evaluate(rows, "greedy")] == ["ips", "snips", "dr"]

    saved = linoto.load(log.save(tmp_path / "log.npz"))
    assert saved.recipe == recipe and saved.moments == log.moments
    agent = linoto.Greedy().start(saved.moments, features=saved.recipe)
    expected = recipe.transform(contexts[0]) @ agent.theta
    assert agent.decide(context=contexts[0]).name == recipe.items[int(expected.argmax())]


def test_a_bad_value_is_named_as_its_column_says(tmp_path: Path) -> None:
    table = frame(20).astype({"hour": object})
    table.loc[4, "hour"] = "noon"
    with pytest.raises(ValueError, match="row 5, column 'hour': must be a number, got 'noon'"):
        read(table, KINDS["numbers"])
    assert read(table, KINDS["numbers"], skip_bad=True).bad == {"hour not understood": 1}


def test_a_kind_that_nobody_knows_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match=r"kind of a column must be one of bands, category.*numeric.*got 'moon'"
    ):
        Column.from_dict({"kind": "moon", "name": "phase"})
