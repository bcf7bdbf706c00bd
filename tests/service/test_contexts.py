"""A loop with contexts: asked with who is asking, explained, stored, and read back bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.loops import change, decide, digests, reward
from helpers.loops_with_contexts import (
    CLICKS,
    POLICIES,
    RECIPE,
    context_of,
    create,
    likes,
    log_of,
    run_traffic,
)
from helpers.service_process import FakeClock, close_due, opened
from helpers.service_process import create as create_fixed
from scipy.stats import binom

import linoto
from linoto.service.errors import Refused
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.context_arms import ContextArms
from linoto.service.loops.events import DECISIONS, DecisionMade
from linoto.service.loops.explanations import explain, recent
from linoto.service.loops.recipe_spec import as_spec, as_statistics
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.views import certificate, loop_view
from linoto.service.server import Service
from linoto.service.storage import sql
from linoto.service.storage.places import Place

YOUNG_GERMAN = {"age": 25, "country": "DE"}


def event_of(service: Service, decision_id: str) -> DecisionMade:
    number = int(decision_id.split("-")[1])
    row = service.store.read_database(lambda c: sql.event_of_decision(c, 1, number))
    assert row is not None
    return DECISIONS.decode(row[1])


# -- stored and replayed


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(2)
def test_state_is_the_fold_of_its_events_bit_for_bit(place: Place, name: str) -> None:
    """Proposals, candidates, every mode, rewards that are late, lost or repeated; and after a restart."""
    clock = FakeClock()
    with opened(place, clock=clock, snapshot_every=7) as service:
        create(service, window=10.0, policy=POLICIES[name], practice="given")
        run_traffic(service, clock, given=True)
        memory, short, long = digests(service)
        assert memory == short == long
    with opened(place, clock=clock) as service:
        assert set(digests(service)) == {memory}
        run_traffic(service, clock, rounds=10, seed=6, given=True)
        assert len(set(digests(service))) == 1


def test_a_loop_does_what_an_agent_does(any_place: Place) -> None:
    """The same policy, recipe and log, without a service: the same arms, propensities and estimate."""
    agent = POLICIES["model"].start(log_of(), features=RECIPE, rng=0)
    rng = np.random.default_rng(3)
    with opened(any_place) as service:
        create(service)
        for _ in range(60):
            context, arms = context_of(rng), ["A", "C"] if rng.random() < 0.3 else None
            wanted = agent.decide(context=context, allowed=arms, practice="C")
            made = decide(service, context=context, arms=arms)
            assert (made.arm, made.mode, made.budget) == (wanted.name, wanted.mode, wanted.budget)
            known, event = agent.interval(wanted.action), event_of(service, made.decision_id)
            assert np.allclose((event.lcb, event.ucb), known)
            assert np.allclose((made.lcb, made.ucb), np.clip(known, 0.0, 1.0)), "shown within the range"
            value = float(rng.random() < likes(made.arm, context["country"]))
            agent.update(wanted, value)
            reward(service, made.decision_id, value)
        loop = service.loops.get("loop")
        assert (loop.agent.theta == agent.theta).all()
        assert loop.state.groups["explore"].plays > 5


def test_an_arm_that_gave_way_says_so_and_is_replayed(any_place: Place) -> None:
    """No coin is thrown for it, practice is what was played, and the events give back what was foreseen."""
    rng, found = np.random.default_rng(4), []
    with opened(any_place) as service:
        create(service, policy=POLICIES["cheap coin"], practice="given")
        for _ in range(150):
            context = context_of(rng)
            made = decide(service, context=context, practice={"A": 0.4, "B": 0.3, "C": 0.3})
            event = event_of(service, made.decision_id)
            if event.control_share is None and event.arm != event.favourite:
                found.append(made.decision_id)
                assert made.mode == "safe" and 0 < (made.propensity or 0) <= 1
            reward(service, made.decision_id, float(rng.random() < likes(made.arm, context["country"])))
        assert service.loops.get("loop").agent.running.run["foreseen"] > 10
        assert len(set(digests(service))) == 1
        loop = service.loops.get("loop")
        explained = service.store.read_database(lambda c: explain(c, loop, found[-1]))
        said = explained.reasons
    assert len(found) > 1
    assert explained.affordable and explained.budget > 0, "it could have been afforded"
    assert said[1].startswith("It is expected to gain too little over ") and said[1].endswith(" is played.")
    assert said[-1].endswith(" was played as the safe arm: it is what current practice plays in this round.")


def test_a_lost_reward_and_an_expired_one_are_learnt_from_as_such(any_place: Place) -> None:
    clock = FakeClock()
    with opened(any_place, clock=clock) as service:
        create(service, window=10.0, policy=POLICIES["coin"])
        made = [decide(service, context=YOUNG_GERMAN).decision_id for _ in range(8)]
        clock.now += 10.0
        assert close_due(service) == 8
        assert reward(service, made[0], 1.0).status == "expired"
        agent = service.loops.get("loop").agent
        assert (agent.rounds, agent.rewards, agent.awaited) == (8, 8, 0)
        assert agent.running.run["lost_sum"] > 0
        shown = [(arm.mean, arm.lcb, arm.ucb) for arm in arm_views(service.loops.get("loop"))]
        assert set(shown) == {(None, None, None)}, "nobody knows what they earned"
        assert len(set(digests(service))) == 1


def test_a_coin_that_was_thrown_is_committed_with_candidates_too(any_place: Place) -> None:
    """The decision that the agent holds is the one that the event gives back, arm by arm."""
    with opened(any_place) as service:
        create(service, policy=POLICIES["coin"])
        sources = {
            event_of(service, decide(service, context=YOUNG_GERMAN, arms=["C", "A"]).decision_id).source
            for _ in range(40)
        }
        assert {"explorer", "control"} <= sources
        assert service.loops.get("loop").agent.rounds == 40


# -- what is asked


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": (
        {"context": {**YOUNG_GERMAN, "countri": "DE"}},
        "fields of the recipe only, got 'countri'",
    ),
    "missing field": ({"context": {"age": 25}}, "must have the field 'country' .*, got none"),
    "no context": ({}, "must have the field 'age' .a finite number., got none"),
    "wrong type": ({"context": {**YOUNG_GERMAN, "age": "old"}}, "'age' must be a finite number, got 'old'"),
    "unknown item": (
        {"context": YOUNG_GERMAN, "arms": ["A", "X"]},
        "among the 3 items, got 'X'",
    ),
    "no practice left": (
        {"context": YOUNG_GERMAN, "arms": ["A"]},
        "arms must hold an item that practice plays",
    ),
    "arms twice": (
        {"context": YOUNG_GERMAN, "allowed": ["A"], "arms": ["A"]},
        "arms must be given once, as arms or as allowed, got both",
    ),
    "practice": ({"context": YOUNG_GERMAN, "practice": "A"}, "practice must be left out: this loop knows"),
    "proposal": ({"context": YOUNG_GERMAN, "proposal": "X"}, "arm must be one of loop 'loop', got 'X'"),
    "proposal elsewhere": (
        {"context": YOUNG_GERMAN, "proposal": "B", "arms": ["A", "C"]},
        "proposal must be among the arms of the decision, got 'B'",
    ),
}


def test_what_is_wrong_with_a_question_is_said_in_a_sentence_and_changes_nothing(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service)
        before = digests(service)
        for question, message in WRONG.values():
            with pytest.raises(Refused, match=message) as refusal:
                decide(service, **question)
            assert refusal.value.status == 422 and "\n" not in refusal.value.message
        assert digests(service) == before


def test_practice_that_is_given_must_be_sent_and_is_checked(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, practice="given")
        for practice, message in (
            (None, "practice must be sent with each decision"),
            ("X", "practice must be among the 3 items"),
            ({"A": 0.5, "B": 0.2}, "sum to 1"),
            ({}, "practice must be at least one item"),
        ):
            with pytest.raises(Refused, match=message):
                decide(service, context=YOUNG_GERMAN, practice=practice)
        decide(service, context=YOUNG_GERMAN, practice={"A": 0.5, "B": 0.5})
        assert event_of(service, "1-1").practice == [(0, 0.5), (1, 0.5)]


def test_practice_that_loses_an_arm_plays_the_others_in_its_proportions(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, practice={"A": 0.5, "B": 0.3, "C": 0.2}, mode="safe-only")
        made = decide(service, context=YOUNG_GERMAN, arms=["B", "C"])
        assert event_of(service, made.decision_id).practice == [(1, 0.6), (2, 0.4)]
        assert made.propensity == {"B": 0.6, "C": 0.4}[made.arm]


def test_the_same_key_gets_the_same_answer_and_another_question_is_refused(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service)
        first = decide(service, key="k", context=YOUNG_GERMAN, arms=["A", "C"])
        assert (
            decide(service, key="k", context=dict(reversed(YOUNG_GERMAN.items())), arms=["C", "A"]) == first
        )
        for other in (
            {"context": {"age": 26, "country": "DE"}, "arms": ["A", "C"]},
            {"context": YOUNG_GERMAN},
            {"context": YOUNG_GERMAN, "arms": ["A", "C"], "proposal": "A"},
        ):
            with pytest.raises(Refused, match="was used with another"):
                decide(service, key="k", **other)
        assert service.loops.get("loop").state.decided == 1


# -- what a loop is made from


SPECS: dict[str, tuple[dict[str, Any], str]] = {
    "arms": (
        {"offline": LogStatistics(pulls=[1], reward_sums=[1.0])},
        "offline must be left out in a loop with a recipe",
    ),
    "no practice": ({"practice": None}, "practice must be given for a Tolerance gate, got none"),
    "unknown practice": ({"practice": "X"}, "practice must be among the 3 items"),
    "holdback": (
        {"holdback": 0.1, "policy": POLICIES["open"], "practice": None},
        "holdback must be 0 where practice is not known",
    ),
    "gate": ({"policy": linoto.LinOtO()}, "gate must be Open, Closed, Tolerance or Control with contexts"),
    "moments": ({"moments": as_statistics(linoto.Moments.empty(3))}, "d|features"),
    "noise": (
        {
            "policy": linoto.Gated(
                gate=linoto.Tolerance(budget=5.0, evidence="model"),
                confidence=linoto.Confidence(noise=0.01, bound=5.0),
            )
        },
        "noise must be at least",
    ),
}


def test_a_loop_that_cannot_work_is_not_made(any_place: Place) -> None:
    with opened(any_place) as service:
        for changes, message in SPECS.values():
            with pytest.raises(Refused, match=message):
                create(service, **changes)
        assert not service.loops.by_name


def test_a_loop_without_a_log_plays_practice_until_it_may_lose_something(any_place: Place) -> None:
    careful = replace(POLICIES["model"], gate=linoto.Tolerance(budget=0.01, evidence="model"))
    with opened(any_place) as service:
        create(service, moments=None, policy=careful, practice={"B": 0.5, "C": 0.5})
        made = decide(service, context=YOUNG_GERMAN)
        assert made.arm in ("B", "C") and made.mode == "safe" and made.because == []
        assert made.reason is not None
        assert made.reason.endswith("as the safe arm: it is what current practice plays in this round.")


# -- why


def test_a_decision_is_explained_by_the_part_of_the_context_that_makes_the_difference(
    any_place: Place,
) -> None:
    with opened(any_place) as service:
        create(
            service,
            policy=linoto.Gated(
                explorer=linoto.Greedy(),
                gate=linoto.Tolerance(budget=40.0, evidence="model"),
                confidence=CLICKS,
            ),
        )
        german = decide(service, context={"age": 40, "country": "DE"})
        norwegian = decide(service, context={"age": 40, "country": "NO"})
        assert (german.arm, norwegian.arm) == ("A", "B")
        assert german.because[0].part == "country=DE" and norwegian.because[0].part == "country=NO"
        assert german.reason is not None
        assert (
            german.reason.startswith("A is expected to earn 0.")
            and "because of country=DE (+0." in german.reason
        )
        loop = service.loops.get("loop")
        why = service.store.read_database(lambda c: explain(c, loop, german.decision_id))
        assert why.context == {"age": 40, "country": "DE"} and why.practice == {"C": 1.0}
        assert german.reason in why.reasons and why.because == german.because
        row = service.store.read_database(lambda c: recent(c, loop, None, 5))[0]
        assert row.context == {"age": 40, "country": "NO"}


def test_a_gain_of_many_small_parts_is_said_to_be_one(any_place: Place) -> None:
    """Eight fields add 0.1 each, the three largest take 0.2: none of those that are kept speaks for A."""
    effects = {f"f{place}": 0.1 if place < 8 else -0.2 for place in range(11)}
    recipe = linoto.Recipe(
        items=("A", "B"),
        context=tuple(linoto.Numeric(name=name) for name in effects),
        crosses=tuple(("item", name) for name in effects),
    )
    rng, rows, rewards = np.random.default_rng(0), [], []
    for _ in range(1000):
        values, item = rng.choice([-1.0, 1.0], 11), str(rng.choice(["A", "B"]))
        rows.append(recipe.transform(dict(zip(effects, values, strict=True)), [item])[0])
        rewards.append(0.5 + (item == "A") * float(values @ list(effects.values())) / 10)
    with opened(any_place) as service:
        moments = as_statistics(linoto.Moments.from_rows(np.array(rows), rewards))
        greedy = linoto.Gated(explorer=linoto.Greedy(), gate=linoto.Open(), confidence=CLICKS)
        create(service, policy=greedy, recipe=as_spec(recipe), moments=moments, practice="B")
        made = decide(service, context=dict.fromkeys(effects, 1.0))
        assert made.arm == "A" and [part.amount < 0 for part in made.because] == [True] * 3
        assert made.reason is not None and made.reason.startswith("A is expected to earn 0.0")
        assert made.reason.endswith(
            "more than B, current practice: many small parts of the context add up to that."
        )


def test_the_parts_of_an_explanation_add_up_to_what_is_expected(any_place: Place) -> None:
    """By hand: the difference of the two actions times the estimate, feature by feature."""
    with opened(any_place) as service:
        create(service)
        made = decide(service, context=YOUNG_GERMAN)
        agent, arms = service.loops.get("loop").agent, service.loops.get("loop").arms
        event = event_of(service, made.decision_id)
        played, practice = RECIPE.transform(YOUNG_GERMAN, [made.arm, "C"])
        by_name = dict(zip(RECIPE.names, agent.theta * (played - practice), strict=True))
        assert event.gain == pytest.approx(sum(by_name.values()))
        found = {each.part: each.amount for each in event.because}
        country = sum(value for name, value in by_name.items() if name.endswith("country=DE"))
        age = sum(value for name, value in by_name.items() if name.endswith("age"))
        itself = sum(value for name, value in by_name.items() if name in ("item=A", "item=B", "item=C"))
        assert found == pytest.approx(
            {"country=DE": country, "age=25 (15 less than usual)": age, "the arm itself": itself}
        )
        assert isinstance(arms, ContextArms) and arms.parts[0][0] == ()


# -- how likely, and how it is seen


@pytest.mark.parametrize("name", ["coin", "random"])
@pytest.mark.parametrize("proposal", [None, "B"])
@pytest.mark.few(1)
def test_arms_are_played_as_often_as_their_propensity_says(
    any_place: Place, name: str, proposal: str | None
) -> None:
    """120 decisions, each arm's count within its binomial limits; false alarms: 3 x 4 x 1e-6."""
    practice = {"A": 0.3, "C": 0.7}
    with opened(any_place) as service:
        create(service, policy=POLICIES[name], practice=practice)
        chances, plays = np.zeros(3), np.zeros(3)
        for _ in range(120):
            loop = service.loops.get("loop")
            agent, question = loop.agent, loop.arms.question(YOUNG_GERMAN, None, None)
            wanted = None if proposal is None else 1
            chances += [
                agent.propensity(arm, proposal=wanted, redraws=0, **question.asked) or 0.0 for arm in range(3)
            ]
            made = decide(service, context=YOUNG_GERMAN, proposal=proposal)
            plays["ABC".index(made.arm)] += 1
        assert chances.sum() == pytest.approx(120)
        for arm in range(3):
            low, high = binom.ppf([5e-7, 1 - 5e-7], 120, chances[arm] / 120)
            assert low <= plays[arm] <= high


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.few(3)
def test_what_is_shown_is_what_makes_sense_with_contexts(any_place: Place, name: str) -> None:
    clock = FakeClock()
    with opened(any_place, clock=clock) as service:
        create(service, policy=POLICIES[name])
        run_traffic(service, clock, rounds=30)
        loop = service.loops.get("loop")
        view, arms = loop_view(loop), arm_views(loop)
        assert view.context_fields == ["age", "country"]
        assert view.reference is view.expected_by_log is None
        assert (view.evidence_of_drift is None) == (name != "model")  # the log's model is watched there
        assert (view.practice is None) == (
            name not in ("coin", "cheap coin", "Thompson", "by gaps", "clicks, moved")
        )
        assert sum(arm.plays for arm in arms) == 30 and {arm.logged for arm in arms} == {None}
        assert sum(arm.pending for arm in arms) == view.pending
        for arm in arms:
            assert arm.mean is None or arm.lcb is None or arm.ucb is None or arm.lcb <= arm.mean <= arm.ucb
        assert arm_views(loop, 1)[0].plays == max(arm.plays for arm in arms)
        assert certificate(loop)["holds"] == (name not in ("open", "random"))


def test_a_mode_that_plays_safe_plays_practice_and_records_the_rest(any_place: Place) -> None:
    with opened(any_place) as service:
        create(service, policy=POLICIES["coin"], mode="shadow", practice={"B": 0.5, "C": 0.5})
        events = [event_of(service, decide(service, context=YOUNG_GERMAN).decision_id) for _ in range(30)]
        assert {event.arm for event in events} == {1, 2} and {event.propensity for event in events} == {0.5}
        assert {event.source for event in events} == {"practice"} and 0 in {
            event.live_arm for event in events
        }
        change(service, mode="live")
        assert decide(service, context=YOUNG_GERMAN).loop_mode == "live"


def test_a_fixed_loop_refuses_what_is_only_for_contexts(any_place: Place) -> None:
    with opened(any_place) as service:
        create_fixed(service)
        with pytest.raises(Refused, match=r"context must be empty or left out, .* stay the same: got age"):
            decide(service, context={"age": 3})
        with pytest.raises(Refused, match="practice must be left out: this loop knows"):
            decide(service, practice="a")
        made = decide(service, context={}, arms=["a"], key="k")
        assert made.arm == "a" and made.reason is None and made.because == []
        assert decide(service, allowed=["a"], key="k") == made  # the name of `arms` in version 0.2


def test_a_value_that_the_log_never_had_is_named(any_place: Place) -> None:
    """A misspelt word would otherwise be a new level for ever, and nobody would see it."""
    with opened(any_place) as service:
        create(service)
        made = decide(service, context={"age": 25, "country": "de"})
        named = "Nothing is known of country=de: the log has no such level."
        assert made.reason is not None and made.reason.endswith(named)
        why = service.store.read_database(lambda c: explain(c, service.loops.get("loop"), made.decision_id))
        assert why.reasons[-1] == named
        for known in ("DE", None):
            made = decide(service, context={"age": 25, "country": known})
            assert made.reason is not None and "Nothing is known" not in made.reason
        arms = service.loops.get("loop").arms
        assert isinstance(arms, ContextArms)
        country = linoto.Category(name="country", levels=("DE", "NO"))  # a log without missing values
        complete = replace(arms, recipe=replace(RECIPE, context=(RECIPE.context[0], country)))
        assert complete.unseen({"age": 25, "country": None}) == ["country=(missing)"]


def test_a_number_in_other_units_is_named_and_one_that_the_log_could_have_is_not(any_place: Place) -> None:
    """400 rows of ages from 18 to 69, with mean 40 and scale 10: none can be 20 root means square away."""
    with opened(any_place) as service:
        create(service)
        for age, far in ((69, False), (18, False), (45 * 365, True), (-3000, True)):
            made = decide(service, context={"age": age, "country": "DE"})
            assert made.reason is not None and ("are the units right?" in made.reason) == far
            assert not far or f"age={age} is farther from the mean than any row of the log" in made.reason
        create(service, "empty", moments=None)
        assert "units" not in (decide(service, "empty", context={"age": 1e6, "country": "DE"}).reason or "")


@pytest.mark.parametrize("practice", ["C", {"A": 0.25, "C": 0.75}], ids=["an item", "weights"])
def test_where_the_safe_choice_is_the_models_what_is_tried_is_another_item_than_that(
    any_place: Place, practice: Any
) -> None:
    """As with arms that stay the same: the fallback, whether practice draws or not."""
    with opened(any_place) as service:
        create(service, practice=practice, policy=POLICIES["open"])
        agent, context = service.loops.get("loop").agent, {"age": 30, "country": "DE"}
        lowest = {item: agent.interval(RECIPE.transform(context, [item])[0])[0] for item in "ABC"}
        safe = max(lowest, key=lambda item: lowest[item])
        made = [decide(service, context=context, proposal=each).arm for each in "ABCAB"]
        assert made == list("ABCAB") and agent.fallback_source == "lcb"
        assert loop_view(service.loops.get("loop")).tried == sum(arm != safe for arm in made)


@pytest.mark.parametrize("practice", ["C", {"A": 0.25, "C": 0.75}], ids=["an item", "weights"])
def test_what_is_tried_is_another_item_than_practice_would_play(any_place: Place, practice: Any) -> None:
    """Where practice draws and its draw is not shown, by the chance that it is another one."""
    with opened(any_place) as service:
        create(service, practice=practice)
        loop = service.loops.get("loop")
        made = [decide(service, context={"age": 30, "country": "DE"}, proposal=each) for each in "ACAACAC"]
        assert {each.mode for each in made} == {"explore"}
        weights = {"C": 1.0} if practice == "C" else practice
        view = loop_view(loop)
        assert view.tried == pytest.approx(sum(1 - weights.get(each.arm, 0.0) for each in made))
        assert view.groups["explore"].plays == 7
