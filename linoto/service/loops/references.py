"""What a loop is compared with, play by play: the log, and once practice has lost an arm, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, sqrt
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from linoto.core.certificates import Certificate
from linoto.core.intervals import mean_from_total
from linoto.service.loops.spec import LoopAgent

Part = Literal["mean", "low", "high"]
MOST_SURPRISE = 30.0  # nats: beyond, how many ways there were to choose leaves nothing to say


class ReferenceSince(Struct, frozen=True, array_like=True):
    """What practice earns from some play on."""

    plays: int  # that the promise is about, before it
    mean: float  # in the log
    low: float  # of an interval for its mean reward
    high: float


def beyond_first(first: float, later: Sequence[ReferenceSince], part: Part, plays: Any) -> Any:
    """What references that came later add to `plays` times the first one; plays may be an array."""
    added, before = 0.0, first
    for step in later:
        value = getattr(step, part)
        added = added + np.maximum(plays - step.plays, 0) * (value - before)
        before = value
    return added


def reference_now(agent: LoopAgent, certificate: Certificate, plays: int) -> ReferenceSince:
    """What is left of practice, in numbers; `certificate` is the one from before the first round.

    Whoever chose which arms go may have looked at the log: the interval of what is left holds for every
    choice of as many arms, for every number of arms at once. It fails with a probability of at most delta.
    """
    log_of, present = agent.offline, agent.present
    left = log_of.pulls * present
    total, rows = float((log_of.reward_sums * present).sum()), int(left.sum())
    n, gone = int((log_of.pulls > 0).sum()), int(((log_of.pulls > 0) & ~present).sum())
    ways = lgamma(n + 1) - lgamma(gone + 1) - lgamma(n - gone + 1) + log(gone * (gone + 1))
    low, high = by_share(certificate, log_of.total / rows)
    surprise = ways + log(1 / certificate.delta)
    if surprise < MOST_SURPRISE:
        squares = log_of.reward_squares
        kept = None if squares is None else float((squares * present).sum())
        least, most = by_rows(agent, certificate, total, rows, exp(-surprise), kept)
        low, high = max(low, least), min(high, most)
    return ReferenceSince(plays, total / rows, low, high)


def by_share(certificate: Certificate, gain: float) -> tuple[float, float]:
    """Where the mean of 1 / gain of the log lies, if its interval is right: the rest may be at either end."""
    (low, high), (least, most) = certificate.reference_interval, certificate.reward_range
    return max(most - gain * (most - low), least), min(least + gain * (high - least), most)


def by_rows(
    agent: LoopAgent, certificate: Certificate, total: float, rows: int, error: float, squares: float | None
) -> tuple[float, float]:
    """The same by the rewards of its own rows."""
    confidence, mean = agent.confidence, total / rows
    if confidence.noise == "bounded":
        limits, adaptive = certificate.reward_range, confidence.design == "adaptive"
        options: dict[str, Any] = {"reward_range": limits, "level": 1 - error, "adaptive": adaptive}
        return mean_from_total(total, rows, squares=squares, **options)
    spread = confidence.scale * sqrt(2 * log(2 / error) / rows)
    return mean - spread, mean + spread
