"""Reading snapshots back: the same future, or a clear refusal."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from linoto.core import codec, gates, kernels, policies
from linoto.core.agent import SNAPSHOT_FORMAT, LinearAgent
from linoto.core.confidence import Confidence
from linoto.core.doubling import Doubling, DoublingAgent
from linoto.core.guard import Guard
from linoto.core.offline import Offline
from linoto.core.validation import as_actions
from linoto.core.warm_up import warm_up

KNOWN: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Confidence,
        Doubling,
        gates.Open,
        gates.Closed,
        gates.Budget,
        gates.Tolerance,
        policies.LinOtO,
        policies.LinUCB,
        policies.LinLCB,
        policies.LinTS,
        policies.Greedy,
        policies.Random,
        policies.Gated,
    )
}


def to_dict(policy: Any) -> dict[str, Any]:
    """A policy, gate or confidence as plain JSON data.

    >>> to_dict(policies.Random())
    {'type': 'Random'}
    """
    data: dict[str, Any] = codec.encode(policy)
    return data


def from_dict(data: dict[str, Any]) -> Any:
    """The policy, gate or confidence that `to_dict` wrote.

    >>> from_dict({"type": "LinTS", "scale": 0.5})
    LinTS(scale=0.5, confidence=None)
    """
    if not isinstance(data, dict):
        raise ValueError(f"policy must be a dict with a type, got {type(data).__name__}")
    return codec.decode(data, KNOWN)


def restore(blob: bytes, actions: npt.ArrayLike | None = None) -> Any:
    """The agent whose `snapshot()` this is. Give `actions` to insist that the arm set is unchanged."""
    readers: dict[str, Callable[..., Any]] = {
        "linear": restore_linear,
        "doubling": restore_doubling,
        "guard": restore_guard,
    }
    try:
        header, arrays = read(blob)
        agent = readers[header["agent"]](header, arrays)
    except ValueError:
        raise
    except Exception as error:  # zip, npy, JSON and the generators each complain in their own way
        raise ValueError("snapshot must be bytes written by agent.snapshot(), got something else") from error
    if actions is not None and isinstance(agent, Guard):
        raise ValueError("actions must be None for the snapshot of a Guard, which has no features")
    if actions is not None and not np.array_equal(as_actions(actions), agent.actions):
        raise ValueError("actions must be the arms of the snapshot, got another arm set")
    return agent


def read(blob: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The header and the arrays of a snapshot of this format."""
    try:
        with np.load(io.BytesIO(blob), allow_pickle=False) as file:
            begins = min(member.header_offset for member in file.zip.infolist())
            arrays = {name: file[name] for name in file.files}
        header = json.loads(str(arrays.pop("header")))
    except ValueError:
        raise ValueError("snapshot must be bytes written by agent.snapshot(), got something else") from None
    if begins != 0:  # half a Doubling's snapshot would pass for the whole one of the agent inside
        raise ValueError("snapshot must be complete, got a part of one")
    if header["format"] != SNAPSHOT_FORMAT:
        raise ValueError(f"snapshot must be of format {SNAPSHOT_FORMAT}, got format {header['format']!r}")
    return header, arrays


def restore_linear(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> LinearAgent:
    """A LinearAgent from its header and arrays."""
    policy = from_dict(header["policy"])
    params = arrays.pop("params", np.zeros(0))
    if params.dtype != kernels.PARAMS or params.shape != (1,) or set(arrays) != set(kernels.State._fields):
        raise ValueError("snapshot must hold the arrays of this version, got others")
    d, k = arrays["actions"].shape if arrays["actions"].ndim == 2 else (0, 0)
    expected = kernels.allocate(np.zeros((k, d)), np.zeros(k, np.int64), np.zeros(k))
    for name, array in expected._asdict().items():
        if array.shape != arrays[name].shape or array.dtype != arrays[name].dtype or k == 0:
            raise ValueError(f"snapshot must hold {name} of shape {array.shape}, got {arrays[name].shape}")
        np.copyto(array, arrays[name])
    if not 0 <= params[0]["fixed_arm"] < k:  # a kernel would read past the end
        raise ValueError(f"snapshot must have a fixed arm in [0, {k}), got {params[0]['fixed_arm']}")
    warm_up()
    names = header["names"]
    return LinearAgent(
        policy=policy,
        params=params,
        state=expected,
        rng=codec.decode_rng(header["rng"]),
        names=None if names is None else tuple(names),
    )


def restore_doubling(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> DoublingAgent:
    """A DoublingAgent, and inside it the agent of its epoch."""
    policy = from_dict(header["policy"])
    inner = restore(arrays["inner"].tobytes())
    agent = DoublingAgent(
        policy=policy,
        actions=arrays["actions"],
        offline=Offline(pulls=arrays["pulls"], reward_sums=arrays["reward_sums"]),
        rng=inner._rng,
        extra=header["extra"],
    )
    agent.inner, agent.epoch, agent.played = inner, header["epoch"], header["played"]
    if arrays["stale"].shape != agent.stale.shape or arrays["stale"].dtype != agent.stale.dtype:
        raise ValueError(
            f"snapshot must hold stale of shape {agent.stale.shape}, got {arrays['stale'].shape}"
        )
    agent.stale[:] = arrays["stale"]
    return agent


def restore_guard(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Guard:
    """A Guard from its gate, its confidence and its books."""
    return Guard.from_parts(from_dict(header["gate"]), from_dict(header["confidence"]), arrays)
