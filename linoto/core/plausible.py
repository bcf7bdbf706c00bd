"""Noise and bound of an explorer that promises nothing, where nobody said them and more is known of rewards.

Noise 1 and bound 1 are right for clicks. A gate refuses a log that contradicts them: its promise would be
broken. An explorer alone would hold every arm at 0, or take a few rewards for the truth; so it takes the
bound that a stated range allows, or one as long as a stated noise, and the least noise and bound that its log
does not refute. Where rewards are 0 and 1 nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, log
from typing import Any, TypeVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence, least_noise, least_scale
from linoto.core.false_bounds import least_possible
from linoto.core.features.moments import Moments
from linoto.core.gates.always import Open
from linoto.core.offline import Offline
from linoto.core.one_hot import squared_lengths
from linoto.core.usual_confidence import FROM_LOG, with_bound_in_unit
from linoto.core.validation import rounded_up

P = TypeVar("P", bound=Any)  # a policy
USUAL = Confidence()  # what has its numbers was not said
ROUNDING = 1e-9  # of a sum of squares
MOST_FEATURES = 1_000  # beyond, the eigenvalues of a log take seconds


def explores_alone(policy: object) -> bool:
    """Whether nothing is compared and nothing promised."""
    composed = getattr(policy, "composed", None) if hasattr(policy, "confidence") else None
    return composed is not None and isinstance(composed().gate, Open)


def with_plausible_confidence(policy: P, known: Callable[[], tuple[Floats, Offline | Moments]]) -> P:
    """The same policy where a gate compares, or where no more is `known`: arms that stay, and their log."""
    if not FROM_LOG.get() or not explores_alone(policy):
        return policy
    actions, offline = known()
    confidence: Confidence = policy.composed().assumed
    if confidence.radius == "paper" or confidence.shift > 0:
        return policy
    found = with_bound_in_unit(confidence)
    if isinstance(offline, Moments):
        found = by_rounds(found, offline)
    elif offline.total:
        found = by_arms(found, actions, offline)
    if confidence.bound != USUAL.bound:
        found = replace(found, bound=confidence.bound)  # somebody said it
    return policy if found == confidence else replace(policy, confidence=found)


def by_arms(confidence: Confidence, actions: Floats, offline: Offline) -> Confidence:
    """By what each arm earned, at any ridge: |theta| >= |mean| / |a|."""
    found = with_noise(confidence, least_noise(offline))
    pulls = offline.pulls.astype(np.float64)
    level = np.log(pulls + 1.0) + 2.0 * log(pulls.size / found.delta)
    half = found.scale * np.sqrt((pulls + 1.0) * level)
    least = (np.abs(offline.reward_sums) - half) / np.maximum(pulls, 1.0)
    if least.max() <= 0:
        return found
    lengths = np.sqrt(squared_lengths(actions))
    return with_bound(found, float(np.max(least[lengths > 0] / lengths[lengths > 0], initial=0.0)))


def by_rounds(confidence: Confidence, log: Moments) -> Confidence:
    """By the linear model."""
    if not log.count or log.d > MOST_FEATURES:
        return confidence
    around = log.residuals()[0] - ROUNDING * (log.reward_squares or 0.0)
    found = with_noise(confidence, least_scale(around, log.count)) if around > 0 else confidence
    return with_bound(found, least_possible(log.gram, log.reward_vector, found))


def with_noise(confidence: Confidence, least: float) -> Confidence:
    """With at least this noise, unless somebody said another one, and with as long a bound, in its unit.

    A bound that stays behind makes a ridge noise^2 d / bound^2 that holds every arm at 0.
    """
    if confidence.noise != USUAL.noise or least <= confidence.scale:
        return confidence
    return with_bound(replace(confidence, noise=rounded_up(least)), least * USUAL.bound / USUAL.scale)


def with_bound(confidence: Confidence, least: float) -> Confidence:
    """With at least this bound."""
    if not confidence.bound < least < inf:
        return confidence
    return replace(confidence, bound=rounded_up(least))
