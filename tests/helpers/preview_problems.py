"""Problems of every kind that people preview, and how often the truth lies in the band of a preview."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import linoto
from linoto.worlds.flights import LOGGED, PRACTICE, load
from linoto.worlds.preview import grid_of

SHARE = 3  # the place of a tenth of what the log earns in the usual grid


class Problem(NamedTuple):
    """The truth, the log it wrote, and what its owner assumes."""

    bandit: Any
    log: linoto.Offline
    confidence: linoto.Confidence


@dataclass(frozen=True, kw_only=True, eq=False)
class Shop(linoto.Bandit):
    """One visitor in twenty buys, and how much has a heavy tail: an arm changes all amounts in proportion."""

    def draw(self, rounds: int, rng: np.random.Generator) -> np.ndarray:
        amounts = np.exp(1.2 * rng.standard_normal(rounds) - 0.72)  # mean 1
        return np.where(rng.random(rounds) < 0.05, amounts / 0.05, 0.0) - 1


def clicks(rate: float, rng: np.random.Generator) -> Problem:
    """Unrelated arms whose rates differ by 15 to 120 % of the rate, pulled unevenly."""
    k, rows = int(rng.choice([10, 30])), int(rng.choice([3000, 8000, 20_000]))
    differ = np.exp(rng.uniform(np.log(0.15), np.log(1.2)))
    means = np.clip(rate * rng.gamma(1 / differ**2, differ**2, k), 0, 1)
    bandit = linoto.Bandit(actions=np.eye(k), means=means, rewards="bernoulli")
    log = bandit.log(rng.multinomial(rows, rng.dirichlet(np.full(k, 2.0))), rng)
    return Problem(bandit, log, linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0))


def prices(rng: np.random.Generator) -> Problem:
    """Sales with a heavy tail, at prices whose mean revenues differ by 10 to 50 %."""
    k, rows = int(rng.choice([8, 20])), int(rng.choice([2000, 10_000]))
    means = 2 * np.exp(rng.uniform(0.1, 0.5) * rng.standard_normal(k))
    bandit = Shop(actions=np.eye(k), means=means, spread=means)
    log = bandit.log(rng.multinomial(rows, rng.dirichlet(np.full(k, 3.0))), rng)
    squares, freedom = log.within_arms()
    noise = 1.5 * float(np.sqrt(squares / freedom))
    return Problem(bandit, log, linoto.Confidence(noise=noise, reward_range=(0, 20), bound=30.0))


def paper(m: int, rng: np.random.Generator) -> Problem:
    """The paper's instances with m logged rewards."""
    bandit = linoto.sphere_bandit(rng=rng)
    return Problem(bandit, bandit.log(linoto.logged_pulls(bandit, m=m, rng=rng), rng), linoto.Confidence())


def flights(rng: np.random.Generator) -> Problem:
    """60 of the arms; the twelve most punctual in January are booked, at the rates of April to December."""
    data = load()
    arms = np.sort(rng.choice(len(data.names), 60, replace=False))
    counts, on_time = data.counts[arms], data.on_time[arms]
    booked = np.argsort(-on_time[:, 0] / np.maximum(counts[:, 0], 1), kind="stable")[:PRACTICE]
    pulls = np.zeros(arms.size, dtype=np.int64)
    pulls[booked] = counts[booked, LOGGED].sum(axis=1)
    bandit = linoto.Bandit(actions=data.actions[arms], means=data.bandit.means[arms], rewards="bernoulli")
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1), bound=2.0)
    return Problem(bandit, bandit.log(pulls, rng), confidence)


KINDS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "clicks, 0.4 %": lambda rng: clicks(0.004, rng),
    "clicks, 4 %": lambda rng: clicks(0.04, rng),
    "prices, heavy tail": prices,
    "the paper's, 100 logged rewards": lambda rng: paper(100, rng),
    "the paper's, 500 logged rewards": lambda rng: paper(500, rng),
    "flights, resampled": flights,
}


class Foretold(NamedTuple):
    """The band of a preview and what happened."""

    low: float
    truth: float
    high: float

    @property
    def right(self) -> bool:
        return self.low <= self.truth <= self.high


def foretell(kind: str, seed: int, *, horizon: int, worlds: int) -> Foretold:
    """Preview a problem with a budget of a tenth of what the log earns, then play it in the truth."""
    problem = KINDS[kind](np.random.default_rng([seed, 7]))
    policy = linoto.Gated(gate=linoto.Tolerance(budget=1.0), confidence=problem.confidence)
    policy = policy.with_parameter("budget", grid_of(policy, problem.log, horizon)[SHARE])
    actions, budget = problem.bandit.actions, policy.gate.budget  # type: ignore[attr-defined]
    shown = linoto.preview(
        actions, problem.log, policy=policy, grid=[budget], horizon=horizon, worlds=worlds, seed=seed
    )
    row = shown.table()[0]
    run = linoto.simulate(policy, problem.bandit, problem.log, horizon=horizon, seed=seed)
    low, high = row["gain_10"], row["gain_90"]
    assert low is not None and high is not None
    return Foretold(low, -float(run.offline_regret[-1]), high)
