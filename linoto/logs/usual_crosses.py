"""Which columns of a context are crossed where nobody says it: those that may change which arm is best.

A column that is multiplied with nothing shifts all arms alike, so a model without crosses plays the same arm
whoever asks. So every column of the context is crossed with the item, or with what is known of items that
have no effects of their own, as far as the log has rows for it. Columns with few features come first; those
that would leave fewer than two rows for each feature of a cross are not crossed, and named. When the log is
summed up it has the last word: if it is likelier without these crosses, or one half of it foretells the other
one better without, there are none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.evidence import beside, evidence, foretold_errors
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe
from linoto.core.hints import shortened_list
from linoto.logs.feature_sums import SumPlan
from linoto.logs.features import LoggedContexts

ROWS_FOR_A_FEATURE = 2
SAME = 1e-5  # of the largest number, up to which deviations are lost in sums of squares


class Crossed(NamedTuple):
    """A recipe with its crosses, and what is to be said about them."""

    recipe: Recipe
    notes: tuple[str, ...] = ()
    usual: bool = False  # whether nobody named them


def with_named_crosses(recipe: Recipe) -> Crossed:
    """The recipe as it was asked for; it is said if who asks cannot change which arm is best."""
    apart = partners_of(recipe)
    if not (apart and recipe.context) or recipe.action or {*apart, recipe.item} & {*chain(*recipe.crosses)}:
        return Crossed(recipe)
    note = f"nothing is crossed with {named(apart)}: who asks does not change which arm is best"
    return Crossed(recipe, (note,))


def with_usual_crosses(recipe: Recipe, rows: int, *, most: int, but: Collection[str] = ()) -> Crossed:
    """The recipe of a log of so many rows, with crosses that leave at most so many features to be summed.

    Columns that are the same in all rows are left as they are: those named, and those with one level.
    """
    apart, width = partners_of(recipe), {column.name: len(column.labels) for column in recipe.context}
    leveled = {column.name for column in recipe.context if column.leveled}
    names = [name for name in width if name not in but and (name not in leveled or width[name] > 1)]
    if not (apart and names):
        return Crossed(recipe)
    found, crossed, many, few = recipe, list[str](), list[str](), list[str]()
    for name in sorted(names, key=width.__getitem__):
        tried = [one for one in names if one in (*crossed, name)]
        wider = replace(recipe, crosses=tuple((partner, one) for one in tried for partner in apart))
        if SumPlan(recipe=wider).size > most:
            many.append(name)
        elif (wider.d - recipe.d) * ROWS_FOR_A_FEATURE > rows:
            few.append(name)
        else:
            found, crossed = wider, tried
    left = {
        f"there would be more than {most:,} features": many,
        f"{rows:,} rows are few for so many features more (name crosses to have them all the same)": few,
    }
    return Crossed(found, tuple(notes_of(named(apart), crossed, left)), usual=True)


def partners_of(recipe: Recipe) -> tuple[str, ...]:
    """What tells arms apart: the item, or what is known of items that have no effects of their own."""
    if len(recipe.items) < 2:
        return ()
    return (recipe.item,) if recipe.item_effects else tuple(column.name for column in recipe.item_columns)


def notes_of(apart: str, crossed: Sequence[str], left: dict[str, list[str]]) -> Iterator[str]:
    """What was crossed though nobody said so, and what was not, by the reason."""
    if crossed:
        yield f"crossed with {apart}, so that who asks may change which arm is best: {named(crossed)}"
    for why, names in left.items():
        if names:
            told = (
                f"not crossed with {apart}, so that it changes for nobody which arm is best: {named(names)}"
            )
            yield f"{told}; {why}"


def borne_out(crossed: Crossed, found: LoggedContexts) -> tuple[LoggedContexts, tuple[str, ...]]:
    """The log by its usual crosses, or without them where it is likelier; and what is to be said."""
    recipe = replace(found.recipe, crosses=())
    if not crossed.usual or recipe.d == found.recipe.d:
        return found, crossed.notes
    plain = LoggedContexts(recipe, found.early.leading(recipe.d), found.late.leading(recipe.d))
    one, other = Borne(found), Borne(plain)
    if one.beats(other):
        return found, crossed.notes
    less_likely = one.likelihood < other.likelihood
    better = "the log is likelier" if less_likely else "halves of the log foretell each other better"
    note = (
        f"nothing is crossed with {named(partners_of(recipe))}, as {better} without: it does "
        "not show that who asks changes which arm is best (name crosses to learn it all the same)"
    )
    return plain, (note,)


@dataclass(frozen=True, eq=False)
class Borne:
    """How well a log bears its features out, beside what is known of arms, at the ridges that suit them."""

    log: LoggedContexts

    @cached_property
    def likelihood(self) -> float:
        """Its logarithm; rewards that do not differ are as likely by every model."""
        whole = beside_arms(self.log.recipe, self.log.early + self.log.late)
        return float(evidence(whole).max()) if whole.count and whole.reward_squares else 0.0

    @cached_property
    def errors(self) -> float:
        """Squared, of each half as the other foretells it; 0 is foretold where there is no other."""
        halves = [beside_arms(self.log.recipe, half) for half in self.log.halves]
        return float(foretold_errors(halves).min())

    def beats(self, other: Borne, by: float = 0.0) -> bool:
        """Whether the log is likelier so, and each half no worse foretold by the other."""
        return self.likelihood >= other.likelihood + by and self.errors <= other.errors


def beside_arms(recipe: Recipe, moments: Moments) -> Moments:
    """The sums of what contexts add to what arms are without them.

    The means of arms have no prior so, or a recipe with many features for each arm would know them better.
    Columns of items count from their means, in their deviations: a year is as likely as an age.
    """
    to, arms = of_one_size(recipe), np.zeros(recipe.d, dtype=np.bool_)
    if to is not None:
        gram = to @ moments.gram @ to.T
        moments = Moments.unchecked(  # rounding may leave what no rows can have
            count=moments.count,
            gram=(gram + gram.T) / 2,
            reward_vector=to @ moments.reward_vector,
            reward_sum=moments.reward_sum,
            reward_squares=moments.reward_squares,
        )
    asked = {column.name for column in recipe.columns}
    for term, place in recipe.slices.items():
        arms[place] = asked.isdisjoint(term)
    return beside(moments, arms)


def of_one_size(recipe: Recipe) -> Floats | None:
    """(d, d) what makes of all features those of a recipe whose item columns have mean 0 and deviation 1.

    A context's columns have that from the start, and a level is 0 or 1. The mean is a multiple of the
    feature that a term is without the column; where there is none, it stays. So does a column of numbers
    that are almost the same: sums of their squares do not tell them apart. None: there is nothing to do.
    """
    found, done = np.eye(recipe.d), False
    for column in recipe.item_columns:
        values = np.array(column.values)
        means, sizes = values.mean(axis=0), values.std(axis=0)
        if np.isin(values, (0.0, 1.0)).all() or (sizes <= SAME * np.abs(values).max(axis=0)).any():
            continue
        for term, place in recipe.slices.items():
            if column.name in term[:1]:
                without, others = recipe.slices.get(term[1:]), (place.stop - place.start) // sizes.size
                found[place, place] = np.kron(np.diag(1 / sizes), np.eye(others))
                if without is not None:
                    found[place, without] = np.kron(-(means / sizes)[:, None], np.eye(others))
                done = True
    return found if done else None


def named(columns: Sequence[str]) -> str:
    """Columns in a sentence."""
    return shortened_list([*map(repr, columns)])
