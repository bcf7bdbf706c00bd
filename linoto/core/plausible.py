"""Noise and bound of an explorer that promises nothing, where nobody said them and its log refutes 1 and 1.

A gate refuses such a log: its promise would be broken. An explorer alone would hold every arm at 0, or take a
few rewards for the truth. With the least noise and bound that are not refuted it is worth its log; where
nothing is refuted, nothing changes, and rewards of 0 and 1 refute nothing.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from typing import Any, TypeVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence, least_noise, least_scale
from linoto.core.false_bounds import least_possible
from linoto.core.features.moments import Moments
from linoto.core.offline import Offline
from linoto.core.usual_confidence import FROM_LOG
from linoto.core.validation import rounded_up

P = TypeVar("P", bound=Any)  # a policy
ROUNDING = 1e-9  # of sums of squares
USUAL = Confidence()  # who says nothing has these


def with_plausible_confidence(policy: P, actions: Floats, offline: Offline | Moments) -> P:
    """The same policy where a gate compares, or where its log refutes nothing."""
    if not FROM_LOG.get() or not getattr(policy, "explores_alone", False):
        return policy
    confidence: Confidence = policy.composed().assumed
    if confidence.radius == "paper" or confidence.shift > 0:
        return policy
    if isinstance(offline, Moments):
        found = by_rounds(confidence, offline)
    else:
        found = by_arms(confidence, actions, offline)
    return policy if found == confidence else replace(policy, confidence=found)


def by_arms(confidence: Confidence, actions: Floats, offline: Offline) -> Confidence:
    """By what each arm earned, at any ridge: |theta| >= |mean| / |a|."""
    found = with_noise(confidence, least_noise(offline))
    pulls = offline.pulls.astype(np.float64)
    level = np.log(pulls + 1.0) + 2.0 * log(pulls.size / found.delta)
    half = found.scale * np.sqrt((pulls + 1.0) * level)
    least = (np.abs(offline.reward_sums) - half) / np.maximum(pulls, 1.0)
    far = np.flatnonzero(least > 0)
    norms = np.linalg.norm(actions[far].astype(np.float64), axis=1)
    return with_bound(found, float((least[far] / np.where(norms > 0, norms, inf)).max(initial=0.0)))


def by_rounds(confidence: Confidence, log: Moments) -> Confidence:
    """By the linear model; what nobody could refute is not looked at, for that takes eigenvalues."""
    squares = log.reward_squares
    if not log.count or (squares is not None and squares <= log.count * confidence.scale**2):
        return confidence
    around, _ = log.residuals()
    found = with_noise(confidence, least_scale(around * (1 - ROUNDING), log.count) if around > 0 else 0.0)
    return with_bound(found, least_possible(log.gram, log.reward_vector, found))


def with_noise(confidence: Confidence, least: float) -> Confidence:
    """With at least this noise, unless somebody said another one."""
    if confidence.noise != USUAL.noise or least <= confidence.scale:
        return confidence
    return replace(confidence, noise=rounded_up(least))


def with_bound(confidence: Confidence, least: float) -> Confidence:
    """With at least this bound, unless somebody said another one."""
    if confidence.bound != USUAL.bound or not confidence.bound < least < inf:
        return confidence
    return replace(confidence, bound=rounded_up(least))
