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
MOST_BYTES = 16_000  # a float for each of the interactive rounds is already more
FEWER = 4  # so many times fewer rounds tell, unless something else happens to be kept


def memory_is_constant(policy: Policy) -> None:
    """An agent holds as much after many rounds as after few."""
    problem = problem_for(policy)
    agent = problem.start_agent(policy)
    problem.play_rounds(agent, range(300))
    expect_no_growth(
        lambda rounds: [problem.play_rounds(agent, range(300)) for _ in range(rounds // 300)],
        INTERACTIVE_ROUNDS,
    )


def memory_of_the_loop_is_constant(policy: Policy) -> None:
    """play() leaves nothing behind but what it returns."""
    problem = problem_for(policy)
    agent = problem.start_full_agent(policy)
    draws = np.resize(problem.noise, COMPILED_ROUNDS)
    agent.play(problem.means, draws[:300])
    expect_no_growth(lambda rounds: agent.play(problem.means, draws[:rounds]), COMPILED_ROUNDS)


def expect_no_growth(play: Callable[[int], object], rounds: int) -> None:
    """Little more memory is held after so many rounds than before them."""
    if held_after(play, rounds // FEWER) <= MOST_BYTES // FEWER:
        return
    held = held_after(play, rounds)
    expect(held <= MOST_BYTES, f"{held} bytes more are held")


def held_after(play: Callable[[int], object], rounds: int) -> int:
    """How many bytes more are held after so many rounds than before them."""
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        play(rounds)
        if tracemalloc.get_traced_memory()[0] - before > MOST_BYTES // FEWER:
            gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if not already:
            tracemalloc.stop()
