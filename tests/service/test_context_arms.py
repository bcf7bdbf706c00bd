"""Items that come and go in a loop with contexts: events like any other, replayed bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.loops import add_arms, decide, digests, remove_arms, reward
from helpers.loops_with_contexts import (
    CLICKS,
    POLICIES,
    RECIPE,
    context_of,
    create,
    log_of,
    run_traffic,
    spec_of,
)
from helpers.service_process import FakeClock, opened, served

import linoto
from linoto.cli import main
from linoto.client import ServiceError
from linoto.logs.saved import SavedLog
from linoto.service.errors import Refused
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.loop import Loop
from linoto.service.loops.recipe_spec import RecipeSpec, as_statistics
from linoto.service.loops.views import certificate, loop_view
from linoto.service.storage.places import Place
from linoto.service.web.export import parquet

GERMAN = {"age": 25, "country": "DE"}
PRICED = linoto.Recipe(
    items=("A", "B", "C"),
    item_columns=(
        linoto.columns.ItemColumn(name="price", labels=("price",), values=((1.0,), (2.0,), (3.0,))),
    ),
    context=RECIPE.context,
    crosses=(("price", "country"),),
    item_effects=False,
)


@pytest.mark.parametrize("name", ["model", "Thompson"])
@pytest.mark.parametrize("version", [5, 7])
def test_a_loop_with_many_items_keeps_the_order_of_its_version(
    any_place: Place, name: str, version: int
) -> None:
    """Up to version 5 all features are one block, later those of each item; replays give the same bits."""
    many, clock = RECIPE.with_items(list("DEFGHIJKLMNOP")), FakeClock()
    log = log_of().with_features(RECIPE.places_in(many), many.d)
    parts: dict[str, Any] = {
        "recipe": msgspec.convert(many.to_dict(), RecipeSpec),
        "moments": as_statistics(log),
    }
    spec = msgspec.structs.replace(spec_of(POLICIES[name], window=10.0, **parts), version=version)
    with opened(any_place, clock=clock, snapshot_every=7) as service:
        service.store.write_sync(lambda c: service.loops.create(c, Loop.fresh("loop", spec)))
        run_traffic(service, clock, rounds=25)
        add_arms(service, "Q", "R")
        run_traffic(service, clock, rounds=15, seed=6)
        assert len(set(digests(service))) == 1
        agent: Any = service.loops.get("loop").agent
        assert (agent.running.run["border"] > 0) == (version > 5)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(2)
def test_a_loop_whose_items_changed_is_the_fold_of_its_events(any_place: Place, name: str) -> None:
    """With rewards that come across the changes, lost ones, and a restart."""
    clock = FakeClock()
    with opened(any_place, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0, policy=POLICIES[name], practice={"B": 0.5, "C": 0.5})
        run_traffic(service, clock, rounds=15)
        owed = decide(service, context=GERMAN)
        add_arms(service, "D", "E")
        run_traffic(service, clock, rounds=15, seed=6)
        remove_arms(service, "B", "E")
        assert len(set(digests(service))) == 1
        for _ in range(10):
            assert decide(service, context=GERMAN).arm in "ACD"
        clock.now -= 5.0
        reward(service, owed.decision_id, 1.0)
        (digest,) = set(digests(service))
        assert service.loops.get("loop").names == list("ABCDE")
    with opened(any_place, clock=clock) as service:
        assert set(digests(service)) == {digest}
        loop = service.loops.get("loop")
        assert loop.arm_count == 3 and loop.agent.d == RECIPE.with_items(["D", "E"]).d


def test_practice_that_lost_an_item_is_renormalised_and_it_is_said(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, policy=POLICIES["closed"], practice={"A": 0.5, "B": 0.3, "C": 0.2})
        decide(service, context=GERMAN)
        remove_arms(service, "A")
        made = [decide(service, context=GERMAN) for _ in range(30)]
        assert {(each.arm, round(each.propensity or 0.0, 9)) for each in made} == {("B", 0.6), ("C", 0.4)}
        (change,) = loop_view(service.loops.get("loop")).arm_changes
        assert change.text == "since round 2, without A: practice is what is left of it, 50 % of its weight"
        assert certificate(service.loops.get("loop"))["changes"] == (change.text,)
        assert [arm.present for arm in arm_views(service.loops.get("loop"))] == [False, True, True]
        with pytest.raises(Refused, match="arms must leave an item that practice plays"):
            remove_arms(service, "B", "C")
        assert len(set(digests(service))) == 1


def test_practice_that_is_sent_is_renormalised_too(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, policy=POLICIES["closed"], practice="given")
        remove_arms(service, "A")
        made = decide(service, context=GERMAN, practice={"A": 0.5, "B": 0.5})
        assert (made.arm, made.propensity) == ("B", 1.0)
        with pytest.raises(Refused, match=r"practice must play an arm that is present.* removed: A$"):
            decide(service, context=GERMAN, practice="A")
        with pytest.raises(Refused, match=r"arms must hold one that is present.* removed: A$"):
            decide(service, context=GERMAN, arms=["A"], practice="A")


def test_a_key_is_answered_as_before_whatever_came_or_went_since(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, policy=POLICIES["coin"], practice="given")
        questions: list[dict[str, Any]] = [
            {"key": "all", "context": GERMAN, "practice": {"A": 0.5, "C": 0.5}},
            {"key": "some", "context": GERMAN, "arms": ["A", "C"], "practice": "A"},
            {"key": "asked for", "context": GERMAN, "proposal": "A", "practice": "C"},
        ]
        before = [decide(service, **asked).decision_id for asked in questions]
        remove_arms(service, "A")
        add_arms(service, "D")
        assert [decide(service, **asked).decision_id for asked in questions] == before
        between = decide(service, key="later", context=GERMAN, practice={"A": 0.5, "C": 0.5})
        remove_arms(service, "B")
        again = decide(service, key="later", context=GERMAN, practice={"A": 0.5, "C": 0.5})
        assert again.decision_id == between.decision_id
        with pytest.raises(Refused, match="key 'all' was used with another"):
            decide(service, **{**questions[0], "practice": "C"})


def test_a_new_item_is_tried_and_explained(any_place: Place) -> None:
    """Nothing is known of it, so an optimistic explorer takes it first; the promise stays what it was."""
    with opened(any_place) as service:
        create(service, policy=POLICIES["model"])
        limit = certificate(service.loops.get("loop"))["constant"]
        add_arms(service, "D")
        made = [decide(service, context=GERMAN) for _ in range(5)]
        assert {each.arm for each in made} >= {"D"}
        loop = service.loops.get("loop")
        assert certificate(loop)["constant"] == limit and certificate(loop)["holds"]
        (change,) = loop_view(loop).arm_changes
        assert change.text == "since round 1, with D: 5 more features, |theta| <= 2 is assumed with them"
        add_arms(service, "D")  # again: nothing changes
        assert len(loop_view(loop).arm_changes) == 1


def test_where_items_have_columns_a_new_one_brings_its_numbers(any_place: Place) -> None:
    rng = np.random.default_rng(0)
    rows = [PRICED.transform(context_of(rng), ["A"])[0] for _ in range(50)]
    log = as_statistics(linoto.Moments.from_rows(rows, rng.random(50)))
    with opened(any_place) as service:
        create(service, recipe=msgspec.convert(PRICED.to_dict(), RecipeSpec), moments=log)
        add_arms(service, "D", features=[2.5])
        loop = service.loops.get("loop")
        assert loop.agent.d == PRICED.d
        add_arms(service, "D", features=[2.5])  # again: nothing changes
        with pytest.raises(Refused, match="arm 'D' is or was one of loop"):
            add_arms(service, "D", features=[9.0])
        with pytest.raises(Refused, match="features of new items must have a number for each of 'price'"):
            add_arms(service, "E")
        assert decide(service, context=GERMAN, arms=["C", "D"]).arm in "CD"
        assert len(set(digests(service))) == 1


def test_what_cannot_be_changed_is_refused_and_changes_nothing(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service)
        before = digests(service)
        for job, reason in (
            (lambda: add_arms(service, "D", features=[1.0]), "the recipe has no columns of items"),
            (lambda: remove_arms(service, "X"), "arm must be one of loop 'loop', got 'X'"),
            (lambda: remove_arms(service, "C"), "arms must leave an item that practice plays"),
            (
                lambda: remove_arms(service, "A", fallback="B"),
                "fallback must be None in a loop with contexts",
            ),
            (lambda: add_arms(service, *(f"item {i}" for i in range(1000))), "recipe must make at most"),
        ):
            with pytest.raises(Refused, match=reason):
                job()
        assert digests(service) == before
        remove_arms(service, "A")
        for asked, reason in (
            ({"arms": ["A"]}, "arms must hold an item that"),
            ({"proposal": "A"}, "proposal must be an arm that is present, got 'A', which was removed"),
        ):
            with pytest.raises(Refused, match=reason):
                decide(service, context=GERMAN, **asked)
        with pytest.raises(Refused, match="arm 'A' is or was one of loop"):
            add_arms(service, "A")


def test_an_export_after_a_change_is_a_log_of_the_larger_recipe(tmp_path: Path, any_place: Place) -> None:
    """It adds to the log from before, whose new features were always 0."""
    larger = RECIPE.with_items(["D"])
    with opened(any_place) as service:
        create(service, policy=POLICIES["random"])
        rng = np.random.default_rng(1)
        for number in range(40):
            if number == 20:
                add_arms(service, "D")
            reward(service, decide(service, context=context_of(rng)).decision_id, float(rng.random()))
        loop = service.loops.get("loop")
        (tmp_path / "log.parquet").write_bytes(b"".join(parquet(service.store, loop, pending=False)))
    later = linoto.read_log(tmp_path / "log.parquet", reward="reward", recipe=larger)
    together = log_of().with_features(RECIPE.places_in(larger), larger.d) + later.moments
    assert together.count == 440
    played = later.moments.gram[larger.names.index("item=D"), larger.names.index("item=D")]
    assert played == loop.state.plays[3] > 0


def test_what_was_saved_reads_the_export_of_a_loop_that_has_another_item(
    tmp_path: Path, any_place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some decisions were restricted to items: `allowed` says to which, and is empty for the others."""
    saved, rng = SavedLog.of_moments(RECIPE, log_of()), np.random.default_rng(1)
    with opened(any_place) as service:
        create(service, policy=POLICIES["random"])
        add_arms(service, "D")
        for number in range(60):
            among = {} if number % 3 else {"arms": ["A", "C", "D"]}
            made = decide(service, context=context_of(rng), **among)
            reward(service, made.decision_id, float(made.arm == "D"))
        file = tmp_path / "log.parquet"
        file.write_bytes(b"".join(parquet(service.store, service.loops.get("loop"), pending=False)))
    more = saved.with_items(["D"])
    assert more.recipe == RECIPE.with_items(["D"]) and more.moments.d == more.recipe.d
    later = linoto.read_log(file, reward="reward", recipe=more.recipe)
    assert (more.moments + later.moments).count == 460
    columns = ["--reward", "reward", "--propensity", "propensity", "--candidates", "allowed", "--greedy"]
    main(["evaluate", str(file), "--recipe", str(more.save(tmp_path / "later.npz")), *columns])
    assert "dr" in capsys.readouterr().out
    assert saved.moments.d == RECIPE.d, "what was saved stays as it is"


def test_clients_and_the_model_alarm_know_the_changes(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server, server.client() as client:
        parts = {"recipe": RECIPE, "moments": log_of(), "practice": "C", "default_reward": 0.0}
        client.create("shop", policy=POLICIES["model"], **parts)
        client.decide("shop", context=GERMAN)
        view = client.add_arms("shop", ["D"])
        assert view["arms"] == 4
        made = client.decide("shop", context=GERMAN, allowed=["C", "D"])
        client.reward("shop", made.decision_id, 1.0)
        assert client.remove_arms("shop", ["A"])["arms"] == 3
        assert [arm["present"] for arm in client.arms("shop")] == [False, True, True, True]
        assert client.explain("shop", made.decision_id)["arm"] == made.arm
        with pytest.raises(ServiceError, match="arms must leave an item that practice plays"):
            client.remove_arms("shop", ["C"])
        assert len(client.report("shop")["certificate"]["changes"]) == 2


def test_the_bounds_of_the_models_alarm_are_those_of_the_log_from_before() -> None:
    """New features change nothing about plays that do not have them."""
    from linoto.service.loops.model_watch import ModelClaim

    agent = POLICIES["model"].start(log_of(), features=RECIPE)
    before, played = ModelClaim.of(agent), RECIPE.transform(GERMAN, ["A"])[0] * 30
    agent.add_arms(["D"])
    after, longer = ModelClaim.of(agent), np.zeros(agent.d)
    longer[list(agent.changes[-1].places)] = played
    assert before is not None and after is not None
    assert after.bounds(longer) == pytest.approx(before.bounds(played))
    assert CLICKS.bound == agent.confidence.bound
