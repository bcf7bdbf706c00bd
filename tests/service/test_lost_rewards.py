"""A reward that is lost never pays for exploring: the promise holds however many are lost, and which ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.loop_in_memory import close, decide, fresh, play
from helpers.loops import digests
from helpers.loops import reward as report
from helpers.service_process import FakeClock, close_due, create, opened
from msgspec import structs

import linoto
from linoto.service.loops import views
from linoto.service.loops.arm_views import ItemNumbers, arm_views
from linoto.service.loops.events import DecisionMade
from linoto.service.loops.loop import Loop
from linoto.service.loops.means import Earned
from linoto.service.loops.seeded import seeded_uniform
from linoto.service.loops.spec import LogStatistics
from linoto.service.loops.state import RewardTotals

LOG = LogStatistics(pulls=[300, 100, 0], reward_sums=[180.0, 60.0, 0.0])
MEANS = [0.6, 0.6, 0.1]  # the arm that is proposed in every round loses half a reward
BUDGET, ROUNDS = 40.0, 1200
LOSSES: dict[str, Callable[[DecisionMade, float], bool]] = {
    "at random": lambda event, reward: seeded_uniform(event.number) < 0.6,
    "safe plays": lambda event, reward: event.mode == "safe",
    "good safe plays": lambda event, reward: event.mode == "safe" and reward == 1.0,
    "bad new plays": lambda event, reward: event.mode == "explore" and reward == 0.0,
    "all": lambda event, reward: True,
}


def policy(evidence: Any, **gate: Any) -> linoto.Gated:
    return linoto.Gated(
        gate=linoto.Tolerance(budget=BUDGET, evidence=evidence, **gate),
        confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0), bound=2.0),
    )


def shortfall(loop: Any, rounds: int = ROUNDS, **options: Any) -> float:
    """What the plays of a run earn below the log, in expectation; the new arm is proposed in every round."""
    played = [event.arm for event in play(loop, rounds, MEANS, proposal=2, **options)]
    return float(sum(0.6 - MEANS[arm] for arm in played))


EVIDENCE = ("rewards", "model", "both")
COVERING = [  # every pair of evidence, loss and default
    (evidence, loss, float((i + j) % 2))
    for i, evidence in enumerate(EVIDENCE)
    for j, loss in enumerate(sorted(LOSSES))
]


@pytest.mark.parametrize("evidence, loss, default", COVERING)
@pytest.mark.few(2)
def test_the_promise_holds_whichever_rewards_are_lost(evidence: str, loss: str, default: float) -> None:
    """One run each; the promise fails with probability 0.05, and these losses are far from it."""
    loop = fresh(policy=policy(evidence), offline=LOG, default_reward=default, on_alarm="warn")
    assert shortfall(loop, lost=LOSSES[loss]) <= loop.certificate.loss(ROUNDS)
    assert loop.state.alarms == []


def test_defaults_that_are_said_to_be_rewards_count_as_rewards() -> None:
    """Where only clicks are reported, no click within the window is a reward of 0, known for sure."""
    known, told = (
        fresh(policy=policy("both"), offline=LOG, missing_reward=missing)
        for missing in ("default", "unknown")
    )
    for _ in play(known, 300, MEANS, lost=lambda event, reward: reward == 0.0):
        pass
    for _ in play(told, 300, MEANS):
        pass
    assert known.agent.theta.tolist() == told.agent.theta.tolist()
    assert known.agent.lcb.tolist() == told.agent.lcb.tolist()
    assert known.agent.decide() == told.agent.decide()


def test_a_lost_reward_is_learned_as_the_default_and_bounded_as_the_worst() -> None:
    """Against plain NumPy: theta of the defaults, and bounds wider by the sum of errors times widths."""
    loop = fresh(policy=policy("both"), offline=LOG)
    for t in range(60):
        close(loop, decide(loop, proposal=2).number, None if t % 3 == 0 else 1.0)
    agent, confidence = loop.agent, loop.agent.confidence
    ridge = confidence.scale**2 * 3 / confidence.bound**2
    plays = np.array(loop.state.plays, dtype=float)
    lost = np.zeros(3)
    for t, event in enumerate(play_arms(60)):
        lost[event] += t % 3 == 0
    V = np.diag(ridge + np.array(LOG.pulls) + plays)
    width = np.sqrt(1 / np.diag(V))
    np.testing.assert_allclose(
        agent.theta, (np.array(LOG.reward_sums) + plays - lost) / np.diag(V), rtol=1e-9
    )
    growth = np.linalg.slogdet(V)[1] - 3 * np.log(ridge)
    radius = confidence.scale * np.sqrt(2 * np.log(1 / confidence.delta) + growth)
    radius += np.sqrt(ridge) * confidence.bound
    np.testing.assert_allclose(agent.ucb, agent.theta + (radius + lost @ width) * width, rtol=1e-9)


def play_arms(rounds: int) -> list[int]:
    """The arms of the run above."""
    loop = fresh(policy=policy("both"), offline=LOG)
    arms = []
    for t in range(rounds):
        event = decide(loop, proposal=2)
        arms.append(event.arm)
        close(loop, event.number, None if t % 3 == 0 else 1.0)
    return arms


@pytest.mark.parametrize("budget", [linoto.LinOtO(alpha=0.5), linoto.LinLCB()], ids=["budget", "lcb"])
def test_lower_bounds_stay_valid_when_the_best_arm_is_lost_at_the_highest_reward(budget: Any) -> None:
    loop = fresh(policy=budget, offline=LOG, default_reward=1.0)
    for _ in play(loop, 400, MEANS, lost=lambda event, reward: True):
        pass
    assert (loop.agent.lcb <= MEANS).all()


def test_lost_rewards_survive_a_restart(tmp_path: Any) -> None:
    clock = FakeClock()
    with opened(tmp_path / "x.sqlite", clock=clock, snapshot_every=7) as service:
        create(service, policy=policy("both"), offline=LOG, window=10.0, holdback=0.3)
        for t in range(40):
            made = service.store.write_sync(lambda c: service.loops.decide(c, "loop"))
            if t % 2:
                report(service, f"1-{made.number}", 1.0)
            clock.now += 1.0
        close_due(service)
        run = service.loops.get("loop").agent.running.run
        assert run["lost_radius"] > 0 and run["mixed_pending"] > 0
        assert len(set(digests(service))) == 1


def test_lost_rewards_of_an_epoch_that_is_over_are_taken_and_forgotten() -> None:
    agent = linoto.Doubling(policy=policy("both")).start(
        np.eye(3), linoto.Offline(pulls=LOG.pulls, reward_sums=LOG.reward_sums), rng=0
    )
    first = agent.decide()
    agent.commit(first)
    second = agent.decide()
    agent.commit(second)
    agent.lose(first, 0.0)
    agent.lose(second, 0.0)
    assert agent.pending.sum() == 0


def test_control_plays_of_a_policy_that_only_plays_the_mixture_keep_to_its_schedule() -> None:
    """Twelve arms, a third of the plays held back: all plays together are within one rounding of the log."""
    pulls = [7, 5, 5, 3, 3, 3, 2, 2, 2, 1, 1, 1]
    log = LogStatistics(pulls=pulls, reward_sums=[0.0] * 12)
    from linoto.service.loops.spec import Arm

    for gate in (linoto.Closed(), linoto.Budget()):
        chosen = linoto.Gated(
            gate=gate, fallback="mixture", confidence=linoto.Confidence(noise=0.5, reward_range=(0.0, 1.0))
        )
        arms = [Arm(name=f"a{i}") for i in range(12)]
        loop = fresh(arms=arms, policy=chosen, offline=log, holdback=0.4, mode="shadow")
        shares, worst = np.array(pulls) / sum(pulls), 0.0
        for number in range(1, 400):
            close(loop, decide(loop).number, 0.0)
            behind = np.maximum(shares * number - np.array(loop.state.plays), 0.0)
            worst = max(worst, float(behind.sum()))
        assert worst <= loop.watch.kappa
        assert loop.watch.kappa == pytest.approx((1 if isinstance(gate, linoto.Closed) else 2) * 12 / np.e)


# -- on the page


def half_lost(default: float = 0.0, rounds: int = 400, every: int = 2, **changes: Any) -> Loop:
    """A loop of which every second reward was lost, or every n-th."""
    loop = fresh(policy=policy("both"), offline=LOG, default_reward=default, on_alarm="warn", **changes)
    for _ in play(loop, rounds, [0.6] * 3, lost=lambda event, reward: event.number % every == 0):
        pass
    return loop


def test_what_is_left_to_lose_does_not_depend_on_what_stands_in_for_a_lost_reward() -> None:
    low, high = (views.loop_view(half_lost(default)) for default in (0.0, 1.0))
    for field in ("lost", "known", "gain", "left_to_lose", "left_lower", "left_upper"):
        assert getattr(low, field) == pytest.approx(getattr(high, field)), field
    assert (low.lost, low.closed, high.realised) == (200, 400, low.realised + 200)
    assert low.gain == pytest.approx(low.known - 200 * 0.6)
    assert low.promised_loss is not None and low.gain is not None
    assert low.left_to_lose == pytest.approx(low.promised_loss + min(low.gain, 0.0))


def test_the_range_of_what_is_left_holds_every_value_that_lost_rewards_can_have_had() -> None:
    loop = half_lost()
    view = views.loop_view(loop)
    assert view.promised_loss is not None and view.left_lower is not None and view.left_upper is not None
    for each in (0.0, 0.3, 1.0):
        told = view.promised_loss + view.known + 200 * each - 400 * 0.6
        assert view.left_lower < min(told, view.promised_loss) <= view.left_upper


@pytest.mark.few(0)
def test_a_sum_below_the_alarms_line_is_an_alarm_where_rewards_are_lost_too() -> None:
    loop = half_lost(rounds=2000, every=5)
    watch, counted = loop.watch, loop.state.counted
    line = views.loop_view(loop).alarm_below
    assert line is not None and counted.rewards > line > 0 and loop.state.alarms == []
    for away, alarm in ((-0.01, True), (0.01, False)):
        counted.rewards = line + away
        assert (watch.promise(counted.plays, *watch.known(counted)) > watch.threshold) == alarm


def test_no_alarm_is_announced_at_a_sum_that_known_rewards_cannot_have() -> None:
    """With 200 of 400 lost, even 200 rewards of 0 are no alarm: a lost one may have been 1."""
    loop = half_lost()
    watch, counted = loop.watch, loop.state.counted
    counted.rewards = 0.0
    assert watch.promise(counted.plays, *watch.known(counted)) < watch.threshold
    assert views.loop_view(loop).alarm_below is None
    assert all(point.alarm_below is None for point in views.history(loop).points)


def test_the_course_of_a_loop_leaves_lost_rewards_out_and_older_loops_have_theirs_as_it_was() -> None:
    for version in (3, 4):
        loop = Loop.fresh("loop", structs.replace(half_lost(rounds=0).asked, version=version))
        for _ in play(loop, 400, MEANS, lost=lambda event, reward: event.number % 2 == 0):
            pass
        view, points = views.loop_view(loop), views.history(loop).points
        lost = view.lost if version == 4 else 0
        assert loop.state.history.points[-1].lost == lost and view.lost == 200
        assert view.expected_by_log is not None
        told = view.gain if version == 4 else view.realised - view.expected_by_log
        assert points[-1].gain == pytest.approx(told)


def totals_of(rewards: list[float], lost: int, stand_in: float) -> RewardTotals:
    """These rewards, and lost ones among them that count as something else."""
    found, every = RewardTotals(plays=len(rewards) + lost), len(rewards) // max(lost, 1)
    for i, reward in enumerate(rewards):
        found.add(reward, default=False)
        if i % every == 0 and found.defaults < lost:
            found.add(stand_in, default=True)
    return found


@pytest.mark.parametrize("default", [0.0, 0.3, 2.0])
def test_a_lost_reward_of_a_group_counts_as_the_lowest_and_as_the_highest(default: float) -> None:
    rewards, limits = (2 * np.random.default_rng(1).random(200)).tolist(), (-1.0, 3.0)
    shown = views.group_view(Earned(totals_of(rewards, 50, default), limits, lost=50, default=default))
    worst, best = (views.group_view(Earned(totals_of(rewards, 50, end), limits)) for end in limits)
    assert (shown.lower, shown.upper) == pytest.approx((worst.lower, best.upper))
    assert (shown.closed, shown.lost, shown.mean) == (250, 50, pytest.approx(np.mean(rewards)))


@pytest.mark.parametrize("centre", [1.0, 1e3])
def test_without_a_range_the_interval_of_a_group_is_that_of_its_known_rewards(centre: float) -> None:
    rewards = np.random.default_rng(2).normal(centre, 1.0, 200).tolist()
    shown = views.group_view(Earned(totals_of(rewards, 50, 0.0), None, lost=50))
    told = views.group_view(Earned(totals_of(rewards, 0, 0.0), None))
    ends = [(view.mean, view.lower, view.upper) for view in (shown, told)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-6) and shown.lower is not None
    few = views.group_view(Earned(totals_of(rewards[:40], 20, 0.0), None, lost=20))
    assert few.lower is None and few.mean == pytest.approx(np.mean(rewards[:40]))


def test_of_a_group_whose_rewards_are_all_lost_nothing_is_said() -> None:
    totals = RewardTotals(plays=60)
    for _ in range(60):
        totals.add(0.0, default=True)
    for limits in ((0.0, 1.0), None):
        shown = views.group_view(Earned(totals, limits, lost=60))
        assert (shown.mean, shown.lower, shown.upper, shown.closed) == (None, None, None, 60)


@pytest.mark.parametrize("default", [0.0, 1.0])
def test_the_intervals_of_groups_hold_whichever_rewards_are_lost(default: float) -> None:
    """All arms earn 0.6; an interval misses that one time in twenty, not at this seed."""
    for lost in (LOSSES["at random"], lambda event, reward: reward == 1.0 and event.number % 2 == 0):
        loop = fresh(
            policy=policy("both"), offline=LOG, default_reward=default, holdback=0.3, on_alarm="warn"
        )
        for _ in play(loop, 800, [0.6] * 3, lost=lost):
            pass
        (view,), groups = views.loop_views([loop]), views.loop_view(loop).groups
        assert view.groups == groups and sum(group.lost for group in groups.values()) == loop.lost > 100
        for group in (group for group in groups.values() if group.closed):
            assert group.mean is not None and group.lower is not None and group.upper is not None
            assert group.lower < 0.6 < group.upper and group.lower < group.mean < group.upper


def test_defaults_that_are_rewards_count_in_the_means_of_groups() -> None:
    shown = [
        group for group in views.loop_view(half_lost(missing_reward="default")).groups.values() if group.plays
    ]
    for group in shown:
        assert group.defaults > 0 == group.lost and group.mean == pytest.approx(group.rewards / group.closed)


def test_arms_after_a_drift_alarm_are_shown_with_lost_rewards_at_both_ends() -> None:
    """The log earned 0.6, the world 0.3, and of its rewards half of the good ones are lost."""
    log = LogStatistics(pulls=[3000, 1000, 0], reward_sums=[2700.0, 900.0, 0.0])
    loop = fresh(policy=policy("both"), offline=log, on_alarm="warn")
    for _ in play(loop, 2000, [0.3] * 3, lost=lambda event, reward: reward == 1.0 and event.number % 2 == 0):
        pass
    assert loop.state.since_drift is not None
    shown = [arm for arm in arm_views(loop) if arm.plays > 300]
    for arm in shown:
        assert arm.mean is not None and arm.lcb is not None and arm.ucb is not None
        assert arm.lcb < 0.3 < arm.ucb and arm.mean < 0.25
    assert shown


def test_items_of_a_loop_with_contexts_are_shown_with_lost_rewards_at_both_ends() -> None:
    totals = totals_of([0.0, 1.0] * 100, 100, 0.0)
    numbers = ItemNumbers(["a"], [Earned(totals, (0.0, 1.0), lost=100)], frozenset(), [], None)
    (arm,) = numbers.rows()
    assert arm.mean == 0.5 and arm.lcb is not None and arm.ucb is not None
    assert arm.lcb < 1 / 3 and arm.ucb > 2 / 3
