"""Which cells of a matrix of settings make test runs; make test-slow runs the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import pytest


def leave_out(items: Iterable[pytest.Item]) -> None:
    """Mark all but some cells of each matrix as slow; `few(n)` keeps n. One named alone is run.

    Of one that says nothing it is one, drawn by the name of the test: so cells of every kind are among them.
    `few(0)`: a test of more than a second, of which `.ci/run` is early enough.
    """
    matrices: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("slow"):
            matrices.setdefault((str(item.path), item.originalname), []).append(item)
    for (_, name), cells in matrices.items():
        marker = cells[0].get_closest_marker("few")
        kept = spread(len(cells), *marker.args) if marker else {crc32(name.encode()) % len(cells)}
        if not kept and any(name in asked for asked in cells[0].config.args):
            kept = {0}
        for place, cell in enumerate(cells):
            if place not in kept:
                cell.add_marker("slow")
                cell.add_marker("cell")


def spread(count: int, few: int) -> set[int]:
    """So many of `range(count)`, evenly from its first to its last."""
    if few >= count:
        return set(range(count))
    return {round(place * (count - 1) / max(1, few - 1)) for place in range(few)}


def sizes(fast: int, slow: int) -> list[Any]:
    """The size of a statistical test in make test, and that in make test-slow: for `parametrize`."""
    return [fast, pytest.param(slow, marks=pytest.mark.slow)]
