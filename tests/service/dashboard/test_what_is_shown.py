"""The numbers of a loop and the sentences about them, in a real browser: nobody is misled."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers.dashboard import (
    LOG,
    Page,
    make_loop,
    play,
)
from helpers.loops_with_contexts import POLICIES, RECIPE, log_of
from helpers.service_process import TOLERANT
from selenium.webdriver.common.by import By

import linoto
from linoto.client import Client

pytestmark = pytest.mark.browser


@pytest.mark.slow
def test_lost_rewards_are_counted_as_lost_and_not_as_a_loss(page: Page, client: Client) -> None:
    make_loop(client, "forgetful", window=3.0, holdback=0.5)
    for _ in range(3):  # in batches: rewards then come without new decisions in between
        made = client.decide_many("forgetful", [{} for _ in range(20)])
        client.rewards("forgetful", [(decision.decision_id, 1.0) for decision in made[::2]])
    page.open("forgetful")
    page.until(lambda: "30 have theirs, 30 lost it" in page.text("[data-pending-note]"))
    view = client.loop("forgetful")
    assert view["lost"] == view["closed"] - view["known"] and view["left_to_lose"] == view["promised_loss"]
    assert "nobody knows the reward: it was lost" in page.text("[data-story]")
    assert "more than the promise allows" not in page.text("body")
    assert "a lost reward may have been any" in page.text("[data-lift-note]")
    drawn = page.one("[data-share-chart] path").get_attribute("d")
    assert drawn.count("M") == 1, "a chart without gaps"
    assert "Across: closed decisions" in page.text("[data-share-chart]"), "60, of which 30 were rewarded"


def test_a_loop_without_log_or_promise_is_shown_without_claims(page: Page, client: Client) -> None:
    client.create("plain", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
    play(client, "plain", 3, reward=-2e9)
    page.open("plain")
    page.until(lambda: "of 3 decisions" in page.text("[data-tried-note]"))
    assert "there is no log to compare with" in page.text("[data-story]")
    assert "afford" not in page.text("[data-story]") and "Nothing is watched" in page.text("[data-watch]")
    assert page.text("[data-gain]") == "–" and not page.one("[data-holdback]").is_enabled()


@pytest.mark.slow
def test_lift_is_first_then_the_promise_each_in_the_unit_of_the_loop(page: Page, client: Client) -> None:
    make_loop(client, "units", holdback=0.5, unit="clicks")
    play(client, "units", 30, reward=0.8)  # the log earned 0.9
    page.open("units")
    page.until(lambda: "24 clicks" in page.text("[data-story]"))
    heads = [head.rstrip(" ?") for head in page.texts(".numbers dt")]
    assert heads[:3] == ["Gained over current practice", "You may still lose", "What to do"]
    assert page.text("[data-lift]") == "not clear yet"
    between = r"It is between −\S+ and \+\S+ clicks per decision, 95 % sure\."
    assert re.fullmatch(between, page.text("[data-lift-verdict]")), "where it lies, and no point in it"
    for tile in ("left", "gain", "budget"):
        assert page.text(f"[data-{tile}]").endswith(" clicks")
    assert page.text("[data-gain-chart] text") == "clicks"
    # Fewer clicks than by the log, but not than by the control group: nothing is wrong, nothing is red.
    assert page.chrome.find_elements(By.CSS_SELECTOR, ".bad, .alarm-box") == []
    # What groups earned at different times is not set side by side.
    assert "0.8" not in page.text("[data-groups]") and "not compared" in page.text("[data-period]")


COIN = """
    const practice = {explored: 100, missing: 3, control: 9, earned: 40, estimate: 45, lower: 10, upper: 95,
      level: 0.95, counts_rewards: true, ...arguments[0]};
    const loop = {practice, promised_loss: 30, left_to_lose: 10, unit: "clicks", lost: 0, alarms: []};
    const {sidesOf, gainedOf, pictureOf} = await import("./dashboard/answers.js");
    const {earned, lower, upper, explored, control} = practice;
    const points = [{earned, practice_lower: lower, practice_upper: upper,
      promised_loss: 30, left_to_lose: 10}];
    const {lines, band} = pictureOf(loop, points, "");
    const gained = gainedOf(loop, {policy: explored, control, level: 0.95});
    return {sides: sidesOf(loop), gained, drawn: lines.map(({values}) => values[0]),
      band: band.values.map(([value]) => value)};
"""


def test_at_the_least_is_never_shown_below_the_books(page: Page, client: Client) -> None:
    """By control rounds alone 55 may have been lost; by the books, which are as sure, 20 of 30."""
    make_loop(client, "least")
    page.open("least")
    seen = page.run(COIN, {})
    assert seen["drawn"] == [30, -20, 0, -30], "at the most, at the least, practice, the promise"
    assert seen["band"] == [-20, 30], "the shaded area is between the two"
    assert seen["sides"]["would"] == "10 to 60 clicks" and "by the gate's books" in seen["sides"]["range"]
    assert "between −20 (by the books) and +30 clicks in all" in seen["gained"]["verdict"]
    gained = page.run(COIN, {"earned": 1985, "estimate": 31, "lower": 0.4, "upper": 790})["gained"]
    assert gained["value"] == "+1,954 clicks in all"
    assert " to 1,985 clicks in all more" in gained["verdict"], "no more than was earned"
    means = page.run(COIN, {"counts_rewards": False})  # of which luck is no part: nothing can be cut
    assert means["drawn"] == [30, -55, 0, -30] and means["sides"]["would"] == "10 to 100 clicks"


def test_a_point_is_shown_only_where_the_gain_is_clear(page: Page, client: Client) -> None:
    make_loop(client, "points")
    page.open("points")
    unclear = page.run(COIN, {"upper": 60, "estimate": 44})
    assert unclear["gained"]["value"] == "not clear yet" and unclear["sides"]["would"] == "10 to 60 clicks"
    assert "44" not in str(unclear) and "−4 " not in str(unclear["gained"]), "the estimate, nowhere"
    clear = page.run(COIN, {"upper": 35, "estimate": 22})
    assert clear["gained"]["value"] == "+18 clicks in all"
    assert clear["gained"]["verdict"].startswith("Gained: 5 to 30 clicks in all more than current practice")


@pytest.mark.slow
def test_after_a_drift_alarm_arms_show_what_they_earned_since(page: Page, client: Client) -> None:
    make_loop(client, "moved", on_alarm="warn")
    page.open("moved")
    page.until(lambda: "dotted line" in page.text("[data-arms-unit]"))
    assert "drift" not in page.text("[data-arms-unit]")
    while client.loop("moved")["drifted_at"] is None:
        play(client, "moved", 20, reward=0.0)  # the log earned 0.9
    play(client, "moved", 20, reward=0.0)
    page.until(lambda: "since the drift alarm of" in page.text("[data-arms-unit]"))
    assert "the log is from before the change" in page.text("[data-arms-unit]")
    page.until(lambda: set(page.texts("[data-arms] td.fixed:nth-child(3)")) <= {"0.0", "0.00", "–"})


@pytest.mark.slow
def test_what_is_counted_as_tried_is_another_arm_than_the_safe_choice(page: Page, client: Client) -> None:
    """The policy may play the best arm of the log all the time."""
    make_loop(client, "best")
    play(client, "best", 12)
    page.open("best")
    page.until(lambda: "of 12 decisions" in page.text("[data-tried-note]"))
    heads = [head.rstrip(" ?") for head in page.texts(".numbers dt, h3")]
    assert "Other than the safe choice" in heads and not [head for head in heads if "xplored" in head]
    assert page.text("[data-tried-note]").startswith(f"about {client.loop('best')['tried']:.0f} of")
    assert set(page.texts("[data-decisions] .badge")) <= {"policy", "safe", "control"}


@pytest.mark.slow
def test_without_a_control_group_the_page_says_what_would_give_one(page: Page, client: Client) -> None:
    make_loop(client, "alone")
    play(client, "alone", 3)
    page.open("alone")
    page.until(lambda: "Choose 5 % under" in page.text("[data-lift-verdict]"))
    assert page.text("[data-gain]").endswith(" reward") and "control" not in page.text("[data-groups]")
    client.change("alone", mode="safe-only", holdback=0.05)
    page.until(lambda: "none in safe-only mode; 5 % again in live mode" in page.text("[data-no-control]"))
    assert not page.one("[data-holdback]").is_displayed()
    client.change("alone", mode="live")
    page.until(lambda: page.one("[data-holdback]").is_displayed())
    assert page.one("[data-holdback]").get_attribute("value") == "0.05"


@pytest.mark.slow
def test_a_loop_that_throws_coins_shows_what_practice_would_have_earned(page: Page, client: Client) -> None:
    policy = linoto.Gated(gate=linoto.Control(budget=40.0, share=0.4), confidence=TOLERANT.confidence)
    client.create("coin", arms=["a", "b", "c"], policy=policy, offline=LOG, default_reward=0.0, unit="clicks")
    page.open("coin")
    page.until(lambda: page.text("[data-would]") == "not known yet")
    assert page.text("[data-left]") == "40 clicks" and not page.one("[data-log]").is_displayed()
    while client.loop("coin")["practice"]["explored"] < 12 or client.loop("coin")["practice"]["control"] < 4:
        made = client.decide("coin", proposal="c")
        client.reward("coin", made.decision_id, float(made.arm == "c"))
    seen = client.loop("coin")["practice"]
    page.until(lambda: page.text("[data-earned]") == f"{seen['explored']} clicks")
    assert re.fullmatch(r"\S+ to \S+ clicks", page.text("[data-would]"))
    assert "95 % sure" in page.text("[data-would-range]")
    assert page.text("[data-earned-same]") == f"in the same {seen['explored']} explored decisions"
    assert "against current practice" in page.text("[data-left-note]")
    assert f"{seen['control']} rewards of control rounds" in page.text("[data-lift-note]")
    assert not page.one("[data-holdback]").is_displayed(), "there is one control group, and the gate draws it"
    assert page.text("[data-gain-title]") == "Earned beyond current practice, and the floor of the promise"
    assert {"we, at the least", "current practice", "the promise: not below"} < set(page.texts(".name"))
    assert "practice would have earned more" in page.text("[data-watch]")
    make_loop(client, "without-coin")
    page.open("without-coin")
    page.until(lambda: page.text("[data-gain-title]").startswith("Earned beyond the log"))
    assert not page.one("[data-coin]").is_displayed() and page.one("[data-log]").is_displayed()
    client.create("free", arms=["a", "b", "c"], policy=linoto.LinUCB(), offline=LOG, default_reward=0.0)
    page.open("free")
    page.until(lambda: page.text("[data-gain-title]") == "Earned beyond the log's average")
    assert "promise" not in page.text("[data-gain-words]")


def test_a_loop_with_contexts_says_who_asked_and_why(page: Page, client: Client) -> None:
    client.create(
        "contexts",
        policy=POLICIES["model"],
        recipe=RECIPE,
        moments=log_of(2000),
        practice="C",
        default_reward=0.0,
        unit="clicks",
    )
    made = client.decide("contexts", context={"age": 25, "country": "DE"})
    assert made.arm == "A" and made.because[0]["part"] == "country=DE"
    client.reward("contexts", made.decision_id, 1.0)
    page.open("contexts")
    page.until(lambda: "asked with age, country" in page.text("[data-policy]"))
    page.until(lambda: "age=25, country=DE" in page.text("[data-decisions]"))
    page.click("[data-decisions] button")
    page.until(lambda: "because of country=DE" in page.text(".why"))
    assert "the world is not the log's any more" in page.text("[data-watch]")
    assert "practice in the same contexts" in page.text("[data-story]")
    assert not page.one("[data-log]").is_displayed(), "the mean of the log is no reference with contexts"
    client.create("unwatched", policy=linoto.LinTS(), recipe=RECIPE, default_reward=0.0)
    page.open("unwatched")
    page.until(lambda: "every context has its own mean reward" in page.text("[data-watch]"))


def test_an_arm_that_became_worse_has_one_interval_and_its_decisions_say_what_contradicts(
    page: Page, client: Client
) -> None:
    policy = linoto.Gated(gate=linoto.Control(budget=900.0, share=0.4), confidence=TOLERANT.confidence)
    fixed: dict[str, Any] = {"default_reward": 0.0, "seed": 1, "on_alarm": "warn"}
    client.create("worse", arms=["a", "b", "c"], policy=policy, offline=LOG, **fixed)
    for reward in [1.0] * 4 + [0.0] * 20:
        made = client.decide_many("worse", [{"proposal": "c"}] * 100)
        client.rewards("worse", [(one.decision_id, reward) for one in made])
    last = client.decide("worse", proposal="c")
    while last.arm != "c":  # a control round
        last = client.decide("worse", proposal="c")
    why = client.explain("worse", last.decision_id)
    assert why["lcb"] > why["ucb"]
    (arm,) = [arm for arm in client.arms("worse") if arm["name"] == "c"]
    assert arm["lcb"] < arm["mean"] < arm["ucb"] < why["lcb"]
    page.open("worse")
    page.until(lambda: page.texts("[data-decisions] button"))
    page.click("[data-decisions] button")
    page.until(lambda: "interval: none: once it was at least" in page.text(".why"))
