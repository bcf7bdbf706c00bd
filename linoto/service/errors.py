"""What the service answers when it does not do what was asked: one shape for every error."""

from __future__ import annotations


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A request that was understood and turned down; nothing has changed that must be undone."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class Unavailable(Exception):  # noqa: N818 - an answer, not a fault
    """Nothing was kept: the disk failed or the service is stopping. Asking again is safe."""


class Busy(Unavailable):
    """Too many requests are waiting."""


def invalid(message: str) -> Refused:
    """The request is well formed and cannot be meant."""
    return Refused(422, "invalid", message)


def not_found(what: str, name: str) -> Refused:
    """There is no such thing."""
    return Refused(404, "unknown", f"there is no {what} {name!r}")
