"""Rewards that come late: what a simulation does where nobody knows them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from linoto.core.arrays import Floats
from linoto.core.playing import Rounds, rounds_in_python
from linoto.core.protocols import AnyAgent, RoundAgent


def check_delay(delay: Any) -> None:
    """Refuse anything but a number of rounds."""
    if isinstance(delay, bool) or not isinstance(delay, int | np.integer) or delay < 0:
        raise ValueError(f"delay must be a whole number of rounds >= 0, got {delay!r}")


class Delayed:
    """An agent that is told of every round `delay` rounds later: of its reward, and of values of guardrails.

    It is asked round by round, and what it has decided counts at once.
    """

    def __init__(self, agent: AnyAgent | RoundAgent, delay: int) -> None:
        if not all(hasattr(agent, name) for name in ("decide", "commit", "observe")):
            raise ValueError(
                f"policy must have agents that decide, commit and observe for a delay, got {agent!r}"
            )
        self.delay = delay
        self.agent: Any = agent  # both kinds decide, in their own words
        self.made: Any = None  # the latest decision
        self.late: deque[tuple[Any, float, Mapping[str, float] | None]] = deque()

    @property
    def gate(self) -> Any:
        """What decides whether practice is drawn."""
        return getattr(self.agent, "gate", None)

    def decide(self, **question: Any) -> Any:
        """As the agent does."""
        self.made = self.agent.decide(**question)
        return self.made

    def select(self) -> int:
        """The arm of that decision."""
        return int(self.decide().arm)

    def update(self, arm: Any, reward: float, metrics: Mapping[str, float] | None = None) -> None:
        """Play what was decided, and tell what came of the round before the delay."""
        self.agent.commit(self.made)
        self.late.append((self.made, reward, metrics))
        if len(self.late) > self.delay:
            decision, came, values = self.late.popleft()
            self.agent.observe(decision, came, **({} if values is None else {"metrics": values}))

    def play_rounds(self, means: Floats, draws: Floats, **world: Any) -> Rounds:
        """What is played in a known world."""
        driver = getattr(self.agent, "driver", None)
        if driver is None:
            return rounds_in_python(self, means, draws, **world)
        found: Rounds = driver.play(self, means, draws, **world)
        return found
