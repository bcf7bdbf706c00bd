"""The application while loops are still being read: it is alive, and says that it is not ready."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from linoto.service.web.messages import error_body

ALIVE = (200, b"text/plain; charset=utf-8", b"ok")


class Loading:
    """Passes requests on once there is an application; until then only `/healthz` is answered with 200."""

    def __init__(self, loaded: Sized) -> None:
        self.loaded = loaded  # the loops so far
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        if self.app is not None:
            await self.app(scope, receive, send)
            return
        status, kind, body = (
            ALIVE if scope["path"] == "/healthz" else self._not_ready(scope.get("request_id"))
        )
        headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (b"retry-after", b"1")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _not_ready(self, id: str | None) -> tuple[int, bytes, bytes]:
        message = f"the loops are being read, {len(self.loaded)} so far: ask again"
        return 503, b"application/json", error_body("loading", message, id)
