"""Is a number of the context worth the same everywhere, or does it bend?

The model is linear in it. A score test asks whether lines that begin at quantiles of the number would explain
what the model leaves of rewards: they are freed of all features, and summed over rows with what is left. The
variance of these sums is that of the rows themselves (White, 1980), so rows may differ in noise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.columns import Numeric
from linoto.logs.estimates import count_events
from linoto.logs.many_tests import holm
from linoto.logs.rows import Rows

SAID = 1e-8  # of a piece, that features must leave of it: less is rounding
BENDS = (0.25, 0.5, 0.75)  # quantiles at which a line may bend
FEWEST_ROWS = 200  # of fewer the sums are not normal yet
MOST_FEATURES = 1000  # more would take minutes


class Curve(NamedTuple):
    """The test of one number of the context."""

    column: str
    p: float  # adjusted for the number of columns (Holm)

    @property
    def remedy(self) -> str:
        """The column that may bend, as `linoto.core.features.written` reads it."""
        field = self.column if self.column.isidentifier() else f'"{self.column}"'
        return f"spline({field}, knots=5)"


def find_curves(rows: Rows) -> tuple[Curve, ...]:
    """The tests of all numbers that the model takes as they are, the surest first; none where none can be."""
    recipe = rows.known_recipe
    numbers = [column for column in recipe.context if isinstance(column, Numeric)]
    _, too_few = count_events(rows.rewards, np.ones(len(rows)), "normal")
    if not numbers or too_few or len(rows) < FEWEST_ROWS or recipe.d > MOST_FEATURES:
        return ()
    gram, sums = rows.sums(np.arange(len(rows)))
    inverse = np.asarray(np.linalg.pinv(gram, hermitian=True), dtype=np.float64)
    left = rows.rewards - rows.features.times(inverse @ sums)
    tests = {column.name: bend_p(rows, column, inverse, left) for column in numbers}
    told = {name: p for name, p in tests.items() if p is not None}
    found = zip(told, holm(np.array([*told.values()])).tolist(), strict=True)
    return tuple(sorted((Curve(*each) for each in found), key=lambda curve: curve.p))


def bend_p(rows: Rows, column: Numeric, inverse: Floats, left: Floats) -> float | None:
    """The p-value of lines that begin at quantiles; None where the number has too few values to bend.

    Rows without a value are on no line: the model has a feature for them.
    """
    from scipy.special import chdtrc  # type: ignore[import-untyped]

    features = rows.columns[column.name].values
    values, there = features[:, 0], features[:, -1] == 0 if column.missing else np.full(len(rows), True)
    if not there.any():
        return None
    known = values[there]
    knots = [knot for knot in np.unique(np.quantile(known, BENDS)) if known.min() < knot < known.max()]
    pieces = [np.where(there, np.maximum(values - knot, 0.0), 0.0) for knot in knots]
    freed_pieces = [(freed(piece, rows, inverse), SAID * (piece @ piece)) for piece in pieces]
    free = np.array([piece for piece, least in freed_pieces if piece @ piece > least])
    if not len(free):
        return None
    scores, spread = free @ left, (free * left**2) @ free.T
    return float(chdtrc(len(free), scores @ np.linalg.pinv(spread, hermitian=True) @ scores))


def freed(piece: Floats, rows: Rows, inverse: Floats) -> Floats:
    """(n,) what no feature says of a number of each row: the residuals of its least squares fit."""
    return piece - rows.features.times(inverse @ rows.features.weighted_sum(piece, len(inverse)))
