"""What the service can be asked: each operation as its request and the way its response is read.

Every one is safe to repeat: a decision carries a key, and the same key always gets the same answer; a reward
counts once; the others set a state or only read. Both clients inherit these.
"""

from __future__ import annotations

import inspect
import json
import secrets
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial, wraps
from math import isfinite, nan
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
    overload,
)
from urllib.parse import quote, urlencode

from linoto.client.exchange import ARRAY, Request
from linoto.client.responses import RewardResult, ServedDecision, record
from linoto.core.hints import as_names

if TYPE_CHECKING:
    from linoto.core.features.moments import Moments
    from linoto.core.features.recipe import Recipe
    from linoto.core.offline import Offline
    from linoto.core.protocols import Policy
    from linoto.logs.saved import SavedLog

Told = tuple[str, float | None] | tuple[str, float | None, Mapping[str, float]]
P = ParamSpec("P")
T = TypeVar("T")


class Returns:
    """A client whose methods return what the service says."""


class IsAwaited:
    """A client whose methods are awaited."""


class Operation(Generic[P, T]):
    """A method as type checkers see it: a `Client` returns its result, an `AsyncClient` is awaited."""

    @overload
    def __get__(self, client: Returns, owner: type[Returns]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: IsAwaited, owner: type[IsAwaited]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Any, owner: Any) -> Any:
        raise NotImplementedError("`operation` makes functions")


def operation(request_of: Callable[Concatenate[Any, P], Request[T]]) -> Operation[P, T]:
    """Make the method that sends a request and returns what the response says."""

    @wraps(request_of)
    def method(self: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return self._send(request_of(self, *args, **kwargs))

    shape = inspect.signature(request_of)
    returns = str(shape.return_annotation).removeprefix("Request[").removesuffix("]")
    method.__signature__ = shape.replace(return_annotation=returns)  # type: ignore[attr-defined]
    return cast("Operation[P, T]", method)


class Operations:
    """The methods of both clients."""

    @operation
    def create(
        self,
        /,
        loop: str,
        *,
        policy: Policy | Mapping[str, Any],
        default_reward: float,
        arms: Sequence[str] | Mapping[str, Sequence[float]] | None = None,
        features: str | None = None,
        offline: Offline | None = None,
        rows: Iterable[tuple[str, float]] | None = None,
        log: Mapping[str, Any] | None = None,
        saved: SavedLog | None = None,
        recipe: Recipe | Mapping[str, Any] | None = None,
        moments: Moments | None = None,
        practice: str | Mapping[str, float] | None = None,
        description: str | None = None,
        unit: str | None = None,
        window: float | None = None,
        mode: Literal["live", "shadow", "safe-only"] | None = None,
        holdback: float | None = None,
        seed: int | None = None,
        redraws: int | None = None,
        on_alarm: Literal["warn", "safe-only"] | None = None,
        missing_reward: Literal["unknown", "default"] | None = None,
        alarm_error: float | None = None,
        drift_allowed: float | None = None,
        alarm_run: float | None = None,
    ) -> Request[dict[str, Any]]:
        """Make a loop, or find it as it was made. `arms` are names, or names with their features.

        Very many arms are sent before, as a file: `features` is then what `store_features` returned.

        Its log is given as statistics (`offline`), as `rows` of (arm, reward), or as a file in the log folder
        of the service: `log={"file": "june.parquet", "action": "banner", "reward": "clicked"}`. The arms may
        then be left out: they are those in the file.

        Or all of it is what an audit saved: `saved=linoto.load("stats.npz")`. Then its arms and its log are
        used, its noise, bound and reward range where the policy has no confidence of its own, and its
        guardrails where the policy has none; the
        description of the loop says so unless you give one. With contexts, a `Gated` without a gate gets the
        usual one for what the log earned.

        With a `recipe` each decision is asked for in a context. The items of the recipe are the arms, the
        log is `moments` or a file, and `practice` says what is done today: an item, weights of items, or
        "given" if you send it with each decision. `saved` then holds recipe and moments.

        `window` is how many seconds a reward may take, `unit` what rewards are counted in, `holdback` the
        share of the control group. With a `seed` the service draws the same in every database, for tests and
        demonstrations: whoever knows it knows every draw. A setting that is None is left to the service.
        """
        made_from: dict[str, Any] = {"arms": arms, "offline": offline, "rows": rows, "log": log}
        made_from |= {"recipe": recipe, "moments": moments, "features": features}
        if saved is not None:
            refuse_others(made_from)
            policy = assuming(policy, saved)
            made_from = saved.features.to_create
            description = saved.summary if description is None else description
        settings: dict[str, Any] = {"description": description, "unit": unit, "window": window, "mode": mode}
        settings |= {"holdback": holdback, "seed": seed, "redraws": redraws, "on_alarm": on_alarm}
        settings |= {"missing_reward": missing_reward, "alarm_error": alarm_error}
        settings |= {"drift_allowed": drift_allowed, "alarm_run": alarm_run}
        settings |= {
            "policy": policy,
            "default_reward": as_finite("default_reward", default_reward),
            "practice": practice,
        }
        return send("PUT", path_to(loop), as_json(settings | made_from))

    @operation
    def store_features(self, path: str | Path) -> Request[str]:
        """Send the features of very many arms, an .npy file: what loops with these arms are made with.

        The same file again changes nothing. Give the client a longer `timeout` for a large one.
        """
        body = Path(path).read_bytes()
        return Request("POST", "/v1/features", lambda said: str(said["sha256"]), body, kind=ARRAY)

    @operation
    def loops(
        self, *, search: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Request[list[dict[str, Any]]]:
        """The live numbers of every loop, oldest first, or of those with a text in their name or description.

        `limit` and `after`, the name of the last one that you have, give them page by page.
        """
        return get("/v1/loops", search=search, limit=limit, after=after)

    @operation
    def overview(
        self, *, search: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Request[list[dict[str, Any]]]:
        """Every loop in a line: mode, decisions, pending, unanswered alarms; quick for any number."""
        return get("/v1/overview", search=search, limit=limit, after=after)

    @operation
    def loop(self, loop: str) -> Request[dict[str, Any]]:
        """The live numbers of one."""
        return get(path_to(loop))

    @operation
    def ready(self, loop: str) -> Request[dict[str, Any]]:
        """Its mode, if it would decide now; ServiceError if it would not."""
        return get(f"{path_to(loop)}/ready")

    @operation
    def spec(self, loop: str) -> Request[dict[str, Any]]:
        """What it was made from."""
        return get(f"{path_to(loop)}/spec")

    @operation
    def change(
        self,
        loop: str,
        *,
        mode: str | None = None,
        holdback: float | None = None,
        answer_alarms: bool = False,
    ) -> Request[dict[str, Any]]:
        """Another mode ("live", "shadow", "safe-only") or share of the control group, from now on.

        Another mode answers the alarms so far; `answer_alarms` does too, and leaves the mode as it is.
        """
        answer = {"answer_alarms": True} if answer_alarms else {}
        return send("PATCH", path_to(loop), {"mode": mode, "holdback": holdback, **answer})

    @operation
    def archive(self, loop: str) -> Request[dict[str, Any]]:
        """No more decisions."""
        return send("DELETE", path_to(loop))

    @operation
    def decide(
        self,
        loop: str,
        *,
        key: str | None = None,
        proposal: str | None = None,
        allowed: Sequence[str] | None = None,
        context: Mapping[str, str | float | bool | None] | None = None,
        practice: str | Mapping[str, float] | None = None,
    ) -> Request[ServedDecision]:
        """What to play. Without a key of yours one is made up, so that repeating is safe.

        `allowed` are the arms that may be played, all if left out. In a loop with contexts, `context` has the
        fields of its recipe, and `practice` is what is done today, if the loop has it given.
        """
        body = asked(key, proposal, allowed, context, practice)
        path = f"{path_to(loop)}/decide"
        return Request("POST", path, lambda data: record(ServedDecision, data), to_json(body))

    @operation
    def decide_many(self, loop: str, requests: Iterable[Mapping[str, Any]]) -> Request[list[ServedDecision]]:
        """What to play, for many at once: each request has the arguments of `decide` as a dictionary.

        All of them are answered, in order, or none: then the error names the request that was refused.
        """
        body = {"decisions": [asked(**each) for each in requests]}

        def read(data: Any) -> list[ServedDecision]:
            return [record(ServedDecision, made) for made in data["decisions"]]

        return Request("POST", f"{path_to(loop)}/decisions", read, to_json(body))

    @operation
    def reward(
        self,
        loop: str,
        decision_id: str,
        reward: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
    ) -> Request[RewardResult]:
        """Report one reward; ServiceError if it conflicts, is late, lost by a restore, or unknown.

        `metrics` are values of guardrails by their names: with the reward, or later without it, each once.
        """
        path, body = f"{path_to(loop, decision_id)}/reward", to_json(told(reward, metrics))
        return Request("PUT", path, lambda data: record(RewardResult, data), body)

    @operation
    def reward_by_key(
        self,
        loop: str,
        key: str,
        reward: float | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
    ) -> Request[RewardResult]:
        """The same for the decision that was asked for with this key."""
        body = to_json({"key": key, **told(reward, metrics)})
        return Request("PUT", f"{path_to(loop)}/reward", lambda data: record(RewardResult, data), body)

    @operation
    def rewards(self, loop: str, rewards: Iterable[Told]) -> Request[list[RewardResult]]:
        """Report many, as (decision_id, reward) or (decision_id, reward, metrics): an answer each, in order.

        A reward of None is not told: only the values of guardrails are.
        """
        return report(loop, "decision_id", rewards)

    @operation
    def rewards_by_key(self, loop: str, rewards: Iterable[Told]) -> Request[list[RewardResult]]:
        """The same for decisions that were asked for with these keys."""
        return report(loop, "key", rewards)

    @operation
    def arms(self, loop: str, *, limit: int | None = None) -> Request[list[dict[str, Any]]]:
        """The arms with their intervals; with a limit, the most played ones first, removed ones last."""
        return get(f"{path_to(loop)}/arms", limit=limit)

    @operation
    def add_arms(
        self, loop: str, arms: Sequence[str] | Mapping[str, Sequence[float]]
    ) -> Request[dict[str, Any]]:
        """Arms that can be played from the next decision on: names, or names with their features."""
        return send("POST", f"{path_to(loop)}/arms", as_json({"arms": arms}))

    @operation
    def remove_arms(
        self, loop: str, arms: Sequence[str], *, fallback: str | None = None
    ) -> Request[dict[str, Any]]:
        """Arms that are not played again; `fallback` takes the place of a fixed one that is removed."""
        query = [("arm", arm) for arm in as_names(arms)]
        query += [] if fallback is None else [("fallback", fallback)]
        return send("DELETE", f"{path_to(loop)}/arms?{urlencode(query)}")

    @operation
    def decisions(
        self, loop: str, *, limit: int = 50, before: int | None = None, key: str | None = None
    ) -> Request[list[dict[str, Any]]]:
        """Recent decisions, newest first; `before` is the number of one, to go further back."""
        return get(f"{path_to(loop)}/decisions", limit=limit, before=before, key=key)

    @operation
    def find(self, key: str) -> Request[list[dict[str, Any]]]:
        """The decisions of all loops that were asked for with this key: `loop` and `decision` of each."""
        return get("/v1/decisions", key=key)

    @operation
    def explain(self, loop: str, decision_id: str) -> Request[dict[str, Any]]:
        """Why a decision was made as it was."""
        return get(path_to(loop, decision_id))

    @operation
    def history(self, loop: str) -> Request[dict[str, Any]]:
        """The course of a loop: `points`, oldest first."""
        return get(f"{path_to(loop)}/history")

    @operation
    def report(self, loop: str) -> Request[dict[str, Any]]:
        """The promise, and what was earned."""
        return get(f"{path_to(loop)}/report")


# -- what an audit saved


def refuse_others(made_from: Mapping[str, Any]) -> None:
    """Refuse what the saved log holds already."""
    for name, value in made_from.items():
        if value is not None:
            raise ValueError(f"{name} must be left out where saved is given, which holds arms and log")


def assuming(policy: Policy | Mapping[str, Any], saved: SavedLog) -> Any:
    """The policy with what the audit found, where it says nothing of its own; warn of a log not to trust."""
    from linoto.core.composed import Composed
    from linoto.core.confidence import with_assumptions
    from linoto.core.policies import Gated
    from linoto.core.snapshots import from_dict
    from linoto.core.usual_confidence import with_usual_confidence

    if not hasattr(saved, "confidence"):
        raise ValueError(f"saved must be what linoto.load returns, got {type(saved).__name__}")
    if saved.warning:
        warnings.warn(saved.warning, stacklevel=4)
    known: Any = from_dict(dict(policy)) if isinstance(policy, Mapping) else policy
    if saved.confidence is None:
        return known
    unsaid, features = getattr(known, "confidence", None) is None, saved.features
    known = with_assumptions(known, saved.confidence)
    if isinstance(known, Gated) and known.gate is None:
        known = replace(known, gate=features.default_gate(known.assumed))
    if isinstance(known, Gated) and unsaid:
        recipe = features.to_start.get("features")
        d, raw = len(features.labels), features.raw_features
        known = with_usual_confidence(known, d, lambda: features.moments, raw, recipe)
    elif isinstance(known, Composed) and unsaid and features.takes_practice:
        known = known.suited_to(features.moments, features.recipe)
    return with_guardrails(known, saved)


def with_guardrails(policy: Policy, saved: SavedLog) -> Policy:
    """The policy that promises of the metrics of the log too, unless it has guardrails of its own."""
    from linoto.core.policies import Gated

    if not saved.guardrails or not isinstance(policy, Gated) or policy.guardrails:
        return policy
    return replace(policy, guardrails=saved.guardrails)


# -- how a request is written


def asked(
    key: str | None = None,
    proposal: str | None = None,
    allowed: Sequence[str] | None = None,
    context: Mapping[str, str | float | bool | None] | None = None,
    practice: str | Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """A request to decide, with a key if it has none."""
    body: dict[str, Any] = {"key": secrets.token_hex(16) if key is None else key, "proposal": proposal}
    if allowed is not None:
        body["allowed"] = as_names(allowed)
    if context is not None:
        body["context"] = dict(context)
    if practice is not None:
        body["practice"] = practice if isinstance(practice, str) else dict(practice)
    return body


def as_json(parts: Mapping[str, Any]) -> dict[str, Any]:
    """What a loop is made from as JSON data, as far as it was given."""
    return {
        name: WRITTEN[name](part) if name in WRITTEN else part
        for name, part in parts.items()
        if part is not None
    }


def arms_as_json(arms: Sequence[str] | Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """What a loop chooses from: names, or names with their features."""
    if isinstance(arms, Mapping):
        return [{"name": name, "features": as_features(name, x)} for name, x in arms.items()]
    return [{"name": name} for name in as_names(arms)]


def as_features(name: str, features: Sequence[float]) -> list[float]:
    """The features of an arm as numbers, or refuse in one sentence."""
    try:
        return [float(x) for x in features]
    except (TypeError, ValueError):
        raise ValueError(
            f"features of arm {name!r} must be a list of numbers, got {features!r}; "
            "where arms have none, give a list of names"
        ) from None


def policy_as_json(policy: Policy | Mapping[str, Any]) -> dict[str, Any]:
    """A policy, or what `linoto.to_dict` wrote of one."""
    from linoto.core.snapshots import to_dict

    return dict(policy) if isinstance(policy, Mapping) else to_dict(policy)


def sums_as_json(name: str, kind: str, log: Any) -> dict[str, Any]:
    """What is known of a log."""
    if kind not in [known.__name__ for known in type(log).__mro__]:
        raise ValueError(f"{name} must be a linoto.{kind}, such as log.{name}, got {type(log).__name__}")
    parts = {field.name: getattr(log, field.name) for field in fields(log)}
    lists = {name: part.tolist() if hasattr(part, "tolist") else part for name, part in parts.items()}
    return {name: part for name, part in lists.items() if part is not None}


def rows_as_json(rows: Iterable[Any]) -> list[list[Any]]:
    """What was played, and what it earned."""
    pairs = [*rows]
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Collection) or len(pair) != 2:
            raise ValueError(f"rows must be pairs of an arm and its reward, got {pair!r} in them")
    return [[name, as_finite("reward", reward)] for name, reward in pairs]


def recipe_as_json(recipe: Recipe | Mapping[str, Any]) -> dict[str, Any]:
    """A recipe, or what its `to_dict` wrote."""
    if not isinstance(recipe, Mapping) and not hasattr(recipe, "to_dict"):
        raise ValueError(f"recipe must be a linoto.Recipe, such as log.recipe, got {type(recipe).__name__}")
    return dict(recipe) if isinstance(recipe, Mapping) else recipe.to_dict()


def mapping_as_json(name: str, wanted: str, value: Any) -> dict[str, Any]:
    """Values by names."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    return dict(value)


def practice_as_json(practice: str | Mapping[str, float]) -> Any:
    """What is done today."""
    if isinstance(practice, str):
        return practice
    return mapping_as_json("practice", "an arm, weights of arms by their names, or 'given'", practice)


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "policy": policy_as_json,
    "arms": arms_as_json,
    "offline": partial(sums_as_json, "offline", "Offline"),
    "rows": rows_as_json,
    "log": partial(mapping_as_json, "log", "a file and its columns by name, as in {'file': 'june.csv'}"),
    "recipe": recipe_as_json,
    "moments": partial(sums_as_json, "moments", "Moments"),
    "practice": practice_as_json,
}
"""How parts of a loop are written as JSON, where they are something else."""


def path_to(loop: str, decision_id: str | None = None) -> str:
    """Where a loop or one of its decisions is; no name can lead anywhere else."""
    path = f"/v1/loops/{quote(loop, safe='')}"
    return path if decision_id is None else f"{path}/decisions/{quote(decision_id, safe='')}"


def told(reward: float | None, metrics: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A reward, values of guardrails, or both."""
    if reward is None and not metrics:
        raise ValueError("reward or metrics must be given, got neither")
    found: dict[str, Any] = {} if reward is None else {"reward": as_finite("reward", reward)}
    if metrics:
        if not isinstance(metrics, Mapping):
            raise ValueError(f"metrics must be values by their names, got {metrics!r}")
        found["metrics"] = {name: as_value(name, value) for name, value in metrics.items()}
    return found


def as_finite(name: str, value: Any) -> float:
    """A number as JSON can say it, or refuse in one sentence."""
    number = float_of(value)
    if not isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return number


def float_of(value: Any) -> float:
    """A float, of True 1; NaN where it is no number, as "1" is none in JSON."""
    if isinstance(value, str | bytes | bytearray):
        return nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return nan


BOOLS = ("bool", "bool_")  # Python's and NumPy's, which a client does without


def as_value(name: str, value: Any) -> float:
    """A value of a guardrail as JSON can say it, which has no number for True."""
    number = nan if type(value).__name__ in BOOLS else float_of(value)
    if not isfinite(number):
        raise ValueError(f"metrics must have a finite number for {name}, got {value!r}")
    return number


def report(loop: str, by: str, rewards: Iterable[Told]) -> Request[list[RewardResult]]:
    """Many rewards, of decisions that are named by their id or by their key."""
    reports = [{by: name, **told(*parts)} for name, *parts in rewards]

    def read(data: Any) -> list[RewardResult]:
        return [record(RewardResult, result) for result in data["results"]]

    return Request("POST", f"{path_to(loop)}/rewards", read, to_json({"rewards": reports}))


def export_request(loop: str, file: BinaryIO, *, pending: bool) -> Request[None]:
    """Decisions and rewards as Parquet, written into a file."""
    path = f"{path_to(loop)}/export?pending={str(pending).lower()}"
    return Request("GET", path, lambda _: None, file=file)


def get(path: str, **query: int | str | None) -> Request[Any]:
    """A request that changes nothing."""
    given = urlencode({name: value for name, value in query.items() if value is not None})
    return Request("GET", f"{path}?{given}" if given else path, lambda data: data)


def send(method: str, path: str, body: Mapping[str, Any] | None = None) -> Request[dict[str, Any]]:
    """A request that sets a state."""
    return Request(method, path, lambda data: data, None if body is None else to_json(body))


def to_json(body: Mapping[str, Any]) -> bytes:
    """The body of a request; refuses in one sentence what JSON cannot say, wherever it is."""
    try:
        return json.dumps(body, allow_nan=False, default=as_plain).encode()
    except (TypeError, ValueError, RecursionError):
        place, value = next(unsayable(body), ("a request", body))
        kinds = "a finite number, a text, a date, true, false, None, or a list or dict of those by texts"
        raise ValueError(f"{place} must be {kinds}, got {value!r}") from None


FINER = ("[ns]", "[ps]", "[fs]", "[as]")  # units of moments and times that datetime does not have


def as_plain(value: Any) -> Any:
    """What NumPy, pandas and datetime have, as JSON has it; no client needs any of them."""
    kind = str(getattr(value, "dtype", ""))
    if kind.endswith(FINER):  # which NumPy lists as a count of these
        value = value.astype(f"{kind.partition('[')[0]}[us]")
    if callable(listed := getattr(value, "tolist", None)):  # an array or a number of NumPy
        return listed()
    if callable(written := getattr(value, "isoformat", None)) and value == value:  # a date, and not NaT
        return written()
    raise TypeError


def unsayable(body: Any, place: str = "", deep: int = 20) -> Iterator[tuple[str, Any]]:
    """Where JSON cannot say what there is, and what that is; nothing that is meant is so deep."""
    parts: list[tuple[str, Any]]
    if deep == 0:
        yield place, body
        return
    if isinstance(body, Mapping):
        parts = [(f"{place}.{name}".removeprefix("."), part) for name, part in body.items()]
    elif isinstance(body, list | tuple):
        parts = [(f"{place}[{i}]", part) for i, part in enumerate(body)]
    else:
        try:
            json.dumps(body, allow_nan=False, default=as_plain)
        except (TypeError, ValueError):
            yield place, body
        return
    for name, part in parts:
        yield from unsayable(part, name, deep - 1)
