"""The loop of rounds for an agent that only Python can ask; `kernels.play` is the compiled one."""

from __future__ import annotations

import numpy as np

from linoto.core.kernels import Bools, Floats, Ints
from linoto.core.protocols import Agent, FullAgent
from linoto.core.validation import as_arm


def play_in_python(
    agent: Agent | FullAgent,
    means: Floats,
    draws: Floats,
    *,
    bernoulli: bool = False,
    reward_range: tuple[float, float] = (0.0, 1.0),
    spread: Floats | None = None,
) -> tuple[Ints, Bools]:
    """Select, pay, update: the arms (n,) of these rounds, and which of them were explored."""
    arms = np.empty(draws.size, dtype=np.int64)
    explored = np.ones(draws.size, dtype=np.bool_)
    reasons = hasattr(getattr(agent, "inner", agent), "decide")
    decide = getattr(agent, "decide", None) if reasons else None
    low, high = reward_range
    steps = np.full(means.size, high - low if bernoulli else 1.0) if spread is None else spread
    for t, draw in enumerate(draws.tolist()):
        if decide:
            decision = decide()
            arm, explored[t] = decision.arm, decision.mode == "explore"
        else:
            arm = as_arm(agent.select(), means.size)
        arms[t] = arm
        mean, step = float(means[arm]), float(steps[arm])
        reward = mean + step * draw
        if bernoulli:
            reward = low + step if draw * step < mean - low else low
        agent.update(arm, reward)
    return arms, explored
