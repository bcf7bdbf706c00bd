"""Rounds that bring their own arms, in plain NumPy: slow, explicit, and sharing no code with what it checks.

The formulas of docs/contexts.md. Nothing is carried from round to round but the history itself: which actions
were played instead of which practice, and which of them earned what.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from helpers.reference import spreads_of

Floats = npt.NDArray[np.float64]


@dataclass(eq=False)
class ContextReference:
    """One agent, everything recomputed from scratch each round."""

    rows: Floats  # (m, d) of the log
    outcomes: Floats  # (m,)
    _: KW_ONLY
    explorer: str = "ucb"  # ucb | thompson | luck | greedy
    scale: float = 1.0
    gate: str = "open"  # open | closed | model
    fallback: str = "certified"  # certified | practice | lcb
    reach: str = "affordable"  # affordable | proposal
    budget: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.05
    ridge: float = 1.0
    noise: float = 1.0
    bound: float = 1.0
    whole_prior: bool = False  # thompson draws what is unknown of an arm as wide as before any reward
    played: list[Floats] = field(default_factory=list)  # of which the reward has come, and
    rewards: list[float] = field(default_factory=list)
    explored_plays: list[tuple[Floats, Floats]] = field(
        default_factory=list
    )  # plays outside practice, and b_s
    rounds: int = 0

    @property
    def d(self) -> int:
        return self.rows.shape[1]

    @property
    def V(self) -> Floats:
        X = np.vstack([self.rows, *self.played])
        return self.ridge * np.eye(self.d) + X.T @ X

    @property
    def theta(self) -> Floats:
        X, y = np.vstack([self.rows, *self.played]), np.append(self.outcomes, self.rewards)
        return np.linalg.solve(self.V, X.T @ y)

    @property
    def radius(self) -> float:
        """r, without what the ridge pulls."""
        ratio = np.linalg.slogdet(self.V)[1] - self.d * np.log(self.ridge)
        return self.noise * np.sqrt(2 * np.log(1 / self.delta) + ratio)

    def norm(self, x: Floats) -> float:
        return float(np.sqrt(x @ np.linalg.solve(self.V, x)))

    def least(self, y: Floats, shared: Floats, own: Floats) -> float:
        """A lower bound on <theta*, y>, y = shared + own, for all y at once."""
        pull = self.ridge * self.bound * np.linalg.norm(np.linalg.solve(self.V, shared))
        root = np.sqrt(self.ridge) * self.bound
        bias = min(root * self.norm(y), pull + root * self.norm(own))
        return float(self.theta @ y - self.radius * self.norm(y) - bias)

    def room(self, actions: Floats, practice: Floats) -> Floats:
        """(k,) what is left of the allowance if the arm is played and everything is as bad as it can be."""
        allowance = self.budget + self.epsilon * (self.rounds + 1)
        owed = sum((a - b for a, b in self.explored_plays), np.zeros(self.d)) - practice
        return np.array([allowance + self.least(owed + a, owed, a) for a in actions])

    def scores(self, actions: Floats, normals: Floats) -> Floats:
        if self.explorer == "greedy":
            return actions @ self.theta
        if self.explorer == "thompson":  # V = R'R
            drawn = np.linalg.solve(np.linalg.cholesky(self.V).T, normals)
            spreads: Any = self.scale * self.noise
            if self.whole_prior:
                variance = np.array([self.norm(a) ** 2 for a in actions])
                spreads = spreads_of(spreads, self.noise, self.ridge, actions, variance)
            return actions @ self.theta + spreads * (actions @ drawn)
        if self.explorer == "luck":
            variance = np.array([self.norm(a) ** 2 for a in actions])
            wide: Any = self.scale * self.noise
            if self.whole_prior:
                wide = spreads_of(wide, self.noise, self.ridge, actions, variance)
            return actions @ self.theta + abs(normals[0]) * wide * np.sqrt(variance)
        bonus = self.scale * (self.radius + np.sqrt(self.ridge) * self.bound)
        return np.array([a @ self.theta + bonus * self.norm(a) for a in actions])

    def safe(self, actions: Floats, practice: Floats) -> int | None:
        """The pessimistic arm, or None for practice."""
        if self.fallback == "practice":
            return None
        bonus = self.radius + np.sqrt(self.ridge) * self.bound
        arm = int(np.argmax([a @ self.theta - bonus * self.norm(a) for a in actions]))
        gap = actions[arm] - practice
        return arm if self.fallback == "lcb" or self.least(gap, gap, 0 * gap) >= 0 else None

    def decide(self, actions: Floats, practice: Floats, normals: Floats) -> tuple[int | None, bool, float]:
        """The arm (None: practice), whether it is explored, and the room of the arm that was asked about."""
        scores = self.scores(actions, normals)
        if self.gate == "open":
            return int(np.argmax(scores)), True, np.inf
        if self.gate == "closed":
            return self.safe(actions, practice), False, -np.inf
        room = self.room(actions, practice)
        favourite = int(np.argmax(scores))
        asked = np.arange(len(actions)) if self.reach == "affordable" else np.array([favourite])
        affordable = asked[room[asked] > 0]
        if affordable.size:
            arm = int(affordable[np.argmax(scores[affordable])])
            return arm, True, room[arm]
        return self.safe(actions, practice), False, room[favourite]

    def commit(self, action: Floats, practice: Floats, by_practice: bool) -> None:
        self.rounds += 1
        if not by_practice:
            self.explored_plays.append((action, practice))

    def observe(self, action: Floats, reward: float) -> None:
        self.played.append(action)
        self.rewards.append(reward)
