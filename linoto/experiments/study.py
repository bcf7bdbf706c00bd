"""Experiments from TOML files: settings and policies as tables, every mistake named with its place.

name = "mine"

[policies.LinOtO]
type = "LinOtO"
alpha = 0.01

[policies.TS]
type = "LinTS"
confidence = "paper"

[[setting]]
name = "small"
k = 50
d = 10
horizon = 2000
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from linoto.core.confidence import PAPER
from linoto.core.hints import nearest
from linoto.core.snapshots import KNOWN, from_dict, to_dict
from linoto.experiments.settings import Experiment, Setting

TOP = ("name", "title", "caption", "policies", "setting")
PROBLEM = tuple(field.name for field in fields(Setting) if field.name != "policies")


def read_study(path: Path) -> Experiment:
    """The experiment that a TOML file describes; without a name it takes the file's."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not valid TOML: it must be UTF-8 text") from None
    try:
        return as_experiment(data, default_name=path.stem)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def as_experiment(data: dict[str, Any], *, default_name: str) -> Experiment:
    """An experiment from plain data."""
    refuse_unknown("the file", data, TOP)
    policies = {
        label: as_policy(f"[policies.{label}]", table)
        for label, table in as_table("policies", data.get("policies")).items()
    }
    if not policies:
        raise ValueError("[policies] must hold at least one policy")
    tables = data.get("setting")
    if not isinstance(tables, list) or not tables:
        raise ValueError("the file must have at least one [[setting]] table")
    settings = tuple(as_setting(index, table, policies) for index, table in enumerate(tables, start=1))
    texts = {name: data[name] for name in ("title", "caption") if name in data}
    return Experiment(name=data.get("name", default_name), settings=settings, **texts)


def as_setting(index: int, table: Any, policies: dict[str, Any]) -> Setting:
    """One [[setting]] table; `policies` in it chooses some of the file's, all are the default."""
    place = f"[[setting]] number {index}"
    facts = as_table(place, table)
    refuse_unknown(place, facts, (*PROBLEM, "policies"))
    facts = {"name": f"setting {index}", **facts}
    chosen = facts.pop("policies", list(policies))
    if not isinstance(chosen, list) or not all(isinstance(label, str) for label in chosen):
        raise ValueError(f"{place}: policies must be a list of names, got {chosen!r}")
    for label in chosen:
        if label not in policies:
            raise ValueError(f"{place}: policies has no {label!r}{suggest(label, policies)}")
    try:
        return Setting(**facts, policies={label: policies[label] for label in chosen})
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def as_policy(place: str, table: Any) -> Any:
    """One policy, in the form of `linoto.to_dict`; `confidence = "paper"` stands for `linoto.PAPER`."""
    data = completed(place, as_table(place, table))
    try:
        policy = from_dict(data)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    if not callable(getattr(policy, "start", None)):
        raise ValueError(f"{place}: type must be a policy, got {data['type']!r}")
    return policy


def completed(place: str, table: dict[str, Any]) -> dict[str, Any]:
    """A table and those inside it, with every type and key known."""
    if "type" not in table:
        raise ValueError(f"{place}: type is missing, one of {', '.join(sorted(KNOWN))}")
    name = table["type"]
    if not isinstance(name, str):
        raise ValueError(f"{place}: type must be a name, got {name!r}")
    if name not in KNOWN:
        raise ValueError(f"{place}: there is no type {name!r}{suggest(name, KNOWN)}")
    refuse_unknown(place, table, ("type", *(field.name for field in fields(KNOWN[name]))))
    inner = {
        key: completed(f"{place} {key}", part) if isinstance(part, dict) else part
        for key, part in table.items()
    }
    if inner.get("confidence") == "paper":
        inner["confidence"] = to_dict(PAPER)
    return inner


def as_table(place: str, value: Any) -> dict[str, Any]:
    """A TOML table, or a complaint."""
    if not isinstance(value, dict):
        raise ValueError(f"{place} must be a table, got {value!r}" if value else f"[{place}] is missing")
    return value


def refuse_unknown(place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse a key nobody reads, and guess what was meant."""
    known = tuple(known)
    for key in table:
        if key not in known:
            raise ValueError(f"{place} has no key {key!r}{suggest(key, known)}")


def suggest(word: str, known: Iterable[str]) -> str:
    """The nearest known name as a question, else all of them."""
    names = list(known)
    return nearest(word, names) or f": it must be one of {', '.join(names)}"
