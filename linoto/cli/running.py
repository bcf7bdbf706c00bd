"""Experiments from the command line: options, one bar for each, and the report."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.terminal import positive, print_table, print_written, progress, result_row, seed
from linoto.cli.usage import add_engine, engine_of

if TYPE_CHECKING:
    from linoto.experiments.claims import CheckedClaim, Claim
    from linoto.experiments.results import Results
    from linoto.experiments.settings import Experiment


def add_runner_options(command: Any, *, out: str) -> None:
    """What every experiment can be told."""
    command.add_argument("--runs", type=positive, default=5, help="independent runs of each policy")
    command.add_argument("--seed", type=seed, default=0, help="of everything random")
    add_engine(command, jobs="runs at a time")
    command.add_argument("--out", type=Path, default=Path(out), help="folder for everything written")
    command.add_argument("--resume", action="store_true", help="keep the runs already finished there")
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
    paths = write_report(results, checked, arguments.out, title=title, command=line, with_bounds=with_bounds)
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
        print_table([claim_row(found) for found in checked])
    print_written(paths)


def claim_row(found: CheckedClaim) -> dict[str, str]:
    """A line of the table of claims; the exact budget is named where it would change the result."""
    other = found.exact if found.exact != found.result else None
    return {
        "claim": found.claim.name,
        "result": found.result + (f" (with the exact budget: {other})" if other else ""),
    }
