"""Requests are found again: by their ids, and as traces where OpenTelemetry is there."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.loops import digests
from helpers.service_process import create, opened, served
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from linoto.client import ServiceError
from linoto.service.web.request_ids import WithIds
from linoto.service.web.tracing import Traced, trace_writes

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def asked(port: int, path: str, given: str | None) -> tuple[str, Any]:
    """The id of an answer, and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={} if given is None else {"X-Request-Id": given})
        response = connection.getresponse()
        return response.headers["x-request-id"], json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize("log", [True, False], ids=["logged", "not logged"])
def test_a_request_keeps_the_id_it_comes_with_in_its_answer_its_error_and_the_log(
    tmp_path: Path, log: bool
) -> None:
    """One that cannot be an id gets another."""
    path, ids = tmp_path / "x.sqlite", []
    with served(path, settings={"access_log": log}) as server:
        for given in ("from-a.proxy_7", 'no id "at all"', "x" * 65, None):
            id, _ = asked(server.port, "/v1/overview", given)
            again, refusal = asked(server.port, "/v1/loops/none", id)
            assert refusal["error"]["request_id"] == again == id
            ids.append(id)
        with server.client() as client, pytest.raises(ServiceError) as refused:
            client.loop("none")
        assert len(refused.value.request_id) == 16, "the client says it too"
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as raw:
            raw.sendall(b"not HTTP at all\r\n\r\n")
            head, body = raw.makefile("rb").read().split(b"\r\n\r\n")
        said = json.loads(body)["error"]["request_id"]
        assert b"x-request-id: " + said.encode() in head, "where there is no application to ask either"
        server.stop()
    assert ids[0] == "from-a.proxy_7" and len(set(ids)) == 4 and all(len(id) == 16 for id in ids[1:])
    lines = [json.loads(line) for line in path.with_suffix(".log").read_text().splitlines()]
    logged = [line["id"] for line in lines if line.get("path") == "/v1/overview"]
    assert logged == (ids if log else [])


async def request(app: Any, path: str, headers: dict[str, str], body: bytes = b"{}") -> list[Any]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope |= {"method": "POST", "path": path, "raw_path": path.encode(), "root_path": "", "state": {}}
    scope |= {"query_string": b"secret=query", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    fixed = {"content-type": "application/json", "host": "localhost"}
    scope["headers"] = [(key.encode(), value.encode()) for key, value in (fixed | headers).items()]
    await app(scope, receive, send)
    return sent


def test_a_trace_has_the_request_its_wait_and_its_transaction_under_the_span_of_the_caller(
    tmp_path: Path,
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        trace_writes(service.store, tracer)
        app = WithIds(Traced(service.app, tracer))

        async def both() -> None:
            headers = {"traceparent": PARENT, "x-request-id": "abc"}
            body = b'{"key": "secret key"}'
            assert (await request(app, "/v1/loops/loop/decide", headers, body))[0]["status"] == 200
            assert (await request(app, "/v1/loops/none/decide", {}))[0]["status"] == 404

        asyncio.run(both())
        assert len(set(digests(service))) == 1
    spans = exporter.get_finished_spans()
    first = [span for span in spans if span.context.trace_id == int(PARENT[3:35], 16)]
    assert [span.name for span in first] == [
        "queue wait",
        "transaction",
        "POST /v1/loops/{name}/decide",
    ]
    waited, written, whole = first
    assert whole.parent.span_id == int(PARENT[36:52], 16)
    assert waited.parent.span_id == written.parent.span_id == whole.context.span_id
    assert whole.start_time <= waited.start_time <= waited.end_time <= written.start_time
    assert written.end_time <= whole.end_time
    assert whole.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": "/v1/loops/{name}/decide",
        "linoto.loop": "loop",
        "linoto.request_id": "abc",
    }
    assert [span.attributes["http.response.status_code"] for span in spans if span.attributes] == [200, 404]
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_a_served_loop_is_traced_if_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with served(path, settings={"traces": True}) as server:
        id, _ = asked(server.port, "/v1/overview", None)
        server.stop()
    lines = [json.loads(line) for line in path.with_suffix(".log").read_text().splitlines()]
    found = [line for line in lines if line.get("attributes", {}).get("linoto.request_id") == id]
    assert [line["name"] for line in found] == ["GET /v1/overview"]
    assert found[0]["resource"]["attributes"]["service.name"] == "linoto"


def test_without_traces_nothing_of_opentelemetry_is_imported() -> None:
    code = "import sys, linoto.service.server; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
