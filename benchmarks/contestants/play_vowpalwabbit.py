"""vowpalwabbit: SquareCB over a linear model that is learnt by gradient steps, not by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Floats, Staying
from vowpalwabbit import Workspace

OPTIONS = {
    "SquareCB": "--squarecb",
    "SquareCB, gamma scale 100": "--squarecb --gamma_scale 100",
    "SquareCB, gamma scale 1000": "--squarecb --gamma_scale 1000",
}


class SquareCB:
    """Arms go in as lines of text; a distribution over arms comes out, and an arm is drawn from it."""

    def __init__(self, options: str) -> None:
        self.workspace = Workspace(f"--cb_explore_adf {options} --quiet --random_seed 0")
        self.rng = np.random.default_rng(0)

    def describe(self, actions: Floats) -> list[str]:
        """One line for each arm."""
        return ["| " + " ".join(f"{i}:{x:.6g}" for i, x in enumerate(row)) for row in actions.tolist()]

    def decide(self, lines: list[str]) -> int:
        """Draw an arm."""
        shares = np.array(self.workspace.predict(lines))
        arm = int(np.searchsorted(np.cumsum(shares), self.rng.random() * shares.sum()))
        self.probability = shares[arm]
        return arm

    def update(self, lines: list[str], arm: int, reward: float) -> None:
        """Learn from one play; costs are rewards below zero."""
        played = f"0:{-reward:.6g}:{self.probability:.6g} {lines[arm]}"
        self.workspace.learn([*lines[:arm], played, *lines[arm + 1 :]])


class FixedSquareCB(Staying):
    """The same on arms that stay."""

    def learn(self, arm: int, reward: float) -> None:
        """Learn one row of a log: the arm that was played, alone."""
        policy: Any = self.policy
        policy.workspace.learn([f"0:{-reward:.6g}:1 {self.arms[arm]}"])


def fixed(policy: str, actions: Floats) -> FixedSquareCB:
    return FixedSquareCB(SquareCB(OPTIONS[policy]), actions)


def contextual(policy: str, k: int, d: int) -> SquareCB:
    return SquareCB(OPTIONS[policy])
