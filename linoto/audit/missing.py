"""Which numbers of the context are missing in some rows, and are rewards others there?

Each such column is tested alone: do arms earn something else in rows without a value? By an F test of the
sums of the log, so that no rows are needed for it. That decides no verdict, as the model has a feature for
it. But whoever decides must know that values have to be missing later for the same reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from linoto.core.features.columns import OptionalColumn
from linoto.core.features.moments import Moments
from linoto.core.features.recipe import Recipe, Term
from linoto.core.hints import amount, counted, shortened_list
from linoto.logs.many_tests import TEST_LEVEL, holm
from linoto.logs.read import Log

RANK = 1e-10  # of the largest direction: what is smaller is rounding


class MissingValues(NamedTuple):
    """A column that is missing in some rows."""

    column: str
    rows: int
    share: float
    difference: float  # what arms earn more without a value, on average
    p: float | None  # that they earn the same, adjusted for the number of columns (Holm); None: no test

    @property
    def matters(self) -> bool:
        """Whether rewards are others where it is missing, for sure."""
        return self.p is not None and self.p < TEST_LEVEL

    @property
    def where(self) -> str:
        """In how many rows it is missing."""
        return f"{self.column!r} in {counted(self.rows, 'row')} ({self.share:.1%})"

    @property
    def told(self) -> str:
        """What arms earn there."""
        way = "more" if self.difference > 0 else "less"
        much = f"{amount(abs(self.difference))} {way} on average"
        return f"arms earn something else there: {much} (p = {self.p:.2g})"


def find_missing(log: Log) -> tuple[MissingValues, ...]:
    """The columns of a log's context that are missing in some rows, in the order of the recipe."""
    return () if log.contexts is None else missing_values(log.recipe, log.moments)


def missing_values(recipe: Recipe, moments: Moments) -> tuple[MissingValues, ...]:
    """The same by the sums of its features."""
    places = {
        column.name: recipe.slices[(column.name,)].stop - 1
        for column in recipe.context
        if isinstance(column, OptionalColumn) and column.missing
    }
    there = {name: place for name, place in places.items() if moments.gram[place, place] > 0}
    tests = [tested(recipe, moments, name, place) for name, place in there.items()]
    known = [p for _, p in tests if p is not None]
    adjusted = iter(holm(np.array(known)).tolist())
    return tuple(
        MissingValues(
            name,
            rows := round(float(moments.gram[place, place])),
            rows / moments.count,
            step,
            None if p is None else next(adjusted),
        )
        for (name, place), (step, p) in zip(there.items(), tests, strict=True)
    )


def tested(recipe: Recipe, moments: Moments, column: str, place: int) -> tuple[float, float | None]:
    """How much more arms earn without a value of a column, and how likely that they earn the same.

    The model knows the arms, and for the test what each of them earns without a value where that is crossed.
    Where it has no constant, the feature would be one: that is no test of missing values.
    """
    from scipy.special import fdtrc  # type: ignore[import-untyped]

    of_arms = [term for term in recipe.terms if all(name in recipe.item_matrices for name in term)]
    known = [at for term in of_arms for at in range(*recipe.slices[term].indices(recipe.d))]
    crossed = [at for term in recipe.crosses if column in term for at in missing_places(recipe, term, column)]
    alone, one, all_of = (fitted(moments, known + more) for more in ([], [place], [place, *crossed]))
    degrees, more = moments.count - all_of.rank, all_of.rank - alone.rank
    constant = recipe.intercept or (recipe.item,) in recipe.slices  # something that is 1 in every row
    if not constant or moments.reward_squares is None or degrees < 1 or more < 1:
        return 0.0, None
    rest = moments.reward_squares - all_of.squares
    if rest <= RANK * moments.reward_squares:
        return one.last, None
    gained = max(all_of.squares - alone.squares, 0.0)
    return one.last, float(fdtrc(more, degrees, gained / more / (rest / degrees)))


def missing_places(recipe: Recipe, term: Term, column: str) -> list[int]:
    """The features of a cross of arms and a column that are those of a missing value."""
    if not all(name in recipe.item_matrices for name in term if name != column):
        return []
    widths = [len(recipe.labels[name]) for name in term]
    places = np.arange(recipe.slices[term].start, recipe.slices[term].stop).reshape(widths)
    return [int(at) for at in places.take(-1, axis=term.index(column)).ravel()]


class Fitted(NamedTuple):
    """Least squares by some of the features."""

    squares: float  # of rewards, that they explain
    rank: int
    last: float  # the parameter of the last of them


def fitted(moments: Moments, places: Sequence[int]) -> Fitted:
    """By the features at these places."""
    X, y = moments.gram[np.ix_(places, places)], moments.reward_vector[list(places)]
    if not y.size:
        return Fitted(0.0, 0, 0.0)
    scale = np.sqrt(np.maximum(X.diagonal(), 1e-300))  # features of items are in any units
    sizes, axes = np.linalg.eigh(X / np.outer(scale, scale))
    there = sizes > RANK * sizes[-1]
    along = axes[:, there].T @ (y / scale)
    theta = axes[:, there] @ (along / sizes[there]) / scale
    return Fitted(float(y @ theta), int(there.sum()), float(theta[-1]))


def missing_facts(found: Sequence[MissingValues]) -> Iterator[tuple[str, str]]:
    """How many values each column lacks, and whether arms earn something else there."""
    for column in found:
        if column.matters:
            yield "missing values", f"{column.where}; {column.told}"
    others = [column.where for column in found if not column.matters]
    if others:
        sign = "; no sign that arms earn something else there" * any(c.p is not None for c in found)
        yield "missing values", shortened_list(others) + sign


def missing_notes(found: Sequence[MissingValues]) -> Iterator[str]:
    """What must stay as it is where rewards are others."""
    names = [repr(column.column) for column in found if column.matters]
    if names:
        are = "are" if len(names) > 1 else "is"
        yield (
            f"arms earn something else where {' and '.join(names)} {are} missing, and the model learns that: "
            "it holds as long as values are missing for the same reasons as in the log"
        )
