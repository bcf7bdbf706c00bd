"""Answers of other servers: whole or none, from those who are trusted now."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_service import KEY_AND_CERTIFICATE, answer

from linoto.service.web.peers import Answer, NoAnswerError, NotSentError, Peers, UntrustedError

SCOPE = {"method": "GET", "raw_path": b"/v1/loops", "query_string": b"", "headers": [], "request_id": "1"}
EARLIER = """
-----BEGIN CERTIFICATE-----
MIIBjTCCATKgAwIBAgIUWbGCRWMr7E6R7omG8T0UgyIX7m4wCgYIKoZIzj0EAwIw
EjEQMA4GA1UEAwwHZWFybGllcjAgFw0yNjExMTcxMTU2MzBaGA8yMTI1MDYxMTEx
NTYzMFowEjEQMA4GA1UEAwwHZWFybGllcjBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABGPHoJ0/6wsPFPXaxJPOv50ox0ICKXXg32TNg0rTCnGdvqPmk2eih9wPZncJ
5dHsdJkWO6ZIw5axAz0UvYa8dqajZDBiMB0GA1UdDgQWBBT+kIVrg7f2lZhImfS6
Pzrb2uVenDAfBgNVHSMEGDAWgBT+kIVrg7f2lZhImfS6Pzrb2uVenDAPBgNVHRMB
Af8EBTADAQH/MA8GA1UdEQQIMAaHBH8AAAEwCgYIKoZIzj0EAwIDSQAwRgIhAL2A
/j8n7D2H/1SkiLIhBuVMwlY2bvqmuDizAxuUE8J7AiEAwZcfFOWB2YWxsiToAK/w
fgxir1P9wJxJGT0GFnXLq+I=
-----END CERTIFICATE-----
"""  # of another server, whose key nobody has


TLS = Path(__file__).parents[1] / "data" / "tls"  # servers a and b, of an authority that nobody knows


@asynccontextmanager
async def saying(raw: bytes, tls: ssl.SSLContext | None = None) -> Any:
    """The port of a server that says this and hangs up."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    async with await asyncio.start_server(say, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]


def with_peers(peers: Peers, ask: Callable[[], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        try:
            return await ask()
        finally:
            await peers.keep(())

    return asyncio.run(run())


def ask_http(raw: bytes) -> Answer:
    peers = Peers()

    async def ask() -> Answer:
        async with saying(raw) as port:
            return await peers.ask(f"http://127.0.0.1:{port}", SCOPE, "")

    return with_peers(peers, ask)


def test_an_answer_that_breaks_off_is_none() -> None:
    whole = answer(200, b"[" + b" " * 1000 + b"]")
    assert ask_http(whole).body == b"[" + b" " * 1000 + b"]"
    for left in (1, 500, 1001):
        with pytest.raises(NoAnswerError):
            ask_http(whole[:-left])


def test_a_new_certificate_is_trusted_when_it_was_read_again_and_the_old_one_stays(tmp_path: Path) -> None:
    """No connection is closed for it, and others may have the new one later than this server."""
    file, pair = tmp_path / "cert.pem", tmp_path / "pair.pem"
    file.write_text(EARLIER)
    pair.write_text(KEY_AND_CERTIFICATE)
    peers, tls = Peers(file), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(pair)

    async def ask() -> Answer:
        async with saying(answer(200, []), tls) as port:
            url = f"https://127.0.0.1:{port}"
            with pytest.raises(NotSentError):
                await peers.ask(url, SCOPE, "")
            file.write_text(KEY_AND_CERTIFICATE)
            peers.reload()
            await peers.ask(url, SCOPE, "")
            file.write_text("nothing of use")
            peers.reload()
            return await peers.ask(url, SCOPE, "")

    assert with_peers(peers, ask).body == b"[]"


@pytest.mark.parametrize(
    ("own", "trusted"),
    [
        (("b",), True),  # both servers have the same certificate, whoever made it
        (("a", "ca"), True),  # each has its own, and the chain says who made it
        (("a",), False),
    ],
)
def test_servers_trust_the_certificate_that_they_share_and_whom_their_chain_ends_with(
    tmp_path: Path, own: tuple[str, ...], trusted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    chain, tls = tmp_path / "chain.pem", ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    chain.write_text("".join((TLS / f"{name}.pem").read_text() for name in own))
    tls.load_cert_chain(TLS / "b.pem", TLS / "b.key")
    peers = Peers(chain)

    async def ask() -> Answer:
        async with saying(answer(200, []), tls) as port:
            return await peers.ask(f"https://127.0.0.1:{port}", SCOPE, "")

    if trusted:
        assert with_peers(peers, ask).body == b"[]"
        return
    for _ in range(2):
        with pytest.raises(UntrustedError, match=r"https://127.0.0.1:\d+ is not trusted here: .*certificate"):
            with_peers(peers, ask)
    assert [record.message for record in caplog.records] == ["a server is not trusted"] * 2  # two ports
