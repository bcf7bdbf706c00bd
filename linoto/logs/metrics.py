"""Columns of a log that are guardrails: as they are asked for, and as the log shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import TYPE_CHECKING, Any

from linoto.core.guardrail import Guardrail, as_guardrails
from linoto.core.hints import nearest
from linoto.core.validation import exact

if TYPE_CHECKING:
    from linoto.logs.queries import Columns

FORM = (
    "COLUMN:lower or COLUMN:higher, with :budget=AMOUNT, :rate=AMOUNT, :range=LOW..HIGH or :bound=LENGTH "
    "behind it"
)
DIRECTIONS = {"lower": True, "higher": False}
SETTINGS = ("budget", "rate", "range", "bound")


@dataclass(frozen=True)
class AskedGuardrail:
    """A guardrail as far as it was said; the rest is in the log, or was said when the log was read.

    >>> AskedGuardrail.of("complaints:lower:budget=20").budget
    20.0
    """

    name: str
    lower_is_better: bool | None = None
    budget: float | None = None
    rate: float | None = None
    reward_range: tuple[float, float] | None = None
    bound: float | None = None

    @classmethod
    def of(cls, text: str) -> AskedGuardrail:
        """As it is written in one word."""
        name, parts = parts_of(text)
        if not name.strip():
            raise ValueError(f"a guardrail must be {FORM}, got {text!r}")
        said: dict[str, Any] = {}
        for part in parts:
            key, value = setting_of(part, text)
            if key in said:
                raise ValueError(f"guardrail {name!r} must say its {words_of(key)} once, got {text!r}")
            said[key] = value
        return cls(name, **said)

    @classmethod
    def as_is(cls, rail: Guardrail) -> AskedGuardrail:
        """One of which everything is known."""
        return cls(**{field.name: getattr(rail, field.name) for field in fields(cls)})

    @property
    def said(self) -> dict[str, Any]:
        """What was said of it."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def over(self, known: Guardrail) -> Guardrail:
        """A guardrail that is known, with what was said now; what was not said stays."""
        low, high = self.reward_range or known.reward_range
        if known.mean is not None and not low <= known.mean <= high:
            raise ValueError(
                f"guardrail {self.name!r}: its range must hold the mean in the log, {exact(known.mean)}, got "
                f"{exact(low)}..{exact(high)}"
            )
        return replace(known, **self.said)

    def check_direction(self) -> None:
        """Refuse one that does not say what is better: the wrong one would promise the opposite."""
        if self.lower_is_better is None:
            raise ValueError(f"guardrail {self.name!r} must say whether lower or higher is better: {FORM}")

    def alone(self) -> Guardrail:
        """The guardrail where no log says more of it."""
        self.check_direction()
        if self.reward_range is None:
            raise ValueError(
                f"guardrail {self.name!r} must have a range, got none and no values of it: give "
                f"{self.name}:{'lower' if self.lower_is_better else 'higher'}:range=LOW..HIGH"
            )
        return Guardrail(**self.said)

    def in_log(self, extent: tuple[float, float], *, binary: bool, mean: float, where: str) -> Guardrail:
        """The guardrail with what a log says: the range of values that are 0 or 1, and practice's mean."""
        low, high = extent
        if self.reward_range is None and not binary:
            raise ValueError(
                f"guardrail {self.name!r} must have a range, got none, and its values in {where} are from "
                f"{exact(low)} to {exact(high)}: say the ends that no value can leave, as range=LOW..HIGH"
            )
        limits = self.reward_range or (0.0, 1.0)
        made = replace(self, reward_range=limits).alone()
        return replace(made, mean=min(max(mean, made.reward_range[0]), made.reward_range[1]))


def parts_of(text: str) -> tuple[str, list[str]]:
    """The column, whose name may have colons, and the settings behind it; refuses one that looks misspelt.

    >>> parts_of("shop:complaints:lower:budget=20")
    ('shop:complaints', ['lower', 'budget=20'])
    """
    name, *parts = text.split(":")
    behind: list[str] = []
    while parts and is_setting(parts[-1]):
        behind.insert(0, parts.pop())
    directed = any(part in DIRECTIONS for part in behind)
    for part in parts:
        typo = not directed and nearest(part, DIRECTIONS)
        if typo or "=" in part or part in (*DIRECTIONS, *SETTINGS):
            unknown = next(part for part in reversed(parts) if not is_setting(part))
            raise ValueError(f"guardrail {text!r} has a part {unknown!r} that is not known{meant(unknown)}")
    return ":".join((name, *parts)), behind


def is_setting(part: str) -> bool:
    """Whether a part is a direction or a setting that is known."""
    key, mark, _ = part.partition("=")
    return part in DIRECTIONS or (mark == "=" and key in SETTINGS)


def meant(part: str) -> str:
    """What was probably meant by a part that is not known, as the end of a sentence."""
    return nearest(part.partition("=")[0], (*DIRECTIONS, *SETTINGS)) or f": it must be {FORM}"


def setting_of(part: str, text: str) -> tuple[str, Any]:
    """One of the settings behind the name of a column."""
    if part in DIRECTIONS:
        return "lower_is_better", DIRECTIONS[part]
    key, _, value = part.partition("=")
    try:
        found = [float(end) for end in value.split("..")] if key == "range" else [float(value)]
    except ValueError:
        found = []
    if key == "range" and len(found) == 2 and -inf < found[0] < found[1] < inf:
        return "reward_range", (found[0], found[1])
    if key != "range" and found and 0 <= found[0] < inf and (key != "bound" or found[0] > 0):
        return key, found[0]
    forms = {"range": "LOW..HIGH with LOW below HIGH, such as 0..1", "bound": "a number > 0"}
    form = forms.get(key, "a number >= 0")
    raise ValueError(f"guardrail {text!r}: its {key} must be {form}, got {value!r}")


def words_of(key: str) -> str:
    """A setting as messages call it."""
    return {"lower_is_better": "direction", "reward_range": "range"}.get(key, key)


def asked_guardrails(given: Any) -> tuple[AskedGuardrail, ...]:
    """Guardrails as they are asked for: as `linoto.Guardrail`, or written in a word."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"guardrails must be a list of linoto.Guardrail, got {type(given).__name__}")
    found = [AskedGuardrail.of(rail) if isinstance(rail, str) else rail for rail in given]
    as_guardrails([rail for rail in found if not isinstance(rail, AskedGuardrail)])
    asked = tuple(AskedGuardrail.as_is(rail) if isinstance(rail, Guardrail) else rail for rail in found)
    names = [rail.name for rail in asked]
    if len(set(names)) < len(names):
        raise ValueError(f"guardrails must have names of their own, got {', '.join(names)}")
    return asked


def restated(known: Sequence[Guardrail], asked: Sequence[AskedGuardrail]) -> tuple[Guardrail, ...]:
    """Guardrails of a log with what is said of them now, and others of which the log knows nothing."""
    said = {rail.name: rail for rail in asked}
    kept = [said.pop(rail.name).over(rail) if rail.name in said else rail for rail in known]
    for name in said:
        if hint := nearest(name, [rail.name for rail in known]):
            raise ValueError(f"there is no guardrail {name!r} in the statistics{hint}")
    return (*kept, *(rail.alone() for rail in said.values()))


def check_metric(name: str, columns: Columns) -> None:
    """Refuse a metric that is something else too."""
    if name == columns.reward:
        raise ValueError(f"guardrail {name!r} must be another column than the reward, got the same")
    others = (columns.item, columns.propensity, columns.time)
    if name in others or any(name in column.reads for column in columns.context):
        raise ValueError(
            f"guardrail {name!r} must be a column of its own, got one that is read before a play"
        )


SAID_OF_VALUES = {r"\breward": "value", r"\bearned\b": "had", r"\bearn\b": "have", r"\bearns\b": "has"}


def in_values(text: str) -> str:
    """A sentence of a test of rewards, said of values."""
    for pattern, word in SAID_OF_VALUES.items():
        text = re.sub(pattern, word, text)
    return text
