"""Numbers of a context that bend: found when they do, not when they do not, and named with what helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from linoto import Numeric, Recipe, Rows, audit_log, read_log, read_rows
from linoto.audit.curves import BENDS, find_curves
from linoto.core.features.written import column_of


def logged(n: int, seed: Any, *, bend: float = 0.0, unit: float = 1.0, clicks: bool = False) -> Rows:
    """Rows whose price has a line, or a wave of this size beside it; noise grows with the price."""
    rng = np.random.default_rng(seed)
    price, age, arms = rng.uniform(0, 10, n), rng.normal(40, 10, n), rng.integers(0, 3, n)
    mean = 0.3 + 0.05 * arms + 0.01 * price * (arms == 1) + 0.002 * (age - 40) + bend * np.sin(0.8 * price)
    rewards = (
        (rng.random(n) < mean).astype(float) if clicks else mean + rng.normal(size=n) * (0.1 + 0.05 * price)
    )
    context = (Numeric(name="price", mean=5 * unit, scale=3 * unit), Numeric(name="age", mean=40, scale=10))
    recipe = Recipe(items=("A", "B", "C"), context=context, crosses=(("item", "price"),))
    return Rows(arms=arms, rewards=rewards, k=3, recipe=recipe, context={"price": unit * price, "age": age})


@pytest.mark.parametrize("clicks", [False, True])
@pytest.mark.few(1)
def test_numbers_that_do_not_bend_are_called_bent_once_in_a_hundred_logs(clicks: bool) -> None:
    # 1,500 logs of each kind had 0.3 to 1.5 % at 1 %. Of 200 more than 10 have one with a chance below 1e-4.
    found = [find_curves(logged(400, [5, seed], clicks=clicks))[0].p for seed in range(200)]
    assert sum(p < 0.01 for p in found) <= 10


@pytest.mark.parametrize("clicks", [False, True])
def test_a_number_that_bends_is_found_and_the_others_are_not(clicks: bool) -> None:
    first, second = find_curves(logged(4000, 1, bend=0.15, clicks=clicks))
    assert first.column == "price" and first.p < 1e-10
    assert second.column == "age" and second.p > 0.01


def test_the_test_is_that_of_plain_numpy() -> None:
    from scipy.stats import chi2

    rows = logged(300, 2, bend=0.1)
    price, age = (np.asarray(rows.context[name]) for name in ("price", "age"))
    one = np.eye(3)[rows.arms]
    X = np.column_stack([np.ones(300), one, price, age, one * price[:, None]])
    hat = X @ np.linalg.pinv(X)
    left = rows.rewards - hat @ rows.rewards
    p = []
    for x in (price, age):
        Z = np.maximum(x[:, None] - np.quantile(x, BENDS), 0.0)
        Z -= hat @ Z
        score = Z.T @ left
        p.append(chi2.sf(score @ np.linalg.solve(Z.T @ (Z * left[:, None] ** 2), score), 3))
    smaller, larger = sorted(p)
    expected = sorted([min(2 * smaller, 1.0), max(2 * smaller, larger)])  # Holm's
    assert [curve.p for curve in find_curves(rows)] == pytest.approx(expected, rel=1e-6)


def test_units_and_too_few_rows_or_values_decide_nothing() -> None:
    plain, dear = (find_curves(logged(500, 3, bend=0.05, unit=unit)) for unit in (1.0, 1e6))
    assert [curve.p for curve in plain] == pytest.approx([curve.p for curve in dear], rel=1e-6)
    assert find_curves(logged(150, 3)) == ()
    rows = logged(500, 3)
    two = Rows(**{**vars_of(rows), "context": {**rows.context, "price": np.repeat([0.0, 1.0], 250)}})
    assert "price" not in dict(find_curves(two))  # a line fits any two values


def vars_of(rows: Rows) -> dict[str, Any]:
    return {name: getattr(rows, name) for name in ("arms", "rewards", "k", "recipe", "context")}


def test_an_audit_names_the_column_that_bends_and_its_advice_helps() -> None:
    rng = np.random.default_rng(4)
    n = 2000
    table = pd.DataFrame({"item": rng.choice(list("ABC"), n), "unit price": rng.uniform(0, 10, n)})
    table["y"] = 0.3 * abs(table["unit price"] - 5) + 0.5 * rng.normal(size=n)
    named: dict[str, Any] = {"item": "item", "reward": "y"}
    straight = read_log(table, **named, numeric=["unit price"], curves=False)
    audit = audit_log(straight, read_rows(table, reward="y", recipe=straight.recipe), noise=0.8)
    remedy = 'spline("unit price", knots=5)'
    advice = f"take {remedy} (columns) instead"
    assert any("'unit price' bends" in text and advice in text for text in (*audit.reasons, *audit.notes))
    facts = dict(audit.facts())
    assert facts["linear?"].startswith("no: 'unit price' bends (p = ")
    assert audit.to_dict()["curves"] == [{"column": "unit price", "p": audit.curves[0].p, "remedy": remedy}]
    bent = read_log(table, **named, columns=[column_of(remedy)])
    better = audit_log(bent, read_rows(table, reward="y", recipe=bent.recipe), noise=0.8)
    assert not better.linearity.rejected and not better.curves
    assert audit.gain is not None and better.gain is not None
    assert better.gain.low > audit.gain.high  # on rows that neither model saw
