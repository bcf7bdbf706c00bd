"""Which rounds await their reward: a set of numbers in few bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from linoto.core.open_rounds import OpenRounds


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=80))
def test_it_is_a_set_of_rounds(steps: list[tuple[bool, int]]) -> None:
    """Rounds open one after the other; they close in any order, and once. A snapshot changes nothing."""
    rounds, oracle, latest = OpenRounds(), set(), 0
    for opens, number in steps:
        if opens:
            latest += 1 + number % 11  # rounds between were told at once
            rounds.open(latest)
            oracle.add(latest)
        else:
            assert rounds.close(number) == (number in oracle)
            oracle.discard(number)
        header: dict[str, Any] = {"format": 5}
        arrays: dict[str, Any] = {}
        rounds.save(header, arrays)
        again = OpenRounds.of(header, arrays, latest)
        twice: tuple[dict[str, Any], dict[str, Any]] = ({"format": 5}, {})
        again.save(*twice)
        assert twice[0] == header and [a.tobytes() for a in twice[1].values()] == [
            a.tobytes() for a in arrays.values()
        ]
        rounds = again
    for number in sorted(oracle):
        assert rounds.close(number)
    assert not rounds._bits


def test_rewards_that_come_leave_nothing() -> None:
    rounds = OpenRounds()
    for number in range(1, 5000):
        rounds.open(number)
        if number > 100:
            assert rounds.close(number - 100)
    assert len(rounds._bits) <= 14


def test_rewards_that_never_come_cost_a_bit_and_no_more_than_was_agreed() -> None:
    """The oldest are given up: a late reward of theirs is refused, a later one is taken."""
    rounds = OpenRounds(most_bytes=100)
    for number in range(1, 3000):
        rounds.open(number)
    assert len(rounds._bits) == 100
    assert not rounds.close(2000) and rounds.close(2300) and rounds.close(2999) and not rounds.close(2999)


def test_rounds_of_an_older_snapshot_are_not_known() -> None:
    """They follow the old rule, by counts; those after it are known."""
    rounds = OpenRounds.of({"format": 4}, {}, 7)
    assert rounds.close(3) and rounds.close(3)
    assert not rounds.close(0) and not rounds.close(8)
    rounds.open(8)
    assert rounds.close(8) and not rounds.close(8)
    assert np.array(rounds.known_from) == 8
