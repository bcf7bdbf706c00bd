"""The gate that `Gated` takes where none is given."""

from __future__ import annotations

from math import inf

from linoto.core.confidence import Confidence
from linoto.core.features.moments import Moments
from linoto.core.gates import Control, Gate, Tolerance
from linoto.core.offline import Offline


def usual_gate(confidence: Confidence, log: Offline | Moments | None = None) -> Gate:
    """What `Gated` takes where no gate is given: what 100 rounds are worth may be lost.

    With contexts (`Moments`) a round is worth the noise: the log's mean is no reference where rounds differ.
    If the range of rewards is known, it is then a Control gate, because a coin needs no model, and few can
    say that a linear one holds in every context.
    """
    if not isinstance(log, Moments):
        return Tolerance().usual(confidence)
    if confidence.reward_range is None:
        return Tolerance(evidence="model").usual(confidence)
    return Control().usual(confidence, earned=log.reward_sum if log.count else inf, rows=log.count)
