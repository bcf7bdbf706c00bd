"""Which ridge goes with a bound that somebody says, where arms have features of their own?

    python benchmarks/long_bounds.py [--runs N] [--first SEED] [--bounds 1 2 3 5 10]

The open tables of `real.py` after a log of its mediocre practice: the ridge of what one action can have at
this bound, the usual one, and that of all features. Printed are rewards per round, in the mean of tables.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from real_problems import PRACTICES, Problem, problem_of
from real_tables import TABLES

import linoto

RIDGES = ("one action's", "usual", "all features'")
POLICIES: dict[str, Any] = {
    "LinTS()": linoto.LinTS(),
    "RandUCB()": linoto.RandUCB(),
    "SquareCB()": linoto.SquareCB(),
    "Greedy()": linoto.Greedy(),
    "Gated(gate=Control(budget=50))": linoto.Gated(gate=linoto.Control(budget=50)),
    "the same with LinTS()": linoto.Gated(explorer=linoto.LinTS(), gate=linoto.Control(budget=50)),
}


def actions_of(contexts: Any, k: int) -> Any:
    """(n k, k p) features of rows in the place of each arm."""
    n, p = contexts.shape
    actions = np.zeros((n, k, k, p))
    actions[:, np.arange(k), np.arange(k)] = contexts[:, None]
    return actions.reshape(n * k, k * p)


def earned(problem: Problem, policy: Any, log: linoto.Moments, seed: int) -> float:
    """What a policy earns per round."""
    (n, k), p = problem.paid.shape, problem.contexts.shape[1]
    features = linoto.OwnFeatures(items=tuple(map(str, range(k))), width=p)
    rounds = policy.start(log, features=features, rng=seed).play_rounds(
        means=problem.paid.ravel(),
        draws=np.zeros(n),
        bernoulli=False,
        ends=k * np.arange(1, n + 1),
        actions=actions_of(problem.contexts, k),
        weights=problem.practice.ravel(),
    )
    return float(problem.paid[np.arange(n), rounds.arms].mean())


def main() -> None:
    """Play, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--first", type=int, default=610, metavar="SEED", help="of the runs (default 610)")
    parser.add_argument("--bounds", type=float, nargs="+", default=[1.0, 2.0, 3.0, 5.0, 10.0])
    parser.add_argument("--wheels", type=Path, default=Path(".benchmarks/wheels"), help="of the tables")
    asked = parser.parse_args()
    asked.wheels.mkdir(parents=True, exist_ok=True)
    found = defaultdict(list)
    for table in (table for table in TABLES if table.group != "held out"):
        rows = table.rows(asked.wheels)
        for seed in range(asked.first, asked.first + asked.runs):
            problem = problem_of(rows, PRACTICES["mediocre"], seed)
            k, p = problem.paid.shape[1], problem.contexts.shape[1]
            played = np.arange(len(problem.log_arms)) * k + problem.log_arms
            log = linoto.Moments.from_rows(actions_of(problem.log_contexts, k)[played], problem.log_rewards)
            for bound in asked.bounds:
                said = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=bound)
                for ridge, value in zip(
                    RIDGES, (said.ridge_for(p), None, said.ridge_for(k * p)), strict=True
                ):
                    for name, policy in POLICIES.items():
                        tried = replace(policy, confidence=replace(said, ridge=value))
                        found[name, bound, ridge].append(earned(problem, tried, log, seed))
    print("| |", " | ".join(f"{bound:g}: {ridge}" for bound in asked.bounds for ridge in RIDGES), "|")
    print("| --- |", " | ".join("---:" for _ in asked.bounds for _ in RIDGES), "|")
    for name in POLICIES:
        cells = (f"{mean(found[name, bound, ridge]):.4f}" for bound in asked.bounds for ridge in RIDGES)
        print(f"| {name} |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
