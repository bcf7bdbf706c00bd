"""Explorers that somebody else wrote: right ones, and one for every way to write a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from linoto.core.explorers import View


@dataclass(frozen=True)
class Optimist:
    """LinUCB, written by somebody else."""

    scale: float = 0.5
    deterministic: ClassVar[bool] = True

    def score(self, view: View) -> Any:
        return view.mean + self.scale * (view.ucb - view.mean)


class Dice:
    """Scores drawn with the generator of the view."""

    def score(self, view: View) -> Any:
        return view.rng.random(len(view.mean))


class Worst:
    """Always proposes the arm that looks worst."""

    def propose(self, view: View) -> int:
        return int(view.mean.argmin())


# -- wrong ones ---------------------------------------------------------------------------------------------


class OutsideDraws:
    """Draws, but not with the generator of the view."""

    def score(self, view: View) -> Any:
        return np.random.default_rng().random(len(view.mean))


class WrongShape:
    def score(self, view: View) -> Any:
        return view.mean[1:]


class OutOfRange:
    def propose(self, view: View) -> int:
        return len(view.mean)


class SixArms:
    """Knows the number of arms of one problem."""

    def score(self, view: View) -> Any:
        return view.mean + np.arange(6)


class CountsCalls:
    """Turns to the next arm with every question."""

    calls = 0

    def propose(self, view: View) -> int:
        self.calls += 1
        return self.calls % len(view.mean)


class CountsRounds:
    """Carries the rounds of one agent into the next run."""

    rounds = round = 0

    def propose(self, view: View) -> int:
        if view.round != self.round:
            self.rounds, self.round = self.rounds + 1, view.round
        return self.rounds % 7 % len(view.mean)


class KeepsHistory:
    def __init__(self) -> None:
        self.history: list[Any] = []

    def score(self, view: View) -> Any:
        self.history.append(view.mean)
        return view.ucb


class WritesIntoView:
    def score(self, view: View) -> Any:
        view.ucb[:] -= view.lcb
        return view.ucb


class FalselyDeterministic(Dice):
    """Says that it draws nothing: its arms would be logged with propensity 1."""

    deterministic = True
