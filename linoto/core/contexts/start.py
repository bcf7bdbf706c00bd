"""Starting a policy on rounds that bring their own arms."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.confidence import Confidence, terms_of_log
from linoto.core.contexts.agent import ContextualAgent
from linoto.core.contexts.certificates import check_range
from linoto.core.contexts.moments import Moments, as_moments
from linoto.core.contexts.protocols import ComposedForContexts
from linoto.core.explorers import rule_of
from linoto.core.kernels import Floats, Records
from linoto.core.parameters import explorer_params
from linoto.core.validation import as_generator, exact, rounded_up

FALLBACK_CODES = {
    "lcb": kernels.LCB_ARM,
    "mixture": kernels.MIXTURE,  # of the log, which with contexts is practice, as the caller gives it
    "certified": kernels.CERTIFIED,
}


def start_contextual(
    policy: ComposedForContexts, offline: Moments | None, d: int | None, features: Any, rng: Any
) -> ContextualAgent:
    """A running agent of a policy whose gate has a theorem for it."""
    moments = as_moments(offline, dimension(d, features))
    gated, params = composition(policy, moments)
    agent = ContextualAgent.begin(
        policy=policy,
        composition=gated,
        params=params,
        moments=moments,
        rng=as_generator(rng),
        features=features,
    )
    if agent._params[0]["by_model"] or agent._params[0]["vouched_by"] == kernels.THE_MODEL:
        check_length(agent, gated.assumed.bound)
    return agent


def composition(policy: ComposedForContexts, moments: Moments) -> tuple[Any, Records]:
    """What a policy is made of with contexts, and as the kernels read it; refuses what cannot be."""
    gated = policy.composed_contextual()
    if getattr(gated.explorer, "memory", None) is not None:
        raise ValueError(
            "memory must be None with contexts, got "
            f"{gated.explorer.memory}: what an agent keeps of them cannot be taken apart again"
        )
    if policy.needs_one_hot:
        raise ValueError(
            f"policy must be one for arms with features, got {policy!r}, which needs one-hot arms"
        )
    if rule_of(gated.explorer).keeps_scores:
        raise ValueError(
            f"explorer must score the arms in every round with contexts, got {type(gated.explorer).__name__}"
        )
    return gated, contextual_params(gated, moments)


def dimension(d: int | None, features: Any) -> int | None:
    """The number of features, where it is given."""
    if features is None:
        return d
    if not callable(getattr(features, "transform", None)) or not hasattr(features, "d"):
        raise ValueError(f"features must have d and transform(context, arms), got {type(features).__name__}")
    if d is not None and d != features.d:
        raise ValueError(f"d must be {features.d} like that of features, got {d}")
    return int(features.d)


def contextual_params(gated: Any, moments: Moments) -> Records:
    """A composition as the kernels read it, for rounds that bring their own arms."""
    confidence: Confidence = gated.assumed
    if confidence.shift > 0:
        raise ValueError(
            f"shift must be 0 with contexts, got {confidence.shift:g}: one estimate is kept there, and it "
            "uses the log"
        )
    ridge = confidence.ridge_for(moments.d)
    largest = float(np.abs(moments.gram).max()) / ridge
    if not largest < 1e100 or ridge < 1e-100:
        raise ValueError(
            f"gram must be of a size that ridge {ridge:g} can regularise, got gram / ridge = {largest:g}"
        )
    if gated.gate.measures:
        check_range(confidence, moments)
    params: Records = explorer_params(gated, moments.d, terms_of_log(confidence, moments.d, moments.spectrum))
    gated.gate.fill_contextual(params[0], confidence, moments)
    fallback = gated.resolved_fallback()
    if fallback not in FALLBACK_CODES or (gated.gate.throws_coin and fallback != "mixture"):
        words = "'auto' or 'mixture'" if gated.gate.throws_coin else "'auto', 'lcb' or 'mixture'"
        raise ValueError(
            f"fallback must be {words} with contexts, got {fallback!r}: practice is given with each decision"
        )
    params[0]["fallback"] = FALLBACK_CODES[fallback]
    return params


def check_length(agent: ContextualAgent, bound: float) -> None:
    """Refuse a bound on |theta| that the log contradicts: a promise that needs it would be broken."""
    ellipsoid = agent.ellipsoid
    least = least_length(ellipsoid.center, ellipsoid.V, ellipsoid.radius)
    if least > bound:
        raise ValueError(
            f"bound must be at least {exact(rounded_up(least))} for this log, got {exact(bound)}: no shorter "
            "parameter explains its rewards"
        )


def least_length(center: Floats, V: Floats, radius: float) -> float:
    """The length of the shortest parameter in |theta - center|_V <= radius, rounded down.

    It is (V + m I)^-1 V center for the m at which the distance is the radius: bisection keeps m below it.
    """
    spectrum, axes = np.linalg.eigh(V)
    parts = axes.T @ center
    if sqrt(float(spectrum @ parts**2)) <= radius:
        return 0.0

    def distance(m: float) -> float:
        return sqrt(float(spectrum @ (parts * m / (spectrum + m)) ** 2))

    low, high = 0.0, float(spectrum[-1])
    while distance(high) < radius:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if distance(middle) < radius else (low, middle)
    return float(np.linalg.norm(parts * spectrum / (spectrum + high)))
