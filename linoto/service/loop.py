"""One decision loop: an agent and its books, both a fold of the loop's events."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Any

import msgspec
import numpy as np

from linoto.agent import Decision
from linoto.certificates import Certificate
from linoto.service import spec as specs
from linoto.service.history import History, Point
from linoto.service.messages import (
    GROUPS,
    Archived,
    Closed,
    Decided,
    Event,
    Group,
    LoopSpec,
    Mode,
    Source,
    Switched,
)
from linoto.service.watch import Watch
from linoto.snapshots import restore

EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


class Pending(msgspec.Struct, array_like=True):
    """A decision whose reward is still to come."""

    arm: int
    source: Source
    round: int
    group: Group
    counted: bool
    expires_at: float


class Tally(msgspec.Struct):
    """What a group of decisions has earned so far."""

    plays: int = 0
    closed: int = 0
    defaults: int = 0  # closed by the default reward
    rewards: float = 0.0
    squares: float = 0.0


class Alarm(msgspec.Struct):
    """What the watch has seen, and when."""

    kind: str
    at: float
    seq: int
    message: str


class Switch(msgspec.Struct):
    """The last change of mode: when, and by whom."""

    at: float
    by: str


class Books(msgspec.Struct):
    """Everything a loop remembers besides its agent."""

    mode: Mode
    holdback: float
    plays: list[int]  # (k,)
    held: list[int]  # (k,) control plays that the agent does not count
    seq: int = 0
    at: float = 0.0
    decided: int = 0
    learned: int = 0
    archived: bool = False
    pending: dict[int, Pending] = msgspec.field(default_factory=dict)  # in the order of decisions
    groups: dict[str, Tally] = msgspec.field(default_factory=lambda: {group: Tally() for group in GROUPS})
    counted: Tally = msgspec.field(default_factory=Tally)  # the plays that the promise is about
    mixture: Tally = msgspec.field(default_factory=Tally)  # the plays of the logging mixture
    alarms: list[Alarm] = msgspec.field(default_factory=list)
    promise_evidence: float = -1e300  # logs; the most so far
    drift_evidence: float = -1e300
    switched: Switch | None = None
    budget: float | None = None  # at the last decision
    history: History = msgspec.field(default_factory=History)


@dataclass
class Loop:
    """A loop at work. Only `apply` changes it."""

    id: int
    name: str
    created_at: float
    spec: LoopSpec
    agent: Any
    books: Books
    certificate: Certificate  # what was promised before the first decision
    watch: Watch
    names: list[str]
    index: dict[str, int]
    reference: float | None
    saved: int = 0  # seq of the last snapshot
    told: int = 0  # alarms that are in the log

    @classmethod
    def fresh(cls, id: int, name: str, created_at: float, spec: LoopSpec, agent: Any | None = None) -> Loop:
        """A loop before its first event."""
        agent = specs.start(spec) if agent is None else agent
        names = [arm.name for arm in spec.arms]
        promised, total = agent.certificate, agent.offline.total
        return cls(
            id=id,
            name=name,
            created_at=created_at,
            spec=spec,
            agent=agent,
            books=Books(
                mode=spec.mode,
                holdback=spec.holdback,
                plays=[0] * len(names),
                held=[0] * len(names),
                at=created_at,
            ),
            certificate=promised,
            watch=Watch.of(agent, promised, spec.alarm_error),
            names=names,
            index={arm: i for i, arm in enumerate(names)},
            reference=agent.offline.reference if total else None,
        )

    # -- the fold

    def apply(self, event: Event, at: float) -> None:
        """The next event."""
        books = self.books
        books.seq += 1
        books.at = at
        if isinstance(event, Decided):
            self._apply_decided(event)
        elif isinstance(event, Closed):
            self._apply_closed(event)
        elif isinstance(event, Switched):
            self._switch(event.mode, event.by)
            books.holdback = event.holdback
        else:
            assert isinstance(event, Archived)
            books.archived = True

    def _apply_decided(self, event: Decided) -> None:
        books = self.books
        if event.counted:
            self.agent.commit(play(event.arm, event.source, event.round))
        else:
            books.held[event.arm] += 1
        books.plays[event.arm] += 1
        books.decided, books.budget = event.number, event.budget
        books.pending[event.number] = Pending(
            arm=event.arm,
            source=event.source,
            round=event.round,
            group=event.group,
            counted=event.counted,
            expires_at=event.expires_at,
        )
        for tally in self._tallies(event.group, event.counted, event.source):
            tally.plays += 1

    def _apply_closed(self, event: Closed) -> None:
        books = self.books
        opened = books.pending.pop(event.number)
        if opened.counted:
            self.agent.observe(play(opened.arm, opened.source, opened.round), event.reward)
            books.learned += 1
        for tally in self._tallies(opened.group, opened.counted, opened.source):
            tally.closed += 1
            tally.rewards += event.reward
            tally.squares += event.reward**2
            tally.defaults += event.origin == "default"
        if opened.counted:
            books.history.add(self.now())
            self._watch_promise()
        if opened.source == "mixture":
            self._watch_drift()

    def _tallies(self, group: Group, counted: bool, source: Source) -> list[Tally]:
        books = self.books
        tallies = [books.groups[group]]
        if counted:
            tallies.append(books.counted)
        if source == "mixture":
            tallies.append(books.mixture)
        return tallies

    def _watch_promise(self) -> None:
        books, watch, c = self.books, self.watch, self.books.counted
        evidence = watch.promise(c.plays, c.closed, c.rewards)
        if evidence > watch.threshold >= books.promise_evidence:
            self._alarm("promise", "realised rewards are lower than what was promised allows")
        books.promise_evidence = max(books.promise_evidence, evidence)

    def _watch_drift(self) -> None:
        books, watch, m = self.books, self.watch, self.books.mixture
        evidence = watch.drift(m.plays, m.closed, m.rewards)
        if evidence > watch.threshold >= books.drift_evidence:
            self._alarm("drift", "plays of the logging mixture no longer earn what they earned in the log")
        books.drift_evidence = max(books.drift_evidence, evidence)

    def _alarm(self, kind: str, message: str) -> None:
        """Raised once, since the evidence is remembered at its highest."""
        books = self.books
        books.alarms.append(Alarm(kind=kind, at=books.at, seq=books.seq, message=message))
        if self.spec.on_alarm == "safe-only":
            self._switch("safe-only", f"{kind} alarm")

    def _switch(self, mode: Mode, by: str) -> None:
        books = self.books
        if mode != books.mode:
            books.mode, books.switched = mode, Switch(at=books.at, by=by)

    def now(self) -> Point:
        """Where the loop stands, as a point of its history."""
        books, counted = self.books, self.books.counted
        return Point(
            at=books.at,
            decisions=books.decided,
            explored=books.groups["explore"].plays,
            held=books.groups["holdback"].plays,
            closed=counted.closed,
            rewards=counted.rewards,
            budget=books.budget,
        )

    # -- keeping

    def snapshot(self) -> tuple[bytes, bytes]:
        """(books, agent) as bytes that `restored` reads; equal states give equal bytes."""
        self.agent.decide()  # what was asked and not played leaves traces in scratch space: overwrite them
        return msgspec.json.encode(self.books), self.agent.snapshot()

    def restored(self, books: bytes, agent: bytes) -> None:
        """Become what the snapshot says; refuse one of other arms or of another policy."""
        restored = restore(agent, actions=specs.features(self.spec))
        if restored.policy != self.agent.policy or list(restored.names or ()) != self.names:
            raise ValueError(f"the snapshot of loop {self.name!r} must have its policy and arms, got others")
        self.agent, self.books = restored, msgspec.json.decode(books, type=Books)
        self.saved = self.books.seq

    def digest(self) -> str:
        """One line that differs if anything in the state differs."""
        books, agent = self.snapshot()
        return sha256(books + agent).hexdigest()

    # -- names

    def decision_id(self, number: int) -> str:
        """What callers know a decision by."""
        return f"{self.id}-{number}"

    def number_of(self, decision_id: str) -> int | None:
        """The decision meant, if it is one of this loop."""
        loop, dash, number = decision_id.partition("-")
        if not (dash and loop == str(self.id) and number.isascii() and number.isdigit() and len(number) < 16):
            return None
        value = int(number)
        return value if 1 <= value <= self.books.decided and str(value) == number else None


def play(arm: int, source: Source, round: int) -> Decision:
    """A play as the agent's books need it: arm, source and round."""
    mode: Any = "explore" if source == "explorer" else "safe"
    return Decision(arm=arm, mode=mode, source=source, proposal=arm, fallback=None, budget=None, round=round)


def finite(value: float | None) -> float | None:
    """A number JSON can carry, else nothing."""
    return None if value is None or not -inf < value < inf or np.isnan(value) else float(value)
