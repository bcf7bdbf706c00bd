"""Every policy, explorer, gate and confidence as a schema of its own: what a `policy` in JSON may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Union, get_type_hints

import msgspec
from msgspec import Struct

from linoto.core import policies, research
from linoto.core.confidence import Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import GATES
from linoto.core.gates.older import OlderTolerance
from linoto.core.guardrail import Guardrail

SCHEMAS = "#/components/schemas/{name}"


def describe(cls: type, **parts: Any) -> type[Struct]:
    """A record of ours as JSON holds it; `parts` are the types of fields that hold records themselves."""
    hints = {**get_type_hints(cls), **parts}
    known = [field for field in fields(cls) if field.compare]
    described = [field_of(field, hints[field.name]) for field in known]
    return msgspec.defstruct(
        cls.__name__,
        described,
        tag=cls.__name__,
        tag_field="type",
        forbid_unknown_fields=True,
        kw_only=True,
        namespace={"__doc__": (cls.__doc__ or "").partition("\n")[0]},
    )


def field_of(field: Field[Any], kind: Any) -> Any:
    """(name, type, default) of a field; of a default that is a record, only that there is one."""
    if field.default is MISSING:
        return field.name, kind
    if is_dataclass(field.default):
        return field.name, kind, msgspec.field(default_factory=object)
    return field.name, kind, field.default


def any_of(kinds: Iterable[Any]) -> Any:
    """The union of some types."""
    return Union[tuple(kinds)]  # noqa: UP007 - `|` cannot be given a list


def any_policy() -> Any:
    """The type of a `policy`: a union, of which the field `type` says which one it is."""
    confidence: Any = describe(Confidence)
    maybe, guardrail = confidence | None, describe(Guardrail)
    gates = any_of(map(describe, (*GATES, OlderTolerance)))
    explorers = [
        describe(explorer, **({"confidence": maybe} if "confidence" in get_type_hints(explorer) else {}))
        for explorer in (*policies.EXPLORERS, *research.RESEARCH_EXPLORERS)
    ]
    alone = [
        *explorers,
        describe(policies.LinOtO, confidence=confidence),
        describe(policies.LinLCB, confidence=maybe),
        describe(research.OtO, confidence=maybe),
        describe(
            policies.Gated,
            explorer=any_of(explorers) | None,
            gate=gates | None,
            confidence=maybe,
            guardrails=list[guardrail],  # type: ignore[valid-type]
        ),
    ]
    return any_of([*alone, describe(Doubling, policy=any_of(alone))])


def policy_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """(the schema of a `policy`, the schemas it refers to by name)."""
    (union,), parts = msgspec.json.schema_components([any_policy()], ref_template=SCHEMAS)
    return union, parts
