"""How the files of a log are read: what `linoto audit` and `linoto evaluate` share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linoto.cli.terminal import positive
from linoto.cli.usage import Parser, as_typed

if TYPE_CHECKING:
    from linoto.logs.arms import ArmTable
    from linoto.logs.foreign import ForeignLog

FORMATS = ("vw-dsjson", "vw-text", "open-bandit")  # as in linoto.logs.foreign, without its imports
SEVERAL: dict[str, Any] = {"action": "append", "default": []}
COLUMNS = ("item", "reward", "propensity", "time", "where")


def add_reading_options(command: Parser) -> None:
    """Which rows, and how numbers are written."""
    command.add_argument(
        "--where",
        metavar="ROWS",
        help="rows of LOG to read, as in \"month >= 6 and country = 'NO'\" (default: all)",
    )
    command.add_argument("--decimal", choices=(".", ","), help="mark before decimals in text (default: .)")
    command.add_argument(
        "--thousands",
        choices=(".", ",", " ", "'", "_"),
        help="mark between thousands in text (default: none)",
    )


def add_item(command: Parser) -> None:
    """The column of what was played; version 0.2 called it the action."""
    command.add_argument("--action", dest="item", help=argparse.SUPPRESS)
    command.add_argument(
        "--item", metavar="COL", help="column of LOG with what was played, the id of an arm; a table needs it"
    )


def add_context(command: Parser) -> None:
    """The columns that say who asked."""
    command.add_argument(
        "--numeric", metavar="COL", help="a context column of numbers; may be repeated", **SEVERAL
    )
    command.add_argument(
        "--category", metavar="COL", help="a context column of words; may be repeated", **SEVERAL
    )
    command.add_argument(
        "--cross", nargs=2, metavar=("COL", "COL"), help="two columns to multiply; may be repeated", **SEVERAL
    )
    command.add_argument(
        "--min-count",
        type=positive,
        help="rows that a level of a context column needs for a feature of its own (default: 1)",
    )
    command.add_argument(
        "--contexts",
        action="store_true",
        help="take all context columns that the log of another package has (--format)",
    )


def has_context(arguments: argparse.Namespace) -> bool:
    """Whether columns of a context were asked for."""
    a = arguments
    return bool(a.contexts or a.numeric or a.category or a.cross or a.min_count)


def context_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The context, as `read_log` takes it; nothing where there is none."""
    if not has_context(arguments):
        return {}
    if arguments.contexts and known_format(arguments, ()) is None:
        arguments.refuse("--contexts is for a log of another package: give --numeric and --category")
    return {
        "numeric": arguments.numeric,
        "categories": arguments.category,
        "crosses": [(one, other) for one, other in arguments.cross],
        "min_count": arguments.min_count or 1,
    }


def context_again(arguments: argparse.Namespace) -> list[str]:
    """The context as it would be typed again."""
    words = []
    for option in ("numeric", "category"):
        for column in getattr(arguments, option):
            words += [f"--{option}", column]
    for one, other in arguments.cross:
        words += ["--cross", one, other]
    return [*words, *as_typed(arguments, ("min_count", "contexts"))]


def add_arms_notation(command: Parser) -> None:
    """How numbers are written in ARMS, where that is otherwise than in LOG."""
    command.add_argument(
        "--arms-decimal", choices=(".", ","), help="the same in ARMS (default: as --decimal)"
    )
    command.add_argument(
        "--arms-thousands",
        choices=(".", ",", " ", "'", "_"),
        help="the same in ARMS (default: as --thousands; none with --arms-decimal)",
    )


def add_arm_effects(command: Parser) -> None:
    """Whether an arm is more than its features."""
    command.add_argument(
        "--arm-effects",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="give every arm an effect of its own, or none (default: to arms that share their features with "
        "another one)",
    )


def arm_effects_again(arguments: argparse.Namespace) -> list[str]:
    """The same as it would be typed again."""
    if arguments.arm_effects is None:
        return []
    return ["--arm-effects" if arguments.arm_effects else "--no-arm-effects"]


def notation_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The marks in numbers, as `read_log` takes them."""
    return {"decimal": arguments.decimal or ".", "thousands": arguments.thousands}


def arms_notation_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The marks in numbers of the arms: those of the log unless they are said."""
    decimal, thousands = arguments.arms_decimal, arguments.arms_thousands
    if decimal is None and thousands is None:
        return notation_of(arguments)
    return {"decimal": decimal or arguments.decimal or ".", "thousands": thousands}


# -- logs of other packages -------------------------------------------------------------------------------


def add_format(command: Parser) -> None:
    """Which package wrote the log."""
    command.add_argument(
        "--format",
        choices=FORMATS,
        help="of LOG, where another package wrote it: then its columns are known (default: by the ending, "
        ".dsjson or .vw; else a table)",
    )


def known_format(arguments: argparse.Namespace, needed: Sequence[str]) -> str | None:
    """The format of a log whose columns are known; None for a table, which needs these options."""
    from linoto.logs.foreign import format_of

    found = format_of(arguments.log, arguments.format)
    missing = [f"--{name}" for name in needed if getattr(arguments, name) is None]
    if found is None and missing:
        arguments.refuse(f"the following arguments are required: {', '.join(missing)}")
    return found


def read_known(arguments: argparse.Namespace, **options: Any) -> ForeignLog:
    """A log of another package."""
    from linoto.logs.foreign import read_foreign

    return read_foreign(arguments.log, format=arguments.format, **options)


def add_id(command: Parser) -> None:
    """What the arms are called by, in a table of them or in a log that names its own."""
    command.add_argument(
        "--id",
        metavar="COL",
        help="column of ARMS with the id (default: the first); of a vowpalwabbit log the feature that names "
        "an action (default: all its features)",
    )


def read_known_arms(arguments: argparse.Namespace, arms: ArmTable | None, **made: Any) -> ForeignLog:
    """The same of fixed arms: those in ARMS, where `own_arms` found some, or those that the log names."""
    from dataclasses import replace

    own_id = arguments.id if arms is None else None
    found = read_known(arguments, id=own_id, arms=arguments.arms, **made)
    return found if arms is None else replace(found, arms=arms)


def own_arms(arguments: argparse.Namespace, **made: Any) -> ArmTable | None:
    """The arms in ARMS; None where the log knows its own, or how to read them."""
    from linoto.logs.read import read_arms

    if arguments.arms is None and made.get("arm_effects") is False and known_format(arguments, ()) is None:
        arguments.refuse("--no-arm-effects is for arms with features: give --arms")
    if arguments.arms is None or known_format(arguments, ()) == "open-bandit":
        return None
    return read_arms(arguments.arms, id=arguments.id, **arms_notation_of(arguments), **made)


def named_columns(arguments: argparse.Namespace) -> dict[str, Any]:
    """The columns that were named, and how their numbers are written."""
    named = {name: getattr(arguments, name, None) for name in COLUMNS}
    return {name: value for name, value in named.items() if value is not None} | notation_of(arguments)


def files_read(arguments: argparse.Namespace) -> list[str]:
    """The log and its arms, also where these are known to lie beside it."""
    if arguments.arms is None and arguments.format == "open-bandit":
        from linoto.logs.foreign import ITEM_CONTEXT

        return [arguments.log, str(Path(arguments.log).with_name(ITEM_CONTEXT))]
    return [name for name in (arguments.log, arguments.arms) if name is not None]
