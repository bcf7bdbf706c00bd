"""What a database file holds."""

from __future__ import annotations

from pathlib import Path

from linoto.service.loops.records import recover
from linoto.service.storage import sql
from linoto.service.storage.sqlite import connect


def state_on_disk(path: Path) -> tuple[int, str, str]:
    """(events, digest by snapshot, digest from scratch) of the only loop in a database."""
    connection = connect(path)
    try:
        row = sql.all_loops(connection)[0]
        short, long = recover(connection, row), recover(connection, row, from_scratch=True)
        return long.state.seq, short.digest(), long.digest()
    finally:
        connection.close()
