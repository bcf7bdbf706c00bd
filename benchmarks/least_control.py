"""How few plays of practice any promise could do with, beside ours: python benchmarks/least_control.py.

They are those where the explorer wants another arm, in control rounds or without a coin. On the real tables
(`real_tables.py`), after 1,000 logged rows of a mediocre practice: what practice and the explorer earn where
they disagree, the least number of such plays by docs/control.md, what these would cost a round, and how many
`Gated()` has.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from math import log
from pathlib import Path

import numpy as np
from contestants.common import Floats
from real_problems import PRACTICES, ROUNDS, Problem, problem_of
from real_tables import TABLES

import linoto

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
DELTA = MISSED = 0.05  # how often a promise may fail, and how often a gate may close by bad luck


def divergence(a: float, b: float) -> float:
    """KL of two chances."""
    return a * log(a / b) + (1 - a) * log((1 - a) / (1 - b))


def least_rounds(practice: float, explored: float, budget: float, rounds: float) -> float:
    """The expected number of control rounds of a gate that explores so many rounds and keeps its promise."""
    other = explored + budget / rounds  # what practice earns in the world that has to be told apart
    if not 0 < practice < other < 1:
        return 0.0
    return divergence(1 - MISSED, DELTA) / divergence(practice, other)


def play(policy: linoto.Gated, problem: Problem, seed: int) -> Iterator[tuple[linoto.Decision, Floats]]:
    """Every decision of a run, and what each arm would have paid."""
    k, p = problem.paid.shape[1], problem.contexts.shape[1]
    rows = np.zeros((len(problem.log_arms), k, p))
    rows[np.arange(len(rows)), problem.log_arms] = problem.log_contexts
    features = linoto.OwnFeatures(items=tuple(map(str, range(k))), width=p)
    log_ = linoto.Moments.from_rows(rows.reshape(len(rows), -1), problem.log_rewards)
    agent = policy.start(log_, features=features, rng=seed)
    for context, paid, practice in zip(problem.contexts, problem.paid, problem.practice, strict=True):
        decision = agent.decide(context=context, practice=practice)
        agent.update(decision, float(paid[decision.arm]))
        yield decision, paid


def look(problem: Problem, seed: int) -> tuple[float, float, int, float, int]:
    """Where practice and explorer disagree: what each earns, how often; least plays of practice, and ours."""
    weights = problem.practice.cumsum(axis=1)
    draws = np.random.default_rng([seed, 1]).random(ROUNDS)
    others = (draws[:, None] * weights[:, -1:] > weights).sum(axis=1)
    free = play(linoto.Gated(gate=linoto.Open(), confidence=CLICKS), problem, seed)
    apart = [
        (paid[decision.arm], paid[other])
        for (decision, paid), other in zip(free, others, strict=True)
        if decision.arm != other
    ]
    explored, practice = np.mean(apart, axis=0)
    gated = play(linoto.Gated(confidence=CLICKS), problem, seed)
    control = sum(decision.arm != decision.proposal for decision, _ in gated)
    budget = min(50.0, problem.log_rewards.sum() / 10)
    return practice, explored, len(apart), least_rounds(practice, explored, budget, len(apart)), control


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--group", default="open", choices=("open", "more", "held out"))
    parser.add_argument("--wheels", type=Path, default=Path(".benchmarks/wheels"), metavar="DIR")
    options = parser.parse_args()
    options.wheels.mkdir(parents=True, exist_ok=True)
    print("| table | practice, explored | disputed | least control | ours | least cost |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for table in (table for table in TABLES if table.group == options.group):
        found = []
        for seed in range(options.first, options.first + options.seeds):
            problem = problem_of(table.rows(options.wheels), PRACTICES["mediocre"], seed)
            found.append(look(problem, seed))
        c, x, n, least, control = np.mean(found, axis=0)
        cells = f"{c:.2f}, {x:.2f} | {n:.0f} | {least:.0f} | {control:.0f} | {least * (x - c) / ROUNDS:.4f}"
        print(f"| {table.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
