"""An agent holds as much after many rounds as after few."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable

import numpy as np

from linoto.checks.problems import expect, problem_for
from linoto.core.protocols import Policy

COMPILED_ROUNDS = 20_000  # one byte for each of them is too much already
INTERACTIVE_ROUNDS = 2_400
Play = Callable[[int], object]
# One in so many of the rounds, the most bytes, and how often: a float for each interactive round is more. A
# quarter of them tells, unless something else happens to be kept: that does not happen twice.
Try = tuple[int, int, int]
TRIES: tuple[Try, ...] = ((4, 4_000, 1), (4, 4_000, 1))
# Memory that libraries hand out again is seen once it was used while we look: only the second time counts.
LAST_OF_ROUNDS: Try = (2, 9_000, 2)
LAST_OF_THE_LOOP: Try = (1, 18_000, 1)


def memory_is_constant(policy: Policy) -> None:
    """An agent holds as much after many rounds as after few."""
    problem = problem_for(policy)

    def begin() -> Play:
        agent = problem.start_agent(policy)
        problem.play_rounds(agent, range(300))
        return lambda rounds: [problem.play_rounds(agent, range(300)) for _ in range(rounds // 300)]

    expect_no_growth(begin, INTERACTIVE_ROUNDS, LAST_OF_ROUNDS)


def memory_of_the_loop_is_constant(policy: Policy) -> None:
    """play() leaves nothing behind but what it returns."""
    problem = problem_for(policy)
    draws = np.resize(problem.noise, COMPILED_ROUNDS)

    def begin() -> Play:
        agent = problem.start_full_agent(policy)
        agent.play(problem.means, draws[:300])
        return lambda rounds: agent.play(problem.means, draws[:rounds])

    expect_no_growth(begin, COMPILED_ROUNDS, LAST_OF_THE_LOOP)


def expect_no_growth(begin: Callable[[], Play], rounds: int, last: Try) -> None:
    """Little more memory is held after so many rounds than before them."""
    for fewer, most, times in (*TRIES, last):
        held = held_after(begin(), rounds // fewer, most, times)
        if held <= most:
            return
    expect(False, f"{held} bytes more are held")


def held_after(play: Play, rounds: int, most: int, times: int = 1) -> int:
    """How many bytes more are held after so many rounds than before them, the last of so many times.

    Garbage counts if it is little.
    """
    already = tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        for _ in range(times):
            tidy()  # else what Python keeps for later is thrown away below, and counts when it is back
            before = tracemalloc.get_traced_memory()[0]
            play(rounds)
        if tracemalloc.get_traced_memory()[0] - before > most:
            tidy()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        if not already:
            tracemalloc.stop()


def tidy() -> None:
    """Throw away garbage, and what Python keeps to find attributes sooner.

    That holds the last 4,096 names which were looked up: copies of the same few where C code asks for them.
    """
    gc.collect()
    newer = getattr(sys, "_clear_internal_caches", None)  # from Python 3.13 on
    (newer or sys._clear_type_cache)()
