"""One decision loop: an agent, a state and open decisions, all of them a fold of the loop's events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec

from linoto.core import kernels
from linoto.core.certificates import Certificate
from linoto.core.coins import SEEDED
from linoto.core.decisions import Decision
from linoto.service.loops import spec as specs
from linoto.service.loops.alarms import change_mode, check_claims, shows_drift
from linoto.service.loops.arm_changes import change_arms
from linoto.service.loops.events import (
    ArmsChanged,
    DecisionMade,
    DrawnAnew,
    Event,
    LoopArchived,
    LoopKeyed,
    LoopRestored,
    MetricsRecorded,
    RewardRecorded,
    SettingsChanged,
    WatchBegun,
)
from linoto.service.loops.history import Point
from linoto.service.loops.keys import LoopKey
from linoto.service.loops.loop_data import LoopData, Unmeasured
from linoto.service.loops.measuring import close_metrics, open_metrics
from linoto.service.loops.metrics import metrics_of
from linoto.service.loops.practice import PracticeBooks, PracticeTerms
from linoto.service.loops.readings import (
    close_in_books,
    in_order,
    open_in_books,
)
from linoto.service.loops.restores import is_lost, is_unheard, restored_text, skipped_by
from linoto.service.loops.spec import LoopAgent, LoopSpec
from linoto.service.loops.starting import arms_of, start_agent
from linoto.service.loops.state import (
    Alarm,
    AlarmState,
    Epoch,
    LoopState,
    MetricBooks,
    RewardTotals,
)


def without_seed(certificate: Certificate) -> Certificate:
    """What is promised whatever draws come from: whether that is a seed, the loop knows itself."""
    return replace(certificate, assumes=tuple(text for text in certificate.assumes if text != SEEDED))


class Loop(LoopData):
    """A loop at work. Only `apply` changes it."""

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
        first = arms_of(spec)
        first.prepare(agent)
        promised = without_seed(agent.certificate) if known is None else known[1]
        arms = first.after(agent)
        names = arms.listed
        zeros, practice, metrics = [0] * len(names), PracticeTerms.of(agent, promised), metrics_of(promised)
        state = LoopState(
            mode=spec.mode,
            holdback=spec.holdback,
            plays=zeros,
            uncounted=zeros.copy(),
            at=created_at,
            practice=None if practice is None else PracticeBooks(),
            metrics={name: MetricBooks() for name in metrics},
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
            metrics=metrics,
            names=names,
            index=arms.recipe.item_places,
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
        if self.agent.rule.draws != kernels.NO_DRAWS and self.key is not None and self.is_keyed:
            self.agent.use_draws(self.key.draws(self.state.decided + 1, into=self.generator))

    # -- the fold

    def apply(self, event: Event, at: float, play: Decision | None = None) -> None:
        """The next event; a change of the arms that cannot work is refused before anything changes.

        `play` is a decision as the agent has just said it; else it is read from the event.
        """
        state = self.state
        if isinstance(event, ArmsChanged):
            self._apply_arms(event, at)
        state.seq += 1
        state.at = at
        if isinstance(event, DecisionMade):
            self._apply_decision(event, self._play_of(event) if play is None else play)
        elif isinstance(event, RewardRecorded):
            self._apply_reward(event)
        elif isinstance(event, MetricsRecorded):
            close_metrics(self, event, self._play_of(self.unmeasured[event.number].decision))
        elif isinstance(event, SettingsChanged):
            answered = self.spec.version > 1 and event.answers  # in version 1 only another mode was an answer
            change_mode(self, event.mode, event.by, answered=answered)
            state.holdback = event.holdback
        elif isinstance(event, LoopArchived):
            state.archived = True
        elif isinstance(event, LoopKeyed):
            self._begin_epoch(event.epoch)
        elif isinstance(event, WatchBegun):
            self._begin_watch()
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
        state.seq += skipped_by(event)
        lost = {"missing": event.missing, "costly": event.costly, "decided": event.decided}
        self._begin_epoch(event.epoch, restored_at=state.at, **lost)
        message = restored_text(**lost)
        state.alarms.append(Alarm(kind="restored", at=state.at, seq=state.seq, message=message))
        change_mode(self, "safe-only", "restored alarm")

    def _apply_arms(self, event: ArmsChanged, at: float) -> None:
        change_arms(self, event, at)
        self._know_arms()
        self._watch()

    def _watch(self) -> None:
        """What it is watched for, after what happened to it."""
        later, anew = self.state.references, self.state.watched_anew
        self.watch = self.arms.watch(self.agent, self.certificate, self.spec, later, anew=anew)

    def _begin_watch(self) -> None:
        """The watch for drift by the right claim, from here on."""
        self.state.watched_anew, self.state.drift = True, AlarmState()
        self.state.detector.reset()
        self._watch()

    def _know_arms(self) -> None:
        """The names of all arms there were, and what changes of them did to the promise."""
        self.arms = self.arms.after(self.agent)
        self.names, self.index = self.arms.listed, self.arms.recipe.item_places
        texts = tuple(change.text for change in self.state.arm_changes)  # they say what is left of practice
        self.certificate = replace(self.agent.amended(self.first_certificate), changes=texts)

    def _apply_decision(self, event: DecisionMade, play: Decision) -> None:
        state = self.state
        if event.counted:
            self.agent.commit(play)
        else:
            state.uncounted[event.arm] += 1
        open_in_books(self, event, play)
        open_metrics(self, event)
        state.plays[event.arm] += 1
        if in_order(self) and state.tried is not None:
            state.tried += 1.0 if event.tried is None else event.tried
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
        decision, default = self.pending.pop(event.number), event.origin == "default"
        lost = default and is_lost(self, event)
        play = self._play_of(decision)
        if decision.counted:
            learn = self.agent.lose if lost else self.agent.observe
            learn(play, event.reward)
            state.learned += 1
        moved = close_in_books(self, decision, play, None if lost else event.reward)
        unheard = default and is_unheard(self, event)
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
        if decision.counted and state.history.wants(state.counted.closed):
            state.history.add(self.now())
        check_claims(self, decision, event, moved)

    def _play_of(self, event: DecisionMade) -> Decision:
        """A decision as the agent of this loop commits it and learns from it."""
        return event.as_decision(len(self.arms.changes), self.arms.removed(event.round))

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
        if self.ledger is not None:
            books = self.ledger.practice
            earned, practice = books.earned, self.ledger.terms.bounds(books)
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
        """(state, agent) as bytes that `restore` reads, without the features that are in the spec.

        Open decisions are in their own events: a snapshot does not grow with them.
        """
        oldest = self.state.decided + 1 if self.oldest_open is None else self.oldest_open.number
        state = msgspec.structs.replace(self.state, oldest=oldest)
        return msgspec.json.encode(state), self.agent.checkpoint()

    def restore(self, state: bytes, agent: LoopAgent) -> None:
        """Become what the snapshot says."""
        known = agent is self.agent  # by what was kept of the promise
        self.agent, self.state = agent, msgspec.json.decode(state, type=LoopState)
        self.snapshot_seq = self.state.seq
        self._know_key()
        changed = agent.changes or self.state.arm_changes or self.state.references
        if known and not (changed or self.state.watched_anew):
            return
        self.arms.prepare(agent)
        self._know_arms()
        self._watch()

    def reopen(self, decisions: Iterable[DecisionMade], unmeasured: Iterable[Unmeasured] = ()) -> None:
        """The decisions that were open when the snapshot was taken, in their order."""
        self.pending = OrderedDict((event.number, event) for event in decisions)
        self.unmeasured = OrderedDict((waiting.decision.number, waiting) for waiting in unmeasured)
        self.agent.await_rounds(event.round for event in self.pending.values() if event.counted)
        self.state.oldest = 0

    def digest(self) -> str:
        """One line that differs if anything in the state differs."""
        open_ones = list(self.pending.values()), list(self.unmeasured.values())
        memory = msgspec.json.encode((self.state, *open_ones))
        return sha256(memory + self.agent.snapshot()).hexdigest()
