"""Both clients against the real service, and what they promise about themselves."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.scripted_service import AnyClient
from helpers.service_process import TOLERANT, Server, served

import linoto
from linoto import AsyncClient, Client
from linoto.client import RewardResult, ServedDecision, ServiceError, operations
from linoto.client.operations import Operations, assuming, to_json
from linoto.core.evidence import likeliest_ridge
from linoto.logs.saved import SavedLog
from linoto.service.loops.spec import LoopSpec

LOG = linoto.Offline(pulls=[50, 30, 0], reward_sums=[30.0, 10.0, 0.0])


@pytest.fixture(scope="module")
def server(shared_folder: Path) -> Iterator[Server]:
    with served(shared_folder / "x.sqlite") as server:
        yield server


@pytest.fixture(params=[Client, AsyncClient])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def client(server: Server, kind: Any) -> Iterator[AnyClient]:
    with AnyClient(kind, f"http://127.0.0.1:{server.port}") as client:
        yield client


def make(client: Any, name: str, **settings: Any) -> Any:
    features = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.7, 0.7]}
    given = {"offline": LOG, **settings}
    return client.create(name, arms=features, policy=TOLERANT, default_reward=0.0, **given)


def test_a_reward_that_is_no_finite_number_is_refused_by_name(client: AnyClient) -> None:
    for odd, shown in ((float("nan"), "nan"), (float("-inf"), "-inf"), ("much", "'much'"), ([1], r"\[1\]")):
        message = f"^reward must be a finite number, got {shown}$"
        with pytest.raises(ValueError, match=message):
            client.reward("any", "id", cast(Any, odd))
        with pytest.raises(ValueError, match=message):
            client.reward_by_key("any", "key", cast(Any, odd))
        with pytest.raises(ValueError, match=message):
            client.rewards("any", [("id", cast(Any, odd))])
        with pytest.raises(ValueError, match=message):
            make(client, "any", offline=None, rows=[("a", odd)])


def test_what_json_cannot_say_is_refused_by_its_place(client: AnyClient) -> None:
    circle: list[Any] = []
    circle.append(circle)
    nan, kinds = float("nan"), "a finite number, a text, a date, true, false, None, or a list or dict"
    odd: list[tuple[Any, str, str]] = [
        ({"age": nan}, "context.age", "nan"),
        ({"where": [1.0, {"x": -nan}]}, r"context.where\[1\].x", "nan"),
        ({"v": np.array([1.0, nan])}, "context.v", r"array\(\[ 1., nan\]\)"),
        ({"day": np.datetime64("NaT").astype(object), "id": b"1"}, "context.id", "b'1'"),
        ({("a", "b"): 1}, "a request", ".*"),
        ({"circle": circle}, r"context.circle[\[\]0]*", ".*"),
    ]
    for context, place, shown in odd:
        with pytest.raises(ValueError, match=f"^{place} must be {kinds} of those by texts, got {shown}$"):
            client.decide("any", context=context)


def test_numbers_of_numpy_and_dates_are_said_as_json_says_them() -> None:
    body = {"a": np.int64(3), "b": np.arange(2), "c": date(2026, 1, 2), "d": np.float32(0.5), "e": np.True_}
    assert json.loads(to_json(body)) == {"a": 3, "b": [0, 1], "c": "2026-01-02", "d": 0.5, "e": True}


def test_moments_of_any_unit_are_dates_and_no_counts() -> None:
    noon = np.datetime64("2026-05-31T12:00:00")
    for unit in ("s", "us", "ns"):
        body = {"at": noon.astype(f"M8[{unit}]"), "all": np.array([noon], f"M8[{unit}]")}
        assert json.loads(to_json(body)) == {"at": "2026-05-31T12:00:00", "all": ["2026-05-31T12:00:00"]}
        with pytest.raises(ValueError, match=r"^context\.for must be a finite number"):
            to_json({"context": {"for": np.timedelta64(5, "s").astype(f"m8[{unit}]")}})


# -- against the service


def test_a_whole_round_trip(client: AnyClient, kind: Any, tmp_path: Path) -> None:
    loop = f"trip-{kind.__name__}"
    make(client, loop, window=60.0)
    first, second = client.decide(loop, key="k"), client.decide(loop, proposal="c", allowed=["a", "b", "c"])
    assert client.decide(loop, key="k") == first and isinstance(first, ServedDecision)
    assert first.arm in "abc" and first.propensity == 1.0 and first.lcb <= first.ucb
    result = client.reward(loop, first.decision_id, 1.0)
    assert result == RewardResult(decision_id=first.decision_id, status="applied", code=200, reward=1.0)
    assert client.reward(loop, first.decision_id, 1.0).status == "duplicate"
    results = client.rewards(loop, [(first.decision_id, 0.0), (second.decision_id, 0.5), ("1-99", 1.0)])
    assert [result.status for result in results] == ["conflict", "applied", "unknown"]
    explained = client.explain(loop, second.decision_id)
    assert explained["proposed"] == "c" and explained["proposed_by"] == "caller" and explained["reasons"]
    report = client.report(loop)
    assert report["loop"]["decisions"] == 2 and report["certificate"]["holds"]
    assert [arm["name"] for arm in client.arms(loop)] == ["a", "b", "c"]
    assert client.arms(loop, limit=1) == [max(client.arms(loop), key=itemgetter("plays", "logged"))]
    ids = [row["decision_id"] for row in client.decisions(loop)]
    assert ids == [second.decision_id, first.decision_id]
    assert [row["decision_id"] for row in client.decisions(loop, before=2)] == [first.decision_id]
    assert client.decisions(loop, limit=1)[0]["decision_id"] == second.decision_id
    assert client.history(loop)["points"][-1]["realised"] == 1.5
    client.decide(loop)
    table = pq.read_table(client.export(loop, tmp_path / "log.parquet"))
    assert table["reward"].to_pylist() == [1.0, 0.5]
    assert table["action"].to_pylist() == [first.arm, second.arm]
    assert pq.read_table(client.export(loop, tmp_path / "all.parquet", pending=True)).num_rows == 3
    assert sorted(file.name for file in tmp_path.iterdir()) == ["all.parquet", "log.parquet"]
    assert client.change(loop, mode="safe-only")["mode"] == "safe-only"
    assert client.decide(loop).mode == "safe"
    assert client.archive(loop)["archived"] is True
    assert loop in [numbers["name"] for numbers in client.loops()]


def test_values_of_guardrails_go_with_the_reward_or_after_it(
    client: AnyClient, kind: Any, tmp_path: Path
) -> None:
    """By id and by key, one and many, each once; and they are in what is exported."""
    loop = f"guarded-{kind.__name__}"
    complaints = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=20)
    margin = linoto.Guardrail("margin", reward_range=(-1, 3), budget=80)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policy = linoto.Gated(
        gate=linoto.Control(budget=20), confidence=confidence, guardrails=(complaints, margin)
    )
    assert client.create(loop, arms=["a", "b", "c"], policy=policy, default_reward=0.0, offline=LOG)
    ids = [client.decide(loop, key=f"k{n}").decision_id for n in range(4)]
    first = client.reward(loop, ids[0], 1.0, metrics={"complaints": 0})
    assert (first.status, first.reward, first.metrics) == ("applied", 1.0, {"complaints": 0.0})
    assert client.reward(loop, ids[0], metrics={"margin": 2.5}).status == "applied"
    assert client.reward(loop, ids[0], 1.0, metrics={"margin": 2.5, "complaints": 0}).status == "duplicate"
    with pytest.raises(ServiceError, match=r"the first value of margin stands: 2.5 \(409 conflict\)"):
        client.reward(loop, ids[0], metrics={"margin": 2.0})
    with pytest.raises(ServiceError, match=r"metrics must be of complaints, margin, got 'refunds'"):
        client.reward(loop, ids[1], 1.0, metrics={"refunds": 1})
    with pytest.raises(ValueError, match="reward or metrics must be given, got neither"):
        client.reward(loop, ids[1])
    with pytest.raises(ValueError, match=r"metrics must be values by their names, got \[1\]"):
        client.reward(loop, ids[1], 1.0, metrics=cast(Any, [1]))
    for odd, shown in ((float("nan"), "nan"), ("1", "'1'"), (b"1", "b'1'"), (True, "True"), (None, "None")):
        with pytest.raises(ValueError, match=f"must have a finite number for complaints, got {shown}"):
            client.reward(loop, ids[1], 1.0, metrics=cast(Any, {"complaints": odd}))
    assert client.reward_by_key(loop, "k1", 0.0, metrics={"complaints": 1}).status == "applied"
    assert client.reward_by_key(loop, "k1", metrics={"margin": 0.0}).status == "applied"
    many = [
        (ids[2], 1.0, {"margin": 1.0}),
        (ids[3], None, {"complaints": 0.0}),
        (ids[0], None, {"margin": 1}),
    ]
    results = client.rewards(loop, many)
    assert [each.status for each in results] == ["applied", "applied", "conflict"]
    later = client.rewards_by_key(loop, [("k2", None, {"complaints": 0.0}), ("k3", 1.0)])
    assert [each.status for each in later] == ["applied", "applied"]
    seen = {metric["name"]: metric for metric in client.loop(loop)["metrics"]}
    assert [seen["complaints"][part] for part in ("told", "open", "mean")] == [4, 0, 0.25]
    assert [seen["margin"][part] for part in ("told", "open", "lower_is_better")] == [3, 1, False]
    assert client.explain(loop, ids[3])["metrics"] == {"complaints": 0.0}
    table = pq.read_table(client.export(loop, tmp_path / "guarded.parquet"))
    assert table["complaints"].to_pylist() == [0.0, 1.0, 0.0, 0.0]
    assert table["margin"].to_pylist() == [2.5, 0.0, 1.0, None]


def test_both_clients_get_the_same_answers(server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with AnyClient(Client, url) as one, AnyClient(AsyncClient, url) as other:
        made = make(one, "same")
        assert make(other, "same") == made
        decision = one.decide("same", key="k")
        assert other.decide("same", key="k") == decision
        one.reward("same", decision.decision_id, 0.5)
        for name in ("loops", "loop", "spec", "arms", "decisions", "report"):
            given = [] if name == "loops" else ["same"]
            assert getattr(one, name)(*given) == getattr(other, name)(*given), name
        assert one.explain("same", decision.decision_id) == other.explain("same", decision.decision_id)


def test_a_loop_is_made_from_all_statistics_of_the_log(client: AnyClient, kind: Any) -> None:
    loop = f"squares-{kind.__name__}"
    log = linoto.Offline.from_rows([0, 0, 1, 1], [1.0, 0.5, 0.0, 0.5], k=3)
    make(client, loop, offline=log, window=60.0)
    spec = client.spec(loop)
    assert spec["offline"]["reward_squares"] == [1.25, 0.25, 0.0] and spec["window"] == 60.0
    assert linoto.from_dict(spec["policy"]) == TOLERANT
    assert [arm["name"] for arm in spec["arms"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("status", "code", "send"),
    [
        (404, "unknown", lambda c: c.decide("nowhere")),
        (404, "unknown", lambda c: c.reward("errors", "1-1", 1.0)),
        (404, "unknown", lambda c: c.explain("errors", "../../etc/passwd")),
        (422, "invalid", lambda c: c.decide("errors", proposal="zzz")),
        (400, "bad_request", lambda c: c.decide("errors", key="")),
        (409, "exists", lambda c: make(c, "errors", window=61.0)),
        (404, "unknown", lambda c: make(c, "a/../b")),
        (400, "bad_request", lambda c: make(c, "a b")),
        (400, "bad_request", lambda c: make(c, "..")),
        (400, "bad_request", lambda c: c.change("errors", mode="fast")),
        (400, "bad_request", lambda c: c.change("errors", holdback=1.0)),
        (422, "invalid", lambda c: c.create("p", arms=["a"], policy={"type": "Path"}, default_reward=0.0)),
        (405, "method_not_allowed", lambda c: c._send(operations.send("DELETE", "/v1/loops"))),
        (404, "unknown", lambda c: c._send(operations.get("/v2/loops"))),
        (413, "too_large", lambda c: c.rewards("errors", [("1-1", 1.0)] * 200_000)),
        (404, "unknown", lambda c: c.export("nowhere", "never.parquet")),
    ],
)
def test_every_refusal_has_the_same_shape(
    client: AnyClient, status: int, code: str, send: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(client, "errors")
    with pytest.raises(ServiceError) as refused:
        send(client)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert list(tmp_path.iterdir()) == []


def test_the_examples_in_the_docstrings_run(server: Server) -> None:
    url = f"http://127.0.0.1:{server.port}"
    with Client(url) as client:
        make(client, "banner")
    assert example(Client, "visit")(url) in "abc"
    arms = asyncio.run(example(AsyncClient, "visits")(url, ["visit-17", "visit-18"]))
    assert len(arms) == 2 and set(arms) <= set("abc")
    with Client(url) as client:
        assert client.loop("banner")["rewards"] == 2, "the first of the keys was the same visit"


def example(of: type, name: str) -> Any:
    """A function that the docstring of a class defines."""
    scope: dict[str, Any] = {of.__name__: of}
    for step in doctest.DocTestParser().get_examples(inspect.getdoc(of) or ""):
        exec(step.source, scope)
    return scope[name]


def test_a_service_that_was_restarted_is_found_again(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server:
        client = server.client(retries=1)
        make(client, "loop")
        with ThreadPoolExecutor(16) as threads:  # so that there are many unused connections when it stops
            list(threads.map(lambda _: client.decide("loop"), range(64)))
        server.stop()
        with served(tmp_path / "x.sqlite", port=server.port):
            assert client.loop("loop")["decisions"] == 64
    client.close()


# -- the clients themselves


def public(kind: type) -> dict[str, inspect.Signature]:
    """The public methods of a class."""
    members = inspect.getmembers(kind, inspect.isfunction)
    return {name: inspect.signature(method) for name, method in members if not name.startswith("_")}


def test_both_clients_have_the_same_methods_and_options() -> None:
    assert public(Client) == public(AsyncClient)
    one, other = (inspect.signature(kind).parameters for kind in (Client, AsyncClient))
    assert set(other) - set(one) == {"connections"} and list(one) == list(other)[: len(one)]
    assert all(one[name].default == other[name].default for name in one if name != "sleep")


def test_every_request_is_described_once_and_says_what_it_is_for() -> None:
    assert set(public(Client)) - set(public(Operations)) == {"export", "close"}
    for name in public(Operations):
        method = getattr(Operations, name)
        assert getattr(Client, name) is getattr(AsyncClient, name) is method
        assert method.__name__ == name and method.__doc__
    assert str(inspect.signature(Client.archive)) == "(self, loop: 'str') -> 'dict[str, Any]'"


@pytest.mark.slow
def test_a_type_checker_knows_every_result(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "typed.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Found 2 errors in 1 file" in done.stdout, done.stdout
    assert 'typed.py:10: error: Unexpected keyword argument "kez"' in done.stdout
    assert "typed.py:14: error: Value of type" in done.stdout and "missing an await" in done.stdout


TYPED = """
from typing import assert_type

from linoto import AsyncClient, Client
from linoto.client import RewardResult, ServedDecision

def threads(client: Client) -> None:
    assert_type(client.decide("x", key="k"), ServedDecision)
    assert_type(client.rewards("x", []), list[RewardResult])
    client.decide("x", kez="k")

async def asynchronous(client: AsyncClient) -> None:
    assert_type(await client.decide("x"), ServedDecision)
    client.loops()
"""


def loaded_after(code: str) -> set[str]:
    """The packages outside the standard library that a fresh interpreter has loaded after this code."""
    code += "\nprint(*({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    command = [sys.executable, "-c", f"import sys, linoto\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if not name.startswith("_")}


def test_each_client_loads_its_own_library_and_only_when_it_is_made() -> None:
    assert loaded_after("linoto.Client; linoto.AsyncClient; linoto.ServiceError") == {"linoto"}
    assert loaded_after("linoto.Client()") == {"linoto", "urllib3"}
    packages = loaded_after("linoto.AsyncClient()")
    assert {"linoto", "aiohttp"} <= packages and not packages & {"urllib3", "numpy", "numba", "rich"}


@pytest.mark.parametrize(("name", "library"), [("Client", "urllib3"), ("AsyncClient", "aiohttp")])
def test_without_its_library_a_client_says_what_to_install(name: str, library: str) -> None:
    code = f"import sys; sys.modules['{library}'] = None; import linoto; linoto.{name}()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    sentence = f'ImportError: {name} needs {library}: pip install "linoto[client]"'
    assert done.stderr.splitlines()[-1] == sentence


def test_a_closed_client_sends_nothing(kind: Any, server: Server) -> None:
    client = AnyClient(kind, f"http://127.0.0.1:{server.port}")
    client.loops()
    client.close()
    with pytest.raises(RuntimeError, match="got one that was closed"):
        client.loops()
    client.runner.close()


@pytest.mark.parametrize(
    ("wrong", "options"),
    [
        ("url must be like", {"url": "ftp://nowhere"}),
        ("url must be like", {"url": "http://"}),
        ("url must be like", {"url": "http://me:secret@127.0.0.1"}),
        ("url must be like", {"url": "http://127.0.0.1:port"}),
        ("url must be like", {"url": "http://127.0.0.1/a b"}),
        ("url must be like", {"url": "http://127.0.0.1/?x=1"}),
        ("token must be", {"token": "one\r\nx-other: two"}),
        ("timeout must be", {"timeout": 0.0}),
        ("idle must be", {"idle": 0.0}),
        ("retries must be", {"retries": -1}),
    ],
)
def test_wrong_options_are_refused(kind: Any, wrong: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=wrong) as refused:
        kind(**options)
    assert "two" not in str(refused.value), "a token is a secret"


def test_an_address_may_be_ipv6_and_end_with_a_slash(kind: Any) -> None:
    with AnyClient(kind, "http://[::1]:8080/") as client:
        assert client.client.url == "http://[::1]:8080"


# -- what an audit saved


def saved_log(**changes: Any) -> SavedLog:
    table = {"id": ["a", "b"], "size": [0.2, 1.0]}
    log = linoto.Offline.from_rows([0, 1] * 50, [0.0, 0.0, 0.0, 1.0] * 25, k=2)
    confidence = linoto.Confidence(noise="bounded", bound=1.5, reward_range=(0, 1))
    fields: dict[str, Any] = {"source": "clicks.csv", "verdict": "deploy", **changes}
    arms = linoto.ArmTable.from_columns(table)
    return SavedLog(arms=arms, offline=log, confidence=confidence, **fields)


@pytest.mark.parametrize("features", [None, 3.0, ["x"]])
def test_features_that_are_no_numbers_are_refused(client: AnyClient, features: Any) -> None:
    with pytest.raises(ValueError, match="features of arm 'x' must be a list of numbers, got"):
        client.add_arms("loop", {"x": features})


def test_a_name_alone_is_one_name_and_not_its_letters(client: AnyClient, kind: Any) -> None:
    """A name is for ever: letters that were added as arms could only be removed."""
    loop = f"letters-{kind.__name__}"
    client.create(loop, arms="red", policy=linoto.LinUCB(), default_reward=0.0)
    client.add_arms(loop, "blue")
    assert [arm["name"] for arm in client.arms(loop)] == ["red", "blue"]
    assert client.decide(loop, allowed="blue").arm == "blue"
    assert client.remove_arms(loop, "red")["arms"] == 1


def test_a_log_with_contexts_brings_the_budget_that_is_usual_for_what_it_earned() -> None:
    """200 views, 20 clicks: a tenth of them, not 100 times the noise, and a rate so that the gate opens."""
    moments = linoto.Moments.from_rows([[1.0, 1.0]] * 200, ([1.0] + [0.0] * 9) * 20)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1))
    saved = SavedLog.of_moments(linoto.Recipe(items=("A",)), moments, source="x.csv", confidence=confidence)
    known = assuming(linoto.to_dict(linoto.Gated()), saved)
    assert known.gate == linoto.Control(budget=2.0, epsilon=0.01, share="cheap")
    assert known.confidence == replace(confidence, ridge=likeliest_ridge(moments))
    own = linoto.Gated(gate=linoto.Control(budget=9.0))
    assert assuming(own, saved) == replace(own, confidence=known.confidence)
    said = replace(own, confidence=confidence)
    assert assuming(said, saved) == said


def test_a_loop_from_a_saved_log_has_its_arms_its_log_and_its_assumptions(
    client: AnyClient, kind: Any
) -> None:
    saved, loop = saved_log(), f"saved-{kind.__name__}"
    client.create(loop, saved=saved, policy=linoto.Gated(), default_reward=0.0)
    spec = client.spec(loop)
    assert [arm["name"] for arm in spec["arms"]] == ["a", "b"]
    assert [arm["features"] for arm in spec["arms"]] == saved.actions.tolist()
    assert spec["offline"]["reward_squares"] == [0.0, 25.0]
    assert linoto.from_dict(spec["policy"]) == linoto.Gated(confidence=saved.confidence)
    assert spec["description"].startswith("noise bounded in [0, 1], from the audit of clicks.csv")
    again = {"policy": linoto.to_dict(linoto.Gated()), "default_reward": 0.0}
    assert client.create(loop, saved=saved, **again)["name"] == loop


def test_a_saved_log_leaves_a_confidence_of_ones_own_alone(client: AnyClient, kind: Any) -> None:
    own, loop = linoto.Gated(confidence=linoto.Confidence(noise=2.0, bound=3.0)), f"own-{kind.__name__}"
    client.create(loop, saved=saved_log(), policy=own, default_reward=0.0, description="mine")
    assert linoto.from_dict(client.spec(loop)["policy"]) == own
    assert client.spec(loop)["description"] == "mine"


def test_a_saved_log_that_is_not_to_be_trusted_warns(client: AnyClient, kind: Any) -> None:
    saved = saved_log(verdict="do not trust", reasons=("arms did not earn late what they earned early",))
    with pytest.warns(UserWarning, match=r"the audit of clicks\.csv says: do not trust, because arms"):
        client.create(f"warned-{kind.__name__}", saved=saved, policy=linoto.Gated(), default_reward=0.0)


def test_a_saved_log_stands_alone(client: AnyClient) -> None:
    with pytest.raises(ValueError, match="offline must be left out where saved is given"):
        client.create("x", saved=saved_log(), offline=LOG, policy=linoto.Gated(), default_reward=0.0)
    with pytest.raises(ValueError, match=r"saved must be what linoto\.load returns, got str"):
        client.create("x", saved="stats.npz", policy=linoto.Gated(), default_reward=0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"offline": {"pulls": [1]}}, r"offline must be a linoto\.Offline, such as log\.offline, got dict"),
        ({"moments": LOG}, r"moments must be a linoto\.Moments, such as log\.moments, got Offline"),
        ({"recipe": 3}, r"recipe must be a linoto\.Recipe, such as log\.recipe, got int"),
        ({"practice": ["old"]}, r"practice must be an arm, weights of arms by their names.*, got \['old'\]"),
        ({"log": "june.csv"}, r"log must be a file and its columns by name.*, got 'june\.csv'"),
        ({"rows": [("old",)]}, r"rows must be pairs of an arm and its reward, got \('old',\) in them"),
        ({"rows": "ab"}, r"rows must be pairs of an arm and its reward, got 'a' in them"),
    ],
)
def test_parts_of_a_loop_of_another_kind_are_refused_by_name(given: Any, message: str) -> None:
    """Nothing is asked of a service: "must be called with a dataclass type or instance" was the answer."""
    with Client("http://127.0.0.1:1") as client, pytest.raises(ValueError, match=message):
        client.create("x", policy=linoto.Gated(), default_reward=0.0, **given)


def test_a_noise_that_the_log_contradicts_is_refused_by_the_service(client: AnyClient) -> None:
    small = linoto.Gated(confidence=linoto.Confidence(noise=0.01, bound=2.0))
    with pytest.raises(ServiceError, match=r"policy: noise must be at least \S+ for this log, got 0\.01"):
        client.create("refuted", saved=saved_log(), policy=small, default_reward=0.0)


def test_a_client_names_every_setting_that_a_loop_has() -> None:
    """`version` is set by the service."""
    parameters = inspect.signature(Client.create).parameters
    assert set(LoopSpec.__struct_fields__) - {"version"} <= set(parameters)
    assert not any(each.kind is each.VAR_KEYWORD for each in parameters.values())
