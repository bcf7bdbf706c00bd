"""One audit: a log has the same one however it is stated, and every finding looks at every log that it can.

Statistical tests have a fixed seed and state their false-alarm rate: the probability that they would fail for
another seed although the law holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto import Category, Recipe, Rows, audit_log, read_arms, read_log, read_rows
from linoto.audit.fit import fit_of_rows
from linoto.pages.audit import arm_rows

ITEMS = ("A", "B", "C")
Draw = Callable[[np.random.Generator, int], np.ndarray]
KINDS: dict[str, Draw] = {
    "clicks": lambda rng, n: (rng.random(n) < 0.05).astype(float),
    "heavy tails": lambda rng, n: 20 * rng.standard_t(1.6, n),
    "stars": lambda rng, n: rng.integers(1, 6, n).astype(float),
}


def table_of(kind: str, n: int = 2000, *, moved: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    items = rng.choice(ITEMS, n)
    if moved:
        items[n // 2 :] = rng.choice(ITEMS, n // 2, p=[0.8, 0.1, 0.1])
    chance = np.where(items == "C", 0.9, 1 / 3)  # wrong for C
    return pd.DataFrame({"item": items, "age": rng.normal(size=n), "y": KINDS[kind](rng, n), "p": chance})


COLUMNS: dict[str, Any] = {"item": "item", "reward": "y", "propensity": "p"}


@pytest.mark.parametrize("moved", [False, True], ids=["steady shares", "shares moved"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_has_one_audit_however_it_is_stated(kind: str, moved: bool) -> None:
    """As a file of arms, or by a recipe whose only column is the item: every number and every word."""
    table = table_of(kind, moved=moved)
    fixed = read_log(table, **COLUMNS, arms=read_arms(pd.DataFrame({"item": ITEMS})))
    recipe = Recipe(item="item", items=ITEMS)
    stated = read_log(table, **COLUMNS, recipe=recipe)
    assert stated.contexts is not None and fixed.contexts is None
    rows = read_rows(table, reward="y", propensity="p", recipe=recipe)
    one, other = audit_log(fixed), audit_log(stated, rows)
    assert one.facts() == other.facts() and one.to_dict() == other.to_dict()
    assert arm_rows(one) == arm_rows(other)
    assert other.saved().recipe == recipe and one.saved().verdict == other.saved().verdict


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_that_says_nothing_changes_no_finding(kind: str) -> None:
    """Shares, propensities, the mean and its level are the same; the noise around a model with one feature
    more is the same to a percent, and so is what is guessed of it; drift is the same but for the feature."""
    table = table_of(kind)
    log = read_log(table, **COLUMNS, numeric=["age"], crosses=())
    rows = read_rows(table, reward="y", propensity="p", recipe=log.recipe)
    fixed, contextual = audit_log(read_log(table, **COLUMNS)), audit_log(log, rows)
    assert fixed.verdict == contextual.verdict
    one, other = fixed.to_dict(), contextual.to_dict()
    assert one.keys() == other.keys()
    same = ("rows", "arms", "shares_changed", "propensities", "horizon")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    drift, looked = one["drift"], other["drift"]
    assert drift.keys() == looked.keys() and drift["p_features"] is None and looked["p_features"] > 0.01
    for name in ("split", "tested_arms", "rejected", "moved", "early_reference", "late_reference"):
        assert drift[name] == looked[name]
    for name in ("p_arms", "p_common"):
        assert looked[name] == pytest.approx(drift[name], abs=0.1)
    assert other["noise"]["value"] == pytest.approx(one["noise"]["value"], rel=0.01)
    if kind == "clicks":
        assert other["rewards"] == one["rewards"]
        return
    assert other["proposed"]["noise"] == pytest.approx(one["proposed"]["noise"], rel=0.01)
    assert other["rewards"]["mean_interval"] == pytest.approx(one["rewards"]["mean_interval"], rel=0.01)
    assert other["tails"]["heavy"] == one["tails"]["heavy"] == (kind == "heavy tails")
    assert other["tails"]["farthest"] == pytest.approx(one["tails"]["farthest"], rel=0.1)
    assert [text[:40] for text in contextual.reasons[:2]] == [text[:40] for text in fixed.reasons[:2]]


def test_without_rows_the_audit_of_contexts_says_what_it_cannot_tell() -> None:
    table = table_of("heavy tails")
    found = dict(audit_log(read_log(table, **COLUMNS, numeric=["age"])).facts())
    assert found["tails"].startswith("cannot tell") and found["linear?"].startswith("cannot tell")
    assert "contexts help?" not in found


@pytest.mark.parametrize(
    "column, why",
    [
        ("constant", "the 3 kinds of rows with 10 or more rows may have any means in this model"),
        ("age", "fewer than two kinds of rows with the same features have 10 rows"),
        ("", "that takes the rows themselves"),
    ],
)
def test_one_reason_is_given_why_linearity_cannot_be_tested(column: str, why: str) -> None:
    table = table_of("stars").assign(constant=1).head(150)  # of more rows it is told whether the age bends
    log = read_log(table, **COLUMNS, numeric=[column or "age"])
    rows = read_rows(table, reward="y", propensity="p", recipe=log.recipe) if column else None
    assert dict(audit_log(log, rows).facts())["linear?"] == f"cannot tell: {why}"


# -- linearity with contexts ------------------------------------------------------------------------------

COUNTRIES = ("DE", "NO", "SE")
PLAIN = Recipe(items=ITEMS, context=(Category(name="country", levels=COUNTRIES),))
CROSSED = Recipe(items=ITEMS, context=PLAIN.context, crosses=(("item", "country"),))


def rows_with(recipe: Recipe, seed: int, *, misfit: float = 0.0, clicks: bool = True, n: int = 1500) -> Rows:
    """Means that add up of item and country; `misfit` besides, for B in NO alone."""
    rng = np.random.default_rng(seed)
    arms, country = rng.integers(0, 3, n), rng.integers(0, 3, n)
    means = 0.1 + 0.1 * arms + 0.05 * country + misfit * ((arms == 1) & (country == 1))
    rewards = (rng.random(n) < means).astype(float) if clicks else means + rng.standard_normal(n)
    context = {"country": np.array(COUNTRIES, dtype=object)[country]}
    return Rows(arms=arms, rewards=rewards, k=3, recipe=recipe, context=context)


@pytest.mark.parametrize("clicks", [True, False])
@pytest.mark.few(1)
def test_rewards_that_are_linear_in_contexts_are_seldom_said_not_to_be(clicks: bool) -> None:
    """The level is 0.01: of 200 logs, 9 or more are rejected with probability 2e-4."""
    found = [fit_of_rows(rows_with(PLAIN, seed, clicks=clicks), adaptive=False) for seed in range(200)]
    assert sum(fit.rejected for fit in found if fit is not None) < 9


def test_a_cross_that_is_missing_is_seen_and_one_that_is_there_leaves_nothing_to_test() -> None:
    found = fit_of_rows(rows_with(PLAIN, 0, misfit=0.4), adaptive=False)
    assert found is not None and found.rejected and found.degrees[0] == 4  # nine cells, five free features
    assert fit_of_rows(rows_with(CROSSED, 0, misfit=0.4), adaptive=False) is None


def test_a_wrong_model_of_contexts_is_no_reason_against_a_gate_that_needs_none() -> None:
    """Control needs no model, so that the misfit is worth knowing; a Tolerance by the model waits."""
    rows = rows_with(PLAIN, 0, misfit=0.4)
    table = pd.DataFrame(
        {"item": np.array(ITEMS)[rows.arms], "country": rows.context["country"], "y": rows.rewards}
    )
    log = read_log(table, item="item", reward="y", categories=["country"], crosses=())
    seen = read_rows(table, reward="y", recipe=log.recipe)
    coin = audit_log(log, seen)
    assert coin.verdict == "deploy" and isinstance(coin.gate, linoto.Control)
    assert any("rewards are not linear in these features" in note for note in coin.notes)
    priced = table.assign(y=table["y"] * 3 - 1)
    wide = read_log(priced, item="item", reward="y", categories=["country"], crosses=())
    by_model = audit_log(wide, read_rows(priced, reward="y", recipe=wide.recipe), noise=1.5)
    assert by_model.certificate is not None and by_model.certificate.by_model
    assert by_model.verdict == "not yet" and "rewards are not linear" in by_model.reasons[0]
    assert dict(by_model.facts())["linear?"].startswith("no: F(4, ")


def test_features_of_items_are_judged_as_those_of_arms_are() -> None:
    """A recipe without columns of a context: an item that its curve misses is seen, a true curve is trusted.

    By 20,000 rows an effect of .3 of one item is seen in nearly every log, a false alarm is one in a hundred.
    """
    rng = np.random.default_rng(1)
    names, price = [f"a{i}" for i in range(9)], np.linspace(-1, 1, 9)
    arms = read_arms(pd.DataFrame({"id": names, "price": price}))
    items = rng.integers(0, 9, 20_000)
    verdicts = []
    for mean in (0.2 + 0.4 * price**2, 0.3 + 0.1 * price + 0.3 * (np.arange(9) == 4)):
        rewards = (rng.random(items.size) < mean[items]).astype(float)
        table = pd.DataFrame({"item": [names[item] for item in items], "y": rewards})
        log = read_log(table, reward="y", item="item", arms=arms, crosses=[("price", "price")])
        verdicts.append(audit_log(log).verdict)
        assert audit_log(log).saved("").confidence.bound >= np.linalg.norm(theta_of(log)) / 2
    assert verdicts == ["deploy", "deploy with arm effects"]


def theta_of(log: Any) -> np.ndarray:
    found: np.ndarray = np.linalg.lstsq(log.moments.gram, log.moments.reward_vector, rcond=None)[0]
    return found


def test_rows_of_another_recipe_are_refused() -> None:
    table = table_of("clicks", 300)
    log = read_log(table, item="item", reward="y", numeric=["age"])
    twice = read_log(table.assign(age=2 * table["age"]), item="item", reward="y", numeric=["age"])
    other = read_rows(table, item="item", reward="y", recipe=twice.recipe)
    for use in (audit_log, lambda log, rows: linoto.preview(log, rows=rows, worlds=1, horizon=10)):
        with pytest.raises(ValueError, match="rows must be read with the recipe of the log"):
            use(log, rows=other)
    with pytest.raises(ValueError, match="practice must be a mapping from items to weights, got 'A'"):
        linoto.preview(log, practice="A", worlds=1, horizon=10)
    with pytest.raises(ValueError, match="practice must"):
        linoto.preview(log, practice={"A": "x"}, worlds=1, horizon=10)
