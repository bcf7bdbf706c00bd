"""A running policy: one decision at a time, with rewards that may come late, out of order, or never."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from linoto.core import arm_changes, coins, explorers, kernels, odds, saving
from linoto.core.arm_changes import ArmChange
from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.certificates import Certificate, Situation, limits_of
from linoto.core.coins import Coins
from linoto.core.confidence import Ellipsoid
from linoto.core.decisions import (
    SOURCES,
    Decision,
    NoSafeArm,
    as_mask,
    check_reward,
    check_round,
    credit,
)
from linoto.core.explorers import View, ask_own, is_own, rule_of
from linoto.core.hints import shortened_list
from linoto.core.kernels import Parts, State
from linoto.core.odds import Redraws
from linoto.core.offline import Offline
from linoto.core.open_rounds import OpenRounds, check_awaited
from linoto.core.plain_play import Rounds, rounds_in_python
from linoto.core.protocols import Composition, PolicyWithPromise
from linoto.core.validation import as_arm, as_counts, as_floats
from linoto.core.warm_up import warm_up, warm_up_loop

MOST_DRAWN = 4_000_000  # random numbers that the loop holds at once


class LinearAgent:
    """A linear policy at work. `policy.start(...)` makes one; see `linoto.LinOtO` for an example."""

    def __init__(
        self,
        *,
        policy: PolicyWithPromise,
        composition: Composition,
        params: Records,  # (1,) of kernels.PARAMS; (2,) where the log may have moved
        state: State,
        rng: np.random.Generator,
        coins: Coins | None = None,  # of a gate that throws one
        reward_squares: Floats | None = None,  # (k,) of the log, where known
        names: tuple[str, ...] | None = None,
        changes: tuple[ArmChange, ...] = (),
        open_rounds: OpenRounds | None = None,  # those that await their reward
        stays_safe: bool = False,  # in this round
    ) -> None:
        self.policy = policy
        self.names = names
        self.changes = changes
        self._composition = composition
        self.explorer, self.gate, self.confidence = (
            composition.explorer,
            composition.gate,
            composition.assumed,
        )
        self.against = self.gate.compared_with(composition.resolved_fallback())  # what a promise is about
        self.rule = rule_of(self.explorer)
        self._own = is_own(self.explorer)
        self._params = params
        self._parts = kernels.parts_of(params)
        warm_up(self._parts)
        self._state = state
        self._rng = rng
        self._coins = coins
        self._open = open_rounds or OpenRounds()
        self._stays_safe = stays_safe
        self._reward_squares = reward_squares

    @classmethod
    def begin(cls, *, state: State, params: Records, **parts: Any) -> LinearAgent:
        """A fresh agent that knows the log and nothing else."""
        agent = cls(params=params, state=state, **parts)
        kernels.begin(params, state, *agent._parts)
        if params[0]["estimates_noise"]:
            state.run["residuals"], state.run["residual_count"] = agent.offline.within_arms()
        agent._draw()
        return agent

    # -- deciding

    def select(self, allowed: npt.ArrayLike | None = None) -> int:
        """The arm to play now: the same one until something is committed or observed."""
        if allowed is None and not self._own and not self._stays_safe:
            return kernels.decide(self._params, self._state, -1, *self._parts)
        return self.decide(allowed).arm

    def decide(self, allowed: npt.ArrayLike | None = None, *, safe: bool = False) -> Decision:
        """`select`, with the reasons. `allowed` restricts this round to some arms (indices or a mask).

        `safe`: this round plays what is safe, whatever the gate, or its coin, would say. That is what this
        returns then, and `without_coin` makes of it what is to be committed.
        """
        coins.check_before_coin(safe, bool(self._state.run[0]["thrown"]))
        self._answer(None, self._mask(allowed))
        return self._answered(safe)

    def guard(self, arm: int, allowed: npt.ArrayLike | None = None, *, safe: bool = False) -> Decision:
        """Somebody else's proposal through the gate: that arm or the fallback, never another explored arm."""
        coins.check_before_coin(safe, bool(self._state.run[0]["thrown"]))
        self._answer(self._playable(arm), self._mask(allowed))
        decision = self._answered(safe)
        self._state.run["fresh"] = 0  # an arm committed by number is judged by decide(), not by this
        return decision

    def propensity(
        self,
        arm: int,
        allowed: npt.ArrayLike | None = None,
        *,
        proposal: int | None = None,
        redraws: int = 100,
        rng: int | np.random.Generator | None = None,
    ) -> float | None:
        """How likely `decide` plays this arm now, over the explorer's own draws; None where nobody can say.

        Where there is no formula (Thompson), it is the share of `redraws` fresh draws by `rng` (None: the
        same ones until a commit) and of the draw that decides; with `redraws=0` it is None. With a `proposal`
        it is how likely `guard` plays it.
        """
        draws = Redraws(redraws, explorers.redraws_for(rng, self._state)) if redraws else None
        return odds.propensity(self, as_arm(arm, self.k), self._mask(allowed), proposal, draws)

    def practice_propensity(self, arm: int, allowed: npt.ArrayLike | None = None) -> float:
        """How likely practice's draw is this arm: where a coin is thrown, the fallback is drawn."""
        mask = self.present if allowed is None else self._present_among(allowed)
        return odds.practice_propensity(self, as_arm(arm, self.k), mask)

    def without_coin(self, decision: Decision) -> Decision:
        """What is safe in place of the decision just made.

        A coin that is thrown is not given back: unless the round was asked for with `safe=True`, it stays in
        the books as the coin has said, and what this returns stands until it is committed.
        """
        check_round(decision, self.rounds + 1)
        thrown = decision.control_share is not None and not self._stays_safe
        if decision.mode == "safe" and (thrown or decision.control_share is None):
            return decision
        if decision.fallback is None:
            raise NoSafeArm(
                "allowed must hold an arm that is safe to play, got none: the fallback is not in it"
            )
        safe = replace(decision, arm=decision.fallback, mode="safe")
        if thrown:
            coins.play_practice(self._state.run)
            return safe
        return replace(safe, source=self.fallback_source, control_share=None, centre=None)

    def use_coins(self, source: Coins) -> None:
        """Other coins from now on: from the next round where that of this one is thrown, which stands.

        Where the gate throws no coin, nothing changes.
        """
        if self._coins is None:
            return
        self._coins = source
        if not self._state.run[0]["thrown"]:
            coins.draw_coins(self._state.run, source)
            self._state.run["fresh"] = 0

    @property
    def proven_room(self) -> float:
        """What a gate that throws a coin leaves to lose in any round to come, without what a loan adds."""
        return coins.proven_room(self._params, self._state.run)

    def use_draws(self, rng: np.random.Generator) -> None:
        """Another generator for what the explorer draws, from the next round on; while no coin is thrown."""
        self._rng = rng
        self._draw_for_explorer()
        self._state.run["fresh"] = 0

    # -- learning

    def await_rounds(self, rounds: Iterable[int]) -> None:
        """These rounds, from the oldest on, await their reward: for who knows it where a snapshot did not."""
        self._open = OpenRounds.awaiting(rounds)

    def commit(self, decision: Decision | int) -> None:
        """Count a decision as played. Its reward may come later through `observe`."""
        arm, mixture = self._play_of(decision)
        kernels.commit(self._params, self._state, arm, mixture, *self._parts_with(mixture)[:2])
        self._open.open(self.rounds)
        self._draw()

    def observe(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision committed earlier, or of an arm.

        By its decision a reward is credited to its own play, once. By arm alone it goes to a play outside the
        mixture first: a rule fixed before the reward is seen, but where rewards are lost or late *because* of
        their value, only the decision keeps the books right.
        """
        value = check_reward(self._params, reward)
        arm, mixture = self._credit(decision)
        if self.gate.throws_coin and not self._state.run[0]["thrown"]:
            self._put_on_desk(decision, arm)
        elif self.gate.throws_coin:
            self._observe_between(decision, arm, mixture, value)
            return
        kernels.observe(self._params, self._state, arm, mixture, value, 0.0, *self._parts_with(mixture))

    def lose(self, decision: Decision | int, stand_in: float) -> None:
        """The reward of a committed decision will never come: learn from a value that stands in for it.

        Every bound, and the books of the promise, count the worst that it could have been: a play of the
        mixture as the highest reward, any other as the lowest.
        """
        value = check_reward(self._params, stand_in)
        arm, mixture = self._credit(decision)
        low, high = limits_of(self.confidence, self._state.actions)
        error = max(high - value, value - low)
        kernels.observe(self._params, self._state, arm, mixture, value, error, *self._parts_with(mixture))

    def drop_model(self) -> None:
        """Let the linear model pay for nothing any more: rewards have refuted it, or what rests on it.

        What a Tolerance gate does by itself where it counts rewards too; for who watches it from outside.
        """
        self._state.run["vetoed"], self._state.run["fresh"] = 1, 0

    def update(self, decision: Decision | int, reward: float) -> None:
        """Commit and observe at once; the reward is that of this very play, whatever else is pending."""
        reward = check_reward(self._params, reward)
        arm, mixture = self._play_of(decision)
        kernels.update(self._params, self._state, arm, mixture, reward, *self._parts_with(mixture))
        self._draw()

    def play(
        self,
        means: Floats,
        draws: Floats,
        **world: Any,
    ) -> tuple[Ints, Bools]:
        """Play `draws.size` rounds in a known world, compiled: the arms, and which of them were explored.

        The reward of round t is `means[arm] + spread[arm] * draws[t]`, with a spread (k,) of 1 unless given.
        A Bernoulli one is the low end of the range or `spread[arm]` above it, by default the high end: above
        it where `draws[t]` in [0, 1) is below the arm's place between the two.
        """
        rounds = self.play_rounds(means, draws, **world)
        return rounds.arms, rounds.explored

    def play_rounds(
        self,
        means: Floats,
        draws: Floats,
        *,
        starts: Ints | None = None,
        first: int = 0,
        bernoulli: bool = False,
        reward_range: tuple[float, float] = (0.0, 1.0),
        spread: Floats | None = None,
    ) -> Rounds:
        """The same, with where each arm came from: what `simulate` calls.

        Means that move are (segments, k), with the round from which each row holds in `starts`; `first` is
        the number of the first round here.
        """
        draws = as_floats("draws", draws, ndim=1)
        means = as_floats("means", means, ndim=1 if starts is None else 2).reshape(-1, np.shape(means)[-1])
        if means.shape[1] != self.k:
            raise ValueError(f"means must have one entry for each of the {self.k} arms, got {means.shape[1]}")
        starts = np.zeros(1, np.int64) if starts is None else as_counts("starts", starts)
        low, high = reward_range
        usual = np.full(self.k, high - low if bernoulli else 1.0)
        steps = usual if spread is None else as_floats("spread", spread, ndim=1)
        if steps.size != self.k:
            raise ValueError(f"spread must have one entry for each of the {self.k} arms, got {steps.size}")
        if bernoulli:
            self._check_world(low, low + float(steps.max()))
        elif draws.size:
            least, most = means + steps * draws.min(), means + steps * draws.max()
            self._check_world(float(least.min()), float(most.max()))
        if self._own:
            return rounds_in_python(
                self,
                means,
                draws,
                starts=starts,
                first=first,
                bernoulli=bernoulli,
                reward_range=reward_range,
                spread=steps,
            )
        rounds = Rounds(*np.empty((3, draws.size), dtype=np.int64))
        coins.check_stays_safe(not self._stays_safe)
        warm_up_loop(self._parts)
        block = max(min(4096, MOST_DRAWN // self._state.vectors.shape[1]), 1)  # rounds drawn for at once
        for start in range(0, draws.size, block):
            part = slice(start, min(start + block, draws.size))
            world = means, starts, first + start, draws[part], bernoulli, low, steps
            randoms = self._random_rows(part.stop - start), self._coin_rows(part.stop - start)
            played = rounds.arms[part], rounds.sources[part], rounds.fallbacks[part]
            kernels.play(self._params, self._state, *world, *randoms, *played, *self._parts)
        return rounds

    # -- arms that come and go

    def add_arms(
        self, actions: npt.ArrayLike, names: Sequence[str] | None = None, *, bound: float | None = None
    ) -> tuple[int, ...]:
        """New arms (j, d), playable from the next decision on: their indices.

        What is known of them is what the estimate says, O(d^2) each. Further columns (j, d + n) are new
        features, which the arms so far do not have: a one-hot arm brings its own. `bound` is then that of the
        longer theta; None: as before, and larger for one-hot arms with a range of rewards.
        """
        arm_changes.check_change(self)
        new = arm_changes.as_new_actions(actions, self._state.vectors.shape[1])
        names = arm_changes.names_with(self.names, names, len(new))
        change = arm_changes.addition(self._state, self._params, self.confidence, new, bound)
        composition = arm_changes.composition_after(self._composition, (change,))
        squares = self._reward_squares
        squares = None if squares is None else np.append(squares, np.zeros(len(new)))
        state = arm_changes.grown(self._state, new, float(self._params[0]["ridge"]))
        params = composition.params(
            kernels.actions_of(state), offline_of(state, squares)
        )  # refuses what cannot work
        arm_changes.draw_for(self, change, state)
        kernels.meet_arms(params, state, change.added[0])
        if params[0]["explorer"] >= kernels.UCB1:
            kernels.tally(params, state)
        self._params, self._state, self._reward_squares, self.names = params, state, squares, names
        self._composition, self.confidence = composition, composition.assumed
        self.changes = (*self.changes, change)
        return change.added

    def remove_arms(self, arms: npt.ArrayLike, *, fallback: int | None = None) -> None:
        """These arms are not played again; they keep their indices, and their late rewards still count.

        Practice is then what is left of the log. `fallback` takes the place of a fixed one that is removed.
        """
        arm_changes.check_change(self)
        change = arm_changes.removal(self._state, self._params, arms, fallback)
        present = self.present
        present[list(change.removed)] = False
        if self.gate.needs_logged_arms(self._plays_mixture):
            arm_changes.check_practice(self._state.counts[kernels.LOGGED], present)
        self._composition = arm_changes.composition_after(self._composition, (change,))
        if change.fallback is not None:
            self._params["fixed_arm"] = change.fallback
        before = float(self._state.run[0]["premium"])
        self._state.counts[kernels.ALLOWED] = present
        kernels.lose_arms(self._params, self._state, self._parts.ledger)
        self.changes = (*self.changes, arm_changes.with_effect(change, self._situation(), before))

    @property
    def present(self) -> Bools:
        """(k,) the arms that can be played: all but those that were removed."""
        return np.array(self._state.counts[kernels.ALLOWED] == 1)

    # -- looking

    def check_reward(self, reward: float) -> None:
        """Refuse a reward that `observe` would refuse."""
        check_reward(self._params, reward)

    def interval(self, arm: int) -> tuple[float, float]:
        """The bounds of one arm's mean reward, as in `lcb` and `ucb`."""
        index = as_arm(arm, self.k)
        return float(self._state.arms[kernels.LCB, index]), float(self.ucb[index])

    def next_mixture_arm(self, plays: npt.ArrayLike | None = None) -> int:
        """The logged arm that is furthest behind its share of the mixture plays.

        `plays` (k,) are those of another schedule, which this agent was never told of.
        """
        changed = self._state.run[0]["premium"] > 0
        logged = self._state.counts[kernels.PRACTICE_PULLS if changed else kernels.LOGGED]
        mixed = self.mixture_plays if plays is None else as_counts("plays", plays)
        return int(kernels.most_behind(logged, mixed, int(logged.sum()), int(mixed.sum())))

    @property
    def budget(self) -> float | None:
        """The room that the gate sees now, as in the next decision; None where there is no gate."""
        if not self.gate.measures:
            return None
        state, scratch = self._state, [kernels.SCORE, kernels.ROOM]
        run = state.run.view(np.uint8)  # to copy its fields one by one takes 10 times as long
        before, rows = run.copy(), state.arms[scratch].copy()
        budget = self.decide().budget
        run[:], state.arms[scratch] = before, rows  # the latest decision stays the latest
        return budget

    @property
    def counts_control(self) -> bool:
        """Whether a control play of the logging mixture is to be committed: it is like the gate's own."""
        return self.gate.counts_control(bool(self._params[0]["fallback"] == kernels.MIXTURE))

    @property
    def mixture_plays(self) -> Ints:
        """(k,) plays of the logging mixture so far; since practice last lost an arm."""
        return np.array(self._state.counts[kernels.MIXED])

    @property
    def fallback_source(self) -> Literal["lcb", "mixture", "fixed"]:
        """Where the fallback of the latest decision comes from."""
        source: Any = SOURCES[int(self._state.run[0]["fallback_source"])]
        return source  # type: ignore[no-any-return]

    @property
    def k(self) -> int:
        """The number of arms."""
        return int(self._state.actions.shape[1])

    @property
    def rounds(self) -> int:
        """Decisions committed so far."""
        return int(self._state.run[0]["rounds"])

    @property
    def rewards(self) -> int:
        """Rewards observed so far."""
        return int(self._state.run[0]["rewards"])

    @property
    def pending(self) -> Ints:
        """(k,) committed plays that await their reward."""
        return np.array(self._state.counts[kernels.PENDING] + self._state.counts[kernels.PENDING_MIXTURE])

    @property
    def actions(self) -> Floats:
        """(k, d) the arm set."""
        return kernels.actions_of(self._state)

    @property
    def theta(self) -> Floats:
        """(d,) the ridge estimate of the parameter."""
        return np.array(self._state.vectors[kernels.THETA])

    @property
    def means(self) -> Floats:
        """(k,) the estimate of each mean reward."""
        return np.array(self._state.arms[kernels.MEAN])

    @property
    def lcb(self) -> Floats:
        """(k,) the best lower bound on each mean reward so far, lcb_t of eq. (3)."""
        return np.array(self._state.arms[kernels.LCB])

    @property
    def ucb(self) -> Floats:
        """(k,) the current upper bound on each mean reward, ucb_t of eq. (3)."""
        upper = upper_bounds(self._state) + kernels.lifts(self._state)
        if not kernels.is_shifted(self._state):
            return upper
        return np.minimum(upper, upper_bounds(kernels.online_part(self._state)))

    @property
    def baseline(self) -> float:
        """r_b of eq. (4): the reward per round a Budget gate defends; -inf without a log."""
        return float(self._state.run[0]["baseline"])

    @property
    def ellipsoid(self) -> Ellipsoid:
        """The confidence set C_t of eq. (2), as much larger as the log may have moved."""
        V, run = kernels.square_of(self._state, kernels.GRAM), self._state.run[0]
        moved = self.confidence.shift * float(np.sqrt(run["logged"]))
        return Ellipsoid(center=self.theta, V=V, radius=float(run["radius"] + run["doubt"]) + moved)

    @property
    def certificate(self) -> Certificate:
        """What was guaranteed before the first round, and what changes of the arms did to it since."""
        k = self.k - sum(len(change.added) for change in self.changes)
        d = self._state.vectors.shape[1] - sum(change.features for change in self.changes)
        log, squares = self.offline, self._reward_squares
        first = Offline(
            pulls=log.pulls[:k],
            reward_sums=log.reward_sums[:k],
            reward_squares=None if squares is None else squares[:k],
        )
        return coins.with_seed(
            self.amended(self.policy.certificate(self.actions[:k, :d], first)), self.gate, self._coins
        )

    def amended(self, certificate: Certificate) -> Certificate:
        """A certificate from before the first round with what changes of the arms did to it since."""
        return arm_changes.amended(certificate, self.changes, self.names)

    @property
    def offline(self) -> Offline:
        """The log it was started from."""
        return offline_of(self._state, self._reward_squares)

    # -- keeping

    def snapshot(self) -> bytes:
        """Everything needed to continue, as bytes that `linoto.restore` reads: npz, never pickle.

        Equal agents give equal bytes: what only one call needs, and what is recomputed, is left out.
        """
        return saving.snapshot_of(self)

    def __repr__(self) -> str:
        return f"<agent of {self.policy!r}: {self.rounds} rounds, {self.rewards} rewards>"

    # -- inside

    @property
    def _plays_mixture(self) -> bool:
        """Whether the logging mixture is what is safe, always or at times."""
        return bool(self._params[0]["fallback"] in (kernels.MIXTURE, kernels.CERTIFIED))

    def _situation(self) -> Situation:
        """What the promise is about now."""
        return Situation(
            gate=self.gate,
            fallback=self._composition.resolved_fallback(),
            confidence=self.confidence,
            params=self._params,
            run=self._state.run,
            state=self._state,
            offline=self.offline,
        )

    def _mask(self, allowed: npt.ArrayLike | None) -> Bools | None:
        """The allowed arms that are present; None: all of them."""
        return None if allowed is None else self._present_among(allowed)

    def _present_among(self, allowed: npt.ArrayLike) -> Bools:
        mask: Bools = as_mask(allowed, self.k) & self.present
        if not mask.any():
            raise ValueError("allowed must hold an arm that is present, got only arms that were removed")
        return mask

    def _playable(self, arm: int) -> int:
        """One arm that was not removed."""
        index = as_arm(arm, self.k)
        if self._state.counts[kernels.ALLOWED, index] == 0:
            raise ValueError(f"arm must be one that is present, got {index}, which was removed")
        return index

    def _play_of(self, decision: Decision | int) -> tuple[int, bool]:
        """The arm, and whether it is played for the mixture: an arm alone is if the gate now says so."""
        if isinstance(decision, Decision):
            check_round(decision, self.rounds + 1)
            if decision.changes != len(self.changes):
                raise ValueError(
                    "decision must be made after the arms changed, got one from before: ask again"
                )
            arm = self._playable(decision.arm)
            if self._stays_safe:
                coins.check_stays_safe(decision.mode == "safe" and decision.control_share is None)
            if self.gate.throws_coin:
                coins.enter_play(self._state.run, decision)
            return arm, decision.by_practice
        arm = self._playable(decision)
        if self.gate.throws_coin:
            self._answer(None, None)
            if self._stays_safe:
                coins.forget_coin(self._state.run)
            practice = coins.is_practice(self._state.run, arm)
            coins.enter_arm(self._state.run, arm)
            return arm, practice
        if not self._plays_mixture:
            return arm, False
        run = self._state.run[0]
        if not run["fresh"]:
            self._answer(None, None)
        return arm, bool(run["source"] == kernels.FROM_MIXTURE and run["arm"] == arm)

    def _check_world(self, low: float, high: float) -> None:
        """Refuse a world whose rewards can leave the range they are said never to leave."""
        p = self._params[0]
        if p["bounded"] and not (p["low"] <= low and high <= p["low"] + p["unit"]):
            raise ValueError(
                f"reward_range must hold every reward where noise is 'bounded', got a world with rewards in "
                f"[{low:g}, {high:g}]"
            )

    def _answer(self, wanted: int | None, mask: Bools | None) -> None:
        """Decide, or judge a proposal (None: the explorer's); where no allowed arm is safe, change nothing.

        A round whose coin is thrown is decided.
        """
        run, counts, scratch = self._state.run, self._state.counts, [kernels.SCORE, kernels.ROOM]
        if run[0]["thrown"]:
            coins.check_same_round(run, -1 if wanted is None else wanted, mask)
            return
        proposal = wanted if wanted is not None else self._propose(mask) if self._own else -1
        if mask is None:
            kernels.decide(self._params, self._state, proposal, *self._parts)
            return
        before, rows = run.copy(), self._state.arms[scratch].copy()
        present = self.present
        counts[kernels.ALLOWED], run["restricted"] = mask, 1
        kernels.decide(self._params, self._state, proposal, *self._parts)
        counts[kernels.ALLOWED], run["restricted"] = present, not present.all()
        if run[0]["arm"] < 0:
            run[:], self._state.arms[scratch] = before, rows
            asked = [str(self.names[arm] if self.names else arm) for arm in np.flatnonzero(mask)]
            raise NoSafeArm(
                f"allowed must hold an arm that is safe to play, got {shortened_list(asked)}: "
                "the gate refused them all, and the fallback is not among them"
            )

    def _propose(self, mask: Bools | None) -> int:
        """Ask an explorer of the caller's own: an arm, or -1 once its scores are in the state."""
        return ask_own(self.explorer, self._view(mask), self._state.arms[kernels.GIVEN_SCORES])

    def _view(self, mask: Bools | None) -> View:
        arms = self._state.arms
        seed = self._state.vectors[kernels.NORMALS].view(np.uint64)  # drawn at the last commit, and kept
        return View(
            actions=self.actions,
            mean=np.array(arms[kernels.MEAN]),
            width=np.array(arms[kernels.WIDTH]),
            lcb=self.lcb,
            ucb=self.ucb,
            counts=np.array(arms[kernels.SEEN]),
            reward_sums=np.array(arms[kernels.SUMS]),
            allowed=self.present if mask is None else mask.copy(),
            round=self.rounds + 1,
            noise=float(self._params[0]["noise"]),
            rng=np.random.default_rng(seed),
        )

    def _answered(self, safe: bool) -> Decision:
        """The decision that was just made; in a round that stays safe its coin is not thrown by that."""
        decision = self._decision()
        self._stays_safe |= safe and self.gate.throws_coin
        if self._stays_safe:
            self._state.run["thrown"] = 0
        return decision

    def _decision(self) -> Decision:
        run = self._state.run[0]
        explored, fallback = bool(run["explored"]), int(run["fallback"])
        decision = Decision(
            arm=int(run["arm"]),
            mode="explore" if explored else "safe",
            source=SOURCES[run["source"]],  # type: ignore[arg-type]
            proposal=int(run["proposal"]),
            fallback=fallback if fallback >= 0 else None,
            budget=float(run["room"]) if self.gate.measures else None,
            round=self.rounds + 1,
            changes=len(self.changes),
        )
        return coins.with_coin(decision, self._state.run) if run["thrown"] else decision

    def _credit(self, decision: Decision | int) -> tuple[int, bool]:
        """Whose reward this is, which is not awaited any more: the arm, and whether it was the mixture's."""
        arm, mixture = credit(decision, self._state.counts)
        if isinstance(decision, Decision):
            check_awaited(self._open, decision.round)
        elif self.rounds == self.rewards + 1:
            self._open.clear()  # this one was the last
        return arm, mixture

    def _put_on_desk(self, decision: Decision | int, arm: int) -> None:
        """What the reward is in the control ledger."""
        if isinstance(decision, Decision):
            coins.enter_decision(self._state.run, decision)
        else:
            coins.enter_ticket(self._state, arm)

    def _observe_between(self, decision: Decision | int, arm: int, mixture: bool, value: float) -> None:
        """A reward between the throw of a coin and the commit of its round: that decision stands."""
        kept = [name for name in kernels.DECIDED if name != "restricted"]
        before = self._state.run[kept].copy()
        self._put_on_desk(decision, arm)
        kernels.observe(self._params, self._state, arm, mixture, value, 0.0, *self._parts_with(mixture))
        for name in kept:
            self._state.run[name] = before[name]

    def _parts_with(self, mixture: bool) -> Parts:
        """What a play needs to be compiled; the first one for the mixture may need more than others."""
        if mixture and self._parts.coin is None and self._parts.ledger is None:
            self._parts = self._parts._replace(ledger=1)
            warm_up(self._parts)
        return self._parts

    def _draw(self) -> None:
        """Fresh random numbers for the next selection, so that selecting twice is selecting once."""
        self._stays_safe = False
        if self._coins is not None:
            coins.draw_coins(self._state.run, self._coins)
        self._draw_for_explorer()

    def _draw_for_explorer(self) -> None:
        if self.rule.draws == kernels.NORMAL_DRAWS:
            self._rng.standard_normal(out=self._state.vectors[kernels.NORMALS])
        elif self.rule.draws == kernels.SCORE_DRAWS:
            self._rng.random(out=self._state.arms[kernels.GIVEN_SCORES])

    def _random_rows(self, rounds: int) -> Floats:
        """(rounds, d or k or 0): what as many calls of `_draw` would draw."""
        if self.rule.draws == kernels.NORMAL_DRAWS:
            return self._rng.standard_normal((rounds, self._state.vectors.shape[1]))
        if self.rule.draws == kernels.SCORE_DRAWS:
            return self._rng.random((rounds, self.k))
        return np.empty((rounds, 0))

    def _coin_rows(self, rounds: int) -> Floats:
        """(rounds, 2 or 0): practice's draws and coins."""
        return np.empty((rounds, 0)) if self._coins is None else self._coins.rows(self.rounds + 2, rounds)


def upper_bounds(state: State) -> Floats:
    """(k,) of one estimate, lost rewards included."""
    run = state.run[0]
    mean, width = state.arms[kernels.MEAN], state.arms[kernels.WIDTH]
    return np.array(mean + float(run["radius"] + run["doubt"]) * width)


def offline_of(state: State, squares: Floats | None) -> Offline:
    """The log that a state was started from, whose squares (k,) may be known."""
    counts, arms = state.counts, state.arms
    return Offline(
        pulls=counts[kernels.LOGGED], reward_sums=arms[kernels.OFFLINE_SUMS], reward_squares=squares
    )
