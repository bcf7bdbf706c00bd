"""Finished cells in a file that only grows: one line each, so that an interrupted experiment can go on.

A line ends in a checksum of all that stands before it, so that a damaged one is never taken for a result, and
a file has one writer at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tempfile
import weakref
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

import numpy as np

from linoto.version import __version__

FORMAT = 2  # 1 had no checksums
HEADER = json.dumps({"linoto": "cells", "format": FORMAT}).encode() + b"\n"
SEAL = b',"check":"%08x"}\n'
SEALED = len(SEAL % 0)


class Curves(NamedTuple):
    """What is kept of one run."""

    regret: list[float]  # R_t at the kept rounds
    offline_regret: list[float]  # R_t^off there
    explored: list[int]  # rounds up to there in which the explorer's arm was played
    worst: float  # the largest R_t^off over all rounds, at least 0
    overdrawn: float | None = None  # the largest R_t^off less what the certificate allows; None: no promise


@dataclass(kw_only=True, eq=False)
class CellStore:
    """The cells of one experiment, found by setting, label and run."""

    file: IO[bytes]
    keys: dict[tuple[str, str], str]  # what each setting and label must be to count
    offsets: dict[tuple[str, str], array[int]]  # where the line of each run begins; 0: it is not there
    end: int = len(HEADER)  # where the next line goes; what stands there before the first one is dropped
    grown: bool = False  # whether that first line was written
    replaced: int = 0  # finished cells of an earlier experiment that this one writes over

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)  # closed with the last result that reads from it

    @classmethod
    def open(cls, path: Path | None, *, resume: bool, keys: dict[tuple[str, str], str]) -> CellStore:
        """A store in a file, which nobody else may write to until `release`, or in a nameless one.

        Without `resume` the file is emptied by the first finished cell and not before: whatever fails
        earlier leaves it as it was.
        """
        offsets = {place: array("q") for place in keys}  # eight bytes a cell: runs may be many
        if path is None:
            store = cls(file=tempfile.TemporaryFile(), keys=keys, offsets=offsets)  # noqa: SIM115
            store._begin()
            return store
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "r+b", opener=opened_or_made)  # noqa: SIM115 - closed in __post_init__
        store = cls(file=file, keys=keys, offsets=offsets)
        try:
            lock(file.fileno(), path)
            store._load(path, resume)
        except BaseException:
            file.close()  # at once: a traceback that somebody keeps would keep the lock as well
            raise
        return store

    def release(self) -> None:
        """Let others write to the file: nothing more will be appended."""
        unlock(self.file.fileno())

    def holds(self, setting: str, label: str, run: int) -> bool:
        """Whether this cell is finished."""
        known = self.offsets[setting, label]
        return run < len(known) and known[run] > 0

    def append(self, setting: str, label: str, run: int, curves: Curves) -> None:
        """Keep a finished cell: one line, in one write."""
        facts = {"setting": setting, "policy": label, "run": run, "key": self.keys[setting, label]}
        line = sealed(json.dumps({**facts, **curves._asdict()}, separators=(",", ":"))[:-1].encode())
        if not self.grown:
            self.file.truncate(self.end)
        self.file.seek(self.end)
        self.file.write(line)
        self.file.flush()
        self._remember((setting, label), run, self.end)
        self.end, self.grown = self.end + len(line), True

    def read(self, setting: str, label: str, run: int) -> Curves:
        """A finished cell."""
        self.file.seek(self.offsets[setting, label][run])
        data = unsealed(self.file.readline())
        wanted = {"setting": setting, "policy": label, "run": run, "key": self.keys[setting, label]}
        if data is None or any(data[name] != value for name, value in wanted.items()):
            raise ValueError(
                f"setting {setting!r}, policy {label!r}, run {run} must be in {self.file.name}, "
                "got another line there: the file was changed since"
            )
        return Curves(**{name: data[name] for name in Curves._fields})

    def _load(self, path: Path, resume: bool) -> None:
        """Find the finished cells, or count those to be replaced. A line cut off in writing is dropped."""
        whole = 0
        for number, line in enumerate(self.file, start=1):
            if number == 1:
                check_header(path, line)
            if not line.endswith(b"\n"):
                break
            if number > 1 and resume:
                self._index(path, number, whole, line)
            self.replaced += number > 1 and not resume
            whole += len(line)
        if not whole:
            self._begin()
        elif resume:
            self.end = whole

    def _begin(self) -> None:
        self.file.seek(0)
        self.file.write(HEADER)
        self.file.flush()

    def _index(self, path: Path, number: int, offset: int, line: bytes) -> None:
        data = unsealed(line)
        if data is None:
            raise ValueError(
                f"{path} is damaged in line {number}: take that line out, or run again without --resume"
            )
        place = data["setting"], data["policy"]
        if self.keys.get(place) == data["key"]:
            self._remember(place, data["run"], offset)

    def _remember(self, place: tuple[str, str], run: int, offset: int) -> None:
        known = self.offsets[place]
        known.extend([0] * (run + 1 - len(known)))
        known[run] = offset


# -- lines ------------------------------------------------------------------------------------------------


def sealed(body: bytes) -> bytes:
    """A line: a JSON object without its closing brace, then a checksum of these bytes."""
    return body + SEAL % crc32(body)


def unsealed(line: bytes) -> dict[str, Any] | None:
    """What a line says; None if any byte of it is not as it was written."""
    if line != sealed(line[:-SEALED]):
        return None
    data: dict[str, Any] = json.loads(line)
    return data


def check_header(path: Path, line: bytes) -> None:
    """Refuse to touch a file that does not begin as ours do."""
    if HEADER.startswith(line):
        return
    other = re.fullmatch(rb'\{"linoto": "cells", "format": (\d+)\}\n', line)
    found = f"format {other[1].decode()}" if other else "another file"
    raise ValueError(f"{path} must be absent or hold cells of format {FORMAT}, got {found}: move it away")


# -- one writer -------------------------------------------------------------------------------------------


def opened_or_made(path: str, flags: int) -> int:
    """For `open`: a file that is made where there is none, and never emptied before it is locked."""
    return os.open(path, flags | os.O_CREAT, 0o666)


def lock(handle: int, place: Path) -> None:
    """Refuse a file or folder that somebody else has locked. The lock ends with the handle."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BlockingIOError(
            f"{place} is being written to by another run: wait for it, or choose another folder"
        ) from None
    except OSError:
        return  # a file system that knows no locks: as good as it was without


def unlock(handle: int) -> None:
    """Let the next one write."""
    if sys.platform == "win32":
        return
    import fcntl

    with suppress(OSError):  # as above
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """A folder in which no other process may be, from the first cell to the last page of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)


# -- what decides a cell ----------------------------------------------------------------------------------


def digest(facts: dict[str, Any]) -> str:
    """A short name for everything that decides a cell's numbers, this version of the package included."""
    text = json.dumps({"version": __version__, "format": FORMAT, **facts}, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def plain(value: Any) -> Any:
    """Records, arrays and users' own policies as JSON can write them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    kind = {"type": type(value).__qualname__, "code": code_of(type(value))}
    if is_dataclass(value) and not isinstance(value, type):
        return {**kind, "fields": {field.name: getattr(value, field.name) for field in fields(value)}}
    return {**kind, "repr": repr(value)}


def code_of(kind: type) -> list[str]:
    """Digests of the files in which a class and its bases are written, where they are not this package's.

    Our own files go by the version. A class without a file, from a notebook say, goes by its name alone.
    """
    homes = dict.fromkeys(base.__module__ for base in kind.__mro__)
    modules = (sys.modules.get(home) for home in homes if home.partition(".")[0] != "linoto")
    files = (Path(getattr(module, "__file__", None) or "") for module in modules)
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()]
