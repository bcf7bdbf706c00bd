"""The bounds beside the curves: means over worlds, against what the worst policies really lose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linoto import LinOtO
from linoto.core import theory
from linoto.experiments.bounds import BoundCurves, bound_curves
from linoto.experiments.run import draw_instance, run_experiment
from linoto.experiments.settings import Experiment, Setting

RUNS, SEED = 3, 4
SETTING = Setting(
    name="small", k=15, d=4, m=40, logged_arms=5, horizon=200, policies={"LinOtO": LinOtO(alpha=0.5)}
)


@pytest.fixture(scope="module")
def curves() -> BoundCurves:
    results = run_experiment(Experiment(name="x", settings=(SETTING,)), runs=RUNS, seed=SEED)
    (found,) = bound_curves(results)
    return found


def worlds() -> list[tuple[Any, Any]]:
    return [draw_instance(SETTING, SEED, run)[:2] for run in range(RUNS)]


def test_the_bounds_are_the_means_of_those_of_the_worlds(curves: BoundCurves) -> None:
    policy = SETTING.policy("LinOtO")
    for i in (0, curves.rounds.size // 2, -1):
        found = [
            theory.all_bounds(
                theory.Problem.of(bandit.actions, offline, confidence=policy.confidence, theta=bandit.theta),
                alpha=policy.alpha,
                rounds=int(curves.rounds[i]),
            )
            for bandit, offline in worlds()
        ]
        assert curves.regret[i] == pytest.approx(np.mean([bound.regret for bound in found]))
        assert curves.offline_regret[i] == pytest.approx(np.mean([bound.offline_regret for bound in found]))


def test_the_largest_regrets_are_those_of_the_worst_arm(curves: BoundCurves) -> None:
    gaps, shortfalls = [], []
    for bandit, offline in worlds():
        logged = offline.pulls @ bandit.means / offline.pulls.sum()
        gaps.append(bandit.means.max() - bandit.means.min())
        shortfalls.append(logged - bandit.means.min())
    assert np.mean(gaps) > 1.1 * np.mean(shortfalls)
    assert curves.most_regret == pytest.approx(np.mean(gaps) * curves.rounds)
    assert curves.most_offline_regret == pytest.approx(np.mean(shortfalls) * curves.rounds)


def test_a_bound_says_nothing_where_it_allows_the_worst(curves: BoundCurves) -> None:
    rows = curves.rows()
    assert [row["round"] for row in rows] == curves.rounds.tolist()
    for row in rows:
        assert row["regret_bound_vacuous"] == (row["regret_bound"] >= row["largest_regret"])
        worst = row["largest_offline_regret"]
        assert row["offline_regret_bound_vacuous"] == (row["offline_regret_bound"] >= worst)


def test_only_settings_with_linoto_have_bounds() -> None:
    other = Setting(name="other", k=15, d=4, logged_arms=5, horizon=20, policies={"mine": LinOtO()})
    short = Setting(name="short", k=15, d=4, logged_arms=5, horizon=20, policies={"LinOtO": LinOtO()})
    results = run_experiment(Experiment(name="x", settings=(other, short)), runs=1)
    assert [found.setting for found in bound_curves(results)] == ["short"]
