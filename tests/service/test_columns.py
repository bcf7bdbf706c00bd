"""A loop whose context has every kind of column: learned from a log, kept, explained and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from helpers.loops import decide, digests, reward
from helpers.loops_with_contexts import POLICIES, create
from helpers.service_process import FakeClock, opened
from litestar.testing import TestClient

import linoto
from linoto.core.features.columns import Column
from linoto.service.loops.recipe_spec import RecipeSpec, as_spec, as_statistics, read_recipe
from linoto.service.web.export import parquet

COLUMNS: list[Column] = [
    linoto.columns.Bands(name="age", edges=3),
    linoto.columns.Powers(name="heat", degree=2),
    linoto.columns.Spline(name="price", knots=4),
    linoto.columns.Logarithm(name="income"),
    linoto.columns.Fourier(name="place", fields=("north", "east"), waves=3),
    linoto.columns.Hashed(name="zip", size=8),
    linoto.columns.Embedding(name="title", size=2),
    linoto.columns.Since(name="asked", unit="hours"),
    linoto.columns.Cycle(name="hour", fields=("asked",)),
]
CROSSES = [("item", "price"), ("item", "age")]


def table_of(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Item A is liked where prices are about 20, B elsewhere."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows).astype(float),
            "heat": rng.normal(10.0, 8.0, rows),
            "price": rng.uniform(0.0, 50.0, rows),
            "income": rng.lognormal(7.0, 1.0, rows),
            "north": rng.normal(size=rows),
            "east": rng.normal(size=rows),
            "zip": rng.choice(["0150", "ü 7", "9011", ""], rows),
            "title": rng.normal(size=(rows, 2)).tolist(),
            "asked": [f"2026-05-{day:02}T{day % 24:02}:15:00Z" for day in rng.integers(1, 31, rows)],
            "item": rng.choice(["A", "B", "C"], rows),
        }
    )
    table.loc[rng.random(rows) < 0.1, "age"] = np.nan
    likes = np.where((table["price"] - 20).abs() < 10, table["item"] == "A", table["item"] == "B")
    return table.assign(click=(rng.random(rows) < 0.2 + 0.6 * likes).astype(float))


def read(table: pd.DataFrame, **options: Any) -> linoto.Log:
    return linoto.read_log(table, item="item", reward="click", **options)


def context_in(table: pd.DataFrame, row: int) -> dict[str, Any]:
    fields = dict.fromkeys(field for column in COLUMNS for field in column.reads)
    values = {field: table[field][row] for field in fields}
    return {
        field: None if value != value else value.item() if isinstance(value, np.generic) else value
        for field, value in values.items()
    }


def test_a_recipe_of_every_kind_of_column_goes_to_a_loop_and_back() -> None:
    kinds = {kind for kind, cls in Column.kinds().items() if cls.__module__.startswith("linoto.")}
    assert {column.kind for column in COLUMNS} == kinds - {"numeric", "category"}
    recipe = read(table_of(), columns=COLUMNS, crosses=CROSSES).recipe
    spec = as_spec(recipe)
    assert read_recipe(spec) == recipe
    assert read_recipe(msgspec.json.decode(msgspec.json.encode(spec), type=RecipeSpec)) == recipe


def test_a_loop_decides_explains_exports_and_starts_again_with_every_kind_of_column(tmp_path: Path) -> None:
    table, clock = table_of(), FakeClock()
    log = read(table, columns=COLUMNS, crosses=CROSSES)
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        given = {"recipe": as_spec(log.recipe), "moments": as_statistics(log.moments)}
        create(service, policy=POLICIES["open"], **given)
        for row in range(20):
            clock.now += 1.0
            made = decide(service, context=context_in(table, row))
            reward(service, made.decision_id, 1.0)
        parts = {part.part for part in made.because}
        assert any(f"price={table['price'][19]}" in part for part in parts), parts
        far = decide(service, context=context_in(table, 0) | {"price": 9999.0})
        assert "price=9999.0 is farther from the mean than any row of the log" in str(far.reason)
        both = decide(service, context=context_in(table, 0) | {"price": 9999.0, "heat": 9999.0})
        assert "heat=9999.0 and price=9999.0 are farther from the mean" in str(both.reason)
        before = set(digests(service))
        (tmp_path / "x.parquet").write_bytes(
            b"".join(parquet(service.store, service.loops.get("loop"), pending=False))
        )
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        assert set(digests(service)) == before
    again = linoto.read_log(tmp_path / "x.parquet", reward="reward", recipe=log.recipe)
    played = [
        log.recipe.transform(context_in(table, row), [item])[0]
        for row, item in enumerate(pd.read_parquet(tmp_path / "x.parquet")["item"])
    ]
    np.testing.assert_allclose(again.moments.gram, np.array(played).T @ np.array(played), atol=1e-9)


def test_a_vector_is_sent_as_a_list_or_as_text_and_anything_else_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    context = (linoto.columns.Embedding(name="v", size=2, scale=1.0), linoto.Numeric(name="x"))
    recipe = linoto.Recipe(items=("A", "B"), context=context)
    with (
        opened(tmp_path / "x.sqlite") as service,
        TestClient(service.app, base_url="http://127.0.0.1") as http,
    ):
        spec = {"recipe": recipe.to_dict(), "policy": {"type": "LinUCB"}, "default_reward": 0.0}
        assert http.put("/v1/loops/loop", json=spec).status_code == 200

        def asked(**context: Any) -> tuple[int, str]:
            answer = http.post("/v1/loops/loop/decide", json={"context": {"v": [1, 2], "x": 1.0} | context})
            return answer.status_code, answer.text

        assert asked()[0] == asked(v="[0.5, 1e3]")[0] == 200
        wrong: list[Any] = [
            "[" * 1000,
            "[1" + "0" * 400 + ",1]",
            [1.0],
            [1.0, None],
            [[1.0], [2.0]],
            "a",
            7.0,
        ]
        for vector in wrong:
            status, text = asked(v=vector)
            assert status in (400, 422) and len(text) < 500, vector
        status, text = asked(x=[1.5] * 9000)
        assert status == 422 and "'x' must be a finite number" in text and len(text) < 500


def test_a_policy_learnt_from_rows_is_no_explorer_of_a_loop(tmp_path: Path) -> None:
    """Arms come and go in a loop: it would refuse every decision after that, and large ones fill memory."""
    data = {
        "type": "LearntPolicy",
        "recipe": {"items": ["a"], "context": [{"kind": "hashed", "size": 10**9}]},
    }
    with (
        opened(tmp_path / "x.sqlite") as service,
        TestClient(service.app, base_url="http://127.0.0.1") as http,
    ):
        policy = {"type": "Gated", "explorer": data}
        spec = {"arms": [{"name": "a"}, {"name": "b"}], "policy": policy, "default_reward": 0.0}
        answer = http.put("/v1/loops/loop", json=spec)
    assert answer.status_code == 422 and "send what it plays as the proposal" in answer.text
