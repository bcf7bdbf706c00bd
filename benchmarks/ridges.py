"""Which ridge should a loop have that proves nothing by it?

    python benchmarks/ridges.py [--runs N] [--first SEED]

The problems of `defaults.py`, arms that stay, `LinTS()` without a gate: the ridge noise^2 d / bound^2 of the
true bound, that of the bound which an audit guesses from the log, and the one by which the log is likeliest.
Printed are mean regrets, and those of each family as multiples of the lowest. `real.py` has the same question
where rounds bring their own arms (`created`).
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from math import exp, log
from statistics import mean

import numpy as np
from defaults import FAMILIES, PROBLEMS

import linoto
from linoto.audit.assume import round_up
from linoto.audit.bound import propose_bound
from linoto.core.evidence import likeliest_ridge

RIDGES = ("of the true bound", "of the guessed bound", "likeliest")


def regrets(name: str, seed: int) -> list[float]:
    """What one run costs with each ridge."""
    problem = PROBLEMS[name]
    bandit, offline = problem.make(np.random.default_rng([seed, problem.salt]))
    stated = problem.confidence
    bound = propose_bound(bandit.actions, offline, noise=stated.scale, delta=stated.delta)
    likeliest = likeliest_ridge(linoto.Moments.of_arms(bandit.actions, offline))
    tried = (stated, replace(stated, bound=round_up(bound)), replace(stated, ridge=likeliest))
    played = (
        linoto.simulate(linoto.LinTS(confidence=one), bandit, offline, horizon=problem.horizon, seed=seed)
        for one in tried
    )
    return [float(run.regret[-1]) for run in played]


def main() -> None:
    """Play, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=400, metavar="SEED", help="of the runs (default 400)")
    asked = parser.parse_args()
    found = {}
    print("| |", " | ".join(RIDGES), "|\n| --- | ---: | ---: | ---: |")
    for name in PROBLEMS:
        runs = [regrets(name, seed) for seed in range(asked.first, asked.first + asked.runs)]
        found[name] = [max(mean(costs), 1.0) for costs in zip(*runs, strict=True)]
        print(f"| {name} |", " | ".join(f"{cost:.0f}" for cost in found[name]), "|", flush=True)
    for family, names in FAMILIES.items():
        costs = (mean(log(found[name][place] / min(found[name])) for name in names) for place in range(3))
        print(f"| *{family}* |", " | ".join(f"{exp(cost):.2f}" for cost in costs), "|")


if __name__ == "__main__":
    main()
