"""What of `linoto reproduce all` one core must do alone, and what that allows on many (Amdahl).

    nice -n 10 python benchmarks/cores.py --runs 4 --at 120 --cores 16

Processor seconds of one thread, so that a busy machine changes little. A run of every policy in every setting
is split into what kernels do, which leave the interpreter to others, and the rest, for which threads wait on
each other. What the parent of processes does for a finished run, and each file of the report, is measured by
itself, with few runs and with twice as many, and continued along the line through both. The speeds on many
cores are computed from that, not measured.
"""

from __future__ import annotations

import argparse
import cProfile
import pickle
import pstats
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from linoto.experiments import paper, sentences
from linoto.experiments.cells import CellStore
from linoto.experiments.claims import check_claims
from linoto.experiments.results import Results
from linoto.experiments.run import all_cells, describe, run_cell, run_experiment
from linoto.pages.figures import experiments as figures
from linoto.pages.figures.pieces import save
from linoto.pages.report import write_csv, write_curves

EXPERIMENTS = [experiment for name in paper.FIGURES for experiment in paper.FIGURES[name]]


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of this thread, and what came out."""
    start = time.thread_time()
    found = work()
    return time.thread_time() - start, found


def of_cells() -> dict[str, float]:
    """One run of everything: kernels, what holds the interpreter, what a parent of processes does."""
    cells = [cell for experiment in EXPERIMENTS for cell in all_cells(experiment, 1)]
    for cell in cells:
        run_cell(cell, 0)  # compiled or loaded
    whole, found = seconds(lambda: [run_cell(cell, 0) for cell in cells])
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(lambda: [run_cell(cell, 0) for cell in cells])
    inside: Any = pstats.Stats(profile)
    kernels = sum(
        times[2] for (file, _, name), times in inside.stats.items() if name == "play" and "kernels" in file
    )
    sent, _ = seconds(
        lambda: [
            pickle.loads(pickle.dumps((cell, result))) for cell, result in zip(cells, found, strict=True)
        ]
    )
    kept, _ = seconds(lambda: keep(found))
    return {"kernels": kernels, "rest of runs": whole - kernels, "parent of processes": sent + kept}


def keep(found: list[Any]) -> None:
    """Store finished cells in a file, as a run does."""
    left = iter(found)
    with TemporaryDirectory() as folder:
        for experiment in EXPERIMENTS:
            counts = {setting.name: len(setting.metrics) for setting in experiment.settings}
            path = Path(folder) / f"{experiment.name}.sqlite"
            store = CellStore.open(path, resume=False, keys=describe(experiment, 0), metrics=counts)
            for cell in all_cells(experiment, 1):
                store.append(cell.setting.name, cell.label, 0, next(left))


def of_report(runs: int) -> dict[str, float]:
    """Every part of the report of so many runs."""
    results = [run_experiment(experiment, runs=runs) for experiment in EXPERIMENTS]
    with TemporaryDirectory() as folder:
        out = Path(folder)

        def each(work: Callable[[Results], Any]) -> float:
            return seconds(lambda: [work(result) for result in results])[0]

        by_name = {result.experiment.name: result for result in results}
        return {
            "curves as CSV": each(lambda r: write_csv(out / f"{r.experiment.name}.text", r.rows())),
            "curves as Parquet": each(lambda r: write_curves(r, out, False)),
            "figures": each(lambda r: save(figures.draw(r), out / r.experiment.name)),
            "tables": each(lambda r: (r.table(), r.final_rows())),
            "claims": seconds(lambda: check_claims(sentences.CLAIMS, by_name))[0],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="measured, and twice as many")
    parser.add_argument("--at", type=int, default=120, help="runs that are computed")
    parser.add_argument("--cores", type=int, default=16, help="cores that are computed")
    a = parser.parse_args()
    of_report(1)  # imports
    cells, few, more = of_cells(), of_report(a.runs), of_report(2 * a.runs)
    known = {name: value * a.at for name, value in cells.items()}
    for name, value in few.items():
        known[name] = max(value + (more[name] - value) / a.runs * (a.at - a.runs), more[name])
    for name, value in known.items():
        print(f"{name:<22}{value:8.1f} s of processor at {a.at} runs")
    after = ("figures", "tables", "claims")
    shares = {
        "threads, CSV (0.3)": (known["rest of runs"], ("curves as CSV", *after), known["kernels"]),
        "threads, Parquet": (known["rest of runs"], ("curves as Parquet", *after), known["kernels"]),
        "processes, Parquet": (
            known["parent of processes"],
            ("curves as Parquet", *after),
            known["kernels"] + known["rest of runs"],
        ),
    }
    for name, (held, report, spread) in shares.items():
        alone = sum(known[part] for part in report)
        total = held + alone + spread
        wall = max(held, (held + spread) / a.cores) + alone  # what is held overlaps with what is spread
        print(
            f"{name:<20} alone {held + alone:6.1f} of {total:6.1f} s ({(held + alone) / total:.1%}): "
            f"{total / wall:.1f} of {a.cores} cores busy, computed"
        )


if __name__ == "__main__":
    main()
