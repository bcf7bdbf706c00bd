"""Arrays of which nearly all numbers are the same, as a snapshot keeps them: the number, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
LARGE = 4096  # numbers from which on it is looked for
SAMPLED = 101  # of them, whose middle one is the usual one if any is
SHARE = 4  # of the numbers, a fourth may differ at the most: a place and a number take twice the memory
PLACES, VALUES = "{}.places", "{}.values"


def thinned(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[dict[str, Any], Arrays]:
    """(what the header says of these, what is kept in their place): the same bits when they are read back."""
    said, kept = dict[str, Any](), Arrays()
    for name, array in arrays.items():
        places = places_that_differ(array)
        if places is None:
            kept[name] = array
            continue
        flat = array.ravel()
        said[name] = [array.dtype.str, *array.shape]
        kept[PLACES.format(name)] = places.astype(np.uint32)
        kept[VALUES.format(name)] = np.append(flat[places], flat[usual_place(places)])
    return said, kept


def places_that_differ(array: npt.NDArray[Any]) -> npt.NDArray[np.intp] | None:
    """Where an array is not what it usually is; None where that is in too many places, or it is small."""
    if array.size < LARGE or array.dtype.itemsize != 8 or array.dtype.kind not in "fi":
        return None
    bits = np.ascontiguousarray(array).ravel().view(np.int64)  # 0 and -0 differ
    some = np.sort(bits[:: bits.size // SAMPLED])
    usual = some[some.size // 2]
    places = np.flatnonzero(bits != usual)
    return places if SHARE * places.size <= bits.size else None


def usual_place(places: npt.NDArray[np.intp]) -> int:
    """The first place that is not among these, which rise."""
    gaps = np.flatnonzero(places != np.arange(places.size))
    return int(gaps[0]) if gaps.size else places.size


def filled(said: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """The arrays that were thinned."""
    found = dict(arrays)
    for name, (kind, *shape) in said.items():
        places, values = found.pop(PLACES.format(name)), found.pop(VALUES.format(name))
        flat = np.full(int(np.prod(shape)), values[-1], kind)
        flat[places] = values[:-1]
        found[name] = flat.reshape(shape)
    return found
