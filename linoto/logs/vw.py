"""A vowpalwabbit contextual log as a table: one row per decision, and a table of its actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from linoto.core.cells import text_of
from linoto.core.features.columns import in_order
from linoto.core.hints import shortened_list
from linoto.logs.arms import ArmTable
from linoto.logs.values import Transcript
from linoto.logs.vw_lines import NUMBERED, Decided, Features, read_decisions

MOST_ACTIONS = 10_000
OURS = ("item", "reward", "propensity", "time", "candidates")  # columns that every such table has
ABSENT = "(none)"  # the level of an action without a word that other actions have
COSTS = "vowpalwabbit logs costs: a reward is minus the cost"


class Row(NamedTuple):
    """A decision whose actions are known by their numbers."""

    item: int
    decided: Decided
    offered: tuple[int, ...]  # nothing: every action


Read = tuple[Path, list[Row], list[tuple[int, str]]]
"""A file, its decisions, and the lines from 0 that cannot be used with what is wrong with them."""


@dataclass(kw_only=True)
class Actions:
    """Every action of a log: known by one feature, or by all of them."""

    id: str | None
    numbers: dict[Any, int] = field(default_factory=dict)
    features: list[Features] = field(default_factory=list)
    varying: set[str] = field(default_factory=set)  # features that differ between rows of one action

    def key(self, action: Features) -> Any:
        """What an action is known by."""
        if self.id is None:
            return tuple(sorted(action.items()))
        if self.id not in action:
            raise ValueError(f"every action must have the feature {self.id!r}, got one without")
        return text_of(action[self.id])

    def number(self, key: Any, action: Features) -> int:
        """Which action this is: a new one where it was not met before."""
        if key not in self.numbers:
            self.numbers[key] = len(self.features)
            self.features.append(action)
        number = self.numbers[key]
        if self.id is not None:
            self.varying |= {name for name, _ in action.items() ^ self.features[number].items()}
        return number

    def row(self, decided: Decided) -> Row:
        """A decision with the numbers of its actions; one that is refused adds no action."""
        keys = [self.key(action) for action in decided.actions]
        if len(set(keys)) < len(keys):
            raise ValueError("the actions of a decision must differ, got two that are the same")
        offered = tuple(map(self.number, keys, decided.actions))
        return Row(offered[decided.played], decided, () if decided.every else offered)

    def names(self) -> list[str]:
        """A name for each: the only feature's value where there is one feature, else all of them."""
        if self.id is not None:
            return list(self.numbers)
        lone = len({name for features in self.features for name in features}) == 1
        return [
            ", ".join(text_of(value) if lone else f"{name}={text_of(value)}" for name, value in found.items())
            for found in self.features
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class VWLog:
    """What was found in the files of a log."""

    transcripts: list[Transcript]
    actions: Actions
    numeric: tuple[str, ...]  # columns of the context
    categories: tuple[str, ...]
    varied: bool  # not every action could be played in every row
    timed: bool
    notes: tuple[str, ...]

    def arm_table(self, *, intercept: bool, normalise: bool, arm_effects: bool | None = None) -> ArmTable:
        """The actions as arms; those without features have an effect each."""
        found = self.actions
        hidden = found.varying | {found.id}
        kept = [
            {name: value for name, value in features.items() if name not in hidden}
            for features in found.features
        ]
        numbers, words = kinds_of(kept)
        if not numbers and words in ([], [NUMBERED]):
            names = in_order(found.names())
            return ArmTable.from_columns(
                {"item": names, NUMBERED: names}, intercept=False, categorical=[NUMBERED], where="actions"
            )
        column = {name: renamed(name, OURS, "action") for name in numbers + words}
        table: dict[str, list[Any]] = {"item": found.names()}
        table |= {column[name]: filled(kept, name, 0.0) for name in numbers}
        table |= {column[name]: filled(kept, name, ABSENT) for name in words}
        return ArmTable.from_columns(
            table,
            intercept=intercept,
            normalise=normalise,
            categorical=[column[name] for name in words],
            arm_effects=arm_effects,
            where="actions",
        )


def read_vw(paths: Sequence[Path], format: str, id: str | None) -> VWLog:
    """Read every decision of these files."""
    actions, found, notes = Actions(id=id), list[Read](), [COSTS]
    unlabelled = 0
    for path in paths:
        rows: list[Row] = []
        wrong: list[tuple[int, str]] = []
        for line, decided in read_decisions(path, format):
            unlabelled += decided is None
            try:
                rows += [actions.row(decided)] if isinstance(decided, Decided) else []
            except ValueError as error:
                decided = str(error)
            wrong += [(line - 1, decided)] if isinstance(decided, str) else []
            if len(actions.features) > MOST_ACTIONS:
                raise ValueError(
                    f"{path} must have at most {MOST_ACTIONS:,} different actions, got more: name the "
                    "feature that tells them apart (id)"
                )
        found.append((path, rows, wrong))
    refuse_nothing(found)
    if unlabelled:
        notes.append(f"{unlabelled:,} decisions without a cost were left out")
    if actions.varying:
        notes.append(
            f"features of actions that change were left out: {shortened_list(sorted(actions.varying))}"
        )
    return assembled(actions, found, notes)


def refuse_nothing(found: Sequence[Read]) -> None:
    """Refuse a log without one decision that can be used."""
    if any(rows for _, rows, _ in found):
        return
    for path, _, wrong in found:
        for line, text in wrong:
            raise ValueError(f"{path}, line {line + 1}: {text}")
    raise ValueError(f"{found[0][0]} must have at least one decision with a cost, got none")


def assembled(actions: Actions, found: Sequence[Read], notes: list[str]) -> VWLog:
    """Decisions as tables with the same columns."""
    every = [row for _, rows, _ in found for row in rows]
    numbers, words = kinds_of([row.decided.context for row in every])
    taken = {*OURS, NUMBERED, *(name for features in actions.features for name in features)}
    table = Table(
        numbers={name: renamed(name, taken, "context") for name in numbers},
        words={name: renamed(name, taken, "context") for name in words},
        names=actions.names(),
        varied=any(row.offered and len(row.offered) < len(actions.features) for row in every),
        timed=bool(every) and all(row.decided.time is not None for row in every),
    )
    return VWLog(
        transcripts=[
            Transcript(str(path), table.of(rows), len(wrong), wrong[0] if wrong else None)
            for path, rows, wrong in found
        ],
        actions=actions,
        numeric=tuple(table.numbers.values()),
        categories=tuple(table.words.values()),
        varied=table.varied,
        timed=table.timed,
        notes=tuple(notes),
    )


class Table(NamedTuple):
    """The columns of a log."""

    numbers: dict[str, str]  # the name of a column by feature
    words: dict[str, str]
    names: list[str]  # of the actions
    varied: bool
    timed: bool

    def of(self, rows: Sequence[Row]) -> dict[str, list[Any]]:
        """Some decisions, by column."""
        contexts = [row.decided.context for row in rows]
        columns: dict[str, list[Any]] = {
            "item": [self.names[row.item] for row in rows],
            "reward": [0.0 - row.decided.cost for row in rows],  # not -0
            "propensity": [row.decided.propensity for row in rows],
        }
        if self.timed:
            columns["time"] = [row.decided.time for row in rows]
        if self.varied:
            listed = {row.offered: json.dumps([self.names[place] for place in row.offered]) for row in rows}
            listed[()] = json.dumps(self.names)
            columns["candidates"] = [listed[row.offered] for row in rows]
        columns |= {column: filled(contexts, name, 0.0) for name, column in self.numbers.items()}
        return columns | {column: filled(contexts, name, None) for name, column in self.words.items()}


def kinds_of(rows: Sequence[Features]) -> tuple[list[str], list[str]]:
    """The names of features: those that are always numbers, and those that are words somewhere."""
    names: dict[str, bool] = {}
    for row in rows:
        for name, value in row.items():
            names[name] = names.get(name, False) or isinstance(value, str)
    return [name for name, word in names.items() if not word], [name for name, word in names.items() if word]


def filled(rows: Sequence[Features], name: str, absent: Any) -> list[Any]:
    """A feature of all rows: a number that is absent is 0, as vowpalwabbit has it."""
    if isinstance(absent, float):
        return [row.get(name, absent) for row in rows]
    return [text_of(row[name]) if name in row else absent for row in rows]


def renamed(name: str, taken: Any, prefix: str) -> str:
    """A name that no other column has."""
    return f"{prefix}.{name}" if name in taken else name
