"""Snapshots of contextual agents: what lasts from one round to the next, and a coin that is thrown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from linoto.core import codec, kernels
from linoto.core.kernels import State

if TYPE_CHECKING:
    from linoto.core.contexts.agent import ContextualAgent

SQUARE_ROWS = (*kernels.SQUARE_ROWS, "lost")
LASTING_SQUARES = ("gram", "inverse", "factor", "lost")
LASTING_VECTORS = ("target", "theta", "half", "excess", "normals")  # the others are of one round, or unused


def lasting_rows(state: State) -> dict[str, npt.NDArray[Any]]:
    """The rows of a state that a snapshot holds, each under its name: views."""
    squares = {f"square.{name}": state.square[SQUARE_ROWS.index(name)] for name in LASTING_SQUARES}
    vectors = {f"vectors.{name}": state.vectors[kernels.VECTOR_ROWS.index(name)] for name in LASTING_VECTORS}
    if len(state.square) == kernels.LOST_GRAM + 1:
        return squares | vectors
    recent = state.square[kernels.RECENT_FACTOR], state.vectors[kernels.RECENT_HALF]
    return squares | vectors | {"square.recent": recent[0], "vectors.recent": recent[1]}


def snapshot_of(agent: ContextualAgent, format: int) -> bytes:
    """Everything needed to continue, as bytes that `linoto.restore` reads."""
    moments, run = agent.moments, agent._state.run.copy()
    for name in (*kernels.DECIDED, "longest"):
        run[name] = 0
    header = {
        "format": format,
        "agent": "contextual",
        "policy": codec.encode(agent.policy),
        "rng": codec.encode_rng(agent._rng),
        "coins": agent._coins.encoded(),
        "count": moments.count,
        "reward_sum": moments.reward_sum,
        "reward_squares": moments.reward_squares,
    }
    if agent.changes:
        header["changes"] = [change.to_dict() for change in agent.changes]
    arrays = {"run": run, "gram": moments.gram, "reward_vector": moments.reward_vector}
    if agent._thrown is not None:
        asked, decision = agent._thrown
        header |= {"thrown": decision.to_dict(), "offered": asked.offered, "names": asked.names}
        arrays |= {"actions": asked.actions, "weights": asked.weights}
    if agent._stays_safe:
        header["stays_safe"] = True
    agent._open.save(header, arrays)
    return codec.pack(header, arrays | lasting_rows(agent._state))
