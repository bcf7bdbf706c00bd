"""Laws of the crosses that a log has where nobody names any: who asks may change which arm is best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers.exits import run

from linoto import Greedy, Log, columns, read_arms, read_log
from linoto.logs.dialects import DIALECTS
from linoto.logs.features import LoggedContexts
from linoto.logs.statement import Question, statement_of
from linoto.logs.usual_crosses import Borne, of_one_size, with_usual_crosses

NAMED: dict[str, Any] = {"item": "offer", "reward": "click"}
EIGHT = [f"x{i}" for i in range(8)]
CONTEXT: dict[str, Any] = {"numeric": ["age"], "categories": ["country", "device"]}


def visits(rows: int = 900, seed: int = 0) -> pd.DataFrame:
    """Norwegians click on the first of three offers, all others on the second, and the old on the third."""
    rng = np.random.default_rng(seed)
    offer, country = rng.integers(0, 3, rows), rng.choice(["NO", "DE", "FR"], rows)
    wanted, age = np.where(country == "NO", 0, 1), rng.integers(20, 60, rows)
    liked = np.where(offer == wanted, 0.7, 0.2)
    return pd.DataFrame(
        {
            "offer": np.array(["fjord", "forest", "fee"])[offer],
            "click": rng.binomial(1, np.where(offer == 2, (age - 20) / 60, liked)),
            "age": age,
            "country": country,
            "device": rng.choice(["phone", "desk"], rows),
        }
    )


def alike() -> pd.DataFrame:
    """Eight numbers of who asks shift the clicks on all offers alike."""
    rng = np.random.default_rng(4)
    numbers = {name: rng.standard_normal(900) for name in EIGHT}
    return visits().assign(**numbers, click=rng.binomial(1, np.clip(0.4 + 0.1 * sum(numbers.values()), 0, 1)))


def noted(log: Log) -> list[str]:
    """What was said about crosses."""
    return [note for note in log.notes if "crossed" in note]


def test_every_column_is_crossed_with_the_item_and_it_is_said() -> None:
    table = visits()
    usual = read_log(table, **NAMED, **CONTEXT)
    crosses = [("offer", name) for name in ("age", "country", "device")]
    named = read_log(table, **NAMED, **CONTEXT, crosses=crosses)
    assert usual.recipe == named.recipe and usual.recipe.crosses == tuple(crosses)
    np.testing.assert_array_equal(usual.moments.gram, named.moments.gram)
    assert noted(usual) == [
        "crossed with 'offer', so that who asks may change which arm is best: 'age', 'country', 'device'"
    ]
    assert not noted(named)


def test_who_asks_changes_which_arm_is_best() -> None:
    """Of 100 rows for each offer and country, the better offer is .5 ahead: ten standard errors."""
    asked = [{"age": 40, "country": country, "device": "phone"} for country in ("NO", "DE", "FR")]

    def played(**crosses: Any) -> list[str]:
        log = read_log(visits(), **NAMED, **CONTEXT, **crosses)
        agent = Greedy().start(log, rng=0)
        return [log.recipe.items[agent.decide(context=one, practice="fee").arm] for one in asked]

    assert played() == ["fjord", "forest", "forest"]
    assert len({*played(crosses=())}) == 1


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.few(1)
def test_neither_the_unit_nor_the_zero_of_rewards_decides(intercept: bool) -> None:
    for table, named, crossed in ((visits(), ["age"], True), (alike(), EIGHT, False)):
        for rewards in (table["click"], 0.01 * table["click"], 5000 + 100 * table["click"]):
            log = read_log(table.assign(click=rewards), **NAMED, numeric=named, intercept=intercept)
            assert bool(log.recipe.crosses) == crossed


def test_where_nothing_is_crossed_it_is_said() -> None:
    for crosses in ((), [("age", "country")]):
        log = read_log(visits(), **NAMED, **CONTEXT, crosses=crosses)
        assert noted(log) == ["nothing is crossed with 'offer': who asks does not change which arm is best"]


def test_columns_with_few_features_come_first_and_others_are_named() -> None:
    """Crossed with three offers, age, device and country make 3, 6 and 9 features more, 40 towns 120."""
    table = visits().assign(town=[f"town {row % 40}" for row in range(900)])
    context = {"numeric": ["age"], "categories": ["town", "country", "device"]}
    order = ("age", "town", "country", "device")
    few = read_log(table[:200], **NAMED, **context)
    assert few.recipe.crosses == (("offer", "age"), ("offer", "country"), ("offer", "device"))
    left = "not crossed with 'offer', so that it changes for nobody which arm is best: 'town'"
    assert noted(few)[1].startswith(f"{left}; 200 rows are few")
    plain = read_log(table, **NAMED, **context, crosses=()).recipe
    assert [*with_usual_crosses(plain, 276, most=1000).recipe.crosses] == [("offer", name) for name in order]
    small = with_usual_crosses(plain, 35, most=1000).recipe.crosses
    assert small == (("offer", "age"), ("offer", "device"))
    narrow = read_log(table, **NAMED, **context, max_features=100)
    assert noted(narrow)[1] == f"{left}; there would be more than 100 features"


def test_the_log_has_the_last_word() -> None:
    """Clicks that depend on age alike for all offers: without crosses the log is likelier by far.

    Each of 24 features that say nothing costs about half a logarithm of 300 rows; that they seem to say so
    much by chance is below one in a million.
    """
    table = alike()
    log = read_log(table, **NAMED, numeric=EIGHT)
    assert not log.recipe.crosses and log.recipe.d == 12
    plain = read_log(table, **NAMED, numeric=EIGHT, crosses=())
    assert log.recipe == plain.recipe
    np.testing.assert_array_equal(log.moments.gram, plain.moments.gram)
    assert noted(log)[0].startswith("nothing is crossed with 'offer', as the log is likelier without")
    named = read_log(table, **NAMED, numeric=EIGHT, crosses=[("offer", name) for name in EIGHT])
    assert named.recipe.d == 36


@pytest.mark.parametrize(("most", "crossed"), [(10, 0), (12, 0), (13, 1), (19, 2), (28, 3)])
def test_what_is_usual_is_never_too_much(most: int, crossed: int) -> None:
    """10 features without crosses; each cross with three offers has 3, 6 and 9."""
    log = read_log(visits(), **NAMED, **CONTEXT, max_features=most)
    assert len(log.recipe.crosses) == crossed and log.recipe.d <= most


def test_items_with_features_are_crossed_by_these() -> None:
    arms = read_arms(
        pd.DataFrame({"offer": ["fjord", "forest", "fee"], "price": [3.0, 1.0, 2.0], "size": [1, 2, 9]})
    )
    log = read_log(visits(), **NAMED, numeric=["age"], arms=arms)
    assert log.recipe.crosses == (("price", "age"), ("size", "age")) and not log.recipe.item_effects
    both = read_log(visits(), **NAMED, numeric=["age"], arms=arms, item_effects=True)
    assert both.recipe.crosses == (("offer", "age"),)


def test_columns_that_say_nothing_and_a_single_arm_are_not_crossed() -> None:
    table = visits().assign(one=7, word="same")
    log = read_log(table, **NAMED, numeric=["age", "one"], categories=["word"])
    assert log.recipe.crosses == (("offer", "age"),)
    alone = read_log(table[table["offer"] == "fee"], **NAMED, numeric=["age"])
    assert not alone.recipe.crosses and not noted(alone)
    described = read_log(table, reward="click", features=["age"])
    assert not described.recipe.crosses and not noted(described)


def test_columns_of_every_kind_are_crossed() -> None:
    bent = columns.Spline(name="age", knots=4)
    log = read_log(visits(), **NAMED, columns=[bent])
    assert log.recipe.crosses == (("offer", "age"),) and log.recipe.own_width == 1 + len(
        log.recipe.labels["age"]
    )


@pytest.mark.parametrize(
    ("unit", "zero"), [(1.0, 2018.0), (100.0, 0.0), (1e-3, 0.0), (1e6, 1.7e9), (86_400.0, 1.7e9 * 2)]
)
def test_units_of_what_is_known_of_items_decide_no_cross(unit: float, zero: float) -> None:
    rng = np.random.default_rng(0)
    item, age = rng.integers(5, size=1500), rng.uniform(20, 70, 1500)
    clicked = rng.random(1500) < 0.5 + 0.004 * (item - 2) * (age - 45)
    table = pd.DataFrame({"item": item, "age": age, "click": clicked.astype(int)})
    logs = [
        read_log(
            table,
            item="item",
            reward="click",
            numeric=["age"],
            arms=read_arms(pd.DataFrame({"id": range(5), "known": known})),
        )
        for known in (np.arange(5.0), zero + unit * np.arange(5.0))
    ]
    assert [log.recipe.crosses for log in logs] == [(("known", "age"),)] * 2
    one, other = (Borne(LoggedContexts(log.recipe, *log.halves)) for log in logs)
    assert other.likelihood == pytest.approx(one.likelihood, abs=1e-3)
    assert other.errors == pytest.approx(one.errors, rel=1e-6)


def test_what_is_almost_the_same_for_all_items_stops_no_log() -> None:
    """The deviation of 0.1, 0.1, 0.1 is not 0: it is rounding."""
    rng = np.random.default_rng(0)
    item, age = rng.integers(3, size=3000), rng.normal(40.0, 10.0, 3000)
    rewards = rng.normal(item + 0.03 * (item == 1) * (age - 40.0), 0.5)
    table = pd.DataFrame({"item": item, "age": age, "click": rewards})
    for known in (np.full(3, 0.1), 1e9 + np.array([0.1, 0.1, 0.2])):
        arms = read_arms(pd.DataFrame({"id": range(3), "known": known}))
        log = read_log(table, item="item", reward="click", numeric=["age"], arms=arms)
        assert log.offline.total == 3000 and of_one_size(log.recipe) is None


def test_commands_cross_unless_they_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    visits().to_csv(tmp_path / "visits.csv", index=False)
    words = (
        "audit",
        tmp_path / "visits.csv",
        "--item",
        "offer",
        "--reward",
        "click",
        "--category",
        "country",
    )
    assert run(*words) == 0
    assert "crossed with 'offer', so that who asks" in capsys.readouterr().out
    assert run(*words, "--no-cross") == 0
    assert "nothing is crossed with 'offer'" in capsys.readouterr().out
    assert run(*words, "--no-cross", "--cross", "offer", "country") == 2
    assert "--cross: not allowed with argument --no-cross" in capsys.readouterr().err


def test_a_statement_of_an_earlier_version_crosses_nothing(tmp_path: Path) -> None:
    """Its first row names the crosses, also where there are none."""
    pq.write_table(pa.table(visits()), tmp_path / "visits.parquet")
    place = f"read_parquet('{tmp_path / 'visits.parquet'}')"

    def crossed(**crosses: Any) -> tuple[Any, ...]:
        question = Question(table=place, **NAMED, numeric=("age",), **crosses)
        assert ('"crosses"' in question.header) == bool(crosses)
        with duckdb.connect() as connection:
            answer = connection.sql(statement_of(question, DIALECTS["duckdb"])).to_arrow_table()
        pq.write_table(answer, tmp_path / "stats.parquet")
        return read_log(tmp_path / "stats.parquet").recipe.crosses

    assert crossed() == (("offer", "age"),)
    assert crossed(crosses=()) == ()
