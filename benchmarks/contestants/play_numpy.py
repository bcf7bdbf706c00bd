"""The reference of every ratio: LinUCB in NumPy, with Sherman–Morrison and one matrix product a round."""

from __future__ import annotations

import numpy as np
from common import Fixed, Floats, Ints, largest

REFRESH_EVERY = 512  # updates: the inverse anew, so that rounding errors do not grow


class LinUCB:
    """Ridge 1, radius 1; all arms share one parameter."""

    def __init__(self, d: int) -> None:
        self.V, self.inverse, self.b, self.count = np.eye(d), np.eye(d), np.zeros(d), 0

    def describe(self, actions: Floats) -> Floats:
        """The arms as they are."""
        return actions

    def decide(self, actions: Floats) -> int:
        """The arm with the largest upper bound."""
        widths = np.sqrt(np.einsum("ij,ij->i", actions @ self.inverse, actions))
        return largest(actions @ (self.inverse @ self.b) + widths)

    def update(self, actions: Floats, arm: int, reward: float) -> None:
        """One rank-one step."""
        x = actions[arm]
        step = self.inverse @ x
        self.V += np.outer(x, x)
        self.b += reward * x
        self.count += 1
        if self.count % REFRESH_EVERY == 0:
            self.inverse = np.linalg.inv(self.V)
        else:
            self.inverse -= np.outer(step, step / (1 + x @ step))


class FixedLinUCB:
    """The same on arms that stay, which can also count a log."""

    def __init__(self, actions: Floats) -> None:
        self.actions, self.policy = actions, LinUCB(actions.shape[1])

    def decide(self) -> int:
        """The arm to play."""
        return self.policy.decide(self.actions)

    def update(self, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.policy.update(self.actions, arm, reward)

    def fit(self, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Pulls and sums of each arm are all that a log says."""
        k, policy = len(self.actions), self.policy
        pulls, sums = np.bincount(arms, minlength=k), np.bincount(arms, weights=rewards, minlength=k)
        policy.V += self.actions.T @ (pulls[:, None] * self.actions)
        policy.b += self.actions.T @ sums
        policy.inverse = np.linalg.inv(policy.V)


def fixed(_: str, actions: Floats) -> Fixed:
    return FixedLinUCB(actions)


def contextual(_: str, k: int, d: int) -> LinUCB:
    return LinUCB(d)
