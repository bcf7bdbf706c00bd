"""A loss budget in the service: promised, watched, and shown as how much may still be lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.loop_in_memory import fresh, play
from helpers.service_process import served

import linoto
from linoto.service.loops import views
from linoto.service.loops.spec import LogStatistics

LOG = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[1800.0, 600.0, 0.0])
CONFIDENCE = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)


def policy(**gate: Any) -> linoto.Gated:
    return linoto.Gated(gate=linoto.Tolerance(**gate), confidence=CONFIDENCE)


@pytest.mark.parametrize(
    ("gate", "budget", "rate"),
    [
        ({"budget": 30.0}, 30.0, 0.0),
        ({"budget": 30.0, "epsilon": 0.01}, 30.0, 0.01),
        ({"budget": 50.0, "relative": True}, None, 0.0),
    ],
    ids=["budget", "both", "relative"],
)
def test_what_may_still_be_lost_is_the_promise_less_what_was_lost(
    gate: Any, budget: float | None, rate: float
) -> None:
    loop = fresh(policy=policy(**gate), offline=LOG, unit="clicks")
    for _ in play(loop, 200, [0.6, 0.6, 0.1]):
        pass
    earned = loop.state.counted.rewards
    view, certificate = views.loop_view(loop), loop.certificate
    assert certificate.constant is not None and certificate.budget is not None
    rounding = certificate.constant - certificate.budget
    if budget is None:  # 50 rounds' worth of the most that the log can have earned
        assert 50 * 0.6 <= certificate.budget <= 50 * 0.65
        budget = certificate.budget
    assert view.promised_loss == pytest.approx(budget + rate * 200 + rounding)
    left, (low, high) = view.promised_loss - (200 * 0.6 - earned), certificate.reference_interval
    told = (view.left_lower, view.left_to_lose, view.left_upper)
    counted = (left - 200 * (high - 0.6), left, left + 200 * (0.6 - low))
    assert told == pytest.approx([min(each, view.promised_loss) for each in counted])
    assert view.unit == "clicks"


@pytest.mark.parametrize("world", [0.95, 0.6, 0.2])
@pytest.mark.parametrize("gate", [linoto.Tolerance, linoto.Control])
@pytest.mark.parametrize("rate", [0.0, 0.02])
@pytest.mark.few(1)
def test_what_may_still_be_lost_is_never_more_than_the_promise_at_this_round(
    gate: Any, world: float, rate: float
) -> None:
    """Whatever was gained: a loop that is 140 ahead on a budget of 40 may still be 40 behind, not 180."""
    gated = linoto.Gated(gate=gate(budget=40.0, epsilon=rate), confidence=CONFIDENCE)
    loop = fresh(policy=gated, offline=LOG, on_alarm="warn")
    seen = []
    for event in play(loop, 400, [0.6, 0.6, world] if gate is linoto.Control else [world] * 3):
        if event.number % 20:
            continue
        view = views.loop_view(loop)
        assert view.left_to_lose is not None and view.promised_loss is not None
        ends = [end for end in (view.left_lower, view.left_upper) if end is not None]
        assert max(view.left_to_lose, *ends, view.left_to_lose) <= view.promised_loss
        seen.append((view.left_to_lose, view.promised_loss, view.gain))
    left, promised, gained = seen[-1]
    if gate is linoto.Tolerance and gained is not None and gained > 0:
        assert left == promised, "nothing of it is used"
    if gate is linoto.Tolerance and world == 0.95:
        assert gained is not None and gained > 100


def test_a_loss_within_the_budget_raises_no_alarm_and_one_far_beyond_it_does() -> None:
    """The log earned 0.6; the world earns 0.1: 60 decisions lose 30 of a budget of 40, 300 lose 150."""
    loop = fresh(policy=policy(budget=40.0), offline=LOG, on_alarm="warn")
    for _ in play(loop, 60, [0.1, 0.1, 0.1]):
        pass
    assert "promise" not in [alarm.kind for alarm in loop.state.alarms]
    for _ in play(loop, 240, [0.1, 0.1, 0.1], seed=1):
        pass
    assert "promise" in [alarm.kind for alarm in loop.state.alarms]


def test_where_nothing_is_promised_nothing_is_left() -> None:
    view = views.loop_view(fresh(policy=linoto.LinUCB(), offline=LOG))
    assert (view.promised_loss, view.left_to_lose, view.left_lower) == (None, None, None)


def test_a_loop_with_a_budget_is_made_by_a_client_and_reports_it(tmp_path: Path) -> None:
    with served(tmp_path / "x.sqlite") as server:
        client = server.client()
        log = linoto.Offline(pulls=LOG.pulls, reward_sums=LOG.reward_sums)
        made = client.create(
            "banner",
            arms=["a", "b", "c"],
            policy=policy(budget=61.0),
            offline=log,
            default_reward=0.0,
            missing_reward="default",
            unit="clicks",
        )
        assert made["left_to_lose"] == pytest.approx(made["promised_loss"])
        report = client.report("banner")
        assert report["certificate"]["budget"] == 61.0 and report["certificate"]["per_round"] == 0.0
        assert report["lift"]["lower"] is None and report["loop"]["unit"] == "clicks"
        client.close()
