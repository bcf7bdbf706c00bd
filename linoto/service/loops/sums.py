"""What a loop earned beside what the log would have, and how much the promise lets it still lose.

A lost reward is not known: it may have been any in its range. So it counts in no sum that is compared with
the log, except at the ends of a range.
"""

from __future__ import annotations

from math import isfinite

import numpy as np

from linoto.core.codec import finite
from linoto.service.loops.history import Point
from linoto.service.loops.limits import Line, alarm_value_of
from linoto.service.loops.loop import Loop
from linoto.service.loops.references import Part, beyond_first
from linoto.service.loops.restores import debt


def expected_and_least(loop: Loop, closed: int) -> tuple[float | None, float | None]:
    """What as many plays of the log would have earned, and the least that the promise allows."""
    if loop.log_mean is None:
        return None, None
    later, watch, expected = loop.state.references, loop.watch, closed * loop.log_mean
    if later:
        expected += float(beyond_first(loop.log_mean, later, "mean", closed))
    if watch.per_round is None or loop.state.promise_void:
        return expected, None
    return expected, expected - closed * watch.per_round - watch.constant


def gain(loop: Loop, closed: int, rewards: float, lost: int) -> float | None:
    """What the known rewards were more than the log's average would have earned in as many decisions."""
    expected, _ = expected_and_least(loop, closed)
    return None if expected is None else gain_beyond(loop, expected, closed, rewards, lost)


def gain_beyond(loop: Loop, expected: float, closed: int, rewards: float, lost: int) -> float:
    """The same where it is known what the log would have earned in all of them."""
    return rewards - lost * loop.spec.default_reward - expected * (1 - lost / max(closed, 1))


def gain_between(loop: Loop, plays: int, unknown: int, known: float) -> tuple[float, float]:
    """Where the gain of so many plays lies, of which some are unknown and the others earned `known`.

    By the two ends of the interval of the log's mean, where an unknown reward counts as the worst and as the
    best; as the log's average where rewards have no range.
    """
    (low, high), scale, later = loop.log_interval, loop.watch.scale, loop.state.references
    expected, _ = expected_and_least(loop, plays)
    average = (expected or 0.0) / max(plays, 1)
    ends: tuple[tuple[float, Part, float], ...] = ((high, "high", scale.low), (low, "low", scale.high))
    lower, upper = (
        known
        + unknown * (reward if isfinite(reward) else average)
        - plays * end
        - float(beyond_first(end, later, part, plays))
        for end, part, reward in ends
    )
    return lower, upper


def gain_ends(loop: Loop, closed: int, rewards: float, lost: int) -> tuple[float | None, float | None]:
    """The ends of what `gain` tells, of these closed decisions; None where there is no log."""
    if loop.log_mean is None:
        return None, None
    return gain_between(loop, closed, lost, rewards - lost * loop.spec.default_reward)


def loss_and_left_below_log(loop: Loop) -> tuple[float | None, float | None, float | None, float | None]:
    """The loss that is promised at the most, and how much of it is left: at the least, now, at the most.

    Never more than is promised: what was gained is not a loss that is still allowed. It is counted in rewards
    as they came: by the log's mean, where a lost one counts as the log's average, and by the ends of the
    interval of that mean, where lost and open ones count as the worst and as the best reward. Open ones have
    neither where rewards have no range, and are left out. None where nothing is promised.
    """
    closed, lost, scale = loop.state.counted.closed, loop.lost, loop.watch.scale
    expected, least = expected_and_least(loop, closed)
    left = left_below_log(loop)
    if expected is None or least is None or left is None:
        return None, None, None, None
    plays = loop.state.counted.plays if scale.bounded else closed
    known = loop.state.counted.rewards - lost * loop.spec.default_reward
    allowed = plays * (loop.watch.per_round or 0.0) + loop.watch.constant
    lower, upper = (end + allowed for end in gain_between(loop, plays, plays - closed + lost, known))
    most = expected - least
    best = min(upper, most)  # no restore has cost anything
    return most, min(lower - debt(loop), most), left, best


def left_below_log(loop: Loop) -> float | None:
    """How much is left now of the loss that is promised at the most; None where nothing is promised."""
    closed = loop.state.counted.closed
    expected, least = expected_and_least(loop, closed)
    if expected is None or least is None:
        return None
    gained = gain_beyond(loop, expected, closed, loop.state.counted.rewards, loop.lost)
    most = expected - least
    return min(gained + most - debt(loop), most)


def promised(loop: Loop) -> bool:
    """Whether there is a promise, and every decision so far is covered by it."""
    return loop.watch.per_round is not None and not loop.state.promise_void


def alarm_line(loop: Loop) -> Line | None:
    """What decides now at which summed reward the promise alarm is raised; None where nothing is promised."""
    if not promised(loop):
        return None
    watch, closed = loop.watch, loop.state.counted.closed
    threshold = loop.state.promise.threshold(watch.threshold)
    return Line(watch.scale, threshold, closed, float(watch.least(closed)))


def alarm_below(loop: Loop) -> float | None:
    """The summed reward below which the promise alarm is raised now."""
    line = alarm_line(loop)
    value = None if line is None else alarm_value_of(line)
    return None if value is None else without_lost(loop, value, loop.state.counted.closed, loop.lost)


def alarm_lines(loop: Loop, points: list[Point]) -> list[float | None]:
    """The same at each of these points."""
    watch, counts = loop.watch, np.array([point.closed for point in points], dtype=np.float64)
    threshold = loop.state.promise.threshold(watch.threshold)
    sums = watch.alarm_below(counts, threshold) if promised(loop) else None
    if sums is None:
        return [None] * len(points)
    return [
        without_lost(loop, sum, point.closed, point.lost)
        for sum, point in zip(sums.tolist(), points, strict=True)
    ]


def without_lost(loop: Loop, sum: float, closed: int, lost: int) -> float | None:
    """A lost reward counts as the best in the alarm, and as the default in the sum that it is drawn with.

    None where the known rewards cannot be that low: so many are lost that there is no alarm.
    """
    scale = loop.watch.scale
    if lost and scale.bounded and sum < (closed - lost) * scale.low + lost * scale.high:
        return None
    return finite(sum - lost * (scale.high - loop.spec.default_reward) if lost else sum)
