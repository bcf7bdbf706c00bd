"""A policy is a record of hyperparameters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from typing import Any

from linoto.checks.problems import expect, problem_for
from linoto.core.codec import encode, foreign_types
from linoto.core.protocols import Policy
from linoto.core.snapshots import KNOWN, from_dict, to_dict


def cannot_be_changed(policy: Policy) -> None:
    """The fields of a policy cannot be set, and a policy has a hash."""
    hash(policy)
    for name in [field.name for field in fields_of(policy)] or ["anything"]:
        try:
            setattr(policy, name, getattr(policy, name, None))
        except FrozenInstanceError:
            continue
        raise AssertionError(f"{name} can be set")


def keyword_only(policy: Policy) -> None:
    """Hyperparameters are given by name."""
    positional = [field.name for field in fields_of(policy) if field.init and not field.kw_only]
    expect(not positional, f"{', '.join(positional)} can be given by position")


def defaults_construct(policy: Policy) -> None:
    """A policy starts with its defaults, given no more than the fields that have none."""
    needed = [f.name for f in fields_of(policy) if f.default is MISSING and f.default_factory is MISSING]
    default = type(policy)(**{name: getattr(policy, name) for name in needed})
    problem_for(default).start_agent(default).select()


def repr_round_trips(policy: Policy) -> None:
    """eval(repr(policy)) gives the policy again."""
    names = {type(part).__name__: type(part) for part in records_in(policy)}
    expect(eval(repr(policy), {**names, "inf": math.inf}) == policy, f"{policy!r} is another policy")


def json_round_trips(policy: Policy) -> None:
    """A policy is plain JSON data, and comes back from it."""
    data = to_dict(policy)
    text = json.dumps(data, allow_nan=False)
    expect(json.loads(text) == data, f"{text} reads back as something else")
    if data["type"] in KNOWN:
        expect(from_dict(json.loads(text)) == policy, f"{text} gives another policy")


def fields_of(record: object) -> tuple[Field[Any], ...]:
    """The fields of a record; none where it is something else."""
    return fields(record) if is_dataclass(record) else ()


def records_in(part: object) -> Iterator[object]:
    """A record and all records in it."""
    if is_dataclass(part):
        yield part
        for field in fields(part):
            yield from records_in(getattr(part, field.name))


def is_record(policy: Policy) -> bool:
    """Policies that are dataclasses."""
    return is_dataclass(policy)


def is_plain_record(policy: Policy) -> bool:
    """Dataclasses without parts that somebody else wrote: such parts have no text to read them back from."""
    return is_dataclass(policy) and not foreign_types(
        [encode(getattr(policy, f.name)) for f in fields(policy)]
    )
