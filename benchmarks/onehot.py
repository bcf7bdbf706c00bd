"""How fast one-hot arms are, as ratios in one run: python benchmarks/onehot.py [--json FILE] [--rounds N].

Two parts. At k = 100 every policy plays its compiled loop, and the same arms with all their zeros take turns
with them: what an agent would do that does not recognise one-hot arms. At k = 10,000 the zeros would be 4 GB:
the time to start, of a round in the loop and from Python, and the memory of an agent.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

import linoto
from linoto.core.one_hot import recognising

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
LINUCB = "LinUCB"
POLICIES: dict[str, Any] = {
    "UCB1": linoto.research.UCB1(confidence=CLICKS),
    "HUCB1": linoto.research.HUCB1(confidence=CLICKS),
    "MinUCB": linoto.research.MinUCB(shift=0.1, confidence=CLICKS),
    "OtO": linoto.research.OtO(confidence=CLICKS),
    LINUCB: linoto.LinUCB(scale=1.0, confidence=CLICKS),
    "LinLCB": linoto.LinLCB(confidence=CLICKS),
    "LinTS": linoto.LinTS(confidence=CLICKS),
    "LinOtO": linoto.LinOtO(),
    "Gated, budget 100": linoto.Gated(gate=linoto.Tolerance(budget=100.0), confidence=CLICKS),
}


class Row(NamedTuple):
    """One measured number."""

    what: str
    value: float
    unit: str
    target: str = ""


def problem(k: int) -> tuple[Any, linoto.Offline, Any]:
    """Arms, a log of each third arm, and click rates."""
    rng = np.random.default_rng(0)
    means = rng.random(k)
    pulls = np.where(np.arange(k) % 3 == 0, rng.integers(1, 50, size=k), 0)
    return linoto.one_hot(k), linoto.Offline(pulls=pulls, reward_sums=rng.binomial(pulls, means)), means


def fastest(contestants: dict[str, Callable[[], float]], turns: int) -> dict[str, float]:
    """The least seconds of each, all taking turns."""
    found = [{name: contestant() for name, contestant in contestants.items()} for _ in range(turns)]
    return {name: min(turn[name] for turn in found) for name in contestants}


def seconds(job: Callable[[], object]) -> float:
    """Processor time of this thread."""
    start = thread_time()
    job()
    return thread_time() - start


def looped(policy: Any, k: int, rounds: int, *, dense: bool = False) -> float:
    """Seconds a round in the compiled loop."""
    actions, log, means = problem(k)
    draws = np.random.default_rng(1).random(rounds)
    with recognising(not dense):
        agent = policy.start(actions, log, rng=0)
    return seconds(lambda: agent.play(means, draws, bernoulli=True)) / rounds


def from_python(policy: Any, k: int, rounds: int) -> float:
    """Seconds a round by select and update."""
    actions, log, means = problem(k)
    agent, draws = policy.start(actions, log, rng=0), np.random.default_rng(1).random(rounds).tolist()

    def play() -> None:
        for draw in draws:
            arm = agent.select()
            agent.update(arm, float(draw < means[arm]))

    return seconds(play) / rounds


def started(policy: Any, k: int) -> float:
    """Seconds to start an agent."""
    actions, log, _ = problem(k)
    return seconds(lambda: policy.start(actions, log, rng=0))


def hundred_arms(turns: int) -> Iterator[Row]:
    """k = 100: the loop of every policy, and of LinUCB with all the zeros."""
    contestants = {name: partial(looped, policy, 100, 20_000) for name, policy in POLICIES.items()}
    contestants["dense"] = partial(looped, POLICIES[LINUCB], 100, 5_000, dense=True)
    best = fastest(contestants, turns)
    for name in POLICIES:
        yield Row(f"k = 100: {name}, loop", best[name] * 1e6, "µs a round", "<= 1" if name in ONE_HOT else "")
    yield Row("k = 100: LinUCB with all the zeros, loop", best["dense"] * 1e6, "µs a round")
    yield Row(
        "k = 100: LinUCB against itself with all the zeros", best["dense"] / best[LINUCB], "times faster"
    )
    yield Row("k = 100: UCB1 against LinUCB", best["UCB1"] / best[LINUCB], "times the time")


ONE_HOT = ("UCB1", "HUCB1", "MinUCB", "OtO")


def ten_thousand_arms(turns: int) -> Iterator[Row]:
    """k = 10,000: start, rounds, memory."""
    k = 10_000
    loops = fastest({name: partial(looped, policy, k, 500) for name, policy in POLICIES.items()}, turns)
    starts = fastest({name: partial(started, policy, k) for name, policy in POLICIES.items()}, turns)
    calls = fastest({name: partial(from_python, POLICIES[name], k, 200) for name in (LINUCB, "UCB1")}, turns)
    for name in POLICIES:
        yield Row(f"k = 10,000: {name}, loop", loops[name] * 1e6, "µs a round", "< 1000")
    for name in calls:
        yield Row(f"k = 10,000: {name}, select and update from Python", calls[name] * 1e6, "µs a round")
    for name in POLICIES:
        yield Row(f"k = 10,000: {name}, start", starts[name] * 1e3, "ms")
    actions, log, _ = problem(k)
    state = POLICIES[LINUCB].start(actions, log, rng=0).running.state
    yield Row("k = 10,000: memory of one agent", sum(array.nbytes for array in state.arrays) / 1e6, "MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="turns of each contestant")
    options = parser.parse_args()
    print(f"cores: {os.cpu_count()}, load at the start: {os.getloadavg()[0]:.1f}, turns: {options.rounds}")
    looped(POLICIES[LINUCB], 10, 10)  # compiled code is loaded before anything is timed
    rows = []
    for part in (hundred_arms, ten_thousand_arms):
        for row in part(options.rounds):
            print(f"{row.what:58s} {row.value:10.2f} {row.unit:16s} {row.target}", flush=True)
            rows.append(row._asdict())
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
