"""The lift is right whatever share was held back when, and its interval holds at any time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.loop_in_memory import close, decide, fresh

import linoto
from linoto.service.loops import views
from linoto.service.loops.events import SettingsChanged
from linoto.service.loops.lift import FEWEST, Lift
from linoto.service.loops.means import Earned
from linoto.service.loops.state import RewardTotals

UNIT = (0.0, 1.0)


def random_lift(
    rng: np.random.Generator, policy: Any, control: Any, share: Any, limits: Any = UNIT
) -> list[Any]:
    """(value, interval) after each tenth of a run; `policy` and `control` are means (n,), share p (n,)."""
    lift, kept = Lift(), []
    n = len(policy)
    held = rng.random(n) < share
    clicks = (rng.random(n) < np.where(held, control, policy)).astype(float)
    rows = zip(clicks.tolist(), share.tolist(), held.tolist(), strict=True)
    for t, (click, p, is_held) in enumerate(rows, 1):
        lift.add(click, chance=p, in_control=is_held, start=0.5, limits=limits)
        if t % (n // 10) == 0:
            interval = lift.interval(limits)
            kept.append((lift.value, interval))
    return kept


def test_a_share_that_changes_with_the_times_makes_no_lift() -> None:
    """Equal arms: half the decisions are held back in good times (0.9), one in twenty in bad (0.1)."""
    rng = np.random.default_rng(0)
    means = np.repeat([0.9, 0.1], 2000)
    value, interval = random_lift(rng, means, means, np.repeat([0.5, 0.05], 2000))[-1]
    assert interval[0] < 0 < interval[1] and interval[1] - interval[0] < 0.5
    assert abs(value) < 0.15  # pooled it would be -0.33: five of its standard errors are 0.12


@pytest.mark.parametrize("share", [0.05, 0.5])
@pytest.mark.parametrize(("policy", "control"), [(0.004, 0.004), (0.012, 0.004), (0.5, 0.4)])
@pytest.mark.few(1)
def test_the_interval_holds_at_every_look(policy: float, control: float, share: float) -> None:
    """30 runs, ten looks each: at most 5 % may ever miss; 7 of 30 have a chance below 1e-3."""
    rng, missed = np.random.default_rng(1), 0
    for _ in range(30):
        looks = random_lift(rng, *(np.full(2000, m) for m in (policy, control, share)))
        seen = [interval for _, interval in looks if interval is not None]
        missed += any(not low <= policy - control <= high for low, high in seen)
    assert missed <= 6


@pytest.mark.few(0)
def test_the_interval_holds_where_the_lift_and_the_share_change() -> None:
    """It is about the average over decisions; limit as above."""
    rng, missed = np.random.default_rng(2), 0
    policy, control = np.repeat([0.6, 0.3, 0.8], 700), np.repeat([0.5, 0.4, 0.2], 700)
    share = np.repeat([0.5, 0.02, 0.2], 700)
    for _ in range(30):
        truth = np.cumsum(policy - control)[209::210] / np.arange(210, 2101, 210)
        looks = random_lift(rng, policy, control, share)
        missed += any(
            not look[1][0] <= true <= look[1][1]
            for look, true in zip(looks, truth, strict=True)
            if look[1] is not None
        )
    assert missed <= 6


def test_a_real_lift_is_seen() -> None:
    """0.6 against 0.4 with a tenth held back: 4,000 decisions are 400 in the control group."""
    _, (low, high) = random_lift(np.random.default_rng(3), *(np.full(4000, m) for m in (0.6, 0.4, 0.1)))[-1]
    assert 0 < low < 0.2 < high < 0.4


@pytest.mark.parametrize("limits", [UNIT, None])
def test_four_equal_rewards_leave_everything_open(limits: Any) -> None:
    lift, totals = Lift(), RewardTotals()
    for in_control in (True, False, True, False):
        lift.add(1.0, chance=0.5, in_control=in_control, start=0.5, limits=limits)
        totals.add(1.0, default=False)
    interval, shown = lift.interval(limits), views.group_view(Earned(totals, limits))
    assert lift.value == 0.0
    if limits is None:
        assert interval is None and shown.lower is None and FEWEST > 4
    else:
        assert interval is None or interval[1] - interval[0] > 1
        assert shown.lower is not None and shown.lower < 0.5 and shown.upper == 1.0


def test_rewards_without_a_range_have_a_normal_interval() -> None:
    rng, lift = np.random.default_rng(4), Lift()
    for t, reward in enumerate(rng.normal(1e6, 1.0, 400).tolist()):
        held = t % 2 == 0
        lift.add(reward + 0.5 * (not held), chance=0.5, in_control=held, start=1e6, limits=None)
    interval = lift.interval(None)
    assert interval is not None and interval[0] < 0.5 < interval[1] and interval[1] - interval[0] < 1
    assert lift.value == pytest.approx(0.5, abs=0.5)


def test_shadow_plays_are_not_compared() -> None:
    loop = fresh(policy=linoto.LinUCB(), holdback=0.5, mode="shadow")
    for _ in range(40):
        close(loop, decide(loop).number, 1.0)
    assert loop.state.books.closed.lift is None
    loop.apply(SettingsChanged(mode="live", holdback=0.5, by="test"), loop.state.at)
    for _ in range(40):
        close(loop, decide(loop).number, 1.0)
    assert loop.state.books.closed.lift is not None and loop.state.books.closed.lift.known == 40
    told = views.report(loop).lift
    assert (told.policy + told.control, told.level) == (40, 0.95)


def test_the_interval_of_a_rare_click_is_never_a_point() -> None:
    """No click in 300 decisions: up to 3 % are possible."""
    totals = RewardTotals()
    for _ in range(300):
        totals.add(0.0, default=False)
    shown = views.group_view(Earned(totals, UNIT))
    assert shown.lower == 0.0 and shown.upper is not None and 0.01 < shown.upper < 0.05
