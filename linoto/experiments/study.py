"""Experiments from TOML files: settings and policies as tables, every mistake named with its place.

name = "mine"

[policies.LinOtO]
type = "LinOtO"
alpha = 0.01

[policies.TS]
type = "LinTS"
confidence = "paper"

[policies.Mine]
type = "my_module:MyPolicy"  # my_module.py beside the file, or installed

[[setting]]
name = "small"
k = 50
d = 10
horizon = 2000
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from linoto.core.confidence import PAPER
from linoto.core.hints import nearest
from linoto.core.protocols import Policy
from linoto.core.snapshots import KNOWN
from linoto.experiments.settings import Experiment, Setting

TOP = ("name", "title", "caption", "policies", "setting")
UNNAMED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
FACTS = tuple(field.name for field in fields(Setting) if field.name != "left_out")


def read_study(path: Path) -> Experiment:
    """The experiment that a TOML file describes; without a name it takes the file's.

    Modules with classes of your own are looked for beside the file too: its folder is added to `sys.path`.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OSError(f"{path} must be a file that can be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not valid TOML: it must be UTF-8 text") from None
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.append(folder)
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


def as_setting(index: int, table: Any, policies: dict[str, Policy]) -> Setting:
    """One [[setting]] table; `policies` in it chooses some of the file's, all are the default."""
    place = f"[[setting]] number {index}"
    facts = as_table(place, table)
    refuse_unknown(place, facts, FACTS)
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


def as_policy(place: str, table: Any) -> Policy:
    """One policy, in the form of `linoto.to_dict`; `confidence = "paper"` stands for `linoto.PAPER`."""
    policy: Policy = as_record(place, as_table(place, table))
    if not callable(getattr(policy, "start", None)):
        raise ValueError(f"{place}: type must be a policy, got {table['type']!r}")
    return policy


def as_record(place: str, table: dict[str, Any]) -> Any:
    """What a table with a type and those inside it describe, with every type and key known."""
    kind = find_type(place, table)
    named = {p.name: p for p in signature(kind).parameters.values() if p.kind not in UNNAMED}
    refuse_unknown(place, table, ("type", *named))
    parts = {key: as_part(f"{place} {key}", part) for key, part in table.items() if key != "type"}
    for name, parameter in named.items():
        if parameter.default is Parameter.empty and name not in parts:
            raise ValueError(f"{place}: {name} is missing")
    if parts.get("confidence") == "paper":
        parts["confidence"] = PAPER
    try:
        return kind(**parts)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None


def as_part(place: str, value: Any) -> Any:
    """A value of a table: another record, a tuple, or what it is."""
    if isinstance(value, list):
        return tuple(as_part(place, part) for part in value)
    return as_record(place, value) if isinstance(value, dict) else value


def find_type(place: str, table: dict[str, Any]) -> Callable[..., Any]:
    """The class that a table names: one of ours, or somebody's own as `module:Class`."""
    if "type" not in table:
        raise ValueError(f"{place}: type is missing, one of {', '.join(sorted(KNOWN))}")
    name = table["type"]
    if not isinstance(name, str):
        raise ValueError(f"{place}: type must be a name, got {name!r}")
    if ":" in name:
        return import_type(place, name)
    if name not in KNOWN:
        raise ValueError(f"{place}: there is no type {name!r}{suggest(name, KNOWN)}")
    return KNOWN[name]


def import_type(place: str, name: str) -> Callable[..., Any]:
    """The class of this name in a module of this name."""
    module_name, _, class_name = name.partition(":")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever somebody's own code raises
        raise ValueError(
            f"{place}: type {name!r} must be a class that can be imported, got "
            f"{type(error).__name__}: {error}"
        ) from error
    kind = getattr(module, class_name, None)
    if not isinstance(kind, type):
        classes = [word for word, value in vars(module).items() if isinstance(value, type)]
        meant = nearest(class_name, classes)
        raise ValueError(f"{place}: module {module_name!r} has no class {class_name!r}{meant}")
    return kind


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
