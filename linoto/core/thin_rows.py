"""Arrays of which nearly all numbers are the same, as a snapshot keeps them: the number, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = dict[str, npt.NDArray[Any]]
LARGE, MOST = 4096, 2**26  # numbers of an array that is thinned: no header can ask for more memory
SAMPLED = 101  # of them, whose middle one is the usual one if any is
SHARE = 4  # of the numbers, a fourth may differ at the most: a place and a number take twice the memory
PLACES, VALUES = "{}.places", "{}.values"
TYPES = tuple(order + kind for order in "<>" for kind in ("f8", "i8"))


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
    """Where an array is not what it usually is; None where that is in too many places, or by its size."""
    if not LARGE <= array.size <= MOST or array.dtype.str not in TYPES:
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


def filled(said: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """The arrays that were thinned, as the header says; ValueError where it cannot be what was written."""
    if not isinstance(said, dict):
        raise ValueError(f"'thin' in the header of a snapshot must be an object, got {said!r}")
    found = dict(arrays)
    for name, form in said.items():
        places, values = (found.pop(part.format(name), None) for part in (PLACES, VALUES))
        found[name] = whole(name, form, places, values)
    return found


def whole(
    name: str, form: Any, places: npt.NDArray[Any] | None, values: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """One of them: `form` is its type and its shape; the last value is the usual one."""
    parts: list[Any] = form if isinstance(form, list) and form else [None]
    kind, *shape = parts
    size = prod(shape) if all(type(n) is int and n > 0 for n in shape) else 0
    if kind not in TYPES or not LARGE <= size <= MOST:
        raise ValueError(
            f"the header of a snapshot must say the type of {name!r}, one of {TYPES}, and the shape of "
            f"{LARGE} to {MOST} numbers, got {form!r}"
        )
    if places is None or places.ndim != 1 or places.dtype != np.uint32 or (places >= size).any():
        raise ValueError(f"a snapshot must hold places of {name!r} below {size}, got something else")
    if values is None or values.shape != (places.size + 1,) or values.dtype != kind:
        raise ValueError(
            f"a snapshot must hold {places.size + 1} values of {name!r} of type {kind}, got something else"
        )
    flat = np.full(size, values[-1], kind)
    flat[places] = values[:-1]
    return flat.reshape(shape)
