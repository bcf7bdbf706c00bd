"""Every kind of column gives the same features in a request, in SQL and in a table, and bounded ones."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest

import linoto
from linoto import Category, Numeric, Recipe
from linoto.columns import Bands, Cycle, Embedding, Fourier, Hashed, Logarithm, Powers, Since, Spline
from linoto.core.features.columns import Column, OptionalColumn
from linoto.core.features.columns.spread import Spread
from linoto.core.features.written import column_of
from linoto.logs.tables import open_source
from linoto.logs.value_sql import Value

NUMBERS = [0.0, -0.0, 1.0, 12.5, -3.25, 1e-300, 1e9, -1e9, 1e15, 7, "7.5", " 3 ", "true", True]
AMOUNTS = [0.0, 1e-9, 1.0, 12.5, 1e9, 1e300, "7.5", True]
MISSING = [None, nan]
WORDS = [
    "a",
    "ü",
    "ß€😀",
    "e\u0301",
    "\u00e9",
    "O'Brien",
    "a b",
    "7",
    "7.0",
    "True",
    "true",
    "NULL",
    "nan",
    " ",
    "0150",
]
DATES = [
    "2026-05-31",
    "1969-12-31",
    "2024-02-29 23:59",
    "2026-05-31T12:30:15Z",
    "2026-05-31T12:30:15.123456Z",
    "2026-05-31 12:30:15.1234567",
    "2026-05-31T12:30+02:00",
    "2026-05-31 12:30:00-0330",
    "2026-05-31 12:30:00+14",
    "0001-01-01",
    "9999-12-31T23:59:59",
    "1700000000",
    "1.5e9",
    "-86400.25",
]
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
    "category": (Category(name="x", levels=("a", "ü", "7", "true"), missing=True), [*WORDS, *MISSING]),
    "hashed": (Hashed(name="x", size=37), [*WORDS, *MISSING, ""]),
    "since": (Since(name="x", origin="2026-01-01", unit="hours", mean=3.0, scale=40.0), DATES),
    "day": (Cycle(name="x", period="day", harmonics=3), DATES),
    "week": (Cycle(name="x", period="week"), DATES),
    "hours": (Cycle(name="x", period=24), NUMBERS),
    "fourier": (
        Fourier(name="x", waves=7, seed=3, means=(1.0,), scales=(2.0,), ranges=((-5.0, 9.0),)),
        [*NUMBERS, 1e308],
    ),
}
NONE = [None, nan, "", " ", "NA", "n/a", "nan", "NaN", " null", "None", "<NA>"]
OR_NONE = " or none"
CASES |= {
    case + OR_NONE: (replace(column, missing=True), [*values, *NONE])
    for case, (column, values) in CASES.items()
    if isinstance(column, OptionalColumn)
}
DRAFTS: dict[str, Column] = {
    "bands": Bands(name="x", edges=3),
    "powers": Powers(name="x", degree=4),
    "spline": Spline(name="x", knots=6),
    "cubic": Spline(name="x", knots=4, degree=3),
    "logarithm": Logarithm(name="x"),
    "fourier": Fourier(name="x", waves=5),
    "since": Since(name="x", unit="minutes"),
}


def sql_features(column: Column, values: list[Any], kind: str) -> np.ndarray:
    """(n, w) as DuckDB has them, of values in a table of one column of this type."""
    table = pd.DataFrame({"x": pd.Series(values, dtype=object if kind == "VARCHAR" else np.float64)})
    with open_source(table, {"x": "x"}) as (connection, (file,)):
        read = column.read_sql(Value(file.types["x"], '"x"'))
        value = "[f0]" if column.several else "f0"
        parts = ", ".join(f"{sql} AS s{i}" for i, sql in enumerate(column.features_sql(value)))
        source = f"(SELECT {read} AS f0 FROM read_parquet('{file.path}'))"
        found = connection.execute(f"SELECT {parts} FROM {source}").fetchnumpy()
    features = np.column_stack([np.ma.getdata(found[f"s{i}"]) for i in range(len(found))]).astype(float)
    if not column.leveled:
        return features
    codes = features[:, 0].astype(int)
    return np.where(codes[:, None] == np.arange(len(column.labels)), 1.0, 0.0)


def of_value(column: Column, value: Any) -> np.ndarray:
    """(w,) the features of a value of the one field."""
    return column.vector(column.taken(dict.fromkeys(column.reads, value)))


def text_of_value(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


@pytest.mark.parametrize("case", CASES)
def test_sql_and_python_make_the_same_features_of_odd_values(case: str) -> None:
    column, values = CASES[case]
    expected = np.array([of_value(column, value) for value in values])
    words = [text_of_value(value) for value in values]
    np.testing.assert_allclose(sql_features(column, words, "VARCHAR"), expected, rtol=1e-12, atol=1e-12)
    plain = [value for value in values if not isinstance(value, str)]
    if not [value for value in plain if value is not None and value == value]:
        return  # only words
    expected = np.array([of_value(column, value) for value in plain])
    numbers = [nan if value is None else float(value) for value in plain]
    np.testing.assert_allclose(sql_features(column, numbers, "DOUBLE"), expected, rtol=1e-12, atol=1e-12)
    places, table = column.features_of(column.taken({"x": np.array(numbers)}))
    dense = np.zeros_like(expected)
    np.add.at(dense, (np.arange(len(plain))[:, None], places), table)
    np.testing.assert_allclose(dense, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_column_read_back_from_json_is_the_same(case: str) -> None:
    column, values = CASES[case]
    again = Column.from_dict(json.loads(json.dumps(column.to_dict())))
    assert again == column and hash(again) == hash(column)
    assert eval(repr(column), {**vars(linoto), type(column).__name__: type(column)}) == column
    assert all(np.array_equal(of_value(again, value), of_value(column, value)) for value in values)
    assert len(column.labels) == len({*column.labels}) == of_value(column, values[0]).size


UNBOUNDED = ("numeric", "since")  # as far as the value lies outside the log
WORDED = ("category", "hashed", "day", "week")


@pytest.mark.parametrize("case", [case for case in CASES if case.removesuffix(OR_NONE) not in UNBOUNDED])
def test_features_are_finite_and_bounded_for_any_number(case: str) -> None:
    """However far a request lies outside the log: the longest vector of each kind is known."""
    (column, values), kind = CASES[case], case.removesuffix(OR_NONE)
    longest = {"powers": np.sqrt(8), "logarithm": 710.0, "day": np.sqrt(3), "fourier": np.sqrt(7)}.get(
        kind, 1.0
    )
    rng = np.random.default_rng(0)
    far = (10.0 ** rng.uniform(-300, 300, 200)).tolist()
    far += [] if kind == "logarithm" else [-x for x in far]
    for value in [*values, *([] if kind in WORDED else far)]:
        vector = of_value(column, value)
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
    assert not any(column.is_beyond(column.taken({"x": value})) for value in values)
    again = read(values[::-1].copy(), DRAFTS[case])
    assert again.recipe == log.recipe  # the order of rows does not matter


@pytest.mark.parametrize("case", DRAFTS)
@pytest.mark.parametrize("values", [[3.0] * 20, [0.0] * 20, [0.0] * 19 + [1.0]])
@pytest.mark.few(5)
def test_a_column_of_one_value_or_of_two_is_learned_too(case: str, values: list[float]) -> None:
    log = read(values, DRAFTS[case])
    found = np.array([of_value(log.recipe.context[0], value) for value in values])
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
        (lambda: Hashed(name="x", size=0), "size of 'x'"),
        (lambda: Embedding(name="x", size=2, scale=0.0), "scale of 'x'"),
        (lambda: Since(name="x", origin="May"), "origin of 'x' must be a date such as 2026-05-31, got 'May'"),
        (lambda: Since(name="x", unit="moons"), "unit of 'x' must be one of 'minutes', 'hours'"),
        (lambda: Cycle(name="x", period="month"), "period of 'x' must be one of 'hour', 'day', 'week'"),
        (lambda: Cycle(name="x", period=0), "period of 'x'"),
        (lambda: Cycle(name="x", harmonics=13), "harmonics of 'x' must be at most 12, got 13"),
        (
            lambda: Fourier(name="x", means=(1.0,)),
            "means, scales and ranges of 'x' must be one",
        ),
        (lambda: Fourier(name="x", fields=("a", "a")), "fields of 'x' must be different names"),
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
        (
            Embedding(name="x", size=2, scale=1.0),
            "[1, 2, 3]",
            "must be a list of 2 finite numbers, got 3",
        ),
        (Embedding(name="x", size=2, scale=1.0), "[1, NaN]", "got one that is not finite"),
        (Embedding(name="x", size=2, scale=1.0), None, "'x' must be a list of 2 finite numbers, got None"),
        (Embedding(name="x", size=2, scale=1.0), "title", "'x' must be a list of 2 finite numbers, got str"),
        (Since(name="x", mean=0, scale=1), "31.5.2026", "'x' must be a date such as 2026-05-31 or"),
        (Since(name="x", mean=0, scale=1), "2026-02-30", "'x' must be a date such as 2026-05-31 or"),
        (Cycle(name="x"), "10000-01-01", "'x' must be a date such as 2026-05-31 or"),
        (Cycle(name="x"), "1e300", "'x' must be a date such as 2026-05-31 or"),
        (Cycle(name="x"), "2026-05-31 24:00", "'x' must be a date such as 2026-05-31 or"),
        (Cycle(name="x"), None, "'x' must be a date such as 2026-05-31 or"),
        (Cycle(name="x", period=24), "noon", "'x' must be a finite number, got 'noon'"),
    ],
)
def test_a_bad_value_is_named_in_a_request_and_in_a_log(column: Column, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(context=(column,)).transform({"x": value}, ["A"])
    with pytest.raises(ValueError, match=r"row 2, column 'x': the value (must be|is missing)"):
        read(["[1, 2]" if column.holds == "vector" else "1", None if value is None else str(value)], column)


VECTORS = ["[10, 2]", " [ -1.5e3 ,0 ] ", "[1_0,2]", "[.5, 1.]", "[+1, 2]", "[true, 1]", "[1, null]", "[1 2]"]
VECTORS += [
    "[01, 2]",
    "[1, 2",
    "[]",
    "[[1, 2]]",
    '["1", 2]',
    "[1, 2,]",
    "[1e999, 1]",
    "[1, NaN]",
    "{}",
    "[1, 2] x",
]


@pytest.mark.parametrize("text", VECTORS)
def test_a_text_is_a_vector_for_a_log_if_it_is_one_for_a_request(text: str) -> None:
    column = Embedding(name="x", size=2, scale=1.0)
    try:
        served = column.vector(text)
    except ValueError:
        with pytest.raises(
            ValueError, match="row 2, column 'x': the value must be a list of 2 finite numbers"
        ):
            read(["[1, 2]", text], column)
        return
    log = read(["[1, 2]", text], column)
    place = log.recipe.slices[("x",)]
    expected = np.outer(served, served) + np.outer([1.0, 2.0], [1.0, 2.0])
    np.testing.assert_allclose(log.moments.gram[place, place], expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1e200, 1e308])
def test_numbers_without_a_finite_variance_are_refused_where_they_are_scaled_by_it(size: float) -> None:
    table = pd.DataFrame({"item": list("ABAB"), "y": [0.0, 1.0, 1.0, 0.0], "x": [1.0, 2.0, size, 4.0]})
    named: dict[str, Any] = {"item": "item", "reward": "y"}
    for asked in ({"numeric": ["x"]}, {"columns": [Fourier(name="x", waves=2)]}):
        with pytest.raises(
            ValueError, match="'x' must have a finite variance in the log, got numbers from 1 to"
        ):
            linoto.read_log(table, **named, **asked)
    for column in (Logarithm(name="x"), Bands(name="x", edges=2)):  # to these they are large, and that is all
        assert np.isfinite(linoto.read_log(table, **named, columns=[column]).moments.gram).all()


@pytest.mark.parametrize(("number", "band"), [(10**400, 1), (-(10**400), 0)])
def test_a_whole_number_beyond_floats_is_what_its_digits_are_in_a_log(number: int, band: int) -> None:
    column = Bands(name="x", edges=(0.0,))
    assert column.code(number) == column.code(str(number)) == band
    assert sql_features(column, [str(number)], "VARCHAR")[0, band] == 1.0


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
        ("embedding(title)", r"^embedding must have size, as in size=8, got 'embedding\(title\)'$"),
    ],
)
def test_a_column_that_is_written_wrongly_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        column_of(text)


# -- words, moments, vectors and waves


def test_a_word_has_the_same_hash_for_ever() -> None:
    """A loop that was stored by another version, or on another machine, must find its features again."""
    column = Hashed(name="x", size=1000)
    known = {"a": 580, "Oslo": 452, "ß€😀": 13, "7": 175, "0150": 21}
    assert {word: int(column.vector(word).argmax()) for word in known} == known
    assert column.vector(7.0).argmax() == column.vector("7.0").argmax() == known["7"]


def test_hashes_spread_words_evenly() -> None:
    """Chi-squared with 63 degrees of freedom, above 103.4 once in a thousand."""
    column = Hashed(name="x", size=64)
    counts = np.sum([column.vector(f"word {i}") for i in range(6400)], axis=0)
    assert ((counts - 100.0) ** 2 / 100.0).sum() < 103.4


def test_moments_are_read_whatever_they_are_written_as() -> None:
    column = Since(name="x", origin="2026-05-31", unit="hours", mean=0, scale=1)
    same = [
        "2026-05-31T12:30Z",
        "2026-05-31 14:30:00+02:00",
        datetime(2026, 5, 31, 12, 30),
        datetime(2026, 5, 31, 14, 30, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2026-05-31T12:30Z"),
        np.datetime64("2026-05-31T12:30"),
        1780230600,
        "1780230600",
    ]
    assert [column.vector(value).tolist() for value in same] == [[12.5]] * len(same)
    assert column.vector(date(2026, 6, 1)).tolist() == [24.0]
    assert (
        column.shown(column.name, "2026-05-31T12:30Z") == "x=2026-05-31T12:30Z (12.5 hours later than usual)"
    )
    with pytest.raises(ValueError, match=r"'x' must be a date such as .* got NaT"):
        column.vector(pd.NaT)


@pytest.mark.parametrize("how", ["text", "naive", "zoned", "date", "nanoseconds"])
def test_columns_of_dates_are_read_from_a_log_as_requests_are(how: str) -> None:
    texts = [f"2026-05-{day:02}" + ("" if how == "date" else f"T{day % 24:02}:30:00") for day in range(1, 31)]
    stamps = pd.to_datetime(pd.Series(texts))
    values = {
        "text": pd.Series(texts),
        "naive": stamps.astype("datetime64[us]"),
        "nanoseconds": stamps.astype("datetime64[ns]"),
        "zoned": stamps.dt.tz_localize("UTC").dt.tz_convert("Europe/Oslo"),
        "date": stamps.dt.date,
    }[how]
    table = pd.DataFrame({"t": values, "item": ["A", "B"] * 15, "y": np.arange(30.0)})
    columns = [Since(name="t"), Cycle(name="hour", fields="t"), Cycle(name="day", fields="t", period="week")]
    log = linoto.read_log(table, item="item", reward="y", time="t", columns=columns)
    X = [
        log.recipe.transform({"t": text}, [item])[0] for text, item in zip(texts, table["item"], strict=True)
    ]
    np.testing.assert_allclose(log.moments.gram, np.array(X).T @ np.array(X), rtol=1e-12, atol=1e-11)
    rows = linoto.read_rows(table, reward="y", recipe=log.recipe)
    np.testing.assert_allclose(rows.moments(np.arange(30)).gram, log.moments.gram, rtol=1e-12, atol=1e-11)


def test_the_end_of_a_cycle_is_near_its_start() -> None:
    column = Cycle(name="x", period=24)
    np.testing.assert_allclose(column.vector(24), column.vector(0), atol=1e-12)
    np.testing.assert_allclose(column.vector(-1), column.vector(23), atol=1e-12)
    assert np.linalg.norm(column.vector(23.9) - column.vector(0.1)) < 0.06


@pytest.mark.parametrize("how", ["lists", "json", "float32"])
def test_vectors_are_read_from_lists_and_from_json(how: str) -> None:
    rng = np.random.default_rng(7)
    vectors = rng.normal(size=(60, 3)).astype(np.float32).astype(np.float64)
    given: dict[str, list[Any]] = {
        "lists": vectors.tolist(),
        "json": [json.dumps(vector) for vector in vectors.tolist()],
        "float32": [*vectors.astype(np.float32)],
    }
    table = pd.DataFrame({"v": given[how], "item": ["A", "B"] * 30, "y": rng.normal(size=60)})
    log = linoto.read_log(
        table, item="item", reward="y", columns=[Embedding(name="v", size=3)], crosses=[("item", "v")]
    )
    lengths = np.linalg.norm(vectors, axis=1)
    assert log.recipe.context[0].to_dict()["scale"] == pytest.approx(lengths.mean(), rel=0.01)
    X = [
        log.recipe.transform({"v": vector}, [item])[0]
        for vector, item in zip(given[how], table["item"], strict=True)
    ]
    np.testing.assert_allclose(log.moments.gram, np.array(X).T @ np.array(X), rtol=1e-12, atol=1e-12)
    rows = linoto.read_rows(table, reward="y", recipe=log.recipe)
    np.testing.assert_allclose(rows.moments(np.arange(60)).gram, log.moments.gram, rtol=1e-12, atol=1e-12)
    assert rows.context_of(0)["v"] == pytest.approx(vectors[0])
    table.at[4, "v"] = [1.0, 2.0] if how == "lists" else "[1, 2]" if how == "json" else np.ones(2, np.float32)
    with pytest.raises(ValueError, match="row 5, column 'v': the value must be a list of 3 finite numbers"):
        linoto.read_log(table, item="item", reward="y", columns=[Embedding(name="v", size=3)])


def test_waves_approach_the_kernel_of_their_bandwidth() -> None:
    """With 4,000 waves the error of a product is about 1 / sqrt(8000)."""
    fields = ("a", "b")
    known: dict[str, Any] = {"means": (0, 0), "scales": (1, 1), "ranges": ((-9, 9), (-9, 9))}
    column = Fourier(name="x", fields=fields, waves=4000, bandwidth=1.5, **known)
    rng = np.random.default_rng(8)
    points = rng.normal(size=(12, 2))
    features = np.array([column.vector(point) for point in points])
    gaps = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(features @ features.T / 4000, np.exp(-gaps / (2 * 1.5**2)), atol=0.06)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), np.sqrt(4000), rtol=1e-12)


def test_directions_of_waves_are_the_same_for_ever() -> None:
    column = Fourier(name="x", fields=("a", "b"), waves=2, seed=1, bandwidth=2**0.5)
    known = [[0.27117466219662806, -0.4740402521792848], [-0.695243760716558, -0.8232962281966344]]
    np.testing.assert_allclose(column.directions, known, rtol=1e-12)
    assert (Fourier(name="x", fields=("a", "b"), waves=2, seed=2).directions != column.directions).all()


def test_waves_of_several_fields_are_read_summed_and_evaluated() -> None:
    rng = np.random.default_rng(9)
    table = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    table = table.assign(item=["A", "B"] * 40, y=rng.normal(size=80))
    column = Fourier(name="place", fields=("a", "b"), waves=3)
    log = linoto.read_log(
        table, item="item", reward="y", numeric=["a"], columns=[column], crosses=[("item", "place")]
    )
    contexts = table[["a", "b"]].to_dict("records")
    X = [log.recipe.transform(c, [item])[0] for c, item in zip(contexts, table["item"], strict=True)]
    np.testing.assert_allclose(log.moments.gram, np.array(X).T @ np.array(X), rtol=1e-11, atol=1e-11)
    rows = linoto.read_rows(table, reward="y", recipe=log.recipe)
    np.testing.assert_allclose(rows.moments(np.arange(80)).gram, log.moments.gram, rtol=1e-11, atol=1e-11)
    with pytest.raises(ValueError, match=r"context must have the field 'b' \(a finite number\), got none"):
        log.recipe.transform({"a": 1.0}, ["A"])
    with pytest.raises(ValueError, match="context field 'b' must be a finite number, got 'x'"):
        log.recipe.transform({"a": 1.0, "b": "x"}, ["A"])
    table.loc[2, "b"] = np.nan
    with pytest.raises(ValueError, match="row 3, column 'b': the value is missing"):
        linoto.read_log(table, item="item", reward="y", columns=[column])


@pytest.mark.parametrize(
    "column",
    [
        Numeric(name="x", mean=0.3, scale=1.7),
        Spline(name="x", knots=(-1.0, 0.2, 2.5)),
        Spline(name="x", knots=(-1.0, 0.2, 0.3, 2.5), degree=2),
        Spline(name="x", knots=(-1.0, 1.1), degree=3),
    ],
)
def test_one_value_has_the_bits_of_many(column: Any) -> None:
    """At knots, beside them, between and beyond them."""
    knots = np.array([-1.0, 0.2, 0.3, 1.1, 2.5])
    numbers = np.concatenate([knots, np.nextafter(knots, -9), np.nextafter(knots, 9), np.linspace(-3, 4, 60)])
    many = column.of_numbers(numbers)
    assert [column.vector(number).tolist() for number in numbers.tolist()] == many.tolist()
