"""A running policy whose rounds bring their own arms, with rewards that come late, out of order, or never."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import coins, kernels
from linoto.core.arrays import Floats, Records
from linoto.core.certificates import Certificate
from linoto.core.coins import Coins
from linoto.core.confidence import Ellipsoid
from linoto.core.contexts.certificates import certify_contextual
from linoto.core.contexts.growth import (
    ItemChange,
    add_items,
    offered_items,
    older_places,
    remove_items,
    removed_by,
    text_of,
)
from linoto.core.contexts.odds import propensity
from linoto.core.contexts.protocols import PolicyForContexts
from linoto.core.contexts.rounds import Features, Round, as_round
from linoto.core.contexts.saving import snapshot_of
from linoto.core.decisions import SOURCES_IN_ROUNDS as SOURCES
from linoto.core.decisions import Decision, check_reward, check_round
from linoto.core.explorers import View, ask_own, is_own, redraws_for, rule_of
from linoto.core.features.moments import Moments
from linoto.core.kernels import State
from linoto.core.open_rounds import OpenRounds, check_awaited
from linoto.core.protocols import Composition
from linoto.core.saving import SNAPSHOT_FORMAT
from linoto.core.validation import as_arm
from linoto.core.warm_up import warm_up_contexts


class ContextualAgent:
    """A linear policy at work in contexts. `policy.start_contextual(...)` makes one.

    >>> from linoto import Gated, Moments, Tolerance
    >>> log = Moments.from_rows([[1.0, 0.2], [1.0, 0.9], [1.0, 0.4]], [0.1, 0.8, 0.3])
    >>> agent = Gated(gate=Tolerance(budget=40, evidence="model")).start_contextual(log)
    >>> decision = agent.decide(actions=[[1.0, 0.1], [1.0, 0.7]], practice=0)
    >>> decision.arm, decision.mode
    (1, 'explore')
    >>> agent.update(decision, reward=0.6)
    """

    def __init__(
        self,
        *,
        policy: PolicyForContexts,
        composition: Composition,
        params: Records,  # (1,) of kernels.PARAMS
        state: State,  # without arms
        moments: Moments,  # of the log
        rng: np.random.Generator,
        coins: Coins,  # practice's draws, and those of a gate that throws a coin
        features: Features | None = None,
        changes: tuple[ItemChange, ...] = (),  # of the items so far
        open_rounds: OpenRounds | None = None,  # those that await their reward
        stays_safe: bool = False,  # in this round
    ) -> None:
        self.policy, self.moments, self.features = policy, moments, features
        self.changes, self._composition = changes, composition
        self.explorer, self.gate, self.confidence = (
            composition.explorer,
            composition.gate,
            composition.assumed,
        )
        self._fallback = str(composition.resolved_fallback())
        self.rule = rule_of(self.explorer)
        self._own = is_own(self.explorer)
        self._params, self._state = params, state
        self._coin = kernels.parts_of(params).coin
        self._rng, self._coins = rng, coins
        self._open = open_rounds or OpenRounds()
        self._stays_safe = stays_safe
        self._places = older_places(changes)
        self._whitened = np.empty((self.d, 0))
        self._needs_practice = int(params[0]["fallback"]) != kernels.LCB_ARM
        self._thrown: tuple[Round, Decision] | None = None  # while it stands until its commit
        self._asked: Round | None = None  # the latest question, whose arms are in the state

    @classmethod
    def begin(cls, *, params: Records, moments: Moments, **parts: Any) -> ContextualAgent:
        """A fresh agent that knows the log and nothing else."""
        coin = kernels.parts_of(params).coin
        warm_up_contexts(coin)
        state = kernels.allocate_rounds(moments.gram, moments.reward_vector, bool(params[0]["memory"]))
        state.run["logged"], state.run["logged_rewards"] = moments.count, moments.reward_sum
        if params[0]["estimates_noise"]:
            state.run["residuals"], state.run["residual_count"] = moments.residuals()
        kernels.context_begin(params, state, *moments.as_rows(), coin)
        agent = cls(params=params, state=state, moments=moments, **parts)
        agent._draw()
        return agent

    # -- deciding

    def decide(
        self,
        *,
        actions: npt.ArrayLike | None = None,
        practice: Any = None,
        names: Sequence[str] | None = None,
        context: Any = None,
        arms: Sequence[str] | None = None,
        safe: bool = False,
    ) -> Decision:
        """What to play now. `actions` (k, d) has one row of features for each arm of this round.

        Or, with a recipe of features, `context` says who is asking, and `arms` which arms may be played.
        `practice` is what would be done without this agent: an arm (its index or name), weights (k,) with
        which it is drawn, or the features (d,) of an action that is none of the arms. The same question gets
        the same answer until something is committed or observed.

        `safe`: this round plays what is safe, whatever the gate, or its coin, would say. That is what this
        returns then, and `play_safe` makes of it what is to be committed.
        """
        return self._answer(None, self._round(actions, practice, names, context, arms), safe)

    def guard(
        self,
        arm: int,
        *,
        actions: npt.ArrayLike | None = None,
        practice: Any = None,
        names: Sequence[str] | None = None,
        context: Any = None,
        arms: Sequence[str] | None = None,
        safe: bool = False,
    ) -> Decision:
        """Somebody else's proposal through the gate: that arm or the fallback, never another explored arm."""
        asked = self._round(actions, practice, names, context, arms)
        return self._answer(as_arm(arm, asked.offered), asked, safe)

    def play_safe(self, decision: Decision) -> Decision:
        """What is safe in place of the decision just made.

        A coin that is thrown is not given back: unless the round was asked for with `safe=True`, it stays in
        the books as the coin has said, and what this returns stands until it is committed.
        """
        asked, run = self._latest(decision), self._state.run[0]
        if decision.mode == "safe" and (decision.control_share is None or not self._stays_safe):
            return decision
        arm = int(run["fallback"])
        safe = replace(
            decision,
            arm=arm if arm < asked.offered else None,  # type: ignore[arg-type]
            name=asked.names[arm] if asked.names and arm < asked.offered else None,
            mode="safe",
            action=tuple(asked.actions[:, arm].tolist()),
        )
        if decision.control_share is None or self._stays_safe:
            source: Any = SOURCES[run["fallback_source"]]
            safe = replace(safe, source=source, control_share=None, centre=None)
        if not self._stays_safe and (self._thrown is not None or self._is_drawn(asked)):
            self._thrown = asked, safe
        return safe

    def bounds(self, decision: Decision) -> tuple[float, float]:
        """Bounds on the mean reward of what the decision just made plays: `interval` without its O(d^3)."""
        asked, run = self._latest(decision), self._state.run[0]
        played: int | None = decision.arm
        arm = asked.offered if played is None else played
        mean, width = (float(self._state.arms[row, arm]) for row in (kernels.MEAN, kernels.WIDTH))
        bonus = float(run["radius"] + run["doubt"]) * width
        return mean - bonus, mean + bonus

    def select(self, **question: Any) -> int | None:
        """The arm of `decide`, which takes the same arguments."""
        return self.decide(**question).arm

    def propensity(
        self,
        arm: int,
        *,
        proposal: int | None = None,
        redraws: int = 100,
        rng: int | np.random.Generator | None = None,
        **question: Any,
    ) -> float | None:
        """How likely `decide`, asked the same question, plays this arm now; None where nobody can say.

        With a `proposal` it is how likely `guard` plays it.

        It is over practice's draw, the coin, and the explorer's own draws: where there is no formula
        (Thompson), the share of `redraws` fresh draws by `rng` (None: the same ones until a commit) and of
        the draw that decides.
        """
        asked = self._round(**question)
        wanted = None if proposal is None else as_arm(proposal, asked.offered, "proposal")
        draws = redraws_for(rng, self._state)
        return propensity(self, as_arm(arm, asked.offered), asked, wanted, redraws, draws)

    def use_coins(self, source: Coins) -> None:
        """Other coins from now on: from the next round where that of this one is thrown, which stands."""
        self._coins = source
        if self._thrown is None:
            coins.draw_coins(self._state.run, source)

    @property
    def proven_room(self) -> float:
        """What a gate that throws a coin leaves to lose in any round to come, without what a loan adds."""
        return coins.proven_room(self._params, self._state.run)

    def use_draws(self, rng: np.random.Generator) -> None:
        """Another generator for what the explorer draws, from the next round on; while no coin is thrown."""
        self._rng = rng
        self._draw_for_explorer()

    # -- learning

    def await_rounds(self, rounds: Iterable[int]) -> None:
        """These rounds, from the oldest on, await their reward: for who knows it where a snapshot did not."""
        self._open = OpenRounds.awaiting(rounds)

    def commit(self, decision: Decision) -> None:
        """Count a decision as played. Its reward may come later through `observe`, once."""
        self._play(decision)
        self._open.open(self.rounds)

    def observe(self, decision: Decision, reward: float) -> None:
        """Learn from the reward of a decision that was committed earlier."""
        value = check_reward(self._params, reward)
        self._learn(decision, self._awaited(decision), value, 0.0)

    def lose(self, decision: Decision, stand_in: float) -> None:
        """The reward of a committed decision will never come: learn from a value that stands in for it.

        Every bound counts how wrong that value can be, and the books of a Control gate the worst reward.
        """
        value = check_reward(self._params, stand_in)
        low, high = self._limits(decision)
        self._learn(decision, self._awaited(decision), value, max(high - value, value - low))

    def drop_model(self) -> None:
        """Let the linear model pay for nothing any more: rewards have refuted it, or what rests on it.

        What a Tolerance gate does by itself where it counts rewards too; for who watches it from outside.
        """
        self._state.run["vetoed"], self._state.run["fresh"] = 1, 0

    def update(self, decision: Decision, reward: float) -> None:
        """Commit and observe at once."""
        value = check_reward(self._params, reward)
        self._learn(decision, self._play(decision), value, 0.0)

    # -- items that come and go

    def add_arms(
        self,
        names: Sequence[str],
        *,
        values: Sequence[Sequence[float]] | None = None,
        bound: float | None = None,
    ) -> None:
        """Items of the recipe that can be played from the next round on.

        `values` (j, w) are the numbers of the recipe's item columns. Where items have features of their own,
        each new one adds some: nothing is known of them, and `bound` is on |theta| with them (as before).
        """
        add_items(self, names, values, bound)

    def remove_arms(self, names: Sequence[str]) -> None:
        """Items that are not played again; what was played of them, and its rewards, still count."""
        remove_items(self, names)

    @property
    def removed(self) -> frozenset[str]:
        """The items that can not be played any more."""
        return removed_by(self.changes)

    # -- looking

    def check_reward(self, reward: float) -> None:
        """Refuse a reward that `observe` would refuse."""
        check_reward(self._params, reward)

    def interval(self, action: npt.ArrayLike) -> tuple[float, float]:
        """Bounds on the mean reward of an action (d,)."""
        ellipsoid = self.ellipsoid
        return ellipsoid.lower(action), ellipsoid.upper(action)

    @property
    def needs_practice(self) -> bool:
        """Whether every round must say what practice does."""
        return self._needs_practice

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self._state.vectors.shape[1])

    @property
    def rounds(self) -> int:
        """Decisions committed so far."""
        return int(self._read("rounds"))

    @property
    def rewards(self) -> int:
        """Rewards observed so far, and those that a value stands in for."""
        return int(self._read("rewards"))

    @property
    def pending(self) -> int:
        """Committed decisions that await their reward."""
        return self.rounds - self.rewards

    @property
    def theta(self) -> Floats:
        """(d,) the ridge estimate of the parameter."""
        return np.array(self._state.vectors[kernels.THETA])

    @property
    def ellipsoid(self) -> Ellipsoid:
        """The confidence set of the parameter."""
        run = self._state.run[0]
        radius = float(run["radius"] + run["doubt"])
        return Ellipsoid(center=self.theta, V=self._state.square[kernels.GRAM], radius=radius)

    @property
    def certificate(self) -> Certificate:
        """What was promised before the first round, against which practice, and how items changed since."""
        found = certify_contextual(self.gate, self._fallback, self.confidence, self.moments)
        return coins.with_seed(replace(found, changes=self.change_texts), self.gate, self._coins)

    @property
    def change_texts(self) -> tuple[str, ...]:
        """The changes of the items, for people."""
        return tuple(text_of(change, self._by_model) for change in self.changes)

    def at_start(self) -> ContextualAgent:
        """The agent that knows the log, with the features of now, and nothing else."""
        return type(self).begin(
            policy=self.policy,
            composition=self._composition,
            params=self._params.copy(),
            moments=self.moments,
            rng=np.random.default_rng(0),
            coins=coins.KeyedCoins(bytes(coins.KEY_BYTES)),  # it is looked at, and decides nothing
        )

    def snapshot(self) -> bytes:
        """Everything needed to continue, as bytes that `linoto.restore` reads: npz, never pickle.

        Features are not part of it: give them to `restore` again. Equal agents give equal bytes.
        """
        return snapshot_of(self, SNAPSHOT_FORMAT)

    def __repr__(self) -> str:
        return f"<contextual agent of {self.policy!r}: {self.rounds} rounds, {self.rewards} rewards>"

    # -- inside

    def _round(
        self,
        actions: Any = None,
        practice: Any = None,
        names: Any = None,
        context: Any = None,
        arms: Any = None,
    ) -> Round:
        """The question of this round, checked."""
        if context is not None or arms is not None:
            if self.features is None:
                raise ValueError("actions must be given: this agent was started without features")
            if actions is not None:
                raise ValueError("actions must be None where a context is given, got both")
            arms = offered_items(self, arms)
            actions = self.features.transform(context, arms)
            names = list(arms) if arms is not None else getattr(self.features, "items", None) or None
        if actions is None:
            raise ValueError("actions must be given, (k, d) features of this round's arms, got None")
        asked = as_round(actions, practice, names, self.d)
        if self._needs_practice and not asked.has_practice:
            kind = type(self.gate).__name__
            raise ValueError(f"practice must be given for a {kind} gate, got None: it is what is safe")
        if self.gate.throws_coin and asked.weights.size > asked.offered:
            raise ValueError("practice must be one of the arms or weights for a Control gate, got an action")
        return asked

    @property
    def _by_model(self) -> bool:
        """Whether something is promised that rests on the linear model."""
        p = self._params[0]
        return bool(p["by_model"] or p["vouched_by"] == kernels.THE_MODEL)

    def _vectors(self, decision: Decision) -> tuple[Floats, Floats]:
        """What a decision plays and what practice does, with the features of now."""
        places = self._places.get(len(decision.action or ()))
        if places is None:
            return decision.vectors(self.d)
        longer = np.zeros((2, self.d))
        longer[:, places] = decision.vectors(places.size)
        return longer[0], longer[1]

    def _latest(self, decision: Decision) -> Round:
        """The question of the decision just made; refuses any other."""
        check_round(decision, self.rounds + 1)
        if self._asked is None:
            raise ValueError("decision must be the one just made, got one of another agent")
        return self._asked

    def _answer(self, wanted: int | None, asked: Round, safe: bool = False) -> Decision:
        """Decide, or judge a proposal (None: the explorer's); a round whose coin is thrown is decided."""
        coins.check_before_coin(safe, self._thrown is not None)
        if self._thrown is not None:
            before, decision = self._thrown
            if not before.same_as(asked) or wanted not in (None, decision.proposal):
                raise ValueError(
                    f"actions, practice and arm must be those for which {self._why_it_stands}, got others: "
                    "commit that decision first"
                )
            return decision
        self._state, self._asked = kernels.with_arms(self._state, asked.actions), asked
        if self._whitened.shape != asked.actions.shape:
            self._whitened = np.empty(asked.actions.shape)
        proposal = wanted if wanted is not None else self._propose(asked) if self._own else -1
        self._ask(asked, proposal)
        decision = self._decision(asked)
        self._stays_safe |= safe and (self.gate.throws_coin or self._is_drawn(asked))
        if self._stays_safe:
            self._state.run["thrown"] = 0
        elif decision.control_share is not None or (decision.source == "practice" and self._is_drawn(asked)):
            self._thrown = asked, decision
        return decision

    @property
    def _why_it_stands(self) -> str:
        return "the coin of this round is thrown" if self.gate.throws_coin else "practice was drawn"

    def _is_drawn(self, asked: Round) -> bool:
        """Whether practice's draw, once it is shown, binds: who knew it could let good ones disappear.

        A gate that throws a coin compares with what was drawn, and a closed one leaves no choice.
        """
        return self.gate.measures and not self.gate.throws_coin and 0.0 < asked.peak < 1.0

    def _ask(self, asked: Round, proposal: int) -> None:
        """Let the kernels decide about the round whose arms are in the state."""
        table = self._params, self._state, self._whitened, asked.weights
        kernels.context_decide(*table, asked.offered, proposal, self._coin)

    def _decision(self, asked: Round) -> Decision:
        read = self._read
        arm, fallback, explored = read("arm"), read("fallback"), bool(read("explored"))
        played = arm < asked.offered
        practice: Floats | None = None
        if asked.has_practice:  # a gate with a coin compares with what was drawn, the others with the mean
            drawn = self.gate.throws_coin
            practice = asked.actions[:, fallback] if drawn else self._state.vectors[kernels.XBAR]
        if explored and not self.gate.throws_coin and asked.peak < 1.0:
            fallback = -1  # who knew the draw could let good ones disappear: it is shown when it is played
        thrown = self.gate.throws_coin and bool(read("thrown"))
        return Decision.of(
            arm=arm if played else None,
            name=asked.names[arm] if asked.names and played else None,
            mode="explore" if explored else "safe",
            source=SOURCES[read("source")],
            proposal=read("proposal"),
            fallback=fallback if 0 <= fallback < asked.offered else None,
            budget=read("room") if self.gate.measures else None,
            round=self.rounds + 1,
            action=tuple(asked.actions[:, arm].tolist()),
            practice=None if practice is None else tuple(practice.tolist()),
            control_share=read("entry_share") if thrown else None,
            centre=read("entry_centre") if thrown else None,
        )

    def _read(self, name: str) -> Any:
        """A number that the kernels keep; a third of the time of `run[0][name]`."""
        return self._state.run[name].item()

    def _play(self, decision: Decision) -> Floats:
        """Count a decision as played; (d,) its action."""
        check_round(decision, self.rounds + 1)
        if self.changes and decision.name in self.removed:
            raise ValueError(
                f"decision must be for an item that is present, got {decision.name!r}, which was removed: "
                "ask again"
            )
        action, practice = self._vectors(decision)
        if self._stays_safe:
            coins.check_stays_safe(decision.mode == "safe" and decision.control_share is None)
        if self._thrown is not None and decision != self._thrown[1]:
            raise ValueError(f"decision must be the one for which {self._why_it_stands}, got another")
        self._put_on_desk(decision)
        kernels.context_commit(self._params, self._state, action, practice, decision.by_practice, self._coin)
        self._thrown = None
        self._draw()
        return action

    def _awaited(self, decision: Decision) -> Floats:
        """(d,) the action of a committed decision; refuses one that awaits no reward."""
        if not isinstance(decision, Decision):
            raise ValueError(f"decision must be a Decision, got {type(decision).__name__}")
        if decision.round > self.rounds or self.pending == 0:
            raise ValueError(
                f"decision must be committed and await its reward, got one of round {decision.round} "
                f"after {self.rounds} rounds and {self.rewards} rewards"
            )
        action = self._vectors(decision)[0]
        check_awaited(self._open, decision.round)
        return action

    def _learn(self, decision: Decision, action: Floats, value: float, error: float) -> None:
        """One reward of a committed decision, or what stands in for it."""
        self._put_on_desk(decision)
        kernels.context_observe(self._params, self._state, action, value, error, self._coin)

    def _put_on_desk(self, decision: Decision) -> None:
        """What a play, or its reward, is in the books of a Control gate."""
        if self.gate.throws_coin:
            coins.enter_round(self._state.run, decision)

    def _limits(self, decision: Decision) -> tuple[float, float]:
        """Where the mean reward of what was played lies."""
        if self.confidence.reward_range is not None:
            return self.confidence.reward_range
        most = self.confidence.bound * sqrt(sum(entry * entry for entry in decision.action or ()))
        return -most, most

    def _propose(self, asked: Round) -> int:
        """Ask an explorer of the caller's own: an arm, or -1 once its scores are in the state."""
        kernels.measure_arms(self._state, self._whitened)
        return ask_own(
            self.explorer, self._view(asked), self._state.arms[kernels.GIVEN_SCORES, : asked.offered]
        )

    def _view(self, asked: Round) -> View:
        """What the explorer sees; an arm has no history of its own here."""
        run, k = self._state.run[0], asked.offered
        mean, width = (np.array(self._state.arms[row, :k]) for row in (kernels.MEAN, kernels.WIDTH))
        bonus = float(run["radius"] + run["doubt"]) * width
        seed = self._state.vectors[kernels.NORMALS].view(np.uint64)  # drawn at the last commit, and kept
        return View(
            actions=np.ascontiguousarray(asked.actions[:, :k].T),
            mean=mean,
            width=width,
            lcb=mean - bonus,
            ucb=mean + bonus,
            counts=np.full(k, np.nan),
            reward_sums=np.full(k, np.nan),
            allowed=np.ones(k, np.bool_),
            round=self.rounds + 1,
            noise=float(self._params[0]["noise"]),
            rng=np.random.default_rng(seed),
        )

    def _draw(self) -> None:
        """Fresh random numbers for the next round, so that deciding twice is deciding once."""
        self._stays_safe = False
        coins.draw_coins(self._state.run, self._coins)
        self._draw_for_explorer()

    def _draw_for_explorer(self) -> None:
        if self.rule.draws == kernels.NORMAL_DRAWS:
            self._rng.standard_normal(out=self._state.vectors[kernels.NORMALS])
        elif self.rule.draws == kernels.SCORE_DRAWS:
            self._state.vectors[kernels.NORMALS, 0] = self._rng.random()
