"""A recipe makes the same features of the same context, and refuses what it does not know."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import numpy as np
import pytest

from linoto import Category, Gated, Numeric, Open, Recipe
from linoto.columns import ItemColumn

AGE = Numeric(name="age", mean=40.0, scale=8.0)
COUNTRY = Category(name="country", levels=("DE", "NO"), missing=True, other=True)
PRICE = ItemColumn(name="price", labels=("price",), values=((1.0,), (2.0,), (4.0,)))
KIND = ItemColumn(name="kind", labels=("kind=a", "kind=b"), values=((1, 0), (0, 1), (0, 1)))
FULL = Recipe(
    item="sku",
    items=("x", "y", "z"),
    item_columns=(PRICE, KIND),
    context=(AGE, COUNTRY),
    crosses=(("sku", "age"), ("country", "age"), ("country", "kind"), ("age", "age"), ("price", "kind")),
)


def by_hand(recipe: Recipe, context: dict[str, Any], item: int) -> list[float]:
    """One feature after the other, by its name."""
    values = {"age": [(context["age"] - 40.0) / 8.0]}
    levels = ["DE", "NO", None, "(other)"]
    known = context["country"] if context["country"] in levels else "(other)"
    values["country"] = [float(level == known) for level in levels]
    values["sku"] = [float(item == place) for place in range(3)]
    values["price"], values["kind"] = list(PRICE.values[item]), list(KIND.values[item])
    found: list[float] = []
    for term in recipe.terms:
        for factors in product(*(values[name] for name in term)):
            found.append(float(np.prod(factors)))
    return found


@pytest.mark.parametrize("country", ["DE", "NO", None, "XX"])
def test_features_are_products_of_the_features_of_columns(country: str | None) -> None:
    context = {"age": 44.0, "country": country}
    found = FULL.transform(context)
    assert found.shape == (3, FULL.d) and len(FULL.names) == FULL.d
    assert found.tolist() == [by_hand(FULL, context, item) for item in range(3)]


def test_some_arms_are_rows_of_all_arms() -> None:
    context = {"age": 20, "country": "NO"}
    assert np.array_equal(FULL.transform(context, ["z", "x"]), FULL.transform(context)[[2, 0]])


def test_names_say_what_is_multiplied() -> None:
    assert FULL.names[:5] == ("intercept", "sku=x", "sku=y", "sku=z", "price")
    assert "country=(missing) × kind=b" in FULL.names and "age × age" in FULL.names
    assert len(set(FULL.names)) == FULL.d


def test_a_recipe_read_back_from_json_is_the_same() -> None:
    again = Recipe.from_dict(json.loads(json.dumps(FULL.to_dict())))
    assert again == FULL and hash(again) == hash(FULL)
    assert eval(repr(FULL)) == FULL
    context = {"age": 31.7, "country": "XX"}
    assert np.array_equal(again.transform(context), FULL.transform(context))


def test_values_are_read_as_logs_read_them() -> None:
    recipe = Recipe(context=(AGE, Category(name="zip", levels=("7", "true"))), items=("1", "2"))
    plain = recipe.transform({"age": 44.0, "zip": 7}, ["1"])
    for age, zip_code, arm in (("44", "7.0", 1), (np.float64(44), np.int64(7), 1.0), (44, 7.0, "1.0")):
        assert np.array_equal(recipe.transform({"age": age, "zip": zip_code}, [arm]), plain)
    assert recipe.transform({"age": True, "zip": True})[0, 3:].tolist() == [(1 - 40) / 8, 0.0, 1.0]


def test_without_rare_levels_a_new_level_has_no_effect() -> None:
    country = Category(name="country", levels=("DE", "NO"))
    assert [country.vector(value).tolist() for value in ("FR", None)] == [[0.0, 0.0], [0.0, 0.0]]


def test_arms_may_bring_their_own_columns() -> None:
    recipe = Recipe(
        context=(AGE,), action=(Numeric(name="dot"),), crosses=(("dot", "age"),), item_effects=False
    )
    found = recipe.transform({"age": 48}, {"a": {"dot": 2.0}, "b": {"dot": -1.0}})
    assert recipe.names == ("intercept", "age", "dot", "dot × age")
    assert found.tolist() == [[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, -1.0, -1.0]]
    with pytest.raises(ValueError, match=r"arms must be a mapping from names to fields \('dot'\), got None"):
        recipe.transform({"age": 48})


def test_explanations_add_up_and_come_by_size() -> None:
    theta = np.linspace(-1.0, 1.0, FULL.d)
    context = {"age": 52.0, "country": "DE"}
    found = FULL.explain(theta, context=context, arm="y", most=FULL.d)
    assert sum(part.amount for part in found) == pytest.approx(float(FULL.transform(context)[1] @ theta))
    sizes = [abs(part.amount) for part in found]
    assert sizes == sorted(sizes, reverse=True) and all(sizes)
    assert FULL.explain(theta, FULL.transform(context)[1], most=3) == found[:3]
    assert "country=NO" not in {part.name for part in found}


@pytest.mark.parametrize(
    ("context", "arms", "message"),
    [
        ({"age": 1}, None, r"context must have the field 'country' \(a word such as 'DE', 'NO'\), got none"),
        ({"age": 1, "contry": "DE"}, None, "got 'contry': did you mean 'country'"),
        ({"age": "old", "country": "DE"}, None, "context field 'age' must be a finite number, got 'old'"),
        ({"age": None, "country": "DE"}, None, "context field 'age' must be a finite number, got None"),
        ({"age": float("inf"), "country": "DE"}, None, "'age' must be a finite number, got inf"),
        ({"age": 1, "country": ["DE"]}, None, "'country' must be a word such as 'DE', 'NO', got a list"),
        ({"age": 1, "country": "DE"}, ["w"], "arms must be among the 3 items, got 'w'"),
        ({"age": 1, "country": "DE"}, [], "arms must be at least one item, got none"),
        (["age"], None, "context must be a mapping of fields, got list"),
    ],
)
def test_what_is_wrong_in_a_request_is_named(context: Any, arms: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FULL.transform(context, arms)


def test_the_na_of_pandas_is_a_value_that_is_missing() -> None:
    pd = pytest.importorskip("pandas")
    missing = FULL.transform({"age": 44.0, "country": pd.NA})
    assert np.array_equal(missing, FULL.transform({"age": 44.0, "country": None}))
    with pytest.raises(ValueError, match="context field 'age' must be a finite number, got <NA>"):
        FULL.transform({"age": pd.NA, "country": "DE"})


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_table_is_no_value_of_a_field(package: str) -> None:
    tables = pytest.importorskip(package)
    for given, kind in (tables.Series([1.0, 2.0]), "Series"), (tables.DataFrame({"a": [1.0]}), "DataFrame"):
        with pytest.raises(ValueError, match=f"^context field 'age' must be a finite number, got a {kind}$"):
            FULL.transform({"age": given, "country": "DE"})
        with pytest.raises(ValueError, match=f"^context field 'country' must be a word .*, got a {kind}$"):
            FULL.transform({"age": 1.0, "country": given})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"context": (AGE, AGE)}, "columns must differ from each other, got 'age' twice"),
        ({"items": ("a", "a")}, "items must differ from each other, got 'a' twice"),
        ({"context": (AGE,), "crosses": (("age", "agee"),)}, "got 'agee': did you mean 'age'"),
        ({"context": (COUNTRY,), "crosses": (("country", "country"),)}, "of two columns or of a number"),
        (
            {"context": (AGE, COUNTRY), "crosses": (("age", "country"), ("country", "age"))},
            "terms must differ",
        ),
        ({"items": ("a",), "item_columns": (PRICE,)}, "'price' must have a row for each of 1 items, got 3"),
        ({"intercept": False}, "at least one feature"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**fields)


@pytest.mark.parametrize("value", [1e300, -1e200, 1e60])
def test_a_number_too_large_for_a_feature_is_refused_by_the_name_of_its_field(value: float) -> None:
    for recipe in (FULL, Recipe(items=("x", "y"), context=(AGE, COUNTRY), crosses=())):
        with pytest.raises(
            ValueError, match=r"^context field 'age' must make features below 1e\+50, got -?1e"
        ):
            recipe.transform({"age": value, "country": "NO"})


def test_an_agent_names_the_field_that_is_too_large() -> None:
    agent = Gated(gate=Open()).start(d=FULL.d, features=FULL, rng=0)
    with pytest.raises(ValueError, match=r"^context field 'age' must make features below"):
        agent.decide(context={"age": 1e300, "country": "NO"})


def test_data_that_is_no_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match=r"recipe must be what Recipe\.to_dict writes"):
        Recipe.from_dict({"type": "Recipe"})
    data = FULL.to_dict()
    data["context"][0]["kind"] = "numric"
    with pytest.raises(ValueError, match="numric"):
        Recipe.from_dict(data)


def test_items_that_look_like_numbers_are_found_by_their_own_names() -> None:
    recipe = Recipe(items=("1.0", "2.0", "3"), crosses=())
    assert recipe.item_indices(["2.0", "1.0", "3"]).tolist() == [1, 0, 2]
    assert recipe.item_indices([3, "3.0"]).tolist() == [2, 2]  # as a table would have written them
    assert len(recipe.transform({})) == 3
