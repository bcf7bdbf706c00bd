"""Files and data frames as Parquet, ready to be read in parts: the only file that imports DuckDB.

What is not Parquet is first copied to a temporary Parquet file, its needed columns in their order, so that
every kind of input goes the same way and can be read again where it matters.
"""

from __future__ import annotations

import atexit
import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from linoto.core.hints import counted
from linoto.logs.databases import Query, is_database, without_password
from linoto.logs.remote import bring, find_remote, is_remote, shown, why_not_fetched
from linoto.logs.sql_words import escape_glob, listed, literal, quoted
from linoto.logs.text_files import (
    Header,
    check_once,
    count_ends,
    count_lines,
    has_mark,
    has_mixed_ends,
    json_path,
    read_header,
    read_keys,
    refuse_broken_zip,
    row_of_line,
    why_rejected,
    write_plain,
)
from linoto.logs.values import Transcript, as_arrow, check_columns

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Connection: TypeAlias = "DuckDBPyConnection"
Wanted: TypeAlias = Mapping[str, str] | None  # the names of the needed columns by role; None: all of them
ROW_GROUP = 2**17
MANY_LINES = 50  # a text in quotes has fewer lines, a quote that stands alone takes in more
ROW_NUMBER = "file_row_number"  # DuckDB's name for it, which no column that is read may have
OPTIONAL = "optional "  # begins the role of a column that is read where a file has it
LISTED = ("candidates", "vector ", OPTIONAL)  # roles of columns that may hold lists
ORIGINAL_ROW = "linoto_row"  # ours, in a copy of some rows of a file
FILE_KINDS = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".parquet": "Parquet",
    ".pq": "Parquet",
} | dict.fromkeys((".jsonl", ".ndjson", ".json"), "JSON lines")


class StagedFile(NamedTuple):
    """A Parquet file that holds one file of the log."""

    name: str  # of what the user gave
    path: str
    kind: str
    rows: int
    types: dict[str, str]  # DuckDB's, by column
    rejected: int = 0  # rows that have not the columns of the header, each line of one counted
    first_rejected: tuple[int, str] | None = None  # row from 0, and what is wrong with it
    counted: str = "row"  # what that number counts
    notes: tuple[str, ...] = ()  # what was noticed of how it is written


class Rejected(NamedTuple):
    """What DuckDB rejected of a CSV file."""

    rows: int
    line: int  # of the first, as DuckDB counts
    text: str  # why


class Within(NamedTuple):
    """The lines that begin within values of a CSV file."""

    lines: int
    longest: int  # lines of one value
    column: str  # where that is
    start: str  # its first line

    def notes(self, name: str) -> tuple[str, ...]:
        """What is strange about them, in a file of this name."""
        if self.longest <= MANY_LINES:
            return ()
        held = f"a value holds {self.longest:,} lines, from {self.start!r} on"
        return (f"{name}, column {self.column!r}: {held}: is a quote there by mistake?",)


# -- connections ------------------------------------------------------------------------------------------


GLOBAL = (
    "TimeZone = 'UTC'",
    "parquet_metadata_cache = true",
    "disable_parquet_prefetching = true",  # else a row group is in memory twice, in every thread
)


SPARE: dict[int, list[Connection]] = {}  # by process: a fork has none of the threads that another's may have


def new_database() -> Connection:
    """A database in memory that fetches nothing from elsewhere, with one thread for each query."""
    try:
        import duckdb
    except ImportError:
        raise ImportError('reading logs needs DuckDB: pip install "linoto[logs]"') from None
    database = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    for setting in GLOBAL:  # each query has a cursor of its own, which would not know them otherwise
        database.execute(f"SET GLOBAL {setting}")
    return database


@contextmanager
def open_source(source: Any, wanted: Wanted) -> Iterator[tuple[Connection, list[StagedFile]]]:
    """A database, and every file of a source as Parquet: as it is, or as a copy that goes away again.

    A database that has read nothing but copies is emptied and used again: a new one takes 26 ms. It would
    know a file that stays by its name and time, and one in which something failed may hold anything.
    """
    if (spare := SPARE.get(os.getpid())) is None:
        spare = SPARE.setdefault(os.getpid(), [])
        atexit.register(close_spare)  # DuckDB complains of one that is open when Python ends
    try:
        database = spare.pop()
    except IndexError:
        database = new_database()
    with TemporaryDirectory(prefix="linoto-") as folder, closed_on_error(database):
        with database.cursor() as connection:  # what is registered or temporary goes away with it
            files = stage(connection, source, wanted, Path(folder))
            yield connection, files
        for (name,) in database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            database.execute(f"DROP TABLE {quoted(name)}")
        if all(Path(file.path).is_relative_to(folder) for file in files):
            spare.append(database)
        else:
            database.close()


def close_spare() -> None:
    """Close what this process would use again."""
    for database in SPARE.pop(os.getpid(), ()):
        database.close()


@contextmanager
def closed_on_error(database: Connection) -> Iterator[None]:
    """Close it where something fails."""
    try:
        yield
    except BaseException:
        database.close()
        raise


@contextmanager
def translate_errors(name: str, kind: str) -> Iterator[None]:
    """DuckDB's errors as one sentence about the user's file."""
    import duckdb

    try:
        with refuse_broken_zip(name):  # some of it is read by Python
            yield
    except duckdb.Error as error:
        if "No space left" in str(error):
            raise OSError(f"no space left to unpack {name}: set TMPDIR to a larger place") from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise ValueError(f"{name} needs more memory than there is") from None
        if said := re.findall(
            r"^(?:\w+\.)*\w+Error: (.*)", str(error), re.MULTILINE
        ):  # of a stream in Python
            raise ValueError(f"{name} broke off: {said[-1]}") from None
        if isinstance(error, duckdb.IOException | duckdb.HTTPException) and is_remote(name):
            raise ValueError(f"{name} cannot be fetched: {why_not_fetched(str(error))}") from None
        raise ValueError(f"{name} cannot be read as {kind}: it is damaged, or something else") from None


# -- files and frames -------------------------------------------------------------------------------------


def stage(connection: Connection, source: Any, wanted: Wanted, folder: Path) -> list[StagedFile]:
    """Every file of a source as Parquet: as it is, or copied into the folder."""
    if is_transcripts(source):
        files = [
            stage_transcript(connection, part, wanted, folder / f"{number}.parquet")
            for number, part in enumerate(source)
        ]
        return refuse_empty(files, source)
    if not is_path(source) and not is_paths(source):
        return refuse_empty([stage_frame(connection, source, wanted, folder / "frame.parquet")], source)
    return refuse_empty(list(stage_named(connection, source, wanted, folder)), source)


def stage_named(connection: Connection, source: Any, wanted: Wanted, folder: Path) -> Iterator[StagedFile]:
    """Files by path, pattern or URL, in their order."""
    places = (folder / f"{number}.parquet" for number in count())
    for name in paths_of(source):
        if is_database(name):
            raise ValueError(f"{without_password(name)} must be asked for rows: give linoto.Query(url, sql)")
        if is_remote(name):
            load_httpfs(connection, name)
            for url in find_remote(connection, name, translate_errors):
                yield stage_remote(connection, url, wanted, next(places))
        else:
            for path in find_files(name):
                yield stage_file(connection, path, wanted, next(places))


def stage_file(connection: Connection, path: Path, wanted: Wanted, copy: Path) -> StagedFile:
    """A file of this machine."""
    stages = {"Parquet": stage_parquet, "CSV": stage_csv, "JSON lines": stage_json}
    return stages[kind_of(path)](connection, path, wanted, copy)


def stage_remote(connection: Connection, url: str, wanted: Wanted, copy: Path) -> StagedFile:
    """A file that is elsewhere, by way of a copy."""
    name = shown(url)
    needed = None if wanted is None else set(wanted.values())
    here = bring(connection, url, kind_of(Path(name)), needed, copy.with_suffix(""), translate_errors)
    return stage_file(connection, here, wanted, copy)._replace(name=name)


def load_httpfs(connection: Connection, url: str) -> None:
    """Let DuckDB read what is elsewhere; nothing is installed on the way."""
    import duckdb

    try:
        connection.execute("LOAD httpfs")
        connection.execute("SET http_timeout = 30")
        own = os.environ.get("SSL_CERT_FILE")  # as other programs find an authority of one's own
        if own:
            connection.execute(f"SET ca_cert_file = {literal(own)}")
    except duckdb.Error:
        raise ValueError(
            f"reading {shown(url)} needs DuckDB's extension httpfs: install it once by "
            "`python -c \"import duckdb; duckdb.sql('INSTALL httpfs')\"`, or download the file"
        ) from None


def refuse_empty(files: list[StagedFile], source: Any) -> list[StagedFile]:
    """The same files, of which one has a row; where every row is malformed, the first says why."""
    if not any(file.rows for file in files):
        refuse_rejected(files)
        raise ValueError(f"{source_name(source)} must have at least one row, got none")
    return files


def is_path(source: Any) -> bool:
    """A path, or a pattern of paths."""
    return isinstance(source, str | os.PathLike)


def is_paths(source: Any) -> bool:
    """A list of paths."""
    return isinstance(source, list | tuple) and all(map(is_path, source))


def paths_of(source: Any) -> list[Any]:
    """The paths, patterns and URLs of a source, at least one."""
    names = [source] if is_path(source) else list(source)
    if not names:
        raise ValueError("the log must have at least one file, got none")
    return names


def is_transcripts(source: Any) -> bool:
    """Files of another package that were read already."""
    return isinstance(source, list) and bool(source) and isinstance(source[0], Transcript)


def source_name(source: Any) -> str:
    """A source as messages call it."""
    if is_path(source):
        return shown(source) if is_remote(source) else str(source)
    if is_transcripts(source):
        return str(source[0].name if len(source) == 1 else "the log")
    if isinstance(source, Query):
        return str(source)
    return "the log" if is_paths(source) else f"the {type(source).__name__}"


def find_files(source: Any) -> list[Path]:
    """The files of this machine that a path, a glob or a list of both names, in order; no URLs."""
    found: list[Path] = []
    for name in paths_of(source):
        if is_remote(name) or is_database(name):
            continue
        if "://" in str(name):
            scheme = str(name).partition("://")[0]
            raise ValueError(f"a log must be at a path, or at a URL of a known kind, got one of {scheme!r}")
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
    for path in found:
        if path.stat().st_size == 0:
            raise ValueError(f"{path} must have at least one row, got an empty file")
    return found


def kind_of(path: Path) -> str:
    """CSV, Parquet or JSON lines, by the name."""
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in FILE_KINDS:
        raise ValueError(f"{path} must end in one of {', '.join(FILE_KINDS)} (or .csv.gz, .jsonl.gz)")
    return FILE_KINDS[suffix.lower()]


def there(wanted: Wanted, names: Collection[str]) -> Wanted:
    """The same without the optional columns that these are not among."""
    if wanted is None:
        return None
    return {role: name for role, name in wanted.items() if name in names or not role.startswith(OPTIONAL)}


def needed_columns(wanted: Wanted, names: Sequence[str], where: str) -> list[str]:
    """The columns that will be read, each once: refuse what is not there, or has a name of DuckDB's own."""
    check_columns(wanted or {}, names, where)
    needed = list(dict.fromkeys(names if wanted is None else wanted.values()))
    seen: dict[str, str] = {}  # SQL knows no case
    for name in needed:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            both = f"{other!r} and {name!r}"
            raise ValueError(f"{where} must have names of columns that differ in more than case, got {both}")
        if name.lower() in (ROW_NUMBER, ORIGINAL_ROW):
            raise ValueError(f"{where} must have another name for its column {name!r}, which is taken")
    return needed


def stage_parquet(connection: Connection, path: Path, wanted: Wanted, copy: Path) -> StagedFile:
    """The file itself; a copy of the needed columns where one is nested, or would hide the row numbers."""
    file = inspect_parquet(connection, path, str(path), "Parquet", {})
    wanted = there(wanted, file.types)
    asked = (wanted or {}).values()
    nested = {name: part for name in asked if (part := nested_column(connection, path, file.types, name))}
    if not nested and not any(name.lower() == ROW_NUMBER for name in file.types):
        return inspect_parquet(connection, path, file.name, file.kind, wanted)
    needed = needed_columns(wanted, [*file.types, *nested], file.name)
    parts = ", ".join(f"{nested.get(name, quoted(name))} AS {quoted(name)}" for name in needed)
    with translate_errors(file.name, file.kind):
        copy_rows(connection, f"SELECT {parts} FROM {scan(path, numbered=False)}", copy)
    return inspect_parquet(connection, copy, file.name, file.kind, wanted)


def nested_column(connection: Connection, path: Path, types: Mapping[str, str], name: str) -> str:
    """A part of a column, such as user.country, in SQL; nothing where there is none."""
    import duckdb

    parts = str(name).split(".") if name not in types else []
    for cut in range(1, len(parts)):
        head = ".".join(parts[:cut])
        if types.get(head, "").startswith("STRUCT"):
            found = quoted(head) + "".join(f"[{literal(part)}]" for part in parts[cut:])
            try:
                connection.execute(f"DESCRIBE SELECT {found} FROM {scan(path, numbered=False)}")
            except duckdb.Error:
                return ""
            return found
    return ""


def stage_csv(connection: Connection, path: Path, wanted: Wanted, copy: Path) -> StagedFile:
    """Copy the needed columns as text; rows that are too short or too long are set aside."""
    import duckdb

    header = read_header(path, wanted)
    wanted = there(wanted, header.names)
    needed = needed_columns(wanted, header.names, str(path))
    plain = copy.with_suffix(".csv")
    with translate_errors(str(path), "CSV"):
        file = write_plain(path, plain, skip=header.blank) if header.blank else path
        try:
            rejected = copy_csv(connection, file, header, needed, copy)
        except duckdb.Error:
            if file == plain or not has_mixed_ends(path):
                raise
            file = write_plain(path, plain)
            rejected = copy_csv(connection, file, header, needed, copy)
        staged = inspect_parquet(connection, copy, str(path), "CSV", wanted)
        return count_lost(connection, file, header, rejected, staged)


def count_lost(
    connection: Connection, path: Path, header: Header, rejected: Rejected, staged: StagedFile
) -> StagedFile:
    """The same file with the lines that malformed rows hold, and a note where one value holds many.

    A quote that nobody closes makes one row of all that follows: the lines say how much is lost by it.
    """
    if not rejected.rows and count_ends(path) - staged.rows <= MANY_LINES:
        return staged
    beyond = count_lines(path) - 1 - staged.rows  # with which no row begins that was read
    lines, notes = rejected.rows, tuple[str, ...]()
    if beyond > rejected.rows:  # else each malformed row is one, and no value has a second
        within = find_within(connection, path, header)
        lines = max(beyond - within.lines, rejected.rows)
        notes = within.notes(staged.name)
    if not rejected.rows:
        return staged._replace(notes=notes)
    first = row_of_line(path, rejected.line), why_rejected(rejected.text)
    if lines > rejected.rows:
        lost = f"{counted(rejected.rows, 'malformed row')} of {lines:,} lines"
        notes += (f"{staged.name}, row {first[0] + 1}: {lost}, which count as rows: is a quote not closed?",)
    return staged._replace(rejected=lines, first_rejected=first, notes=notes)


def stage_json(connection: Connection, path: Path, wanted: Wanted, copy: Path) -> StagedFile:
    """Copy the needed keys as text; lines that are not JSON are set aside."""
    keys = read_keys(path)
    wanted = there(wanted, keys)
    needed = needed_columns(wanted, keys, str(path))
    with translate_errors(str(path), "JSON lines"):
        file = write_plain(path, copy.with_suffix(".jsonl")) if has_mark(path) else path
        copy_json(connection, file, needed, copy)
        rejected, first = count_broken(connection, copy)
        if rejected:
            every, copy = copy, copy.with_suffix(".whole.parquet")
            copy_rows(connection, f"SELECT {listed(needed)} FROM {scan(every)} WHERE NOT linoto_broken", copy)
    staged = inspect_parquet(connection, copy, str(path), "JSON lines", wanted)
    staged.types.pop("linoto_broken", None)
    if not rejected:
        return staged
    return staged._replace(rejected=rejected, first_rejected=(first, "must be one JSON object"))


def stage_frame(connection: Connection, source: Any, wanted: Wanted, copy: Path) -> StagedFile:
    """Copy the needed columns of a pandas, polars or Arrow table, or of any stream of Arrow."""
    name = source_name(source)
    frame = as_arrow(source, None if wanted is None else set(wanted.values()))
    check_once(frame.names, name)
    wanted = there(wanted, [column.name for column in frame.arrow.schema if holds_text(column.type)])
    needed = needed_columns(wanted, frame.names, name)
    refuse_types(frame.arrow.schema, needed, name)
    with translate_errors(name, "a table"):
        table = frame.arrow.select(needed) if hasattr(frame.arrow, "select") else frame.arrow
        connection.register("frame", table)
        copy_rows(connection, f"SELECT {listed(needed)} FROM frame", copy)
    return inspect_parquet(connection, copy, name, "a table", wanted)


def holds_text(kind: Any) -> bool:
    """Whether a type of Arrow is text, or words by number."""
    return str(kind).startswith(("string", "large_string", "dictionary"))


def refuse_types(schema: Any, needed: Sequence[str], where: str) -> None:
    """Name a column of numbers that DuckDB has no type for."""
    for column in schema:
        kind = str(column.type)
        if column.name in needed and kind.startswith(("halffloat", "float16", "decimal256")):
            raise ValueError(
                f"{where} must have numbers of 32 or 64 bits in column {column.name!r}, got {kind}: cast it"
            )


def stage_transcript(connection: Connection, part: Transcript, wanted: Wanted, copy: Path) -> StagedFile:
    """Write the needed columns of a file of another package."""
    import pyarrow as arrow

    wanted = there(wanted, part.columns)
    needed = needed_columns(wanted, list(part.columns), part.name)
    with translate_errors(part.name, "a log"):
        connection.register("frame", arrow.table({name: part.columns[name] for name in needed}))
        copy_rows(connection, f"SELECT {listed(needed)} FROM frame", copy)
    staged = inspect_parquet(connection, copy, part.name, "a log", wanted)
    return staged._replace(rejected=part.rejected, first_rejected=part.first_rejected, counted="line")


def refuse_rejected(files: Sequence[StagedFile]) -> None:
    """Name the first malformed row, if there is one."""
    for file in files:
        if file.first_rejected is not None:
            row, text = file.first_rejected
            raise ValueError(f"{file.name}, {file.counted} {row + 1}: {text}")


# -- statements -------------------------------------------------------------------------------------------


def copy_rows(connection: Connection, query: str, copy: Path) -> None:
    """Write the rows of a query to Parquet, in their order: on all cores, for no float is added here."""
    connection.execute(f"SET threads = {os.cpu_count() or 1}")
    connection.execute(f"COPY ({query}) TO {literal(copy)} (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP})")
    connection.execute("SET threads = 1")


def copy_csv(
    connection: Connection, path: Path, header: Header, needed: Sequence[str], copy: Path
) -> Rejected:
    """Copy these columns; what was rejected on the way."""
    place_of = {name: place for place, name in enumerate(header.names)}
    parts = ", ".join(f"c{place_of[name]} AS {quoted(name)}" for name in needed)
    for table in ("reject_errors", "reject_scans"):  # or this file would have those of the last one too
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    rows = scan_csv(path, header, "store_rejects=true, rejects_limit=0")
    copy_rows(connection, f"SELECT {parts} FROM {rows}", copy)
    rejected, line, text = connection.execute(
        """SELECT count(DISTINCT line), min(line), arg_min(coalesce(error_message, ''), line)
        FROM reject_errors"""
    ).fetchall()[0]
    return Rejected(int(rejected), int(line or 0), text or "")


def find_within(connection: Connection, path: Path, header: Header) -> Within:
    """The lines that begin within values, in all columns: empty ones are not counted."""
    parts = ", ".join(
        f"sum({ends}), max({ends}), arg_max({value}, {ends})"
        for value in (f"c{place}" for place in range(len(header.names)))
        for ends in [f"len(regexp_extract_all({value}, '[\\r\\n]+'))"]
    )
    connection.execute(f"SET threads = {os.cpu_count() or 1}")  # those of the copy
    row = connection.execute(f"SELECT {parts} FROM {scan_csv(path, header)}").fetchall()[0]
    connection.execute("SET threads = 1")
    totals, most = ([int(number or 0) for number in row[first::3]] for first in (0, 1))
    place = most.index(max(most))
    start = (row[3 * place + 2] or "").strip().partition("\n")[0]
    return Within(sum(totals), most[place] + 1, header.names[place], start[:40])


def scan_csv(path: Path, header: Header, options: str = "") -> str:
    """A CSV file as a table of texts, without the rows that are rejected."""
    columns = ", ".join(f"c{place}: 'VARCHAR'" for place in range(len(header.names)))  # r and R are one to it
    return f"""read_csv({literal(escape_glob(path))},
        auto_detect=false, header=true, delim={literal(header.delimiter)}, quote='"', escape='"', nullstr='',
        columns={{{columns}}}, hive_partitioning=false, ignore_errors=true{options and ", "}{options})"""


def copy_json(connection: Connection, path: Path, needed: Sequence[str], copy: Path) -> None:
    """Copy these keys of every line, and whether it is broken."""
    keys = ", ".join(f"json->>{literal(json_path(name))} AS {quoted(name)}" for name in needed)
    lines = f"read_ndjson_objects({literal(escape_glob(path))}, ignore_errors=true)"
    copy_rows(connection, f"SELECT {keys}, json IS NULL AS linoto_broken FROM {lines}", copy)


def count_broken(connection: Connection, copy: Path) -> tuple[int, int]:
    """How many lines `copy_json` found broken, and the row of the first."""
    found = f"SELECT count(*), coalesce(min({ROW_NUMBER}), 0) FROM {scan(copy)} WHERE linoto_broken"
    rejected, first = connection.execute(found).fetchall()[0]
    return int(rejected), int(first)


def inspect_parquet(connection: Connection, path: Path, name: str, kind: str, wanted: Wanted) -> StagedFile:
    """What a Parquet file holds, from its footer."""
    with translate_errors(name, kind):
        count = f"SELECT num_rows FROM parquet_file_metadata({literal(escape_glob(path))})"
        rows = connection.execute(count).fetchall()[0][0]
        columns = connection.execute(f"DESCRIBE SELECT * FROM {scan(path, numbered=False)}").fetchall()
    types = {column[0]: column[1] for column in columns}
    needed_columns(wanted, list(types), name)
    for role, column in (wanted or {}).items():
        if (
            not role.startswith(LISTED)
            and types[column].endswith(("]", ")"))
            and not types[column].startswith(("DECIMAL", "ENUM"))
        ):
            raise ValueError(
                f"{name}, column {column!r}: the {role} must be one value per row, got {types[column]}"
            )
    return StagedFile(name, str(path), kind, int(rows), types)


def scan(path: str | Path, *, numbered: bool = True) -> str:
    """A Parquet file as a table, with the numbers of its rows."""
    numbers = f", {ROW_NUMBER}=true" if numbered else ""
    return f"read_parquet({literal(escape_glob(path))}{numbers}, hive_partitioning=false)"
