"""The application of one of several servers: what is not here is asked for where it is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
from litestar.utils import normalize_path

from linoto.client.servers import OWNER
from linoto.service.errors import Refused, Unavailable
from linoto.service.loops.spreading import Spread
from linoto.service.storage import sql
from linoto.service.storage.parts import PARTS, View, part_of
from linoto.service.web.access import ROLES, Access, Caller
from linoto.service.web.app import BODY
from linoto.service.web.loop_routes import SPEC_BODY
from linoto.service.web.messages import error_body
from linoto.service.web.peers import (
    MOVING,
    PASSED_ON,
    Answer,
    NoAnswerError,
    NotSentError,
    Peers,
    UntrustedError,
    kept_in,
    passed_headers,
)

LOOP = re.compile(r"/v1/loops/([^/]+)")
MAY_BE_LARGE = re.compile(r"PUT /v1/loops/[^/]+|POST /v1/loops/[^/]+/arms")  # for an admin
LISTS = ("/v1/loops", "/v1/overview", "/v1/decisions")  # of all loops, wherever they are
HAS = b"x-linoto-parts"  # of a list: the parts whose loops are in it, as bits of a number
ALL = 2**PARTS - 1
PATIENCE = 2.5  # seconds that a request waits for a loop that moves, or for a server that takes it over
PAUSE = 0.02  # seconds between two looks whether it has come
ON_THE_WAY = "it is moving to another server: ask again"
SOME_ON_THE_WAY = "some loops are moving to another server: ask again"
SEE_TRUST = "see --tls-cert and SSL_CERT_FILE"
IN_DOUBT = "the server that has this loop gave no answer; it may have been done or not: ask again, with a key"


class Shared:
    """Answers what is about loops that are here, and passes the rest on."""

    def __init__(self, app: Any, spread: Spread, peers: Peers, access: Access) -> None:
        self.app, self.spread, self.peers, self.access = app, spread, peers, access
        self.url = spread.store.url

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        path = normalize_path(scope["path"])  # as the framework reads it
        loop = LOOP.match(path)
        passed_on = any(name == PASSED_ON for name, _ in scope["headers"])
        if loop is not None:
            await self._reach(part_of(loop[1]), path, passed_on, scope, receive, send)
        elif path not in LISTS or scope["method"] != "GET":
            await self.app(scope, receive, send)
        elif passed_on:
            before, served = set(self.spread.served), self.spread.served
            await self.app(scope, receive, with_header(send, lambda: (HAS, bits(before & served))))
        else:
            await self._gather(scope, receive, send)

    async def keep_peers(self) -> None:
        """Close what leads to servers that are gone, until cancelled."""
        while True:
            await asyncio.sleep(0.1)
            view = self.spread.store.view
            if view is not None:
                await self.peers.keep(view.servers.values())

    # -- one loop

    async def _reach(
        self, part: int, path: str, passed_on: bool, scope: Any, receive: Any, send: Any
    ) -> None:
        """Answer where the loop is; wait for it where it moves."""
        loop, body, most = asyncio.get_running_loop(), None, BODY
        if part not in self.spread.served:
            allowed = await self._most_bytes(path, scope)
            if allowed is None:
                await self.app(scope, receive, send)
                return
            most = allowed
        end, why = loop.time() + PATIENCE, ON_THE_WAY
        while part not in self.spread.served:
            view = self.spread.store.view
            url = None if view is None or passed_on else view.elsewhere(part)
            if url is not None:
                told = int(dict(scope["headers"]).get(b"content-length", b"0"))
                if body is None and told <= most:
                    body = await read_all(receive, most)
                    if body is None:
                        return  # the caller has left
                if body is None or len(body) > most:
                    await refuse(scope, send, 413, "too_large", f"a body must be at most {most} bytes")
                    return
                try:
                    await self.peers.pass_on(url, scope, body, send)
                    return
                except UntrustedError as error:
                    why = f"{error}; {SEE_TRUST}"
                except NotSentError:
                    why = ON_THE_WAY
                except NoAnswerError as error:
                    await refuse(scope, send, 503, "unavailable", f"{IN_DOUBT} ({error})")
                    return
            if loop.time() > end or (passed_on and part not in self.spread.store.held):
                await refuse(scope, send, 503, "moving", why, (MOVING.encode(), b"1"))
                return
            await asyncio.sleep(PAUSE)
        here = receive if body is None else given(body)
        await self.app(scope, here, with_header(send, lambda: (OWNER.encode(), self.url.encode())))

    async def _most_bytes(self, path: str, scope: Any) -> int | None:
        """How large a body may be; None for those who are refused here, before any of it is read."""
        caller = await self._caller(scope)
        if caller is None or not caller.may_see(path.split("/")[3]):
            return None
        large = MAY_BE_LARGE.fullmatch(f"{scope['method']} {path}") is not None
        needed = "admin" if large else "viewer" if scope["method"] == "GET" else "writer"
        if ROLES.index(caller.role) < ROLES.index(needed):
            return None
        return SPEC_BODY if large else BODY

    async def _caller(self, scope: Any) -> Caller | None:
        """Who asks; None for those whom the application refuses, or cannot recognise now: it says why."""
        try:
            return await self.access.recognise(dict(scope["headers"]))
        except (Refused, Unavailable):
            return None

    # -- lists of all loops

    async def _gather(self, scope: Any, receive: Any, send: Any) -> None:
        """The lists of all servers as one; again where a loop was in none of them, or in two."""
        loop = asyncio.get_running_loop()
        end, why = loop.time() + PATIENCE, SOME_ON_THE_WAY
        caller = await self._caller(scope)
        pause, place = PAUSE, await self._place(scope, caller)
        fine = (200,) if caller is None else (200, 503)  # to wait does not make anybody known
        while (view := self.spread.store.view) is not None:
            found, why = await self._ask_all(view, scope, receive, place)
            odd = next((each for each in found if each.status not in fine), None)
            if odd is not None:
                await send_answer(send, odd)
                return
            if is_whole(found):
                await send_answer(send, merged(found, limit_of(scope)))
                return
            if loop.time() > end:
                break
            await asyncio.sleep(pause)
            pause *= 2.0  # each time is paid from the caller's rate
        await refuse(scope, send, 503, "moving", why)

    async def _place(self, scope: Any, caller: Caller | None) -> str:
        """Where a page begins, in words that every server understands; nothing of a loop that is hidden."""
        after = parse_qs(scope["query_string"].decode("latin-1")).get("after", [""])[-1]
        if not after or caller is None or not caller.may_see(after):
            return ""
        try:
            at = await asyncio.to_thread(
                self.spread.store.read_database, lambda connection: sql.created_at(connection, after)
            )
        except Unavailable:
            return ""
        return "" if at is None else f"{at!r} {after}"

    async def _ask_all(self, view: View, scope: Any, receive: Any, place: str) -> tuple[list[Answer], str]:
        """What each server says, and why something is missing if it is."""
        here = Answer(0, [], b"")
        asked = {**scope, "headers": passed_headers(scope, place)}
        await self(asked, receive, kept_in(here))
        if here.status != 200:
            return [here], SOME_ON_THE_WAY
        others = [url for server, url in view.servers.items() if server != view.me]
        told = await asyncio.gather(
            *(self.peers.ask(url, scope, place) for url in others), return_exceptions=True
        )
        found, why = [here], SOME_ON_THE_WAY
        for each in told:
            if isinstance(each, Answer):
                found.append(each)
            elif isinstance(each, UntrustedError):
                why = f"{each}; {SEE_TRUST}"
            elif not isinstance(each, NotSentError | NoAnswerError):
                raise each
        return found, why


class Listed(msgspec.Struct):
    """What lists of loops are sorted by."""

    name: str = ""
    created_at: float = 0.0
    loop: str = ""  # of a decision


def is_whole(found: list[Answer]) -> bool:
    """Whether every part is in exactly one answer."""
    parts = [int(each.header(HAS) or "0", 16) for each in found]
    once = sum(parts) == ALL and sum(each.bit_count() for each in parts) == PARTS
    return once and all(each.status == 200 for each in found)


def merged(found: list[Answer], limit: int | None) -> Answer:
    """One list of several, with the headers of the first: loops oldest first, decisions by their loops."""
    items = [item for each in found for item in msgspec.json.decode(each.body, type=list[msgspec.Raw])]

    def place(item: msgspec.Raw) -> tuple[float, str]:
        listed = msgspec.json.decode(item, type=Listed)
        return listed.created_at, listed.name or listed.loop

    body = msgspec.json.encode(sorted(items, key=place)[:limit])
    headers = {**dict(found[0].headers), b"content-length": b"%d" % len(body)}
    if b"x-total-count" in headers:
        headers[b"x-total-count"] = b"%d" % sum(int(each.header(b"x-total-count")) for each in found)
    headers.pop(HAS)
    return Answer(200, list(headers.items()), body)


def limit_of(scope: Any) -> int | None:
    """How many of a list are wanted; it was checked by whoever answered."""
    given = parse_qs(scope["query_string"].decode("latin-1")).get("limit")
    return None if given is None else int(given[-1])


def bits(parts: set[int]) -> bytes:
    """Parts as bits of a number."""
    return b"%x" % sum(1 << part for part in parts)


# -- messages


def with_header(send: Any, header: Callable[[], tuple[bytes, bytes]]) -> Any:
    """Send an answer with one more header, made when the answer is."""

    async def send_with(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), header()]}
        await send(message)

    return send_with


async def read_all(receive: Any, most: int) -> bytes | None:
    """The body of a request, or a little more than is allowed of it; None if the caller left."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body") or len(body) > most:
            return bytes(body)


def given(body: bytes) -> Any:
    """A body that was read, to be read again."""
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    return receive


async def send_answer(send: Any, answer: Answer) -> None:
    """A whole answer."""
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})


async def refuse(
    scope: Any, send: Any, status: int, code: str, message: str, *headers: tuple[bytes, bytes]
) -> None:
    """A refusal in the one shape."""
    body = error_body(code, message, scope.get("request_id"))
    fixed = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send_answer(send, Answer(status, [*fixed, *headers], body))
