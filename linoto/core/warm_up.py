"""Loading the compiled kernels, or compiling them once per machine, before the first decision needs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from linoto.core import kernels
from linoto.core.kernels import Records, State

logger = logging.getLogger("linoto")


@cache
def explain_the_wait() -> None:
    """Said once in a process, however many kernels are compiled."""
    logger.warning("linoto compiles its kernels, once per machine: this takes about twenty seconds")


@contextmanager
def announced() -> Iterator[None]:
    """Say why nothing happens, if compiling takes long."""
    timer = threading.Timer(2.0, explain_the_wait)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache
def warm_up() -> None:
    """Load (or, once per machine, compile) what deciding needs, on a problem of one arm."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        kernels.decide(params, state, -1)
        kernels.commit(params, state, 0, False)
        kernels.observe(params, state, 0, False, 0.0)
        kernels.update(params, state, 0, False, 0.0)


@cache
def warm_up_loop() -> None:
    """Load (or compile) the simulator's loop."""
    with announced():
        params, state = tiny_problem()
        kernels.begin(params, state)
        one = np.zeros(1)
        out = np.empty(1, np.int64), np.empty(1, np.bool_)
        kernels.play(params, state, one, one, False, 0.0, 1.0, np.empty((1, 0)), *out)


def tiny_problem() -> tuple[Records, State]:
    """One arm, one feature, an empty log."""
    params = np.zeros(1, dtype=kernels.PARAMS)
    params["ridge"] = 1.0
    return params, kernels.allocate(np.ones((1, 1)), np.zeros(1, np.int64), np.zeros(1))
