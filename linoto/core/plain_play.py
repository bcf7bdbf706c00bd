"""The loop of rounds for an agent that only Python can ask; `kernels.play` is the compiled one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats, Ints
from linoto.core.decisions import SOURCES
from linoto.core.protocols import Agent, FullAgent
from linoto.core.validation import as_arm


class Rounds(NamedTuple):
    """What was played in some rounds, (n,) each."""

    arms: Ints
    sources: Ints  # where each arm came from, as an index of SOURCES
    fallbacks: Ints  # the safe arm, or practice's; -1 where there was none

    @property
    def explored(self) -> Bools:
        """(n,) where the explorer's arm was played."""
        return np.asarray(self.sources == kernels.FROM_EXPLORER)


def segments(starts: Ints, first: int, rounds: int) -> Ints:
    """(rounds,) which segment each round from `first` on is in, where `starts` are the first of each."""
    return np.asarray(np.searchsorted(starts, np.arange(first, first + rounds), side="right") - 1)


def play_in_python(
    agent: Agent | FullAgent, means: Floats, draws: Floats, **world: Any
) -> tuple[Ints, Bools]:
    """Select, pay, update: the arms (n,) of these rounds, and which of them were explored."""
    rounds = rounds_in_python(agent, means, draws, **world)
    return rounds.arms, rounds.explored


def rounds_in_python(
    agent: Agent | FullAgent,
    means: Floats,
    draws: Floats,
    *,
    starts: Ints | None = None,
    first: int = 0,
    bernoulli: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    spread: Floats | None = None,
) -> Rounds:
    """The same, with where each arm came from. With `starts`, each row of means (segments, k) holds from its
    start on; `first` is the number of the first round here.
    """
    rounds = Rounds(*np.full((3, draws.size), [[0], [kernels.FROM_EXPLORER], [-1]], dtype=np.int64))
    reasons = hasattr(getattr(agent, "inner", agent), "decide")
    decide = getattr(agent, "decide", None) if reasons else None
    low, high = reward_range
    table = np.atleast_2d(means)
    rows = segments(np.zeros(1, np.int64) if starts is None else starts, first, draws.size).tolist()
    steps = np.full(table.shape[1], high - low if bernoulli else 1.0) if spread is None else spread
    for t, draw in enumerate(draws.tolist()):
        if decide:
            decision = decide()
            arm, rounds.sources[t] = decision.arm, SOURCES.index(decision.source)
            rounds.fallbacks[t] = -1 if decision.fallback is None else decision.fallback
        else:
            arm = as_arm(agent.select(), table.shape[1])
        rounds.arms[t] = arm
        mean, step = float(table[rows[t], arm]), float(steps[arm])
        reward = mean + step * draw
        if bernoulli:
            reward = low + step if draw * step < mean - low else low
        agent.update(arm, reward)
    return rounds
