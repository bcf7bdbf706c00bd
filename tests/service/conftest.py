"""Where the tests of the service keep their databases."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

MEMORY = Path("/dev/shm")  # on Linux, a file system in memory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where there is one: a sync then takes microseconds.

    On a disk it takes milliseconds, and most of what the tests would do is wait for them. What a killed
    process leaves behind is the same in both.
    """
    root = MEMORY if os.access(MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="linoto-", dir=root, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
