"""A request, its response, and when to send it again: the same for both clients."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, BinaryIO, Generic, TypeVar

from linoto.client.responses import ServiceError

T = TypeVar("T")
JSON, ARRAY = "application/json", "application/octet-stream"
FIRST_PAUSE = 0.05  # seconds before the first repetition; doubled each time
LONGEST_OF_OURS = 1.0  # seconds, where the service asks for nothing: a restart takes no longer
LONGEST_PAUSE = 10.0  # seconds, even if the service asks for more: a caller is waiting
RETRY_STATUSES = frozenset({429, 502, 503, 504})  # too many, or not now: of the service or a proxy
NAMED_OBJECT = re.compile(r"^\w+\(host=[^)]*\): ")  # which connection failed: the sentence names its address


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request: made once, sent as often as needed."""

    method: str
    path: str
    read: Callable[[Any], T]  # the result, from the JSON of the response
    body: bytes | None = None
    kind: str = JSON  # of the body
    file: BinaryIO | None = None  # takes a response that is too large for memory; `read` then gets None

    @property
    def headers(self) -> dict[str, str]:
        """Those in addition, where it has a body."""
        return {"content-type": self.kind}

    @property
    def loop(self) -> str:
        """The loop that it is about, as its path has it; "" where it is about none or several."""
        parts = self.path.partition("?")[0].split("/", 4)
        return parts[3] if len(parts) > 3 and parts[2] == "loops" else ""

    def sink(self, status: int, headers: Mapping[str, str]) -> BinaryIO:
        """Where the body of a response with this head is written."""
        if "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "").lower():
            raise ConnectionError(
                "the response does not say where it ends, so a part of it would look complete"
            )
        if self.file is None or not is_good(status):
            return io.BytesIO()
        self.file.seek(0)  # over what an earlier response that broke off has left
        self.file.truncate()
        return self.file

    def result(self, status: int, headers: Mapping[str, str], sink: BinaryIO) -> T:
        """What a complete response says; ServiceError if it is a refusal."""
        said = {"retry_after": headers.get("retry-after", ""), "request_id": headers.get("x-request-id", "")}
        try:
            data: Any = None
            if sink is not self.file:
                sink.seek(0)
                data = json.load(sink)
            if is_good(status):
                return self.read(data)
            code, message = data["error"]["code"], data["error"]["message"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = "the service gave an answer that is not its own"
            raise ServiceError(status, "unreadable", message, **said) from error
        raise ServiceError(status, code, message, **said)


def is_good(status: int) -> bool:
    """Whether a status says that the request was done."""
    return 200 <= status < 300


class Retries:
    """The pauses before one request is sent again, and when to give up: after `left` times, or `deadline` s.

    >>> retries = Retries(3)
    >>> retries.pause_after(ConnectionError())
    0.05
    >>> retries.pause_after(ServiceError(429, "too_many", "later", retry_after="2"))
    2.0
    >>> retries.pause_after(ServiceError(503, "unavailable", "later"))
    0.2
    """

    def __init__(
        self, left: int | None, deadline: float = inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._left, self._pause = left, FIRST_PAUSE
        self._deadline, self._clock, self._began = deadline if left is None else inf, clock, clock()
        self._rested = 0.0  # seconds, also where nobody really sleeps

    def pause_after(self, error: ConnectionError | ServiceError, *, asked: bool = True) -> float:
        """Seconds to wait after this error, as the service has `asked` or not; raises it if it is final."""
        if isinstance(error, ServiceError) and error.status not in RETRY_STATUSES:
            raise error
        wanted = error.retry_after if asked and isinstance(error, ServiceError) else ""
        pause = max(self._pause, min(float(wanted), LONGEST_PAUSE) if wanted.isdecimal() else 0.0)
        if self._left == 0:
            raise error
        self._check_deadline(error, pause)
        self._left = None if self._left is None else self._left - 1
        self._pause = min(2 * self._pause, LONGEST_OF_OURS)
        self._rested += pause
        return pause

    def no_pause_after(self, error: ConnectionError | ServiceError) -> float:
        """Nothing, as another server is asked; raises the error if it is too late for that."""
        self._check_deadline(error, 0.0)
        return 0.0

    def _check_deadline(self, error: ConnectionError | ServiceError, pause: float) -> None:
        if max(self._clock() - self._began, self._rested) + pause > self._deadline:
            raise error


def may_pass_elsewhere(error: ConnectionError | ServiceError) -> bool:
    """Whether another server of the same service may do what this one did not."""
    return not isinstance(error, ServiceError) or error.status in RETRY_STATUSES - {429}


def no_answer(url: str, error: Exception) -> ConnectionError:
    """The error for an answer that did not come; whether the request was done is unknown."""
    said = NAMED_OBJECT.sub("", str(error)) or type(error).__name__
    return ConnectionError(f"no answer from {url}: {said}")
