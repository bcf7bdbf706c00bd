"""Requests to a server over a plain connection."""

from __future__ import annotations

import http.client
import json
from typing import Any

from helpers.command import Process
from helpers.service_process import Server


def ask(
    server: Server | Process, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """(status, JSON or text) of a plain request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=240)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})
        response = connection.getresponse()
        raw = response.read()
    finally:
        connection.close()
    try:
        return response.status, json.loads(raw)
    except ValueError:
        return response.status, raw.decode()
