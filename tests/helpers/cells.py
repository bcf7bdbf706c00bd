"""What a file of finished cells holds, and how far a run in another process has come."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """Every row, in the order of writing: two files with the same rows hold the same bits."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM cells ORDER BY rowid").fetchall()


def change(path: Path, statement: str, *values: Any) -> None:
    """Change a file behind everybody's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def wait_for_cells(path: Path, size: int = 200_000) -> None:
    """Wait until a run in another process, which has locked the file, has written so many bytes."""
    log = path.with_name(path.name + "-wal")
    until = time.monotonic() + 240  # a cold machine compiles first
    while not (log.exists() and log.stat().st_size > size):
        assert time.monotonic() < until, f"{log} must grow to {size} bytes"
        time.sleep(0.05)
