"""A database by its place: which engine it is for, and how commands open it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from linoto.service.storage import sqlite
from linoto.service.storage.connection import Connection, Engine


def own(path: Path) -> Engine:
    """A database for a server, which nobody else may serve meanwhile."""
    return sqlite.DatabaseFile(path)


def open_database(
    path: Path, *, create: bool = False, readonly: bool = False, older: bool = False, wait: float = 5.0
) -> AbstractContextManager[Connection]:
    """A connection that may be used while a server runs; its transactions wait this long for their turn.

    With `create` every table is there, in a new database and in one that is older than some of them.
    """
    return sqlite.open_database(path, create=create, readonly=readonly, older=older, wait=wait)


def open_exclusively(path: Path, *, older: bool = False) -> AbstractContextManager[Connection]:
    """A connection to a database that no server may use meanwhile."""
    return sqlite.open_exclusively(path, older=older)
