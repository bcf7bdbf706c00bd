"""Folders for databases, in memory where that is possible."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")  # on Linux, a file system in memory


def folder_in_memory() -> Iterator[Path]:
    """A folder in which a sync takes microseconds.

    On a disk it takes milliseconds, and most of what the tests would do is wait for them. What a killed
    process leaves behind is the same in both.
    """
    root = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="linoto-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


tmp_path = pytest.fixture(folder_in_memory, name="tmp_path")
shared_folder = pytest.fixture(folder_in_memory, scope="module", name="shared_folder")
