"""Results with known answers: curves given by a formula instead of a simulation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from linoto.core.arrays import Floats
from linoto.experiments.cells import CellStore, Curves
from linoto.experiments.results import Results
from linoto.experiments.settings import Experiment, Setting

Formula = Callable[[Setting, str, int, Floats], Floats]  # setting, policy, run, rounds -> regret


def fake_results(experiment: Experiment, formula: Formula, *, runs: int = 6) -> Results:
    """Every cell's regret from a formula; R^off is less by half a unit a round, all rounds explore."""
    keys = {(setting.name, label): "fake" for setting in experiment.settings for label in setting.labels}
    store = CellStore.open(None, resume=False, keys=keys)
    for setting in experiment.settings:
        rounds = setting.rounds.astype(np.float64)
        for label in setting.labels:
            for run in range(runs):
                regret = np.asarray(formula(setting, label, run, rounds), dtype=np.float64)
                offline = regret - rounds / 2
                curves = Curves(
                    regret=regret,
                    offline_regret=offline,
                    explored=rounds,
                    worst=max(0.0, float(offline.max())),
                    promise_violation=np.nan,
                )
                store.append(setting.name, label, run, curves)
    return Results(experiment=experiment, runs=runs, seed=0, store=store)
