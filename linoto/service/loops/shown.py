"""What is shown of a mean reward lies in the range of mean rewards, where one was stated.

Only here, and only for people: agents, explorers, gates and events have the bounds as they are computed.
"""

from __future__ import annotations

from math import inf

from linoto.core.codec import finite
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.lift import Limits
from linoto.service.loops.loop import Loop


def cut(limits: Limits | None, lower: float, upper: float, *inside: float) -> tuple[float, ...]:
    """Both ends of an interval for a mean, and what lies between them, moved into the range of means.

    An interval without a mean that is possible contradicts the range: it is left as it is, for its cut would
    say that the mean is an end of the range for sure.
    """
    numbers = lower, upper, *inside
    if limits is None or lower > limits[1] or upper < limits[0]:
        return numbers
    return tuple(min(max(number, limits[0]), limits[1]) for number in numbers)


def bounds_of(loop: Loop, event: DecisionMade) -> tuple[float | None, float | None]:
    """The bounds of what a decision has played, as they are shown; one that is not finite is an end."""
    lower, upper = -inf if event.lcb is None else event.lcb, inf if event.ucb is None else event.ucb
    lower, upper = cut(loop.limits_of_means, lower, upper)
    return finite(lower), finite(upper)
