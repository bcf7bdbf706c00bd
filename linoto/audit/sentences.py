"""Words that several findings share."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np

from linoto.core.arrays import Ints
from linoto.core.hints import shortened_list


def answer_text(rejected: bool) -> str:
    """What a test says of what it tests."""
    return "no" if rejected else "no sign against it"


def names_of(names: Sequence[str], arms: Ints | Sequence[int]) -> str:
    """The names of some arms or features, a few of them where they are many."""
    return shortened_list([names[arm] for arm in arms])


def without_nan(value: Any) -> Any:
    """The same with plain numbers and lists, and None for what JSON cannot say."""
    if isinstance(value, dict):
        return {str(key): without_nan(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not isfinite(value) else value
