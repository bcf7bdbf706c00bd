"""Services that answer as a test tells them to, and both clients to send them requests."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket
from typing import Any

from linoto import AsyncClient, Client

Raw = bytes | Iterable[bytes]
NOTHING = b""  # the request was read, and the connection closed without an answer
DECISION: dict[str, Any] = {"decision_id": "1-1", "arm": "a", "mode": "safe", "propensity": 1.0, "lcb": 0.0}
DECISION |= {"ucb": 1.0, "budget": None, "reference": None, "model_version": 0, "expires_at": 1.0}
DECISION |= {"loop_mode": "live", "holdback": False}

# For 127.0.0.1 only; written here so that the tests need no tool that makes certificates.
KEY_AND_CERTIFICATE = """
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgLrTTUBaTNtI4aLcp
2tb0xqWa1Tl5O3oLMMefIQDxvSihRANCAARtfLo3K44tFwZI82Qr+u9GTHHiqKsZ
xj4Zu2MaPf42Sp3zTffZGqcqS0f+Ez3K7cXOziopvVQRGxT5eyigEd5R
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBjjCCATSgAwIBAgIUHKItiQTmVjpwMBD4ct0MOsD0j18wCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIbG9vcGJhY2swIBcNMjYxMTE1MDUyNTAyWhgPMjEyNjEwMjIw
NTI1MDJaMBMxETAPBgNVBAMMCGxvb3BiYWNrMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEbXy6NyuOLRcGSPNkK/rvRkxx4qirGcY+GbtjGj3+Nkqd80332RqnKktH
/hM9yu3Fzs4qKb1UERsU+XsooBHeUaNkMGIwHQYDVR0OBBYEFHUO540/8JlfO0HN
FqCtQtpw0qqqMB8GA1UdIwQYMBaAFHUO540/8JlfO0HNFqCtQtpw0qqqMA8GA1Ud
EQQIMAaHBH8AAAEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiBE
wynJXSLRB0nkRI/h+95O8+yuhfqIXUGXdaPZumEydgIhAM2sk+bBpNMv+UdYlWsm
rYGWDg97f0CiqBvAfK3raqJQ
-----END CERTIFICATE-----
"""


def answer(status: int, body: Any, **headers: str) -> bytes:
    """A complete answer, after which the connection is closed."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"content-length": str(len(data)), "connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} said", *(f"{key.replace('_', '-')}: {fields[key]}" for key in fields)]
    return "\r\n".join([*lines, "", ""]).encode() + data


def error(status: int, code: str, **headers: str) -> bytes:
    """A refusal as the service writes it."""
    return answer(status, {"error": {"code": code, "message": "no"}}, **headers)


class Handler(BaseHTTPRequestHandler):
    server: Script

    def do_any(self) -> None:
        self.server.seen.append(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.server.heads.append((self.command, self.path, dict(self.headers)))
        raw = next(self.server.answers)
        for piece in [raw] if isinstance(raw, bytes) else raw:
            self.wfile.write(piece)
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_any  # noqa: N815 - as the library wants them

    def log_message(self, *arguments: Any) -> None:
        pass


class Script(HTTPServer):
    """Gives these answers in order, each on a connection of its own."""

    def __init__(self, *answers: Raw) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = iter(answers)
        self.seen: list[bytes] = []  # bodies
        self.heads: list[tuple[str, str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def secure(self, folder: Path) -> Path:
        """Use TLS from now on; returns the file with the certificate."""
        file = folder / "loopback.pem"
        file.write_text(KEY_AND_CERTIFICATE)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")
        return file


@contextmanager
def scripted(*answers: Raw, folder: Path | None = None) -> Iterator[Script]:
    """A running script; over TLS if there is a folder for the certificate."""
    with Script(*answers) as script:
        if folder is not None:
            script.secure(folder)
        with serving(script):
            yield script


@contextmanager
def serving(server: HTTPServer) -> Iterator[None]:
    """Serve from a thread meanwhile."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


class KeepAliveHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KeepAlive

    def setup(self) -> None:
        super().setup()
        self.server.connections.append(self.connection)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.release()
        if self.connection in self.server.silent:
            self.rfile.read(1)  # until the client closes it
            return
        self.server.may_answer.wait()
        body = json.dumps(DECISION).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    def log_message(self, *arguments: Any) -> None:
        pass


class KeepAlive(ThreadingHTTPServer):
    """Answers every request with a decision and keeps its connections."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), KeepAliveHandler)
        self.connections: list[socket] = []  # all there ever were
        self.silent: list[socket] = []  # on these it does not answer any more
        self.requests = threading.Semaphore(0)  # how many have come
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def hang_up(self) -> None:
        """Close every connection from this side."""
        for connection in self.connections:
            with suppress(OSError):  # the client may have been faster
                connection.shutdown(SHUT_RDWR)


@contextmanager
def keeping_alive() -> Iterator[KeepAlive]:
    """A running service of that kind."""
    with KeepAlive() as server, serving(server):
        try:
            yield server
        finally:
            server.may_answer.set()
            server.hang_up()


class AnyClient:
    """Either client, called from a plain function; its pauses are only recorded."""

    def __init__(self, kind: type[Client] | type[AsyncClient], url: str | list[str], **options: Any) -> None:
        self.pauses: list[float] = []
        self.runner = asyncio.Runner()
        self.client: Any = kind(url, **{"sleep": self.recorder(kind), "deadline": 240.0, **options})

    def recorder(self, kind: type) -> Any:
        async def record(pause: float) -> None:
            self.pauses.append(pause)

        return self.pauses.append if kind is Client else record

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self.client, name)(*args, **kwargs)
            return self.runner.run(result) if asyncio.iscoroutine(result) else result

        return call

    def wait(self, seconds: float) -> None:
        """Let time pass, in the client's event loop too."""
        self.runner.run(asyncio.sleep(seconds))

    def __enter__(self) -> AnyClient:
        return self

    def __exit__(self, *reason: object) -> None:
        self.__getattr__("close")()
        self.runner.close()
