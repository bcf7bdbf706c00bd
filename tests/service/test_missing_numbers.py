"""A loop whose numbers may be missing: null is taken as the log had it, kept, explained and exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.loops import decide, digests, reward
from helpers.loops_with_contexts import POLICIES, create
from helpers.service_process import FakeClock, opened
from litestar.testing import TestClient

import linoto
from linoto.columns import Embedding, Fourier, Since
from linoto.service.errors import Refused
from linoto.service.loops.recipe_spec import as_spec, as_statistics, read_recipe
from linoto.service.web.export import parquet


def log_of(rows: int = 600) -> linoto.Log:
    """Whoever has no age likes B, all others A; the heat is always known, and waves and vectors are not."""
    rng = np.random.default_rng(0)
    gone = rng.random(rows) < 0.3
    table = pd.DataFrame(
        {
            "item": rng.choice(["A", "B"], rows),
            "age": np.where(gone, np.nan, rng.normal(40, 10, rows)),
            "heat": rng.normal(size=rows),
            "asked": [f"2026-05-{day:02}" for day in rng.integers(1, 31, rows)],
            "title": rng.normal(size=(rows, 2)).tolist(),
        }
    ).astype({"asked": object, "title": object})
    table.loc[::7, "asked"] = None
    table.loc[::5, "title"] = None
    likes = np.where(gone, table["item"] == "B", table["item"] == "A")
    return linoto.read_log(
        table.assign(click=(rng.random(rows) < 0.1 + 0.8 * likes).astype(float)),
        item="item",
        reward="click",
        numeric=["age", "heat"],
        columns=[
            Since(name="asked"),
            Fourier(name="both", fields=("age", "heat"), waves=1),
            Embedding(name="title", size=2),
        ],
        crosses=[("item", "age")],
        missing="feature",
    )


LOG = log_of()
GIVEN = {"recipe": as_spec(LOG.recipe), "moments": as_statistics(LOG.moments), "practice": "A"}
EMPTY: dict[str, Any] = {"age": None, "heat": 0.3, "asked": None, "title": None}
FULL: dict[str, Any] = {"age": 44.0, "heat": 0.3, "asked": "2026-05-09", "title": [0.1, -0.2]}


def test_a_loop_takes_what_is_missing_keeps_it_and_starts_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "x.sqlite", FakeClock()
    agent = linoto.Greedy().start(LOG.moments, features=LOG.recipe)
    with opened(path, clock=clock) as service:
        create(service, policy=agent.policy, **GIVEN)
        for context in (EMPTY, FULL, {**FULL, "title": None}, {**EMPTY, "age": 30.0}) * 3:
            wanted, made = agent.decide(context=context), decide(service, context=context)
            assert made.arm == wanted.name == ("A" if context["age"] else "B")
            agent.update(wanted, 1.0)
            reward(service, made.decision_id, 1.0)
        made = decide(service, context=EMPTY)
        assert made.because[0].part == "age=(missing)" and "farther" not in str(made.reason)
        before = set(digests(service))
        loop = service.loops.get("loop")
        assert (loop.agent.theta == agent.theta).all() and read_recipe(as_spec(LOG.recipe)) == LOG.recipe
        (tmp_path / "x.parquet").write_bytes(b"".join(parquet(service.store, loop, pending=False)))
    with opened(path, clock=clock) as service:
        assert set(digests(service)) == before
    again = linoto.read_log(tmp_path / "x.parquet", reward="reward", recipe=LOG.recipe)
    place = LOG.recipe.names.index("age=(missing)")
    assert again.moments.count == 12 and again.moments.gram[place, place] == 3


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (
            {**EMPTY, "heat": None},
            "field 'heat' must be a finite number, got None: it may be missing only where",
        ),
        (
            {"heat": 0.3, "asked": None, "title": None},
            "must have the field 'age' .a finite number or None., got",
        ),
        ({**EMPTY, "age": "old"}, "field 'age' must be a finite number or None, got 'old'"),
        (
            {**EMPTY, "title": [1.0]},
            "field 'title' must be a list of 2 finite numbers or None, got 1 numbers",
        ),
    ],
)
def test_what_may_not_be_missing_is_refused_in_one_sentence(
    context: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICIES["open"], **GIVEN)
        with pytest.raises(Refused, match=message):
            decide(service, context=context)


def test_null_is_what_json_says_and_specs_without_missing_values_are_as_they_were(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "x.sqlite") as service,
        TestClient(service.app, base_url="http://127.0.0.1") as http,
    ):
        column = {"kind": "numeric", "name": "age", "mean": 40.0, "scale": 10.0}
        recipe = linoto.Recipe(items=("A", "B"), context=(linoto.Numeric(name="age", mean=40.0, scale=10.0),))
        assert recipe.to_dict()["context"] == [column]
        spec = {"recipe": recipe.to_dict(), "policy": {"type": "LinUCB"}, "default_reward": 0.0}
        assert http.put("/v1/loops/plain", json=spec).status_code == 200
        spec["recipe"]["context"] = [column | {"missing": True}]
        assert http.put("/v1/loops/missing", json=spec).status_code == 200
        asked = {"context": {"age": None}}
        assert http.post("/v1/loops/missing/decide", json=asked).status_code == 200
        answer = http.post("/v1/loops/plain/decide", json=asked)
        assert answer.status_code == 422 and "it may be missing only where" in answer.text
        spec["recipe"]["context"] = [column | {"missing": "yes"}]
        assert http.put("/v1/loops/other", json=spec).status_code in (400, 422)
