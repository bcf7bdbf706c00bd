"""Which explorer should Gated() have? Explorers behind its gate, on arms that stay.

    python benchmarks/defaults.py [--runs N] [--first SEED] [--only NAME] [--out FILE]

Sixteen problems in five families: the paper's and other dimensions, clicks, one-hot arms, A/B logs, real
flights. All bounds are true but that of "league, one-hot", which is too short, as people's are. Every run is
written to FILE as it is finished, so the same command goes on where it was stopped. `benchmarks/real.py` is
the same question where rounds bring their own arms.

The rule, stated before it was asked: out is who earns .01 a round less than the best on the open real tables;
of the others, the one whose worst family is the least bad, by its regret as a multiple of the lowest (the
geometric mean over the problems of a family); of those within 5 % of it, the one with the smallest mean over
all families.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

import linoto
from linoto.experiments import compare
from linoto.worlds import flights

Rng = np.random.Generator
World = tuple[Any, linoto.Offline]
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
EXPLORERS: dict[str, Any] = {
    "RandUCB()": linoto.RandUCB(),
    "RandUCB(scale=0.7)": linoto.RandUCB(scale=0.7),
    "RandUCB(scale=1.4)": linoto.RandUCB(scale=1.4),
    "RandUCB(prior='scaled')": linoto.RandUCB(prior="scaled"),
    "LinTS(scale=1.0)": linoto.LinTS(scale=1.0),
    "LinTS()": linoto.LinTS(),
    "LinTS(scale=0.5)": linoto.LinTS(scale=0.5),
    "LinTS(scale=1.0, prior='scaled')": linoto.LinTS(scale=1.0, prior="scaled"),
    "LinTS(scale=0.5, prior='scaled')": linoto.LinTS(scale=0.5, prior="scaled"),
    "LinUCB(scale=0.25)": linoto.LinUCB(scale=0.25),
    "SquareCB()": linoto.SquareCB(),
}


@dataclass(frozen=True)
class Problem:
    """A world and its log for every seed, what is assumed of rewards, and the rounds to play."""

    make: Callable[[Rng], World]
    confidence: linoto.Confidence
    horizon: int

    @property
    def salt(self) -> int:
        """What keeps the draws of one kind of world apart from those of another."""
        return {"on_sphere": 77, "one_hot": 78, "banners": 79}.get(self.make.__qualname__.split(".")[0], 0)


def on_sphere(k: int, d: int, m: int) -> Callable[[Rng], World]:
    """The paper's problem with other sizes."""

    def make(rng: Rng) -> World:
        bandit = linoto.sphere_bandit(d=d, k=k, rng=rng)
        return bandit, bandit.log(linoto.logged_pulls(bandit, m=m, rng=rng), rng)

    return make


def pulls_of_some(k: int, logged: int, m: int, rng: Rng) -> npt.NDArray[np.int64]:
    """(k,) m pulls, shared evenly by some of the arms."""
    pulls = np.zeros(k, dtype=np.int64)
    pulls[rng.permutation(k)[:logged]] = m // logged
    return pulls


def banners(rate: float, k: int, d: int, logged: int, m: int) -> Callable[[Rng], World]:
    """Click rates that scatter linearly around one."""

    def make(rng: Rng) -> World:
        directions, slope = rng.standard_normal((k, d - 1)), rng.standard_normal(d - 1)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        actions = np.column_stack([np.ones(k), directions]) / np.sqrt(2)
        means = rate * (1 + 0.8 * directions @ slope / np.linalg.norm(slope))
        bandit = linoto.Bandit(actions=actions, means=means, rewards="bernoulli")
        return bandit, bandit.log(pulls_of_some(k, logged, m, rng), rng)

    return make


def one_hot(
    means: Callable[[Rng], npt.NDArray[np.float64]], logged: int, m: int, first: bool = False
) -> Callable[[Rng], World]:
    """Arms that say nothing about each other; `first`: the logged ones are the first."""

    def make(rng: Rng) -> World:
        rates = means(rng)
        k = len(rates)
        fixed = np.repeat([m // logged, 0], [logged, k - logged])
        pulls = fixed if first else pulls_of_some(k, logged, m, rng)
        bandit = linoto.Bandit(actions=np.eye(k), means=rates, rewards="bernoulli")
        return bandit, bandit.log(pulls, rng)

    return make


def clicks_of(k: int) -> linoto.Confidence:
    """k rates in [0, 1] are a vector no longer than sqrt(k)."""
    return replace(CLICKS, bound=sqrt(k))


def of_flights(rng: Rng) -> World:
    """The bookings of docs/flights.md: the same in every run, with other luck."""
    return flights.load().bandit, flights.load().log


def of_league(name: str) -> Callable[[Rng], World]:
    """A problem of `linoto compare`."""

    def make(rng: Rng) -> World:
        setting = compare.problems()[name]
        bandit = setting.bandit(rng)
        return bandit, setting.log(bandit, rng)

    return make


PROBLEMS = {
    "paper, poor log": Problem(on_sphere(100, 20, 100), linoto.Confidence(), 8000),
    "paper, rich log": Problem(on_sphere(100, 20, 1000), linoto.Confidence(), 8000),
    "sphere, d = 5": Problem(on_sphere(50, 5, 50), linoto.Confidence(), 4000),
    "sphere, d = 50": Problem(on_sphere(100, 50, 500), linoto.Confidence(), 4000),
    "clicks 40 %": Problem(banners(0.4, 50, 8, 10, 1000), CLICKS, 8000),
    "clicks 4 %": Problem(banners(0.04, 50, 8, 10, 8000), CLICKS, 20_000),
    "clicks 20 %, d = 30": Problem(banners(0.2, 100, 30, 20, 2000), CLICKS, 8000),
    "one-hot, 20 arms": Problem(one_hot(lambda rng: rng.random(20), 5, 200), clicks_of(20), 8000),
    "one-hot, 100 near arms": Problem(
        one_hot(lambda rng: 0.2 + 0.1 * rng.random(100), 10, 2000), clicks_of(100), 20_000
    ),
    "A/B, B is new": Problem(
        one_hot(lambda rng: rng.permutation([0.10, 0.12]), 1, 2000, first=True), clicks_of(2), 10_000
    ),
    "A/B/n, four are new": Problem(
        one_hot(lambda rng: 0.3 + 0.1 * rng.random(5), 1, 1000, first=True), clicks_of(5), 10_000
    ),
    "A/B, both known": Problem(
        one_hot(lambda rng: rng.permutation([0.5, 0.55]), 2, 1000, first=True), clicks_of(2), 10_000
    ),
    "flights": Problem(of_flights, replace(CLICKS, bound=flights.BOUND), 6000),
    "league, best action logged": Problem(of_league("best action logged"), linoto.Confidence(), 8000),
    "league, clicks": Problem(of_league("clicks"), compare.CLICKS, 8000),
    "league, one-hot": Problem(of_league("one-hot"), compare.CLICKS, 8000),
}
FAMILIES = {
    "sphere": [*list(PROBLEMS)[:4], "league, best action logged"],
    "clicks": [*list(PROBLEMS)[4:7], "league, clicks"],
    "one-hot": [*list(PROBLEMS)[7:9], "league, one-hot"],
    "A/B": list(PROBLEMS)[9:12],
    "flights": ["flights"],
}


def play(name: str, explorer: str, seed: int) -> dict[str, Any]:
    """One run: regret, and the largest shortfall below the log with what was promised of it."""
    problem = PROBLEMS[name]
    bandit, offline = problem.make(np.random.default_rng([seed, problem.salt]))
    policy = linoto.Gated(explorer=EXPLORERS[explorer], confidence=problem.confidence)
    run = linoto.simulate(policy, bandit, offline, horizon=problem.horizon, seed=seed)
    lost = np.maximum.accumulate(run.offline_regret)
    promised = policy.certificate(bandit.actions, offline)
    kept = all(lost[t - 1] <= promised.loss(t) for t in range(1, problem.horizon + 1, 100))
    return {
        "problem": name,
        "explorer": explorer,
        "seed": seed,
        "regret": float(run.regret[-1]),
        "shortfall": max(0.0, float(lost[-1])),
        "kept": kept,
    }


def played(file: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """The runs of earlier commands."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {(row["problem"], row["explorer"], row["seed"]): row for row in map(json.loads, lines)}


def table(rows: dict[tuple[str, str, int], dict[str, Any]], names: list[str], seeds: range) -> str:
    """Mean regret: a row for each explorer, with the families as multiples of the lowest regret."""
    regrets = {
        (name, explorer): mean(rows[name, explorer, seed]["regret"] for seed in seeds)
        for name in names
        for explorer in EXPLORERS
    }
    lowest = {name: min(regrets[name, explorer] for explorer in EXPLORERS) for name in names}
    families = {
        family: [name for name in FAMILIES[family] if name in names]
        for family in FAMILIES
        if set(FAMILIES[family]) & set(names)
    }
    lines = [["", *names, *families, "worst", "geometric mean", "promises kept"]]
    lines.append(["---", *["---:"] * (len(lines[0]) - 1)])
    for explorer in EXPLORERS:
        logs = [
            mean(log(regrets[name, explorer] / lowest[name]) for name in family)
            for family in families.values()
        ]
        kept = [rows[name, explorer, seed]["kept"] for name in names for seed in seeds]
        shown = [f"{regrets[name, explorer]:.0f}" for name in names]
        multiples = [f"{exp(value):.2f}" for value in (*logs, max(logs), mean(logs))]
        lines.append([f"`{explorer}`", *shown, *multiples, f"{sum(kept)} of {len(kept)}"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    """Play what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of the runs (default 0)")
    parser.add_argument("--only", choices=PROBLEMS)
    parser.add_argument("--out", type=Path, default=Path("results/defaults.jsonl"))
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    names, rows = [arguments.only] if arguments.only else [*PROBLEMS], played(arguments.out)
    seeds = range(arguments.first, arguments.first + arguments.runs)
    for seed in seeds:
        for key in [(name, explorer, seed) for name in names for explorer in EXPLORERS]:
            if key not in rows:
                rows[key] = play(*key)
                with arguments.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(rows[key]) + "\n")
    print(table(rows, names, seeds))


if __name__ == "__main__":
    main()
