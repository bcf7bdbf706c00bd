"""What every command of the service asks for: where its database is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linoto.cli.terminal import Unshown
from linoto.cli.usage import Parser

DATABASE = Path("loops.sqlite")


@contextmanager
def service_needed() -> Iterator[None]:
    """Say which extra is missing where the service cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(f'the service needs {error.name}: pip install "linoto[service]"') from None


def add_database(parser: Parser) -> None:
    """The option that every command of the service has."""
    parser.add_argument(
        "--db", type=place, default=DATABASE, help="database: a file, or postgresql://USER@HOST/NAME"
    )


def place(text: str) -> Any:
    """A file, or the address of a PostgreSQL server."""
    from linoto.service.storage.places import REFUSAL, place_of

    try:
        return place_of(text)
    except ValueError:
        raise Unshown(REFUSAL) from None
