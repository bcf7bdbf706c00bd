"""Starting a policy on rounds that bring their own arms."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from linoto.core.arrays import Floats, Records
from linoto.core.coins import coins_for
from linoto.core.contexts.agent import ContextualAgent
from linoto.core.contexts.parameters import contextual_params
from linoto.core.contexts.protocols import ComposedForContexts
from linoto.core.explorers import rule_of
from linoto.core.features.moments import Moments, as_moments
from linoto.core.validation import exact, generator_for, rounded_up


def start_contextual(
    policy: ComposedForContexts, offline: Moments | None, d: int | None, features: Any, rng: Any
) -> ContextualAgent:
    """A running agent of a policy whose gate has a theorem for it."""
    moments = as_moments(offline, dimension(d, features))
    gated, params = composition(policy, moments)
    generator = generator_for(rng)
    agent = ContextualAgent.begin(
        policy=policy,
        composition=gated,
        params=params,
        moments=moments,
        rng=generator,
        coins=coins_for(rng, generator),
        features=features,
    )
    if agent._by_model:
        check_length(agent, gated.assumed.bound)
    return agent


def composition(policy: ComposedForContexts, moments: Moments) -> tuple[Any, Records]:
    """What a policy is made of with contexts, and as the kernels read it; refuses what cannot be."""
    gated = policy.composed_contextual()
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


def check_length(agent: ContextualAgent, bound: float) -> None:
    """Refuse a bound on |theta| that the log contradicts: a promise that needs it would be broken."""
    if np.linalg.norm(agent.theta) <= bound:  # the usual case: the estimate itself is short enough
        return
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
