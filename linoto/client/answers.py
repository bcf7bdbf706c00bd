"""What comes back from the service, and when to ask again: the same for both clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

T = TypeVar("T")
PAUSE = 0.05  # seconds before the first repetition; doubled each time
LONGEST_PAUSE = 10.0  # seconds, even if the service asks for more: somebody is waiting for the answer
AGAIN = frozenset({429, 502, 503, 504})  # too many, or not now: of the service, or of a proxy before it


class ServiceError(RuntimeError):
    """The service said no: `status` and `code` for programs, the message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code = status, code


class WriteError(OSError):
    """The answer came and could not be kept: this machine's fault, which asking again does not mend."""


@dataclass(frozen=True, kw_only=True)
class ServedDecision:
    """What to play, and what to report its reward by."""

    decision_id: str
    arm: str
    mode: Literal["explore", "safe"]
    propensity: float | None
    lcb: float | None
    ucb: float | None
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


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back over the wire."""

    status: int
    body: bytes
    retry_after: str | None = None  # the header of that name

    @property
    def pause(self) -> float:
        """The seconds that the service asks for, 0 where it does not, within reason."""
        asked = self.retry_after or ""
        return min(float(asked), LONGEST_PAUSE) if asked.isdecimal() else 0.0


class Patience:
    """How long to wait before a request is repeated, and when to stop: one of these for each request.

    >>> patience = Patience("http://127.0.0.1:8080", retries=3)
    >>> patience.lost(ConnectionResetError())
    0.05
    >>> patience.refused(Answer(status=429, body=b"", retry_after="2"))
    2.0
    >>> patience.refused(Answer(status=503, body=b""))
    0.2
    """

    def __init__(self, url: str, *, retries: int) -> None:
        self._url, self._left, self._pause = url, retries, PAUSE

    def lost(self, error: Exception) -> float:
        """The pause after an answer that never came: it may have been done, and doing it again is safe."""
        if isinstance(error, WriteError):
            raise error
        if self._left == 0:
            reason = str(error) or type(error).__name__
            raise ConnectionError(f"no answer from {self._url}: {reason}") from error
        return self._next(0.0)

    def refused(self, answer: Answer) -> float:
        """The pause after a refusal that may pass; any other is raised."""
        if answer.status not in AGAIN or self._left == 0:
            raise refusal(answer)
        return self._next(answer.pause)

    def _next(self, asked: float) -> float:
        pause = max(self._pause, asked)
        self._left, self._pause = self._left - 1, min(2 * self._pause, LONGEST_PAUSE)
        return pause


def is_good(status: int) -> bool:
    """Whether a status says that it was done."""
    return 200 <= status < 300


def refusal(answer: Answer) -> ServiceError:
    """The error an answer is about."""
    try:
        error = json.loads(answer.body)["error"]
        return ServiceError(answer.status, error["code"], error["message"])
    except (ValueError, KeyError, TypeError):
        return unreadable(answer.status)


def unreadable(status: int) -> ServiceError:
    """The error for what cannot have been said by the service."""
    return ServiceError(status, "unreadable", "the service gave an answer that is not its own")


def record(kind: type[T], data: Mapping[str, Any]) -> T:
    """A typed answer; what a newer service says beyond it is left out."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in data.items() if name in names})
