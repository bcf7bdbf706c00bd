"""How much a loop may still lose: by its promise and its books, and as its gate sees it.

What is told of it is one story: while the books are below the promise, no room is shown.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from linoto.core.hints import UNIT, amount
from linoto.service.loops.history import Point
from linoto.service.loops.loop import Loop
from linoto.service.loops.practice import PracticeTerms
from linoto.service.loops.readings import left_at_most
from linoto.service.loops.restores import debt, debt_at
from linoto.service.loops.sums import left_below_log, loss_and_left_below_log


class Left(NamedTuple):
    """The loss that is promised at the most, and how much of it is left: at the least, now, at the most."""

    promised: float | None = None  # None: nothing is
    lower: float | None = None
    now: float | None = None
    upper: float | None = None


def loss_and_left(loop: Loop) -> Left:
    """Against the log in rewards as they came; against practice as the gate counts it."""
    terms = loop.practice
    if terms is None:
        return Left(*loss_and_left_below_log(loop))
    return left_of(terms, loop.state.decided, room_now(loop))


def left_at(loop: Loop, point: Point) -> Left:
    """The same at a point of its history, its last decision at its worst, where a coin compares."""
    if loop.practice is None or point.budget is None:
        return Left()
    low, high = loop.practice.limits
    room = point.budget - (high - low)  # the gate saw it before that decision
    return left_of(loop.practice, point.decisions, room - debt_at(loop, point.decisions))


def left_of(terms: PracticeTerms, decided: int, room: float | None) -> Left:
    """Of one number, the reward or a metric, after so many decisions."""
    promised, (low, high) = terms.promised_loss(decided), terms.limits
    if promised is None or room is None:
        return Left()
    left = room + high - low  # the room is what is left after one more round at its worst
    return Left(promised=promised, now=min(max(left, 0.0), promised))


def may_be_chance(loop: Loop) -> bool:
    """Whether the books are below the promise by the log's mean, but not beyond what they leave open."""
    return is_below_mean(loop, left_at_most(loop))


def is_below_mean(loop: Loop, most: float) -> bool:
    """The same where so much is left at the most."""
    if loop.practice is not None or loop.watch.per_round is None or most < 0:
        return False
    left = left_below_log(loop)
    return left is not None and left + debt(loop) < 0


def room_left(loop: Loop, room: float | None, left: float | None = None) -> float | None:
    """The room of a gate, which is never more than what the books leave: `left`, where that is known."""
    if room is None or room == inf or loop.practice is not None:
        return room
    if room == -inf and loop.state.model_dropped:
        room = 0.0
    left = left_at_most(loop) if left is None else left
    if room <= 0.0 <= left:
        return room  # whatever the mean says
    return min(room, 0.0 if is_below_mean(loop, left) else left)


def room_now(loop: Loop) -> float | None:
    """The room that there is now; at the last decision where it depends on what the next one is about.

    What a restore has lost is taken from it.
    """
    room = room_left(loop, loop.arms.room_to_show(loop.agent, loop.state.budget))
    return None if room is None else room - debt(loop)


def standing(loop: Loop) -> str:
    """Where the books stand while they are below the promise, in a sentence; "" where they are not."""
    left, unit = loss_and_left(loop), loop.spec.unit or UNIT
    if loop.practice is not None or left.now is None or left.lower is None or left.upper is None:
        return ""
    if left_at_most(loop) < 0:
        return (
            "The loop has earned less than promised, by more than the uncertainty of its books: nothing is "
            "tried until rewards recover."
        )
    if left.now >= 0:
        return ""
    if not may_be_chance(loop):
        return (
            "Decisions that a restored backup has lost count at their worst, and that is more than the "
            "promise still allows."
        )
    return (
        f"By the log's mean reward the loop is {amount(-left.now)} {unit} below what the promise allows, but "
        f"within the uncertainty of its books, which reach from {amount(-left.lower)} below it to "
        f"{amount(left.upper)} above: this may be chance, so it goes on."
    )
