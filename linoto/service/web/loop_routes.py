"""Handlers about loops: list, create, inspect, change, archive, export."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, cast

import msgspec
from litestar import delete, get, patch, post, put
from litestar.params import Parameter
from litestar.response import Stream
from litestar.types import ASGIApp

from linoto.service.errors import Refused, invalid
from linoto.service.loops import arm_views, spec, views
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LoopSpec
from linoto.service.storage import features, sql
from linoto.service.web import live_views
from linoto.service.web.access import AnyRequest
from linoto.service.web.creation import LoopCreation
from linoto.service.web.export import parquet
from linoto.service.web.framework import JsonResponse
from linoto.service.web.messages import Change, FeatureFile, NewArms, Readiness
from linoto.service.web.peers import PLACE
from linoto.service.web.routing import (
    FILE,
    Json,
    LoopName,
    TakesFile,
    loops_of,
    read_loop,
    responses_with,
    route,
    shown_of,
    store_of,
    write,
)
from linoto.service.web.status_routes import check_writer

MOST_LISTED = 100_000  # loops or arms in one answer
Pending = Annotated[bool, Parameter(description="those without a reward too")]
Most = Annotated[int | None, Parameter(ge=1, le=MOST_LISTED, description="how many at most; all if left out")]
After = Annotated[str | None, Parameter(max_length=64, description="the last name of the page before")]
Search = Annotated[
    str | None, Parameter(max_length=200, description="only loops with this in their name or description")
]
Leaving = Annotated[
    list[str], Parameter(min_items=1, max_items=1000, description="the names of the arms to remove")
]
NewFallback = Annotated[
    str | None, Parameter(max_length=200, description="the arm in place of a fixed fallback that is removed")
]
SPEC_BODY = 64_000_000  # bytes of a new loop, which brings its features and maybe rows
logger = logging.getLogger("linoto.service")


@route(get, "/loops", "viewer", responses=responses_with(list[views.LoopView]))
async def list_loops(
    request: AnyRequest, limit: Most = None, after: After = None, search: Search = None
) -> ASGIApp:
    """List the loops, oldest first; the header x-total-count says how many were found in all."""
    names, page = found_names(request, limit, after, search)
    shown = await shown_of(request).of(page)
    return JsonResponse([msgspec.Raw(each.body) for each in shown], x_total_count=len(names))


@route(get, "/overview", "viewer", responses=responses_with(list[views.LoopLine]))
async def list_lines(
    request: AnyRequest, limit: Most = None, after: After = None, search: Search = None
) -> ASGIApp:
    """List the loops in a line each, quick however many there are; the header x-total-count as in a list.

    The header x-role has the role of who asks: a page need not offer what would be refused.
    """
    names, page = found_names(request, limit, after, search, damaged=True)
    lines = await shown_of(request).lines(page)
    return JsonResponse(lines, x_total_count=len(names), x_role=request.user.role)


def found_names(
    request: AnyRequest,
    limit: int | None,
    after: str | None,
    search: str | None,
    *,
    damaged: bool = False,
) -> tuple[list[str], list[str]]:
    """All names that are found, and those on the page; of this server only, where another one asks for it.

    With `damaged`, those of loops that cannot be read too.
    """
    loops = loops_of(request)
    names = live_views.search(loops, search, request.user.may_see)
    if damaged:
        names = live_views.with_damaged(loops, names, search, request.user.may_see)
    place = request.headers.get(PLACE)
    if place is None:
        return names, live_views.page_of(names, after, limit)
    return names, live_views.page_after(loops, names, place, limit)


@route(
    post,
    "/features",
    "admin",
    takes=FILE.encode(),
    operation_class=TakesFile,
    request_max_body_size=features.MOST_BYTES,
)
async def store_features(request: AnyRequest) -> FeatureFile:
    """Store arms by file: an .npy array of features, maybe with one of names after it.

    The answer has the hash that a loop is then made with (`features`). The same arms again change nothing,
    unless what is stored was damaged: then they replace it.
    """
    store, clock = store_of(request), loops_of(request).clock
    creation = cast(LoopCreation, request.app.state.creation)
    arms = await creation.run(partial(features.read_upload, await request.body()))
    for part in arms.parts():  # each in a transaction of its own: nobody waits for a gigabyte
        await store.write(partial(sql.put_features, values=(arms.sha256, *part, clock())))
    await store.write(lambda connection: features.finish(connection, arms, clock()))
    logger.info("features stored", extra={"sha256": arms.sha256, "by": request.user.name})
    return FeatureFile(arms.sha256, *arms.features.shape)


@route(put, "/loops/{name:str}", "admin", request_max_body_size=SPEC_BODY)
async def create_loop(request: AnyRequest, name: LoopName, data: Json[LoopSpec]) -> views.LoopView:
    """Create a loop; the same again changes nothing."""
    loops, folder = loops_of(request), request.app.state.logs
    creation = cast(LoopCreation, request.app.state.creation)
    async with creation.lock(name):  # the same request again waits until it is made, and finds it
        find = features.find if name in loops.by_name else features.find_stored
        stored = await creation.run(  # somebody has it until the loop does
            lambda: store_of(request).read_where_written(lambda connection: find(connection, data.features))
        )
        canonical = await creation.run(lambda: spec.canonical(data, logs=folder))
        known = loops.by_name.get(name)
        if known is None or not known.is_made_from(canonical):
            fresh = await creation.run(lambda: Loop.fresh(name, canonical))
            await write(request, loops.create, fresh)
            logger.info("loop created", extra={"loop": name, "by": request.user.name})
        del stored
    return await read_loop(request, name, views.loop_view)


@route(get, "/loops/{name:str}", "viewer")
async def inspect_loop(request: AnyRequest, name: LoopName) -> views.LoopView:
    """The live numbers of a loop."""
    return await read_loop(request, name, views.loop_view)


@route(get, "/loops/{name:str}/ready", "viewer")
async def loop_ready(request: AnyRequest, name: LoopName) -> Readiness:
    """Whether this loop would decide now, as /readyz says it of the service; 409 if it is archived."""
    loop = loops_of(request).get(name)
    if loop.state.archived:
        raise Refused(409, "archived", f"loop {name!r} is archived and decides no more")
    await check_writer(request)
    return Readiness(loop=name, mode=loop.state.mode)


@route(get, "/loops/{name:str}/spec", "reader")
async def inspect_spec(request: AnyRequest, name: LoopName) -> LoopSpec:
    """What a loop was made from; a seed is not shown, because it tells what will be drawn."""
    return spec.shown(loops_of(request).get(name).spec)


@route(patch, "/loops/{name:str}", "writer")
async def change_loop(request: AnyRequest, name: LoopName, data: Json[Change]) -> views.LoopView:
    """Change the mode or the share of the control group, or answer alarms.

    A writer may only set safe-only, the kill switch, which answers no alarm then.
    """
    is_admin = request.user.role == "admin"
    if not is_admin and (data.mode != "safe-only" or data.holdback is not None or data.answer_alarms):
        raise Refused(403, "forbidden", "a writer may only set the mode safe-only")
    loops = loops_of(request)
    change: dict[str, Any] = {"by": request.user.name, "may_answer": is_admin, **msgspec.structs.asdict(data)}
    view = await write(request, lambda connection: views.loop_view(loops.change(connection, name, **change)))
    logger.info("loop changed", extra={"loop": name, "by": request.user.name, "mode": view.mode})
    return view


@route(delete, "/loops/{name:str}", "admin")
async def archive_loop(request: AnyRequest, name: LoopName) -> views.LoopView:
    """Archive a loop."""
    loops, by = loops_of(request), request.user.name
    view = await write(request, lambda connection: views.loop_view(loops.archive(connection, name, by)))
    logger.info("loop archived", extra={"loop": name, "by": by})
    return view


@route(get, "/loops/{name:str}/arms", "viewer")
async def list_arms(request: AnyRequest, name: LoopName, limit: Most = None) -> list[arm_views.ArmView]:
    """The arms with their intervals; with a limit, the most played ones first, removed ones last."""
    k = len(loops_of(request).get(name).names)
    if limit is None and k > MOST_LISTED:
        raise invalid(f"limit must be given, at most {MOST_LISTED}, for a loop of {k} arms, got none")
    numbers = await read_loop(request, name, lambda loop: arm_views.arm_numbers(loop, limit))
    return await asyncio.to_thread(numbers.rows)


@route(post, "/loops/{name:str}/arms", "admin", request_max_body_size=SPEC_BODY)
async def add_arms(request: AnyRequest, name: LoopName, data: Json[NewArms]) -> views.LoopView:
    """Add arms, playable from the next decision on; the same again changes nothing."""
    return await changed_arms(request, name, loops_of(request).add_arms, arms=data.arms)


@route(delete, "/loops/{name:str}/arms", "admin")
async def remove_arms(
    request: AnyRequest, name: LoopName, arm: Leaving, fallback: NewFallback = None
) -> views.LoopView:
    """Remove arms: they are not played again, and their late rewards still count."""
    return await changed_arms(request, name, loops_of(request).remove_arms, arms=arm, fallback=fallback)


async def changed_arms(
    request: AnyRequest, name: str, operation: Callable[..., Loop], **what: Any
) -> views.LoopView:
    """Change the arms of a loop, and show it."""
    by = request.user.name
    view = await write(
        request, lambda connection: views.loop_view(operation(connection, name, by=by, **what))
    )
    logger.info("arms changed", extra={"loop": name, "by": by, "arms": view.arms})
    return view


@route(get, "/loops/{name:str}/history", "viewer")
async def show_history(request: AnyRequest, name: LoopName) -> views.HistoryView:
    """The course of a loop, for a picture."""
    return await read_loop(request, name, views.history)


@route(get, "/loops/{name:str}/report", "viewer")
async def report_loop(request: AnyRequest, name: LoopName) -> views.Report:
    """The promise and what was earned."""
    return await read_loop(request, name, views.report)


@route(get, "/loops/{name:str}/export", "viewer", media_type="application/vnd.apache.parquet")
async def export_loop(request: AnyRequest, name: LoopName, pending: Pending = False) -> Stream:
    """Decisions and rewards as Parquet."""
    loop, store, contexts = loops_of(request).get(name), store_of(request), request.user.sees_contexts
    headers = {"content-disposition": f'attachment; filename="{loop.name}.parquet"'}
    return Stream(lambda: parquet(store, loop, pending=pending, contexts=contexts), headers=headers)


HANDLERS = (
    list_loops,
    list_lines,
    store_features,
    create_loop,
    inspect_loop,
    loop_ready,
    inspect_spec,
    change_loop,
    archive_loop,
    list_arms,
    add_arms,
    remove_arms,
    show_history,
    report_loop,
    export_loop,
)
