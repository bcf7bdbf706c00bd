"""Every request has an id: that of the caller or of a proxy on the way, or a new one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from secrets import token_hex
from typing import Any

ID = b"x-request-id"
ANY_ID = re.compile("[A-Za-z0-9._-]{1,64}")


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id that the caller, or a proxy on the way, gave a request; a new one if that cannot be one."""
    given = next((value for name, value in headers if name == ID), b"").decode("latin-1")
    return given if ANY_ID.fullmatch(given) else token_hex(8)


class WithIds:
    """An application that knows the ids of its requests (`request_id` of a scope), and answers with them."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        id = scope["request_id"] = request_id(scope["headers"])

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), (ID, id.encode())]}
            await send(message)

        await self.app(scope, receive, send_with_id)
