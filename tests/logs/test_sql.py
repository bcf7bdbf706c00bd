"""DuckDB and its SQL are in four files: who asks something of a log calls a function with a name."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.sources import PACKAGE, source_of, sources

from linoto.logs import queries, remote, tables, value_sql

MODULES = (tables, queries, value_sql, remote)
WRITERS = tuple(module.__name__ for module in MODULES)
WRITE_SQL = {Path(str(module.__file__)) for module in MODULES}
DUCKDB = re.compile(r"\b(read_(parquet|csv|json|ndjson)\w*|parquet_\w*metadata|file_row_number)\b|\bCOPY \(")
STATEMENT = re.compile(r"\b(SELECT|COPY|DESCRIBE|CREATE (TEMP )?(TABLE|VIEW)|GROUP BY|LEFT JOIN|TRY_CAST)\b")
FOR_WAREHOUSES = PACKAGE / "logs" / "statement.py"  # its one statement is run elsewhere, never by DuckDB
WITHOUT_DATABASE = (PACKAGE / "logs", PACKAGE / "audit")  # elsewhere statements may be for SQLite


def composed(texts: list[str], *patterns: re.Pattern[str]) -> list[str]:
    """The texts of a program that look like SQL."""
    return [text for text in texts if any(pattern.search(text) for pattern in patterns)]


def test_sql_for_duckdb_is_written_in_four_files_only() -> None:
    for path in sources().keys() - WRITE_SQL:
        inside = any(path.is_relative_to(folder) for folder in WITHOUT_DATABASE)
        strict = inside and path != FOR_WAREHOUSES
        words = (DUCKDB, STATEMENT) if strict else (DUCKDB,)
        assert composed(sources()[path].texts, *words) == [], f"{path} must call functions"


def test_what_builds_sql_is_imported_by_nobody_else() -> None:
    """A statement may also be put together from the words of others."""
    builders = {"escape_glob", "listed", "literal", "quoted", "scan"}
    builders |= {name for name in vars(queries) if name.startswith("select_")}
    builders |= {name for name in vars(value_sql) if name.endswith("_sql")}
    used = {name for module in MODULES for name in vars(module)}
    assert builders <= used
    for path in sources().keys() - WRITE_SQL:
        taken = {name for module, name in sources()[path].imported if module in WRITERS}
        assert not taken & builders, path


def test_sql_would_be_found() -> None:
    """In the files that write it, and in a line like those that were elsewhere."""
    for path in WRITE_SQL:
        assert composed(sources()[path].texts, STATEMENT)
    planted = (
        'def f(c, rows):\n    """SELECT is a word."""\n    return c.execute(f"SELECT min(r) FROM ({rows})")\n'
    )
    assert composed(source_of(planted).texts, STATEMENT) == ["SELECT min(r) FROM ("]
    assert composed(source_of('q = f"""COPY ({x}) TO y"""').texts, DUCKDB)
    assert composed(source_of('q = "read_parquet(?)"').texts, DUCKDB)
