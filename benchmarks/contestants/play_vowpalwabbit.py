"""vowpalwabbit: SquareCB over a linear model that is learnt by gradient steps, not by least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import Floats, Ints, Staying
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


class OnTable:
    """The context is shared by all lines, an arm is a name, and both are crossed."""

    def __init__(self, options: str, k: int, seed: int) -> None:
        self.workspace = Workspace(f"--cb_explore_adf -q ca {options} --quiet --random_seed {seed + 1}")
        self.rng = np.random.default_rng(seed)
        self.arms = [f"|a arm{arm}" for arm in range(k)]

    def shared(self, context: Floats) -> str:
        """The line of a context; the constant is vowpalwabbit's own."""
        return "shared |c " + " ".join(f"{i}:{x:.6g}" for i, x in enumerate(context[1:].tolist()))

    def teach(self, shared: str, arm: int, reward: float, chance: float) -> None:
        """Learn one play; costs are rewards below zero."""
        lines = list(self.arms)
        lines[arm] = f"0:{-reward:g}:{chance:.6g} {lines[arm]}"
        self.workspace.learn([shared, *lines])

    def learn_log(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Learn row by row."""
        for context, arm, reward, chance in zip(contexts, arms, rewards, chances, strict=True):
            self.teach(self.shared(context), int(arm), float(reward), float(chance))

    def decide(self, context: Floats, _: Floats) -> int:
        """Draw an arm."""
        self.line = self.shared(context)
        shares = np.array(self.workspace.predict([self.line, *self.arms]))
        arm = int(np.searchsorted(np.cumsum(shares), self.rng.random() * shares.sum()))
        self.chance = shares[arm]
        return arm

    def update(self, context: Floats, arm: int, reward: float) -> None:
        """Learn from one play."""
        self.teach(self.line, arm, reward, self.chance)


def table(policy: str, settings: dict[str, str], k: int, p: int, seed: int) -> OnTable:
    return OnTable(settings["options"], k, seed)
