"""Everything a loop remembers besides its agent."""

from __future__ import annotations

from math import inf, log

import msgspec
from msgspec import Struct, field

from linoto.service.loops.history import History
from linoto.service.loops.messages import GROUPS, Decided, Group, Mode, Source

AGAIN = log(10.0)  # an alarm that was answered rings again at ten times the evidence


class Pending(Struct, array_like=True):
    """A decision whose reward is still to come."""

    arm: int
    source: Source
    round: int
    group: Group
    counted: bool
    compared: bool
    expires_at: float

    @classmethod
    def of(cls, event: Decided) -> Pending:
        """What must be known of a decision until it is closed."""
        return cls(
            arm=event.arm,
            source=event.source,
            round=event.round,
            group=event.group,
            counted=event.counted,
            compared=event.compared,
            expires_at=event.expires_at,
        )


class Tally(Struct):
    """What some decisions have earned so far."""

    plays: int = 0
    closed: int = 0
    defaults: int = 0  # closed by the default reward
    rewards: float = 0.0
    mean: float = 0.0
    spread: float = 0.0  # summed squares of the distances to the mean, without cancellation (Welford)

    def close(self, reward: float, *, default: bool) -> None:
        """One more reward."""
        self.closed += 1
        self.defaults += default
        self.rewards += reward
        away = reward - self.mean
        self.mean += away / self.closed
        self.spread += away * (reward - self.mean)


class Gauge(Struct):
    """Evidence against a claim, at its highest, and the alarm that belongs to it."""

    evidence: float = -1e300  # a log
    above: float | None = None  # where it rings next, once it has rung
    ringing: bool = False

    def rings(self, evidence: float, first: float) -> bool:
        """Whether the alarm begins with this."""
        self.evidence = max(self.evidence, evidence)
        if self.ringing or evidence <= self.threshold(first):
            return False
        self.ringing = True
        return True

    def answer(self) -> None:
        """Somebody knows and goes on: ring again only for much more evidence."""
        if self.ringing:
            self.ringing, self.above = False, self.evidence + AGAIN

    def go_on(self) -> None:
        """Nobody has to answer: ring again when the evidence is squared, so that warnings stay few."""
        self.ringing, self.above = False, 2 * self.evidence

    def threshold(self, first: float) -> float:
        """The log evidence at which it rings next; `first` is where it rings at all."""
        return first if self.above is None else self.above


class Alarm(Struct):
    """What the watch has seen, and when."""

    kind: str
    at: float
    seq: int
    message: str


class Switch(Struct):
    """The last change of mode: when, and by whom."""

    at: float
    by: str


class Books(Struct):
    """The fold of a loop's events, but for its agent."""

    mode: Mode
    holdback: float
    plays: list[int]  # (k,)
    held: list[int]  # (k,) control plays that the agent does not count
    seq: int = 0
    at: float = 0.0
    decided: int = 0
    learned: int = 0
    archived: bool = False
    void: bool = False  # something was asked for that the promise does not cover
    pending: dict[int, Pending] = field(default_factory=dict)  # in the order of decisions
    groups: dict[str, Tally] = field(default_factory=lambda: {group: Tally() for group in GROUPS})
    counted: Tally = field(default_factory=Tally)  # the plays that the promise is about
    mixture: Tally = field(default_factory=Tally)  # the plays of the logging mixture
    treated: Tally = field(default_factory=Tally)  # plays that could have been drawn for the control group
    promise: Gauge = field(default_factory=Gauge)
    drift: Gauge = field(default_factory=Gauge)
    alarms: list[Alarm] = field(default_factory=list)
    switched: Switch | None = None
    budget: float | None = None  # at the last decision
    history: History = field(default_factory=History)
    oldest: int = 0  # in a snapshot: the number from which on there may be open decisions

    def kept(self) -> bytes:
        """All but the open decisions, which their own events know: a snapshot does not grow with them."""
        oldest = next(iter(self.pending), self.decided + 1)
        return msgspec.json.encode(msgspec.structs.replace(self, pending={}, oldest=oldest))


def finite(value: float | None) -> float | None:
    """A number JSON can carry, else nothing; NaN is none."""
    return float(value) if value is not None and -inf < value < inf else None
