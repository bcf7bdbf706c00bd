"""What each arm does to the guardrails, as far as is known: an explorer proposes among those that may do.

Nothing is promised here: whatever is proposed, the gate and its coin decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.guardrail import Guardrail

MOST_FEATURES = 256  # with more, an explorer is not told: a round would take longer than without guardrails
OPTIMISM = 1.5  # standard errors in favour of an arm
PATIENCE = 500  # rounds in which what may still be lost could be spent


class Estimates:
    """A ridge estimate of every guardrail, as the difference to what was first thought of practice."""

    def __init__(self, guardrails: Sequence[Guardrail], d: int, ridge: float = 1.0) -> None:
        self.ridge = ridge  # in the unit of squared features: the policy's, where it says one
        self.limits = np.array([rail.limits for rail in guardrails])  # (m, 2) more is better
        known = [np.mean(rail.limits) if rail.mean is None else rail.turn * rail.mean for rail in guardrails]
        self.start = np.array(known, dtype=np.float64)  # (m,)
        self.rates = np.array([rail.rate for rail in guardrails])
        self.inverse: Floats = np.repeat(np.eye(d)[None] / ridge, len(guardrails), axis=0)  # (m, d, d) of V
        self.sums: Floats = np.zeros((len(guardrails), d))
        self.is_told = False  # whether anything is known

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.sums.shape[1])

    def learn(self, action: Floats, place: int, value: float) -> None:
        """One value of a guardrail, O(d^2)."""
        inverse = self.inverse[place]
        step = inverse @ action
        inverse -= np.outer(step, step / (1.0 + action @ step))
        self.sums[place] += (value - self.start[place]) * action
        self.is_told = True

    def grown(self, places: Ints, d: int) -> Estimates:
        """The same with d features: those known so far are at these places, of others nothing is known."""
        found = copy(self)
        found.inverse, found.sums = (
            np.repeat(np.eye(d)[None] / self.ridge, len(self.sums), axis=0),
            np.zeros((len(self.sums), d)),
        )
        found.inverse[:, places[:, None], places] = self.inverse
        found.sums[:, places] = self.sums
        return found

    @np.errstate(over="ignore", invalid="ignore")
    def among(self, actions: Floats, practice: Floats, rooms: Floats) -> Bools:
        """(k,) the actions (k, d) that may do no more harm than can be afforded, compared with practice (d,).

        `rooms` (m,) are what of each guardrail may still be lost. What cannot be computed may be accepted.
        """
        found: Bools = np.ones(len(actions), np.bool_)
        for place, (low, high) in enumerate(self.limits):
            inverse = self.inverse[place]
            theta = inverse @ self.sums[place]
            means = actions @ theta
            variance = np.maximum(np.einsum("kd,kd->k", actions @ inverse, actions), 0.0)
            value = np.clip(self.start[place] + means, low, high)
            spread = (high - value) * (value - low) + (high - low) ** 2 * variance / 4
            gain = means - practice @ theta + OPTIMISM * np.sqrt(spread * variance)
            found &= (gain >= -self.slack(place, float(rooms[place]))) | ~np.isfinite(gain)
        return found

    def slack(self, place: int, room: float) -> float:
        """How much worse than practice an arm may be: what the rate brings, and the room in some rounds."""
        return float(self.rates[place] + max(room, 0.0) / PATIENCE)
