"""A loop as it is asked for: checked once, made canonical, and started."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from linoto.agent import as_generator
from linoto.data import Offline
from linoto.kernels import Floats
from linoto.service import inside
from linoto.service.errors import invalid
from linoto.service.messages import LogStatistics, LoopSpec
from linoto.snapshots import from_dict, to_dict

MOST_FEATURES = 2000  # an agent holds a few d x d matrices
MOST_NUMBERS = 4_000_000  # of all features together


def canonical(spec: LoopSpec) -> LoopSpec:
    """The same loop with its defaults written out and its rows counted; refuses what cannot work."""
    try:
        policy = from_dict(spec.policy)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise invalid(f"policy: {error}") from error
    if not callable(getattr(policy, "start", None)):
        raise invalid(f"policy must be a policy, got a {spec.policy.get('type')}")
    offline = statistics(spec)
    return msgspec.structs.replace(spec, policy=to_dict(policy), offline=offline, rows=None)


def statistics(spec: LoopSpec) -> LogStatistics | None:
    """The log of a loop as statistics, from whichever form it was given in."""
    if spec.rows is None:
        return spec.offline
    if spec.offline is not None:
        raise invalid("rows must be left out where offline is given, got both")
    index = {arm.name: i for i, arm in enumerate(spec.arms)}
    unknown = next((name for name, _ in spec.rows if name not in index), None)
    if unknown is not None:
        raise invalid(f"rows must name arms of the loop, got {unknown!r}")
    arms, rewards = [index[name] for name, _ in spec.rows], [reward for _, reward in spec.rows]
    log = Offline.from_rows(arms, rewards, k=len(spec.arms))
    squares = None if log.reward_squares is None else log.reward_squares.tolist()
    return LogStatistics(
        pulls=log.pulls.tolist(), reward_sums=log.reward_sums.tolist(), reward_squares=squares
    )


def features(spec: LoopSpec) -> Floats:
    """(k, d) the actions; the identity where no arm has features."""
    k, given = len(spec.arms), [arm.features for arm in spec.arms]
    missing = [vector is None for vector in given]
    if any(missing) and not all(missing):
        raise invalid(
            f"arms must all have features or none, got none for {spec.arms[missing.index(True)].name!r}"
        )
    widths = {k} if all(missing) else {len(vector or ()) for vector in given}
    if len(widths) > 1:
        raise invalid(f"features must be equally many for every arm, got {sorted(widths)}")
    d = widths.pop()
    if not 1 <= d <= MOST_FEATURES or k * d > MOST_NUMBERS:
        raise invalid(
            f"arms must have 1 to {MOST_FEATURES} features and {MOST_NUMBERS} numbers in all, got {k} x {d}"
        )
    return np.eye(k) if all(missing) else np.array(given, dtype=np.float64)


def log_of(spec: LoopSpec) -> Offline:
    """The log a loop starts from."""
    stats = spec.offline
    if stats is None:
        return Offline.empty(len(spec.arms))
    return Offline(
        pulls=stats.pulls,  # type: ignore[arg-type]
        reward_sums=stats.reward_sums,  # type: ignore[arg-type]
        reward_squares=stats.reward_squares,  # type: ignore[arg-type]
    )


def start(spec: LoopSpec) -> Any:
    """The agent of a canonical spec, before its first decision."""
    names = [arm.name for arm in spec.arms]
    try:
        agent = from_dict(spec.policy).start(
            features(spec), log_of(spec), rng=as_generator(spec.seed), names=names
        )
        inside.check_reward(agent, spec.default_reward)
    except (ValueError, MemoryError) as error:
        raise invalid(str(error)) from error
    check_holdback(spec.holdback, agent)
    return agent


def check_holdback(holdback: float, agent: Any) -> None:
    """Refuse a control group where there is no mixture to play."""
    if holdback > 0 and agent.offline.total == 0:
        raise invalid("holdback must be 0 where there is no log, got a share of the logging mixture")
