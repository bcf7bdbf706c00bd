"""A file that appears complete or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from linoto.client.answers import WriteError


class WholeFile:
    """Written beside its place, piece by piece, and moved there when it is complete."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._place = self.path.resolve()  # a link stays one
        if self._place.exists() and not self._place.is_file():
            raise ValueError(f"path must be a file or nothing yet, got {path}")
        if not self._place.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path.parent} to write into")
        self._part = self._place.with_name(f".{uuid.uuid4().hex}.part")
        self._file = self._part.open("xb")

    def restart(self) -> None:
        """Forget what was written, for an answer that starts again."""
        with self._blamed():
            self._file.seek(0)
            self._file.truncate()

    def write(self, piece: bytes) -> None:
        """Take one piece."""
        with self._blamed():
            self._file.write(piece)

    def keep(self) -> Path:
        """Put it in its place, once it is on disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.replace(self._place)
        return self.path

    def discard(self) -> None:
        """Leave nothing of what was not kept."""
        with suppress(OSError):  # what it could not write is not wanted any more
            self._file.close()
        self._part.unlink(missing_ok=True)

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WriteError(error.errno, f"cannot write {self.path}: {error.strerror}") from error
