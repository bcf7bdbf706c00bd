"""Draws the picture of docs/concepts.md: what a tolerance gate allows, and what happens behind it.

Run: python scripts/draw_concepts.py   (writes docs/img/concepts.svg)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linoto import Confidence, Gated, LinUCB, Tolerance, simulate
from linoto.pages.figures.pieces import COLOURS, styled
from linoto.worlds import flights

OUT = Path(__file__).parents[1] / "docs" / "img" / "concepts.svg"
ROUNDS, RUNS, EPSILON, WINDOW, STEP = 6000, 8, 0.02, 250, 20


def main() -> None:
    """Simulate, draw, write."""
    world = flights.load()
    confidence = Confidence(noise="bounded", bound=flights.BOUND, reward_range=(0.0, 1.0))
    gated = Gated(explorer=LinUCB(), gate=Tolerance(epsilon=EPSILON), confidence=confidence)
    without = LinUCB(confidence=Confidence(noise=0.5, bound=flights.BOUND))
    policies = {
        "LinUCB": ("LinUCB, no gate", without),
        "Gated": ("the same LinUCB behind a tolerance gate", gated),
    }
    certificate = gated.certificate(world.actions, world.log)
    rounds = np.arange(1, ROUNDS + 1)
    promise = EPSILON * rounds + certificate.kappa

    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.2, 5.4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        above.fill_between(rounds[::STEP], promise[::STEP], 300, color="#d1495b", alpha=0.08, linewidth=0)
        above.plot(
            rounds[::STEP],
            promise[::STEP],
            color="#d1495b",
            linewidth=1.6,
            label="the promise: 0.02 per round",
        )
        for name, (label, policy) in policies.items():
            runs = [simulate(policy, world.bandit, world.log, horizon=ROUNDS, seed=s) for s in range(RUNS)]
            for number, run in enumerate(runs):
                shown = label if number == 0 else None
                above.plot(
                    rounds[::STEP],
                    run.offline_regret[::STEP],
                    color=COLOURS[name],
                    linewidth=0.9,
                    label=shown,
                )
            share = np.mean([run.explored for run in runs], axis=0).reshape(-1, WINDOW).mean(axis=1)
            below.plot(rounds[WINDOW // 2 :: WINDOW], 100 * share, color=COLOURS[name], linewidth=1.6)
        above.axhline(0.0, color="black", linewidth=0.8)
        above.text(2950, 123, "a shortfall in this area would break the promise", color="#d1495b", fontsize=9)
        above.text(ROUNDS - 60, 5, "the log", fontsize=9, ha="right")
        above.set(ylim=(-130, 245), ylabel="shortfall below the log\n(flights on time)")
        above.legend(loc="lower left")
        below.set(
            ylim=(-4, 104), ylabel="exploring\nrounds (%)", xlabel="rounds (bookings)", xlim=(0, ROUNDS)
        )
        figure.savefig(OUT, metadata={"Date": None})
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
