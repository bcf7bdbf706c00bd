"""The checks that every value passes on its way in; each refusal names the argument and what came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal
from math import isfinite
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Floats, Ints
from linoto.core.hints import amount, shortened_list
from linoto.core.names import Names, Numbered
from linoto.core.one_hot import compact_form, in_float64

SHOWN = 5e-4  # of the width of an interval: how far its ends may be rounded where people read them
MANY_ARMS = 4096  # from which on float32 features stay so, and lists of arms pay
LARGEST = 1e100  # squared length of all arms of a round


def exact(value: float) -> str:
    """A number in as few digits as tell it from every other: no message shows two numbers as one.

    >>> exact(2.0), exact(2.0000000001), exact(1e-9)
    ('2', '2.0000000001', '1e-09')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def interval_text(limits: tuple[float, float]) -> str:
    """An interval in the digits a person reads; more of them where these would move an end.

    >>> interval_text((0.0, 1.0)), interval_text((-1e6, -9e5)), interval_text((99.95, 100.05))
    ('[0, 1]', '[-1,000,000, -900,000]', '[99.95, 100.05]')
    """
    close = SHOWN * (limits[1] - limits[0])
    return f"[{', '.join(end_text(end, close) for end in limits)}]"


def end_text(end: float, close: float) -> str:
    """A number in four digits, where these are as close as that, else in those it was given with."""
    if abs(float(f"{end:.4g}") - end) <= close or not isfinite(end):
        return amount(end)
    return f"{end:{',' if abs(end) >= 1e4 else ''}.15g}"


def rounded_up(value: float, digits: int = 3) -> float:
    """A number of a few digits that is at least this one: what "at least" says must be enough.

    >>> rounded_up(1.2341), rounded_up(-1.2341), rounded_up(0.1)
    (1.24, -1.23, 0.1)
    """
    if not np.isfinite(value) or value == 0:
        return float(value)
    whole = Decimal(repr(float(value)))  # what is written: 0.1 itself is a little more
    place = Decimal(1).scaleb(whole.adjusted() - digits + 1)
    return float(whole.quantize(place, rounding=ROUND_CEILING))


def as_floats(name: str, value: Any, ndim: int) -> Floats:
    """An owned, contiguous float64 array with finite entries, or a ValueError that names the argument."""
    check_real(name, value)
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers, got {type(value).__name__}") from None
    if array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s), got shape {array.shape}")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise ValueError(f"{name} must be finite, got {array[tuple(where)]} at {where}")
    return array


def check_real(name: str, value: Any) -> None:
    """Refuse what NumPy would take half of: numbers behind a mask, and those with an imaginary part."""
    if not isinstance(value, np.ndarray):
        return
    if value.dtype.kind == "c":
        raise ValueError(f"{name} must be real numbers, got complex ones")
    if type(value) is not np.ndarray and np.ma.is_masked(value):  # NumPy imports masks when they are named
        raise ValueError(f"{name} must have no missing numbers, got some behind a mask")


def as_counts(name: str, value: Any, k: int | None = None) -> Ints:
    """An owned (k,) array of counts: whole numbers, none negative; of any length where k is None."""
    array = as_floats(name, value, ndim=1)
    if k is not None and array.size != k:
        raise ValueError(f"{name} must have {k} entries, got {array.size}")
    if (array < 0).any() or (array != np.floor(array)).any():
        bad = array[(array < 0) | (array != np.floor(array))][0]
        raise ValueError(f"{name} must be whole numbers >= 0, got {exact(bad)}")
    if (array > 2**53).any():
        raise ValueError(f"{name} must be at most 2**53, got {array.max():g}")
    return array.astype(np.int64)


def stays_float32(value: Any) -> bool:
    """Whether features are kept as they are given: many, in half the memory. Numbers made of them are not."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float32 or value.ndim != 2:
        return False
    k, d = value.shape
    return bool(k >= MANY_ARMS and 0 < d < k)


def check_finite(actions: Any) -> None:
    """Refuse a number that is none, wherever it is."""
    before = 0
    for block in in_float64(actions):
        if not np.isfinite(block).all():
            row, column = np.argwhere(~np.isfinite(block))[0].tolist()
            raise ValueError(f"actions must be finite, got {block[row, column]} at {[before + row, column]}")
        before += len(block)


def as_actions(value: Any) -> Floats:
    """The arm set: (k, d), at least one arm and one feature; an identity in its compact form."""
    compact = compact_form(value)
    actions = as_floats("actions", value, ndim=2) if compact is None else compact
    if actions.shape[0] == 0 or actions.shape[1] == 0:
        raise ValueError(f"actions must hold at least one arm and one feature, got shape {actions.shape}")
    return actions


def as_features(value: Any) -> Floats:
    """The same for an agent: float32 features of many arms stay so, read-only, and from a file not copied."""
    if not stays_float32(value):
        return as_actions(value)
    check_finite(value)
    if never_changes(value):
        return cast(Floats, value)
    owned = np.array(value, np.float32, order="F")
    owned.flags.writeable = False
    return cast(Floats, owned)


def never_changes(value: npt.NDArray[Any]) -> bool:
    """Whether nobody here can write into an array: a file mapped for reading, or bytes in our order.

    Any other may be made writeable again by who has it, even one that is read-only now.
    """
    if isinstance(value, np.memmap):
        return bool(value.mode == "r")
    owner: Any = value
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, bytes) and value.flags.f_contiguous


def as_arm(arm: Any, k: int, name: str = "arm") -> int:
    """One arm's index as a Python int."""
    if type(arm) is int and 0 <= arm < k:  # the usual case
        return arm
    if isinstance(arm, bool | np.bool_) or not isinstance(arm, int | np.integer):
        raise ValueError(f"{name} must be an integer in [0, {k}), got {arm!r}")
    if not 0 <= arm < k:
        raise ValueError(f"{name} must be in [0, {k}), got {arm}")
    return int(arm)


def as_arms(name: str, value: Any, k: int) -> Ints:
    """Several arms' indices, each in [0, k)."""
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a list of arm indices, got {array.dtype} of shape {array.shape}")
    outside = array[(array < 0) | (array >= k)]
    if outside.size:
        raise ValueError(f"{name} must be in [0, {k}), got {outside[0]}")
    return array.astype(np.int64)


def as_reward(reward: Any, name: str = "reward") -> float:
    """One reward, or what else has this name: a finite number."""
    plain = reward.item() if isinstance(reward, np.ndarray | np.generic) and reward.ndim == 0 else reward
    if isinstance(plain, str | bytes | bytearray):  # "1" may be a mistake; True is 1
        raise ValueError(f"{name} must be a number, got {reward!r}")
    try:
        value = float(reward)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {reward!r}") from None
    if not isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    return value


def check_positive(name: str, value: Any) -> None:
    """Refuse anything but a positive finite number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def check_nonnegative(name: str, value: Any) -> None:
    """Refuse anything but a finite number >= 0."""
    if not is_number(value) or not 0 <= value < np.inf:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Refuse anything but a whole number >= 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")


def check_whole(name: str, value: Any) -> None:
    """Refuse anything but a whole number >= 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise ValueError(f"{name} must be a whole number >= 0, got {value!r}")


def check_seed(seed: Any) -> None:
    """The same of a seed."""
    check_whole("seed", seed)


def normalise(record: Any) -> None:
    """Make the numbers of a frozen record Python's own, so that its repr reads back."""
    for name, value in vars(record).items():
        if isinstance(value, np.generic):
            object.__setattr__(record, name, value.item())


def is_number(value: Any) -> bool:
    """A real number, which True is not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not among the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def one_of(kinds: Sequence[type]) -> str:
    """The names of some types, as the middle of a sentence.

    >>> one_of((int, str, float))
    'int, str or float'
    """
    *others, last = (kind.__name__ for kind in kinds)
    return f"{', '.join(others)} or {last}" if others else last


def as_range(value: Any) -> tuple[float, float]:
    """(lo, hi) with lo < hi."""
    low_high = as_floats("reward_range", value, ndim=1)
    if low_high.size != 2 or not low_high[0] < low_high[1]:
        raise ValueError(f"reward_range must be (lo, hi) with lo < hi, got {value!r}")
    return float(low_high[0]), float(low_high[1])


def as_names(names: Sequence[str] | None, k: int) -> Names | None:
    """One distinct name per arm, or none at all."""
    if names is None:
        return None
    result = names if isinstance(names, Numbered) else tuple(str(name) for name in names)
    distinct = len(result) if isinstance(result, Numbered) else len(set(result))
    if len(result) != k or distinct != k:
        twice = dict.fromkeys(name for name, times in Counter(result).items() if times > 1)
        again = f": {shortened_list(list(map(repr, twice)))} more than once" if twice else ""
        raise ValueError(
            f"names must be {k} distinct names, got {len(result)} with {distinct} distinct{again}"
        )
    return result


def as_generator(rng: Any) -> np.random.Generator:
    """A generator from a seed; a given one is used as it is."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise ValueError(f"rng must be a seed >= 0 or a numpy Generator, got {rng!r}")
    return np.random.default_rng(rng)


def generator_for(rng: Any) -> np.random.Generator:
    """The same, and where None is given one that the system's entropy seeds."""
    return np.random.default_rng() if rng is None else as_generator(rng)
