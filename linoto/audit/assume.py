"""What to assume of noise, bound and range where nothing was given, and what is promised then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor, log10
from typing import Any, Literal

from linoto.audit.bound import propose_bound
from linoto.audit.noise import estimate_noise, noisiest_arm, sums_equal_squares
from linoto.core.certificates import Certificate
from linoto.core.confidence import ASSUMED, Confidence
from linoto.core.gates import Tolerance
from linoto.core.policies import Gated
from linoto.logs.estimates import LEAST_EVENTS
from linoto.logs.read import Log


def is_binary(log: Log) -> bool:
    """Whether every reward is 0 or 1: between them, only these equal their squares."""
    return log.extent[0] >= 0 and log.extent[1] <= 1 and sums_equal_squares(log.offline)


def too_few_events(log: Log) -> str:
    """Why the log holds too little to judge anything by, if it does.

    Rewards from 0 up count as (their sum)^2 / (sum of squares) equal ones: as many as there are clicks, and
    one where a single sale is nearly all. Of clicks that most rows have, those without are the events.
    """
    offline = log.offline
    if log.extent[0] < 0 or offline.reward_squares is None:
        return ""
    rows, binary, squares = offline.total, is_binary(log), float(offline.reward_squares.sum())
    events = float(offline.reward_sums.sum()) ** 2 / squares if squares else 0.0
    rare = "ones" if binary and log.extent[1] > 0 else "rewards above 0"
    if binary and 2 * events > rows:
        events, rare = rows - events, "zeros"
    if events >= LEAST_EVENTS:
        return ""
    worth = f"{events:,.0f} {rare}" if binary else f"{rare} that count as {events:.2g}"
    return f"too few events to say: {worth} among {rows:,} rewards; it takes {LEAST_EVENTS}"


def has_rewards_outside(log: Log, limits: tuple[float, float]) -> bool:
    """Whether some logged reward is outside a range."""
    return log.extent[0] < limits[0] or log.extent[1] > limits[1]


def limits_of_rewards(log: Log, known: Confidence | None) -> tuple[float, float] | None:
    """Where every reward lies, if that is assumed and no logged one contradicts it."""
    limits = None if known is None or known.noise != "bounded" else known.reward_range
    return None if limits is None or has_rewards_outside(log, limits) else limits


def propose_confidence(
    log: Log,
    *,
    noise: float | Literal["bounded"] | None,
    bound: float | None,
    reward_range: tuple[float, float] | None,
    delta: float,
    adaptive: bool = False,
) -> tuple[Confidence | None, dict[str, str]]:
    """What was given, and for the rest what the log suggests, with the reasons; None without any noise."""
    why: dict[str, str] = {}
    limits = reward_range
    if limits is None and is_binary(log):
        limits, why["reward_range"] = (0.0, 1.0), "every logged reward is 0 or 1"
    scale = noise
    if scale is None:
        scale, why["noise"] = propose_noise(log, limits)
    if scale is None:
        return None, why
    design: Literal["fixed", "adaptive"] = "adaptive" if adaptive else "fixed"
    started = Confidence(delta=delta, noise=scale, reward_range=limits, design=design)
    if bound is None:
        found = propose_bound(log.arms.actions, log.offline, noise=started.scale, delta=delta)
        bound, why["bound"] = (
            round_up(found),
            "the length of the least-squares parameter and what noise can hide, "
            "along directions the log knows; others are assumed alike; rounded up",
        )
    return replace(started, bound=bound), why


def round_up(value: float) -> float:
    """The next of 1, 2 and 5 times a power of ten: the ridge depends on the bound, and a ridge that follows
    rewards is outside its theorem. On this grid it takes three values at most (docs/maths.md).

    >>> [round_up(x) for x in (0.0147, 1.0, 1.473, 2.1, 7.0)]
    [0.02, 1.0, 2.0, 5.0, 10.0]
    """
    power = floor(log10(value)) - 1
    steps = (float(f"{digit}e{place}") for place in range(power, power + 4) for digit in (1, 2, 5))
    return next(step for step in steps if step >= value)


def propose_noise(
    log: Log, limits: tuple[float, float] | None
) -> tuple[float | Literal["bounded"] | None, str]:
    """The word bounded where no reward leaves the range; else the upper end of what is plausible."""
    if limits is not None and not has_rewards_outside(log, limits):
        return "bounded", f"no logged reward is outside [{limits[0]:g}, {limits[1]:g}]"
    found = estimate_noise(log.offline)
    if found is None:
        return None, "no arm was pulled twice, so the log cannot tell"
    noisiest = max(noisiest_arm(log.offline), found.high_if_normal)
    if noisiest == 0:
        return None, (
            "rewards of an arm are always the same, or so large that rounding hides how they differ: "
            "take a constant off them, or say how much they may vary"
        )
    why = (
        "upper end of the pooled estimate, were rewards normal"
        if noisiest == found.high_if_normal
        else "standard deviation of the noisiest arm"
    )
    return noisiest, why


def certify_tolerance(log: Log, confidence: Confidence, gate: Tolerance) -> tuple[Certificate | None, str]:
    """The certificate of a tolerance, or why there is none."""
    policy = Gated(gate=gate, confidence=confidence)
    try:
        found = policy.certificate(log.arms.actions, log.offline)
    except ValueError as error:
        return None, str(error)
    return (found, "") if found.holds else (None, found.theorem)


def stated(confidence: Confidence | None, why: Mapping[str, str]) -> dict[str, Any]:
    """What is assumed of rewards, and which of it was stated: the rest has a reason."""
    known = () if confidence is None else ASSUMED
    given = (name for name in known if getattr(confidence, name) is not None)
    return {"confidence": confidence, "stated": tuple(name for name in given if name not in why)}
