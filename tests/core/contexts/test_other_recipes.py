"""An agent goes on with its own recipe: another with as many features would mean something else by each."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import linoto
from linoto import Category, Numeric, OwnFeatures, Recipe
from linoto.core.features.digests import digests_of
from linoto.core.learnt import LearntPolicy

AGE = Numeric(name="age", mean=40.0, scale=10.0)
COUNTRY = Category(name="country", levels=("DE", "NO"))
PRICE = linoto.columns.ItemColumn(name="price", labels=("price",), values=((1.0,), (2.5,)))
RECIPE = Recipe(items=("A", "B"), context=(AGE, COUNTRY), crosses=(("item", "age"), ("item", "country")))
PRICED = replace(RECIPE, item_columns=(PRICE,))
OTHERS = {
    "the order of items": replace(RECIPE, items=("B", "A")),
    "items": replace(RECIPE, items=("A", "C")),
    "column 'age'": replace(RECIPE, context=(replace(AGE, mean=55.0), COUNTRY)),
    "column 'country'": replace(RECIPE, context=(AGE, replace(COUNTRY, levels=("NO", "DE")))),
    "the order of context": replace(RECIPE, context=(COUNTRY, AGE)),
    "crosses": replace(RECIPE, crosses=RECIPE.crosses[::-1]),
    "column 'age', column 'income', crosses": replace(
        RECIPE, context=(Numeric(name="income"), COUNTRY), crosses=(("item", "income"), ("item", "country"))
    ),
}


def agent_of(features: Any) -> Any:
    return linoto.LinUCB().start(None, features=features, rng=0)


@pytest.mark.parametrize("part", OTHERS)
def test_another_recipe_is_refused_by_what_differs(part: str) -> None:
    assert OTHERS[part].d == RECIPE.d
    message = f"features must be those of the snapshot, got a recipe that differs in {part}$"
    with pytest.raises(ValueError, match=message):
        linoto.restore(agent_of(RECIPE).snapshot(), features=OTHERS[part])


def test_columns_of_items_are_told_apart() -> None:
    blob = agent_of(PRICED).snapshot()
    other = replace(PRICED, item_columns=(replace(PRICE, values=((1.0,), (2.6,))),))
    with pytest.raises(ValueError, match=r"differs in column 'price'$"):
        linoto.restore(blob, features=other)
    linoto.restore(blob, features=Recipe.from_dict(json.loads(json.dumps(PRICED.to_dict()))))


def test_own_features_of_items_in_another_order_are_refused() -> None:
    blob = agent_of(OwnFeatures(items=("A", "B"), width=3)).snapshot()
    linoto.restore(blob, features=OwnFeatures(items=["A", "B"], width=3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"differs in the order of items$"):
        linoto.restore(blob, features=OwnFeatures(items=("B", "A"), width=3))


@pytest.mark.parametrize(
    "same",
    [
        Recipe.from_dict(json.loads(json.dumps(RECIPE.to_dict()))),
        replace(RECIPE, context=(replace(AGE, mean=40, scale=np.float64(10)), COUNTRY)),
        replace(RECIPE, context=(replace(AGE, mean=40.0 * (1 + 1e-14)), COUNTRY)),  # of rows in another order
        replace(RECIPE, context=(replace(AGE, fields=("age",)), COUNTRY)),
    ],
)
def test_the_same_recipe_written_otherwise_is_taken(same: Recipe) -> None:
    assert digests_of(same) == digests_of(RECIPE)
    linoto.restore(agent_of(RECIPE).snapshot(), features=same)


def test_after_items_came_the_recipe_of_the_start_and_that_of_now_are_taken() -> None:
    agent = agent_of(PRICED)
    agent.add_arms(["C"], values=[[3.0]])
    agent.remove_arms(["A"])
    agent.add_arms(["D"], values=[[4.0]])
    half = PRICED.with_items(["C"], [[3.0]])
    for recipe in (PRICED, half, agent.features):
        again = linoto.restore(agent.snapshot(), features=recipe)
        assert again.features == agent.features and again.snapshot() == agent.snapshot()
    for other in (
        PRICED.with_items(["D"], [[4.0]]).with_items(["C"], [[3.0]]),
        PRICED.with_items(["C"], [[3.5]]),
        replace(PRICED, items=("B", "A")),
    ):
        with pytest.raises(ValueError, match="features must be those of the snapshot, got a recipe that"):
            linoto.restore(agent.snapshot(), features=other)


def test_nothing_is_known_of_features_that_are_no_data() -> None:
    class Mine:
        d = RECIPE.d

        def transform(self, context: Any, arms: Any = None) -> Any:
            return RECIPE.transform(context, arms)

    linoto.restore(agent_of(Mine()).snapshot(), features=RECIPE)
    linoto.restore(agent_of(RECIPE).snapshot(), features=Mine())


def learnt_with(recipe: Recipe) -> LearntPolicy:
    how: dict[str, Any] = {"method": "doubly robust", "model": "doubly robust"}
    how |= {"imitation": 0.0, "clip": 10.0, "clipped": 0, "rows": 100}
    return LearntPolicy(recipe=recipe, theta=tuple(np.arange(float(recipe.d))), **how)


@dataclass(frozen=True, kw_only=True, eq=False)
class Looked(Numeric):
    """A column of somebody's own, which looks its numbers up."""

    kind: ClassVar[str] = "looked"
    table: Any = None


@pytest.mark.parametrize(
    "table", [np.arange(3.0), ((1, "low"), (2, "high")), ((),), ((1.0, 2.0), (3.0,)), {"low": 1.0}]
)
def test_a_column_of_ones_own_may_hold_anything(table: Any) -> None:
    recipe = replace(RECIPE, context=(Looked(name="age", table=table), COUNTRY))
    blob = agent_of(recipe).snapshot()
    linoto.restore(blob, features=recipe)
    with pytest.raises(ValueError, match=r"differs in column 'age'$"):
        linoto.restore(blob, features=RECIPE)


def test_new_arms_are_refused_where_the_explorer_knows_those_of_its_rows_only() -> None:
    learnt, message = learnt_with(RECIPE), "explorer must be one that knows new arms, got a LearntPolicy"
    agent = linoto.Gated(explorer=learnt, gate=linoto.Open()).start(None, features=RECIPE, rng=0)
    with pytest.raises(ValueError, match=message):
        agent.add_arms(["C"])
    agent.remove_arms(["B"])
    assert agent.decide(context={"age": 50, "country": "DE"}).name == "A"
    alone = learnt_with(Recipe(items=("A", "B"), intercept=False))
    log = linoto.Offline(pulls=[30, 20], reward_sums=[9.0, 8.0])
    fixed = linoto.Gated(explorer=alone, gate=linoto.Open()).start(np.eye(2), log, rng=0)
    with pytest.raises(ValueError, match=message):
        fixed.add_arms(np.eye(3)[2:])
    assert fixed.d == 2 and fixed.decide().arm == 1


def test_a_learnt_policy_is_not_started_with_another_recipe() -> None:
    learnt = learnt_with(RECIPE)
    policy = linoto.Gated(explorer=learnt, gate=linoto.Open())
    decision = policy.start(None, features=RECIPE, rng=0).decide(context={"age": 50, "country": "DE"})
    assert decision.name == learnt({"age": 50, "country": "DE"})
    for part, other in OTHERS.items():
        message = f"features must be those of the learnt policy, got a recipe that differs in {part}$"
        with pytest.raises(ValueError, match=message):
            policy.start(None, features=other, rng=0)
