"""Guardrails on the page, in a real browser: one table, as people count."""

from __future__ import annotations

import re

import pytest
from helpers.dashboard import LOG, NASTY, Page, on_a_phone

import linoto
from linoto.client import Client

pytestmark = pytest.mark.browser
PLACES = """
    return [...document.querySelectorAll("[data-guardrails] td")].map((cell) => {
      const range = document.createRange();
      range.selectNodeContents(cell);
      const {left, right} = range.getBoundingClientRect();
      return [left, right];
    });
"""
COMPLAINTS = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=400)


def make_rails(client: Client, name: str, budget: float, *guardrails: linoto.Guardrail) -> None:
    """Arm c can be tried against practice, by a coin."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    gate = linoto.Control(budget=budget, share=0.4)
    policy = linoto.Gated(gate=gate, confidence=confidence, guardrails=guardrails)
    settings = {"default_reward": 0.0, "unit": "clicks", "on_alarm": "warn", "seed": 1}
    client.create(name, arms=["a", "b", "c"], policy=policy, offline=LOG, **settings)


def test_reward_and_metrics_stand_in_one_table_and_an_alarm_names_its_metric(
    page: Page, client: Client
) -> None:
    """Every explored decision is complained about; a name that looks like markup stays text."""
    make_rails(client, "rails", 400, COMPLAINTS, linoto.Guardrail(NASTY, reward_range=(0, 1), budget=400))
    page.open("rails")
    page.until(lambda: "nothing was explored" in page.text("[data-guardrails]"))
    made = client.decide_many("rails", [{"proposal": "c"} for _ in range(200)])
    told = [(each.decision_id, 0.5, {"complaints": float(each.arm == "c"), NASTY: 1.0}) for each in made]
    client.rewards("rails", told)
    page.until(lambda: "complaints went up" in page.text("[data-alarms]"))
    rows = page.texts("[data-guardrails] tbody tr")
    assert [row.split()[0] for row in rows] == ["clicks", "complaints", NASTY.split()[0]]
    assert "⚠" in rows[1] and "more" in rows[1] and "of 400" in rows[1]
    assert "remove the arm that is to blame" in page.text("[data-alarms]")
    blamed = re.compile(r"^c\ncomplaints 1(\.0+)? per play", re.MULTILINE)
    page.until(lambda: blamed.search(page.text("[data-arms]")))
    assert "that complaints would be better with practice" in page.text("[data-watch]")
    assert not page.run("return window.hacked")
    values, columns = page.run(PLACES), "[data-guardrails] td"
    assert len(values) == 9 and all(0 <= left < right <= 1200 for left, right in values)
    with on_a_phone(page):
        page.open("rails")
        page.until(lambda: page.texts(columns))
        values = page.run(PLACES)
        assert len(values) == 9 and all(0 <= left < right <= 390 for left, right in values), (
            "no value is outside"
        )
        page.until(lambda: page.texts("[data-arms] .narrow"))
        assert all(page.texts("[data-arms] .narrow")), "and the arms have theirs as numbers too"
    plain = client.create("no-rails", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
    assert plain["metrics"] == []
    page.open("no-rails")
    page.until(lambda: page.text("[data-name]") == "no-rails")
    assert not page.one("[data-guardrails]").is_displayed()


@pytest.mark.few(0)
def test_a_shut_gate_is_said_to_be_shut_with_what_would_open_it(page: Page, client: Client) -> None:
    """Rewards that nobody reports count at their worst, until nothing more is tried."""
    make_rails(client, "unreported", 5, COMPLAINTS)
    page.open("unreported")
    made = [client.decide("unreported", proposal="c") for _ in range(60)]
    loop = client.loop("unreported")
    assert loop["budget"] < 0 and not loop["metrics"][0]["shut"]
    page.until(lambda: page.text("[data-act]") == "⚠ Exploring has stopped")
    note = page.text("[data-act-note]")
    assert f"{loop['practice']['missing']} explored decisions have none: report" in note
    told = [(each.decision_id, float(each.arm == "c"), {"complaints": 0.0}) for each in made]
    client.rewards("unreported", told)
    assert client.loop("unreported")["budget"] > 0
    page.until(lambda: "Exploring has stopped" not in page.text("[data-act]"))
    few = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=3)
    make_rails(client, "spent", 400, few)
    for each in [client.decide("spent", proposal="c") for _ in range(40)]:
        client.reward("spent", each.decision_id, 1.0, metrics={"complaints": float(each.arm == "c")})
    client.change("spent", mode="live")  # whatever alarm there was is answered
    page.open("spent")
    page.until(lambda: page.text("[data-act]") == "⚠ Exploring has stopped")
    assert "Of complaints no more may be lost" in page.text("[data-act-note]")
    assert "What to do: see under “Arms” which arm is to blame" in page.text("[data-act-note]")
    assert "practice is played" in page.texts("[data-guardrails] tbody tr")[1]
    assert client.loop("spent")["budget"] > 0 and page.text("[data-budget-note]") == "closed by complaints"


TWICE = """
    const {gainedOf} = await import("./dashboard/answers.js");
    const {guardrailTable} = await import("./dashboard/guardrails.js");
    const practice = {explored: 177, missing: 18, control: 1083, earned: 26, estimate: 36, lower: 0,
      upper: 76, level: 0.95, counts_rewards: arguments[0]};
    const metric = {name: "late", lower_is_better: true, gained: -20, gained_lower: -50, gained_upper: 30,
      left_to_lose: 20, promised_loss: 40, shut: false, practice};
    const loop = {practice, metrics: [metric], promised_loss: 40, left_to_lose: 20, budget: 1,
      unit: "clicks"};
    const [, box] = guardrailTable(loop);
    const rows = [...box.querySelectorAll("tbody tr")].map((row) => row.children[2].textContent);
    return [gainedOf(loop, {policy: 177, control: 1083, level: 0.95}).verdict, ...rows];
"""


def test_the_table_and_the_first_answer_show_one_interval(page: Page, client: Client) -> None:
    """Cut by the books in both, where it counts rewards as they come, and otherwise in none."""
    client.create("twice", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
    page.open("twice")
    answer, clicks, late = page.run(TWICE, True)
    assert "between −20 (by the books) and +26 clicks" in answer
    assert clicks == "20 less (by the books) to 26 more"
    assert late == "20 more (by the books) to 30 fewer"
    answer, clicks, _ = page.run(TWICE, False)
    assert "between −50 and +30 clicks" in answer and clicks == "50 less to 30 more"


def test_values_that_never_came_are_not_said_to_be_of_nothing_explored(page: Page, client: Client) -> None:
    make_rails(client, "untold", 400, COMPLAINTS)
    made = client.decide_many("untold", [{"proposal": "c"} for _ in range(60)])
    client.rewards("untold", [(each.decision_id, 0.5) for each in made])
    missing = client.loop("untold")["metrics"][0]["practice"]["missing"]
    page.open("untold")
    page.until(lambda: len(page.texts("[data-guardrails] tbody tr")) == 2)
    said = f"no value of it has come for {missing} explored decisions"
    assert missing > 10 and said in page.texts("[data-guardrails] tbody tr")[1]


def test_the_first_steps_tell_every_metric(page: Page, client: Client) -> None:
    """Whoever copies them without would starve the guardrails."""
    make_rails(client, "steps", 400, COMPLAINTS, linoto.Guardrail("margin", reward_range=(0, 1), budget=400))
    page.open("steps")
    told = 'client.reward("steps", decision.decision_id, 1.0, metrics={"complaints": ..., "margin": ...})'
    page.until(lambda: told in page.text("[data-hint]"))


def test_a_metric_called_like_the_reward_has_a_row_of_another_name(page: Page, client: Client) -> None:
    make_rails(client, "same", 400, linoto.Guardrail("clicks", reward_range=(0, 1), budget=400))
    page.open("same")
    page.until(lambda: page.texts("[data-guardrails] tbody th") == ["clicks (reward)", "clicks"])
