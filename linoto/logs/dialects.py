"""How warehouses write SQL: names, texts, types. What is the same everywhere is in `logs/statement.py`."""

from __future__ import annotations

import re
from typing import NamedTuple

from linoto.core.hints import nearest


class Dialect(NamedTuple):
    """The few words in which a warehouse differs from the others."""

    name: str
    double: str = "DOUBLE"
    text: str = "VARCHAR"
    moment: str = "TIMESTAMP WITH TIME ZONE"  # a date with a time and a zone
    mark: str = '"'  # around names
    backslash: bool = False  # whether it means something in a text
    upper: bool = False  # whether names that are not quoted are kept in capitals

    def alias(self, name: str) -> str:
        """A name of ours, as it is written."""
        return f"{self.mark}{name.replace(self.mark, 2 * self.mark)}{self.mark}"

    def column(self, name: str) -> str:
        """A column of a table by its name; where names are kept in capitals, by that in capitals.

        >>> DIALECTS["snowflake"].column("variant"), DIALECTS["snowflake"].column('"variant"')
        ('"VARIANT"', '"variant"')
        """
        if len(name) > 2 and name[0] == name[-1] == '"':
            return self.alias(name[1:-1])
        if self.mark == "`" and "`" in name:
            raise ValueError(f"a column must have no ` in its name for {self.name}, got {name!r}")
        plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None
        return self.alias(name.upper() if self.upper and plain else name)

    def literal(self, text: str) -> str:
        """A text that means itself."""
        if self.backslash:
            text = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
            return f"'{text}'"
        return "'" + text.replace("'", "''") + "'"

    def number(self, sql: str) -> str:
        """A value as a float."""
        return f"CAST({sql} AS {self.double})"

    def constant(self, value: float) -> str:
        """A number, in all its digits."""
        return self.number(f"'{value!r}'")


DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("duckdb"),
        Dialect("postgres", double="DOUBLE PRECISION"),
        Dialect("bigquery", double="FLOAT64", text="STRING", moment="TIMESTAMP", mark="`", backslash=True),
        Dialect("snowflake", moment="TIMESTAMP_TZ", backslash=True, upper=True),
        Dialect("spark", text="STRING", moment="TIMESTAMP", mark="`", backslash=True),
    )
}


def dialect_of(name: str) -> Dialect:
    """The dialect of this name."""
    if name not in DIALECTS:
        hint = nearest(name, DIALECTS)
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {name!r}{hint}")
    return DIALECTS[name]
