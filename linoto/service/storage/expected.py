"""Which events a database must have at the least, kept beside it: a lost write-ahead file is noticed.

An event is on disk, in the write-ahead file, before its number is written here; so a database that has fewer
events than this says has lost some. It is written without a sync: after a power failure it may say less,
never more. One number of eight bytes per loop, at the place of its id: the last event and one, 0 for no loop.
Its highest bit says that a restore has lost events of the loop and nobody knows how many: what the other bits
say is then too little for a backup from before that restore.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Set
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

SUFFIX = ".seq"
BYTES = 8
UNSURE = 1 << 63


def beside(path: Path) -> Path:
    """The file that belongs to a database."""
    real = path.resolve()
    return real.with_name(real.name + SUFFIX)


def beside_connection(connection: Connection) -> Path:
    """The file that belongs to the database of a connection."""
    return beside(Path(connection.execute("PRAGMA database_list").fetchone()[2]))


def note(file: Path, loops: Iterable[tuple[int, int]], unsure: Set[int] = frozenset()) -> None:
    """Remember (id, last event) of these loops; a disk that is full only leaves out a check.

    `unsure` are the ids of loops that have lost nobody knows how many events.
    """
    with suppress(OSError):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for id, seq in loops:
                number = seq + 1 + (UNSURE if id in unsure else 0)
                os.pwrite(handle, number.to_bytes(BYTES, "big"), BYTES * id)
        finally:
            os.close(handle)


def read(file: Path) -> dict[int, int]:
    """The last event of each loop, by its id; none where there is no such file."""
    return {id: number % UNSURE - 1 for id, number in numbers_in(file).items()}


def read_unsure(file: Path) -> set[int]:
    """The ids of loops that have lost nobody knows how many events."""
    return {id for id, number in numbers_in(file).items() if number >= UNSURE}


def numbers_in(file: Path) -> dict[int, int]:
    """What is written for each loop that there is."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return {}
    numbers = [int.from_bytes(data[at : at + BYTES], "big") for at in range(0, len(data), BYTES)]
    return {id: number for id, number in enumerate(numbers) if number}


def check(file: Path, found: dict[int, tuple[str, int]]) -> None:
    """Refuse a database that lacks events; `found` is (name, last event) of each loop by its id."""
    for id, last in read(file).items():
        name, seq = found.get(id, (f"number {id}", -1))
        if seq < last:
            missing = "the loop itself is missing" if seq < 0 else f"it ends at event {seq}"
            raise ValueError(
                f"loop {name!r} must have event {last}, but {missing}: was the write-ahead file (-wal) lost, "
                "or an older copy put here? Put back what is missing, or go on without it: move the database "
                f"away, leave {file}, and bring it back with `linoto db restore`: nothing is given out twice"
            )
