"""What tells a recipe from others, part by part: a snapshot keeps it, for it holds no recipe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core.hints import shortened_list

Digests = dict[str, str]  # one of each part, by what the part is called in a sentence
DIGITS = 10  # that count of a number: the last ones may depend on the order in which a log was read
ORDER = "the order of "


class Digested:
    """Features that are plain data: equal ones have the same digests, in every process."""

    @cached_property
    def digests(self) -> Digests:
        """A digest of each part."""
        found: Digests = {}
        for name, value in said_by(self).items():
            if name == "items":
                found |= {name: digest(sorted(map(str, value))), ORDER + name: digest([*map(str, value)])}
            elif value and isinstance(value, tuple) and is_dataclass(value[0]):
                found |= {f"column {part.name!r}": digest([name, plain(part)]) for part in value}
                found[ORDER + name] = digest([part.name for part in value])
            else:
                found[name] = digest(plain(value))
        return found


def said_by(record: Any) -> dict[str, Any]:
    """The fields that say something: one that came later, and is as it always was, changes no digest."""
    values = {field.name: (getattr(record, field.name), field.default) for field in fields(record)}
    return {name: value for name, (value, usual) in values.items() if np.any(value != usual)}


def plain(value: Any) -> Any:
    """A value as JSON has it, with one way to write each number; the numbers of many items as a digest."""
    if isinstance(value, bool | str) or value is None:
        return value
    if is_dataclass(value):
        kind = getattr(value, "kind", type(value).__name__)
        return [kind, {name: plain(part) for name, part in said_by(value).items()}]
    if isinstance(value, tuple | list):
        table = as_table(value)
        return [plain(part) for part in value] if table is None else digest_of_numbers(table)
    if isinstance(value, int | float | np.number):
        return f"{float(value) + 0.0:.{DIGITS}g}"  # 1 and 1.0, and -0.0 and 0.0, are equal
    return type(value).__name__  # in a column of somebody's own: nobody knows how to write it down


def digest(value: Any) -> str:
    """What tells JSON data from other data."""
    return blake2b(json.dumps(value, sort_keys=True).encode(), digest_size=8).hexdigest()


def as_table(rows: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Rows of as many numbers each; None where they hold anything else, as a column of somebody's own may."""
    if not (rows and isinstance(rows[0], tuple)):
        return None
    try:
        found = np.asarray(rows)
    except ValueError:
        return None
    return found if found.ndim == 2 and found.dtype.kind in "biuf" else None


def digest_of_numbers(rows: npt.NDArray[Any]) -> str:
    """The same of a table of numbers, of which there may be millions."""
    with np.errstate(over="ignore"):
        table = rows.astype(np.float64).astype("<f4") + np.float32(0)
    return blake2b(repr(table.shape).encode() + table.tobytes(), digest_size=8).hexdigest()


def digests_of(features: Any) -> Digests | None:
    """Those of features that are plain data; nobody knows what else with a `transform` will say."""
    return features.digests if isinstance(features, Digested) else None


def check_same_features(expected: Digests | None, features: Any, whose: str) -> None:
    """Refuse features that are known to be others: as many numbers would mean something else."""
    got = digests_of(features)
    if expected is None or got is None or got == expected:
        return
    parts = [name for name in {**expected, **got} if expected.get(name) != got.get(name)]
    telling = [name for name in parts if not name.startswith(ORDER)]
    differs = shortened_list(sorted(telling or parts))
    raise ValueError(f"features must be those of {whose}, got a recipe that differs in {differs}")
