"""Numbers in messages: a limit and what breaks it are different texts, and what is asked for is enough."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from linoto import Confidence, Gated, Offline
from linoto.core.decisions import check_reward
from linoto.core.kernels.layout import PARAMS
from linoto.core.validation import exact, rounded_up

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(NUMBERS)
def test_the_text_of_a_number_reads_back_as_that_number(value: float) -> None:
    assert float(exact(value)) == value


@example(0.1, 11)
@example(0.10000000000123, 11)
@given(NUMBERS.filter(lambda value: abs(value) < 1e300), st.integers(1, 12))
def test_a_number_rounded_up_is_enough_and_close(value: float, digits: int) -> None:
    up = rounded_up(value, digits)
    assert up >= value
    assert up - value <= abs(value) * (10.0 ** (1 - digits) + 1e-15) + 1e-320  # two roundings of a double
    assert len(exact(up).replace("-", "").replace(".", "").split("e")[0].strip("0")) <= max(digits, 17)


@example(5e-324, False)
@given(NUMBERS.filter(lambda value: 0 < abs(value) < 1e300), st.booleans())
def test_a_limit_and_its_neighbour_are_different_texts_in_the_right_order(value: float, near: bool) -> None:
    below = math.nextafter(value, -math.inf)
    below = below if near else min(below, value - abs(value) / 7)  # a seventh of the least number is 0
    asked, got = exact(rounded_up(value)), exact(below)
    assert asked != got and float(asked) > float(got)


def test_a_bound_that_is_hardly_too_small_is_told_from_what_is_needed() -> None:
    offline = Offline(pulls=[10**6], reward_sums=[2e6])
    refused, accepted = 1.9, 2.0
    while accepted - refused > 1e-13:
        bound = (refused + accepted) / 2
        try:
            Gated(confidence=Confidence(bound=bound, ridge=1e-9)).start([[1.0]], offline)
            accepted = bound
        except ValueError as error:
            refused, message = bound, str(error)
            words = message.replace(",", " ").replace(":", " ").split()
            assert words[:4] == ["bound", "must", "be", "at"]
            assert float(words[5]) > float(words[words.index("got") + 1]) == bound


@given(st.integers(-30, 30), st.integers(1, 40))
def test_both_ends_of_a_range_are_in_it(tenths: int, width: int) -> None:
    low, high = tenths / 10, (tenths + width) / 10
    params = np.zeros(1, dtype=PARAMS)
    params["bounded"], params["low"], params["unit"] = True, low, high - low
    assert check_reward(params, low) == low
    assert check_reward(params, high) == pytest.approx(high, rel=1e-15)
    for outside in (low - 1e-9, high + 1e-9):
        with pytest.raises(ValueError, match="reward must be in") as refused:
            check_reward(params, outside)
        assert str(refused.value).endswith(f"got {exact(outside)}")
