"""What columns that bend are worth on real tables: python benchmarks/columns.py [--seeds 5] [--peer].

A round is a row of a table, an arm is a class, and the right one earns 1. A log of 1,000 rows, in which arms
were drawn, is read with every column as a number, or as something that bends, crossed with the item. Then
1,500 rounds are played from it. Every kind of column sees the same rows. `--peer` lets vowpalwabbit play with
the same columns, and with numbers and products of its own making, in an environment of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from peers import commands_of
from real import Workers
from real_problems import Problem
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


PEER = "vowpalwabbit"
OPTIONS = {  # what it is told; the last two have columns of its own making
    "": "--squarecb",
    ", gamma 1000": "--squarecb --gamma_scale 1000",
}
PRODUCTS = {
    ", products of two": "--interactions cca",
    ", products of two and three": "--interactions cca --interactions ccca",
}


def drawn(table: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, np.random.Generator]:
    """Rows of a log with arms and rewards, rows of the rounds, and what draws go on with."""
    rng = np.random.default_rng([seed, 24])
    classes = sorted(table["right"].unique())
    rows = table.iloc[rng.integers(len(table), size=LOGGED + ROUNDS)].reset_index(drop=True)
    early = rows[:LOGGED].assign(item=rng.choice(classes, LOGGED))
    return early.assign(reward=(early["item"] == early["right"]).astype(float)), rows[LOGGED:], rng


def read(early: pd.DataFrame, kind: Make) -> linoto.Log:
    """A log with columns of a kind, each crossed with the item."""
    names = [name for name in early.columns if name not in ("right", "item", "reward")]
    columns = kind(names)
    return linoto.read_log(
        early,
        item="item",
        reward="reward",
        numeric=[] if columns else names,
        columns=columns,
        crosses=[("item", name) for name in ([c.name for c in columns] or names)],
    )


def play(table: pd.DataFrame, kind: Make, seed: int) -> tuple[float, int, float]:
    """Reward per round, features, and milliseconds per decision."""
    early, late, rng = drawn(table, seed)
    log = read(early, kind)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    policy = linoto.Gated(
        explorer=linoto.LinTS(scale=0.5, prior="scaled"), gate=linoto.Open(), confidence=confidence
    )
    agent = policy.start(log, rng=rng)
    earned, start = 0.0, process_time()
    for row in late.to_dict("records"):
        right = row.pop("right")
        decision = agent.decide(context={str(name): value for name, value in row.items()})
        reward = float(decision.name == right)
        agent.update(decision, reward)
        earned += reward
    return earned / ROUNDS, log.recipe.d, (process_time() - start) / ROUNDS * 1e3


class Peer:
    """vowpalwabbit, which gets the features that our columns make of a row, and crosses them with the arm."""

    def __init__(self, environments: Path, stack: ExitStack) -> None:
        commands, missing = commands_of([PEER], environments)
        if missing:
            raise SystemExit(missing[PEER])
        self.workers = Workers(commands, 600.0, stack)
        self.place = Path(stack.enter_context(TemporaryDirectory())) / "problem.npz"

    def problem(self, table: pd.DataFrame, kind: Make, seed: int) -> Problem:
        """The rows that we play, as a worker reads them."""
        early, late, _ = drawn(table, seed)
        recipe = replace(read(early, kind).recipe, items=("any",), item_effects=False, crosses=())
        classes = sorted(table["right"].unique())

        def features(rows: pd.DataFrame) -> Any:
            fields = [name for name in table.columns if name != "right"]
            return np.array([recipe.transform(row)[0] for row in rows[fields].to_dict("records")])

        def numbers(labels: pd.Series) -> Any:
            return labels.map({name: number for number, name in enumerate(classes)}).to_numpy()

        return Problem(
            log_contexts=features(early),
            log_arms=numbers(early["item"]),
            log_rewards=early["reward"].to_numpy(),
            log_chances=np.full(LOGGED, 1 / len(classes)),
            contexts=features(late),
            paid=np.eye(len(classes))[numbers(late["right"])],
            practice=np.full((ROUNDS, len(classes)), 1 / len(classes)),
        )

    def play(self, table: pd.DataFrame, kind: Make, options: str, seed: int) -> tuple[float, int, float]:
        """As `play` says."""
        problem = self.problem(table, kind, seed)
        problem.save(self.place)
        order = {"player": f"play_{PEER}", "policy": "SquareCB", "problem": str(self.place), "seed": seed}
        found = self.workers.ask(PEER, {**order, "settings": {"options": options}})
        if found.get("reason"):
            raise SystemExit(found["reason"])
        earned = np.array([float(one) for one in found["rewards"]]).mean()
        width = problem.contexts.shape[1] * problem.paid.shape[1]
        return float(earned), width, found["seconds"] * 1e3


def contestants(
    peer: Peer | None,
) -> Iterator[tuple[str, Callable[[pd.DataFrame, int], tuple[float, int, float]]]]:
    """Who plays, by the words of the table."""
    for words, kind in KINDS.items():
        yield f"`{words}`", lambda table, seed, kind=kind: play(table, kind, seed)
    if peer is None:
        return
    for words, kind in KINDS.items():
        own = PRODUCTS if words == "linear" else {}
        for more, options in (
            OPTIONS | {k: f"--squarecb --gamma_scale 1000 {v}" for k, v in own.items()}
        ).items():
            yield (
                f"{PEER}, `{words}`{more}",
                lambda table, seed, kind=kind, options=options: peer.play(table, kind, options, seed),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--wheels", type=Path, default=Path(gettempdir()) / "linoto-wheels")
    parser.add_argument("--peer", action="store_true", help=f"{PEER} too")
    parser.add_argument("--environments", type=Path, default=Path(".benchmarks/peers"), metavar="DIR")
    arguments = parser.parse_args()
    arguments.wheels.mkdir(exist_ok=True)
    with ExitStack() as stack:
        show(
            arguments.seeds, arguments.wheels, Peer(arguments.environments, stack) if arguments.peer else None
        )


def show(seeds: int, wheels: Path, peer: Peer | None) -> None:
    """One row for each table and contestant."""
    print(f"| table | columns | features | reward per round | ms per decision |\n|{' --- |' * 5}")
    for source in TABLES:
        found = source.rows(wheels)
        table = pd.DataFrame(found.features, columns=[f"x{i}" for i in range(found.features.shape[1])])
        table["right"] = [f"class {label}" for label in found.right]
        for words, contestant in contestants(peer):
            runs = np.array([contestant(table, seed) for seed in range(seeds)])
            mean, error = runs[:, 0].mean(), runs[:, 0].std(ddof=1) / np.sqrt(len(runs))
            print(
                f"| {source.name} | {words} | {runs[0, 1]:.0f} | {mean:.3f} ± {error:.3f} "
                f"| {runs[:, 2].mean():.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
