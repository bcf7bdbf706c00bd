"""The gate that `Gated` takes where none is given."""

from __future__ import annotations

from typing import Any

from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Gate, Tolerance

USUAL_BUDGET, USUAL_SHARE = 100.0, 0.02


def usual_gate(confidence: Confidence) -> Tolerance:
    """What `Gated` takes where no gate is given: what 100 rounds are worth may be lost.

    Where rewards cannot be negative (a `reward_range` from 0 or above) a round is worth the log's mean
    reward, and 2 % of that may be lost per round besides: rare clicks need it. Elsewhere a round is worth the
    noise scale.
    """
    if confidence.reward_range is not None and confidence.reward_range[0] >= 0:
        return Tolerance(budget=USUAL_BUDGET, epsilon=USUAL_SHARE, relative=True)
    return Tolerance(budget=USUAL_BUDGET * confidence.scale)


def usual_contextual_gate(confidence: Confidence) -> Gate:
    """The same with contexts, in units of the noise: a log's mean is no reference where rounds differ.

    Where the range of rewards is known it is a Control gate: that a linear model holds in every context is
    more than most can say, and the coin needs no model.
    """
    budget = USUAL_BUDGET * confidence.scale
    if confidence.reward_range is None:
        return Tolerance(budget=budget, evidence="model")
    low, high = confidence.reward_range
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"
    return Control(budget=max(budget, high - low), promise=promise)
