"""Why the service did not do what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import ceil


class Refused(RuntimeError):  # noqa: N818 - an answer, not a fault
    """A request that was understood and refused; there is nothing to undo."""

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.retry_after = retry_after  # seconds
        self.after_draws = False  # whether decisions before it were drawn, and then undone


class Undone(RuntimeError):  # noqa: N818 - an answer, not a fault
    """A refusal in the middle of a job: what the job did before it must not be kept."""

    def __init__(self, refusal: Refused) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class Unavailable(RuntimeError):  # noqa: N818 - an answer, not a fault
    """The disk failed or the service is stopping. Nothing was kept, unless the message leaves that open."""


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


def moving(name: str) -> Refused:
    """Its loop is on the way from one server to another; nothing was done."""
    return Refused(503, "moving", f"loop {name!r} is moving to another server: ask again")


def damaged(name: str, why: str) -> Refused:
    """It is there, and cannot be read; other loops can."""
    return Refused(503, "damaged", f"loop {name!r} cannot be served: {why}")


def restored(message: str) -> Refused:
    """It is about what came after the backup that the database was restored from."""
    return Refused(410, "restored", message)


class Repeats:
    """Lets a message through once, and again after a minute: a fault that lasts must not fill the log."""

    def __init__(self, every: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.every, self.clock = every, clock
        self._seen: dict[str, float] = {}

    def is_new(self, text: str) -> bool:
        """Whether it is to be logged."""
        now = self.clock()
        self._seen = {known: at for known, at in self._seen.items() if now - at < self.every}
        return self._seen.setdefault(text, now) == now
