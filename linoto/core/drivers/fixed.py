"""Arms that stay the same: each has an index for ever, counts and running bounds of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.core import arm_changes, coins, kernels
from linoto.core.arm_changes import ArmChange
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.calls import Calls
from linoto.core.certificates import Certificate, Situation, limits_of
from linoto.core.coins import Coins
from linoto.core.decisions import SOURCES, Decision, NoSafeArm, as_mask, check_decision, check_round, credit
from linoto.core.drivers import known
from linoto.core.drivers.driver import Brought, Driver, begun, bounds_of, of_a_decision
from linoto.core.drivers.listing import Listing
from linoto.core.drivers.metric_models import begin_models_of_arms
from linoto.core.explorers import View, ask_own
from linoto.core.false_bounds import naming_enough, with_bound
from linoto.core.hints import shortened_list
from linoto.core.kernels import State
from linoto.core.names import Names, as_stored
from linoto.core.offline import Offline
from linoto.core.open_rounds import check_awaited
from linoto.core.plain_python import is_only_looking, run_once
from linoto.core.playing import Rounds, World, as_world, ask_in_world, check_rewards
from linoto.core.protocols import AnyAgent, Composition, PolicyWithPromise, RoundAgent
from linoto.core.rails import Rails, Values, share_of
from linoto.core.resting import offline_of, pulls_of, stored_rows
from linoto.core.running import Running
from linoto.core.saving import digest_of, lasting_arrays, rows_left_out
from linoto.core.tickets import Ticket
from linoto.core.usual_confidence import confidence_from_log
from linoto.core.validation import as_arm, as_counts
from linoto.core.warm_up import OWNED, Kind, warm_up, warm_up_loop
from linoto.core.whitening import fresh_state

MOST_DRAWN = 4_000_000  # random numbers that the loop holds at once
MOST_AMONG = 64  # allowed arms that are looked at by themselves
SCRATCH = [kernels.SCORE, kernels.ROOM, kernels.CHANCE]  # rows of the arms that one decision writes


class FixedArms(Driver[Bools | None]):
    """The kernels of arms that stay the same. A question is a mask of the allowed arms; None: all."""

    kind = "arms stay the same"
    sources = SOURCES
    changes: tuple[ArmChange[int], ...]

    def __init__(
        self,
        *,
        composition: Composition,
        running: Running,
        names: Names | None = None,
        reward_squares: Floats | None = None,  # (k,) of the log, where known
        changes: tuple[ArmChange[int], ...] = (),
    ) -> None:
        super().__init__(composition, running, changes)
        self.names, self.reward_squares = names, reward_squares
        self.known_actions: Floats | None = None  # (k, d) where explorers are told of guardrails
        self.against = self.gate.compared_with(composition.resolved_fallback())
        self.calls = Calls(self.parts)
        fallback = int(running.params[0]["fallback"])
        self.plays_mixture = fallback in (kernels.MIXTURE, kernels.CERTIFIED)  # always, or at times
        self.looks_at_all, self.first_arms = False, ""
        self.listing = Listing(running, self.parts, is_possible=running.rails is None and not self.own)
        if not is_only_looking():
            warm_up(self.parts, Kind.of(running.held))
            if self.judges_arms_alone:
                warm_up(self.parts, OWNED)  # a copy of theirs
            self.warm_up_redraws()
            self.listing.warm_up()

    @classmethod
    def begin(
        cls,
        composition: Composition,
        actions: Floats,
        offline: Offline,
        *,
        rng: np.random.Generator,
        coins: Coins | None,
        names: Names | None,
    ) -> FixedArms:
        """A fresh one that knows the log and nothing else."""
        params = composition.params(actions, offline)
        state = fresh_state(params, actions, offline)
        rails = Rails.begin(composition.guardrails, composition.gate, composition.assumed, offline.pulls)
        running = Running(params=params, held=state, rng=rng, coins=coins, rails=rails)
        driver = cls(
            composition=composition,
            running=running,
            names=names,
            reward_squares=offline.reward_squares,
        )
        begin_models_of_arms(driver, actions)
        run_once(kernels.begin, params, state, *driver.parts[:5], steps=state.square[0].size * driver.k)
        if params[0]["estimates_noise"]:
            state.run["residuals"], state.run["residual_count"] = driver.offline.within_arms()
        driver.draw()
        of_gate = share_of(composition.assumed, composition.guardrails)
        with naming_enough(
            lambda bound: begun(cls, with_bound(composition, bound), actions, offline, names=None)
        ):
            composition.gate.check_start(state, of_gate, offline, names)
        return driver

    def look_at_every_arm(self) -> None:
        self.listing.use(None)

    def observe_reward(self, arm: int, mixture: bool, value: float, error: float, played: bool) -> None:
        """One reward of an arm, or what stands in for it and how wrong that can be; in lists if there are."""
        if self.running.lists is None or not self.listing.observe(arm, mixture, value, error, played):
            self.calls.observe(self.running.params, self.running.held, arm, mixture, value, error, played)

    # -- deciding

    def as_question(self, allowed: Any = None, *brought: Any) -> Bools | None:
        given = [name for name, one in zip(Brought._fields, brought, strict=False) if one is not None]
        if given:
            raise ValueError(f"{given[0]} must be None for an agent whose arms stay the same, got a value")
        return None if allowed is None else self.present_among(allowed)

    def as_arm(self, arm: Any, asked: Bools | None, name: str = "arm") -> int:
        index = as_arm(arm, self.k, name)
        if not self.running.has(index):
            raise ValueError(f"arm must be one that is present, got {index}, which was removed")
        return index

    def select(self) -> int:
        running = self.running
        if self.own or running.stays_safe:
            return self.answer(None, None).arm
        if running.rails is not None:
            if self.limits_proposals:
                return self.answer(None, None).arm
            running.rails.measure(running.held.run)
        arm = self.listing.decide(-1)
        return arm if arm >= 0 else self.calls.decide(running.params, running.held, -1)

    def answer(self, wanted: int | None, asked: Bools | None, safe: bool = False) -> Decision:
        running = self.running
        if safe:
            coins.check_before_coin(safe, self.coin_is_thrown)
        self.ask(wanted, asked)
        decision = self.latest()
        if safe and self.gate.throws_coin:
            running.stays_safe = True
        if running.stays_safe:
            running.held.run["coin_thrown"] = 0
        if wanted is not None:
            running.forget_decision()  # an arm committed by number is judged by decide(), not by this
        running.tickets.offered.append(decision)
        return decision

    def ask(self, wanted: int | None, mask: Bools | None) -> None:
        """Decide, or judge a proposal; where no allowed arm is safe, change nothing.

        A round whose coin is thrown is decided.
        """
        run = self.running.held.run
        if self.gate.throws_coin and self.coin_is_thrown:
            coins.check_same_round(run, -1 if wanted is None else wanted, mask)
            return
        if self.running.rails is not None:
            self.running.rails.measure(run)
        proposal = wanted if wanted is not None else self.propose(mask) if self.own else -1
        if not self.limits_proposals and self.decided_without_all(mask, proposal):
            return
        state, self.accepted = self.running.state, None
        if self.rule.states_chances:
            state.arms[kernels.CHANCE] = 0.0  # an arm that the caller wants is no draw
        if mask is None:
            self.run_kernel(mask, proposal)
            return
        before, rows = run.copy(), state.arms[SCRATCH].copy()
        with self.restricted_to(mask):
            self.run_kernel(mask, proposal)
        if run[0]["arm"] < 0:
            run[:], state.arms[SCRATCH] = before, rows
            asked = [str(self.names[arm] if self.names else arm) for arm in np.flatnonzero(mask)]
            raise NoSafeArm(
                f"allowed must hold an arm that is safe to play, got {shortened_list(asked)}: "
                "the gate refused them all, and the fallback is not among them"
            )

    def may_refuse(self, asked: Bools | None) -> bool:
        return self.own or asked is not None

    def decided_without_all(self, mask: Bools | None, proposal: int) -> bool:
        """Decide by lists, or among few allowed arms; False where every arm has to be looked at."""
        if self.looks_at_all:
            return False
        if mask is None:
            return self.listing.decide(proposal) >= 0
        few = mask.size > 4 * MOST_AMONG and np.count_nonzero(mask) <= MOST_AMONG
        if not few or not self.judges_arms_alone or (proposal >= 0 and not mask[proposal]):
            return False
        self.decide_among(np.flatnonzero(mask), proposal)
        return True

    @property
    def judges_arms_alone(self) -> bool:
        """Whether what is decided among some arms depends on no other arm."""
        p = self.running.params[0]
        explores = p["explorer"] in (kernels.UCB, kernels.GREEDY, kernels.THOMPSON)
        falls_back = p["fallback"] in (kernels.LCB_ARM, kernels.FROZEN_ARM)
        return bool(explores and falls_back and p["gate"] in (kernels.OPEN, kernels.CLOSED))

    def decide_among(self, arms: Ints, proposal: int) -> None:
        """Let the kernels see these arms only, as if there were no others."""
        running = self.running
        if running.lists is not None:
            for arm in arms.tolist():
                running.lists.meet(running.params, running.held, arm)
        held, run, before = running.held, running.held.run, running.held.run["restricted"].copy()
        alone = held._replace(
            actions=np.ascontiguousarray(held.actions[:, arms], dtype=np.float64),
            arms=np.ascontiguousarray(held.arms[:, arms]),
            counts=np.ascontiguousarray(held.counts[:, arms]),
        )
        alone.counts[kernels.ALLOWED] = 1  # or they would not be asked about
        place = -1 if proposal < 0 else int(np.searchsorted(arms, proposal))
        run["restricted"] = 1
        kernels.decide(running.params, alone, place, *self.parts)
        run["restricted"] = before
        for name in ("arm", "proposal", "fallback"):
            run[name] = arms[run[name].item(0)]

    def run_kernel(self, asked: Bools | None, proposal: int) -> None:
        running = self.running
        if running.rails is not None:
            self.ask_models(asked, proposal)
            if proposal < 0 and self.limits_proposals and not self.acceptable(asked).all():
                with self.restricted_to(self.present & self.acceptable(asked)):
                    self.calls.decide(running.params, running.state, -1)
                best = "arm" if running.run["explored"] and not self.gate.throws_coin else "proposal"
                running.state.run["coin_thrown"], proposal = 0, int(running.run[best])
        self.calls.decide(running.params, running.state, proposal)

    def compared(self, asked: Bools | None) -> tuple[Floats, Floats]:
        p, weights = self.running.params[0], self.running.state.counts[kernels.LOGGED] * self.offered(asked)
        if p["fallback"] == kernels.FIXED_ARM:
            weights = np.arange(self.k) == p["fixed_arm"]
        if self.known_actions is None:
            self.known_actions = self.actions
        return self.known_actions, weights.astype(np.float64)

    @contextmanager
    def restricted_to(self, mask: Bools) -> Iterator[None]:
        """The kernels see these arms only, as long as it lasts."""
        state, present = self.running.state, self.present
        state.counts[kernels.ALLOWED], state.run["restricted"] = mask, 1
        try:
            yield
        finally:
            state.counts[kernels.ALLOWED], state.run["restricted"] = present, not present.all()

    def latest(self) -> Decision:
        """The decision that the kernels made last."""
        now = of_a_decision(self.running.held.run)
        _, _, _, _, arm, _, _, _, fallback, _ = now
        fields = {"arm": arm, "name": self.names[arm] if self.names else None, "changes": len(self.changes)}
        fields["fallback"] = fallback if fallback >= 0 else None
        fields["action"] = fields["practice"] = None  # known without a function that is asked for it
        return self.decided(now, fields)

    def name_of(self, arm: int) -> str | None:
        """The name of an arm, where arms have names."""
        return self.names[arm] if self.names else None

    def safe_play(self, decision: Decision, *, counted: bool) -> Decision:
        if decision.fallback is None:
            raise NoSafeArm(
                "allowed must hold an arm that is safe to play, got none: the fallback is not in it"
            )
        arm = decision.fallback
        safe = replace(decision, arm=arm, name=self.name_of(arm), mode="safe")
        if counted:
            coins.play_practice(self.running.held.run)
        else:
            safe = self.without_coin(safe)
        self.running.tickets.offered.append(safe)
        return safe

    def check_latest(self, decision: Decision) -> None:
        check_round(decision, self.running.rounds + 1)

    @property
    def coin_is_thrown(self) -> bool:
        return bool(self.running.held.run["coin_thrown"].item(0))

    def propose(self, mask: Bools | None) -> int:
        """Ask an explorer of the caller's own: an arm, or -1 once its scores are in the state."""
        return ask_own(self.explorer, self.view(mask), self.running.state.arms[kernels.GIVEN_SCORES])

    def view(self, mask: Bools | None) -> View:
        """What the explorer sees."""
        arms = self.running.state.arms
        return self.seen(
            actions=self.actions,
            mean=np.array(arms[kernels.MEAN]),
            width=np.array(arms[kernels.WIDTH]),
            lcb=self.lcb,
            ucb=self.ucb,
            counts=np.array(arms[kernels.SEEN]),
            reward_sums=np.array(arms[kernels.SUMS]),
            allowed=self.present if mask is None else mask.copy(),
        )

    # -- how likely an arm is

    def peek(self, wanted: int | None, asked: Bools | None) -> Decision:
        thrown = self.running.run["coin_thrown"].item(0)
        self.looks_at_all = True  # what is asked next is the room of every arm
        try:
            decision = self.answer(wanted, asked)
        finally:
            self.looks_at_all = False
        self.running.held.run["coin_thrown"] = thrown
        self.running.tickets.offered.pop()
        return decision

    def offered(self, asked: Bools | None) -> Bools:
        return self.present if asked is None else asked

    def arms_in(self, asked: Bools | None) -> int:
        return self.k

    def affordable(self, asked: Bools | None) -> Bools:
        return np.asarray((self.running.state.arms[kernels.ROOM] > 0) & self.offered(asked))

    def practice_chance(self, arm: int, asked: Bools | None) -> float:
        if not self.practice_is_drawn(asked):
            return float(arm == self.running.run["fallback"])
        weights = self.running.held.counts[kernels.LOGGED] * self.offered(asked)
        return float(weights[arm] / weights.sum())

    def safe_chance(self, arm: int, asked: Bools | None) -> float:
        return float(arm == self.running.run["fallback"])

    def practice_is_drawn(self, asked: Bools | None) -> bool:
        return bool(self.running.params[0]["fallback"] == kernels.MIXTURE)

    def redrawn(self, asked: Bools | None, chosen: str, draws: Floats) -> list[int]:
        rows = self.running.state.arms[SCRATCH].copy()
        with self.restricted_to(self.offered(asked)):
            arms = super().redrawn(asked, chosen, draws)
        self.running.state.arms[SCRATCH] = rows
        return arms

    def vouched_propensity(self, arm: int, proposal: int, asked: Bools | None) -> float:
        state, likely, mask = self.running.state, 0.0, self.offered(asked)
        weights = state.counts[kernels.LOGGED] * mask
        run, ends = state.run.copy(), np.cumsum(weights) / weights.sum()
        with self.restricted_to(mask):
            for other in np.flatnonzero(weights):
                chance = float(weights[other] / weights.sum())
                state.run["coin_thrown"], state.run["practice_draw"] = 0, ends[other] - chance / 2
                self.run_kernel(asked, proposal)
                share = float(state.run[0]["entry_share"])
                likely += chance * coins.mixed_propensity(float(arm == proposal), share, float(arm == other))
        state.run[:] = run
        return likely

    # -- learning

    def commit(self, decision: Decision | int) -> None:
        running = self.running
        arm, mixture = self.play_of(decision)
        ticket = self.ticket_of(decision, mixture, arm) if running.keeps_tickets else None
        if not self.listing.commit(arm, mixture):
            self.calls.commit(running.params, running.held, arm, mixture)
        running.begin_waiting(ticket)
        self.draw()

    def observe(self, decision: Decision | int, value: float) -> None:
        ticket = self.awaited(decision)
        arm, mixture = self.credited(decision, ticket)
        if not self.gate.throws_coin:
            self.learn(arm, mixture, value, 0.0)
        elif not self.coin_is_thrown:
            self.enter_reward(decision, arm, ticket)
            self.learn(arm, mixture, value, 0.0)
        else:  # between the throw of a coin and the commit of its round: that decision stands
            run = self.running.held.run
            kept = [name for name in kernels.DECIDED if name != "restricted"]
            before = run[kept].copy()
            self.enter_reward(decision, arm, ticket)
            self.learn(arm, mixture, value, 0.0)
            for name in kept:
                run[name] = before[name]

    def lose(self, decision: Decision | int, value: float) -> None:
        arm, mixture = self.credited(decision, self.awaited(decision))
        low, high = limits_of(self.confidence, self.running.held.actions)
        self.learn(arm, mixture, value, max(high - value, value - low))

    def update(self, decision: Decision | int, value: float, metrics: Values) -> None:
        running = self.running
        arm, mixture = self.play_of(decision)
        ticket = None if running.rails is None else self.ticket_of(decision, mixture, arm)
        self.observe_reward(arm, mixture, value, 0.0, False)
        self.tell_latest(decision, ticket, metrics)
        self.draw()

    def play(self, agent: AnyAgent | RoundAgent, means: Floats, draws: Floats, **world: Any) -> Rounds:
        known = as_world(means, draws, self.k, guardrails=self.composition.guardrails, **world)
        if known.bernoulli or known.draws.size:
            check_rewards(self.running.params, *known.extent)
        asked = self.is_asked(agent)
        return ask_in_world(cast(AnyAgent, agent), known) if asked else self.play_compiled(known)

    def play_compiled(self, world: World) -> Rounds:
        """What these arms play in a world, block by block."""
        running, draws, low = self.running, world.draws, world.reward_range[0]
        rounds = Rounds(*np.empty((3, draws.size), dtype=np.int64))
        coins.check_stays_safe(not running.stays_safe)
        running.tickets.offered.clear()
        warm_up_loop(self.parts, Kind.of(running.held))
        block = max(min(4096, MOST_DRAWN // running.held.vectors.shape[1]), 1)  # rounds drawn for at once
        for start in range(0, draws.size, block):
            stop = min(start + block, draws.size)
            randoms = self.random_rows(stop - start), self.coin_rows(stop - start)
            while start < stop:
                part = slice(start, start + self.listing.most_rounds(stop - start))
                drawn = [rows[start - stop :][: part.stop - start] for rows in randoms]
                played = rounds.arms[part], rounds.sources[part], rounds.fallbacks[part]
                in_world = world.means, world.starts, world.first + start, draws[part], world.bernoulli, low
                now: tuple[Any, ...] = *in_world, world.spread, *drawn, *played
                count = self.listing.play(*now)
                if count is None:
                    with self.rails_in(world, part) as rails:
                        kernels.play(running.params, running.held, *(*now, rails, *self.parts))
                start += part.stop - start if count is None else count
        return rounds

    @contextmanager
    def rails_in(self, world: World, part: slice) -> Iterator[kernels.Rails | None]:
        """The guardrails of these rounds as the kernels play them."""
        rails, metrics = self.running.rails, world.metrics
        if rails is None:
            yield None
            return
        means = np.stack([metric.means for metric in metrics], axis=1)
        draws = np.stack([metric.draws[part] for metric in metrics], axis=1)
        told = self.compared(None) if self.tells_explorer else (np.empty((0, 0)), np.empty(0))
        with rails.in_world(means, draws, *told, self.k) as found:
            yield found

    def measure(self, asked: Bools | None) -> None:
        super().measure(None)

    def enter_play(self, decision: Any, ticket: Ticket) -> None:
        self.calls.commit(self.running.params, self.running.held, ticket.play, ticket.mixture)

    def enter_value(self, decision: Any, ticket: Ticket, value: float, error: float) -> None:
        self.learn(ticket.play, ticket.mixture, value, error)

    def action_of(self, decision: Any, ticket: Ticket) -> Floats:
        return np.asarray(self.compared(None)[0][ticket.play])

    def learn(self, arm: int, mixture: bool, value: float, error: float) -> None:
        """One reward of an arm, or what stands in for it and how wrong that can be."""
        self.observe_reward(arm, mixture, value, error, True)

    def play_of(self, decision: Decision | int) -> tuple[int, bool]:
        """The arm, and whether it is played for the mixture: an arm alone is if the gate now says so."""
        running, run = self.running, self.running.held.run
        if isinstance(decision, Decision):
            check_round(decision, running.rounds + 1)
            if decision.changes != len(self.changes):
                raise ValueError(
                    "decision must be made after the arms changed, got one from before: ask again"
                )
            arm = self.as_arm(decision.arm, None)
            if running.stays_safe:
                coins.check_stays_safe(decision.mode == "safe" and decision.control_share is None)
            trusts = running.tickets.trusts
            decision = decision if trusts else running.tickets.as_offered(decision)
            if trusts or running.tickets.has_offered(decision):
                if self.gate.throws_coin:
                    coins.enter_play(run, decision)
                return arm, decision.by_practice
            if not self.gate.throws_coin and not decision.by_practice:
                return arm, False  # whatever was decided
            return self.play_by_arm(arm, self.as_arm(decision.proposal, None, "proposal"))
        return self.play_by_arm(self.as_arm(decision, None), None)

    def play_by_arm(self, arm: int, wanted: int | None) -> tuple[int, bool]:
        """The same of an arm that is played whatever was decided: it is judged as what somebody `wanted`."""
        running, run = self.running, self.running.held.run
        if self.gate.throws_coin:
            if not self.coin_is_thrown:
                self.ask(wanted, None)
            if running.stays_safe:
                coins.forget_coin(run)
            practice = coins.is_practice(run, arm)
            coins.enter_arm(run, arm)
            return arm, practice
        if not self.plays_mixture:
            return arm, False
        if wanted is not None or not run[0]["fresh"]:
            self.ask(wanted, None)
        return arm, bool(run[0]["source"] == kernels.FROM_MIXTURE and run[0]["arm"] == arm)

    def awaited(self, decision: Decision | int) -> Ticket | None:
        """What was committed, where the books know it; refuses a decision that awaits no reward."""
        if not isinstance(decision, Decision):
            return None
        check_awaited(self.running.open_rounds, decision.round)
        return self.running.tickets.of(decision)

    def check_owed(self, decisions: Sequence[Decision]) -> None:
        plays = Counter[tuple[int, bool]]()
        for decision in decisions:
            ticket = self.awaited(decision)
            plays[credit(decision, self.running.held.counts, ticket and ticket.mixture)] += 1
        for (arm, mixture), count in plays.items():
            if count > self.running.held.counts[kernels.PENDING_MIXTURE if mixture else kernels.PENDING, arm]:
                raise ValueError(f"decisions must await their reward, got {count} of arm {arm}: too many")

    def credited(self, decision: Decision | int, ticket: Ticket | None) -> tuple[int, bool]:
        """Whose reward this is, which is not awaited any more: the arm, and whether it was the mixture's."""
        running, mixture = self.running, None if ticket is None else ticket.mixture
        arm, mixture = credit(decision, running.held.counts, mixture)
        if isinstance(decision, Decision):
            running.close(decision.round)
        else:
            running.close_by_arm(arm, mixture)
        return arm, mixture

    def enter_reward(self, decision: Decision | int, arm: int, ticket: Ticket | None) -> None:
        """Say what a reward is in the books of a gate that throws a coin."""
        run = self.running.held.run
        if ticket is not None:
            coins.write(run, ticket.entry, ticket.share, ticket.centre, arm)
        elif isinstance(decision, Decision):
            coins.enter_decision(run, decision)
        else:
            coins.enter_ticket(self.running.held, arm)

    # -- arms that come and go

    def add_arms(
        self,
        arms: Any,
        names: Sequence[str] | None,
        values: Sequence[Sequence[float]] | None,
        bound: float | None,
    ) -> tuple[int, ...]:
        if values is not None:
            raise ValueError("values must be None for arms that stay the same: they have actions")
        running = self.running
        self.check_no_models()
        arm_changes.check_change(self.gate, self.explorer, self.confidence, self.coin_is_thrown)
        self.listing.end()
        new = arm_changes.as_new_actions(arms, running.held.vectors.shape[1])
        all_names = arm_changes.names_with(self.names, names, len(new))
        change = arm_changes.addition(running.state, running.params, self.confidence, new, bound)
        composition = arm_changes.composition_after(self.composition, (change,))
        squares = self.reward_squares
        squares = None if squares is None else np.append(squares, np.zeros(len(new)))
        known = (float(running.params[0][name]) for name in ("ridge", "precision"))
        state = arm_changes.grown(running.estimate, new, *known)
        log = offline_of(state, squares)
        params = composition.params(kernels.actions_in(state), log)  # refuses what cannot work
        self.draw_for_new(change, state)
        if running.rails is not None:
            running.rails.grow(np.arange(running.state.vectors.shape[1]), state.vectors.shape[1])
        kernels.meet_arms(params, state, change.added[0])
        if params[0]["explorer"] >= kernels.UCB1:
            kernels.tally(params, state)
        running.params, running.state, self.reward_squares, self.names = params, state, squares, all_names
        self.composition, self.changes, self.known_actions = composition, (*self.changes, change), None
        self.listing.use(self.listing.sizes)
        return change.added

    def draw_for_new(self, change: ArmChange[int], state: State) -> None:
        """What the next decision needs of new arms and features besides the estimate."""
        first, rng = change.added[0], self.running.rng
        if self.gate.throws_coin:
            bounds = self.gate.practice_bounds(self.confidence, Offline.empty(len(change.added)))
            state.arms[[kernels.PRACTICE_UPPER, kernels.PRACTICE_LOWER], first:] = bounds
        if self.rule.draws == kernels.SCORE_DRAWS:
            state.arms[kernels.GIVEN_SCORES, first:] = rng.random(len(change.added))
        elif self.rule.draws == kernels.NORMAL_DRAWS and change.features:
            state.vectors[kernels.NORMALS, -change.features :] = rng.standard_normal(change.features)

    def remove_arms(self, arms: Any, fallback: int | None) -> None:
        running = self.running
        self.check_no_models()
        arm_changes.check_change(self.gate, self.explorer, self.confidence, self.coin_is_thrown)
        self.listing.end()
        change = arm_changes.removal(running.state, running.params, arms, fallback)
        if running.rails is not None and not self.gate.throws_coin:
            self.check_practice_stays(change)
        present = self.present
        present[list(change.removed)] = False
        if self.gate.needs_logged_arms(self.plays_mixture):
            arm_changes.check_practice(running.held.counts[kernels.LOGGED], present)
        self.composition = arm_changes.composition_after(self.composition, (change,))
        if change.fallback is not None:
            running.params["fixed_arm"] = change.fallback
        before = float(running.run["premium"])
        running.held.counts[kernels.ALLOWED] = present
        kernels.lose_arms(running.params, running.state, self.parts.ledger)
        self.changes = (*self.changes, arm_changes.with_effect(change, self.situation(), before))

    def check_practice_stays(self, change: ArmChange[int]) -> None:
        """Refuse to lose an arm of the log where other metrics are compared with that."""
        if self.running.held.counts[kernels.LOGGED, list(change.removed)].any():
            raise ValueError(
                "arms must be ones without rows in the log for guardrails behind a Tolerance gate, got "
                f"{shortened_list(list(map(str, change.removed)))}: what they had of a metric is not known"
            )

    @property
    def change_texts(self) -> tuple[str, ...]:
        return tuple(arm_changes.text_of(change, self.names) for change in self.changes)

    @property
    def present(self) -> Bools:
        """(k,) the arms that can be played: all but those that were removed."""
        return self.running.present

    def present_among(self, allowed: npt.ArrayLike) -> Bools:
        """(k,) the allowed arms that are present."""
        mask = as_mask(allowed, self.k)
        listed = np.flatnonzero(mask)
        mask[listed] = self.running.are_present(listed)
        if not mask.any():
            raise ValueError("allowed must hold an arm that is present, got only arms that were removed")
        return mask

    # -- looking

    def interval(self, arm: Any) -> tuple[float, float]:
        return known.interval_of(self.running, as_arm(arm, self.running.held.actions.shape[1]))

    def estimates(self, arms: Ints) -> Floats:
        """(3, n) of these arms: the estimate of each mean reward, and both ends of its interval of now."""
        return known.estimates_of(self.running, arms)

    def own_rewards(self, arms: Ints) -> Floats | None:
        """(3, n) of these arms: rewards, in the log and here, their sums, and how far lost ones may be off.

        None where an arm is not known by its own rewards alone.
        """
        return known.own_rewards_of(self.running, arms)

    def mean(self, arm: Any) -> float:
        """The estimate of the mean reward of one arm."""
        self.interval(arm)  # lets it catch up
        return float(self.running.held.arms.item(kernels.MEAN, as_arm(arm, self.k)))

    def bounds(self, decision: Decision) -> tuple[float, float]:
        check_decision(decision)
        return self.interval(decision.arm)

    def next_mixture_arm(self, plays: npt.ArrayLike | None = None) -> int:
        """The logged arm that is furthest behind its share of the mixture plays.

        `plays` (k,) are those of another schedule, which this agent was never told of.
        """
        held, changed = self.running.held, self.running.run["premium"] > 0
        left = held.counts[kernels.PRACTICE_PULLS]
        logged = left if changed else pulls_of(held, self.running.resting)
        mixed = self.mixture_plays if plays is None else as_counts("plays", plays, self.k)
        return int(kernels.most_behind(logged, mixed, int(logged.sum()), int(mixed.sum())))

    @property
    def budget(self) -> float | None:
        """The room that the gate sees now, as in the next decision; None where there is no gate."""
        if not self.gate.measures:
            return None
        state = self.running.held
        run = state.run.view(np.uint8)  # to copy its fields one by one takes 10 times as long
        before, rows = run.copy(), state.arms[SCRATCH].copy()
        budget = self.answer(None, None).budget
        self.running.tickets.offered.pop()
        run[:], state.arms[SCRATCH] = before, rows  # the latest decision stays the latest
        return budget

    @property
    def counts_control(self) -> bool:
        """Whether a control play of the logging mixture is to be committed: it is like the gate's own."""
        return self.gate.counts_control(self.practice_is_drawn(None))

    @property
    def mixture_plays(self) -> Ints:
        """(k,) plays of the logging mixture so far; since practice last lost an arm."""
        return np.array(self.running.held.counts[kernels.MIXED])

    @property
    def pending(self) -> Ints:
        """(k,) committed plays that await their reward."""
        counts = self.running.held.counts
        return np.array(counts[kernels.PENDING] + counts[kernels.PENDING_MIXTURE])

    @property
    def k(self) -> int:
        """The number of arms."""
        return int(self.running.held.actions.shape[1])

    @property
    def actions(self) -> Floats:
        """(k, d) the arm set."""
        return kernels.actions_of(self.running.held)

    @property
    def means(self) -> Floats:
        """(k,) the estimate of each mean reward."""
        return np.array(self.running.state.arms[kernels.MEAN])

    @property
    def lcb(self) -> Floats:
        """(k,) the best lower bound on each mean reward so far, lcb_t of eq. (3)."""
        return np.array(self.running.state.arms[kernels.LCB])

    @property
    def ucb(self) -> Floats:
        """(k,) the current upper bound on each mean reward, ucb_t of eq. (3)."""
        return bounds_of(self.running.state)[1]

    @property
    def baseline(self) -> float:
        """r_b of eq. (4): the reward per round a Budget gate defends; -inf without a log."""
        return float(self.running.run["baseline"])

    @property
    def offline(self) -> Offline:
        """The log it was started from."""
        return offline_of(self.running.held, self.reward_squares, self.running.resting)

    def first_certificate(self, policy: PolicyWithPromise) -> Certificate:
        (k, d), actions = self.first_shape, kernels.actions_in(self.running.held)
        with confidence_from_log(False):  # it says what its start found
            found: Certificate = policy.certificate(actions[:k, :d], self.offline.leading(k))
        return found

    def amended(self, certificate: Certificate) -> Certificate:
        return arm_changes.amended(certificate, self.changes, self.change_texts)

    def situation(self) -> Situation:
        return Situation(**self.promising(), state=self.running.estimate, offline=self.offline)

    def kept(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        running = self.running
        if running.run["one_hot"]:
            return self.saved()
        lists = {} if running.lists is None else running.lists.saved(running.params, running.held)
        header, arrays = self.saved_of(running.held)
        if running.lists is not None:
            arrays |= stored_rows(running.held, running.resting)
            del arrays["arms.width"]  # roots of variances
        k, d = self.first_shape
        if not self.first_arms:
            self.first_arms = digest_of(running.held.actions[:d, :k])
        header["first_arms"] = self.first_arms
        return header, arrays | lists | {"actions": running.held.actions[:, k:]}

    @property
    def first_shape(self) -> tuple[int, int]:
        """How many arms it was started with, and how many features they had."""
        came = sum(len(change.added) for change in self.changes)
        grown = sum(change.features for change in self.changes)
        return self.k - came, self.running.held.vectors.shape[1] - grown

    def saved(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        return self.saved_of(self.running.state)

    def saved_of(self, state: State) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What is kept of a state."""
        params = self.running.params[0]
        header: dict[str, Any] = {"agent": "linear", "names": as_stored(self.names)}
        arrays = lasting_arrays(state, rows_left_out(state, params, self.gate, self.rule, own=self.own))
        squares, in_range = self.reward_squares, self.confidence.noise == "bounded"
        if squares is not None and (params["estimates_noise"] or self.gate.reads_squares or in_range):
            arrays["reward_squares"] = squares  # else nothing reads them; in a range, a certificate does
            header |= {"by_squares": True} if self.gate.reads_squares else {}
        return header, arrays

    # -- what is drawn

    def draw_scores(self) -> None:
        self.running.rng.random(out=self.running.state.arms[kernels.GIVEN_SCORES])

    @property
    def scores_drawn(self) -> int:
        return self.k
