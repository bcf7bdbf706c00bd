"""Files that are elsewhere, by URL: brought here by DuckDB's extension httpfs, where that is installed.

Of Parquet only the needed columns are fetched; other files come whole, and go through memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from linoto.logs.sql_words import literal, quoted

LISTABLE = ("s3", "gs", "gcs", "r2")  # where patterns of names can be asked for
SCHEMES = (*LISTABLE, "https", "http")
Translate = Callable[[str, str], AbstractContextManager[None]]


def is_remote(source: object) -> bool:
    """Whether a text is the URL of a file."""
    return isinstance(source, str) and source.partition("://")[0].lower() in SCHEMES and "://" in source


def shown(url: str) -> str:
    """A URL without what may be secret: a signature, or a password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def why_not_fetched(error: str) -> str:
    """What DuckDB says of a URL, without the URL, in which there may be a secret."""
    said = re.sub(r"\S+://\S+", "it", error.splitlines()[0].partition(": ")[2].partition(" error for ")[0])
    own = "; SSL_CERT_FILE may name the certificate of an authority of your own"
    return said.rstrip(".") + (own if "certificate" in said else "")


def find_remote(connection: Any, url: str, translate: Translate) -> list[str]:
    """The files that a URL names, or the pattern in it."""
    with translate(shown(url), "a list of files"):
        if urlsplit(url).scheme not in LISTABLE or not set("*?[") & set(url):
            return [url]
        found = connection.execute(f"SELECT file FROM glob({literal(url)}) ORDER BY file").fetchall()
    if not found:
        raise ValueError(f"{shown(url)} must match some files, got none")
    return [name for (name,) in found]


def bring(
    connection: Any, url: str, kind: str, wanted: Collection[str] | None, folder: Path, translate: Translate
) -> Path:
    """A copy of one file in this folder, with the columns that are wanted."""
    copy = folder / (Path(urlsplit(url).path).name or "log")
    copy.parent.mkdir(parents=True, exist_ok=True)
    with translate(shown(url), kind):
        if kind == "Parquet":
            source = f"read_parquet({literal(url)}, hive_partitioning=false)"
            names = [name for name, *_ in connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()]
            needed = names if wanted is None else [name for name in names if is_part(name, wanted)] or names
            columns = ", ".join(map(quoted, needed))
            connection.execute(f"COPY (SELECT {columns} FROM {source}) TO {literal(copy)} (FORMAT parquet)")
        else:
            (content,) = connection.execute(f"SELECT content FROM read_blob({literal(url)})").fetchone()
            copy.write_bytes(content)
    return copy


def is_part(name: str, wanted: Collection[str]) -> bool:
    """Whether a column is wanted, or a part of it, such as user.country of user."""
    return any(asked == name or asked.startswith(f"{name}.") for asked in map(str, wanted))
