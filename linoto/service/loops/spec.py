"""What a loop is made from: checked once, and made canonical."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from linoto.core.agent import Agent
from linoto.core.arrays import Floats
from linoto.core.composed import Composed
from linoto.core.doubling import DoublingAgent
from linoto.core.features.moments import as_moments
from linoto.core.features.recipe import Recipe
from linoto.core.learnt import LearntPolicy
from linoto.core.names import Names, places_of
from linoto.core.offline import Offline, as_offline
from linoto.core.protocols import Policy
from linoto.core.snapshots import from_dict, to_dict
from linoto.service.errors import invalid
from linoto.service.loops import recipe_spec
from linoto.service.loops.events import Mode
from linoto.service.loops.practice_weights import GIVEN, read_practice
from linoto.service.loops.recipe_spec import (
    LONGEST_NAME,
    Count,
    MomentStatistics,
    Number,
    RecipeSpec,
    Total,
)
from linoto.service.loops.seeded import seed_of
from linoto.service.storage.features import known_arms
from linoto.service.storage.log_files import count_context_log, count_log

MOST_FEATURES = 2000  # an agent holds a few d x d matrices
MOST_ARMS = 100_000  # that a request lists
SUMS = ("pulls", "reward_sums", "reward_squares")
MOST_METRICS = 20  # guardrails, each with a ledger in every decision
ArmName = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
ColumnName = Annotated[str, Meta(min_length=1, max_length=200)]
Share = Annotated[float, Meta(ge=0.0, le=0.9)]
Weight = Annotated[float, Meta(ge=0.0, le=1.0)]
PracticeGiven = ArmName | dict[ArmName, Weight]  # an item, or weights of items
LoopAgent = Agent | DoublingAgent


class Arm(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """One thing that can be played; without features every arm is its own."""

    name: ArmName
    features: list[Number] | None = None


class LogStatistics(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """What the log says of each arm, in the order of the arms."""

    pulls: list[Count]
    reward_sums: list[Total]
    reward_squares: list[Total] | None = None
    arms: (
        Annotated[
            list[Annotated[int, Meta(ge=0, lt=10_000_000)]],
            Meta(description="where arms are by file: the places, from 0, of those that were ever played"),
        ]
        | None
    ) = None


class LogFile(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """A log in the server's log folder: which file, and which columns hold the arm played and its reward."""

    file: Annotated[str, Meta(min_length=1, max_length=1000, description="relative to the log folder")]
    action: ColumnName
    reward: ColumnName


class LoopSpec(Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True, kw_only=True):
    """Everything that defines a loop. `default_reward` closes decisions whose reward never comes.

    `missing_reward` says what such a decision means: its reward is "unknown", or it earned the "default".

    The arms are listed or, where they are very many, in a file that was sent before: `features` is its hash.

    The log is given in one of three forms, `offline`, `rows` or `log`. With `log` the arms may be left out:
    they are then the distinct actions of the file, in alphabetical order.

    With a `recipe` each decision is asked for in a context. Its items are the arms, its log is `moments` or
    `log`, and `practice` says what is done today: an item, weights of items, or "given" with each decision.
    """

    arms: Annotated[list[Arm], Meta(min_length=1, max_length=MOST_ARMS)] = field(default_factory=list)
    policy: dict[str, Any]
    default_reward: Number
    offline: LogStatistics | None = None
    features: (
        Annotated[
            str,
            Meta(pattern="^[0-9a-f]{64}$", description="arms by file: what POST /v1/features answered"),
        ]
        | None
    ) = None
    rows: list[tuple[ArmName, Number]] | None = None  # a log as (arm name, reward), instead of `offline`
    log: LogFile | None = None
    recipe: RecipeSpec | None = None
    moments: MomentStatistics | None = None
    practice: PracticeGiven | None = None
    description: Annotated[str, Meta(max_length=1000, description="for those who look at it")] = ""
    unit: Annotated[str, Meta(max_length=40, description="what rewards are counted in: clicks, EUR")] = ""
    window: Annotated[float, Meta(ge=0.001, le=3.2e7, description="seconds a reward may take")] = 86400.0
    mode: Mode = "live"
    holdback: Share = 0.0
    seed: (
        Annotated[
            int,
            Meta(
                ge=0, le=2**53, description="for tests and demonstrations: whoever knows it knows every draw"
            ),
        ]
        | None
    ) = None
    redraws: Annotated[int, Meta(ge=0, le=10_000, description="for Thompson's propensities")] = 100
    on_alarm: (
        Annotated[Literal["warn", "safe-only"], Meta(description="safe-only if left out: stop exploring")]
        | None
    ) = None
    missing_reward: (
        Annotated[
            Literal["unknown", "default"],
            Meta(description="unknown if left out: it may have been any reward"),
        ]
        | None
    ) = None
    alarm_error: Annotated[float, Meta(gt=0.0, lt=1.0)] = 0.01
    drift_allowed: Annotated[
        float,
        Meta(ge=0.0, le=1e15, description="how far the mean may be from the log's without alarm"),
    ] = 0.0
    alarm_run: Annotated[
        float, Meta(ge=10.0, le=1e12, description="safe plays between false alarms of drift, on average")
    ] = 100_000.0
    version: Annotated[int, Meta(ge=1, le=9, description="set by the service: whose defaults it has")] = 1


# -- as it is stored

# Of what a field that is left out means. In version 1 loops of one seed shared their draws; up to version 2
# arms without features were kept with all their zeros, which gives other last digits; up to version 3 the
# history of a loop did not say how many rewards were lost; up to version 4 a loop that was given no seed made
# one from its name and drew by it until a server of a later version gave it a key, late rewards hid from the
# watch what was known of earlier decisions, and arms were not counted anew after a drift alarm; up to
# version 5 all features of a recipe were one block; up to version 6 a refresh was of all arms, however many:
# both give other last digits; the usual coin of a loop with contexts was not a cheap one; and what explorers
# are told of guardrails had a ridge of 1. Up to version 7
# rewards of fixed arms were learnt in the coordinates of their features: other last digits again; a bound
# that the log contradicts was taken if it was small enough; and of guardrails nobody counted whose values
# were lost, by arm. Up to version 8 the watch for drift was wrong where the range of rewards is not 1 wide,
# until a server of a later version began it anew.
VERSION = 9
KEYED = 5  # the version from which on a loop has a key from the beginning
WATCHED = 9  # the version from which on drift is watched for by the right claim from the beginning
DEFAULTS: dict[int, dict[str, Any]] = {
    1: {"on_alarm": "warn", "missing_reward": "default", "seed": 0},
    2: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    3: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    4: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    5: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    6: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    7: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    8: {"on_alarm": "safe-only", "missing_reward": "unknown"},
    9: {"on_alarm": "safe-only", "missing_reward": "unknown"},
}


def with_defaults(spec: LoopSpec, name: str) -> LoopSpec:
    """The spec with what was left out filled in, as it was meant when the loop was made."""
    defaults = DEFAULTS[spec.version]
    if spec.version < KEYED:
        defaults = {"seed": seed_of(name), **defaults}
    missing = {field: value for field, value in defaults.items() if getattr(spec, field) is None}
    return msgspec.structs.replace(spec, **missing)


def shown(spec: LoopSpec) -> LoopSpec:
    """What anybody is shown of it: all but the seed, which tells what is drawn."""
    return msgspec.structs.replace(spec, seed=None)


def canonical(spec: LoopSpec, *, logs: Path | None = None) -> LoopSpec:
    """The same loop with its defaults written out and its log counted; refuses what cannot work.

    `logs` is the folder that log files are read from: seconds for a large one, and never again after this.
    """
    try:
        if names_learnt(spec.policy):
            raise invalid(
                "policy must have an explorer that learns in a loop, got a LearntPolicy, which knows the "
                "arms of its rows only: send what it plays as the proposal"
            )
        policy = from_dict(spec.policy)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise invalid(f"policy: {error}") from error
    check_guardrails(policy)
    if not callable(getattr(policy, "start", None)):
        raise invalid(f"policy must be a policy, got a {spec.policy.get('type')}")
    policy, holdback = one_control_group(policy, spec.holdback)
    counted = counted_log(spec, logs) if spec.recipe is None else counted_contexts(spec, spec.recipe, logs)
    stored = msgspec.structs.replace(
        spec, policy=to_dict(policy), holdback=holdback, rows=None, log=None, version=VERSION, **counted
    )
    return as_read_back(msgspec.structs.replace(stored, policy=to_dict(suited_policy(stored, policy))))


def suited_policy(spec: LoopSpec, policy: Policy) -> Policy:
    """The policy with the bound, the ridge and the radius that nobody said, as it would start in Python.

    They are stored as numbers: what a loop is made from says all that it does, on any machine and for good.
    """
    if not isinstance(policy, Composed):
        return policy
    known = None if spec.recipe is None else recipe_spec.read_recipe(spec.recipe)
    try:
        if known is None:
            return policy.suited_to(None, None)
        return policy.suited_to(as_moments(recipe_spec.read_moments(spec.moments), known.d), known)
    except ValueError as error:
        raise invalid(str(error)) from error


def check_guardrails(policy: Policy) -> None:
    """Refuse more guardrails than a decision has time for, or names that cannot be sent and shown."""
    guardrails = getattr(policy, "guardrails", ())
    if len(guardrails) > MOST_METRICS:
        raise invalid(f"policy must have at most {MOST_METRICS} guardrails in a loop, got {len(guardrails)}")
    for rail in guardrails:
        if len(rail.name) > LONGEST_NAME or not rail.name.isprintable():
            raise invalid(
                f"names of guardrails must be at most {LONGEST_NAME} characters that can be printed, got "
                f"{rail.name!r}"
            )


def counted_log(spec: LoopSpec, logs: Path | None) -> dict[str, Any]:
    """The arms of a loop and its log, as they are stored."""
    odd = [name for name in ("moments", "practice") if getattr(spec, name) is not None]
    if odd:
        raise invalid(f"{odd[0]} must be left out in a loop without a recipe")
    arms, offline = arms_and_statistics(spec, logs)
    return {"arms": arms, "offline": offline}


def counted_contexts(spec: LoopSpec, recipe: RecipeSpec, logs: Path | None) -> dict[str, Any]:
    """The same for a loop with contexts."""
    odd = [name for name in ("arms", "features", "offline", "rows") if getattr(spec, name)]
    if odd:
        raise invalid(
            f"{odd[0]} must be left out in a loop with a recipe: its items are the arms, and its log is "
            "given as moments or log"
        )
    known, log, moments = recipe_spec.read_recipe(recipe), spec.log, spec.moments
    recipe_spec.check_size(known, MOST_FEATURES)
    if spec.practice is not None and spec.practice != GIVEN:
        read_practice(known, spec.practice, None)
    if log is not None and moments is not None:
        raise invalid("a log must be given once, as moments or log, got both")
    if log is not None:
        found = count_context_log(logs, log.file, action=log.action, reward=log.reward, recipe=known)
        moments = recipe_spec.as_statistics(found.moments, found.offline)
    stays = spec.practice is None and known.knows_items_only
    if stays:
        return as_arms(known, moments)
    return {"moments": moments and msgspec.structs.replace(moments, squares_by_item=None)}


def as_arms(recipe: Recipe, moments: MomentStatistics | None) -> dict[str, Any]:
    """A recipe whose only column is the item, as arms that stay the same: practice is what the log did."""
    offline = None if moments is None else as_statistics(recipe_spec.by_item(recipe, moments))
    arms = [Arm(name=name) for name in recipe.items]
    return {"arms": arms, "offline": offline, "recipe": None, "moments": None}


def names_learnt(data: Any) -> bool:
    """Whether a policy that was learnt from rows is a part of this one, as JSON."""
    if not isinstance(data, dict):
        return False
    return data.get("type") == LearntPolicy.__name__ or any(map(names_learnt, data.values()))


def one_control_group(policy: Policy, holdback: float) -> tuple[Policy, float]:
    """Policy and share of the control group: where the gate throws a coin, the share is that of the coin."""
    gate = getattr(policy, "gate", None)
    if holdback == 0 or not getattr(gate, "throws_coin", False):
        return policy, holdback
    share = getattr(gate, "share", None)
    if share not in (None, "cheap", holdback):
        raise invalid(
            f"holdback must be the share of the gate, {share:g}, or left out, got {holdback:g}: "
            "both say how likely a round is a control round"
        )
    return replace(policy, gate=replace(gate, share=holdback)), 0.0  # type: ignore[type-var]


def as_read_back(spec: LoopSpec) -> LoopSpec:
    """What recovery will make of it: a loop that could not be read again must not be made."""
    try:
        return msgspec.json.decode(msgspec.json.encode(spec), type=LoopSpec)
    except msgspec.DecodeError as error:
        raise invalid(f"the loop must be within the limits of a request once counted: {error}") from error


def arms_and_statistics(spec: LoopSpec, logs: Path | None) -> tuple[list[Arm], LogStatistics | None]:
    """The arms of a loop and its log as statistics, from whichever form it was given in."""
    given = [form for form in ("offline", "rows", "log") if getattr(spec, form) is not None]
    if len(given) > 1:
        raise invalid(f"a log must be given once, as offline, rows or log, got {' and '.join(given)}")
    names = names_of(spec)
    if spec.log is not None:
        file, action, reward = spec.log.file, spec.log.action, spec.log.reward
        log, found = count_log(
            logs, file, action=action, reward=reward, arms=names, most=MOST_ARMS, longest=LONGEST_NAME
        )
        if spec.features is not None:
            return [], as_statistics(log, played_only=True)
        return spec.arms or [Arm(name=name) for name in found], as_statistics(log)
    if not names:
        raise invalid("arms must be given where there is no log file to find them in, got none")
    if spec.rows is not None:
        log = log_of_rows(names, spec.rows)
    elif spec.features is None or spec.offline is None:
        check_every_arm(spec.offline)
        return spec.arms, spec.offline
    else:
        log = checked_log(spec.offline, len(names))
    return spec.arms, as_statistics(log, played_only=spec.features is not None)


def names_of(spec: LoopSpec) -> Names:
    """(k,) the names of the arms, listed or by file."""
    if spec.features is None:
        return tuple(arm.name for arm in spec.arms)
    if spec.arms:
        raise invalid("arms must be left out where they are by file (features), got both")
    return known_arms(spec.features).names


def check_every_arm(stats: LogStatistics | None) -> None:
    """Refuse statistics of some arms only where all of them are listed."""
    if stats is not None and stats.arms is not None:
        raise invalid("arms of offline must be left out where the arms of the loop are listed")


def checked_log(stats: LogStatistics, k: int) -> Offline:
    """The log of k arms by file, or a refusal."""
    try:
        return as_offline(log_of(stats, k), k)
    except ValueError as error:
        raise invalid(f"offline: {error}") from error


def log_of(stats: LogStatistics | None, k: int) -> Offline:
    """The log of k arms."""
    if stats is None:
        return Offline.empty(k)
    sums: dict[str, Any] = {name: getattr(stats, name) for name in SUMS}
    if stats.arms is None:
        return Offline(**sums)
    if len(set(stats.arms)) < len(stats.arms) or max(stats.arms, default=0) >= k:
        raise invalid(f"arms of offline must be places below {k}, each once")
    for name, values in sums.items():
        if values is not None and len(values) != len(stats.arms):
            raise invalid(f"{name} must have {len(stats.arms)} numbers like arms, got {len(values)}")
    whole: dict[str, Any] = {
        name: None if values is None else placed(values, stats.arms, k) for name, values in sums.items()
    }
    return Offline(**whole)


def placed(values: list[Any], places: list[int], k: int) -> Floats:
    """(k,) these values at their places, and 0 elsewhere."""
    found = np.zeros(k)
    found[places] = values
    return found


def log_of_rows(names: Names, rows: list[tuple[str, float]]) -> Offline:
    """A log that came with the request."""
    index = places_of(names)
    unknown = next((name for name, _ in rows if name not in index), None)
    if unknown is not None:
        raise invalid(f"rows must name arms of the loop, got {unknown!r}")
    plays, rewards = [index[name] for name, _ in rows], [reward for _, reward in rows]
    return Offline.from_rows(plays, rewards, k=len(names))


def as_statistics(log: Offline, *, played_only: bool = False) -> LogStatistics:
    """A log as a loop keeps it; with `played_only` without the arms that were never played."""
    some = np.flatnonzero(log.pulls) if played_only else slice(None)
    squares = None if log.reward_squares is None else log.reward_squares[some].tolist()
    return LogStatistics(
        pulls=log.pulls[some].tolist(),
        reward_sums=log.reward_sums[some].tolist(),
        reward_squares=squares,
        arms=np.flatnonzero(log.pulls).tolist() if played_only else None,
    )
