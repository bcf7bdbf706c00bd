"""How kernels are compiled, and when what was compiled before is out of date."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from re import sub
from threading import Lock
from typing import Any, TypeVar, cast

import numba
from llvmlite.binding import parse_assembly, parse_bitcode
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags

SETTINGS: Any = numba.config
Files: Any = IndexDataCacheFile  # which has no types, as the next ones
Cache: Any = FunctionCache
Results: Any = CompileResultCacheImpl
Result: Any = CompileResult
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


class LoadedResults(Results):  # type: ignore[misc]
    """What numba makes of a file, with `LoadedCode`."""

    def rebuild(self, target: Any, payload: Any) -> Any:
        """A kernel for the types of one file."""
        return Result._rebuild(LoadingTarget(target), *payload)._replace(target_context=target)


class OuterCache(CodeCache):
    """The same of a kernel that Python calls: machine code is loaded at once, the rest when it is needed."""

    _impl_class = LoadedResults


class LoadingTarget:
    """What code is loaded for, as numba asks it, but that it makes `LoadedCode`."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def codegen(self) -> Any:
        """Who loads code."""
        return self

    def unserialize_library(self, state: Any) -> Any:
        """The code that was kept."""
        return LoadedCode._unserialize(self.target.codegen(), state)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)


class LoadedCode(Code):  # type: ignore[misc]
    """Code from a cache. What is linked into other kernels is read when one of those is compiled.

    numba reads it at once, a tenth of what a process needs until it decides.
    """

    _shared_module: Any
    bitcode: bytes

    @classmethod
    def _unserialize(cls, codegen: Any, state: Any) -> LoadedCode:
        name, _, (machine_code, bitcode) = state
        code = cls(codegen, name)
        code.bitcode = bitcode
        code.enable_object_caching()
        code._set_compiled_object(machine_code)
        code._finalize_final_module()
        return code

    def get_pointer_to_function(self, name: str) -> int:
        """Of the wrapper for Python: every such kernel has one, though numba has not read its name."""
        return int(self._codegen._engine.get_function_address(name))

    def _get_module_for_linking(self) -> Any:
        if self._shared_module is None:
            self._shared_module = parse_bitcode(self.bitcode)
            self._codegen._engine._load_defined_symbols(self._shared_module)
        return self._shared_module


class FoundLater:
    """The cache of a kernel, looked for when it is first asked: most kernels are loaded as part of others."""

    def __init__(self, function: Callable[..., Any], kind: type[CodeCache]) -> None:
        self.function, self.kind = function, kind

    @cached_property
    def found(self) -> Any:
        """What was compiled before, or nothing where no folder can be written."""
        try:
            return self.kind(self.function)
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
    return cast(F, cached(function, OPTIONS | {"pipeline_class": OuterCompiling}, OuterCache))


def inner(function: F) -> F:
    """A kernel that only kernels call: neither wrappers for Python nor machine code of its own."""
    return cast(F, Inner(function, OPTIONS | {"no_cpython_wrapper": True, "pipeline_class": InnerCompiling}))


class Inner:
    """A kernel that only kernels call, of which numba is told when it compiles one of those."""

    made: Any = None
    making = Lock()

    def __init__(self, function: Callable[..., Any], options: Any) -> None:
        self.py_func, self.options = function, options
        self.__module__ = function.__module__

    def __reduce__(self) -> str:
        """Like a function: a copy is the kernel itself, and what is pickled is where it stands."""
        return self.py_func.__qualname__

    @property
    def kernel(self) -> Any:
        """The kernel as numba has it: one, whichever thread asks first."""
        with self.making:
            if self.made is None:
                self.made = cached(self.py_func, self.options)
            return self.made

    @property
    def _numba_type_(self) -> Any:
        return self.kernel._numba_type_

    def __getattr__(self, name: str) -> Any:
        if name in ("py_func", "options", "kernel"):  # not made yet: the kernel needs both others
            raise AttributeError(name)
        return getattr(self.kernel, name)


def inlined(function: F) -> F:
    """A small kernel that becomes part of its callers: handing over many arrays takes longer than it does."""
    return cast(F, cached(function, OPTIONS | {"forceinline": True, "pipeline_class": OuterCompiling}))


def cached(function: Callable[..., Any], options: Any, kind: type[CodeCache] = CodeCache) -> Any:
    """Compile when it is first called; what lies in the cache counts while no kernel has changed."""
    dispatcher: Any = numba.njit(**options)(function)
    dispatcher._cache = FoundLater(function, kind)
    return once_for_all_constants(dispatcher)


def once_for_all_constants(dispatcher: Any) -> Any:
    """A kernel that is called with a constant is not compiled apart for it, but as for any such number."""
    template_for: Any = dispatcher.get_call_template
    any_such: Any = numba.types.unliteral

    def without_constants(args: Any, kws: dict[str, Any]) -> Any:
        return template_for(list(map(any_such, args)), {name: any_such(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = without_constants
    return dispatcher
