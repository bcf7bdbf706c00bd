"""Files and data frames as Parquet, to be read in parts: the only file that knows DuckDB.

What is not Parquet is first copied to a temporary Parquet file, its needed columns in their order, so that
every kind of input goes the same way and can be read again where it matters.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from linoto.logs.text_files import (
    Header,
    check_once,
    has_mark,
    has_mixed_ends,
    json_path,
    read_header,
    read_keys,
    row_of,
    why_rejected,
    write_plain,
)
from linoto.logs.values import WHOLE, WHOLE_TEXT, check_columns, is_missing, text_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Connection

ROW_GROUP = 2**17
ROW_NUMBER = "file_row_number"  # DuckDB's name for it, which no column that is read may have
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
            pieces.append(stage_parquet(connection, path, wanted, str(folder / f"{number}.parquet")))
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


def keep(wanted: Mapping[str, str] | None, names: Sequence[str], where: str) -> list[str]:
    """The columns that will be read, each once: refuse what is not there, or cannot be told apart."""
    check_columns(wanted or {}, names, where)
    kept = list(dict.fromkeys(names if wanted is None else wanted.values()))
    for name in kept:
        if name.lower() == ROW_NUMBER:
            raise ValueError(f"{where} must have another name for its column {name!r}, which DuckDB keeps")
    return kept


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
    keep(wanted, list(types), name)
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


def stage_parquet(connection: Connection, path: Path, wanted: Mapping[str, str] | None, copy: str) -> Piece:
    """The file itself; a copy of the needed columns where one of the others would hide the row numbers."""
    piece = inspect_parquet(connection, str(path), str(path), "Parquet", wanted)
    names = [name for name, _ in piece.types]
    if not any(name.lower() == ROW_NUMBER for name in names):
        return piece
    kept = ", ".join(map(quoted, keep(wanted, names, piece.name)))
    with readable(piece.name, piece.kind):
        file = literal(escape_glob(piece.path))
        copy_rows(connection, f"SELECT {kept} FROM read_parquet({file}, hive_partitioning=false)", copy)
    return inspect_parquet(connection, copy, piece.name, piece.kind, wanted)


def stage_csv(connection: Connection, path: Path, wanted: Mapping[str, str] | None, copy: str) -> Piece:
    """Copy the needed columns as text; rows that are too short or too long are set aside."""
    import duckdb

    header = read_header(path, wanted)
    kept = keep(wanted, header.names, str(path))
    plain = Path(f"{copy}.csv")
    file = write_plain(path, plain, skip=header.blank) if header.blank else path
    with readable(str(path), "CSV"):
        try:
            rejected, line, text = copy_csv(connection, file, header, kept, copy)
        except duckdb.Error:
            if file == plain or not has_mixed_ends(path):
                raise
            file = write_plain(path, plain)
            rejected, line, text = copy_csv(connection, file, header, kept, copy)
    piece = inspect_parquet(connection, copy, str(path), "CSV", wanted)
    if not rejected:
        return piece
    return piece._replace(rejected=rejected, first_rejected=(row_of(file, line), why_rejected(text)))


def copy_csv(
    connection: Connection, path: Path, header: Header, kept: Sequence[str], copy: str
) -> tuple[int, int, str]:
    """Copy these columns; how many rows were rejected, the line of the first, and why."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in header.names)
    query = f"""SELECT {", ".join(map(quoted, kept))} FROM read_csv({literal(escape_glob(str(path)))},
        auto_detect=false, header=true, delim={literal(header.delimiter)}, quote='"', escape='"', nullstr='',
        columns={{{columns}}}, hive_partitioning=false, ignore_errors=true,
        store_rejects=true, rejects_limit=0)"""
    for table in ("reject_errors", "reject_scans"):  # or this file would have those of the last one too
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    copy_rows(connection, query, copy)
    rejected, line, text = connection.execute(
        """SELECT count(DISTINCT line), min(line), arg_min(coalesce(error_message, ''), line)
        FROM reject_errors"""
    ).fetchall()[0]
    return int(rejected), int(line or 0), text or ""


def stage_json(connection: Connection, path: Path, wanted: Mapping[str, str] | None, copy: str) -> Piece:
    """Copy the needed keys as text; lines that are not JSON are set aside."""
    kept = keep(wanted, read_keys(path), str(path))
    keys = ", ".join(f"json->>{literal(json_path(name))} AS {quoted(name)}" for name in kept)
    plain = write_plain(path, Path(f"{copy}.jsonl")) if has_mark(path) else path
    lines = f"read_ndjson_objects({literal(escape_glob(str(plain)))}, ignore_errors=true)"
    with readable(str(path), "JSON lines"):
        copy_rows(connection, f"SELECT {keys}, json IS NULL AS linoto_broken FROM {lines}", copy)
        rejected, first = connection.execute(
            f"SELECT count(*), min({ROW_NUMBER}) FROM {scan(copy)} WHERE linoto_broken"
        ).fetchall()[0]
        if rejected:
            whole = f"{copy}.whole.parquet"
            query = (
                f"SELECT * EXCLUDE (linoto_broken, {ROW_NUMBER}) FROM {scan(copy)} WHERE NOT linoto_broken"
            )
            copy_rows(connection, query, whole)
            copy = whole
    piece = inspect_parquet(connection, copy, str(path), "JSON lines", wanted)
    types = tuple((name, kind) for name, kind in piece.types if name != "linoto_broken")
    piece = piece._replace(types=types)
    if not rejected:
        return piece
    return piece._replace(rejected=int(rejected), first_rejected=(int(first), "must be one JSON object"))


def stage_frame(connection: Connection, source: Any, wanted: Mapping[str, str] | None, folder: Path) -> Piece:
    """Copy the needed columns of a pandas, polars or Arrow table."""
    name = source_name(source)
    names = column_names(source)
    check_once(names, name)
    kept = keep(wanted, names, name)
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
    place = {str(name): position for position, name in enumerate(source.columns)}
    columns = {}
    for name in names:
        values = source.iloc[:, place[name]]  # by position: the name may be a number, or several in one
        try:
            columns[name] = arrow.array(values, from_pandas=True)
        except (arrow.ArrowInvalid, arrow.ArrowTypeError):
            columns[name] = arrow.array([None if is_missing(v) else text_of(v) for v in values])
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
    if is_date(kind):
        return f"epoch(CAST({column} AS TIMESTAMPTZ))"
    if is_text(kind):
        return f"coalesce(TRY_CAST({column} AS DOUBLE), epoch(TRY_CAST({column} AS TIMESTAMPTZ)))"
    return f"TRY_CAST({column} AS DOUBLE)"


def as_text(expression: str, piece: Piece, name: str) -> str:
    """An id as `features.text_of` writes it: 7.0 is 7. NULL where it is NaN."""
    kind, text = dict(piece.types)[name], f"CAST({expression} AS VARCHAR)"
    if kind in ("DOUBLE", "FLOAT"):
        whole = f"CAST(TRY_CAST({expression} AS HUGEINT) AS VARCHAR)"
        return f"""CASE WHEN {expression} = floor({expression}) AND abs({expression}) < {WHOLE!r} THEN {whole}
            WHEN isfinite({expression}) OR isinf({expression}) THEN {text} END"""
    if kind.startswith("DECIMAL"):
        return f"CASE WHEN contains({text}, '.') THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"
    if is_text(kind):
        return f"regexp_replace({text}, {literal(f'^{WHOLE_TEXT}$')}, '\\1')"
    return text


def is_date(kind: str) -> bool:
    """Whether a DuckDB type is a date, or one with a time."""
    return kind.startswith(("TIMESTAMP", "DATE"))


def is_text(kind: str) -> bool:
    """Whether a DuckDB type is written in words."""
    return kind == "VARCHAR" or kind.startswith("ENUM") or kind == "JSON"


def scan(path: str) -> str:
    """A Parquet file with its row numbers."""
    return f"read_parquet({literal(escape_glob(path))}, {ROW_NUMBER}=true, hive_partitioning=false)"


def escape_glob(path: str) -> str:
    """A path that means itself."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def quoted(name: str) -> str:
    """A column's name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string in SQL."""
    return "'" + text.replace("'", "''") + "'"
