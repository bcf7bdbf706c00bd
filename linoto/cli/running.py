"""Experiments from the command line: options, one bar for each, and the report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from linoto.cli.terminal import positive, print_table, print_written, progress, result_row, seed
from linoto.cli.usage import Parser, add_engine, engine_of

if TYPE_CHECKING:
    from linoto.experiments.claims import CheckedClaim, Claim
    from linoto.experiments.results import Results
    from linoto.experiments.settings import Experiment


SHORT = 24  # characters in which parts of a sentence are named in the terminal; the report names them all


def add_runner_options(command: Parser, *, out: str, runs: int = 5, curves: bool = True) -> None:
    """What every experiment can be told."""
    command.add_argument("--runs", type=positive, default=runs, help="independent runs of each policy")
    command.add_argument("--seed", type=seed, default=0, help="of everything random")
    add_engine(command, jobs="runs at a time")
    command.add_argument("--out", type=Path, default=Path(out), help="folder for everything written")
    command.add_argument("--resume", action="store_true", help="keep the runs already finished there")
    if curves:
        command.add_argument(
            "--csv", action="store_true", help="write the curves as CSV too (default: Parquet)"
        )
    command.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run_and_report(
    experiments: Sequence[Experiment],
    claims: Sequence[Claim],
    arguments: argparse.Namespace,
    *,
    title: str,
    command: str,
) -> None:
    """Run experiments, check the claims about them and write the report, with the folder locked."""
    from linoto.experiments.cells import folder_lock
    from linoto.experiments.claims import check_claims

    with folder_lock(arguments.out):
        results = run_all(experiments, arguments)
        checked = check_claims(claims, {result.experiment.name: result for result in results})
        publish(results, checked, arguments, title=title, command=command)


def run_all(experiments: Sequence[Experiment], arguments: argparse.Namespace) -> list[Results]:
    """Run experiments one after the other, with one bar for each."""
    from linoto.experiments.run import run_experiment
    from linoto.pages.shell import check_installed

    results = []
    check_installed()  # fails before hours of work, not after
    for experiment in experiments:
        with progress(experiment.name) as track:
            result = run_experiment(
                experiment,
                runs=arguments.runs,
                seed=arguments.seed,
                out=arguments.out,
                resume=arguments.resume,
                track=track,
                engine=engine_of(arguments),
            )
        say_what_was_there(result)
        results.append(result)
    return results


def say_what_was_there(result: Results) -> None:
    """What became of earlier runs in the folder, on stderr."""
    name, store = result.experiment.name, result.store
    if store.replaced:
        kept = "--resume would have kept what still applies"
        print(f"{name}: {store.replaced} earlier runs were replaced; {kept}", file=sys.stderr)
    if store.runs > result.runs:
        shown = f"the report shows the first {result.runs}, as asked"
        print(f"{name}: {store.runs} runs are finished there; {shown}", file=sys.stderr)
    if store.old_file:
        print(f"{store.old_file} is of an earlier version: it was not read and not changed", file=sys.stderr)


def publish(
    results: Sequence[Results],
    checked: Sequence[CheckedClaim],
    arguments: argparse.Namespace,
    *,
    title: str,
    command: str,
) -> None:
    """Write the report and say what is in it."""
    from linoto.pages.report import write_report

    with_bounds = getattr(arguments, "bounds", False)
    line = f"{command} --runs {arguments.runs} --seed {arguments.seed}{' --bounds' if with_bounds else ''}"
    paths = write_report(
        results,
        checked,
        arguments.out,
        title=title,
        command=line,
        with_bounds=with_bounds,
        as_csv=arguments.csv,
    )
    if arguments.json:
        tables = {result.experiment.name: result.table() for result in results}
        found = [one.to_dict() for one in checked]
        facts = {"command": line, "runs": arguments.runs, "seed": arguments.seed, "tables": tables}
        print(json.dumps({**facts, "claims": found, "wrote": [str(path) for path in paths]}))
        return
    if not checked:
        for result in results:
            print_table([{"setting": row["setting"], **result_row(row)} for row in result.table()])
    else:
        print_table([row for found in checked for row in claim_rows(found)])
        print(f"\n{count_text(checked)}")
        for claim in checked:
            for label, other in claim.changed_by_exact.items():
                print(f"with the exact budget, {claim.claim.name}, {label}: {other}")
    print_written(paths)


def claim_rows(found: CheckedClaim) -> list[dict[str, str]]:
    """A line for each result that parts of a sentence have."""
    rows: list[dict[str, str]] = []
    for result, labels in found.parts.items():
        parts, total = "; ".join(labels), len(found.measurements)
        if len(labels) == total > 1:
            parts = f"all {total} parts"
        elif len(parts) > SHORT:
            parts = f"{len(labels)} of {total} parts" if total > 1 else ""
        rows.append({"claim": "" if rows else found.claim.name, "part": parts, "result": result})
    return rows


def count_text(checked: Sequence[CheckedClaim]) -> str:
    """How many parts have which result."""
    from linoto.pages.report import count_parts

    counts = count_parts(checked)
    words = ", ".join(f"{name}: {counts[name]}" for name in ("holds", "does not hold", "undecided"))
    return f"{counts.total()} parts of {len(checked)} claims: {words}"
