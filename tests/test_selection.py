"""A large matrix of settings is sampled by make test, and none of its cells is lost."""

from __future__ import annotations

import pytest
from helpers.selection import leave_out, spread


@pytest.mark.parametrize("count", range(1, 30))
def test_few_cells_are_spread_from_the_first_to_the_last(count: int) -> None:
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
