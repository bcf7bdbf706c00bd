"""Does a log contradict a bound on |theta|? Whatever ridge is chosen: one that follows the bound hides it.

The usual ridge is sigma^2 d / S^2, so that the estimate goes to 0 with the bound S, and fits any S. A longer
bound has a smaller ridge, and more is known: what a log refuses may say too little of what it would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from math import floor, inf, isfinite, log, log10, nextafter, sqrt
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.confidence import Confidence, least_length
from linoto.core.diagonals import along_axes
from linoto.core.kernels import State
from linoto.core.one_hot import summed_squares
from linoto.core.validation import exact, rounded_up
from linoto.core.within import within

GROSS = 2.0  # times a bound that a parameter must be longer: a log with a small bias is not refused
EXACT = 20  # refused bounds after which the next is not the one that was named, but longer
RIDGES = 9  # powers of ten, downwards from the largest eigenvalue of the log
AT_ANY_RIDGE: ContextVar[bool] = ContextVar("AT_ANY_RIDGE", default=True)


TRYING: ContextVar[bool] = ContextVar("TRYING", default=False)


class FalseBoundError(ValueError):
    """A bound on |theta| that a log contradicts, what it should be at least, and why."""

    def __init__(self, needed: float, bound: float, why: str) -> None:
        self.least, self.bound, self.why = rounded_up(needed), bound, why
        super().__init__(
            f"bound must be at least {exact(self.least)} for this log, got {exact(bound)}: {why}"
        )

    def __reduce__(self) -> tuple[type[FalseBoundError], tuple[float, float, str]]:
        """An experiment in another process may be what is refused."""
        return FalseBoundError, (self.least, self.bound, self.why)


@contextmanager
def naming_enough(start: Callable[[float], object]) -> Iterator[None]:
    """Let what is refused in here name a bound that will be taken: `start` tries one as it was tried here."""
    try:
        yield
    except FalseBoundError as refusal:
        if TRYING.get():
            raise
        with within(TRYING, True):
            least = enough(refusal.least, start)
        raise FalseBoundError(least, refusal.bound, refusal.why) from None


def enough(least: float, start: Callable[[float], object]) -> float:
    """A bound that is taken, from this one on: the least, as far as every refusal says what it should be.

    These lie below any true bound. From some on, steps grow, so that there is an end.
    """
    refused = 0
    while isfinite(least):
        try:
            start(least)
            break
        except FalseBoundError as again:
            longer = least + (again.least - least) * 2.0 ** max(refused - EXACT, 0)
            least, refused = rounded_up(max(longer, nextafter(least, inf))), refused + 1
        except ValueError:  # refused for another reason, which is said once this one is gone
            break
    return least


def with_bound(composition: Any, bound: float) -> Any:
    """The same policy with another bound on |theta|."""
    return replace(composition, confidence=replace(composition.assumed, bound=bound))


def at_any_ridge(wanted: bool) -> AbstractContextManager[None]:
    """Whether bounds are tested so in here: what an older version took is not refused when it is started."""
    return within(AT_ANY_RIDGE, wanted)


def contradicts_bound(state: State, confidence: Confidence) -> bool:
    """Whether some arm's mean, or all together, are surely larger than a parameter of this length allows."""
    return bool((bound_excess(state, confidence) > 0).any() or least_of(state, confidence) > confidence.bound)


def bound_excess(state: State, confidence: Confidence) -> Floats:
    """(k,) how far each arm's interval from the log lies beyond bound |a|; of one-hot arms also by itself."""
    possible = confidence.bound * np.sqrt(summed_squares(state.actions))
    half = float(state.run[0]["radius"]) * state.arms[kernels.WIDTH] + kernels.lifts(state)
    by_model = np.abs(state.arms[kernels.MEAN]) - half - possible
    if confidence.shift > 0 or not AT_ANY_RIDGE.get() or state.run[0]["one_hot"] == 0:
        return np.asarray(by_model)
    return np.asarray(np.maximum(by_model, own_least(state, confidence) - possible))


def own_least(state: State, confidence: Confidence) -> Floats:
    """(k,) what |mean| of an arm is at least, by its own rewards: self-normalised, for all arms at once."""
    seen, sums = state.arms[kernels.SEEN], state.arms[kernels.SUMS]
    level = np.log(seen + 1.0) + 2.0 * log(seen.size / confidence.delta)
    half = confidence.scale * np.sqrt((seen + 1.0) * level)
    return np.asarray((np.abs(sums) - half) / np.maximum(seen, 1.0))


def check_bound(state: State, confidence: Confidence, names: Sequence[str] | None) -> None:
    """Refuse a bound on |theta| that the log contradicts: a promise that needs it would be broken (H3)."""
    excess, bound = bound_excess(state, confidence), confidence.bound
    arm = int(excess.argmax())
    if excess[arm] > 0:
        norm = float(np.linalg.norm(state.actions[:, arm]))
        needed = float(bound + excess[arm] / norm) if norm > 0 else inf
        called = repr(names[arm]) if names else arm
        raise FalseBoundError(
            needed, bound, f"arm {called} earns more than a parameter of that length allows"
        )
    check_length(least_of(state, confidence), bound)


def check_length(least: float, bound: float) -> None:
    """Refuse a bound below the length that a parameter has at least."""
    if least > bound:
        raise FalseBoundError(least, bound, "no shorter parameter explains its rewards")


def least_of(state: State, confidence: Confidence) -> float:
    """The length of the shortest parameter that is possible, of arms which share features."""
    seen = state.arms[kernels.SEEN] > 0
    if state.run[0]["one_hot"] == 1 or not seen.any():
        return 0.0
    arms = state.actions[:, seen].astype(np.float64)
    gram = (arms * state.arms[kernels.SEEN, seen]) @ arms.T
    return least_possible(gram, arms @ state.arms[kernels.SUMS, seen], confidence)


def least_possible(gram: Floats, vector: Floats, confidence: Confidence) -> float:
    """The length of the shortest parameter that X'X and X'y of a log leave possible, if far above the bound.

    Otherwise 0. For every power of ten as ridge l,
    |estimate - theta|_V <= sigma sqrt(log det(V / l) + 2 log(1 / delta_l)) + sqrt(l) bound,
    where the delta_l of all whole powers have a sum below delta.
    """
    if confidence.shift > 0 or not AT_ANY_RIDGE.get():
        return 0.0
    values, parts = along_axes(gram, vector)
    values = np.maximum(values, 0.0)
    if values[-1] == 0.0:
        return 0.0
    found, top = 0.0, floor(log10(values[-1]))
    for power in range(top - RIDGES + 1, top + 1):
        ridge, spectrum = 10.0**power, values + 10.0**power
        level = 2.0 * log(3.0 * (1 + abs(power)) ** 2 / confidence.delta)
        noise = confidence.scale * sqrt(float(np.log(spectrum / ridge).sum()) + level)
        radius = noise + sqrt(ridge) * confidence.bound
        found = max(found, least_length(spectrum, parts / spectrum, radius))
    return found if found > GROSS * confidence.bound else 0.0
