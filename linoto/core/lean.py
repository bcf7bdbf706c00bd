"""Large arrays of which little is written: what was never written takes no memory, and rows give it back."""

from __future__ import annotations

import mmap
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

LARGE = 2**20  # bytes; NumPy asks for pages of 2 MB from 4 MB on, of which a single number takes a whole one


def lean_zeros(shape: tuple[int, ...], kind: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Zeros, in small pages where they are many.

    >>> lean_zeros((2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    size = prod(shape) * np.dtype(kind).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(shape, kind)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, kind).reshape(shape)


def give_back(row: npt.NDArray[Any]) -> None:
    """Make every number of a contiguous part of an array 0; its memory goes back to the system if it can."""
    whole = row
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    memory = getattr(whole.base, "obj", whole.base)  # NumPy keeps a memoryview of it
    if not isinstance(memory, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        row[...] = 0
        return
    begin = row.ctypes.data - whole.ctypes.data
    first, last = -(-begin // mmap.PAGESIZE), (begin + row.nbytes) // mmap.PAGESIZE
    if first >= last:
        row[...] = 0
        return
    flat = row.reshape(-1).view(np.uint8)
    flat[: first * mmap.PAGESIZE - begin] = 0
    flat[last * mmap.PAGESIZE - begin :] = 0
    memory.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def lean_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy whose rows take no memory where they are 0."""
    if array.nbytes < LARGE:
        return array.copy()
    found = lean_zeros(array.shape, array.dtype)
    for row, into in zip(array, found, strict=True):
        if row.view(np.int64).any():  # -0 is not 0
            into[...] = row
    return found
