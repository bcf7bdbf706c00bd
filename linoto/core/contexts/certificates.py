"""What is promised with contexts, against which practice, and what is assumed."""

from __future__ import annotations

from math import inf, log, sqrt
from typing import TYPE_CHECKING

from linoto.core.certificates import Certificate
from linoto.core.confidence import REFUTED, Confidence, least_scale
from linoto.core.features.moments import Moments
from linoto.core.validation import exact, rounded_up

if TYPE_CHECKING:
    from linoto.core.gates import Gate


def certify_contextual(gate: Gate, fallback: str, confidence: Confidence, moments: Moments) -> Certificate:
    """The certificate of a composition for rounds that bring their own arms."""
    limits = confidence.reward_range or (-inf, inf)
    reason = gate.why_unproven_contextual(fallback) or why_refuted(gate, confidence, moments)
    promise = None if reason else gate.promised_contextual(confidence)
    return Certificate(
        holds=promise is not None,
        theorem=promise.theorem if promise else reason,
        delta=confidence.delta,
        reference=None,
        reference_interval=limits,
        per_round=promise.per_round if promise else None,
        constant=promise.budget if promise else None,
        budget=promise.budget if promise else None,
        kappa=None,
        reward_range=limits,
        vacuous=promise is not None and promise.per_round >= limits[1] - limits[0],
        realised=promise is not None and promise.realised,
        assumes=gate.assumptions_contextual(confidence) if promise else (),
        not_assumed=gate.not_assumed_contextual(confidence) if promise else (),
        against=gate.against_contextual,
        every=promise.every if promise else None,
        by_model=promise is not None and gate.trusts_model,
    )


def why_refuted(gate: Gate, confidence: Confidence, moments: Moments) -> str:
    """How the log contradicts the noise that a promise by the model rests on, or nothing."""
    around, _ = moments.residuals()
    if not gate.trusts_model or confidence.noise == "bounded" or moments.count == 0:
        return ""
    least = least_scale(around * (1 - 1e-9), moments.count)
    if confidence.scale >= least:
        return ""
    return (
        f"noise must be at least {exact(rounded_up(least))} for this log, got {exact(confidence.scale)}: "
        "its rewards scatter more around the linear model"
    )


def check_range(confidence: Confidence, moments: Moments) -> None:
    """Refuse a log that surely contradicts the range its rewards, or their means, are said to lie in."""
    if confidence.reward_range is None or moments.count == 0:
        return
    (low, high), mean = confidence.reward_range, moments.reference
    give = 1e-9 * (1 + abs(low) + abs(high))
    if confidence.noise != "bounded":  # the mean may be off by its noise
        give = confidence.scale * sqrt(2 * log(2 / REFUTED) / moments.count)
    if not low - give <= mean <= high + give:
        raise ValueError(
            f"offline must have rewards in reward_range {(low, high)}, got a mean of {exact(mean)}"
        )
    squares = moments.reward_squares
    if confidence.noise != "bounded" or squares is None:
        return
    inside = (low + high) * moments.reward_sum - squares - low * high * moments.count
    if inside < -1e-9 * (squares + (low * low + high * high) * moments.count):
        raise ValueError(
            f"reward_range must hold every logged reward where noise is 'bounded', got "
            f"[{exact(low)}, {exact(high)}]: the squares show rewards outside"
        )
