"""A log with contexts as statistics: all that a linear policy needs of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats
from linoto.core.diagonals import eigenvalues
from linoto.core.offline import Offline, Totals
from linoto.core.one_hot import OneHotArms, find_one_hot
from linoto.core.validation import as_floats, as_reward, check_count, exact, is_number
from linoto.core.within import within

SUMS = ("count", "gram", "reward_vector", "reward_sum", "reward_squares")
ROUNDING = 1e-9  # share of the largest entry by which sums over many rows may be off
LEFT = 100.0  # last digits, times sqrt(rows): a fourth of it was the most, in 400 to 2 million rows
ROUNDED: ContextVar[bool] = ContextVar("ROUNDED", default=True)


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """A log with contexts: X'X and X'y of its rows x with reward y, and sums of y. Logs merge with `+`.

    Each row is the feature vector of the action that was played, in its context.

    >>> log = Moments.from_rows([[1.0, 0.0], [1.0, 2.0]], [0.0, 1.0])
    >>> log.count, log.gram.tolist(), log.reward_vector.tolist(), log.reference
    (2, [[2.0, 2.0], [2.0, 4.0]], [1.0, 2.0], 0.5)
    >>> (log + log).count
    4
    """

    count: int  # rows
    gram: Floats  # (d, d) X'X
    reward_vector: Floats  # (d,) X'y
    reward_sum: float
    reward_squares: float | None = None  # the sum of squared rewards, where known

    def __post_init__(self) -> None:
        self._settle()
        check_consistent(self)

    def _settle(self) -> None:
        """Make every sum what it is to be: numbers, and arrays that nobody writes in."""
        count, gram = as_count(self.count), as_gram(self.gram)
        vector = as_floats("reward_vector", self.reward_vector, ndim=1)
        if vector.size != len(gram):
            raise ValueError(f"reward_vector must have {len(gram)} entries like gram, got {vector.size}")
        squares = None if self.reward_squares is None else as_sum("reward_squares", self.reward_squares)
        for array in (gram, vector):
            array.flags.writeable = False
        parts = {"count": count, "gram": gram, "reward_vector": vector, "reward_squares": squares}
        for name, value in {**parts, "reward_sum": as_sum("reward_sum", self.reward_sum)}.items():
            object.__setattr__(self, name, value)
        self.__dict__["rounded_rows"] = count if ROUNDED.get() else 0

    @classmethod
    def empty(cls, d: int) -> Moments:
        """No log at all: d features, no rows."""
        check_count("d", d)
        zeros = np.zeros(d)
        return cls(count=0, gram=np.zeros((d, d)), reward_vector=zeros, reward_sum=0.0, reward_squares=0.0)

    @classmethod
    def unchecked(cls, **sums: Any) -> Moments:
        """Sums that are known to be those of rows: to check that there can be such rows takes d^3 steps."""
        found = object.__new__(cls)
        for name in SUMS:
            object.__setattr__(found, name, sums[name])
        found._settle()
        return found

    def leading(self, d: int) -> Moments:
        """The same log by its first d features alone."""
        sums = {name: getattr(self, name) for name in SUMS}
        sums |= {"gram": self.gram[:d, :d], "reward_vector": self.reward_vector[:d].copy()}
        return Moments.unchecked(**sums)

    @classmethod
    def from_rows(cls, features: npt.ArrayLike, rewards: npt.ArrayLike) -> Moments:
        """Sum a log given as rows: the features (n, d) of what was played, and its rewards (n,)."""
        return cls.from_blocks([(features, rewards)])

    @classmethod
    def of_arms(cls, actions: Floats, offline: Offline) -> Moments:
        """What a log of these arms (k, d) says of their features."""
        units = find_one_hot(actions)
        if units is not None:
            return cls.of_units(units, offline)
        return cls(
            gram=actions.T @ (offline.pulls[:, None] * actions),
            reward_vector=actions.T @ offline.reward_sums,
            **vars(offline.totals),
        )

    @classmethod
    def of_units(cls, units: OneHotArms, offline: Offline) -> Moments:
        """The same of one-hot arms: X'X is a diagonal, and what a log says of each arm is consistent."""
        gram, vector = np.zeros((units.d, units.d)), np.zeros(units.d)
        gram[units.places, units.places] = units.scales * (offline.pulls * units.scales)
        vector[units.places] = units.scales * offline.reward_sums
        return cls.unchecked(gram=gram, reward_vector=vector, **vars(offline.totals))

    @classmethod
    def from_blocks(cls, blocks: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]]) -> Moments:
        """The same of several blocks of rows, one after the other."""
        found = None
        for features, rewards in blocks:
            now = sums_of(features, rewards)
            found = now if found is None else [old + new for old, new in zip(found, now, strict=True)]
        if found is None:
            raise ValueError("blocks must hold at least one block of rows, got none")
        return cls(**dict(zip(SUMS, found, strict=True)))

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if self.d != other.d:
            raise ValueError(f"logs must have the same features, got {self.d} and {other.d}")
        squares = None
        if self.reward_squares is not None and other.reward_squares is not None:
            squares = self.reward_squares + other.reward_squares
        return Moments.unchecked(
            count=self.count + other.count,
            gram=self.gram + other.gram,
            reward_vector=self.reward_vector + other.reward_vector,
            reward_sum=self.reward_sum + other.reward_sum,
            reward_squares=squares,
        )

    def with_features(self, places: npt.ArrayLike, d: int) -> Moments:
        """The same log with d features, of which these are those from before; the others were always 0.

        >>> Moments.from_rows([[1.0, 2.0]], [3.0]).with_features([0, 2], 3).reward_vector.tolist()
        [3.0, 0.0, 6.0]
        """
        now = np.asarray(places)
        if now.shape != (self.d,) or not np.isin(now, np.arange(d)).all() or np.unique(now).size != self.d:
            raise ValueError(f"places must be {self.d} different features of {d}, got {now.tolist()}")
        gram, vector = np.zeros((d, d)), np.zeros(d)
        gram[now[:, None], now], vector[now] = self.gram, self.reward_vector
        return replace(self, gram=gram, reward_vector=vector)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moments):
            return NotImplemented
        scalars = ("count", "reward_sum", "reward_squares")
        return (
            np.array_equal(self.gram, other.gram)
            and np.array_equal(self.reward_vector, other.reward_vector)
            and all(getattr(self, name) == getattr(other, name) for name in scalars)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.reward_vector.size)

    @property
    def rounded(self) -> int:
        """The rows by which it is judged what sums leave: no part of the log, and not stored."""
        return int(self.__dict__["rounded_rows"])

    @property
    def reference(self) -> float:
        """The mean logged reward; NaN for an empty log."""
        return self.reward_sum / self.count if self.count else float("nan")

    @cached_property
    def spectrum(self) -> Floats:
        """(d,) the eigenvalues of X'X: how much is known in each direction."""
        found = eigenvalues(self.gram)
        found.flags.writeable = False
        return found

    @cached_property
    def _rows(self) -> tuple[Floats, Floats]:
        return rows_of(self.gram, self.reward_vector, self.rounded)

    def as_rows(self) -> tuple[Floats, Floats]:
        """At most d rows (n, d) and outcomes (n,) of the same X'X and X'y: one per known direction."""
        rows, outcomes = self._rows
        return rows.copy(), outcomes.copy()

    def residuals(self) -> tuple[float, float]:
        """Summed squares of rewards around their least squares fit, and its degrees of freedom; 0 if unknown.

        >>> Moments.from_rows([[1.0]] * 4, [0.0, 1.0, 0.0, 1.0]).residuals()
        (1.0, 3.0)
        """
        outcomes = self._rows[1]
        freedom = self.count - outcomes.size
        if self.reward_squares is None or freedom <= 0:
            return 0.0, 0.0
        explained = fsum(outcome * outcome for outcome in outcomes.tolist())
        return max(self.reward_squares - explained, 0.0), float(freedom)


Summed = Moments | Totals  # a log of which only the sum of rewards is asked


def counting_rounding(wanted: bool) -> AbstractContextManager[None]:
    """Whether logs that are made in here may leave more rounding the more rows they have."""
    return within(ROUNDED, wanted)


def rows_of(gram: Floats, vector: Floats, count: int, border: int = 0) -> tuple[Floats, Floats]:
    """Rows R (n, d) and outcomes z (n,) with R'R = X'X and R'z = X'y: Cholesky's factorisation with pivots.

    The feature of which the largest share is left is taken next, until what is left is rounding, whatever the
    units of the features: a sum of `count` rows is off by some sqrt(count) last digits, and where features
    add up to others (items to the intercept) nothing else is left. One operation for each entry and no sums
    in another order: the same bits with any library of linear algebra, on any processor. A loop that is
    stored here is replayed elsewhere.

    Features from `border` on are taken last, where it is not 0: no row then has features of two blocks.
    """
    left, owed, d = gram.copy(), vector.copy(), vector.size
    whole = np.where(np.diagonal(gram) > 0, np.diagonal(gram), 1.0)
    rounding = np.finfo(float).eps * (4 * d + LEFT * sqrt(count))
    rows, outcomes = np.zeros((d, d)), np.zeros(d)
    first, last = 0, border or d
    for n in range(d):
        pivot = first + int((np.diagonal(left)[first:last] / whole[first:last]).argmax())
        if last < d and not left[pivot, pivot] > rounding * whole[pivot]:
            first, last = border, d
            pivot = first + int((np.diagonal(left)[first:] / whole[first:]).argmax())
        if not left[pivot, pivot] > rounding * whole[pivot]:
            return rows[:n], outcomes[:n]
        root = sqrt(float(left[pivot, pivot]))
        rows[n], outcomes[n] = left[pivot] / root, owed[pivot] / root
        few = np.flatnonzero(rows[n])
        if 2 * few.size < d:
            left[few[:, None], few] -= rows[n, few, None] * rows[n, few]
        else:
            left -= rows[n][:, None] * rows[n]
        owed -= rows[n] * outcomes[n]
        left[pivot], left[:, pivot], owed[pivot] = 0.0, 0.0, 0.0
    return rows, outcomes


def sums_of(features: Any, rewards: Any) -> list[Any]:
    """The sums of some rows, in the order of SUMS."""
    rows = as_floats("features", features, ndim=2)
    values = as_floats("rewards", rewards, ndim=1)
    if len(rows) != values.size:
        raise ValueError(f"rewards must have one entry per row of features, {len(rows)}, got {values.size}")
    return [len(rows), rows.T @ rows, rows.T @ values, float(values.sum()), float(values @ values)]


def as_count(value: Any) -> int:
    """A number of rows."""
    if not is_number(value) or value != int(value) or not 0 <= value <= 2**53:
        raise ValueError(f"count must be a whole number >= 0, got {value!r}")
    return int(value)


def as_sum(name: str, value: Any) -> float:
    """A finite sum, with the name of its field in what is refused."""
    try:
        return as_reward(value)
    except ValueError as error:
        raise ValueError(str(error).replace("reward", name, 1)) from None


def as_gram(value: Any) -> Floats:
    """X'X: square and symmetric, to rounding; made exactly symmetric."""
    gram = as_floats("gram", value, ndim=2)
    if gram.shape[0] != gram.shape[1] or gram.size == 0:
        raise ValueError(f"gram must be square with at least one feature, got shape {gram.shape}")
    largest = float(np.abs(gram).max())
    if largest > 1e200:
        raise ValueError(f"gram must have entries of at most 1e200, got {largest:g}")
    if np.abs(gram - gram.T).max() > ROUNDING * largest:
        raise ValueError("gram must be symmetric, as X'X is, got one that is not")
    return np.asarray((gram + gram.T) / 2)


def check_consistent(moments: Moments) -> None:
    """Refuse sums that no rows can have."""
    gram, vector, squares = moments.gram, moments.reward_vector, moments.reward_squares
    least = float(moments.spectrum[0])
    if least < -ROUNDING * float(np.abs(gram).max()) * moments.d:
        raise ValueError(
            f"gram must be positive semidefinite, as X'X is, got an eigenvalue of {exact(least)}"
        )
    if moments.count == 0 and (gram.any() or vector.any() or moments.reward_sum or squares):
        raise ValueError("count must be at least 1 where the sums are not 0, got 0")
    silent = (np.diag(gram) <= 0) & (vector != 0)
    if silent.any():
        raise ValueError(
            f"reward_vector must be 0 where gram is, got {exact(vector[silent][0])} "
            f"for feature {int(silent.argmax())}"
        )
    if squares is None:
        return
    outcomes = moments.as_rows()[1]
    least = max(float(outcomes @ outcomes), moments.reward_sum**2 / max(moments.count, 1))
    if squares < least * (1 - ROUNDING) - 1e-12:
        raise ValueError(
            f"reward_squares must be at least {exact(least)}, by reward_sum and reward_vector, "
            f"got {exact(squares)}"
        )


def as_moments(offline: Any, d: int | None) -> Moments:
    """A log with d features; None is the empty one."""
    if offline is None and d is None:
        raise ValueError("d must be given where there is neither a log nor a recipe of features, got None")
    if d is not None:
        check_count("d", d)
    if offline is None:
        return Moments.empty(int(d or 0))
    if not isinstance(offline, Moments):
        raise ValueError(f"offline must be a linoto.Moments or None, got {type(offline).__name__}")
    if d is not None and offline.d != d:
        raise ValueError(f"offline must have {d} features, got {offline.d}")
    return offline
