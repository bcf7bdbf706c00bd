"""Conservative gates in plain NumPy: every bound from the whole history, by the formulas of their papers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import linoto

Floats = npt.NDArray[np.float64]


@dataclass
class ConservativeReference:
    """CLUCB, CLUCB2 and CUCB with a log: rooms for every arm, from the definition."""

    actions: Floats  # (k, d)
    log: linoto.Offline
    confidence: linoto.Confidence
    alpha: float
    mean: float | None
    form: str
    fallback: str | int
    played: list[tuple[int, bool, float]] = field(
        default_factory=list
    )  # arm, whether a baseline play, reward

    @property
    def baseline(self) -> Floats:
        """(d,) the baseline's action."""
        if isinstance(self.fallback, int):
            return self.actions[self.fallback]
        return np.asarray(self.log.pulls @ self.actions / self.log.total)

    @property
    def explored(self) -> list[int]:
        return [arm for arm, is_baseline, _ in self.played if not is_baseline]

    def lower(self, y: Floats, sign: float = 1.0, arm: int | None = None) -> float:
        """The least <theta, y> over the self-normalised confidence set; with sign -1 the largest.

        The ridge's pull is bounded in the norm of V^-1 or along y, of an `arm` in y always in that norm.
        """
        d, c = self.actions.shape[1], self.confidence
        ridge = c.ridge_for(d)
        counts, sums = self.counts_and_sums()
        V = ridge * np.eye(d) + self.actions.T @ (counts[:, None] * self.actions)
        theta = np.linalg.solve(V, self.actions.T @ sums)
        growth = np.linalg.slogdet(V)[1] - d * np.log(ridge)
        own = np.zeros(d) if arm is None else self.actions[arm]
        width, own_width = (np.sqrt(x @ np.linalg.solve(V, x)) for x in (y, own))
        root = np.sqrt(ridge) * c.bound
        pull = ridge * c.bound * np.linalg.norm(np.linalg.solve(V, y - own)) + root * own_width
        radius = c.scale * np.sqrt(2 * np.log(1 / c.delta) + growth)
        return float(theta @ y - sign * (radius * width + min(root * width, pull)))

    def counts_and_sums(self) -> tuple[Floats, Floats]:
        counts, sums = self.log.pulls.astype(float), self.log.reward_sums.copy()
        for arm, _, reward in self.played:
            counts[arm] += 1
            sums[arm] += reward
        return counts, sums

    def room(self, arm: int) -> float:
        """What is proven to be left over if this arm is explored now."""
        t, q = len(self.played) + 1, len(self.explored)
        held = t - 1 - q
        if self.form == "arms":
            return self.room_by_arms(arm, t, held)
        b = self.baseline
        with_arm = self.actions[self.explored].sum(axis=0) + self.actions[arm]
        if self.mean is not None:  # CLUCB
            return self.lower(with_arm, arm=arm) + held * self.mean - (1 - self.alpha) * t * self.mean
        if self.form == "separate":  # CLUCB2
            saved = self.alpha * max(self.lower(held * b), 0.0)
            return (
                self.lower(with_arm, arm=arm) + saved - (1 - self.alpha) * self.lower((q + 1) * b, sign=-1.0)
            )
        return self.lower(with_arm + self.alpha * held * b - (1 - self.alpha) * (q + 1) * b, arm=arm)

    def room_by_arms(self, arm: int, t: int, held: int) -> float:  # CUCB
        counts, sums = self.counts_and_sums()
        low, high = self.confidence.reward_range or (0.0, 1.0)
        share = self.confidence.delta * (1.0 if self.mean is not None else 0.5)
        n = np.maximum(counts, 1)
        margin = self.confidence.scale * np.sqrt(2 * np.log(2 * len(n) * n * (n + 1) / share) / n)
        lower = np.where(counts > 0, np.maximum(sums / n - margin, low), low)
        upper = np.where(counts > 0, np.minimum(sums / n + margin, high), high)
        if isinstance(self.fallback, int):
            bounds = lower[self.fallback], upper[self.fallback]
        else:
            spread = self.confidence.scale * np.sqrt(2 * np.log(4 / self.confidence.delta) / self.log.total)
            middle = self.log.reward_sums.sum() / self.log.total
            bounds = np.clip(middle - spread, low, high), np.clip(middle + spread, low, high)
        left = held - (1 - self.alpha) * t
        worth = self.mean if self.mean is not None else bounds[0] if left >= 0 else bounds[1]
        known = self.mean is not None and arm == self.fallback
        asked = self.mean if known else lower[arm]
        return float(lower[self.explored].sum() + asked + left * worth)
