"""Logs as statistics: sums by arm, and by the features of contexts, with every bad row named or counted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from linoto.core.cells import text_of
from linoto.core.features.columns import Column
from linoto.core.features.moments import Moments, Summed
from linoto.core.features.recipe import Recipe
from linoto.core.guardrail import Guardrail
from linoto.core.offline import Offline
from linoto.engines import THREADS, Engine, Track
from linoto.logs.arm_files import fetch_columns, is_array_file, read_array_file
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import check_arms, notes_on_texts
from linoto.logs.asked import MAX_FEATURES, AskedColumns, AskedRecipe, Crosses, asked_for
from linoto.logs.feature_sums import MOST_LEVELS
from linoto.logs.feature_sums import PART as FEATURE_PART
from linoto.logs.features import LogFeatures, LoggedArms, LoggedContexts
from linoto.logs.log_parts import LogParts
from linoto.logs.metrics import AskedGuardrail, asked_guardrails, check_metric
from linoto.logs.notation import Notation
from linoto.logs.queries import (
    EVERY_ROW,
    KEPT_UNKNOWN,
    Columns,
    RowRange,
    extent_by_arm,
    introduce_arms,
    reward_ends,
    reward_extent,
)
from linoto.logs.saved import SavedLog
from linoto.logs.statistics import Blocks, read_blocks
from linoto.logs.sums import PART as ARM_PART
from linoto.logs.sums import (
    ArmSums,
    Propensities,
    RewardEnds,
    SumOptions,
    cut_parts,
    kept_ends,
    sum_files,
    sums_equal_squares,
)
from linoto.logs.tables import Connection, StagedFile, open_source, refuse_rejected, source_name
from linoto.logs.text_files import UNNAMED
from linoto.logs.times import describe_cut, time_cut
from linoto.logs.where import open_rows

INDEX = rf"{UNNAMED} 1|Unnamed: 0|__index_level_0__"  # as CSV, pandas and Parquet have it


@dataclass(frozen=True, kw_only=True, eq=False)
class Log:
    """A log as statistics, with everything that was noticed on the way.

    It always has arms, with their counts by half. Where rows have a context it has the recipe of their
    features and the moments of these, too. Rows that are features alone, without an item, are of one arm.
    """

    arms: ArmTable
    early: Offline  # the first half, by time or by row
    late: Offline
    contexts: LoggedContexts | None = None  # None: rows have no context
    rows: int  # read, the bad ones included
    bad: dict[str, int] = field(default_factory=dict)  # dropped rows of each kind
    unknown: dict[str, int] = field(default_factory=dict)  # rows of the most frequent unknown ids
    extent: tuple[float, float]  # smallest and largest reward
    split: str = "row order"  # what early and late mean
    propensities: Propensities | None = None
    ends: RewardEnds | None = None  # None where every reward is 0 or 1, or where nobody looked
    notes: tuple[str, ...] = ()  # what was noticed while reading
    source: str = ""  # what was read, as messages call it
    guardrails: tuple[Guardrail, ...] = ()  # metrics besides the reward, with practice's mean
    metrics: Mapping[str, Log] = field(default_factory=dict)  # the log of each, in the reward's place

    def __repr__(self) -> str:
        contexts = "" if self.contexts is None else f", contexts of {len(self.features.labels)} features"
        low, high = self.extent
        return (
            f"<log of {self.offline.total:,} rows: {len(self.arms.names)} arms{contexts}, rewards from "
            f"{low:g} to {high:g} with a mean of {self.offline.reference:.4g}>"
        )

    @property
    def offline(self) -> Offline:
        """The whole log by arm alone, as policies of fixed arms take it."""
        return self.early + self.late

    @property
    def by_features(self) -> LoggedContexts | LoggedArms:
        """What rewards are linear in, with their sums by half."""
        return self.contexts or LoggedArms(self.arms, self.early, self.late)

    @cached_property
    def features(self) -> LogFeatures:
        """What rewards are linear in: features that a recipe makes of contexts, or those of the arms."""
        return self.by_features.features

    @property
    def halves(self) -> tuple[Moments, Moments]:
        """Early and late by these features."""
        return self.by_features.halves

    @property
    def recipe(self) -> Recipe:
        """How contexts became features, where there are some."""
        return self.features.recipe

    @property
    def moments(self) -> Moments:
        """The whole log by its features: those of the recipe, or those of the arms where there is none."""
        return self.features.moments

    @property
    def totals(self) -> Summed:
        """The whole log by its rewards alone."""
        return self.features.totals

    @property
    def binary(self) -> bool:
        """Whether every reward is 0 or 1: between them, only these equal their squares."""
        return self.extent[0] >= 0 and self.extent[1] <= 1 and sums_equal_squares(self.offline)

    @property
    def randomised(self) -> bool:
        """Whether every arm was played, each row by a chance that it states and that left a choice."""
        return self.propensities is not None and self.propensities.low < 1 and bool(self.offline.pulls.all())

    def leaves(self, limits: tuple[float, float]) -> bool:
        """Whether some logged reward is outside a range."""
        return self.extent[0] < limits[0] or self.extent[1] > limits[1]

    def save(self, path: str | Path) -> Path:
        """Write it as npz: `linoto.load` reads it, and every command that takes what an audit saved."""
        return self.saved().save(path)

    def saved(self, **audited: Any) -> SavedLog:
        """What is kept of it, with what an audit found."""
        known: dict[str, Any] = {"arms": self.features.table(self.arms.names), "offline": self.offline}
        known |= {**vars(self.features), "source": self.source, "randomised": self.randomised}
        known |= {"guardrails": self.guardrails}
        known |= {"metrics": {name: metric.saved() for name, metric in self.metrics.items()}}
        return SavedLog(**known | audited)


def read_arms(
    source: Any,
    *,
    id: str | None = None,
    intercept: bool = True,
    normalise: bool = False,
    categorical: Sequence[str] = (),
    arm_effects: bool | None = None,
    decimal: str = ".",
    thousands: str | None = None,
) -> ArmTable:
    """One row per arm: the id in the first column unless named, features in the others.

    Numbers are taken as they are (as text with the marks `decimal` and `thousands`), words are one-hot
    encoded, and the encoding is kept with the table. A column without a name that counts rows is left out.
    A column with a list of numbers in each row is a feature for each place of it. An .npy file is an array
    of features, in which float32 stays so, and maybe one of names after it; without names they are the
    numbers of rows from 0, and without an intercept the file is mapped and not read.
    Without features arms are one-hot. With `arm_effects` every arm has an effect of its own; if that is not
    said, those have one that share their features with another arm.
    """
    notation, where = Notation(decimal, thousands), source_name(source)
    if is_array_file(source):
        if id is not None or categorical or normalise:
            named = "id" if id is not None else "categorical" if categorical else "normalise"
            raise ValueError(f"{named} must be left out where arms are an array, as in {where}")
        return read_array_file(Path(source), intercept=intercept, arm_effects=arm_effects)
    with open_source(source, None) as (connection, files):
        refuse_rejected(files)
        first, *others = files[0].types
        table = fetch_columns(connection, files, [first, *others], words=[first, *categorical])
        key, notes = id, tuple[str, ...]()
        if id is None:
            table, notes = without_counter(table)
            key = next(iter(table))
        if key in table:
            table |= fetch_columns(connection, files, [key], key)
    for name in table:
        if name != key and name not in categorical and not isinstance(table[name], np.ndarray):
            table[name] = notation.read_column(table[name], name, where)
    arms = ArmTable.from_columns(
        table,
        id=key,
        intercept=intercept,
        normalise=normalise,
        categorical=categorical,
        arm_effects=arm_effects,
        where=where,
    )
    return replace(arms, notes=notes + arms.notes)


def without_counter(table: dict[str, Sequence[Any]]) -> tuple[dict[str, Sequence[Any]], tuple[str, ...]]:
    """A table without the index of a data frame: a first column without a name, whose values count rows."""
    first, *others = table
    if not others or re.fullmatch(INDEX, first) is None:
        return table, ()
    counted = [text_of(value) for value in table[first]]
    places = range(len(counted))
    counts = any(counted == [str(place + start) for place in places] for start in (0, 1))
    if not counts:
        return table, ()
    note = "the first column of the arms has no name and counts rows, so it was left out: "
    return {name: table[name] for name in others}, (f"{note}ids are in {others[0]!r}",)


def read_log(
    source: Any,
    *,
    reward: str | None = None,
    item: str | None = None,
    arms: ArmTable | None = None,
    numeric: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[Column] = (),
    crosses: Crosses | None = None,
    curves: bool = True,
    missing: Literal["refuse", "feature"] = "refuse",
    features: Sequence[str] = (),
    item_effects: bool | None = None,
    intercept: bool = True,
    recipe: Recipe | None = None,
    propensity: str | None = None,
    time: str | None = None,
    guardrails: Sequence[Guardrail | str] = (),
    min_count: int = 1,
    max_features: int = MAX_FEATURES,
    where: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    skip_bad: bool = False,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Log:
    """A log from files (a path, a glob, a list of paths) or from a pandas, polars or Arrow table.

    `item` is the column of what was played, as the id of an arm, `reward` what it earned. Without `arms`
    there is one for each value of `item`, without features. The first bad row is a ValueError that names its
    row and column; with `skip_bad` such rows are dropped and counted. `where` keeps some rows only, as in
    "month >= 6 and country = 'NO'". `decimal` and `thousands` are the marks in numbers that are text.

    Rows have a context where columns of one are named: `numeric` and `categories`, or `columns` whose
    features are known already. `features` are columns of numbers that describe the played action itself.
    `crosses` are pairs of columns whose features are multiplied: without a cross of the item and a column, a
    context shifts all items alike. Unless they are given, every column of the context is crossed with the
    item, as far as the log has rows for it and bears it out, and `numeric` columns bend where the log is
    likelier by `curves`; `crosses=()` crosses nothing. Items with
    features in `arms` have no effects of their own, unless `item_effects`. Levels with fewer than `min_count`
    rows share one feature. A row without a number is a bad one, unless `missing` is "feature": then every
    column of numbers that is missing in some rows has one more feature, which is 1 in these. `recipe` is that
    of an earlier log. `engine` says which threads read, or which Dask workers. `track` is called after each
    part.

    Without a `reward` the source is what a warehouse summed up (`linoto log sql`): `arms` and `skip_bad` are
    all that is left to say.

    `guardrails` are columns of metrics that must not suffer, by their names: each is read as the reward is,
    and its `mean` is what the log has of it. A value may be missing. One may be written as a word, such as
    "complaints:lower:budget=20": then values of 0 and 1 need no range.
    """
    check_arms(arms)
    if reward is None:
        told = {
            "item": item,
            "numeric": numeric,
            "categories": categories,
            "columns": columns,
            "where": where,
        }
        for name in (name for name, value in told.items() if value):
            raise ValueError(f"reward must be the column of what was earned, got None beside {name}")
        return log_of(read_blocks(source), arms, skip_bad=skip_bad)
    rails = asked_guardrails(guardrails)
    asked = asked_for(
        recipe,
        arms,
        numeric=numeric,
        categories=categories,
        columns=columns,
        crosses=crosses,
        curves=curves,
        missing=missing,
        features=features,
        item_effects=item_effects,
        intercept=intercept,
        min_count=min_count,
        max_features=max_features,
    )
    if arms is not None and item is None:
        raise ValueError("item must be the column of what was played where arms are given, got None")
    marks = Notation(decimal, thousands)
    named = Columns(reward=reward, item=item, propensity=propensity, time=time, notation=marks)
    for rail in rails:
        rail.check_direction()
        check_metric(rail.name, asked.complete(named))
    named = named._replace(metrics=tuple(rail.name for rail in rails))
    reading = Reading(
        asked, asked.complete(named), source_name(source), skip_bad, engine, track, guardrails=rails
    )
    with open_rows(source, reading.columns, where) as (connection, files, notes):
        return reading.read(connection, files, arms, notes)


class Reading(NamedTuple):
    """What is read, and how."""

    asked: AskedColumns
    columns: Columns
    source: str  # as messages call it
    skip_bad: bool
    engine: Engine
    track: Track | None
    part: int = ARM_PART  # rows that are summed at a time by arm
    feature_part: int = FEATURE_PART  # and by features
    most_levels: int = MOST_LEVELS  # of a column that are counted
    guardrails: tuple[AskedGuardrail, ...] = ()

    def read(
        self,
        connection: Connection,
        files: Sequence[StagedFile],
        arms: ArmTable | None,
        notes: tuple[str, ...] = (),
    ) -> Log:
        """The sums of these files by arm, and by features where rows have a context."""
        if arms is None:
            arms, more = self.find_arms(connection, files)
            notes = (*more, *notes)
        introduce_arms(connection, arms.names)
        if self.columns.item is not None:
            notes = (*notes, *notes_on_texts(connection, files, self.columns.item, arms.names))
        plain = self._replace(columns=self.columns._replace(metrics=()))
        cut = None if self.columns.time is None else time_cut(connection, files, plain.columns)
        log = plain.sums(connection, files, arms, cut, notes)
        if not self.guardrails:
            return log
        metrics = {
            rail.name: plain.about(rail.name, log).sums(connection, files, arms, cut)
            for rail in self.guardrails
        }
        known = (seen_in(metrics[rail.name], rail) for rail in self.guardrails)
        return replace(log, guardrails=tuple(known), metrics=metrics)

    def about(self, metric: str, log: Log) -> Reading:
        """The same for a metric in the place of the reward, by the recipe that was learned."""
        asked = self.asked if log.contexts is None else AskedRecipe(recipe=log.recipe)
        return self._replace(columns=self.columns.about(metric), asked=asked, track=None)

    def sums(
        self,
        connection: Connection,
        files: Sequence[StagedFile],
        arms: ArmTable,
        cut: float | None,
        notes: tuple[str, ...] = (),
    ) -> Log:
        """What rewards add up to, or the values of a metric in their place."""
        columns, time = self.columns, self.columns.time
        by_arm, by_features = self.asked.tracks(self.track)
        options = SumOptions(ids=arms.names, cut=cut, skip_bad=self.skip_bad, part=self.part)
        sums = sum_files(connection, files, columns, options, self.engine, by_arm)
        if not (sums.early.total or sums.late.total):
            of = f" with a value in {columns.reward!r}" if columns.of_metric else ""
            raise ValueError(f"{self.source} must have at least one usable row{of}, got none")
        good = bool(sums.bad)
        parts = cut_parts(files, columns, size=self.feature_part, halves=cut is None, good_only=good)
        some = LogParts(
            connection,
            parts,
            arms,
            columns.item,
            cut,
            self.engine,
            self.source,
            self.most_levels,
            rows=sums.early.total + sums.late.total,
        )
        contexts, more = self.asked.sum_contexts(some, by_features)
        return Log(
            arms=arms,
            early=sums.early,
            late=sums.late,
            contexts=contexts,
            rows=sums.rows,
            bad=dict(sorted(sums.bad.items())),
            unknown=dict(sums.unknown.most_common(KEPT_UNKNOWN)),
            extent=find_extent(connection, files, columns, good_only=good),
            split="row order" if cut is None else describe_cut(connection, cut, files, str(time)),
            propensities=None if columns.propensity is None else sums.propensities,
            ends=None if sums.binary else find_ends(connection, files, columns, sums),
            notes=(*notes, *more),
            source=self.source,
        )

    def find_arms(
        self, connection: Connection, files: Sequence[StagedFile]
    ) -> tuple[ArmTable, tuple[str, ...]]:
        """The arms where no table lists them: those of the recipe, or the values of the item column."""
        item = self.columns.item
        if item is None:
            return ArmTable.one_hot([EVERY_ROW], "item"), ()
        return self.asked.find_arms(connection, files, item, self.source, skip_bad=self.skip_bad)


def log_of(blocks: Blocks, arms: ArmTable | None, *, skip_bad: bool) -> Log:
    """A log from the rows that a warehouse gave, and one for each of its guardrails."""
    log = Log(**blocks.rewards.log(arms, skip_bad=skip_bad))
    recipe = None if log.contexts is None else log.recipe
    rails = asked_guardrails(blocks.question.guardrails)
    metrics = {
        rail.name: Log(**blocks.values(place, recipe).log(log.arms, skip_bad=skip_bad))
        for place, rail in enumerate(rails)
    }
    known = tuple(seen_in(metrics[rail.name], rail) for rail in rails)
    return replace(log, guardrails=known, metrics=metrics) if rails else log


def seen_in(log: Log, rail: AskedGuardrail) -> Guardrail:
    """A guardrail with what the log of its metric says."""
    return rail.in_log(log.extent, binary=log.binary, mean=log.offline.reference, where=log.source)


def find_extent(
    connection: Connection, files: Sequence[StagedFile], columns: Columns, *, good_only: bool
) -> tuple[float, float]:
    """The smallest and the largest reward of all files."""
    whole = (RowRange.whole(file, columns, good_only=good_only) for file in files)
    found = [extent for rows in whole if (extent := reward_extent(connection, rows)) is not None]
    return min(low for low, _ in found), max(high for _, high in found)


def find_ends(
    connection: Connection, files: Sequence[StagedFile], columns: Columns, sums: ArmSums
) -> RewardEnds:
    """The smallest and the largest rewards of all files, and of each arm."""
    total = sums.early.total + sums.late.total
    most = kept_ends(total)
    whole = [RowRange.whole(file, columns, good_only=bool(sums.bad)) for file in files]
    found = [reward_ends(connection, rows, most) for rows in whole]
    low, high = (np.sort(np.concatenate([ends[side] for ends in found])) for side in (0, 1))
    lowest, highest = (np.full(sums.early.pulls.size, end) for end in (np.inf, -np.inf))
    for extents in (extent_by_arm(connection, rows) for rows in whole):
        np.minimum.at(lowest, extents["arm"], extents["low"])
        np.maximum.at(highest, extents["arm"], extents["high"])
    return RewardEnds(low[:most], high[::-1][:most], lowest, highest)
