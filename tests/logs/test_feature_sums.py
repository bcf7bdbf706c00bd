"""A log with contexts: its moments are those of the feature vectors that its recipe makes, bit for bit."""

from __future__ import annotations

import pickle
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.small_parts import read_in_parts

import linoto
from linoto import ArmTable, Engine, Recipe, read_log
from linoto.core.features.columns import Category, Embedding, Numeric
from linoto.core.features.moments import Moments
from linoto.logs.feature_sums import MOST_LEVELS, SumPlan, sum_part, survey_part
from linoto.logs.parts import ask_elsewhere
from linoto.logs.queries import Columns, RowRange, introduce_arms
from linoto.logs.tables import open_source

CROSSES = [("item", "country"), ("item", "age"), ("age", "country"), ("age", "age")]
OPTIONS: dict[str, Any] = {
    "item": "item",
    "reward": "click",
    "numeric": ["age", "hour"],
    "categories": ["country", "device"],
    "crosses": CROSSES,
    "propensity": "p",
}


def frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Whole numbers and halves, so that every sum is exact."""
    rng = np.random.default_rng(seed)
    countries = np.array(["DE", "NO", "it's", 'a "b"', None], dtype=object)
    return pd.DataFrame(
        {
            "item": rng.choice(["A", "B", "C"], rows),
            "click": rng.integers(0, 2, rows).astype(float),
            "age": rng.integers(20, 60, rows).astype(float),
            "hour": rng.integers(0, 24, rows) / 2,
            "country": countries[rng.integers(0, 5, rows)],
            "device": rng.choice([True, False], rows),
            "p": rng.choice([0.25, 0.5], rows),
            "at": np.arange(rows)[::-1],
        }
    )


def exact(recipe: Recipe) -> Recipe:
    """The recipe with means and scales that leave whole numbers and halves as exact as they were."""
    data = recipe.to_dict()
    for column in data["context"]:
        if column["kind"] == "numeric":
            column["mean"], column["scale"] = 32.0, 4.0
    return Recipe.from_dict(data)


def rows_of(recipe: Recipe, table: pd.DataFrame) -> np.ndarray:
    """(n, d) the features of every row, as serving would make them."""
    names = [column.name for column in recipe.context]
    return np.array(
        [
            recipe.transform({name: row[name] for name in names}, [row[recipe.item]])[0]
            for row in table.to_dict("records")
        ]
    )


def same(one: Moments, other: Moments) -> bool:
    names = [field.name for field in fields(Moments)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def test_moments_are_those_of_the_rows_as_served_to_the_last_bit() -> None:
    table = frame()
    recipe = exact(read_log(table, **OPTIONS).recipe)
    log = read_log(table, reward="click", propensity="p", recipe=recipe)
    X, y = rows_of(recipe, table), table["click"].to_numpy()
    assert same(log.moments, Moments.from_rows(X, y))
    assert same(log.contexts.early, Moments.from_rows(X[:200], y[:200]))
    assert log.recipe.d == len(log.recipe.names) == X.shape[1]


def test_a_learnt_recipe_gives_the_same_up_to_rounding() -> None:
    table = frame()
    log = read_log(table, **OPTIONS, time="at")
    X, y = rows_of(log.recipe, table), table["click"].to_numpy()
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-12, atol=1e-10)
    np.testing.assert_allclose(log.contexts.late.reward_vector, X[:200].T @ y[:200], rtol=1e-12, atol=1e-10)
    assert log.split == "at before 200"
    age = log.recipe.context[0]
    assert isinstance(age, linoto.Numeric)
    assert age.mean == pytest.approx(table["age"].mean(), abs=0.05 * age.scale)
    assert age.scale == pytest.approx(table["age"].std(), rel=0.01)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.few(0)
def test_long_vectors_are_summed_as_they_are_served_on_any_number_of_threads(timed: bool) -> None:
    rng = np.random.default_rng(5)
    vectors, y = rng.normal(size=(300, 32)), rng.normal(size=300)  # 528 products, and 3 items times as many
    table = pd.DataFrame(
        {"item": rng.choice(list("ABC"), 300), "v": vectors.tolist(), "y": y, "at": range(300)}
    )
    options: dict[str, Any] = {"columns": [Embedding(name="v", size=32)], "crosses": [("item", "v")]}
    options |= {"time": "at"} if timed else {}
    log = read_log(table, item="item", reward="y", **options)
    X = np.array(
        [log.recipe.transform({"v": v}, [i])[0] for v, i in zip(vectors, table["item"], strict=True)]
    )
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(log.moments.reward_vector, X.T @ y, rtol=1e-10, atol=1e-10)
    early, late = log.halves
    np.testing.assert_allclose(early.gram, X[:150].T @ X[:150], rtol=1e-10, atol=1e-10)
    assert (early.count, late.count) == (150, 150)
    alone, three = (
        read_in_parts(table, 100, item="item", reward="y", engine=Engine(jobs=jobs), **options)
        for jobs in (1, 3)
    )
    assert same(alone.moments, three.moments)


def test_the_item_may_be_crossed_by_that_word_whatever_its_column_is_called() -> None:
    table = frame().rename(columns={"item": "variant"})
    options: dict[str, Any] = {"item": "variant", "reward": "click", "numeric": ["age"]}
    by_word, by_name = (read_log(table, **options, crosses=[(item, "age")]) for item in ("item", "variant"))
    assert by_word.recipe == by_name.recipe and same(by_word.moments, by_name.moments)
    own = table.assign(item=table["age"])  # a column of that name is meant first
    found = read_log(own, item="variant", reward="click", numeric=["item", "age"], crosses=[("item", "age")])
    assert ("item", "age") in found.recipe.crosses


def test_items_may_be_known_by_features() -> None:
    table = frame()
    arms = ArmTable.from_columns({"item": ["C", "B", "A"], "price": [4.0, 2.0, 1.0], "kind": ["s", "t", "s"]})
    crosses = [
        ("kind", "country"),
        ("price", "age"),
        ("country", "price"),
        ("item", "device"),
        ("price", "kind"),
    ]
    for effects in (None, True):
        options = OPTIONS | {"crosses": crosses, "arms": arms, "item_effects": effects}
        log = read_log(table, **options)
        X = rows_of(log.recipe, table)
        assert ("item=C" in log.recipe.names) is (effects is True)
        assert log.recipe.items == ("C", "B", "A")
        np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-11, atol=1e-9)
        np.testing.assert_allclose(log.moments.reward_vector, X.T @ table["click"], rtol=1e-11, atol=1e-9)


def test_rows_may_hold_features_of_the_played_action() -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"y": rng.normal(size=50), "a b": rng.normal(size=50), 'x"1': rng.normal(size=50)})
    log = read_log(table, reward="y", features=["a b", 'x"1'], intercept=False)
    X = table[["a b", 'x"1']].to_numpy()
    assert log.recipe.names == ("a b", 'x"1') and log.arms.names == ("(any)",)
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-12)
    served = [log.recipe.transform({}, {"arm": row})[0] for row in table[["a b", 'x"1']].to_dict("records")]
    np.testing.assert_allclose(log.moments.reward_vector, np.array(served).T @ table["y"], rtol=1e-10)


def sent(what: Any) -> Any:
    """The same as it arrives on a worker."""
    return pickle.loads(pickle.dumps(what))


def test_a_worker_elsewhere_finds_the_same_sums(tmp_path: Path) -> None:
    table = frame(100)
    table["age"] *= 0.1
    table.loc[7, "click"] = np.nan
    table.to_parquet(tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", **OPTIONS, skip_bad=True, engine=Engine(jobs=1))
    drafts = (Numeric(name="age"), Numeric(name="hour"))
    words = (Category(name=name, levels=(), other=True) for name in ("country", "device"))
    columns = Columns("click", "item", "p", context=(*drafts, *words))
    with open_source(tmp_path / "log.parquet", columns.given()) as (_, (file,)):
        parts = [RowRange(file, columns, *ends, True) for ends in ((0, 50, False), (50, 100, True))]
    introduce = partial(introduce_arms, ids=log.arms.names)
    names = [column.name for column in columns.context]
    ask = partial(survey_part, names=names, most_levels=MOST_LEVELS)
    survey_one = sent(partial(ask_elsewhere, ask, introduce))
    surveys = [survey_one(sent(part)) for part in parts]
    assert sum(survey["age"][0].size for survey in surveys) == log.offline.total
    plan = SumPlan(recipe=log.recipe)
    sum_one = sent(partial(ask_elsewhere, partial(sum_part, plan=plan), introduce))
    for part, expected in zip(parts, log.contexts[1:], strict=True):
        assert same(plan.moments(sum_one(sent(part))[part.late]), expected)


def test_the_order_of_rows_changes_nothing_where_sums_are_exact() -> None:
    table = frame()
    recipe = exact(read_log(table, **OPTIONS).recipe)
    shuffled = table.sample(frac=1.0, random_state=3)
    assert read_log(shuffled, **OPTIONS).recipe == read_log(table, **OPTIONS).recipe
    one, other = (read_log(rows, reward="click", recipe=recipe) for rows in (table, shuffled))
    assert same(one.moments, other.moments)


def test_parts_of_a_log_add_up_to_the_whole(tmp_path: Path) -> None:
    table = frame()
    for name, part in (("a", table[:150]), ("b", table[150:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    recipe = exact(read_log(str(tmp_path / "*.csv"), **OPTIONS).recipe)
    parts = [read_log(tmp_path / f"{name}.csv", reward="click", recipe=recipe) for name in "ab"]
    log = read_log(str(tmp_path / "*.csv"), reward="click", recipe=recipe)
    assert same(log.moments, parts[0].moments + parts[1].moments)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    log = read_log(frame(), **OPTIONS)
    saved = linoto.load(log.save(tmp_path / "log.npz"))
    assert saved.recipe == log.recipe and same(saved.moments, log.moments)
    assert (saved.confidence, saved.verdict, saved.source) == (None, None, "the DataFrame")


def test_an_agent_starts_from_what_was_saved(tmp_path: Path) -> None:
    saved = linoto.load(read_log(frame(), **OPTIONS).save(tmp_path / "log.npz"))
    agent = linoto.Greedy().start(saved)
    context = {"age": 30, "hour": 3.5, "country": "DE", "device": True}
    decision = agent.decide(context=context)
    expected = saved.recipe.transform(context) @ agent.theta
    assert decision.name == saved.recipe.items[int(expected.argmax())]
    assert agent.decide(context=context, allowed=["C"]).name == "C"


def test_items_alone_are_a_log_of_arms() -> None:
    table = frame()
    log = read_log(table, **OPTIONS)
    assert log.propensities is not None
    offline, found = log.offline, table.groupby("item")
    assert offline.pulls.tolist() == found["click"].count().tolist()
    assert offline.reward_sums.tolist() == found["click"].sum().tolist()
    assert log.propensities.inverse.tolist() == (1 / table["p"]).groupby(table["item"]).sum().tolist()


def test_rare_levels_share_a_feature() -> None:
    table = frame()
    table["country"] = ["rare"] * 3 + ["odd"] * 2 + ["DE"] * 395
    log = read_log(table, item="item", reward="click", categories=["country"], min_count=10, crosses=())
    assert log.recipe.names[-2:] == ("country=DE", "country=(other)")
    assert np.diag(log.moments.gram)[-2:].tolist() == [395.0, 5.0]
    new = log.recipe.transform({"country": "new"}, ["A"])
    assert np.array_equal(new, log.recipe.transform({"country": "rare"}, ["A"]))


def test_a_later_log_may_have_levels_that_the_recipe_does_not_know() -> None:
    table = frame()
    recipe = exact(read_log(table, **OPTIONS).recipe)
    table.loc[::3, "country"] = "new"
    log = read_log(table, reward="click", recipe=recipe)
    assert same(log.moments, Moments.from_rows(rows_of(recipe, table), table["click"]))


def test_too_many_levels_are_refused_with_advice() -> None:
    table = frame()
    table["user"] = np.arange(400)
    options: dict[str, Any] = {"item": "item", "reward": "click", "categories": ["user"]}
    message = (
        r"must make at most 100 features \(max_features\), got 404, most of them by 400 of 'user': leave it "
        r"out, group rare levels \(min_count\), or group or hash"
    )
    with pytest.raises(ValueError, match=message):
        read_log(table, **options, max_features=100)
    assert read_log(table, **options, max_features=100, min_count=2).recipe.d == 5
    with pytest.raises(ValueError, match="1,604, most of them by 3 of 'item' and 400 of 'user'"):
        read_log(table, **options, crosses=[("item", "user")])
    with pytest.raises(ValueError, match=r"column 'user' must have at most 150 levels, got about \d+ in"):
        read_in_parts(table, 500, **options, most_levels=150)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("age", None, "row 6, column 'age': the value is missing"),
        ("age", "old", "row 6, column 'age': the value must be a finite number, got 'old'"),
        ("age", "1,5", "got '1,5', which looks like a number with the decimal mark ','"),
        ("age", "inf", "row 6, column 'age': the value must be a finite number, got 'inf'"),
        ("click", None, "row 6, column 'click': the reward is missing"),
        ("item", None, "row 6, column 'item': the item is missing"),
        ("p", "0", "row 6, column 'p': the propensity must be in"),
        ("hour", "2024-05-01", "row 6, column 'hour': the value must be a finite number, got '2024-05-01'"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, column: str, value: str | None, message: str) -> None:
    table = frame(10).astype(object)
    table.loc[5, column] = value
    table.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match=message):
        read_log(tmp_path / "log.csv", **OPTIONS)


def test_bad_rows_are_dropped_where_asked_for(tmp_path: Path) -> None:
    table = frame().astype(object)
    for row, (column, value) in enumerate((("age", None), ("age", "old"), ("click", ""), ("item", None))):
        table.loc[row, column] = value
    table.to_csv(tmp_path / "log.csv", index=False)
    log = read_log(tmp_path / "log.csv", **OPTIONS, skip_bad=True)
    rest = read_log(table[4:].astype({"age": float, "click": float}), **OPTIONS)
    assert log.bad == {"age not understood": 1, "missing age": 1, "missing item": 1, "missing reward": 1}
    assert (log.rows, log.offline.total) == (400, 396) and log.recipe == rest.recipe
    np.testing.assert_allclose(log.moments.gram, rest.moments.gram, rtol=1e-12, atol=1e-9)


def test_some_rows_and_other_notations(tmp_path: Path) -> None:
    table = frame()
    table["click"] = table["click"].astype(int)
    european = table.assign(age=[f"{age:.1f}".replace(".", ",") for age in table["age"]])
    european.to_csv(tmp_path / "log.csv", index=False, sep=";")
    options = OPTIONS | {"propensity": None, "numeric": ["age"]}
    log = read_log(tmp_path / "log.csv", **options, decimal=",", where="country = 'NO'")
    expected = read_log(table[table["country"] == "NO"], **options)
    assert log.recipe == expected.recipe and same(log.moments, expected.moments)
    assert any(note.startswith("where country = 'NO' kept") for note in log.notes)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"numeric": ["agee"]}, "numeric 'agee' must be a column of the DataFrame, which has none"),
        ({"numeric": "age"}, "numeric must be a list of columns, got the text 'age'"),
        ({"numeric": None}, "numeric must be a list of columns, got None"),
        ({"categories": 3}, "categories must be a list of columns, got 3"),
        ({"numeric": ["age", "click"]}, "'click' must have one meaning, got reward and numeric 'click'"),
        ({"categories": ["age"]}, "'age' must have one meaning"),
        ({"min_count": 0}, "min_count must be a whole number >= 1"),
        ({"crosses": [("item", "contry")]}, "got 'contry': did you mean 'country'"),
        ({"recipe": Recipe(items=("A",))}, "recipe must be given alone"),
    ],
)
def test_what_was_asked_for_wrongly_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_log(frame(20), **(OPTIONS | changed))


def test_an_item_outside_the_known_ones_is_named() -> None:
    arms = ArmTable.from_columns({"item": ["A", "B"], "price": [4.0, 2.0]})
    with pytest.raises(ValueError, match="column 'item': there is no arm 'C' among the 2 arms"):
        read_log(frame(), **(OPTIONS | {"arms": arms, "crosses": []}))
    log = read_log(frame(), **(OPTIONS | {"arms": arms, "crosses": []}), skip_bad=True)
    assert log.bad.keys() == {"unknown arm"}
