"""The gate of versions 0.1 and 0.2, for what they stored and to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.gates.tolerance import Tolerance
from linoto.core.offline import Offline
from linoto.core.validation import check_choice

BIASES = ("tight", "loose")
LEDGERS = ("joint", "union")
ROUNDINGS = ("low", "any")


@dataclass(frozen=True, kw_only=True)
class OlderTolerance(Tolerance):
    """A Tolerance as versions 0.1 and 0.2 had it: the same promise, which lets less be explored.

    `ledger="union"` bounds explored plays and the log's mean each by itself, "joint" together. `rounding` is
    what kappa knows: with "low" that arms whose average is low cannot all be high, with "any" nothing. `bias`
    is how the ridge's pull is bounded: along what was played ("tight"), or in every direction alike.
    """

    word = ""
    before: ClassVar[dict[str, str]] = {}
    gone: ClassVar[dict[str, str]] = {}

    bias: Literal["tight", "loose"] = "tight"
    ledger: Literal["joint", "union"] = "union"
    rounding: Literal["low", "any"] = "any"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("bias", self.bias, BIASES)
        check_choice("ledger", self.ledger, LEDGERS)
        check_choice("rounding", self.rounding, ROUNDINGS)

    @property
    def knows_low_arms(self) -> bool:
        return self.rounding == "low"

    def shares(self, by_model: bool, by_rewards: bool) -> tuple[float, float, float]:
        """A union of events needs all three to sum to 1, and both sides of a relative reference."""
        of_model, boundary, reference = super().shares(by_model, by_rewards)
        if self.ledger == "joint":
            return of_model, boundary, reference
        reference = reference if self.promise == "realised" else boundary
        return of_model, boundary, reference / 2 if self.relative else reference

    def fill(self, p: np.void, confidence: Confidence, actions: Floats, offline: Offline) -> None:
        super().fill(p, confidence, actions, offline)
        p["loose_bias"] = self.bias == "loose"

    def fill_ledger(self, p: np.void, by_rewards: bool) -> None:
        super().fill_ledger(p, by_rewards and self.ledger == "joint")
        p["averaged"] = self.ledger == "joint"
