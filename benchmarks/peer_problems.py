"""The problems that everybody gets, as files of arrays: no contestant needs our code to read them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import linoto


@dataclass(frozen=True)
class Sizes:
    """How large everything is. `quick` sizes only show that everything works."""

    run: tuple[int, int, int] = (100, 20, 8000)  # k, d, n
    decide: tuple[tuple[int, int], ...] = ((100, 20), (10_000, 50), (100_000, 100))  # k, d
    warm: tuple[int, int, int] = (100, 20, 1_000_000)  # k, d, rows
    contexts: tuple[int, int, int] = (10, 10, 2000)  # k, d, n
    own: tuple[tuple[int, int], ...] = ((10, 13), (10, 65), (50, 20), (100, 10))  # k, p
    turns: int = 5
    runs: int = 10  # with contexts: a turn is a run of its own

    def as_dict(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


QUICK = Sizes(
    run=(20, 5, 200),
    decide=((20, 5), (200, 10), (1000, 20)),
    warm=(20, 5, 10_000),
    contexts=(5, 5, 200),
    own=((4, 3), (8, 9)),
    turns=3,
    runs=3,
)


def fixed_arms(k: int, d: int, n: int, file: Path) -> None:
    """Arms and parameter uniform on the unit sphere, as many draws of noise as rounds."""
    rng = np.random.default_rng(0)
    bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
    np.savez(file, actions=bandit.actions, means=bandit.means, draws=bandit.draw(n, rng))


def logged_rows(k: int, d: int, rows: int, file: Path) -> None:
    """The same arms, and a log in which each was played about equally often."""
    rng = np.random.default_rng(0)
    bandit = linoto.sphere_bandit(k=k, d=d, rng=rng)
    arms = rng.integers(k, size=rows)
    rewards = bandit.means[arms] + bandit.draw(rows, rng)
    np.savez(file, actions=bandit.actions, arms=arms, rewards=rewards)


def contexts_of_models(k: int, p: int, n: int, file: Path) -> None:
    """Contexts of p numbers, of which the first is 1; every arm has a model of its own."""
    contexts = np.random.default_rng(0).normal(size=(n, p)) / np.sqrt(p)
    contexts[:, 0] = 1.0
    np.savez(file, contexts=contexts, k=k)


def rounds_with_contexts(k: int, d: int, n: int, runs: int, file: Path) -> None:
    """Clicks on k arms that are new in every round; the same uniforms decide the clicks of everybody."""
    actions, means = np.empty((runs, n, k, d)), np.empty((runs, n, k))
    for run in range(runs):
        world = linoto.ContextualBandit.synthetic(k=k, d=d, rng=run, rewards="bernoulli")
        drawn = world.rounds(n, np.random.default_rng([1, run]))
        actions[run], means[run] = drawn.actions.reshape(n, k, d), drawn.means.reshape(n, k)
    uniforms = np.random.default_rng(2).random((runs, n))
    np.savez(file, actions=actions, means=means, uniforms=uniforms)
