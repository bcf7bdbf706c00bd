"""`linoto evaluate --recipe`: what other choices would have earned in the contexts of a log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from linoto.cli.contextual import read_contexts
from linoto.cli.reading import known_format, named_columns, read_known

if TYPE_CHECKING:
    from linoto.logs.estimates import Estimate, Interval
    from linoto.logs.rows import Rows

ONLY_FIXED = ("arms", "action", "id", "row", "policy", "arm_effects")
ONLY_CONTEXTS = ("candidates", "greedy")


def check_kind(arguments: argparse.Namespace) -> None:
    """Refuse options of fixed arms beside a recipe, and the other way round."""
    other_package = known_format(arguments, ("reward",)) is not None
    if not other_package and arguments.propensity is None and not arguments.uniform:
        arguments.refuse("one of the arguments --propensity --uniform is required")
    if arguments.recipe is None and not other_package and arguments.action is None:
        arguments.refuse("--action is needed, or --recipe for a log with contexts")
    wrong, why = (
        (ONLY_CONTEXTS, "is for a log with contexts: give --recipe")
        if arguments.recipe is None
        else (ONLY_FIXED, "is for a log of fixed arms: leave it out beside --recipe")
    )
    for name in wrong:
        if getattr(arguments, name):
            arguments.refuse(f"--{name.replace('_', '-')} {why}")


def read_rows_in_context(arguments: argparse.Namespace) -> Rows:
    """The rows of a log, read by the recipe of this or of an earlier one."""
    from linoto.logs.read_rows import read_rows

    asked = argparse.Namespace(stats=arguments.recipe, paper=False)
    found = read_contexts(asked)
    if found is None:
        raise ValueError(
            f"{arguments.recipe} must be what linoto audit-contexts --save wrote, got something else"
        )
    columns = named_columns(arguments)
    if arguments.candidates is not None:
        columns["candidates"] = arguments.candidates
    if known_format(arguments, ()) is None:
        rows = read_rows(arguments.log, recipe=found.recipe, **columns)
    else:
        rows = read_known(arguments).rows(recipe=found.recipe, **columns)
    return rows.uniform() if arguments.uniform else rows


def estimate_in_context(rows: Rows, target: Any, interval: Interval) -> list[Estimate]:
    """What the target would have earned, by each method whose interval is of this kind."""
    from linoto.logs.evaluate import evaluate

    methods = None if interval.kind in ("auto", "normal") else ("ips",)
    return evaluate(rows, target, methods=methods, interval=interval)
