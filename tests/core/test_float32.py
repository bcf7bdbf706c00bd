"""Features of many arms in float32: half the memory, from a file or not, and the same bits."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Gated, LinUCB, Offline, Tolerance

TOLERANT = Gated(explorer=LinUCB(), gate=Tolerance(budget=3.0))


def items(k: int = 4200, d: int = 6) -> tuple[Any, Offline, Any]:
    rng = np.random.default_rng(0)
    actions = rng.standard_normal((k, d)).astype(np.float32) / np.float32(d)
    theta = rng.standard_normal(d)
    means = actions.astype(np.float64) @ theta / np.linalg.norm(theta)
    pulls = rng.integers(3, size=k)
    return actions, Offline(pulls=pulls, reward_sums=pulls * means), means


@pytest.mark.parametrize(
    "policy", [LinUCB(), pytest.param(TOLERANT, marks=pytest.mark.slow)], ids=["LinUCB", "in a tolerance"]
)
def test_float32_features_give_the_bits_of_the_same_numbers_in_float64(policy: Any, tmp_path: Path) -> None:
    actions, log, means = items()
    np.save(tmp_path / "items.npy", np.asfortranarray(actions))
    given = np.load(tmp_path / "items.npy", mmap_mode="r"), actions, actions.astype(np.float64)
    mapped, single, double = (policy.start(each, log, rng=0) for each in given)
    draws = 0.1 * np.random.default_rng(1).standard_normal(700)  # a refresh is among them
    played = [agent.play(means, draws)[0] for agent in (mapped, single, double)]
    for agent, arms in zip((mapped, single), played, strict=False):
        assert agent.running.held.actions.dtype == np.float32 and agent.running.lists is not None
        np.testing.assert_array_equal(arms, played[-1])
        assert agent.select(allowed=[3, 4, 5]) == double.select(allowed=[3, 4, 5])
        assert agent.certificate == double.certificate
        for name in ("means", "lcb", "ucb", "theta", "actions"):
            np.testing.assert_array_equal(getattr(agent, name), getattr(double, name))
    again = linoto.restore(mapped.checkpoint(), given[0]), linoto.restore(single.snapshot())
    for agent in again:
        assert agent.running.held.actions.dtype == np.float32
        np.testing.assert_array_equal(agent.play(means, draws[:30])[0], double.play(means, draws[:30])[0])
        double = linoto.restore(single.snapshot()) if agent is again[0] else double


def test_a_file_of_features_is_not_copied_and_an_array_that_may_change_is(tmp_path: Path) -> None:
    actions, log, _ = items()
    np.save(tmp_path / "items.npy", np.asfortranarray(actions))
    mapped = np.load(tmp_path / "items.npy", mmap_mode="r")
    agent = LinUCB().start(mapped, log)
    assert np.shares_memory(agent.running.held.actions, mapped)
    turned = np.asfortranarray(actions)
    view = turned.view()
    view.flags.writeable = False  # as pandas gives it: who has the table may change it
    agents = [
        policy.start(each, log)
        for policy in (LinUCB(), linoto.Doubling(policy=LinUCB()))
        for each in (turned, view)
    ]
    turned[:] = 0.0
    for agent in agents:
        np.testing.assert_array_equal(agent.actions, actions)


def test_who_gives_float32_arms_to_a_world_may_still_change_them() -> None:
    actions, _, _ = items()
    before = actions.copy()
    world = linoto.LinearBandit(actions=actions, theta=np.ones(6) / 6)
    actions[0, 0] += 1
    np.testing.assert_array_equal(world.actions, before)


@pytest.mark.few(0)
def test_a_start_from_a_file_takes_no_memory_for_features(tmp_path: Path) -> None:
    """Beside the file: 36 numbers an arm, and 100 MB for a block and matrices of d x d; a copy has 160."""
    k, d = 20_000, 1000
    rng = np.random.default_rng(2)
    np.save(tmp_path / "items.npy", np.asfortranarray(rng.random((k, d), dtype=np.float32) / d))
    mapped, log = np.load(tmp_path / "items.npy", mmap_mode="r"), Offline.empty(k)
    LinUCB().start(mapped[:5000], Offline.empty(5000))  # compiled code is loaded
    tracemalloc.start()
    agent = LinUCB().start(mapped, log)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert agent.k == k and most < 36 * 8 * k + 100e6


def test_bad_numbers_in_float32_are_named() -> None:
    actions, log, _ = items()
    actions[4000, 3] = np.nan
    with pytest.raises(ValueError, match=r"actions must be finite, got nan at \[4000, 3\]"):
        LinUCB().start(actions, log)
