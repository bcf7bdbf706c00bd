"""The study beyond the paper: its worlds, and the logic of its claims on results with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.fakes import fake_results

from linoto.core.arrays import Floats
from linoto.experiments import beyond
from linoto.experiments.cells import CellStore, Curves
from linoto.experiments.claims import check_claims
from linoto.experiments.results import Results
from linoto.experiments.run import draw_instance, run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.pages.figures.experiments import draw
from linoto.pages.figures.pieces import spaced

NAMES = {experiment.name: experiment for experiment in beyond.EXPERIMENTS}


def shortened(experiment: Experiment, horizon: int) -> Experiment:
    settings = tuple(replace(setting, horizon=horizon) for setting in experiment.settings)
    return replace(experiment, settings=settings)


def given(experiment: Experiment, regret: dict[str, float], over: dict[str, float]) -> Results:
    """Six runs whose final regret and promise violation are given by label, a little scattered."""
    keys = {(setting.name, label): "fake" for setting in experiment.settings for label in setting.labels}
    store = CellStore.open(None, resume=False, keys=keys)
    for setting in experiment.settings:
        share = setting.rounds / setting.horizon
        for label in setting.labels:
            for run in range(6):
                final = regret.get(label, 100.0) * (1 + 0.001 * run)
                curve = final * share
                violation = over.get(label, -1.0) + 0.001 * run
                store.append(setting.name, label, run, Curves(curve, -curve, 0 * curve, 0.0, violation))
    return Results(experiment=experiment, runs=6, seed=0, store=store)


def verdicts(results: Results) -> dict[str, str]:
    found = check_claims(beyond.CLAIMS, {results.experiment.name: results})
    return {finding.claim.name: finding.result for finding in found}


def test_every_claim_is_about_an_experiment_and_every_experiment_has_one() -> None:
    assert {claim.experiment for claim in beyond.CLAIMS} == set(NAMES)
    assert all(claim.ours for claim in beyond.CLAIMS)
    assert len({claim.name for claim in beyond.CLAIMS}) == len(beyond.CLAIMS)


def test_a_share_of_the_papers_regret_is_judged_by_its_limit() -> None:
    regret = {"LinOtO": 2600.0, "Tolerance 0.1": 390.0, "Tolerance 0.02": 900.0}
    regret["Tolerance 0.1, Thompson"] = 590.0
    found = verdicts(given(beyond.BEYOND, regret, {}))
    assert found["tolerance-0.1"] == "holds" and found["tolerance-0.1-thompson"] == "holds"
    assert found["tolerance-0.02"] == "does not hold"
    assert found["tolerance-kept"] == "holds"


def test_one_broken_policy_is_enough_to_break_the_promise() -> None:
    found = verdicts(given(beyond.BEYOND, {}, {"Tolerance 0.02": 0.5}))
    assert found["tolerance-kept"] == "does not hold"


def test_each_part_is_judged_against_its_own_rival() -> None:
    regret = {"0.1, as it is": 100.0, "0.1, all or nothing": 150.0, "0.1, loose bias": 90.0}
    found = verdicts(given(beyond.PIECES, regret, {}))
    assert found["affordable-at-0.1"] == "holds" and found["tight-bias-at-0.1"] == "does not hold"


def test_a_wrong_model_is_judged_by_how_far_the_promise_is_violated() -> None:
    found = verdicts(given(beyond.WRONG, {}, {"model": 900.0, "both": 20.0, "rewards": -0.05}))
    assert set(found.values()) == {"holds"}
    found = verdicts(given(beyond.WRONG, {}, {"model": 900.0, "both": 500.0, "rewards": 3.0}))
    assert found["wrong-model-vetoed"] == found["wrong-model-rewards-kept"] == "does not hold"


def test_bounded_rewards_must_lift_and_by_more() -> None:
    better = {beyond.BOUNDED: 80.0, beyond.SUB_GAUSSIAN: 30.0}
    worse = {beyond.BOUNDED: 30.0, beyond.SUB_GAUSSIAN: 80.0}
    assert verdicts(given(beyond.BERNOULLI, better, {}))["bounded-lifts"] == "holds"
    assert verdicts(given(beyond.BERNOULLI, worse, {}))["bounded-lifts"] == "does not hold"


def test_the_planted_world_breaks_model_keeps_rewards_and_vetoes_both() -> None:
    """Six runs; `rewards` may fail with probability 0.05 a run, and is loose by a factor of ten."""
    found = verdicts(run_experiment(beyond.WRONG, runs=6))
    assert set(found.values()) == {"holds"}


def test_the_bernoulli_worlds_are_what_they_say() -> None:
    for setting in beyond.BERNOULLI.settings:
        bandit, log, _ = draw_instance(setting, 0, 3)
        assert bandit.means.max() == 0.957 and bandit.means.min() >= 0.803
        assert log.total == setting.m and log.pulls[bandit.best] == 0
        assert set(np.unique(log.pulls)) == {0, setting.m // 10}


def test_ours_are_better_even_in_a_few_short_runs() -> None:
    """Paired over 5 worlds at n = 2000 the regrets differ by a factor of two and more."""
    setting = replace(
        beyond.BEYOND.settings[0],
        horizon=2000,
        policies={
            label: beyond.BEYOND.settings[0].policy(label)
            for label in ("LinOtO", "Tolerance 0.1", "0.25 UCB")
        },
    )
    results = run_experiment(Experiment(name="x", settings=(setting,)), runs=5)
    paper, ours = (results.final("m=100", label, "regret") for label in ("LinOtO", "Tolerance 0.1"))
    assert ours.mean() < 0.6 * paper.mean()
    assert (results.promise_violation("m=100", "Tolerance 0.1") < 0).all()
    assert (results.promise_violation("m=100", "LinOtO") < 0).all()  # easily: its promise is empty
    assert np.isnan(results.promise_violation("m=100", "0.25 UCB")).all()


def formula(setting: Setting, label: str, run: int, rounds: Floats) -> Floats:
    rng = np.random.default_rng([run, setting.m, sum(map(ord, label))])
    return np.asarray(rng.uniform(0.2, 0.5) * rounds)


@pytest.mark.parametrize("name, runs", [*((name, 3) for name in NAMES), (next(iter(NAMES)), 1)])
def test_every_experiment_has_a_figure_with_a_panel_for_each_setting(name: str, runs: int) -> None:
    figure = draw(fake_results(NAMES[name], formula, runs=runs))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == [spaced(setting.name) for setting in NAMES[name].settings]


def test_the_promise_is_drawn_beside_what_happened() -> None:
    figure = draw(run_experiment(shortened(beyond.WRONG, 300), runs=2))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["model", "rewards", "both", "promised"]
    assert figure.axes[0].get_ylim()[1] == pytest.approx(2 * 0.05 * 300)
