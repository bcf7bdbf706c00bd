"""Where these tests keep their databases, and pictures that are left blank."""

from __future__ import annotations

import pytest
from helpers.folders import tmp_path

__all__ = ["tmp_path"]


@pytest.fixture(autouse=True)
def no_pictures(blank_pictures: None) -> None:
    """What is printed and written beside them is tested here."""
