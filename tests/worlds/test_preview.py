"""Preview: what deployment would look like, in worlds the log finds plausible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto.worlds.plausible import plausible
from linoto.worlds.preview import smallest_of_best, usual_worlds


def problem(m: int = 300) -> tuple[np.ndarray, linoto.Offline, linoto.LinearBandit]:
    rng = np.random.default_rng(0)
    bandit = linoto.sphere_bandit(k=20, d=5, rng=rng)
    return bandit.actions, bandit.log(linoto.logged_pulls(bandit, m=m, arms=5, rng=rng), rng), bandit


def preview(**changes: Any) -> linoto.Preview:
    actions, log, _ = problem()
    settings: dict[str, Any] = {"horizon": 300, "worlds": 6, "grid": [0.02, 0.3], **changes}
    return linoto.preview(actions, log, **settings)


def test_any_number_of_jobs_gives_the_same_preview() -> None:
    one, two = preview(engine=linoto.Engine(jobs=1)), preview(engine=linoto.Engine(jobs=2))
    assert one.table() == two.table()
    assert preview(seed=1).table() != one.table()


def test_more_tolerance_explores_more_and_sooner() -> None:
    table = preview(grid=[0.005, 0.5]).table()
    assert table[0]["explored"] < table[1]["explored"]
    assert table[0]["first_explored"] > table[1]["first_explored"]
    assert table[0]["guaranteed_loss"] < table[1]["guaranteed_loss"]


def test_no_world_loses_more_than_is_guaranteed() -> None:
    """Worlds drawn from the posterior may lie outside the confidence set; 5 % of them may break a promise
    that is loose by orders of magnitude, so none of 30 is expected to."""
    result = preview(worlds=30, horizon=400)
    for point in result.points:
        assert (point.worst_loss <= (point.certificate.loss(400) or 0.0)).all()


def test_the_forecast_is_near_what_happens() -> None:
    """Mean gain over worlds against the real world's, within the spread of the worlds (a factor of two)."""
    actions, log, bandit = problem(m=500)
    result = linoto.preview(actions, log, horizon=1500, worlds=20, grid=[0.1])
    real = linoto.simulate(linoto.Gated(), bandit, log, horizon=1500)
    row = result.table()[0]
    spread = np.std(-result.points[0].final_loss)
    assert abs(row["gain_mean"] + real.offline_regret[-1]) < 3 * spread


def test_a_limit_is_answered_by_what_was_seen_and_by_what_is_promised() -> None:
    result = preview(grid=[0.01, 0.1, 1.0], horizon=300, worlds=10)
    promised = result.guaranteed(40.0)
    assert promised is not None and (promised.certificate.loss(300) or 0) <= 40.0
    assert result.guaranteed(1e-6) is None
    seen = result.recommend(1e9)
    assert seen is not None
    gains = {point.value: -point.final_loss.mean() for point in result.points}
    most = max(gains.values())
    assert seen.value == min(value for value, gain in gains.items() if gain >= 0.95 * most)


def test_of_values_that_gain_the_same_the_smallest_is_chosen() -> None:
    result = preview(grid=[0.1, 0.2, 0.4])
    first = result.points[0]
    alike = tuple(replace(point, final_loss=-100 * np.ones(6)) for point in result.points)
    same = replace(result, points=alike)
    better = (*same.points[:2], replace(same.points[2], final_loss=-110 * np.ones(6)))
    for limit in (1e9, (first.certificate.loss(300) or 0.0) + 1e-9):
        for found in (same.guaranteed(limit), smallest_of_best(same.worth_having(limit))):
            assert found is not None and found.value == 0.1
    found = smallest_of_best(better)
    assert found is not None and found.value == 0.4 and smallest_of_best([]) is None


def test_the_papers_parameter_is_alpha() -> None:
    result = preview(policy=linoto.LinOtO(), grid=[1e-4, 100.0])
    assert result.parameter == "alpha" and [point.value for point in result.points] == [1e-4, 100.0]


def test_bounded_rewards_are_previewed_as_bounded() -> None:
    pulls = [60, 40, 0]
    log = linoto.Offline(pulls=pulls, reward_sums=[180.0, 90.0, 0.0])  # stars from 1 to 5
    policy = linoto.Gated(confidence=linoto.Confidence(noise="bounded", reward_range=(1, 5), bound=6.0))
    result = linoto.preview(np.eye(3), log, policy=policy, grid=[0.2], horizon=200, worlds=4)
    assert (result.points[0].worst_loss <= (result.points[0].certificate.loss(200) or 0)).all()


def test_the_prior_decides_where_the_log_is_silent() -> None:
    narrow, wide = preview(prior=0.1), preview(prior=3.0)
    assert wide.headroom.mean() > 2 * narrow.headroom.mean()


def clicks_of_some_arms(**changes: Any) -> linoto.Preview:
    """Three of eight unrelated arms are logged, at 30 %."""
    pulls = np.r_[200, 150, 150, np.zeros(5, dtype=np.int64)]
    log = linoto.Offline(pulls=pulls, reward_sums=pulls * 0.3, reward_squares=pulls * 0.3)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    policy = linoto.Gated(gate=linoto.Tolerance(budget=10.0), confidence=confidence)
    settings: dict[str, Any] = {"horizon": 300, "worlds": 12, "grid": [5.0, 20.0], **changes}
    return linoto.preview(np.eye(8), log, policy=policy, **settings)


def test_a_shortfall_holds_however_the_logged_arms_were_chosen() -> None:
    """Believed good, they may have been the best: then the larger shortfall of both kinds of worlds counts.

    Whoever says that they were a random choice is believed.
    """
    good, random = (clicks_of_some_arms(logged_arms=how) for how in ("good", "random"))
    assert good.no_better is not None and random.no_better is not None
    for result, both in ((good, True), (random, False)):
        for point, other, row in zip(result.points, result.no_better or (), result.table(), strict=True):
            seen = [np.quantile(each.worst_loss, 0.9, method="weibull") for each in (point, other)]
            assert row["shortfall_90"] == pytest.approx(max(seen) if both else seen[0])
            assert row["shortfall_90"] <= row["shortfall_max"]
    fits = good.recommend(1e-3 + good.shortfall(good.points[0]))
    assert fits is None or fits is good.points[0]


def test_a_gain_is_worth_having_only_above_its_own_noise_and_one_click() -> None:
    """Of one world nothing is known; with few, Student's t is far from two standard errors."""
    result = clicks_of_some_arms()
    point = result.points[0]
    assert result.event == 1.0

    def gains(*losses: float) -> bool:
        return result.gains(replace(point, final_loss=-np.array(losses)))

    assert not gains(50.0) and gains(50.0, 50.0)
    assert not gains(2.0, 6.0) and gains(2.0, 6.0, 2.0, 6.0, 2.0, 6.0)
    assert not gains(0.9, 0.9, 0.9) and gains(1.1, 1.1, 1.1)


def test_many_features_leave_fewer_worlds_unless_somebody_asks_for_more() -> None:
    rng = np.random.default_rng(0)
    log = linoto.Offline(pulls=np.ones(80), reward_sums=np.ones(80))
    few, one_hot, many = (
        plausible(x, log).cost for x in (np.ones((80, 2)), np.eye(80), rng.random((80, 300)))
    )
    assert usual_worlds(few * 30_000) == usual_worlds(one_hot * 30_000) == 30
    assert usual_worlds(many * 10**7) == 10 < usual_worlds(many * 9000) < 30
    assert clicks_of_some_arms(worlds=None, grid=[5.0]).worlds == 30


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"horizon": 0}, "horizon must be a whole number"),
        ({"worlds": 0}, "worlds must be a whole number"),
        ({"engine": "threads"}, r"engine must be a linoto\.Engine, got 'threads'"),
        ({"grid": []}, "grid must hold numbers"),
        ({"grid": [-0.1]}, "grid must hold numbers"),
        ({"prior": -1.0}, "prior must be a positive number"),
        ({"logged_arms": "bad"}, "logged_arms must be one of 'good', 'random', 'best', got 'bad'"),
        (
            {"policy": linoto.LinUCB(scale=1.0)},
            "policy must have a Budget, Tolerance, Control or Conservative gate",
        ),
    ],
)
def test_bad_input_is_named(changes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        preview(**changes)


# -- units

FOUND = ("recommended", "guaranteed", "least")


def in_units(unit: float) -> tuple[list[dict[str, Any]], dict[str, float | None]]:
    """What is seen of each value, and which are advised, both in these units."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, unit), bound=2 * unit)
    policy = linoto.Gated(explorer=linoto.LinTS(), gate=linoto.Tolerance(), confidence=confidence)
    sums = unit * np.array([90.0, 60.0, 10.0])
    log = linoto.Offline(pulls=[200, 100, 40], reward_sums=sums, reward_squares=unit * sums)
    grid = [unit * value for value in (2.0, 8.0, 30.0)]
    result = linoto.preview(np.eye(3), log, policy=policy, grid=grid, horizon=300, worlds=12)
    points = result.recommend(25.5 * unit), result.guaranteed(25.5 * unit), result.least_useful()
    advised = {name: None if p is None else p.value / unit for name, p in zip(FOUND, points, strict=True)}
    counts = ("explored", "first_explored", "control", "never_explored")
    rows = [
        {
            name: value if name.startswith(counts) or value is None else value / unit
            for name, value in row.items()
        }
        for row in result.table()
    ]
    return rows, advised


@pytest.mark.parametrize("unit", [0.125, 10.0, 1e6, 1e-6, 1e-12])
@pytest.mark.few(2)
def test_units_of_rewards_change_no_advice(unit: float) -> None:
    """Gains below 1e-9 were none, whatever the unit."""
    (wanted, advised), (rows, found) = in_units(1.0), in_units(unit)
    assert advised["least"] is not None
    assert found == {name: value and pytest.approx(value) for name, value in advised.items()}
    for row, plain in zip(rows, wanted, strict=True):
        assert row == {
            name: value and pytest.approx(value, rel=1e-6, abs=1e-6) for name, value in plain.items()
        }
