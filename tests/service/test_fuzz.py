"""Requests made from the OpenAPI description, and damaged ones: never a 500, and refusals change nothing."""

from __future__ import annotations

import json
import random
import re
import select
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
import schemathesis
from helpers.loops_with_contexts import RECIPE, log_of
from helpers.problems import LAWS
from helpers.service_process import TOLERANT, Server, served
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.specs.openapi import checks as conformance

import linoto
from linoto.client import Client, ServiceError
from linoto.service.maintenance import check

MOST_LIMITS = 12  # of every operation: policies alone have two thousand, which are checked by their schemas
EXAMPLES = 1  # of every operation, valid and invalid each, besides the values at every limit
SPOILT = 12  # of every way to spoil a request: two of each good one
READS = ("GET", "HEAD", "OPTIONS", "TRACE", "QUERY")
TABLES = ("loops", "events", "decisions", "rewards", "late_rewards", "metrics", "tokens")
CONFORMS = [
    not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_headers_conformance,
    conformance.response_schema_conformance,
    conformance.positive_data_acceptance,
]
ACCEPTS = Path(__file__).parents[2] / "schemathesis.toml"
DRAWN_ANEW = b'{"kind":"drawn"}'
LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])
LONG = 9e5  # seconds: nothing may fall due while we look


@dataclass
class Target:
    """A server, and how to see that nothing has changed in it."""

    server: Server
    session: requests.Session
    looking: Client
    database: sqlite3.Connection
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    state: Any = None
    rows: tuple[int, dict[str, list[Any]]] = (-1, {})  # of which version of the database

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def look(self) -> Any:
        """Every live number, and every row."""
        version = self.database.execute("PRAGMA data_version").fetchone()[0]
        if version != self.rows[0]:  # somebody has written since
            tables = {name: self.database.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}
            self.rows = version, tables
        return self.looking.loops(), self.rows[1]

    def compare(self, *, unchanged: bool, drawn_anew: bool = False) -> None:
        """After a refusal, and after reads, everything is as it was before.

        But where a refusal may tell what was drawn, one event may say that this is drawn anew.
        """
        now = self.look()
        expected = with_draw(self.state, now) if drawn_anew else self.state
        assert not unchanged or now == expected, "a read or a refusal has left a trace"
        self.state = now


def with_draw(state: Any, now: Any) -> Any:
    """A state with the first new event there is, if that says that rounds are drawn anew."""
    live, rows = state
    known = set(rows["events"])
    new = [row for row in now[1]["events"] if row not in known][:1]
    drawn = [row for row in new if row[3] == DRAWN_ANEW]
    return live, {**rows, "events": sorted([*rows["events"], *drawn])}


@contextmanager
def target(path: Path) -> Iterator[Target]:
    with served(path) as server, requests.Session() as session, server.client() as looking:
        session.trust_env = False  # no proxy on the way
        session.headers["connection"] = "close"  # it may be closed any time after a body nobody read
        prepare(server)
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            aimed_at = Target(server, session, looking, database)
            aimed_at.state = aimed_at.look()
            yield aimed_at
        assert server.stop() == 0
    assert all(line.endswith(("file ok", "snapshot, replay and tables agree")) for line in check(path))


def prepare(server: Server) -> None:
    """Four loops at work, one of them with a guardrail, one to be archived, and one that is rewarded late."""
    client = server.client()
    settings = {"policy": TOLERANT, "default_reward": 0.0, "window": LONG}
    client.create("first", arms=ARMS, offline=LOG, **settings)
    client.create(
        "second", arms={"a": [1, 0], "b": [0, 1], "c": [1, 1]}, **{**settings, "policy": linoto.LinUCB()}
    )
    client.create("spare", arms=ARMS, offline=LOG, **settings)
    client.create("late", arms=ARMS, offline=LOG, **{**settings, "window": 0.001})
    settings["policy"] = linoto.LinUCB()
    client.create("shop", recipe=RECIPE, moments=log_of(), practice="C", **settings)
    client.decide("shop", key="shop key", context={"age": 25, "country": "DE"})
    client.decide("shop", context={"age": 25.5, "country": None})
    client.create("guarded", arms=ARMS, offline=LOG, **{**settings, "policy": GUARDED})
    for name in ("first", "first", "first", "first", "second", "second", "spare", "late", "guarded"):
        client.decide(name, key=f"{name} key")
        client.decide(name)
    client.archive("late")
    client.reward("first", "1-1", 1.0)
    reward_late(client, "4-1")
    reward_late(client, "4-2")
    client.close()


def reward_late(client: Client, decision_id: str) -> None:
    """Its window is a thousandth of a second; the first late value is kept, later ones leave no trace."""
    try:
        client.reward("late", decision_id, 1.0)
    except ServiceError as error:
        assert error.status == 410


# -- what is there to be found

ARMS = ["a", "b", "c"]
NAMES = {
    "first": ("1-1", "1-2", "1-3", "1-4"),
    "second": ("2-1", "2-2"),
    "late": ("4-1",),
    "shop": ("5-1", "5-2"),
    "guarded": ("6-1", "6-2"),
}
OTHERS = {
    "DELETE {name}": ["spare"],
    "DELETE arms": ["second"],
    "PUT reward of a key": ["first"],
    "PUT {name}": ["first", "new", "newer", "newest", "another"],
}
GUARDED = linoto.Gated(
    gate=linoto.Control(budget=20),
    confidence=TOLERANT.confidence,
    guardrails=(linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=20),),
)
POLICIES = [linoto.to_dict(policy) for policy in (TOLERANT, linoto.LinUCB(), linoto.LinOtO(), GUARDED)]
VALID: dict[str, dict[str, Callable[[random.Random], Any]]] = {
    "POST decide": {
        "key": lambda rng: rng.choice([None, f"{rng.random()}", "first key"]),
        "proposal": lambda rng: rng.choice([None, None, *ARMS]),
        "allowed": lambda rng: rng.choice([None, ARMS]),
    },
    "POST rewards": {"rewards": lambda rng: [a_report(rng) for _ in range(rng.randrange(1, 4))]},
    "PUT reward": {
        "reward": lambda rng: rng.choice([0, 0.5, 1.0]),
        "metrics": lambda rng: rng.choice([None, None, {"complaints": 0}]),
    },
    "PUT reward of a key": {"key": lambda rng: "first key", "reward": lambda rng: 1},  # as it was closed
    "PUT {name}": {
        "arms": lambda rng: [{"name": name} for name in ARMS],
        "policy": lambda rng: rng.choice(POLICIES),
        "default_reward": lambda rng: 0,
        "offline": lambda rng: {"pulls": [5, 5, 0], "reward_sums": [2, 3, 0]},
        "rows": lambda rng: None,
        "window": lambda rng: LONG,
    },
    "PATCH {name}": {
        "mode": lambda rng: rng.choice(["live", "shadow", "safe-only", None]),
        "holdback": lambda rng: rng.choice([0, 0.5, None]),
    },
}


def a_file() -> bytes:
    """Three arms of two features, as they are sent."""
    made = BytesIO()
    np.save(made, np.eye(3, 2, dtype=np.float32))
    return made.getvalue()


def a_report(rng: random.Random) -> dict[str, Any]:
    return {"decision_id": rng.choice(NAMES["first"]), "reward": rng.choice([0, 0.5, 1, 2])}


def aim(case: Any, seed: int) -> Any:
    """Most requests at things that exist, bodies half or wholly sensible: else all would end at the door."""
    rng, where = random.Random(seed), dict(case.path_parameters)
    operation = f"{case.method} {case.path.rpartition('/')[2]}"
    if case.path.endswith("{name}/reward"):
        operation = "PUT reward of a key"
    if "name" in where and rng.random() < 0.8:
        where["name"] = rng.choice(OTHERS.get(operation, list(NAMES)))
    if "decision_id" in where and rng.random() < 0.8:
        where["decision_id"] = rng.choice(NAMES.get(where["name"], ("1-1",)))
    case.path_parameters = where
    if operation == "DELETE arms" and rng.random() < 0.5:
        case.query = {"arm": ["c"]}  # which is gone from then on, and may be removed again
    if operation == "POST features" and case.body is not NOT_SET and seed % 2 == 0:
        case.body = a_file()
    fields = VALID.get(operation)
    if fields is not None and isinstance(case.body, dict):
        case.body = mend(case.body, fields, rng)
    return case


def mend(body: dict[str, Any], fields: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The body as it is, or with some fields made sensible, or all."""
    share = rng.choice([0.0, 0.5, 1.0])
    mended = {name: value for name, value in body.items() if share < 1.0 or name in fields}
    for name, valid in fields.items():
        if rng.random() < share or name == "window":  # a short window would close decisions while we look
            mended[name] = valid(rng)
    return mended


# -- from the description


def send(aimed_at: Target, label: str, case: Any) -> None:
    """One request, and everything that must be true of its answer."""
    response = case.call(base_url=aimed_at.url, session=aimed_at.session, timeout=240)
    aimed_at.seen[label, response.status_code] += 1
    with_body = [] if case.method in READS else [conformance.negative_data_rejection]
    case.validate_response(response, checks=CONFORMS + with_body)
    refused = response.status_code >= 400
    code = check_error(response.content) if refused else ""
    if case.method not in READS:
        many = case.method == "POST" and case.path.endswith("/decisions")
        aimed_at.compare(unchanged=refused, drawn_anew=many or code == "no_safe_arm")


def check_error(body: bytes) -> str:
    """The one shape of every error, and its code."""
    said = json.loads(body)
    assert set(said) == {"error"} and set(said["error"]) - {"request_id"} == {"code", "message"}
    assert re.fullmatch("[a-z_]+", said["error"]["code"]) and said["error"]["message"]
    return str(said["error"]["code"])


def try_many(aimed_at: Target, operation: Any, mode: schemathesis.GenerationMode, examples: int) -> None:
    """Requests that fit the description, or that break it somewhere."""

    @settings(LAWS, max_examples=examples, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode), seed=st.integers(0, 2**32))
    def law(case: Any, seed: int) -> None:
        send(aimed_at, operation.label, aim(case, seed))

    law()


def try_limits(aimed_at: Target, schema: Any, operation: Any, most: int) -> None:
    """Values at and just beyond every limit, fields and headers left out, other methods."""
    modes = list(schemathesis.GenerationMode)
    cases = schema.iter_coverage_cases(
        operation, generation_modes=modes, generation_config=schema.config.generation
    )
    for seed, case in enumerate(islice(cases, most)):
        send(aimed_at, operation.label, aim(case, seed))


@pytest.mark.parametrize(
    ("examples", "most"),
    [(EXAMPLES, MOST_LIMITS), pytest.param(24 * EXAMPLES, 20 * MOST_LIMITS, marks=pytest.mark.slow)],
)
@pytest.mark.few(0)
def test_requests_made_from_the_description_never_cause_a_500_and_refusals_change_nothing(
    tmp_path: Path, examples: int, most: int
) -> None:
    with target(tmp_path / "x.sqlite") as aimed_at:
        described = aimed_at.session.get(f"{aimed_at.url}/v1/openapi.json", timeout=240).json()
        schema = schemathesis.openapi.from_dict(described, config=schemathesis.Config.from_path(ACCEPTS))
        operations = [found.ok() for found in schema.get_all_operations()]
        for operation in operations:
            try_many(aimed_at, operation, schemathesis.GenerationMode.POSITIVE, examples)
            if list(operation.iter_parameters()):  # else there is nothing to get wrong
                try_many(aimed_at, operation, schemathesis.GenerationMode.NEGATIVE, examples)
            try_limits(aimed_at, schema, operation, most)
            aimed_at.compare(unchanged=True)  # so reads have changed nothing either
        check_reach(aimed_at.seen, operations)


@pytest.mark.slow
def test_schemathesis_finds_nothing_with_its_default_checks(tmp_path: Path) -> None:
    """As somebody runs it: from the command line, at a service with a few loops."""
    with target(tmp_path / "x.sqlite") as aimed_at:
        words = ["run", f"{aimed_at.url}/v1/openapi.json", "--max-examples", "5", "--seed", "1", "--no-color"]
        tool = Path(sys.executable).with_name("schemathesis")
        done = subprocess.run(
            [tool, "--config-file", ACCEPTS, *words], cwd=tmp_path, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stdout[-5000:]


def check_reach(seen: Counter[tuple[str, int]], operations: list[Any]) -> None:
    """Every operation was also done, not only refused, and every kind of refusal was met."""
    done = {label for label, status in seen if status == 200}
    refused = {label for label, status in seen if 400 <= status < 500}
    labels = {operation.label for operation in operations}
    assert len(labels) >= 14 and done == refused == labels
    assert {status for _, status in seen} >= {200, 400, 404, 405, 409, 410, 422}
    assert sum(count for (_, status), count in seen.items() if status == 200) > 0.2 * seen.total()


# -- good requests, spoilt

CREATE = {
    "arms": [{"name": "a", "features": [1, 0]}, {"name": "b", "features": [0, 1]}],
    "policy": {"type": "LinUCB"},
    "default_reward": 0.125,
    "window": LONG,
}
GOOD: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/loops/first/decide", {"key": "some key", "proposal": "a", "allowed": ["a", "b"]}),
    ("PUT", "/v1/loops/first/decisions/1-2/reward", {"reward": 0.5}),
    ("POST", "/v1/loops/first/rewards", {"rewards": [{"decision_id": "1-3", "reward": 0.25}]}),
    ("PUT", "/v1/loops/guarded/decisions/6-2/reward", {"reward": 0.5, "metrics": {"complaints": 1}}),
    ("PATCH", "/v1/loops/second", {"mode": "shadow", "holdback": 0.0}),
    ("PUT", "/v1/loops/third", CREATE),
]
Spoilt = tuple[bytes, bool]  # a request, and whether the server can tell that it is complete
VALUE = rb'(?<=: )(?:"[^"]*"|[\d.]+)|(?<=\[)\d'
LENGTHS = [-1, 0, 20, 10**20, "x", "", "+5", "0x10", "5, 6"]
NUMBERS = ["1e999", "-1e999", "-0", "1e-999", "2e15", "NaN", "Infinity", "01", "9" * 400, "9" * 5000]
TEXTS = [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\x00", b"\n", b"x" * 300]
TEXTS += [b"\\ud800", b"\\udc00\\ud800", b"\\u0000", b"\\ud83d\\ude00", "\u202e".encode()]
TWICE = ["host: evil.example", "origin: http://evil.example", "content-type: text/plain", "content-length: 2"]
TWICE += ["transfer-encoding: chunked", "transfer-encoding: identity", "expect: 200-ok", f"x: {'y' * 20_000}"]


def written(method: str, path: str, body: bytes, *extra: str, length: Any = None) -> bytes:
    """A request as bytes; `extra` headers come after ours."""
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", "connection: close"]
    lines += [f"content-length: {len(body) if length is None else length}", "content-type: application/json"]
    return "\r\n".join([*lines, *extra]).encode() + b"\r\n\r\n" + body


def flip(rng: random.Random, data: bytes) -> bytes:
    """One to four bits the other way."""
    flipped = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def swap(rng: random.Random, pattern: bytes, body: bytes, new: bytes) -> bytes:
    """Something else in one of the places that match."""
    place = rng.choice(list(re.finditer(pattern, body)))
    return body[: place.start()] + new + body[place.end() :]


def nest(rng: random.Random, body: bytes) -> bytes:
    """A value, or all there is, deep inside."""
    depth, (left, right) = (
        rng.choice([50, 700, 1500, 100_000]),
        rng.choice([(b"[", b"]"), (b'{"type":', b"}")]),
    )
    deep = left * depth + b"1" + right * depth
    return rng.choice([deep, swap(rng, VALUE, body, deep)])


def flipped(rng: random.Random, method: str, path: str, body: bytes) -> Spoilt:
    return flip(rng, written(method, path, body)), True


def cut_off(rng: random.Random, method: str, path: str, body: bytes) -> Spoilt:
    short, told = body[: rng.randrange(len(body))], rng.random() < 0.5
    return written(method, path, short, length=len(short) if told else len(body)), told


def mismeasured(rng: random.Random, method: str, path: str, body: bytes) -> Spoilt:
    length = rng.choice([len(body) - 3, len(body) + 7, *LENGTHS])
    return written(method, path, body, length=length), not (isinstance(length, int) and length > len(body))


def told_twice(rng: random.Random, method: str, path: str, body: bytes) -> Spoilt:
    return written(method, path, body, rng.choice(TWICE)), True


BODIES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "flipped inside": flip,
    "nested": nest,
    "misnumbered": lambda rng, body: swap(rng, VALUE, body, rng.choice(NUMBERS).encode()),
    "misspelt": lambda rng, body: swap(rng, rb'(?<=")\w', body, rng.choice(TEXTS)),
    "misencoded": lambda rng, body: body.decode().encode(
        rng.choice(["utf-16", "utf-32", "utf-8-sig", "cp500"])
    ),
    "repeated": lambda rng, body: rng.choice([body + body, body[:-1] + b"," + body[1:], body + b"]"]),
}
WHOLE = {"flipped": flipped, "cut off": cut_off, "mismeasured": mismeasured, "told twice": told_twice}


def exchange(port: int, request: bytes, complete: bool) -> bytes:
    """All that is answered until the server closes, or falls silent."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=240) as connection, suppress(ConnectionError):
        connection.sendall(request)
        if not complete:
            connection.shutdown(socket.SHUT_WR)
        while select.select([connection], [], [], 0.1 if said else 5.0)[0]:
            piece = connection.recv(1 << 16)
            if not piece:
                break
            said += piece
    return said


def spoil(way: str, rng: random.Random, method: str, path: str, body: bytes) -> Spoilt:
    if way in WHOLE:
        return WHOLE[way](rng, method, path, body)
    return written(method, path, BODIES[way](rng, body)), True


def tell(aimed_at: Target, request: bytes, complete: bool) -> int:
    """Send these bytes; the status of the answer, 0 where there is none."""
    said = exchange(aimed_at.server.port, request, complete)
    statuses = [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3})", said)]
    assert all(status < 500 for status in statuses), (request[:2000], said)
    aimed_at.compare(unchanged=not any(status < 300 for status in statuses))
    content = said.rpartition(b"\r\n\r\n")[2]
    if statuses and statuses[-1] >= 400 and content:  # what is not even HTTP is refused without a word
        check_error(content)
    return min(statuses, default=0)


@pytest.mark.parametrize("spoilt", [SPOILT, pytest.param(6 * SPOILT, marks=pytest.mark.slow)])
def test_damaged_requests_never_cause_a_500_and_refusals_change_nothing(tmp_path: Path, spoilt: int) -> None:
    rng, outcomes = random.Random(6), Counter[tuple[str, int]]()
    with target(tmp_path / "x.sqlite") as aimed_at:
        for way in (*WHOLE, *BODIES):
            for n in range(spoilt):
                method, path, body = GOOD[n % len(GOOD)]
                status = tell(aimed_at, *spoil(way, rng, method, path, json.dumps(body).encode()))
                outcomes[way, status] += 1
        for method, path, good in GOOD:  # 409 where a spoilt one was taken before it
            assert tell(aimed_at, written(method, path, json.dumps(good).encode()), True) in (200, 409)
    assert {way for way, status in outcomes if status >= 400} == {*WHOLE, *BODIES}
    assert (
        sum(count for (_, status), count in outcomes.items() if status == 200) > outcomes.total() / 40
    )  # few: a field given twice is refused
