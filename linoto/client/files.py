"""A file that appears complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write that takes its place at `path` at the end, unless there was an error."""
    place = Path(path).resolve()  # a link stays a link
    if place.exists() and not place.is_file():
        raise ValueError(f"path must be a file or nothing yet, got {path}")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {Path(path).parent} to write into")
    part = place.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(place)
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def flush_to_disk(file: BinaryIO) -> None:
    """Wait until all that was written is on disk."""
    file.flush()
    os.fsync(file.fileno())
