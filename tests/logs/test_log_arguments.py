"""Wrong arguments of what reads and judges logs: one sentence that names them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Numeric, Recipe
from linoto.logs.statement import Question

pd = pytest.importorskip("pandas")
FRAME = pd.DataFrame(
    {"i": ["A", "B"] * 50, "xz": np.arange(100.0), "ab": np.arange(100.0) % 7, "y": [0.0, 1.0] * 50}
)
ODD = [
    (["item", "xz"], "'item' in it"),
    (("item", "xz"), "'item' in it"),
    (["xz", "ab"], "'xz' in it"),  # of two letters each
    ("item", "'item'"),
    ([("item", "xz", "ab")], "('item', 'xz', 'ab') in it"),
    ([("item",)], "('item',) in it"),
    ([None], "None in it"),
    ([b"xz"], "b'xz' in it"),
    ([("item", None)], "('item', None) in it"),
    (3, "3"),
]


@pytest.mark.parametrize(("crosses", "got"), ODD, ids=repr)
def test_crosses_are_pairs(crosses: Any, got: str) -> None:
    message = f"crosses must be a list of pairs such as [('item', 'age')], got {got}"
    calls = (
        lambda: linoto.read_log(FRAME, item="i", reward="y", numeric=["xz", "ab"], crosses=crosses),
        lambda: Recipe(items=("A", "B"), context=(Numeric(name="xz"), Numeric(name="ab")), crosses=crosses),
        lambda: Question(table="t", reward="y", item="i", numeric=("xz", "ab"), crosses=crosses),
    )
    for call in calls:
        with pytest.raises(ValueError) as refused:
            call()
        assert str(refused.value) == message


def test_pairs_may_be_in_any_kind_of_list() -> None:
    for crosses in ([("item", "xz")], (["item", "xz"],), iter([("item", "xz")])):
        log = linoto.read_log(FRAME, item="i", reward="y", numeric=["xz"], crosses=crosses)  # type: ignore[arg-type]
        assert log.recipe.crosses == (("i", "xz"),)


def test_only_rows_can_be_evaluated() -> None:
    with pytest.raises(
        ValueError, match=r"^rows must be a linoto\.Rows, as read_rows returns, got DataFrame$"
    ):
        linoto.evaluate(FRAME, 0)


def test_complex_numbers_are_no_column() -> None:
    with pytest.raises(ValueError, match=r"^column 'y' must have real numbers, got complex ones$"):
        linoto.read_log(FRAME.assign(y=FRAME.y + 1j), item="i", reward="y")
