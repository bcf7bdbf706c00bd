"""Finished cells in one SQLite file, one row each, so that an interrupted experiment can go on.

Each row has a checksum, because SQLite notices damage to its own structure but not to the numbers in it. A
file has one writer at a time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from linoto.core.arrays import Floats
from linoto.version import __version__

FORMAT = 3  # 1 and 2 were text files, NAME.cells.jsonl
APPLICATION = 0x6C696E6F  # "lino" in the header of the file: it is one of ours
SCHEMA = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE cells (
    setting TEXT,
    policy TEXT,
    key TEXT, -- digest of everything that decides the numbers, besides the run
    run INTEGER,
    numbers BLOB, -- float64, little-endian: worst, promise_violation, regret, offline_regret, explored,
    -- and each metric
    checksum INTEGER, -- of all the others
    UNIQUE (setting, policy, key, run)
);
"""
REFUSALS: dict[int, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: (
        BlockingIOError,
        "is being written to by another run: wait for it, or choose another folder",
    ),
    sqlite3.SQLITE_CORRUPT: (ValueError, "is damaged: move it away"),
    sqlite3.SQLITE_NOTADB: (
        ValueError,
        f"must be absent or hold cells of format {FORMAT}, got another file: move it away",
    ),
}


class Curves(NamedTuple):
    """What is kept of one run."""

    regret: Floats  # (p,) R_t at the kept rounds
    offline_regret: Floats  # (p,) R_t^off there
    explored: Floats  # (p,) rounds up to there in which the explorer's arm was played
    worst: float  # the largest R_t^off over all rounds, at least 0
    promise_violation: float  # the largest R_t^off less what is promised then; NaN: no promise
    metrics: Floats = np.zeros((0, 0))  # (metrics, p) how much more of each than with the log, or practice


@dataclass(kw_only=True, eq=False)
class CellStore:
    """The cells of one experiment, found by setting, label and run."""

    connection: sqlite3.Connection
    path: Path | None
    keys: dict[tuple[str, str], str]  # what each setting and label must be to count
    resume: bool  # without it the first new cell removes those that are there
    replaced: int = 0  # how many it removes
    runs: int = 0  # the most runs of one policy that were there
    begun: bool = False  # whether it was written
    metrics: Mapping[str, int] = field(default_factory=dict)  # how many metrics each setting has

    def __post_init__(self) -> None:
        weakref.finalize(self, self.connection.close)  # closed with the last result that reads from it

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        resume: bool,
        keys: dict[tuple[str, str], str],
        metrics: Mapping[str, int] | None = None,
    ) -> CellStore:
        """A store in a file, to which nobody else may write until `release`; without a path a temporary one.

        Without `resume` the first finished cell removes what is there, and nothing does before.
        """
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        with explained(path):
            connection = sqlite3.connect(
                path or "", isolation_level=None, timeout=0.5, check_same_thread=False
            )
            connection.text_factory = lambda raw: raw.decode(errors="replace")  # damage is for the checksum
            store = cls(connection=connection, path=path, keys=keys, resume=resume, metrics=metrics or {})
            try:
                lock_or_create(connection, path)
                total, store.runs = connection.execute(
                    "SELECT count(*), ifnull(max(run) + 1, 0) FROM cells"
                ).fetchone()
                store.replaced = 0 if resume else total
                if damaged(connection, rows=resume):
                    raise refusal(sqlite3.SQLITE_CORRUPT, path)
            except BaseException:
                connection.close()  # at once: a traceback that somebody keeps would keep the lock as well
                raise
        return store

    @property
    def old_file(self) -> Path | None:
        """Finished cells beside these, in a format that is not read any more."""
        old = self.path and self.path.with_suffix(".jsonl")
        return old if old and old.exists() else None

    def release(self) -> None:
        """Let others write to the file: nothing more will be added."""
        with explained(self.path):
            self.connection.execute("PRAGMA journal_mode = DELETE")  # everything in one file again
            self.connection.execute("PRAGMA locking_mode = NORMAL")
            self.connection.execute("SELECT count(*) FROM cells").fetchone()  # only now the lock ends

    def holds(self, setting: str, label: str, run: int) -> bool:
        """Whether this cell is finished."""
        return (self.resume or self.begun) and self._find(setting, label, run) is not None

    def append(self, setting: str, label: str, run: int, curves: Curves) -> None:
        """Keep a finished cell: one transaction."""
        head = [curves.worst, curves.promise_violation]
        numbers = np.concatenate(
            [head, curves.regret, curves.offline_regret, curves.explored, *curves.metrics]
        )
        row = setting, label, self.keys[setting, label], run, numbers.astype("<f8").tobytes()
        with explained(self.path), self.connection:
            if not self.begun:
                # With a write-ahead log a commit waits for no disk, and a killed process loses no commit.
                self.connection.execute("PRAGMA journal_mode = WAL")
                self.connection.execute("PRAGMA synchronous = NORMAL")
            self.connection.execute("BEGIN")
            if not self.begun and not self.resume:
                self.connection.execute("DELETE FROM cells")
            self.connection.execute("INSERT INTO cells VALUES (?, ?, ?, ?, ?, ?)", (*row, checksum(row)))
        self.begun = True

    def read(self, setting: str, label: str, run: int) -> Curves:
        """A finished cell."""
        row = self._find(setting, label, run)
        if row is None:
            what = f"setting {setting!r}, policy {label!r}, run {run}"
            raise ValueError(f"{what} must be in {self.path}, got no such row: the file was changed since")
        if checksum(row[:-1]) != row[-1]:
            raise refusal(sqlite3.SQLITE_CORRUPT, self.path)
        numbers = np.frombuffer(row[-2], dtype="<f8")
        regret, offline_regret, explored, *more = numbers[2:].reshape(3 + self.metrics.get(setting, 0), -1)
        worst, violation = numbers[:2].tolist()
        return Curves(regret, offline_regret, explored, worst, violation, np.array(more))

    def _find(self, setting: str, label: str, run: int) -> tuple[Any, ...] | None:
        """The row of a cell, if there is one."""
        where = setting, label, self.keys[setting, label], run
        query = "SELECT * FROM cells WHERE (setting, policy, key, run) = (?, ?, ?, ?)"
        with explained(self.path):
            found: tuple[Any, ...] | None = self.connection.execute(query, where).fetchone()
        return found


# -- one file, one writer ---------------------------------------------------------------------------------


def lock_or_create(connection: sqlite3.Connection, path: Path | None) -> None:
    """Become the only writer of a file of ours, which is made where there is none."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # from the next transaction until `release`
    with connection:
        connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
        connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
    marks = ("application_id", "user_version")
    if [connection.execute(f"PRAGMA {mark}").fetchone() for mark in marks] != [(APPLICATION,), (FORMAT,)]:
        raise refusal(sqlite3.SQLITE_NOTADB, path)


def damaged(connection: sqlite3.Connection, *, rows: bool) -> bool:
    """Whether a file, or also a row of it, is not as it was written: known before hours of work."""
    if connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        return True
    with closing(connection.execute("SELECT * FROM cells")) as found:
        return rows and any(checksum(row[:-1]) != row[-1] for row in found)


def checksum(row: tuple[Any, ...]) -> int:
    """A number that changes with any byte of a row."""
    *names, numbers = row
    start = crc32(ascii(names).encode())
    return crc32(numbers, start) if isinstance(numbers, bytes) else -1  # damage may change the type


def refusal(code: int, place: Path | None) -> Exception:
    """One sentence about a file that cannot be used."""
    kind, text = REFUSALS[code]
    return kind(f"{place} {text}")


@contextmanager
def explained(place: Path | None) -> Iterator[None]:
    """Errors of SQLite as one sentence each."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the details
        if code in REFUSALS:
            raise refusal(code, place) from None
        raise OSError(f"{place} must be a file that can be read and written: {error}") from None


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """A folder in which no other command may write, from the first cell to the last page of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal(sqlite3.SQLITE_BUSY, folder) from None
        except OSError:
            pass  # a file system that knows no locks: as good as it was without
        yield
    finally:
        os.close(handle)


# -- what decides a cell ----------------------------------------------------------------------------------


def digest(facts: dict[str, Any]) -> str:
    """A short name for everything that decides a cell's numbers, this version of the package included."""
    text = json.dumps(
        {"version": __version__, "format": FORMAT, **facts}, sort_keys=True, default=as_json_data
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def as_json_data(value: Any) -> Any:
    """Records, arrays and users' own policies as JSON can write them."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    kind = {"type": type(value).__qualname__, "code": code_of(type(value))}
    if is_dataclass(value) and not isinstance(value, type):
        return {**kind, "fields": {field.name: getattr(value, field.name) for field in fields(value)}}
    if type(value).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]  # it has none of its own
        return {**kind, "fields": getattr(value, "__dict__", {})}  # not an address in memory
    return {**kind, "repr": repr(value)}


def code_of(kind: type) -> list[str]:
    """Digests of the files in which a class and its bases are written, where they are not this package's.

    Our own files go by the version. A class without a file, from a notebook say, goes by its name alone.
    """
    homes = dict.fromkeys(base.__module__ for base in kind.__mro__)
    modules = (sys.modules.get(home) for home in homes if home.partition(".")[0] != "linoto")
    files = (Path(getattr(module, "__file__", None) or "") for module in modules)
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file.is_file()]
