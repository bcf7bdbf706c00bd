"""What to assume of noise, bound and range where nothing was given, and what is promised then."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from linoto.audit.bound import propose_bound
from linoto.audit.noise import estimate_noise, noisiest_arm, sums_equal_squares
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence
from linoto.core.gates import Tolerance
from linoto.core.policies import Gated
from linoto.logs.read import Log


def is_binary(log: Log) -> bool:
    """Whether every reward is 0 or 1: between them, only these equal their squares."""
    return log.extent[0] >= 0 and log.extent[1] <= 1 and sums_equal_squares(log.offline)


def has_rewards_outside(log: Log, limits: tuple[float, float]) -> bool:
    """Whether some logged reward is outside a range."""
    return log.extent[0] < limits[0] or log.extent[1] > limits[1]


def propose_confidence(
    log: Log,
    *,
    noise: float | Literal["bounded"] | None,
    bound: float | None,
    reward_range: tuple[float, float] | None,
    delta: float,
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
    started = Confidence(delta=delta, noise=scale, reward_range=limits)
    if bound is None:
        bound = propose_bound(log.arms.actions, log.offline, noise=started.scale, delta=delta)
        why["bound"] = (
            "the length of the least-squares parameter and what noise can hide, "
            "along directions the log knows; others are assumed alike"
        )
    return replace(started, bound=bound), why


def propose_noise(
    log: Log, limits: tuple[float, float] | None
) -> tuple[float | Literal["bounded"] | None, str]:
    """The word bounded where no reward leaves the range; else the upper end of what is plausible."""
    if limits is not None and not has_rewards_outside(log, limits):
        return "bounded", f"no logged reward is outside [{limits[0]:g}, {limits[1]:g}]"
    found = estimate_noise(log.offline)
    if found is None:
        return None, "no arm was pulled twice, so the log cannot tell"
    noisiest = max(noisiest_arm(log.offline), found.high)
    if noisiest == 0:
        return None, (
            "rewards of an arm are always the same, or so large that rounding hides how they differ: "
            "take a constant off them, or say how much they may vary"
        )
    why = (
        "upper end of the pooled estimate"
        if noisiest == found.high
        else "standard deviation of the noisiest arm"
    )
    return noisiest, why


def certify_tolerance(log: Log, confidence: Confidence, *, epsilon: float) -> tuple[Certificate | None, str]:
    """The certificate of a tolerance, or why there is none."""
    policy = Gated(gate=Tolerance(epsilon=epsilon), confidence=confidence)
    try:
        found = policy.certificate(log.arms.actions, log.offline)
    except ValueError as error:
        return None, str(error)
    return (found, "") if found.holds else (None, found.theorem)
