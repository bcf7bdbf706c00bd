"""Handlers for programs that watch the service: alive, ready, metrics."""

from __future__ import annotations

import asyncio
import time

from litestar import MediaType, Response, get, head

from linoto.core.hints import counted
from linoto.service.errors import Unavailable
from linoto.service.web.access import AnyRequest, needs
from linoto.service.web.metrics import MetricsPage
from linoto.service.web.routing import loops_of, shown_of, store_of


@get("/healthz", include_in_schema=False, media_type=MediaType.TEXT)
async def healthy() -> str:
    """The process answers."""
    return "ok"


@head("/healthz", include_in_schema=False)
async def alive() -> None:
    """The same without a body."""


@get("/readyz", include_in_schema=False, media_type=MediaType.TEXT)
async def ready(request: AnyRequest) -> str:
    """The database can be written: tested once a second, since a test costs a sync.

    A loop that cannot be read does not count: others are served, and asking again would not mend it.
    """
    await check_writer(request)
    damaged = len(loops_of(request).damaged)
    return f"ok, but {counted(damaged, 'loop')} cannot be served" if damaged else "ok"


@head("/readyz", include_in_schema=False)
async def writable(request: AnyRequest) -> None:
    """The same without a body."""
    await check_writer(request)


async def check_writer(request: AnyRequest) -> None:
    """Refuse where a decision could not be kept now."""
    try:
        await asyncio.wait_for(store_of(request).check_ready(), timeout=5.0)
    except TimeoutError:
        raise Unavailable("the writer does not answer") from None


@get("/metrics", before_request=needs("viewer"), include_in_schema=False)
async def show_metrics(request: AnyRequest) -> Response[bytes]:
    """What Prometheus reads."""
    shown = await shown_of(request).of(filter(request.user.may_see, loops_of(request).by_name))
    page: MetricsPage = request.app.state.metrics
    loops, wall = loops_of(request), time.time()
    ahead = {each.loop.name: loops.now(each.loop) - wall for each in shown}
    text = await asyncio.to_thread(page.render, shown, request.app.state.get("latency"), ahead)
    return Response(text, media_type="text/plain; version=0.0.4")  # the framework adds the charset


HANDLERS = (healthy, alive, ready, writable, show_metrics)
