"""What every handler is made with: its role, its parameters, and its ways to read and to write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from litestar import MediaType
from litestar.enums import RequestEncodingType
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import OpenAPIFormat, OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.params import Body, Parameter

from linoto.service.loops.operations import NAME, Loops
from linoto.service.storage.connection import Keys
from linoto.service.storage.store import Store
from linoto.service.web.access import AnyRequest, needs
from linoto.service.web.live_views import LiveViews
from linoto.service.web.messages import ErrorBody

T = TypeVar("T")
FILE = "application/octet-stream"
Json = Annotated[T, Body(media_type=RequestEncodingType.JSON)]
LoopName = Annotated[str, Parameter(pattern=f"^{NAME.pattern}$", description="of the loop")]
DecisionId = Annotated[str, Parameter(max_length=100, description="as `decide` gave it")]
ERRORS = {
    status: ResponseSpec(ErrorBody, description=text, generate_examples=False)
    for status, text in (
        (400, "not a well-formed request"),
        (401, "no valid token"),
        (403, "the role does not allow it"),
        (404, "there is no such thing"),
        (409, "it conflicts with what is there"),
        (410, "the reward window is over, the records were pruned, or a restore has lost the decision"),
        (413, "too large"),
        (415, "not JSON, or not the file that is wanted"),
        (422, "valid JSON, values that do not fit the loop or each other"),
        (429, "more requests than this caller may make; nothing was done"),
        (431, "the address or the headers are too long"),
        (503, "nothing was kept, unless the message leaves that open: asking again with the key is safe"),
    )
}


def responses_with(kind: Any) -> dict[int, ResponseSpec]:
    """What is described of a handler that sends its answer itself."""
    return {200: ResponseSpec(kind, description="done", generate_examples=False), **ERRORS}


@dataclass
class TakesFile(Operation):
    """What is described of a handler whose body is a file."""

    def __post_init__(self) -> None:
        kind = OpenAPIMediaType(Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY))
        self.request_body = RequestBody({FILE: kind}, required=True)


def route(
    method: Callable[..., Any], path: str, role: str, *, takes: bytes = b"application/json", **options: Any
) -> Callable[..., Any]:
    """A handler for those who have the role, and for bodies of a type; a success is a 200."""
    options = {"status_code": 200, "media_type": MediaType.JSON, "responses": ERRORS, **options}
    return cast(Callable[..., Any], method(path, before_request=needs(role, takes), **options))


def loops_of(request: AnyRequest) -> Loops:
    """The loops this application serves."""
    loops: Loops = request.app.state.loops
    return loops


def store_of(request: AnyRequest) -> Store:
    """Where they are kept."""
    store: Store = request.app.state.store
    return store


def shown_of(request: AnyRequest) -> LiveViews:
    """Their live numbers."""
    shown: LiveViews = request.app.state.shown
    return shown


def write(
    request: AnyRequest, operation: Callable[..., T], *arguments: Any, keys: Keys = (), **named: Any
) -> Awaitable[T]:
    """Run an operation, which looks these keys up, and wait until it is on disk."""
    return store_of(request).write(lambda connection: operation(connection, *arguments, **named), keys)


async def read_database(request: AnyRequest, name: str, view: Callable[..., T], *arguments: Any) -> T:
    """Something of a loop's records, on a connection of its own."""
    store, loop = store_of(request), loops_of(request).get(name)
    return await asyncio.to_thread(store.read_database, lambda connection: view(connection, loop, *arguments))


async def read_loop(request: AnyRequest, name: str, view: Callable[..., T]) -> T:
    """Something of one loop in memory, between two events."""
    loops = loops_of(request)
    return await store_of(request).read_memory(lambda: view(loops.get(name)))
