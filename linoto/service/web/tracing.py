"""Traces of requests, where OpenTelemetry is installed and they are asked for.

A span for each request; in it one for the wait in the queue of the writer, and one for the transaction: the
job and the commit that it shares with others.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from linoto.service.storage.store import Job, Store, T
from linoto.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Tracer


def make_tracer() -> Tracer:
    """That of the process where one is set up (`opentelemetry-instrument`), else one of our own."""
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ModuleNotFoundError as error:
        raise ImportError(f'traces need {error.name}: pip install "linoto[traces]"') from None
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(make_provider())
    return trace.get_tracer("linoto", __version__)


def make_provider() -> Any:
    """Spans to a collector where the exporter of OTLP is installed, else as lines on stderr."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "linoto"}
    provider, exporter = TracerProvider(resource=Resource.create(named)), otlp_exporter()
    lines = ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")
    provider.add_span_processor(BatchSpanProcessor(exporter or lines))
    return provider


def otlp_exporter() -> Any:
    """What sends spans to a collector, as its environment variables say; None where it is not installed."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError:
        return None
    return OTLPSpanExporter()


class Traced:
    """An application whose requests are traced, without headers, bodies and query strings."""

    def __init__(self, app: Any, tracer: Tracer) -> None:
        self.app, self.tracer = app, tracer

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request, in a span that goes on with that of the caller (`traceparent`)."""
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        parts = {"http.request.method": scope["method"], "linoto.request_id": scope.get("request_id", "")}
        begun = self.tracer.start_as_current_span(
            scope["method"], extract(headers), SpanKind.SERVER, attributes=parts
        )
        with begun as span:

            async def note_status(message: Any) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= 500:
                        span.set_status(Status(StatusCode.ERROR))
                await send(message)

            await self.app(scope, receive, note_status)
            route, loop = scope.get("path_template"), scope.get("path_params", {}).get("name")
            if route is not None:
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.route", route)
            if loop is not None:
                span.set_attribute("linoto.loop", loop)


def trace_writes(store: Store, tracer: Tracer) -> None:
    """Let every job of this store have a span for its wait, and one for its transaction."""
    from opentelemetry.context import get_current

    def watch(job: Job[T]) -> tuple[Job[T], Callable[[], None]]:
        parent = get_current()
        spans = [tracer.start_span("queue wait", parent)]

        def timed(connection: Any) -> T:
            if len(spans) == 1:  # else it runs again, because another job of its batch failed
                spans[0].end()
                spans.append(tracer.start_span("transaction", parent))
            return job(connection)

        return timed, lambda: spans[-1].end()

    store.watch = watch
