"""A loop with contexts over HTTP: both clients, strict bodies, an export that is a log, and a kill -9."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.loops import decide, digests, reward
from helpers.loops_with_contexts import POLICIES, RECIPE, context_of, create, likes, log_of
from helpers.service_process import FakeClock, opened, served
from litestar.testing import TestClient

import linoto
from linoto.client import AsyncClient, Client, ServiceError
from linoto.service.web.export import columns_of, parquet

CONTEXT = {"age": 25, "country": "DE"}


def make(client: Client, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"policy": POLICIES["model"], "practice": "C", "recipe": RECIPE}
    return client.create("shop", **{**fields, "moments": log_of(), "default_reward": 0.0, **changes})


def test_nothing_that_was_answered_is_lost_by_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    rng, answers = np.random.default_rng(0), {}
    with served(path, snapshot_every=9) as server:
        client = server.client()
        assert make(client)["context_fields"] == ["age", "country"]
        assert make(client)["decisions"] == 0  # the same again is the same
        for i in range(30):
            context = context_of(rng)
            answers[f"k{i}"] = context, client.decide("shop", key=f"k{i}", context=context)
            if i % 2:
                client.reward("shop", answers[f"k{i}"][1].decision_id, float(rng.random() < 0.5))
        client.close()
    with opened(path) as service:  # served() ends with SIGKILL
        assert len(set(digests(service, "shop"))) == 1
        loop = service.loops.get("shop")
        assert (loop.state.decided, len(loop.pending)) == (30, 15)
        for key, (context, answer) in answers.items():
            again = decide(service, "shop", key=key, context=context)
            assert (again.decision_id, again.arm, again.reason) == (
                answer.decision_id,
                answer.arm,
                answer.reason,
            )


def test_both_clients_ask_in_a_context_and_are_told_why(tmp_path: Path) -> None:
    saved = tmp_path / "clicks.npz"
    from linoto.logs.saved import SavedLog

    SavedLog.of_moments(RECIPE, log_of(), source="clicks.csv").save(saved)
    with served(tmp_path / "x.sqlite") as server:
        with server.client() as client:
            make(client, recipe=None, moments=None, saved=linoto.load(saved), practice="given")
            made = client.decide("shop", context=CONTEXT, allowed=["A", "C"], practice={"A": 0.5, "C": 0.5})
            assert made.arm in ("A", "C") and made.reason
            (result,) = client.rewards("shop", [(made.decision_id, 1.0)])
            assert result.status == "applied"
            for wrong, status in (
                ({"age": [1]}, 422),
                ({**CONTEXT, "age": None}, 422),
                ({**CONTEXT, "age": 1e300}, 400),
                ({**CONTEXT, "x": 1}, 422),
            ):
                with pytest.raises(ServiceError) as refusal:
                    client.decide("shop", context=wrong, practice="C")  # type: ignore[arg-type]
                assert refusal.value.status == status
            assert client.spec("shop")["recipe"]["items"] == ["A", "B", "C"]
            assert client.explain("shop", made.decision_id)["context"] == CONTEXT

        async def ask() -> str:
            async with AsyncClient(server.url) as other:
                again = await other.decide("shop", context=CONTEXT, practice="C", proposal="A")
                return again.arm

        assert asyncio.run(ask()) in ("A", "C")


def test_an_export_is_a_log_with_contexts(tmp_path: Path) -> None:
    """Read back with the recipe of the loop, it gives the sums of what was played and earned."""
    rng, rows, rewards = np.random.default_rng(1), [], []
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICIES["random"])
        for i in range(80):
            context = context_of(rng)
            made = decide(service, context=context)
            if i < 70:
                value = float(rng.random() < likes(made.arm, context["country"]))
                reward(service, made.decision_id, value)
                rows.append(RECIPE.transform(context, [made.arm])[0])
                rewards.append(value)
        loop = service.loops.get("loop")
        (tmp_path / "log.parquet").write_bytes(b"".join(parquet(service.store, loop, pending=False)))
    found = linoto.read_log(
        tmp_path / "log.parquet", reward="reward", recipe=RECIPE, propensity="propensity", time="time"
    )
    wanted = linoto.Moments.from_rows(np.array(rows), rewards)
    assert found.moments.count == 70 and np.allclose(found.moments.gram, wanted.gram)
    assert np.allclose(found.moments.reward_vector, wanted.reward_vector)
    assert found.propensities is not None and (found.propensities.low, found.propensities.high) == (
        1 / 3,
        1 / 3,
    )


def test_a_field_of_the_context_keeps_its_name_in_an_export(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    recipe = linoto.Recipe(
        items=("A", "B"),
        item="action",
        context=(linoto.Numeric(name="time"), linoto.Category(name="source", levels=("ad",))),
    )
    with (
        opened(tmp_path / "x.sqlite") as service,
        TestClient(service.app, base_url="http://127.0.0.1") as http,
    ):
        spec = {"recipe": recipe.to_dict(), "policy": {"type": "LinUCB"}, "default_reward": 0.0}
        assert http.put("/v1/loops/loop", json=spec).status_code == 200
        body = {"context": {"time": "7.5", "source": "ad"}}
        made = http.post("/v1/loops/loop/decide", json=body).json()
        http.put(f"/v1/loops/loop/decisions/{made['decision_id']}/reward", json={"reward": 1})
        table = pq.read_table(io.BytesIO(http.get("/v1/loops/loop/export").content)).to_pylist()[0]
        assert (table["time"], table["source"], table["action"]) == (7.5, "ad", made["arm"])
        assert table["decision_source"] == "explorer" and table["reward"] == 1.0
        assert set(columns_of(service.loops.get("loop"))) == set(table)


def test_rewards_that_are_late_are_learnt_in_the_order_of_their_events(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock, snapshot_every=5) as service:
        create(service, policy=POLICIES["coin"])
        made = [decide(service, context=CONTEXT).decision_id for _ in range(12)]
        for decision_id in reversed(made):
            reward(service, decision_id, 1.0)
        assert not service.loops.get("loop").pending and len(set(digests(service))) == 1


def test_true_and_false_are_the_numbers_1_and_0_in_a_request_as_in_a_log(tmp_path: Path) -> None:
    """A field of numbers reads them alike wherever they stand, in JSON, in CSV, and as text."""
    (tmp_path / "log.csv").write_text("item,member,r\n" + "A,true,1\nB,false,0\nA,1,1\nB,0,0\n" * 50)
    read: Any = {"item": "item", "reward": "r", "numeric": ["member"], "curves": False}
    log = linoto.read_log(str(tmp_path / "log.csv"), **read)
    for same in ((True, 1, "true", "1"), (False, 0, "false", "0")):
        rows = [log.recipe.transform({"member": value}, ["A", "B"]) for value in same]
        assert all(np.array_equal(row, rows[0]) for row in rows)
