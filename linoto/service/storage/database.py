"""A database by its place: which engine it is for, and how commands open it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

from linoto.service.storage import sqlite
from linoto.service.storage.connection import AwayError, Connection, Engine
from linoto.service.storage.places import Address, Place


def postgres() -> Any:
    """What knows PostgreSQL; imported only where it is needed."""
    try:
        from linoto.service.storage import postgres as module
    except ModuleNotFoundError as error:
        raise ImportError(f'PostgreSQL needs {error.name}: pip install "linoto[postgres]"') from None
    found: ModuleType = module
    return found


def own(place: Place, url: str = "") -> Engine:
    """A database for a server: alone, or with others on PostgreSQL where it has an address for them."""
    if isinstance(place, Address):
        engine: Engine = postgres().DatabaseServer(place, url)
        return engine
    return sqlite.DatabaseFile(place)


def candidate(address: Address) -> Any:
    """What says when a database that another server owns can be had."""
    return postgres().Candidate(address)


@contextmanager
def noticing_absence(place: Place) -> Iterator[None]:
    """Say so where what failed would not, if the server were there."""
    try:
        yield
    except AwayError:
        raise
    except Exception as error:
        if isinstance(place, Address) and postgres().may_pass(error):
            raise AwayError((str(error).strip() or type(error).__name__).splitlines()[0]) from error
        raise


def new_database(address: Address) -> AbstractContextManager[Connection]:
    """A connection to a database on a server that has nothing of ours yet."""
    made: AbstractContextManager[Connection] = postgres().new_database(address)
    return made


def now(place: Place) -> float:
    """The time of day: that of the server where there is one, which all who may take over agree on."""
    if isinstance(place, Address):
        return float(postgres().now(place))
    return time.time()


def open_database(
    place: Place, *, create: bool = False, readonly: bool = False, older: bool = False, wait: float = 5.0
) -> AbstractContextManager[Connection]:
    """A connection that may be used while a server runs; its transactions wait this long for their turn.

    With `create` every table is there, in a new database and in one that is older than some of them.
    """
    if isinstance(place, Address):
        opened: AbstractContextManager[Connection] = postgres().open_database(
            place, create=create, readonly=readonly
        )
        return opened
    return sqlite.open_database(place, create=create, readonly=readonly, older=older, wait=wait)


def open_exclusively(place: Place) -> AbstractContextManager[Connection]:
    """A connection to a database that no server may use meanwhile."""
    if isinstance(place, Address):
        opened: AbstractContextManager[Connection] = postgres().open_database(place, owner=True)
        return opened
    return sqlite.open_exclusively(place)
