"""An agent with contexts that was stored, and saved statistics of such a log, are read by later versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.core.decisions import Decision

FOLDER = Path(__file__).parents[1] / "data" / "contexts"
RECORD: dict[str, Any] = json.loads((FOLDER / "snapshots" / "future.json").read_text())
RECIPE = linoto.Recipe(
    items=("A", "B", "C"),
    context=(
        linoto.Numeric(name="age", mean=40.0, scale=10.0),
        linoto.Category(name="country", levels=("DE", "NO"), missing=True),
    ),
    crosses=(("item", "country"), ("item", "age")),
)


@pytest.mark.parametrize("name", sorted(RECORD["agents"]))
def test_an_agent_with_contexts_has_the_same_future(name: str) -> None:
    wanted = RECORD["agents"][name]
    agent = linoto.restore((FOLDER / "snapshots" / f"{name}.npz").read_bytes(), features=RECIPE)
    assert agent.policy == linoto.from_dict(wanted["policy"], stored=True)
    assert (agent.rounds, agent.awaited) == (RECORD["played"], 1)
    agent.observe(Decision.from_dict(wanted["waiting"]), 1.0)
    for context, item, mode, source, reward in wanted["decisions"]:
        decision = agent.decide(context=context, practice="C")
        assert (decision.name, decision.mode, decision.source) == (item, mode, source)
        agent.update(decision, reward)
    np.testing.assert_allclose(agent.theta, wanted["theta"], rtol=1e-9, atol=1e-12)


def test_saved_statistics_with_contexts_are_read() -> None:
    saved = linoto.load(FOLDER / "stats.npz")
    assert saved.recipe.items == ("A", "B", "C") and saved.recipe.d == saved.moments.d == 20
    assert (saved.moments.count, saved.verdict, saved.source) == (3000, "deploy", "clicks.csv")
    policy = linoto.Gated(gate=linoto.Control(budget=40), confidence=saved.confidence)
    agent = policy.start(saved.moments, features=saved.recipe, rng=0)
    assert agent.decide(context={"age": 30, "country": "DE"}, practice="C").name in saved.recipe.items
