"""A loop as it is asked for: checked once, made canonical, and started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from linoto.core import kernels
from linoto.core.kernels import Floats
from linoto.core.offline import Offline
from linoto.core.snapshots import from_dict, to_dict
from linoto.core.validation import as_generator
from linoto.service.errors import invalid
from linoto.service.loops import inside
from linoto.service.loops.messages import Arm, LogStatistics, LoopSpec
from linoto.service.storage.log_files import count_log

MOST_FEATURES = 2000  # an agent holds a few d x d matrices
MOST_DRAWN = 50_000_000  # multiplications of all redraws: some thirty milliseconds
MOST_NUMBERS = 4_000_000  # of all features together


def canonical(spec: LoopSpec, *, logs: Path | None = None) -> LoopSpec:
    """The same loop with its defaults written out and its log counted; refuses what cannot work.

    `logs` is the folder that log files are read from: seconds for a large one, and never again after this.
    """
    try:
        policy = from_dict(spec.policy)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise invalid(f"policy: {error}") from error
    if not callable(getattr(policy, "start", None)):
        raise invalid(f"policy must be a policy, got a {spec.policy.get('type')}")
    arms, offline = counted(spec, logs)
    kept = msgspec.structs.replace(
        spec, arms=arms, policy=to_dict(policy), offline=offline, rows=None, log=None
    )
    return as_read_back(kept)


def as_read_back(spec: LoopSpec) -> LoopSpec:
    """What recovery will make of it: a loop that could not be read again must not be made."""
    try:
        return msgspec.json.decode(msgspec.json.encode(spec), type=LoopSpec)
    except msgspec.DecodeError as error:
        raise invalid(f"the loop must be within the limits of a request once counted: {error}") from error


def counted(spec: LoopSpec, logs: Path | None) -> tuple[list[Arm], LogStatistics | None]:
    """The arms of a loop and its log as statistics, from whichever form it was given in."""
    given = [form for form in ("offline", "rows", "log") if getattr(spec, form) is not None]
    if len(given) > 1:
        raise invalid(f"a log must be given once, as offline, rows or log, got {' and '.join(given)}")
    if spec.log is not None:
        file, given_arms = spec.log, [arm.name for arm in spec.arms]
        log, names = count_log(
            logs, file.file, action=file.action, reward=file.reward, arms=given_arms, most=MOST_FEATURES
        )
        return spec.arms or [Arm(name=name) for name in names], as_statistics(log)
    if not spec.arms:
        raise invalid("arms must be given where there is no log file to find them in, got none")
    return spec.arms, spec.offline if spec.rows is None else count_rows(spec.arms, spec.rows)


def count_rows(arms: list[Arm], rows: list[tuple[str, float]]) -> LogStatistics:
    """A log that came with the request."""
    index = {arm.name: i for i, arm in enumerate(arms)}
    unknown = next((name for name, _ in rows if name not in index), None)
    if unknown is not None:
        raise invalid(f"rows must name arms of the loop, got {unknown!r}")
    plays, rewards = [index[name] for name, _ in rows], [reward for _, reward in rows]
    return as_statistics(Offline.from_rows(plays, rewards, k=len(arms)))


def as_statistics(log: Offline) -> LogStatistics:
    """A log as a loop keeps it."""
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
        agent = from_dict(spec.policy, stored=True).start(
            features(spec), log_of(spec), rng=as_generator(spec.seed), names=names
        )
        inside.check_reward(agent, spec.default_reward)
    except (ValueError, MemoryError) as error:
        raise invalid(str(error)) from error
    check_holdback(spec.holdback, agent)
    check_redraws(spec.redraws, agent)
    return agent


def check_redraws(redraws: int, agent: Any) -> None:
    """Refuse draws that would keep everybody waiting at each decision."""
    if inside.parameter(agent, "explorer") != kernels.THOMPSON:
        return
    k, d = agent.actions.shape
    most = MOST_DRAWN // (d * (k + d))
    if redraws > most:
        raise invalid(f"redraws must be at most {most} for {k} arms with {d} features, got {redraws}")


def check_holdback(holdback: float, agent: Any) -> None:
    """Refuse a control group where there is no mixture to play."""
    if holdback > 0 and agent.offline.total == 0:
        raise invalid("holdback must be 0 where there is no log, got a share of the logging mixture")
