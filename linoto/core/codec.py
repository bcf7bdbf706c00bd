"""Frozen records and generators as plain JSON, and back: no pickle anywhere."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np

from linoto.core.explorers import is_users_own

GENERATORS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937")


def encode(record: Any) -> Any:
    """A record as a dict with its `type`, its parts likewise."""
    if isinstance(record, np.generic):
        return record.item()
    if record is None or isinstance(record, str | int | float):
        return record  # most parts: whether they are somebody's explorer takes longer to ask than all else
    if isinstance(record, tuple):
        return [encode(part) for part in record]
    if hasattr(record, "to_dict") and is_ours(type(record)):
        return record.to_dict()
    if isinstance(record, type) or not (is_dataclass(record) or is_users_own(record)):
        return record
    names = [field.name for field in fields(record)] if is_dataclass(record) else []
    unsaid = [name for name in getattr(type(record), "unsaid", ()) if not getattr(record, name)]
    names = [name for name in names if name not in unsaid]
    return {"type": type_name(type(record)), **{name: encode(getattr(record, name)) for name in names}}


def type_name(kind: type) -> str:
    """What a type is called in JSON: ours by name, somebody else's by `module:name`."""
    return kind.__name__ if is_ours(kind) else f"{kind.__module__}:{kind.__qualname__}"


def is_ours(kind: type) -> bool:
    """Whether a type is of this package."""
    return kind.__module__.partition(".")[0] == "linoto"


def foreign_types(data: Any) -> list[str]:
    """The types in encoded data that are somebody else's."""
    if isinstance(data, list):
        return [name for part in data for name in foreign_types(part)]
    if not isinstance(data, dict):
        return []
    own = [str(data["type"])] if ":" in str(data.get("type")) else []
    return own + [name for part in data.values() for name in foreign_types(part)]


def completed(data: Any, known: Mapping[str, type]) -> Any:
    """Encoded data that was stored, with the fields that did not exist then: what they meant before."""
    if isinstance(data, list):
        return [completed(part, known) for part in data]
    if not isinstance(data, dict):
        return data
    parts = {name: completed(part, known) for name, part in data.items()}
    if data.get("type", "") not in known:
        return parts
    name = parts.pop("type")
    kind, parts = revised(known[name], {**meant_before(known[name], parts), **parts}, known)
    usual = {field.name: encode(field.default) for field in fields(kind) if field.default is not MISSING}
    for unsaid in getattr(kind, "unsaid", ()):
        del usual[unsaid]
    return {"type": kind.__name__, **usual, **parts}


def meant_before(kind: type, parts: Mapping[str, Any]) -> dict[str, Any]:
    """What fields meant that a stored record does not have; of those that are gone, if it has one of them."""
    gone = getattr(kind, "gone", {})
    older = any(name in parts for name in gone)
    return {name: part for name, part in getattr(kind, "before", {}).items() if older or name not in gone}


def revised(kind: type, parts: dict[str, Any], known: Mapping[str, type]) -> tuple[type, dict[str, Any]]:
    """What a record of an earlier version is today: fields that are `gone` have one value, or it is older."""
    gone = getattr(kind, "gone", {})
    if all(parts.get(name, value) == value for name, value in gone.items()):
        return kind, {name: part for name, part in parts.items() if name not in gone}
    return known.get(getattr(kind, "older", ""), kind), parts


def decode(data: Any, known: Mapping[str, type], *, stored: bool = False) -> Any:
    """The record that `encode` wrote, if its type is known.

    `stored`: every field was written, so one that is missing did not exist then. It takes the value that
    stands for what happened `before` there was such a field, not today's default.
    """
    if isinstance(data, list):
        return tuple(decode(part, known, stored=stored) for part in data)
    if not isinstance(data, dict):
        return data
    parts = dict(data)
    name = parts.pop("type", None)
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"type must be one of {', '.join(sorted(known))}, got {name!r}")
    read = getattr(known[name], "from_dict", None)
    if read is not None:
        return read(data)
    try:
        fields_then = meant_before(known[name], parts) if stored else {}
        fields_now = {key: decode(part, known, stored=stored) for key, part in parts.items()}
        kind, values = revised(known[name], {**fields_then, **fields_now}, known)
        return kind(**values)
    except TypeError:
        expected = ", ".join(field.name for field in fields(known[name]))
        raise ValueError(
            f"{name} must have the fields {expected or '(none)'}, got {', '.join(parts)}"
        ) from None


def encode_rng(rng: np.random.Generator) -> Any:
    """The whole state of a generator."""
    state = rng.bit_generator.state
    if state["bit_generator"] not in GENERATORS:
        raise ValueError(f"rng must use one of {', '.join(GENERATORS)}, got {state['bit_generator']}")
    return _plain(state)


def decode_rng(data: Any) -> np.random.Generator:
    """The generator whose state was written."""
    if not isinstance(data, dict) or data.get("bit_generator") not in GENERATORS:
        raise ValueError(f"rng must be the state of one of {', '.join(GENERATORS)}")
    bits = getattr(np.random, data["bit_generator"])()
    bits.state = _arrays(data)
    return np.random.Generator(bits)


def pack(header: Any, arrays: Mapping[str, Any]) -> bytes:
    """A header and arrays as the bytes of an npz file."""
    buffer = io.BytesIO()
    named: dict[str, Any] = dict(arrays)
    np.savez(buffer, header=np.array(json.dumps(header)), **named)
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist(), "dtype": str(value.dtype)}
    return value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=value["dtype"])
    if isinstance(value, dict):
        return {key: _arrays(part) for key, part in value.items()}
    return value


def finite(value: float | None) -> float | None:
    """A number that JSON can hold, otherwise None."""
    return float(value) if value is not None and isfinite(value) else None
