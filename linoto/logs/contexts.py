"""Logs with contexts: who asked, what was played, what it earned; as statistics, with their recipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

import numpy as np

from linoto.core.features.columns import Category, Column, ItemColumn, Numeric
from linoto.core.features.recipe import Recipe
from linoto.core.offline import Offline
from linoto.core.validation import check_count
from linoto.engines import THREADS, Engine, Track
from linoto.logs.arms import ArmTable
from linoto.logs.context_queries import ContextColumns, numerics
from linoto.logs.context_sums import HalfSums, Halves, SumPlan, sum_contexts
from linoto.logs.context_survey import Spread, Survey, SurveyOptions, survey_files
from linoto.logs.notation import Notation
from linoto.logs.read import Log, LoggedContexts
from linoto.logs.row_queries import Columns
from linoto.logs.sums import Propensities
from linoto.logs.tables import source_name
from linoto.logs.times import describe_cut, time_cut
from linoto.logs.where import open_rows

MAX_FEATURES = 1000
EVERY_ACTION = "(any)"  # the one arm of a log that is features alone
Crosses = Sequence[tuple[str, str]]


def read_context_log(
    source: Any,
    *,
    reward: str,
    item: str | None = None,
    numeric: Sequence[str] = (),
    categories: Sequence[str] = (),
    crosses: Crosses = (),
    features: Sequence[str] = (),
    arms: ArmTable | None = None,
    item_effects: bool | None = None,
    intercept: bool = True,
    recipe: Recipe | None = None,
    propensity: str | None = None,
    time: str | None = None,
    min_count: int = 1,
    max_features: int = MAX_FEATURES,
    where: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    skip_bad: bool = False,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Log:
    """A log with contexts from files or from a pandas, polars or Arrow table.

    `item` is the column of what was played, `numeric` and `categories` are columns of the context, `features`
    are columns of numbers that describe the played action itself. `crosses` are pairs of columns whose
    features are multiplied: without a cross of the item and a column, a context shifts all items alike.
    `arms` says what is known of each item; then items have no effects of their own, unless `item_effects`.
    Levels with fewer than `min_count` rows share one feature. `recipe` is that of an earlier log, instead of
    a new one. The rest is that of `read_log`; the statistics are the same bits on any engine.
    """
    wanted = Wanted(
        numeric=numeric,
        categories=categories,
        crosses=crosses,
        features=features,
        arms=arms,
        item_effects=item_effects,
        intercept=intercept,
        recipe=recipe,
        min_count=min_count,
        max_features=max_features,
    )
    named = ContextColumns(
        reward=reward, item=item, propensity=propensity, time=time, notation=Notation(decimal, thousands)
    )
    columns, name = wanted.columns(named), source_name(source)
    with open_rows(source, columns, where) as (connection, files, notes):
        cut = None if time is None else time_cut(connection, files, plain_columns(columns))
        options = SurveyOptions(columns, wanted.items, skip_bad)
        survey, parts = survey_files(connection, files, options, engine, halves=cut is None)
        if not survey.good:
            raise ValueError(f"{name} must have at least one usable row, got none")
        made, constant = wanted.made(survey, columns)
        plan = SumPlan(recipe=made, columns=columns, cut=cut)
        check_size(plan, max_features, name)
        sums = sum_contexts(connection, parts, plan, engine, track)
        split = "row order" if cut is None else describe_cut(connection, cut, files, str(time))
    names = made.items or (EVERY_ACTION,)
    return Log(
        arms=arms or ArmTable.one_hot(names, made.item),
        early=sums[0].offline if made.items else whole(sums[0]),
        late=sums[1].offline if made.items else whole(sums[1]),
        contexts=LoggedContexts(made, plan.moments(sums[0]), plan.moments(sums[1])),
        rows=survey.rows,
        bad=dict(sorted(survey.bad.items())),
        extent=survey.extent,
        split=split,
        propensities=None if propensity is None else propensities_of(sums, survey.likely),
        notes=notes + constant,
        source=name,
    )


# -- the recipe of a log ----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which recipe is asked for."""

    numeric: Sequence[str]
    categories: Sequence[str]
    crosses: Crosses
    features: Sequence[str]
    arms: ArmTable | None
    item_effects: bool | None
    intercept: bool
    recipe: Recipe | None
    min_count: int
    max_features: int

    def __post_init__(self) -> None:
        check_count("min_count", self.min_count)
        check_count("max_features", self.max_features)
        for name in ("numeric", "categories", "features"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a list of columns, got the text {getattr(self, name)!r}")
        if self.arms is not None and not isinstance(self.arms, ArmTable):
            raise ValueError(f"arms must be a linoto.ArmTable, got {type(self.arms).__name__}")
        if self.recipe is None:
            return
        if not isinstance(self.recipe, Recipe):
            raise ValueError(f"recipe must be a linoto.Recipe, got {type(self.recipe).__name__}")
        own = (self.arms, self.item_effects, *self.numeric, *self.categories, *self.crosses, *self.features)
        if any(value is not None for value in own):
            raise ValueError("recipe must be given alone, got columns, crosses or arms beside it")

    @property
    def items(self) -> tuple[str, ...]:
        """The only items that there may be; none: those of the log."""
        if self.recipe is not None:
            return self.recipe.items
        return () if self.arms is None else self.arms.names

    def columns(self, named: ContextColumns) -> ContextColumns:
        """All columns that are read, each of them once."""
        numbers, categories = (*self.numeric, *self.features), tuple(self.categories)
        if self.recipe is not None:
            numbers = tuple(column.name for column in numerics(self.recipe))
            categories = tuple(c.name for c in self.recipe.context if isinstance(c, Category))
            if self.recipe.items and named.item not in (None, self.recipe.item):
                raise ValueError(f"item must be {self.recipe.item!r} as in the recipe, got {named.item!r}")
            named = named._replace(item=self.recipe.item if self.recipe.items else None)
        columns = named._replace(numbers=numbers, categories=categories)
        if self.arms is not None and columns.item is None:
            raise ValueError("item must be the column of what was played where arms are given, got None")
        roles: dict[str, str] = {}
        for role, name in columns.given().items():
            if name in roles and role != "time" and roles[name] != "time":
                raise ValueError(f"{name!r} must have one meaning, got {roles[name]} and {role}")
            roles[name] = role
        return columns

    def made(self, survey: Survey, columns: ContextColumns) -> tuple[Recipe, tuple[str, ...]]:
        """The recipe, and columns that are the same in all rows."""
        if self.recipe is not None:
            return self.recipe, ()
        context: list[Column] = []
        notes: list[str] = []
        for name, spread in zip(self.numeric, survey.spreads, strict=False):
            if is_constant(spread):
                notes.append(f"column {name!r} is the same in all rows, so it says nothing")
            context.append(scaled(name, spread))
        context += [self.category(name, survey.levels[name]) for name in self.categories]
        items = self.items
        if columns.item is not None and not items:
            items = ordered(str(level) for level in survey.levels[columns.item])
        known = () if self.arms is None else tuple(item_columns(self.arms))
        recipe = Recipe(
            item=columns.item or "item",
            items=items,
            item_columns=known,
            context=tuple(context),
            action=tuple(Numeric(name=name) for name in self.features),
            crosses=tuple((a, b) for a, b in self.crosses),
            item_effects=not known if self.item_effects is None else self.item_effects,
            intercept=self.intercept,
        )
        return recipe, tuple(notes)

    def category(self, name: str, counts: Mapping[str | None, int]) -> Category:
        """A column with the levels that have rows enough."""
        kept = [level for level, count in counts.items() if level is not None and count >= self.min_count]
        rare = any(level is not None and count < self.min_count for level, count in counts.items())
        return Category(name=name, levels=ordered(kept), missing=None in counts, other=rare)


def is_constant(spread: Spread) -> bool:
    """Whether numbers differ by no more than rounding."""
    return spread.deviation <= 1e-12 * abs(spread.mean)


def scaled(name: str, spread: Spread) -> Numeric:
    """A column of numbers with the mean and the scale of a log, in digits that a person can read.

    Any mean and scale will do, if they are those of serving too. Rounded, they do not depend on the order of
    rows.
    """
    if is_constant(spread):
        return Numeric(name=name, mean=spread.mean)
    scale = float(f"{spread.deviation:.3g}")
    mean = float(f"{spread.mean:.12g}")  # two steps: else a mean of 39.65 is rounded up or down by chance
    return Numeric(name=name, mean=round(mean, 2 - floor(log10(scale))), scale=scale)


def ordered(levels: Iterable[str]) -> tuple[str, ...]:
    """Levels in the order of their numbers where all are numbers, else as words."""
    words = sorted(levels)
    whole = all(re.fullmatch(r"-?\d{1,18}", word) for word in words)
    return tuple(sorted(words, key=int) if whole else words)


def item_columns(arms: ArmTable) -> Iterator[ItemColumn]:
    """What an arm table knows of items beside their names, column by column."""
    if arms.featureless:
        return
    start = int(arms.encoding.intercept)
    for column in arms.encoding.columns:
        width = 1 if column.levels is None else len(column.levels)
        labels = arms.encoding.features[start : start + width]
        values = arms.features[:, start : start + width]
        yield ItemColumn(name=column.name, labels=labels, values=tuple(map(tuple, values.tolist())))
        start += width


def check_size(plan: SumPlan, most: int, where: str) -> None:
    """Refuse more features than asked for, before they are summed, with the term that has most of them."""
    size = max(plan.d, plan.recipe.d)
    if size <= most:
        return
    labels = plan.recipe.labels
    term = max(plan.blocks, key=lambda term: plan.blocks[term].width)
    levels = " and ".join(f"{len(labels[name]):,} of {name!r}" for name in term if len(labels[name]) > 1)
    raise ValueError(
        f"{where} must make at most {most:,} features (max_features), got {size:,}, most of them by "
        f"{levels}: leave it out, group rare levels (min_count), or group or hash its values first"
    )


def propensities_of(sums: Halves, likely: tuple[float, float]) -> Propensities:
    """How likely the played items were: of each the sums, of all the least and the most likely one."""
    inverse, squares = (sums[0].items + sums[1].items)[3:]
    return Propensities(low=likely[0], high=likely[1], inverse=inverse, inverse_squares=squares)


def whole(sums: HalfSums) -> Offline:
    """All rows as those of one arm."""
    count, total, squares = sums.totals
    return Offline(
        pulls=np.array([int(count)]), reward_sums=np.array([total]), reward_squares=np.array([squares])
    )


def plain_columns(columns: ContextColumns) -> Columns:
    """The same columns as far as times need them."""
    return Columns(
        action=columns.item or columns.reward,
        reward=columns.reward,
        time=columns.time,
        notation=columns.notation,
    )
