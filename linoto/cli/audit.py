"""`linoto audit`: whether to build on a log, before anything is built on it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    add_format,
    add_id,
    add_reading_options,
    arm_effects_again,
    files_read,
    known_format,
    named_columns,
    own_arms,
    read_known_arms,
)
from linoto.cli.terminal import print_written, progress
from linoto.cli.usage import Commands, Parser, add_command, add_engine, engine_of, typed_again

if TYPE_CHECKING:
    from linoto.audit.audit import Audit
    from linoto.logs.read import Log

DESCRIPTION = """\
Read a log, name what is wrong with it, and say whether to build on it: rows and arms, noise,
what the log cannot tell, whether rewards are linear in the features, whether they drift, what
is promised over a horizon, and a verdict with its reasons: deploy, deploy with arm effects, not
yet (something must be stated first, or the promise is worth nothing), or do not trust.

LOG is one row per decision: CSV, Parquet or JSON lines, one file or many ('log-*.parquet'), or a
log of vowpalwabbit (its costs become rewards: reward = -cost) or the Open Bandit Dataset (--format).
ARMS is one row per arm: its id in the first column, its features in the others; numbers are
taken as they are, words are one-hot encoded. Without ARMS, or without features, the arms are the
values of --action, and what one of them earns says nothing about the others.

The first bad row stops everything and is named; --skip-bad drops such rows and counts them."""

EXAMPLES = """\
  linoto audit orders.csv --action variant --reward order
  linoto audit log.csv --arms arms.csv --action arm --reward clicked --out audit.html
  linoto audit 'logs/*.parquet' --arms arms.parquet --action item --reward revenue --time at --skip-bad
  linoto audit log.csv --arms arms.csv --action arm --reward clicked --where "month >= 6" --decimal ,
  linoto audit decisions.dsjson --reward-range 0 1
  linoto audit log.jsonl --arms arms.csv --action arm --reward r --arm-effects --save stats.npz --json"""

VALUES = (
    "format",
    "action",
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
    """The log, its arms, and what is said of them."""
    audit.add_argument("log", metavar="LOG", help="the log: a file, or a pattern in quotes")
    audit.add_argument(
        "--arms", metavar="ARMS", help="the arms and their features (default: the values of --action)"
    )
    audit.add_argument(
        "--action", metavar="COL", help="column of LOG with the id of the arm; a table needs it"
    )
    audit.add_argument("--reward", metavar="COL", help="column of LOG with what it earned; a table needs it")
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


def run_audit(arguments: argparse.Namespace) -> None:
    """`linoto audit`."""
    known_format(arguments, ("action", "reward"))
    check_first(arguments, files_read(arguments))
    audit = with_known_columns(make_audit, arguments)
    paths = write_files(audit, arguments)
    if arguments.json:
        print_json(audit.to_dict(), paths)
    else:
        print_found(audit.facts(), arguments)
        print_written(paths)
    fail_on(audit.verdict, arguments)


def make_audit(arguments: argparse.Namespace) -> Audit:
    """Read both files and look at them."""
    from linoto.audit.audit import audit_log

    with progress("reading") as track:
        log = read_either(arguments, skip_bad=arguments.skip_bad, engine=engine_of(arguments), track=track)
    return audit_log(
        log,
        budget=arguments.budget,
        epsilon=arguments.epsilon,
        noise=arguments.noise,
        bound=arguments.bound,
        reward_range=limits_of(arguments),
        horizon=arguments.horizon,
    )


def read_either(arguments: argparse.Namespace, **options: Any) -> Log:
    """The log of a table and its arms, or of another package."""
    from linoto.logs.read import read_log

    made = {
        "intercept": not arguments.no_intercept,
        "normalise": arguments.normalise,
        "arm_effects": arguments.arm_effects,
    }
    arms = own_arms(arguments, **made, categorical=arguments.categorical)
    if known_format(arguments, ()) is None:
        return read_log(arguments.log, arms=arms, **named_columns(arguments), **options)
    found = read_known_arms(arguments, arms, **made)
    return found.log(**named_columns(arguments), **options)


def write_files(audit: Audit, arguments: argparse.Namespace) -> list[Path]:
    """The page and the statistics, where they were asked for."""
    paths: list[Path] = []
    if arguments.out is not None:
        from linoto.pages.audit import write_audit

        source = Path(arguments.log).name
        paths.append(write_audit(arguments.out, audit, source=source, command=command_of(arguments)))
    return paths + save(audit.saved, arguments)


def command_of(arguments: argparse.Namespace) -> str:
    """The command as it would be typed again: names of files without their folders."""
    plain = argparse.Namespace(**{**vars(arguments), "arms": arguments.arms and Path(arguments.arms).name})
    return shlex.join(["linoto", "audit", Path(arguments.log).name, *log_options_again(plain)])


def log_options_again(arguments: argparse.Namespace) -> list[str]:
    """The options of the log as they would be typed again."""
    words = typed_again(arguments, ("arms", *VALUES))
    for column in arguments.categorical:
        words += ["--categorical", column]
    return [
        *words,
        *typed_again(arguments, FLAGS),
        *arm_effects_again(arguments),
        *horizon_again(arguments),
    ]
