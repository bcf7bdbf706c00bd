"""mabwiser: LinUCB with a model for each arm; or one model, whose contexts are the arms."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Fixed, Floats, Ints, Staying, constant_context, largest
from mabwiser.mab import MAB, LearningPolicy


def started(k: int, d: int) -> Any:
    """A bandit that may be updated: it must be fitted first, here on rows of zeros."""
    bandit = MAB(list(range(k)), LearningPolicy.LinUCB(alpha=1.0, l2_lambda=1.0))
    bandit.fit([0], [0.0], np.zeros((1, d)))
    return bandit


class OneModel:
    """A single arm of the package, asked for the scores of our arms as so many contexts."""

    def __init__(self, d: int) -> None:
        self.bandit = started(1, d)

    def describe(self, actions: Floats) -> Floats:
        """The arms as they are."""
        return actions

    def decide(self, actions: Floats) -> int:
        """The arm with the largest score."""
        return largest([scores[0] for scores in self.bandit.predict_expectations(actions)])

    def update(self, actions: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.bandit.partial_fit([0], [reward], actions[arm : arm + 1])


class FixedOneModel(Staying):
    """The same on arms that stay."""

    def fit(self, arms: Ints, rewards: Floats, features: Floats) -> None:
        """Learn a log at once."""
        self.policy.bandit.fit(np.zeros(len(arms), dtype=np.int64), rewards, features)  # type: ignore[attr-defined]


class ModelPerArm:
    """The package as its documentation shows it."""

    def __init__(self, k: int, d: int) -> None:
        self.bandit, self.context = started(k, d), constant_context(d)[None]

    def decide(self) -> int:
        """The arm to play."""
        return int(self.bandit.predict(self.context))

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.bandit.partial_fit([arm], [reward], self.context)

    def fit(self, arms: Ints, rewards: Floats, features: Floats) -> None:
        """Learn a log at once."""
        self.bandit.fit(arms, rewards, features)


def fixed(policy: str, actions: Floats) -> Fixed:
    k, d = actions.shape
    return FixedOneModel(OneModel(d), actions) if policy == "LinUCB, one model" else ModelPerArm(k, d)


def contextual(policy: str, k: int, d: int) -> OneModel:
    return OneModel(d)


class OnTable:
    """The package as its documentation shows it, with contexts that differ."""

    def __init__(self, policy: Any, k: int, seed: int) -> None:
        self.bandit = MAB(list(range(k)), policy, seed=seed)

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Learn a log at once."""
        self.bandit.fit(arms, rewards, contexts)

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play."""
        return int(self.bandit.predict(context[None]))

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.bandit.partial_fit([arm], [reward], context[None])


def table(policy: str, settings: dict[str, float], k: int, p: int, seed: int) -> OnTable:
    return OnTable(getattr(LearningPolicy, policy)(**settings), k, seed)
