"""Guardrails on the page, in a real browser: one table, as people count."""

from __future__ import annotations

import re

import pytest
from helpers.dashboard import LOG, NASTY, Page

import linoto
from linoto.client import Client

pytestmark = pytest.mark.browser


def test_reward_and_metrics_stand_in_one_table_and_an_alarm_names_its_metric(
    page: Page, client: Client
) -> None:
    """Every explored decision is complained about; a name that looks like markup stays text."""
    complaints = linoto.Guardrail("complaints", reward_range=(0, 1), lower_is_better=True, budget=400)
    odd = linoto.Guardrail(NASTY, reward_range=(0, 1), budget=400)
    confidence = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    gate = linoto.Control(budget=400, share=0.4)
    policy = linoto.Gated(gate=gate, confidence=confidence, guardrails=(complaints, odd))
    settings = {"default_reward": 0.0, "unit": "clicks", "on_alarm": "warn", "seed": 1}
    client.create("rails", arms=["a", "b", "c"], policy=policy, offline=LOG, **settings)
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
    plain = client.create("no-rails", arms=["a", "b"], policy=linoto.LinUCB(), default_reward=0.0)
    assert plain["metrics"] == []
    page.open("no-rails")
    page.until(lambda: page.text("[data-name]") == "no-rails")
    assert not page.one("[data-guardrails]").is_displayed()
