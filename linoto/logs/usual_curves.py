"""Which numbers of a context bend where nobody says it: all of them, where the log is likelier so.

A line is the same step everywhere. Where the recipe is left to the log, every number is tried as a curve that
bends at its median, and as one with five knots, and is one if the log is twenty times as likely so, and each
half of it foretold no worse by the other. A curve must leave a row for each feature, and must not be too much
work for the size of the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log as logarithm

from linoto.core.features.columns import Column, Numeric, Spline
from linoto.core.features.recipe import Recipe
from linoto.core.hints import shortened_list
from linoto.logs.feature_sums import Seen, SumPlan, sum_features, survey_columns
from linoto.logs.features import LoggedContexts
from linoto.logs.log_parts import LogParts
from linoto.logs.usual_crosses import Borne, Crossed, borne_out

KNOTS = (3, 5)
CLEARLY = logarithm(20)  # more than chance makes of features that say nothing
MOST_WORK = 5e9  # multiplications: half a minute
UNTRIED = "numbers count by straight lines, and curves were not tried: {} (name a column's kind to have one)"


def with_usual_curves(
    made: Crossed, found: LoggedContexts, log: LogParts, names: Sequence[str], *, most: int
) -> tuple[LoggedContexts | None, tuple[str, ...]]:
    """The log by a recipe whose numbers of these names bend, if it is likelier so; and what is to be said.

    `made` has its crosses even if lines do not bear them out: curves may, or bend for all arms alike.
    """
    straight = made.recipe
    lines = [
        column.name for column in straight.context if column.name in names and isinstance(column, Numeric)
    ]
    if not (lines and straight.crosses):
        return None, ()
    if work_of(straight, log.rows) > MOST_WORK:
        return None, (UNTRIED.format("in so many rows they would take too long"),)
    best, chosen, notes = Borne(found), None, tuple[str, ...]()
    for knots, recipe in bent_recipes(straight, lines, seen_of(log, straight, lines)):
        if recipe.d > min(log.rows, most) or work_of(recipe, log.rows) > MOST_WORK:
            if knots == KNOTS[0]:
                return None, (UNTRIED.format(f"they would make {recipe.d:,} features of {log.rows:,} rows"),)
            break
        curved, said = borne_out(made._replace(recipe=recipe), summed(log, recipe))
        if (now := Borne(curved)).beats(best, CLEARLY):
            best, chosen, notes = now, curved, (*said, told(curved.recipe, straight))
    return chosen, notes


def told(chosen: Recipe, straight: Recipe) -> str:
    """Which numbers bend, and at how many knots."""
    pairs = zip(chosen.context, straight.context, strict=True)
    bent = {one.name: one.known for one, other in pairs if one != other and isinstance(one, Spline)}
    most = max(map(len, bent.values()))
    return (
        f"by curves with up to {most} knots, as the log is likelier so than by straight lines: "
        f"{shortened_list([*map(repr, bent)])}"
    )


def work_of(recipe: Recipe, rows: int) -> float:
    """Multiplications that sums of all products of two numbers take."""
    numbers = 1 + sum(len(column.labels) for column in recipe.columns if not column.leveled)
    return float(rows) * numbers**2


def seen_of(log: LogParts, recipe: Recipe, names: Sequence[str]) -> Seen:
    """Where the quantiles of these numbers are."""
    drafts = [bending(column, KNOTS[0]) if column.name in names else column for column in recipe.columns]
    read = log.reading(drafts)
    return survey_columns(
        log.connection, read.parts, log.arms.names, log.engine, names=names, most_levels=log.most_levels
    )


def bent_recipes(recipe: Recipe, names: Sequence[str], seen: Seen) -> Iterator[tuple[int, Recipe]]:
    """The recipe with curves of more and more knots; a number with two values has nothing to bend."""
    for knots in KNOTS:
        context = tuple(
            bent(column, seen, knots) if column.name in names else column for column in recipe.context
        )
        if context != recipe.context:
            yield knots, replace(recipe, context=context)


def bent(column: Column, seen: Seen, knots: int) -> Column:
    """A curve of the same number, with knots at quantiles of the log."""
    curve = bending(column, knots).learned(seen[column.name], min_count=1)
    return curve if len(curve.known) > 2 else column


def bending(column: Column, knots: int) -> Spline:
    """A curve of the same number before its knots are known; it may be missing where the number may."""
    missing = isinstance(column, Numeric) and column.missing
    return Spline(name=column.name, fields=column.fields, missing=missing, knots=knots)


def summed(log: LogParts, recipe: Recipe) -> LoggedContexts:
    """The log by the features of another recipe of the same fields."""
    plan = SumPlan(recipe=recipe, cut=log.cut)
    halves = sum_features(log.connection, log.parts, plan, log.arms.names, log.engine, None)
    return LoggedContexts(recipe, *halves)
