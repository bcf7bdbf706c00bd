"""What a target plays in logged rows: with which probabilities, or which one arm in each row.

One arm for each row is one number for each row. As probabilities it would be a table of rows times arms,
nearly all of it zeros: 4 GB for 50,000 rows and 10,000 arms. Both answer the same questions, with the same
bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints
from linoto.logs.rows import Rows


@dataclass(frozen=True, eq=False)
class Shares:
    """Probabilities of arms: (k,) the same in every row, or (n, k)."""

    values: Floats

    @property
    def per_row(self) -> bool:
        """Whether they may differ from row to row."""
        return self.values.ndim == 2

    @property
    def most(self) -> Floats:
        """(k,) the largest probability of each arm in any row."""
        return np.asarray(self.values.max(axis=0)) if self.per_row else self.values

    def take(self, chosen: npt.NDArray[Any]) -> Shares:
        """Those of some of the rows: a mask or positions."""
        return Shares(self.values[chosen]) if self.per_row else self

    def of_logged(self, rows: Rows) -> Floats:
        """(n,) of the arms that were logged."""
        return of_logged(self.values, rows)

    def share_of(self, arms: Bools) -> float:
        """The share of some arms, (k,), on average over the rows."""
        return float(self.values[..., arms].sum(axis=-1).mean())

    def expected(self, predicted: Floats) -> Floats:
        """(n,), or () for all rows alike: the mean of what is predicted for arms, (k,) or (n, k)."""
        return np.asarray(np.einsum("...k,...k->...", self.values, predicted))

    def on_offer(self, rows: Rows) -> Shares:
        """The same, if they are on arms that could be played."""
        if rows.candidates is None:
            return self
        every = np.ascontiguousarray(np.broadcast_to(self.values, rows.candidates.shape))
        outside = (every > 0) & ~rows.candidates
        if outside.any():
            refuse(rows, *np.argwhere(outside)[0].tolist())
        return Shares(every)


@dataclass(frozen=True, eq=False)
class OneArm:
    """One of k arms in each row, with probability 1."""

    arms: Ints  # (n,)
    k: int
    per_row = True

    @property
    def most(self) -> Floats:
        """(k,) 1 for each arm that is played in any row."""
        return np.asarray(np.bincount(self.arms, minlength=self.k) > 0, np.float64)

    def take(self, chosen: npt.NDArray[Any]) -> OneArm:
        """Those of some of the rows: a mask or positions."""
        return replace(self, arms=self.arms[chosen])

    def of_logged(self, rows: Rows) -> Floats:
        """(n,) 1 where that is what was logged."""
        return np.asarray(self.arms == rows.arms, np.float64)

    def share_of(self, arms: Bools) -> float:
        """The share of rows in which it is one of some arms, (k,)."""
        return float(arms[self.arms].mean())

    def expected(self, predicted: Floats) -> Floats:
        """(n,) what is predicted for it, of (k,) or (n, k)."""
        return np.asarray(
            predicted[self.arms] if predicted.ndim == 1 else predicted[np.arange(self.arms.size), self.arms]
        )

    def on_offer(self, rows: Rows) -> OneArm:
        """The same, if it could be played."""
        if rows.candidates is None:
            return self
        outside = ~rows.candidates[np.arange(self.arms.size), self.arms]
        if outside.any():
            row = int(outside.argmax())
            refuse(rows, row, int(self.arms[row]))
        return self


Plays = Shares | OneArm


def are_same(one: Plays, other: Plays) -> bool:
    """Whether both play the same in every row."""
    if isinstance(one, OneArm):
        return bool((one.arms == other.arms).all()) if isinstance(other, OneArm) else are_same(other, one)
    if isinstance(other, Shares):
        return bool((one.values == other.values).all())
    rows: Any = np.arange(other.arms.size) if one.per_row else ...
    return bool((one.values[rows, other.arms] == 1).all())


def of_logged(values: Floats, rows: Rows) -> Floats:
    """(n,) the entries of (k,) or (n, k) values that belong to the logged arms."""
    return np.asarray(values[rows.arms] if values.ndim == 1 else values[np.arange(len(rows)), rows.arms])


def refuse(rows: Rows, row: int, arm: int) -> None:
    """Say that an arm was not on offer."""
    raise ValueError(f"target must play arms that are on offer, got {rows.name(arm)} in row {row + 1}")
