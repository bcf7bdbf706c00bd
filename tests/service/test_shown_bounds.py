"""What is shown of a mean reward lies in the range of mean rewards; what decides is as it was computed."""

from __future__ import annotations

from math import inf, isnan, nan
from pathlib import Path

import numpy as np
import pytest
from helpers.loop_in_memory import close, fresh
from helpers.loop_in_memory import decide as keep
from helpers.loops import decide, digests, reward
from helpers.service_process import create, opened

import linoto
from linoto.service.loops.arm_views import ArmView, ItemNumbers, arm_views, means_of
from linoto.service.loops.events import DECISIONS
from linoto.service.loops.explanations import explain
from linoto.service.loops.means import Earned
from linoto.service.loops.shown import cut
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.state import RewardTotals
from linoto.service.loops.views import loop_view
from linoto.service.storage import sql

RANGE = (0.0, 1.0)
RARE = LogStatistics(pulls=[5000, 3000, 0], reward_sums=[15.0, 6.0, 0.0])  # clicks


def ends(view: ArmView) -> tuple[float, float]:
    assert view.lcb is not None and view.ucb is not None
    return view.lcb, view.ucb


@pytest.mark.parametrize("limits", [RANGE, None], ids=["range", "no range"])
def test_bounds_are_cut_to_the_range_of_means_where_they_are_shown_and_nowhere_else(
    tmp_path: Path, limits: tuple[float, float] | None
) -> None:
    confidence = linoto.Confidence(noise=0.5, reward_range=limits, bound=2.0)
    rng, (low, high) = np.random.default_rng(0), limits or (-inf, inf)
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=linoto.LinUCB(confidence=confidence), offline=RARE)
        loop = service.loops.get("loop")
        assert (loop.agent.lcb < 0).any() and (loop.agent.ucb > 1).any(), "there is something to cut"
        for click in (rng.random(20) < 0.003).tolist():
            agent, shown = loop.agent, [ends(view) for view in arm_views(loop)]
            now = 2 * agent.means - agent.ucb
            np.testing.assert_allclose(shown, np.clip([now, agent.ucb], low, high).T, atol=1e-12)
            (first,) = arm_views(loop, limit=1)
            assert ends(first) == shown["abc".index(first.name)]
            made = decide(service)
            number, arm = int(made.decision_id.split("-")[1]), "abc".index(made.arm)
            row = service.store.read_database(lambda c, n=number: sql.event_of_decision(c, 1, n))
            assert row is not None
            event = DECISIONS.decode(row[1])
            assert (event.lcb, event.ucb) == (agent.lcb[arm], agent.ucb[arm]), "events are not cut"
            why = service.store.read_database(lambda c, id=made.decision_id: explain(c, loop, id))
            best = float(np.clip(agent.lcb[arm], low, high))
            assert (made.lcb, made.ucb) == (why.lcb, why.ucb) == (best, shown[arm][1])
            reward(service, made.decision_id, float(click))
        assert len(set(digests(service))) == 1


def test_an_arm_that_became_worse_is_shown_with_one_interval_of_now() -> None:
    """The best lower bound so far is above the upper one of now; a policy counts by it, people see both."""
    gate = linoto.Control(budget=500.0, share=0.3)
    confidence = linoto.Confidence(noise="bounded", reward_range=RANGE, bound=2.0)
    log = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[900.0, 300.0, 0.0])
    loop = fresh(policy=linoto.Gated(gate=gate, confidence=confidence), offline=log, on_alarm="warn")
    rng = np.random.default_rng(2)
    for t, draw in enumerate(rng.random(3000).tolist()):
        event = keep(loop, proposal=2)
        close(loop, event.number, float(draw < (0.9 if t < 800 else 0.1)))
    agent = loop.agent
    assert agent.lcb[2] > agent.ucb[2], "the two contradict each other"
    for view in [*arm_views(loop), *arm_views(loop, limit=1)]:
        lower, upper = ends(view)
        assert view.mean is not None and lower < view.mean < upper


@pytest.mark.parametrize("default", [0.0, 500.0], ids=["all came", "some lost"])
def test_behind_a_coin_arms_are_shown_without_a_bound_that_the_range_reaches_beyond(default: float) -> None:
    """Nothing refuses one of 2, which draws means of hundreds to 0, and is sure of that."""
    confidence = linoto.Confidence(noise="bounded", reward_range=(-100.0, 1300.0), bound=2.0)
    gate = linoto.Control(budget=1e6, share=0.3)
    policy = linoto.Gated(explorer=linoto.LinTS(), gate=gate, confidence=confidence)
    log = LogStatistics(pulls=[300, 100, 0], reward_sums=[60_000.0, 20_000.0, 0.0])
    loop, rng = fresh(policy=policy, offline=log, default_reward=default), np.random.default_rng(4)
    sums, counts = np.array(log.reward_sums), np.array(log.pulls)
    for draw in rng.random(1500).tolist():
        event = keep(loop)
        value, lost = 1000.0 * (draw < (0.2, 0.2, 0.3)[event.arm]), default > 0 and draw > 0.95
        close(loop, event.number, None if lost else value)
        sums[event.arm] += default if lost else value
        counts[event.arm] += 1
    assert (loop.agent.estimates(np.arange(3))[2][:2] < 200).any(), "the model is sure of what is not so"
    for view, mean, total in zip(arm_views(loop), sums / counts, (200.0, 200.0, 300.0), strict=True):
        lower, upper = ends(view)
        assert view.mean == pytest.approx(mean) and lower < mean < upper
        assert lower < total < upper
    stated = linoto.Confidence(noise="bounded", reward_range=(-100.0, 1300.0), bound=2000.0)
    loop = fresh(policy=linoto.Gated(gate=linoto.Control(budget=1e6), confidence=stated), offline=log)
    shown, known = [(view.mean, *ends(view)) for view in arm_views(loop)], loop.agent.estimates(np.arange(3))
    np.testing.assert_allclose(shown, np.clip(known, -100.0, 1300.0).T, err_msg="a bound that was stated")


def test_an_arm_without_rewards_has_no_interval_where_only_rewards_count() -> None:
    found = means_of(np.array([[0.0, 9.0], [0.0, 900.0], [0.0, 0.0]]), (0.0, 200.0))
    assert np.isnan(found[:, 0]).all() and found[1, 1] < 100.0 < found[2, 1]
    assert np.isnan(means_of(np.zeros((3, 2)), (0.0, 200.0))).all()


def test_an_estimate_outside_the_range_is_shown_at_its_end() -> None:
    assert cut(RANGE, -0.5, 0.2, -0.1) == (0.0, 0.2, 0.0)
    assert cut(RANGE, 0.4, inf, 1.5) == (0.4, 1.0, 1.0)
    assert all(isnan(number) for number in cut(RANGE, nan, nan, nan)), "nothing is known of it"


@pytest.mark.parametrize("interval", [(-0.3, -0.1), (1.1, 1.2)])
def test_an_interval_that_contradicts_the_range_is_shown_as_it_is(interval: tuple[float, float]) -> None:
    """Its cut would be one number, as if that were known for sure."""
    assert cut(RANGE, *interval) == interval


def test_items_in_contexts_are_cut_where_only_the_range_of_means_is_known() -> None:
    totals = RewardTotals()
    for value in [0.0] * 60 + [4.0] * 40:
        totals.add(value, default=False)
    earned = Earned(totals, None)
    (free,), (shown,) = (
        ItemNumbers(["a"], [earned], frozenset(), [], None, limits).rows() for limits in (None, (0.0, 1.5))
    )
    assert ends(free) == earned.interval and ends(free)[1] > 1.5 and free.mean == pytest.approx(1.6)
    assert ends(shown) == (ends(free)[0], 1.5) and shown.mean == 1.5


def test_a_gain_goes_by_what_is_known_of_the_log_whatever_is_promised() -> None:
    """Behind a coin it was -145 to 95 of 200 decisions, though the log of 8,000 clicks is well known."""
    confidence, found = linoto.Confidence(noise="bounded", reward_range=RANGE, bound=2.0), []
    for gate in (linoto.Tolerance(budget=20), linoto.Control(budget=20)):
        policy = linoto.Gated(gate=gate, confidence=confidence)
        loop = fresh(policy=policy, offline=RARE)
        for click in (0.0, 0.0, 1.0):
            close(loop, keep(loop).number, click)
        view = loop_view(loop)
        assert view.gain_lower is not None and view.gain is not None and view.gain_upper is not None
        assert view.gain_lower < view.gain < view.gain_upper
        found.append((view.gain_lower, view.gain, view.gain_upper))
    assert found[1] == pytest.approx(found[0])
