"""A running policy: one decision at a time, with rewards that may come late, out of order, or never."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from linoto import codec, kernels
from linoto.confidence import Ellipsoid
from linoto.data import as_arm, as_arms, as_floats, as_reward
from linoto.kernels import Bools, Floats, Ints, Records, State

SNAPSHOT_FORMAT = 1
SOURCES = ("explorer", "lcb", "mixture", "fixed")
logger = logging.getLogger("linoto")


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


class Agent(Protocol):
    """What a simulator needs of an agent: any object with these two methods will do."""

    def select(self) -> int: ...

    def update(self, arm: int, reward: float) -> None: ...


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
        with self._restricted(allowed):
            kernels.decide(self._params, self._state, -1)
        return self._decision()

    def guard(self, arm: int) -> Decision:
        """Somebody else's proposal through the gate: that arm, or the fallback; never another explored arm."""
        kernels.decide(self._params, self._state, as_arm(arm, self.k))
        return self._decision()

    # -- learning

    def commit(self, decision: Decision | int) -> None:
        """Count a decision as played. Its reward may come later through `observe`."""
        arm = self._arm_of(decision)
        kernels.commit(self._params, self._state, arm)
        self._draw()

    def observe(self, arm: int, reward: float) -> None:
        """Learn from the reward of an arm committed earlier."""
        arm, reward = as_arm(arm, self.k), as_reward(reward)
        if self._state.counts[kernels.PENDING, arm] == 0:
            raise ValueError(
                f"arm must have a committed play that awaits its reward, got {arm}, which has none"
            )
        kernels.observe(self._params, self._state, arm, reward)

    def update(self, decision: Decision | int, reward: float) -> None:
        """Commit and observe at once."""
        arm, reward = self._arm_of(decision), as_reward(reward)
        kernels.update(self._params, self._state, arm, reward)
        self._draw()

    def play(self, means: Floats, draws: Floats, *, bernoulli: bool = False) -> tuple[Ints, Bools]:
        """Play `draws.size` rounds in a known world, compiled: what `simulate` calls.

        The reward of round t is `means[arm] + draws[t]`, or `draws[t] < means[arm]` for Bernoulli rewards.
        """
        means, draws = as_floats("means", means, ndim=1), as_floats("draws", draws, ndim=1)
        if means.size != self.k:
            raise ValueError(f"means must have one entry for each of the {self.k} arms, got {means.size}")
        warm_up_loop()
        arms = np.empty(draws.size, dtype=np.int64)
        explored = np.empty(draws.size, dtype=np.bool_)
        block = 4096  # rounds whose random numbers are held at once
        for start in range(0, draws.size, block):
            part = slice(start, min(start + block, draws.size))
            randoms = self._random_rows(part.stop - start)
            kernels.play(
                self._params, self._state, means, draws[part], bernoulli, randoms, arms[part], explored[part]
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
        return np.array(self._state.counts[kernels.PENDING])

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
        buffer = io.BytesIO()
        np.savez(buffer, header=np.array(json.dumps(header)), params=self._params, **self._state._asdict())
        return buffer.getvalue()

    # -- inside

    def _arm_of(self, decision: Decision | int) -> int:
        return as_arm(decision.arm if isinstance(decision, Decision) else decision, self.k)

    @contextmanager
    def _restricted(self, allowed: npt.ArrayLike | None) -> Iterator[None]:
        if allowed is None:
            yield
            return
        mask, run = as_mask(allowed, self.k), self._state.run
        self._state.counts[kernels.ALLOWED] = mask
        run["restricted"] = 1
        try:
            yield
        finally:
            self._state.counts[kernels.ALLOWED] = 1
            run["restricted"] = 0
        if run[0]["arm"] < 0:
            raise NoSafeArm(
                f"allowed must hold an arm that is safe to play, got {np.flatnonzero(mask).tolist()}: "
                f"the gate refused them all and none has a lower bound of at least {self.baseline:g}"
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


@contextmanager
def announced() -> Iterator[None]:
    """Say why nothing happens, if compiling takes long."""
    text = "linoto compiles its kernels, once per machine: this takes about twenty seconds"
    timer = threading.Timer(2.0, logger.warning, (text,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache
def warm_up() -> None:
    """Load (or, once per machine, compile) what deciding needs, on a problem of one arm."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        kernels.decide(params, state, -1)
        kernels.commit(params, state, 0)
        kernels.observe(params, state, 0, 0.0)
        kernels.update(params, state, 0, 0.0)


@cache
def warm_up_loop() -> None:
    """Load (or compile) the simulator's loop."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        one = np.zeros(1)
        kernels.play(
            params, state, one, one, False, np.empty((1, 0)), np.empty(1, np.int64), np.empty(1, np.bool_)
        )


def tiny_problem() -> tuple[Records, State]:
    """One arm, one feature, an empty log."""
    params = np.zeros(1, dtype=kernels.PARAMS)
    params["ridge"] = 1.0
    return params, kernels.allocate(np.ones((1, 1)), np.zeros(1, np.int64), np.zeros(1))
