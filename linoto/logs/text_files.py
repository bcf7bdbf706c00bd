"""CSV and JSON lines as they are written: what DuckDB must be told of them, and what it cannot read."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TextIO

UNNAMED = "unnamed column"  # with its place: the index of a data frame, or what follows a last delimiter
MARK = b"\xef\xbb\xbf"  # of UTF-8, which Windows puts first


class Header(NamedTuple):
    """How a CSV file begins."""

    names: list[str]
    delimiter: str
    blank: int  # lines before it


def open_text(path: Path, errors: str = "surrogateescape") -> TextIO:
    """A text file, also zipped, without its byte order mark; every kind of line end is one."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors=errors)
    return path.open(encoding="utf-8-sig", errors=errors)


@contextmanager
def refuse_broken_zip(name: str) -> Iterator[None]:
    """One sentence about a zipped file that ends too early, or whose sums are wrong."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{name} must be a whole file of gzip, got one that is cut off or damaged") from None


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file without their ends."""
    with refuse_broken_zip(str(path)):
        try:
            with open_text(path, "strict") as file:
                for line in file:
                    yield line.rstrip("\n")
        except (UnicodeDecodeError, gzip.BadGzipFile):  # or what is not zipped at all
            raise ValueError(f"{path} must be text in UTF-8, got something else") from None


def read_header(path: Path, wanted: Mapping[str, str] | None) -> Header:
    """The first line that holds something, and the delimiter that gives the wanted columns, or the most."""
    numbered = ((blank, line) for blank, line in enumerate(read_lines(path)) if line.strip())
    blank, line = next(numbered, (0, ""))
    options = {mark: next(csv.reader([line], delimiter=mark), []) for mark in (",", ";", "\t", "|")}
    needed = set((wanted or {}).values())
    delimiter = max(options, key=lambda mark: (len(needed & set(options[mark])), len(options[mark])))
    names = [name or f"{UNNAMED} {place}" for place, name in enumerate(options[delimiter], start=1)]
    check_once(names, str(path))
    return Header(names, delimiter, blank)


def check_once(names: Sequence[str], where: str) -> None:
    """Refuse two columns of one name."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ValueError(f"{where} must name each column once, got {name!r} twice")


def read_keys(path: Path) -> list[str]:
    """The keys of the first thousand objects, in the order they turn up."""
    keys: dict[str, None] = {}
    for number, line in enumerate(line for line in read_lines(path) if line.strip()):
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


def json_path(name: str) -> str:
    """A key as a JSON path."""
    return '$."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- what DuckDB cannot read ------------------------------------------------------------------------------


def has_mark(path: Path) -> bool:
    """Whether a file starts with a byte order mark: DuckDB takes it for a part of the first JSON line."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return bool(file.read(len(MARK)) == MARK)


def has_mixed_ends(path: Path) -> bool:
    """Whether lines end in more than one way, which DuckDB refuses in CSV."""
    with open_text(path) as file:
        for _ in file:
            pass
        return isinstance(file.newlines, tuple)


def count_ends(path: Path) -> int:
    """How many line ends a file has, at the speed of reading it."""
    found = {b"\n": 0, b"\r": 0}
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while part := file.read(2**20):
            for end in found:
                found[end] += part.count(end)
    return max(found.values())


def count_lines(path: Path) -> int:
    """How many lines of a file hold something."""
    with open_text(path) as file:
        return sum(line != "\n" for line in file)


def write_plain(path: Path, copy: Path, *, skip: int = 0) -> Path:
    """The same text without a mark and its first lines, and with one kind of line end."""
    with (
        open_text(path) as source,
        copy.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as target,
    ):
        for _ in range(skip):
            source.readline()
        shutil.copyfileobj(source, target)
    return copy


def row_of_line(path: Path, line: int) -> int:
    """Which row (from 0) is DuckDB's n-th line: it counts empty lines, and not those within quotes."""
    records = blank = 0
    quoted = False
    with open_text(path) as file:
        for text in file:
            if records == line - 1:
                break
            blank += not quoted and text == "\n"
            quoted ^= text.count('"') % 2 == 1
            records += not quoted
    return line - 2 - blank


def why_rejected(message: str) -> str:
    """A malformed row of a CSV file, in our words."""
    counts = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", message)
    if counts:
        return f"must have {counts[1]} columns like the header, got {counts[2]}"
    if "unterminated quote" in message:
        return "must be a row of CSV in UTF-8, got a quote that is not closed"
    return "must be a row of CSV in UTF-8, got something else"
