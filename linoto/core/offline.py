"""A log as statistics: pulls and rewards per arm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.validation import as_arms, as_counts, as_floats, check_count, exact


@dataclass(frozen=True, kw_only=True)
class Totals:
    """How many rewards a log has and what they add up to, whatever was played."""

    count: int
    reward_sum: float
    reward_squares: float | None  # None: not known

    @property
    def reference(self) -> float:
        """The mean logged reward; NaN for an empty log."""
        return self.reward_sum / self.count if self.count else float("nan")


@dataclass(frozen=True, kw_only=True, eq=False)
class Offline:
    """A log, as the statistics every policy needs: pulls and rewards per arm. Logs merge with `+`.

    >>> log = Offline(pulls=[3, 0, 1], reward_sums=[2.0, 0.0, 0.5])
    >>> log.total, log.reference
    (4, 0.625)
    >>> (log + Offline.from_rows([1, 1], [1.0, 0.0], k=3)).pulls.tolist()
    [3, 2, 1]
    """

    pulls: Ints  # (k,) m_a
    reward_sums: Floats  # (k,)
    reward_squares: Floats | None = None  # (k,) sums of squared rewards, where known

    def __post_init__(self) -> None:
        pulls = as_counts("pulls", self.pulls)
        sums = as_floats("reward_sums", self.reward_sums, ndim=1)
        if pulls.size == 0:
            raise ValueError("pulls must hold at least one arm, got none")
        if sums.shape != pulls.shape:
            raise ValueError(f"reward_sums must have shape {pulls.shape} like pulls, got {sums.shape}")
        check_unpulled("reward_sums", pulls, sums)
        squares = self.reward_squares
        if squares is not None:
            squares = as_floats("reward_squares", squares, ndim=1)
            if squares.shape != pulls.shape:
                raise ValueError(f"reward_squares must have shape {pulls.shape}, got {squares.shape}")
            check_unpulled("reward_squares", pulls, squares)
            least = sums**2 / np.maximum(pulls, 1)
            if (squares < least * (1 - 1e-9) - 1e-12).any():
                arm = int(np.argmax(least - squares))
                raise ValueError(
                    f"reward_squares must be at least reward_sums**2 / pulls, got {exact(squares[arm])} < "
                    f"{exact(least[arm])} for arm {arm}"
                )
            squares.flags.writeable = False
        if not np.isfinite(sums.sum()):
            raise ValueError("reward_sums must have a finite sum, got one that overflows")
        for array in (pulls, sums):
            array.flags.writeable = False
        object.__setattr__(self, "pulls", pulls)
        object.__setattr__(self, "reward_sums", sums)
        object.__setattr__(self, "reward_squares", squares)

    @classmethod
    def empty(cls, k: int) -> Offline:
        """No log at all: k arms, no pulls."""
        check_count("k", k)
        return cls(pulls=np.zeros(k, np.int64), reward_sums=np.zeros(k), reward_squares=np.zeros(k))

    def leading(self, k: int) -> Offline:
        """The log of the first k arms."""
        squares = self.reward_squares
        squares = None if squares is None else squares[:k]
        return Offline(pulls=self.pulls[:k], reward_sums=self.reward_sums[:k], reward_squares=squares)

    @classmethod
    def from_rows(cls, arms: npt.ArrayLike, rewards: npt.ArrayLike, *, k: int) -> Offline:
        """Count a log given as rows: arm indices and their rewards, in any order."""
        check_count("k", k)
        indices = as_arms("arms", arms, k)
        values = as_floats("rewards", rewards, ndim=1)
        if indices.shape != values.shape:
            raise ValueError(
                f"rewards must have one entry per arm: {indices.size} arms, {values.size} rewards"
            )
        return cls(
            pulls=np.bincount(indices, minlength=k),
            reward_sums=np.bincount(indices, weights=values, minlength=k).astype(np.float64),
            reward_squares=np.bincount(indices, weights=values**2, minlength=k).astype(np.float64),
        )

    def __add__(self, other: Offline) -> Offline:
        if not isinstance(other, Offline):
            return NotImplemented
        if self.pulls.shape != other.pulls.shape:
            raise ValueError(f"logs must have the same arms, got {self.pulls.size} and {other.pulls.size}")
        both_known = self.reward_squares is not None and other.reward_squares is not None
        return Offline(
            pulls=self.pulls + other.pulls,
            reward_sums=self.reward_sums + other.reward_sums,
            reward_squares=self.reward_squares + other.reward_squares if both_known else None,  # type: ignore[operator]
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Offline):
            return NotImplemented
        return (
            np.array_equal(self.pulls, other.pulls)
            and np.array_equal(self.reward_sums, other.reward_sums)
            and (self.reward_squares is None) == (other.reward_squares is None)
            and (self.reward_squares is None or np.array_equal(self.reward_squares, other.reward_squares))  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def total(self) -> int:
        """m, the number of logged rewards."""
        return int(self.pulls.sum())

    @property
    def totals(self) -> Totals:
        """All arms together."""
        squares = self.reward_squares
        return Totals(
            count=self.total,
            reward_sum=float(self.reward_sums.sum()),
            reward_squares=None if squares is None else float(squares.sum()),
        )

    def within_arms(self) -> tuple[float, float]:
        """Summed squares of rewards around the mean of their arm, and their degrees of freedom; 0 if unknown.

        >>> Offline(pulls=[2, 1], reward_sums=[1.0, 1.0], reward_squares=[1.0, 1.0]).within_arms()
        (0.5, 1.0)
        """
        if self.reward_squares is None:
            return 0.0, 0.0
        several = self.pulls >= 2
        pulls, sums, squares = self.pulls[several], self.reward_sums[several], self.reward_squares[several]
        return max(float((squares - sums**2 / pulls).sum()), 0.0), float((pulls - 1).sum())

    @property
    def reference(self) -> float:
        """The mean logged reward, the estimate of mu_off; NaN for an empty log."""
        return float(self.reward_sums.sum() / self.total) if self.total else float("nan")


def check_unpulled(name: str, pulls: Ints, values: Floats) -> None:
    """Refuse rewards of arms that were never pulled."""
    orphan = np.flatnonzero((pulls == 0) & (values != 0))
    if orphan.size:
        raise ValueError(
            f"{name} must be 0 where pulls is 0, got {exact(values[orphan[0]])} for arm {orphan[0]}"
        )


def as_offline(offline: Any, k: int) -> Offline:
    """A log over exactly k arms."""
    if not isinstance(offline, Offline):
        raise ValueError(f"offline must be a linoto.Offline, got {type(offline).__name__}")
    if offline.pulls.size != k:
        raise ValueError(f"offline must cover the {k} arms of actions, got {offline.pulls.size}")
    return offline
