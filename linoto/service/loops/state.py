"""Everything a loop remembers besides its agent and its open decisions: what a snapshot holds.

The names in the stored JSON are those of version 0.1, some of which are called otherwise here.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from msgspec import Struct, field

from linoto.service.loops.books import Books, spread
from linoto.service.loops.detector import Detector
from linoto.service.loops.events import GROUPS, Mode
from linoto.service.loops.history import History
from linoto.service.loops.lift import Lift
from linoto.service.loops.practice import PracticeBooks
from linoto.service.loops.references import ReferenceSince

MORE_EVIDENCE = log(10.0)  # an alarm that was acknowledged is raised again at ten times the evidence


class RewardTotals(Struct):
    """What some decisions have earned so far."""

    plays: int = 0
    closed: int = 0
    defaults: int = 0  # closed by the default reward
    rewards: float = 0.0
    mean: float = 0.0
    spread: float = 0.0  # summed squares of the distances to the mean, without cancellation (Welford)
    unheard: int = 0  # of the defaults, those of decisions that were open at a restore

    def add(self, reward: float, *, default: bool, unheard: bool = False) -> None:
        """One more reward."""
        self.closed += 1
        self.defaults += default
        self.unheard += unheard
        self.rewards += reward
        away = reward - self.mean
        self.mean += away / self.closed
        self.spread += away * (reward - self.mean)

    def squares_above(self, low: float) -> float:
        """The sum of the squares of how far each reward is above `low`."""
        return self.spread + self.closed * (self.mean - low) ** 2


class AlarmState(Struct):
    """The most evidence there ever was against a claim, and whether an alarm about it is raised."""

    evidence: float = -1e300  # a log
    next_threshold: float | None = field(default=None, name="above")  # once an alarm was raised
    raised: bool = field(default=False, name="ringing")

    def update(self, evidence: float, first: float) -> bool:
        """Whether the alarm is raised by this evidence; `first` is the threshold of a first alarm."""
        self.evidence = max(self.evidence, evidence)
        if self.raised or evidence <= self.threshold(first):
            return False
        self.raised = True
        return True

    def follow(self, evidence: float, first: float) -> bool:
        """The same for evidence that falls again when all is well; then the first threshold is back."""
        self.evidence = evidence
        if evidence < first / 2:
            self.next_threshold = None
        if self.raised or evidence <= self.threshold(first):
            return False
        self.raised = True
        return True

    def acknowledge(self) -> None:
        """A person knows and goes on: the next alarm needs much more evidence."""
        if self.raised:
            self.raised, self.next_threshold = False, self.evidence + MORE_EVIDENCE

    def rearm(self) -> None:
        """Nobody has to acknowledge it: the next is due when the evidence is squared, so they stay few."""
        self.raised, self.next_threshold = False, 2 * self.evidence

    def threshold(self, first: float) -> float:
        """The log evidence at which the next alarm is raised."""
        return first if self.next_threshold is None else self.next_threshold


class MetricBooks(Struct):
    """What is kept of a guardrail: its values, and what they say of practice."""

    told: int = 0
    lost: int = 0
    total: float = 0.0  # of the values that were told, as people count them
    arms: dict[int, RewardTotals] = field(default_factory=dict)  # by arm, lost ones as the default
    practice: PracticeBooks = field(default_factory=PracticeBooks)
    books: Books = field(default_factory=Books)
    alarm: AlarmState = field(default_factory=AlarmState)

    @property
    def lost_somewhere(self) -> int:
        """How many values are lost of which nobody knows the arm: loops of earlier versions did not count."""
        return self.lost - sum(totals.defaults for totals in self.arms.values())


class Alarm(Struct, omit_defaults=True):
    """What the watch has seen, and when."""

    kind: str
    at: float
    seq: int
    message: str
    metric: str = ""  # of a guardrail


class ArmsChange(Struct):
    """A change of the arms: when, by whom, and what it did."""

    at: float
    by: str
    decisions: int  # before it
    text: str


class ModeChange(Struct):
    """The last change of mode: when, and by whom."""

    at: float
    by: str


class Epoch(Struct, array_like=True, frozen=True):
    """Decisions from one restore to the next."""

    name: str  # part of their ids
    first: int  # the number of the first of them
    restored_at: float | None = None  # None: the loop was made in it
    missing: int | None = None  # events lost by that restore; None: nobody knows
    costly: int | None = None  # of these, decisions that may have cost something; None: maybe all
    decided: int | None = None  # of these, all decisions; None: not known


class LoopState(Struct):
    """The fold of a loop's events, except for its agent and its open decisions."""

    mode: Mode
    holdback: float
    plays: list[int]  # (k,)
    uncounted: list[int] = field(name="held")  # (k,) control plays that the agent does not count
    seq: int = 0
    at: float = 0.0
    decided: int = 0
    learned: int = 0
    archived: bool = False
    promise_void: bool = field(default=False, name="void")  # a decision was asked for that it does not cover
    groups: dict[str, RewardTotals] = field(
        default_factory=lambda: {group: RewardTotals() for group in GROUPS}
    )
    counted: RewardTotals = field(default_factory=RewardTotals)  # the plays that the promise is about
    mixture: RewardTotals = field(default_factory=RewardTotals)  # the plays of the logging mixture
    lift: Lift = field(default_factory=Lift)  # of decisions without a centre
    books: Books = field(default_factory=Books)
    model_dropped: bool = False  # rewards refute the model that the promise rests on: it has no say any more
    promise: AlarmState = field(default_factory=AlarmState)  # or, where the gate throws a coin, of practice
    drift: AlarmState = field(default_factory=AlarmState)
    detector: Detector = field(default_factory=Detector)  # of drift
    alarms: list[Alarm] = field(default_factory=list)
    answered: int = 0  # of these, from the first on: somebody has answered them
    mode_change: ModeChange | None = field(default=None, name="switched")
    budget: float | None = None  # at the last decision
    history: History = field(default_factory=History)
    arm_changes: list[ArmsChange] = field(default_factory=list)
    references: list[ReferenceSince] = field(default_factory=list)  # once practice has lost an arm
    practice: PracticeBooks | None = None  # where the gate throws a coin
    metrics: dict[str, MetricBooks] = field(default_factory=dict)  # by guardrail
    items: list[RewardTotals] = field(default_factory=list)  # (k,) by item, in a loop with contexts
    since_drift: dict[int, RewardTotals] | None = None  # by arm, what closed after the first drift alarm
    # (d,) summed features, where the log's model is watched
    played: list[float] = field(default_factory=list)
    keyed: bool = False  # every draw is made from the secret of the database, since some event
    epochs: list[Epoch] = field(default_factory=list)  # after the first, which has no name
    watched_anew: bool = False  # drift is watched for by the right claim, since some event
    drawn_anew: int = 0  # how often rounds were drawn anew because those before were undone
    tried: float | None = 0.0  # decisions that played another arm than the safe choice; None: not known
    oldest: int = 0  # in a snapshot: the number from which on there may be open decisions

    def spread(self, places: Sequence[int], d: int) -> None:
        """New features: those there were have these places now, new ones are 0 in all sums so far."""
        self.played = spread(self.played, places, d)
        self.books.spread(places, d)
