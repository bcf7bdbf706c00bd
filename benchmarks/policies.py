"""Every linear policy's loop against LinUCB's, in one run: python benchmarks/policies.py [--rounds N].

k = 100 arms in d = 20 dimensions, the paper's default problem. All take turns, and the fastest turn of each
counts, in processor time of one thread: other work on the machine matters little.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

import numpy as np
from core import Problem, fastest, seconds

import linoto

MOVED = linoto.Confidence(shift=0.1)
POLICIES: dict[str, linoto.Policy] = {
    "LinUCB": linoto.LinUCB(scale=1.0),
    "LinUCB, the paper's radius": linoto.LinUCB(scale=1.0, confidence=linoto.PAPER),
    "LinLCB": linoto.LinLCB(),
    "LinOtO": linoto.LinOtO(),
    "Rarely switching LinUCB": linoto.research.RareLinUCB(),
    "LinTS": linoto.LinTS(),
    "LinTS, posterior": linoto.LinTS(scale=1.0, prior="scaled"),
    "LinTS, Agrawal-Goyal": linoto.research.WideLinTS(law="agrawal-goyal"),
    "LinTS, Abeille-Lazaric": linoto.research.WideLinTS(law="abeille-lazaric"),
    "Greedy": linoto.Greedy(),
    "Random": linoto.Random(),
    "Tolerance by the model": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0), gate=linoto.Tolerance(budget=50.0, evidence="model")
    ),
    "LinUCB, shift 0.1": linoto.LinUCB(scale=1.0, confidence=MOVED),
    "LinOtO, shift 0.1": linoto.LinOtO(confidence=replace(linoto.PAPER, shift=0.1)),
    "Tolerance by the model, shift 0.1": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0),
        gate=linoto.Tolerance(budget=50.0, evidence="model"),
        confidence=MOVED,
    ),
}


def main() -> None:
    """Print a row for each policy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each policy")
    parser.add_argument("--horizon", type=int, default=8000, help="rounds that are played in a turn")
    arguments = parser.parse_args()
    problem = Problem.draw(k=100, d=20, n=arguments.horizon)

    def turn(policy: linoto.Policy) -> float:
        agent = problem.start(policy)
        agent.play(problem.bandit.means, np.zeros(1))  # loads the loop
        return seconds(lambda: agent.play(problem.bandit.means, problem.draws))

    turns = {name: partial(turn, policy) for name, policy in POLICIES.items()}
    times = fastest(turns, arguments.rounds)
    for name, spent in times.items():
        print(
            f"{name:<36} {1e6 * spent / arguments.horizon:6.2f} us   {spent / times['LinUCB']:5.2f} x LinUCB"
        )


if __name__ == "__main__":
    main()
