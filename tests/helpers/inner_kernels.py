"""Kernels that only kernels call have no wrapper for Python: here is one for tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba

from linoto.core.kernels.compiling import OPTIONS


@cache
def from_python(kernel: Any) -> Callable[..., Any]:
    """The same function, compiled once more as one that Python may call."""

    def call(*arguments: Any) -> Any:
        return kernel(*arguments)

    return numba.njit(**OPTIONS)(call)
