"""After a drift alarm the log is of another world: arms are shown by what they earn now."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from helpers.loop_in_memory import close, decide, fresh
from helpers.service_process import spec_of
from msgspec.structs import replace

import linoto
from linoto.service.loops import views
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LogStatistics, LoopAgent
from linoto.service.loops.starting import arms_of

CONFIDENCE = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0)
POLICY = linoto.Gated(gate=linoto.Tolerance(budget=40.0), confidence=CONFIDENCE)


def agent_of(blob: bytes, loop: Loop) -> LoopAgent:
    agent = arms_of(loop.spec).restore(blob, loop.spec)
    assert agent is not None
    return agent


def test_after_a_drift_alarm_an_arm_shows_what_it_earned_since_and_nothing_of_the_log() -> None:
    """The log earned 0.8, the world 0.45; an interval misses that one time in twenty, not at this seed."""
    log = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[2400.0, 800.0, 0.0])
    loop = fresh(policy=POLICY, offline=log, on_alarm="warn")
    earned: dict[int, list[float]] = {0: [], 1: [], 2: []}
    rng = np.random.default_rng(5)
    alarm = None
    for draw in rng.random(1000).tolist():
        event, reward = decide(loop), float(draw < 0.45)
        if alarm is None:
            agent = loop.agent
            shown = [(arm.mean, arm.lcb, arm.ucb) for arm in arm_views(loop)]
            known = np.clip([agent.means, 2 * agent.means - agent.ucb, agent.ucb], 0.0, 1.0)
            np.testing.assert_allclose(shown, known.T, atol=1e-12)
            assert views.loop_view(loop).drifted_at is None
        close(loop, event.number, reward)
        earned[event.arm].append(reward)
        found = next((one for one in loop.state.alarms if one.kind == "drift"), None)
        if alarm is None and found is not None:
            alarm, earned = found, {0: [], 1: [], 2: []}
            assert {(arm.mean, arm.lcb, arm.ucb) for arm in arm_views(loop)} == {(None, None, None)}
    assert alarm is not None and views.loop_view(loop).drifted_at == alarm.at
    assert min(len(earned[0]), len(earned[1])) > 50
    assert [one.kind for one in loop.state.alarms].count("drift") > 1, "later ones say the same again"
    for arm, rewards in zip(arm_views(loop), earned.values(), strict=True):
        if not rewards:
            assert (arm.mean, arm.lcb, arm.ucb) == (None, None, None)
            continue
        assert arm.mean == pytest.approx(np.mean(rewards)) and arm.lcb is not None and arm.ucb is not None
        assert arm.lcb <= 0.45 <= arm.ucb < 0.8
    state, blob = loop.snapshot()
    again = fresh(policy=POLICY, offline=log, on_alarm="warn")
    again.restore(state, agent_of(blob, again))
    assert arm_views(again) == arm_views(loop)


def test_a_loop_of_an_earlier_version_is_replayed_as_it_was_and_says_so() -> None:
    """Its snapshots do not know what arms earned since the alarm, and a replay must equal them."""
    log = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[2400.0, 800.0, 0.0])
    for version in (4, 5):
        spec = replace(spec_of(POLICY, offline=log, on_alarm="warn"), version=version)
        loop = Loop.fresh("loop", spec)
        for _ in range(200):
            close(loop, decide(loop).number, 0.0)
        view = views.loop_view(loop)
        assert view.drifted_at is not None and view.arms_since_drift == (version == 5)
        state, blob = loop.snapshot()
        old = {name: value for name, value in msgspec.json.decode(state).items() if name != "since_drift"}
        again = Loop.fresh("loop", spec)
        again.restore(msgspec.json.encode(old), agent_of(blob, again))
        again.reopen([])
        assert (again.digest() == loop.digest()) == (version == 4)


def test_rewards_that_scatter_little_are_shown_with_narrow_intervals() -> None:
    """Of groups, and of arms after a drift alarm: by their sum alone 400 such rewards leave 0.15 open."""
    log = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[2400.0, 800.0, 0.0])
    loop, rng = fresh(policy=POLICY, offline=log, on_alarm="warn"), np.random.default_rng(0)
    for _ in range(500):
        close(loop, decide(loop, proposal=0).number, 0.45 + 0.02 * rng.random())
    assert views.loop_view(loop).drifted_at is not None
    shown = [(arm.lcb, arm.ucb) for arm in arm_views(loop) if arm.plays > 300]
    groups = views.loop_view(loop).groups.values()
    shown += [(group.lower, group.upper) for group in groups if group.closed > 300]
    assert len(shown) >= 2
    for low, high in shown:
        assert low is not None and high is not None and low < 0.46 < high < low + 0.06
