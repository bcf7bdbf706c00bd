"""All loops of a database, and what can be done with them: each operation is a job for the writer.

An operation checks, decides, and records events: in memory and in the open transaction at once. If the
transaction fails, memory is read back from disk.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from sqlite3 import Connection
from typing import Any

import msgspec

from linoto.core.decisions import NoSafeArm
from linoto.service.errors import Refused, invalid, not_found
from linoto.service.loops import inside
from linoto.service.loops.choice import choose
from linoto.service.loops.loop import EVENTS, Loop
from linoto.service.loops.messages import (
    Archived,
    Change,
    Closed,
    Decided,
    DecideRequest,
    Decision,
    Event,
    RewardReport,
    RewardResult,
    Switched,
)
from linoto.service.loops.records import answer, decision_row, default_of, event_of, recover, repeat
from linoto.service.loops.spec import check_holdback
from linoto.service.storage import sql

logger = logging.getLogger("linoto.service")
Clock = Callable[[], float]
SNAPSHOT_EVERY = 10_000  # events; replaying as many takes about half a second
AHEAD = 60.0  # seconds that a clock may be behind the last event without a word
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
CLOSE_AT_ONCE = 500  # due decisions closed in one go, so that nobody waits long behind them
STATUS = {"applied": 200, "duplicate": 200, "conflict": 409, "expired": 410, "unknown": 404, "invalid": 422}


class Loops:
    """The loops in memory, each equal to the fold of its events on disk."""

    def __init__(self, clock: Clock, snapshot_every: int = SNAPSHOT_EVERY) -> None:
        self.clock, self.snapshot_every = clock, snapshot_every
        self.by_name: dict[str, Loop] = {}
        self._touched: dict[int, Loop] = {}  # changed since the last commit

    # -- memory and disk

    def load(self, connection: Connection) -> None:
        """Read every loop: its last snapshot, and the events since."""
        for row in sql.all_loops(connection):
            loop = recover(connection, row)
            self.by_name[loop.name] = loop
            ahead = loop.books.at - self.clock()
            if ahead > AHEAD:
                logger.warning(
                    "the last event lies in the future", extra={"loop": loop.name, "s": round(ahead)}
                )

    def committed(self) -> None:
        """What was recorded is on disk: now alarms may be told."""
        for loop in self._touched.values():
            for alarm in loop.books.alarms[loop.told :]:
                logger.warning("alarm", extra={"loop": loop.name, "kind": alarm.kind, "why": alarm.message})
            loop.told = len(loop.books.alarms)
        self._touched.clear()

    def rolled_back(self, connection: Connection) -> None:
        """What was recorded is gone: read the loops it was about again."""
        for loop in list(self._touched.values()):
            row = sql.one_loop(connection, loop.id)
            if row is None or row[1] != loop.name:
                self.by_name.pop(loop.name, None)
            else:
                self.by_name[loop.name] = recover(connection, row)
            del self._touched[loop.id]

    def record(self, connection: Connection, loop: Loop, event: Event) -> None:
        """One event, in memory and in the transaction."""
        self._touched[loop.id] = loop
        at = self.now(loop)
        loop.apply(event, at)
        seq = loop.books.seq
        sql.insert_event(connection, loop.id, seq, at, msgspec.json.encode(event))
        if isinstance(event, Decided):
            sql.insert_decision(connection, decision_row(loop, event))
        elif isinstance(event, Closed):
            sql.insert_reward(connection, (loop.id, event.number, at, event.reward, event.origin, seq))
        if seq - loop.saved >= self.snapshot_every:
            self.save(connection, loop)

    def save(self, connection: Connection, loop: Loop) -> None:
        """A snapshot, so that recovery need not begin at the beginning."""
        if loop.books.seq > loop.saved:
            self._touched[loop.id] = loop
            sql.insert_snapshot(connection, loop.id, loop.books.seq, *loop.snapshot())
            loop.saved = loop.books.seq

    def save_all(self, connection: Connection) -> None:
        """A snapshot of every loop, as before a stop."""
        for loop in self.by_name.values():
            self.save(connection, loop)

    def now(self, loop: Loop) -> float:
        """The time, which never goes back within a loop even if the clock does."""
        return max(self.clock(), loop.books.at)

    def get(self, name: str) -> Loop:
        """The loop of this name."""
        loop = self.by_name.get(name)
        if loop is None:
            raise not_found("loop", name)
        return loop

    # -- operations

    def create(self, connection: Connection, loop: Loop) -> tuple[Loop, bool]:
        """Take a fresh loop in, or find the one there is if it was made from the same spec.

        To make a fresh loop may take seconds, so it is made before and elsewhere.
        """
        name, spec = loop.name, loop.spec
        existing = self.by_name.get(name)
        if existing is not None:
            if existing.spec == spec:
                return existing, False
            raise Refused(409, "exists", f"loop {name!r} exists with other arms, log, policy or settings")
        if NAME.fullmatch(name) is None:
            raise invalid(f"name must match {NAME.pattern}, got {name!r}")
        at = self.clock()
        id = sql.insert_loop(connection, name, msgspec.json.encode(spec), at)
        if loop.books.seq:  # taken in before, in a transaction that was undone
            loop = Loop.fresh(name, spec)
        loop.id, loop.created_at, loop.books.at = id, at, at
        self.by_name[name] = self._touched[id] = loop
        return loop, True

    def decide(self, connection: Connection, name: str, request: DecideRequest) -> Decision:
        """Decide and commit in one step; the same key gets the same answer.

        Until the decision is pruned (`linoto db prune`): then its key is forgotten, and gets a new decision.
        """
        loop = self.get(name)
        proposal = None if request.proposal is None else arm_of(loop, request.proposal)
        allowed = None if request.allowed is None else sorted({arm_of(loop, arm) for arm in request.allowed})
        if request.key is not None:
            body = sql.event_of_key(connection, loop.id, request.key)
            if body is not None:
                return repeat(loop, EVENTS.decode(body), proposal, allowed)
        if proposal is not None and allowed is not None and proposal not in allowed:
            raise invalid(f"proposal must be among the allowed arms, got {request.proposal!r}")
        if loop.books.archived:
            raise Refused(409, "archived", f"loop {name!r} is archived and decides no more")
        self.close_due(connection, loop)
        event = self._decided(loop, request.key, proposal, allowed)
        self.record(connection, loop, event)
        return answer(loop, event)

    def _decided(
        self, loop: Loop, key: str | None, proposal: int | None, allowed: list[int] | None
    ) -> Decided:
        books, spec = loop.books, loop.spec
        number = books.decided + 1
        try:
            choice = choose(
                loop.agent,
                mode=books.mode,
                holdback=books.holdback,
                held=books.held,
                proposal=proposal,
                allowed=allowed,
                seed=spec.seed,
                number=number,
                redraws=spec.redraws,
            )
        except NoSafeArm as error:
            raise Refused(409, "no_safe_arm", str(error)) from error
        return event_of(loop, choice, number, self.now(loop) + spec.window, key, proposal, allowed)

    def reward(self, connection: Connection, name: str, report: RewardReport) -> RewardResult:
        """Close a decision with its reward, once; say what stands if it is closed already."""
        loop = self.get(name)
        number = loop.number_of(report.decision_id)
        if number is None:
            return result(
                report, "unknown", message=f"there is no decision {report.decision_id!r} in {name!r}"
            )
        opened = loop.books.pending.get(number)
        if opened is None:
            return self._closed_already(connection, loop, number, report)
        if self.now(loop) >= opened.expires_at:
            self.record(connection, loop, default_of(loop, number))
            return self._closed_already(connection, loop, number, report)
        try:
            inside.check_reward(loop.agent, report.reward)
        except ValueError as error:
            return result(report, "invalid", message=str(error))
        self.record(connection, loop, Closed(number=number, reward=report.reward, origin="reported"))
        return result(report, "applied", reward=report.reward)

    def _closed_already(
        self, connection: Connection, loop: Loop, number: int, report: RewardReport
    ) -> RewardResult:
        row = sql.reward_of(connection, loop.id, number)
        if row is None:  # every decision is pending or has its reward, unless it is older than is kept
            message = "the records of this decision were pruned: the reward it had stands"
            return result(report, "expired", message=message)
        first, origin = row
        if origin == "default":
            sql.insert_late_reward(connection, (loop.id, number, self.now(loop), report.reward))
            message = "the window is over: the default reward stands, this one is kept for audit"
            return result(report, "expired", reward=first, message=message)
        if first == report.reward:
            return result(report, "duplicate", reward=first)
        return result(report, "conflict", reward=first, message=f"the first value stands: {first!r}")

    def rewards(self, connection: Connection, name: str, reports: list[RewardReport]) -> list[RewardResult]:
        """Many rewards, each with its own answer."""
        return [self.reward(connection, name, report) for report in reports]

    def change(self, connection: Connection, name: str, change: Change, by: str) -> Loop:
        """Another mode or share held back, from the next decision on."""
        loop = self.get(name)
        if loop.books.archived:
            raise Refused(409, "archived", f"loop {name!r} is archived and changes no more")
        mode = change.mode if change.mode is not None else loop.books.mode
        holdback = change.holdback if change.holdback is not None else loop.books.holdback
        check_holdback(holdback, loop.agent)
        if (mode, holdback) != (loop.books.mode, loop.books.holdback):
            self.record(connection, loop, Switched(mode=mode, holdback=holdback, by=by))
        return loop

    def archive(self, connection: Connection, name: str, by: str) -> Loop:
        """No more decisions; rewards of past ones are still taken."""
        loop = self.get(name)
        if not loop.books.archived:
            self.record(connection, loop, Archived(by=by))
        return loop

    def close_due(self, connection: Connection, loop: Loop) -> int:
        """Close decisions whose window is over with the default reward, oldest first."""
        now, closed = self.now(loop), 0
        while loop.books.pending and closed < CLOSE_AT_ONCE:
            number, oldest = next(iter(loop.books.pending.items()))
            if oldest.expires_at > now:
                break
            self.record(connection, loop, default_of(loop, number))
            closed += 1
        return closed

    def is_due(self, loop: Loop) -> bool:
        """Whether a window is over: looks at memory only."""
        oldest = next(iter(loop.books.pending.values()), None)
        return oldest is not None and oldest.expires_at <= self.now(loop)


def arm_of(loop: Loop, name: str) -> int:
    """The index of an arm."""
    arm = loop.index.get(name)
    if arm is None:
        raise invalid(f"arm must be one of loop {loop.name!r}, got {name!r}")
    return arm


def result(
    report: RewardReport, status: Any, *, reward: float | None = None, message: str | None = None
) -> RewardResult:
    """What became of a reward."""
    return RewardResult(
        decision_id=report.decision_id, status=status, code=STATUS[status], reward=reward, message=message
    )
