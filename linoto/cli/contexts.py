"""`linoto audit-contexts`: whether to build on a log with user columns, and what its own model would earn."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.evaluate import cautions_on, row_of
from linoto.cli.outputs import (
    FAILING,
    add_allowance,
    add_assumed,
    add_horizon,
    add_outputs,
    check_first,
    fail_on,
    horizon_again,
    limits_of,
    print_found,
    print_json,
    save,
    with_known_columns,
)
from linoto.cli.reading import (
    add_format,
    add_reading_options,
    known_format,
    named_columns,
    read_known,
)
from linoto.cli.terminal import (
    positive,
    print_facts,
    print_table,
    print_written,
    progress,
)
from linoto.cli.usage import Commands, Parser, add_command, add_engine, engine_of, typed_again

if TYPE_CHECKING:
    from linoto.audit.audit import Audit
    from linoto.logs.estimates import Estimate
    from linoto.logs.read import Log
    from linoto.logs.rows import Rows

DESCRIPTION = """\
Read a log with contexts (who asked, what was played, what it earned), and say whether to build on
it: which directions of its features it knows, whether contexts explain more than the means of
items do, noise, drift, propensities against what was played, what would be promised with contexts,
and a verdict with its reasons.
With --propensity it also says what the best items by its own linear model would have earned.

LOG is one row per decision: CSV, Parquet or JSON lines, one file or many ('log-*.parquet').
Columns of the context are numbers (--numeric) or words (--category); --cross lets a column
change which item is best. A log of vowpalwabbit (reward = -cost) or the Open Bandit Dataset
(--format) needs no options: all its columns are taken, unless some are named."""

EXAMPLES = """\
  linoto audit-contexts clicks.csv --item item --reward click --numeric age --category country \\
    --cross item country --propensity p --out audit.html --save clicks.npz
  linoto audit-contexts all.csv --format open-bandit"""
VALUES = (
    "format",
    "item",
    "reward",
    "propensity",
    "time",
    "where",
    "decimal",
    "thousands",
    "min_count",
    "budget",
    "epsilon",
    "noise",
    "bound",
)


def add_audit_contexts(commands: Commands) -> None:
    """`linoto audit-contexts`."""
    command = add_command(
        commands,
        "audit-contexts",
        help="whether a log with user columns can be trusted, and what its model would earn",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    add_columns(command)
    add_outputs(command, FAILING[1:])
    command.set_defaults(run=run_audit_contexts, refuse=command.error)


def add_columns(command: Parser) -> None:
    """The log, and what its columns mean."""
    command.add_argument("log", metavar="LOG", help="the log: a file, or a pattern in quotes")
    command.add_argument("--item", metavar="COL", help="column of what was played; a table needs it")
    command.add_argument("--reward", metavar="COL", help="column of what it earned; a table needs it")
    several: dict[str, Any] = {"action": "append", "default": []}
    command.add_argument("--numeric", metavar="COL", help="a column of numbers; may be repeated", **several)
    command.add_argument("--category", metavar="COL", help="a column of words; may be repeated", **several)
    command.add_argument(
        "--cross", nargs=2, metavar=("COL", "COL"), help="two columns to multiply; may be repeated", **several
    )
    command.add_argument("--propensity", metavar="COL", help="column of how likely the item was")
    command.add_argument("--time", metavar="COL", help="column that says what is early (default: rows)")
    command.add_argument(
        "--min-count", type=positive, help="rows that a level needs for a feature of its own (default: 1)"
    )
    command.add_argument("--skip-bad", action="store_true", help="drop bad rows and count them")
    add_allowance(
        command, "a budget of 100 times the noise, or a tenth of what the log earned if that is less"
    )
    add_horizon(command)
    add_assumed(command)
    add_format(command)
    add_reading_options(command)
    add_engine(command, jobs="threads that read")
    command.add_argument(
        "--rows",
        type=positive,
        default=500_000,
        help="rows that are held in memory to judge the model; a longer log is judged without",
    )


def run_audit_contexts(arguments: argparse.Namespace) -> None:
    """`linoto audit-contexts`."""
    known_format(arguments, ("item", "reward"))
    check_first(arguments, [arguments.log])
    audit, estimates = with_known_columns(make_audit, arguments)
    paths = write_files(audit, estimates, arguments)
    if arguments.json:
        print_json({**audit.to_dict(), "greedy": [found.to_dict() for found in estimates]}, paths)
    else:
        print_found(audit.facts(), arguments)
        if estimates:
            print("\nWhat the best items by the log's own model would have earned:")
            print_table([row_of(found) for found in estimates])
            if cautions := cautions_on(estimates):
                print_facts(cautions)
        print_written(paths)
    fail_on(audit.verdict, arguments)


def make_audit(arguments: argparse.Namespace) -> tuple[Audit, list[Estimate]]:
    """Read the log and look at it."""
    from linoto.audit.audit import audit_log
    from linoto.logs.estimates import Interval
    from linoto.logs.evaluate import evaluate

    log, rows = read_both(arguments)
    limits = limits_of(arguments)
    audit = audit_log(
        log,
        rows,
        noise=arguments.noise,
        bound=arguments.bound,
        reward_range=limits,
        budget=arguments.budget,
        epsilon=arguments.epsilon,
        horizon=arguments.horizon,
    )
    if rows is None or rows.propensities is None or rows.all_certain:
        return audit, []
    return audit, evaluate(rows, "greedy", interval=Interval(reward_range=limits))


def read_both(arguments: argparse.Namespace) -> tuple[Log, Rows | None]:
    """The statistics of a log, and its rows where they are few enough and none is bad."""
    from linoto.logs.read import read_log
    from linoto.logs.read_rows import read_rows

    columns = named_columns(arguments)
    wanted = {
        "numeric": arguments.numeric,
        "categories": arguments.category,
        "crosses": [(one, other) for one, other in arguments.cross],
        "min_count": arguments.min_count or 1,
        "skip_bad": arguments.skip_bad,
        "engine": engine_of(arguments),
    }
    other = None if known_format(arguments, ()) is None else read_known(arguments)
    read = partial(read_log, arguments.log) if other is None else partial(other.log, contexts=True)
    with progress("reading") as track:
        log = read(**wanted, track=track, **columns)
    if log.offline.total > arguments.rows or log.offline.total < log.rows:
        return log, None
    columns.pop("item", None)
    again = partial(read_rows, arguments.log) if other is None else other.rows
    return log, again(recipe=log.recipe, **columns)


def write_files(audit: Audit, estimates: list[Estimate], arguments: argparse.Namespace) -> list[Path]:
    """The page and the statistics, where they were asked for."""
    paths: list[Path] = []
    if arguments.out is not None:
        from linoto.pages.audit import write_audit

        source = Path(arguments.log).name
        shown: dict[str, Any] = {"source": source, "command": command_of(arguments)}
        shown["cautions"] = [text for _, text in cautions_on(estimates)]
        rows = [row_of(found) for found in estimates]
        paths.append(write_audit(arguments.out, audit, rows, **shown))
    return paths + save(audit.saved, arguments)


def command_of(arguments: argparse.Namespace) -> str:
    """The command as it would be typed again: names of files without their folders."""
    return shlex.join(["linoto", "audit-contexts", Path(arguments.log).name, *columns_again(arguments)])


def columns_again(arguments: argparse.Namespace) -> list[str]:
    """The options of the log as they would be typed again."""
    words = typed_again(arguments, VALUES)
    for option in ("numeric", "category"):
        for column in getattr(arguments, option):
            words += [f"--{option}", column]
    for one, other in arguments.cross:
        words += ["--cross", one, other]
    return [*words, *typed_again(arguments, ("reward_range", "skip_bad")), *horizon_again(arguments)]
