"""Files and data frames as Parquet, to be read in parts: the only file that knows DuckDB.

What is not Parquet is first copied to a temporary Parquet file, its needed columns in their order, so that
every kind of input goes the same way and can be read again where it matters.
"""

from __future__ import annotations

import csv
import glob
import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linoto.features import check_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

ROW_GROUP = 2**17
KINDS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
} | dict.fromkeys((".jsonl", ".ndjson", ".json"), "JSON lines")


class Piece(NamedTuple):
    """A Parquet file that holds one file of the log."""

    name: str  # of what the user gave
    path: str
    kind: str
    rows: int
    types: tuple[tuple[str, str], ...]  # DuckDB's, by column
    rejected: int = 0  # rows that have not the columns of the header
    first_rejected: tuple[int, str] | None = None  # row from 0, and what is wrong with it


# -- connections ------------------------------------------------------------------------------------------


@contextmanager
def connected() -> Iterator[Connection]:
    """A database in memory that fetches nothing from elsewhere, with one thread for each query."""
    try:
        import duckdb
    except ImportError:
        raise ImportError('reading logs needs DuckDB: pip install "linoto[logs]"') from None
    connection = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    try:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET parquet_metadata_cache = true")
        yield connection
    finally:
        connection.close()


@contextmanager
def readable(name: str, kind: str) -> Iterator[None]:
    """DuckDB's complaints as one sentence about the user's file."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        if "No space left" in str(error):
            raise OSError(f"no space left to unpack {name}: set TMPDIR to a larger place") from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise ValueError(f"{name} needs more memory than there is") from None
        raise ValueError(f"{name} cannot be read as {kind}: it is damaged, or something else") from None


# -- files and frames -------------------------------------------------------------------------------------


def stage(connection: Connection, source: Any, wanted: Mapping[str, str] | None, folder: Path) -> list[Piece]:
    """Every file of a source as Parquet: as it is, or copied into the folder. None: all columns."""
    if not isinstance(source, str | os.PathLike) and not is_paths(source):
        return [stage_frame(connection, source, wanted, folder)]
    pieces = []
    for number, path in enumerate(find_files(source)):
        kind = kind_of(path)
        if kind == "Parquet":
            pieces.append(inspect_parquet(connection, str(path), str(path), kind, wanted))
            continue
        copy = str(folder / f"{number}.parquet")
        stage_text = stage_csv if kind == "CSV" else stage_json
        pieces.append(stage_text(connection, path, wanted, copy))
    if not sum(piece.rows + piece.rejected for piece in pieces):
        raise ValueError(f"{source_name(source)} must have at least one row, got none")
    return pieces


def is_paths(source: Any) -> bool:
    """A list of paths."""
    return isinstance(source, list | tuple) and all(isinstance(path, str | os.PathLike) for path in source)


def source_name(source: Any) -> str:
    """A source as messages call it."""
    if isinstance(source, str | os.PathLike):
        return str(source)
    return "the log" if is_paths(source) else f"the {type(source).__name__}"


def find_files(source: Any) -> list[Path]:
    """The files a path, a glob or a list of both names, in order."""
    found: list[Path] = []
    for name in [source] if isinstance(source, str | os.PathLike) else source:
        path = Path(name)
        if path.is_dir():
            raise ValueError(
                f"{name} must be a file, got a folder: name its files, as in {path / '*.parquet'}"
            )
        matches = [path] if path.is_file() else map(Path, sorted(glob.glob(str(name), recursive=True)))
        files = [match for match in matches if match.is_file()]
        if not files:
            raise ValueError(f"{name} must be a file or match some, got none")
        found += files
    if not found:
        raise ValueError("the log must have at least one file, got none")
    for path in found:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} must have at least one row, got an empty file")
    return found


def kind_of(path: Path) -> str:
    """CSV, Parquet or JSON lines, by the name."""
    suffixes = path.suffixes
    suffix = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else path.suffix
    if suffix.lower() not in KINDS:
        raise ValueError(f"{path} must end in one of {', '.join(KINDS)} (or .csv.gz, .jsonl.gz)")
    return KINDS[suffix.lower()]


def inspect_parquet(
    connection: Connection, path: str, name: str, kind: str, wanted: Mapping[str, str] | None
) -> Piece:
    """What a Parquet file holds, from its footer."""
    with readable(name, kind):
        file = literal(escape_glob(path))
        rows = connection.execute(f"SELECT num_rows FROM parquet_file_metadata({file})").fetchall()[0][0]
        described = connection.execute(
            f"DESCRIBE SELECT * FROM read_parquet({file}, hive_partitioning=false)"
        ).fetchall()
    types = {row[0]: row[1] for row in described}
    check_columns(wanted or {}, list(types), name)
    for role, column in (wanted or {}).items():
        if types[column].endswith(("]", ")")) and not types[column].startswith(("DECIMAL", "ENUM")):
            raise ValueError(
                f"{name}, column {column!r}: the {role} must be one value per row, got {types[column]}"
            )
    return Piece(name, path, kind, int(rows), tuple(types.items()))


def copy_rows(connection: Connection, query: str, copy: str) -> None:
    """Write the rows of a query to Parquet, in their order: on all cores, for no float is added here."""
    connection.execute(f"SET threads = {os.cpu_count() or 1}")
    connection.execute(f"COPY ({query}) TO {literal(copy)} (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})")
    connection.execute("SET threads = 1")


def stage_csv(connection: Connection, path: Path, wanted: Mapping[str, str] | None, copy: str) -> Piece:
    """Copy the needed columns as text; rows that are too short or too long are set aside."""
    names, delimiter = read_header(path, wanted)
    check_columns(wanted or {}, names, str(path))
    kept = dict.fromkeys(names if wanted is None else wanted.values())
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in names)
    with readable(str(path), "CSV"):
        query = f"""SELECT {", ".join(map(quoted, kept))} FROM read_csv({literal(escape_glob(str(path)))},
            auto_detect=false, header=true, delim={literal(delimiter)}, quote='"', escape='"', nullstr='',
            columns={{{columns}}}, hive_partitioning=false, ignore_errors=true,
            store_rejects=true, rejects_limit=0)"""
        copy_rows(connection, query, copy)
        rejected, first, text = connection.execute(
            """SELECT count(DISTINCT line), min(line), arg_min(coalesce(error_message, ''), line)
            FROM reject_errors"""
        ).fetchall()[0]
        for table in ("reject_errors", "reject_scans"):  # or the next file would have them too
            connection.execute(f"DROP TABLE {table}")
    piece = inspect_parquet(connection, copy, str(path), "CSV", wanted)
    if not rejected:
        return piece
    return piece._replace(rejected=int(rejected), first_rejected=(int(first) - 2, why_rejected(text)))


def why_rejected(message: str) -> str:
    """A malformed row of a CSV file, in our words."""
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts:
        return f"must have {counts[1]} columns like the header, got {counts[2]}"
    return "must be a row of CSV in UTF-8, got something else"


def read_header(path: Path, wanted: Mapping[str, str] | None) -> tuple[list[str], str]:
    """The columns of a CSV file, and the delimiter that gives the wanted ones, or else the most."""
    line = next(iter(read_lines(path)), "")
    options = {mark: next(csv.reader([line], delimiter=mark), []) for mark in (",", ";", "\t", "|")}
    needed = set((wanted or {}).values())
    delimiter = max(options, key=lambda mark: (len(needed & set(options[mark])), len(options[mark])))
    names = options[delimiter]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ValueError(f"{path} must name each column once, got {twice[0]!r} twice")
    return names, delimiter


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file that hold something, without their ends."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8-sig")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8-sig") as file
        ):
            for line in file:
                if line.strip():
                    yield line.rstrip("\r\n")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile):
        raise ValueError(f"{path} must be text in UTF-8, got something else") from None


def stage_json(connection: Connection, path: Path, wanted: Mapping[str, str] | None, copy: str) -> Piece:
    """Copy the needed keys as text; lines that are not JSON are set aside."""
    names = read_keys(path)
    check_columns(wanted or {}, names, str(path))
    kept = list(dict.fromkeys(names if wanted is None else wanted.values()))
    keys = ", ".join(f"json->>{literal(json_path(name))} AS {quoted(name)}" for name in kept)
    lines = f"read_ndjson_objects({literal(escape_glob(str(path)))}, ignore_errors=true)"
    with readable(str(path), "JSON lines"):
        copy_rows(connection, f"SELECT {keys}, json IS NULL AS linoto_broken FROM {lines}", copy)
        rejected, first = connection.execute(
            f"SELECT count(*), min(file_row_number) FROM {scan(copy)} WHERE linoto_broken"
        ).fetchall()[0]
        if rejected:
            whole = f"{copy}.whole.parquet"
            query = (
                f"SELECT * EXCLUDE (linoto_broken, file_row_number) FROM {scan(copy)} WHERE NOT linoto_broken"
            )
            copy_rows(connection, query, whole)
            copy = whole
    piece = inspect_parquet(connection, copy, str(path), "JSON lines", wanted)
    types = tuple((name, kind) for name, kind in piece.types if name != "linoto_broken")
    piece = piece._replace(types=types)
    if not rejected:
        return piece
    return piece._replace(rejected=int(rejected), first_rejected=(int(first), "must be one JSON object"))


def json_path(name: str) -> str:
    """A key as a JSON path."""
    return '$."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def read_keys(path: Path) -> list[str]:
    """The keys of the first thousand objects, in the order they turn up."""
    keys: dict[str, None] = {}
    for number, line in enumerate(read_lines(path)):
        if number == 0 and line.lstrip().startswith("["):
            raise ValueError(f"{path} must be JSON lines, one object per line, got a list")
        if number == 1000:
            break
        try:
            record = json.loads(line)
        except ValueError:
            continue
        keys |= dict.fromkeys(record) if isinstance(record, dict) else {}
    if not keys:
        raise ValueError(f"{path} must be JSON lines, one object per line, got something else")
    return list(keys)


def stage_frame(connection: Connection, source: Any, wanted: Mapping[str, str] | None, folder: Path) -> Piece:
    """Copy the needed columns of a pandas, polars or Arrow table."""
    name = source_name(source)
    names = column_names(source)
    check_columns(wanted or {}, names, name)
    kept = list(dict.fromkeys(names if wanted is None else wanted.values()))
    table = as_arrow(source, kept)
    if table.num_rows == 0:
        raise ValueError(f"{name} must have at least one row, got none")
    copy = str(folder / "frame.parquet")
    with readable(name, "a table"):
        connection.register("frame", table)
        copy_rows(connection, f"SELECT {', '.join(map(quoted, kept))} FROM frame", copy)
    return inspect_parquet(connection, copy, name, "a table", wanted)


def column_names(source: Any) -> list[str]:
    """The columns of anything that looks like a table."""
    names = getattr(source, "column_names", None)
    names = getattr(source, "columns", None) if names is None else names
    if names is None or not hasattr(source, "__arrow_c_stream__"):
        raise ValueError(
            f"source must be a path, a list of paths, or a pandas, polars or Arrow table, "
            f"got {type(source).__name__}"
        )
    return [str(name) for name in names]


def as_arrow(source: Any, names: Sequence[str]) -> Any:
    """A pyarrow table of these columns; those of mixed types as text."""
    try:
        import pyarrow as arrow
    except ImportError:
        raise ImportError('reading tables needs pyarrow: pip install "linoto[logs]"') from None
    if hasattr(source, "select") and not hasattr(source, "iloc"):
        return arrow.table(source.select(list(names)))
    columns = {}
    for name in names:
        values = source[name]
        try:
            columns[name] = arrow.array(values, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            columns[name] = arrow.array([None if v is None or v != v else str(v) for v in values])
    return arrow.table(columns)


def check_whole(piece: Piece) -> None:
    """Refuse a file with malformed rows."""
    if piece.first_rejected is not None:
        row, text = piece.first_rejected
        raise ValueError(f"{piece.name}, row {row + 1}: {text}")


# -- SQL -------------------------------------------------------------------------------------------------


def as_number(piece: Piece, name: str) -> str:
    """A column as a float; text that is no number, true or false becomes NULL."""
    kind, column = dict(piece.types)[name], quoted(name)
    if kind == "DOUBLE":
        return column  # unchanged, so that DuckDB can answer from the file's own statistics
    if is_text(kind):
        truth = f"CAST(TRY_CAST(trim({column}) AS BOOLEAN) AS DOUBLE)"
        return f"coalesce(TRY_CAST({column} AS DOUBLE), {truth})"
    return f"TRY_CAST({column} AS DOUBLE)"


def as_time(piece: Piece, name: str) -> str:
    """A column as seconds, or as the number that it is."""
    kind, column = dict(piece.types)[name], quoted(name)
    if kind.startswith(("TIMESTAMP", "DATE")):
        return f"epoch(CAST({column} AS TIMESTAMPTZ))"
    if is_text(kind):
        return f"coalesce(TRY_CAST({column} AS DOUBLE), epoch(TRY_CAST({column} AS TIMESTAMPTZ)))"
    return f"TRY_CAST({column} AS DOUBLE)"


def as_text(expression: str, piece: Piece, name: str) -> str:
    """An id as `features.text_of` writes it: 7.0 is 7."""
    kind = dict(piece.types)[name]
    if kind in ("DOUBLE", "FLOAT") or kind.startswith("DECIMAL"):
        whole = f"CAST(TRY_CAST({expression} AS HUGEINT) AS VARCHAR)"
        return (
            f"CASE WHEN {expression} = floor({expression}) AND isfinite(CAST({expression} AS DOUBLE)) "
            f"THEN {whole} ELSE CAST({expression} AS VARCHAR) END"
        )
    return f"CAST({expression} AS VARCHAR)"


def is_text(kind: str) -> bool:
    """Whether a DuckDB type is written in words."""
    return kind == "VARCHAR" or kind.startswith("ENUM") or kind == "JSON"


def scan(path: str) -> str:
    """A Parquet file with its row numbers."""
    return f"read_parquet({literal(escape_glob(path))}, file_row_number=true, hive_partitioning=false)"


def escape_glob(path: str) -> str:
    """A path that means itself."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"
