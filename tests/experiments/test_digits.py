"""Handwritten digits: what a gate costs while its model holds, and who keeps the promise once it does not."""

from __future__ import annotations

import numpy as np
import pytest

from linoto import run_experiment
from linoto.experiments.digits import experiment


def test_the_gates_keep_their_promise_and_the_coin_keeps_it_when_the_world_turns() -> None:
    """One small run of fixed seed; the slow test below has the real sizes."""
    results = run_experiment(experiment(horizon=800, m=300), runs=1)
    for label in ("model", "control"):
        assert results.promise_violation("as it is", label)[0] <= 0
    assert np.isnan(results.promise_violation("as it is", "no gate")).all()
    assert results.promise_violation("turning", "control")[0] <= 0
    assert results.worst("turning", "no gate")[0] > 100 > 16 > results.worst("turning", "control")[0]


@pytest.mark.slow
def test_with_all_images_a_gate_costs_little_and_a_turn_breaks_the_promise_of_the_model_alone() -> None:
    """Five runs of fixed seed. A right gate breaks its promise in 1 run of 20 at most: more than two of five
    is a false alarm in 0.0012 of seeds, for each of three. With its model wrong, the model's gate broke it in
    12 of 20 runs of another program."""
    results = run_experiment(experiment(), runs=5)

    def lift(setting: str, label: str) -> float:
        return float(-results.final(setting, label, "offline_regret").mean() / 6000)

    assert 0.06 < lift("as it is", "control") < lift("as it is", "no gate") < 0.11
    assert 0.06 < lift("as it is", "model") < lift("as it is", "no gate")
    for setting, label in (("as it is", "model"), ("as it is", "control"), ("turning", "control")):
        assert (results.promise_violation(setting, label) > 0).sum() <= 2
    assert (
        lift("turning", "no gate") < -0.1 < lift("turning", "model") < 0 < lift("turning", "control") + 0.01
    )
    assert results.promise_violation("turning", "model").max() > 0
