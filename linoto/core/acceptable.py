"""What each arm does to the guardrails, as far as is known: an explorer proposes among those that may do.

Nothing is promised here: whatever is proposed, the gate and its coin decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints, Records
from linoto.core.guardrail import Guardrail
from linoto.core.kernels import Told

MOST_FEATURES = 256  # with more, an explorer is not told: a round would take longer than without guardrails


class Estimates:
    """A ridge estimate of every guardrail, as the difference to what was first thought of practice."""

    def __init__(self, guardrails: Sequence[Guardrail], d: int, ridge: float) -> None:
        self.ridge = ridge  # in the unit of squared features
        known = [np.mean(rail.limits) if rail.mean is None else rail.turn * rail.mean for rail in guardrails]
        m, limits = len(guardrails), np.zeros((6, len(guardrails)))
        limits[[kernels.LOW, kernels.HIGH]] = np.array([rail.limits for rail in guardrails]).T
        limits[kernels.START], limits[kernels.RATE] = known, [rail.rate for rail in guardrails]
        self.told = Told(
            limits=limits,
            inverse=np.repeat(np.eye(d)[None] / ridge, m, axis=0),
            theta=np.zeros((m, d)),
            scratch=np.zeros((2, d)),
            accepted=np.zeros(0, np.int64),
            variances=np.zeros(0),
        )
        self.is_known = False  # whether anything was told

    @property
    def d(self) -> int:
        """The number of features."""
        return int(self.told.theta.shape[1])

    def learn(self, action: Floats, place: int, value: float) -> None:
        """One value of a guardrail, O(d^2)."""
        kernels.told_learn(self.told, place, np.array(action), float(value))
        self.is_known = True

    @contextmanager
    def in_loop(self, most: int, *, same_arms: bool) -> Iterator[Told]:
        """What the kernels learn from for a while: every value of a round at once, of at `most` so many arms.

        Metrics that know the same plays have one V. With the `same_arms` in every round, what was known of an
        arm before may be enough to refuse it.
        """
        inverse = self.told.inverse
        shared = bool((inverse[1:] == inverse[0]).all())
        seen = np.full(most if same_arms else 0, np.inf)
        try:
            yield self.told._replace(accepted=np.zeros(most, np.int64), variances=seen, shared=int(shared))
        finally:
            if shared:
                inverse[1:] = inverse[0]
            self.is_known = True

    def grown(self, guardrails: Sequence[Guardrail], places: Ints, d: int) -> Estimates:
        """The same with d features: those known so far are at these places, of others nothing is known."""
        found = Estimates(guardrails, d, self.ridge)
        found.told.inverse[:, places[:, None], places] = self.told.inverse
        found.told.theta[:, places] = self.told.theta
        found.is_known = self.is_known
        return found

    def among(self, actions: Floats, weights: Floats, books: Records) -> Bools:
        """(k,) the actions (k, d) that may do no more harm than can be afforded; practice plays by weights.

        `books` have what of each guardrail may still be lost. What cannot be computed may be accepted.
        """
        rows, accepted = np.array(actions, order="C"), np.empty(len(actions), np.int64)
        kernels.told_compare(self.told, rows, np.array(weights, dtype=np.float64))
        kernels.told_accept(self.told, books, rows, accepted)
        return np.asarray(accepted == 1)
