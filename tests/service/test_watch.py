"""The watch raises few false alarms however often it checks, and raises true ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import loop_in_memory as memory
from helpers.loops import change, decide, digests, reward
from helpers.service_process import create, opened, spec_of
from msgspec.structs import replace

import linoto
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import with_defaults
from linoto.service.loops.watch import Scale, Watch, log_evidence

BOUNDED = Scale(low=0.0, high=1.0, noise=0.5, bounded=True)
GAUSSIAN = Scale(low=-5.0, high=5.0, noise=0.5, bounded=False)


@pytest.mark.parametrize("scale", [BOUNDED, GAUSSIAN])
@pytest.mark.few(0)
def test_a_true_claim_is_contradicted_at_any_time_with_the_stated_chance_at_most(scale: Scale) -> None:
    """160 paths of 200 looks at level 0.1: P(binomial(160, 0.1) > 32) = 5e-5."""
    rng, crossed = np.random.default_rng(0), 0
    for _ in range(160):
        mean = 0.7
        rewards = rng.random(200) < mean if scale.bounded else mean + 0.5 * rng.standard_normal(200)
        sums = np.cumsum(rewards)
        crossed += any(log_evidence(scale, sums[n - 1], n, n * mean) > np.log(10) for n in range(1, 201))
    assert crossed <= 32


def test_means_that_depend_on_the_past_raise_no_more_alarms() -> None:
    """After a loss the next mean is 1, after a gain 0.5; 160 paths at level 0.1, limit as above."""
    rng, crossed = np.random.default_rng(3), 0
    for _ in range(160):
        rewards, means = 0.0, 0.0
        last = found = False
        for n in range(1, 201):
            mean = 0.5 if last else 1.0
            last = bool(rng.random() < mean)
            rewards, means = rewards + last, means + mean
            found = found or log_evidence(BOUNDED, rewards, n, means) > np.log(10)
        crossed += found
    assert crossed <= 32


@pytest.mark.parametrize("scale", [BOUNDED, GAUSSIAN])
def test_a_false_claim_raises_an_alarm(scale: Scale) -> None:
    rng = np.random.default_rng(1)
    rewards = rng.random(400) < 0.5 if scale.bounded else 0.5 + 0.5 * rng.standard_normal(400)
    assert log_evidence(scale, float(rewards.sum()), 400, 400 * 0.7) > np.log(1000)


POLICY = linoto.Gated(
    gate=linoto.Tolerance(epsilon=0.05),
    confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0)),
)
LOG: dict[str, Any] = {"pulls": [3000, 2000, 0], "reward_sums": [2700.0, 1800.0, 0.0]}


@pytest.mark.parametrize("on_alarm", ["warn", "safe-only"])
def test_rewards_that_became_worse_raise_both_alarms_once(tmp_path: Path, on_alarm: str) -> None:
    from linoto.service.loops.spec import LogStatistics

    with opened(tmp_path / "x.sqlite", snapshot_every=50) as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), on_alarm=on_alarm)
        for t in range(150):
            reward(service, decide(service).decision_id, float(t % 2))
        state = service.loops.get("loop").state
        assert "promise" in [alarm.kind for alarm in state.alarms]
        assert on_alarm == "warn" or len({alarm.kind for alarm in state.alarms}) == len(state.alarms)
        assert state.mode == ("safe-only" if on_alarm == "safe-only" else "live")
        assert len(set(digests(service))) == 1


@pytest.mark.few(0)
def test_rewards_as_in_the_log_raise_no_alarm(tmp_path: Path) -> None:
    from linoto.service.loops.spec import LogStatistics

    rng = np.random.default_rng(2)
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), holdback=0.3)
        for _ in range(400):
            reward(service, decide(service).decision_id, float(rng.random() < 0.9))
        assert service.loops.get("loop").state.alarms == []


@pytest.mark.parametrize("noise", ["bounded", 0.5])
def test_the_alarm_is_raised_exactly_below_the_line_that_is_drawn(noise: Any) -> None:
    confidence = linoto.Confidence(noise=noise, reward_range=(0.0, 1.0))
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.05), confidence=confidence)
    agent = policy.start(np.eye(3), linoto.Offline(**LOG), rng=0)
    watch = Watch.over_arms(agent, agent.certificate, with_defaults(spec_of(), "loop"))
    closed = np.array([0, 3, 100, 2000, 100_000])
    lines = watch.alarm_below(closed, watch.threshold)
    assert lines is not None and np.isnan(lines[0]) and np.isfinite(lines[2:]).all()
    for n, line in zip(closed[2:].tolist(), lines[2:].tolist(), strict=True):
        assert watch.promise(n, n, line - 1e-6 * n) > watch.threshold > watch.promise(n, n, line + 1e-6 * n)


def watch_of(mean: float, noise: Any = "bounded") -> Watch:
    """A watch that knows the mean of the log very well, and is promised that nothing is lost."""
    confidence = linoto.Confidence(noise=noise, reward_range=(0.0, 1.0))
    policy = linoto.Gated(gate=linoto.Tolerance(epsilon=0.0), confidence=confidence)
    log = linoto.Offline(pulls=[10**9], reward_sums=[mean * 1e9])  # type: ignore[arg-type]
    agent = policy.start(np.eye(1), log, rng=0)
    return Watch.over_arms(agent, agent.certificate, with_defaults(spec_of(), "loop"))


@pytest.mark.parametrize("late", [None, 0.0, 1.0], ids=["prompt", "zeros late", "ones late"])
@pytest.mark.few(1)
def test_late_rewards_raise_no_alarm_whichever_come_late(late: float | None) -> None:
    """15 true worlds of 800 plays, two watches at level 0.01: more than 4 alarms have a chance of 8e-6."""
    watch, rng, alarms = watch_of(0.5), np.random.default_rng(4), 0
    for _ in range(15):
        found, closed, rewards = False, 0, 0.0
        for plays, value in enumerate((rng.random(800) < 0.5).astype(float).tolist(), 1):
            if value != late:
                closed, rewards = closed + 1, rewards + value
            evidence = max(watch.promise(plays, closed, rewards), watch.drift(plays, closed, rewards))
            found = found or evidence > watch.threshold
        alarms += found
    assert alarms <= 4


def test_without_a_given_range_no_drift_is_reported(tmp_path: Path) -> None:
    from linoto.service.loops.spec import LogStatistics

    log = LogStatistics(pulls=[50, 50, 0], reward_sums=[5000.0, 5000.0, 0.0])  # bound 1 would allow 1 each
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=linoto.LinUCB(), offline=log, holdback=0.5)
        for _ in range(40):
            reward(service, decide(service).decision_id, 100.0)
        assert service.loops.get("loop").state.alarms == []


def test_a_warning_comes_again_when_the_evidence_is_squared(tmp_path: Path) -> None:
    from linoto.service.loops.spec import LogStatistics

    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), on_alarm="warn")
        for _ in range(400):
            reward(service, decide(service).decision_id, 0.0)
        state = service.loops.get("loop").state
        kinds = [alarm.kind for alarm in state.alarms]
        assert state.mode == "live" and 3 <= kinds.count("promise") <= 10
        assert (
            state.promise.next_threshold is not None and state.promise.next_threshold > state.promise.evidence
        )
        assert len(set(digests(service))) == 1


def test_an_acknowledged_alarm_is_raised_again_for_much_more_evidence(tmp_path: Path) -> None:
    from linoto.service.loops.spec import LogStatistics

    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), on_alarm="safe-only")
        state = service.loops.get("loop").state
        rang: list[int] = []
        for t in range(300):
            reward(service, decide(service).decision_id, 0.0)
            if state.mode == "safe-only":
                rang.append(t)
                change(service, mode="live")
        kinds = [alarm.kind for alarm in state.alarms]
        assert len(rang) >= 3 and kinds.count("promise") >= 2
        assert len(state.alarms) < 300  # not at every reward
        assert len(set(digests(service))) == 1


# -- the same bits everywhere


def broken(*_: Any, **__: Any) -> Any:
    raise AssertionError("last bits of NumPy's functions depend on the processor")


def kinds_of_loops() -> list[Loop]:
    """Watched for the promise and drift, by a coin, without a range, and with the rule of version 1."""
    clicks = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    coin = linoto.Gated(gate=linoto.Control(budget=20.0), confidence=clicks)
    loose = linoto.Gated(gate=linoto.Tolerance(budget=5.0))
    first = replace(spec_of(), version=1)
    return [memory.fresh(), memory.fresh(policy=coin), memory.fresh(policy=loose), Loop.fresh("loop", first)]


@pytest.mark.parametrize("kind", range(4))
def test_no_evidence_comes_from_functions_whose_bits_depend_on_the_processor(
    monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    """A loop is replayed on another machine: with what NumPy has for exp and log broken, it is the same."""
    loop, again = kinds_of_loops()[kind], kinds_of_loops()[kind]
    events = list(memory.play(loop, 60, [0.0, 0.0, 0.0]))
    for name in ("exp", "expm1", "log", "log1p", "logaddexp", "power"):
        monkeypatch.setattr(np, name, broken)
    for event in events:
        again.apply(event, float(event.number))
        memory.close(again, event.number, 0.0)
    assert again.digest() == loop.digest() and loop.state.promise.evidence > -1e300


PRINTED_BITS = """
import numpy as np
from linoto.service.loops.detector import Block, Claim, Detector
from linoto.service.loops.watch import Scale, log_evidence

rng = np.random.default_rng(0)
detector = Detector(size=1)
for number, reward in enumerate(rng.random(50).tolist(), 1):
    detector.blocks.append(Block(number, 1, 1, reward, 1, 1, reward))
    scale = Scale(low=0.0, high=1.0, noise=0.5, bounded=True)
    print(log_evidence(scale, reward * number, number, 0.9 * number))
print(detector.evidence(Claim.about((0.4, 0.6), (0.0, 1.0), None, 0.3)), detector.logs)
"""


def test_evidence_has_the_same_bits_on_a_plainer_processor() -> None:
    config: Any = np.show_config(mode="dicts")
    found = " ".join(config["SIMD Extensions"]["found"])
    printed = {
        subprocess.run(
            [sys.executable, "-c", PRINTED_BITS], env=env, capture_output=True, text=True, check=True
        ).stdout
        for env in (dict(os.environ), {**os.environ, "NPY_DISABLE_CPU_FEATURES": found})
    }
    assert len(printed) == 1 and "-inf" not in printed.pop().splitlines()[-1]
