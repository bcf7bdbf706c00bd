"""Numbers of a context that are missing: counted, and said to matter where arms earn something else there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from linoto import ArmTable, Log, Numeric, Recipe, Rows, audit_log, read_log, read_rows
from linoto.audit.missing import MissingValues, find_missing, missing_values

NAMED: dict[str, Any] = {"item": "offer", "reward": "y", "missing": "feature"}


def logged(rows: int, seed: Any, *, step: float = 0.0, swap: float = 0.0) -> pd.DataFrame:
    """Rewards that are a step higher without an age; for offer A also by `swap`, and for B less by it."""
    rng = np.random.default_rng(seed)
    offer, gone = rng.choice(["A", "B"], rows, p=[0.7, 0.3]), rng.random(rows) < 0.2
    age, price = rng.normal(40, 10, rows), rng.normal(size=rows)
    y = 0.3 * (offer == "A") + gone * (step + swap * np.where(offer == "A", 1, -1)) + rng.normal(size=rows)
    price[rng.random(rows) < 0.05] = np.nan
    return pd.DataFrame({"offer": offer, "age": np.where(gone, np.nan, age), "price": price, "y": y})


def read(table: pd.DataFrame, **options: Any) -> Log:
    return read_log(table, **NAMED, numeric=["age", "price"], curves=False, **options)


def found(log: Log) -> dict[str, MissingValues]:
    return {column.column: column for column in find_missing(log)}


def test_rewards_that_do_not_depend_on_it_are_said_to_once_in_a_hundred_logs() -> None:
    # of 200 logs more than 8 have one with a chance of 2e-4, were each p exact
    context = tuple(Numeric(name=name, missing=True) for name in ("age", "price"))
    recipe = Recipe(items=("A", "B"), context=context, crosses=(("item", "age"), ("item", "price")))
    alarms = 0
    for seed in range(200):
        table = logged(150, [3, seed])
        arms = (table["offer"] == "B").to_numpy(np.int64)
        fields = {name: table[name].to_numpy() for name in ("age", "price")}
        rows = Rows(arms=arms, rewards=table["y"].to_numpy(), k=2, recipe=recipe, context=fields)
        alarms += min(c.p or 0.0 for c in missing_values(recipe, rows.moments(np.arange(150)))) < 0.01
    assert alarms <= 8


@pytest.mark.parametrize("crossed", [True, False])
def test_the_test_is_the_f_test_of_plain_least_squares(crossed: bool) -> None:
    from scipy.special import fdtrc

    table = logged(300, 1, step=0.3)
    log = read(table, crosses=[("offer", "age")] if crossed else ())
    column, other = find_missing(log)
    gone, a = table["age"].isna().to_numpy(float), (table["offer"] == "A").to_numpy(float)
    X = np.column_stack([np.ones(300), a])
    more = np.column_stack([gone, gone * a]) if crossed else gone[:, None]

    def left(matrix: np.ndarray) -> float:
        beta = np.linalg.lstsq(matrix, table["y"], rcond=None)[0]
        return float(((table["y"] - matrix @ beta) ** 2).sum())

    both, added = np.hstack([X, more]), more.shape[1]
    ratio = (left(X) - left(both)) / added / (left(both) / (300 - both.shape[1]))
    p = float(fdtrc(added, 300 - both.shape[1], ratio))
    assert min(2 * p, 1.0) == pytest.approx(column.p, rel=1e-6) or column.p == pytest.approx(p, rel=1e-6)
    step = np.linalg.lstsq(np.hstack([X, gone[:, None]]), table["y"], rcond=None)[0][-1]
    assert column.difference == pytest.approx(step) and column.rows == gone.sum()
    assert column.share == pytest.approx(gone.mean()) and other.rows == table["price"].isna().sum()


@pytest.mark.parametrize("change", [{"step": 0.5}, {"step": -0.5}, {"swap": 0.5}])
def test_what_matters_is_said_and_what_does_not_is_counted(change: dict[str, float]) -> None:
    table = logged(2000, 2, **change)
    log = read(table, crosses=[("offer", "age"), ("offer", "price")])
    columns = found(log)
    assert columns["age"].matters and not columns["price"].matters
    audit = audit_log(log, read_rows(table, reward="y", recipe=log.recipe))
    facts = [text for name, text in audit.facts() if name == "missing values"]
    rows = table["age"].isna().sum()
    assert facts[0].startswith(f"'age' in {rows} rows ({rows / 2000:.1%}); arms earn something else there: 0")
    assert ("more on average" in facts[0]) == (columns["age"].difference > 0)
    assert facts[1].startswith("'price' in ") and facts[1].endswith(
        "no sign that arms earn something else there"
    )
    assert any(
        note.startswith("arms earn something else where 'age' is missing, and") for note in audit.notes
    )
    data = audit.to_dict()["missing"]
    assert [column["column"] for column in data] == ["age", "price"] and data[0]["rows"] == rows
    assert audit.verdict == audit_log(log).verdict  # it weighs nothing


def test_a_log_without_missing_values_says_nothing_of_them() -> None:
    log = read(logged(100, 3).fillna(1.0))
    assert find_missing(log) == () and "missing values" not in dict(audit_log(log).facts())
    fixed = read_log(logged(100, 3), item="offer", reward="y")
    assert find_missing(fixed) == ()


def test_arms_that_are_known_by_columns_are_tested_too() -> None:
    arms = ArmTable.from_columns({"offer": ["A", "B"], "size": [1e6, 3e6]})
    log = read(logged(2000, 4, step=0.5), arms=arms)
    assert found(log)["age"].matters and found(log)["age"].difference == pytest.approx(0.5, abs=0.25)


def test_without_a_constant_nothing_is_tested() -> None:
    """The feature of a missing value would be the only one that tells whether rewards are 0 on average."""
    table = logged(2000, 4).assign(y=lambda rows: rows["y"] + 1.0)
    columns = found(read(table, item_effects=False, intercept=False))
    assert [column.p for column in columns.values()] == [None, None]
    effects = found(read(table, intercept=False))
    assert effects["age"].p == pytest.approx(found(read(table))["age"].p)


def test_one_row_is_one() -> None:
    table = logged(100, 3).fillna(1.0)
    table.loc[7, "age"] = np.nan
    assert found(read(table))["age"].where == "'age' in 1 row (1.0%)"


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_rewards_that_are_all_the_same_show_nothing(reward: float) -> None:
    columns = find_missing(read(logged(100, 5).assign(y=reward)))
    assert [column.p for column in columns] == [None, None]
    gone = find_missing(read(logged(100, 5).assign(age=np.nan)))
    assert gone[0].rows == 100 and gone[0].p is None


def test_numbers_bend_where_they_are_there() -> None:
    """A wave of the ages that are known: the rows without one have no place on it."""
    table = logged(4000, 6)
    table["y"] += np.where(table["age"].isna(), 1.0, 0.5 * np.abs(table["age"].fillna(0.0) - 40) / 10)
    log = read(table)
    first = audit_log(log, read_rows(table, reward="y", recipe=log.recipe)).curves[0]
    assert first.column == "age" and first.p < 1e-6
    found = []
    for step in (0.0, 2.0):  # what rows without an age earn says nothing of a curve
        level = logged(4000, 7, step=step)
        log = read(level, crosses=())
        audit = audit_log(log, read_rows(level, reward="y", recipe=log.recipe))
        found.append({curve.column: curve.p for curve in audit.curves})
    assert found[0] == pytest.approx(found[1], rel=1e-6)
