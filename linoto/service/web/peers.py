"""Other servers of the same database: requests are passed on to them, and their answers come back."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linoto.service.errors import Repeats

logger = logging.getLogger("linoto.service")
PASSED_ON = b"x-linoto-passed-on"  # another server asks: answer from here, or say that it is not here
MOVING = "x-linoto-moving"  # nothing was done: the loop is, or was, on its way elsewhere
PLACE = "x-linoto-place"  # of a list: the time and the name of the loop that comes before
OF_CONNECTION = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
OWN = {b"content-length", b"x-request-id", PASSED_ON, PLACE.encode()}
CONNECTING, SILENT = 2.0, 60.0  # seconds until a connection is there, and without a byte of an answer


class NotSentError(OSError):
    """The other server cannot be reached: nothing was done."""


class UntrustedError(NotSentError):
    """The same, because its certificate is not one that this server trusts."""


class NoAnswerError(OSError):
    """Nobody knows whether the other server did what it was asked for."""


@dataclass
class Answer:
    """A whole answer of another server."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    ended: bool = False  # nothing more comes

    def header(self, name: bytes) -> str:
        """Its value, "" if there is none."""
        return next((value for key, value in self.headers if key == name), b"").decode("latin-1")


class Peers:
    """Connections to other servers, by their addresses; those of a server that is gone are closed."""

    def __init__(self, certificate: Path | None = None) -> None:
        try:
            import aiohttp
        except ModuleNotFoundError as error:
            raise ImportError(f'several servers need {error.name}: pip install "linoto[postgres]"') from None
        self._aiohttp, self._certificate = aiohttp, certificate
        self._sessions: dict[str, Any] = {}
        self._trusted: ssl.SSLContext | None = None
        self._untrusted = Repeats()

    def _session(self, url: str) -> Any:
        if url not in self._sessions:
            a = self._aiohttp
            timeout = a.ClientTimeout(total=None, sock_connect=CONNECTING, sock_read=SILENT)
            connector = a.TCPConnector(limit=0, keepalive_timeout=5.0, ssl=self._tls(url))
            self._sessions[url] = a.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=a.DummyCookieJar()
            )
            assert hasattr(self._sessions[url], "_retry_connection"), "aiohttp has it under another name"
            self._sessions[url]._retry_connection = False  # it would send again what may have been done
        return self._sessions[url]

    def _tls(self, url: str) -> ssl.SSLContext | bool:
        """Who is trusted: by this machine, by the chain, and whoever has the same certificate."""
        if self._certificate is None or not url.startswith("https:"):
            return True
        if self._trusted is None:
            self._trusted = ssl.create_default_context()
            self._trusted.verify_flags |= (
                ssl.VERIFY_X509_PARTIAL_CHAIN
            )  # also where nobody knows its authority
            self._trusted.load_verify_locations(self._certificate)
        return self._trusted

    def reload(self) -> None:
        """Trust the certificate as it is now, too: others may have it before or after this server."""
        if self._trusted is not None and self._certificate is not None:
            with suppress(OSError):  # whoever reads the pair says what is wrong with it
                self._trusted.load_verify_locations(self._certificate)

    async def keep(self, urls: Collection[str]) -> None:
        """Close connections to all others: who waits for a server that is gone waits no longer."""
        for url in set(self._sessions) - set(urls):
            await self._sessions.pop(url).close()

    async def pass_on(self, url: str, scope: Any, body: bytes, send: Any, place: str | None = None) -> None:
        """Ask another server what this one was asked, and send what it answers as it comes."""
        from yarl import URL

        a, path = self._aiohttp, scope["raw_path"].decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        target = URL(f"{url}{path}{'?' if query else ''}{query}", encoded=True)
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in passed_headers(scope, place)]
        started = False
        try:
            async with self._session(url).request(
                scope["method"],
                target,
                data=body or None,
                headers=headers,
                allow_redirects=False,
                skip_auto_headers=("user-agent", "accept", "accept-encoding", "content-type"),
            ) as answer:
                if MOVING in answer.headers:
                    raise NotSentError("it is not there")
                heads = [(key.lower(), value) for key, value in answer.raw_headers]
                kept = [each for each in heads if each[0] not in OF_CONNECTION | {b"x-request-id", b"date"}]
                started = True
                await send({"type": "http.response.start", "status": answer.status, "headers": kept})
                async for chunk in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except a.ClientConnectorCertificateError as error:
            why = f"the certificate of the server {url} is not trusted here: {error.certificate_error}"
            if self._untrusted.is_new(why):
                logger.error("a server is not trusted", extra={"url": url, "why": why})
            raise UntrustedError(why) from error
        except a.ClientConnectorError as error:
            raise NotSentError(str(error)) from error
        except (a.ClientError, TimeoutError, RuntimeError, ConnectionError) as error:
            if not started:  # else the caller sees that the answer is not complete
                raise NoAnswerError(str(error) or type(error).__name__) from error

    async def ask(self, url: str, scope: Any, place: str) -> Answer:
        """The same for an answer that is needed whole."""
        answer = Answer(0, [], b"")
        await self.pass_on(url, scope, b"", kept_in(answer), place)
        if not answer.ended:
            raise NoAnswerError("its answer broke off")
        return answer


def kept_in(answer: Answer) -> Any:
    """What keeps an answer instead of sending it."""

    async def keep(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status, answer.headers = message["status"], list(message.get("headers", ()))
        else:
            answer.body += message.get("body", b"")
            answer.ended = not message.get("more_body", False)

    return keep


def passed_headers(scope: Any, place: str | None) -> list[tuple[bytes, bytes]]:
    """The headers of a request as another server gets them: as they came, and that they are passed on."""
    headers = [each for each in scope["headers"] if each[0] not in OF_CONNECTION | OWN]
    headers += [(PASSED_ON, b"1"), (b"x-request-id", scope.get("request_id", "").encode())]
    return headers if place is None else [*headers, (PLACE.encode(), place.encode())]
