"""A state is the same on another processor but for its last digits, and nothing else is taken for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loops import recovered, run_mixed_traffic
from helpers.service_process import FakeClock, create, opened
from msgspec.structs import replace

from linoto.service.loops.closeness import arrays_close, is_close, same_state
from linoto.service.loops.loop import Loop


def state_of(loop: Loop) -> Any:
    return loop.agent.running.held


def nudge(loop: Loop) -> None:
    theta = state_of(loop).vectors
    theta[:] = np.nextafter(theta, np.inf)


def change_an_estimate(loop: Loop) -> None:
    state_of(loop).vectors[:] *= 1 + 1e-6


def change_a_count(loop: Loop) -> None:
    state_of(loop).run["rewards"] += 1


def change_the_books(loop: Loop) -> None:
    loop.state.learned += 1


def nudge_the_books(loop: Loop) -> None:
    loop.state.counted.rewards = float(np.nextafter(loop.state.counted.rewards, np.inf))


def move_the_clock(loop: Loop) -> None:
    loop.state.at = float(np.nextafter(loop.state.at, np.inf))


def move_a_point_of_the_history(loop: Loop) -> None:
    points = loop.state.history.points
    points[-1] = replace(points[-1], at=points[-1].at + 1e-6)


def keep_a_decision_open_for_longer(loop: Loop) -> None:
    number, decision = loop.pending.popitem()
    loop.pending[number] = replace(decision, expires_at=decision.expires_at + 1e-6)


def close_a_decision(loop: Loop) -> None:
    loop.pending.popitem()


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (nudge, True),
        (nudge_the_books, True),
        (move_the_clock, False),
        (move_a_point_of_the_history, False),
        (keep_a_decision_open_for_longer, False),
        (change_an_estimate, False),
        (change_a_count, False),
        (change_the_books, False),
        (close_a_decision, False),
    ],
)
def test_last_digits_may_differ_and_nothing_else(
    tmp_path: Path, change: Callable[[Loop], None], same: bool
) -> None:
    clock = FakeClock(1.79e9)
    with opened(tmp_path / "x.sqlite", clock=clock) as service:
        create(service)
        run_mixed_traffic(service, clock)
        loop = service.loops.get("loop")
        _, short, long = service.store.write_sync(lambda connection: recovered(connection, loop))
        assert short.digest() == long.digest() and same_state(short, long) and long.pending
        change(long)
        assert short.digest() != long.digest()
        assert same_state(short, long) is same and same_state(long, short) is same


@pytest.mark.parametrize(
    ("found", "wanted", "same"),
    [
        ({"a": [1.0, None]}, {"a": [1.0 + 1e-12, None]}, True),
        ({"a": 1.0}, {"a": 1.0 + 1e-8}, False),
        ({"a": 1.0}, {"b": 1.0}, False),
        ([1.0], [1.0, 1.0], False),
        ([float("nan")], [float("nan")], True),
        (0.0, 1e-15, False),
        (True, 1, True),
        ("1", 1.0, False),
    ],
)
def test_values_of_json_are_close_relative_to_themselves(found: Any, wanted: Any, same: bool) -> None:
    assert is_close(found, wanted) is same


def test_arrays_have_the_same_form_and_integers_the_same_bits() -> None:
    one, kind = np.array([1.0, np.inf, np.nan, 0.0]), [("count", "i8"), ("sum", "f8")]
    assert arrays_close(one, one * (1 + 1e-12) + 1e-14)
    assert not arrays_close(one, one[:3]) and not arrays_close(one, one.astype(np.float32))
    rows = np.array([(1, 2.0)], dtype=kind)
    assert arrays_close(rows, np.array([(1, 2.0 + 1e-12)], dtype=kind))
    assert not arrays_close(rows, np.array([(2, 2.0)], dtype=kind))
    assert not arrays_close(rows, np.array([(1, 2.1)], dtype=kind))
