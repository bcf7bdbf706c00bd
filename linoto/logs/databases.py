"""The rows of a query to a database, as an Arrow stream: read where they are, through ADBC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from linoto.core.hints import nearest

DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "sqlite": "adbc_driver_sqlite",
    "snowflake": "adbc_driver_snowflake",
    "flightsql": "adbc_driver_flightsql",
}
URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL | re.IGNORECASE)
PARTS = re.compile(
    r"""(?P<scheme>[a-z0-9+.-]+://)
    ((?P<user>[^\s:/?\#@]*)(:[^\s:/?\#@]*)?@)?
    (?P<host>(\[[0-9a-f:.]+\]|[^\s:/?\#@]*)(:\d+)?(,[^\s:/?\#@]+(:\d+)?)*)
    (?P<path>/[^\s?\#@]*)?
    (\?[^\s@]*)?""",
    re.VERBOSE | re.IGNORECASE,
)
LIKE = (
    "like postgresql://user:password@host:5432/name, with @ : / ? and # inside of a part written as "
    "%40 %3A %2F %3F and %23, got something else"
)


@dataclass(frozen=True)
class Query:
    """Rows that a database is asked for, wherever a log, its arms or its rows are read.

    ```python
    orders = Query("postgresql://analyst@warehouse/shop", "SELECT variant, ordered FROM orders")
    log = linoto.read_log(orders, item="variant", reward="ordered")
    ```

    The database is asked again each time the rows are read. A driver of ADBC must be installed:
    `adbc-driver-postgresql`, `-sqlite`, `-snowflake` or `-flightsql`.
    """

    url: str = field(repr=False)  # may hold a password
    sql: str

    def __post_init__(self) -> None:
        if scheme_of(self.url) != "sqlite" and not PARTS.fullmatch(self.url):
            raise ValueError(f"url must be {LIKE}")
        if not self.sql.strip():
            raise ValueError("sql must be a query, got nothing")

    def __str__(self) -> str:
        return f"the query to {without_password(self.url)}"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> Any:
        """The rows in batches, from a connection that ends with them."""
        import pyarrow as arrow

        batches = read_batches(self, driver_of(self.url))
        return arrow.RecordBatchReader.from_batches(next(batches), batches)


def read_batches(query: Query, driver: Any) -> Iterator[Any]:
    """The schema of the rows, then the rows."""
    with (
        translated(query, driver),
        closing(driver.connect(address_of(query.url))) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute(query.sql)
        found = cursor.fetch_record_batch()
        check_schema(query, found.schema)
        yield found.schema
        yield from found


def check_schema(query: Query, schema: Any) -> None:
    """Refuse what is no table, and numbers in a unit that nobody stated."""
    if not schema.names:
        raise ValueError(f"{query} must be a query, got a statement that returns no columns")
    for column in schema:
        if (column.metadata or {}).get(b"ADBC:postgresql:typname") == b"money":
            raise ValueError(
                f"{query} must give numbers as they are, got column {column.name!r} of type money, "
                "which comes in its smallest unit: cast it to numeric"
            )


@contextmanager
def translated(query: Query, driver: Any) -> Iterator[None]:
    """What the database says, in one sentence."""
    try:
        yield
    except driver.Error as error:
        said = " ".join(str(error).split("\nquery:")[0].split())
        raise ValueError(f"{query} failed: {said}") from None


def driver_of(url: str) -> Any:
    """The module that connects to such a database."""
    name = DRIVERS[scheme_of(url)]
    try:
        return import_module(f"{name}.dbapi")
    except ImportError:
        package = name.replace("_", "-")
        raise ImportError(f"asking {without_password(url)} needs its driver: pip install {package}") from None


def scheme_of(url: str) -> str:
    """The kind of database that a URL names."""
    match = URL.fullmatch(url)
    if match is None:
        raise ValueError(
            "url must be that of a database, as in postgresql://user@host/name, got a text without ://"
        )
    scheme = match["scheme"].lower()
    if scheme not in DRIVERS:
        hint = nearest(scheme, DRIVERS)
        raise ValueError(f"url must begin with one of {', '.join(DRIVERS)}, got {scheme!r}{hint}")
    return scheme


def address_of(url: str) -> str:
    """A URL as its driver takes it: SQLite's is a path, as in sqlite:///here.db and sqlite:////srv/there.db."""
    if scheme_of(url) != "sqlite":
        return url
    path = url.split("://", 1)[1].removeprefix("/")
    if not Path(path).is_file():  # the driver would make one
        raise ValueError(f"{url} must be a file that is there, got none")
    return path


def is_database(source: object) -> bool:
    """Whether a text is the URL of a database."""
    match = URL.fullmatch(source) if isinstance(source, str) else None
    return match is not None and match["scheme"].lower() in DRIVERS


def without_password(url: str) -> str:
    """A URL as it may be shown: where it is not clear what is secret in it, all of it is."""
    match = PARTS.fullmatch(url)
    if is_database(url) and scheme_of(url) == "sqlite":
        return url
    if match is None:
        return url.partition("://")[0] + "://***" if "://" in url else "***"
    user = f"{match['user']}@" if match["user"] else ""
    return f"{match['scheme']}{user}{match['host']}{match['path'] or ''}"
