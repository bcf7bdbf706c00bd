"""What every test starts from."""

from __future__ import annotations

import atexit
import gc
import os
import tempfile

import pytest
from helpers.folders import MEMORY
from helpers.pictures import blank_pictures, drawn
from helpers.selection import leave_out

__all__ = ["blank_pictures", "drawn"]

collect_ignore_glob = ["helpers/drill/without_*.py"]  # to import them takes a safeguard away

# One thread for linear algebra, before NumPy is loaded: the matrices are small, there is a worker for every
# core, and threads that wait for each other took up to two fifths of the processor time of a test.
for library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def end_at_once(worker: int) -> None:
    """A worker that ends takes apart what it has imported, for seconds. Its forks end as they would."""
    if os.getpid() == worker:
        os._exit(0)


if "PYTEST_XDIST_WORKER" in os.environ:
    atexit.register(end_at_once, os.getpid())
# What is written for a moment, as the copy of every log that is read, need not reach a disk.
if os.access(MEMORY, os.W_OK):
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))  # pytest has asked for it already


def pytest_collection() -> None:
    """What is imported stays: looking for garbage among it took a fifth of the time of collecting tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What tests make is garbage soon; among what was imported before there is none to look for."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Plugins that look for who refers to what, as that of Hypothesis does at the end, see all of it."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a matrix, make test runs some cells and make test-slow the others."""
    leave_out(items)
