"""A running policy: one decision at a time, with rewards that may come late, out of order, or never."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import coins, many, odds, saving
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.certificates import Certificate
from linoto.core.coins import Coins
from linoto.core.confidence import Confidence, Ellipsoid
from linoto.core.decisions import Decision, check_reward
from linoto.core.drivers.driver import Driver
from linoto.core.drivers.questions import Features
from linoto.core.explorers import Rule
from linoto.core.features.moments import Moments
from linoto.core.gates import Gate
from linoto.core.item_changes import check_may_grow
from linoto.core.names import Names
from linoto.core.offline import Offline
from linoto.core.open_rounds import OpenRounds
from linoto.core.playing import Rounds
from linoto.core.protocols import PolicyWithPromise
from linoto.core.surprises import Surprises
from linoto.core.validation import as_arm, check_whole


class Agent:
    """A linear policy at work. `policy.start(...)` makes one: see `linoto.LinOtO` for an example.

    Its arms stay the same, or every round brings its own:

    >>> from linoto import Gated, LinUCB, Moments, Tolerance
    >>> log = Moments.from_rows([[1.0, 0.2], [1.0, 0.9], [1.0, 0.4]], [0.1, 0.8, 0.3])
    >>> agent = Gated(explorer=LinUCB(), gate=Tolerance(budget=40, evidence="model")).start(log)
    >>> decision = agent.decide(actions=[[1.0, 0.1], [1.0, 0.7]], practice=0)
    >>> decision.arm, decision.mode
    (1, 'explore')
    >>> agent.update(decision, reward=0.6)

    One thread at a time decides, commits and learns; others may read meanwhile. Threads that share an agent
    hold one lock from `decide` to `commit`, and in `observe`.
    """

    # -- what its driver knows; some of it only where arms stay the same, or only where rounds bring them

    explorer: Any
    gate: Gate
    confidence: Confidence
    rule: Rule
    against: str  # what a promise is compared with
    ellipsoid: Ellipsoid  # the confidence set of the parameter, C_t of eq. (2)
    names: Names | None  # of the arms, or of the recipe's items
    changes: tuple[Any, ...]  # of the arms so far
    change_texts: tuple[str, ...]  # the same for people

    k: int  # arms that stay the same: how many
    actions: Floats  # (k, d) the arms
    present: Bools  # (k,) those that can be played: all but those that were removed
    means: Floats  # (k,) the estimate of each mean reward
    mean: Callable[[int], float]  # that of one arm
    lcb: Floats  # (k,) the best lower bound on each mean reward so far, lcb_t of eq. (3)
    ucb: Floats  # (k,) the current upper bound on each mean reward, ucb_t of eq. (3)
    estimates: Callable[[Ints], Floats]  # (3, n) of some arms: means, and both ends of their intervals of now
    own_rewards: Callable[[Ints], Floats | None]  # (3, n) of some arms: counts, sums, what may be lost
    baseline: float  # r_b of eq. (4): the reward per round a Budget gate defends; -inf without a log
    budget: float | None  # the room that the gate sees now, as in the next decision; None: it measures none
    pending: Ints  # (k,) committed plays that await their reward
    mixture_plays: Ints  # (k,) plays of the logging mixture so far; since practice last lost an arm
    counts_control: bool  # whether a control play of the mixture is to be committed, like the gate's own
    offline: Offline  # the log
    next_mixture_arm: Callable[..., int]  # the logged arm that is furthest behind its share of the mixture

    moments: Moments  # rounds that bring their arms: the log
    features: Features | None  # what makes arms from a context
    needs_practice: bool  # whether every round must say what practice does
    removed: frozenset[str]  # the items that can not be played any more
    at_start: Callable[[], Driver[Any]]  # what knew the log, with the features of now, and nothing else

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in OF_THE_DRIVER:
                raise AttributeError(f"an Agent has no attribute {name!r}")
            try:
                return getattr(self.driver, name)
            except AttributeError as error:
                raise AttributeError(
                    f"an Agent whose {self.driver.kind} has no attribute {name!r}"
                ) from error

    @property
    def fallback_source(self) -> Literal["lcb", "mixture", "practice", "fixed"]:
        """Where the fallback of the latest decision comes from."""
        source: Literal["lcb", "mixture", "practice", "fixed"] = self.driver.fallback_source
        return source

    def __init__(self, policy: PolicyWithPromise, driver: Driver[Any]) -> None:
        self.policy, self.driver = policy, driver
        self.running = driver.running
        self.explorer, self.gate, self.rule = driver.explorer, driver.gate, driver.rule  # they stay the same
        self.surprises = Surprises(policy, driver)

    # -- deciding

    def select(self, allowed: npt.ArrayLike | None = None, **question: Any) -> int:
        """The arm of `decide`: the same one until something is committed or observed."""
        if allowed is None and not question:
            return self.driver.select()
        return self.decide(allowed, **question).arm

    def decide(
        self,
        allowed: npt.ArrayLike | Sequence[str] | None = None,
        *,
        actions: npt.ArrayLike | None = None,
        practice: Any = None,
        names: Sequence[str] | None = None,
        context: Any = None,
        safe: bool = False,
    ) -> Decision:
        """What to play now, with the reasons. The same question gets the same answer until a commit.

        `allowed` restricts this round to some arms: indices or a mask; the names of items where a recipe
        makes the arms. Where rounds bring their own arms, `actions` (k, d) has one row of features for each,
        with `names` or without; or, with a recipe of features, `context` says who is asking. `practice` is
        what would be done without this agent: an arm (its index or name), weights with which it is drawn,
        (k,) or by name, the features (d,) of an action that is none of the arms, or with a `context` a
        function of it and the names of the arms that returns one of these, as `learn_policy` makes one.

        `safe`: this round plays what is safe, whatever the gate, or its coin, would say. That is what this
        returns then, and `play_safe` makes of it what is to be committed.
        """
        if actions is practice is names is context is None:  # arms that stay the same: in a fifth of the time
            return self.driver.answer(None, self.driver.question(allowed), safe)
        asked = self.driver.as_question(allowed, actions, practice, names, context)
        return self.driver.answer(None, asked, safe)

    def decide_many(
        self,
        questions: int | Iterable[Mapping[str, Any]],
        *,
        look: Callable[[Decision], object] | None = None,
        **same: Any,
    ) -> list[Decision]:
        """Decide and commit many rounds at once: what as many calls of `decide` and `commit` would.

        `questions` are how many, or what each is asked with: the arguments of `decide`; `same` are those of
        all of them. With `safe` a round plays what is safe. The gate charges each as it goes, and counts
        every reward that is still to come at its worst, so a batch spends no more than the gate allows,
        whatever comes back: in any order, late, or never. A question that cannot be asked is refused before
        anything is decided. If one has no safe arm, or `look` fails, those before it are undone, unless the
        gate throws a coin: a coin is not given back, so all that `look` was shown stays committed.

        `look` is called with each decision before it is committed: for what can only be asked then, such as
        its `propensity` or `bounds`.
        """
        return many.decide_many(self.driver, questions, same, look)

    def checked(self, **question: Any) -> dict[str, Any]:
        """A question that is asked several times, as arguments of `decide`, `guard` and `propensity`.

        What can be checked beforehand is, once. It is that of this agent, until its arms change.
        """
        return self.driver.checked(**question)

    def guard(
        self,
        arm: int,
        allowed: npt.ArrayLike | Sequence[str] | None = None,
        *,
        safe: bool = False,
        **question: Any,
    ) -> Decision:
        """Somebody else's proposal through the gate: that arm or the fallback, never another explored arm.

        The question is that of `decide`.
        """
        asked = self.driver.question(allowed, **question)
        return self.driver.answer(self.driver.as_arm(arm, asked), asked, safe)

    def propensity(
        self,
        arm: int,
        allowed: npt.ArrayLike | Sequence[str] | None = None,
        *,
        proposal: int | None = None,
        redraws: int = 100,
        rng: int | np.random.Generator | None = None,
        decided: Decision | None = None,
        **question: Any,
    ) -> float | None:
        """How likely `decide`, asked the same question, plays this arm now; None where nobody can say.

        It is over practice's draw, the coin, and the explorer's own draws. Where there is no formula
        (Thompson), it is the share of `redraws` fresh draws by `rng` (None: the same ones until a commit) and
        of the draw that decides, and of an arm that seldom comes, by how many draws it takes until it does
        (docs/evaluation.md); with `redraws=0` it is None, and once something was learnt since the coin of the
        round was thrown: other draws would then be judged by other estimates. With a `proposal` it is how
        likely `guard` plays it. `decided` is what either of them has just answered to this question, where
        that is known: it is not asked again then.
        """
        check_whole("redraws", redraws)
        driver = self.driver
        asked = driver.question(allowed, **question)
        wanted = None if proposal is None else driver.as_arm(proposal, asked, "proposal")
        index = as_arm(arm, driver.arms_in(asked))
        return odds.propensity(driver, index, asked, wanted, redraws, rng, decided)

    def practice_propensity(
        self, arm: int, allowed: npt.ArrayLike | Sequence[str] | None = None, **question: Any
    ) -> float:
        """How likely practice's draw is this arm: where a coin is thrown, the fallback is drawn."""
        asked = self.driver.question(allowed, **question)
        return self.driver.practice_chance(as_arm(arm, self.driver.arms_in(asked)), asked)

    def safe_propensity(
        self, arm: int, allowed: npt.ArrayLike | Sequence[str] | None = None, **question: Any
    ) -> float:
        """How likely this arm is the fallback of the round just decided, before practice's draw."""
        asked = self.driver.question(allowed, **question)
        return self.driver.safe_chance(as_arm(arm, self.driver.arms_in(asked)), asked)

    def play_safe(self, decision: Decision) -> Decision:
        """What is safe in place of the decision just made.

        A coin that is thrown is not given back: unless the round was asked for with `safe=True`, it stays in
        the books as the coin has said, and what this returns stands until it is committed.
        """
        return self.driver.play_safe(decision)

    def use_coins(self, source: Coins) -> None:
        """Other coins from now on: from the next round where that of this one is thrown, which stands.

        Where nothing is drawn by coins, nothing changes.
        """
        self.driver.use_coins(source)

    def use_draws(self, rng: np.random.Generator) -> None:
        """Another generator for what the explorer draws, from the next round on; while no coin is thrown."""
        self.running.rng = rng
        self.driver.draw_for_explorer()
        self.running.forget_decision()

    @property
    def proven_room(self) -> float:
        """What a gate that throws a coin leaves to lose in any round to come, without what a loan adds."""
        return coins.proven_room(self.running.params, self.running.held.run)

    # -- learning

    def commit(self, decision: Decision | int) -> None:
        """Count a decision as played, or an arm that stays the same. Its reward may come later, once."""
        self.driver.commit(decision)

    def observe(
        self,
        decision: Decision | int,
        reward: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Learn from the reward of a decision committed earlier, or of an arm that stays the same.

        By its decision a reward is credited to its own play, once; a decision that was only shown, overruled,
        changed, or lost with a snapshot is refused. By arm alone it is that of its oldest play outside the
        mixture, or else of its oldest one: a rule fixed before the reward is seen, but where rewards are lost
        or late *because* of their value, only the decision keeps the books right.

        `metrics` are values of guardrails by their names: with the reward or without it, one by one, each
        once. One that never comes counts at its worst.
        """
        driver, running = self.driver, self.running
        if metrics is None:
            value = running.check_reward(reward)  # says what is missing
            driver.observe(decision, value)
            self.surprises.look(value)
            return
        values = driver.values_of(metrics)
        if reward is None and not values:
            running.check_reward(reward)
        ticket = driver.check_metrics(decision, values)
        value = 0.0
        if reward is not None:
            value = running.check_reward(reward)
            driver.observe(decision, value)
        driver.observe_metrics(decision, values, ticket)
        self.surprises.look(value)

    def observe_many(
        self,
        decisions: Sequence[Decision],
        rewards: Sequence[float | None],
        metrics: Sequence[Mapping[str, float] | None] | None = None,
    ) -> None:
        """Learn from the rewards of as many decisions, in this order, as `observe` does; from all or none."""
        many.observe_many(self.driver, decisions, rewards, metrics)
        for reward in rewards:
            self.surprises.look(0.0 if reward is None else float(reward))

    def lose(self, decision: Decision | int, stand_in: float) -> None:
        """The reward of a committed decision will never come: learn from a value that stands in for it.

        Every bound counts how wrong that value can be, and the books of a promise the worst reward: a play of
        practice as the highest, any other as the lowest.
        """
        value = self.running.check_reward(stand_in)
        self.driver.lose(decision, value)

    def awaits_metrics(self, decision: Decision) -> tuple[str, ...]:
        """The guardrails whose value of a committed decision may still come, by name."""
        rails, round = self.running.rails, decision.round
        return () if rails is None or round not in self.running.tickets.by_round else rails.awaited(round)

    def lose_metrics(self, decision: Decision) -> None:
        """The values of guardrails of a committed decision that have not come never will.

        Those that are paid for by their own values count at their worst, as they did; where the model pays,
        the middle of the range stands in, and every bound counts how wrong that can be. A decision that
        `observe` would refuse is refused.
        """
        self.driver.lose_metrics(decision)

    def update(
        self, decision: Decision | int, reward: float, metrics: Mapping[str, float] | None = None
    ) -> None:
        """Commit and observe at once; the reward is that of this very play, whatever else is pending.

        So are the values of guardrails in `metrics`; those that are missing may come later by `observe`.
        """
        values = self.driver.values_of(metrics) if metrics else {}
        value = check_reward(self.running.params, reward)
        self.driver.update(decision, value, values)
        self.surprises.look(value)

    @property
    def rooms(self) -> dict[str, float]:
        """What of each guardrail may still be lost, by name; where one is below 0, practice is played."""
        rails = self.running.rails
        return {} if rails is None else rails.rooms(self.running.held.run)

    def trust_decisions(self) -> None:
        """Take every decision from now on for what it says, and keep nothing of what was committed.

        For whoever keeps all decisions itself and lets nobody hand in another, as the service does.
        """
        self.running.tickets.trusts = True
        if self.running.rails is None:
            self.running.tickets.by_round.clear()

    def look_at_every_arm(self) -> None:
        """Keep no lists of the arms that can be the best, from now on. The answers are the same.

        For whoever must not wait: arms outside of a list catch up when all are read, as a snapshot does.
        """
        self.driver.look_at_every_arm()

    def await_rounds(self, rounds: Iterable[int]) -> None:
        """Say which rounds await their reward, the oldest first, where a snapshot did not hold them."""
        self.running.open_rounds = OpenRounds.awaiting(rounds)

    def drop_model(self) -> None:
        """Let the linear model pay for nothing any more: rewards have refuted it, or what rests on it.

        A Tolerance gate does it by itself where it counts rewards; this is for a watch outside of it.
        """
        self.running.held.run["vetoed"] = 1
        self.running.forget_decision()

    def play(self, means: Floats, draws: Floats, **world: Any) -> tuple[Ints, Bools]:
        """Play `draws.size` rounds in a known world, compiled: the arms, and which of them were explored.

        The reward of round t is `means[arm] + spread[arm] * draws[t]`, with a spread (k,) of 1 unless given.
        A Bernoulli one is the low end of the range or `spread[arm]` above it, by default the high end: above
        it where `draws[t]` in [0, 1) is below the arm's place between the two.
        """
        rounds = self.play_rounds(means, draws, **world)
        return rounds.arms, rounds.explored

    def play_rounds(self, means: Floats, draws: Floats, **world: Any) -> Rounds:
        """The same, with where each arm came from: what `simulate` calls.

        Means that move are (segments, k), with the round from which each row holds in `starts`; `first` is
        the number of the first round here. Where rounds bring their own arms, the world is all of them:
        `playing.GivenRounds` says how.
        """
        return self.driver.play(self, means, draws, **world)

    # -- arms that come and go

    def add_arms(
        self,
        arms: npt.ArrayLike | Sequence[str],
        names: Sequence[str] | None = None,
        *,
        values: Sequence[Sequence[float]] | None = None,
        bound: float | None = None,
    ) -> tuple[int, ...]:
        """New arms (j, d), or items of the recipe by their names, from the next decision on: their places.

        What is known of them is what the estimate says, O(d^2) each. Further columns (j, d + n) are new
        features, which the arms so far do not have: a one-hot arm brings its own. Of items, `values` (j, w)
        are the numbers of the recipe's item columns; where items have features of their own, each new one
        adds some. `bound` is then on |theta| with them; None: as before, and larger for one-hot arms with a
        range of rewards.
        """
        check_may_grow(self.driver.explorer)
        return self.driver.add_arms(arms, names, values, bound)

    def remove_arms(self, arms: npt.ArrayLike | Sequence[str], *, fallback: int | None = None) -> None:
        """These arms, or items by name, are not played again; they keep their indices, late rewards count.

        Practice is then what is left of the log. `fallback` takes the place of a fixed one that is removed.
        """
        self.driver.remove_arms(arms, fallback)

    # -- looking

    def check_reward(self, reward: float) -> float:
        """A reward as `observe` counts it; refuses one that it would refuse."""
        return self.running.check_reward(reward)

    def interval(self, arm: int | npt.ArrayLike) -> tuple[float, float]:
        """Bounds on the mean reward of an arm, as in `lcb` and `ucb`; or of an action (d,)."""
        return self.driver.interval(arm)

    def bounds(self, decision: Decision) -> tuple[float, float]:
        """Bounds on the mean reward of what the decision just made plays."""
        return self.driver.bounds(decision)

    @property
    def rounds(self) -> int:
        """Decisions committed so far."""
        return self.running.rounds

    @property
    def rewards(self) -> int:
        """Rewards observed so far, and those that a value stands in for."""
        return self.running.rewards

    @property
    def awaited(self) -> int:
        """Committed decisions that await their reward."""
        return self.running.rounds - self.running.rewards

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.running.held.vectors.shape[1])

    @property
    def theta(self) -> Floats:
        """(d,) the ridge estimate of the parameter."""
        return self.driver.theta

    @property
    def certificate(self) -> Certificate:
        """What was guaranteed before the first round, and what changes of the arms did to it since."""
        found = self.amended(self.driver.first_certificate(self.policy))
        return coins.with_seed(found, self.gate, self.running.coins)

    def amended(self, certificate: Certificate) -> Certificate:
        """A certificate from before the first round with what changes of the arms did to it since."""
        return self.driver.amended(certificate)

    # -- keeping

    def snapshot(self) -> bytes:
        """Everything needed to continue, as bytes that `linoto.restore` reads: npz, never pickle.

        Equal agents give equal bytes: what only one call needs, and what is recomputed, is left out. Features
        are not part of it: give the same to `restore` again, which knows a `Recipe` by its digests.
        """
        return saving.snapshot_of(self.policy, self.driver)

    def checkpoint(self) -> bytes:
        """The same without the features of its start: bytes that `linoto.restore` reads if given these.

        Arms outside of lists need not catch up, so what they have missed is part of it. Equal agents may give
        other bytes.
        """
        return saving.snapshot_of(self.policy, self.driver, arms_are_known=True)

    def __repr__(self) -> str:
        return f"<agent of {self.policy!r}: {self.rounds} rounds, {self.rewards} rewards>"


OF_THE_DRIVER = frozenset(Agent.__annotations__)
"""What an agent passes on, where its driver has it."""
