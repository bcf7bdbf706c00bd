"""What others may bring to rounds with contexts: the least that a policy and an agent must have."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.features.moments import Moments


class AgentInContexts(Protocol):
    """What a simulator needs of an agent whose rounds bring their own arms."""

    def decide(self, *, actions: Floats, practice: Floats) -> Any:
        """What to play of these arms (k, d), given practice's weights: it has an `arm`."""

    def update(self, decision: Any, reward: float) -> None:
        """Learn from the reward of a decision that was played."""


class PolicyForContexts(Protocol):
    """What a simulator needs of a policy: something that starts such an agent on a log."""

    def start_contextual(
        self,
        offline: Moments | None = None,
        *,
        d: int | None = None,
        rng: int | np.random.Generator = ...,
    ) -> AgentInContexts:
        """A running agent for d features."""


class ComposedForContexts(PolicyForContexts, Protocol):
    """A policy that is a composition with contexts too."""

    @property
    def needs_one_hot(self) -> bool: ...

    def composed_contextual(self) -> Any: ...
