"""contextualbandits: LinUCB with a model for each arm."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Floats, Ints, constant_context
from contextualbandits.online import LinTS, LinUCB

WITHOUT = {"contextual": "no features of arms: a model per arm"}


class ModelPerArm:
    """All arms see the same context."""

    def __init__(self, k: int, d: int) -> None:
        self.policy = LinUCB(k, alpha=1.0, lambda_=1.0, fit_intercept=False, random_state=1, njobs=1)
        self.context = constant_context(d)[None]

    def decide(self) -> int:
        """The arm to play."""
        return int(self.policy.predict(self.context)[0])

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.partial_fit(self.context, np.array([arm]), np.array([reward]))

    def fit(self, arms: Ints, rewards: Floats, features: Floats) -> None:
        """Learn a log at once."""
        self.policy.fit(features, arms, rewards)


def fixed(_: str, actions: Floats) -> ModelPerArm:
    return ModelPerArm(*actions.shape)


class OnTable:
    """The package as its documentation shows it; a context has its constant."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Learn a log at once."""
        self.policy.fit(contexts, arms, rewards)

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play."""
        return int(self.policy.predict(context[None])[0])

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.partial_fit(context[None], np.array([arm]), np.array([reward]))


def table(policy: str, settings: dict[str, Any], k: int, p: int, seed: int) -> OnTable:
    kind = {"LinUCB": LinUCB, "LinTS": LinTS}[policy]
    return OnTable(kind(k, fit_intercept=False, random_state=seed + 1, njobs=1, **settings))
