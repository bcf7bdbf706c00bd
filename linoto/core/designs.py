"""Which arms to pull how often, so that every arm is known well, given what a log knows already."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from linoto.core.arrays import Floats

MOST_STEPS = 2000
PRUNED = 1e-3  # share of an even weight below which an arm is left out


class Design(NamedTuple):
    """Weights of arms, and what n pulls in these proportions leave unknown."""

    weights: Floats  # (k,) they sum to 1
    gains: Floats  # (k,) n |a|^2 in W^-1, W = V_off + n sum_a weights_a a a'

    @property
    def effective(self) -> float:
        """sum_a weights_a gains_a = d - tr(V_off W^-1): the dimensions that pulls have to pay for."""
        return float(self.weights @ self.gains)

    @property
    def widest(self) -> float:
        """The largest gain: it equals the effective dimension where the design is optimal."""
        return float(self.gains.max())


def gains_of(weights: Floats, actions: Floats, known: Floats, pulls: float) -> Floats:
    """(k,) n |a|^2 in W^-1."""
    W = known + pulls * actions.T @ (weights[:, None] * actions)
    whitened = np.linalg.solve(np.linalg.cholesky(W), actions.T)  # (d, k)
    return np.asarray(pulls * (whitened**2).sum(axis=0))


def optimal_design(actions: Floats, known: Floats, pulls: float, *, tolerance: float = 0.01) -> Design:
    """The weights that maximise log det(V_off + n sum_a weights_a a a'), `known` being V_off.

    At the maximum no gain is above the effective dimension (Kiefer and Wolfowitz, with a log); it stops where
    the largest is within the tolerance. Each step multiplies a weight by its gain, so that log det grows.
    """
    weights = np.full(len(actions), 1 / len(actions))
    for _ in range(MOST_STEPS):
        design = Design(weights, gains_of(weights, actions, known, pulls))
        if design.widest <= (1 + tolerance) * design.effective:
            break
        weights = weights * design.gains / design.effective
    kept = np.where(weights < PRUNED / len(actions), 0.0, weights)
    weights = kept / kept.sum()
    return Design(weights, gains_of(weights, actions, known, pulls))


def sparse_design(actions: Floats, known: Floats, pulls: float, *, tolerance: float = 0.1) -> Design:
    """The same by Frank and Wolfe's method from few arms: at most d at the start, and one more each step."""
    weights = spanning_weights(actions, known, pulls)
    for _ in range(MOST_STEPS):
        design = Design(weights, gains_of(weights, actions, known, pulls))
        if design.widest <= (1 + tolerance) * design.effective:
            break
        toward = np.zeros(len(actions))
        toward[design.gains.argmax()] = 1.0
        step = best_step(weights, toward, actions, known, pulls)
        weights = (1 - step) * weights + step * toward
    return Design(weights, gains_of(weights, actions, known, pulls))


def spanning_weights(actions: Floats, known: Floats, pulls: float) -> Floats:
    """(k,) even weights of arms, each the least known one after those before it."""
    k, d = actions.shape
    counts, W = np.zeros(k), known.copy()
    for _ in range(min(k, d)):
        whitened = np.linalg.solve(np.linalg.cholesky(W), actions.T)
        arm = int((whitened**2).sum(axis=0).argmax())
        counts[arm] += 1
        W += pulls / d * np.outer(actions[arm], actions[arm])
    return np.asarray(counts / counts.sum())


def best_step(weights: Floats, toward: Floats, actions: Floats, known: Floats, pulls: float) -> float:
    """How far to go in [0, 1): the maximum of log det on the line, sum_i log(1 + s rate_i), by bisection."""
    root = np.linalg.cholesky(known + pulls * actions.T @ (weights[:, None] * actions))
    change = pulls * actions.T @ ((toward - weights)[:, None] * actions)
    half = np.linalg.solve(root, change)
    rates = np.linalg.eigvalsh(np.linalg.solve(root, half.T))
    low, high = 0.0, 1.0 - 1e-9
    for _ in range(50):
        middle = (low + high) / 2
        rising = (rates / (1 + middle * rates)).sum() > 0
        low, high = (middle, high) if rising else (low, middle)
    return low
