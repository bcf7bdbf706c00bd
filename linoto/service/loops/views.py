"""What can be seen of a loop: its numbers, its history, its arms, and its report."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from linoto.core.codec import finite
from linoto.core.coins import SEEDED
from linoto.core.hints import counted
from linoto.service.loops.events import GROUPS, Mode
from linoto.service.loops.history import Point
from linoto.service.loops.lift import LEVEL
from linoto.service.loops.limits import alarm_value_of
from linoto.service.loops.loop import Loop
from linoto.service.loops.means import Earned, know_intervals
from linoto.service.loops.metric_views import (
    LiftView,
    MetricView,
    PracticeView,
    lift_over,
    metric_views,
    practice_told,
)
from linoto.service.loops.operations import Damage
from linoto.service.loops.readings import in_order, lift_of
from linoto.service.loops.restores import restores_of
from linoto.service.loops.rooms import left_at, loss_and_left, room_now, standing
from linoto.service.loops.state import ArmsChange, Epoch
from linoto.service.loops.sums import (
    alarm_below,
    alarm_line,
    alarm_lines,
    expected_and_least,
    gain,
    gain_ends,
    promised,
)
from linoto.service.loops.watch import as_factor


class GroupView(Struct):
    """What one group of decisions has earned."""

    plays: int
    closed: int
    defaults: int
    lost: int  # of the closed ones: nobody knows their reward
    rewards: float  # summed, in which a lost one counts as the default
    mean: float | None  # of the rewards that are known; None where none is
    lower: float | None  # of an interval for the mean of all, lost ones at both ends; None: too few to say
    upper: float | None
    level: float  # its probability: at any time where rewards have a range, otherwise as a normal interval


class AlarmView(Struct):
    """An alarm, for the page and the log."""

    kind: str
    at: float
    message: str
    metric: str | None  # of the guardrail that it is about
    answered: bool  # whether somebody has, by another mode or by saying so


class RestoreView(Struct):
    """A restore of the database from a backup."""

    at: float
    decisions: int  # that were in the backup
    missing: int | None  # events that came after it, and are lost; None: nobody knows


class LoopView(Struct):
    """The live numbers of a loop."""

    name: str
    description: str
    mode: Mode
    holdback: float
    archived: bool
    created_at: float
    decisions: int
    tried: float | None  # how many played another arm than the safe choice; None: an earlier version made it
    pending: int
    rewards: int
    model_version: int
    arms: int
    context_fields: list[str] | None  # what a decision is asked for with; None: the loop has no contexts
    policy: str
    switched_at: float | None  # when the mode was last changed
    switched_by: str | None
    budget: float | None
    reference: float | None
    closed: int  # decisions that the promise is about: all but control plays that the policy does not count
    realised: float  # their summed reward, in which a lost one counts as the default
    lost: int  # how many of them are lost: nobody knows their reward
    known: float  # the summed reward of the others
    gain: float | None  # what that is more than the log's average would have earned in as many decisions:
    # against the log, also behind a Control gate, where `practice` compares with practice
    gain_lower: float | None  # and by the two ends of the interval of the log's mean, lost ones at both ends
    gain_upper: float | None
    expected_by_log: float | None  # the reference, as often
    promised_least: float | None  # what the promise allows its mean to be at the least
    promised_loss: float | None  # the most that the promise allows to lose, below the log or below practice
    left_to_lose: float | None  # how much of that is left, by the mean reward of the log or the gate's books
    left_lower: float | None  # and by the two ends of the interval of the log's mean
    left_upper: float | None
    no_control: str  # why there can be no control group; "" where there can
    standing: str  # where the books stand while they are below the promise; "" where they are not
    practice: PracticeView | None  # None unless the gate throws a coin
    metrics: list[MetricView]  # the guardrails
    unit: str  # what rewards are counted in, "" if nobody said
    alarm_below: float | None  # a sum below this raises the promise alarm
    evidence_against_promise: float | None
    promise_alarm_at: float  # evidence at which the next alarm is raised
    evidence_for_practice: float | None  # that practice would have earned more; None without a coin
    practice_alarm_at: float
    evidence_of_drift: float | None
    drift_alarm_at: float
    drifted_at: float | None  # the first drift alarm; None: there was none
    arms_since_drift: bool  # whether arms show what they earned since then, without the log
    groups: dict[str, GroupView]
    alarms: list[AlarmView]
    arm_changes: list[ArmsChange]
    restores: list[RestoreView]


class LoopLine(Struct):
    """A loop in a line, for a list of many: nothing in it has to be computed."""

    name: str
    description: str
    mode: Mode | None  # None where it cannot be read
    archived: bool
    decisions: int
    pending: int
    alarms: int  # those that nobody has answered
    created_at: float
    damaged: str | None = None  # why it cannot be read, and so not be served


class PointView(Struct):
    """A point in the course of a loop; what it says of rewards is about the `closed` decisions."""

    at: float
    decisions: int
    explored: int
    tried: float | None
    held: int
    closed: int
    realised: float
    gain: float | None
    gain_lower: float | None
    gain_upper: float | None
    expected_by_log: float | None
    promised_least: float | None
    alarm_below: float | None
    budget: float | None
    earned: float | None  # by explored decisions, where a coin compares them with practice
    practice_lower: float | None  # what practice would have earned in them: at the least
    practice_upper: float | None  # and at the most
    promised_loss: float | None  # the most that the promise allows to lose below practice
    left_to_lose: float | None  # and how much of that was left, by the gate's books


class HistoryView(Struct):
    """A few hundred points at most, oldest first, the last of them now."""

    points: list[PointView]


class Report(Struct):
    """A loop's account: the promise, what was earned, and the control group beside it."""

    loop: LoopView
    certificate: dict[str, Any]
    lift: LiftView


def group_view(earned: Earned) -> GroupView:
    """What a group has earned, with its mean and where that lies."""
    totals, (lower, upper) = earned.totals, earned.interval or (None, None)
    return GroupView(
        plays=totals.plays,
        closed=totals.closed,
        defaults=totals.defaults,
        lost=earned.lost,
        rewards=totals.rewards,
        mean=earned.mean,
        lower=lower,
        upper=upper,
        level=LEVEL,
    )


def practice_view(loop: Loop) -> PracticeView | None:
    """What the coin has told so far, where there is one."""
    return None if loop.ledger is None else practice_told(loop, loop.ledger)


def lift_view(loop: Loop) -> LiftView:
    """The lift so far."""
    seen = practice_view(loop)
    if seen is not None:
        return lift_over(seen)
    lift, interval = lift_of(loop) or (loop.state.lift, loop.state.lift.interval(loop.limits))
    lower, upper = interval or (None, None)
    mean = lift.value
    if mean is not None and lower is not None and upper is not None:
        mean = min(max(mean, lower), upper)  # what is known may be the good half of what there is
    return LiftView(lift.policy.closed, lift.control.closed, mean, lower, upper, LEVEL)


def loop_view(loop: Loop) -> LoopView:
    """The numbers of now."""
    return LoopView(**settings_of(loop), **earnings_of(loop), **promise_of(loop), **watch_of(loop))


def settings_of(loop: Loop) -> dict[str, Any]:
    """What a loop is, and how it is set."""
    state, switched = loop.state, loop.state.mode_change
    return {
        "name": loop.name,
        "description": loop.spec.description,
        "unit": loop.spec.unit,
        "policy": str(loop.spec.policy.get("type")),
        "created_at": loop.created_at,
        "mode": state.mode,
        "switched_at": None if switched is None else switched.at,
        "switched_by": None if switched is None else switched.by,
        "holdback": state.holdback,
        "no_control": loop.arms.why_no_control(loop.agent),
        "archived": state.archived,
        "arms": loop.arm_count,
        "context_fields": loop.arms.context_fields,
        "arm_changes": state.arm_changes.copy(),
        "restores": [
            RestoreView(made.restored_at or 0.0, made.first - 1, made.missing) for made in restores_of(loop)
        ],
    }


def earnings_of(loop: Loop) -> dict[str, Any]:
    """What it has decided and earned."""
    state, counted = loop.state, loop.state.counted
    lower, upper = gain_ends(loop, counted.closed, counted.rewards, loop.lost)
    return {
        "decisions": state.decided,
        "tried": state.tried if in_order(loop) else None,
        "pending": len(loop.pending),
        "rewards": sum(state.groups[group].closed for group in GROUPS),
        "model_version": state.learned,
        "reference": loop.reference,
        "closed": counted.closed,
        "realised": counted.rewards,
        "lost": loop.lost,
        "known": counted.rewards - loop.lost * loop.spec.default_reward,
        "gain": gain(loop, counted.closed, counted.rewards, loop.lost),
        "gain_lower": lower,
        "gain_upper": upper,
        "groups": {group: group_view(Earned.by(loop, state.groups[group])) for group in GROUPS},
        "practice": practice_view(loop),
        "metrics": metric_views(loop),
    }


def promise_of(loop: Loop) -> dict[str, Any]:
    """What is promised, and how much of that is left."""
    (expected, least), left = expected_and_least(loop, loop.state.counted.closed), loss_and_left(loop)
    return {
        "budget": finite(room_now(loop)),
        "expected_by_log": expected,
        "promised_least": least,
        "promised_loss": left.promised,
        "left_to_lose": left.now,
        "left_lower": left.lower,
        "left_upper": left.upper,
        "standing": standing(loop),
        "alarm_below": alarm_below(loop),
    }


def watch_of(loop: Loop) -> dict[str, Any]:
    """The evidence against what is claimed, and the alarms."""
    state, watch = loop.state, loop.watch
    evidence, next_alarm = as_factor(state.promise.evidence), state.promise.threshold(watch.threshold)
    return {
        "evidence_against_promise": evidence if promised(loop) else None,
        "promise_alarm_at": as_factor(next_alarm),
        "evidence_for_practice": None if loop.practice is None else evidence,
        "practice_alarm_at": as_factor(next_alarm),
        "evidence_of_drift": as_factor(state.drift.evidence) if watch.watches_drift else None,
        "drift_alarm_at": as_factor(state.drift.threshold(drift_threshold(loop))),
        "drifted_at": drifted_at(loop),
        "arms_since_drift": state.since_drift is not None,
        "alarms": alarm_views(loop),
    }


def loop_views(loops: list[Loop]) -> list[LoopView]:
    """The numbers of many loops; what is slow in them is computed for all of them together."""
    know_intervals(Earned.by(loop, totals) for loop in loops for totals in loop.state.groups.values())
    alarm_value_of.know(line for line in map(alarm_line, loops) if line is not None)
    return [loop_view(loop) for loop in loops]


def loop_line(loop: Loop) -> LoopLine:
    """The same in a line."""
    state = loop.state
    unanswered = max(len(state.alarms) - state.answered, 0)
    counts = state.decided, len(loop.pending), unanswered
    return LoopLine(loop.name, loop.spec.description, state.mode, state.archived, *counts, loop.created_at)


def damaged_line(damage: Damage) -> LoopLine:
    """The same of a loop that cannot be read: nothing of it is known."""
    return LoopLine(damage.name, "", None, False, 0, 0, 0, damage.created_at, damage.why)


def alarm_views(loop: Loop) -> list[AlarmView]:
    """Every alarm there was, oldest first."""
    return [
        AlarmView(alarm.kind, alarm.at, alarm.message, alarm.metric or None, i < loop.state.answered)
        for i, alarm in enumerate(loop.state.alarms)
    ]


def drifted_at(loop: Loop) -> float | None:
    """When the first drift alarm was raised, in a loop without contexts: the log is of another world since.

    Later ones compare with the same log, so they say the same again.
    """
    if loop.watch.claim is None:
        return None
    return next((alarm.at for alarm in loop.state.alarms if alarm.kind == "drift"), None)


def drift_threshold(loop: Loop) -> float:
    """log evidence of drift that is a first alarm."""
    return loop.watch.threshold if loop.spec.version == 1 else loop.watch.drift_threshold


def history(loop: Loop) -> HistoryView:
    """The history so far, and the present."""
    now = loop.now()
    points = [*(point for point in loop.state.history.points if point.closed < now.closed), now]
    alarms = alarm_lines(loop, points)
    left = [left_at(loop, point).now for point in points]
    if loop.practice is not None:
        left[-1] = loss_and_left(loop).now
    return HistoryView([point_view(loop, *each) for each in zip(points, alarms, left, strict=True)])


def point_view(loop: Loop, point: Point, alarm: float | None, left: float | None) -> PointView:
    """A point with what it is compared with."""
    expected, least = expected_and_least(loop, point.closed)
    lower, upper = point.practice or (None, None)
    gain_lower, gain_upper = gain_ends(loop, point.closed, point.rewards, point.lost)
    return PointView(
        at=point.at,
        decisions=point.decisions,
        explored=point.explored,
        tried=point.tried if in_order(loop) else None,
        held=point.held,
        closed=point.closed,
        realised=point.rewards,
        gain=gain(loop, point.closed, point.rewards, point.lost),
        gain_lower=gain_lower,
        gain_upper=gain_upper,
        expected_by_log=expected,
        promised_least=least,
        alarm_below=alarm,
        budget=point.budget,
        earned=point.earned,
        practice_lower=lower,
        practice_upper=upper,
        promised_loss=None if loop.practice is None else loop.practice.promised_loss(point.decisions),
        left_to_lose=left,
    )


def report(loop: Loop) -> Report:
    """The promise, what was earned, and the comparison with the control group."""
    return Report(loop_view(loop), certificate(loop), lift_view(loop))


def assumed_of_draws(loop: Loop) -> list[str]:
    """What the promise needs besides: of a seed, and of restores."""
    found = []
    if loop.agent.gate.throws_coin and loop.has_seed:
        found.append(SEEDED)
    if restores_of(loop):
        found.append("no backup was restored because of the rewards that were lost by it")
    return found


def restore_text(epoch: Epoch) -> str:
    """What a restore did to the promise."""
    made = f"after decision {epoch.first - 1} a backup was restored"
    more = "the probability that the promise fails has grown by delta"
    if epoch.missing is None:
        lost = "what came after it is left out of the promise, because nobody knows how much it was"
    else:
        are = "is" if epoch.missing == 1 else "are"
        lost = f"{counted(epoch.missing, 'event')} {are} lost, {costly_text(epoch)} against the promise"
    return f"{made}: {lost}; {more}"


def costly_text(epoch: Epoch) -> str:
    """Which of the decisions that a restore has lost count at their worst."""
    if epoch.costly is None:
        return "and as many decisions count at their worst"
    if epoch.decided is None or epoch.decided == epoch.costly:
        return f"and {counted(epoch.costly, 'decision')} among them count at their worst"
    made = counted(epoch.decided, "decision")
    return f"{made} among them, of which {epoch.costly:,} that explored count at their worst"


def certificate(loop: Loop) -> dict[str, Any]:
    """What was promised before the first decision, and over the decisions so far."""
    data = loop.certificate.to_dict(rounds=loop.state.counted.plays)
    if loop.state.promise_void:
        data |= {
            "holds": False,
            "theorem": "a decision was restricted to some arms",
        }
    if data["holds"]:
        data["assumes"] = (*data["assumes"], *assumed_of_draws(loop))
        data["changes"] = (*data["changes"], *map(restore_text, restores_of(loop)))
    return {key: finite(value) if isinstance(value, float) else value for key, value in data.items()}
