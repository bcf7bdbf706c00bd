"""How kernels are compiled, and when what was compiled before is out of date."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

SETTINGS: Any = numba.config
if SETTINGS.DISABLE_JIT:
    raise RuntimeError("kernels must be compiled, got NUMBA_DISABLE_JIT=1: unset it and start again")

F = TypeVar("F", bound=Callable[..., Any])


def stamp_of(folder: Path) -> str:
    """Changes with any kernel: a cached function does not notice that one it calls elsewhere has changed."""
    sources = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return blake2b(sources, digest_size=16).hexdigest()


STAMP = stamp_of(Path(__file__).parent)
# `_nrt=False` leaves reference counting out: a third of the time of a round went into counting views of
# arrays, and an allocation in a kernel is now a compile error (docs/adr/0004).
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}


def compiled(function: F) -> F:
    """A kernel that Python calls: with a cache on disk, or without one where none can be written."""
    return cached(function, OPTIONS)


def inner(function: F) -> F:
    """A kernel that only kernels call: the wrapper for Python takes a quarter of the time to compile."""
    return cached(function, OPTIONS | {"no_cpython_wrapper": True})


def cached(function: F, options: Any) -> F:
    """Compile when it is first called; what lies in the cache counts while no kernel has changed."""
    try:
        dispatcher: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder can be written
        return cast(F, once_for_all_constants(numba.njit(**options)(function)))
    dispatcher._cache._cache_file._source_stamp = STAMP
    return cast(F, once_for_all_constants(dispatcher))


def once_for_all_constants(dispatcher: Any) -> Any:
    """A kernel that is called with a constant is not compiled apart for it, but as for any such number."""
    template_for: Any = dispatcher.get_call_template
    any_such: Any = numba.types.unliteral

    def without_constants(args: Any, kws: dict[str, Any]) -> Any:
        return template_for(list(map(any_such, args)), {name: any_such(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = without_constants
    return dispatcher
