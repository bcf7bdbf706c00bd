"""What a loop with contexts is made from, as JSON: the recipe of its features, and what is kept of a log."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from linoto.core.features.columns.powers import MOST_DEGREE
from linoto.core.features.columns.times import MOST_HARMONICS
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.offline import Offline
from linoto.service.errors import invalid
from linoto.service.storage import features

MOST_WORK = 200_000_000  # multiplications of one decision, k d^2: about a tenth of a second
LONGEST_NAME = features.LONGEST_NAME
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Label = Annotated[str, Meta(min_length=1, max_length=1000)]
Number = Annotated[float, Meta(ge=-1e15, le=1e15)]  # a square must stay finite
Scale = Annotated[float, Meta(gt=0.0, le=1e15)]
Total = Annotated[float, Meta(ge=-1e100, le=1e100)]  # of many numbers, or of their squares
Count = Annotated[int, Meta(ge=0, le=2**53)]


class ContextColumn(
    Struct, tag_field="kind", forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True
):
    """A field of the context, and the features that it becomes."""

    name: Name
    fields: Annotated[list[Name], Meta(max_length=100)] = []  # that it reads; []: the one called like it


class OptionalColumn(ContextColumn, frozen=True, kw_only=True):
    """A field of numbers that may be missing, where that has a feature."""

    missing: bool = False  # whether no value at all has a feature


class NumericColumn(OptionalColumn, tag="numeric", frozen=True, kw_only=True):
    """A field of the context that is a number: its feature is (value - mean) / scale."""

    mean: Number = 0.0
    scale: Scale = 1.0


class BandsColumn(ContextColumn, tag="bands", frozen=True, kw_only=True):
    """A number by the band that it lies in: one feature for each."""

    edges: Annotated[list[Number], Meta(min_length=1, max_length=1000)]


class PowersColumn(OptionalColumn, tag="powers", frozen=True, kw_only=True):
    """A polynomial of a number, within the range of the log."""

    range: tuple[Number, Number]
    degree: Annotated[int, Meta(ge=1, le=MOST_DEGREE)] = 3


class SplineColumn(OptionalColumn, tag="spline", frozen=True, kw_only=True):
    """A curve of a number that bends at knots."""

    knots: Annotated[list[Number], Meta(min_length=2, max_length=100)]
    degree: Annotated[int, Meta(ge=1, le=3)] = 1


class LogarithmColumn(OptionalColumn, tag="logarithm", frozen=True, kw_only=True):
    """An amount: its feature is (log(1 + value) - mean) / scale."""

    mean: Number
    scale: Scale


class FourierColumn(OptionalColumn, tag="fourier", frozen=True, kw_only=True):
    """Waves of one or several numbers, in directions that are drawn by a seed."""

    means: Annotated[list[Number], Meta(min_length=1, max_length=100)]
    scales: Annotated[list[Scale], Meta(min_length=1, max_length=100)]
    ranges: Annotated[list[tuple[Number, Number]], Meta(min_length=1, max_length=100)]
    waves: Annotated[int, Meta(ge=1, le=10_000)] = 25
    bandwidth: Scale | None = None
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0


class HashedColumn(ContextColumn, tag="hashed", frozen=True, kw_only=True):
    """Words that share features, by a hash."""

    size: Annotated[int, Meta(ge=1, le=100_000)] = 64


class EmbeddingColumn(OptionalColumn, tag="embedding", frozen=True, kw_only=True):
    """A vector: its features are its entries, divided by the scale."""

    size: Annotated[int, Meta(ge=1, le=100_000)]
    scale: Scale


class SinceColumn(OptionalColumn, tag="since", frozen=True, kw_only=True):
    """A moment: its feature is (units since origin - mean) / scale."""

    mean: Number
    scale: Scale
    origin: Label = "1970-01-01"
    unit: Label = "days"


class CycleColumn(OptionalColumn, tag="cycle", frozen=True, kw_only=True):
    """Something that comes round: cosine and sine of its angle."""

    period: Scale | Label = "day"
    harmonics: Annotated[int, Meta(ge=1, le=MOST_HARMONICS)] = 1


class CategoryColumn(ContextColumn, tag="category", frozen=True, kw_only=True):
    """A field of the context that is a word: one feature for each level."""

    levels: Annotated[list[Label], Meta(max_length=100_000)]
    missing: bool = False  # whether no value at all has a feature
    other: bool = False  # whether levels that are not listed share one


class KnownColumn(
    Struct, tag_field="kind", tag="item", forbid_unknown_fields=True, frozen=True, kw_only=True
):
    """What is known of every item: a number for each label, one row for each item."""

    name: Name
    labels: list[Label]
    values: list[list[Number]]


class RecipeSpec(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """How a context and an item become features, as `linoto.Recipe.to_dict` writes it."""

    items: Annotated[list[Name], Meta(min_length=1, max_length=100_000)]
    context: list[
        NumericColumn
        | CategoryColumn
        | BandsColumn
        | PowersColumn
        | SplineColumn
        | LogarithmColumn
        | FourierColumn
        | HashedColumn
        | EmbeddingColumn
        | SinceColumn
        | CycleColumn
    ] = []
    crosses: list[tuple[Name, Name]] = []
    item: Name = "item"
    item_columns: list[KnownColumn] = []
    action: Annotated[list[NumericColumn], Meta(max_length=0, description="not in a loop")] = []
    item_effects: bool = True
    intercept: bool = True
    type: Annotated[str, Meta(pattern="^Recipe$")] = "Recipe"


class MomentStatistics(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True):
    """What remains of a log with contexts: X'X and X'y of the features x of what was played, and sums."""

    count: Count
    gram: list[list[Total]]
    reward_vector: list[Total]
    reward_sum: Total
    reward_squares: Total | None = None
    squares_by_item: list[Total] | None = None  # of each item, for a recipe whose only column is the item


def read_recipe(recipe: RecipeSpec) -> Recipe:
    """The recipe of a loop; refuses one that contradicts itself."""
    try:
        return Recipe.from_dict(msgspec.to_builtins(recipe))
    except ValueError as error:
        raise invalid(f"recipe: {error}") from error


def as_spec(recipe: Recipe) -> RecipeSpec:
    """A recipe as a loop keeps it."""
    try:
        return msgspec.convert(recipe.to_dict(), RecipeSpec)
    except msgspec.ValidationError as error:
        raise invalid(f"recipe: {error}") from error


def as_statistics(moments: Moments, offline: Offline | None = None) -> MomentStatistics:
    """A log with contexts as a loop keeps it; `offline` is the same log by item, where it is known."""
    squares = None if offline is None else offline.reward_squares
    return MomentStatistics(
        count=moments.count,
        gram=moments.gram.tolist(),
        reward_vector=moments.reward_vector.tolist(),
        reward_sum=moments.reward_sum,
        reward_squares=moments.reward_squares,
        squares_by_item=None if squares is None else squares.tolist(),
    )


def read_moments(statistics: MomentStatistics | None) -> Moments | None:
    """The log that a loop starts from, if it has one."""
    if statistics is None:
        return None
    sums = msgspec.structs.asdict(statistics)
    del sums["squares_by_item"]
    return Moments(**sums)


def by_item(recipe: Recipe, statistics: MomentStatistics) -> Offline:
    """The log of a recipe whose only column is the item, by item; squares of each are those that are given,
    or the sums where all rewards are 0 or 1."""
    first, k = int(recipe.intercept), len(recipe.items)
    moments, squares = read_moments(statistics), statistics.squares_by_item
    assert moments is not None
    if moments.d != first + k:
        raise invalid(f"moments must be of the {first + k} features of the recipe, got {moments.d}")
    pulls, sums = moments.gram.diagonal()[first:], moments.reward_vector[first:]
    known = sums if moments.reward_squares == moments.reward_sum else None
    if squares is not None:
        known = np.array(squares)
        if known.size != k or not np.isclose(known.sum(), moments.reward_squares or 0.0, rtol=1e-6):
            raise invalid(f"squares_by_item must be {k} numbers that add up to reward_squares, got others")
    return Offline(pulls=np.rint(pulls).astype(np.int64), reward_sums=sums, reward_squares=known)


def check_size(known: Recipe, most_features: int) -> None:
    """Refuse a recipe with which a decision would take too long."""
    if known.d > most_features:
        raise invalid(f"recipe must make at most {most_features} features, got {known.d}")
    if len(known.items) * known.d**2 > MOST_WORK:
        raise invalid(
            f"recipe must have k items and d features with k d^2 at most {MOST_WORK:,}, got "
            f"{len(known.items)} items and {known.d} features"
        )
