"""Where these tests keep their databases, and what a client leaves half sent."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from helpers.folders import shared_folder, tmp_path

__all__ = ["shared_folder", "tmp_path"]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """A transport that was closing when its event loop ended says so when it is collected: here.

    In the middle of another test it could be inside of `ast.parse`, where Python 3.11 raises a SystemError.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
