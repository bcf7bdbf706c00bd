"""Laws of the statement that a warehouse runs: what is read back is the log, as if its rows had been read.

DuckDB and PostgreSQL run it here. BigQuery, Snowflake and Spark are not to be had in a test: what is printed
for them is parsed by sqlglot in their dialect, and has the same meaning as DuckDB's, which is run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from helpers.exits import run
from helpers.postgres import Cluster, cluster
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

import linoto
from linoto import Query, audit_log, read_arms, read_log
from linoto.logs.dialects import DIALECTS
from linoto.logs.read import Log
from linoto.logs.statement import Question, statement_of

CONTEXT: dict[str, Any] = {"numeric": ["age", "price"], "categories": ["country", "member"]}
CROSSES = [("item", "country"), ("item", "age"), ("country", "price"), ("age", "price"), ("age", "age")]
RAILS = ["complaint:lower:budget=20", "minutes:lower:range=0..90:rate=0.5"]
CASES: dict[str, dict[str, Any]] = {
    "fixed arms": {"reward": "clicked", "time": "day"},
    "rewards of any size": {"reward": "spent", "time": "at"},
    "propensities": {"reward": "clicked", "propensity": "p", "time": "day"},
    "numbers": {"reward": "spent", "numeric": ["age", "price"], "time": "day"},
    "words": {"reward": "clicked", "categories": ["country", "member"], "time": "day", "min_count": 30},
    "crosses": {"reward": "spent", **CONTEXT, "crosses": CROSSES, "time": "at", "propensity": "p"},
    "guardrails": {"reward": "clicked", "time": "day", "propensity": "p", "guardrails": RAILS},
    "guardrails in contexts": {
        "reward": "spent",
        "numeric": ["age"],
        "categories": ["country"],
        "crosses": [("item", "age")],
        "guardrails": RAILS,
        "time": "day",
    },
    "missing numbers": {
        "reward": "spent",
        "numeric": ["age", "minutes"],
        "categories": ["country"],
        "crosses": [("item", "minutes"), ("age", "minutes"), ("country", "minutes"), ("age", "age")],
        "missing": "feature",
        "guardrails": ["complaint:lower:budget=20"],
        "time": "day",
    },
    "some rows": {
        "reward": "clicked",
        "numeric": ["age"],
        "time": "day",
        "where": "age >= 30 and country != 'N\\O''x' and at >= 2026-01-09",
    },
}


def visits(rows: int = 900) -> pd.DataFrame:
    """A log with a price far from 0, a country that is missing at times, and days that repeat."""
    rng = np.random.default_rng(11)
    age, item = rng.normal(40, 12, rows).round(2), rng.integers(0, 3, rows)
    country = rng.choice(["NO", "DE", "FR", "N\\O'x"], rows, p=[0.5, 0.3, 0.18, 0.02])
    return pd.DataFrame(
        {
            "variant": np.array(["old", "new", "ünusual"])[item],
            "clicked": rng.binomial(1, 0.2 + 0.1 * item),
            "spent": (5 * item + 0.1 * age + rng.normal(0, 2, rows)).round(3),
            "age": age,
            "price": (1e6 + rng.normal(0, 3, rows)).round(2),
            "country": np.where(rng.random(rows) < 0.1, None, country),
            "member": rng.integers(0, 2, rows),
            "p": np.array([0.2, 0.3, 0.5])[item],
            "day": rng.integers(1, 30, rows),
            "at": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 2_000_000, rows), unit="s"),
            "complaint": rng.binomial(1, 0.1, rows),
            "minutes": np.where(rng.random(rows) < 0.2, np.nan, rng.uniform(0, 60, rows).round(1)),
        }
    )


def asked(case: dict[str, Any], table: str = "visits") -> Question:
    return Question(table=table, item="variant", **case)


def in_duckdb(table: Any, question: Question) -> Any:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("visits", table)
        return connection.sql(statement_of(question, DIALECTS["duckdb"])).to_arrow_table()


def as_parquet(table: Any, question: Question, folder: Path) -> Path:
    pq.write_table(in_duckdb(table, question), folder / "stats.parquet")
    return folder / "stats.parquet"


def as_csv(table: Any, question: Question, folder: Path) -> Path:
    in_duckdb(table, question).to_pandas().to_csv(folder / "stats.csv", index=False)
    return folder / "stats.csv"


WAYS: dict[str, Callable[[Any, Question, Path], Any]] = {
    "Arrow": lambda table, question, folder: in_duckdb(table, question),
    "Parquet": as_parquet,
    "CSV": as_csv,
}


def same_moments(found: Log, expected: Log) -> None:
    """Within 1e-10 of the largest entry: sums in another order, and products multiplied out."""
    for mine, other in zip(found.halves, expected.halves, strict=True):
        assert mine.count == other.count
        for name in ("gram", "reward_vector", "reward_sum", "reward_squares"):
            one, two = np.asarray(getattr(mine, name)), np.asarray(getattr(other, name))
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10 * np.abs(two).max())


def same_log(found: Log, expected: Log) -> None:
    assert found.arms.names == expected.arms.names
    assert (found.rows, found.extent, found.split) == (expected.rows, expected.extent, expected.split)
    for half in ("early", "late"):
        mine, other = getattr(found, half), getattr(expected, half)
        np.testing.assert_array_equal(mine.pulls, other.pulls)
        np.testing.assert_allclose(mine.reward_sums, other.reward_sums, rtol=1e-12)
        np.testing.assert_allclose(mine.reward_squares, other.reward_squares, rtol=1e-12)
    assert (found.contexts is None) == (expected.contexts is None)
    if expected.contexts is not None:
        assert found.recipe == expected.recipe
    same_moments(found, expected)
    assert (found.ends is None) == (expected.ends is None)
    for one, two in zip(found.ends or (), expected.ends or (), strict=True):
        np.testing.assert_array_equal(one, two)
    if expected.propensities is not None and found.propensities is not None:
        for name, value in vars(expected.propensities).items():
            np.testing.assert_allclose(getattr(found.propensities, name), value, rtol=1e-12)
    assert list(found.metrics) == list(expected.metrics) and found.bad == expected.bad
    for name, metric in expected.metrics.items():
        same_log(found.metrics[name], metric)
    for rail, other in zip(found.guardrails, expected.guardrails, strict=True):
        assert rail.mean == pytest.approx(other.mean, rel=1e-12)
        assert replace(rail, mean=None) == replace(other, mean=None)


def same_audit(found: Log, expected: Log) -> None:
    """Every line of it, in the digits that are printed; of notes, where rows were chosen elsewhere."""
    mine, other = (dict(audit_log(log).facts()) for log in (found, expected))
    said = {name for name in (*mine, *other) if mine.get(name) != other.get(name)}
    assert said <= {"note", "notes"}, {name: (mine.get(name), other.get(name)) for name in said}


def same_agent(found: Log, expected: Log) -> None:
    chosen = []
    for log in (found, expected):
        agent = linoto.LinUCB(confidence=linoto.Confidence(noise=1.0, bound=2.0)).start(
            log.arms.actions, log.offline, rng=np.random.default_rng(3)
        )
        for round in range(40):
            decision = agent.decide()
            agent.update(decision, float(round % 3))
            chosen.append(decision.arm)
    assert chosen[:40] == chosen[40:]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_what_a_warehouse_sums_up_is_the_log_of_its_rows(case: str, way: str, tmp_path: Path) -> None:
    table = visits()
    expected = read_log(table, item="variant", **CASES[case])
    found = read_log(WAYS[way](pa.table(table), asked(CASES[case]), tmp_path))
    same_log(found, expected)
    same_audit(found, expected)
    same_agent(found, expected)


def test_rewards_of_0_and_1_have_the_same_bits() -> None:
    table = visits()
    found = read_log(in_duckdb(pa.table(table), asked(CASES["fixed arms"])))
    expected = read_log(table, item="variant", **CASES["fixed arms"])
    for half in ("early", "late"):
        for name, sums in vars(getattr(expected, half)).items():
            np.testing.assert_array_equal(getattr(getattr(found, half), name), sums)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    with cluster() as server:
        yield server


@pytest.fixture(scope="module")
def warehouse(postgres: Cluster) -> str:
    """The address of a database with the log."""
    url = postgres.database().url
    table = visits()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """CREATE TABLE visits (variant text, clicked smallint, spent numeric, age real, price float8,
            country text, member int, p float8, day int, at timestamp, complaint int, minutes float8)"""
        )
        with connection.cursor().copy("COPY visits FROM STDIN") as copy:
            for row in table.itertuples(index=False):
                copy.write_row([None if value is None or value != value else value for value in row])
    return url


@pytest.mark.parametrize("case", CASES)
def test_postgresql_sums_up_what_its_rows_are(case: str, warehouse: str) -> None:
    """Through one query, of which few rows come back, instead of all of them."""
    ordered = Query(warehouse, "SELECT * FROM visits")
    expected = read_log(ordered, item="variant", **CASES[case])
    found = read_log(Query(warehouse, statement_of(asked(CASES[case]), DIALECTS["postgres"])))
    same_log(found, expected)
    same_audit(found, expected)


@pytest.mark.parametrize("dialect", ["bigquery", "snowflake", "spark"])
@pytest.mark.parametrize("case", CASES)
def test_every_dialect_says_what_duckdb_runs(case: str, dialect: str) -> None:
    """Parsed in its own dialect and written as DuckDB's, it is the statement that was run."""
    question = asked(CASES[case])
    (parsed,) = sqlglot.parse(statement_of(question, DIALECTS[dialect]), read=dialect)
    (plain,) = sqlglot.parse(statement_of(question, DIALECTS["duckdb"]), read="duckdb")
    texts = []
    for tree in (parsed, plain):
        for column in tree.find_all(sqlglot.exp.Identifier):
            column.set("this", column.this.lower())
            column.set("quoted", True)
        texts.append(normalize_identifiers(tree, dialect="duckdb").sql("duckdb"))
    said = {"TRY_CAST": "CAST", 'NULLIF("p", 0)': '"p"', "TIMESTAMPTZ": "TIMESTAMP"}  # sqlglot's own
    for text, plain_text in {**said, " NULLS FIRST": "", " NULLS LAST": ""}.items():
        texts = [found.replace(text, plain_text) for found in texts]
    assert texts[0] == texts[1]


def test_one_row_comes_back_for_each_item_half_and_level() -> None:
    table = pa.table(visits())
    found = in_duckdb(table, asked({"reward": "clicked", "categories": ["country"], "time": "day"}))
    parts = found.column("linoto").to_pylist()
    kept = found.filter(pa.array([part == "rows" for part in parts])).to_pandas()
    assert len(kept) == len(kept[["late", "item", "level0"]].drop_duplicates()) == 30
    assert sum(part.startswith("{") for part in parts) == 1 and len(parts) - parts.count("rows") == 5


def with_bad_rows() -> pd.DataFrame:
    table = visits().astype({"clicked": float})
    table.loc[3, "variant"] = None
    table.loc[[4, 5], "clicked"] = [np.nan, np.inf]
    table.loc[6, "p"] = 0.0
    table.loc[7, "age"] = np.nan
    return table


def test_bad_rows_are_refused_or_counted(tmp_path: Path) -> None:
    case = {"reward": "clicked", "propensity": "p", "numeric": ["age"], "time": "day"}
    table = with_bad_rows()
    given = in_duckdb(pa.Table.from_pandas(table, preserve_index=False), asked(case))
    with pytest.raises(ValueError, match=r"must have good rows only, got \d with: "):
        read_log(given)
    found, expected = read_log(given, skip_bad=True), read_log(table, item="variant", skip_bad=True, **case)
    assert sum(found.bad.values()) == sum(expected.bad.values()) == 5
    assert found.rows == expected.rows == len(table)
    np.testing.assert_array_equal(found.offline.pulls, expected.offline.pulls)
    same_moments(found, expected)


def test_missing_numbers_are_refused_with_the_way_out_unless_they_have_a_feature() -> None:
    case = {"reward": "spent", "numeric": ["minutes"], "time": "day"}
    with pytest.raises(ValueError, match=r"missing minutes \(linoto log sql --missing feature gives such"):
        read_log(in_duckdb(pa.table(visits()), asked(case)))
    table = pa.table(visits().assign(gone=np.nan))
    asked_for = {**case, "numeric": ["minutes", "gone"], "missing": "feature"}
    same_log(
        read_log(in_duckdb(table, asked(asked_for))),
        read_log(table, item="variant", **asked_for, curves=False),
    )
    assert "missing" not in asked(case).header  # which an older reader does not know


def test_arms_with_features_are_said_when_it_is_read_back() -> None:
    arms = read_arms(pd.DataFrame({"id": ["old", "new"], "size": [1.0, 2.0]}))
    table = visits()
    case = {"reward": "clicked", "categories": ["country"], "crosses": [("size", "country")]}
    given = in_duckdb(pa.table(table), asked(case))
    with pytest.raises(ValueError, match="got 323 with: unknown arm 'ünusual'"):
        read_log(given, arms=arms)
    found = read_log(given, arms=arms, skip_bad=True)
    expected = read_log(table, item="variant", arms=arms, skip_bad=True, **case)
    assert found.recipe == expected.recipe and found.unknown == expected.unknown
    assert found.split.startswith("nothing") and found.late.total == 0  # a warehouse has no order of rows
    np.testing.assert_allclose(found.moments.gram, expected.moments.gram, rtol=1e-10, atol=1e-9)


def test_the_command_prints_what_the_audit_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = visits()
    pq.write_table(pa.table(table), tmp_path / "visits.parquet")
    place = f"read_parquet('{tmp_path / 'visits.parquet'}')"
    columns = ("--item", "variant", "--reward", "clicked", "--time", "day", "--category", "country")
    assert run("log", "sql", place, "--dialect", "duckdb", *columns) == 0
    statement = capsys.readouterr().out
    with duckdb.connect() as connection:
        pq.write_table(connection.sql(statement).to_arrow_table(), tmp_path / "stats.parquet")
    assert run("audit", tmp_path / "visits.parquet", *columns, "--rows", "1", "--json") == 0
    expected = json.loads(capsys.readouterr().out)
    assert run("audit", tmp_path / "stats.parquet", "--json", "--save", tmp_path / "stats.npz") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == expected["verdict"] and found["reasons"] == expected["reasons"]
    assert linoto.load(tmp_path / "stats.npz").offline.total == len(table)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--dialect", "oracle"), 2, "--dialect must be one of bigquery"),
        (("--dialect", "spark", "--column", "spline(age, knots=5)"), 1, "got spline 'age'"),
        (("--dialect", "spark", "--guardrail", "complaint"), 1, "must say whether lower or higher is better"),
        (("--dialect", "spark", "--guardrail", "clicked:lower"), 1, "must be another column than the reward"),
        (
            ("--dialect", "spark", "--numeric", "age", "--guardrail", "age:lower"),
            1,
            "guardrail 'age' must be a column of its own",
        ),
        (("--dialect", "spark", "--where", "age like 3"), 1, "--where must be comparisons"),
    ],
)
def test_what_a_statement_cannot_say_is_refused_in_one_sentence(
    words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("log", "sql", "visits", "--item", "variant", "--reward", "clicked", *words) == code
    shown = capsys.readouterr()
    assert said in shown.err and not shown.out


def test_columns_are_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stats = as_parquet(pa.table(visits()), asked(CASES["fixed arms"]), tmp_path)
    assert run("audit", stats, "--numeric", "age") == 2
    assert "--numeric must be said to `linoto log sql`" in capsys.readouterr().err
    with pytest.raises(ValueError, match="got None beside item"):
        read_log(stats, item="variant")
    with pytest.raises(ValueError, match="no statistics by `linoto log sql`"):
        read_log(visits())


@pytest.mark.parametrize("lost", ["header", "column"])
def test_rows_that_lack_a_part_are_refused(lost: str) -> None:
    given = in_duckdb(pa.table(visits()), asked(CASES["fixed arms"])).to_pandas()
    kept = given[~given.linoto.str.startswith("{")] if lost == "header" else given.drop(columns="s1")
    with pytest.raises(ValueError, match=r"must hold all rows|must have all columns of its statement"):
        read_log(kept)


def test_snowflake_keeps_plain_names_in_capitals() -> None:
    statement = statement_of(Question(table="t", item="variant", reward='"Spent"'), DIALECTS["snowflake"])
    assert '"VARIANT" AS "item", CAST("Spent" AS DOUBLE) AS "y"' in statement
