"""What guardrails add to a round behind a gate: python benchmarks/guardrails.py [--rounds N] [--untold].

The same policy with 0, 1, 2 and 5 guardrails takes turns, and the fastest turn of each counts, in processor
time of one thread; what is added is a share of the round without any.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import argparse
from time import thread_time

import numpy as np

import linoto
from linoto.core import acceptable

SIZES = ((100, 20), (20, 5), (10, 5))  # arms, features
GUARDRAILS = (0, 1, 2, 5)
ROUNDS = 20_000


def loop_time(count: int, bandit: linoto.LinearBandit, log: linoto.Offline) -> float:
    """Seconds of one run of the compiled loop; its noise and its start are not counted."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(-1.0, 1.0))
    rails = tuple(
        linoto.Guardrail(f"metric {j}", reward_range=(0, 1), budget=20, rate=0.05, mean=0.97)
        for j in range(count)
    )
    policy = linoto.Gated(
        explorer=linoto.LinUCB(scale=0.25),
        gate=linoto.Control(epsilon=0.05),
        confidence=confidence,
        guardrails=rails,
    )
    agent, rng = policy.start(bandit.actions, log, rng=0), np.random.default_rng(1)
    draws = rng.random(ROUNDS)
    means = 0.97 + 0.02 * bandit.actions[:, 0]  # as many rounds are control with guardrails as without
    metrics = {rail.name: (means, rng.random(ROUNDS)) for rail in rails}
    begin = thread_time()
    agent.play(bandit.means, draws, bernoulli=True, reward_range=(-1.0, 1.0), metrics=metrics)
    return thread_time() - begin


def main() -> None:
    """Print one line for each size and number of guardrails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--untold", action="store_true", help="with explorers that know of no guardrail")
    arguments = parser.parse_args()
    turns = arguments.rounds
    acceptable.MOST_FEATURES = 0 if arguments.untold else acceptable.MOST_FEATURES
    print(f"{'arms':>5} {'features':>8} {'guardrails':>10} {'ns a round':>10}  added  each further one")
    for k, d in SIZES:
        rng = np.random.default_rng(0)
        sphere = linoto.sphere_bandit(k=k, d=d, rng=rng)
        bandit = linoto.LinearBandit(
            actions=sphere.actions, theta=sphere.theta, rewards="bernoulli", reward_range=(-1.0, 1.0)
        )
        log = bandit.log(linoto.logged_pulls(bandit, m=500, arms=min(8, k - 1), rng=rng), rng)
        best = dict.fromkeys(GUARDRAILS, float("inf"))
        for _ in range(turns):
            for count in GUARDRAILS:
                best[count] = min(best[count], loop_time(count, bandit, log))
        for count, seconds in best.items():
            further = f"{(seconds - best[1]) / (count - 1) / best[0]:6.0%}" if count > 1 else ""
            added = f"{seconds / best[0] - 1:6.0%}" if count else ""
            print(f"{k:>5} {d:>8} {count:>10} {seconds / ROUNDS * 1e9:>10.0f} {added:>6}  {further}")


if __name__ == "__main__":
    main()
