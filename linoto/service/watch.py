"""Evidence, at any time, that realised rewards contradict what was promised or what the log said.

An e-process: a number that starts at 1 and is, if the claim is true, above 1/a at any time ever with
probability at most a. Many looks cost nothing, and the claim may be about a sum of means that the policy
itself steers: only the sum enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, exp, inf, log
from typing import Any

import numpy as np

from linoto.certificates import Certificate
from linoto.service import inside

TILTS = 4.0 * 0.7 ** np.arange(20)  # l, of a reward scaled to [0, 1], or of one in units of its noise
WEIGHTS = -np.expm1(-TILTS)  # 1 - exp(-l)
HALF_SQUARES = TILTS**2 / 2


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How far rewards stray from their means: never out of a range, or sub-Gaussian."""

    low: float
    high: float  # of mean rewards
    noise: float
    bounded: bool


def log_evidence(scale: Scale, rewards: float, count: int, least: float) -> float:
    """log of the evidence that `count` rewards, summing to `rewards`, have means that sum to below `least`.

    For x in [0, 1] with mean m, E exp(-l x) <= exp(-m (1 - exp(-l))); for sub-Gaussian x it is at most
    exp(-l m + l^2 s^2 / 2). Products over plays are supermartingales, and so is their average over tilts l.
    """
    if count == 0 or least <= rewards:  # every tilt would give at most 1
        return -inf
    if scale.bounded:
        unit = scale.high - scale.low
        seen, owed = (rewards - count * scale.low) / unit, (least - count * scale.low) / unit
        logs = WEIGHTS * owed - TILTS * seen
    else:
        logs = TILTS * ((least - rewards) / scale.noise) - HALF_SQUARES * count
    top = float(logs.max())
    return top + log(float(np.exp(logs - top).sum()) / TILTS.size)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What a loop is watched for; made once from its certificate, so it costs nothing to keep.

    `error` is the chance of each false alarm, besides the chance (1.5 delta) that the promise or the interval
    of the reference fails by itself.
    """

    scale: Scale
    error: float
    reference: tuple[float, float]  # an interval for the mean reward of the log
    per_round: float | None  # None: nothing is promised
    constant: float
    kappa: float  # rounding of the mixture, in plays

    @classmethod
    def of(cls, agent: Any, c: Certificate, error: float) -> Watch:
        """The watch over a fresh agent with this certificate."""
        low, high = c.reward_range
        promised = c.holds and c.per_round is not None and agent.offline.total > 0
        return cls(
            scale=Scale(
                low=low,
                high=high,
                noise=inside.parameter(agent, "noise"),
                bounded=bool(inside.parameter(agent, "bounded")),
            ),
            error=error,
            reference=c.reference_interval if agent.offline.total else (-inf, inf),
            per_round=c.per_round if promised else None,
            constant=c.constant or 0.0,
            kappa=float((agent.offline.pulls > 0).sum()) / e,  # the most there is, whatever the log
        )

    def promise(self, plays: int, closed: int, rewards: float) -> float:
        """log evidence that all plays together earned less than promised; open ones count as the best."""
        if self.per_round is None:
            return -inf
        least = plays * (self.reference[0] - self.per_round) - self.constant
        return log_evidence(self.scale, rewards, closed, least - (plays - closed) * self.scale.high)

    def drift(self, plays: int, closed: int, rewards: float) -> float:
        """log evidence that plays of the logging mixture no longer earn what they earned in the log."""
        s, (low, high) = self.scale, self.reference
        rounding = self.kappa * (s.high - s.low)
        pending = plays - closed
        below = log_evidence(s, rewards, closed, plays * low - rounding - pending * s.high)
        mirrored = Scale(low=-s.high, high=-s.low, noise=s.noise, bounded=s.bounded)
        above = log_evidence(mirrored, -rewards, closed, -(plays * high + rounding - pending * s.low))
        return max(below, above) - log(2.0)

    @property
    def threshold(self) -> float:
        """log evidence from which it is an alarm."""
        return -log(self.error)


def as_factor(evidence: float) -> float:
    """Evidence as odds a person can read, capped where a float ends."""
    return exp(min(evidence, 700.0))
