"""A decision, and the checks that it and its reward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from math import isfinite
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints, Records, reader
from linoto.core.validation import (
    LARGEST,
    as_arm,
    as_arms,
    as_floats,
    as_reward,
    check_choice,
    check_count,
    exact,
    is_number,
)

SOURCES = ("explorer", "lcb", "mixture", "fixed", "control")  # in the order of the kernels' codes
SOURCES_IN_ROUNDS = ("explorer", "lcb", "practice", "fixed", "control")  # where rounds bring their own arms
BY_PRACTICE = ("mixture", "practice", "control")  # sources whose plays are practice's own
MODES = ("explore", "safe")
new, set_field = object.__new__, object.__setattr__
of_rewards = reader(kernels.PARAMS, "bounded", "low", "unit")
OF_A_ROUND = ("action", "practice")  # fields of a decision whose round brought its arms
UNREAD = {"action": "_action", "practice": "_practice"}  # where they are until they are read


def source_code(source: str) -> int:
    """The kernels' code of a source."""
    return SOURCES.index("mixture" if source == "practice" else source)


class NoSafeArm(ValueError):  # noqa: N818 - a refusal of the round, not a mistake
    """The gate refused every allowed arm, and no allowed arm is safe to fall back on."""


class WhenRead:
    """A field whose value is made when it is first read: d numbers take longer to write than to decide.

    It is kept as a function and its arguments under the name that `UNREAD` has for it, see `Decision.of`.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.unread = name, UNREAD[name]

    def __get__(self, decision: Any, owner: type | None = None) -> Any:
        if decision is None:
            return None  # the default of the field
        known = vars(decision)
        if self.unread not in known:
            return None
        make, *of = known[self.unread]
        return known.setdefault(self.name, make(*of))


def when_read() -> Any:
    """The default of such a field, which is None."""
    return WhenRead()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to play this round, and why.

    Where the round brought its arms it holds all that its reward needs, so nothing else has to be kept until
    that comes. `to_dict` is plain JSON data, and `from_dict` reads it back, bit for bit.
    """

    arm: int  # None only where practice's own action is played, which is none of the round's arms
    mode: Literal["explore", "safe"]
    source: Literal["explorer", "lcb", "mixture", "practice", "fixed", "control"]
    proposal: int  # the explorer's favourite before the gate, or the caller's
    fallback: int | None  # the safe arm; None: none is allowed, it is none of the arms, or it was not drawn
    budget: float | None  # room of the arm the gate was asked about; None where there is no gate
    round: int  # the round it is for: a decision is committed then or not at all
    control_share: float | None = None  # how likely this round was a control play; None: no coin was thrown
    centre: float | None = None  # about what practice earned then: a Control gate weighs the reward with it
    centres: tuple[float, ...] | None = None  # the same for each guardrail
    changes: int = 0  # how often the arms had changed: a change makes a decision that is not yet played stale
    name: str | None = None  # of the arm, where arms have names
    action: tuple[float, ...] | None = when_read()  # (d,) what is played, where the round brought it
    practice: tuple[float, ...] | None = when_read()  # (d,) what practice does; None: there is none

    @classmethod
    def of(cls, values: dict[str, Any]) -> Decision:
        """A decision in a quarter of the time: a frozen record sets its fields one by one.

        What is left out is the default, which the class has. The values are kept as they are. `_action` and
        `_practice` are functions that make these where they are read, with their arguments.
        """
        decision = new(cls)
        set_field(decision, "__dict__", values)
        return decision

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: the fields that a decision of its kind has."""
        without = OF_A_ROUND if self.action is None else ("changes",)
        without = without if self.centres is not None else (*without, "centres")
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in data.items()
            if name not in without
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Decision:
        """The decision that `to_dict` wrote."""
        known, given = [field.name for field in fields(cls)], dict(data)
        needed = {name for name in known if name not in DEFAULTS}
        odd = sorted((set(given) - set(known)) | (needed - set(given)))
        if odd:
            raise ValueError(
                f"decision must have the fields {', '.join(known)}, got {odd[0]} too many or missing"
            )
        for name in ("action", "practice", "centres"):
            if given.get(name) is not None:
                given[name] = tuple(as_floats(name, given[name], ndim=1).tolist())
        decision = cls(**given)
        check_choice("source", decision.source, (*SOURCES, "practice"))
        check_choice("mode", decision.mode, MODES)
        check_count("round", decision.round)
        for name in ("budget", "control_share", "centre"):
            value = getattr(decision, name)
            if value is not None and not is_number(value):
                raise ValueError(f"{name} must be a number or None, got {value!r}")
        return decision

    @property
    def by_practice(self) -> bool:
        """Whether it is practice that is played, in its own name: such plays are counted apart."""
        return self.source in BY_PRACTICE

    def vectors(self, d: int) -> tuple[Floats, Floats]:
        """What is played and what practice does, each (d,); the same where there is no practice."""
        action = np.array(self.action or (), dtype=np.float64)  # kernels take that on trust
        if action.shape != (d,):
            raise ValueError(f"decision must have an action of {d} features, got {action.size}")
        check_size("an action", action)
        if self.practice is None:
            return action, action
        practice = np.array(self.practice, dtype=np.float64)
        if practice.shape != (d,):
            raise ValueError(f"decision must have a practice of {d} features, got {len(self.practice)}")
        check_size("a practice", practice)
        return action, practice


DEFAULTS = {field.name: field.default for field in fields(Decision) if field.default is not MISSING}


def check_size(name: str, vector: Floats) -> None:
    """Refuse features that no question could have."""
    if not np.vdot(vector, vector) < LARGEST:  # a number that is none, too
        raise ValueError(f"decision must have {name} of numbers of a size below {LARGEST**0.5:g}, got others")


def check_decision(decision: Any) -> None:
    """Refuse anything else."""
    if not isinstance(decision, Decision):
        raise ValueError(f"decision must be a Decision, got {type(decision).__name__}")


def check_round(decision: Decision, current: int) -> None:
    """Refuse a stale decision: two of one round would spend the same room twice (H8)."""
    check_decision(decision)
    if decision.round != current:
        raise ValueError(f"decision must be of round {current}, got one of round {decision.round}")


@lru_cache(maxsize=64)
def limits_from(low: float, unit: float) -> tuple[float, float]:
    """The range of rewards, as it was said: 0.2 + (0.9 - 0.2) < 0.9."""
    return low, float(f"{low + unit:.15g}")


def check_reward(params: Records, reward: Any) -> float:
    """One reward: a finite number, inside the range that rewards are said never to leave."""
    value = reward if type(reward) is float and isfinite(reward) else as_reward(reward)
    bounded, least, unit = of_rewards(params)
    if not bounded:
        return value
    low, high = limits_from(least, unit)
    nearest = min(max(value, low), high)
    if abs(value - nearest) > 1e-15 * (abs(low) + abs(high)):
        raise ValueError(f"reward must be in [{exact(low)}, {exact(high)}], got {exact(value)}")
    return nearest


def credit(decision: Decision | int, counts: Ints, mixture: bool | None = None) -> tuple[int, bool]:
    """Whose reward this is: the arm, and whether its play was for the mixture, as the books or it may say."""
    k = counts.shape[1]
    if isinstance(decision, Decision):
        arm = as_arm(decision.arm, k)
        mixture = decision.by_practice if mixture is None else mixture
        owed = counts.item(kernels.PENDING_MIXTURE if mixture else kernels.PENDING, arm)
    else:
        arm = as_arm(decision, k)
        mixture = bool(counts[kernels.PENDING, arm] == 0)
        owed = counts[kernels.PENDING, arm] + counts[kernels.PENDING_MIXTURE, arm]
    if owed == 0:
        raise ValueError(f"arm must have a committed play that awaits its reward, got {arm}, which has none")
    return arm, mixture


def as_mask(allowed: npt.ArrayLike, k: int) -> Bools:
    """The allowed arms as a mask (k,), from indices or a mask; at least one."""
    array = np.asarray(allowed)
    if array.dtype == np.bool_:
        if array.shape != (k,):
            raise ValueError(
                f"allowed must be arm indices or a mask of shape ({k},), got shape {array.shape}"
            )
        mask = array.copy()
    else:
        mask = np.zeros(k, dtype=np.bool_)
        mask[as_arms("allowed", array, k)] = True
    if not mask.any():
        raise ValueError("allowed must hold at least one arm, got none")
    return mask
