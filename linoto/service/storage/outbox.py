"""SQL of alarms that are to be posted: one statement per named function of a connection."""

from __future__ import annotations

from collections.abc import Container, Sequence

from linoto.service.storage.connection import Connection, Row


def put(connection: Connection, id: str, at: float, body: bytes) -> None:
    """An alarm to be posted, unless it is or was there."""
    connection.execute("INSERT INTO outbox VALUES (?, ?, ?, NULL) ON CONFLICT DO NOTHING", (id, at, body))


def waiting(connection: Connection) -> list[Row]:
    """(id, made_at, body) of what is not taken yet, oldest first."""
    return connection.execute(
        "SELECT id, made_at, body FROM outbox WHERE taken_at IS NULL ORDER BY made_at, id"
    ).fetchall()


def finish(connection: Connection, id: str, at: float | None) -> None:
    """It was taken at this time, or is given up."""
    if at is None:
        connection.execute("DELETE FROM outbox WHERE id = ?", (id,))
    else:
        connection.execute("UPDATE outbox SET taken_at = ? WHERE id = ?", (at, id))


def forget(connection: Connection, loops: Container[str], unanswered: Sequence[str]) -> None:
    """What was taken and is answered too need not be remembered, of loops with these numbers."""
    taken = connection.execute("SELECT id FROM outbox WHERE taken_at IS NOT NULL").fetchall()
    known = {id for (id,) in taken if id.partition("-")[0] in loops} - set(unanswered)
    connection.executemany("DELETE FROM outbox WHERE id = ?", [(id,) for id in known])
