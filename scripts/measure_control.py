"""What the gates earn on real flights whose months follow each other, and how often they fail practice.

python scripts/measure_control.py [RUNS] prints the table of docs/control.md; 40 runs take about two minutes.
"""

import sys
from typing import Any

import numpy as np

import linoto
from linoto.worlds import flights

ROUNDS = 6000
CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=flights.BOUND)
GATES: dict[str, Any] = {
    "no gate": linoto.Open(),
    "Tolerance, epsilon .02": linoto.Tolerance(epsilon=0.02, evidence="rewards"),
    "the same, realised": linoto.Tolerance(epsilon=0.02, evidence="rewards", promise="realised"),
    "Control, epsilon .02": linoto.Control(epsilon=0.02),
    "the same, expected": linoto.Control(epsilon=0.02, promise="expected"),
    "and a budget of 30": linoto.Control(epsilon=0.02, budget=30.0),
    "and a loan of 30": linoto.Control(epsilon=0.02, loan=30.0),
    "stretches of 500, budget 60": linoto.Control(epsilon=0.02, budget=60.0, every=500),
}
EXPLORERS = {
    "LinUCB(scale=0.25)": linoto.LinUCB(scale=0.25),
    "LinUCB(scale=1.0, noise='assumed')": linoto.LinUCB(scale=1.0),
}


def months_of(data: flights.Flights, months: list[int]) -> linoto.DriftingBandit:
    """A world in which these months follow each other, of the same length each."""
    rates = data.bandit.means[:, None] + np.zeros((1, 12))  # where an arm did not fly: its rate of the year
    np.divide(data.on_time, data.counts, out=rates, where=data.counts > 0)
    starts = np.arange(len(months)) * ROUNDS // len(months)
    return linoto.DriftingBandit(
        actions=data.actions, table=rates[:, months].T, starts=starts, rewards="bernoulli"
    )


def log_of(data: flights.Flights, months: list[int]) -> linoto.Offline:
    """What practice's arms did in these months."""
    ours = np.isin(np.arange(len(data.names)), data.practice)
    pulls = np.where(ours, data.counts[:, months].sum(axis=1), 0)
    return linoto.Offline(pulls=pulls, reward_sums=np.where(ours, data.on_time[:, months].sum(axis=1), 0.0))


def main() -> None:
    """One table for each explorer: mean reward in each world, and promise violations against practice."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    data = flights.load()
    worlds: dict[str, Any] = {
        "static": (data.bandit, data.log),
        "months": (months_of(data, list(range(3, 12))), data.log),
        "reversed": (months_of(data, [9, 8, 7, 6, 5, 4, 3, 2, 1]), log_of(data, [10, 11])),
    }
    for explorer_name, explorer in EXPLORERS.items():
        print(f"\n{explorer_name}: mean reward (standard error), runs over epsilon t + budget below practice")
        for gate_name, gate in GATES.items():
            cells = []
            for world, log in worlds.values():
                policy = linoto.Gated(explorer=explorer, gate=gate, confidence=CLICKS)
                earned, broken, control = [], 0, 0.0
                for seed in range(runs):
                    run = linoto.simulate(policy, world, log, horizon=ROUNDS, seed=seed)
                    table, starts = world.segments
                    now = table[np.searchsorted(starts, np.arange(ROUNDS), side="right") - 1]
                    earned.append(now[np.arange(ROUNDS), run.arms].mean())
                    budget = getattr(gate, "budget", 0.0) + getattr(gate, "loan", 0.0)
                    allowed = budget + 0.02 * np.arange(1, ROUNDS + 1) + 5.0  # 5: rounding of the mixture
                    broken += bool((run.offline_regret > allowed).any())
                    control += run.control.mean() / runs
                error = np.std(earned, ddof=1) / np.sqrt(runs)
                cells.append(f"{np.mean(earned):.3f} ({error:.3f}) {broken / runs:4.0%} {control:4.0%}")
            print(f"{gate_name:<28} " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
