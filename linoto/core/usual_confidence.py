"""Bound, ridge and radius of a policy where it starts, if nobody says one and no promise is proved by it.

The bound is what the range of rewards allows, or without one as long as the noise. The ridge is that of the
features which one action can have; behind a coin that of a log, the likeliest one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence
from linoto.core.evidence import likeliest_ridge
from linoto.core.explorers import rule_of
from linoto.core.features.moments import Moments
from linoto.core.parameters import rests_on_no_set
from linoto.core.protocols import Composition
from linoto.core.validation import rounded_up
from linoto.core.within import within

P = TypeVar("P", bound=Any)  # a policy of explorer and gate
FROM_LOG: ContextVar[bool] = ContextVar("FROM_LOG", default=True)
ONE_SIZE = 4.0  # times the smallest feature of arms that the largest may be
MOST_FEATURES = 2_000  # beyond, the eigenvalues of a log take longer than a person waits
FOUND = ("ridge", "noise", "bound", "radius")  # what a start finds, of what nobody said


def with_usual_confidence(
    policy: P, d: int, log: Callable[[], Moments], raw: Floats | None = None, features: object = None
) -> P:
    """The policy with a bound in its unit, and the ridge by which its log of d features is the likeliest.

    What it says itself stays. The bound is `with_bound_where_unproved`, for arms that stay too.

    `LinUCB` at a part of its radius then has the ridge of what one action can have, and scores by its radius.

    `raw` (k, w) are features of arms in the units in which they came. One ridge for all is judged by the
    large ones: it holds the parameters of small ones at 0, and that of a year, far from 0, as well.

    noise^2 d / bound^2 is as good as the bound, and a bound that is guessed from a log is too long rather
    than too short. A ridge that follows rewards is outside the theorem of a confidence set, so this is for a
    gate that reads none (Control, whose promise is kept by a coin), and an explorer that reads none either.

    Without such a log, or without a gate, it is `ridge_of_one_action` where arms have features of their own:
    those of the other arms are 0 in an action. So it is where a radius is of each arm's own model.
    """
    policy = with_bound_where_unproved(policy)
    found = with_own_radius(policy, features)
    if not needs_no_bounds(found):
        return policy
    ridge = likeliest_of(d, log, raw) if found.gate.throws_coin and found.assumed.radius != "own" else None
    if ridge is None and (most := most_features(features)) < inf:
        ridge = ridge_of_one_action(found.assumed, most, d)
    return policy if ridge is None else replace(policy, confidence=replace(found.assumed, ridge=ridge))


def with_bound_where_unproved(policy: P) -> P:
    """The policy with a bound in its unit where nothing in it is proved by a bound, or said with one."""
    gate, confidence = policy.gate, policy.assumed  # no gate until it is composed
    if gate is None or confidence.ridge is not None or confidence.radius == "paper" or confidence.shift > 0:
        return policy
    found = with_bound_in_unit(confidence)
    if found == confidence or not rests_on_no_set(policy):
        return policy
    return replace(policy, confidence=found)


def with_bound_in_unit(confidence: Confidence) -> Confidence:
    """With a bound that lets an action of length 1 earn all that is in the range of averages.

    Without a range it is as long as the noise: the usual ones are 1 and 1. A bound of 1, which nobody said,
    is too short where the unit of rewards is small: it holds every arm at 0.
    """
    limits, usual = confidence.reward_range, Confidence()
    least = confidence.scale * usual.bound / usual.scale if limits is None else max(map(abs, limits))
    if confidence.bound != usual.bound or least <= usual.bound:
        return confidence
    return replace(confidence, bound=rounded_up(least))


def ridge_of_one_action(assumed: Confidence, most: float, d: int) -> float:
    """noise^2 p / beta^2 for the p features that one action can have, at most noise^2 d / bound^2 for all.

    The bound is one of the whole parameter. What one action has of it, beta, is no longer than that, and is
    not expected to be longer than rewards are far from 0, where they have a range. A radius of each arm's own
    keeps the bound, which is in it.
    """
    beta, limits = assumed.bound, assumed.reward_range
    if limits is not None and assumed.radius != "own":
        beta = min(beta, max(map(abs, limits)))
    return min(replace(assumed, bound=beta).ridge_for(int(most)), assumed.ridge_for(d))


def with_own_radius(policy: P, features: Any) -> P:
    """Optimism at a part of its radius, by that of what one action can have, where others are other arms'.

    The other radius counts the features of all arms: whatever is unknown of one makes all of them explore.
    """
    confidence, claims_none = policy.assumed, getattr(policy.explorer, "claims_no_theorem", False)
    usual = confidence.radius == "self_normalised" and confidence.shift == 0
    if not claims_none or not usual or most_features(features) == inf:
        return policy
    return replace(policy, confidence=replace(confidence, radius="own"))


def likeliest_of(d: int, log: Callable[[], Moments], raw: Floats | None) -> float | None:
    """The ridge by which a log is the likeliest; None where it cannot tell."""
    if d > MOST_FEATURES or (raw is not None and not are_of_one_size(raw)):
        return None
    summed = log()
    return None if not summed.count or summed.reward_squares is None else likeliest_ridge(summed)


def confidence_from_log(wanted: bool) -> AbstractContextManager[None]:
    """Whether policies that start in here look for theirs: what is stored says it or has that of before."""
    return within(FROM_LOG, wanted)


def says_as_much(found: Confidence, said: Confidence) -> bool:
    """Whether a start that was told the one may have found the other."""
    usual = Confidence()
    unsaid = {name: value for name in FOUND if (value := getattr(said, name)) == getattr(usual, name)}
    return replace(found, **unsaid) == said


def with_confidence_of(policy: P, log: Moments | None, features: object) -> P:
    """The same where a policy starts: on rounds, from a log of them or from none; None: on arms that stay.

    Who names a gate has no ridge from a log. What else it says stays as it is; its gate stays unsaid.
    """
    if not FROM_LOG.get():
        return policy
    if log is None:
        composed = policy.composed()
        found = with_bound_where_unproved(composed)
        return policy if found is composed else replace(policy, confidence=found.confidence)
    if getattr(policy, "gate", None) is not None:
        log = Moments.empty(log.d)
    raw = getattr(features, "raw_features", None)
    if raw is None:
        width = getattr(features, "own_width", 0) or log.d  # the same numbers of a context for every arm
        squares = np.diagonal(log.gram)[: log.d // width * width].reshape(-1, width)
        raw = np.sqrt(squares.sum(axis=0))[None]
    composed = policy.composed_for_rounds()
    found = with_usual_confidence(composed, log.d, lambda: log, raw, features)
    return policy if found is composed else replace(policy, confidence=found.confidence)


def most_features(features: Any) -> float:
    """How many features one action can have: those of an arm and those that arms share; inf: nobody knows."""
    own = getattr(features, "own_width", 0)
    return features.d - own * (len(features.items) - 1) if own else inf


def needs_no_bounds(policy: Composition) -> bool:
    """Whether nothing in it rests on a confidence set, and nobody said which ridge."""
    gate: Any = policy.gate  # None until it is composed
    confidence = policy.assumed
    return (
        gate is not None
        and rests_on_no_set(policy)
        and (rule_of(policy.explorer).by_estimate or confidence.radius == "own")
        and confidence.ridge is None
        and confidence.radius != "arms"
        and confidence.shift == 0
    )


def are_of_one_size(features: Floats) -> bool:
    """Whether the features of arms (k, w) have about the same size where they are not 0."""
    used = np.maximum(np.count_nonzero(features, axis=0), 1)
    sizes = np.sqrt(np.einsum("kw,kw->w", features, features, dtype=np.float64) / used)
    return bool(sizes.max(initial=0.0) <= ONE_SIZE * sizes[sizes > 0].min(initial=np.inf))
