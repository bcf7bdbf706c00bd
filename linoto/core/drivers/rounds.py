"""Rounds that bring their own arms, as vectors of features: an arm has no history of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from linoto.core import coins, item_changes, kernels
from linoto.core.arm_changes import ArmChange, as_bound, composition_after
from linoto.core.arrays import Bools, Floats
from linoto.core.calls import RoundCalls
from linoto.core.certificates import Certificate, RoundsSituation
from linoto.core.coins import Coins
from linoto.core.confidence import Ellipsoid
from linoto.core.decisions import SOURCES_IN_ROUNDS, Decision, check_decision, check_round
from linoto.core.drivers.driver import Driver, begun, of_a_decision
from linoto.core.drivers.known_rounds import check_given, play_compiled
from linoto.core.drivers.metric_models import begin_models_of_rounds
from linoto.core.drivers.order import Order, entries_of
from linoto.core.drivers.questions import (
    Checked,
    Features,
    Few,
    Items,
    Round,
    as_few,
    as_round,
    check_listed,
)
from linoto.core.drivers.round_states import (
    before_arms,
    beside,
    bounds_in_rounds,
    interval_apart,
    know_log,
    order_of,
    own_features,
)
from linoto.core.explorers import View, ask_own
from linoto.core.false_bounds import check_length, least_possible, naming_enough, with_bound
from linoto.core.features.moments import Moments, rows_of
from linoto.core.kernels import State
from linoto.core.names import Names, check_index
from linoto.core.open_rounds import check_awaited
from linoto.core.parameters import params_for_rounds
from linoto.core.plain_python import is_only_looking, run_once
from linoto.core.playing import (
    GivenRounds,
    Rounds,
    as_metrics,
    ask_in_rounds,
    check_metrics,
)
from linoto.core.protocols import AnyAgent, Composition, PolicyWithPromise, RoundAgent
from linoto.core.rails import Rails, Values
from linoto.core.running import Running
from linoto.core.saving import lasting_rows, lasting_run
from linoto.core.tickets import Ticket, play_of
from linoto.core.validation import as_arm, as_floats
from linoto.core.warm_up import Sampling, warm_up_contexts, warm_up_proposals

# A decision, its round, the arm that it plays and the one that this is compared with; or -1, and with what
Made = tuple[Decision, Round, int, int, Floats | None]


class RoundArms(Driver[Round]):
    """The kernels of rounds that bring their own arms. A question is a round."""

    kind = "rounds bring their own arms"
    sources = SOURCES_IN_ROUNDS
    mixes_practice = True
    changes: tuple[ArmChange[str], ...]

    def __init__(
        self,
        *,
        composition: Composition,
        running: Running,
        moments: Moments,  # of the log
        features: Features | None = None,
        changes: tuple[ArmChange[str], ...] = (),  # of the items so far
        order: Order | None = None,  # of the features in the state, where it is not that of `features`
    ) -> None:
        super().__init__(composition, running, changes)
        self.moments, self.features, self.order = moments, features, order
        self.against = self.situation().against
        self.coin, self.shift = self.parts.coin, self.parts.shift
        self.calls = RoundCalls(self.coin, self.shift)
        self.needs_practice = int(running.params[0]["fallback"]) != kernels.LCB_ARM  # in every round
        self.places = item_changes.older_places(changes)
        running.held = beside(running.held, features, order)
        self.whitened: Floats = np.empty((self.d, 0))
        self.standing: tuple[Round, Decision] | None = None  # what was decided by a draw, until its commit
        self.stood_at: int | None = None  # how many rewards there were then, if this agent saw it
        self.asked: Round | None = None  # the latest question, whose arms are in the state
        self.brought: Round | None = None  # the round whose arms are in the state, whoever asked
        self.shown: tuple[Round, Decision] | None = None  # the decision just made, until its commit
        self.made: Made | None = None  # the latest decision
        self.known_vectors: tuple[Decision, Floats, Floats] | None = None  # those that were last asked for
        self.row, self.compared_row = np.zeros(self.d), np.zeros(self.d)  # scratch for its vectors
        if not is_only_looking():
            warm_up_contexts(self.coin, self.shift)
            self.warm_up_redraws()
            if self.tells_explorer:
                warm_up_proposals(self.shift)

    @classmethod
    def begin(
        cls,
        composition: Composition,
        moments: Moments,
        *,
        rng: np.random.Generator,
        coins: Coins,
        features: Features | None = None,
        params: npt.NDArray[Any] | None = None,
    ) -> RoundArms:
        """A fresh one that knows the log and nothing else."""
        params = params_for_rounds(composition, moments) if params is None else params
        order = order_of(composition, params, features)
        gram, vector, border = moments.gram, moments.reward_vector, 0
        if order is not None:
            gram, vector, border = order.inside(order.inside(gram).T), order.inside(vector), order.border
        state = kernels.allocate_rounds(params, gram, vector, border)
        know_log(state, moments)
        state.run["logged"], state.run["logged_rewards"] = moments.count, moments.reward_sum
        state.run["own_features"] = own_features(composition, features)
        if params[0]["estimates_noise"]:
            state.run["residuals"], state.run["residual_count"] = moments.residuals()
        rails = Rails.begin(
            composition.guardrails, composition.gate, composition.assumed, np.zeros(0, np.int64)
        )
        running = Running(params=params, held=state, rng=rng, coins=coins, rails=rails)
        driver = cls(
            composition=composition, running=running, moments=moments, features=features, order=order
        )
        begin_models_of_rounds(driver)
        log = moments.as_rows() if order is None else rows_of(gram, vector, moments.rounded, border)
        parts = driver.coin, driver.shift
        run_once(kernels.context_begin, params, running.held, *log, *parts, steps=moments.d**3)
        driver.draw()
        return driver

    def at_start(self) -> RoundArms:
        """What knew the log, with the features of now, and nothing else."""
        return begun(type(self), self.composition, self.moments, params=self.running.params.copy())

    def check_length(self) -> None:
        """Refuse a bound on |theta| that the log contradicts: a promise that needs it would be broken."""
        bound = self.confidence.bound
        if not self.running.by_model:
            return
        least = self.ellipsoid.least_length() if np.linalg.norm(self.theta) > bound else 0.0
        log = self.moments.gram, self.moments.reward_vector
        with naming_enough(self.check_longer):
            check_length(max(least, least_possible(*log, self.confidence)), bound)

    def check_longer(self, bound: float) -> None:
        """The same of another bound."""
        longer = with_bound(self.composition, bound)
        begun(type(self), longer, self.moments, features=self.features).check_length()

    # -- deciding

    def as_question(
        self,
        allowed: Any = None,
        actions: Any = None,
        practice: Any = None,
        names: Sequence[str] | None = None,
        context: Any = None,
    ) -> Round:
        if isinstance(actions, Checked):
            return self.still_asked(actions, allowed, practice, names, context)
        if context is not None or allowed is not None:
            if self.features is None:
                raise ValueError("actions must be given: this agent was started without features")
            if actions is not None:
                raise ValueError("actions must be None where a context or allowed is given, got both")
            if names is not None:
                raise ValueError("names must be None where a context or allowed is given, got both")
            if allowed is not None:
                check_listed("allowed must be names of items", allowed)
            items = item_changes.offered(self.features, allowed, self.removed) if self.changes else allowed
            names = list(items) if items is not None else getattr(self.features, "items", None) or None
            practice = practice(context, names) if callable(practice) else practice
            check_index("practice", practice, names, getattr(self.features, "item_places", None))
            few: Few | None = getattr(self.features, "few", None)
            if self.order is not None and few is not None:
                known = as_few(few(context, items), practice, names, self.order)
                if known is not None:
                    return self.as_complete(known)
            actions = self.features.transform(context, items)
        if actions is None:
            raise ValueError(
                "actions must be given, (k, d) features of this round's arms, got None"
                if self.features is None
                else "context must be given, from which this round's features are made, got None"
            )
        check_listed("names must be those of the arms", names)
        split = bool(self.running.state.run["split"].item(0))
        return self.as_complete(as_round(actions, practice, names, self.d, split=split, order=self.order))

    def checked(self, **question: Any) -> dict[str, Any]:
        return {"actions": Checked(self.question(**question), self, len(self.changes))}

    def still_asked(self, asked: Checked, *others: Any) -> Round:
        """A question that was checked before, by this agent and since its arms changed last."""
        if asked.by is not self or asked.changes != len(self.changes):
            raise ValueError("actions must be checked by this agent after its arms changed, got others")
        if any(other is not None for other in others):
            raise ValueError("actions that were checked must be given alone, got something beside them")
        return asked.round

    def as_complete(self, asked: Round) -> Round:
        """Refuse a round that does not say what the gate needs to know of practice."""
        if self.needs_practice and not asked.has_practice:
            kind = type(self.gate).__name__
            raise ValueError(f"practice must be given for a {kind} gate, got None: it is what is safe")
        if self.gate.throws_coin and asked.weights.size > asked.offered:
            raise ValueError("practice must be one of the arms or weights for a Control gate, got an action")
        return asked

    def as_arm(self, arm: Any, asked: Round, name: str = "arm") -> int:
        return as_arm(arm, asked.offered, name)

    def answer(self, wanted: int | None, asked: Round, safe: bool = False) -> Decision:
        running = self.running
        if safe and not running.stays_safe:
            coins.check_before_coin(safe, self.coin_is_thrown)
        if self.standing is not None:
            before, decision = self.standing
            if not before.same_as(asked) or wanted not in (None, decision.proposal):
                raise ValueError(
                    f"actions, practice and arm must be those for which {self.why_it_stands}, got others: "
                    "commit that decision first"
                )
            self.shown = self.standing
            running.tickets.offered.append(decision)
            return decision
        if running.rails is not None:
            running.rails.measure(running.state.run)
        decision = self.consider(asked, wanted)
        running.stays_safe |= safe and (self.gate.throws_coin or self.is_bound_by(asked))
        shows_draw = decision.source == "practice" and self.is_bound_by(asked)
        if running.stays_safe:
            running.state.run["coin_thrown"] = 0
        if shows_draw or (decision.control_share is not None and not running.stays_safe):
            self.standing, self.stood_at = (asked, decision), running.held.run["rewards"].item(0)
        self.shown = asked, decision
        running.tickets.offered.append(decision)
        return decision

    def consider(self, asked: Round, wanted: int | None) -> Decision:
        """What is decided about a question: it is the one whose arms are in the state from now on."""
        self.bring(asked)
        self.asked, self.accepted = asked, None
        if self.rule.states_chances:
            self.running.held.arms[kernels.CHANCE] = 0.0  # an arm that the caller wants is no draw
        self.run_kernel(asked, wanted if wanted is not None else self.propose(asked) if self.own else -1)
        return self.latest(asked)

    def bring(self, asked: Round) -> None:
        """Put the arms of a round into the state."""
        running, before = self.running, self.brought
        if before is not None and asked.lies_as(before) and asked.actions.flags.carray:
            running.held = State._make((asked.actions, *running.held[1:]))
        else:
            running.held = before_arms(running.held, asked.actions, asked.places)
        self.brought = asked
        if self.whitened.shape != asked.actions.shape:
            self.whitened = np.empty(asked.actions.shape)

    def run_kernel(self, asked: Round, proposal: int) -> None:
        running = self.running
        if running.rails is not None:
            self.ask_models(asked, proposal)
            if proposal < 0 and self.limits_proposals:
                proposal = self.proposed_among(asked)
        self.calls.decide(running.params, running.held, self.whitened, asked.weights, asked.offered, proposal)

    def proposed_among(self, asked: Round) -> int:
        """What the explorer proposes of the arms that guardrails accept."""
        accepted = self.acceptable(asked)
        if accepted.all():
            return -1
        if not self.gate.throws_coin and self.running.params[0]["reach"] == kernels.AFFORDABLE:
            known = self.running.params, self.running.state, self.whitened, asked.weights
            kernels.context_decide(*known, asked.offered, 0, self.coin, self.shift)
            able = accepted & self.affordable(asked)
            accepted = able if able.any() else accepted
        table = self.running.params, self.running.state, self.whitened, accepted.astype(np.int64)
        return int(kernels.context_propose(*table, asked.offered, self.shift))

    def compared(self, asked: Round) -> tuple[Floats, Floats]:
        return asked.columns[:, : asked.offered].T, asked.weights[: asked.offered]

    def latest(self, asked: Round) -> Decision:
        """The decision that the kernels made last."""
        coin = self.gate.throws_coin
        now = of_a_decision(self.running.held.run)
        _, _, _, _, arm, explored, _, _, fallback, _ = now
        compared, vector, fields = arm, None, asked.named(arm)
        asked.write(fields, "action", arm)
        if asked.peak > 0.0:  # a gate with a coin compares with what was drawn, the others with the mean
            compared = fallback if coin else asked.only_practice
            if compared < 0:
                vector = self.running.held.vectors[kernels.XBAR].copy()
                fields["_practice"] = entries_of, vector, self.order
            else:
                asked.write(fields, "practice", compared)
        if explored and not coin and asked.peak < 1.0:
            fallback = -1  # who knew the draw could let good ones disappear: it is shown when it is played
        fields["fallback"] = fallback if 0 <= fallback < asked.offered else None
        decision = self.decided(now, fields)
        self.made, self.known_vectors = (decision, asked, arm, compared, vector), None
        return decision

    def safe_play(self, decision: Decision, *, counted: bool) -> Decision:
        asked = self.question_of(decision)
        safe = replace(decision, mode="safe", **asked.play(int(self.running.run["fallback"])))
        safe = safe if counted else self.without_coin(safe)
        if self.coin_is_thrown or (safe.by_practice and self.is_bound_by(asked)):
            self.standing = asked, safe
            if self.stood_at is None:
                self.stood_at = self.running.held.run["rewards"].item(0)
        self.shown = asked, safe
        self.running.tickets.offered.append(safe)
        return safe

    def check_latest(self, decision: Decision) -> None:
        self.question_of(decision)

    @property
    def coin_is_thrown(self) -> bool:
        return self.standing is not None

    @property
    def why_it_stands(self) -> str:
        """What has decided the round until it is committed."""
        return "the coin of this round is thrown" if self.gate.throws_coin else "practice was drawn"

    def is_bound_by(self, asked: Round) -> bool:
        """Whether practice's draw, once it is shown, binds: who knew it could let good ones disappear.

        A gate that throws a coin compares with what was drawn, and a closed one leaves no choice.
        """
        return self.gate.measures and not self.gate.throws_coin and 0.0 < asked.peak < 1.0

    def question_of(self, decision: Decision) -> Round:
        """The question of the decision just made; refuses any other."""
        check_round(decision, self.running.rounds + 1)
        if self.shown is None:
            raise ValueError("decision must be the one just made, got one of another agent")
        asked, latest = self.shown
        if (decision.proposal, decision.practice) != (latest.proposal, latest.practice):
            raise ValueError("decision must be the one just made, got that of an earlier question")
        if self.asked is not asked:  # another question was only looked at, or the agent was restored
            run, chances = self.running.state.run, self.running.held.arms[kernels.CHANCE].copy()
            thrown, at = run["coin_thrown"].item(0), run["thrown_at"].item(0)
            run["coin_thrown"] = 0
            self.consider(asked, latest.proposal)
            run["coin_thrown"], run["thrown_at"] = thrown, at
            if self.standing is not None:  # by these it was drawn, whatever was learnt since
                self.running.held.arms[kernels.CHANCE, : chances.size] = chances
            if self.has_moved:  # the arms in the state are no longer as they were for the decision
                self.asked = None
        return asked

    def propose(self, asked: Round) -> int:
        """Ask an explorer of the caller's own: an arm, or -1 once its scores are in the state."""
        state = self.running.state
        kernels.measure_all(self.running.params, state, self.whitened, self.shift)
        return ask_own(self.explorer, self.view(asked), state.arms[kernels.GIVEN_SCORES, : asked.offered])

    def view(self, asked: Round) -> View:
        """What the explorer sees; an arm has no history of its own here."""
        rows, k = self.running.state.arms, asked.offered
        mean, width = (np.array(rows[row, :k]) for row in (kernels.MEAN, kernels.WIDTH))
        lower, upper = bounds_in_rounds(self.running.params, self.running.state)
        return self.seen(
            actions=np.ascontiguousarray(asked.columns[:, :k].T),
            mean=mean,
            width=width,
            lcb=lower[:k],
            ucb=upper[:k],
            counts=np.full(k, np.nan),
            reward_sums=np.full(k, np.nan),
            allowed=np.ones(k, np.bool_),
        )

    # -- how likely an arm is

    def peek(self, wanted: int | None, asked: Round) -> Decision:
        kept, shown, thrown = self.standing, self.shown, self.running.state.run["coin_thrown"].item(0)
        decision = self.answer(wanted, asked)
        if kept is not None and not self.gate.throws_coin:
            self.standing = None  # what stands is practice's draw, and nothing is kept of its round
            self.running.tickets.offered.pop()
            decision = self.answer(wanted, asked)
        self.running.tickets.offered.pop()
        self.standing, self.shown = kept, shown  # nobody was shown the coin, nor practice's draw
        if self.gate.throws_coin:
            self.running.state.run["coin_thrown"] = thrown
        return decision

    def offered(self, asked: Round) -> Bools:
        return np.ones(asked.offered, np.bool_)

    def affordable(self, asked: Round) -> Bools:
        return np.array(self.running.state.arms[kernels.ROOM, : asked.offered] > 0)

    def practice_chance(self, arm: int, asked: Round) -> float:
        return float(asked.weights[arm])

    def safe_chance(self, arm: int, asked: Round) -> float:
        run = self.running.run
        if run["fallback_source"] == kernels.FROM_LCB:
            return float(arm == run["fallback"])
        return self.practice_chance(arm, asked)

    def practice_is_drawn(self, asked: Round) -> bool:
        return asked.peak != 1.0

    @property
    def sampling(self) -> Sampling:
        """All ways to sample, as rounds are compiled with."""
        return self.shift, 1, 1

    def giving_way(self, arm: int, asked: Round) -> tuple[Bools, Bools, Floats] | None:
        params = self.running.params
        if not params[0]["gives_way"]:
            return None
        if not self.has_in_state(asked):  # restored since, or something else was asked
            self.bring(asked)
            kernels.measure_all(params, self.running.state, self.whitened, self.shift)
        givers, takers = np.zeros((2, asked.weights.size), np.int64)
        kernels.context_gains(params, self.running.state, arm, givers, takers)
        return givers > 0, takers > 0, asked.weights

    def redrawn(self, asked: Round, chosen: str, draws: Floats) -> list[int]:
        if not self.has_in_state(asked):
            self.bring(asked)
        return super().redrawn(asked, chosen, draws)

    @property
    def has_moved(self) -> bool:
        rewards = self.running.held.run["rewards"].item(0)
        drawn = self.standing is not None and not self.gate.throws_coin
        return super().has_moved or (drawn and self.stood_at not in (None, rewards))

    def has_in_state(self, asked: Round) -> bool:
        """Whether the arms that were looked at last are those of a question."""
        return self.asked is not None and asked.same_as(self.asked)

    def has_forgotten(self, asked: Round) -> bool:
        again = bool(self.running.params[0]["gives_way"]) and not self.has_in_state(asked)
        return super().has_forgotten(asked) or (again and self.has_moved)

    # -- learning

    def commit(self, decision: Decision) -> None:
        running, by_practice, ticket = self.running, self.enter(decision), None
        if running.keeps_tickets:
            play = 0 if running.tickets.trusts else play_of(decision)
            ticket = self.ticket_of(decision, by_practice, play)
        self.count(decision, by_practice)
        running.begin_waiting(ticket)

    def observe(self, decision: Decision, value: float) -> None:
        action, ticket = self.awaited(decision)
        self.enter_reward(decision, ticket)
        self.learn(action, value, 0.0)

    def lose(self, decision: Decision, value: float) -> None:
        action, ticket = self.awaited(decision)
        longest = self.confidence.bound * sqrt(sum(entry * entry for entry in decision.action or ()))
        low, high = self.confidence.reward_range or (-longest, longest)
        self.enter_reward(decision, ticket)
        self.learn(action, value, max(high - value, value - low))

    def update(self, decision: Decision, value: float, metrics: Values) -> None:
        running, by_practice, ticket = self.running, self.enter(decision), None
        if running.rails is not None:
            ticket = self.ticket_of(decision, by_practice, play_of(decision))
        self.calls.take(running.params, running.held, *self.rows_of(decision), by_practice, value)
        self.begin_round()
        self.tell_latest(decision, ticket, metrics)

    def rows_of(self, decision: Decision) -> tuple[Floats, Floats, int, int]:
        """The vectors of a decision, or scratch and the arms that they are, where those are in the state."""
        made = self.made
        if made is None or decision is not made[0] or made[1] is not self.brought:
            return *self.vectors_of(decision), -1, -1
        _, _, arm, compared, practice = made
        return self.row, self.compared_row if practice is None else practice, arm, compared

    def enter(self, decision: Decision) -> bool:
        """Put a decision that is played now on the desk: whether it is a play of practice, counted apart."""
        running = self.running
        check_round(decision, running.rounds + 1)
        if self.changes and decision.name in self.removed:
            raise ValueError(
                f"decision must be for an item that is present, got {decision.name!r}, which was removed: "
                "ask again"
            )
        if self.made is None or decision is not self.made[0]:
            self.vectors_of(decision)  # refuses what does not fit
        if running.stays_safe:
            coins.check_stays_safe(decision.mode == "safe" and decision.control_share is None)
        stands = decision if self.standing is None else self.standing[1]
        if decision is not stands and replace(decision, budget=stands.budget) != stands:
            raise ValueError(f"decision must be the one for which {self.why_it_stands}, got another")
        ours = running.tickets.is_latest(decision)
        if not ours:
            decision = running.tickets.as_offered(decision)
            ours = self.standing is not None or self.is_ours(decision)
        if self.gate.throws_coin:
            coins.enter_round(running.state.run, decision, asked=ours)
        return ours and decision.by_practice

    def count(self, decision: Decision, by_practice: bool) -> None:
        """Count what is on the desk as played."""
        running, (action, practice) = self.running, self.vectors_of(decision)
        self.calls.commit(running.params, running.held, action, practice, by_practice)
        self.begin_round()

    def begin_round(self) -> None:
        """What comes next is another round."""
        self.standing = self.shown = self.stood_at = None
        self.draw()

    def is_ours(self, decision: Decision) -> bool:
        """Whether a decision may be taken for what it says; else nobody was asked about what is played.

        Where nobody has asked in this round (it is told again, or the agent was restored) practice is what
        the decision says, and a coin that it claims must be that of the round.
        """
        running, tickets = self.running, self.running.tickets
        made = tickets.has_offered(decision)
        if made is False and decision.practice not in [other.practice for other in tickets.offered]:
            raise ValueError(
                f"decision must have the practice of what was asked in round {decision.round}, got another"
            )
        if made is not None:
            return made
        if decision.by_practice and decision.action != decision.practice:
            return False
        if decision.control_share is None:
            return True
        if running.rails is not None:
            running.rails.measure(running.state.run)
        known = running.rails is None or running.rails.centres == decision.centres
        return known and coins.agrees(running.params, running.state.run, decision)

    def awaited(self, decision: Decision) -> tuple[Floats, Ticket | None]:
        """The same, which is awaited no more."""
        owed = self.owed(decision)
        self.running.close(decision.round)
        return owed

    def owed(self, decision: Decision) -> tuple[Floats, Ticket | None]:
        """(d,) the action of a committed decision and, where the books know it, what it was.

        Refuses one that awaits no reward.
        """
        running = self.running
        check_decision(decision)
        if decision.round > running.rounds or running.rounds == running.rewards:
            raise ValueError(
                f"decision must be committed and await its reward, got one of round {decision.round} "
                f"after {running.rounds} rounds and {running.rewards} rewards"
            )
        action = self.vectors_of(decision)[0]
        check_awaited(running.open_rounds, decision.round)
        return action, running.tickets.of(decision)

    def check_owed(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self.owed(decision)
        waiting = self.running.rounds - self.running.rewards
        if len(decisions) > waiting:
            raise ValueError(f"decisions must be at most the {waiting} that await their reward")

    def enter_reward(self, decision: Decision, ticket: Ticket | None) -> None:
        """Say what a reward is in the books of a gate that throws a coin."""
        if self.gate.throws_coin and ticket is not None:
            coins.write(self.running.state.run, ticket.entry, ticket.share, ticket.centre, 0)
        elif self.gate.throws_coin:
            coins.enter_round(self.running.state.run, decision)

    def learn(self, action: Floats, value: float, error: float) -> None:
        """One reward of an action, or what stands in for it and how wrong that can be."""
        self.calls.observe(self.running.params, self.running.held, action, value, error)

    def vectors_of(self, decision: Decision) -> tuple[Floats, Floats]:
        """What a decision plays and what practice does, with the features of now."""
        if self.known_vectors is not None and decision is self.known_vectors[0]:
            return self.known_vectors[1:]
        if self.made is not None and decision is self.made[0]:
            _, asked, arm, compared, practice = self.made
            action = asked.action(arm)
            if practice is None:
                practice = action if arm == compared else asked.action(compared)
            self.known_vectors = decision, action, practice
            return action, practice
        vectors = item_changes.vectors_now(decision, self.places, self.d)
        if self.order is None:
            return vectors
        return self.order.inside(vectors[0]), self.order.inside(vectors[1])

    def measure(self, asked: Round) -> None:
        self.bring(asked)
        super().measure(asked)

    def enter_play(self, decision: Any, ticket: Ticket) -> None:
        running, vectors = self.running, self.vectors_of(decision)
        kernels.context_commit(running.params, running.state, *vectors, ticket.mixture, self.coin)

    def enter_value(self, decision: Any, ticket: Ticket, value: float, error: float) -> None:
        self.learn(self.vectors_of(decision)[0], value, error)

    @property
    def excess(self) -> Floats:
        return self.outside(super().excess)

    def action_of(self, decision: Any, ticket: Ticket) -> Floats:
        return self.outside(self.vectors_of(decision)[0])

    def outside(self, vector: Floats) -> Floats:
        """(d,) a vector of the state in the order of the features."""
        return vector if self.order is None else self.order.outside(vector)

    def play(self, agent: AnyAgent | RoundAgent, means: Floats, draws: Floats, **world: Any) -> Rounds:
        bernoulli, named = bool(world.pop("bernoulli", False)), world.pop("metrics", None)
        given = GivenRounds(means=means, **world)
        check_given(self, given, draws, bernoulli)
        metrics = as_metrics(named, self.composition.guardrails, means, draws.size)
        check_metrics(metrics, bernoulli)
        if self.is_asked(agent):
            return ask_in_rounds(cast(RoundAgent, agent), given.each(), draws, bernoulli, metrics)
        return play_compiled(self, given, draws, bernoulli, metrics)

    # -- items that come and go

    def add_arms(
        self,
        arms: Any,
        names: Sequence[str] | None,
        values: Sequence[Sequence[float]] | None,
        bound: float | None,
    ) -> tuple[int, ...]:
        if names is not None:
            raise ValueError("names must be None where arms are names of items, got some")
        before = self.changing_items()
        larger = before.with_items(arms, values)
        known = tuple(tuple(map(float, row)) for row in values or ())
        first, running = len(before.items), self.running
        change = ArmChange(round=running.rounds + 1, added=larger.items[first:], values=known)
        if larger.d > before.d:
            change = replace(
                change,
                places=tuple(before.places_in(larger).tolist()),
                features=larger.d - before.d,
                ridge=float(running.params[0]["ridge"]),
                bound=as_bound(bound, self.confidence, self.confidence.bound),
            )
            self.grow(change, larger)
        elif bound is not None:
            raise ValueError(f"bound must be None where no feature is new, got {bound!r}")
        self.features, self.changes = larger, (*self.changes, change)
        return tuple(range(first, len(larger.items)))

    def grow(self, change: ArmChange[str], larger: Items) -> None:
        """Go on with new features, which were 0 in everything so far."""
        d, running = len(change.places) + change.features, self.running
        composition = composition_after(self.composition, [change])
        moments = self.moments.with_features(change.places, d)
        params = params_for_rounds(composition, moments)  # refuses what cannot work
        if running.rails is not None:
            running.rails.grow(np.array(change.places), d)
        places, order = np.array(change.places), self.order
        if self.order is not None:
            order = Order.by_item(larger)
            places = self.order.after(order, places)
        border = 0 if order is None else order.border
        grown = item_changes.grown(running.state, places, change, params, border)
        running.state = beside(grown, larger, order)
        running.params, self.order = params, order
        self.moments, self.composition = moments, composition
        self.asked = self.brought = self.shown = self.made = self.known_vectors = None
        self.row, self.compared_row = np.zeros((2, self.d))
        self.places = item_changes.older_places((*self.changes, change))
        know_log(running.state, moments)
        kernels.context_widen(params, running.state, self.shift)
        if self.rule.draws == kernels.NORMAL_DRAWS:
            new = np.setdiff1d(np.arange(d), places)
            running.state.vectors[kernels.NORMALS, new] = running.rng.standard_normal(new.size)

    def remove_arms(self, arms: Any, fallback: int | None) -> None:
        if fallback is not None:
            raise ValueError(f"fallback must be None where rounds bring their own arms, got {fallback!r}")
        leaving = item_changes.as_removed(arms, self.changing_items(), self.removed)
        self.changes = (*self.changes, ArmChange(round=self.running.rounds + 1, removed=leaving))

    def changing_items(self) -> Items:
        """The features of items, where these may change now."""
        self.check_no_models()
        if self.coin_is_thrown:
            raise ValueError(
                "arms must stay until the decision is committed for which the coin of this round is thrown"
            )
        return item_changes.items_of(self.features)

    @property
    def removed(self) -> frozenset[str]:
        """The items that can not be played any more."""
        return item_changes.removed_by(self.changes)

    @property
    def change_texts(self) -> tuple[str, ...]:
        return tuple(item_changes.text_of(change, self.running.by_model) for change in self.changes)

    # -- looking

    @property
    def theta(self) -> Floats:
        self.follow()
        return self.outside(super().theta)

    def follow(self) -> None:
        """Let theta be that of all rewards: where V has a border, nothing else needs it."""
        if self.running.state.run["behind"].item(0):
            run_once(kernels.context_follow, self.running.state, steps=self.d)

    @property
    def ellipsoid(self) -> Ellipsoid:
        self.follow()
        found = super().ellipsoid
        if self.order is None:
            return found
        return replace(found, center=self.outside(found.center), V=self.order.outside_square(found.V))

    def interval(self, arm: Any) -> tuple[float, float]:
        vector = as_floats("x", arm, ndim=1)
        if vector.size != self.d:
            raise ValueError(f"x must have {self.d} entries, got {vector.size}")
        inside = vector if self.order is None else self.order.inside(vector)
        return interval_apart(self.running.params, self.running.state, inside, self.shift)

    def bounds(self, decision: Decision) -> tuple[float, float]:
        asked = self.question_of(decision)
        played: int | None = decision.arm
        column = asked.offered if played is None else played
        lower, upper = bounds_in_rounds(self.running.params, self.running.state)
        return float(lower[column]), float(upper[column])

    @property
    def names(self) -> Names | None:
        """The items of the recipe, where there is one."""
        return getattr(self.features, "items", None)

    def situation(self) -> RoundsSituation:
        return RoundsSituation.of(self.moments, **self.promising())

    def first_certificate(self, policy: PolicyWithPromise) -> Certificate:
        return self.certified()

    def amended(self, certificate: Certificate) -> Certificate:
        return replace(certificate, changes=self.change_texts)

    def saved(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        self.follow()
        state, moments, sums = self.running.state, self.moments, ("count", "reward_sum", "reward_squares")
        header: dict[str, Any] = {"agent": "contextual", **{name: getattr(moments, name) for name in sums}}
        arrays = {"run": lasting_run(state), "gram": moments.gram, "reward_vector": moments.reward_vector}
        if self.order is not None:
            blocks = state.vectors[[kernels.BLOCK_BEGIN, kernels.BLOCK_END]]
            arrays |= {"order": self.order.places, "blocks": blocks}
        if self.standing is not None:
            asked, decision = self.standing
            header |= {"thrown": decision.to_dict(), "offered": asked.offered, "names": asked.names}
            arrays |= {"actions": asked.columns, "weights": asked.weights}
            if self.rule.states_chances:
                arrays["chances"] = self.chances(asked)
        return header, arrays | lasting_rows(state, self.running.params)

    # -- what is drawn

    def draw_scores(self) -> None:
        self.running.state.vectors[kernels.NORMALS, 0] = self.running.rng.random()

    @property
    def scores_drawn(self) -> int:
        return 1
