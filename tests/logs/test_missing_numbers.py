"""Laws of numbers that are missing: a feature says so, the same one in a log, in rows and in a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.small_parts import read_in_parts

import linoto
from linoto import Log, Moments, Numeric, Recipe, read_log, read_rows
from linoto.columns import Bands, Cycle, Embedding, Fourier, Logarithm, Powers, Since, Spline
from linoto.core.features.columns import Column, OptionalColumn
from linoto.core.features.written import column_of

NAMED: dict[str, Any] = {"item": "item", "reward": "click"}
FIELDS = ("age", "price", "north", "east", "asked", "title")
KINDS: list[Column] = [
    Numeric(name="plain", fields=("age",)),
    Spline(name="age", knots=4),
    Powers(name="price", degree=2),
    Logarithm(name="amount", fields=("price",)),
    Fourier(name="place", fields=("north", "east"), waves=3),
    Embedding(name="title", size=2),
    Since(name="asked", unit="hours"),
    Cycle(name="hour", fields=("asked",)),
]


def visits(rows: int = 400, share: float = 0.15, seed: int = 0) -> pd.DataFrame:
    """Numbers of every kind, of which a share is missing; whoever has no age clicks on B, others on A."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "item": rng.choice(["A", "B"], rows),
            "age": rng.integers(20, 60, rows) / 2,
            "price": rng.integers(0, 200, rows) / 4,
            "north": rng.normal(size=rows),
            "east": rng.normal(size=rows),
            "asked": [f"2026-05-{day:02}T{day % 24:02}:15:00Z" for day in rng.integers(1, 31, rows)],
            "title": rng.normal(size=(rows, 2)).tolist(),
        }
    ).astype({"asked": object, "title": object})
    for field in FIELDS:
        lost = rng.random(rows) < share
        table[field] = table[field].where(~lost, None if field in ("asked", "title") else np.nan)
    likes = np.where(table["age"].isna(), table["item"] == "B", table["item"] == "A")
    return table.assign(click=(rng.random(rows) < 0.2 + 0.6 * likes).astype(float))


def context_in(row: dict[str, Any], fields: Any = FIELDS) -> dict[str, Any]:
    """A row as a request has it."""
    return {field: None if row[field] is None or row[field] != row[field] else row[field] for field in fields}


def served(recipe: Recipe, table: pd.DataFrame) -> np.ndarray:
    """(n, d) the features of every row, as a request makes them."""
    fields = dict.fromkeys(field for column in recipe.context for field in column.reads)
    rows = table.to_dict("records")
    return np.array([recipe.transform(context_in(row, fields), [row["item"]])[0] for row in rows])


def missing_in(log: Log) -> list[str]:
    return [column.name for column in log.recipe.context if getattr(column, "missing", False)]


def test_every_kind_of_number_may_be_missing_and_is_read_as_it_is_served() -> None:
    table, crosses = visits(), [("item", column.name) for column in KINDS]
    log = read_log(table, **NAMED, columns=KINDS, crosses=crosses, missing="feature")
    assert missing_in(log) == [column.name for column in KINDS]
    X = served(log.recipe, table)
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-9, atol=1e-9)
    rows = read_rows(table, reward="click", recipe=log.recipe)
    np.testing.assert_allclose(rows.moments(np.arange(400)).gram, X.T @ X, rtol=1e-9, atol=1e-9)
    for column in KINDS:
        lacks = table[list(column.reads)].isna().any(axis=1).to_numpy()
        features = X[:, log.recipe.slices[column.name,]]
        assert (features[:, -1] == lacks).all() and not features[lacks, :-1].any()


def test_a_number_that_is_there_has_the_features_it_had() -> None:
    kinds = read_log(visits(share=0.0), **NAMED, columns=KINDS, crosses=()).recipe.context
    table = visits(share=0.0, seed=1)
    for column in kinds:
        assert isinstance(column, OptionalColumn)
        other = Column.from_dict(column.to_dict() | {"missing": True})
        for row in table.to_dict("records")[:50]:
            value = column.taken(row)
            assert other.vector(value).tolist() == [*column.vector(value).tolist(), 0.0]
            assert not other.lacks(value) and other.shown(column.labels[0], value) == column.shown(
                column.labels[0], value
            )


def test_sums_in_sql_have_the_bits_of_features_in_python() -> None:
    """Halves and quarters, with a scale that keeps them exact."""
    table = visits(rows=600)
    context = tuple(Numeric(name=name, mean=16.0, scale=4.0, missing=True) for name in ("age", "price"))
    crosses = (("item", "age"), ("age", "price"), ("item", "price"))
    recipe = Recipe(items=("A", "B"), context=context, crosses=crosses)
    log = read_log(table, reward="click", recipe=recipe)
    X = served(recipe, table)
    expected = Moments.from_rows(X, table["click"])
    assert (log.moments.gram == expected.gram).all()
    assert (log.moments.reward_vector == expected.reward_vector).all()
    rows = read_rows(table, reward="click", recipe=recipe)
    assert (rows.moments(np.arange(600)).gram == expected.gram).all()
    assert (rows.columns["age"].values == X[:, recipe.slices["age",]]).all()


@pytest.mark.parametrize("how", ["a frame", "CSV", "Parquet", "objects", "words"])
def test_what_is_missing_is_so_in_every_kind_of_table(how: str, tmp_path: Path) -> None:
    table, source = visits()[["item", "age", "price", "click"]], tmp_path / "log.csv"
    expected = read_log(table, **NAMED, numeric=["age", "price"], missing="feature")
    given: Any = source
    if how == "a frame":
        given = table.convert_dtypes()  # with the NA of pandas
    elif how == "objects":
        given = table.astype(object).where(table.notna(), None)
    elif how == "Parquet":
        given = source.with_suffix(".parquet")
        table.to_parquet(given)
    else:
        table.to_csv(source, index=False, na_rep="NA" if how == "words" else "")
    found = read_log(given, **NAMED, numeric=["age", "price"], missing="feature")
    assert found.recipe == expected.recipe and missing_in(found) == ["age", "price"]
    assert (found.moments.gram == expected.moments.gram).all()


def test_numbers_of_the_action_may_be_missing_too() -> None:
    table = visits().rename(columns={"price": "shown"})
    asked: dict[str, Any] = {
        "reward": "click",
        "numeric": ["age"],
        "features": ["shown"],
        "missing": "feature",
    }
    log = read_log(table, **asked, crosses=[("age", "shown")])
    recipe = log.recipe
    assert recipe.action[0].missing and recipe.names[-1] == "age=(missing) × shown=(missing)"
    rows = table.to_dict("records")
    X = [recipe.transform(context_in(row, ["age"]), {"it": {"shown": row["shown"]}})[0] for row in rows]
    np.testing.assert_allclose(log.moments.gram, np.array(X).T @ np.array(X), rtol=1e-12, atol=1e-9)


def test_parts_and_halves_add_up() -> None:
    table = visits()
    options: dict[str, Any] = {**NAMED, "numeric": ["age", "price"], "missing": "feature", "curves": False}
    whole, parts = read_log(table, **options), read_in_parts(table, 70, **options)
    assert whole.recipe == parts.recipe
    np.testing.assert_allclose(parts.moments.gram, whole.moments.gram, rtol=1e-12, atol=1e-9)
    early, late = parts.halves
    both = early + late
    assert (both.gram == parts.moments.gram).all()


@pytest.mark.parametrize("given", ["a frame", "CSV"])
def test_where_nothing_is_missing_nothing_changes(given: str, tmp_path: Path) -> None:
    table = visits(share=0.0)
    source: Any = table
    if given == "CSV":
        table.to_csv(tmp_path / "log.csv", index=False)
        source = tmp_path / "log.csv"
    options: dict[str, Any] = {**NAMED, "numeric": ["age"], "columns": [KINDS[2], KINDS[4], KINDS[7]]}
    one, other = (read_log(source, **options, missing=how) for how in ("refuse", "feature"))
    assert one.recipe == other.recipe and json.dumps(one.recipe.to_dict()) == json.dumps(
        other.recipe.to_dict()
    )
    assert "missing" not in json.dumps(one.recipe.to_dict())  # so that older versions read it
    assert one.moments == other.moments and (one.moments.gram == other.moments.gram).all()
    assert one.notes == other.notes


def test_only_what_the_log_lacks_may_be_missing() -> None:
    table = visits().assign(heat=np.arange(400.0), gone=np.nan, known=1.0)
    table.loc[:100, "known"] = np.nan
    asked = {"numeric": ["age", "heat", "gone", "known"], "missing": "feature", "curves": False}
    log = read_log(table, **NAMED, **asked)
    assert missing_in(log) == ["age", "gone", "known"]
    same = [note for note in log.notes if "same in all rows" in note]
    assert same == ["column 'gone' is the same in all rows, so it says nothing"]
    assert {name for _, name in log.recipe.crosses} >= {"age", "known"}
    with pytest.raises(ValueError, match="context field 'heat' must be a finite number, got None"):
        log.recipe.transform(dict.fromkeys(asked["numeric"]))


def test_a_column_that_may_be_missing_by_itself_needs_no_switch() -> None:
    log = read_log(visits(), **NAMED, columns=[Spline(name="age", knots=3, missing=True)])
    assert log.recipe.context[0].labels[-1] == "age=(missing)"
    assert log.recipe.transform({"age": None}, ["A"])[0].sum() == 4.0  # 1, the item, missing, and their cross
    written = column_of("spline(age, knots=3, missing=True)")
    assert written == Spline(name="age", knots=3, missing=True)


def test_it_is_learnt_what_missing_means() -> None:
    """Of 2,000 rows 300 lack an age: the arms' difference there is known to .06, and it is .6."""
    table = visits(rows=2000)
    log = read_log(table, **NAMED, numeric=["age", "price"], missing="feature")
    agent = linoto.Greedy().start(log)
    chosen = {age: agent.decide(context={"age": age, "price": 20.0}).name for age in (None, 12.0, 20.0, 29.0)}
    assert chosen == {None: "B", 12.0: "A", 20.0: "A", 29.0: "A"}
    rows = read_rows(table.assign(p=0.5), reward="click", propensity="p", recipe=log.recipe)
    earned = {e.method: e.value for e in linoto.evaluate(rows, "greedy")}
    assert min(earned.values()) > 0.7  # always A or always B earn .59 and .41


def test_it_is_kept_with_the_log_with_the_agent_and_in_a_later_log(tmp_path: Path) -> None:
    log = read_log(visits(), **NAMED, numeric=["age", "price"], missing="feature")
    saved = linoto.load(log.save(tmp_path / "log.npz"))
    assert saved.recipe == log.recipe == Recipe.from_dict(json.loads(json.dumps(log.recipe.to_dict())))
    agent = linoto.LinUCB().start(saved.moments, features=saved.recipe, rng=0)
    agent.update(agent.decide(context={"age": None, "price": 3.0}), 1.0)
    again = linoto.restore(agent.snapshot(), features=saved.recipe)
    asked = {"age": 12.0, "price": None}
    assert again.decide(context=asked) == agent.decide(context=asked)
    later = read_log(visits(seed=5), reward="click", recipe=log.recipe)
    assert (log.moments + later.moments).count == 800
    with pytest.raises(ValueError, match="missing must be left to the recipe"):
        read_log(visits(), reward="click", recipe=log.recipe, missing="feature")


def test_metrics_have_the_same_features() -> None:
    table = visits().assign(cost=lambda frame: (frame["age"].isna()) * 1.0)
    log = read_log(table, **NAMED, numeric=["age"], missing="feature", guardrails=["cost:lower:budget=20"])
    assert log.metrics["cost"].recipe == log.recipe
    assert (log.metrics["cost"].moments.gram == log.moments.gram).all()


@pytest.mark.parametrize("value", ["old", "inf", "-inf", "1,5", "unknown"])
def test_what_is_no_number_is_bad_as_before(value: str, tmp_path: Path) -> None:
    table = visits(rows=40).astype({"age": object})
    table.loc[5, "age"] = value
    table.to_csv(tmp_path / "log.csv", index=False)
    asked: dict[str, Any] = {**NAMED, "numeric": ["age"], "missing": "feature"}
    with pytest.raises(
        ValueError, match=f"row 6, column 'age': the value must be a finite number.*'{value}'"
    ):
        read_log(tmp_path / "log.csv", **asked)
    log = read_log(tmp_path / "log.csv", **asked, skip_bad=True)
    assert sum(log.bad.values()) == 1 and log.moments.count == 39 and missing_in(log) == ["age"]


def test_a_missing_number_is_refused_with_the_way_out() -> None:
    told = r"column 'age': the value is missing: read with missing='feature', such rows have a feature"
    with pytest.raises(ValueError, match=told):
        read_log(visits(), **NAMED, numeric=["age"])
    words = visits(rows=9).assign(age=["NA", *"12345678"])
    with pytest.raises(ValueError, match="finite number, got 'NA': read with missing='feature', such rows"):
        read_log(words, **NAMED, numeric=["age"])
    with pytest.raises(ValueError, match=r"must be a number, got 'NA'$"):  # bands have no such feature
        read_log(words, **NAMED, columns=[Bands(name="age", edges=2)])
    recipe = read_log(visits(share=0.0), **NAMED, numeric=["age"]).recipe
    for value in (None, np.nan, "", "NA", pd.NA):
        with pytest.raises(ValueError, match="it may be missing only where it was in rows of the log"):
            recipe.transform({"age": value})
    with pytest.raises(ValueError, match=r"got 'old'$"):
        recipe.transform({"age": "old"})


def test_a_field_that_is_left_out_is_refused_as_it_may_be_misspelt() -> None:
    recipe = read_log(visits(), **NAMED, numeric=["age"], missing="feature").recipe
    with pytest.raises(ValueError, match=r"the field 'age' \(a finite number or None\), got none"):
        recipe.transform({})
    with pytest.raises(ValueError, match="got 'agee': did you mean 'age'"):
        recipe.transform({"agee": None})


def test_it_is_said_how_it_may_be_asked_for() -> None:
    with pytest.raises(ValueError, match="missing must be one of 'refuse', 'feature', got 'mean'"):
        read_log(visits(), **NAMED, numeric=["age"], missing="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="missing of 'age' must be True or False, got 'yes'"):
        Numeric(name="age", missing="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"got \('age', 'age'\), which may be missing: take powers of it"):
        read_log(visits(), **NAMED, numeric=["age"], missing="feature", crosses=[("age", "age")])
