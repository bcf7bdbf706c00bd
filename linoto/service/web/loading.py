"""The application while loops are still being read: it is alive, and says that it is not ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sized
from typing import Any

from linoto.service.web.messages import error_body

ALIVE = (200, b"text/plain; charset=utf-8", b"ok")
NOT_OWNED = "the database cannot be reached, or another server has taken it over: ask again, there or here"
STANDING_BY = "somebody else has the whole database: this server goes on when that ends"
AWAY = "the database cannot be reached: this server goes on when it can"


class Loading:
    """Passes requests on once there is an application; until then only `/healthz` is answered with 200."""

    def __init__(
        self,
        loaded: Sized,
        is_owned: Callable[[], bool] = lambda: True,
        regain: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.loaded = loaded  # the loops so far
        self.is_owned = is_owned  # whether what is in memory may be shown
        self.regain = regain  # the same, after a lost connection was opened again
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if self.app is not None and (self.is_owned() or (self.regain and await self.regain())):
            await self.app(scope, receive, send)
            return
        status, kind, body = (
            ALIVE if scope["path"] == "/healthz" else self._not_ready(scope.get("request_id"))
        )
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _why_not(self) -> tuple[str, str]:
        """The code and the message of the answer."""
        if self.app is not None:
            return "unavailable", NOT_OWNED
        return "loading", f"the loops are being read, {len(self.loaded)} so far: ask again"

    def _not_ready(self, id: str | None) -> tuple[int, bytes, bytes]:
        return 503, b"application/json", error_body(*self._why_not(), id)


class StandingBy(Loading):
    """The application of a server that waits until the database can be had."""

    def __init__(self, why: str = STANDING_BY) -> None:
        super().__init__(())
        self.why = why

    def _why_not(self) -> tuple[str, str]:
        return "standby", self.why
