"""HTTP as anybody could send it: described, limited, protected, and never a 500."""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from helpers.alarm_receiver import LOG
from helpers.http import ask
from helpers.service_process import TOLERANT, Server, opened, served

from linoto.cli import database, serve
from linoto.service.errors import Refused
from linoto.service.storage import tokens
from linoto.service.web.access import Access, create_token

SPEC = {"arms": [{"name": "a"}, {"name": "<b>"}], "policy": {"type": "LinUCB"}, "default_reward": 0}


@pytest.fixture(scope="module")
def server(shared_folder: Path) -> Iterator[Server]:
    with served(shared_folder / "x.sqlite") as server:
        assert ask(server, "PUT", "/v1/loops/loop", SPEC)[0] == 200
        yield server


def state(server: Server) -> Any:
    return ask(server, "GET", "/v1/loops")[1]


def test_the_description_names_every_path_and_the_shape_of_errors(server: Server) -> None:
    status, described = ask(server, "GET", "/v1/openapi.json")
    assert status == 200 and described["openapi"].startswith("3.")
    assert {"/v1/loops", "/v1/loops/{name}", "/v1/loops/{name}/decide", "/v1/loops/{name}/rewards"} <= set(
        described["paths"]
    )
    for operations in described["paths"].values():
        for operation in operations.values():
            assert operation["description"] and "503" in operation["responses"]
            shape = operation["responses"]["422"]["content"]["application/json"]["schema"]["$ref"]
            assert shape.endswith("ErrorBody")


def test_health_readiness_and_metrics(server: Server) -> None:
    assert ask(server, "GET", "/healthz") == (200, "ok")
    assert ask(server, "GET", "/readyz") == (200, "ok")
    ask(server, "POST", "/v1/loops/loop/decide", {})
    status, text = ask(server, "GET", "/metrics")
    assert "# HELP linoto_gain " in text and "against the log, not against practice as it is now" in text
    assert status == 200
    assert 'linoto_decisions_total{group="explore",loop="loop"}' in text
    assert "linoto_commit_failures_total 0.0" in text
    with urlopen(f"http://127.0.0.1:{server.port}/metrics") as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", "each once"


def test_what_a_page_is_made_of_has_one_type_and_one_charset(server: Server) -> None:
    for path, expected in {
        "": "text/html; charset=utf-8",
        "dashboard/style.css": "text/css; charset=utf-8",
        "dashboard/main.js": "text/javascript; charset=utf-8",
        "dashboard/icon.svg": "image/svg+xml",
    }.items():
        with urlopen(f"http://127.0.0.1:{server.port}/{path}") as answer:
            assert answer.headers["content-type"] == expected


def test_one_loop_says_whether_it_would_decide(server: Server) -> None:
    assert ask(server, "GET", "/v1/loops/loop/ready") == (200, {"loop": "loop", "mode": "live"})
    assert ask(server, "GET", "/v1/loops/none/ready")[0] == 404
    assert ask(server, "PUT", "/v1/loops/over", SPEC)[0] == 200
    with closing(server.client()) as client:
        assert client.ready("over")["mode"] == "live"
        client.archive("over")
    status, refusal = ask(server, "GET", "/v1/loops/over/ready")
    assert (status, refusal["error"]["code"]) == (409, "archived")


def test_a_key_is_found_in_every_loop(server: Server) -> None:
    for name in ("first", "second", "third"):
        assert ask(server, "PUT", f"/v1/loops/{name}", SPEC)[0] == 200
        ask(server, "POST", f"/v1/loops/{name}/decide", {})
    made = {
        name: ask(server, "POST", f"/v1/loops/{name}/decide", {"key": "visit 7"})[1]
        for name in ("first", "third")
    }
    with closing(server.client()) as client:
        found = client.find("visit 7")
        assert client.find("visit 8") == []
    assert {row["loop"]: row["decision"]["decision_id"] for row in found} == {
        name: decision["decision_id"] for name, decision in made.items()
    }
    assert ask(server, "GET", "/v1/decisions")[0] == 400


def test_pages_of_other_sites_cannot_use_the_browser_to_get_in(server: Server) -> None:
    before = state(server)
    decide = "/v1/loops/loop/decide"
    assert ask(server, "POST", decide, {}, {"content-type": "text/plain"})[0] == 415
    assert ask(server, "POST", decide, {}, {"origin": "http://evil.example"})[0] == 403
    assert ask(server, "POST", decide, {}, {"host": "evil.example"})[0] == 403
    assert ask(server, "GET", "/v1/loops", None, {"host": "evil.example"})[0] == 403
    assert state(server) == before


@pytest.mark.parametrize("how", ["said", "chunked"])
def test_a_body_too_large_is_refused(server: Server, how: str) -> None:
    """Whether its length is said or not; the server need not read it to the end, so nor do we send it."""
    before = state(server)
    length = "content-length: 1100000" if how == "said" else "transfer-encoding: chunked"
    head = "POST /v1/loops/loop/decide HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    head += f"content-type: application/json\r\n{length}"
    with socket.create_connection(("127.0.0.1", server.port), timeout=240) as raw:
        raw.sendall(head.encode() + b"\r\n\r\n")
        if how == "chunked":
            raw.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        assert b" 413 " in raw.recv(4096).splitlines()[0]
    assert state(server) == before


PATHS = ["/v1/loops/loop/decide", "/v1/loops/loop/rewards", "/v1/loops/other", "/v1/loops/loop"]
VALUES = [None, True, -1, 1e308, 10**400, "", "a", "\x00", "\ud800", [], {}, [[]], {"key": []}, {"type": "x"}]
FIELDS = [
    "key",
    "proposal",
    "allowed",
    "rewards",
    "arms",
    "policy",
    "default_reward",
    "mode",
    "holdback",
    "rows",
]


def random_body(rng: random.Random) -> bytes:
    """Nearly right, plainly wrong, or no JSON at all."""
    if rng.random() < 0.2:
        return rng.randbytes(rng.randrange(200))
    body = json.dumps({name: rng.choice(VALUES) for name in rng.sample(FIELDS, rng.randrange(4))}).encode()
    if rng.random() < 0.2:
        body = body[: rng.randrange(len(body))]
    return body


def test_random_bodies_are_refused_without_a_500_and_change_nothing(server: Server) -> None:
    rng = random.Random(3)
    for _ in range(120):
        before = state(server) if rng.random() < 0.1 else None
        status, answer = ask(
            server, rng.choice(["POST", "PUT", "PATCH"]), rng.choice(PATHS), random_body(rng)
        )
        assert status < 500, answer
        if status >= 400:
            assert set(answer) == {"error"} and set(answer["error"]) == {"code", "message", "request_id"}
            if before is not None:
                assert state(server) == before


def test_raw_bytes_do_not_stop_the_server(server: Server) -> None:
    rng = random.Random(4)
    for size in (1, 10, 1000, 5000):
        with socket.create_connection(("127.0.0.1", server.port), timeout=240) as raw:
            raw.sendall(rng.randbytes(size) + b"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.port), timeout=240) as half:
        half.sendall(b"POST /v1/loops/loop/decide HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 50\r\n\r\n{")
    assert ask(server, "GET", "/healthz") == (200, "ok")


def command(*words: str) -> None:
    """What `linoto WORDS` will run, with its errors."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for add in (serve.add_serve, database.add_db):
        add(commands)
    arguments = parser.parse_args(words)
    arguments.run(arguments)


def test_tokens_allow_exactly_what_their_role_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, tokens = tmp_path / "x.sqlite", {}
    for role in ("reader", "writer", "admin"):
        command("db", "token", "create", f"{role} one", "--role", role, "--db", str(path))
        tokens[role] = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    for secret in tokens.values():
        assert secret["authorization"].split("_", 1)[1].encode() not in path.read_bytes()
    with served(path) as server:

        def allowed(method: str, url: str, body: Any = None) -> list[int]:
            return [ask(server, method, url, body, tokens[role])[0] for role in ("reader", "writer", "admin")]

        assert ask(server, "GET", "/v1/loops")[0] == 401
        assert ask(server, "GET", "/v1/loops", None, {"authorization": "Bearer linoto_wrong"})[0] == 401
        assert allowed("PUT", "/v1/loops/loop", SPEC) == [403, 403, 200]
        assert allowed("POST", "/v1/loops/loop/decide", {}) == [403, 200, 200]
        assert allowed("PATCH", "/v1/loops/loop", {"mode": "safe-only"}) == [403, 200, 200]
        assert allowed("PATCH", "/v1/loops/loop", {"mode": "live"}) == [403, 403, 200]
        assert allowed("POST", "/v1/loops/loop/arms", {"arms": [{"name": "new"}]}) == [403, 403, 200]
        assert allowed("DELETE", "/v1/loops/loop/arms?arm=new") == [403, 403, 200]
        assert allowed("GET", "/v1/loops/loop/report") == [200, 200, 200]
        assert allowed("DELETE", "/v1/loops/loop") == [403, 403, 200]
        command("db", "token", "revoke", "reader one", "--db", str(path))
        wait_for(lambda: ask(server, "GET", "/v1/loops", None, tokens["reader"])[0] == 401)
        assert ask(server, "GET", "/v1/loops", None, tokens["writer"])[0] == 200
    capsys.readouterr()
    command("db", "token", "list", "--db", str(path))
    assert capsys.readouterr().out == "writer  writer one\nadmin   admin one\n"


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < end, "it did not happen within four minutes"
        time.sleep(0.1)


def test_a_stop_is_clean_is_logged_and_leaves_a_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        ask(server, "PUT", "/v1/loops/loop", SPEC)
        ask(server, "POST", "/v1/loops/loop/decide", {})
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(timeout=240) == 0
    with served(path):
        pass  # it is there now, and not said to be new
    lines = [json.loads(line)["message"] for line in path.with_suffix(".log").read_text().splitlines()]
    assert lines[:5] == ["new database", "recovered", "serving", "loop created", "stopped"]
    assert lines[5:7] == ["recovered", "serving"]
    command("db", "check", "--db", str(path))
    assert "loop: 1 events, snapshot, replay and tables agree" in capsys.readouterr().out


def test_a_stop_under_load_is_clean_too(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    with served(path) as server:
        ask(server, "PUT", "/v1/loops/loop", SPEC)
        stop, answered = threading.Event(), []

        def keep_asking() -> None:
            while not stop.is_set():
                try:
                    answered.append(ask(server, "POST", "/v1/loops/loop/decide", {})[0])
                except (OSError, http.client.HTTPException):
                    return

        threads = [threading.Thread(target=keep_asking) for _ in range(8)]
        for thread in threads:
            thread.start()
        wait_for(lambda: len(answered) > 50)
        server.process.terminate()
        assert server.process.wait(timeout=240) == 0
        stop.set()
        for thread in threads:
            thread.join()
    assert set(answered) <= {200, 503}
    command("db", "check", "--db", str(path))


def test_a_server_reachable_from_other_machines_needs_a_token() -> None:
    local, wide = Access(), Access(local=False)
    assert local.identify({b"host": b"127.0.0.1:8080"}).role == "admin"
    with pytest.raises(Refused, match="token is needed"):
        wide.identify({b"host": b"127.0.0.1:8080"})


def test_a_port_is_not_shared_with_another_server(server: Server, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot serve"):
        command("serve", "--db", str(tmp_path / "y.sqlite"), "--port", str(server.port))


def test_after_the_last_token_is_revoked_every_request_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "x.sqlite") as service:
        here = {b"host": b"127.0.0.1:8080"}
        assert service.access.identify(here).role == "admin"
        token = service.store.write_sync(lambda c: create_token(c, "shop", "reader", 0.0))
        service.store.write_sync(service.access.refresh)
        with_token = {**here, b"authorization": b"Bearer " + token.encode()}
        assert service.access.identify(with_token).role == "reader"
        assert service.store.write_sync(lambda c: tokens.revoke_token(c, "shop", 1.0))
        assert not service.store.write_sync(lambda c: tokens.revoke_token(c, "shop", 2.0))
        service.store.write_sync(service.access.refresh)
        for headers in (here, with_token):
            with pytest.raises(Refused, match="token is needed"):
                service.access.identify(headers)
        with pytest.raises(ValueError, match="role must be"):
            service.store.write_sync(lambda c: create_token(c, "shop", "owner", 3.0))
        again = service.store.write_sync(lambda c: create_token(c, "shop", "writer", 3.0))
        with pytest.raises(ValueError, match="name must be new"):
            service.store.write_sync(lambda c: create_token(c, "shop", "writer", 4.0))
        service.store.write_sync(service.access.refresh)
        assert service.access.identify({b"authorization": b"Bearer " + again.encode()}).role == "writer"


@pytest.mark.parametrize(
    "host",
    [b"evil.com", b"127.0.0.1.evil.com", b"127.0.0.1:80:evil.com", b"[::1]evil.com", b"", b"localhost:"],
)
def test_only_loopback_names_count_as_this_machine(host: bytes) -> None:
    with pytest.raises(Refused, match="only this machine"):
        Access().identify({b"host": host})


def test_a_name_cannot_end_in_a_line_break(server: Server) -> None:
    assert ask(server, "PUT", "/v1/loops/abc%0A", SPEC)[0] in (400, 422)
    assert ask(server, "GET", "/v1/loops/abc%0A/export")[0] in (400, 404)


def test_only_another_mode_or_saying_so_answers_alarms_and_only_an_admin_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer who stops a loop, once or again, takes no alarm from those who are to look at it."""
    path, tokens = tmp_path / "x.sqlite", {}
    for role in ("writer", "admin"):
        command("db", "token", "create", role, "--role", role, "--db", str(path))
        tokens[role] = {"authorization": f"Bearer {capsys.readouterr().out.strip()}"}
    with served(path) as server:

        def change(role: str, **body: Any) -> int:
            return ask(server, "PATCH", "/v1/loops/loop", body, tokens[role])[0]

        def open_alarms() -> int:
            _, loop = ask(server, "GET", "/v1/loops/loop", None, tokens["writer"])
            return sum(not alarm["answered"] for alarm in loop["alarms"])

        def ring() -> None:
            for _ in range(100):
                made = admin.decide_many("loop", [{}] * 50)
                admin.rewards("loop", [(one.decision_id, 0.0) for one in made])
                if open_alarms():
                    return
            pytest.fail("no alarm")

        with closing(server.client(token=tokens["admin"]["authorization"].removeprefix("Bearer "))) as admin:
            fixed: dict[str, Any] = {"default_reward": 0.0, "on_alarm": "warn", "arms": ["a", "b", "c"]}
            admin.create("loop", policy=TOLERANT, offline=LOG, **fixed)
            ring()
            assert change("writer", mode="safe-only") == 200 and open_alarms(), "stopped, and not answered"
            assert change("writer", mode="safe-only") == 200 and open_alarms()
            assert change("admin", mode="safe-only") == 200 and open_alarms(), "it has that mode"
            assert change("admin", holdback=0.1) == 200 and open_alarms()
            assert change("writer", mode="safe-only", answer_alarms=True) == 403 and open_alarms()
            assert change("admin", answer_alarms=True) == 200 and not open_alarms()
            assert ask(server, "GET", "/v1/loops/loop", None, tokens["writer"])[1]["mode"] == "safe-only"
            assert change("admin", mode="live") == 200
            ring()
            assert change("admin", mode="shadow") == 200 and not open_alarms(), "another mode"
