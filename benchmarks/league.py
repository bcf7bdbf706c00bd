"""What explorers and gates earn on four problems: the noise they assume against the noise they see.

    python benchmarks/league.py [--runs N] [--json FILE] [--only NAME]

Every policy starts from the same logs and meets the same luck. "gain" is what it earned above as many rounds
of the log's mean reward, in units of the reward; "shortfall" the largest shortfall below the log at any
moment of any run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import linoto
from linoto.engines import Engine, map_cells
from linoto.worlds import flights

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
FLIGHTS = replace(CLICKS, bound=flights.BOUND)
ARMS, FEATURES, LOGGED_ARMS, LOGGED = 50, 8, 10, 8000


def click_world(rate: float, seed: int) -> tuple[Any, linoto.Offline]:
    """50 banners whose click rates scatter linearly around `rate`, and a log of 8000 views of ten of them."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((ARMS, FEATURES - 1))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    slope = rng.standard_normal(FEATURES - 1)
    means = rate * (1 + 0.8 * directions @ slope / np.linalg.norm(slope))
    actions = np.column_stack([np.ones(ARMS), directions]) / np.sqrt(2)
    bandit = linoto.Bandit(actions=actions, means=means, rewards="bernoulli")
    pulls = np.zeros(ARMS, dtype=np.int64)
    pulls[rng.permutation(ARMS)[:LOGGED_ARMS]] = LOGGED // LOGGED_ARMS
    return bandit, bandit.log(pulls, rng)


def paper_world(m: int, seed: int) -> tuple[Any, linoto.Offline]:
    """The paper's default instance."""
    rng = np.random.default_rng(seed)
    bandit = linoto.sphere_bandit(rng=rng)
    return bandit, bandit.log(linoto.logged_pulls(bandit, m=m, rng=rng), rng)


def flight_world(seed: int) -> tuple[Any, linoto.Offline]:
    """The bookings of docs/flights.md: the same log and world in every run."""
    return flights.load().bandit, flights.load().log


@dataclass(frozen=True)
class Problem:
    """Where a league is played."""

    make: Callable[[int], tuple[Any, linoto.Offline]]  # of a seed
    confidence: linoto.Confidence
    horizon: int


PROBLEMS = {
    "flights": Problem(flight_world, FLIGHTS, 6000),
    "clicks 0.4 %": Problem(lambda seed: click_world(0.004, seed), CLICKS, 50_000),
    "clicks 4 %": Problem(lambda seed: click_world(0.04, seed), CLICKS, 50_000),
    "paper, m = 100": Problem(lambda seed: paper_world(100, seed), linoto.Confidence(), 8000),
    "paper, m = 1000": Problem(lambda seed: paper_world(1000, seed), linoto.Confidence(), 8000),
}


def policies(confidence: linoto.Confidence) -> dict[str, Any]:
    """Explorers alone and behind the usual gate, each with the noise it assumes and with the one it sees."""
    found: dict[str, Any] = {"LinUCB": linoto.LinUCB(scale=1.0, confidence=confidence)}
    for noise in ("assumed", "estimated"):
        optimist, thompson = (
            linoto.LinUCB(scale=0.25, noise=noise),
            linoto.LinTS(scale=1.0, prior="scaled", noise=noise),
        )
        found[f"LinUCB x 0.25, {noise}"] = replace(optimist, confidence=confidence)
        found[f"LinTS, {noise}"] = replace(thompson, confidence=confidence)
        found[f"Gated, {noise}"] = linoto.Gated(explorer=optimist, confidence=confidence)
    found["Gated, 0.1 a round"] = linoto.Gated(gate=linoto.Tolerance(epsilon=0.1), confidence=confidence)
    return found


def play(cell: tuple[str, str, int]) -> tuple[float, float, float]:
    """One run: what was gained above the log, the largest shortfall, the share of exploring rounds."""
    name, label, seed = cell
    problem = PROBLEMS[name]
    bandit, log = problem.make(seed)
    policy = policies(problem.confidence)[label]
    run = linoto.simulate(policy, bandit, log, horizon=problem.horizon, seed=seed)
    return (
        -float(run.offline_regret[-1]),
        max(0.0, float(run.offline_regret.max())),
        float(run.explored.mean()),
    )


def league(name: str, runs: int, engine: Engine) -> list[dict[str, Any]]:
    """One row per policy."""
    rows = []
    for label in policies(PROBLEMS[name].confidence):
        cells = [(name, label, seed) for seed in range(runs)]
        gain, worst, explored = np.array(list(map_cells(play, cells, engine=engine))).T
        error = float(gain.std(ddof=1) / np.sqrt(runs)) if runs > 1 else None
        rows.append(
            {
                "problem": name,
                "policy": label,
                "gain": float(gain.mean()),
                "error": error,
                "shortfall": float(worst.max()),
                "explored": float(explored.mean()),
            }
        )
    return rows


def main() -> None:
    """Play, print, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", choices=PROBLEMS)
    arguments = parser.parse_args()
    rows = []
    for name in [arguments.only] if arguments.only else PROBLEMS:
        for row in league(name, arguments.runs, Engine(jobs=arguments.jobs)):
            error = "" if row["error"] is None else f" ± {row['error']:.3g}"
            print(
                f"| {name} | {row['policy']} | {row['gain']:.4g}{error} | {row['shortfall']:.3g} "
                f"| {row['explored']:.0%} |",
                flush=True,
            )
            rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
