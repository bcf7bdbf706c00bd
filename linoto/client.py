"""A client of the decision service: every request may be repeated, so a failed one simply is.

A decision carries a key, and the same key always gets the same answer; a reward counts once, whatever
happens on the way. Only the standard library is needed.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from linoto.data import Offline

RETRIED = (http.client.HTTPException, OSError)  # the answer is lost, and with it whether it was done
PAUSE = 0.05  # seconds before the first repetition; doubled each time


class ServiceError(RuntimeError):
    """The service said no: `status` and `code` for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code = status, code


@dataclass(frozen=True, kw_only=True)
class ServedDecision:
    """What to play, and what to report its reward by."""

    decision_id: str
    arm: str
    mode: Literal["explore", "safe"]
    propensity: float | None
    lcb: float
    ucb: float
    budget: float | None
    reference: float | None
    model_version: int
    expires_at: float
    loop_mode: Literal["live", "shadow", "safe-only"]
    holdback: bool


@dataclass(frozen=True, kw_only=True)
class RewardResult:
    """What became of a reward; `reward` is the value that stands."""

    decision_id: str
    status: Literal["applied", "duplicate", "conflict", "expired", "unknown", "invalid"]
    code: int
    reward: float | None = None
    message: str | None = None


class Client:
    """Talks to one service, from any number of threads.

    >>> client = Client("http://127.0.0.1:8080", token="...")
    >>> client.url
    'http://127.0.0.1:8080'
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 6,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be like http://127.0.0.1:8080, got {url!r}")
        self.url, self.timeout, self.retries = url.rstrip("/"), timeout, retries
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._path, self._sleep = parts.path.rstrip("/"), sleep
        self._headers = {"accept": "application/json"}
        if token is not None:
            self._headers["authorization"] = f"Bearer {token}"
        self._local = threading.local()

    # -- loops

    def create(
        self,
        loop: str,
        *,
        arms: Sequence[str] | Mapping[str, Sequence[float]],
        policy: Any,
        default_reward: float,
        offline: Offline | None = None,
        rows: Iterable[tuple[str, float]] | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Make a loop, or find it as it was made. `arms` are names, or names with their features."""
        spec: dict[str, Any] = {"policy": plain_policy(policy), "default_reward": default_reward, **settings}
        if isinstance(arms, Mapping):
            spec["arms"] = [{"name": name, "features": list(map(float, x))} for name, x in arms.items()]
        else:
            spec["arms"] = [{"name": name} for name in arms]
        if offline is not None:
            spec["offline"] = {"pulls": offline.pulls.tolist(), "reward_sums": offline.reward_sums.tolist()}
        if rows is not None:
            spec["rows"] = [[name, float(reward)] for name, reward in rows]
        return self._object("PUT", path_of(loop), spec)

    def loops(self) -> list[dict[str, Any]]:
        """The live numbers of every loop."""
        return self._list("GET", "/v1/loops")

    def loop(self, loop: str) -> dict[str, Any]:
        """The live numbers of one."""
        return self._object("GET", path_of(loop))

    def change(self, loop: str, *, mode: str | None = None, holdback: float | None = None) -> dict[str, Any]:
        """Another mode ("live", "shadow", "safe-only") or share held back, from the next decision on."""
        return self._object("PATCH", path_of(loop), {"mode": mode, "holdback": holdback})

    def archive(self, loop: str) -> dict[str, Any]:
        """No more decisions."""
        return self._object("DELETE", path_of(loop))

    # -- deciding and learning

    def decide(
        self,
        loop: str,
        *,
        key: str | None = None,
        proposal: str | None = None,
        allowed: Sequence[str] | None = None,
    ) -> ServedDecision:
        """What to play. Without a key of yours one is made up, so that repeating is safe."""
        body: dict[str, Any] = {"key": key or uuid.uuid4().hex, "proposal": proposal}
        if allowed is not None:
            body["allowed"] = list(allowed)
        return ServedDecision(**self._object("POST", f"{path_of(loop)}/decide", body))

    def reward(self, loop: str, decision_id: str, reward: float) -> RewardResult:
        """Report one reward; ServiceError if it conflicts, is late, or is for nothing known."""
        path = f"{path_of(loop)}/decisions/{quote(decision_id, safe='')}/reward"
        return RewardResult(**self._object("PUT", path, {"reward": reward}))

    def rewards(self, loop: str, rewards: Iterable[tuple[str, float]]) -> list[RewardResult]:
        """Report many; each gets its own answer, in order."""
        body = {"rewards": [{"decision_id": id, "reward": reward} for id, reward in rewards]}
        answer = self._object("POST", f"{path_of(loop)}/rewards", body)
        return [RewardResult(**result) for result in answer["results"]]

    # -- looking

    def arms(self, loop: str) -> list[dict[str, Any]]:
        """The arms with their intervals."""
        return self._list("GET", f"{path_of(loop)}/arms")

    def decisions(self, loop: str, *, limit: int = 50) -> list[dict[str, Any]]:
        """Recent decisions, newest first."""
        return self._list("GET", f"{path_of(loop)}/decisions?limit={limit}")

    def explain(self, loop: str, decision_id: str) -> dict[str, Any]:
        """Why a decision was made as it was."""
        return self._object("GET", f"{path_of(loop)}/decisions/{quote(decision_id, safe='')}")

    def report(self, loop: str) -> dict[str, Any]:
        """The promise, and what was earned."""
        return self._object("GET", f"{path_of(loop)}/report")

    def export(self, loop: str, path: str | Path, *, pending: bool = False) -> Path:
        """Decisions and rewards as a Parquet file, a log that `linoto audit` reads."""
        target = Path(path)
        query = f"?pending={str(pending).lower()}"
        target.write_bytes(self._ask("GET", f"{path_of(loop)}/export{query}", None))
        return target

    def close(self) -> None:
        """Let go of this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    # -- inside

    def _object(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self._ask(method, path, body))
        return result

    def _list(self, method: str, path: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = json.loads(self._ask(method, path, None))
        return result

    def _ask(self, method: str, path: str, body: Any) -> bytes:
        """Ask until there is an answer that is not 503, or patience ends."""
        pause = PAUSE
        for attempt in range(self.retries + 1):
            try:
                status, data = self._send(method, path, body)
            except RETRIED as error:
                self.close()
                if attempt == self.retries:
                    raise ConnectionError(f"no answer from {self.url}: {error}") from error
            else:
                if status < 400:
                    return data
                if status != 503 or attempt == self.retries:
                    raise refusal(status, data)
            self._sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")

    def _send(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            make = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = make(self._host, self._port, timeout=self.timeout)
        headers = dict(self._headers)
        data = None
        if body is not None:
            headers["content-type"] = "application/json"
            data = json.dumps(body, allow_nan=False).encode()
        connection.request(method, self._path + path, body=data, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()


def path_of(loop: str) -> str:
    """Where a loop is; its name cannot lead anywhere else."""
    return f"/v1/loops/{quote(loop, safe='')}"


def plain_policy(policy: Any) -> dict[str, Any]:
    """A policy as JSON data, from a policy or from such data."""
    if isinstance(policy, Mapping):
        return dict(policy)
    from linoto.snapshots import to_dict

    return to_dict(policy)


def refusal(status: int, data: bytes) -> ServiceError:
    """The error a response is about."""
    try:
        error = json.loads(data)["error"]
        return ServiceError(status, error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        return ServiceError(status, "unreadable", "the service gave an answer that is not its own")
