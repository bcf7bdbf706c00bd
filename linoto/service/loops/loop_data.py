"""What a loop is and knows: its agent, its state, its promise, and what follows from them alone."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from linoto.core.certificates import Certificate
from linoto.core.snapshots import from_dict
from linoto.service.errors import restored
from linoto.service.loops import spec as specs
from linoto.service.loops.arms import LoopArms
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.keys import LoopKey
from linoto.service.loops.ledgers import Ledger
from linoto.service.loops.metrics import Metric
from linoto.service.loops.practice import PracticeTerms
from linoto.service.loops.spec import LoopAgent, LoopSpec
from linoto.service.loops.state import Alarm, LoopState
from linoto.service.loops.watch import Watch

DECISION_ID = re.compile(
    r"(?P<loop>[1-9][0-9]*)-((?P<epoch>[0-9a-f]{10})-)?(?P<number>[1-9][0-9]{0,14})", re.A
)


class Unmeasured(NamedTuple):
    """A decision that awaits values of guardrails."""

    decision: DecisionMade
    missing: tuple[str, ...]


@dataclass
class LoopData:
    """A loop as others read it."""

    id: int
    name: str
    created_at: float
    asked: LoopSpec  # as it was asked for
    spec: LoopSpec  # with what was left out filled in
    agent: LoopAgent
    state: LoopState
    first_certificate: Certificate  # what was promised before the first decision
    certificate: Certificate  # the same with what changes of the arms did to it
    watch: Watch
    practice: PracticeTerms | None  # where the gate throws a coin
    metrics: dict[str, Metric]  # its guardrails by name
    names: Sequence[str]
    index: Mapping[str, int]
    log_mean: float | None
    arms: LoopArms
    secret: bytes | None = field(default=None, repr=False)  # of the database; None: it is in none yet
    key: LoopKey | None = None  # of this epoch
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)
    redraws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)
    # Open decisions by number, oldest first: a plain dict would walk over all that were taken from its front.
    pending: OrderedDict[int, DecisionMade] = field(default_factory=OrderedDict)
    unmeasured: OrderedDict[int, Unmeasured] = field(default_factory=OrderedDict)  # the same for guardrails
    snapshot_seq: int = 0  # of the last snapshot
    alarms_logged: int = 0
    promise_altered: bool = False  # what was kept of it: it was computed again

    @property
    def draws(self) -> LoopKey:
        """What every draw of a decision is made from."""
        if self.key is None:
            raise RuntimeError(f"loop {self.name!r} must be in a database, or have a seed, to decide")
        return self.key

    @property
    def is_keyed(self) -> bool:
        """Whether its draws come from a key; those of older versions do since an event says so."""
        return self.spec.version >= specs.KEYED or self.state.keyed

    @property
    def has_seed(self) -> bool:
        """Whether its key comes from a seed that somebody chose."""
        return self.spec.seed is not None and not self.state.keyed

    @property
    def epoch(self) -> str:
        """The name of this epoch: nothing before the first restore."""
        return self.state.epochs[-1].name if self.state.epochs else ""

    # -- what it was made from

    def is_made_from(self, asked: LoopSpec) -> bool:
        """Whether this loop is what the spec asks for; what it leaves out is as it is here."""
        same = msgspec.structs.replace(asked, version=self.spec.version, policy=self.spec.policy)
        there = from_dict(self.spec.policy, stored=True)  # it may have been written with fewer fields
        if specs.with_defaults(same, self.name) != self.spec:
            return False
        return from_dict(asked.policy) in (there, specs.suited_policy(self.spec, there))

    @property
    def reference(self) -> float | None:
        """The mean reward of the log, or of what is left of it as practice."""
        later = self.state.references
        return later[-1].mean if later else self.log_mean

    @cached_property
    def log_interval(self) -> tuple[float, float]:
        """Where the mean of the log lies: also where the promise compares with practice, and needs none."""
        return self.arms.log_interval(self.agent, self.first_certificate)

    @property
    def first_centre(self) -> float | None:
        """About what a decision earns before any reward has come; None without a log."""
        return self.arms.first_centre(self.agent, self.reference)

    @property
    def counts_control(self) -> bool:
        """Whether the agent counts plays of the control group, like its own safe ones."""
        return self.arms.counts_control(self.agent)

    @property
    def arm_count(self) -> int:
        """How many arms can be played now."""
        return len(self.names) - len(self.arms.gone)

    def is_present(self, arm: int) -> bool:
        """Whether an arm was not removed."""
        return arm not in self.arms.gone

    @property
    def limits(self) -> tuple[float, float] | None:
        """The range of every single reward, where it is known."""
        return self.certificate.reward_range if self.watch.scale.bounded else None

    @property
    def limits_of_means(self) -> tuple[float, float] | None:
        """The range of mean rewards, where it was stated."""
        return self.agent.confidence.reward_range

    @property
    def lost(self) -> int:
        """Closed decisions, of those that the promise is about, whose reward nobody knows."""
        return self.watch.lost(self.state.counted)

    @property
    def ledger(self) -> Ledger | None:
        """What the coin has told of the reward so far, where the gate throws one."""
        books = self.state.practice
        return (
            None if self.practice is None or books is None else Ledger(self.practice, books, self.state.books)
        )

    @property
    def oldest_open(self) -> DecisionMade | None:
        """The oldest decision whose reward, or a value of a guardrail, is to come."""
        found = [next(iter(self.pending.values()), None)]
        found += [waiting.decision for waiting in islice(self.unmeasured.values(), 1)]
        return min((event for event in found if event), key=lambda event: event.number, default=None)

    def is_over(self, at: float) -> bool:
        """Whether the window of a decision that is open is over by this time."""
        for event in self.pending.values():
            if event.expires_at <= at:
                return True
            break
        for waiting in self.unmeasured.values():
            return waiting.decision.expires_at <= at
        return False

    @property
    def open_alarms(self) -> list[Alarm]:
        """The alarms that nobody has answered, by another mode of the loop or by saying so."""
        return self.state.alarms[self.state.answered :]

    # -- names

    def decision_id(self, number: int) -> str:
        """What callers know a decision by: loop, epoch unless it is the first, and number."""
        epoch = self.epoch_of(number) if self.state.epochs else ""
        return f"{self.id}-{epoch}-{number}" if epoch else f"{self.id}-{number}"

    def epoch_of(self, number: int) -> str:
        """The epoch that a decision was made in."""
        return next((epoch.name for epoch in reversed(self.state.epochs) if number >= epoch.first), "")

    def number_of(self, decision_id: str) -> int | None:
        """The decision meant, if it is one of this loop; refuses one that a restore has lost."""
        head, _, text = decision_id.partition("-")
        if not self.state.epochs and head == str(self.id) and text.isascii() and text.isdigit():
            number = int(text) if text[0] != "0" and len(text) < 16 else 0
            return number if 0 < number <= self.state.decided else None
        match = DECISION_ID.fullmatch(decision_id)
        if match is None or match["loop"] != str(self.id):
            return None
        value, epoch = int(match["number"]), match["epoch"] or ""
        if value <= self.state.decided and epoch == self.epoch_of(value):
            return value
        if not self.state.epochs or epoch == self.epoch:  # nothing was lost, or it is yet to be made
            return None
        raise restored(f"decision {decision_id!r} of {self.name!r} was lost when a backup was restored")
