"""Worlds whose truth is known, to count the alarms of the audit's tests: false ones, and true ones.

A world is a function of a generator that says whether a test raised an alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linoto.audit.adaptive import SHARE_LEVEL, share_p
from linoto.audit.drift import find_drift
from linoto.audit.fit import lack_of_fit
from linoto.audit.noise import least_scale
from linoto.core.arrays import Floats, Ints
from linoto.core.offline import Offline
from linoto.logs.many_tests import TEST_LEVEL

World = Callable[[np.random.Generator], bool]


def alarm_rate(world: World, worlds: int) -> float:
    """How many logs of a hundred raise an alarm, over a hundred."""
    return sum(world(np.random.default_rng([41, seed])) for seed in range(worlds)) / worlds


def halves_of(arms: Ints, rewards: Floats, k: int) -> tuple[Offline, Offline]:
    n = len(arms) // 2
    return Offline.from_rows(arms[:n], rewards[:n], k=k), Offline.from_rows(arms[n:], rewards[n:], k=k)


def drawn(
    rng: np.random.Generator, arms: Ints, n: int, first: int, clicks: float | None, drop: float
) -> Floats:
    """Rewards of rows from `first` on: 0/1 or Gaussian, the same for every arm, less by `drop` when late."""
    late = (np.arange(first, first + arms.size) >= n // 2) * drop
    if clicks is None:
        return rng.standard_normal(arms.size) - late
    return (rng.random(arms.size) < clicks - late).astype(float)


def uniform(
    rng: np.random.Generator, *, k: int, n: int, clicks: float | None = None, drop: float = 0.0
) -> Any:
    """Arms at random all the time."""
    arms = rng.integers(0, k, n)
    return halves_of(arms, drawn(rng, arms, n, 0, clicks, drop), k)


def tilted(
    rng: np.random.Generator, *, k: int, n: int, clicks: float | None = None, drop: float = 0.0
) -> Any:
    """Every arm is pulled a fifth more often, or less, from the middle on, whatever it earned."""
    shares = 1 + 0.2 * rng.choice([-1.0, 1.0], k)
    first, rest = rng.integers(0, k, n // 2), rng.choice(k, n - n // 2, p=shares / shares.sum())
    arms = np.append(first, rest)
    return halves_of(arms, drawn(rng, arms, n, 0, clicks, drop), k)


def tilted_noise(rng: np.random.Generator, *, k: int, n: int) -> Any:
    """The same, where one arm in three is four times as loud as the others."""
    shares = 1 + 0.2 * rng.choice([-1.0, 1.0], k)
    arms = np.append(rng.integers(0, k, n // 2), rng.choice(k, n - n // 2, p=shares / shares.sum()))
    rewards = rng.uniform(-1, 1, k)[arms] + np.where(arms % 3, 0.25, 1.0) * rng.standard_normal(n)
    return halves_of(arms, rewards, k)


def pilot(
    rng: np.random.Generator,
    *,
    k: int,
    n: int,
    clicks: float | None = None,
    share: float = 0.5,
    top: int = 5,
    drop: float = 0.0,
) -> Any:
    """Arms at random for a share of the rows, then the arms that looked best."""
    first = rng.integers(0, k, int(share * n))
    rewards = drawn(rng, first, n, 0, clicks, drop)
    means = np.bincount(first, rewards, k) / np.maximum(np.bincount(first, minlength=k), 1)
    best = np.argsort(-means)[:top]
    rest = best[rng.integers(0, top, n - first.size)]
    rewards = np.append(rewards, drawn(rng, rest, n, first.size, clicks, drop))
    return halves_of(np.append(first, rest), rewards, k)


def chosen(rng: np.random.Generator, *, k: int, n: int, rule: str, clicks: bool, off: float = 0.0) -> Any:
    """UCB or Thompson sampling on a line of arms, which are off it by `off`; the line is flat without it."""
    x = np.linspace(-1, 1, k)
    means = 0.5 + 0.2 * x + off * np.where(np.arange(k) % 2, 1, -1)
    pulls, sums, arms, rewards = np.zeros(k), np.zeros(k), np.empty(n, int), np.empty(n)
    noise = rng.random(n) if clicks else 0.5 * rng.standard_normal(n)
    for t in range(n):
        if t < 2 * k:
            arm = t % k
        elif rule == "ucb":
            arm = int(np.argmax(sums / pulls + 0.5 * np.sqrt(2 * np.log(t) / pulls)))
        else:
            arm = int(np.argmax(sums / pulls + 0.5 * rng.standard_normal(k) / np.sqrt(pulls)))
        reward = float(noise[t] < means[arm]) if clicks else means[arm] + noise[t]
        pulls[arm], sums[arm] = pulls[arm] + 1, sums[arm] + reward
        arms[t], rewards[t] = arm, reward
    return halves_of(arms, rewards, k)


def drifts(log: Callable[..., Any], **options: Any) -> World:
    """Whether a log is called unsteady."""

    def alarm(rng: np.random.Generator) -> bool:
        drift = find_drift(*log(rng, **options))
        return drift is not None and drift.rejected

    return alarm


def bends(**options: Any) -> World:
    """Whether a log of arms on a line is called nonlinear."""

    def alarm(rng: np.random.Generator) -> bool:
        early, late = chosen(rng, **options)
        line = np.column_stack([np.ones(options["k"]), np.linspace(-1, 1, options["k"])])
        fit = lack_of_fit(line, early + late, adaptive=share_p(early, late) < SHARE_LEVEL)
        return fit is not None and fit.rejected

    return alarm


def louder(law: str, claimed: float) -> World:
    """Whether noise of scale 1 is called louder than was claimed."""

    def alarm(rng: np.random.Generator) -> bool:
        arms = rng.integers(0, 20, 500)
        draw = {"gaussian": rng.standard_normal, "coin": lambda n: rng.choice([-1.0, 1.0], n)}[law]
        log = Offline.from_rows(arms, draw(arms.size), k=20)
        return least_scale(log, level=TEST_LEVEL) > claimed

    return alarm


STEADY = {
    "uniform, clicks 90 %": drifts(uniform, k=50, n=5000, clicks=0.9),
    "uniform, clicks 0.4 %": drifts(uniform, k=50, n=5000, clicks=0.004),
    "uniform, Gaussian": drifts(uniform, k=50, n=5000),
    "pilot and 5 winners, Gaussian": drifts(pilot, k=50, n=5000),
    "short pilot and 5 winners, Gaussian": drifts(pilot, k=50, n=5000, share=0.1),
    "pilot and 45 winners, Gaussian": drifts(pilot, k=50, n=5000, top=45),
    "pilot and winners, 200 rows": drifts(pilot, k=10, n=200),
    "pilot and 5 winners, clicks 5 %": drifts(pilot, k=50, n=5000, clicks=0.05),
    "pilot and 1 winner, clicks 50 %": drifts(pilot, k=50, n=5000, clicks=0.5, top=1),
    "pilot and 5 winners, clicks 0.4 %": drifts(pilot, k=50, n=20_000, clicks=0.004),
    "UCB, Gaussian": drifts(chosen, k=10, n=500, rule="ucb", clicks=False),
    "other shares, clicks 50 %": drifts(tilted, k=30, n=14_000, clicks=0.5),
    "other shares, unequal noise": drifts(tilted_noise, k=30, n=14_000),
}
UNSTEADY = {
    "uniform, clicks 90 %, all fall by 3 points": drifts(uniform, k=50, n=5000, clicks=0.9, drop=0.03),
    "uniform, clicks 0.4 %, all fall to 0.1 %": drifts(uniform, k=50, n=20_000, clicks=0.004, drop=0.003),
    "uniform, Gaussian, all fall by 0.1": drifts(uniform, k=50, n=5000, drop=0.1),
    "short pilot and 5 winners, Gaussian, all fall by 0.3": drifts(pilot, k=50, n=5000, share=0.1, drop=0.3),
    "other shares, clicks 56 %, all fall by 8 points": drifts(tilted, k=30, n=14_000, clicks=0.56, drop=0.08),
    "short pilot and 5 winners, clicks 5 % to 2 %": drifts(
        pilot, k=50, n=20_000, clicks=0.05, share=0.1, drop=0.03
    ),
}
FIT = {
    "UCB, Gaussian": bends(k=20, n=600, rule="ucb", clicks=False),
    "Thompson, Gaussian": bends(k=20, n=600, rule="thompson", clicks=False),
    "UCB, clicks": bends(k=20, n=600, rule="ucb", clicks=True),
}
BENT = {"UCB, Gaussian, arms off by 0.2": bends(k=20, n=1000, rule="ucb", clicks=False, off=0.2)}
NOISE = {"Gaussian": louder("gaussian", 1.0), "coins": louder("coin", 1.0)}
LOUD = {"Gaussian, claimed 0.9": louder("gaussian", 0.9)}
