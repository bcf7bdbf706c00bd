"""A loop whose own books are below its promise tries nothing, and shows no room."""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Connection
from typing import Any

import numpy as np
import pytest
from helpers.loop_in_memory import Loop, close, decide, fresh, play
from helpers.loops import digests
from helpers.loops_with_contexts import context_of, create, log_of
from helpers.service_process import opened
from msgspec import structs

import linoto
from linoto.core.hints import amount
from linoto.service.loops import views
from linoto.service.loops.explanations import reasons
from linoto.service.loops.readings import left_at_most
from linoto.service.loops.recipe_spec import as_statistics
from linoto.service.loops.spec import Arm, LogStatistics

CLICKS = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
SAME = [Arm(name="a", features=[1.0]), Arm(name="b", features=[1.0])]  # a model that knows no difference
LOG = LogStatistics(pulls=[3000, 3000], reward_sums=[300.0, 1200.0])  # 0.1 and 0.4
MEANS = [0.1, 0.4]


def wrong(evidence: Any = "model", **changes: Any) -> Loop:
    """A loop whose model says that both arms earn the same."""
    gate = linoto.Tolerance(budget=20.0, evidence=evidence)
    policy = linoto.Gated(explorer=linoto.LinUCB(), gate=gate, confidence=CLICKS)
    return fresh(policy=policy, arms=SAME, offline=LOG, **changes)


@pytest.mark.parametrize("on_alarm", ["warn", "safe-only"])
@pytest.mark.parametrize("evidence", ["model", "both"])
def test_a_wrong_model_pays_no_more_once_rewards_refute_it(evidence: Any, on_alarm: Any) -> None:
    """The alarm is raised, and from then on practice is played: not what the model says is as good."""
    loop, arms = wrong(evidence, on_alarm=on_alarm), list[int]()
    for event in play(loop, 700, MEANS):
        arms.append(event.arm)
        if loop.state.model_dropped:
            break
    assert "promise" in [alarm.kind for alarm in loop.state.alarms] and len(arms) < 600
    assert sum(MEANS[arm] for arm in arms) < 0.15 * len(arms)  # the log earned 0.25
    after = [event.arm for event in play(loop, 200, MEANS, seed=1)]
    assert abs(after.count(0) - 100) <= 2  # the mixture of the log, but for rounding
    assert loop.state.mode == ("live" if on_alarm == "warn" else "safe-only")


def test_no_room_is_shown_and_nothing_tried_while_the_books_are_below_the_promise() -> None:
    """Also before the alarm, where it may still be chance."""
    loop, rng, held = wrong(on_alarm="warn"), np.random.default_rng(0), 0
    for _ in range(400):
        left, view = left_at_most(loop), views.loop_view(loop)
        assert view.left_upper is not None and view.budget is not None
        assert view.budget <= view.left_upper + 1e-9
        event = decide(loop, proposal=1)
        assert event.budget is not None and event.budget <= view.left_upper + 1e-9
        if loop.state.model_dropped:
            break
        assert event.mode == ("safe" if left < 0 else "explore")
        if left < 0:
            held += 1
            assert view.budget < 0
            assert any("less than promised" in line for line in reasons(event, loop))
        close(loop, event.number, float(rng.random() < 0.1))
    assert held > 5 and loop.state.model_dropped


def test_good_rewards_open_the_loop_again() -> None:
    loop = wrong(on_alarm="warn", alarm_error=1e-12)
    while left_at_most(loop) >= 0:
        close(loop, decide(loop, proposal=1).number, 0.0)
    assert not loop.state.alarms and left_at_most(loop) < 0
    for _ in range(50):
        left, event = left_at_most(loop), decide(loop, proposal=1)
        assert event.mode == ("explore" if left >= 0 else "safe")
        close(loop, event.number, 1.0)
    assert left_at_most(loop) >= 0


def test_a_loop_that_keeps_its_promise_is_never_held() -> None:
    """Rewards as in the log, in every arm: 10 runs of 300; the interval of the log holds in these."""
    for seed in range(10):
        loop = wrong(on_alarm="warn")
        for _ in play(loop, 300, [0.25, 0.25], seed=seed):
            assert left_at_most(loop) >= 0
        assert loop.state.alarms == []


def test_open_rewards_count_as_the_best_and_lost_ones_too() -> None:
    loop = wrong(on_alarm="warn")
    numbers = [decide(loop).number for _ in range(150)]
    assert left_at_most(loop) >= 0
    for number in numbers[:75]:
        close(loop, number, None)  # lost
    assert left_at_most(loop) >= 0
    for number in numbers[75:]:
        close(loop, number, 0.0)
    budget = loop.watch.constant
    assert left_at_most(loop) == pytest.approx(budget + 75 - 150 * loop.watch.reference[0])


def test_a_loss_before_the_oldest_open_decision_is_seen_although_open_rewards_may_make_up_for_it() -> None:
    """280 open rewards, and 120 plays that earned nothing; at its start any loop has the room of its gate."""
    loop = wrong(on_alarm="warn", alarm_error=1e-12)
    old = Loop.fresh("loop", structs.replace(loop.asked, version=4))
    assert views.loop_view(loop).budget == views.loop_view(old).budget == loop.agent.budget
    made = [decide(loop, proposal=1) for _ in range(400)]
    for event in made[:120]:
        close(loop, event.number, 0.0)
    counted = loop.state.counted
    assert loop.watch.left_at_most(counted.plays, *loop.watch.known(counted)) > 100
    assert left_at_most(loop) < 0 and decide(loop, proposal=1).mode == "safe"


@pytest.mark.few(0)
def test_with_contexts_a_model_that_rewards_refute_pays_no_more(tmp_path: Path) -> None:
    """The world earns a third of what the log says, and the loop only warns: from then on, practice."""
    with opened(tmp_path / "x.sqlite", snapshot_every=60) as service:
        create(service, moments=as_statistics(log_of(6000)), on_alarm="warn")
        loops, rng = service.loops, np.random.default_rng(0)

        def job(connection: Connection) -> list[tuple[bool, str, float | None]]:
            seen = []
            for _ in range(300):
                made = loops.decide(connection, "loop", context=context_of(rng))
                loop = loops.get("loop")
                seen.append((loop.state.model_dropped, made.mode, made.budget))
                loops.reward(connection, "loop", loop.decision_id(made.number), float(rng.random() < 0.1))
            return seen

        seen = service.store.write_sync(job)
        loop = service.loops.get("loop")
        assert loop.open_alarms[0].kind == "drift" and loop.state.mode == "live"
        assert {mode for dropped, mode, _ in seen if dropped} == {"safe"}
        assert {room for dropped, _, room in seen if dropped} == {0.0}
        assert "explore" in {mode for dropped, mode, _ in seen if not dropped}
        assert views.loop_view(loop).budget == 0.0
        assert len(set(digests(service))) == 1


def test_a_dropped_model_stays_dropped_after_a_restart(tmp_path: Path) -> None:
    from helpers.loops import decide as ask
    from helpers.loops import reward
    from helpers.service_process import create as make

    policy = linoto.Gated(
        explorer=linoto.LinUCB(), gate=linoto.Tolerance(budget=5.0, evidence="model"), confidence=CLICKS
    )
    with opened(tmp_path / "x.sqlite", snapshot_every=40) as service:
        make(service, policy=policy, arms=SAME, offline=LOG, on_alarm="warn")
        waiting = []
        for _ in range(250):
            waiting.append(ask(service).decision_id)
            if len(waiting) > 30:
                reward(service, waiting.pop(0), 0.0)
        assert service.loops.get("loop").state.model_dropped
        assert len(set(digests(service))) == 1
    with opened(tmp_path / "x.sqlite") as service:
        arms = [ask(service).arm for _ in range(10)]
        assert service.loops.get("loop").state.model_dropped and sorted(arms) == ["a"] * 5 + ["b"] * 5


@pytest.mark.few(0)
def test_below_the_promise_within_their_uncertainty_the_books_tell_one_story() -> None:
    """600 rows at 0.10 and 0.15 and a model that knows no difference: the mean says below, the interval not.

    No room is offered beside that, by the view, by a decision, or by its reasons; it is tried as before.
    """
    policy = linoto.Gated(
        explorer=linoto.LinUCB(), gate=linoto.Tolerance(budget=30.0, evidence="model"), confidence=CLICKS
    )
    log = LogStatistics(pulls=[300, 300], reward_sums=[30.0, 45.0])
    loop, told, rng = fresh(policy=policy, arms=SAME, offline=log), 0, np.random.default_rng(0)
    for _ in range(1000):
        view, event = views.loop_view(loop), decide(loop, proposal=0)
        left, upper = view.left_to_lose, view.left_upper
        assert left is not None and upper is not None and view.budget is not None
        assert (view.standing == "") == (left >= 0)
        if left < 0 <= upper:
            told += 1
            assert view.budget <= 0 and event.budget is not None and event.budget <= 0
            assert event.mode == "explore"
            assert f"is {amount(-left)} units of reward below what the promise allows, but" in view.standing
            said = " ".join(reasons(event, loop))
            assert "to spare" not in said and "within their uncertainty" in said
        elif left >= 0:
            assert view.budget > 0 and "to spare" in " ".join(reasons(event, loop))
        close(loop, event.number, float(rng.random() < 0.08))
    assert told > 300
