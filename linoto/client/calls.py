"""What can be asked of the service: each operation as the request it is and the way its answer is read.

Every one of them may be repeated: a decision carries a key, and the same key always gets the same answer;
a reward counts once; the rest says how things shall be, or only looks. Both clients are made from these.
"""

from __future__ import annotations

import inspect
import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from linoto.client.answers import Answer, RewardResult, ServedDecision, is_good, record, unreadable
from linoto.client.files import WholeFile

if TYPE_CHECKING:
    from linoto.core.offline import Offline

T = TypeVar("T")
PIECE = 65536  # bytes of an answer taken at once


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """One request: made once, sent as often as it takes.

    >>> decide("banner", key="visit-17").path
    '/v1/loops/banner/decide'
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    body: bytes | None = None
    into: WholeFile | None = None  # for an answer too large for memory: `read` then sees none of it

    def sink(self, status: int, memory: io.BytesIO) -> WholeFile | io.BytesIO:
        """Where the body of an answer with this status goes."""
        if self.into is None or not is_good(status):
            return memory
        self.into.restart()
        return self.into

    def result(self, answer: Answer) -> T:
        """What a good answer says."""
        try:
            return self.read(answer.body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise unreadable(answer.status) from error


# -- loops


def create(
    loop: str,
    *,
    policy: Any,
    default_reward: float,
    arms: Sequence[str] | Mapping[str, Sequence[float]] | None = None,
    offline: Offline | None = None,
    rows: Iterable[tuple[str, float]] | None = None,
    log: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Call[dict[str, Any]]:
    """Make a loop, or find it as it was made. `arms` are names, or names with their features.

    Its log is given as statistics (`offline`), as `rows` of (arm, reward), or as a file in the log folder of
    the service: `log={"file": "june.parquet", "action": "banner", "reward": "clicked"}`, and then the arms
    may be left out for those in the file.
    """
    spec: dict[str, Any] = {
        "policy": plain_policy(policy),
        "default_reward": float(default_reward),
        **settings,
    }
    if arms is not None:
        spec["arms"] = plain_arms(arms)
    if offline is not None:
        spec["offline"] = plain_offline(offline)
    if rows is not None:
        spec["rows"] = [[name, float(reward)] for name, reward in rows]
    if log is not None:
        spec["log"] = dict(log)
    return ask_object("PUT", path_of(loop), spec)


def loops() -> Call[list[dict[str, Any]]]:
    """The live numbers of every loop."""
    return look("/v1/loops")


def loop(loop: str) -> Call[dict[str, Any]]:
    """The live numbers of one."""
    return look(path_of(loop))


def spec(loop: str) -> Call[dict[str, Any]]:
    """What it was made from."""
    return look(f"{path_of(loop)}/spec")


def change(loop: str, *, mode: str | None = None, holdback: float | None = None) -> Call[dict[str, Any]]:
    """Another mode ("live", "shadow", "safe-only") or share held back, from the next decision on."""
    return ask_object("PATCH", path_of(loop), {"mode": mode, "holdback": holdback})


def archive(loop: str) -> Call[dict[str, Any]]:
    """No more decisions."""
    return ask_object("DELETE", path_of(loop))


# -- deciding and learning


def decide(
    loop: str,
    *,
    key: str | None = None,
    proposal: str | None = None,
    allowed: Sequence[str] | None = None,
) -> Call[ServedDecision]:
    """What to play. Without a key of yours one is made up, so that repeating is safe."""
    body: dict[str, Any] = {"key": uuid.uuid4().hex if key is None else key, "proposal": proposal}
    if allowed is not None:
        body["allowed"] = list(allowed)

    def read(answer: bytes) -> ServedDecision:
        return record(ServedDecision, json.loads(answer))

    return Call(method="POST", path=f"{path_of(loop)}/decide", body=plain(body), read=read)


def reward(loop: str, decision_id: str, reward: float) -> Call[RewardResult]:
    """Report one reward; ServiceError if it conflicts, is late, or is for nothing known."""

    def read(answer: bytes) -> RewardResult:
        return record(RewardResult, json.loads(answer))

    path, body = f"{path_of(loop, decision_id)}/reward", plain({"reward": float(reward)})
    return Call(method="PUT", path=path, body=body, read=read)


def rewards(loop: str, rewards: Iterable[tuple[str, float]]) -> Call[list[RewardResult]]:
    """Report many; each gets its own answer, in order."""
    reports = [{"decision_id": id, "reward": float(reward)} for id, reward in rewards]

    def read(answer: bytes) -> list[RewardResult]:
        return [record(RewardResult, result) for result in json.loads(answer)["results"]]

    return Call(method="POST", path=f"{path_of(loop)}/rewards", body=plain({"rewards": reports}), read=read)


# -- looking


def arms(loop: str) -> Call[list[dict[str, Any]]]:
    """The arms with their intervals."""
    return look(f"{path_of(loop)}/arms")


def decisions(loop: str, *, limit: int = 50, before: int | None = None) -> Call[list[dict[str, Any]]]:
    """Recent decisions, newest first; `before` is the number of one, to go further back."""
    query = {"limit": limit} if before is None else {"limit": limit, "before": before}
    return look(f"{path_of(loop)}/decisions?{urlencode(query)}")


def explain(loop: str, decision_id: str) -> Call[dict[str, Any]]:
    """Why a decision was made as it was."""
    return look(path_of(loop, decision_id))


def history(loop: str) -> Call[dict[str, Any]]:
    """The course of a loop: `points`, oldest first."""
    return look(f"{path_of(loop)}/history")


def report(loop: str) -> Call[dict[str, Any]]:
    """The promise, and what was earned."""
    return look(f"{path_of(loop)}/report")


def export(loop: str, into: WholeFile, *, pending: bool) -> Call[None]:
    """Decisions and rewards as Parquet, written into a file."""
    query = urlencode({"pending": str(pending).lower()})
    return Call(method="GET", path=f"{path_of(loop)}/export?{query}", read=lambda _: None, into=into)


# -- how it is written


def path_of(loop: str, decision_id: str | None = None) -> str:
    """Where a loop or one of its decisions is; no name can lead anywhere else."""
    place = f"/v1/loops/{quote(loop, safe='')}"
    return place if decision_id is None else f"{place}/decisions/{quote(decision_id, safe='')}"


def look(path: str) -> Call[Any]:
    """A request that changes nothing."""
    return Call(method="GET", path=path, read=json.loads)


def ask_object(method: str, path: str, body: dict[str, Any] | None = None) -> Call[dict[str, Any]]:
    """A request whose answer is an object."""
    return Call(method=method, path=path, body=None if body is None else plain(body), read=json.loads)


def plain(body: dict[str, Any]) -> bytes:
    """A body as JSON."""
    return json.dumps(body, allow_nan=False).encode()


def plain_policy(policy: Any) -> dict[str, Any]:
    """A policy as JSON data, from a policy or from such data."""
    if isinstance(policy, Mapping):
        return dict(policy)
    from linoto.core.snapshots import to_dict

    return to_dict(policy)


def plain_arms(arms: Sequence[str] | Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """Arms as JSON data."""
    if isinstance(arms, Mapping):
        return [{"name": name, "features": list(map(float, x))} for name, x in arms.items()]
    return [{"name": name} for name in arms]


def plain_offline(offline: Offline) -> dict[str, Any]:
    """A log as JSON data."""
    data = {"pulls": offline.pulls.tolist(), "reward_sums": offline.reward_sums.tolist()}
    if offline.reward_squares is not None:
        data["reward_squares"] = offline.reward_squares.tolist()
    return data


def describe(method: Callable[..., Any], operation: Callable[..., Call[Any]]) -> None:
    """Let `help` show a client's method as the operation it asks for."""
    shape = inspect.signature(operation)
    caller = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    returns = str(shape.return_annotation).removeprefix("Call[").removesuffix("]")
    shape = shape.replace(parameters=[caller, *shape.parameters.values()], return_annotation=returns)
    method.__signature__ = shape  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = operation.__name__
    method.__doc__ = operation.__doc__
