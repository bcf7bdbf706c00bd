"""Which recipe a log is read by: an earlier one, or the columns that are asked for as the log shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from linoto.core.features.columns import Category, Column, Found, ItemColumn, Numeric, OptionalColumn
from linoto.core.features.recipe import Recipe, as_crosses
from linoto.core.validation import check_choice, check_count
from linoto.engines import Track
from linoto.logs.arms import ArmTable
from linoto.logs.arms_in_log import FoundArms, find_arms
from linoto.logs.feature_sums import Seen, SumPlan, sum_features, survey_columns
from linoto.logs.features import LoggedContexts
from linoto.logs.log_parts import LogParts
from linoto.logs.queries import Columns
from linoto.logs.statement import MISSING_NUMBERS
from linoto.logs.tables import Connection, StagedFile
from linoto.logs.usual_crosses import Crossed, borne_out, with_named_crosses, with_usual_crosses
from linoto.logs.usual_curves import with_usual_curves

MAX_FEATURES = 1000
REFUSE = "refuse"
Crosses = Sequence[tuple[str, str]]
OneKind = TypeVar("OneKind", bound=Column)
Noted = tuple[LoggedContexts | None, tuple[str, ...]]  # what contexts say, and what was noticed


@dataclass(frozen=True, kw_only=True)
class AskedColumns:
    """The columns that a recipe is to be made of as the log shows them."""

    numeric: Sequence[str] = ()
    categories: Sequence[str] = ()
    columns: Sequence[Column] = ()  # of any kind; learned from the log where they do not know it
    crosses: Crosses | None = None  # None: the usual ones
    curves: bool = True  # whether numbers may bend where the crosses are the usual ones
    missing: str = REFUSE  # whether numbers may be missing, and have a feature where some are
    features: Sequence[str] = ()
    item_effects: bool | None = None
    intercept: bool = True
    min_count: int = 1
    max_features: int = MAX_FEATURES

    def __post_init__(self) -> None:
        check_count("min_count", self.min_count)
        check_count("max_features", self.max_features)
        if not isinstance(self.curves, bool):
            raise ValueError(f"curves must be True or False, got {self.curves!r}")
        check_choice("missing", self.missing, MISSING_NUMBERS)
        for name in ("numeric", "categories", "columns", "features"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise ValueError(f"{name} must be a list of columns, got the text {value!r}")
            if not isinstance(value, Iterable):
                raise ValueError(f"{name} must be a list of columns, got {value!r}")
        if self.crosses is not None:
            object.__setattr__(self, "crosses", as_crosses(self.crosses))

    @property
    def nothing(self) -> bool:
        """Whether the log is one of fixed arms."""
        return not (self.context or self.crosses or self.features)

    @property
    def learning(self) -> tuple[str, ...]:
        """The columns of which the log says what they are like."""
        drafts = (column.name for column in self.columns if column.draft)
        return tuple(dict.fromkeys((*self.numeric, *self.categories, *drafts, *self.doubtful)))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """The columns of which the log says whether they may be missing."""
        if self.missing == REFUSE:
            return ()
        said = (c.name for c in self.columns if isinstance(c, OptionalColumn) and not c.missing)
        return (*self.numeric, *self.features, *said)

    @property
    def context(self) -> tuple[Column, ...]:
        """The columns of the context, as far as they are known before the log is read."""
        drafts = (Category(name=name, levels=(), other=True) for name in self.categories)
        columns: tuple[Column, ...] = (*map(numeric, self.numeric), *drafts, *self.columns)
        return self.before_reading(columns)

    def before_reading(self, columns: Sequence[OneKind]) -> tuple[OneKind, ...]:
        """Columns with which the log is read: those that it may lack may be missing."""
        return tuple(maybe_missing(c, True) if c.name in self.doubtful else c for c in columns)

    @property
    def action(self) -> tuple[Numeric, ...]:
        """The columns of the action itself."""
        return self.before_reading([*map(numeric, self.features)])

    def complete(self, named: Columns) -> Columns:
        """All columns that are read, each of them once."""
        return with_one_meaning(named._replace(context=(*self.context, *self.action)))

    def find_arms(
        self, connection: Connection, files: Sequence[StagedFile], item: str, where: str, **how: bool
    ) -> FoundArms:
        """The arms where no table lists them: the values of the item column."""
        return find_arms(connection, files, item, where, **how)

    def listed(self, arms: ArmTable | None) -> ArmTable | None:
        """The arms that are known before the log is read."""
        return arms

    def tracks(self, track: Track | None) -> tuple[Track | None, Track | None]:
        """Who is told of each part that is summed by arm, and by features: the longer of the two."""
        return None, track

    def sum_contexts(self, log: LogParts, track: Track | None) -> Noted:
        """The recipe, learned unless it is given, and the moments of its features; and what was noticed."""
        connection, parts, ids, seen = log.connection, log.parts, log.arms.names, Seen()
        if self.learning:
            seen = survey_columns(
                connection, parts, ids, log.engine, names=self.learning, most_levels=log.most_levels
            )
        made = self.made(seen, log.item, log.arms, log.rows)
        plan = SumPlan(recipe=made.recipe, cut=log.cut)
        self.check_size(plan, log.source)
        halves = sum_features(connection, parts, plan, ids, log.engine, track)
        found, notes = borne_out(made, LoggedContexts(made.recipe, *halves))
        if made.usual and self.curves:
            curved, said = with_usual_curves(made, found, log, self.numeric, most=self.max_features)
            found, notes = (found, (*notes, *said)) if curved is None else (curved, said)
        return found, (*self.notes(seen, log.rows), *notes)

    def made(self, seen: Seen, item: str | None, arms: ArmTable, rows: int) -> Crossed:
        """The recipe, with what a log of so many rows says of the columns that are learned from it."""
        known = () if item is None else tuple(item_columns(arms))
        called = {column.name for column in known} | {column.name for column in self.context}
        # "item" means the arm, whatever its column is called
        meant = {} if "item" in called.union(self.features) else {"item": item or "item"}
        recipe = Recipe(
            item=item or "item",
            items=() if item is None else arms.names,
            item_columns=known,
            context=tuple(self.learned(column, seen, rows) for column in self.context),
            action=tuple(self.learned(column, seen, rows) for column in self.action),
            crosses=tuple((meant.get(a, a), meant.get(b, b)) for a, b in self.crosses or ()),
            item_effects=not known if self.item_effects is None else self.item_effects,
            intercept=self.intercept,
        )
        if self.crosses is not None:
            return with_named_crosses(recipe)
        return with_usual_crosses(recipe, rows, most=self.max_features, but=constant_columns(seen, rows))

    def learned(self, column: OneKind, seen: Seen, rows: int) -> OneKind:
        """A column with what a log of so many rows says of it."""
        if column.name in self.doubtful:
            column = maybe_missing(column, missing_rows(seen[column.name], rows) > 0)
        if column.draft or column.name in (*self.numeric, *self.categories):
            return column.learned(seen[column.name], min_count=self.min_count)
        return column

    def notes(self, seen: Seen, rows: int) -> tuple[str, ...]:
        """Columns that are the same in all rows."""
        return tuple(
            f"column {name!r} is the same in all rows, so it says nothing"
            for name in constant_columns(seen, rows)
        )

    def check_size(self, plan: SumPlan, where: str) -> None:
        """Refuse more features than asked for, before they are summed, with the term that has most."""
        size, most = plan.size, self.max_features
        if size <= most:
            return
        term = max(plan.terms, key=lambda term: plan.terms[term].stop - plan.terms[term].start)
        levels = " and ".join(f"{plan.width(name):,} of {name!r}" for name in term if plan.width(name) > 1)
        raise ValueError(
            f"{where} must make at most {most:,} features (max_features), got {size:,}, most of them by "
            f"{levels}: leave it out, group rare levels (min_count), or group or hash its values first"
        )


@dataclass(frozen=True, kw_only=True)
class AskedArms(AskedColumns):
    """No column of a context: arms are fixed, and there is nothing to sum beside them."""

    def complete(self, named: Columns) -> Columns:
        if named.item is None:
            raise ValueError("item must be the column of what was played, got None")
        return super().complete(named)

    def tracks(self, track: Track | None) -> tuple[Track | None, Track | None]:
        return track, None

    def sum_contexts(self, log: LogParts, track: Track | None) -> Noted:
        return None, ()


@dataclass(frozen=True, kw_only=True)
class AskedRecipe(AskedColumns):
    """The recipe of an earlier log, and nothing to learn."""

    recipe: Recipe

    @property
    def context(self) -> tuple[Column, ...]:
        return self.recipe.context

    @property
    def action(self) -> tuple[Numeric, ...]:
        return self.recipe.action

    def complete(self, named: Columns) -> Columns:
        if self.recipe.items and named.item not in (None, self.recipe.item):
            raise ValueError(f"item must be {self.recipe.item!r} as in the recipe, got {named.item!r}")
        return super().complete(named._replace(item=self.recipe.item if self.recipe.items else None))

    def find_arms(
        self, connection: Connection, files: Sequence[StagedFile], item: str, where: str, **how: bool
    ) -> FoundArms:
        return FoundArms(self.listed(None), ())

    def listed(self, arms: ArmTable | None) -> ArmTable:
        return ArmTable.one_hot(self.recipe.items, self.recipe.item)

    def made(self, seen: Seen, item: str | None, arms: ArmTable, rows: int) -> Crossed:
        return Crossed(self.recipe)


def asked_for(recipe: Recipe | None, arms: ArmTable | None = None, **asked: Any) -> AskedColumns:
    """What is asked for: a recipe alone, or columns, with arms that a table lists or without."""
    found = AskedColumns(**asked)
    if recipe is None:
        return AskedArms(**asked) if found.nothing else found
    if not isinstance(recipe, Recipe):
        raise ValueError(f"recipe must be a linoto.Recipe, got {type(recipe).__name__}")
    if not found.nothing or found.item_effects is not None or arms is not None:
        raise ValueError("recipe must be given alone, got columns, crosses or arms beside it")
    if found.missing != REFUSE:
        raise ValueError("missing must be left to the recipe, which knows what may be missing, got both")
    return AskedRecipe(recipe=recipe, max_features=found.max_features)


def numeric(name: str) -> Numeric:
    """A column of numbers as it is before the log is read."""
    return Numeric(name=name)


def maybe_missing(column: OneKind, missing: bool) -> OneKind:
    """The same column, whose value may be missing or not."""
    return replace(column, missing=missing) if isinstance(column, OptionalColumn) else column


def missing_rows(found: Found, rows: int) -> int:
    """How many of so many rows lack a number, by one of the fields of a column that most lack."""
    assert isinstance(found, tuple)
    return rows - int(min(spread.size for spread in found))


def constant_columns(seen: Seen, rows: int) -> list[str]:
    """Columns of numbers that are the same in all rows: missing in none of so many, or in all."""
    return [
        name
        for name, found in seen.items()
        if isinstance(found, tuple)
        and all(spread.constant for spread in found)
        and missing_rows(found, rows) in (0, rows)
    ]


def with_one_meaning(columns: Columns) -> Columns:
    """The same columns, if none has two meanings; an id may be anything, a time anything but the reward.

    Several columns may be made of one field, if all of them read it alike.
    """
    found: dict[str, tuple[str, str]] = {}
    if columns.time == columns.reward:  # the early half would be the worse one
        raise ValueError(f"{columns.reward!r} must have one meaning, got reward and time")
    read = [(name, role, role) for role, name in columns.roles().items() if role not in ("time", "id")]
    for column in columns.context:
        read += [(field, f"{column.kind} {column.name!r}", column.holds) for field in column.reads]
    for name, role, holds in read:
        other, held = found.setdefault(name, (role, holds))
        if held != holds:
            raise ValueError(f"{name!r} must have one meaning, got {other} and {role}")
    return columns


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
