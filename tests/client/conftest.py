"""Where these tests keep their databases."""

from __future__ import annotations

from helpers.folders import shared_folder, tmp_path

__all__ = ["shared_folder", "tmp_path"]
