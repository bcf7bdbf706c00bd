"""Rate limits, and the access log: caller, path, status, time, and no secrets."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers.command import ForkedProcess
from helpers.http import ask
from helpers.loops import digests
from helpers.service_process import FakeClock, create, opened, served

from linoto.cli import main
from linoto.service.errors import Refused
from linoto.service.loops import views
from linoto.service.server import Service
from linoto.service.web import metrics
from linoto.service.web.access import Access, Caller, create_token
from linoto.service.web.access_log import BUCKETS, AccessLog, Latency, with_access_log
from linoto.service.web.live_views import LiveViews


def admitted(access: Access, caller: Caller) -> bool:
    try:
        access.admit(caller)
    except Refused as refusal:
        assert (refusal.status, refusal.code) == (429, "too_many")
        assert refusal.retry_after is not None and refusal.retry_after >= 1
        return False
    return True


@pytest.mark.parametrize("rate", [0.3, 1.0, 2.5, 50.0, 1000.0])
def test_a_caller_may_use_one_second_of_requests_at_once_and_then_the_rate(rate: float) -> None:
    """Beside a bucket that is filled and emptied as one would do it by hand."""
    rng, clock = random.Random(1), FakeClock(5e5)
    access, size = Access(clock=clock), max(1.0, rate)
    held, total = size, 0
    began = clock.now
    for _ in range(4000):
        step = rng.choice([0.0, 0.2, 0.9, 3.0]) / rate
        clock.now += step
        held = min(size, held + step * rate)
        if abs(held - 1.0) < 1e-3 and step:  # too close to call
            clock.now += 0.01 / rate
            held = min(size, held + 0.01)
        got = admitted(access, Caller("shop", "writer", rate))
        assert got == (held >= 1.0 - 1e-4)
        held -= got
        total += got
        assert total <= size + rate * (clock.now - began) + 1e-3
    assert total > 1000


def test_waiting_as_long_as_retry_after_says_is_enough_and_others_never_wait() -> None:
    clock = FakeClock()
    access = Access(clock=clock)
    slow, fast, free = (Caller(name, "writer", rate) for name, rate in (("s", 0.1), ("f", 9.0), ("u", None)))
    for _ in range(20):
        assert admitted(access, slow)
        with pytest.raises(Refused) as refused:
            access.admit(slow)
        assert refused.value.retry_after == 10
        assert refused.value.message == "requests must be at most 0.1 per second, got more: ask again in 10 s"
        assert admitted(access, fast) and admitted(access, free)
        clock.now += 10


def test_a_token_has_the_servers_rate_unless_it_has_its_own(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        own, plain = service.store.write_sync(
            lambda c: (create_token(c, "own", "writer", 0.0, 7.0), create_token(c, "plain", "reader", 1.0))
        )
        for rate in (None, 3.0):
            access = Access(rate=rate)
            assert access.identify({b"host": b"localhost"}) == Caller("local", "admin", rate)
            service.store.write_sync(access.refresh)
            rates = [
                access.identify({b"authorization": f"Bearer {token}".encode()}).rate for token in (own, plain)
            ]
            assert rates == [7.0, rate]
        for wrong in (0.0, -1.0, float("nan"), 1e-9, float("inf")):
            with pytest.raises(ValueError, match=r"rate must be 0\.001 to 1000000"):
                service.store.write_sync(lambda c, rate=wrong: create_token(c, "wrong", "reader", 0.0, rate))
            with pytest.raises(ValueError, match="rate must be"):
                Access(rate=wrong)


def test_too_many_requests_are_answered_429_and_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, tokens = tmp_path / "x.sqlite", {}
    for name, options in (("shop", ["--rate", "0.001"]), ("boss", ["--role", "admin"])):
        assert main(["db", "token", "create", name, *options, "--db", str(path)]) == 0
        tokens[name] = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    assert main(["db", "token", "list", "--db", str(path)]) == 0
    assert capsys.readouterr().out == "writer  shop  (at most 0.001 per second)\nadmin   boss\n"
    assert main(["db", "token", "create", "x", "--rate", "1e9", "--db", str(path)]) == 1
    assert "rate must be 0.001 to 1000000" in capsys.readouterr().err
    spec = {"arms": [{"name": "a"}], "policy": {"type": "LinUCB"}, "default_reward": 0}
    with served(path) as server:
        assert ask(server, "PUT", "/v1/loops/loop", spec, tokens["boss"])[0] == 200
        assert ask(server, "POST", "/v1/loops/loop/decide", {}, tokens["shop"])[0] == 200
        for _ in range(3):
            status, said = ask(server, "POST", "/v1/loops/loop/decide", {}, tokens["shop"])
            assert (status, said["error"]["code"]) == (429, "too_many")
        assert 1 <= retry_after(server.port, tokens["shop"]) <= 1000
        assert ask(server, "GET", "/v1/loops/loop", None, tokens["boss"])[1]["decisions"] == 1
        assert ask(server, "GET", "/healthz", None, tokens["shop"])[0] == 200
        described = ask(server, "GET", "/v1/openapi.json")[1]
        assert "429" in described["paths"]["/v1/loops/{name}/decide"]["post"]["responses"]


def retry_after(port: int, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    connection.request("GET", "/v1/loops", None, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return int(response.headers["retry-after"])


@contextmanager
def captured() -> Iterator[list[logging.LogRecord]]:
    """What the access log says meanwhile."""
    records: list[logging.LogRecord] = []
    handler, logger = logging.Handler(), logging.getLogger("linoto.access")
    handler.emit = records.append  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


async def request(app: Any, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    """A request as a server would hand it over; the status."""
    given, statuses = [{"type": "http.request", "body": body, "more_body": False}], []

    async def receive() -> Any:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http"}
    scope |= {"method": method, "path": path, "raw_path": path.encode(), "root_path": "", "state": {}}
    scope |= {"query_string": b"secret=query", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}
    scope["headers"] = [(key.encode(), value.encode()) for key, value in headers.items()]
    await app(scope, receive, send)
    return int(statuses[0])


def test_every_request_is_logged_with_its_caller_and_without_secrets(tmp_path: Path) -> None:
    json_body = {"content-type": "application/json", "host": "localhost"}
    with opened(tmp_path / "x.sqlite") as service, captured() as records:
        create(service)
        token = service.store.write_sync(lambda c: create_token(c, "shop", "writer", 0.0, 1.0))
        service.store.write_sync(service.access.refresh)
        app = with_access_log(service.app)
        known = {**json_body, "authorization": f"Bearer {token}"}
        body = b'{"key": "secret key"}'
        statuses = asyncio.run(three_requests(app, known, json_body, body))
        assert statuses == [200, 401, 429]
        lines = [
            {key: getattr(record, key) for key in ("method", "path", "status", "caller")}
            for record in records
        ]
        url = "/v1/loops/loop/decide"
        assert lines == [
            {"method": "POST", "path": url, "status": 200, "caller": "shop"},
            {"method": "POST", "path": url, "status": 401, "caller": None},
            {"method": "POST", "path": url, "status": 429, "caller": "shop"},
        ]
        assert all(0 < record.ms < 60_000 for record in records)  # type: ignore[attr-defined]
        everything = " ".join(str(vars(record)) for record in records)
        assert "secret" not in everything and token not in everything
        text = page(service)
        assert 'linoto_request_seconds_bucket{le="+Inf",status="2xx"} 1.0' in text
        assert 'linoto_request_seconds_count{status="4xx"} 2.0' in text


async def three_requests(app: AccessLog, known: Any, unknown: Any, body: bytes) -> list[int]:
    url = "/v1/loops/loop/decide"
    return [await request(app, "POST", url, body, headers) for headers in (known, unknown, known)]


def page(service: Service) -> str:
    shown = asyncio.run(LiveViews(service.loops, service.store).of(service.loops.by_name))
    return metrics.MetricsPage(service.store).render(shown, service.app.state.get("latency"), {}).decode()


def test_metrics_say_what_may_still_be_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        create(service)
        left = views.loop_view(service.loops.get("loop")).left_to_lose
        assert f'linoto_left_to_lose{{loop="loop"}} {left}' in page(service)
        assert 'linoto_gain{loop="loop"} 0.0' in page(service)


def test_a_request_that_fails_is_logged_and_still_fails() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise KeyError("a fault")

    ticks = iter((1.0, 3.5))
    with captured() as records, pytest.raises(KeyError):
        asyncio.run(request(AccessLog(broken, clock=lambda: next(ticks)), "GET", "/x", b"", {}))
    assert [(record.status, record.ms) for record in records] == [(0, 2500.0)]  # type: ignore[attr-defined]


def test_times_are_counted_in_the_buckets_of_prometheus() -> None:
    """A bucket counts all that took no longer than its bound."""
    latency, rng = Latency(), random.Random(2)
    times = [rng.choice([*BUCKETS, rng.expovariate(3.0), 60.0]) for _ in range(500)]
    for seconds in times:
        latency.observe(204, seconds)
    samples = {
        sample.labels["le"]: sample.value
        for sample in metrics.request_seconds(latency).samples
        if sample.name.endswith("_bucket")
    }
    assert samples.pop("+Inf") == 500
    assert {float(bound): n for bound, n in samples.items()} == {
        bound: sum(seconds <= bound for seconds in times) for bound in BUCKETS
    }
    assert latency.seconds == {"2xx": pytest.approx(sum(times))}


def test_without_an_access_log_nothing_is_wrapped_and_no_times_are_shown(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service, captured() as records:
        create(service)
        headers = {"content-type": "application/json", "host": "localhost"}
        assert asyncio.run(request(service.app, "POST", "/v1/loops/loop/decide", b"{}", headers)) == 200
        assert records == [] and "request_seconds" not in page(service)
        assert len(set(digests(service))) == 1


def test_the_command_line_switches_both_on(tmp_path: Path) -> None:
    words = ["--db", str(tmp_path / "x.sqlite"), "--port", "0", "--rate", "0.001", "--access-log"]
    with ForkedProcess(tmp_path, *words) as server:
        assert [status_of(server.port) for _ in range(3)] == [200, 429, 429]
        server.process.terminate()
        server.process.wait()
    requests = [json.loads(line) for line in server.log.read_text().splitlines() if '"request"' in line]
    assert [line["status"] for line in requests] == [200, 429, 429]
    assert all(line["caller"] == "local" and line["path"] == "/v1/loops" for line in requests)


def status_of(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=240)
    try:
        connection.request("GET", "/v1/loops")
        return connection.getresponse().status
    finally:
        connection.close()
