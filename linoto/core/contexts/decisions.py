"""A decision in a context: what to play, why, and everything that its reward will need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.validation import as_floats, check_choice, check_count, is_number

SOURCES = ("explorer", "lcb", "practice", "fixed", "control")  # in the order of the kernels' codes
BY_PRACTICE = ("practice", "control")  # sources whose plays are practice's own: they are owed nothing
MODES = ("explore", "safe")


@dataclass(frozen=True, kw_only=True)
class ContextualDecision:
    """What to play this round, and why.

    It holds all that its reward needs, so nothing else has to be kept until that comes: `to_dict` is plain
    JSON data, and `from_dict` reads it back, bit for bit.
    """

    arm: int | None  # of this round's arms; None: practice's own action, which is not among them
    name: str | None  # of the arm, where the arms have names
    mode: Literal["explore", "safe"]
    source: Literal["explorer", "lcb", "practice", "control"]
    proposal: int  # the explorer's favourite before the gate, or the caller's
    fallback: int | None  # the safe arm; None: practice's own action, there is none, or it was not drawn
    budget: float | None  # room of the arm the gate was asked about; None where there is no gate
    round: int  # the round it is for: a decision is committed then or not at all
    action: tuple[float, ...]  # (d,) the features of what is played
    practice: tuple[float, ...] | None  # (d,) those of what practice does; None: there is none
    control_share: float | None = None  # how likely this round was a control play; None: no coin was thrown
    centre: float | None = None  # about what practice earned then: a Control gate weighs the reward with it

    @classmethod
    def of(cls, **values: Any) -> ContextualDecision:
        """A decision from all its fields, in a third of the time: a frozen record sets them one by one."""
        decision = object.__new__(cls)
        decision.__dict__.update(values)
        return decision

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("action", "practice"):
            data[name] = None if data[name] is None else list(data[name])
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextualDecision:
        """The decision that `to_dict` wrote."""
        known, given = [field.name for field in fields(cls)], dict(data)
        if set(given) != set(known):
            odd = sorted(set(given) ^ set(known))[0]
            raise ValueError(
                f"decision must have the fields {', '.join(known)}, got {odd} too many or missing"
            )
        for name in ("action", "practice"):
            if given[name] is not None:
                given[name] = tuple(as_floats(name, given[name], ndim=1).tolist())
        decision = cls(**given)
        check_choice("source", decision.source, SOURCES)
        check_choice("mode", decision.mode, MODES)
        check_count("round", decision.round)
        for name in ("budget", "control_share", "centre"):
            value = getattr(decision, name)
            if value is not None and not is_number(value):
                raise ValueError(f"{name} must be a number or None, got {value!r}")
        return decision

    @property
    def by_practice(self) -> bool:
        """Whether it is practice that is played."""
        return self.source in BY_PRACTICE

    def vectors(self, d: int) -> tuple[Floats, Floats]:
        """What is played and what practice does, each (d,); the same where there is no practice."""
        action = np.array(self.action)
        if action.shape != (d,):
            raise ValueError(f"decision must have an action of {d} features, got {len(self.action)}")
        if self.practice is None:
            return action, action
        practice = np.array(self.practice)
        if practice.shape != (d,):
            raise ValueError(f"decision must have a practice of {d} features, got {len(self.practice)}")
        return action, practice

    @property
    def entry(self) -> int:
        """What it is in the books of a Control gate."""
        if self.control_share is not None:
            return kernels.CONTROL_PLAY if self.source == "control" else kernels.EXPLORED_PLAY
        if self.source == "practice":
            return kernels.NO_ENTRY if self.arm == self.proposal else kernels.PRACTICE_PLAY
        return kernels.UNASKED_PLAY


def check_current(decision: ContextualDecision, current: int) -> None:
    """Refuse a stale decision: two of one round would spend the same room twice."""
    if not isinstance(decision, ContextualDecision):
        raise ValueError(f"decision must be a ContextualDecision, got {type(decision).__name__}")
    if decision.round != current:
        raise ValueError(f"decision must be of round {current}, got one of round {decision.round}")
