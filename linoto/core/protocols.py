"""What others may bring: the least that a policy, an agent and a composition must have."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from linoto.core.confidence import Confidence
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

    def start(self, actions: npt.ArrayLike, offline: Offline, rng: int | np.random.Generator = 0) -> Agent:
        """A running agent for these arms (k, d) and this log."""


class Composition(Protocol):
    """The parts that a linear agent asks about themselves: `linoto.Gated` is one."""

    @property
    def explorer(self) -> Any: ...

    @property
    def gate(self) -> Gate: ...

    @property
    def assumed(self) -> Confidence: ...
