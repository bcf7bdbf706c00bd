"""Words of SQL: names, texts and paths that mean themselves, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path


def escape_glob(path: str | Path) -> str:
    """A path that means itself."""
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def listed(names: Sequence[str]) -> str:
    """The names of columns in SQL."""
    return ", ".join(map(quoted, names))


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str | Path) -> str:
    """A string in SQL."""
    return "'" + str(text).replace("'", "''") + "'"
