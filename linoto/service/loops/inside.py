"""What the service needs to know of an agent beyond its public methods, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from linoto.core import kernels
from linoto.core.agent import LinearAgent
from linoto.core.decisions import SOURCES
from linoto.core.decisions import check_reward as check_reward_of
from linoto.core.kernels import Bools, Ints


def core(agent: Any) -> LinearAgent:
    """The linear agent at the bottom: the agent itself, or that of a Doubling's epoch."""
    while not isinstance(agent, LinearAgent):
        agent = agent.inner
    return agent


def check_reward(agent: Any, reward: float) -> None:
    """Refuse, before anything is written, a reward that `observe` would refuse."""
    check_reward_of(core(agent)._params, reward)


@contextmanager
def only(agent: Any, mask: Bools) -> Iterator[None]:
    """Only these arms can be played inside."""
    state = core(agent)._state
    state.counts[kernels.ALLOWED], state.run["restricted"] = mask, 1
    try:
        yield
    finally:
        state.counts[kernels.ALLOWED], state.run["restricted"] = 1, 0


def fallback_source(agent: Any) -> str:
    """Where the fallback of the decision just made comes from."""
    return SOURCES[int(core(agent)._state.run[0]["fallback_source"])]


def mixture_counts(agent: Any) -> tuple[Ints, Ints]:
    """(k,) logged pulls, and mixture plays that the agent has counted."""
    counts = core(agent)._state.counts
    return counts[kernels.LOGGED], counts[kernels.MIXED]


def affordable_arms(agent: Any) -> Bools:
    """(k,) what the gate made of every arm at the decision just made."""
    result: Bools = core(agent)._state.arms[kernels.ROOM] > 0
    return result


def parameter(agent: Any, name: str) -> Any:
    """A setting, as the kernels have it."""
    return core(agent)._params[0][name].item()


def interval(agent: Any, arm: int) -> tuple[float, float]:
    """(lcb, ucb) of one arm, as in `agent.lcb` and `agent.ucb`."""
    state = core(agent)._state
    bonus = float(state.run[0]["radius"]) * float(state.arms[kernels.WIDTH, arm])
    return float(state.arms[kernels.LCB, arm]), float(state.arms[kernels.MEAN, arm]) + bonus
