"""Why the service did not do what was asked."""

from __future__ import annotations

from math import ceil


class Refused(RuntimeError):  # noqa: N818 - an answer, not a fault
    """A request that was understood and refused; there is nothing to undo."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry_after = retry_after  # seconds


class Unavailable(RuntimeError):  # noqa: N818 - an answer, not a fault
    """Nothing was kept: the disk failed or the service is stopping. Asking again is safe."""


class Busy(Unavailable):
    """Too many requests are waiting."""


def invalid(message: str) -> Refused:
    """Valid JSON, unacceptable values."""
    return Refused(422, "invalid", message)


def too_many(rate: float, wait: float) -> Refused:
    """More requests than this caller may make; nothing was done, so asking again is safe."""
    seconds = max(1, ceil(wait))
    message = f"requests must be at most {rate:g} per second, got more: ask again in {seconds} s"
    return Refused(429, "too_many", message, retry_after=seconds)


def not_found(what: str, name: str) -> Refused:
    """There is no such thing."""
    return Refused(404, "unknown", f"there is no {what} {name!r}")
