"""LOG on the command line: the options that describe a log, and how it is read by them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.terminal import positive
from linoto.cli.usage import Parser

if TYPE_CHECKING:
    from linoto.core.features.columns import Column
    from linoto.core.features.recipe import Recipe
    from linoto.core.guardrail import Guardrail
    from linoto.logs.arms import ArmTable
    from linoto.logs.databases import Query
    from linoto.logs.foreign import ForeignLog
    from linoto.logs.metrics import AskedGuardrail
    from linoto.logs.read import Log
    from linoto.logs.rows import Rows

FORMATS = ("vw-dsjson", "vw-text", "open-bandit")  # as in linoto.logs.foreign, without its imports
COLUMNS = ("item", "reward", "propensity", "time", "where")
MARKS = (".", ",", " ", "'", "_")
LIST: dict[str, Any] = {"action": "append", "default": []}
CONTEXT = ("numeric", "category", "column", "cross", "no_cross", "no_curves", "missing")
LEARNED = (
    "item",
    "arms",
    "categorical",
    "no_intercept",
    "normalise",
    "arm_effects",
    *CONTEXT,
    "min_count",
    "contexts",
)  # what a recipe knows


# -- options ----------------------------------------------------------------------------------------------


def add_log_options(command: Parser) -> argparse._MutuallyExclusiveGroup:
    """A log, its arms and its contexts: the same for every command. Returns where propensities are named."""
    command.add_argument(
        "--arms", metavar="ARMS", help="the arms and their features (default: the values of --item)"
    )
    command.add_argument("--action", dest="item", help=argparse.SUPPRESS)  # as version 0.2 called it
    command.add_argument(
        "--item", metavar="COL", help="column of LOG with what was played, the id of an arm; a table needs it"
    )
    command.add_argument(
        "--reward", metavar="COL", help="column of LOG with what it earned; a table needs it"
    )
    add_guardrails(command)
    add_context(command)
    command.add_argument(
        "--id",
        metavar="COL",
        help="column of ARMS with the id (default: the first); of a vowpalwabbit log the feature that names "
        "an action (default: all its features)",
    )
    chances = command.add_mutually_exclusive_group()
    chances.add_argument("--propensity", metavar="COL", help="column of LOG: how likely the arm was")
    command.add_argument(
        "--time", metavar="COL", help="column of LOG that says what is early (default: rows)"
    )
    command.add_argument(
        "--categorical", metavar="COL", help="a column of ARMS whose numbers are names", **LIST
    )
    command.add_argument("--no-intercept", action="store_true", help="no constant feature")
    command.add_argument("--normalise", action="store_true", help="scale features: no action longer than 1")
    command.add_argument(
        "--arm-effects",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="give every arm an effect of its own, or none (default: to arms that share their features with "
        "another one)",
    )
    add_notation(command)
    return chances


def add_guardrails(command: Parser) -> None:
    """Metrics besides the reward."""
    command.add_argument(
        "--guardrail",
        metavar="COL:lower",
        help="a column with a metric that must not suffer, :lower or :higher for what is better, what may be "
        "lost of it, :budget=20 in all or :rate=0.002 a round, and :range=0..60 unless values are 0 or 1; "
        "with --gate tolerance also :bound=2, on the length of its parameter, where the model is to pay; "
        "with STATS, what changes; may be repeated",
        **LIST,
    )


def add_context(command: Parser, *, foreign: bool = True) -> None:
    """The columns that say who asked, also those that logs of other packages have."""
    command.add_argument(
        "--numeric", metavar="COL", help="a context column of numbers; may be repeated", **LIST
    )
    command.add_argument(
        "--category", metavar="COL", help="a context column of words; may be repeated", **LIST
    )
    command.add_argument(
        "--column",
        metavar="KIND(COL)",
        help="a context column of another kind, such as 'spline(price, knots=5)'; may be repeated",
        **LIST,
    )
    crosses = command.add_mutually_exclusive_group()
    crosses.add_argument(
        "--cross",
        nargs=2,
        action="append",
        metavar=("COL", "COL"),
        help="two columns to multiply; may be repeated (default: each context column with the item, so that "
        "it may change which one is best, as far as there are rows for it)",
    )
    crosses.add_argument(
        "--no-cross",
        action="store_true",
        help="multiply none: who asks does not change which item is best",
    )
    command.add_argument(
        "--min-count",
        type=positive,
        help="rows that a level of a context column needs for a feature of its own (default: 1)",
    )
    command.add_argument(
        "--missing",
        choices=("refuse", "feature"),
        help="what a missing number of a context column is: a bad row, or a feature of its own where the log "
        "has some (default: refuse)",
    )
    if not foreign:
        return
    command.add_argument(
        "--no-curves",
        action="store_true",
        help="keep numbers straight lines (default: they bend where the log is likelier so, unless crosses "
        "are named)",
    )
    command.add_argument(
        "--contexts",
        action="store_true",
        help="take all context columns that the log of another package has (--format)",
    )


def add_notation(command: Parser) -> None:
    """Who wrote the log, which rows are read, and how numbers are written."""
    command.add_argument(
        "--format",
        choices=FORMATS,
        help="of LOG, where another package wrote it: then its columns are known (default: by the ending, "
        ".dsjson or .vw; else a table)",
    )
    command.add_argument(
        "--where",
        metavar="ROWS",
        help="rows of LOG to read, as in \"month >= 6 and country = 'NO'\" (default: all)",
    )
    command.add_argument(
        "--query",
        metavar="SQL",
        help="rows to ask a database for, where LOG is its URL, such as postgresql://user@host/name",
    )
    command.add_argument("--decimal", choices=(".", ","), help="mark before decimals in text (default: .)")
    command.add_argument("--thousands", choices=MARKS, help="mark between thousands in text (default: none)")
    command.add_argument(
        "--arms-decimal", choices=(".", ","), help="the same in ARMS (default: as --decimal)"
    )
    command.add_argument(
        "--arms-thousands",
        choices=MARKS,
        help="the same in ARMS (default: as --thousands; none with --arms-decimal)",
    )


def has_context(arguments: argparse.Namespace) -> bool:
    """Whether columns of a context were asked for."""
    a = arguments
    return bool(a.contexts or a.numeric or a.category or a.column or a.cross or a.min_count)


def read_crosses(arguments: argparse.Namespace) -> tuple[tuple[str, str], ...] | None:
    """The crosses that were asked for; None: the usual ones."""
    asked: list[list[str]] | None = [] if arguments.no_cross else arguments.cross
    return None if asked is None else tuple((one, other) for one, other in asked)


def known_format(arguments: argparse.Namespace, needed: Sequence[str] = ()) -> str | None:
    """The format of a log whose columns are known; None for a table, which needs these options."""
    from linoto.logs.foreign import format_of

    found = format_of(arguments.log, arguments.format)
    missing = [f"--{name}" for name in needed if getattr(arguments, name) is None]
    if len(missing) == len(needed) > 1 and found is None and summed_up(arguments):
        return None
    if found is None and missing:
        arguments.refuse(f"the following arguments are required: {', '.join(missing)}")
    return found


def summed_up(arguments: argparse.Namespace) -> bool:
    """Whether LOG is what a warehouse summed up: then its columns were named when it was asked."""
    from linoto.logs.statistics import is_statistics

    a = arguments
    return a.item is None and a.reward is None and a.format is None and is_statistics(source_of(a))


def files_read(arguments: argparse.Namespace) -> list[str]:
    """The log and its arms, also where these are known to lie beside it."""
    if arguments.arms is None and arguments.format == "open-bandit":
        from linoto.logs.foreign import ITEM_CONTEXT

        return [arguments.log, str(Path(arguments.log).with_name(ITEM_CONTEXT))]
    log = arguments.log if arguments.query is None else None  # else it is the URL of a database
    return [name for name in (log, arguments.arms) if name is not None]


@contextmanager
def refused_columns(arguments: argparse.Namespace) -> Iterator[None]:
    """A wrong column name is a matter of usage."""
    from linoto.logs.values import UnknownColumn

    try:
        yield
    except UnknownColumn as error:
        arguments.refuse(str(error))


# -- reading ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OpenedLog:
    """A table, or a log of another package, and what the options say of its columns."""

    arguments: argparse.Namespace
    source: str | Query
    arms: ArmTable | None  # None: what the log itself names
    other: ForeignLog | None  # None: it is a table
    contexts: bool
    summed: bool = False  # whether a warehouse summed it up, so that it has no rows

    def log(self, **options: Any) -> Log:
        """Its statistics; options are those of `read_log`."""
        from linoto.logs.read import read_log

        a = self.arguments
        if self.summed:
            return read_log(self.source, arms=self.arms, skip_bad=options["skip_bad"])
        context = {
            "numeric": a.numeric,
            "categories": a.category,
            "columns": read_columns(a),
            "crosses": read_crosses(a),
            "curves": not a.no_curves,
            "missing": a.missing or "refuse",
            "min_count": a.min_count or 1,
        }
        context["guardrails"] = read_guardrails(a)
        if self.other is not None:
            return self.other.log(contexts=self.contexts, **named_columns(a), **context, **options)
        return read_log(self.source, arms=self.arms, **named_columns(a), **context, **options)

    def recipe(self) -> Recipe | None:
        """How contexts become features, where columns of one were named."""
        return self.log().recipe if self.contexts else None

    def rows(self, *, recipe: Recipe | None = None, metrics: Sequence[str] = (), **options: Any) -> Rows:
        """Its rows one by one, with these metrics and those asked for; options are those of `read_rows`."""
        from linoto.logs.read_rows import read_rows

        read = self.other.rows if self.other else partial(read_rows, self.source, arms=self.arms)
        asked = (rail.name for rail in read_guardrails(self.arguments))
        named = list(dict.fromkeys((*asked, *metrics)))
        return read(recipe=recipe, metrics=named, **named_columns(self.arguments), **options)

    @property
    def in_time(self) -> bool:
        """Whether rows come in the order of their time."""
        return self.arguments.time is not None or bool(self.other and self.other.time)


def open_log(arguments: argparse.Namespace) -> OpenedLog:
    """The log that was named, with its arms."""
    a, known = arguments, known_format(arguments)
    if a.contexts and known is None:
        a.refuse("--contexts is for a log of another package: give --numeric and --category")
    if not has_context(a):
        for name in ("no_cross", "no_curves", "missing"):
            if getattr(a, name):
                a.refuse(f"--{name.replace('_', '-')} is for contexts: give --numeric or --category")
    if a.arms is None and a.arm_effects is False and known is None:
        a.refuse("--no-arm-effects is for arms with features: give --arms")
    made = {
        "intercept": not a.no_intercept,
        "normalise": a.normalise,
        "arm_effects": a.arm_effects,
    }
    arms = None if a.arms is None or known == "open-bandit" else read_own_arms(a, **made)
    other = None if known is None else read_other_package(a, arms, **made)
    summed = known is None and summed_up(a)
    if summed:
        refuse_named(a)
    return OpenedLog(
        arguments=a, source=source_of(a), arms=arms, other=other, contexts=has_context(a), summed=summed
    )


def refuse_named(arguments: argparse.Namespace) -> None:
    """Refuse columns of a log that were named when it was summed up."""
    named = arguments.command.as_typed(arguments, only=("propensity", "time", "where", *CONTEXT, "guardrail"))
    if named:
        arguments.refuse(f"{named[0]} must be said to `linoto log sql`: LOG is what a warehouse summed up")


def source_of(arguments: argparse.Namespace) -> str | Query:
    """What is read: files, or the rows that a database is asked for."""
    from linoto.logs.databases import Query, is_database

    log: str = arguments.log
    if arguments.query is not None and "://" in log:
        return Query(log, arguments.query)
    if arguments.query is not None or is_database(log):
        told = "where LOG is the URL of a database, such as postgresql://user@host/name"
        arguments.refuse(f"--query must be said {told}, and only there")
    return log


def read_own_arms(arguments: argparse.Namespace, **made: Any) -> ArmTable:
    """The arms in ARMS; marks in numbers are those of the log unless they are said."""
    from linoto.logs.read import read_arms

    a, marks = arguments, notation_of(arguments)
    if a.arms_decimal is not None or a.arms_thousands is not None:
        marks = {"decimal": a.arms_decimal or marks["decimal"], "thousands": a.arms_thousands}
    return read_arms(a.arms, id=a.id, categorical=a.categorical, **marks, **made)


def read_other_package(arguments: argparse.Namespace, arms: ArmTable | None, **made: Any) -> ForeignLog:
    """A log of another package, with the arms in ARMS where there are some, or those that it names."""
    from dataclasses import replace

    from linoto.logs.foreign import read_foreign

    own_id = arguments.id if arms is None else None
    found = read_foreign(arguments.log, format=arguments.format, id=own_id, arms=arguments.arms, **made)
    return found if arms is None else replace(found, arms=arms)


def read_columns(arguments: argparse.Namespace) -> list[Column]:
    """The columns that --column asks for."""
    from linoto.core.features.written import column_of

    try:
        return [column_of(text) for text in arguments.column]
    except ValueError as error:
        arguments.refuse(f"argument --column: {error}")
        raise  # mypy does not know that nobody comes here


def read_guardrails(arguments: argparse.Namespace) -> tuple[AskedGuardrail, ...]:
    """The metrics that --guardrail asks for."""
    from linoto.logs.metrics import asked_guardrails

    try:
        return asked_guardrails(arguments.guardrail)
    except ValueError as error:
        arguments.refuse(f"argument --guardrail: {error}")
        raise  # mypy does not know that nobody comes here


def ranged_guardrails(arguments: argparse.Namespace) -> list[Guardrail]:
    """Those whose range was said, for the intervals of estimates."""
    return [rail.alone() for rail in read_guardrails(arguments) if rail.reward_range is not None]


def named_columns(arguments: argparse.Namespace) -> dict[str, Any]:
    """The columns that were named, and how their numbers are written."""
    named = {name: getattr(arguments, name) for name in COLUMNS}
    return {name: value for name, value in named.items() if value is not None} | notation_of(arguments)


def notation_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The marks in numbers, as `read_log` takes them."""
    return {"decimal": arguments.decimal or ".", "thousands": arguments.thousands}
