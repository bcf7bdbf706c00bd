"""Where a database is: a file of SQLite, or the address of a PostgreSQL server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, repr=False)
class Address:
    """The URL of a database on a PostgreSQL server; what is shown of it has no password."""

    url: str

    def __str__(self) -> str:
        hidden = re.sub(r"(//[^:@/]*):[^@/]*@", r"\1@", self.url)
        return re.sub(r"([?&]password=)[^&]*", r"\1...", hidden)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


Place = Path | Address


def place_of(text: str) -> Place:
    """What somebody typed."""
    return Address(text) if text.startswith(SCHEMES) else Path(text)
