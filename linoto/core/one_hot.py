"""Arms without features: one-hot actions, made and recognised without their zeros."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from linoto.core.within import within

RECOGNISED: ContextVar[bool] = ContextVar("RECOGNISED", default=True)
BLOCK = 1 << 22  # numbers looked at together: a few milliseconds, and no array of k x d


class OneHotArms(NamedTuple):
    """Arms that are scaled unit vectors, each of a feature of its own: arm a is scales[a] e_places[a]."""

    places: npt.NDArray[np.int64]  # (k,) all different
    scales: npt.NDArray[np.float64]  # (k,) none 0
    d: int


def recognising(wanted: bool) -> AbstractContextManager[None]:
    """Whether one-hot arms are recognised in here: what an older version stored goes on with their zeros."""
    return within(RECOGNISED, wanted)


def one_hot(k: int) -> npt.NDArray[np.float64]:
    """(k, k) the actions of k arms without features: the identity in the memory of 2k - 1 numbers, read-only.

    Policies recognise one-hot actions in any form and then keep k numbers where they else keep d x d. This
    form saves the memory of the zeros as well.

    >>> one_hot(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> one_hot(1_000_000).shape
    (1000000, 1000000)
    """
    whole: Any = k
    if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or whole < 1:
        raise ValueError(f"k must be a whole number >= 1, got {k!r}")
    line = np.zeros(2 * int(k) - 1)
    line[k - 1] = 1.0
    step = line.itemsize  # row i begins i numbers before row 0: (i, j) is the number k - 1 - i + j
    return np.lib.stride_tricks.as_strided(line[k - 1 :], (k, k), (-step, step), writeable=False)


def is_compact(actions: Any) -> bool:
    """Whether this is what `one_hot` makes."""
    if not isinstance(actions, np.ndarray) or actions.dtype != np.float64 or actions.ndim != 2:
        return False
    step, (k, d) = actions.itemsize, actions.shape
    if actions.flags.writeable or actions.strides != (-step, step) or k != d or k == 0:
        return False
    first_row, first_column = actions[0], actions[:, 0]  # with these strides, they are all there is
    return bool(first_row[0] == 1 and not first_row[1:].any() and not first_column[1:].any())


def find_one_hot(actions: npt.NDArray[np.float64]) -> OneHotArms | None:
    """The arms (k, d) as scaled unit vectors, or None where two share a feature or one has several."""
    k, d = actions.shape
    if not RECOGNISED.get():
        return None
    if is_compact(actions):
        return OneHotArms(np.arange(k), np.ones(k), d)
    if k > d or np.count_nonzero(actions[0]) != 1:  # the usual arms cost one look at one of them
        return None
    places, rows = np.empty(k, np.int64), max(BLOCK // d, 1)
    for start in range(0, k, rows):
        there = actions[start : start + rows] != 0
        if (np.count_nonzero(there, axis=1) != 1).any():
            return None
        places[start : start + rows] = there.argmax(axis=1)
    scales = actions[np.arange(k), places]
    distinct = np.bincount(places, minlength=d).max() == 1
    return OneHotArms(places, scales, d) if distinct and np.isfinite(scales).all() else None


def compact_form(value: Any) -> npt.NDArray[np.float64] | None:
    """What `one_hot` makes, where a value is the same arms in whatever form; else None."""
    if is_compact(value):
        return value  # type: ignore[no-any-return] # read-only, as it should be
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.ndim != 2 or not value.size:
        return None
    units = find_one_hot(value) if value.shape[0] == value.shape[1] else None
    return one_hot(units.d) if units is not None and is_identity(units) else None


def is_identity(units: OneHotArms) -> bool:
    """Whether arm a is the unit vector of feature a."""
    same = units.scales.size == units.d and (units.places == np.arange(units.scales.size)).all()
    return bool(same and (units.scales == 1).all())


def same_arms(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> bool:
    """Whether two arm sets are equal."""
    one, other = find_one_hot(left), find_one_hot(right)
    if one is None or other is None or left.shape != right.shape:
        return np.array_equal(left, right)
    return bool((one.places == other.places).all() and (one.scales == other.scales).all())


def dense(units: OneHotArms) -> npt.NDArray[np.float64]:
    """(k, d) the actions: the compact form of an identity, else with all their zeros."""
    k = units.scales.size
    if is_identity(units):
        return one_hot(k)
    actions = np.zeros((k, units.d))
    actions[np.arange(k), units.places] = units.scales
    return actions


def squared_lengths(actions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(k,) |a|^2 of each action."""
    units = find_one_hot(actions)
    if units is not None:
        return units.scales**2
    return np.concatenate([(block**2).sum(axis=1) for block in in_float64(actions)])


def in_float64(actions: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.float64]]:
    """Arms (k, d) block by block, in the order in which float64 arrays are."""
    rows = max(BLOCK // actions.shape[1], 1)
    for start in range(0, len(actions), rows):
        yield np.ascontiguousarray(actions[start : start + rows], dtype=np.float64)


def summed_squares(features: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """(k,) the same of features (d, k), added one after the other."""
    if features.dtype == np.float64:
        return np.asarray((features**2).sum(axis=0))
    total = np.zeros(features.shape[1])
    for row in features:
        total += np.asarray(row, dtype=np.float64) ** 2
    return total
