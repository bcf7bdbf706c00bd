"""What a model that never saw a row expects of it: of the other folds, or of the blocks before.

Where rows have contexts the model is linear in the features of their recipe; elsewhere it is the mean of each
arm, shrunk towards the mean of all by one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from linoto.core.arrays import Floats, Ints
from linoto.core.validation import check_count, check_positive
from linoto.logs.plays import OneArm, Plays, of_logged
from linoto.logs.row_kinds import kind_of
from linoto.logs.rows import Rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """Rows in parts, and what a model made without a part expects of every arm in it."""

    rows: Rows
    parts: Sequence[Ints]  # the positions of the rows of each part
    predicted: Sequence[Floats]  # of each part: (k,) for all its rows, or (its rows, k)

    def clipped(self, low: float, high: float) -> Fitted:
        """The same, within what rewards can be."""
        return replace(self, predicted=[np.clip(part, low, high) for part in self.predicted])

    def expected(self, target: Plays) -> Floats:
        """(n,) of what a target plays."""
        found = np.empty(len(self.rows))
        for at, predicted in zip(self.parts, self.predicted, strict=True):
            found[at] = target.take(at).expected(predicted)
        return found

    def of_played(self) -> Floats:
        """(n,) of the arms that were played."""
        found = np.empty(len(self.rows))
        for at, predicted in zip(self.parts, self.predicted, strict=True):
            found[at] = of_logged(predicted, self.rows.take(at))
        return found

    def corrected(self, target: Plays, weights: Floats) -> Floats:
        """(n,) what is expected of a target, corrected by what weighted rewards are beyond their model."""
        return self.expected(target) + weights * (self.rows.rewards - self.of_played())

    def choices(self) -> OneArm:
        """The best arm on offer in each row."""
        found = np.empty(len(self.rows), np.int64)
        for at, predicted in zip(self.parts, self.predicted, strict=True):
            found[at] = self.rows.take(at).best(predicted)
        return OneArm(found, self.rows.k)

    @property
    def ends(self) -> tuple[Floats, Floats]:
        """(k,) the least and the most that is expected of each arm."""
        tables = [part.reshape(-1, self.rows.k) for part in self.predicted]
        lows, highs = zip(*((table.min(axis=0), table.max(axis=0)) for table in tables), strict=True)
        return np.min(lows, axis=0), np.max(highs, axis=0)


def fit_other_folds(rows: Rows, *, folds: int = 5, ridge: float = 1.0) -> Fitted:
    """Each fold by a model of the others; row i is in fold i mod folds."""
    check_parts(rows, folds, ridge)
    parts = [np.arange(fold, len(rows), folds) for fold in range(folds)]
    others = [[other for other in range(folds) if other != fold] for fold in range(folds)]
    return Fitted(rows=rows, parts=parts, predicted=kind_of(rows).expected(parts, others, ridge))


def fit_earlier_blocks(rows: Rows, *, blocks: int = 5, ridge: float = 1.0) -> tuple[Fitted, Rows]:
    """Each block after the first by a model of all blocks before it; and the rows of the first one.

    Given all rows before its block, what a greedy target does in a row is fixed; so its terms are, but for
    the value of the target, differences of a martingale. No block is used twice: it is judged first, and
    then joins the model.
    """
    check_parts(rows, blocks, ridge)
    starts = [len(rows) * block // blocks for block in range(blocks + 1)]
    parts = [np.arange(start, end) for start, end in pairwise(starts)]
    found = kind_of(rows).expected(parts, [[*range(block)] for block in range(blocks)], ridge)
    first = starts[1]
    later = rows.take(np.arange(first, len(rows)))
    return Fitted(rows=later, parts=[part - first for part in parts[1:]], predicted=found[1:]), rows.take(
        parts[0]
    )


def check_parts(rows: Rows, folds: int, ridge: float) -> None:
    """Refuse parts that rows cannot be divided into."""
    check_count("folds", folds)
    check_positive("ridge", ridge)
    if len(rows) < 2:
        raise ValueError(f"rows must be at least two where a model is made of others, got {len(rows)}")
    if not 2 <= folds <= len(rows):
        raise ValueError(f"folds must be in [2, {len(rows)}], got {folds}")
