"""A running policy: one decision at a time, with rewards that may come late, out of order, or never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core import codec, kernels
from linoto.core.certificates import Certificate
from linoto.core.confidence import Ellipsoid
from linoto.core.kernels import Bools, Floats, Ints, Records, State
from linoto.core.offline import Offline
from linoto.core.validation import as_arm, as_arms, as_floats, as_reward
from linoto.core.warm_up import warm_up, warm_up_loop

SNAPSHOT_FORMAT = 1
SOURCES = ("explorer", "lcb", "mixture", "fixed")


class NoSafeArm(ValueError):  # noqa: N818 - a refusal of the round, not a mistake
    """The gate refused every allowed arm, and no allowed arm is safe to fall back on."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to play this round, and why."""

    arm: int
    mode: Literal["explore", "safe"]
    source: Literal["explorer", "lcb", "mixture", "fixed"]
    proposal: int  # the explorer's favourite before the gate, or the caller's
    fallback: int | None  # the safe arm; None only where `allowed` holds no safe arm
    budget: float | None  # room of the arm the gate was asked about; None where there is no gate
    round: int  # the round it is for: a decision is committed then or not at all


class Agent(Protocol):
    """What a simulator needs of an agent: any object with these two methods will do."""

    def select(self) -> int:
        """The arm to play."""

    def update(self, arm: int, reward: float) -> None:
        """Learn from the reward of an arm that was played."""


class LinearAgent:
    """A linear policy at work. `policy.start(...)` makes one; see `linoto.LinOtO` for an example."""

    def __init__(
        self,
        *,
        policy: Any,
        params: Records,  # (1,) of kernels.PARAMS
        state: State,
        rng: np.random.Generator,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.policy = policy
        self.names = names
        self._params = params
        self._state = state
        self._rng = rng

    @classmethod
    def begin(
        cls,
        *,
        policy: Any,
        params: Records,
        state: State,
        rng: np.random.Generator,
        names: tuple[str, ...] | None,
    ) -> LinearAgent:
        """A fresh agent that knows the log and nothing else."""
        warm_up()
        agent = cls(policy=policy, params=params, state=state, rng=rng, names=names)
        kernels.begin(params, state)
        agent._draw()
        return agent

    # -- deciding

    def select(self, allowed: npt.ArrayLike | None = None) -> int:
        """The arm to play now: the same one until something is committed or observed."""
        if allowed is None:
            return kernels.decide(self._params, self._state, -1)
        return self.decide(allowed).arm

    def decide(self, allowed: npt.ArrayLike | None = None) -> Decision:
        """`select`, with the reasons. `allowed` restricts this round to some arms (indices or a mask)."""
        if allowed is None:
            kernels.decide(self._params, self._state, -1)
        else:
            self._decide_among(as_mask(allowed, self.k), -1)
        return self._decision()

    def guard(self, arm: int, allowed: npt.ArrayLike | None = None) -> Decision:
        """Somebody else's proposal through the gate: that arm or the fallback, never another explored arm."""
        proposal = as_arm(arm, self.k)
        if allowed is None:
            kernels.decide(self._params, self._state, proposal)
        else:
            self._decide_among(as_mask(allowed, self.k), proposal)
        decision = self._decision()
        self._state.run["fresh"] = 0  # an arm committed by number is judged by decide(), not by this
        return decision

    # -- learning

    def commit(self, decision: Decision | int) -> None:
        """Count a decision as played. Its reward may come later through `observe`."""
        arm, mixture = self._play_of(decision)
        kernels.commit(self._params, self._state, arm, mixture)
        self._draw()

    def observe(self, decision: Decision | int, reward: float) -> None:
        """Learn from the reward of a decision committed earlier, or of an arm.

        By its decision a reward is credited to its own play. By arm alone it goes to a play outside the
        mixture first: a rule fixed before the reward is seen, but where rewards are lost or late *because* of
        their value, only the decision keeps the books right.
        """
        value = check_reward(self._params, reward)
        arm, mixture = credit(decision, self._state.counts)
        kernels.observe(self._params, self._state, arm, mixture, value)

    def update(self, decision: Decision | int, reward: float) -> None:
        """Commit and observe at once; the reward is that of this very play, whatever else is pending."""
        reward = check_reward(self._params, reward)
        arm, mixture = self._play_of(decision)
        kernels.update(self._params, self._state, arm, mixture, reward)
        self._draw()

    def play(
        self,
        means: Floats,
        draws: Floats,
        *,
        bernoulli: bool = False,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> tuple[Ints, Bools]:
        """Play `draws.size` rounds in a known world, compiled: what `simulate` calls.

        The reward of round t is `means[arm] + draws[t]`; a Bernoulli one is the high or the low end of the
        range, high where `draws[t]` in [0, 1) is below the arm's place in it.
        """
        means, draws = as_floats("means", means, ndim=1), as_floats("draws", draws, ndim=1)
        if means.size != self.k:
            raise ValueError(f"means must have one entry for each of the {self.k} arms, got {means.size}")
        low, high = reward_range
        if not bernoulli and draws.size:
            self._check_world(float(means.min() + draws.min()), float(means.max() + draws.max()))
        elif bernoulli:
            self._check_world(low, high)
        warm_up_loop()
        arms = np.empty(draws.size, dtype=np.int64)
        explored = np.empty(draws.size, dtype=np.bool_)
        block = 4096  # rounds whose random numbers are held at once
        for start in range(0, draws.size, block):
            part = slice(start, min(start + block, draws.size))
            randoms = self._random_rows(part.stop - start)
            out = arms[part], explored[part]
            kernels.play(
                self._params, self._state, means, draws[part], bernoulli, low, high - low, randoms, *out
            )
        return arms, explored

    # -- looking

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
        return np.ascontiguousarray(self._state.actions.T)

    @property
    def theta(self) -> Floats:
        """(d,) the ridge estimate of the parameter."""
        return np.array(self._state.vectors[kernels.THETA])

    @property
    def lcb(self) -> Floats:
        """(k,) the best lower bound on each mean reward so far, lcb_t of eq. (3)."""
        return np.array(self._state.arms[kernels.LCB])

    @property
    def ucb(self) -> Floats:
        """(k,) the current upper bound on each mean reward, ucb_t of eq. (3)."""
        mean, width = self._state.arms[kernels.MEAN], self._state.arms[kernels.WIDTH]
        return np.array(mean + float(self._state.run[0]["radius"]) * width)

    @property
    def baseline(self) -> float:
        """r_b of eq. (4): the reward per round a Budget gate defends; -inf without a log."""
        return float(self._state.run[0]["baseline"])

    @property
    def ellipsoid(self) -> Ellipsoid:
        """The confidence set C_t of eq. (2)."""
        return Ellipsoid(
            center=self.theta, V=self._state.square[kernels.GRAM], radius=float(self._state.run[0]["radius"])
        )

    @property
    def certificate(self) -> Certificate:
        """What was guaranteed before the first round."""
        certificate: Certificate = self.policy.certificate(self.actions, self.offline)
        return certificate

    @property
    def offline(self) -> Offline:
        """The log it was started from: pulls and reward sums."""
        return Offline(
            pulls=self._state.counts[kernels.LOGGED], reward_sums=self._state.arms[kernels.OFFLINE_SUMS]
        )

    # -- keeping

    def snapshot(self) -> bytes:
        """Everything needed to continue, as bytes that `linoto.restore` reads: npz, never pickle."""
        header = {
            "format": SNAPSHOT_FORMAT,
            "agent": "linear",
            "policy": codec.encode(self.policy),
            "names": self.names,
            "rng": codec.encode_rng(self._rng),
        }
        return codec.pack(header, {"params": self._params, **self._state._asdict()})

    def __repr__(self) -> str:
        return f"<agent of {self.policy!r}: {self.rounds} rounds, {self.rewards} rewards>"

    # -- inside

    def _play_of(self, decision: Decision | int) -> tuple[int, bool]:
        """The arm, and whether it is played for the mixture: an arm alone is if the gate now says so."""
        if isinstance(decision, Decision):
            check_round(decision, self.rounds + 1)
            return as_arm(decision.arm, self.k), decision.source == "mixture"
        arm = as_arm(decision, self.k)
        if self._params[0]["fallback"] not in (kernels.MIXTURE, kernels.CERTIFIED):
            return arm, False
        run = self._state.run[0]
        if not run["fresh"]:
            kernels.decide(self._params, self._state, -1)
        return arm, bool(run["source"] == kernels.FROM_MIXTURE and run["arm"] == arm)

    def _check_world(self, low: float, high: float) -> None:
        """Refuse a world whose rewards can leave the range they are said never to leave."""
        p = self._params[0]
        if p["bounded"] and not (p["low"] <= low and high <= p["low"] + p["unit"]):
            raise ValueError(
                f"reward_range must hold every reward where noise is 'bounded', got a world with rewards in "
                f"[{low:g}, {high:g}]"
            )

    def _decide_among(self, mask: Bools, proposal: int) -> None:
        """Decide, or judge a proposal, among some arms; where none is safe, leave everything as it was."""
        run, counts, scratch = self._state.run, self._state.counts, [kernels.SCORE, kernels.ROOM]
        before, rows = run.copy(), self._state.arms[scratch].copy()
        counts[kernels.ALLOWED], run["restricted"] = mask, 1
        kernels.decide(self._params, self._state, proposal)
        counts[kernels.ALLOWED], run["restricted"] = 1, 0
        if run[0]["arm"] < 0:
            run[:], self._state.arms[scratch] = before, rows
            raise NoSafeArm(
                f"allowed must hold an arm that is safe to play, got {np.flatnonzero(mask).tolist()}: "
                "the gate refused them all, and the fallback is not among them"
            )

    def _decision(self) -> Decision:
        run = self._state.run[0]
        explored, fallback = bool(run["explored"]), int(run["fallback"])
        gated = self._params[0]["gate"] not in (kernels.OPEN, kernels.CLOSED)
        return Decision(
            arm=int(run["arm"]),
            mode="explore" if explored else "safe",
            source=SOURCES[run["source"]],  # type: ignore[arg-type]
            proposal=int(run["proposal"]),
            fallback=fallback if fallback >= 0 else None,
            budget=float(run["room"]) if gated else None,
            round=self.rounds + 1,
        )

    def _draw(self) -> None:
        """Fresh random numbers for the next selection, so that selecting twice is selecting once."""
        explorer = self._params[0]["explorer"]
        if explorer == kernels.THOMPSON:
            self._rng.standard_normal(out=self._state.vectors[kernels.NORMALS])
        elif explorer == kernels.UNIFORM:
            self._rng.random(out=self._state.arms[kernels.UNIFORMS])

    def _random_rows(self, rounds: int) -> Floats:
        """(rounds, d or k or 0): what as many calls of `_draw` would draw."""
        explorer = self._params[0]["explorer"]
        if explorer == kernels.THOMPSON:
            return self._rng.standard_normal((rounds, self._state.actions.shape[0]))
        if explorer == kernels.UNIFORM:
            return self._rng.random((rounds, self.k))
        return np.empty((rounds, 0))


def check_round(decision: Decision, current: int) -> None:
    """Refuse a stale decision: two of one round would spend the same room twice (H8)."""
    if decision.round != current:
        raise ValueError(f"decision must be of round {current}, got one of round {decision.round}")


def check_reward(params: Records, reward: Any) -> float:
    """One reward: a finite number, inside the range that rewards are said never to leave."""
    value, p = as_reward(reward), params[0]
    if p["bounded"] and not p["low"] <= value <= p["low"] + p["unit"]:
        raise ValueError(f"reward must be in [{p['low']:g}, {p['low'] + p['unit']:g}], got {value:g}")
    return value


def credit(decision: Decision | int, counts: Ints) -> tuple[int, bool]:
    """Whose reward this is: the arm, and whether its play was for the mixture."""
    pending, mixed = counts[kernels.PENDING], counts[kernels.PENDING_MIXTURE]
    if isinstance(decision, Decision):
        arm, mixture = as_arm(decision.arm, pending.size), decision.source == "mixture"
        owed = mixed[arm] if mixture else pending[arm]
    else:
        arm = as_arm(decision, pending.size)
        mixture = bool(pending[arm] == 0)
        owed = pending[arm] + mixed[arm]
    if owed == 0:
        raise ValueError(f"arm must have a committed play that awaits its reward, got {arm}, which has none")
    return arm, mixture


def as_mask(allowed: npt.ArrayLike, k: int) -> Bools:
    """The allowed arms as a mask (k,), from indices or a mask; at least one."""
    array = np.asarray(allowed)
    if array.dtype == np.bool_:
        if array.shape != (k,):
            raise ValueError(
                f"allowed must be arm indices or a mask of shape ({k},), got shape {array.shape}"
            )
        mask = array.copy()
    else:
        mask = np.zeros(k, dtype=np.bool_)
        mask[as_arms("allowed", array, k)] = True
    if not mask.any():
        raise ValueError("allowed must hold at least one arm, got none")
    return mask


def as_names(names: Sequence[str] | None, k: int) -> tuple[str, ...] | None:
    """One distinct name per arm, or none at all."""
    if names is None:
        return None
    result = tuple(str(name) for name in names)
    if len(result) != k or len(set(result)) != k:
        raise ValueError(
            f"names must be {k} distinct names, got {len(result)} with {len(set(result))} distinct"
        )
    return result


def as_generator(rng: Any) -> np.random.Generator:
    """A generator from a seed; a given one is used as it is."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise ValueError(f"rng must be a seed >= 0 or a numpy Generator, got {rng!r}")
    return np.random.default_rng(rng)
