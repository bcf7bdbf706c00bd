"""One decision loop: an agent and its books, both a fold of the loop's events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import msgspec

from linoto.core import kernels
from linoto.core.certificates import Certificate
from linoto.core.decisions import Decision
from linoto.core.snapshots import restore
from linoto.service.loops import inside
from linoto.service.loops import spec as specs
from linoto.service.loops.books import Alarm, Books, Gauge, Pending, Switch, Tally
from linoto.service.loops.history import Point
from linoto.service.loops.messages import Archived, Closed, Decided, Event, LoopSpec, Mode, Source, Switched
from linoto.service.loops.watch import Watch

ALARMS = {
    "promise": "realised rewards are lower than what was promised allows",
    "drift": "plays of the logging mixture no longer earn what they earned in the log",
}
EVENTS: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


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
    unrestricted: bool  # the promise is about rounds in which every arm is allowed
    saved: int = 0  # seq of the last snapshot
    told: int = 0  # alarms that are in the log

    @classmethod
    def fresh(cls, name: str, spec: LoopSpec, *, id: int = 0, created_at: float = 0.0) -> Loop:
        """A loop of a canonical spec before its first event; seconds for thousands of features."""
        agent = specs.start(spec)
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
            unrestricted=inside.parameter(agent, "gate") == kernels.CLOSED,
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
        opened = books.pending[event.number] = Pending.of(event)
        for tally in self._tallies(opened):
            tally.plays += 1
        if event.allowed is not None and self.unrestricted:
            books.void = True

    def _apply_closed(self, event: Closed) -> None:
        books = self.books
        opened = books.pending.pop(event.number)
        if opened.counted:
            self.agent.observe(play(opened.arm, opened.source, opened.round), event.reward)
            books.learned += 1
        for tally in self._tallies(opened):
            tally.close(event.reward, default=event.origin == "default")
        if opened.counted:
            books.history.add(self.now())
        self._look(opened)

    def _tallies(self, opened: Pending) -> list[Tally]:
        books = self.books
        tallies = [books.groups[opened.group]]
        if opened.counted:
            tallies.append(books.counted)
        if opened.source == "mixture":
            tallies.append(books.mixture)
        if opened.compared and opened.group != "holdback":
            tallies.append(books.treated)
        return tallies

    def _look(self, closed: Pending) -> None:
        """What the watch makes of one more reward."""
        books, watch, c, m = self.books, self.watch, self.books.counted, self.books.mixture
        if closed.counted and not books.void:
            self._judge("promise", books.promise, watch.promise(c.plays, c.closed, c.rewards))
        if closed.source == "mixture":
            self._judge("drift", books.drift, watch.drift(m.plays, m.closed, m.rewards))

    def _judge(self, kind: str, gauge: Gauge, evidence: float) -> None:
        books = self.books
        if not gauge.rings(evidence, self.watch.threshold):
            return
        books.alarms.append(Alarm(kind=kind, at=books.at, seq=books.seq, message=ALARMS[kind]))
        if self.spec.on_alarm == "safe-only":
            self._switch("safe-only", f"{kind} alarm")
        else:
            gauge.go_on()

    def _switch(self, mode: Mode, by: str) -> None:
        books = self.books
        if mode == books.mode:
            return
        books.mode, books.switched = mode, Switch(at=books.at, by=by)
        if mode != "safe-only":
            books.promise.answer()
            books.drift.answer()

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
        return self.books.kept(), self.agent.snapshot()

    def restored(self, books: bytes, agent: bytes) -> None:
        """Become what the snapshot says; refuse one of other arms or of another policy."""
        restored = restore(agent, actions=specs.features(self.spec))
        if restored.policy != self.agent.policy or list(restored.names or ()) != self.names:
            raise ValueError(f"the snapshot of loop {self.name!r} must have its policy and arms, got others")
        self.agent, self.books = restored, msgspec.json.decode(books, type=Books)
        self.saved = self.books.seq

    def reopen(self, events: Iterable[Decided]) -> None:
        """The decisions that were open when the snapshot was taken, in their order."""
        self.books.pending = {event.number: Pending.of(event) for event in events}
        self.books.oldest = 0

    def digest(self) -> str:
        """One line that differs if anything in the state differs."""
        _, agent = self.snapshot()
        return sha256(msgspec.json.encode(self.books) + agent).hexdigest()

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
