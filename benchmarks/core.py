"""How fast the core is, as ratios measured in one run: python benchmarks/core.py [--json FILE] [--rounds N].

Contestants take turns, `--rounds` times each, and the fastest turn of each counts: what disturbs a shared
machine only ever adds time. A contestant has one thread, BLAS included, and is charged the processor time of
that thread; two threads, and fresh processes, are timed by the clock on the wall.
"""

from __future__ import annotations

import os

# BLAS reads its settings when NumPy is imported.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from floor import Floor
from reference_numpy import Floats, NumpyAgent, by_gemm, by_gemm_and_sum, play

import linoto
from linoto.core.agent import Agent
from linoto.core.slices import slicing
from linoto.core.whitening import whitening

Name = TypeVar("Name")
EXACT = "LinOtO, exact budget"
POLICIES = {
    EXACT: linoto.LinOtO(),
    "LinOtO, aggregate budget": linoto.LinOtO(budget="aggregate"),
    "LinOtO, max budget": linoto.LinOtO(budget="max"),
    "LinUCB": linoto.LinUCB(scale=1.0, confidence=linoto.PAPER),
    "LinLCB": linoto.LinLCB(confidence=linoto.PAPER),
    "LinTS": linoto.LinTS(),
    "Greedy": linoto.Greedy(),
    "Random": linoto.Random(),
}
WHITENED = EXACT, "LinUCB", "LinLCB", "Greedy"  # these learn in the coordinates of the last refresh
FRESH_PROCESS = """
import json
from time import perf_counter
start = perf_counter()
import numpy as np
import linoto
linoto.LinOtO, linoto.Offline
imported = perf_counter()
agent = linoto.LinOtO().start(np.eye(3), linoto.Offline(pulls=[9, 9, 0], reward_sums=[4.0, 5.0, 0.0]), rng=0)
started = perf_counter()
agent.decide()
decided = perf_counter()
agent.update(0, 1.0)
agent.play(np.zeros(3), np.zeros(1))
done = perf_counter()
print(json.dumps({"import": imported - start, "start": started - imported, "decide": decided - started,
                  "first decision": decided - start, "everything": done - start}))
"""


class Row(NamedTuple):
    """One measured number."""

    what: str
    value: float
    unit: str
    target: str = ""  # what we hold ourselves to


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The paper's instance at some size: arms and parameter on the sphere, 100 logged pulls of ten arms."""

    bandit: linoto.LinearBandit
    offline: linoto.Offline
    draws: Floats  # (n,) the noise

    @classmethod
    def draw(cls, *, k: int, d: int, n: int) -> Problem:
        rng = np.random.default_rng(0)
        bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
        pulls = linoto.logged_pulls(bandit, rng=rng)
        return cls(bandit=bandit, offline=bandit.log(pulls, rng), draws=bandit.draw(n, rng))

    def start(self, policy: linoto.Policy) -> Agent:
        agent: Agent = policy.start(self.bandit.actions, self.offline, rng=0)
        return agent

    def start_numpy(self, **options: Any) -> NumpyAgent:
        return NumpyAgent(self.bandit.actions, self.offline, **options)

    @property
    def memory(self) -> float:
        """Kilobytes of one agent's state."""
        return sum(array.nbytes for array in self.start(linoto.LinOtO()).running.state.arrays) / 1e3


def fastest(contestants: dict[Name, Callable[[], float]], rounds: int) -> dict[Name, float]:
    """The least seconds of each, all taking turns. A contestant times itself, so that preparing is free."""
    turns = [{name: contestant() for name, contestant in contestants.items()} for _ in range(rounds)]
    return {name: min(turn[name] for turn in turns) for name in contestants}


def seconds(job: Callable[[], object], clock: Callable[[], float] = thread_time) -> float:
    start = clock()
    job()
    return clock() - start


def race(problem: Problem, rounds: int) -> dict[str, float]:
    """Microseconds per round: NumPy, one decision at a time, every policy's loop, and the floor."""
    means, draws = problem.bandit.means, problem.draws
    k, d = problem.bandit.actions.shape
    floor = Floor(k, d)

    def looped(policy: linoto.Policy) -> float:
        agent = problem.start(policy)
        return seconds(lambda: agent.play(means, draws))

    def by_hand(agent: linoto.Agent) -> float:
        return seconds(lambda: play(agent, means, draws))

    def looped_plainly(policy: linoto.Policy) -> float:
        with whitening(False):
            return looped(policy)

    contestants: dict[str, Callable[[], float]] = {
        "NumPy LinOtO": lambda: by_hand(problem.start_numpy(gated=True)),
        "NumPy LinUCB": lambda: by_hand(problem.start_numpy(gated=False)),
        "from Python": lambda: by_hand(problem.start(linoto.LinOtO())),
        "floor": lambda: seconds(lambda: floor.run(draws.size)),
        **{name: partial(looped, policy) for name, policy in POLICIES.items()},
        **{f"{name}, plain": partial(looped_plainly, POLICIES[name]) for name in WHITENED},
    }
    return {name: time / draws.size * 1e6 for name, time in fastest(contestants, rounds).items()}


def check_same_arms(problem: Problem) -> None:
    """A faster wrong answer is no speed-up."""
    means, draws = problem.bandit.means, problem.draws
    for name, gated in ((EXACT, True), ("LinUCB", False)):
        expected = play(problem.start_numpy(gated=gated), means, draws)
        for arms in (
            problem.start(POLICIES[name]).play(means, draws)[0],
            play(problem.start(POLICIES[name]), means, draws),
        ):
            if not np.array_equal(arms, expected):
                raise AssertionError(f"{name} and NumPy differ in round {np.argmax(arms != expected) + 1}")


def loop(rounds: int) -> Iterator[Row]:
    """The compiled loop and one decision at a time, against NumPy and against the floor."""
    problem = Problem.draw(k=100, d=20, n=8000)
    check_same_arms(problem)
    best = race(problem, rounds)
    faster, each = "times faster", "µs a round"
    yield Row("LinOtO loop against NumPy", best["NumPy LinOtO"] / best[EXACT], faster, ">= 65, stretch 100")
    yield Row("LinUCB loop against NumPy", best["NumPy LinUCB"] / best["LinUCB"], faster)
    yield Row(
        "LinOtO select + update against NumPy", best["NumPy LinOtO"] / best["from Python"], faster, ">= 8"
    )
    yield Row("LinOtO select + update against the loop", best["from Python"] / best[EXACT], "times the loop")
    yield Row("LinOtO loop against the arithmetic floor", best[EXACT] / best["floor"], "times the floor")
    for name in WHITENED:
        gained = best[name] / best[f"{name}, plain"]
        yield Row(f"{name}, loop against plain coordinates", gained, "of the time", "<= 0.7")
    yield Row("arithmetic floor: kd + d² multiply-adds", best["floor"], each)
    yield from (Row(f"{name}, loop", best[name], each) for name in POLICIES)
    yield Row("LinOtO, select + update from Python", best["from Python"], each)
    yield Row("LinOtO in NumPy", best["NumPy LinOtO"], each)
    yield Row("LinUCB in NumPy", best["NumPy LinUCB"], each)
    yield Row("memory of one agent, at any horizon", problem.memory, "kB")


def many_arms(rounds: int) -> Iterator[Row]:
    """One decision at a time where the arms are many, against all widths anew by one matrix product."""
    warm, few, n = 100, 64, 1024  # rounds; a thousand hold two of the refreshes that come every 512
    problem = Problem.draw(k=10_000, d=50, n=n)
    means, draws = problem.bandit.means, problem.draws
    agent = problem.start(linoto.LinOtO())
    numpy = {form.__name__: problem.start_numpy(variances=form) for form in (by_gemm, by_gemm_and_sum)}
    # Unseen directions are met in the first rounds, and each refreshes: an agent at work is past them.
    arms = play(agent, means, draws[:warm])
    for name, other in numpy.items():
        if not np.array_equal(arms, play(other, means, draws[:warm])):
            raise AssertionError(f"LinOtO and NumPy {name} differ where the arms are many")

    def by_hand(agent: linoto.Agent, draws: Floats) -> float:
        return seconds(lambda: play(agent, means, draws)) / draws.size * 1e6

    contestants = {name: partial(by_hand, other, draws[:few]) for name, other in numpy.items()}
    best = fastest({"from Python": partial(by_hand, agent, draws), **contestants}, rounds)
    ours, einsum, product = best["from Python"], best["by_gemm"], best["by_gemm_and_sum"]
    yield Row("many arms: LinOtO select + update, gemm + einsum", einsum / ours, "times faster", ">= 10")
    yield Row("many arms: LinOtO select + update, gemm + sum", product / ours, "times faster")
    yield Row("many arms: LinOtO, select + update from Python", ours, "µs a round")
    yield Row("many arms: LinOtO in NumPy, gemm + einsum", einsum, "µs a round")
    yield Row("many arms: LinOtO in NumPy, gemm + sum", product, "µs a round")
    yield Row("many arms: memory of one agent, at any horizon", problem.memory, "kB")


def pauses(rounds: int) -> Iterator[Row]:
    """The longest round and the usual one where arms are many: with refreshes in slices, and all at once."""
    for policy, k, d in (
        (linoto.LinUCB(), 10_000, 200),
        (linoto.LinTS(), 1_000, 200),
        (linoto.LinTS(), 2_000, 400),
    ):
        yield from pauses_of(policy, k, d)


def pauses_of(policy: Any, k: int, d: int) -> Iterator[Row]:
    """The same of one policy and k arms of d features."""
    rng, n = np.random.default_rng(0), 1100  # two refreshes
    bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
    log = bandit.log(np.bincount(rng.integers(k, size=2 * k), minlength=k), rng)
    draws = bandit.draw(n, rng).tolist()

    def times(sliced: bool) -> Floats:
        with slicing(sliced):
            agent = policy.start(bandit.actions, log, rng=0)
        agent.look_at_every_arm()

        def one_round(draw: float) -> None:
            arm = agent.select()
            agent.update(arm, float(bandit.means[arm]) + draw)

        return np.array([seconds(partial(one_round, draw)) * 1e3 for draw in draws])

    size = f"{type(policy).__name__}, {k:,} x {d}"
    for name, sliced in (("in slices", True), ("at once", False)):
        found = times(sliced)
        longest, usual = found[100:].max(), float(np.median(found))
        goal = "<= 3" * (sliced and k == 10_000)
        yield Row(f"{size}, refresh {name}: a round, on average", found.mean(), "ms")
        yield Row(f"{size}, refresh {name}: the longest round", longest, "ms")
        yield Row(f"{size}, refresh {name}: longest / median", longest / usual, "times", goal)


def threads(rounds: int) -> Iterator[Row]:
    """Two simulations at once against one alone, and the same for bare arithmetic: what the cores allow."""
    problem = Problem.draw(k=100, d=20, n=8000)  # short: both cores must be free at once

    def simulation() -> Callable[[], object]:
        agent = problem.start(linoto.LinOtO())
        return lambda: agent.play(problem.bandit.means, problem.draws)

    def arithmetic() -> Callable[[], object]:
        floor = Floor(100, 20)
        return lambda: floor.run(32_000)

    with ThreadPoolExecutor(2) as pool:

        def timed(make: Callable[[], Callable[[], object]], jobs: int) -> float:
            ready = [make() for _ in range(jobs)]
            return seconds(lambda: list(pool.map(lambda job: job(), ready)), perf_counter)

        pairs = {(make.__name__, jobs): (make, jobs) for make in (simulation, arithmetic) for jobs in (1, 2)}
        best = fastest({name: partial(timed, *pair) for name, pair in pairs.items()}, 20 * rounds)
    for name, target in (("simulation", ">= 1.8 on two free cores"), ("arithmetic", "")):
        gain = 2 * best[name, 1] / best[name, 2]
        yield Row(f"two threads against one: {name}", gain, "times the throughput", target)


def processes(rounds: int) -> Iterator[Row]:
    """The first decision of a fresh process: with compiled code on disk, and on a new machine."""
    warm = [fresh_process({}) for _ in range(rounds)]
    best = {step: min(run[step] for run in warm) for step in warm[0]}
    for step in ("import", "start", "decide"):
        yield Row(f"fresh process, warm cache: {step}", best[step], "s")
    yield Row("fresh process, warm cache: to the first decision", best["first decision"], "s", "about 1")
    with tempfile.TemporaryDirectory() as empty:
        cold = fresh_process({"NUMBA_CACHE_DIR": empty})
    yield Row("new machine: compile, to the first decision", cold["first decision"], "s, once")
    yield Row("new machine: compile, the simulator's loop too", cold["everything"], "s, once")


def fresh_process(environment: dict[str, str]) -> dict[str, float]:
    root = Path(linoto.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS],
        env=os.environ | environment, cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout)
    return result


def show(row: Row) -> None:
    print(f"{row.what:50s} {row.value:10.2f} {row.unit:20s} {row.target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="turns of each contestant")
    options = parser.parse_args()
    load = round(os.getloadavg()[0], 1)  # other people's work, which two threads feel most
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "load at the start": load}
    versions = {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}
    for fact, value in {**machine, **versions, "turns of each": options.rounds}.items():
        print(f"{fact}: {value}")
    rows = []
    for part in (loop, many_arms, pauses, threads, processes):
        for row in part(options.rounds):
            show(row)
            rows.append(row._asdict())
    if options.json:
        facts = {"machine": machine, "versions": versions, "rounds": options.rounds, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
