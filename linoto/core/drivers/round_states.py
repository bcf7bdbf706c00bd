"""What a state of rounds that bring their own arms begins with."""

from __future__ import annotations

from typing import Any

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Floats, Ints, Records
from linoto.core.drivers.driver import bounds_of
from linoto.core.drivers.order import Order, order_for
from linoto.core.drivers.questions import as_weights
from linoto.core.features.moments import Moments
from linoto.core.kernels import State
from linoto.core.kernels.layout import Part
from linoto.core.protocols import Composition

LONGEST_OWN = 2  # features of an arm, for each arm there is, up to which loops over arms are the faster ones


def empty_state(params: Records, moments: Moments) -> State:
    """A state before it begins, for as many features as the log has."""
    state = kernels.allocate_rounds(params, moments.gram, moments.reward_vector)
    know_log(state, moments)
    return state


def order_of(composition: Composition, params: Records, features: Any) -> Order | None:
    """The order of features in a state; refuses a radius of each arm's own model where there are none."""
    by_own = composition.assumed.radius == "own"
    can_be_ordered = params.size == 1 and params[0]["explorer"] != kernels.LOGISTIC  # R is all that is kept
    order = order_for(features, needed=by_own) if can_be_ordered else None
    if by_own and order is None:
        raise ValueError(
            "radius must be another than 'own' where no feature is one arm's own: OwnFeatures, or a recipe "
            "with the item or crosses of it"
        )
    return order


def own_features(composition: Composition, features: Any) -> int:
    """How many features each arm has, where each has a radius of its own; else 0."""
    return int(features.own_width) if composition.assumed.radius == "own" else 0


def bounds_in_rounds(params: Records, state: State) -> tuple[Floats, Floats]:
    """(n,) each: bounds on what the arms in a state earn, lost rewards included.

    They are of each arm's own model where every feature is one arm's: what arms share is known from all.
    """
    run, rows = state.run[0], state.arms
    if run["own_features"] == 0 or run["border"] < state.vectors.shape[1]:
        return bounds_of(state)
    radii = np.empty(rows.shape[1])
    kernels.own_radii(params, state, radii)
    margin = (radii + float(run["lost_radius"])) * rows[kernels.WIDTH]
    return rows[kernels.MEAN] - margin, rows[kernels.MEAN] + margin


def interval_apart(params: Records, state: State, inside: Floats, shift: Part) -> tuple[float, float]:
    """The same of one action (d,), in the order of a state whose arms it leaves alone."""
    apart = state._replace(arms=state.arms[:, :0], run=state.run.copy())
    own = kernels.with_arms(apart, inside[:, None].copy())
    kernels.measure_all(params, own, np.empty((inside.size, 1)), shift)
    lower, upper = bounds_in_rounds(params, own)
    return float(lower[0]), float(upper[0])


def beside(state: State, features: Any, order: Order | None) -> State:
    """The state with R laid out for loops over all arms, where each has features of its own and no others."""
    if order is None or not order.is_plain or features is None:
        return state
    if features.own_width > LONGEST_OWN * len(features.items):
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
