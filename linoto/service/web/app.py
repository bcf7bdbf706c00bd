"""HTTP: handlers that parse, call and render. Everything under /v1 is described by /v1/openapi.json."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar, cast

import msgspec
from litestar import Litestar, MediaType, Response, Router, delete, get, head, patch, post, put
from litestar.datastructures import State
from litestar.enums import RequestEncodingType
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Components, SecurityScheme
from litestar.params import Body, Parameter
from litestar.response import Stream
from litestar.types import ASGIApp

from linoto.service.errors import Busy, Refused, Unavailable
from linoto.service.loops import explanations, spec, views
from linoto.service.loops.loop import Loop
from linoto.service.loops.loops import NAME, Loops
from linoto.service.loops.messages import (
    Change,
    DecideRequest,
    Decision,
    ErrorBody,
    Failure,
    LoopSpec,
    RewardBatch,
    RewardReport,
    RewardResult,
    RewardResults,
    RewardValue,
)
from linoto.service.storage.store import Store
from linoto.service.web import metrics, pages
from linoto.service.web.access import Access, AnyRequest, needs
from linoto.service.web.export import parquet
from linoto.service.web.framework import Description, JsonRequest, Told
from linoto.service.web.making import Making
from linoto.version import __version__

T = TypeVar("T")
Json = Annotated[T, Body(media_type=RequestEncodingType.JSON)]
LoopName = Annotated[str, Parameter(pattern=f"^{NAME.pattern}$", description="of the loop")]
DecisionId = Annotated[str, Parameter(max_length=100, description="as `decide` gave it")]
Pending = Annotated[bool, Parameter(description="those without a reward too")]
Limit = Annotated[int, Parameter(ge=1, le=1000, description="how many at most")]
Most = Annotated[int | None, Parameter(ge=1, le=100_000, description="how many at most; all if left out")]
Before = Annotated[int | None, Parameter(ge=1, le=2**53, description="only decisions before this number")]
BODY = 1_000_000  # bytes of any request
SPEC_BODY = 64_000_000  # bytes of a new loop, which brings its features and maybe rows
logger = logging.getLogger("linoto.service")
ERRORS = {
    status: ResponseSpec(ErrorBody, description=text, generate_examples=False)
    for status, text in (
        (400, "not a well-formed request"),
        (401, "no valid token"),
        (403, "the role does not allow it"),
        (404, "there is no such thing"),
        (409, "it conflicts with what is there"),
        (410, "the reward window is over, or the records were pruned"),
        (413, "too large"),
        (415, "not JSON"),
        (422, "valid JSON, unacceptable values"),
        (429, "more requests than this caller may make; nothing was done"),
        (503, "nothing was kept; asking again is safe"),
    )
}


def answers(kind: type) -> dict[int, ResponseSpec]:
    """What is described of a handler that sends its answer itself."""
    return {200: ResponseSpec(kind, description="done", generate_examples=False), **ERRORS}


def route(method: Callable[..., Any], path: str, role: str, **options: Any) -> Callable[..., Any]:
    """A handler for those who have the role; what goes right is a 200."""
    options = {"status_code": 200, "media_type": MediaType.JSON, "responses": ERRORS, **options}
    return cast(Callable[..., Any], method(path, before_request=needs(role), **options))


def loops_of(request: AnyRequest) -> Loops:
    """The loops this application serves."""
    loops: Loops = request.app.state.loops
    return loops


def ask(request: AnyRequest, operation: Callable[..., T], *arguments: Any) -> Awaitable[T]:
    """Run an operation and wait until it is on disk."""
    store: Store = request.app.state.store
    return store.write(lambda connection: operation(connection, *arguments))


async def look(request: AnyRequest, name: str, view: Callable[..., T], *arguments: Any) -> T:
    """Something that only reads the database, on a connection of its own."""
    store: Store = request.app.state.store
    loop = loops_of(request).get(name)
    return await asyncio.to_thread(store.read_database, lambda connection: view(connection, loop, *arguments))


async def peek(request: AnyRequest, view: Callable[[Loops], T]) -> T:
    """Something of the memory as it is on disk, without touching the disk."""
    store: Store = request.app.state.store
    loops = loops_of(request)
    return await store.read_memory(lambda: view(loops))


async def see(request: AnyRequest, name: str, view: Callable[..., T]) -> T:
    """Something of a loop's memory, between two events."""
    return await peek(request, lambda loops: view(loops.get(name)))


# -- loops


@route(get, "/loops", "reader")
async def list_loops(request: AnyRequest) -> list[views.LoopView]:
    """List the loops."""
    return await peek(request, views.loop_views)


@route(put, "/loops/{name:str}", "admin", request_max_body_size=SPEC_BODY)
async def create_loop(request: AnyRequest, name: LoopName, data: Json[LoopSpec]) -> views.LoopView:
    """Create a loop; the same again changes nothing."""
    loops, state, making = loops_of(request), request.app.state, cast(Making, request.app.state.making)
    async with making.turn(name):  # who asks again before it is made waits for it, and finds it
        canonical = await making.run(lambda: spec.canonical(data, logs=state.logs))
        known = loops.by_name.get(name)
        if known is None or known.spec != canonical:
            fresh = await making.run(lambda: Loop.fresh(name, canonical))
            await ask(request, loops.create, fresh)
            logger.info("loop created", extra={"loop": name, "by": request.user.name})
    return await see(request, name, views.loop_view)


@route(get, "/loops/{name:str}", "reader")
async def inspect_loop(request: AnyRequest, name: LoopName) -> views.LoopView:
    """The live numbers of a loop."""
    return await see(request, name, views.loop_view)


@route(get, "/loops/{name:str}/spec", "reader")
async def inspect_spec(request: AnyRequest, name: LoopName) -> LoopSpec:
    """What a loop was made from."""
    return loops_of(request).get(name).spec


@route(patch, "/loops/{name:str}", "writer")
async def change_loop(request: AnyRequest, name: LoopName, data: Json[Change]) -> views.LoopView:
    """Change the mode or the share held back; a writer may only set safe-only, the kill switch."""
    if request.user.role != "admin" and (data.mode != "safe-only" or data.holdback is not None):
        raise Refused(403, "forbidden", "a writer may only set the mode safe-only")
    change = partial(loops_of(request).change, name=name, change=data, by=request.user.name)
    view = await ask(request, lambda connection: views.loop_view(change(connection)))
    logger.info("loop changed", extra={"loop": name, "by": request.user.name, "mode": view.mode})
    return view


@route(delete, "/loops/{name:str}", "admin")
async def archive_loop(request: AnyRequest, name: LoopName) -> views.LoopView:
    """Archive a loop."""
    archive = partial(loops_of(request).archive, name=name, by=request.user.name)
    view = await ask(request, lambda connection: views.loop_view(archive(connection)))
    logger.info("loop archived", extra={"loop": name, "by": request.user.name})
    return view


@route(get, "/loops/{name:str}/arms", "reader")
async def list_arms(request: AnyRequest, name: LoopName, limit: Most = None) -> list[views.ArmView]:
    """The arms with their intervals; with a limit, the most played ones first."""
    return await see(request, name, lambda loop: views.arm_views(loop, limit))


@route(get, "/loops/{name:str}/history", "reader")
async def show_history(request: AnyRequest, name: LoopName) -> views.HistoryView:
    """The course of a loop, for a picture."""
    return await see(request, name, views.history)


@route(get, "/loops/{name:str}/report", "reader")
async def report_loop(request: AnyRequest, name: LoopName) -> views.Report:
    """The promise and what was earned."""
    return await see(request, name, views.report)


@route(get, "/loops/{name:str}/export", "reader", media_type="application/vnd.apache.parquet")
async def export_loop(request: AnyRequest, name: LoopName, pending: Pending = False) -> Stream:
    """Decisions and rewards as Parquet."""
    loop, store = loops_of(request).get(name), request.app.state.store
    headers = {"content-disposition": f'attachment; filename="{loop.name}.parquet"'}
    return Stream(lambda: parquet(store, loop, pending=pending), headers=headers)


# -- decisions


@route(post, "/loops/{name:str}/decide", "writer", responses=answers(Decision))
async def decide(request: AnyRequest, name: LoopName, data: Json[DecideRequest]) -> ASGIApp:
    """Decide."""
    return Told(await ask(request, loops_of(request).decide, name, data))


@route(get, "/loops/{name:str}/decisions", "reader")
async def list_decisions(
    request: AnyRequest, name: LoopName, limit: Limit = 50, before: Before = None
) -> list[explanations.DecisionRow]:
    """Recent decisions, newest first."""
    return await look(request, name, explanations.recent, before, limit)


@route(get, "/loops/{name:str}/decisions/{decision_id:str}", "reader")
async def explain_decision(
    request: AnyRequest, name: LoopName, decision_id: DecisionId
) -> explanations.Explanation:
    """Explain a decision."""
    return await look(request, name, explanations.explain, decision_id)


@route(
    put,
    "/loops/{name:str}/decisions/{decision_id:str}/reward",
    "writer",
    responses=answers(RewardResult),
)
async def reward_decision(
    request: AnyRequest, name: LoopName, decision_id: DecisionId, data: Json[RewardValue]
) -> ASGIApp:
    """Report the reward of a decision."""
    report = RewardReport(decision_id=decision_id, reward=data.reward)
    result = await ask(request, loops_of(request).reward, name, report)
    if result.code != 200:
        raise Refused(result.code, result.status, result.message or result.status)
    return Told(result)


@route(post, "/loops/{name:str}/rewards", "writer")
async def reward_many(request: AnyRequest, name: LoopName, data: Json[RewardBatch]) -> RewardResults:
    """Report many rewards; each gets its own answer."""
    return RewardResults(await ask(request, loops_of(request).rewards, name, data.rewards))


# -- watching


@get("/healthz", include_in_schema=False, media_type=MediaType.TEXT)
async def healthy() -> str:
    """The process answers."""
    return "ok"


@head("/healthz", include_in_schema=False)
async def alive() -> None:
    """The same for those who do not read."""


@get("/readyz", include_in_schema=False, media_type=MediaType.TEXT)
async def ready(request: AnyRequest) -> str:
    """The database can be written: looked at once a second, since looking costs a sync."""
    store: Store = request.app.state.store
    try:
        await asyncio.wait_for(store.check_ready(), timeout=5.0)
    except TimeoutError:
        raise Unavailable("the writer does not answer") from None
    return "ok"


@get("/metrics", before_request=needs("reader"), include_in_schema=False)
async def show_metrics(request: AnyRequest) -> Response[bytes]:
    """What Prometheus reads."""
    numbers = await peek(request, views.loop_views)
    text = metrics.render(numbers, request.app.state.store, request.app.state.get("latency"))
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


# -- errors


def failure(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response[bytes]:
    """The one shape."""
    body = msgspec.json.encode(ErrorBody(Failure(code, message)))
    return Response(body, status_code=status, media_type="application/json", headers=headers)


def on_refused(request: AnyRequest, error: Refused) -> Response[bytes]:
    """An answer of ours."""
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else {}
    if error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    return failure(error.status, error.code, error.message, headers)


def on_unavailable(request: AnyRequest, error: Unavailable) -> Response[bytes]:
    """Nothing was kept."""
    logger.error("unavailable", extra={"path": request.url.path, "error": str(error)})
    code = "busy" if isinstance(error, Busy) else "unavailable"
    return failure(503, code, str(error), {"retry-after": "1"})


def on_http(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """An answer of the framework, in our shape."""
    details = error.extra if isinstance(error.extra, list) else []
    parts = [
        f"{part.get('key', 'body')}: {part.get('message')}" for part in details if isinstance(part, dict)
    ]
    names = {404: "unknown", 405: "method_not_allowed", 413: "too_large"}
    return failure(
        error.status_code, names.get(error.status_code, "bad_request"), "; ".join(parts) or error.detail
    )


def on_fault(request: AnyRequest, error: Exception) -> Response[bytes]:
    """A fault of ours: told in full to the log, not to the caller."""
    logger.error("fault", exc_info=error, extra={"path": request.url.path})
    return failure(500, "fault", "a fault of the service: its log says more")


def make_app(loops: Loops, store: Store, access: Access) -> Litestar:
    """The application over these loops."""
    handlers = [list_loops, create_loop, inspect_loop, inspect_spec, change_loop, archive_loop, list_arms]
    handlers += [
        show_history,
        report_loop,
        export_loop,
        decide,
        list_decisions,
        explain_decision,
        reward_decision,
        reward_many,
    ]
    return Litestar(
        [Router("/v1", route_handlers=handlers), healthy, alive, ready, show_metrics, *pages.HANDLERS],
        state=State({"loops": loops, "store": store, "access": access, "making": Making()}),
        openapi_config=OpenAPIConfig(
            title="linoto",
            version=__version__,
            path="/v1",
            use_handler_docstrings=True,
            render_plugins=[Description(path="/openapi.json")],
            components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
            security=[{}, {"token": []}],
        ),
        exception_handlers={
            Refused: on_refused,
            Unavailable: on_unavailable,
            HTTPException: on_http,
            Exception: on_fault,
        },
        request_max_body_size=BODY,
        request_class=JsonRequest,
        logging_config=None,
    )
