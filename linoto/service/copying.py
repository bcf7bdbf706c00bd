"""Moving a database from one engine to the other: all rows as they are, ids and secret among them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

from linoto.service.storage import expected, sql, sqlite
from linoto.service.storage.connection import Connection, Row
from linoto.service.storage.database import new_database, open_exclusively
from linoto.service.storage.places import Address, Place

AT_ONCE = 5000  # rows
SERVE_ONE = "serve only one of the two from now on: both would give out the same ids and draws"


def copy(source: Place, target: Place) -> Iterator[str]:
    """Copy a database that no server uses to a place where there is none; a line per table that has rows.

    The copy is complete, or there is none.
    """
    with open_exclusively(source) as reading, made_at(target) as writing:
        reading.add_tables()
        reading.execute("BEGIN")
        writing.begin()
        sql.delete_secret(writing)
        for table in sql.TABLES:
            check = check_keys if table == "decisions" and isinstance(target, Address) else None
            count = copy_table(reading, writing, table, check)
            if count:
                yield f"{table}: {count} rows"
        writing.count_on()
        writing.commit()
    yield f"{source} is copied to {target}: {SERVE_ONE}"


def copy_table(
    reading: Connection, writing: Connection, table: str, check: Callable[[list[Row]], None] | None = None
) -> int:
    """All rows of a table, some at a time, which may be checked: how many."""
    count, rows = 0, sql.all_rows(reading, table)
    if table == "features":  # of a megabyte each
        keys = sql.features_keys(reading)
        for key in keys:
            sql.insert_rows(writing, table, [sql.features_row(reading, key)])
        return len(keys)
    while some := list(islice(rows, AT_ONCE)):
        if check is not None:
            check(some)
        sql.insert_rows(writing, table, some)
        count += len(some)
    return count


def check_keys(decisions: list[Row]) -> None:
    """Refuse a key that PostgreSQL cannot keep: earlier versions took it on SQLite."""
    for loop, number, _, _, key, *_ in decisions:
        if key is not None and "\0" in key:
            raise ValueError(
                f"decision {number} of loop number {loop} has a key with U+0000, which PostgreSQL cannot "
                "keep: prune it first (`linoto db prune`), or stay with SQLite"
            )


@contextmanager
def made_at(target: Place) -> Iterator[Connection]:
    """A new database; a file gets its name when it is complete."""
    if isinstance(target, Address):
        with new_database(target) as connection:
            yield connection
        return
    part = target.with_name(target.name + ".part")
    for there in (target, expected.beside(target), part):
        if there.exists():
            raise FileExistsError(f"{there} exists: name a file that does not, or move it away")
    try:
        with sqlite.open_database(part, create=True) as connection:
            yield connection
        expected.put_in_place(part, target)
    finally:
        expected.discard(part)
