"""What a state of rounds that bring their own arms begins with."""

from __future__ import annotations

from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints, Records
from linoto.core.drivers.order import Order
from linoto.core.drivers.questions import as_weights
from linoto.core.features.moments import Moments
from linoto.core.kernels import State

LONGEST_OWN = 2  # features of an arm, for each arm there is, up to which loops over arms are the faster ones


def empty_state(params: Records, moments: Moments) -> State:
    """A state before it begins, for as many features as the log has."""
    state = kernels.allocate_rounds(params, moments.gram, moments.reward_vector)
    know_log(state, moments)
    return state


def can_be_ordered(params: Records) -> bool:
    """Whether R is all that is kept of features: no log that may have moved, no log-odds of clicks."""
    return bool(params.size == 1 and params[0]["explorer"] != kernels.LOGISTIC)


def beside(state: State, features: Any, order: Order | None) -> State:
    """The state with R laid out for loops over all arms, where each has features of its own and no others."""
    if order is None or not order.is_plain or features.own_width > LONGEST_OWN * len(features.items):
        return state
    return kernels.with_blocks(state, features.own_width)


def know_log(state: State, moments: Moments) -> None:
    """What bounds read of a log that may have moved."""
    if kernels.is_shifted(state):
        rows, _ = moments.as_rows()
        state.square[kernels.LOG_GRAM], state.square[kernels.LOG_ROOT] = moments.gram, 0.0
        state.square[kernels.LOG_ROOT, : len(rows)] = rows


def before_arms(state: State, actions: Floats, places: Floats | Ints | None) -> State:
    """`kernels.with_arms`, in half the time where there are as many arms as before."""
    if not actions.flags.carray:  # kernels take it on trust
        actions = np.array(actions, order="C")
    if actions.shape[1] != state.arms.shape[1]:
        return kernels.with_arms(state, actions, places)
    state.arms[kernels.PLACE] = 0.0 if places is None else places
    return State._make((actions, *state[1:]))


def normalised(ends: Ints, weights: Floats) -> Floats:
    """The weights as an agent that is asked reads them: each round divided by its sum, bit for bit."""
    begins, found = np.append(0, ends[:-1]), weights.copy()
    drawn = np.flatnonzero(np.maximum.reduceat(weights, begins) != 1.0)  # else practice is one arm
    for t in drawn.tolist():
        found[begins[t] : ends[t]] = as_weights(weights[begins[t] : ends[t]])
    return found
