"""What a snapshot keeps of an agent: everything that its future depends on, each row under its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linoto.core import arm_changes, codec, kernels
from linoto.core.kernels import State

if TYPE_CHECKING:
    from linoto.core.agent import LinearAgent

# 1 held whole arrays and the parameters, 2 knew nothing of lost rewards, 3 held the zeros of one-hot arms and
# knew nothing of arms that come and go, 4 knew coins of a generator
# only, and not which rounds await their reward
SNAPSHOT_FORMAT = 5


def snapshot_of(agent: LinearAgent) -> bytes:
    """An agent as bytes; what only one call needs, and what is recomputed, is left out."""
    state, params = agent._state, agent._params[0]
    header = {
        "format": SNAPSHOT_FORMAT,
        "agent": "linear",
        "policy": codec.encode(agent.policy),
        "names": agent.names,
        "rng": codec.encode_rng(agent._rng),
    }
    if agent._coins is not None:
        header["coins"] = agent._coins.encoded()
    if agent.changes:
        header["changes"] = arm_changes.encode(agent.changes)
    if agent._stays_safe:
        header["stays_safe"] = True
    arrays = lasting_arrays(state, rows_left_out(agent))
    agent._open.save(header, arrays)
    if params["estimates_noise"] and agent._reward_squares is not None:  # else nothing reads them
        arrays["reward_squares"] = agent._reward_squares
    return codec.pack(header, arrays)


def rows_left_out(agent: LinearAgent) -> set[str]:
    """The rows of the state that this agent's future does not depend on."""
    run = agent._state.run[0]
    return {
        *kernels.SCRATCH,
        *kernels.TALLIES,
        *(kernels.GATE_ROWS - agent.gate.rows),
        *({"given"} if agent._own else ()),  # made anew for each decision
        *(() if agent._params[0]["memory"] else kernels.MEMORY_ROWS),
        *(() if run["one_hot"] else {"place"}),
        *(() if run["premium"] > 0 else kernels.PRACTICE_ROWS),
    }


def is_lasting(name: str, without: set[str]) -> bool:
    """Whether a row is stored; of the estimate without the log, only what rewards have taught."""
    own = name.removeprefix("online_")
    return own not in without and (own == name or own in kernels.ONLINE_ROWS)


def lasting_arrays(state: State, without: set[str]) -> dict[str, Any]:
    """The state row by row, each under its name, but for some rows and a decision that may change."""
    run = state.run.copy()
    for name in () if run[0]["thrown"] else kernels.DECIDED:
        run[name] = 0
    for name in set(kernels.RUN.names or ()) - kernels.ONLINE_FIELDS:
        run[1:][name] = 0
    rows = {
        f"{group}.{name}": getattr(state, group)[index]
        for group, names in kernels.row_names(kernels.is_shifted(state)).items()
        for index, name in enumerate(names)
        if is_lasting(name, without)
    }
    return {"actions": state.actions, "run": run, **rows}
