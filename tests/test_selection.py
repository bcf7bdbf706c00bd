"""A large matrix of settings is sampled by make test, and none of its cells is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.selection import leave_out, spread


@pytest.mark.parametrize("count", range(1, 30))
def test_few_cells_are_spread_from_the_first_to_the_last(count: int) -> None:
    assert spread(count, 0) == set()
    for few in range(1, count + 3):
        kept = spread(count, few)
        assert len(kept) == min(few, count) and kept <= set(range(count))
        assert 0 in kept and (few == 1 or count - 1 in kept)


@pytest.mark.few(2)
@pytest.mark.parametrize("right", "xy")
@pytest.mark.parametrize("left", range(5))
def test_two_of_these_ten_are_run_and_marking_them_again_changes_nothing(
    left: int, right: str, request: pytest.FixtureRequest
) -> None:
    name = request.function.__name__
    cells = [item for item in request.session.items if name in item.name]
    marked = [item.get_closest_marker("slow") is not None for item in cells]
    leave_out(cells)
    assert [item.get_closest_marker("slow") is not None for item in cells] == marked
    assert marked.count(False) in (0, 2)


@pytest.mark.few(0)
def test_pytest_runs_with_every_plugin_that_is_installed_too() -> None:
    """As somebody runs it by hand: make names the plugins."""
    file = Path(__file__).with_name("test_protocols.py")
    usual = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", str(file)]
    done = subprocess.run(
        command, env=usual, cwd=file.parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
