"""`linoto audit`: whether to build on a log, before anything is built on it."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.evaluate import cautions_on, row_of
from linoto.cli.outputs import (
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
    add_arm_effects,
    add_arms_notation,
    add_context,
    add_format,
    add_id,
    add_item,
    add_reading_options,
    arm_effects_again,
    context_again,
    context_of,
    files_read,
    has_context,
    known_format,
    named_columns,
    own_arms,
    read_known,
    read_known_arms,
)
from linoto.cli.terminal import positive, print_facts, print_table, print_written, progress
from linoto.cli.usage import Commands, Parser, add_command, add_engine, as_typed, engine_of

if TYPE_CHECKING:
    from linoto.audit.audit import Audit
    from linoto.logs.estimates import Estimate
    from linoto.logs.read import Log
    from linoto.logs.rows import Rows

DESCRIPTION = """\
Read a log, name what is wrong with it, and say whether to build on it: rows and arms, noise,
what the log cannot tell, whether rewards are linear in the features, whether they drift, what
is promised over a horizon, and a verdict with its reasons: deploy, deploy with arm effects, not
yet (something must be stated first, or the promise is worth nothing), or do not trust.

LOG is one row per decision: CSV, Parquet or JSON lines, one file or many ('log-*.parquet'), or a
log of vowpalwabbit (its costs become rewards: reward = -cost) or the Open Bandit Dataset (--format).
ARMS is one row per arm: its id in the first column, its features in the others; numbers are
taken as they are, words are one-hot encoded. Without ARMS, or without features, the arms are the
values of --item, and what one of them earns says nothing about the others.

Where it matters who asks, name columns of the context: numbers (--numeric) or words (--category);
--cross lets a column change which item is best. A log of another package knows its own
(--contexts). With --propensity it is also said what the best items by the log's own model earn.

The first bad row stops everything and is named; --skip-bad drops such rows and counts them."""

EXAMPLES = """\
  linoto audit orders.csv --item variant --reward order
  linoto audit log.csv --arms arms.csv --item arm --reward clicked --out audit.html
  linoto audit 'logs/*.parquet' --arms arms.parquet --item item --reward revenue --time at --skip-bad
  linoto audit log.csv --arms arms.csv --item arm --reward clicked --where "month >= 6" --decimal ,
  linoto audit clicks.csv --item item --reward click --numeric age --category country \\
    --cross item country --propensity p --save clicks.npz
  linoto audit decisions.dsjson --reward-range 0 1
  linoto audit all.csv --format open-bandit --contexts --json"""

VALUES = (
    "format",
    "item",
    "reward",
    "id",
    "propensity",
    "time",
    "where",
    "decimal",
    "thousands",
    "arms_decimal",
    "arms_thousands",
    "budget",
    "epsilon",
    "noise",
    "bound",
    "reward_range",
)
FLAGS = ("no_intercept", "normalise", "skip_bad")


def add_audit(commands: Commands) -> None:
    """`linoto audit`."""
    audit = add_command(
        commands,
        "audit",
        help="whether a log can be trusted: noise, fit, drift, coverage, and what it would promise",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    add_log_options(audit)
    add_outputs(audit)
    audit.set_defaults(run=run_audit, refuse=audit.error)


def add_log_options(audit: Parser) -> None:
    """The log, its arms, its contexts, and what is said of them."""
    audit.add_argument("log", metavar="LOG", help="the log: a file, or a pattern in quotes")
    audit.add_argument(
        "--arms", metavar="ARMS", help="the arms and their features (default: the values of --item)"
    )
    add_item(audit)
    audit.add_argument("--reward", metavar="COL", help="column of LOG with what it earned; a table needs it")
    add_context(audit)
    add_id(audit)
    audit.add_argument("--propensity", metavar="COL", help="column of LOG: how likely the arm was")
    audit.add_argument("--time", metavar="COL", help="column of LOG that says what is early (default: rows)")
    audit.add_argument(
        "--categorical",
        action="append",
        default=[],
        metavar="COL",
        help="a column of ARMS whose numbers are names",
    )
    audit.add_argument("--no-intercept", action="store_true", help="no constant feature")
    audit.add_argument("--normalise", action="store_true", help="scale features: no action longer than 1")
    add_arm_effects(audit)
    audit.add_argument("--skip-bad", action="store_true", help="drop bad rows and count them")
    add_allowance(audit, "what Gated allows")
    add_horizon(audit)
    add_assumed(audit)
    add_format(audit)
    add_reading_options(audit)
    add_arms_notation(audit)
    add_engine(audit, jobs="threads that read")
    audit.add_argument(
        "--rows",
        type=positive,
        default=500_000,
        help="rows of a log with contexts that are held in memory to judge its model; a longer log is judged "
        "without",
    )


def run_audit(arguments: argparse.Namespace) -> None:
    """`linoto audit`."""
    known_format(arguments, ("item", "reward"))
    check_first(arguments, files_read(arguments))
    audit, estimates = with_known_columns(make_audit, arguments)
    paths = write_files(audit, estimates, arguments)
    if arguments.json:
        greedy = {"greedy": [found.to_dict() for found in estimates]} if has_context(arguments) else {}
        print_json({**audit.to_dict(), **greedy}, paths)
    else:
        print_found(audit.facts(), arguments)
        print_estimates(estimates)
        print_written(paths)
    fail_on(audit.verdict, arguments)


def print_estimates(estimates: list[Estimate]) -> None:
    """What the log's own model would have earned, where its propensities tell."""
    if not estimates:
        return
    print("\nWhat the best items by the log's own model would have earned:")
    print_table([row_of(found) for found in estimates])
    if cautions := cautions_on(estimates):
        print_facts(cautions)


def make_audit(arguments: argparse.Namespace) -> tuple[Audit, list[Estimate]]:
    """Read the log, look at it, and if it has contexts judge its own model by its propensities."""
    from linoto.audit.audit import audit_log
    from linoto.logs.estimates import Interval
    from linoto.logs.evaluate import evaluate

    log, rows = read_both(arguments)
    limits = limits_of(arguments)
    audit = audit_log(
        log,
        rows,
        budget=arguments.budget,
        epsilon=arguments.epsilon,
        noise=arguments.noise,
        bound=arguments.bound,
        reward_range=limits,
        horizon=arguments.horizon,
    )
    if rows is None or rows.propensities is None or rows.all_certain:
        return audit, []
    return audit, evaluate(rows, "greedy", interval=Interval(reward_range=limits))


def read_both(arguments: argparse.Namespace) -> tuple[Log, Rows | None]:
    """The log of a table and its arms, or of another package; and with contexts its rows, if they are few
    enough and none is bad."""
    from linoto.logs.read import read_log
    from linoto.logs.read_rows import read_rows

    made = {
        "intercept": not arguments.no_intercept,
        "normalise": arguments.normalise,
        "arm_effects": arguments.arm_effects,
    }
    arms, contexts = own_arms(arguments, **made, categorical=arguments.categorical), has_context(arguments)
    columns, other = named_columns(arguments), None
    if known_format(arguments, ()) is None:
        read: Any = partial(read_log, arguments.log, arms=arms)
    else:
        plain = contexts and arms is None  # then the context tells items apart
        other = read_known(arguments) if plain else read_known_arms(arguments, arms, **made)
        read = partial(other.log, contexts=contexts)
    with progress("reading") as track:
        log = read(
            **columns,
            **context_of(arguments),
            skip_bad=arguments.skip_bad,
            engine=engine_of(arguments),
            track=track,
        )
    if not contexts or not log.rows == log.offline.total <= arguments.rows:
        return log, None
    columns.pop("item", None)
    again = partial(read_rows, arguments.log) if other is None else other.rows
    return log, again(recipe=log.recipe, **columns)


def write_files(audit: Audit, estimates: list[Estimate], arguments: argparse.Namespace) -> list[Path]:
    """The page and the statistics, where they were asked for."""
    paths: list[Path] = []
    if arguments.out is not None:
        from linoto.pages.audit import write_audit

        paths.append(
            write_audit(
                arguments.out,
                audit,
                [row_of(found) for found in estimates],
                cautions=[text for _, text in cautions_on(estimates)],
                source=Path(arguments.log).name,
                command=command_of(arguments),
            )
        )
    return paths + save(audit.saved, arguments)


def command_of(arguments: argparse.Namespace) -> str:
    """The command as it would be typed again: names of files without their folders."""
    plain = argparse.Namespace(**{**vars(arguments), "arms": arguments.arms and Path(arguments.arms).name})
    return shlex.join(["linoto", "audit", Path(arguments.log).name, *log_options_again(plain)])


def log_options_again(arguments: argparse.Namespace) -> list[str]:
    """The options of the log as they would be typed again."""
    words = [*as_typed(arguments, ("arms", *VALUES)), *context_again(arguments)]
    for column in arguments.categorical:
        words += ["--categorical", column]
    return [
        *words,
        *as_typed(arguments, FLAGS),
        *arm_effects_again(arguments),
        *horizon_again(arguments),
    ]
