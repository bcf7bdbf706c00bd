"""The gate that `Gated` takes where none is given: what 100 rounds are worth may be lost."""

from __future__ import annotations

from math import inf

from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates import Control, Gate, Tolerance


def default_gate(confidence: Confidence) -> Gate:
    """That of arms that stay the same."""
    return Tolerance().usual(confidence)


def default_gate_in_rounds(moments: Moments, confidence: Confidence) -> Gate:
    """That of rounds that bring their own arms, for what this log of their features earned.

    A round is worth the noise: the log's mean is no reference where rounds differ. If the range of rewards is
    known, it is a Control gate, because a coin needs no model, and few can say that a linear one holds in
    every context.
    """
    if confidence.reward_range is None:
        return Tolerance(evidence="model").usual(confidence)
    earned = moments.reward_sum if moments.count else inf
    return Control().usual(confidence, earned=earned, rows=moments.count)
