"""LinOtO and LinUCB as one would write them in NumPy: Sherman–Morrison, and every width anew each round."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import linoto

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Variances = Callable[[Floats, Floats], Floats]

REFRESH_EVERY = (
    512  # rounds; without it, at ridge 1e-4, drift changes the arms after some 2000 to 5000 rounds
)


def by_einsum(actions: Floats, inverse: Floats) -> Floats:
    """(k,) squared norms of the actions (k, d) in V^-1, as one expression."""
    return np.asarray(np.einsum("ij,jk,ik->i", actions, inverse, actions))


def by_gemm(actions: Floats, inverse: Floats) -> Floats:
    """The same by one matrix product: what a large arm set calls for. The fastest we know in NumPy."""
    return np.asarray(np.einsum("ij,ij->i", actions @ inverse, actions))


def by_gemm_and_sum(actions: Floats, inverse: Floats) -> Floats:
    """The same as it is more often written: one more array of the size of the actions."""
    return np.asarray(((actions @ inverse) * actions).sum(axis=1))


class NumpyAgent:
    """Algorithm 1 (`gated`) or LinUCB with the same radius, one select and one update per round."""

    def __init__(
        self,
        actions: Floats,  # (k, d)
        offline: linoto.Offline,
        *,
        gated: bool = True,
        variances: Variances = by_einsum,
        alpha: float = 1e-4,
        delta: float = 0.05,
        ridge: float = 1e-4,
    ) -> None:
        k, d = actions.shape
        self.actions, self.gated, self.variances, self.tail = actions, gated, variances, np.log(2 / delta)
        self.V = actions.T @ (offline.pulls[:, None] * actions) + ridge * np.eye(d)
        self.inverse = np.linalg.inv(self.V)
        self.b = actions.T @ offline.reward_sums
        self.growth = 0.0  # log det V_t / det V_0
        self.rounds = 0
        self.plays = np.zeros(k)
        self.lcb = np.full(k, -np.inf)
        self.offline_radius = np.sqrt(8 * d * np.log(6) + 8 * self.tail)  # Proposition 1
        self.measure(self.offline_radius)  # beta_1 = 0
        slack = np.sqrt(d / offline.total) * self.offline_radius
        self.baseline = self.lcb.max() - alpha * slack  # eq. (4)

    def measure(self, radius: float) -> None:
        """Both bounds of every arm, eq. (3)."""
        mean = self.actions @ (self.inverse @ self.b)
        bonus = radius * np.sqrt(self.variances(self.actions, self.inverse))
        self.ucb = mean + bonus
        np.maximum(self.lcb, mean - bonus, out=self.lcb)

    def select(self) -> int:
        """U_t if the budget of eq. (5) is positive, else L_t."""
        optimistic = int(self.ucb.argmax())
        if not self.gated:
            return optimistic
        budget = self.plays @ self.lcb + self.lcb[optimistic] - (self.rounds + 1) * self.baseline
        return optimistic if budget > 0 else int(self.lcb.argmax())

    def update(self, arm: int, reward: float) -> None:
        """Count a play and its reward."""
        x = self.actions[arm]
        step = self.inverse @ x
        growth = 1 + x @ step
        self.V += np.outer(x, x)
        self.b += reward * x
        self.plays[arm] += 1
        self.rounds += 1
        self.growth += np.log(growth)
        if self.rounds % REFRESH_EVERY == 0:
            self.inverse = np.linalg.inv(self.V)
        else:
            self.inverse -= np.outer(step, step / growth)
        self.measure(self.offline_radius + np.sqrt(2 * self.tail + self.growth))


def play(agent: linoto.Agent, means: Floats, draws: Floats) -> Ints:
    """(n,) the arms of as many rounds, one select and one update each; reward t is means[arm] + draws[t]."""
    arms = np.empty(draws.size, dtype=np.int64)
    for t, reward in enumerate(draws.tolist()):
        arm = arms[t] = agent.select()
        agent.update(arm, float(means[arm]) + reward)
    return arms
