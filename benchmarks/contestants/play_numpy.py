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


class RidgePerArm:
    """LinUCB with a model for each arm: alpha 0 is greedy. Or Thompson sampling, if there is what draws.

    Models of different arms know nothing of each other, so one number for each arm is a draw from all.
    """

    def __init__(
        self, k: int, p: int, alpha: float, ridge: float, draws: np.random.Generator | None = None
    ) -> None:
        self.alpha, self.ridge, self.draws = alpha, ridge, draws
        self.V, self.b = np.tile(ridge * np.eye(p), (k, 1, 1)), np.zeros((k, p))
        self.refresh()

    def refresh(self) -> None:
        """Inverses and estimates anew."""
        self.inverse = np.linalg.inv(self.V)
        self.theta = np.einsum("kij,kj->ki", self.inverse, self.b)

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, _: Floats) -> None:
        """Sums of each arm."""
        for arm in range(len(self.b)):
            rows = contexts[arms == arm]
            self.V[arm] += rows.T @ rows
            self.b[arm] += rows.T @ rewards[arms == arm]
        self.refresh()

    def decide(self, context: Floats, _: Floats) -> int:
        """The arm with the largest upper bound, or the best of a draw."""
        widths = np.sqrt(self.inverse @ context @ context)
        if self.draws is not None:
            widths *= self.draws.standard_normal(len(widths))
        return largest(self.theta @ context + self.alpha * widths)

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """One rank-one step."""
        step = self.inverse[arm] @ context
        self.inverse[arm] -= np.outer(step, step / (1 + context @ step))
        self.b[arm] += reward * context
        self.theta[arm] = self.inverse[arm] @ self.b[arm]


def table(policy: str, settings: dict[str, float], k: int, p: int, seed: int) -> RidgePerArm:
    draws = np.random.default_rng(seed) if policy == "LinTS" else None
    return RidgePerArm(k, p, settings.get("alpha", 1.0), settings.get("ridge", 1.0), draws)
