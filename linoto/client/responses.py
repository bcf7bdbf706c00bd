"""What the service answers, as types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Record = TypeVar("Record", "ServedDecision", "RewardResult")


class ServiceError(RuntimeError):
    """The service refused: `status` and `code` for programs, the message for people.

    `request_id` finds the request in the log of the service.
    """

    def __init__(
        self, status: int, code: str, message: str, *, retry_after: str = "", request_id: str = ""
    ) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code, self.retry_after, self.request_id = status, code, retry_after, request_id


@dataclass(frozen=True, kw_only=True)
class ServedDecision:
    """What to play, and the identifier to report its reward with."""

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
    reason: str | None = None  # in a loop with contexts: why this arm
    because: list[dict[str, Any]] = field(default_factory=list)  # part and amount, the largest first


@dataclass(frozen=True, kw_only=True)
class RewardResult:
    """What happened to a reward; `reward` is the value that counts."""

    decision_id: str
    status: Literal["applied", "duplicate", "conflict", "expired", "restored", "unknown", "invalid"]
    code: int
    reward: float | None = None
    metrics: dict[str, float] | None = None  # values of guardrails that count, of those that were told
    message: str | None = None


def record(kind: type[Record], data: Mapping[str, Any]) -> Record:
    """A typed answer; fields that only a newer service has are left out."""
    names = kind.__dataclass_fields__
    return kind(**{name: value for name, value in data.items() if name in names})
