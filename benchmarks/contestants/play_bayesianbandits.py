"""bayesianbandits: Thompson sampling and an upper quantile, with one normal regression for all arms."""

from __future__ import annotations

from typing import Any

import numpy as np
from bayesianbandits import (
    Arm,
    ArmFeaturizer,
    ContextualAgent,
    LipschitzContextualAgent,
    NormalRegressor,
    ThompsonSampling,
    UpperConfidenceBound,
)
from common import Fixed, Floats, Ints, Staying

POLICIES = {  # and the precision of the noise
    "ThompsonSampling": (ThompsonSampling, 1.0),
    "ThompsonSampling, noise 0.5": (ThompsonSampling, 4.0),
    "UpperConfidenceBound": (UpperConfidenceBound, 1.0),
}


class ArmsOfTheRound(ArmFeaturizer):  # type: ignore[misc]
    """The context of a round is the table of its arms, (1, k, d); an arm is a row of it."""

    def transform(self, X: Any, *, action_tokens: Any) -> Floats:
        """The rows of these arms."""
        table: Floats = X[0]
        return table if len(action_tokens) == len(table) else table[list(action_tokens)]


class Agent:
    """One agent whose rounds bring their own arms."""

    def __init__(self, policy: str, k: int) -> None:
        rule, precision = POLICIES[policy]
        self.agent = LipschitzContextualAgent(
            arms=[Arm(arm, learner=None) for arm in range(k)],
            policy=rule(),
            arm_featurizer=ArmsOfTheRound(),
            learner=NormalRegressor(alpha=1.0, beta=precision),
            random_seed=0,
        )

    def describe(self, actions: Floats) -> Floats:
        """One context."""
        return actions[None]

    def decide(self, context: Floats) -> int:
        """The arm to play; the agent keeps it for the update."""
        return int(self.agent.pull(context)[0])

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.agent.update(context, np.array([reward]))


class FixedAgent(Staying):
    """The same on arms that stay."""

    def fit(self, _: Ints, rewards: Floats, features: Floats) -> None:
        """Learn a log at once."""
        policy: Any = self.policy
        policy.agent.learner.partial_fit(features, rewards)


def fixed(policy: str, actions: Floats) -> Fixed:
    return FixedAgent(Agent(policy, len(actions)), actions)


def contextual(policy: str, k: int, d: int) -> Agent:
    return Agent(policy, k)


class OnTable:
    """One normal regression for each arm."""

    def __init__(self, policy: str, k: int, seed: int, noise: float, precision: float) -> None:
        rule = {"ThompsonSampling": ThompsonSampling, "UpperConfidenceBound": UpperConfidenceBound}[policy]
        learners = (NormalRegressor(alpha=precision, beta=noise**-2) for _ in range(k))
        arms = [Arm(arm, learner=learner) for arm, learner in enumerate(learners)]
        self.agent = ContextualAgent(arms=arms, policy=rule(), random_seed=seed)

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Learn the rows of each arm at once."""
        for arm in np.unique(arms):
            rows = arms == arm
            self.agent.select_for_update(int(arm)).update(contexts[rows], rewards[rows])

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play; the agent keeps it for the update."""
        return int(self.agent.pull(context[None])[0])

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.agent.select_for_update(arm).update(context[None], np.array([reward]))


def table(policy: str, settings: dict[str, float], k: int, p: int, seed: int) -> OnTable:
    return OnTable(policy, k, seed, settings.get("noise", 1.0), settings.get("precision", 1.0))
