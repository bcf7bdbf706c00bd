"""A change is noticed as fast after long good times as after short ones, and false alarms are rare."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers.loop_in_memory import close, decide, fresh, play
from helpers.loops import decide as store_decide
from helpers.loops import reward as store_reward
from helpers.service_process import FakeClock, opened, spec_of

import linoto
from linoto.service.loops.detector import MOST_BLOCKS, TILTS, Block, Claim, Detector
from linoto.service.loops.events import SettingsChanged
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LogStatistics
from linoto.service.maintenance import check

UNIT = (0.0, 1.0)
STARS = Path(__file__).parents[1] / "data" / "version-0.3"
CLAIMS = {
    "bounded": Claim.about((0.4, 0.6), UNIT, None, 0.0),
    "sub-Gaussian": Claim.about((0.4, 0.6), UNIT, 0.5, 0.0),
}


def rewards_at(rng: np.random.Generator, kind: str, mean: float, n: int) -> list[float]:
    if kind == "bounded":
        return (rng.random(n) < mean).astype(float).tolist()
    return (mean + 0.5 * rng.standard_normal(n)).tolist()


def first_alarm(rewards: list[float], claim: Claim, run: float) -> int:
    """After how many plays the evidence reaches its limit; all of them where it never does."""
    detector = Detector()
    for number, reward in enumerate(rewards, 1):
        detector.add_play(number, True)
        detector.add_reward(number, True, (reward, reward))
        if detector.evidence(claim) > np.log(run):
            return number
    return len(rewards)


@pytest.mark.parametrize("kind", sorted(CLAIMS))
@pytest.mark.parametrize("mean", [0.4, 0.6])
@pytest.mark.few(1)
def test_false_alarms_come_no_sooner_than_stated(kind: str, mean: float) -> None:
    """At the very edge of what is claimed: 60 runs, each cut at 150 plays, 30 between false alarms.

    Their mean is at least 30 but for three standard errors (at most 6 each); without the cut it is larger.
    """
    rng = np.random.default_rng(0)
    runs = [first_alarm(rewards_at(rng, kind, mean, 150), CLAIMS[kind], 30.0) for _ in range(60)]
    assert np.mean(runs) >= 30.0


RANGES = [(0.0, 1.0), (0.0, 10.0), (-180.0, 60.0), (1.0, 5.0), (-1e6, -9e5), (0.0, 0.1), (0.0, 500.0)]


@pytest.mark.parametrize("limits", RANGES)
@pytest.mark.few(len(RANGES))
def test_units_and_zero_of_rewards_change_no_evidence(limits: tuple[float, float]) -> None:
    low, high = limits
    scaled = [low + (high - low) * x for x in (0.4, 0.6)]
    claim = Claim.about((scaled[0], scaled[1]), limits, None, 0.5)
    plain = Claim.about((0.4, 0.6), UNIT, None, 0.5)
    detectors = Detector(), Detector()
    for number, x in enumerate(np.random.default_rng(3).random(40).tolist(), 1):
        for detector, reward in zip(detectors, (x, low + (high - low) * x), strict=True):
            detector.add_play(number, True)
            detector.add_reward(number, True, (reward, reward))
    found, wanted = detectors[0].evidence(plain), detectors[1].evidence(claim)
    assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("limits", RANGES)
@pytest.mark.few(len(RANGES))
def test_what_one_reward_says_against_a_true_claim_is_at_most_1_on_average(
    limits: tuple[float, float],
) -> None:
    """Of rewards at both ends, whose mean is at the edge of what is claimed: there it is 1 for each tilt."""
    low, high = limits
    unit = high - low
    claim = Claim.about((low + 0.4 * unit, low + 0.6 * unit), limits, None, 0.0)
    for side, sign, share in ((0, -1.0, 0.4), (1, 1.0, 0.6)):
        for each, tilt in zip(claim.per_play[side], claim.tilts, strict=True):
            factors = [np.exp(sign * end * tilt - each) for end in limits]
            assert (1 - share) * factors[0] + share * factors[1] == pytest.approx(1.0, rel=1e-6)


def test_the_detector_is_the_sum_over_starting_times() -> None:
    """Against plain NumPy, with blocks of one play each: M_t = sum over s of prod from s to t."""
    rng = np.random.default_rng(1)
    rewards, claim = rng.random(40), CLAIMS["bounded"]
    detector = Detector(size=1)
    for number, reward in enumerate(rewards.tolist(), 1):
        detector.blocks.append(Block(number, 1, 1, reward, 1, 1, reward))
    found = detector.evidence(claim)
    sides = []
    for x, m in ((rewards, 0.4), (1 - rewards, 1 - 0.6)):
        e = np.exp(-np.outer(x, TILTS)) / (1 - m * (1 - np.exp(-np.array(TILTS))))
        sides.append(sum(np.prod(e[s:], axis=0) for s in range(40)))
    assert found == pytest.approx(np.log(np.mean(sides)))


@pytest.mark.few(0)
def test_it_does_not_matter_when_rewards_come() -> None:
    """The same rewards in another order give the same evidence once all are there, and before never more than
    there ever was with all of them at once.
    """
    rng = np.random.default_rng(2)
    rewards, claim = (rng.random(300) < 0.3).astype(float), CLAIMS["bounded"]
    prompt, late, most = Detector(), Detector(), -np.inf
    for number, reward in enumerate(rewards.tolist(), 1):
        for detector in (prompt, late):
            detector.add_play(number, True)
        prompt.add_reward(number, True, (reward, reward))
        most = max(most, prompt.evidence(claim))
    for number in rng.permutation(300).tolist():
        late.add_reward(number + 1, True, (rewards[number], rewards[number]))
        assert late.evidence(claim) <= most + 1e-9
    assert late.evidence(claim, now=True) == pytest.approx(prompt.evidence(claim, now=True))


def test_what_is_kept_is_bounded_however_many_rewards_are_open() -> None:
    detector = Detector()
    for number in range(1, 20_001):
        detector.add_play(number, True)
    assert len(detector.blocks) <= MOST_BLOCKS and sum(block.plays for block in detector.blocks) == 20_000
    for number in range(1, 20_001):
        detector.add_reward(number, True, (0.5, 0.5))
    detector.evidence(CLAIMS["bounded"])
    assert len(detector.blocks) <= 1
    for number in range(20_001, 21_001):
        detector.add_play(number, True)
        detector.add_reward(number, True, (0.5, 0.5))
        detector.evidence(CLAIMS["bounded"])
    assert detector.size == 8


LOG = LogStatistics(pulls=[1200, 800, 0], reward_sums=[600.0, 400.0, 0.0])


def loop_of(budget: float = 10.0, **changes: Any) -> Loop:
    """One that often plays practice: only these plays are compared with the log."""
    policy = linoto.Gated(
        explorer=linoto.LinUCB(),
        gate=linoto.Tolerance(budget=budget),
        confidence=linoto.Confidence(noise="bounded", reward_range=UNIT, bound=2.0),
    )
    return fresh(policy=policy, offline=LOG, holdback=0.05, **changes)


def delay(loop: Loop, good: int, before: list[float], after: list[float]) -> int:
    """Decisions from a change of the world until the first alarm."""
    for _ in play(loop, good, before):
        pass
    assert loop.state.alarms == []
    for waited, _ in enumerate(play(loop, 3000, after, seed=1), 1):
        if loop.state.alarms:
            return waited
    return 3000


@pytest.mark.parametrize("good", [300, 2000, pytest.param(6000, marks=pytest.mark.slow)])
@pytest.mark.few(1)
def test_halved_rewards_are_noticed_as_fast_after_long_good_times(good: int) -> None:
    assert delay(loop_of(), good, [0.5] * 3, [0.25] * 3) <= 250


@pytest.mark.few(0)
def test_a_fall_by_a_fifth_is_noticed_within_1500_decisions() -> None:
    """0.5 becomes 0.4, with a log of 2,000 rows and a control group of 5 %."""
    assert delay(loop_of(), 1000, [0.5] * 3, [0.4] * 3) <= 1500


def test_a_change_that_was_allowed_for_raises_no_alarm() -> None:
    loop = loop_of(drift_allowed=0.2)
    for _ in play(loop, 1500, [0.4] * 3):
        pass
    assert "drift" not in [alarm.kind for alarm in loop.state.alarms]


def test_a_rise_is_noticed_too() -> None:
    assert delay(loop_of(), 500, [0.5] * 3, [0.75] * 3) <= 500


def test_an_answer_lets_the_watch_begin_anew() -> None:
    loop = loop_of()
    delay(loop, 100, [0.5] * 3, [0.1] * 3)
    assert loop.state.mode == "safe-only" and len(loop.open_alarms) == 1
    loop.apply(SettingsChanged(mode="safe-only", holdback=0.05, by="ann"), loop.state.at)
    assert loop.open_alarms == [] and loop.state.mode == "safe-only"
    for _ in play(loop, 20, [0.5] * 3):
        pass
    assert loop.open_alarms == [] and not loop.state.drift.raised
    for _ in play(loop, 300, [0.1] * 3):
        pass
    assert "drift" in [alarm.kind for alarm in loop.open_alarms]


@pytest.mark.few(0)
def test_a_warning_is_repeated_rarely_while_a_change_lasts_and_at_once_after_the_next() -> None:
    loop = loop_of(on_alarm="warn")
    delay(loop, 100, [0.5] * 3, [0.1] * 3)
    for _ in play(loop, 500, [0.1] * 3, seed=2):
        pass
    drifts = [alarm.kind for alarm in loop.state.alarms].count("drift")
    assert 2 <= drifts <= 10
    for _ in play(loop, 3000, [0.5] * 3, seed=3):
        pass
    assert loop.state.drift.next_threshold is None
    for _ in play(loop, 100, [0.1] * 3, seed=4):
        pass
    assert [alarm.kind for alarm in loop.state.alarms].count("drift") > drifts


def test_lost_rewards_are_no_sign_of_drift_but_reported_ones_beside_them_are() -> None:
    loop = loop_of()
    for _ in play(loop, 400, [0.5] * 3, lost=lambda event, reward: event.number % 2 == 0):
        pass
    assert loop.state.alarms == []
    for _ in play(loop, 600, [0.0] * 3, lost=lambda event, reward: event.number % 4 == 0):
        pass
    assert "drift" in [alarm.kind for alarm in loop.state.alarms]


def test_a_loop_of_an_older_version_is_watched_as_before() -> None:

    made = loop_of()
    old = Loop.fresh("loop", msgspec.structs.replace(made.asked, version=1, holdback=0.5))
    for _ in range(50):
        close(old, decide(old).number, 0.0)
    assert old.state.detector == Detector() and old.state.drift.evidence > -1e300


def loop_of_stars() -> Loop:
    """Rewards from 0 to 10."""
    policy = linoto.Gated(
        explorer=linoto.LinUCB(),
        gate=linoto.Tolerance(budget=300.0),
        confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 10.0), bound=10.0),
    )
    log = LogStatistics(pulls=[5000, 5000, 0], reward_sums=[20000.0, 30000.0, 0.0])
    spec = spec_of(policy, offline=log, holdback=0.5, default_reward=5.0, on_alarm="safe-only")
    return Loop.fresh("stars", spec)


def test_stars_that_earn_what_the_log_did_raise_no_alarm() -> None:
    """Rewards of 0 and 10 as in the log: the chance of an alarm in 400 plays is below 0.004."""
    loop, rng = loop_of_stars(), np.random.default_rng(0)
    for _ in range(400):
        event = decide(loop)
        close(loop, event.number, 10.0 * float(rng.random() < (0.4, 0.6, 0.5)[event.arm]))
    assert loop.state.mode == "live" and not loop.state.alarms


def test_a_loop_that_0_3_stopped_for_no_reason_is_watched_anew_and_replays_as_it_was(tmp_path: Path) -> None:
    """0.3.0 wrote it: 60 decisions that earned what the log did, an alarm, and no more exploring."""
    path = Path(shutil.copy(STARS / "stars.sqlite", tmp_path / "stars.sqlite"))
    wanted = json.loads((STARS / "stars.json").read_text())
    clock, rng = FakeClock(wanted["clock"]), np.random.default_rng(0)
    assert all(line.endswith(("ok", "agree")) for line in check(path))
    with opened(path, clock=clock) as service:
        loop = service.loops.get("stars")
        assert (loop.state.decided, loop.state.seq) == (wanted["decided"], wanted["seq"] + 1)
        assert loop.state.watched_anew and not loop.watch.claim.skewed  # type: ignore[union-attr]
        assert loop.state.mode == "safe-only" and len(loop.open_alarms) == 1  # which a person ends
        service.store.write_sync(
            lambda c: service.loops.change(c, "stars", by="somebody", mode="live", holdback=None)
        )
        for _ in range(100):
            clock.now += 1
            made = store_decide(service, "stars")
            stars = 10.0 * float(rng.random() < (0.4, 0.6, 0.5)[loop.names.index(made.arm)])
            store_reward(service, made.decision_id, stars, "stars")
        assert loop.state.mode == "live" and not loop.open_alarms
        seq = loop.state.seq
    with opened(path, clock=clock) as service:  # once is enough
        assert service.loops.get("stars").state.seq == seq
    assert all(line.endswith(("ok", "agree")) for line in check(path))
