"""A service that says what it is told to and remembers what it was asked, and both clients to ask it."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from linoto import AsyncClient, Client

Raw = bytes | Iterable[bytes]
LOST = b""  # the request was read, and not a word came back
DECISION: dict[str, Any] = {"decision_id": "1-1", "arm": "a", "mode": "safe", "propensity": 1.0, "lcb": 0.0}
DECISION |= {"ucb": 1.0, "budget": None, "reference": None, "model_version": 0, "expires_at": 1.0}
DECISION |= {"loop_mode": "live", "holdback": False}

# For 127.0.0.1 and nothing else, so that these tests need no tool that makes such things.
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
    """A whole answer, after which the connection ends."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {"content-length": str(len(data)), "connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} said", *(f"{key.replace('_', '-')}: {fields[key]}" for key in fields)]
    return "\r\n".join([*lines, "", ""]).encode() + data


def error(status: int, code: str, **headers: str) -> bytes:
    """A refusal in the service's own shape."""
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
    """Gives these answers in turn, each on a connection of its own."""

    def __init__(self, *answers: Raw) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = iter(answers)
        self.seen: list[bytes] = []  # bodies
        self.heads: list[tuple[str, str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def secure(self, folder: Path) -> Path:
        """Speak TLS from now on; the file with its certificate."""
        file = folder / "loopback.pem"
        file.write_text(KEY_AND_CERTIFICATE)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = self.url.replace("http:", "https:")
        return file


@contextmanager
def scripted(*answers: Raw, folder: Path | None = None) -> Iterator[Script]:
    """A script that is served; over TLS where there is a folder for the certificate."""
    with Script(*answers) as script:
        if folder is not None:
            script.secure(folder)
        thread = threading.Thread(target=script.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            script.shutdown()
            thread.join()


class Twin:
    """Either client, asked one thing at a time; its pauses are only noted."""

    def __init__(self, kind: type[Client] | type[AsyncClient], url: str, **options: Any) -> None:
        self.pauses: list[float] = []
        self.runner = asyncio.Runner()
        self.client: Any = kind(url, **{"sleep": self.note(kind), **options})

    def note(self, kind: type) -> Any:
        async def note(pause: float) -> None:
            self.pauses.append(pause)

        return self.pauses.append if kind is Client else note

    def __getattr__(self, name: str) -> Any:
        def ask(*args: Any, **kwargs: Any) -> Any:
            result = getattr(self.client, name)(*args, **kwargs)
            return self.runner.run(result) if asyncio.iscoroutine(result) else result

        return ask

    def __enter__(self) -> Twin:
        return self

    def __exit__(self, *reason: object) -> None:
        self.__getattr__("close")()
        self.runner.close()
