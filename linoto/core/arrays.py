"""The types of arrays, by what they hold: cheap to import, since nothing is compiled for them."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]


def writer(dtype: np.dtype[Any], *names: str) -> Callable[..., None]:
    """Writes these numbers of the first record, neighbours in this order, in a fifth of NumPy's time.

    >>> write = writer(np.dtype([("a", "<i8"), ("b", "<f8"), ("c", "<f8")]), "b", "c")
    >>> record = np.array([(1, 0.5, 3.0)], dtype=[("a", "<i8"), ("b", "<f8"), ("c", "<f8")])
    >>> write(record, 0.25, 2.0)
    >>> record.tolist()
    [(1, 0.25, 2.0)]
    """
    fields: Any = dtype.fields
    kinds, start = "".join(fields[name][0].char.replace("l", "q") for name in names), fields[names[0]][1]
    layout = Struct("=" + kinds)
    if fields[names[-1]][1] + fields[names[-1]][0].itemsize != start + layout.size:
        raise ValueError(f"names must be neighbours of one record, got {', '.join(names)}")
    pack: Any = layout.pack_into
    return lambda record, *values: pack(record, start, *values)


def reader(dtype: np.dtype[Any], *names: str) -> Callable[[Records], tuple[Any, ...]]:
    """Reads these scalars of the first record, in this order: together in a fifth of NumPy's time.

    >>> read = reader(np.dtype([("a", "<i8"), ("b", "<f8"), ("c", "<i8")]), "c", "a")
    >>> read(np.array([(1, 0.5, 3)], dtype=[("a", "<i8"), ("b", "<f8"), ("c", "<i8")]))
    (3, 1)
    """
    fields: Any = dtype.fields
    stored, kinds, end = sorted(names, key=lambda name: fields[name][1]), "", 0
    for name in stored:
        kind, start = fields[name][:2]
        kinds, end = f"{kinds}{start - end}x{kind.char.replace('l', 'q')}", start + kind.itemsize
    unpack: Any = Struct("=" + kinds).unpack_from
    if stored == list(names):
        found: Callable[[Records], tuple[Any, ...]] = unpack
        return found
    order = itemgetter(*map(stored.index, names))
    return lambda record: order(unpack(record))
