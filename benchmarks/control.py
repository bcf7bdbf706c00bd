"""What a Control gate adds to the loop of the same explorer: python benchmarks/control.py [--rounds N].

Open and Control take turns and the fastest turn of each counts, as a ratio, in processor time of one thread.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import argparse
from time import thread_time
from typing import Any

import numpy as np

import linoto

GATES = {
    "realised": linoto.Control(epsilon=0.05),
    "expected": linoto.Control(epsilon=0.05, promise="expected"),
    "stretches": linoto.Control(budget=60.0, epsilon=0.05, every=500),
    "loan of the log": linoto.Control(epsilon=0.05, loan=30.0),
    "Tolerance, rewards": linoto.Tolerance(epsilon=0.05, evidence="rewards"),
}
EXPLORERS = {"UCB": linoto.LinUCB(scale=0.25), "Thompson": linoto.LinTS(scale=0.5)}
SIZES = ((100, 20), (20, 5))  # arms, features
ROUNDS = 20_000


def loop_time(explorer: Any, gate: Any, bandit: linoto.LinearBandit, log: linoto.Offline) -> float:
    """Seconds of one run of the compiled loop; its noise and its start are not counted."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(-1.0, 1.0))
    agent = linoto.Gated(explorer=explorer, gate=gate, confidence=confidence).start(
        bandit.actions, log, rng=0
    )
    draws = np.random.default_rng(1).random(ROUNDS)
    begin = thread_time()
    agent.play(bandit.means, draws, bernoulli=True, reward_range=(-1.0, 1.0))
    return thread_time() - begin


def main() -> None:
    """Print one line for each gate, explorer and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    turns = parser.parse_args().rounds
    print(
        f"{'arms':>5} {'features':>8}  {'explorer':<9} {'gate':<19} {'ns a round':>10}  times the open loop"
    )
    for k, d in SIZES:
        rng = np.random.default_rng(0)
        sphere = linoto.sphere_bandit(k=k, d=d, rng=rng)
        bandit = linoto.LinearBandit(
            actions=sphere.actions, theta=sphere.theta, rewards="bernoulli", reward_range=(-1.0, 1.0)
        )
        log = bandit.log(linoto.logged_pulls(bandit, m=500, arms=8, rng=rng), rng)
        for name, explorer in EXPLORERS.items():
            contestants = {"open": linoto.Open(), **GATES}
            best = dict.fromkeys(contestants, float("inf"))
            for _ in range(turns):
                for gate, contestant in contestants.items():
                    best[gate] = min(best[gate], loop_time(explorer, contestant, bandit, log))
            for gate, seconds in best.items():
                nanoseconds = seconds / ROUNDS * 1e9
                print(
                    f"{k:>5} {d:>8}  {name:<9} {gate:<19} {nanoseconds:>10.0f}  {seconds / best['open']:.2f}"
                )


if __name__ == "__main__":
    main()
