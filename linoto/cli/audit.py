"""`linoto audit`: whether to build on a log, before anything is built on it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linoto.cli.evaluate import cautions_on, doubts_on, print_tables, tables_of
from linoto.cli.log_options import (
    add_log_options,
    files_read,
    known_format,
    open_log,
    ranged_guardrails,
    refused_columns,
)
from linoto.cli.outputs import (
    add_horizon,
    add_outputs,
    check_first,
    command_again,
    fail_on,
    limits_of,
    print_json,
)
from linoto.cli.policy_options import add_amounts, add_rewards
from linoto.cli.terminal import positive, print_facts, print_written, progress
from linoto.cli.usage import Commands, Parser, add_command, add_engine, add_json, engine_of

if TYPE_CHECKING:
    from linoto.audit.audit import Audit
    from linoto.core.arrays import Floats
    from linoto.logs.estimates import Estimate
    from linoto.logs.rows import Rows
    from linoto.logs.saved import SavedLog

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

Where it matters who asks, name columns of the context: numbers (--numeric) or words (--category).
Each may change which item is best; --cross says which of them may. A log of another package knows
its own (--contexts). With --propensity it is also said what the best items by the log's own model earn.

A warehouse can sum a log up itself (linoto log sql): then LOG is what it returned, and its columns
are known.

Metrics that must not suffer, such as complaints (--guardrail), are judged like the reward, and saved with it.

The first bad row stops everything and is named; --skip-bad drops such rows and counts them."""

LEAST_ROWS = 5  # one for each part of a log, of which the best items are learnt from the earlier ones
MANY_FEATURES = 1500  # of as many arms: half a minute, and eight times that for twice as many
EXAMPLES = """\
  linoto audit orders.csv --item variant --reward order
  linoto audit log.csv --arms arms.csv --item arm --reward clicked --out audit.html
  linoto audit 'logs/*.parquet' --arms arms.parquet --item item --reward revenue --time at --skip-bad
  linoto audit log.csv --arms arms.csv --item arm --reward clicked --where "month >= 6" --decimal ,
  linoto audit clicks.csv --item item --reward click --numeric age --category country \\
    --propensity p --save clicks.npz
  linoto audit clicks.csv --item item --reward click --guardrail complaint:lower:budget=20
  linoto audit decisions.dsjson --reward-range 0 1
  linoto audit stats.parquet --reward-range 0 1
  linoto audit all.csv --format open-bandit --contexts --json"""


def add_audit(commands: Commands) -> None:
    """`linoto audit`."""
    audit = add_command(
        commands,
        "audit",
        help="whether a log can be trusted: noise, fit, drift, coverage, and what it would promise",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    audit.add_argument("log", metavar="LOG", help="the log: a file, or a pattern in quotes")
    add_audited(audit)
    add_what_is_judged(audit)
    add_outputs(audit)
    add_json(audit)
    audit.set_defaults(run=run_audit, refuse=audit.error)


def add_audited(command: Parser) -> None:
    """The log, its arms and its contexts, and which of its rows are read."""
    add_log_options(command)
    command.add_argument("--skip-bad", action="store_true", help="drop bad rows and count them")
    command.add_argument(
        "--rows",
        type=positive,
        default=500_000,
        help="rows of a log with contexts that are held in memory to judge its model; a longer log is judged "
        "without",
    )


def add_what_is_judged(command: Parser) -> None:
    """What may be lost, over which rounds, and what is known of rewards."""
    add_amounts(command, alpha=False)
    add_horizon(command)
    add_rewards(command, "from the log")
    add_engine(command, jobs="threads that read", runs=False)


def run_audit(arguments: argparse.Namespace) -> None:
    """`linoto audit`."""
    audit, rows = audited_log(arguments)
    estimates = estimates_of(rows, arguments)
    cautions = cautions_of(estimates, rows)
    paths = write_files(audit, estimates, cautions, arguments)
    if arguments.json:
        greedy = [found.to_dict() for found in estimates]
        notes = [text for _, text in cautions]
        print_json({**audit.to_dict(), "greedy": greedy, "greedy_notes": notes}, paths)
    else:
        own = {name for metric in audit.metrics for name, _ in metric.facts()}  # as their columns are written
        names = [name if name in own else name.replace("_", " ") for name, _ in audit.facts()]
        texts = [arguments.command.in_options(text) for _, text in audit.facts()]
        print_facts(list(zip(names, texts, strict=True)))
        print_estimates(estimates, cautions)
        print_written(paths)
    fail_on(audit.verdict, arguments)


def print_estimates(estimates: list[Estimate], cautions: list[tuple[str, str]]) -> None:
    """What the log's own model would have earned, where its propensities tell."""
    if estimates:
        print("\nWhat the best items by the log's own model would have earned:")
        print_tables(estimates)
    if cautions:
        print_facts(cautions)


def cautions_of(estimates: list[Estimate], rows: Rows | None) -> list[tuple[str, str]]:
    """What a reader should know before believing these numbers, or why there are none."""
    if rows is None or not has_propensities(rows):
        return []
    if estimates:
        return [*cautions_on(estimates), *doubts_on(estimates, rows)]
    earned = "what the best items by the log's own model would have earned"
    why = f"they are learnt from earlier rows, and it takes {LEAST_ROWS} to judge them, got {len(rows)}"
    return [("caution", f"cannot tell {earned}: {why}")]


def has_propensities(rows: Rows) -> bool:
    """Whether rows say by what chance their arms were played."""
    return rows.propensities is not None and not rows.all_certain


def audited_log(arguments: argparse.Namespace) -> tuple[Audit, Rows | None]:
    """Read the log and look at it; with contexts its rows, if they are few enough."""
    from linoto.audit.audit import audit_log

    known_format(arguments, ("item", "reward"))
    check_first(arguments, files_read(arguments))
    with refused_columns(arguments):
        opened = open_log(arguments)
        with progress("reading") as track:
            log = opened.log(skip_bad=arguments.skip_bad, engine=engine_of(arguments), track=track)
        held = log.features.judged_by_rows and log.rows <= arguments.rows and not opened.summed
        rows = opened.rows(recipe=log.recipe, skip_bad=arguments.skip_bad) if held else None
    warn_of_minutes(log.arms.actions if log.contexts is None else None)
    audit = audit_log(
        log,
        rows,
        budget=getattr(arguments, "budget", None),
        epsilon=getattr(arguments, "epsilon", None),
        noise=arguments.noise,
        bound=arguments.bound,
        reward_range=limits_of(arguments),
        horizon=arguments.horizon,
    )
    return audit, rows


def warn_of_minutes(actions: Floats | None) -> None:
    """That so many arms with so many features take minutes, on stderr; of arms without, none does."""
    from linoto.core.one_hot import find_one_hot

    if actions is None or min(actions.shape) < MANY_FEATURES or find_one_hot(actions) is not None:
        return
    k, d = actions.shape
    print(f"linoto: {k:,} arms with {d:,} features: this takes minutes", file=sys.stderr, flush=True)


def estimates_of(rows: Rows | None, arguments: argparse.Namespace) -> list[Estimate]:
    """What the log's own model would have earned, if its rows and their propensities tell."""
    from linoto.logs.estimates import Interval
    from linoto.logs.evaluate import Word, evaluate

    if rows is None or not has_propensities(rows) or len(rows) < LEAST_ROWS:
        return []
    interval = Interval(reward_range=limits_of(arguments))
    return evaluate(rows, Word("greedy"), interval=interval, guardrails=ranged_guardrails(arguments))


def saved_log(audit: Audit, arguments: argparse.Namespace) -> SavedLog:
    """What is kept of the log; it knows which rows it is of."""
    rows = "" if arguments.where is None else f" where {arguments.where}"
    return audit.saved(Path(arguments.log).name + rows)


def write_files(
    audit: Audit, estimates: list[Estimate], cautions: list[tuple[str, str]], arguments: argparse.Namespace
) -> list[Path]:
    """The page and the statistics, where they were asked for."""
    paths: list[Path] = []
    if arguments.out is not None:
        from linoto.pages.audit import write_audit

        paths.append(
            write_audit(
                arguments.out,
                audit,
                tables_of(estimates),
                cautions=[text for _, text in cautions],
                source=Path(arguments.log).name,
                command=command_again(arguments, arguments.log),
            )
        )
    if arguments.save is not None:
        paths.append(saved_log(audit, arguments).save(arguments.save))
    return paths
