"""Refreshes in slices: no round computes all arms anew, and every arm stays as exact as it was."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Agent, Confidence, Gated, LinLCB, LinOtO, LinTS, LinUCB, Offline, Tolerance
from linoto.core import kernels
from linoto.core.arrays import Floats
from linoto.core.drivers.fixed import FixedArms
from linoto.core.shortlists import Sizes
from linoto.core.slices import slices_for, slicing
from linoto.core.whitening import whitening

POLICIES: dict[str, Any] = {
    "LinUCB": LinUCB(),
    "LinOtO": LinOtO(alpha=0.3),
    "LinLCB": LinLCB(),
    "LinTS": LinTS(),
    "a tolerance": Gated(explorer=LinUCB(), gate=Tolerance(budget=0.3)),
}


@pytest.fixture(autouse=True)
def in_plain_coordinates() -> Iterator[None]:
    """Slices are of many arms, whose states are not whitened; here few stand for many."""
    with whitening(False):
        yield


class World:
    """Arms on a sphere, their means, and a log of all of them or of a few."""

    def __init__(self, seed: int, *, k: int = 90, d: int = 6, logged: int = 600) -> None:
        self.rng = np.random.default_rng(seed)
        actions = self.rng.standard_normal((k, d))
        self.actions = actions / np.linalg.norm(actions, axis=1, keepdims=True)
        self.means = self.actions @ self.actions[0]
        pulls = np.bincount(self.rng.integers(k, size=logged), minlength=k)
        noise = 0.3 * np.sqrt(pulls) * self.rng.standard_normal(k)
        self.log = Offline(pulls=pulls, reward_sums=pulls * self.means + noise)

    def start(self, policy: Any, slices: int = 16, lists: Sizes | None = None) -> Agent:
        agent: Agent = policy.start(self.actions, self.log, rng=0)
        agent.running.held.run["slices"] = slices  # R is complete when a state begins
        assert isinstance(agent.driver, FixedArms)
        agent.driver.listing.use(lists)
        return agent

    def noise(self, n: int) -> Floats:
        return 0.3 * self.rng.standard_normal(n)


def exact_numbers(agent: Agent) -> tuple[Floats, Floats]:
    """Mean and variance of every arm by QR of all rows, from the counts and sums alone."""
    state, ridge = agent.running.state, float(agent.running.params[0]["ridge"])
    seen, sums = state.arms[kernels.SEEN], state.arms[kernels.SUMS]
    root = np.sqrt(seen)
    rows = np.vstack([root[:, None] * agent.actions, np.sqrt(ridge) * np.eye(agent.d)])
    outcomes = np.append(np.divide(sums, root, out=np.zeros_like(sums), where=root > 0), np.zeros(agent.d))
    q, factor = np.linalg.qr(rows)
    whitened = np.linalg.solve(factor.T, agent.actions.T)
    return whitened.T @ (q.T @ outcomes), (whitened**2).sum(axis=0)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_one_decision_at_a_time_is_the_loop(policy: Any) -> None:
    world = World(1)
    loop, by_hand, draws = world.start(policy), world.start(policy), world.noise(700)
    arms = loop.play(world.means, draws)[0]
    for arm, draw in zip(arms.tolist(), draws.tolist(), strict=True):
        decision = by_hand.decide()
        assert decision.arm == arm
        by_hand.update(decision, float(world.means[arm]) + draw)
    assert loop.snapshot() == by_hand.snapshot()


@pytest.mark.parametrize("rounds", [17, 32, 33, 300])
def test_a_loop_that_is_restored_between_slices_goes_on_with_the_same_bits(rounds: int) -> None:
    world = World(2)
    agent, draws = world.start(LinOtO()), world.noise(600)
    agent.play(world.means, draws[:rounds])
    again = linoto.restore(agent.snapshot())
    for one in (agent, again):
        one.play(world.means, draws[rounds:])
    assert agent.snapshot() == again.snapshot()


@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_lists_leave_the_bits_of_plain_rounds(policy: Any, poor: bool) -> None:
    for seed in range(4):
        world = World(seed, k=395 + seed, d=3 + seed, logged=10 if poor else 2000)
        sizes = Sizes(short=8 + 4 * (seed % 2), long=48, least_arms=1)
        listed, plain = world.start(policy, lists=sizes), world.start(policy)
        draws = world.noise(1300)
        ours, theirs = (agent.play_rounds(world.means, draws) for agent in (listed, plain))
        np.testing.assert_array_equal(ours.arms, theirs.arms)
        assert listed.snapshot() == plain.snapshot()


def test_what_rounding_did_to_an_arm_is_gone_after_all_slices() -> None:
    world = World(4)
    agent = world.start(LinUCB())
    rows = agent.running.held.arms
    rows[kernels.MEAN] += 1e-6
    rows[kernels.VARIANCE] *= 1.0 + 1e-6
    agent.play(world.means, world.noise(512))
    means, variances = exact_numbers(agent)
    np.testing.assert_allclose(rows[kernels.MEAN], means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(rows[kernels.VARIANCE], variances, rtol=1e-11)


@pytest.mark.parametrize("slices", [0, 16])
def test_every_arm_is_exact_where_the_log_knows_one_arm_a_million_times(slices: int) -> None:
    """V has a condition of 1e10; 5,000 rewards are ten refreshes, or 156 smaller ones, and some leaps."""
    world = World(5, k=60, d=8)
    pulls = np.zeros(60, dtype=np.int64)
    pulls[3] = 10**6
    world.log = Offline(pulls=pulls, reward_sums=pulls * 0.4)
    agent = world.start(LinUCB(confidence=Confidence(ridge=1e-4)), slices)
    agent.play(world.means, world.noise(5000))
    means, variances = exact_numbers(agent)
    rows = agent.running.held.arms
    np.testing.assert_allclose(rows[kernels.VARIANCE], variances, rtol=1e-9)
    np.testing.assert_allclose(rows[kernels.MEAN], means, rtol=0, atol=1e-9)


def test_slices_play_what_whole_refreshes_play() -> None:
    """Last digits differ and decide nothing in these worlds."""
    for seed in range(3):
        world = World(seed)
        draws = world.noise(1500)
        ours, theirs = (world.start(LinUCB(), slices).play(world.means, draws)[0] for slices in (16, 0))
        np.testing.assert_array_equal(ours, theirs)


def test_arms_that_come_are_part_of_the_slices() -> None:
    world = World(6)
    agent = world.start(LinUCB())
    agent.play(world.means, world.noise(100))
    agent.add_arms(np.eye(6)[:3])
    agent.play(np.append(world.means, np.zeros(3)), world.noise(600))
    means, variances = exact_numbers(agent)
    np.testing.assert_allclose(agent.means, means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(agent.running.held.arms[kernels.VARIANCE], variances, rtol=1e-11)


def test_only_many_arms_have_slices() -> None:
    assert World(0).start(LinUCB(), slices=0).running.run["slices"] == 0
    large = World(7, k=1100, d=64)
    agent = LinUCB().start(large.actions, large.log, rng=0)
    assert agent.running.run["slices"] == slices_for(1100, 64) == 8
    with slicing(False):
        assert LinUCB().start(large.actions, large.log, rng=0).running.run["slices"] == 0
    shifted = LinUCB(confidence=Confidence(shift=0.1)).start(large.actions, large.log, rng=0)
    assert shifted.running.run["slices"].sum() == 0


def without_slices(snapshot: bytes) -> bytes:
    """A snapshot as versions before slices wrote it."""
    with zipfile.ZipFile(io.BytesIO(snapshot)) as file:
        arrays = {name: np.load(io.BytesIO(file.read(name))) for name in file.namelist()}
    run = arrays["run.npy"]
    kept = [name for name in run.dtype.names or () if name not in ("slices", "slice")]
    older = np.zeros(run.shape, dtype=[(name, run.dtype[name]) for name in kept])
    for name in kept:
        older[name] = run[name]
    arrays["run.npy"] = older
    out = io.BytesIO()
    np.savez(out, **{name.removesuffix(".npy"): array for name, array in arrays.items()})
    return out.getvalue()


def test_what_an_older_version_stored_goes_on_without_slices() -> None:
    world = World(8, k=1100, d=64)
    with slicing(False):
        agent = LinUCB().start(world.actions, world.log, rng=0)
    draws = world.noise(600)
    agent.play(world.means, draws[:100])
    older = linoto.restore(without_slices(agent.snapshot()))
    for one in (agent, older):
        one.play(world.means, draws[100:])
    assert older.running.run["slices"] == 0
    assert agent.snapshot() == older.snapshot()


def test_epochs_of_an_older_doubling_have_no_slices() -> None:
    world = World(9, k=1100, d=64)
    policy = linoto.Doubling(policy=LinUCB())
    for wanted in (True, False):
        with slicing(wanted):
            agent = policy.start(world.actions, world.log, rng=0)
        again = linoto.restore(agent.snapshot())
        for one in (agent, again):
            for _ in range(5):
                one.update(one.decide(), 0.5)
            assert bool(one.inner.running.run["slices"]) is wanted
        assert agent.epoch == again.epoch > 0


@pytest.mark.parametrize(("k", "d"), [(800, 120), (460, 220)])
def test_fewer_arms_of_many_features_have_slices_where_r_is_kept_anyway(k: int, d: int) -> None:
    """What needs R after each reward has slices at once; what needs it only at a refresh is whitened."""
    world = World(10, k=k, d=d)
    with whitening(True):
        drawing = LinTS().start(world.actions, world.log, rng=0)
        by_bounds = LinUCB().start(world.actions, world.log, rng=0)
    assert drawing.running.run["slices"] == slices_for(k, d) > 0
    assert (by_bounds.running.run["slices"], by_bounds.running.run["whitened"]) == (0, 1)
    again = linoto.restore(by_bounds.snapshot())
    draws = world.noise(600)
    for one in (drawing, by_bounds, again):
        one.play(world.means, draws)
        means, _ = exact_numbers(one)
        np.testing.assert_allclose(one.means, means, rtol=0, atol=1e-10)
    assert by_bounds.snapshot() == again.snapshot()


def test_there_are_no_more_slices_than_their_inversions_cost_less_than_the_arms() -> None:
    """A slice inverts, d^3; all arms are k d^2."""
    for d in (30, 100, 200, 400, 1000):
        for k in (100, 300, 1000, 3000, 10_000, 100_000):
            slices = slices_for(k, d)
            if k * d * d < 2**22 or k < d:
                assert slices == 0
            else:
                assert 2 <= slices <= max(2 * k / d, 2)
