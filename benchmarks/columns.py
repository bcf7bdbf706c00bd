"""What columns that bend are worth on real tables: python benchmarks/columns.py [--seeds 5].

A round is a row of a table, an arm is a class, and the right one earns 1. A log of 1,000 rows, in which arms
were drawn, is read with every column as a number, or as something that bends, crossed with the item. Then
1,500 rounds are played from it. Every kind of column sees the same rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from time import perf_counter

import numpy as np
import pandas as pd
from real_tables import KEEL, KEEL_DATA, UCI, Table, last_column

import linoto
from linoto.core.features.columns import Column

LOGGED, ROUNDS = 1_000, 1_500
TABLES = (
    Table("magic", KEEL, f"{KEEL_DATA}/magic.dat", last_column, UCI, "MAGIC Gamma Telescope"),
    Table("phoneme", KEEL, f"{KEEL_DATA}/phoneme.dat", last_column, "KEEL", "ELENA, nasal or oral sounds"),
    Table("banana", KEEL, f"{KEEL_DATA}/banana.dat", last_column, "KEEL", "two bananas, which are made up"),
)
Make = Callable[[Sequence[str]], list[Column]]
KINDS: dict[str, Make] = {
    "linear": lambda names: [],
    "bands(edges=4)": lambda names: [linoto.columns.Bands(name=name) for name in names],
    "powers(degree=3)": lambda names: [linoto.columns.Powers(name=name) for name in names],
    "spline(knots=5)": lambda names: [linoto.columns.Spline(name=name) for name in names],
    "spline(knots=5, degree=3)": lambda names: [linoto.columns.Spline(name=name, degree=3) for name in names],
    "fourier(all, waves=25)": lambda names: [linoto.columns.Fourier(name="all", fields=tuple(names))],
}


def play(table: pd.DataFrame, kind: Make, seed: int) -> tuple[float, int, float]:
    """Reward per round, features, and milliseconds per decision."""
    rng = np.random.default_rng([seed, 24])
    names = [name for name in table.columns if name != "right"]
    classes = sorted(table["right"].unique())
    rows = table.iloc[rng.integers(len(table), size=LOGGED + ROUNDS)].reset_index(drop=True)
    early = rows[:LOGGED].assign(item=rng.choice(classes, LOGGED))
    early = early.assign(reward=(early["item"] == early["right"]).astype(float))
    columns = kind(names)
    log = linoto.read_log(
        early,
        item="item",
        reward="reward",
        numeric=[] if columns else names,
        columns=columns,
        crosses=[("item", name) for name in ([c.name for c in columns] or names)],
    )
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    policy = linoto.Gated(
        explorer=linoto.LinTS(scale=0.5, prior="scaled"), gate=linoto.Open(), confidence=confidence
    )
    agent = policy.start(log, rng=rng)
    late, earned, start = rows[LOGGED:].to_dict("records"), 0.0, perf_counter()
    for row in late:
        right = row.pop("right")
        decision = agent.decide(context={str(name): value for name, value in row.items()})
        reward = float(decision.name == right)
        agent.update(decision, reward)
        earned += reward
    return earned / ROUNDS, log.recipe.d, (perf_counter() - start) / ROUNDS * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--wheels", type=Path, default=Path(gettempdir()) / "linoto-wheels")
    arguments = parser.parse_args()
    arguments.wheels.mkdir(exist_ok=True)
    print(f"| table | columns | features | reward per round | ms per decision |\n|{' --- |' * 5}")
    for source in TABLES:
        found = source.rows(arguments.wheels)
        table = pd.DataFrame(found.features, columns=[f"x{i}" for i in range(found.features.shape[1])])
        table["right"] = [f"class {label}" for label in found.right]
        for words, kind in KINDS.items():
            runs = np.array([play(table, kind, seed) for seed in range(arguments.seeds)])
            mean, error = runs[:, 0].mean(), runs[:, 0].std(ddof=1) / np.sqrt(len(runs))
            print(
                f"| {source.name} | `{words}` | {runs[0, 1]:.0f} | {mean:.3f} ± {error:.3f} "
                f"| {runs[:, 2].mean():.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
