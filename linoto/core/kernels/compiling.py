"""How kernels are compiled, and when what was compiled before is out of date."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from re import sub
from typing import Any, TypeVar, cast

import numba
from llvmlite.binding import parse_assembly
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags

SETTINGS: Any = numba.config
Files: Any = IndexDataCacheFile  # which has no types, as the next ones
Cache: Any = FunctionCache
Code: Any = JITCodeLibrary
Compiling: Any = Compiler
Options: Any = Flags
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


class CodeFiles(Files):  # type: ignore[misc]
    """The versions of a kernel, by the types they were compiled for: a file each, and an index.

    numba numbers the files, and names a file in its index before it is written. If several processes compile
    at a time, one may then read what an older version of the kernels has left under that number, or what
    another process wrote for other types. Here a file has a name of its own, and is named once it is written.
    """

    @classmethod
    def in_place_of(cls, file: Any, stamp: str) -> CodeFiles:
        """The same files for kernels with this stamp, under the name of the kernel without its line.

        Or each edit above it would leave files behind for ever.
        """
        return cls(file._cache_path, sub(r"-\d+(?=\.py\d+\.nbi$)|\.nbi$", "", file._index_name), stamp)

    def save(self, key: Any, data: Any) -> None:
        """Keep one version. The first one of these kernels removes those of older ones.

        A file that another process wrote meanwhile may go too: what is missing is compiled again.
        """
        if not self._load_index():
            for path in Path(self._cache_path).glob(self._data_name_pattern.replace("{number:d}", "*")):
                with suppress(OSError):  # another process was faster, or is reading it
                    path.unlink()
        name = self._data_name(self.number_of(key))
        self._save_data(name, data)
        self._save_index(self._load_index() | {key: name})

    def number_of(self, key: Any) -> int:
        """Of a version of these kernels: no other has it."""
        digest = blake2b(f"{self._source_stamp} {key}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "big")


class CodeCache(Cache):  # type: ignore[misc]
    """What was compiled of a kernel, as numba keeps it, but that such code is loaded by itself.

    numba first gets everything ready that can be compiled in Python and NumPy, half of what a process needs
    until it decides. Whoever compiles does that anyhow, and what is compiled has no need of it.
    """

    _cache_file: Any

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = CodeFiles.in_place_of(self._cache_file, STAMP)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The code for these types, None where there is none."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(signature, target)


class FoundLater:
    """The cache of a kernel, looked for when it is first asked: most kernels are loaded as part of others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    @cached_property
    def found(self) -> Any:
        """What was compiled before, or nothing where no folder can be written."""
        try:
            return CodeCache(self.function)
        except RuntimeError:
            return NullCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.found, name)


class InnerCode(Code):  # type: ignore[misc]
    """Code of a kernel that only kernels call: it is optimised, and becomes machine code, as part of those.

    numba does both for every kernel by itself, too, and so again for each layer of calls. That took two
    fifths of all compiling, and nobody ran what it made.
    """

    _final_module: Any

    def _optimize_final_module(self) -> None:
        """Left to the kernels that Python calls: with all that they call in one piece."""

    def _finalize_final_module(self) -> None:
        """Machine code of nothing but the places of environments, which numba fills in wherever it loads."""
        code = self._final_module
        self._finalize_dynamic_globals()
        places = [str(each) for each in code.global_variables if each.name.startswith("_ZN08NumbaEnv")]
        self._final_module = parse_assembly("\n".join(places))
        super()._finalize_final_module()
        self._final_module = code


class KnownOptions(Options):  # type: ignore[misc]
    """The options of a kernel, read once and again when one was set.

    numba compares them whenever it looks for the type of an operation, 60,000 times for a policy, and reads
    all of them each time.
    """

    hashed = hash(Options())  # that of any options: numba hashes their names
    seen: dict[str, Any] | None = None
    known: dict[str, Any]

    def values(self) -> dict[str, Any]:
        """All of them by name."""
        if self.seen != self._values:
            self.seen, self.known = dict(self._values), super().values()
        return self.known

    def __hash__(self) -> int:
        return self.hashed

    def __eq__(self, other: object) -> bool:
        return self is other or bool(super().__eq__(other))


class OuterCompiling(Compiling):  # type: ignore[misc]
    """As numba compiles, with options of that kind."""

    def __init__(
        self, typing: Any, target: Any, library: Any, args: Any, returned: Any, flags: Any, *rest: Any
    ) -> None:
        super().__init__(typing, target, library, args, returned, KnownOptions(flags), *rest)


class InnerCompiling(OuterCompiling):
    """The same, into code of a kernel that only kernels call."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        library = InnerCode(target.codegen(), "inner")
        library.enable_object_caching()
        super().__init__(typing, target, library, *rest)


def compiled(function: F) -> F:
    """A kernel that Python calls: with a cache on disk, or without one where none can be written."""
    return cached(function, OPTIONS | {"pipeline_class": OuterCompiling})


def inner(function: F) -> F:
    """A kernel that only kernels call: neither wrappers for Python nor machine code of its own."""
    return cached(function, OPTIONS | {"no_cpython_wrapper": True, "pipeline_class": InnerCompiling})


def inlined(function: F) -> F:
    """A small kernel that becomes part of its callers: handing over many arrays takes longer than it does."""
    return cached(function, OPTIONS | {"forceinline": True, "pipeline_class": OuterCompiling})


def cached(function: F, options: Any) -> F:
    """Compile when it is first called; what lies in the cache counts while no kernel has changed."""
    dispatcher: Any = numba.njit(**options)(function)
    dispatcher._cache = FoundLater(function)
    return cast(F, once_for_all_constants(dispatcher))


def once_for_all_constants(dispatcher: Any) -> Any:
    """A kernel that is called with a constant is not compiled apart for it, but as for any such number."""
    template_for: Any = dispatcher.get_call_template
    any_such: Any = numba.types.unliteral

    def without_constants(args: Any, kws: dict[str, Any]) -> Any:
        return template_for(list(map(any_such, args)), {name: any_such(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = without_constants
    return dispatcher
