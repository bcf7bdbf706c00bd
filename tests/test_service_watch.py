"""The watch raises few false alarms however often it looks, and raises true ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_process import create, opened
from test_service_loops import decide, digests, reward

import linoto
from linoto.service.watch import Scale, log_evidence

BOUNDED = Scale(low=0.0, high=1.0, noise=0.5, bounded=True)
GAUSSIAN = Scale(low=-5.0, high=5.0, noise=0.5, bounded=False)


@pytest.mark.parametrize("scale", [BOUNDED, GAUSSIAN])
def test_a_true_claim_is_contradicted_at_any_time_with_the_stated_chance_at_most(scale: Scale) -> None:
    """400 paths of 200 looks at level 0.1: at most 0.1 + 4 standard errors may ever cross."""
    rng, crossed = np.random.default_rng(0), 0
    for _ in range(400):
        mean = 0.7
        rewards = rng.random(200) < mean if scale.bounded else mean + 0.5 * rng.standard_normal(200)
        sums = np.cumsum(rewards)
        crossed += any(log_evidence(scale, sums[n - 1], n, n * mean) > np.log(10) for n in range(1, 201))
    assert crossed / 400 < 0.1 + 4 * np.sqrt(0.09 / 400)


@pytest.mark.parametrize("scale", [BOUNDED, GAUSSIAN])
def test_a_false_claim_is_found_out(scale: Scale) -> None:
    rng = np.random.default_rng(1)
    rewards = rng.random(400) < 0.5 if scale.bounded else 0.5 + 0.5 * rng.standard_normal(400)
    assert log_evidence(scale, float(rewards.sum()), 400, 400 * 0.7) > np.log(1000)


POLICY = linoto.Gated(
    gate=linoto.Tolerance(epsilon=0.05),
    confidence=linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0)),
)
LOG: dict[str, Any] = {"pulls": [3000, 2000, 0], "reward_sums": [2700.0, 1800.0, 0.0]}


@pytest.mark.parametrize("on_alarm", ["warn", "safe-only"])
def test_a_world_that_turned_bad_raises_both_alarms_once(tmp_path: Path, on_alarm: str) -> None:
    from linoto.service.messages import LogStatistics

    with opened(tmp_path / "x.sqlite", snapshot_every=50) as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), on_alarm=on_alarm)
        for t in range(150):
            reward(service, decide(service).decision_id, float(t % 2))
        books = service.loops.get("loop").books
        assert "promise" in [alarm.kind for alarm in books.alarms]
        assert len({alarm.kind for alarm in books.alarms}) == len(books.alarms)
        assert books.mode == ("safe-only" if on_alarm == "safe-only" else "live")
        assert len(set(digests(service))) == 1


def test_a_world_as_the_log_raises_no_alarm(tmp_path: Path) -> None:
    from linoto.service.messages import LogStatistics

    rng = np.random.default_rng(2)
    with opened(tmp_path / "x.sqlite") as service:
        create(service, policy=POLICY, offline=LogStatistics(**LOG), holdback=0.3)
        for _ in range(400):
            reward(service, decide(service).decision_id, float(rng.random() < 0.9))
        assert service.loops.get("loop").books.alarms == []
