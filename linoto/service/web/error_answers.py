"""Errors as answers: one shape for all of them."""

from __future__ import annotations

import logging
from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException
from litestar.types import ExceptionHandlersMap

from linoto.service.errors import Busy, Refused, Repeats, Unavailable
from linoto.service.web.access import AnyRequest
from linoto.service.web.messages import error_body
from linoto.service.web.methods import allowed_at
from linoto.service.web.peers import MOVING

logger = logging.getLogger("linoto.service")
REPEATS = Repeats()


def failure(
    request: AnyRequest | None, status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> Response[bytes]:
    """The one shape."""
    body = error_body(code, message, None if request is None else id_of(request))
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def id_of(request: AnyRequest) -> str | None:
    """The id of a request, where the server gives them."""
    id: str | None = request.scope.get("request_id")  # type: ignore[assignment]
    return id


def on_refused(request: AnyRequest, error: Refused) -> Response[bytes]:
    """A refusal of ours."""
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if error.code == "moving":
        headers[MOVING] = "1"
    return failure(request, error.status, error.code, error.message, headers)


def on_unavailable(request: AnyRequest, error: Unavailable) -> Response[bytes]:
    """Nothing was kept."""
    if REPEATS.is_new(str(error)):
        logger.error(
            "unavailable", extra={"path": request.url.path, "error": str(error), "id": id_of(request)}
        )
    code = "busy" if isinstance(error, Busy) else "unavailable"
    return failure(request, 503, code, str(error), {"retry-after": "1"})


def on_http(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """A refusal of the framework, in our shape."""
    details = error.extra if isinstance(error.extra, list) else []
    parts = [
        f"{part.get('key', 'body')}: {part.get('message')}" for part in details if isinstance(part, dict)
    ]
    names = {404: "unknown", 405: "method_not_allowed", 413: "too_large"}
    message, headers = "; ".join(parts) or error.detail, {}
    if error.status_code == 404:
        message = f"there is nothing at {request.url.path}"
    elif error.status_code == 405:
        headers["allow"] = allowed_at(request.app, request.url.path)
        message = f"{request.method} must be one of {headers['allow']} at {request.url.path}"
    code = names.get(error.status_code, "bad_request")
    return failure(request, error.status_code, code, message, headers)


def never_html(answer: Response[Any]) -> Response[Any]:
    """The framework has a page of its own for what it does not find beside the description."""
    return (
        failure(None, 404, "unknown", "there is nothing at this address")
        if answer.status_code == 404
        else answer
    )


def on_fault(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A mistake in our code: the log gets all of it, the caller nothing of it."""
    logger.error("fault", exc_info=error, extra={"path": request.url.path, "id": id_of(request)})
    return failure(request, 500, "fault", "a fault of the service: its log says more")


HANDLERS: ExceptionHandlersMap = {
    Refused: on_refused,
    Unavailable: on_unavailable,
    HTTPException: on_http,
    Exception: on_fault,
}
