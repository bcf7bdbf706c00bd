"""Where these tests keep their databases."""

from __future__ import annotations

from helpers.folders import tmp_path

__all__ = ["tmp_path"]
