"""What others may bring: the least that a policy, an agent and a composition must have."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.certificates import Certificate
from linoto.core.confidence import Confidence, Ellipsoid
from linoto.core.decisions import Decision
from linoto.core.gates import Gate
from linoto.core.offline import Offline


class Agent(Protocol):
    """What a simulator needs of an agent: any object with these two methods will do."""

    def select(self) -> int:
        """The arm to play."""

    def update(self, arm: int, reward: float) -> None:
        """Learn from the reward of an arm that was played."""


class Policy(Protocol):
    """What a simulator needs of a policy: something that starts an agent on arms and a log."""

    def start(self, actions: npt.ArrayLike, offline: Offline, rng: int | np.random.Generator = ...) -> Agent:
        """A running agent for these arms (k, d) and this log."""


class FullAgent(Protocol):
    """What an agent may have beyond the two methods: ask with `hasattr` first, where it may be another's."""

    theta: Floats  # (d,)
    lcb: Floats  # (k,)
    ucb: Floats  # (k,)
    ellipsoid: Ellipsoid
    rounds: int

    def select(self, allowed: npt.ArrayLike | None = None) -> int: ...

    def update(self, decision: Decision | int, reward: float) -> None: ...

    def decide(self, allowed: npt.ArrayLike | None = None) -> Decision: ...

    def guard(self, arm: int, allowed: npt.ArrayLike | None = None) -> Decision: ...

    def commit(self, decision: Decision | int) -> None: ...

    def observe(self, decision: Decision | int, reward: float) -> None: ...

    def play(self, means: Floats, draws: Floats, **rewards: Any) -> tuple[Ints, Bools]: ...

    def snapshot(self) -> bytes: ...


class PolicyWithPromise(Policy, Protocol):
    """A policy that says what it promises."""

    def certificate(self, actions: npt.ArrayLike, offline: Offline) -> Certificate: ...


class Composition(Protocol):
    """The parts that a linear agent asks about themselves: `linoto.Gated` is one."""

    @property
    def explorer(self) -> Any: ...

    @property
    def gate(self) -> Gate: ...

    @property
    def fallback(self) -> str | int: ...

    @property
    def reach(self) -> str: ...

    @property
    def assumed(self) -> Confidence: ...

    def params(self, actions: Floats, offline: Offline) -> Records: ...

    def resolved_fallback(self) -> str | int: ...


@runtime_checkable
class ComposedPolicy(PolicyWithPromise, Protocol):
    """A policy that is a composition, and whose gate has parameters to vary."""

    def composed(self) -> Composition: ...

    def with_parameter(self, name: str, value: float) -> ComposedPolicy: ...
