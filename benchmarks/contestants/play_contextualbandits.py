"""contextualbandits: LinUCB with a model for each arm."""

from __future__ import annotations

import numpy as np
from common import Floats, Ints, constant_context
from contextualbandits.online import LinUCB

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
