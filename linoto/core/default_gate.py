"""The gate that `Gated` takes where none is given: what 100 rounds are worth may be lost."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from math import inf
from typing import Literal

from linoto.core.confidence import Confidence
from linoto.core.features.moments import Summed
from linoto.core.gates import Control, Gate, Tolerance
from linoto.core.within import within

SHARE: ContextVar[Literal["cheap"] | None] = ContextVar("SHARE", default="cheap")


def usual_share(cheap: bool) -> AbstractContextManager[None]:
    """Whether the usual coin is a cheap one in here: what an older version stored goes on with its own."""
    return within(SHARE, "cheap" if cheap else None)


def default_gate(confidence: Confidence) -> Gate:
    """That of arms that stay the same."""
    return Tolerance().usual(confidence)


def default_gate_in_rounds(log: Summed, confidence: Confidence) -> Gate:
    """That of rounds that bring their own arms, for what this log of their features earned.

    A round is worth the noise: the log's mean is no reference where rounds differ. If the range of rewards is
    known, it is a Control gate, because a coin needs no model, and few can say that a linear one holds in
    every context.
    """
    if confidence.reward_range is None:
        return Tolerance(evidence="model").usual(confidence)
    earned = log.reward_sum if log.count else inf
    return replace(Control().usual(confidence, earned=earned, rows=log.count), share=SHARE.get())
