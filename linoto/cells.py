"""Finished cells in a file that only grows: one line each, so that an interrupted experiment can go on."""

from __future__ import annotations

import hashlib
import json
import tempfile
import weakref
from array import array
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from linoto.version import __version__

FORMAT = 1
HEADER = json.dumps({"linoto": "cells", "format": FORMAT}).encode() + b"\n"


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
    replaced: int = 0  # finished cells of an earlier experiment that this one wrote over

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)  # closed with the last result that reads from it

    @classmethod
    def open(cls, path: Path | None, *, resume: bool, keys: dict[tuple[str, str], str]) -> CellStore:
        """A store in a file, or in a nameless one that goes away by itself."""
        offsets = {place: array("q") for place in keys}  # eight bytes a cell: runs may be many
        if path is None:
            store = cls(file=tempfile.TemporaryFile(), keys=keys, offsets=offsets)  # noqa: SIM115
            store._begin()
            return store
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("r+b") if path.exists() else path.open("w+b")
        store = cls(file=file, keys=keys, offsets=offsets)
        store._load(path, resume)
        return store

    def holds(self, setting: str, label: str, run: int) -> bool:
        """Whether this cell is finished."""
        known = self.offsets[setting, label]
        return run < len(known) and known[run] > 0

    def append(self, setting: str, label: str, run: int, curves: Curves) -> None:
        """Keep a finished cell: one line, in one write."""
        facts = {"setting": setting, "policy": label, "run": run, "key": self.keys[setting, label]}
        line = json.dumps({**facts, **curves._asdict()}, separators=(",", ":")) + "\n"
        self._remember((setting, label), run, self.file.seek(0, 2))
        self.file.write(line.encode())
        self.file.flush()

    def read(self, setting: str, label: str, run: int) -> Curves:
        """A finished cell."""
        self.file.seek(self.offsets[setting, label][run])
        data = json.loads(self.file.readline())
        return Curves(**{name: data[name] for name in Curves._fields})

    def _load(self, path: Path, resume: bool) -> None:
        """Find the finished cells, or start afresh. A line cut off while being written is dropped."""
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
        self.file.truncate(whole if resume else 0)
        if not (resume and whole):
            self._begin()

    def _begin(self) -> None:
        self.file.seek(0)
        self.file.write(HEADER)
        self.file.flush()

    def _index(self, path: Path, number: int, offset: int, line: bytes) -> None:
        try:
            data = json.loads(line)
            place, run, key = (data["setting"], data["policy"]), int(data["run"]), data["key"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is damaged in line {number}: run again without --resume") from None
        if self.keys.get(place) == key and data.keys() >= set(Curves._fields):
            self._remember(place, run, offset)

    def _remember(self, place: tuple[str, str], run: int, offset: int) -> None:
        known = self.offsets[place]
        known.extend([0] * (run + 1 - len(known)))
        known[run] = offset


def check_header(path: Path, line: bytes) -> None:
    """Refuse to touch a file that does not begin as ours do."""
    if not HEADER.startswith(line):
        raise ValueError(
            f"{path} must be absent or hold cells of format {FORMAT}, got another file: move it away"
        )


def digest(facts: dict[str, Any]) -> str:
    """A short name for everything that decides a cell's numbers, this version of the package included."""
    text = json.dumps({"version": __version__, "format": FORMAT, **facts}, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def plain(value: Any) -> Any:
    """Records, arrays and users' own policies as JSON can write them."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"type": type(value).__qualname__, **parts}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return {"type": type(value).__qualname__, "repr": repr(value)}
