"""The client: typed answers, and repetitions that are safe."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from service_process import TOLERANT, Server, served

import linoto
from linoto.client import Client, ServiceError

LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("client") / "x.sqlite") as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = server.client()
    yield client
    client.close()


def make(client: Client, name: str, **settings: Any) -> None:
    features = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.7, 0.7]}
    client.create(name, arms=features, policy=TOLERANT, default_reward=0.0, offline=LOG, **settings)


def test_a_whole_round_trip(client: Client, tmp_path: Path) -> None:
    make(client, "trip", window=60.0)
    first, second = (
        client.decide("trip", key="k"),
        client.decide("trip", proposal="c", allowed=["a", "b", "c"]),
    )
    assert client.decide("trip", key="k") == first
    assert first.arm in "abc" and first.propensity == 1.0 and first.lcb <= first.ucb
    assert client.reward("trip", first.decision_id, 1.0).status == "applied"
    assert client.reward("trip", first.decision_id, 1.0).status == "duplicate"
    results = client.rewards("trip", [(first.decision_id, 0.0), (second.decision_id, 0.5), ("1-99", 1.0)])
    assert [result.status for result in results] == ["conflict", "applied", "unknown"]
    explained = client.explain("trip", second.decision_id)
    assert explained["proposed"] == "c" and explained["proposed_by"] == "caller" and explained["reasons"]
    report = client.report("trip")
    assert report["loop"]["decisions"] == 2 and report["certificate"]["holds"]
    assert [arm["name"] for arm in client.arms("trip")] == ["a", "b", "c"]
    assert [row["decision_id"] for row in client.decisions("trip")] == [second.decision_id, first.decision_id]
    client.decide("trip")
    table = pq.read_table(client.export("trip", tmp_path / "log.parquet"))
    assert table["reward"].to_pylist() == [1.0, 0.5]
    assert table["action"].to_pylist() == [first.arm, second.arm]
    assert pq.read_table(client.export("trip", tmp_path / "all.parquet", pending=True)).num_rows == 3
    assert client.change("trip", mode="safe-only")["mode"] == "safe-only"
    assert client.decide("trip").mode == "safe"
    assert client.archive("trip")["archived"] is True
    assert "trip" in [loop["name"] for loop in client.loops()]


@pytest.mark.parametrize(
    ("status", "code", "ask"),
    [
        (404, "unknown", lambda c: c.decide("nowhere")),
        (404, "unknown", lambda c: c.reward("errors", "1-1", 1.0)),
        (404, "unknown", lambda c: c.explain("errors", "../../etc/passwd")),
        (422, "invalid", lambda c: c.decide("errors", proposal="zzz")),
        (409, "exists", lambda c: make(c, "errors", window=61.0)),
        (404, "unknown", lambda c: make(c, "a/../b")),
        (400, "bad_request", lambda c: make(c, "a b")),
        (400, "bad_request", lambda c: make(c, "..")),
        (400, "bad_request", lambda c: c.change("errors", mode="fast")),
        (400, "bad_request", lambda c: c.change("errors", holdback=1.0)),
        (422, "invalid", lambda c: c.create("p", arms=["a"], policy={"type": "Path"}, default_reward=0.0)),
        (405, "method_not_allowed", lambda c: c._ask("DELETE", "/v1/loops", None)),
        (404, "unknown", lambda c: c._ask("GET", "/v2/loops", None)),
    ],
)
def test_every_refusal_has_the_same_shape(client: Client, status: int, code: str, ask: Any) -> None:
    make(client, "errors")
    with pytest.raises(ServiceError) as refused:
        ask(client)
    assert (refused.value.status, refused.value.code) == (status, code)


class Flaky(BaseHTTPRequestHandler):
    """Fails in a different way each time, then answers."""

    seen: list[Any] = []  # noqa: RUF012 - shared by all requests on purpose

    def do_POST(self) -> None:
        self.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        if len(self.seen) == 1:
            self.close_connection = True
            return  # not a word: the answer is lost
        status = 503 if len(self.seen) == 2 else 200
        answer = {"error": {"code": "unavailable", "message": "full"}} if status == 503 else DECISION
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


DECISION: dict[str, Any] = {"decision_id": "1-1", "arm": "a", "mode": "safe", "propensity": 1.0, "lcb": 0.0}
DECISION |= {"ucb": 1.0, "budget": None, "reference": None, "model_version": 0, "expires_at": 1.0}
DECISION |= {"loop_mode": "live", "holdback": False}


def test_a_lost_answer_is_asked_for_again_with_the_same_key() -> None:
    Flaky.seen = []
    with HTTPServer(("127.0.0.1", 0), Flaky) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        pauses: list[float] = []
        client = Client(f"http://127.0.0.1:{server.server_port}", sleep=pauses.append)
        assert client.decide("loop").arm == "a"
        client.close()
        server.shutdown()
        thread.join()
    assert len(Flaky.seen) == 3 and len({request["key"] for request in Flaky.seen}) == 1
    assert pauses == [0.05, 0.1]


def test_no_server_is_an_error_after_all_repetitions() -> None:
    pauses: list[float] = []
    with pytest.raises(ConnectionError, match="no answer"):
        Client("http://127.0.0.1:9", retries=3, sleep=pauses.append).loops()
    assert len(pauses) == 3


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="url must be like"):
        Client("ftp://nowhere")
