"""coba: LinUCB and LinTS on the features of the arms, with one parameter for all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from coba.learners import LinTSLearner, LinUCBLearner
from common import Floats, Ints, Staying


class Arms(NamedTuple):
    """The arms as coba takes them, and the place of each."""

    actions: list[list[float]]
    places: dict[int, int]


class Learner:
    """A learner without a context: the features of an arm are those of its action."""

    def __init__(self, policy: str) -> None:
        self.learner = {"LinUCB": LinUCBLearner, "LinTS": LinTSLearner}[policy](features=["a"])

    def describe(self, actions: Floats) -> Arms:
        """Lists of numbers."""
        rows = actions.tolist()
        return Arms(rows, {id(row): place for place, row in enumerate(rows)})

    def decide(self, arms: Arms) -> int:
        """The arm to play."""
        action, self.probability = self.learner.predict(None, arms.actions)
        return arms.places[id(action)]

    def update(self, arms: Arms, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.learner.learn(None, arms.actions[arm], reward, self.probability)


class FixedLearner(Staying):
    """The same on arms that stay."""

    def learn(self, arm: int, reward: float) -> None:
        """Learn one row of a log."""
        learner: Any = self.policy
        learner.learner.learn(None, self.arms.actions[arm], reward, 1.0)


def fixed(policy: str, actions: Floats) -> FixedLearner:
    return FixedLearner(Learner(policy), actions)


def contextual(policy: str, k: int, d: int) -> Learner:
    return Learner(policy)


class OnTable:
    """Arms are one-hot, and crossed with the context."""

    def __init__(self, learner: Any, k: int) -> None:
        self.learner = learner
        self.arms = [tuple(int(arm == place) for place in range(k)) for arm in range(k)]

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Learn row by row."""
        self.learner.predict(contexts[0].tolist(), self.arms)
        for context, arm, reward, chance in zip(contexts, arms, rewards, chances, strict=True):
            self.learner.learn(context.tolist(), self.arms[arm], float(reward), float(chance))

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm to play."""
        action, self.probability = self.learner.predict(context.tolist(), self.arms)
        return self.arms.index(tuple(action))

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.learner.learn(context.tolist(), self.arms[arm], reward, self.probability)


def table(policy: str, settings: dict[str, Any], k: int, p: int, seed: int) -> OnTable:
    kind = {"LinUCB": LinUCBLearner, "LinTS": LinTSLearner}[policy]
    return OnTable(kind(features=["ax"], seed=seed, **settings), k)
