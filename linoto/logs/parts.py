"""A question to every part of a log: on a thread of this process, or on a worker of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from linoto.engines import Engine, map_cells
from linoto.logs.tables import Connection, new_database

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Ask = Callable[[Connection, Part], Answer]
Introduce = Callable[[Connection], None]


def ask_parts(
    connection: Connection,
    engine: Engine,
    parts: Sequence[Part],
    ask: Ask[Part, Answer],
    introduce: Introduce,
) -> Iterator[Answer]:
    """The answers in the order of the parts; `introduce` tells a worker's database what ours knows."""
    here = engine.kind == "threads"
    question = partial(ask_here, connection, ask) if here else partial(ask_elsewhere, ask, introduce)
    return map_cells(question, parts, engine=engine)


def ask_here(connection: Connection, ask: Ask[Part, Answer], part: Part) -> Answer:
    """On a thread of this process: each query has its own cursor of one database."""
    with connection.cursor() as cursor:
        return ask(cursor, part)


def ask_elsewhere(ask: Ask[Part, Answer], introduce: Introduce, part: Part) -> Answer:
    """On a worker that has no database open."""
    with new_database() as connection:
        introduce(connection)
        return ask(connection, part)
