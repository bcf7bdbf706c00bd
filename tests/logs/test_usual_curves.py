"""Laws of the curves that numbers have where nobody names any: the log is likelier so, or there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from helpers.exits import run

from linoto import Log, Numeric, audit_log, columns, load, read_log
from linoto.columns import Spline
from linoto.logs.dialects import DIALECTS
from linoto.logs.features import LoggedContexts
from linoto.logs.statement import Question, statement_of
from linoto.logs.usual_crosses import Borne
from linoto.logs.usual_curves import MOST_WORK, bent_recipes, work_of

NAMED: dict[str, Any] = {"item": "offer", "reward": "click"}
OFFERS = np.array(["warm", "mild"])


def visits(shape: str = "bends", rows: int = 800) -> pd.DataFrame:
    """Clicks on two offers that depend on the heat outside: a valley and a hill, or two lines."""
    rng = np.random.default_rng(6)
    offer, heat, wet = rng.integers(0, 2, rows), rng.uniform(-1, 1, rows), rng.integers(0, 2, rows)
    bent = np.abs(heat) - 0.5 if shape == "bends" else heat / 2
    click = rng.random(rows) < 0.5 + 0.8 * np.where(offer == 0, bent, -bent)
    return pd.DataFrame(
        {"offer": OFFERS[offer], "heat": 20 + 8 * heat, "wet": wet, "click": click.astype(int)}
    )


def told(log: Log) -> list[str]:
    return [note for note in log.notes if "by curves" in note]


def likelihood(log: Log) -> float:
    return Borne(LoggedContexts(log.recipe, *log.halves)).likelihood


def test_numbers_bend_where_the_log_is_likelier_so_and_it_is_said() -> None:
    log = read_log(visits(), **NAMED, numeric=["heat", "wet"])
    heat, wet = log.recipe.context
    assert isinstance(heat, Spline) and len(heat.known) in (3, 5) and isinstance(wet, Numeric)
    assert log.recipe.crosses == (("offer", "heat"), ("offer", "wet"))
    assert told(log) == [
        f"by curves with up to {len(heat.known)} knots, as the log is likelier so than by straight lines: "
        "'heat'"
    ]
    straight = read_log(visits(), **NAMED, numeric=["heat", "wet"], curves=False)
    assert likelihood(log) > likelihood(straight) + 20  # half of it would be luck once in a million logs
    named = read_log(visits(), **NAMED, recipe=log.recipe)
    assert (named.moments.gram == log.moments.gram).all() and named.moments == log.moments


def test_lines_stay_lines() -> None:
    """A curve of noise would have to be worth what three features more cost: here it is far from it."""
    log = read_log(visits("lines"), **NAMED, numeric=["heat", "wet"])
    assert log.recipe == read_log(visits("lines"), **NAMED, numeric=["heat", "wet"], curves=False).recipe
    assert told(log) == []


@pytest.mark.parametrize(
    "said",
    [
        {"numeric": ["heat"], "curves": False},
        {"numeric": ["heat"], "crosses": [("offer", "heat")]},
        {"numeric": ["heat"], "crosses": ()},
        {"columns": [Numeric(name="heat", mean=20.0, scale=4.0)]},
        {"columns": [columns.Powers(name="heat", degree=2)]},
        {"numeric": ["wet"]},
        {"numeric": ["heat"], "max_features": 8},
    ],
    ids=["no curves", "crosses", "no crosses", "a line", "another curve", "two values", "few features"],
)
def test_what_was_said_is_not_bent(said: dict[str, Any]) -> None:
    log = read_log(visits(), **NAMED, **said)
    assert not any(isinstance(column, Spline) for column in log.recipe.context) and told(log) == []


def test_a_curve_leaves_a_row_for_each_feature_and_is_not_too_much_work() -> None:
    few = read_log(visits(rows=10), **NAMED, numeric=["heat"])
    assert told(few) == [] and few.notes[-1] == (
        "numbers count by straight lines, and curves were not tried: they would make 12 features of 10 rows "
        "(name a column's kind to have one)"
    )
    recipe = read_log(visits(), **NAMED, numeric=["heat", "wet"]).recipe
    numbers = 1 + len(recipe.context[0].labels) + 1
    assert work_of(recipe, 1000) == 1000 * numbers**2 < MOST_WORK < work_of(recipe, 10**9)


def test_noise_does_not_bend() -> None:
    """Of 400 other logs none did: less than one in a hundred does."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(
            {"x": rng.normal(size=80), "offer": ["A", "B"] * 40, "click": rng.normal(size=80)}
        )
        assert told(read_log(table, **NAMED, numeric=["x"])) == []


def test_counts_bend_where_their_rows_are() -> None:
    """Most visits are the first, and the second is what matters: a knot between 0 and 14 would miss it."""
    rng = np.random.default_rng(0)
    seen = np.minimum(rng.negative_binomial(0.5, 0.35, 3000), 14)
    offer = rng.choice(list("AB"), 3000)
    reward = np.where(offer == "A", (seen == 1) * 1.0, 0.3) + rng.normal(0, 0.3, 3000)
    log = read_log(pd.DataFrame({"offer": offer, "seen": seen, "click": reward}), **NAMED, numeric=["seen"])
    theta = np.linalg.solve(log.moments.gram + 0.1 * np.eye(log.recipe.d), log.moments.reward_vector)
    first, second = (log.recipe.transform({"seen": count}) @ theta for count in (0, 1))
    assert first[0] < 0.1 and second[0] > 0.9 and abs(second[1] - 0.3) < 0.05


def test_rounding_decides_nothing() -> None:
    """Rewards so far from 0 that their squares do not tell how they differ."""
    table = visits().assign(click=lambda frame: frame.click + 1e9)
    log = read_log(table, **NAMED, numeric=["heat"])
    assert log.recipe.crosses == (("offer", "heat"),) and told(log) == []


@pytest.mark.parametrize("said", ["no", None, 0])
def test_curves_are_asked_for_or_not(said: Any) -> None:
    with pytest.raises(ValueError, match="curves must be True or False, got"):
        read_log(visits(), **NAMED, numeric=["heat"], curves=said)


def test_a_curve_that_all_arms_share_is_not_crossed() -> None:
    rng = np.random.default_rng(4)
    heat, offer = rng.uniform(-1, 1, 2000), rng.choice([*"ABC"], 2000)
    table = pd.DataFrame({"offer": offer, "heat": heat, "click": 3 * abs(heat) + rng.normal(size=2000)})
    log = read_log(table, **NAMED, numeric=["heat"])
    assert isinstance(log.recipe.context[0], Spline) and log.recipe.crosses == ()
    assert any("nothing is crossed with 'offer'" in note for note in log.notes) and told(log)


def test_more_knots_are_tried_than_three() -> None:
    rng = np.random.default_rng(1)
    table = visits(rows=2000).assign(heat=rng.uniform(0, 1, 2000))
    waves = np.sin(table.heat * 4 * np.pi) * np.where(table.offer == "warm", 0.45, -0.45)
    log = read_log(table.assign(click=(rng.random(2000) < 0.5 + waves) * 1), **NAMED, numeric=["heat"])
    assert len(log.recipe.context[0].known) == 5  # type: ignore[attr-defined]
    assert [knots for knots, _ in bent_recipes(log.recipe, [], {})] == []


def test_sums_of_a_warehouse_stay_lines_and_say_so(tmp_path: Path) -> None:
    table = visits("lines")
    question = Question(table="visits", **NAMED, numeric=("heat",))
    connection = duckdb.connect()
    connection.register("visits", table)
    connection.sql(statement_of(question, DIALECTS["duckdb"])).write_parquet(str(tmp_path / "sums.parquet"))
    log = read_log(tmp_path / "sums.parquet")
    assert log.recipe == read_log(table, **NAMED, numeric=["heat"]).recipe
    assert any("straight lines" in note for note in log.notes)


def test_the_commands_bend_keep_and_serve_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, stats = tmp_path / "visits.csv", tmp_path / "stats.npz"
    visits().to_csv(file, index=False)
    asked = ("audit", file, "--item", "offer", "--reward", "click", "--numeric", "heat")
    assert run(*asked, "--save", stats) == 0
    assert "by curves with" in capsys.readouterr().out
    assert isinstance(load(stats).recipe.context[0], Spline)
    assert run(*asked, "--no-curves", "--save", stats) == 0
    assert "by curves with" not in capsys.readouterr().out
    assert isinstance(load(stats).recipe.context[0], Numeric)


def test_a_loop_with_curves_earns_more() -> None:
    """0.05 a round at the least: the lines of both offers are level, whoever asks."""
    rng, earned = np.random.default_rng(3), []
    heats, luck = 20 + 8 * rng.uniform(-1, 1, 600), rng.random(600)
    for curves in (True, False):
        log = read_log(visits(), **NAMED, numeric=["heat"], curves=curves)
        policy = audit_log(log).policy
        assert policy is not None
        agent, won = policy.start(log, rng=0), 0.0
        for heat, draw in zip(heats.tolist(), luck.tolist(), strict=True):
            decision = agent.decide(context={"heat": heat}, practice=[0.5, 0.5])
            bent = 0.8 * (abs(heat - 20) / 8 - 0.5) * (1 if decision.name == "warm" else -1)
            agent.update(decision, float(draw < 0.5 + bent))
            won += 0.5 + bent
        earned.append(won / 600)
    assert earned[0] > earned[1] + 0.05


@pytest.mark.parametrize("option", ["--no-curves", "--no-cross"])
def test_what_is_for_contexts_is_refused_without_any(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits().to_csv(tmp_path / "visits.csv", index=False)
    assert run("audit", tmp_path / "visits.csv", "--item", "offer", "--reward", "click", option) == 2
    assert f"{option} is for contexts: give --numeric or --category" in capsys.readouterr().err


def test_an_evaluation_says_what_its_models_are_linear_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    visits().to_csv(tmp_path / "visits.csv", index=False)
    asked = ("evaluate", tmp_path / "visits.csv", "--item", "offer", "--reward", "click", "--uniform")
    assert run(*asked, "--numeric", "heat", "--greedy") == 0
    assert "crossed: offer × heat; curves: heat" in " ".join(capsys.readouterr().out.split())
