"""Which events a database must have at the least, kept beside it: a lost write-ahead file is noticed.

An event is on disk, in the write-ahead file, before its number is written here; so a database that has fewer
events than this says has lost some. It is written without a sync: after a power failure it may say less,
never more. One number of eight bytes per loop, at the place of its id: the last event and one, 0 for no loop.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from sqlite3 import Connection

SUFFIX = ".seq"
BYTES = 8


def beside(path: Path) -> Path:
    """The file that belongs to a database."""
    real = path.resolve()
    return real.with_name(real.name + SUFFIX)


def beside_connection(connection: Connection) -> Path:
    """The file that belongs to the database of a connection."""
    return beside(Path(connection.execute("PRAGMA database_list").fetchone()[2]))


def note(file: Path, loops: Iterable[tuple[int, int]]) -> None:
    """Remember (id, last event) of these loops; a disk that is full only leaves out a check."""
    with suppress(OSError):
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for id, seq in loops:
                os.pwrite(handle, (seq + 1).to_bytes(BYTES, "big"), BYTES * id)
        finally:
            os.close(handle)


def read(file: Path) -> dict[int, int]:
    """The last event of each loop, by its id; none where there is no such file."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return {}
    numbers = [int.from_bytes(data[at : at + BYTES], "big") for at in range(0, len(data), BYTES)]
    return {id: number - 1 for id, number in enumerate(numbers) if number}


def check(file: Path, found: dict[int, tuple[str, int]]) -> None:
    """Refuse a database that lacks events; `found` is (name, last event) of each loop by its id."""
    for id, last in read(file).items():
        name, seq = found.get(id, (f"number {id}", -1))
        if seq < last:
            missing = "the loop itself is missing" if seq < 0 else f"it ends at event {seq}"
            raise ValueError(
                f"loop {name!r} must have event {last}, but {missing}: was the write-ahead file (-wal) lost, "
                f"or an older copy put here? Put back what is missing, or move the database away, leave "
                f"{file.name}, and `linoto db restore` it: then no id and no coin is given out twice"
            )
