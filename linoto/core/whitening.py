"""Who learns in the coordinates of the last refresh: agents that read no more than means and widths."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Records
from linoto.core.kernels import State
from linoto.core.offline import Offline
from linoto.core.slices import is_wide, slices_for
from linoto.core.validation import MANY_ARMS
from linoto.core.within import within

WHITENED: ContextVar[bool] = ContextVar("WHITENED", default=True)


def whitening(wanted: bool) -> AbstractContextManager[None]:
    """Whether states that are started in here may be whitened: what an older version stored is not."""
    return within(WHITENED, wanted)


def is_whitened(params: Records, actions: Floats) -> bool:
    """Whether an agent with these arms (k, d) learns so, unless they are one-hot.

    Sums of plays by the linear model, draws from the posterior, a shift and a memory need V^-1, theta or R
    after every reward.
    """
    p = params[0]
    by_bounds = p["gate"] == kernels.BUDGET and p["form"] == kernels.EXACT
    return bool(
        WHITENED.get()
        and len(actions) < MANY_ARMS  # from there on lists, or refreshes in slices, spare more
        and (slices_for(*actions.shape) == 0 or is_wide(*actions.shape))
        and actions.dtype == np.float64
        and params.size == 1
        and p["explorer"] in (kernels.UCB, kernels.GREEDY)
        and (by_bounds or p["gate"] in (kernels.OPEN, kernels.CLOSED))
        and p["fallback"] != kernels.CERTIFIED
        and p["memory"] == p["keeps_factor"] == 0
    )


def fresh_state(params: Records, actions: Floats, offline: Offline) -> State:
    """An empty state for these arms (k, d) and their log, whitened where that suits; `begin` fills it."""
    shifted, more = params.size > 1, bool(params[0]["explorer"] == kernels.LOGISTIC)
    log = offline.pulls, offline.reward_sums
    return kernels.allocate(actions, *log, shifted, more, is_whitened(params, actions))


def white_steps(state: State) -> int:
    """How many steps it takes, at the most, to make V^-1 or the arms of a whitened state."""
    return int(2 * state.square[0].size * sum(state.actions.shape))
