"""Kernels as plain Python, for what is only looked at: to compile them would take longer."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import FunctionType
from typing import Any

import numpy as np

from linoto.core.calls import kind_of
from linoto.core.kernels import State
from linoto.core.within import within

SMALL = 100_000  # steps of an inner loop: about a second in plain Python, and compiling takes 20 or more
COMPILED: set[tuple[Any, ...]] = set()  # kernels, with the kinds of arguments that they have code for
LOOKING = ContextVar("LOOKING", default=False)


def only_looking() -> AbstractContextManager[None]:
    """As long as it lasts, nothing is compiled for small problems: nobody is going to play them."""
    return within(LOOKING, True)


def is_only_looking() -> bool:
    """Whether what is started now is never going to play."""
    return LOOKING.get()


def run_once(kernel: Any, *args: Any, steps: int) -> Any:
    """Call a kernel that a start needs; uncompiled where that only looks, unless it makes so many steps.

    Both ways give the same bits; a kernel that is compiled already runs compiled.
    """
    if not LOOKING.get() or steps > SMALL or is_compiled(kernel, args):
        return kernel(*args)
    return run_in_python(kernel, *args)


def is_compiled(kernel: Any, args: tuple[Any, ...]) -> bool:
    """Whether a kernel has code for such arguments: numba takes a millisecond to say what they are."""
    kinds = (kernel, *map(kind_of, args))
    if kinds in COMPILED:
        return True
    if tuple(map(kernel.typeof_pyval, args)) not in kernel.overloads:
        return False
    COMPILED.add(kinds)
    return True


def run_in_python(kernel: Any, *args: Any) -> Any:
    """Call a kernel uncompiled: it changes its arguments as the compiled one does."""
    with np.errstate(all="ignore"):
        return in_python(kernel, {})(*map(with_attributes, args))


def in_python(kernel: Any, files: dict[int, dict[str, Any]]) -> Any:
    """A kernel, and those that it calls, uncompiled; `files` are what is known of their files so far."""
    function = kernel.py_func
    known = function.__globals__
    if id(known) not in files:
        names = files[id(known)] = dict(known)
        for name, value in known.items():
            if hasattr(value, "py_func"):
                names[name] = in_python(value, files)
    return FunctionType(function.__code__, files[id(known)])


def with_attributes(value: Any) -> Any:
    """Records whose fields are attributes, as a kernel reads them; they share their memory with `value`."""
    if isinstance(value, State):
        return State(*map(with_attributes, value))
    if isinstance(value, np.ndarray) and value.dtype.names:
        return value.view(np.recarray)
    return value
