"""What every contestant may use. It runs in the environments of the peers: NumPy, and nothing of ours."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class ImpossibleError(Exception):
    """A contestant cannot do this workload; the text says why."""


class Fixed(Protocol):
    """One running policy whose arms stay.

    It may also have `run(means, draws)`, a loop of its own; `fit(arms, rewards, features)`, which learns a
    whole log at once; and `learn(arm, reward)`, which learns one row of a log where that is not an update.
    """

    def decide(self) -> int:
        """The arm to play."""
        ...

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        ...


class Shared(Protocol):
    """One running policy with one parameter for all arms, whose arms may differ in every round."""

    def describe(self, actions: Floats) -> Any:
        """The arms (k, d) of a round in the form that the package reads."""
        ...

    def decide(self, arms: Any) -> int:
        """The arm to play."""
        ...

    def update(self, arms: Any, arm: int, reward: float) -> None:
        """Learn from one play."""
        ...


class OnTable(Protocol):
    """One running policy on a real table: rounds bring a context, and every arm has a model of its own."""

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Start from what practice played, what it earned, and how likely the plays were."""
        ...

    def decide(self, context: Floats, practice: Floats) -> int:
        """The arm to play; practice would draw one with these weights (k,)."""
        ...

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from the play that was just decided."""
        ...


class Staying:
    """A policy for arms that may differ, asked about the same arms in every round."""

    def __init__(self, policy: Shared, actions: Floats) -> None:
        self.policy, self.arms = policy, policy.describe(actions)

    def decide(self) -> int:
        """The arm to play."""
        return self.policy.decide(self.arms)

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.update(self.arms, arm, reward)


def constant_context(d: int) -> Floats:
    """(d,) the context of every round, for packages with a model per arm: of unit length, as an action is."""
    return np.full(d, d**-0.5)


def largest(scores: Any) -> int:
    """The first arm with the largest score."""
    return int(np.argmax(scores))
