"""Loading the compiled kernels, or compiling them once per machine, before the first decision needs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Records
from linoto.core.kernels import State

logger = logging.getLogger("linoto")
PATIENCE = 2.0  # seconds


@cache
def explain_the_wait() -> None:
    """Said once in a process, however many kernels are compiled."""
    logger.warning("linoto compiles its kernels, once per machine: this takes up to a minute")


@contextmanager
def announced() -> Iterator[None]:
    """Say why nothing happens, if it takes long because kernels are compiled and not only loaded."""
    done = threading.Event()
    threading.Thread(target=explain_compiling, args=(done,), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def explain_compiling(done: threading.Event) -> None:
    """Look every now and then until it is done; loading can take as long on a busy machine."""
    while not done.wait(PATIENCE):
        if any_compiled(vars(kernels).values()):
            explain_the_wait()
            return


def any_compiled(functions: Iterable[Any]) -> bool:
    """Whether one of these was not found in the cache on disk, and so is being compiled, or was."""
    return any(function.stats.cache_misses for function in functions if hasattr(function, "stats"))


@cache
def warm_up() -> None:
    """Load (or, once per machine, compile) what deciding needs, on a problem of one arm."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        kernels.decide(params, state, -1)
        kernels.commit(params, state, 0, False)
        kernels.observe(params, state, 0, False, 0.0, 0.0)
        kernels.update(params, state, 0, False, 0.0)
        kernels.tally(params, state)
        kernels.meet_arms(params, state, 0)
        kernels.lose_arms(params, state)
        kernels.rounding(np.ones(1, np.int64), np.zeros(1, np.int64))


@cache
def warm_up_contexts() -> None:
    """Load (or compile) what deciding in contexts needs, in a round of one arm."""
    with announced():
        params, one = np.zeros(1, dtype=kernels.PARAMS), np.ones(1)
        params["ridge"] = 1.0
        state = kernels.with_arms(kernels.allocate_rounds(np.zeros((1, 1)), one), np.ones((1, 1)))
        kernels.context_begin(params, state, np.ones((1, 1)), one)
        kernels.context_decide(params, state, np.ones((1, 1)), one, 1, -1)
        kernels.context_commit(params, state, one, one, False)
        kernels.context_observe(params, state, one, 0.0, 0.0)
        kernels.context_widen(params, state)


@cache
def warm_up_context_loop() -> None:
    """Load (or compile) the simulator's loop over rounds with contexts."""
    with announced():
        params, one = np.zeros(1, dtype=kernels.PARAMS), np.ones(1)
        params["ridge"] = 1.0
        state = kernels.with_arms(kernels.allocate_rounds(np.zeros((1, 1)), one), np.ones((1, 1)))
        kernels.context_begin(params, state, np.ones((1, 1)), one)
        rounds = np.ones(1, np.int64), np.ones((1, 1)), one, one, one, False
        draws = np.empty((1, 0)), np.zeros((1, 2)), np.zeros((2, 1))
        kernels.context_play(params, state, *rounds, *draws, *np.empty((3, 1), np.int64))


@cache
def warm_up_loop() -> None:
    """Load (or compile) the simulator's loop."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        world = np.zeros((1, 1)), np.zeros(1, np.int64), 0, np.zeros(1), False, 0.0, np.zeros(1)
        randoms = np.empty((1, 0)), np.empty((1, 0))
        kernels.play(params, state, *world, *randoms, *np.empty((3, 1), np.int64))


def tiny_problem() -> tuple[Records, State]:
    """One arm, one feature, an empty log."""
    params = np.zeros(1, dtype=kernels.PARAMS)
    params["ridge"] = 1.0
    return params, kernels.allocate(np.ones((1, 1)), np.zeros(1, np.int64), np.zeros(1))
