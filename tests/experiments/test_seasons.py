"""The story of the months: real rates in their order, and a promise that holds against practice as it is."""

from __future__ import annotations

import numpy as np
import pytest

from linoto.experiments import seasons
from linoto.experiments.takeover import BUDGET
from linoto.worlds.flights import LEAST_MONTHLY, load


def test_every_month_has_its_own_real_rates_for_an_equal_part_of_the_bookings() -> None:
    flights = load()
    world = flights.through((4, 9, 1), horizon=100)
    assert world.starts.tolist() == [0, 33, 66]
    for row, month in zip(world.table, (4, 9, 1), strict=True):
        flown = flights.counts[:, month - 1] >= LEAST_MONTHLY
        real = flights.on_time[flown, month - 1] / flights.counts[flown, month - 1]
        np.testing.assert_allclose(row[flown], real)
        np.testing.assert_array_equal(row[~flown], flights.bandit.means[~flown])
        assert flown.mean() > 0.9


def test_the_log_of_february_and_march_is_the_story_s() -> None:
    flights = load()
    assert flights.log_of((2, 3)) == flights.log
    autumn = flights.log_of((11, 12))
    assert autumn.reference < flights.log.reference - 0.05  # the worse season
    assert set(np.flatnonzero(autumn.pulls)) <= set(flights.practice.tolist())


@pytest.fixture(scope="module")
def played() -> dict[tuple[str, str], dict[str, float]]:
    """Four runs: enough for events of which each run shows nearly every one."""
    return {(row["months"], row["policy"]): row for row in seasons.play(runs=4).table()}


def test_control_keeps_its_limit_in_both_orders(played: dict[tuple[str, str], dict[str, float]]) -> None:
    """The promise allows one run in twenty to break; four runs of two orders, and none is near the limit."""
    for order in seasons.ORDERS:
        for explorer in ("", seasons.BOLD):
            row = played[order, f"{explorer}Control"]
            assert row["runs_over_limit"] == 0 and row["worst_shortfall"] <= BUDGET


def test_behind_control_the_usual_explorer_gains_nearly_what_it_gains_alone(
    played: dict[tuple[str, str], dict[str, float]],
) -> None:
    """The four runs end between 270 and 420 ahead; a tenth of the gain is far outside their spread."""
    for order in seasons.ORDERS:
        alone, gated = played[order, "no gate"], played[order, "Control"]
        assert gated["gain"] > 0.8 * alone["gain"] > 200 and gated["worst_shortfall"] < BUDGET / 3


def test_the_usual_explorer_is_told_first() -> None:
    rows = seasons.play(runs=1, horizon=90).table()
    assert [row["explorer"] for row in rows] == ["usual"] * 6 + ["bold"] * 6
    assert [row["gate"] for row in rows] == [*seasons.GATES] * 4


def test_the_logs_gate_loses_more_than_its_limit_below_practice_where_the_log_was_a_worse_season(
    played: dict[tuple[str, str], dict[str, float]],
) -> None:
    """In 20 runs 16 were over the limit, so none of four has a chance of 0.2 %; the seed is fixed."""
    assert played["backwards", "bold, the log's gate"]["runs_over_limit"] > 0
    assert played["forwards", "bold, the log's gate"]["runs_over_limit"] == 0
