"""Whether two states, or two values of JSON, are the same up to their last digits.

Logarithms and exponentials come from the system's library, whose last digits change with the processor and
with its version: a loop that moved to another machine is replayed there to almost the same state.
"""

from __future__ import annotations

from io import BytesIO
from math import isclose, isnan
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import asdict

from linoto.core.coins import DESK
from linoto.service.loops.loop import Loop

RELATIVE = 1e-9
ABSOLUTE = 1e-12  # of a state: what is left of sums that cancel
TIMES = {"at", "expires_at", "restored_at"}  # fields that are read from a clock, and never computed
SENTENCES = {"message", "text"}  # of alarms and changes of arms: another version may word them otherwise


def same_state(one: Loop, other: Loop) -> bool:
    """Whether two recoveries of a loop agree, open decisions included."""
    if one.digest() == other.digest():
        return True
    if not is_close(memory_of(one), memory_of(other), least=ABSOLUTE):
        return False
    with opened(one) as first, opened(other) as second:
        return first.files == second.files and all(
            arrays_close(first[name], second[name]) for name in first.files
        )


def memory_of(loop: Loop) -> Any:
    """What a loop keeps beside its agent."""
    return loop.state, list(loop.pending.values()), list(loop.unmeasured.values())


def opened(loop: Loop) -> Any:
    """The arrays of its agent."""
    return np.load(BytesIO(loop.agent.snapshot()), allow_pickle=False)


def arrays_close(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> bool:
    """Whether two arrays of a state have the same form and almost the same numbers, also by field."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    if names := wanted.dtype.names:  # of the latest play, the desk is written before it is read again
        return all(arrays_close(found[name], wanted[name]) for name in names if name not in DESK)
    if wanted.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    return np.allclose(found, wanted, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)


def is_close(found: Any, wanted: Any, least: float = 0.0) -> bool:
    """Whether two values of JSON, or structs, are the same up to the last digits of what was computed.

    `least` is a difference that is none. Times of structs are the same to the bit; sentences may differ.
    """
    if isinstance(wanted, Struct):
        return type(found) is type(wanted) and all(
            getattr(found, name) == value if name in TIMES else is_close(getattr(found, name), value, least)
            for name, value in asdict(wanted).items()
            if name not in SENTENCES
        )
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() == wanted.keys() and all(
            is_close(found[key], wanted[key], least) for key in wanted
        )
    if isinstance(wanted, list | tuple) and isinstance(found, list | tuple):
        same = len(found) == len(wanted)
        return same and all(is_close(a, b, least) for a, b in zip(found, wanted, strict=True))
    if isinstance(wanted, float) and isinstance(found, int | float):
        return isclose(found, wanted, rel_tol=RELATIVE, abs_tol=least) or (isnan(found) and isnan(wanted))
    return bool(found == wanted)
