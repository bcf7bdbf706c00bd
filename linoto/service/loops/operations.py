"""All loops of a database, and what can be done with them: each operation is a job for the writer.

An operation checks, decides, and records events: in memory and in the open transaction at once. If the
transaction fails, memory is read back from disk.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from time import gmtime, perf_counter, strftime
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from linoto.core.decisions import Decision, NoSafeArm
from linoto.core.guardrail import as_metric_name
from linoto.core.hints import counted, nearest
from linoto.core.kernels import NO_DRAWS
from linoto.service.errors import Refused, Undone, damaged, invalid, moving, not_found
from linoto.service.loops.batches import check_batch, in_place
from linoto.service.loops.choice import make_decision
from linoto.service.loops.events import (
    DECISIONS,
    ArmsChanged,
    DecisionMade,
    DrawnAnew,
    Event,
    LoopArchived,
    LoopKeyed,
    MetricsRecorded,
    Mode,
    RewardRecorded,
    SettingsChanged,
    WatchBegun,
)
from linoto.service.loops.loop import Loop
from linoto.service.loops.records import (
    UNREADABLE,
    insert,
    keep_promise,
    recover,
    why_unreadable,
)
from linoto.service.loops.requests import DecisionRequest, arm_of, read_request
from linoto.service.loops.restores import may_have_lost, note_of
from linoto.service.loops.spec import Arm
from linoto.service.loops.state import Alarm
from linoto.service.storage import expected, sql
from linoto.service.storage.connection import Connection, Row
from linoto.service.storage.features import NOT_THERE, check_names

logger = logging.getLogger("linoto.service")
T = TypeVar("T")
Clock = Callable[[], float]
SNAPSHOT_EVERY = 10_000  # events; replaying as many takes about half a second
CLOCK_TOLERANCE = 60.0  # seconds that a clock may be behind the last event without a warning
UNSEEN = 86_400.0  # seconds that a service may have been off without a question about the clock
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
CLOSE_AT_ONCE = 500  # due decisions closed in one job at the most
CLOSE_ALWAYS = 10  # and at the least, if so many are due
SLICE = 0.005  # seconds that a job may close due decisions for, so that nobody waits long for it
NOTHING_TOLD = "a report must have a reward or metrics, got neither"
RewardStatus = Literal["applied", "duplicate", "conflict", "expired", "restored", "unknown", "invalid"]
HTTP_STATUS: dict[RewardStatus, int] = {
    "applied": 200,
    "duplicate": 200,
    "conflict": 409,
    "expired": 410,
    "restored": 410,
    "unknown": 404,
    "invalid": 422,
}


class RewardResult(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of a reward: `code` is the status it would have alone."""

    decision_id: str
    status: RewardStatus
    code: int
    reward: float | None = None  # the value that stands
    metrics: dict[str, float] | None = None  # the values of guardrails that stand, of those that were told
    message: str | None = None


class Report(Protocol):
    """What is told of a decision, by its id or by its key."""

    @property
    def decision_id(self) -> str | None: ...
    @property
    def key(self) -> str | None: ...
    @property
    def reward(self) -> float | None: ...
    @property
    def metrics(self) -> Mapping[str, float] | None: ...


class Damage(NamedTuple):
    """A loop that cannot be read, and why."""

    id: int
    name: str
    created_at: float
    why: str


def check_new(loop: Loop) -> None:
    """Refuse what no new loop may be; one that an earlier version made goes on, without a promise."""
    check_loop_name(loop.name)
    if loop.spec.features is None:  # else the file was refused
        check_names(loop.arms.listed)
    refuted = loop.arms.why_refuted(loop.agent)
    if refuted:
        raise invalid(f"policy: {refuted}")


def check_loop_name(name: str) -> None:
    """Refuse a name that no address can have."""
    if NAME.fullmatch(name) is None:
        raise invalid(f"name must match {NAME.pattern}, got {name!r}")


class Loops:
    """The loops in memory, each equal to the fold of its events on disk."""

    def __init__(self, clock: Clock, snapshot_every: int = SNAPSHOT_EVERY, closing: float = SLICE) -> None:
        self.clock, self.snapshot_every, self.closing = clock, snapshot_every, closing
        self.by_name: dict[str, Loop] = {}
        self.damaged: dict[str, Damage] = {}  # loops that cannot be read while others are served
        self.serves: Callable[[str], bool] = lambda _: True  # whether a loop of this name belongs here
        self.on_alarm: Callable[[Connection, Loop, Alarm], None] = lambda *_: None  # in its transaction
        self.after_alarms: Callable[[], None] = lambda: None  # they are on disk; must not wait for anything
        self._changed: dict[int, Loop] = {}  # since the last commit
        self._notes: expected.Notes | None = None  # where the last event of each loop is noted

    # -- memory and disk

    def load(self, connection: Connection) -> None:
        """Read every loop: its last snapshot, and the events since. One without a key gets one.

        One that cannot be read is left out while others can; what is noted of it stays.
        """
        for row in sql.all_loops(connection):
            loop = try_to(partial(recover, connection, row), row, self.damaged)
            self.adopt([] if loop is None else [loop])
        self.check_some_are_read()
        file = connection.note()
        if file is not None:
            found = {loop.id: (loop.name, note_of(loop)) for loop in self.by_name.values()}
            noted = expected.read(file)
            kept = [noted.pop(each.id) for each in self.damaged.values() if each.id in noted]
            expected.check(file, noted, found)
            now = (note for _, note in found.values())
            expected.put(file, [*now, *kept])  # a power failure may have left it behind
            self._notes = expected.Notes(file, self.clock)
        self.settle(connection, self.by_name.values())

    def check_some_are_read(self) -> None:
        """Refuse a database of which nothing can be served."""
        if self.damaged and not self.by_name:
            first, *others = (each.why for each in self.damaged.values())
            more = f" (and {counted(len(others), 'more loop')} cannot be read: see `linoto db check`)"
            raise ValueError(first + more if others else first)

    def adopt(self, found: Iterable[Loop]) -> None:
        """Loops as they are on disk are here from now on."""
        for loop in found:
            self.by_name[loop.name] = loop
            ahead = loop.state.at - self.clock()
            if ahead > CLOCK_TOLERANCE:
                logger.warning(
                    "the last event lies in the future", extra={"loop": loop.name, "s": round(ahead)}
                )

    def settle(self, connection: Connection, loops: Iterable[Loop]) -> None:
        """What an earlier version left out or wrong in some of these: a key, the watch, a promise altered.

        Nothing is asked: this happens where requests are answered.
        """
        for loop in loops:
            if loop.promise_altered:
                keep_promise(connection, loop)
            if not loop.is_keyed:
                self.record(connection, loop, LoopKeyed())
            if loop.watch.claim is not None and loop.watch.claim.skewed:
                self.record(connection, loop, WatchBegun())

    def check_clock(self, loops: Iterable[Loop]) -> None:
        """Refuse a clock by which every decision of a loop is over: it may be set wrong.

        If it is, rewards that are under way would be lost, and the time of a loop never goes back.
        """
        for loop in loops:
            ahead = self.clock() - loop.state.at
            if loop.oldest_open is not None and ahead > max(loop.spec.window, UNSEEN):
                late = f"the clock says {stamp(self.clock())}, {ahead / 86400:.1f} days after the last event"
                waiting = len(loop.pending.keys() | loop.unmeasured.keys())
                raise ValueError(
                    f"{late} of loop {loop.name!r}: its {waiting} open decisions would be closed without a "
                    "reward; set the clock, or start with --accept-clock if it is right"
                )

    def committed(self) -> None:
        """What was recorded is on disk: now alarms may be logged."""
        alarmed = False
        for loop in self._changed.values():
            for alarm in loop.state.alarms[loop.alarms_logged :]:
                logger.warning("alarm", extra={"loop": loop.name, "kind": alarm.kind, "why": alarm.message})
                alarmed = True
            loop.alarms_logged = len(loop.state.alarms)
        if alarmed:
            self.after_alarms()
        if self._notes is not None and self._changed:
            self._notes.write(map(note_of, self._changed.values()))
        self._changed.clear()

    def rolled_back(self, connection: Connection) -> None:
        """What was recorded was not kept: read the changed loops again; one that cannot be is left out."""
        for loop in list(self._changed.values()):
            row = sql.one_loop(connection, loop.id)
            if row is None or row[1] != loop.name or not self.serves(loop.name):
                self.by_name.pop(loop.name, None)
            else:
                again = try_to(partial(recover, connection, row), row, self.damaged)
                if again is None:
                    self.by_name.pop(loop.name, None)
                else:
                    self.by_name[loop.name] = again
            del self._changed[loop.id]

    def record(
        self,
        connection: Connection,
        loop: Loop,
        event: Event,
        at: float | None = None,
        play: Decision | None = None,
    ) -> None:
        """One event, in memory and in the transaction; `at` a time that was read before, or now.

        `play` is a decision just made as the agent said it, where it is known.
        """
        self._changed[loop.id] = loop
        alarms = len(loop.state.alarms)
        loop.apply(event, self.now(loop) if at is None else max(at, loop.state.at), play)
        insert(connection, loop, event)
        if len(loop.state.alarms) > alarms:
            for alarm in loop.state.alarms[alarms:]:
                self.on_alarm(connection, loop, alarm)
        if loop.state.seq - loop.snapshot_seq >= self.snapshot_every:
            self.save(connection, loop)

    def save(self, connection: Connection, loop: Loop) -> None:
        """A snapshot, so that recovery need not begin at the beginning."""
        if loop.state.seq > loop.snapshot_seq:
            self._changed[loop.id] = loop
            sql.insert_snapshot(connection, loop.id, loop.state.seq, *loop.snapshot())
            keep_promise(connection, loop)
            loop.snapshot_seq = loop.state.seq

    def save_all(self, connection: Connection) -> None:
        """A snapshot of every loop, as before a stop."""
        for loop in self.by_name.values():
            self.save(connection, loop)

    def close(self) -> None:
        """What is noted beside the database is on disk when this returns."""
        if self._notes is not None:
            self._notes.sync()

    def now(self, loop: Loop) -> float:
        """The time, which never goes back within a loop even if the clock does."""
        return max(self.clock(), loop.state.at)

    def get(self, name: str) -> Loop:
        """The loop of this name."""
        loop = self.by_name.get(name)
        if loop is None:
            raise self._why_absent(name)
        return loop

    def created_at(self, name: str) -> float:
        """When a loop was made, whether it can be read or not."""
        loop = self.by_name.get(name)
        return self.damaged[name].created_at if loop is None else loop.created_at

    def _why_absent(self, name: str) -> Refused:
        if not self.serves(name):
            return moving(name)
        return damaged(name, self.damaged[name].why) if name in self.damaged else not_found("loop", name)

    # -- operations

    def create(self, connection: Connection, loop: Loop) -> tuple[Loop, bool]:
        """Add a fresh loop, or find the one there is if it was made from the same spec; whether it is new.

        To make a fresh loop may take seconds, so it is made before and elsewhere.
        """
        name, spec = loop.name, loop.spec
        if not self.serves(name) or name in self.damaged:
            raise self._why_absent(name)
        existing = self.by_name.get(name)
        if existing is not None:
            if existing.is_made_from(loop.asked):
                return existing, False
            raise Refused(409, "exists", f"loop {name!r} exists with other arms, log, policy or settings")
        check_new(loop)
        at = self.clock()
        if spec.features is not None and not sql.use_features(connection, spec.features, at):
            raise invalid(NOT_THERE.format(spec.features))
        id = sql.insert_loop(connection, name, msgspec.json.encode(spec), at)
        if loop.state.seq:  # added before, in a transaction that was rolled back
            loop = Loop.fresh(name, loop.asked)
        loop.id, loop.created_at, loop.state.at = id, at, at
        loop.secret, epoch = sql.secret_of(connection)
        loop.take_key()
        self.by_name[name] = self._changed[id] = loop
        if epoch:  # of a restore: the ids and draws of a loop that it lost are not those of this one
            self.record(connection, loop, LoopKeyed(epoch=epoch))
        return loop, True

    def decide(self, connection: Connection, name: str, **asked: Any) -> DecisionMade:
        """Decide and commit in one step, asked as `read_request` takes it; the same key, the same decision.

        Until that decision is pruned (`linoto db prune`): then its key is forgotten, and gets a new one.
        """
        loop = self.get(name)
        request = read_request(loop, **asked)
        found = None if request.key is None else sql.event_of_key(connection, loop.id, request.key)
        return self._earlier(loop, request, found) or self._answer(connection, loop, request, self.now(loop))

    def decide_many(
        self, connection: Connection, name: str, asked: Sequence[Mapping[str, Any]]
    ) -> list[DecisionMade]:
        """The decisions that the same requests would get one after the other; all of them or none.

        What can be refused beforehand is. What only the decisions before it show is undone.
        """
        loop = self.get(name)
        before = loop.state.seq
        check_batch(loop, len(asked))
        keys = [each["key"] for each in asked if each.get("key") is not None]
        found, requests, made = sql.events_of_keys(connection, loop.id, keys), [], list[DecisionMade]()
        answered, at = dict[str, DecisionMade](), self.now(loop)
        try:
            for each in asked:
                request = read_request(loop, **each)
                earlier = self._earlier(loop, request, found.get(request.key or ""))
                requests.append((request, earlier))
            for request, earlier in requests:
                if request.key in answered:
                    earlier = request.same_as(answered[request.key], loop)
                made.append(earlier or self._answer(connection, loop, request, at))
                if request.key is not None:
                    answered[request.key] = made[-1]
        except Refused as refusal:
            named = in_place(len(made) if len(requests) == len(asked) else len(requests), refusal)
            named.after_draws = loop.state.seq > before
            raise (Undone(named) if named.after_draws else named) from None
        return made

    def draw_anew(self, connection: Connection, name: str) -> None:
        """Draw the next rounds with another key: a refusal may tell what was drawn for those just undone."""
        self.record(connection, self.get(name), DrawnAnew())

    def _earlier(self, loop: Loop, request: DecisionRequest, found: bytes | None) -> DecisionMade | None:
        """The decision that the key of a request got before; if there is none, the request is checked."""
        if found is not None:
            return request.same_as(DECISIONS.decode(found), loop)
        request.check(loop)
        return None

    def _answer(
        self, connection: Connection, loop: Loop, request: DecisionRequest, at: float
    ) -> DecisionMade:
        question = request.now(loop)
        if loop.is_over(at):
            self.close_due(connection, loop, self.closing)
        expires_at = max(at, loop.state.at) + loop.spec.window
        try:
            event, play = make_decision(
                loop, question, key=request.key, proposal=request.proposal, expires_at=expires_at
            )
        except NoSafeArm as error:
            if request.proposal is None and loop.agent.rule.draws != NO_DRAWS:  # it tells what was drawn
                self.record(connection, loop, DrawnAnew())
            raise Refused(409, "no_safe_arm", str(error)) from error
        self.record(connection, loop, event, at, play)
        return event

    def reward(
        self,
        connection: Connection,
        name: str,
        decision_id: str,
        reward: float | None,
        metrics: Mapping[str, float] | None = None,
    ) -> RewardResult:
        """The reward of a decision, values of its guardrails, or both: each once, all of a call or none.

        Says which values stand where some were told before.
        """
        loop = self.get(name)
        return self._reward(connection, loop, decision_id, reward, metrics, self.now(loop))

    def _reward(
        self,
        connection: Connection,
        loop: Loop,
        decision_id: str,
        reward: float | None,
        metrics: Mapping[str, float] | None,
        at: float,
    ) -> RewardResult:
        """The same of a loop at a time."""
        try:
            number = loop.number_of(decision_id)
        except Refused as lost:
            return result(decision_id, "restored", message=f"{lost.message}: the reward counts for nothing")
        if number is None:
            message = f"there is no decision {decision_id!r} in {loop.name!r}"
            return result(decision_id, "unknown", message=message)
        self._close_if_over(connection, loop, number, at)
        try:
            metrics = by_metric(metrics)
        except ValueError as error:
            return result(decision_id, "invalid", message=str(error))
        found = [] if reward is None else [self._read_reward(connection, loop, decision_id, number, reward)]
        if not metrics and found:
            if found[0].status == "applied" and found[0].reward is not None:
                self.record(connection, loop, RewardRecorded(number, found[0].reward, "reported"), at)
            return found[0]
        stand = sql.metrics_of(connection, loop.id, number) if metrics else {}
        found += [self._read_metric(loop, number, stand, *given) for given in (metrics or {}).items()]
        refused = next((each for each in found if each.code != 200), None)
        if refused is not None or not found:
            return refused or result(decision_id, "invalid", message=NOTHING_TOLD)
        reward = reward if reward is None else found[0].reward
        if reward is not None and found[0].status == "applied":
            self.record(connection, loop, RewardRecorded(number, reward, "reported"))
        fresh = {metric: float(value) for metric, value in (metrics or {}).items() if metric not in stand}
        if fresh:
            self.record(connection, loop, MetricsRecorded(number=number, values=fresh))
        status: RewardStatus = "applied" if any(each.status == "applied" for each in found) else "duplicate"
        return result(decision_id, status, reward=reward, metrics=dict(metrics) if metrics else None)

    def reward_by_key(
        self,
        connection: Connection,
        name: str,
        key: str,
        reward: float | None,
        metrics: Mapping[str, float] | None = None,
    ) -> RewardResult:
        """The same for the decision that answered a key."""
        loop = self.get(name)
        number = sql.numbers_of_keys(connection, loop.id, [key]).get(key)
        return self._reward_of_key(connection, loop, key, number, reward, metrics, self.now(loop))

    def reward_many(self, connection: Connection, name: str, reports: Sequence[Report]) -> list[RewardResult]:
        """What becomes of each of these, as if they came one after the other."""
        loop, keys = self.get(name), [report.key for report in reports if report.key is not None]
        at, numbers = self.now(loop), sql.numbers_of_keys(connection, loop.id, keys)
        return [
            self._reward(connection, loop, report.decision_id or "", report.reward, report.metrics, at)
            if (key := report.key) is None
            else self._reward_of_key(
                connection, loop, key, numbers.get(key), report.reward, report.metrics, at
            )
            for report in reports
        ]

    def _reward_of_key(
        self,
        connection: Connection,
        loop: Loop,
        key: str,
        number: int | None,
        reward: float | None,
        metrics: Mapping[str, float] | None,
        at: float,
    ) -> RewardResult:
        """The same for a key that got this decision, if any."""
        if number is None:
            message = f"there is no decision with the key {key!r} in {loop.name!r}"
            if may_have_lost(loop, at):
                lost = (
                    "if there was one, it was lost when a backup was restored: the reward counts for nothing"
                )
                return result("", "restored", message=f"{message}; {lost}")
            return result("", "unknown", message=message)
        return self._reward(connection, loop, loop.decision_id(number), reward, metrics, at)

    def _close_if_over(self, connection: Connection, loop: Loop, number: int, at: float) -> None:
        """Close what is open of a decision whose window is over by this time."""
        decision = loop.pending.get(number)
        if decision is None and number in loop.unmeasured:
            decision = loop.unmeasured[number].decision
        if decision is not None and at >= decision.expires_at:
            self._close(connection, loop, number)

    def _close(self, connection: Connection, loop: Loop, number: int) -> None:
        """The window of a decision is over: the default reward, and values of guardrails that are lost."""
        if number in loop.pending:
            self.record(connection, loop, default_reward(loop, number))
        if number in loop.unmeasured:
            lost = list(loop.unmeasured[number].missing)
            self.record(connection, loop, MetricsRecorded(number=number, lost=lost))

    def _read_reward(
        self, connection: Connection, loop: Loop, decision_id: str, number: int, reward: float
    ) -> RewardResult:
        """What becomes of a reward; one that rounding has put beside its range is the end of that."""
        counted = reward
        try:
            counted = loop.agent.check_reward(reward)
        except ValueError as error:
            if number in loop.pending:
                return result(decision_id, "invalid", message=str(error))
        if number not in loop.pending:
            return self._closed_already(connection, loop, number, reward, counted)
        return RewardResult(decision_id, "applied", 200, counted)

    def _read_metric(
        self, loop: Loop, number: int, stand: Mapping[str, float | None], name: str, value: float
    ) -> RewardResult:
        """What becomes of the value of a guardrail; `stand` are those of its decision so far."""
        decision_id = loop.decision_id(number)
        try:
            check_metric(loop, name, value)
        except ValueError as error:
            return result(decision_id, "invalid", message=str(error))
        if name not in stand and number in loop.unmeasured:
            return result(decision_id, "applied")
        first = stand.get(name)
        if name not in stand:
            message = f"the records of this decision were pruned: the {name} it had stands"
            return result(decision_id, "expired", message=message)
        if first is None:
            message = f"the window is over: {name} counts at its worst"
            return result(decision_id, "expired", message=message)
        if first == value:
            return result(decision_id, "duplicate")
        message = f"the first value of {name} stands: {first!r}"
        return result(decision_id, "conflict", metrics={name: first}, message=message)

    def _closed_already(
        self, connection: Connection, loop: Loop, number: int, told: float, counted: float
    ) -> RewardResult:
        decision_id, row = loop.decision_id(number), sql.reward_of(connection, loop.id, number)
        if row is None:  # every decision is pending or has its reward, unless it was pruned
            message = "the records of this decision were pruned: the reward it had stands"
            return result(decision_id, "expired", message=message)
        first, origin = row
        if origin == "default":
            sql.insert_late_reward(connection, (loop.id, number, self.now(loop), counted))
            message = "the window is over: the default reward stands, this one is kept for audit"
            return result(decision_id, "expired", reward=first, message=message)
        if first in (counted, told):  # earlier versions kept it as it was told
            return result(decision_id, "duplicate", reward=first)
        return result(decision_id, "conflict", reward=first, message=f"the first value stands: {first!r}")

    def change(
        self,
        connection: Connection,
        name: str,
        *,
        by: str,
        mode: Mode | None,
        holdback: float | None,
        answer_alarms: bool = False,
        may_answer: bool = True,
    ) -> Loop:
        """Another mode or share of the control group, from the next decision on; None leaves what there is.

        Another mode answers the alarms so far, and so does `answer_alarms`; the mode that it has does not.
        """
        loop = self._changing(name)
        state = loop.state
        mode = state.mode if mode is None else mode
        holdback = state.holdback if holdback is None else holdback
        loop.arms.check_holdback(holdback, loop.agent)
        answers = may_answer and (answer_alarms or mode != state.mode)
        is_answer = answers and loop.open_alarms and loop.spec.version > 1
        if (mode, holdback) != (state.mode, state.holdback) or is_answer:
            event = SettingsChanged(mode=mode, holdback=holdback, by=by, answers=answers)
            self.record(connection, loop, event)
        return loop

    def add_arms(self, connection: Connection, name: str, *, by: str, arms: list[Arm]) -> Loop:
        """Arms that can be played from the next decision on; those of the loop already change nothing."""
        loop = self._changing(name)
        known = [arm for arm in arms if arm.name in loop.index]
        if len(known) == len(arms) and all(is_same_arm(loop, arm) for arm in known):
            return loop
        if known:
            raise Refused(409, "exists", f"arm {known[0].name!r} is or was one of loop {name!r}")
        check_names([arm.name for arm in arms], loop.names)
        added = [(arm.name, arm.features) for arm in arms]
        loop.arms.check_growth(loop.agent, added, loop.spec.redraws)
        self._change_arms(connection, loop, ArmsChanged(by=by, added=added))
        return loop

    def remove_arms(
        self, connection: Connection, name: str, *, by: str, arms: list[str], fallback: str | None
    ) -> Loop:
        """Arms that are not played again; what was removed before changes nothing."""
        loop = self._changing(name)
        removed = sorted({arm for arm in (arm_of(loop, arm) for arm in arms) if loop.is_present(arm)})
        other = None if fallback is None else arm_of(loop, fallback)
        if removed:
            self._change_arms(connection, loop, ArmsChanged(by=by, removed=removed, fallback=other))
        return loop

    def _changing(self, name: str) -> Loop:
        loop = self.get(name)
        if loop.state.archived:
            raise Refused(409, "archived", f"loop {name!r} is archived and changes no more")
        return loop

    def _change_arms(self, connection: Connection, loop: Loop, event: ArmsChanged) -> None:
        try:
            self.record(connection, loop, event)
        except (ValueError, MemoryError) as error:  # refused by the agent, before anything changed
            raise invalid(str(error)) from error

    def archive(self, connection: Connection, name: str, by: str) -> Loop:
        """No more decisions; rewards of past ones are still taken."""
        loop = self.get(name)
        if not loop.state.archived:
            self.record(connection, loop, LoopArchived(by=by))
        return loop

    def close_due(self, connection: Connection, loop: Loop, seconds: float = inf) -> int:
        """Close decisions whose window is over, oldest first: with the default reward.

        Not all at once where there are many: so many, or as long as `seconds`, but always some.
        """
        now, closed, end = self.now(loop), 0, perf_counter() + seconds
        while closed < CLOSE_AT_ONCE and (closed < CLOSE_ALWAYS or perf_counter() < end):
            oldest = loop.oldest_open
            if oldest is None or oldest.expires_at > now:
                break
            self._close(connection, loop, oldest.number)
            closed += 1
        return closed

    def is_due(self, loop: Loop) -> bool:
        """Whether a window is over: reads memory only."""
        return loop.is_over(self.now(loop))


def try_to(read: Callable[[], T], row: Row, damaged: dict[str, Damage]) -> T | None:
    """What is done to read a loop; None if it cannot be, which is logged and kept: others are served."""
    id, name, _, created_at = row
    try:
        return read()
    except UNREADABLE as error:
        why = why_unreadable(name, error)
        logger.error("loop cannot be served", extra={"loop": name, "error": why})
        damaged[name] = Damage(id, name, created_at, why)
        return None


def stamp(at: float) -> str:
    """A time for people."""
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(at))


def is_same_arm(loop: Loop, arm: Arm) -> bool:
    """Whether this arm is one of the loop already, with these features."""
    index = loop.index[arm.name]
    if not loop.is_present(index):
        return False
    known = loop.arms.known_of(index, loop.agent)
    return arm.features is None or known == [float(x) for x in arm.features]


def default_reward(loop: Loop, number: int) -> RewardRecorded:
    """What closes a decision whose reward never came."""
    return RewardRecorded(number=number, reward=loop.spec.default_reward, origin="default")


def by_metric(given: Mapping[str, float] | None) -> Mapping[str, float] | None:
    """Values by the names of their metrics, read as those of guardrails are: two that look alike are one."""
    found: dict[str, float] = {}
    for name, value in (given or {}).items():
        metric = as_metric_name(name)
        if metric in found:
            raise ValueError(f"metrics must have one value of {metric}, got two")
        found[metric] = value
    return found or None


def check_metric(loop: Loop, name: str, value: float) -> None:
    """Refuse the value of a guardrail that the loop does not have, or one outside of its range."""
    if not loop.metrics:
        raise ValueError(f"metrics must be left out in a loop without guardrails, got {name!r}")
    if name not in loop.metrics:
        known = ", ".join(loop.metrics)
        raise ValueError(f"metrics must be of {known}, got {name!r}{nearest(name, loop.metrics)}")
    loop.metrics[name].guardrail.turned(value)


def result(decision_id: str, status: RewardStatus, **parts: Any) -> RewardResult:
    """What became of a reward."""
    return RewardResult(decision_id=decision_id, status=status, code=HTTP_STATUS[status], **parts)
