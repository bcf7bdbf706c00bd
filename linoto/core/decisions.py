"""A decision, and the checks that it and its reward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import kernels
from linoto.core.arrays import Bools, Ints, Records
from linoto.core.validation import as_arm, as_arms, as_reward, exact

SOURCES = ("explorer", "lcb", "mixture", "fixed", "control")
PRACTICE = ("mixture", "control")  # sources whose plays are counted apart


class NoSafeArm(ValueError):  # noqa: N818 - a refusal of the round, not a mistake
    """The gate refused every allowed arm, and no allowed arm is safe to fall back on."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to play this round, and why."""

    arm: int
    mode: Literal["explore", "safe"]
    source: Literal["explorer", "lcb", "mixture", "fixed", "control"]
    proposal: int  # the explorer's favourite before the gate, or the caller's
    fallback: int | None  # the safe arm; None only where `allowed` holds no safe arm
    budget: float | None  # room of the arm the gate was asked about; None where there is no gate
    round: int  # the round it is for: a decision is committed then or not at all
    control_share: float | None = None  # how likely this round was a control play; None: no coin was thrown
    centre: float | None = None  # about what practice earned then: a Control gate weighs the reward with it
    changes: int = 0  # how often the arms had changed: a change makes a decision that is not yet played stale


def check_round(decision: Decision, current: int) -> None:
    """Refuse a stale decision: two of one round would spend the same room twice (H8)."""
    if decision.round != current:
        raise ValueError(f"decision must be of round {current}, got one of round {decision.round}")


def check_reward(params: Records, reward: Any) -> float:
    """One reward: a finite number, inside the range that rewards are said never to leave."""
    value, p = as_reward(reward), params[0]
    if not p["bounded"]:
        return value
    low, high = float(p["low"]), float(f"{p['low'] + p['unit']:.15g}")  # 0.2 + (0.9 - 0.2) < 0.9
    nearest = min(max(value, low), high)
    if abs(value - nearest) > 1e-15 * (abs(low) + abs(high)):
        raise ValueError(f"reward must be in [{exact(low)}, {exact(high)}], got {exact(value)}")
    return nearest


def credit(decision: Decision | int, counts: Ints) -> tuple[int, bool]:
    """Whose reward this is: the arm, and whether its play was for the mixture."""
    pending, mixed = counts[kernels.PENDING], counts[kernels.PENDING_MIXTURE]
    if isinstance(decision, Decision):
        arm, mixture = as_arm(decision.arm, pending.size), decision.source in PRACTICE
        owed = mixed[arm] if mixture else pending[arm]
    else:
        arm = as_arm(decision, pending.size)
        mixture = bool(pending[arm] == 0)
        owed = pending[arm] + mixed[arm]
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
