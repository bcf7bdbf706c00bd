"""The paper's bounds along the rounds of an experiment, averaged over the worlds it was run in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from linoto.core import theory
from linoto.core.arrays import Floats, Ints
from linoto.core.policies import LinOtO
from linoto.experiments.results import Results
from linoto.experiments.run import draw_instance
from linoto.experiments.settings import Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundCurves:
    """For one setting: what is proved of LinOtO's regrets, and the largest regrets possible at all."""

    setting: str
    rounds: Ints  # (p,)
    regret: Floats  # (p,) Theorem 1
    most_regret: Floats  # (p,) t times the largest gap
    offline_regret: Floats  # (p,) (alpha + 2) S t, Theorem 2 without its factor 2
    most_offline_regret: Floats  # (p,) t times the worst arm's distance from the log

    def rows(self) -> list[dict[str, Any]]:
        """One row for each kept round, with a mark where a bound says nothing."""
        return [
            {
                "setting": self.setting,
                "round": int(t),
                "regret_bound": float(self.regret[i]),
                "regret_bound_vacuous": bool(self.regret[i] >= self.most_regret[i]),
                "largest_regret": float(self.most_regret[i]),
                "offline_regret_bound": float(self.offline_regret[i]),
                "offline_regret_bound_vacuous": bool(self.offline_regret[i] >= self.most_offline_regret[i]),
                "largest_offline_regret": float(self.most_offline_regret[i]),
            }
            for i, t in enumerate(self.rounds)
        ]


def bound_curves(results: Results) -> list[BoundCurves]:
    """The bounds for every setting that LinOtO played."""
    return [
        mean_bounds(results, setting, policy)
        for setting in results.experiment.settings
        for label, policy in setting.pairs
        if label == "LinOtO" and isinstance(policy, LinOtO)
    ]


def mean_bounds(results: Results, setting: Setting, policy: LinOtO) -> BoundCurves:
    """The mean of the bounds over the worlds of all runs: a bound on the mean regret, on the good event."""
    rounds = np.unique(np.geomspace(1, setting.horizon, 40).round()).astype(np.int64)
    total = np.zeros((4, rounds.size))
    for run in range(results.runs):
        bandit, offline, _ = draw_instance(setting, results.seed, run)
        problem = theory.Problem.of(bandit.actions, offline, confidence=policy.confidence, theta=bandit.theta)
        for i, n in enumerate(rounds.tolist()):
            found = theory.all_bounds(problem, alpha=policy.alpha, rounds=n)
            largest = (n * problem.largest_gap, n * problem.largest_shortfall)
            total[:, i] += (found.regret, largest[0], found.offline_regret, largest[1])
    regret, most, offline_regret, most_offline = total / results.runs
    return BoundCurves(
        setting=setting.name,
        rounds=rounds,
        regret=regret,
        most_regret=most,
        offline_regret=offline_regret,
        most_offline_regret=most_offline,
    )
