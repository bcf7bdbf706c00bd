"""Guard: the reward rule alone, around any recommender."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto

MEANS = np.array([0.8, 0.6, 0.3, 0.95])
PULLS = np.array([60, 40, 0, 0])


def log(seed: int = 0) -> linoto.Offline:
    sums = np.random.default_rng(seed).binomial(PULLS, MEANS).astype(np.float64)
    return linoto.Offline(pulls=PULLS, reward_sums=sums)


def guard(**changes: Any) -> linoto.Guard:
    settings: dict[str, Any] = {"epsilon": 0.05, "reward_range": (0, 1), "noise": "bounded", **changes}
    return linoto.Guard(log(), **settings)


@pytest.mark.parametrize("noise", [0.5, "bounded"])
@pytest.mark.parametrize("relative", [False, True])
def test_a_guard_decides_as_the_gated_agent_with_rewards_does(noise: Any, relative: bool) -> None:
    """One-hot features and a closed eye: the model has no say, so only the ledger decides."""
    watch = guard(noise=noise, relative=relative)
    agent = linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.05, evidence="rewards", relative=relative),
        confidence=linoto.Confidence(noise=noise, reward_range=(0, 1), bound=4.0),
    ).start(np.eye(4), log())
    rng = np.random.default_rng(1)
    explored = 0
    for _ in range(800):
        proposal = int(rng.integers(4))
        mine, theirs = watch.decide(proposal), agent.guard(proposal)
        assert (mine.arm, mine.source, mine.round) == (theirs.arm, theirs.source, theirs.round)
        assert mine.budget == pytest.approx(theirs.budget, rel=1e-12, abs=1e-12)
        reward = float(rng.random() < MEANS[mine.arm])
        watch.update(mine, reward)
        agent.update(theirs, reward)
        explored += mine.mode == "explore"
    assert 0 < explored < 800


@pytest.mark.parametrize("noise", [0.5, "bounded"])
@pytest.mark.few(1)
def test_a_recommender_that_only_proposes_the_worst_loses_no_more_than_promised(noise: Any) -> None:
    """30 runs; the promise may fail in 5 % of them, and fails in less than 1 in 1000 (proofs are loose), so a
    false alarm has a chance below 3 %."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        watch = linoto.Guard(log(seed), epsilon=0.05, reward_range=(0, 1), noise=noise)
        reference = float(PULLS @ MEANS / PULLS.sum())
        lost, certificate = 0.0, watch.certificate
        for t in range(1, 400):
            decision = watch.decide(2)
            watch.update(decision, float(rng.random() < MEANS[decision.arm]))
            lost += reference - MEANS[decision.arm]
            assert lost <= (certificate.loss(t) or 0.0)
        assert watch.certificate == certificate, "what was promised at the start"


def test_a_good_recommender_is_let_through_more_and_more() -> None:
    watch, rng = guard(), np.random.default_rng(0)
    modes = []
    for _ in range(1500):
        decision = watch.decide(3)
        watch.update(decision, float(rng.random() < MEANS[decision.arm]))
        modes.append(decision.mode == "explore")
    assert np.mean(modes[:100]) < np.mean(modes[-100:]) == 1.0


def test_asking_twice_is_asking_once() -> None:
    watch = guard()
    assert watch.decide(3) == watch.decide(3)
    assert watch.decide(2).fallback == watch.decide(3).fallback
    assert watch.rounds == 0


def test_a_snapshot_has_the_same_future() -> None:
    watch, rng = guard(), np.random.default_rng(2)
    for step in range(300):
        if step in (0, 7, 150):
            twin = linoto.restore(watch.snapshot())
            assert isinstance(twin, linoto.Guard)
            assert twin.decide(3) == watch.decide(3)
            watch = twin
        decision = watch.decide(int(rng.integers(4)))
        watch.commit(decision)
        if rng.random() < 0.7:
            watch.observe(decision, float(rng.random() < MEANS[decision.arm]))
    assert watch.rounds == 300
    assert 0 < watch.pending.sum() < 300


def test_late_rewards_count_as_the_lowest_until_they_come() -> None:
    watch = guard()
    decision = watch.decide(0)
    watch.commit(decision)
    before = watch.decide(3).budget
    watch.observe(decision, 1.0)
    after = watch.decide(3).budget
    assert before is not None and after is not None and after >= before


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: linoto.Guard([1, 2], epsilon=0.1, reward_range=(0, 1)), "offline must be a linoto.Offline"),
        (lambda: guard(epsilon=-1), "epsilon must be a number >= 0"),
        (lambda: guard(reward_range=(1, 0)), "reward_range must be"),
        (lambda: guard(reward_range=None), "reward_range must be given"),
        (lambda: guard(delta=2), "delta must be in"),
        (lambda: guard(noise=-1.0), "noise must be a positive number"),
        (lambda: guard().decide(4), r"arm must be in \[0, 4\), got 4"),
        (lambda: guard().commit(1), "decision must be what decide returned"),
        (lambda: guard().observe(0, 1.0), "arm must have a committed play"),
        (lambda: guard().update(guard().decide(0), 7.0), r"reward must be in \[0, 1\]"),
        (
            lambda: linoto.Guard(linoto.Offline.empty(2), epsilon=0.1, reward_range=(0, 1)),
            "offline must hold",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
