"""Items that come and go with contexts: one that comes later is one that was there and never offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto

SMALL = linoto.Recipe(
    items=("A", "B", "C"),
    context=(
        linoto.Numeric(name="age", mean=40.0, scale=10.0),
        linoto.Category(name="country", levels=("DE", "NO")),
    ),
    crosses=(("country", "item"), ("item", "age")),
)
LARGE = SMALL.with_items(["D"])
PLACES = SMALL.places_in(LARGE)
KNOWN = linoto.Recipe(
    items=("A", "B"),
    item_columns=(linoto.columns.ItemColumn(name="price", labels=("price",), values=((1.0,), (2.0,))),),
    context=SMALL.context,
    crosses=(("price", "age"),),
    item_effects=False,
)
OWN = linoto.OwnFeatures(items=("A", "B", "C"), width=3)
WIDE = linoto.OwnFeatures(items=("A", "B", "C"), width=30)  # enough for blocks
KINDS: dict[str, Any] = {"recipe": SMALL, "own": OWN, "own, in blocks": WIDE}
SURE = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0, ridge=1.5)
UCB = linoto.LinUCB()  # draws of LinTS would differ with the number of features
POLICIES = {
    "model": linoto.Gated(
        explorer=UCB, gate=linoto.Tolerance(budget=9.0, epsilon=0.05, evidence="model"), confidence=SURE
    ),
    "coin": linoto.Gated(explorer=UCB, gate=linoto.Control(budget=9.0, epsilon=0.05), confidence=SURE),
    "loan": linoto.Gated(
        explorer=UCB,
        gate=linoto.Control(budget=4.0, epsilon=0.05, loan=5.0, promise="expected"),
        confidence=SURE,
    ),
    "open": linoto.LinUCB(scale=1.0, confidence=SURE),
    "forgets": linoto.LinUCB(scale=1.0, memory=15, confidence=SURE),
    "fades": linoto.LinUCB(scale=1.0, discount=0.98, confidence=SURE),
    "moved": linoto.LinUCB(scale=1.0, confidence=replace(SURE, shift=0.1)),
    "moved, model": linoto.Gated(
        explorer=linoto.LinUCB(scale=1.0),
        gate=linoto.Tolerance(budget=9.0, evidence="model"),
        confidence=replace(SURE, shift=0.1),
    ),
    "clicks": linoto.LogisticTS(scale=0.0, confidence=SURE),
}


def context_of(rng: np.random.Generator, features: Any = SMALL) -> Any:
    if isinstance(features, linoto.OwnFeatures):
        return rng.random(features.width) / features.width**0.5
    return {"age": int(rng.integers(18, 70)), "country": str(rng.choice(["DE", "NO", "FR"]))}


def log_of(features: Any, rows: int = 60) -> linoto.Moments:
    rng = np.random.default_rng(0)
    played = [
        features.transform(context_of(rng, features), [str(rng.choice(["A", "B"]))])[0] for _ in range(rows)
    ]
    return linoto.Moments.from_rows(played, rng.random(rows))


def test_a_name_alone_is_one_item() -> None:
    agent = linoto.LinUCB(scale=1.0).start(None, features=linoto.Recipe(items=("news", "sport")))
    agent.add_arms("music")
    agent.remove_arms("sport")
    assert agent.features.items == ("news", "sport", "music") and agent.removed == {"sport"}


def test_the_features_from_before_are_found_in_the_larger_recipe() -> None:
    assert [LARGE.names[place] for place in PLACES] == list(SMALL.names)
    assert (np.diff(PLACES) > 0).all()
    context = {"age": 33, "country": "NO"}
    assert np.array_equal(LARGE.transform(context, ["B"])[0][PLACES], SMALL.transform(context, ["B"])[0])
    assert np.allclose(log_of(SMALL).with_features(PLACES, LARGE.d).gram, log_of(LARGE).gram)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_item_that_comes_later_is_one_that_was_always_there_and_never_offered(
    name: str, kind: str
) -> None:
    """Decision by decision, with rewards that come late across the change, and lost ones."""
    small = KINDS[kind]
    large = small.with_items(["D"])
    later = POLICIES[name].start(log_of(small), features=small, rng=1)
    always = POLICIES[name].start(log_of(large), features=large, rng=1)
    rng, late = np.random.default_rng(2), []
    for number in range(70):
        if number == 25:
            later.add_arms(["D"])
        context, offered = context_of(rng, small), list("ABC") if number < 25 else list("ABCD")
        asked = {"context": context, "allowed": offered, "practice": "B"}
        one, other = later.decide(**asked), always.decide(**asked)
        assert (one.arm, one.mode, one.source) == (other.arm, other.mode, other.source)
        assert one.budget == (None if other.budget is None else pytest.approx(other.budget, abs=1e-6))
        for agent, decision in ((later, one), (always, other)):
            agent.commit(decision)
        late.append((one, other))
        if number % 2:
            first, second = late.pop(int(rng.integers(len(late))))
            reward = float(rng.random())
            learn = "lose" if number % 11 == 0 else "observe"
            getattr(later, learn)(first, reward)
            getattr(always, learn)(second, reward)
        if number % 9 == 0:
            later = linoto.restore(later.snapshot(), features=small)
    assert later.theta == pytest.approx(always.theta, abs=1e-9)
    assert np.allclose(later.ellipsoid.V, always.ellipsoid.V, atol=1e-9)
    assert later.ellipsoid.radius == pytest.approx(always.ellipsoid.radius, rel=1e-12)


def test_one_hot_items_are_the_arms_of_an_agent_with_fixed_arms() -> None:
    items = linoto.Recipe(items=("A", "B", "C"), intercept=False)
    contextual = linoto.LinUCB(scale=1.0, confidence=SURE).start(d=3, features=items)
    fixed = linoto.LinUCB(scale=1.0, confidence=SURE).start(np.eye(3), linoto.Offline.empty(3))
    rng = np.random.default_rng(3)
    for number in range(40):
        if number == 12:
            contextual.add_arms(["D"], bound=2.0**0.5 * 2)
            fixed.add_arms(np.eye(4)[3:], bound=2.0**0.5 * 2)
        if number == 24:
            contextual.remove_arms(["B"])
            fixed.remove_arms([1])
        decision, arm = contextual.decide(context={}), fixed.select()
        assert items.with_items(["D"]).items[arm] == decision.name
        reward = float(rng.random())
        contextual.update(decision, reward)
        fixed.update(arm, reward)
    assert contextual.theta == pytest.approx(fixed.theta, abs=1e-12)


@pytest.mark.few(3)
@pytest.mark.parametrize("explorer", [linoto.LinTS(), linoto.Random(), linoto.LinTS(memory=8)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_between_any_two_steps_has_the_same_future(explorer: Any, kind: str) -> None:
    policy = linoto.Gated(explorer=explorer, gate=linoto.Control(budget=30.0), confidence=SURE)
    rng, agents, small = np.random.default_rng(4), [], KINDS[kind]
    for restored in (False, True):
        agent, draws = policy.start(log_of(small), features=small, rng=5), np.random.default_rng(6)
        for number in range(30):
            if number == 10:
                agent.add_arms(["D"])
            if number == 20:
                agent.remove_arms(["A", "D"])
            context = context_of(np.random.default_rng(number), small)
            decision = agent.decide(context=context, practice="C")
            agent.update(decision, float(draws.random()))
            if restored:
                agent = linoto.restore(agent.snapshot(), features=[small, agent.features][number % 2])
        agents.append(agent)
    assert agents[0].snapshot() == agents[1].snapshot()
    plain = linoto.restore(agents[0].snapshot())  # who brings actions needs no recipe
    actions = agents[0].features.transform(context_of(rng, small), ["B", "C"])
    assert plain.decide(actions=actions, practice=1).action in (tuple(actions[0]), tuple(actions[1]))


def test_where_items_are_known_by_columns_a_new_one_changes_nothing_but_the_choice() -> None:
    agent = POLICIES["model"].start(log_of(KNOWN), features=KNOWN)
    before = agent.theta
    agent.add_arms(["C"], values=[[3.0]])
    assert agent.d == KNOWN.d and np.array_equal(agent.theta, before)
    row = agent.features.transform({"age": 50, "country": "DE"}, ["C"])[0]
    assert row[KNOWN.names.index("price")] == 3.0 and row[KNOWN.names.index("price × age")] == 3.0
    assert agent.certificate.changes == ("since round 1, with C",)
    with pytest.raises(
        ValueError, match="features of new items must have a number for each of 'price', got 0 numbers"
    ):
        agent.add_arms(["D"])
    with pytest.raises(ValueError, match="bound must be None where no feature is new"):
        agent.add_arms(["D"], values=[[1.0]], bound=9.0)


def test_a_removed_item_is_not_played_again_and_its_late_reward_counts() -> None:
    agent = POLICIES["coin"].start(log_of(SMALL), features=SMALL, rng=0)
    rng = np.random.default_rng(7)
    owed = agent.guard(0, context=context_of(rng), practice="B")
    agent.commit(owed)
    agent.remove_arms(["A"])
    for _ in range(30):
        decision = agent.decide(context=context_of(rng), practice="B")
        assert decision.name in ("B", "C")
        agent.update(decision, 0.5)
    assert agent.awaited == 1
    agent.observe(owed, 1.0)
    assert agent.awaited == 0 and agent.removed == {"A"}


def test_a_decision_from_before_its_item_was_removed_is_refused() -> None:
    agent = POLICIES["open"].start(log_of(SMALL), features=SMALL)
    asked = {"context": {"age": 30, "country": "DE"}}
    stale = agent.decide(**asked, allowed=["A"])
    agent.remove_arms(["A"])
    before = agent.snapshot()
    for play in (lambda: agent.commit(stale), lambda: agent.update(stale, 1.0)):
        with pytest.raises(ValueError, match="got 'A', which was removed: ask again"):
            play()
    assert agent.snapshot() == before
    agent.update(agent.decide(**asked), 1.0)


def test_what_cannot_be_changed_is_refused_with_the_reason() -> None:
    agent = POLICIES["coin"].start(log_of(SMALL), features=SMALL, rng=0)
    for names, reason in (
        (["X"], "arms must be among the 3 items"),
        (["A", "B", "C"], "got all of them"),
    ):
        with pytest.raises(ValueError, match=reason):
            agent.remove_arms(names)
    with pytest.raises(ValueError, match="'A' twice"):
        agent.add_arms(["A"])
    with pytest.raises(ValueError, match="the recipe has no columns of items"):
        agent.add_arms(["D"], values=[[1.0]])
    with pytest.raises(ValueError, match="bound must be at least 2, as before, got 1"):
        agent.add_arms(["D"], bound=1)
    agent.remove_arms("A")
    with pytest.raises(ValueError, match="'A', which was removed before"):
        agent.remove_arms(["A"])
    with pytest.raises(ValueError, match="'A', which was removed"):
        agent.decide(context={"age": 1, "country": "DE"}, allowed=["A", "B"], practice="B")
    thrown = agent.guard(1, context={"age": 1, "country": "DE"}, practice="B")
    assert thrown.control_share is not None
    with pytest.raises(ValueError, match="the coin of this round is thrown"):
        agent.add_arms(["D"])
    with pytest.raises(ValueError, match="started without features"):
        POLICIES["open"].start(d=3).add_arms(["D"])


def test_items_of_own_features_are_refused_with_the_reason() -> None:
    agent = linoto.LinUCB().start(None, features=OWN)
    with pytest.raises(ValueError, match="context must be given, from which"):
        agent.decide()
    for names, values, reason in (
        (["A"], None, "names must be 4 distinct names, got 4 with 3 distinct: 'A' more than once"),
        ([], None, "items must be at least one name, got none"),
        (["D"], [[1.0]], "must be left out: OwnFeatures knows items by name alone"),
    ):
        with pytest.raises(ValueError, match=reason):
            agent.add_arms(names, values=values)
    with pytest.raises(ValueError, match="'X'"):
        agent.remove_arms(["X"])
    with pytest.raises(ValueError, match="items must be names, got 'AB', which is one"):
        linoto.OwnFeatures(items="AB", width=2)  # type: ignore[arg-type]
    agent.add_arms("D")
    agent.remove_arms("A")
    assert agent.decide(context=[1.0, 0.0, 0.0]).name in "BCD" and agent.d == 12


def test_the_certificate_says_what_came_and_what_is_assumed_of_it() -> None:
    for name, said in (("model", ", |theta| <= 2 is assumed with them"), ("coin", "")):
        agent = POLICIES[name].start(log_of(SMALL), features=SMALL, rng=0)
        agent.add_arms(["D"])
        agent.remove_arms(["A"])
        assert agent.certificate.changes == (
            f"since round 1, with D: 4 more features{said}",
            "since round 1, without A",
        )
        assert agent.certificate.holds
