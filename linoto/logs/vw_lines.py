"""Decisions as vowpalwabbit writes them: JSON of a decision service (dsjson), and its text format.

vowpalwabbit reads what it does not understand as 0 and goes on. Here it is an error, because a reward of 0
is a reward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from linoto.logs.text_files import read_lines

Features = dict[str, float | str]  # numbers, and words that are levels of a category
NUMBERED = "action"  # what actions without features are known by
LOOKED_AT = 1000  # lines that show whether a text file has several lines per decision


class Decided(NamedTuple):
    """One logged decision."""

    context: Features
    actions: list[Features]  # what could be played
    played: int  # its place in them
    cost: float
    propensity: float
    every: bool = False  # the log does not say what could be played: every action of the file
    time: str | None = None


Found = tuple[int, Decided | str | None]
"""A line from 1, and a decision, or what is wrong with it, or None where no cost is known."""


def read_decisions(path: Path, format: str) -> Iterator[Found]:
    """The decisions of a file, in their order."""
    several = format == "vw-text" and has_blocks(path)
    parse: Callable[[list[str]], Decided | None] = parse_dsjson
    if format == "vw-text":
        parse = parse_block if several else parse_line
    for number, lines in blocks(path, several=several):
        try:
            yield number, parse(lines)
        except ValueError as error:
            yield number, str(error)


def checked(cost: Any, propensity: Any) -> tuple[float, float]:
    """A cost and a propensity as numbers that can be used."""
    try:
        loss, likely = float(cost), float(propensity)
    except (TypeError, ValueError):
        raise ValueError(f"cost and probability must be numbers, got {cost!r} and {propensity!r}") from None
    if not isfinite(loss):
        raise ValueError(f"the cost must be finite, got {cost}")
    if not 0 < likely <= 1:
        raise ValueError(f"the probability must be in (0, 1], got {propensity}")
    return loss, likely


def named(actions: list[Features]) -> list[Features]:
    """The same actions; those without features are known by their place, from 1."""
    return [found or {NUMBERED: str(place)} for place, found in enumerate(actions, 1)]


# -- dsjson -----------------------------------------------------------------------------------------------


def parse_dsjson(lines: list[str]) -> Decided | None:
    """One decision in one JSON object; None for what vowpalwabbit does not learn from either."""
    try:
        event = json.loads(lines[0])
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise ValueError("must be one JSON object, got something else")
    if "_label_cost" not in event or event.get("_skipLearn"):
        return None
    if event.get("pdrop"):
        raise ValueError(f"pdrop must be 0, because a row is one decision, got {event['pdrop']}")
    shared = event.get("c")
    offered = shared.get("_multi") if isinstance(shared, dict) else None
    if not isinstance(shared, dict) or not isinstance(offered, list) or not offered or "_slots" in shared:
        raise ValueError("must have its actions in c._multi, and no slots")
    cost, propensity = checked(event["_label_cost"], event.get("_label_probability"))
    played = place_of(event, len(offered))
    actions = [flat(action) for action in offered]
    return Decided(flat(shared), named(actions), played, cost, propensity, time=event.get("Timestamp"))


def place_of(event: dict[str, Any], count: int) -> int:
    """Which of the actions was played: both keys must say the same where both are there."""
    action, index = event.get("_label_Action"), event.get("_labelIndex")
    place = index if action is None else action - 1 if isinstance(action, int) else action
    if not isinstance(place, int) or not 0 <= place < count or (index is not None and index != place):
        raise ValueError(
            f"_label_Action must be in [1, {count}] and one more than _labelIndex, got {action} and {index}"
        )
    return place


def flat(value: Any) -> Features:
    """Features by their dotted names. Without what is null or false, which is no feature, and `_` keys."""
    found: Features = {}
    collect(found, "", value)
    return found


def collect(found: Features, path: str, value: Any) -> None:
    """Add a value, and what is in it, to features."""
    if isinstance(value, dict):
        for key, part in value.items():
            name = f"{path}.{key}" if path else key
            if key[:1] != "_":
                collect(found, name, part)
            elif key == "_text" and isinstance(part, str):
                for word in part.split():
                    add(found, f"{path}.{word}" if path else word, 1.0)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            if isinstance(item, str):
                add(found, f"{path}.{item}", 1.0)
            else:
                collect(found, f"{path}.{place}", item)
    elif isinstance(value, str):
        add(found, path, value)
    elif value is not None and value is not False:
        if not isfinite(value):
            raise ValueError(f"feature {path!r} must be finite, got {value}")
        add(found, path, float(value))


def add(found: Features, name: str, value: float | str) -> None:
    """One feature: numbers of the same name are added, as vowpalwabbit does."""
    before = found.get(name)
    if before is None:
        found[name] = value
    elif isinstance(before, str) or isinstance(value, str):
        raise ValueError(f"feature {name!r} must be there once, got {before!r} and {value!r}")
    else:
        found[name] = before + value


# -- text -------------------------------------------------------------------------------------------------


def has_blocks(path: Path) -> bool:
    """Whether a decision is a block of lines between empty ones (`--cb_adf`), and not one line (`--cb`)."""
    looked = [line.strip() for line in islice(read_lines(path), LOOKED_AT)]
    return any(line.split("|")[0].split()[:1] == ["shared"] for line in looked) or "" in looked[:-1]


def blocks(path: Path, *, several: bool) -> Iterator[tuple[int, list[str]]]:
    """Lines between empty ones, or each line by itself, with the number of the first."""
    start, block = 1, list[str]()
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            start = start if block else number
            block.append(line)
        if block and not (several and line.strip()):
            yield start, block
            block = []
    if block:
        yield start, block


def parse_block(lines: list[str]) -> Decided | None:
    """One decision of several lines: what they share, and one line for each action."""
    found = [split_line(line) for line in lines]
    context: Features = {}
    if found[0][0][:1] == ["shared"]:
        context, found = found[0][1], found[1:]
    labels = [(place, words) for place, (words, _) in enumerate(found) if words]
    if not labels:
        return None
    if len(labels) > 1:
        raise ValueError(f"must have one action with a cost in each block, got {len(labels)}")
    place, words = labels[0]
    _, cost, propensity = label_of(words, 1)
    return Decided(context, named([features for _, features in found]), place, cost, propensity)


def parse_line(lines: list[str]) -> Decided | None:
    """One decision in one line: numbered actions, one of them with a cost."""
    words, context = split_line(lines[0])
    costs = [word for word in words if ":" in word]
    if not costs:
        return None
    action, cost, propensity = label_of(costs, 1)
    offered = list(dict.fromkeys(word.split(":")[0] for word in words))
    if any(not word.isdigit() or word == "0" for word in offered):
        raise ValueError(f"actions must be numbers from 1, got {' '.join(offered)}")
    actions: list[Features] = [{NUMBERED: str(int(word))} for word in offered]
    return Decided(context, actions, offered.index(action), cost, propensity, every=len(offered) == 1)


def label_of(words: list[str], count: int) -> tuple[str, float, float]:
    """The action, the cost and the propensity of the only label."""
    parts = words[0].split(":")
    if len(words) != count or len(parts) != 3:
        raise ValueError(f"must have one label action:cost:probability, got {' '.join(words)}")
    return (parts[0], *checked(*parts[1:]))


def split_line(line: str) -> tuple[list[str], Features]:
    """The words before the first bar, without the tag, and the features after it."""
    head, bar, rest = line.partition("|")
    if not bar:
        raise ValueError("must have a bar (|) before its features, got none")
    words = head.split()
    if words and (head[-1] not in " \t" or words[-1].startswith("'")) and words[-1] != "shared":
        words = words[:-1]  # the tag, which touches the bar or starts with a quote
    found: Features = {}
    for part in rest.split("|"):
        read_namespace(found, part)
    return words, found


def read_namespace(found: Features, text: str) -> None:
    """The features of one namespace, whose name touches the bar.

    `age:30` is a number, `country=NO` a level, `member` is 1 where it is there.
    """
    words = text.split()
    prefix = words.pop(0) if words and text[0] not in " \t" else ""
    prefix, colon, scale = prefix.partition(":")
    if colon and as_number(scale) != 1:
        raise ValueError(f"the weight of namespace {prefix!r} must be 1, got {scale}")
    start = f"{prefix}." if prefix else ""
    for word in words:
        name, colon, value = word.rpartition(":")
        if colon:
            add(found, start + name, as_number(value))
            continue
        name, equals, level = word.partition("=")
        add(found, start + name, level if equals else 1.0)


def as_number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ValueError(f"the value of a feature must be a finite number, got {text!r}")
    return value
