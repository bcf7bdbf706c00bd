"""What others build on: a valid description, clients generated from it, bodies that are read strictly."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from helpers.service_process import create, opened, served
from litestar.testing import TestClient
from openapi_spec_validator import OpenAPIV31SpecValidator

import linoto
from linoto.core.snapshots import KNOWN
from linoto.service.loops.spec import LoopSpec, canonical
from linoto.service.web.examples import EXAMPLES
from linoto.service.web.framework import body_schemas

JSON = {"content-type": "application/json"}
REWARD = "/v1/loops/loop/decisions/1-1/reward"
REWARDS = "/v1/loops/loop/rewards"
DECIDE = "/v1/loops/loop/decide"
PARQUET = "application/vnd.apache.parquet"


@pytest.fixture(scope="module")
def client(shared_folder: Path) -> Iterator[TestClient[Any]]:
    """The application without a server, with one loop."""
    with opened(shared_folder / "x.sqlite") as service:
        create(service)
        with TestClient(service.app, base_url="http://127.0.0.1") as client:
            yield client


def described(client: TestClient[Any]) -> Any:
    return client.get("/v1/openapi.json").json()


def test_the_description_is_valid_openapi(client: TestClient[Any]) -> None:
    assert not list(OpenAPIV31SpecValidator(described(client)).iter_errors())
    paths = described(client)["paths"].values()
    ids = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(set(ids)) == len(ids) and {"decide", "create_loop", "reward_many"} <= set(ids)


def generate_client(description: Any, folder: Path) -> None:
    """The package `generated_client` in this folder, as it comes: no formatter of this machine is asked."""
    from openapi_python_client import generate
    from openapi_python_client.config import Config, ConfigFile, MetaType

    (folder / "openapi.json").write_text(json.dumps(description))
    config = Config.from_sources(
        ConfigFile(post_hooks=[], content_type_overrides={PARQUET: "application/octet-stream"}),
        MetaType.NONE,
        document_source=folder / "openapi.json",
        file_encoding="utf-8",
        overwrite=False,
        output_path=folder / "generated_client",
    )
    assert not [(error.level, error.header, error.detail) for error in generate(config=config)]


def test_a_client_that_was_generated_from_the_description_drives_a_gated_loop(
    client: TestClient[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate_client(described(client), tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    named = "create_loop decide decide_many reward_decision reward_many change_loop inspect_loop"
    api = {
        name: importlib.import_module(f"generated_client.api.default.{name}").sync for name in named.split()
    }
    models = importlib.import_module("generated_client.models")
    spec = models.LoopSpec(
        arms=[models.Arm(name="blue"), models.Arm(name="green")],
        policy=models.Gated(type_="Gated", gate=models.Tolerance(type_="Tolerance", epsilon=0.1)),
        offline=models.LogStatistics(pulls=[800, 200], reward_sums=[80.0, 40.0]),
        default_reward=0.0,
    )
    open_client = importlib.import_module("generated_client").Client
    with served(tmp_path / "x.sqlite") as server, open_client(base_url=server.url) as session:
        assert api["create_loop"]("banner", client=session, body=spec).policy == "Gated"
        chosen = api["decide"]("banner", client=session, body=models.DecideRequest(key="visit-1"))
        assert chosen.arm in ("blue", "green")
        batch = models.DecideBatch(decisions=[models.DecideRequest(key="visit-1")])
        (again,) = api["decide_many"]("banner", client=session, body=batch).decisions
        assert isinstance(again, models.Decision) and again.decision_id == chosen.decision_id
        told = api["reward_decision"](
            "banner", chosen.decision_id, client=session, body=models.RewardValue(reward=1.0)
        )
        assert told.status == "applied"
        report = models.RewardReport(decision_id=chosen.decision_id, reward=0.0)
        (result,) = api["reward_many"](
            "banner", client=session, body=models.RewardBatch(rewards=[report])
        ).results
        assert result.status == "conflict"
        assert (
            api["change_loop"]("banner", client=session, body=models.Change(mode="safe-only")).mode
            == "safe-only"
        )
        assert api["inspect_loop"]("banner", client=session).rewards == 1
        refused = api["decide"]("banner", client=session, body=models.DecideRequest(proposal="red"))
        assert refused.error.code == "invalid"


def test_what_is_said_of_contexts_fits_the_description(client: TestClient[Any]) -> None:
    """Whole numbers, others, lists and what is not known."""
    spec = EXAMPLES["LoopSpec"][2]
    assert client.put("/v1/loops/asked", json=spec).status_code == 200
    context = next(body["context"] for body in EXAMPLES["DecideRequest"] if "context" in body)
    made = client.post("/v1/loops/asked/decide", json={"key": "asked", "context": context}).json()
    answers = {
        "/v1/loops/{name}/decisions": client.get("/v1/loops/asked/decisions"),
        "/v1/loops/{name}/decisions/{decision_id}": client.get(
            f"/v1/loops/asked/decisions/{made['decision_id']}"
        ),
        "/v1/decisions": client.get("/v1/decisions", params={"key": "asked"}),
    }
    document = described(client)
    for path, answer in answers.items():
        said = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), {**said, "components": document["components"]})
        assert any(isinstance(value, int) for value in context.values()) and "context" in answer.text


def schema_of(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}", "components": {"schemas": body_schemas()}}


WITH_GUARDRAIL = linoto.Gated(
    gate=linoto.Control(budget=20),
    confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1)),
    guardrails=(linoto.Guardrail("complaints", reward_range=(0, 1), budget=20),),
)
POLICIES = [
    WITH_GUARDRAIL,
    linoto.LinUCB(),
    linoto.LinTS(scale=0.5),
    linoto.LogisticTS(rate=0.01),
    linoto.Greedy(),
    linoto.Random(),
    linoto.LinLCB(),
    linoto.LinOtO(),
    linoto.Gated(gate=linoto.Budget()),
    linoto.Gated(gate=linoto.Closed(), explorer=linoto.Random(), fallback=1),
    linoto.Gated(gate=linoto.Tolerance(epsilon=0.1), confidence=linoto.Confidence(reward_range=(0.0, 1.0))),
    linoto.Doubling(policy=linoto.Gated(gate=linoto.Open())),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
def test_every_policy_fits_its_schema_as_it_is_written(policy: Any) -> None:
    for data in (linoto.to_dict(policy), {"type": type(policy).__name__}):
        if data != {"type": "Doubling"}:  # which needs a policy
            jsonschema.validate(data, schema_of(data["type"]))
    no_loop = {"OOPE", "LearntPolicy"}  # no snapshot; the arms of its rows only
    assert set(KNOWN) - no_loop <= set(body_schemas())


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "Gated", "gate": {"type": "LinUCB"}},
        {"type": "Gated", "gate": {"type": "Tolerance", "epsilom": 0.1}},
        {"type": "LinUCB", "scale": "1"},
        {**linoto.to_dict(WITH_GUARDRAIL), "guardrails": [{"type": "Guardrail", "name": "refunds"}]},
        {"type": "Nobody"},
        {},
    ],
    ids=[
        "an explorer as gate",
        "a misspelt field",
        "a text as number",
        "a guardrail without a range",
        "no such policy",
        "no type",
    ],
)
def test_what_no_policy_is_fits_no_schema_and_is_refused(wrong: dict[str, Any]) -> None:
    spec = {"arms": [{"name": "a"}], "policy": wrong, "default_reward": 0}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(spec, schema_of("LoopSpec"))
    with pytest.raises(RuntimeError, match="must"):
        canonical(msgspec.convert(spec, LoopSpec))


def test_every_request_has_an_example_that_is_accepted(client: TestClient[Any]) -> None:
    contents = [
        operation["requestBody"]["content"]
        for path in described(client)["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    ]
    assert sum("application/octet-stream" in content for content in contents) == 1  # a file has no example
    bodies = {
        content["application/json"]["schema"]["$ref"].rpartition("/")[2]
        for content in contents
        if "application/octet-stream" not in content
    }
    assert bodies == set(EXAMPLES)
    shown = described(client)["components"]["schemas"]
    for name, examples in EXAMPLES.items():
        assert shown[name]["examples"] == examples
        for example in examples:
            jsonschema.validate(example, schema_of(name))
    sent = [client.put(f"/v1/loops/shown-{n}", json=spec) for n, spec in enumerate(EXAMPLES["LoopSpec"])]
    loop = "/v1/loops/shown-0"
    with_contexts = "/v1/loops/shown-2"
    for body in EXAMPLES["DecideRequest"]:
        sent.append(client.post(f"{with_contexts if 'context' in body else loop}/decide", json=body))
    made = sent[-1].json()["decision_id"]
    for body in EXAMPLES["DecideBatch"]:
        asked = with_contexts if "context" in body["decisions"][0] else loop
        sent.append(client.post(f"{asked}/decisions", json=body))
    guarded = client.post("/v1/loops/shown-3/decide", json={"key": "visit-17"}).json()["decision_id"]
    for body in EXAMPLES["RewardValue"]:
        where = f"shown-3/decisions/{guarded}" if "metrics" in body else f"shown-0/decisions/{made}"
        sent.append(client.put(f"/v1/loops/{where}/reward", json=body))
    for body in EXAMPLES["RewardReport"]:
        if "key" in body:
            asked = "/v1/loops/shown-3" if "metrics" in body else loop
            sent.append(client.put(f"{asked}/reward", json=body))
    sent += [client.post(f"{loop}/rewards", json=body) for body in EXAMPLES["RewardBatch"]]
    sent += [client.post("/v1/loops/shown-1/arms", json=body) for body in EXAMPLES["NewArms"]]
    sent += [client.patch(loop, json=body) for body in EXAMPLES["Change"]]
    assert [response.status_code for response in sent] == [200] * len(sent), [each.text for each in sent]


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1/nothing", "/v1/no/thing", "/v1/loops/a/b/c", "/dashboard/no.js"]
)
def test_an_address_that_leads_nowhere_is_refused_in_json(client: TestClient[Any], path: str) -> None:
    refused = client.get(path, headers={"accept": "text/html"})
    assert refused.status_code == 404 and refused.json()["error"]["code"] == "unknown"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/loops", "GET, OPTIONS"),
        ("/v1/loops/loop", "DELETE, GET, OPTIONS, PATCH, PUT"),
        (DECIDE, "OPTIONS, POST"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("/", "GET, OPTIONS"),
    ],
)
def test_a_method_that_is_not_there_names_those_that_are(
    client: TestClient[Any], path: str, methods: str
) -> None:
    assert client.options(path).headers["allow"] == methods
    refused = client.request("TRACE", path)
    assert (refused.status_code, refused.headers["allow"]) == (405, methods)
    assert refused.json()["error"]["code"] == "method_not_allowed" and methods in refused.text


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_may_ask_for_the_head_alone(client: TestClient[Any], path: str) -> None:
    told = client.head(path)
    assert (told.status_code, told.content) == (200, b"")


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (REWARD, b'{"reward": "1"}', "reward: Expected `float | null`, got `str`"),
        (REWARD, b'{"reward": 1, "reward": 0}', "a field must be given once, got 'reward' twice"),
        (REWARD, b'{"metrics": {"b": 1, "c": null}}', "metrics['c']: Expected `float`, got `null`"),
        (REWARD, b'{"metrics": {"b": 1, "c": 1e16}}', "metrics['c']: Expected `float` <= 1000000000000000.0"),
        (REWARDS, b'{"rewards": [{"key": "x", "metrics": {"c": "1"}}]}', "rewards[0].metrics['c']: Expected"),
        (REWARD, b'{"rewards": 1}', "the body: Object contains unknown field `rewards`"),
        (DECIDE, b"", "the body must be JSON, got nothing: send {} where there is nothing to say"),
        (DECIDE, b'{"key": 5}', "key: Expected `str | null`, got `int`"),
        (DECIDE, b'{"key": "\xff"}', "UTF-8"),
    ],
)
def test_a_body_is_read_strictly_and_refused_in_words(
    client: TestClient[Any], path: str, body: bytes, said: str
) -> None:
    method = "PUT" if path == REWARD else "POST"
    refused = client.request(method, path, content=body, headers=JSON)
    assert refused.status_code == 400 and said in refused.json()["error"]["message"]


def test_a_refused_value_is_no_fault_whatever_comes_after_it(client: TestClient[Any]) -> None:
    """Its key is looked for in a body that was not read to its end."""
    once = "a field must be given once, got 'metrics' twice"
    for rest, said in [
        (b"%s}}" % (b"9" * 5000), "metrics['c']: Number out of range"),
        (b"-%s}}" % (b"9" * 5000), "metrics['c']: Number out of range"),
        (b"null}, x}", "metrics[...]: Expected `float`, got `null`"),
        (b'null}, "x": "\xff"}', "metrics[...]: Expected `float`, got `null`"),
        (b'null}, "x": %s' % (b"[" * 50_000), "metrics[...]: Expected `float`, got `null`"),
        (b'null}, "metrics": 1}', once),
        (b'null}, "metrics": {}}', once),
    ]:
        refused = client.put(REWARD, content=b'{"metrics": {"c": ' + rest, headers=JSON)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, said)


def test_a_whole_number_may_be_written_with_a_point(client: TestClient[Any]) -> None:
    spec = {**EXAMPLES["LoopSpec"][1], "redraws": 3}
    written = json.dumps(spec).replace('"redraws": 3', '"redraws": 3.0').encode()
    assert client.put("/v1/loops/whole", content=written, headers=JSON).status_code == 200
    assert client.get("/v1/loops/whole/spec").json()["redraws"] == 3
    cut_off = client.put("/v1/loops/half", content=written[:-1], headers=JSON)
    assert cut_off.status_code == 400 and "Expecting ',' delimiter" in cut_off.json()["error"]["message"]
    half = written.replace(b"3.0", b"3.5")
    assert client.put("/v1/loops/half", content=half, headers=JSON).status_code == 400


def test_a_decide_without_a_body_is_told_what_to_send(client: TestClient[Any]) -> None:
    refused = client.post(DECIDE)
    assert refused.status_code == 415 and "send {}" in refused.json()["error"]["message"]


def test_a_field_that_is_given_twice_in_a_large_body_is_refused_too(client: TestClient[Any]) -> None:
    many = b",".join(b'{"decision_id": "1-1", "reward": 1}' for _ in range(999))
    body = (
        b'{"rewards": [' + many + b"," + b" " * 70_000 + b'{"decision_id": "1-1", "reward": 1, "reward": 1}]}'
    )
    refused = client.post("/v1/loops/loop/rewards", content=body, headers=JSON)
    assert refused.status_code == 400 and "'reward' twice" in refused.text


def test_a_reward_just_outside_of_the_range_is_shown_as_it_was_sent(client: TestClient[Any]) -> None:
    made = client.post(DECIDE, json={}).json()["decision_id"]
    refused = client.put(f"/v1/loops/loop/decisions/{made}/reward", json={"reward": 1.0000001})
    assert refused.json()["error"]["message"] == "reward must be in [0, 1], got 1.0000001"
