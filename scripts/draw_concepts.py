"""Draws the picture of docs/concepts.md: what a loss budget allows, and what happens behind the gate.

Run: python scripts/draw_concepts.py   (writes docs/img/concepts.svg)
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from linoto import Confidence, Gated, LinUCB, Tolerance, simulate
from linoto.pages.figures.pieces import COLOURS, styled
from linoto.worlds import flights

OUT = Path(__file__).parents[1] / "docs" / "img" / "concepts.svg"
ROUNDS, RUNS, BUDGET, STEP = 6000, 8, 120, 20
RED = "#d1495b"


def main() -> None:
    """Simulate, draw, write."""
    world = flights.load()
    confidence = Confidence(noise="bounded", bound=flights.BOUND, reward_range=(0.0, 1.0))
    gate = Tolerance(budget=BUDGET)
    bold, sharp = LinUCB(scale=1.0), LinUCB(scale=0.25)
    gated = Gated(explorer=bold, gate=gate, confidence=confidence)
    shown = [
        (LinUCB(scale=1.0, confidence=confidence), "no gate", "a bold explorer, no gate", (520, -205)),
        (gated, "Gated", "the same explorer behind the gate", (1000, -42)),
        (
            Gated(explorer=sharp, gate=gate, confidence=confidence),
            "Gated",
            "a better explorer behind the same gate",
            (2750, 205),
        ),
    ]
    promise = gated.certificate(world.actions, world.log).loss(ROUNDS)
    rounds = np.arange(1, ROUNDS + 1)

    with styled():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8.2, 4.6), layout="constrained")
        axes = figure.subplots()
        axes.axhspan(-400, -promise, color=RED, alpha=0.08, linewidth=0)
        axes.axhline(-promise, color=RED, linewidth=1.6)
        axes.axhline(0.0, color="black", linewidth=0.8)
        for policy, colour, label, (x, y) in shown:
            for seed in range(RUNS):
                run = simulate(policy, world.bandit, world.log, horizon=ROUNDS, seed=seed)
                gain = -run.offline_regret[::STEP]
                axes.plot(rounds[::STEP], gain, color=COLOURS[colour], linewidth=0.9)
            axes.text(x, y, label, color=COLOURS[colour], ha="right" if y > 0 else "left")
        axes.text(ROUNDS - 60, 8, "current practice", ha="right")
        axes.text(
            ROUNDS - 60, -promise + 8, f"a budget of {BUDGET} flights: the promise", color=RED, ha="right"
        )
        axes.set(
            xlim=(0, ROUNDS),
            ylim=(-250, 450),
            xlabel="bookings",
            ylabel="flights on time, more or less\nthan with current practice",
        )
        figure.savefig(OUT, metadata={"Date": None})
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
