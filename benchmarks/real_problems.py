"""A real table as a bandit with contexts: practice of a stated quality, its log, and the rounds to play."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from real_tables import Floats, Ints, Rows

LOGGED, ROUNDS = 1_000, 1_500


@dataclass(frozen=True)
class Practice:
    """What is done today: least squares on a few rows of each class, and now and then any arm at all."""

    taught: int  # rows of each class that it learnt from
    uniform: float  # the share of its plays that is drawn from all arms alike


PRACTICES = {
    "poor": Practice(taught=1, uniform=0.5),
    "mediocre": Practice(taught=4, uniform=0.2),
    "good": Practice(taught=30, uniform=0.05),
}


@dataclass(frozen=True)
class Problem:
    """One run: a log of practice, and rounds with what every arm would pay in them."""

    log_contexts: Floats  # (m, p) a constant and the columns of a row, standardised
    log_arms: Ints  # (m,) drawn by practice
    log_rewards: Floats  # (m,)
    log_chances: Floats  # (m,) how likely practice was to play them
    contexts: Floats  # (n, p)
    paid: Floats  # (n, k) the reward of each arm
    practice: Floats  # (n, k) practice's weights

    def save(self, file: Path) -> None:
        """For workers in other environments."""
        np.savez(file, **vars(self))  # type: ignore[arg-type]


def standardised(features: Floats) -> Floats:
    """(n, p) a constant, and every column that varies with mean 0 and deviation 1."""
    spread = features.std(axis=0)
    varying = features[:, spread > 0]
    around = (varying - varying.mean(axis=0)) / spread[spread > 0]
    return np.column_stack([np.ones(len(features)), around])


def weights_of(practice: Practice, contexts: Floats, right: Ints, rng: np.random.Generator) -> Floats:
    """(n, k) with which weights practice plays the arms of each row."""
    k = int(right.max()) + 1
    order = rng.permutation(len(right))
    few = np.concatenate([order[right[order] == label][: practice.taught] for label in range(k)])
    x, wanted = contexts[few], np.eye(k)[right[few]]
    fitted = np.linalg.solve(x.T @ x + np.eye(x.shape[1]), x.T @ wanted)
    best = (contexts @ fitted).argmax(axis=1)
    return np.asarray((1 - practice.uniform) * np.eye(k)[best] + practice.uniform / k)


def problem_of(
    rows: Rows, practice: Practice, seed: int, *, logged: int = LOGGED, rounds: int = ROUNDS
) -> Problem:
    """The run with this seed: rows are drawn with replacement, for the log and for the rounds."""
    rng = np.random.default_rng([seed, 24])
    contexts, right = standardised(rows.features), rows.right
    weights = weights_of(practice, contexts, right, rng)
    drawn = rng.integers(len(right), size=logged + rounds)
    early, late = drawn[:logged], drawn[logged:]
    ends = weights[early].cumsum(axis=1)
    arms = np.asarray((rng.random(logged)[:, None] * ends[:, -1:] > ends).sum(axis=1), dtype=np.int64)
    return Problem(
        log_contexts=contexts[early],
        log_arms=arms,
        log_rewards=(right[early] == arms).astype(np.float64),
        log_chances=weights[early, arms],
        contexts=contexts[late],
        paid=np.eye(weights.shape[1])[right[late]],
        practice=weights[late],
    )
