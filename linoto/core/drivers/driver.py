"""What an agent asks of a driver, and what both drivers share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from linoto.core import acceptable, kernels
from linoto.core.arrays import Bools, Floats, reader
from linoto.core.certificates import Certificate, Situation, certify
from linoto.core.coins import KEY_BYTES, Coins, KeyedCoins, draw_coins
from linoto.core.confidence import Confidence, Ellipsoid
from linoto.core.decisions import Decision
from linoto.core.explorers import View, is_users_own, rule_of
from linoto.core.kernels import State
from linoto.core.plain_python import only_looking
from linoto.core.playing import Rounds
from linoto.core.protocols import AnyAgent, Composition, PolicyWithPromise, RoundAgent
from linoto.core.rails import Values, promised_of, share_of, values_for
from linoto.core.running import Running
from linoto.core.tickets import Ticket
from linoto.core.warm_up import Kind, Sampling, warm_up_redraws

Q = TypeVar("Q")  # the question of a round, checked
D = TypeVar("D", bound="Driver[Any]")
of_a_decision = reader(  # in the order of the record, which is read in half the time
    kernels.RUN,
    *("rounds", "coin_thrown", "entry_share", "entry_centre"),
    *("arm", "explored", "source", "proposal", "fallback", "room"),
)
of_radius = reader(kernels.RUN, "radius", "lost_radius")
of_fallback = reader(kernels.RUN, "fallback_source")
of_an_entry = reader(kernels.RUN, "entry", "entry_share", "entry_centre")


class Brought(NamedTuple):
    """What a round brings with it, as `Agent.decide` describes it; nothing where arms stay the same."""

    actions: Any = None
    practice: Any = None
    names: Sequence[str] | None = None
    context: Any = None


def begun(kind: type[D], *known: Any, **parts: Any) -> D:
    """A driver that knows a log and decides nothing, whose coins nobody has to keep secret."""
    nothing: Any = {"rng": np.random.default_rng(0), "coins": KeyedCoins(bytes(KEY_BYTES))}
    with only_looking():
        begin: Any = kind.begin  # type: ignore[attr-defined]
        driver: D = begin(*known, **nothing, **parts)
    return driver


class Mark(NamedTuple):
    """Where a driver stood."""

    fields: dict[str, Any]
    running: Running


class Driver(ABC, Generic[Q]):
    """One way to measure the arms of a round by the kernels. Above it nobody knows which."""

    kind: ClassVar[str]  # where the arms of a round come from, in words
    sources: ClassVar[tuple[str, ...]]  # of a decision, in the order of the kernels' codes
    against: str  # what a promise is compared with

    def __init__(self, composition: Composition, running: Running, changes: tuple[Any, ...]) -> None:
        self.composition, self.running, self.changes = composition, running, changes
        self.parts = kernels.parts_of(running.params)
        self.explorer, self.gate = composition.explorer, composition.gate
        self.rule, self.own = rule_of(self.explorer), is_users_own(self.explorer)
        self.accepted: Bools | None = None  # what guardrails let the explorer propose in the latest decision

    @property
    def confidence(self) -> Confidence:
        """What is assumed of rewards, now."""
        return self.composition.assumed

    # -- deciding

    def question(self, allowed: Any = None, **brought: Any) -> Q:
        """What is asked in a round, or why that cannot be asked; `brought` has the names of `Brought`."""
        return self.as_question(allowed, *Brought(**brought)) if brought else self.as_question(allowed)

    def checked(self, **question: Any) -> dict[str, Any]:
        """A question that is asked several times, as it is asked: what can be checked beforehand is."""
        return question

    @abstractmethod
    def as_question(
        self,
        allowed: Any = None,
        actions: Any = None,
        practice: Any = None,
        names: Sequence[str] | None = None,
        context: Any = None,
        /,
    ) -> Q:
        """What is asked, checked; after `allowed` in the order of `Brought`."""

    @abstractmethod
    def as_arm(self, arm: Any, asked: Q, name: str = "arm") -> int:
        """An arm of the round that may be played."""

    def select(self) -> int:
        """The arm of the round where nothing has to be said about it."""
        return self.answer(None, self.question()).arm

    @abstractmethod
    def answer(self, wanted: int | None, asked: Q, safe: bool = False) -> Decision:
        """Decide, or judge a proposal (None: the explorer's)."""

    def may_refuse(self, asked: Q) -> bool:
        """Whether a question that was checked may still have no answer: an explorer of one's own may fail."""
        return self.own

    @abstractmethod
    def run_kernel(self, asked: Q, proposal: int) -> None:
        """Let the kernels decide about the arms in the state; a proposal of -1 is left to the explorer."""

    def decided(self, now: tuple[Any, ...], fields: dict[str, Any]) -> Decision:
        """The decision that the kernels made last, `now`; `fields` are what only one kind of round knows.

        It becomes their owner: every field is written once.
        """
        rounds, coin_thrown, share, centre, _, explored, source, proposal, _, room = now
        thrown = coin_thrown and self.gate.throws_coin
        if thrown and self.running.rails is not None:
            fields["centres"] = self.running.rails.centres
        fields["mode"] = "explore" if explored else "safe"
        fields["source"] = self.sources[source]
        fields["proposal"] = proposal
        fields["budget"] = room if self.gate.measures else None
        fields["round"] = rounds + 1
        fields["control_share"] = share if thrown else None
        fields["centre"] = centre if thrown else None
        return Decision.of(fields)

    def seen(self, **arms: Any) -> View:
        """What an explorer of the caller's own sees: these arms, and what is the same for all of them."""
        return View(
            round=self.running.rounds + 1,
            noise=float(self.running.params[0]["noise"]),
            rng=self.view_draws(),
            **arms,
        )

    def play_safe(self, decision: Decision) -> Decision:
        """What is to be committed where the latest decision is not to be played."""
        self.check_latest(decision)
        counted = decision.control_share is not None and not self.running.stays_safe
        if decision.mode == "safe" and (counted or decision.control_share is None):
            return decision
        return self.safe_play(decision, counted=counted)

    @abstractmethod
    def safe_play(self, decision: Decision, *, counted: bool) -> Decision:
        """What is safe in place of the latest decision; `counted`: its coin stays in the books."""

    @abstractmethod
    def check_latest(self, decision: Decision) -> None:
        """Refuse any decision but the one just made."""

    def without_coin(self, decision: Decision) -> Decision:
        """A safe decision as one of a round in which no coin was thrown."""
        return replace(decision, source=self.fallback_source, control_share=None, centre=None, centres=None)

    @property
    @abstractmethod
    def coin_is_thrown(self) -> bool:
        """Whether this round is decided until it is committed."""

    @property
    def fallback_source(self) -> Any:
        """Where the fallback of the latest decision comes from."""
        return self.sources[of_fallback(self.running.held.run)[0]]

    # -- what guardrails make of the arms

    @property
    def tells_explorer(self) -> bool:
        """Whether a built-in explorer proposes only what guardrails may accept."""
        rails = self.running.rails
        return rails is not None and not self.own and self.d <= acceptable.MOST_FEATURES

    @property
    def asks_models(self) -> bool:
        """Whether a model of a guardrail says which arms can be afforded."""
        return self.running.rails is not None and self.running.rails.models is not None

    def is_asked(self, agent: object) -> bool:
        """Whether an agent of this driver is asked round by round in a known world: if it is somebody
        else's, or if what decides is not compiled."""
        return self.own or self.asks_models or not hasattr(agent, "driver")

    @property
    def limits_proposals(self) -> bool:
        """Whether guardrails leave some arms out before anything is proposed."""
        return self.running.rails is not None and (self.tells_explorer or self.asks_models)

    def acceptable(self, asked: Q) -> Bools:
        """(k,) the arms that may be proposed: the same as long as a decision stands."""
        rails = self.running.rails
        if rails is None or not self.limits_proposals:
            return self.offered(asked)
        if self.accepted is None:
            (actions, weights), paid = self.compared(asked), self.offered(asked)
            if (by_models := rails.affordable(asked)) is not None:
                paid = paid & by_models
            found = paid & rails.accepted(actions, weights) if self.tells_explorer else paid
            some = (arms for arms in (found, paid & (weights > 0), paid) if arms.any())
            self.accepted = next(some, self.offered(asked))
        return self.accepted

    def ask_models(self, asked: Q, proposal: int) -> None:
        """Close the round where the model of a guardrail cannot afford the proposal; without one, any arm."""
        rails, run = self.running.rails, self.running.held.run
        if rails is None or not self.asks_models:
            return
        rails.measure(run)  # as the books of the others say, whatever was asked about before
        paid = rails.affordable(asked)
        if paid is not None:
            paid = paid & self.offered(asked)
            if not (paid[proposal] if proposal >= 0 else paid.any()):
                run["rails_share"] = 1.0

    # -- what a driver does for a metric that a model pays for

    def measure(self, asked: Q) -> None:
        """The room of every arm of a round."""
        self.run_kernel(asked, 0)

    @abstractmethod
    def enter_play(self, decision: Any, ticket: Ticket) -> None:
        """Count a play of somebody else's, whatever was decided here."""

    @abstractmethod
    def enter_value(self, decision: Any, ticket: Ticket, value: float, error: float) -> None:
        """A value of such a play, or what stands in for it and how wrong that can be."""

    @property
    def excess(self) -> Floats:
        """(d,) the sum of all explored actions, less that of what they are compared with."""
        return np.array(self.running.held.vectors[kernels.EXCESS])

    def check_no_models(self) -> None:
        """Refuse other arms where a bound on the parameter of a metric is about those of the start."""
        if self.asks_models:
            raise ValueError(
                "arms must stay where the model pays for a guardrail, got a change: its bound is about the "
                "arms of the start (guardrails without a bound, or a Control gate, know such changes)"
            )

    @abstractmethod
    def compared(self, asked: Q) -> tuple[Floats, Floats]:
        """(k, d) the arms of a round, and (k,) the weights of practice among them."""

    # -- how likely an arm is

    mixes_practice: ClassVar[bool] = False  # whether what is safe is drawn when it is played

    @abstractmethod
    def peek(self, wanted: int | None, asked: Q) -> Decision:
        """The answer, where nobody is shown the coin."""

    @abstractmethod
    def offered(self, asked: Q) -> Bools:
        """(k,) the arms that may be played."""

    def arms_in(self, asked: Q) -> int:
        """How many arms a round has."""
        return self.offered(asked).size

    @abstractmethod
    def affordable(self, asked: Q) -> Bools:
        """(k,) those of them that the gate would accept, after a decision."""

    def chances(self, asked: Q) -> Floats:
        """(k,) of each arm to be proposed, after a decision, by an explorer that states them."""
        return np.array(self.running.state.arms[kernels.CHANCE, : self.offered(asked).size])

    @abstractmethod
    def practice_chance(self, arm: int, asked: Q) -> float:
        """How likely practice's draw is this arm."""

    @abstractmethod
    def safe_chance(self, arm: int, asked: Q) -> float:
        """How likely this arm is played where nothing can be afforded."""

    @abstractmethod
    def practice_is_drawn(self, asked: Q) -> bool:
        """Whether practice is a draw among several arms."""

    def giving_way(self, arm: int, asked: Q) -> tuple[Bools, Bools, Floats] | None:
        """(k,) which arms give way to this one, as practice's, and to which it does; practice's weights.

        None where none does in any round.
        """
        return None

    @property
    def has_moved(self) -> bool:
        """Whether something was learnt since the coin of this round was thrown."""
        run = self.running.held.run
        return bool(run["coin_thrown"].item(0) and run["rewards"].item(0) != run["thrown_at"].item(0))

    def has_forgotten(self, asked: Q) -> bool:
        """Whether only estimates that have moved could say what else this round might have become."""
        return self.has_moved and self.rule.needs_redraws

    def redrawn(self, asked: Q, chosen: str, draws: Floats) -> list[int]:
        """What each of these draws would have `chosen`; the state is as it was afterwards."""
        state, normals = self.running.state, self.running.held.vectors[kernels.NORMALS]
        run = state.run.view(np.uint8)  # to copy its fields one by one takes 10 times as long
        before, drawn = run.copy(), normals.copy()
        arms = np.empty(len(draws), np.int64)
        told = self.limits_proposals and not self.acceptable(asked).all()
        for place, row in enumerate(draws if told else draws[:1]):
            normals[:], state.run["coin_thrown"] = row, 0
            self.run_kernel(asked, -1)
            arms[place] = state.run[chosen].item(0)
        if not told and len(draws) > 1:  # once the round is decided, all others take one call
            others = draws[1:], self.arms_in(asked), chosen == "arm", arms[1:]
            kernels.redraw(self.running.params, state, *others, *self.sampling)
        run[:], normals[:] = before, drawn
        found: list[int] = arms.tolist()
        return found

    @property
    def sampling(self) -> Sampling:
        """The parts that a draw depends on."""
        return self.parts.shift, self.parts.draws, self.parts.extras

    def warm_up_redraws(self) -> None:
        """Load (or compile) what propensities need."""
        if self.rule.needs_redraws:
            warm_up_redraws(self.sampling, Kind.of(self.running.held))

    def vouched_propensity(self, arm: int, proposal: int, asked: Q) -> float | None:
        """How likely this arm is where the share of control rounds depends on practice's draw."""
        return None

    # -- learning

    @abstractmethod
    def commit(self, decision: Any) -> None:
        """Count a decision as played."""

    @abstractmethod
    def observe(self, decision: Any, value: float) -> None:
        """Learn from the reward of a decision that awaits it."""

    def ticket_of(self, decision: Any, mixture: bool, play: int) -> Ticket:
        """The play on the desk, before it is counted."""
        running, coin = self.running, (kernels.NO_ENTRY, 0.0, 0.0)
        if self.gate.throws_coin:
            coin = of_an_entry(running.held.run)
        ticket = Ticket(play, *coin, mixture)
        if running.rails is None:
            return ticket
        return running.rails.commit(running.held.run, decision, ticket)

    def tell_latest(self, decision: Any, ticket: Ticket | None, values: Values) -> None:
        """Values of guardrails of the play that was just committed with its reward."""
        if ticket is not None:
            self.running.tickets.keep(self.running.rounds, ticket)
            self.tell(self.running.rounds, decision, ticket, values)

    def tell(self, round: int, decision: Any, ticket: Ticket, values: Values) -> None:
        """Values of guardrails of a committed play."""
        self.running.tell(round, ticket, values)
        if self.running.rails is not None and self.running.rails.models is not None:
            self.running.rails.models.learn(decision, ticket, values)
        if self.tells_explorer and self.running.rails is not None:
            self.running.rails.learn(self.action_of(decision, ticket), values)

    @abstractmethod
    def action_of(self, decision: Any, ticket: Ticket) -> Floats:
        """(d,) the features of what was played, in the order of everybody else."""

    def check_metrics(self, decision: Any, values: Values) -> Ticket | None:
        """The play that awaits values of guardrails, before anything is counted; None: there are none."""
        if self.running.rails is None or not values:
            return None
        return self.running.rails.check(decision, values, self.running.tickets)

    def observe_metrics(self, decision: Any, values: Values, ticket: Ticket | None) -> None:
        """Values of guardrails that were checked."""
        if ticket is not None and values:
            self.tell(decision.round, decision, ticket, values)
            self.running.forget_decision()

    def lose_metrics(self, decision: Decision) -> None:
        """What has not come of the guardrails of a round never will."""
        rails = self.running.rails
        if rails is None:
            return
        ticket = rails.check_lost(decision, self.running.tickets)
        if rails.models is not None and ticket is not None:
            missing = [place for place, open in enumerate(rails.open_rounds) if open.awaits(decision.round)]
            rails.models.lose(decision, ticket, missing)
            self.running.forget_decision()
        rails.lose(decision.round)
        self.running.settle(decision.round)

    @abstractmethod
    def check_owed(self, decisions: Sequence[Decision]) -> None:
        """Refuse where one of these, each of another round, awaits no reward; nothing changes."""

    def values_of(self, metrics: Mapping[str, Any] | None) -> Values:
        """Values by the name of their metric, checked."""
        return values_for(self.running.rails, metrics)

    @abstractmethod
    def lose(self, decision: Any, value: float) -> None:
        """Learn from a value that stands in for a reward which never comes."""

    @abstractmethod
    def update(self, decision: Any, value: float, metrics: Values) -> None:
        """Commit and observe at once."""

    @abstractmethod
    def play(self, agent: AnyAgent | RoundAgent, means: Floats, draws: Floats, **world: Any) -> Rounds:
        """What its agent plays in a known world: compiled, unless the explorer is the caller's own."""

    def look_at_every_arm(self) -> None:
        """Measure all arms in every round, as rounds that bring their own do anyway."""
        return

    # -- arms that come and go

    @abstractmethod
    def add_arms(
        self,
        arms: Any,
        names: Sequence[str] | None,
        values: Sequence[Sequence[float]] | None,
        bound: float | None,
    ) -> tuple[int, ...]:
        """New arms, from the next round on: their indices."""

    @abstractmethod
    def remove_arms(self, arms: Any, fallback: int | None) -> None:
        """Arms that are not played again."""

    @property
    @abstractmethod
    def change_texts(self) -> tuple[str, ...]:
        """The changes of the arms, for people."""

    # -- looking

    @abstractmethod
    def interval(self, arm: Any) -> tuple[float, float]:
        """Bounds on the mean reward of an arm, or of an action."""

    @abstractmethod
    def bounds(self, decision: Decision) -> tuple[float, float]:
        """Bounds on the mean reward of what a decision plays."""

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.running.held.vectors.shape[1])

    @property
    def radius(self) -> float:
        """Of the confidence set, lost rewards included."""
        return float(sum(of_radius(self.running.held.run)))

    @property
    def theta(self) -> Floats:
        """(d,) the ridge estimate of the parameter."""
        return np.array(self.running.estimate.vectors[kernels.THETA])

    @property
    def ellipsoid(self) -> Ellipsoid:
        """The confidence set C_t of eq. (2), as much larger as the log may have moved."""
        state = self.running.estimate
        moved = self.confidence.shift * float(np.sqrt(self.running.run["logged"]))
        return Ellipsoid(
            center=np.array(state.vectors[kernels.THETA]),
            V=kernels.square_of(state, kernels.GRAM),
            radius=self.radius + moved,
        )

    def certified(self) -> Certificate:
        """What is guaranteed, before the first round."""
        found, rails = certify(self.situation()), self.running.rails
        if not rails:
            return found
        return replace(found, delta=self.confidence.delta, **promised_of(rails, self.gate))

    @abstractmethod
    def situation(self) -> Situation:
        """What the promise is about now."""

    def promising(self) -> dict[str, Any]:
        """What every situation knows, whatever the rounds are."""
        return {
            "gate": self.gate,
            "fallback": self.composition.resolved_fallback(),
            "confidence": share_of(self.confidence, self.composition.guardrails),
            "params": self.running.params,
            "run": self.running.held.run,
        }

    @abstractmethod
    def first_certificate(self, policy: PolicyWithPromise) -> Certificate:
        """What was guaranteed before the first round, in any later one."""

    @abstractmethod
    def amended(self, certificate: Certificate) -> Certificate:
        """A certificate from before the first round with what changes of the arms did to it since."""

    def kept(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a checkpoint holds of it: all that a snapshot does, but for what is known where it lies."""
        return self.saved()

    @abstractmethod
    def saved(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a snapshot holds of it, as JSON data and as arrays."""

    # -- rounds that are undone

    def marked(self) -> Mark:
        """Where it stands, to come back to; what rounds replace is kept, what they write into is copied."""
        return Mark(
            {name: value for name, value in vars(self).items() if name != "running"}, self.running.copied()
        )

    def go_back(self, mark: Mark) -> None:
        """Undo the rounds since, in which no coin was thrown."""
        vars(self).update(mark.fields)
        self.running.become(mark.running)

    # -- what is drawn

    def draw(self) -> None:
        """Fresh random numbers for the next round, so that deciding twice is deciding once."""
        running = self.running
        running.stays_safe = False
        running.tickets.offered.clear()
        if running.coins is not None:
            draw_coins(running.held.run, running.coins)
        if self.rule.draws != kernels.NO_DRAWS:
            self.draw_for_explorer()

    def draw_for_explorer(self) -> None:
        """What the explorer needs for the next round."""
        if self.rule.draws == kernels.NORMAL_DRAWS:
            self.running.rng.standard_normal(out=self.running.held.vectors[kernels.NORMALS])
        elif self.rule.draws == kernels.SCORE_DRAWS:
            self.draw_scores()
        elif self.rule.draws == kernels.ONE_DRAW:
            self.running.held.vectors[kernels.NORMALS, 0] = self.running.rng.standard_normal()

    def view_draws(self) -> np.random.Generator:
        """What an explorer of the caller's own draws from: drawn at the last commit, and kept."""
        return np.random.default_rng(self.running.held.vectors[kernels.NORMALS].view(np.uint64))

    @abstractmethod
    def draw_scores(self) -> None:
        """The scores of an explorer to which every arm is alike."""

    def random_rows(self, rounds: int) -> Floats:
        """(rounds, d or k or 1 or 0): what the explorer would draw in as many rounds."""
        if self.rule.draws == kernels.NORMAL_DRAWS:
            return self.running.rng.standard_normal((rounds, self.running.held.vectors.shape[1]))
        if self.rule.draws == kernels.SCORE_DRAWS:
            return self.running.rng.random((rounds, self.scores_drawn))
        if self.rule.draws == kernels.ONE_DRAW:
            return self.running.rng.standard_normal((rounds, 1))
        return np.empty((rounds, 0))

    @property
    @abstractmethod
    def scores_drawn(self) -> int:
        """How many numbers `draw_scores` draws."""

    def coin_rows(self, rounds: int) -> Floats:
        """(rounds, 2 or 0): practice's draws and coins of as many rounds after the next one."""
        coins = self.running.coins
        return np.empty((rounds, 0)) if coins is None else coins.rows(self.running.rounds + 2, rounds)

    def use_coins(self, source: Coins) -> None:
        """Other coins from now on, where there are any."""
        if self.running.coins is None:
            return
        self.running.coins = source
        if not self.coin_is_thrown:
            self.running.draw_coins()
            self.running.forget_decision()


def bounds_of(state: State) -> tuple[Floats, Floats]:
    """(k,) each: bounds on what arms earn, lost rewards included; the closer if the log may have moved."""
    run, rows = state.run[0], state.arms
    margin = float(run["radius"] + run["lost_radius"]) * rows[kernels.WIDTH]
    lower = rows[kernels.MEAN] - margin - kernels.lifts(state)
    upper = rows[kernels.MEAN] + margin + kernels.lifts(state)
    if not kernels.is_shifted(state):
        return lower, upper
    least, most = bounds_of(kernels.online_part(state))
    return np.maximum(lower, least), np.minimum(upper, most)
