"""river: LinUCB with a Bayesian linear regression for each arm."""

from __future__ import annotations

from common import Floats, constant_context
from river.bandit import LinUCBDisjoint

WITHOUT = {"contextual": "no features of arms: a model per arm"}


class ModelPerArm:
    """All arms see the same context, a dictionary."""

    def __init__(self, k: int, d: int) -> None:
        self.policy = LinUCBDisjoint(alpha=1.0, beta=1.0, seed=0)
        self.arms, self.context = list(range(k)), dict(enumerate(constant_context(d).tolist()))

    def decide(self) -> int:
        """The arm to play."""
        return int(self.policy.pull(self.arms, self.context))

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.update(arm, self.context, reward)


def fixed(_: str, actions: Floats) -> ModelPerArm:
    return ModelPerArm(*actions.shape)
