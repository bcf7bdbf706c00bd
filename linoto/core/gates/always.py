"""The two gates that never look: always open, never open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from linoto.core import kernels
from linoto.core.certificates import SAME_ROUNDS, Promise, Situation
from linoto.core.confidence import Confidence
from linoto.core.gates.gate import Gate, loss_without, safe_arm_promise


@dataclass(frozen=True, kw_only=True)
class Open(Gate):
    """Every arm is affordable: the explorer alone."""

    code = kernels.OPEN
    measures = False
    arms_may_change = True

    def needs_logged_arms(self, plays_mixture: bool) -> bool:
        return plays_mixture

    def why_no_rounds(self, confidence: Confidence) -> str | None:
        return None

    def bounds_sums(self, confidence: Confidence) -> bool:
        return False

    def reads_bounds(self, confidence: Confidence) -> bool:
        return False

    def why_unproven(self, situation: Situation) -> str:
        return f"an open gate promises nothing about {situation.against}"


@dataclass(frozen=True, kw_only=True)
class Closed(Gate):
    """No arm is affordable: the fallback alone."""

    code = kernels.CLOSED
    measures = False
    needs_every_arm = True
    arms_may_change = True

    def why_no_rounds(self, confidence: Confidence) -> str | None:
        return None

    def bounds_sums(self, confidence: Confidence) -> bool:
        return False

    def why_unproven(self, situation: Situation) -> str:
        if situation.against == SAME_ROUNDS and situation.fallback != "mixture":
            return "the pessimistic arm is not compared with practice"
        return ""

    def counts_control(self, plays_mixture: bool) -> bool:
        return plays_mixture  # then it plays nothing else

    def promised(self, situation: Situation) -> Promise:
        return safe_arm_promise(situation)

    def per_round_after(self, situation: Situation) -> float | None:
        state, fallback = situation.state, situation.fallback
        if state is None or fallback == "mixture":
            return None
        lcb = state.arms[kernels.LCB]
        if isinstance(fallback, int):
            return loss_without(situation, float(lcb[fallback]))
        bounds = state.arms[kernels.FIRST_LCB] if fallback == "frozen" else lcb
        arm = int(np.where(state.counts[kernels.ALLOWED] == 1, bounds, -np.inf).argmax())
        return loss_without(situation, float(lcb[arm]))
