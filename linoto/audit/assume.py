"""What is assumed of noise, bound and range: as given, or as the log suggests; and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import floor, log10
from typing import Any, Literal

from linoto.audit.bound import propose_bound
from linoto.audit.means import MeansOfArms
from linoto.core.certificates import Certificate
from linoto.core.confidence import ASSUMED, Confidence
from linoto.core.hints import amount
from linoto.core.intervals import Limits
from linoto.core.validation import exact, interval_text, rounded_up
from linoto.logs.read import Log


def limits_of_rewards(log: Log, known: Confidence | None) -> Limits | None:
    """Where every reward lies, if that is assumed and no logged one contradicts it."""
    limits = None if known is None or known.noise != "bounded" else known.reward_range
    return None if limits is None or log.leaves(limits) else limits


def propose_confidence(
    means: MeansOfArms,
    *,
    noise: float | Literal["bounded"] | None,
    bound: float | None,
    reward_range: Limits | None,
    delta: float,
    adaptive: bool = False,
) -> tuple[Confidence | None, dict[str, str]]:
    """What was given, and for the rest what the log suggests, with the reasons; None without any noise."""
    why: dict[str, str] = {}
    limits = reward_range
    if limits is None and means.log.binary:
        limits, why["reward_range"] = (0.0, 1.0), "every logged reward is 0 or 1"
    scale = noise
    if scale is None:
        scale, why["noise"] = propose_noise(means, limits)
    if scale is None:
        return None, why
    design = means.design(adaptive=adaptive)
    started = Confidence(delta=delta, noise=scale, reward_range=limits, design=design)
    if bound is None:
        found = propose_bound(*means.log.features.design, noise=started.scale, delta=delta)
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


def propose_noise(means: MeansOfArms, limits: Limits | None) -> tuple[float | Literal["bounded"] | None, str]:
    """The word bounded where no reward leaves the range; else the upper end of what is plausible."""
    if limits is not None and not means.log.leaves(limits):
        return "bounded", f"no logged reward is outside {interval_text(limits)}"
    found = means.noise()
    if found is None:
        return None, f"{means.centre.unknown_noise}, so the log cannot tell"
    noisiest = max(means.noisiest(), found.high_if_normal)
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


def stated(confidence: Confidence | None, why: Mapping[str, str]) -> dict[str, Any]:
    """What is assumed of rewards, and which of it was stated: the rest has a reason."""
    known = () if confidence is None else ASSUMED
    given = (name for name in known if getattr(confidence, name) is not None)
    return {"confidence": confidence, "stated": tuple(name for name in given if name not in why)}


# -- what contradicts it ----------------------------------------------------------------------------------

FAR = 10.0  # times as far apart as logged rewards, from which a range would promise much more


def contradictions(
    log: Log, given: Confidence, *, least_noise: float, farthest: tuple[str, ...], shortest: float
) -> Iterator[str]:
    """What is assumed and cannot be so: `farthest` says that a reward is too far from its mean."""
    limits = given.reward_range
    if given.scale < least_noise:
        yield f"the log is noisier ({needed(least_noise)} at least) than assumed ({exact(given.scale)})"
    else:
        yield from farthest
    if given.noise == "bounded" and limits is not None and log.leaves(limits):
        low, high = log.extent
        yield (
            f"rewards are said never to leave [{exact(limits[0])}, {exact(limits[1])}], and the log has them "
            f"from {exact(low)} to {exact(high)}"
        )
    yield from short_bound(given, shortest)


def short_bound(given: Confidence, shortest: float) -> Iterator[str]:
    """That the bound on the linear model cannot be so."""
    if given.bound < shortest:
        yield (
            f"the log contradicts bound={exact(given.bound)}: a linear model needs a parameter of length "
            f"{needed(shortest)} at least"
        )


def needed(value: float) -> str:
    """A number that something must reach, rounded up: never the same text as one that is too small."""
    return exact(rounded_up(value))


def assumed_facts(confidence: Confidence | None, why: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Noise, bound and range, and where they come from."""
    for name in () if confidence is None else ("noise", "bound", "reward_range"):
        value = getattr(confidence, name)
        if isinstance(value, tuple):
            value = interval_text(value)
        if value is not None:
            shown = value if isinstance(value, str) else f"{amount(value)}"
            yield f"assumed {name}", f"{shown} ({why.get(name, 'as given')})"


def assumed_notes(
    means: MeansOfArms, given: Confidence | None, certificate: Certificate | None
) -> Iterator[str]:
    """What a range means where rewards leave it, and what one would be good for where there is none."""
    if given is None:
        return
    log = means.log
    limits = None if given.noise == "bounded" else given.reward_range
    if limits is not None and log.leaves(limits):
        yield f"some rewards are outside {interval_text(limits)}: only their means may not be"
    if certificate is None or given.reward_range is not None or not means.centre.bound_limits:
        return
    low, high = certificate.reward_range
    if high - low > FAR * (log.extent[1] - log.extent[0]):
        yield "the bound alone limits rewards, and loosely: a reward range would promise more"
