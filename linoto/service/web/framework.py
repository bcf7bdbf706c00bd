"""Where the web framework says or does less than we promise: descriptions of bodies, errors of callers."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request
from litestar.datastructures import State
from litestar.exceptions import InternalServerException
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.types import Receive, Scope, Send

from linoto.service.errors import Refused
from linoto.service.loops.spec import LoopSpec
from linoto.service.web.messages import Change, DecideRequest, RewardBatch, RewardValue

_, BODIES = msgspec.json.schema_components(
    [LoopSpec, DecideRequest, Change, RewardBatch, RewardValue], ref_template="#/components/schemas/{name}"
)


class Description(JsonRenderPlugin):
    """What the framework says of us, but of bodies what msgspec says, which is what will check them.

    The framework forgets limits inside lists and unions, and that unknown fields are refused.
    """

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        """The description as JSON."""
        components = openapi_schema["components"]
        components = {**components, "schemas": {**components["schemas"], **BODIES}}
        return super().render(request, {**openapi_schema, "components": components})


class JsonResponse:
    """An answer in JSON, sent as it is: the framework's own takes several times as long to make."""

    def __init__(self, answer: msgspec.Struct | list[msgspec.Raw], **headers: int) -> None:
        self.body = msgspec.json.encode(answer)
        self.headers = [(name.replace("_", "-").encode(), b"%d" % value) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers + self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


class JsonRequest(Request[Any, Any, State]):
    """A request whose body is refused where the framework would answer with an error of its own."""

    async def body(self) -> bytes:
        """The bytes of it; a caller who hangs up in the middle is not an error of the service."""
        try:
            return await super().body()
        except InternalServerException as error:
            raise Refused(400, "bad_request", error.detail) from None

    async def json(self) -> Any:
        """The parsed body; the framework refuses what is not valid JSON, but misses these two cases."""
        try:
            return await super().json()
        except (UnicodeDecodeError, RecursionError):
            message = "the body must be JSON in UTF-8, and not nested this deep"
            raise Refused(400, "bad_request", message) from None
