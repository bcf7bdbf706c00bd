"""A Control gate around fixed arms, around rounds that bring their own, and around any recommender: one view.

Practice draws arm 0 or 1, and the caller wants arm 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from linoto import Confidence, Control, Gated, Guard, Moments, Offline

LOG = Offline(pulls=[60, 40, 0], reward_sums=[36.0, 20.0, 0.0])
CLICKS = Confidence(noise="bounded", reward_range=(0.0, 1.0))
ACTIONS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
GATE = Control(budget=20.0)


class Fixed:
    """An agent with fixed arms."""

    def __init__(self, gate: Control = GATE, log: Offline = LOG, **rng: Any) -> None:
        self.shares = log.pulls / log.total
        self.agent: Any = Gated(gate=gate, confidence=CLICKS).start(ACTIONS, log, **rng)

    def ask(self, arm: int = 2, **more: Any) -> Any:
        """Somebody's proposal."""
        return self.agent.guard(arm, **more)

    def safe(self, decision: Any) -> Any:
        """What is safe in place of a decision."""
        return self.agent.play_safe(decision)

    def practice(self) -> int:
        """The arm that practice draws in this round, which a caller may know."""
        return int(np.searchsorted(self.shares.cumsum(), self.run["practice_draw"], side="right"))

    def likely(self) -> Any:
        """How likely the arm that is wanted is played."""
        return self.agent.propensity(2, proposal=2)

    @property
    def coins(self) -> Any:
        """Where its coins come from."""
        return self.agent.running.coins

    @property
    def run(self) -> Any:
        """What the kernels keep."""
        return self.agent.running.run


class InContexts(Fixed):
    """The same arms in every round, with practice drawn by weights."""

    def __init__(self, gate: Control = GATE, log: Offline = LOG, **rng: Any) -> None:
        rows = np.repeat([0, 1], log.pulls[:2])
        means = log.reward_sums[:2] / np.maximum(log.pulls[:2], 1)
        moments = Moments.from_rows(ACTIONS[rows], means[rows])
        self.shares = log.pulls / log.total
        self.question = {"actions": ACTIONS, "practice": self.shares}
        self.agent = Gated(gate=gate, confidence=CLICKS).start(moments, **rng)

    def ask(self, arm: int = 2, **more: Any) -> Any:
        return self.agent.guard(arm, **self.question, **more)

    def likely(self) -> Any:
        return self.agent.propensity(2, proposal=2, **self.question)


class Guarded(Fixed):
    """A guard around a recommender."""

    def __init__(self, gate: Control = GATE, log: Offline = LOG, **rng: Any) -> None:
        self.shares = log.pulls / log.total
        self.agent = Guard(log, gate=gate, reward_range=(0, 1), noise="bounded", **rng)

    def ask(self, arm: int = 2, **more: Any) -> Any:
        return self.agent.decide(arm, **more)

    @property
    def coins(self) -> Any:
        return self.agent._coins

    @property
    def run(self) -> Any:
        return self.agent._run[0]


KINDS: dict[str, Callable[..., Fixed]] = {"fixed arms": Fixed, "contexts": InContexts, "guard": Guarded}
