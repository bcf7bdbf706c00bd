"""How fast rounds with their own arms are, as ratios of one run: python benchmarks/contexts.py.

The fastest of many short turns counts: what disturbs a shared machine only ever adds time. The contestants
of one line take their turns in alternation. Each has one thread, and is charged the time of that thread.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import numpy.typing as npt

import linoto

Floats = npt.NDArray[np.float64]
MODEL = linoto.Tolerance(budget=1e6, evidence="model")
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0, 1))
POLICIES = {
    "LinUCB": linoto.LinUCB(scale=1.0),
    "LinTS": linoto.LinTS(),
    "RandUCB": linoto.RandUCB(),
    "Tolerance by the model": linoto.Gated(explorer=linoto.LinUCB(scale=1.0), gate=MODEL),
    "Control": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0), gate=linoto.Control(budget=100), confidence=CLICKS
    ),
}


OWN = {name: POLICIES[name] for name in ("LinUCB", "LinTS", "RandUCB", "Control")}
OWN_FEATURES = ((10, 13), (10, 65), (50, 20), (100, 10))


class ByEinsum:
    """LinUCB behind the gate by the model, as one would write it in NumPy."""

    def __init__(self, d: int, *, noise: float = 1.0, ridge: float = 1.0) -> None:
        self.inverse, self.target, self.owed = np.eye(d) / ridge, np.zeros(d), np.zeros(d)
        self.noise, self.log_det = noise, 0.0

    def decide(self, actions: Floats, practice: int) -> tuple[int, bool]:
        """The best affordable arm, or practice's."""
        theta = self.inverse @ self.target
        radius = self.noise * np.sqrt(6 + self.log_det)
        y = self.owed + actions - actions[practice]
        room = 1e6 + y @ theta - radius * np.sqrt(np.einsum("kd,de,ke->k", y, self.inverse, y))
        width = np.sqrt(np.einsum("kd,de,ke->k", actions, self.inverse, actions))
        score = np.where(room > 0, actions @ theta + radius * width, -np.inf)
        arm = int(np.argmax(score))
        return (arm, True) if room[arm] > 0 else (practice, False)

    def update(self, action: Floats, practice: Floats, explored: bool, reward: float) -> None:
        """One rank-one step."""
        step = self.inverse @ action
        growth = 1 + action @ step
        self.inverse -= np.outer(step, step) / growth
        self.log_det += np.log(growth)
        self.target += reward * action
        if explored:
            self.owed += action - practice


class RidgePerArm:
    """LinUCB with a ridge model for each arm, as one would write it in NumPy."""

    def __init__(self, k: int, p: int, *, ridge: float = 1.0, scale: float = 0.25) -> None:
        self.inverse, self.target = np.tile(np.eye(p) / ridge, (k, 1, 1)), np.zeros((k, p))
        self.theta, self.scale = np.zeros((k, p)), scale

    def decide(self, x: Floats) -> int:
        """The arm with the largest upper bound."""
        width = np.sqrt((self.inverse @ x) @ x)
        return int(np.argmax(self.theta @ x + self.scale * width))

    def update(self, arm: int, x: Floats, reward: float) -> None:
        """One rank-one step of one model."""
        step = self.inverse[arm] @ x
        self.inverse[arm] -= np.outer(step, step) / (1 + x @ step)
        self.target[arm] += reward * x
        self.theta[arm] = self.inverse[arm] @ self.target[arm]


def fastest(contestants: Sequence[Callable[[], None]], turns: int, rounds: int = 20) -> list[float]:
    """Microseconds of processor time per round of each, in the fastest of its turns."""
    best = [np.inf] * len(contestants)
    for _ in range(turns):
        for place, play in enumerate(contestants):
            start = thread_time()
            for _ in range(rounds):
                play()
            best[place] = min(best[place], thread_time() - start)
    return [seconds / rounds * 1e6 for seconds in best]


def with_contexts(policy: Any, tables: Floats) -> Callable[[], None]:
    """One decision and its reward, in the next of some rounds."""
    agent, places = policy.start(None, d=tables.shape[2], rng=0), iter(range(10**9))

    def turn() -> None:
        decision = agent.decide(actions=tables[next(places) % len(tables)], practice=0)
        agent.update(decision, 0.5)

    return turn


def with_fixed_arms(policy: Any, actions: Floats) -> Callable[[], None]:
    """The same of an agent whose arms stay."""
    k = len(actions)
    agent = policy.start(actions, linoto.Offline(pulls=[1] * k, reward_sums=[0.5] * k), rng=0)

    def turn() -> None:
        agent.update(agent.decide(), 0.5)

    return turn


def by_einsum(tables: Floats) -> Callable[[], None]:
    """The same in NumPy."""
    agent, places = ByEinsum(tables.shape[2]), iter(range(10**9))

    def turn() -> None:
        actions = tables[next(places) % len(tables)]
        arm, explored = agent.decide(actions, 0)
        agent.update(actions[arm], actions[0], explored, 0.5)

    return turn


def with_own_features(policy: Any, contexts: Floats, k: int) -> Callable[[], None]:
    """One decision among arms with features of their own, and its reward."""
    n, p = contexts.shape
    features = linoto.OwnFeatures(items=tuple(map(str, range(k))), width=p)
    agent, places = policy.start(None, features=features, rng=0), iter(range(10**9))

    def turn() -> None:
        agent.update(agent.decide(context=contexts[next(places) % n], practice=0), 0.5)

    return turn


def with_all_zeros(policy: Any, contexts: Floats, k: int) -> Callable[[], None]:
    """The same with actions (k, k p), which it has to make first."""
    n, p = contexts.shape
    agent, places, each = policy.start(None, d=k * p, rng=0), iter(range(10**9)), np.arange(k)

    def turn() -> None:
        actions = np.zeros((k, k, p))
        actions[each, each] = contexts[next(places) % n]
        agent.update(agent.decide(actions=actions.reshape(k, k * p), practice=0), 0.5)

    return turn


def by_models(contexts: Floats, k: int) -> Callable[[], None]:
    """The same with a model for each arm in NumPy."""
    n, p = contexts.shape
    models, places = RidgePerArm(k, p), iter(range(10**9))

    def turn() -> None:
        x = contexts[next(places) % n]
        models.update(models.decide(x), x, 0.5)

    return turn


def tables_of(k: int, d: int) -> Floats:
    """(20, k, d) rounds on the unit sphere."""
    tables = np.random.default_rng(0).normal(size=(20, k, d))
    return np.asarray(tables / np.linalg.norm(tables, axis=2, keepdims=True))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=250, help="of 20 rounds each")
    parser.add_argument("--json", type=Path, help="write the times there as well")
    options = parser.parse_args()
    turns, found = options.turns, {}
    small, large = tables_of(100, 20), tables_of(1000, 50)
    print("k = 100, d = 20: decide + update, microseconds")
    for name, policy in POLICIES.items():
        times = fastest([with_contexts(policy, small), with_fixed_arms(policy, small[0])], turns)
        found[name] = {"contexts": times[0], "fixed arms": times[1]}
        ratio = f"{times[0] / times[1]:.1f} times"
        print(f"{name:<24} contexts {times[0]:7.1f}   fixed arms {times[1]:7.1f}   {ratio}")
    print("k = 1000, d = 50: decide + update, microseconds")
    gated = with_contexts(POLICIES["Tolerance by the model"], large)
    ours, einsum = fastest([gated, by_einsum(large)], max(turns // 10, 1), rounds=2)
    found["k = 1000, d = 50"] = {"contexts": ours, "NumPy einsum": einsum}
    ratio = f"{einsum / ours:.1f} times"
    print(f"Tolerance by the model   compiled {ours:7.1f}   NumPy einsum {einsum:9.1f}   {ratio}")
    print("features of each arm's own, k arms with p each: decide + update, microseconds")
    for k, p in OWN_FEATURES:
        contexts = np.random.default_rng(0).normal(size=(200, p)) / np.sqrt(p)
        contestants = [by_models(contexts, k), *(with_own_features(q, contexts, k) for q in OWN.values())]
        times = fastest(contestants, max(turns // 5, 1), rounds=5)
        found[f"k = {k}, p = {p}"] = dict(zip(["NumPy", *OWN], times, strict=True))
        shown = "   ".join(
            f"{name} {time:7.1f} ({time / times[0]:.1f} times)"
            for name, time in zip(OWN, times[1:], strict=True)
        )
        print(f"k = {k:<4} p = {p:<4} NumPy {times[0]:7.1f}   {shown}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
