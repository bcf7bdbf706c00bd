"""river: LinUCB with a Bayesian linear regression for each arm."""

from __future__ import annotations

from common import Floats, Ints, constant_context
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


class OnTable:
    """A context is a dictionary; the policy learns row by row."""

    def __init__(self, k: int, seed: int, alpha: float, beta: float) -> None:
        self.policy, self.arms = LinUCBDisjoint(alpha=alpha, beta=beta, seed=seed), list(range(k))

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Learn row by row; a policy must have been asked once."""
        self.policy.pull(self.arms, dict(enumerate(contexts[0].tolist())))
        for context, arm, reward in zip(contexts, arms, rewards, strict=True):
            self.policy.update(int(arm), dict(enumerate(context.tolist())), float(reward))

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play."""
        self.context = dict(enumerate(context.tolist()))
        return int(self.policy.pull(self.arms, self.context))

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.update(arm, self.context, reward)


def table(_: str, settings: dict[str, float], k: int, p: int, seed: int) -> OnTable:
    return OnTable(k, seed, settings.get("alpha", 1.0), settings.get("beta", 1.0))
