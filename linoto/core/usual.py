"""The gate that `Gated` takes where none is given."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Gate, Tolerance

USUAL_BUDGET, USUAL_SHARE = 100.0, 0.02
USUAL_PART = 0.1  # of what a whole log earned, beyond which no usual budget goes; a rate, of its mean


def usual_gate(confidence: Confidence) -> Tolerance:
    """What `Gated` takes where no gate is given: what 100 rounds are worth may be lost.

    Where rewards cannot be negative (a `reward_range` from 0 or above) a round is worth the log's mean
    reward, and 2 % of that may be lost per round besides: rare clicks need it. Elsewhere a round is worth the
    noise scale.
    """
    if confidence.reward_range is not None and confidence.reward_range[0] >= 0:
        return Tolerance(budget=USUAL_BUDGET, epsilon=USUAL_SHARE, relative=True)
    return Tolerance(budget=USUAL_BUDGET * confidence.scale)


def usual_contextual_gate(confidence: Confidence, *, earned: float = inf, rows: int = 0) -> Gate:
    """The same with contexts, in units of the noise: a log's mean is no reference where rounds differ.

    Where the range of rewards is known it is a Control gate: that a linear model holds in every context is
    more than most can say, and the coin needs no model.

    `earned` is what the whole log earned in so many `rows`, where it is known and rewards cannot be negative:
    the budget is then a tenth of it at most. 100 times the noise of clicks is 50 of them, and a log of 10,000
    views may hold 38. A Control gate needs what one round can lose, though: with less it never opens. And
    with less than a few times that it is closed again before it has learnt anything, for good: then a rate
    besides, a tenth of what a round of the log earns, or 2 % of the noise where that is not known.
    """
    limits = confidence.reward_range
    budget, rate = USUAL_BUDGET * confidence.scale, USUAL_SHARE * confidence.scale
    if limits is not None and limits[0] >= 0 and earned >= 0:
        budget = min(budget, float(f"{USUAL_PART * earned:.2g}"))
        rate = rate if rows == 0 else USUAL_PART * earned / rows
    if limits is None:
        return Tolerance(budget=budget, evidence="model")
    promise: Any = "realised" if confidence.noise == "bounded" else "expected"
    gate = Control(budget=max(budget, limits[1] - limits[0]), promise=promise)
    return gate if gate.opens(confidence) else replace(gate, epsilon=float(f"{rate:.2g}"))
