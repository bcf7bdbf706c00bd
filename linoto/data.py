"""What a log says: per-arm pulls and rewards, and the checks that every array passes on its way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.kernels import Floats, Ints


def as_floats(name: str, value: Any, ndim: int) -> Floats:
    """An owned, contiguous float64 array with finite entries, or a ValueError that names the argument."""
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{name} must be finite, got {array[tuple(where)]} at {where}")
    return array


def as_counts(name: str, value: Any) -> Ints:
    """An owned (k,) array of counts: whole numbers, none negative."""
    array = as_floats(name, value, ndim=1)
    if (array < 0).any() or (array != np.floor(array)).any():
        bad = array[(array < 0) | (array != np.floor(array))][0]
        raise ValueError(f"{name} must be whole numbers >= 0, got {bad:g}")
    if (array > 2**53).any():
        raise ValueError(f"{name} must be at most 2**53, got {array.max():g}")
    return array.astype(np.int64)


def as_actions(value: Any) -> Floats:
    """The arm set: (k, d), at least one arm and one feature."""
    actions = as_floats("actions", value, ndim=2)
    if actions.shape[0] == 0 or actions.shape[1] == 0:
        raise ValueError(f"actions must hold at least one arm and one feature, got shape {actions.shape}")
    return actions


def as_arm(arm: Any, k: int, name: str = "arm") -> int:
    """One arm's index as a Python int."""
    if isinstance(arm, bool | np.bool_) or not isinstance(arm, int | np.integer):
        raise ValueError(f"{name} must be an integer in [0, {k}), got {arm!r}")
    if not 0 <= arm < k:
        raise ValueError(f"{name} must be in [0, {k}), got {arm}")
    return int(arm)


def as_arms(name: str, value: Any, k: int) -> Ints:
    """Several arms' indices, each in [0, k)."""
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of arm indices, got {array.dtype} of shape {array.shape}")
    outside = array[(array < 0) | (array >= k)]
    if outside.size:
        raise ValueError(f"{name} must be in [0, {k}), got {outside[0]}")
    return array.astype(np.int64)


def as_reward(reward: Any) -> float:
    """One reward: a finite number."""
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"reward must be a number, got {reward!r}") from None
    if not np.isfinite(value):
        raise ValueError(f"reward must be finite, got {value}")
    return value


def check_positive(name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_nonnegative(name: str, value: Any) -> None:
    """Refuse anything but a finite number >= 0."""
    if not is_number(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Refuse anything but a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")


def check_seed(seed: Any) -> None:
    """Refuse anything but a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a whole number >= 0, got {seed!r}")


def normalise(record: Any) -> None:
    """Make the numbers of a frozen record Python's own, so that its repr reads back."""
    for name, value in vars(record).items():
        if isinstance(value, np.generic):
            object.__setattr__(record, name, value.item())


def is_number(value: Any) -> bool:
    """A real number, which True is not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def choose(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def as_range(value: Any) -> tuple[float, float]:
    """(lo, hi) with lo < hi."""
    low_high = as_floats("reward_range", value, ndim=1)
    if low_high.size != 2 or not low_high[0] < low_high[1]:
        raise ValueError(f"reward_range must be (lo, hi) with lo < hi, got {value!r}")
    return float(low_high[0]), float(low_high[1])


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
                    f"reward_squares must be at least reward_sums**2 / pulls, got {squares[arm]:g} < "
                    f"{least[arm]:g} for arm {arm}"
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
    def reference(self) -> float:
        """The mean logged reward, the estimate of mu_off; NaN for an empty log."""
        return float(self.reward_sums.sum() / self.total) if self.total else float("nan")


def check_unpulled(name: str, pulls: Ints, values: Floats) -> None:
    """Refuse rewards of arms that were never pulled."""
    orphan = np.flatnonzero((pulls == 0) & (values != 0))
    if orphan.size:
        raise ValueError(f"{name} must be 0 where pulls is 0, got {values[orphan[0]]:g} for arm {orphan[0]}")


def as_offline(offline: Any, k: int) -> Offline:
    """A log over exactly k arms."""
    if not isinstance(offline, Offline):
        raise ValueError(f"offline must be a linoto.Offline, got {type(offline).__name__}")
    if offline.pulls.size != k:
        raise ValueError(f"offline must cover the {k} arms of actions, got {offline.pulls.size}")
    return offline
