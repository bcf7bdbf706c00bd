"""The gate that `Gated` takes where none is given."""

from __future__ import annotations

from math import inf

from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Gate, Tolerance


def usual_gate(confidence: Confidence) -> Tolerance:
    """What `Gated` takes where no gate is given: what 100 rounds are worth may be lost."""
    return Tolerance().usual(confidence)


def usual_gate_in_rounds(confidence: Confidence, *, earned: float = inf, rows: int = 0) -> Gate:
    """The same with contexts, in units of the noise: a log's mean is no reference where rounds differ.

    Where the range of rewards is known it is a Control gate: that a linear model holds in every context is
    more than most can say, and the coin needs no model. `earned` is what the whole log earned in so many
    `rows`.
    """
    if confidence.reward_range is None:
        return Tolerance(evidence="model").usual(confidence)
    return Control().usual(confidence, earned=earned, rows=rows)
