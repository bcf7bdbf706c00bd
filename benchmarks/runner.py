"""What the experiment runner adds to its kernels: python benchmarks/runner.py [--only PART] [--json FILE].

The same cells twice: through `run_experiment` with a results file, and as bare calls of the compiled loop on
prepared agents. One job is charged processor time, which other people's work does not touch; one job per core
is timed by the clock on the wall, against the bare calls on as many threads and against their processor time
divided by the cores. Contestants take turns and the fastest turn of each counts.

`compare` is measured alike, on one of its problems with every policy that can play it, at the 30 runs of the
published league: the comparison itself, and with its page and figure, as the command does it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

import linoto
from linoto.engines import Engine, cores
from linoto.experiments.compare import choose, compare, everyone, problems
from linoto.experiments.paper import contenders
from linoto.experiments.run import Cell, draw_instance, run_experiment
from linoto.experiments.settings import Experiment, Setting

RUNS = 12
LEAGUE_RUNS = 30
SETTING = Setting(name="default", policies=contenders())
EXPERIMENT = Experiment(name="bench", settings=(SETTING,))
CELLS = [Cell(SETTING, label, run) for run in range(RUNS) for label in SETTING.labels]
COMPILED = [label for label in everyone(None, False) if not label.startswith("OOPE")]  # which plays in Python
MANY_RUNS = """
import resource, tempfile
from pathlib import Path
from linoto.experiments.run import Experiment, Setting, run_experiment
from linoto.experiments.paper import contenders
from linoto.pages.report import write_report
setting = Setting(name="default", k=20, d=5, horizon=200, policies=contenders())
with tempfile.TemporaryDirectory() as out:
    results = run_experiment(Experiment(name="many", settings=(setting,)), runs={runs}, out=out)
    write_report([results], [], Path(out), title="many", command="")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


class Row(NamedTuple):
    """One measured number."""

    what: str
    value: float
    unit: str
    target: str = ""  # what we hold ourselves to


def fastest(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The least seconds of each, all taking turns. A contestant times itself, so that preparing is free."""
    turns = [{name: contestant() for name, contestant in contestants.items()} for _ in range(rounds)]
    return {name: min(turn[name] for turn in turns) for name in contestants}


def bare(jobs: int, clock: Callable[[], float], cells: list[Cell] = CELLS) -> float:
    """Every cell as one call of the compiled loop on an agent that is ready."""
    ready = []
    for cell in cells:
        bandit, offline, seed = draw_instance(cell.setting, 0, cell.run)
        agent = cell.setting.policy(cell.label).start(bandit.actions, offline, rng=seed)
        ready.append((agent, bandit.means, bandit.draw(cell.setting.horizon, np.random.default_rng(seed))))

    def play(cell: tuple[Any, Any, Any]) -> None:
        agent, means, draws = cell
        agent.play(means, draws)

    start = clock()
    if jobs == 1:
        for cell in ready:
            play(cell)
    else:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(play, ready))
    return clock() - start


def harness(jobs: int, clock: Callable[[], float]) -> float:
    """The same cells through the runner, kept in a file."""
    with tempfile.TemporaryDirectory() as out:
        start = clock()
        run_experiment(EXPERIMENT, runs=RUNS, engine=Engine(jobs=jobs), out=out)
        return clock() - start


def overhead(rounds: int) -> Iterator[Row]:
    """The runner against its kernels."""
    jobs = cores()
    harness(1, perf_counter)  # load or compile
    best = fastest(
        {
            "bare, cpu": lambda: bare(1, process_time),
            "runner, cpu": lambda: harness(1, process_time),
            "bare, threads": lambda: bare(jobs, perf_counter),
            "runner, threads": lambda: harness(jobs, perf_counter),
        },
        rounds,
    )
    bar = "<= 1.30"
    ideal = best["bare, cpu"] / jobs
    yield Row(
        "runner, one job: processor time of the kernels",
        best["runner, cpu"] / best["bare, cpu"],
        "times",
        bar,
    )
    yield Row(
        f"runner, {jobs} jobs: kernels on {jobs} threads",
        best["runner, threads"] / best["bare, threads"],
        "times",
        bar,
    )
    yield Row(
        f"runner, {jobs} jobs: kernel time / cores",
        best["runner, threads"] / ideal,
        "times",
        f"{bar} on free cores",
    )
    yield Row(
        "kernels, mean of the four policies", best["bare, cpu"] / (len(CELLS) * 8000) * 1e6, "µs a round"
    )


def league(setting: Setting, runs: int, *, page: bool) -> float:
    """The processor time of a comparison, kept in a file, with or without its page and figure."""
    from linoto.pages.compare import write_comparison

    with tempfile.TemporaryDirectory() as out:
        start = process_time()
        found = compare([setting], runs=runs, engine=Engine(jobs=1), out=out)
        if page:
            write_comparison(Path(out), found, command="linoto compare")
        return process_time() - start


def comparison(rounds: int, policies: Sequence[str], runs: int) -> Iterator[Row]:
    """`linoto compare` against its kernels."""
    setting = problems(choose(dict.fromkeys(policies)))["poor log"]
    cells = [Cell(setting, label, run) for run in range(runs) for label in setting.labels]
    league(setting, 2, page=True)  # load or compile
    best = fastest(
        {
            "bare": lambda: bare(1, process_time, cells),
            "compare": lambda: league(setting, runs, page=False),
            "command": lambda: league(setting, runs, page=True),
        },
        rounds,
    )
    size = f"{len(setting.labels)} policies, {runs} runs, {setting.horizon} rounds"
    yield Row(f"kernels, {size}", best["bare"], "s")
    yield Row("compare: processor time of the kernels", best["compare"] / best["bare"], "times", "<= 1.30")
    yield Row("compare, page and figure: the same", best["command"] / best["bare"], "times")


def memory(_rounds: int) -> Iterator[Row]:
    """The most memory a fresh process ever held, report included."""
    for runs in (10, 5000):
        root = Path(linoto.__file__).parents[1]
        done = subprocess.run(
            [sys.executable, "-c", MANY_RUNS.format(runs=runs)],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        yield Row(f"memory, {runs} runs of four policies", float(done.stdout), "MB", "< 500")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="turns of each contestant")
    parser.add_argument("--runs", type=int, default=LEAGUE_RUNS, metavar="N", help="runs of a comparison")
    parser.add_argument(
        "--policy", action="append", choices=COMPILED, help="who is compared (default: everybody)"
    )
    parser.add_argument("--only", choices=("overhead", "compare", "memory"), help="one part (default: all)")
    options = parser.parse_args()
    compared = partial(comparison, policies=options.policy or COMPILED, runs=options.runs)
    parts = {"overhead": overhead, "compare": compared, "memory": memory}
    load = round(os.getloadavg()[0], 1)
    machine = {"cores": cores(), "architecture": platform.machine(), "load at the start": load}
    for fact, value in {**machine, "turns of each": options.rounds}.items():
        print(f"{fact}: {value}")
    rows = []
    for name in [options.only] if options.only else parts:
        for row in parts[name](options.rounds):
            print(f"{row.what:50s} {row.value:10.2f} {row.unit:20s} {row.target}", flush=True)
            rows.append(row._asdict())
    if options.json:
        facts = {"machine": machine, "rounds": options.rounds, "rows": rows}
        options.json.write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
        print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
