"""Which events a database must have at the least, kept beside it: a lost write-ahead file is noticed.

An event is on disk, in the write-ahead file, before its number is written here; so a database that has fewer
events than this says has lost some. A record per loop, at the place of its id: which loop it is, its last
event, how many decisions there were, and how many of them may have cost something. It is synced at a start,
at a restore, and once a second: after a power failure it may say less, never more, until the next start.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".seq"
FORMAT = b"linoto-3"  # at the place of number 0, which no loop has
RECORD = struct.Struct(">8sQQQ")
BEFORE = b"linoto-2", struct.Struct(">8sQQ")  # without the number of decisions
UNKNOWN = (1 << 64) - 1  # in that number: nobody knows it
UNSURE = 1 << 63  # in the number of the last event: a restore has lost nobody knows how many
SYNC_EVERY = 1.0  # seconds


class Note(NamedTuple):
    """What is noted of a loop."""

    id: int
    tag: bytes  # of the loop: another one may get its id after a restore
    seq: int  # its last event
    costly: int  # decisions that may have cost something, those that restores have lost too
    unsure: bool = False  # whether a restore has lost nobody knows how many
    decided: int | None = None  # all decisions, those that restores have lost too; None: nobody knows


def tag_of(*parts: object) -> bytes:
    """Eight bytes that tell loops with one id apart."""
    return blake2b(repr(parts).encode(), digest_size=8).digest()


def beside(path: Path) -> Path:
    """The file that belongs to a database."""
    real = path.resolve()
    return real.with_name(real.name + SUFFIX)


class Notes:
    """The file while a database is served; a disk that is full only leaves out a check."""

    def __init__(self, file: Path, clock: Callable[[], float]) -> None:
        self.file, self.clock = file, clock
        self._synced = clock()

    def write(self, notes: Iterable[Note]) -> None:
        """Remember these, on disk within a second of the next time."""
        with suppress(OSError):
            handle = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(handle, FORMAT, 0)
                for note in notes:
                    os.pwrite(handle, packed(note), RECORD.size * note.id)
                if self.clock() - self._synced >= SYNC_EVERY:
                    self._synced = self.clock()
                    os.fsync(handle)
            finally:
                os.close(handle)

    def sync(self) -> None:
        """What was written is on disk when this returns."""
        with suppress(OSError):
            sync(self.file)


def packed(note: Note) -> bytes:
    """A record as it is written."""
    decided = UNKNOWN if note.decided is None else note.decided
    return RECORD.pack(note.tag, note.seq + 1 + (UNSURE if note.unsure else 0), note.costly, decided)


def put(file: Path, notes: Iterable[Note]) -> None:
    """Let these take the place of all that was noted: the one or the other is there, whatever happens."""
    part, records = file.with_name(file.name + ".part"), {note.id: packed(note) for note in notes}
    with suppress(OSError):
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(handle, FORMAT, 0)
            for id, record in records.items():
                os.pwrite(handle, record, RECORD.size * id)
        finally:
            os.close(handle)
        put_in_place(part, file)


def put_in_place(part: Path, out: Path) -> None:
    """Give a finished file its name; both are on disk when this returns."""
    sync(part)
    part.replace(out)
    sync(out.absolute().parent)


def discard(part: Path) -> None:
    """Take away a file that is not in its place, and what SQLite has made beside it."""
    for left in (part, *(part.with_name(part.name + end) for end in ("-wal", "-shm"))):
        left.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """A file, or the names in a folder, are on disk when this returns."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read(file: Path) -> dict[int, Note]:
    """What is noted, by the id of the loop; nothing where there is no such file."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return {}
    format, record = BEFORE if data.startswith(BEFORE[0]) else (FORMAT, RECORD)
    if not data.startswith(format):
        return {}
    found = {}
    for id in range(1, len(data) // record.size):
        tag, number, costly, decided = (*record.unpack_from(data, record.size * id), UNKNOWN)[:4]
        if number:
            known = None if decided == UNKNOWN else decided
            found[id] = Note(id, tag, number % UNSURE - 1, costly, number >= UNSURE, known)
    return found


def check(file: Path, noted_of: dict[int, Note], found: dict[int, tuple[str, Note]]) -> None:
    """Refuse a database that lacks events that were noted; `found` are its loops by id, with their names."""
    for id, noted in noted_of.items():
        name, note = found.get(id, (f"number {id}", None))
        if note is None or note.tag != noted.tag or note.seq < noted.seq:
            gone = note is None or note.tag != noted.tag
            missing = "the loop itself is missing" if gone or note is None else f"it ends at event {note.seq}"
            raise ValueError(
                f"loop {name!r} must have event {noted.seq}, but {missing}: was the write-ahead file (-wal) "
                "lost, or an older copy put here? Put back what is missing, or go on without it: move the "
                f"database away, leave {file}, and bring it back with `linoto db restore`: nothing is given "
                "out twice"
            )
