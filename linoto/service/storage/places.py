"""Where a database is: a file of SQLite, or the address of a PostgreSQL server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from linoto.logs.databases import LIKE, PARTS, without_password

SCHEMES = ("postgresql://", "postgres://")
MEANT = re.compile(r"[a-z][a-z0-9+.-]+:|[^/]*:[^/]*@|.*(://|password\s*=)", re.IGNORECASE | re.DOTALL)
REFUSAL = f"must be a file, or an address {LIKE}"  # which may hold a password, so it is not shown


@dataclass(frozen=True, repr=False)
class Address:
    """The URL of a database on a PostgreSQL server; what is shown of it has no password."""

    url: str

    def __post_init__(self) -> None:
        if not (self.url.startswith(SCHEMES) and PARTS.fullmatch(self.url)):
            raise ValueError(f"db {REFUSAL}")

    def __str__(self) -> str:
        return without_password(self.url)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


Place = Path | Address


def place_of(text: str) -> Place:
    """What somebody typed; what looks like an address is no file, unless it begins with `./`."""
    return Address(text) if MEANT.match(text) else Path(text)
