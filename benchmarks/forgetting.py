"""What forgetting earns where the world moves, and costs where it stands: python benchmarks/forgetting.py.

Ten arms without features, or six classes of a table with contexts, 6,000 rounds after a log of 1,000 rows.
Every explorer plays behind `Control(budget=30)`; runs with the same seed have the same world and luck.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from real_results import half_width

import linoto

ROUNDS, K = 6_000, 10
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
WAYS: dict[str, dict[str, Any]] = {
    "all is kept": {},
    "memory=1500": {"memory": 1500},
    "memory=500": {"memory": 500},
    "discount=.9995": {"discount": 0.9995},
    "discount=.999": {"discount": 0.999},
    "discount=.998": {"discount": 0.998},
    "discount=.995": {"discount": 0.995},
}


def of_arms(table: Any) -> tuple[Any, Any]:
    """Arms that stay, with these means (segments, k) one after the other; and a log of the first."""
    starts = np.arange(len(table)) * (ROUNDS // len(table))
    world = linoto.DriftingBandit(actions=np.eye(K), table=table, starts=starts, rewards="bernoulli")
    return world, linoto.Offline(pulls=[100] * K, reward_sums=100 * table[0])


def steps(seed: int, *, change: bool) -> tuple[Any, Any]:
    """Half of the way the best arm falls from .7 to .1, and another rises from .4 to .8; or nothing does."""
    means = np.random.default_rng(seed).permutation(np.linspace(0.3, 0.5, K))
    means[0], late = 0.7, means.copy()
    late[0], late[1] = 0.1, 0.8
    return of_arms(np.stack([means, late]) if change else means[None])


def seasons(seed: int) -> tuple[Any, Any]:
    """Every arm is the best one for a tenth of the time: means go up and down by .3, each in its turn."""
    turn = np.arange(60)[:, None] / 60 + np.random.default_rng(seed).permutation(K) / K
    return of_arms(0.5 + 0.3 * np.cos(2 * np.pi * turn))


def classes(seed: int, later: list[int]) -> tuple[Any, Any]:
    """Contexts of six classes; which arm is right for each of them from half of the way on."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(6, size=2000)
    features = np.column_stack([np.ones(2000), np.eye(6)[labels] + 0.4 * rng.normal(size=(2000, 6))]) / 2
    wrong = rng.random(2000) < 0.3
    now, then = (
        linoto.ContextualBandit.from_table(features, right, practice=(right + wrong) % 6)
        for right in (labels, np.array(later)[labels])
    )
    world = now.until(ROUNDS // 2, then)
    return world, world.log(1000, rng=seed)


WORLDS: dict[str, Any] = {
    "arms, still": lambda seed: steps(seed, change=False),
    "arms, a change": lambda seed: steps(seed, change=True),
    "arms, seasons": seasons,
    "contexts, still": lambda seed: classes(seed, [0, 1, 2, 3, 4, 5]),
    "contexts, two change places": lambda seed: classes(seed, [1, 0, 2, 3, 4, 5]),
    "contexts, all change": lambda seed: classes(seed, [1, 2, 3, 4, 5, 0]),
}
EXPLORERS = {"LinUCB": linoto.LinUCB, "LinTS": linoto.LinTS}


def earned(explorer: Any, world: Any, log: Any, seed: int) -> float:
    """Reward per round."""
    policy = linoto.Gated(explorer=explorer, gate=linoto.Control(budget=30), confidence=CLICKS)
    run = linoto.simulate(policy, world, log, horizon=ROUNDS, seed=seed)
    return float(np.asarray(run.rewards).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--worlds", default="", metavar="WORD", help="only those whose name has this word")
    given = parser.parse_args()
    seeds = range(given.seeds)
    print("Reward per round, and what is gained by forgetting in the same runs (95 % intervals):\n")
    print(f"| world | explorer | {' | '.join(WAYS)} |\n| --- | --- |{' ---: |' * len(WAYS)}")
    for words, make in ((words, make) for words, make in WORLDS.items() if given.worlds in words):
        worlds = [make(seed) for seed in seeds]
        for name, kind in EXPLORERS.items():
            found = [
                np.array([earned(kind(**given), *worlds[seed], seed) for seed in seeds])
                for given in WAYS.values()
            ]
            gains = [
                f"{(one - found[0]).mean():+.3f} ± {half_width(one - found[0]):.3f}" for one in found[1:]
            ]
            print(f"| {words} | `{name}` | {' | '.join([f'{found[0].mean():.3f}', *gains])} |", flush=True)


if __name__ == "__main__":
    main()
