"""A loop without a database: decisions and rewards are applied as they would be after recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from helpers.service_process import spec_of

from linoto.service.loops.choice import make_decision
from linoto.service.loops.events import DecisionMade, RewardRecorded
from linoto.service.loops.loop import Loop

Lost = Callable[[DecisionMade, float], bool]


def fresh(name: str = "loop", **changes: Any) -> Loop:
    return Loop.fresh(name, spec_of(**changes))


def decide(loop: Loop, **request: Any) -> DecisionMade:
    options: dict[str, Any] = {"key": None, "proposal": None, "expires_at": 0.0, **request}
    allowed = options.pop("allowed", None)
    question = loop.arms.question(None, allowed and [loop.names[arm] for arm in allowed], None)
    event, _ = make_decision(loop, question, **options)
    loop.apply(event, float(event.number))
    return event


def close(loop: Loop, number: int, reward: float | None) -> None:
    """With a reward, or None: with the default, after the window."""
    value, origin = (loop.spec.default_reward, "default") if reward is None else (reward, "reported")
    loop.apply(RewardRecorded(number=number, reward=value, origin=origin), loop.state.at)  # type: ignore[arg-type]


def play(
    loop: Loop,
    rounds: int,
    means: list[float],
    *,
    lost: Lost = lambda event, reward: False,
    seed: int = 0,
    **request: Any,
) -> Iterator[DecisionMade]:
    """Play in a world of clicks; a lost reward is closed by the default at once."""
    rng = np.random.default_rng(seed)
    for draw in rng.random(rounds).tolist():
        event = decide(loop, **request)
        reward = float(draw < means[event.arm])
        close(loop, event.number, None if lost(event, reward) else reward)
        yield event
