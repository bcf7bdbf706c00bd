"""The rows of a query to a database, as an Arrow stream: read where they are, through ADBC."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
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
        scheme_of(self.url)
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
        yield found.schema
        yield from found


@contextmanager
def translated(query: Query, driver: Any) -> Iterator[None]:
    """What the database says, in one sentence."""
    try:
        yield
    except driver.Error as error:
        said = without_password(" ".join(str(error).split("\nquery:")[0].split()))
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
    """A URL as its driver takes it: SQLite's is a path."""
    if scheme_of(url) != "sqlite":
        return url
    rest = url.split("://", 1)[1]
    return (
        rest[1:] if rest.startswith("/") else rest
    )  # sqlite:///shop.db is beside us, sqlite:////srv/shop.db is not


def is_database(source: object) -> bool:
    """Whether a text is the URL of a database."""
    match = URL.fullmatch(source) if isinstance(source, str) else None
    return match is not None and match["scheme"].lower() in DRIVERS


def without_password(text: str) -> str:
    """A URL, or a sentence with URLs, as it may be shown."""
    return re.sub(r"(://[^\s:/@]*):[^\s/@]*@", r"\1:***@", re.sub(r"(password=)[^\s&]+", r"\1***", text))
