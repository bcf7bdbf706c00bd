"""An agent holds as much after many rounds as after few."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np

from linoto.checks.problems import expect, problem_for
from linoto.core.protocols import Policy

COMPILED_ROUNDS = 20_000  # one byte for each of them is too much already
INTERACTIVE_ROUNDS = 2_400
MOST_BYTES = 16_384  # a float for each of the interactive rounds is already more


def memory_is_constant(policy: Policy) -> None:
    """An agent holds as much after many rounds as after few."""
    problem = problem_for(policy)
    agent = problem.start_agent(policy)
    problem.play_rounds(agent, range(300))
    expect_no_growth(
        lambda: [problem.play_rounds(agent, range(300)) for _ in range(INTERACTIVE_ROUNDS // 300)]
    )


def memory_of_the_loop_is_constant(policy: Policy) -> None:
    """play() leaves nothing behind but what it returns."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    draws = np.resize(problem.noise, COMPILED_ROUNDS)
    agent.play(problem.means, draws[:300])
    expect_no_growth(lambda: agent.play(problem.means, draws))


def expect_no_growth(action: Callable[[], object]) -> None:
    """Little more memory is held after an action than before it."""
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        if tracemalloc.get_traced_memory()[0] - before > MOST_BYTES:
            gc.collect()
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        if not already:
            tracemalloc.stop()
    expect(held <= MOST_BYTES, f"{held} bytes more are held")
