"""Every kind of column gives the same features in a request, in SQL and in a table, and bounded ones."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto import Bands, Logarithm, Numeric, Powers, Recipe, Spline
from linoto.core.features.columns import Column
from linoto.core.features.columns.spread import Spread
from linoto.core.features.written import column_of
from linoto.logs.tables import open_source
from linoto.logs.value_sql import Value

NUMBERS = [0.0, -0.0, 1.0, 12.5, -3.25, 1e-300, 1e9, -1e9, 1e15, 7, "7.5", " 3 ", "true", True]
AMOUNTS = [0.0, 1e-9, 1.0, 12.5, 1e9, 1e300, "7.5", True]
MISSING = [None, nan]
KNOTS = (-3.5, 0.0, 1e-3, 2.0, 50.0, 4000.0)
CASES: dict[str, tuple[Column, list[Any]]] = {
    "numeric": (Numeric(name="x", mean=3.0, scale=7.0), NUMBERS),
    "bands": (Bands(name="x", edges=(-1.0, 0.0, 12.5, 1e9)), [*NUMBERS, *MISSING, inf, -inf, 1e308, ""]),
    "powers": (Powers(name="x", degree=8, range=(-3.3, 19.0)), [*NUMBERS, 1e308, -1e308]),
    "spline": (Spline(name="x", knots=KNOTS), [*NUMBERS, *KNOTS, 1e308, -1e308]),
    "quadratic": (Spline(name="x", knots=KNOTS, degree=2), [*NUMBERS, *KNOTS]),
    "cubic": (Spline(name="x", knots=KNOTS, degree=3), [*NUMBERS, *KNOTS, 3999.9]),
    "two knots": (Spline(name="x", knots=(0, 10), degree=3), NUMBERS),
    "logarithm": (Logarithm(name="x", mean=1.5, scale=2.0), [*AMOUNTS, 1e308]),
}
DRAFTS: dict[str, Column] = {
    "bands": Bands(name="x", edges=3),
    "powers": Powers(name="x", degree=4),
    "spline": Spline(name="x", knots=6),
    "cubic": Spline(name="x", knots=4, degree=3),
    "logarithm": Logarithm(name="x"),
}


def sql_features(column: Column, values: list[Any], kind: str) -> np.ndarray:
    """(n, w) as DuckDB has them, of values in a table of one column of this type."""
    table = pd.DataFrame({"x": pd.Series(values, dtype=object if kind == "VARCHAR" else np.float64)})
    with open_source(table, {"x": "x"}) as (connection, (file,)):
        read = column.read_sql(Value(file.types["x"], '"x"'))
        parts = ", ".join(f"{sql} AS s{i}" for i, sql in enumerate(column.features_sql("f0")))
        source = f"(SELECT {read} AS f0 FROM read_parquet('{file.path}'))"
        found = connection.execute(f"SELECT {parts} FROM {source}").fetchnumpy()
    features = np.column_stack([np.ma.getdata(found[f"s{i}"]) for i in range(len(found))]).astype(float)
    if not column.leveled:
        return features
    codes = features[:, 0].astype(int)
    return np.where(codes[:, None] == np.arange(len(column.labels)), 1.0, 0.0)


def text_of_value(value: Any) -> str | None:
    return None if value is None else str(value)


@pytest.mark.parametrize("case", CASES)
def test_sql_and_python_make_the_same_features_of_odd_values(case: str) -> None:
    column, values = CASES[case]
    expected = np.array([column.vector(value) for value in values])
    words = [text_of_value(value) for value in values]
    np.testing.assert_allclose(sql_features(column, words, "VARCHAR"), expected, rtol=1e-12, atol=1e-12)
    plain = [value for value in values if not isinstance(value, str)]
    expected = np.array([column.vector(value) for value in plain])
    numbers = [nan if value is None else float(value) for value in plain]
    np.testing.assert_allclose(sql_features(column, numbers, "DOUBLE"), expected, rtol=1e-12, atol=1e-12)
    places, table = column.features_of(np.array(numbers))
    dense = np.zeros_like(expected)
    np.add.at(dense, (np.arange(len(plain))[:, None], places), table)
    np.testing.assert_allclose(dense, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_column_read_back_from_json_is_the_same(case: str) -> None:
    column, values = CASES[case]
    again = Column.from_dict(json.loads(json.dumps(column.to_dict())))
    assert again == column and hash(again) == hash(column)
    assert eval(repr(column), {**vars(linoto), type(column).__name__: type(column)}) == column
    assert all(np.array_equal(again.vector(value), column.vector(value)) for value in values)
    assert len(column.labels) == len({*column.labels}) == column.vector(values[0]).size


@pytest.mark.parametrize("case", [case for case in CASES if case != "numeric"])
def test_features_are_finite_and_bounded_for_any_number(case: str) -> None:
    """However far a request lies outside the log: the longest vector of each kind is known."""
    column, values = CASES[case]
    longest = {"powers": np.sqrt(8), "logarithm": 710.0}.get(case, 1.0)
    rng = np.random.default_rng(0)
    far = (10.0 ** rng.uniform(-300, 300, 200)).tolist()
    for value in [*values, *far, *([] if case == "logarithm" else [-x for x in far])]:
        vector = column.vector(value)
        assert np.isfinite(vector).all() and np.linalg.norm(vector) <= longest + 1e-9


def read(values: Any, column: Column, **options: Any) -> linoto.Log:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"x": values, "item": rng.choice(["A", "B"], len(values))})
    table["y"] = rng.normal(size=len(values))
    return linoto.read_log(
        table, item="item", reward="y", columns=[column], crosses=[("item", "x")], **options
    )


@pytest.mark.parametrize("case", DRAFTS)
def test_a_column_is_learned_from_the_log_and_summed_as_it_serves(case: str) -> None:
    rng = np.random.default_rng(2)
    values = rng.lognormal(2.0, 1.5, 500)
    log = read(values, DRAFTS[case])
    column = log.recipe.context[0]
    assert DRAFTS[case].draft and not column.draft
    table = pd.DataFrame({"x": values, "item": np.random.default_rng(1).choice(["A", "B"], 500)})
    rows = zip(table["x"], table["item"], strict=True)
    X = np.array([log.recipe.transform({"x": x}, [item])[0] for x, item in rows])
    np.testing.assert_allclose(log.moments.gram, X.T @ X, rtol=1e-9, atol=1e-9)
    assert not any(column.is_beyond(value) for value in values)
    again = read(values[::-1].copy(), DRAFTS[case])
    assert again.recipe == log.recipe  # the order of rows does not matter


@pytest.mark.parametrize("case", DRAFTS)
@pytest.mark.parametrize("values", [[3.0] * 20, [0.0] * 20, [0.0] * 19 + [1.0]])
def test_a_column_of_one_value_or_of_two_is_learned_too(case: str, values: list[float]) -> None:
    log = read(values, DRAFTS[case])
    found = np.array([log.recipe.context[0].vector(value) for value in values])
    assert np.isfinite(found).all() and found.shape[1] == len(log.recipe.context[0].labels)
    says = any("is the same in all rows" in note for note in log.notes)
    assert says == (len({*values}) == 1)


def test_quantiles_of_parts_are_about_those_of_the_whole() -> None:
    rng = np.random.default_rng(3)
    values = rng.exponential(size=20_000)
    shares = np.linspace(0.0, 1.0, 201)
    parts = [
        Spread(len(part), 0.0, 0.0, part.min(), part.max(), ((len(part), tuple(np.quantile(part, shares))),))
        for part in (values[:5000], values[5000:])
    ]
    found = parts[0].merged(parts[1]).quantiles(np.array([0.0, 0.25, 0.5, 0.9, 1.0]))
    ranks = [float((values <= value).mean()) for value in found]
    np.testing.assert_allclose(ranks, [0.0, 0.25, 0.5, 0.9, 1.0], atol=0.02)


def test_quantiles_of_numbers_that_repeat_differ_from_each_other() -> None:
    marks = (0.0,) * 180 + tuple(np.linspace(1.0, 21.0, 21))
    found = Spread(201, 0.0, 0.0, 0.0, 21.0, ((201.0, marks),)).quantiles(np.linspace(0, 1, 5))
    assert len(found) == len({*found}) == 5 and found[0] == 0.0 and found[-1] == 21.0


# -- laws of single kinds


def fitted(column: Column, numbers: np.ndarray, target: np.ndarray) -> np.ndarray:
    X = np.column_stack([np.ones(len(numbers)), [column.vector(x) for x in numbers]])
    return np.asarray(X @ np.linalg.lstsq(X, target, rcond=None)[0])


@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize("knots", [(0.0, 1.0), KNOTS, tuple(np.linspace(-5, 5, 9))])
def test_a_spline_is_a_partition_and_reproduces_polynomials_of_its_degree(
    degree: int, knots: tuple[float, ...]
) -> None:
    column = Spline(name="x", knots=knots, degree=degree)
    numbers = np.concatenate([np.linspace(a, b, 7) for a, b in pairwise(knots)])
    features = np.array([column.vector(x) for x in numbers])
    assert features.min() >= -1e-15 and len(column.labels) == len(knots) + degree - 1
    np.testing.assert_allclose(features.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(features @ column.sites, numbers, rtol=1e-9, atol=1e-9)  # any line
    scaled = numbers / max(abs(numbers))
    for power in range(1, degree + 1):
        np.testing.assert_allclose(fitted(column, numbers, scaled**power), scaled**power, atol=1e-8)


def test_a_spline_of_degree_one_joins_its_values_by_lines() -> None:
    column = Spline(name="x", knots=KNOTS)
    values = np.array([1.0, -2.0, 0.5, 3.0, 3.0, -1.0])
    for x in (-3.5, -1.0, 5e-4, 1.7, 49.0, 3000.0):
        assert column.vector(x) @ values == pytest.approx(np.interp(x, KNOTS, values), rel=1e-12)


@pytest.mark.parametrize("degree", [2, 3])
def test_a_smooth_spline_has_no_kinks(degree: int) -> None:
    """Slopes on both sides of a knot are the same; those of a spline of lines are not."""
    column, step = Spline(name="x", knots=(0, 1, 3, 7, 8), degree=degree), 1e-6
    for knot in (1.0, 3.0, 7.0):
        before, at, after = (column.vector(knot + side * step) for side in (-1, 0, 1))
        np.testing.assert_allclose((at - before) / step, (after - at) / step, atol=1e-4)


def test_powers_reproduce_every_polynomial_of_their_degree() -> None:
    numbers = np.linspace(-3.0, 11.0, 40)
    target = 2.0 - numbers + 0.3 * numbers**2 - 0.01 * numbers**3
    found = fitted(Powers(name="x", degree=3, range=(-3, 11)), numbers, target)
    np.testing.assert_allclose(found, target, atol=1e-9)


@pytest.mark.parametrize("case", ["bands", "powers", "spline", "cubic"])
def test_units_change_no_prediction(case: str) -> None:
    """Euros or cents, Celsius or Fahrenheit: what a linear model predicts is the same."""
    rng = np.random.default_rng(4)
    values = rng.normal(50.0, 20.0, 400)
    one = read(values, DRAFTS[case])
    other = read(32.0 + 1.8 * values, DRAFTS[case])
    theta = [np.linalg.pinv(log.moments.gram) @ log.moments.reward_vector for log in (one, other)]
    for x in values[:20].tolist():
        expected = one.recipe.transform({"x": x}) @ theta[0]
        found = other.recipe.transform({"x": 32.0 + 1.8 * x}) @ theta[1]
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_bands_are_about_as_full_as_each_other_and_edges_belong_above() -> None:
    values = np.random.default_rng(5).exponential(size=1000)
    column = read(values, Bands(name="x", edges=3)).recipe.context[0]
    counts = np.array([column.vector(value) for value in values]).sum(axis=0)
    assert counts.min() >= 230 and counts.sum() == 1000
    assert Bands(name="x", edges=(1, 2)).vector(1).tolist() == [0.0, 1.0, 0.0]


def test_bands_take_rows_without_a_value_and_the_others_refuse_them() -> None:
    values = [1.0, 2.0, None, 4.0, 5.0, 6.0]
    log = read(values, Bands(name="x", edges=1))
    assert log.moments.count == 6 and log.recipe.context[0].vector(None).tolist() == [0.0, 0.0]
    for column in (Spline(name="x", knots=2), Powers(name="x"), Logarithm(name="x")):
        with pytest.raises(ValueError, match="row 3, column 'x': the value is missing"):
            read(values, column)
        assert read(values, column, skip_bad=True).bad == {"missing x": 1}


# -- what is refused


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bands(name="x", edges=(2, 1)), "edges of 'x' must rise, got 2, 1"),
        (lambda: Bands(name="x", edges=()), "edges of 'x' must be 1 finite numbers or more"),
        (lambda: Bands(name="x", edges=0), "edges of 'x'"),
        (lambda: Powers(name="x", degree=9), "degree of 'x' must be at most 8, got 9"),
        (lambda: Powers(name="x", range=(1, 1)), "range of 'x' must rise"),
        (lambda: Powers(name="x", range=(-1.7e308, 1.7e308)), "with a finite distance"),
        (lambda: Spline(name="x", knots=1), "knots of 'x' must be at least 2, got 1"),
        (lambda: Spline(name="x", knots=(1, nan)), "knots of 'x' must be 2 finite numbers or more"),
        (lambda: Spline(name="x", degree=4), "degree of 'x' must be 1, 2 or 3, got 4"),
        (lambda: Spline(name="x", fields=("a", "b")), "fields of 'x' must be one for a spline column"),
        (lambda: Logarithm(name="x", mean=1.0), "mean and scale of 'x' must be given together"),
        (lambda: Logarithm(name="x", mean=1.0, scale=0.0), "scale of 'x'"),
        (lambda: Spline(name=""), "name of a column must be a text"),
        (
            lambda: Recipe(context=(Spline(name="x"),)),
            "column 'x' must know the values of a log, got a spline column that does not: read_log",
        ),
    ],
)
def test_a_column_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Spline(name="x", knots=(0, 1)), None, "'x' must be a finite number, got None"),
        (Spline(name="x", knots=(0, 1)), inf, "'x' must be a finite number, got inf"),
        (Powers(name="p", fields="x", range=(0, 1)), "dear", "'x' must be a finite number, got 'dear'"),
        (Logarithm(name="x", mean=0, scale=1), -1, "'x' must be a finite number of 0 or more, got -1"),
        (Bands(name="x", edges=(0,)), "dear", "'x' must be a number or None, got 'dear'"),
    ],
)
def test_a_bad_value_is_named_in_a_request_and_in_a_log(column: Column, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(context=(column,)).transform({"x": value}, ["A"])
    with pytest.raises(ValueError, match=r"row 2, column 'x': the value (must be|is missing)"):
        read(["1", None if value is None else str(value)], column)


# -- fields


def test_columns_may_share_a_field_that_they_read_alike() -> None:
    rng = np.random.default_rng(6)
    table = pd.DataFrame({"x": rng.normal(size=50), "item": ["A", "B"] * 25, "y": rng.normal(size=50)})
    curve = Spline(name="curve", fields=("x",), knots=3)
    log = linoto.read_log(table, item="item", reward="y", numeric=["x"], columns=[curve])
    assert log.recipe.names[-3:] == log.recipe.context[1].labels and log.recipe.context[0].name == "x"
    found = log.recipe.transform({"x": 0.5}, ["A"])[0]
    np.testing.assert_array_equal(found[-3:], log.recipe.context[1].vector(0.5))
    rows = linoto.read_rows(table, recipe=log.recipe, reward="y")
    np.testing.assert_allclose(rows.moments(np.arange(50)).gram, log.moments.gram, atol=1e-9)
    with pytest.raises(ValueError, match="'x' must have one meaning, got category 'x' and spline 'curve'"):
        linoto.read_log(table, item="item", reward="y", categories=["x"], columns=[curve])
    with pytest.raises(ValueError, match="columns must differ from each other, got 'x' twice"):
        linoto.read_log(table, item="item", reward="y", numeric=["x"], columns=[Spline(name="x")])


# -- written in one line


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("spline(price)", Spline(name="price")),
        ("spline(price, knots=7, degree=3)", Spline(name="price", knots=7, degree=3)),
        ("bands(age, edges=[18, 30.5, 65])", Bands(name="age", edges=(18, 30.5, 65))),
        ("bands(age, edges=[-1, 1])", Bands(name="age", edges=(-1, 1))),
        (
            " powers( 'unit price' , degree = 2, name=price) ",
            Powers(name="price", fields=("unit price",), degree=2),
        ),
        ("logarithm(Größe)", Logarithm(name="Größe")),
    ],
)
def test_a_column_is_written_in_one_line(text: str, column: Column) -> None:
    assert column_of(text) == column


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price: spline", "column must be KIND"),
        ("", "column must be KIND"),
        ("spline(price", "column must be KIND"),
        ("spine(price)", "column must be one of .*got 'spine': did you mean 'spline'"),
        ("numeric(price)", "column must be one of"),
        ("spline(price, knot=5)", "options of spline must be known, got 'knot': did you mean 'knots'"),
        ("spline(knots=5)", "column must name its fields first"),
        ("spline(price, knots=1 + 1)", "column must be KIND"),
        ("spline(price, knots=[3, 1])", "knots of 'price' must rise"),
    ],
)
def test_a_column_that_is_written_wrongly_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        column_of(text)
