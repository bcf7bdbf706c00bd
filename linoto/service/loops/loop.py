"""One decision loop: an agent, a state and open decisions, all of them a fold of the loop's events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from linoto.core import kernels
from linoto.core.certificates import Certificate
from linoto.core.coins import SEEDED
from linoto.core.decisions import Decision
from linoto.core.snapshots import from_dict
from linoto.service.errors import restored
from linoto.service.loops import spec as specs
from linoto.service.loops.alarms import change_mode, check_claims, shows_drift
from linoto.service.loops.arm_changes import change_arms
from linoto.service.loops.arms import LoopArms
from linoto.service.loops.events import (
    ArmsChanged,
    DecisionMade,
    DrawnAnew,
    Event,
    LoopArchived,
    LoopKeyed,
    LoopRestored,
    RewardRecorded,
    SettingsChanged,
)
from linoto.service.loops.history import Point
from linoto.service.loops.keys import LoopKey
from linoto.service.loops.practice import PracticeBooks, PracticeTerms
from linoto.service.loops.readings import (
    close_in_books,
    in_order,
    open_in_books,
)
from linoto.service.loops.restores import first_since_restore, restored_text, skipped_by
from linoto.service.loops.spec import LoopAgent, LoopSpec
from linoto.service.loops.starting import arms_of, start_agent
from linoto.service.loops.state import (
    Alarm,
    Epoch,
    LoopState,
    RewardTotals,
)
from linoto.service.loops.watch import Watch

DECISION_ID = re.compile(
    r"(?P<loop>[1-9][0-9]*)-((?P<epoch>[0-9a-f]{10})-)?(?P<number>[1-9][0-9]{0,14})", re.A
)


def without_seed(certificate: Certificate) -> Certificate:
    """What is promised whatever draws come from: whether that is a seed, the loop knows itself."""
    return replace(certificate, assumes=tuple(text for text in certificate.assumes if text != SEEDED))


@dataclass
class Loop:
    """A loop at work. Only `apply` changes it."""

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
    names: list[str]
    index: dict[str, int]
    log_mean: float | None
    arms: LoopArms
    secret: bytes | None = field(default=None, repr=False)  # of the database; None: it is in none yet
    key: LoopKey | None = None  # of this epoch
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False)
    pending: dict[int, DecisionMade] = field(default_factory=dict)  # open decisions by number, oldest first
    snapshot_seq: int = 0  # of the last snapshot
    alarms_logged: int = 0

    @classmethod
    def fresh(
        cls,
        name: str,
        spec: LoopSpec,
        *,
        id: int = 0,
        created_at: float = 0.0,
        secret: bytes | None = None,
        known: tuple[LoopAgent, Certificate] | None = None,
    ) -> Loop:
        """A loop of a canonical spec before its first event; seconds for thousands of features.

        `known` are its agent and its promise where both were kept, so that nothing has to be fitted again.
        """
        asked, spec = spec, specs.with_defaults(spec, name)
        agent = start_agent(spec) if known is None else known[0]
        promised = without_seed(agent.certificate) if known is None else known[1]
        arms = arms_of(spec).after(agent)
        names = list(arms.recipe.items)
        zeros, practice = [0] * len(names), PracticeTerms.of(agent, promised)
        state = LoopState(
            mode=spec.mode,
            holdback=spec.holdback,
            plays=zeros,
            uncounted=zeros.copy(),
            at=created_at,
            practice=None if practice is None else PracticeBooks(),
            items=arms.totals(),
        )
        loop = cls(
            id=id,
            name=name,
            created_at=created_at,
            secret=secret,
            asked=asked,
            spec=spec,
            agent=agent,
            state=state,
            first_certificate=promised,
            certificate=agent.amended(promised),
            watch=arms.watch(agent, promised, spec),
            practice=practice,
            names=names,
            index={arm: i for i, arm in enumerate(names)},
            log_mean=arms.log_mean(agent),
            arms=arms,
        )
        if known is None:
            loop.take_key()
        return loop

    # -- the key

    def take_key(self) -> None:
        """Make every draw from here on with the key of this epoch, unless the loop has none yet."""
        self._know_key()
        if self.key is not None and self.is_keyed:
            self.arms.use_key(self.agent, self.key)
            self._draw()

    def _know_key(self) -> None:
        epoch, again = self.epoch, self.state.drawn_anew
        if self.has_seed:
            self.key = LoopKey.of_seed(self.spec.seed or 0, self.name, epoch, again)
        elif self.secret is not None:
            self.key = LoopKey.of_secret(self.secret, self.id, self.name, epoch, again)
        elif self.state.keyed:
            raise ValueError(f"loop {self.name!r} must have the secret of its database, got none")

    def _draw(self) -> None:
        """What the explorer draws for the next decision: by the key and its number alone.

        Not by the agent's round, which a control play that it does not count leaves as it is: everybody can
        read what the explorer wanted in that decision.
        """
        if self.key is not None and self.is_keyed and self.agent.rule.draws != kernels.NO_DRAWS:
            self.agent.use_draws(self.key.draws(self.state.decided + 1, into=self.generator))

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

    # -- the fold

    def apply(self, event: Event, at: float) -> None:
        """The next event; a change of the arms that cannot work is refused before anything changes."""
        state = self.state
        if isinstance(event, ArmsChanged):
            self._apply_arms(event, at)
        state.seq += 1 + skipped_by(event)
        state.at = at
        if isinstance(event, DecisionMade):
            self._apply_decision(event)
        elif isinstance(event, RewardRecorded):
            self._apply_reward(event)
        elif isinstance(event, SettingsChanged):
            answered = self.spec.version > 1  # in version 1, only another mode was an answer to an alarm
            change_mode(self, event.mode, event.by, answered=answered)
            state.holdback = event.holdback
        elif isinstance(event, LoopArchived):
            state.archived = True
        elif isinstance(event, LoopKeyed):
            self._begin_epoch(event.epoch)
        elif isinstance(event, LoopRestored):
            self._apply_restore(event)
        elif isinstance(event, DrawnAnew):
            state.drawn_anew += 1
            self.take_key()

    def _begin_epoch(self, name: str, **restored: Any) -> None:
        state = self.state
        if name:
            state.epochs.append(Epoch(name=name, first=state.decided + 1, **restored))
        state.keyed = state.keyed or self.spec.seed is None or self.spec.version < specs.KEYED
        self.take_key()

    def _apply_restore(self, event: LoopRestored) -> None:
        """What came after the backup is not in these books: nobody explores until somebody knows."""
        state = self.state
        lost = {"missing": event.missing, "costly": event.costly}
        self._begin_epoch(event.epoch, restored_at=state.at, **lost)
        message = restored_text(**lost)
        state.alarms.append(Alarm(kind="restored", at=state.at, seq=state.seq, message=message))
        change_mode(self, "safe-only", "restored alarm")

    def _apply_arms(self, event: ArmsChanged, at: float) -> None:
        change_arms(self, event, at)
        self._know_arms()
        self.watch = self.arms.watch(self.agent, self.certificate, self.spec, self.state.references)

    def _know_arms(self) -> None:
        """The names of all arms there were, and what changes of them did to the promise."""
        self.arms = self.arms.after(self.agent)
        self.names = list(self.arms.recipe.items)
        self.index = {arm: i for i, arm in enumerate(self.names)}
        texts = tuple(change.text for change in self.state.arm_changes)  # they say what is left of practice
        self.certificate = replace(self.agent.amended(self.first_certificate), changes=texts)

    def _apply_decision(self, event: DecisionMade) -> None:
        state = self.state
        if event.counted:
            self.agent.commit(self._play_of(event))
        else:
            state.uncounted[event.arm] += 1
        open_in_books(self, event)
        state.plays[event.arm] += 1
        if in_order(self):
            state.tried += event.tried
        state.decided, state.budget = event.number, event.budget
        self._draw()
        self.pending[event.number] = event
        for totals in self._totals_of(event):
            totals.plays += 1
        if self.watch.model is not None and event.action is not None:
            before = state.played or [0.0] * len(event.action)
            state.played = [total + x for total, x in zip(before, event.action, strict=True)]
        if shows_drift(self, event):
            state.detector.add_play(event.number, event.source == "mixture")
        if self.arms.is_beyond_promise(event, self.agent):
            state.promise_void = True

    def _apply_reward(self, event: RewardRecorded) -> None:
        state = self.state
        decision = self.pending.pop(event.number)
        if decision.counted:
            learn = self.agent.lose if self.is_lost(event) else self.agent.observe
            learn(self._play_of(decision), event.reward)
            state.learned += 1
        moved = close_in_books(self, decision, None if self.is_lost(event) else event.reward)
        default, unheard = event.origin == "default", self._is_unheard(event)
        for totals in self._totals_of(decision):
            totals.add(event.reward, default=default, unheard=unheard)
        chance = decision.control_chance if decision.lift_centre is None else None  # version 0.2 made it
        if chance is not None and self.reference is not None:
            state.lift.add(
                event.reward,
                chance=chance,
                in_control=decision.group == "holdback",
                start=self.reference,
                limits=self.limits,
            )
        if decision.counted:
            state.history.add(self.now())
        check_claims(self, decision, event, moved)

    def _play_of(self, event: DecisionMade) -> Decision:
        """A decision as the agent of this loop commits it and learns from it."""
        return event.as_decision(len(self.agent.changes), self.arms.removed(event.round))

    def is_lost(self, event: RewardRecorded) -> bool:
        """Whether nobody knows the reward that closed a decision."""
        unknown = event.origin == "default" and self.spec.missing_reward == "unknown"
        return unknown or self._is_unheard(event)

    def _is_unheard(self, event: RewardRecorded) -> bool:
        """Whether a reward may have been told and lost with the database, as the decision was open then."""
        return event.origin == "default" and event.number < first_since_restore(self)

    def _totals_of(self, decision: DecisionMade) -> list[RewardTotals]:
        """The totals that a decision counts in."""
        state = self.state
        found = [state.groups[decision.group]]
        if decision.counted:
            found.append(state.counted)
        if decision.source == "mixture":
            found.append(state.mixture)
        if state.items:
            found.append(state.items[decision.arm])
        if state.since_drift is not None:
            found.append(state.since_drift.setdefault(decision.arm, RewardTotals()))
        return found

    def now(self) -> Point:
        """Where the loop stands, as a point of its history."""
        state, counted, earned, practice = self.state, self.state.counted, None, None
        if self.coin_books is not None:
            terms, books = self.coin_books
            earned, practice = books.earned, terms.bounds(books)
        return Point(
            at=state.at,
            decisions=state.decided,
            explored=state.groups["explore"].plays,
            held=state.groups["holdback"].plays,
            closed=counted.closed,
            rewards=counted.rewards,
            budget=state.budget,
            earned=earned,
            practice=practice,
            lost=self.lost if self.spec.version > 3 else 0,  # before, points did not say it
            tried=state.tried,
        )

    # -- snapshots

    def snapshot(self) -> tuple[bytes, bytes]:
        """(state, agent) as bytes that `restore` reads; equal states give equal bytes.

        Open decisions are in their own events: a snapshot does not grow with them.
        """
        oldest = next(iter(self.pending), self.state.decided + 1)
        return msgspec.json.encode(msgspec.structs.replace(self.state, oldest=oldest)), self.agent.snapshot()

    def restore(self, state: bytes, agent: LoopAgent) -> None:
        """Become what the snapshot says."""
        self.agent, self.state = agent, msgspec.json.decode(state, type=LoopState)
        self.snapshot_seq = self.state.seq
        self._know_key()
        self._know_arms()
        self.watch = self.arms.watch(agent, self.certificate, self.spec, self.state.references)

    def reopen(self, decisions: Iterable[DecisionMade]) -> None:
        """The decisions that were open when the snapshot was taken, in their order."""
        self.pending = {event.number: event for event in decisions}
        self.agent.await_rounds(event.round for event in self.pending.values() if event.counted)
        self.state.oldest = 0

    def digest(self) -> str:
        """One line that differs if anything in the state differs."""
        memory = msgspec.json.encode((self.state, list(self.pending.values())))
        return sha256(memory + self.agent.snapshot()).hexdigest()

    # -- what it was made from

    def is_made_from(self, asked: LoopSpec) -> bool:
        """Whether this loop is what the spec asks for; what it leaves out is as it is here."""
        same = msgspec.structs.replace(asked, version=self.spec.version, policy=self.spec.policy)
        there = from_dict(self.spec.policy, stored=True)  # it may have been written with fewer fields
        return specs.with_defaults(same, self.name) == self.spec and from_dict(asked.policy) == there

    @property
    def reference(self) -> float | None:
        """The mean reward of the log, or of what is left of it as practice."""
        later = self.state.references
        return later[-1].mean if later else self.log_mean

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
    def lost(self) -> int:
        """Closed decisions, of those that the promise is about, whose reward nobody knows."""
        return self.state.counted.closed - self.watch.known(self.state.counted)[0]

    @property
    def coin_books(self) -> tuple[PracticeTerms, PracticeBooks] | None:
        """What the coin has told of practice so far, where the gate throws one."""
        books = self.state.practice
        return None if self.practice is None or books is None else (self.practice, books)

    @property
    def open_alarms(self) -> list[Alarm]:
        """The alarms that nobody has answered by setting the loop's mode since."""
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
        match = DECISION_ID.fullmatch(decision_id)
        if match is None or match["loop"] != str(self.id):
            return None
        value, epoch = int(match["number"]), match["epoch"] or ""
        if value <= self.state.decided and epoch == self.epoch_of(value):
            return value
        if not self.state.epochs or epoch == self.epoch:  # nothing was lost, or it is yet to be made
            return None
        raise restored(f"decision {decision_id!r} of {self.name!r} was lost when a backup was restored")
