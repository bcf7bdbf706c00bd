"""Rows that rest while there are lists: no answer shows it, and their memory is given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Agent, Confidence, Control, Gated, LinLCB, LinOtO, LinTS, LinUCB, Offline, Tolerance
from linoto.core import kernels
from linoto.core.drivers.fixed import FixedArms
from linoto.core.lean import LARGE, give_back, lean_copy, lean_zeros
from linoto.core.resting import LOGGED, OFFLINE_SUMS, SEEN, SUMS, rest, wake
from linoto.core.shortlists import Sizes
from linoto.core.whitening import whitening

K, D = 600, 6
SIZES = Sizes(short=32, long=128, least_arms=1, memory=256)
RANGE = Confidence(reward_range=(-3.0, 3.0), noise=0.3)
EVERY = {LOGGED, OFFLINE_SUMS, SEEN, SUMS}
POLICIES: dict[str, tuple[Any, set[Any]]] = {  # and what rests of the sums of each arm
    "LinUCB": (LinUCB(), EVERY),
    "LinLCB, frozen": (LinLCB(frozen=True), EVERY),
    "LinOtO": (LinOtO(alpha=0.3), EVERY),
    "LinTS": (LinTS(), EVERY),
    "a tolerance": (Gated(explorer=LinUCB(), gate=Tolerance(budget=0.3)), EVERY - {LOGGED}),
    "a coin": (  # the usual explorer states chances, so that behind a coin it has no lists
        Gated(explorer=LinTS(), gate=Control(budget=40.0, promise="expected"), confidence=RANGE),
        EVERY - {LOGGED},
    ),
}


@pytest.fixture(autouse=True)
def in_plain_coordinates() -> Iterator[None]:
    with whitening(False):
        yield


class World:
    """Arms on a sphere, a log of a tenth of them, and two agents: with lists and with plain rounds."""

    def __init__(self, policy: Any) -> None:
        self.rng = np.random.default_rng(3)
        actions = self.rng.standard_normal((K, D))
        self.actions = actions / np.linalg.norm(actions, axis=1, keepdims=True)
        self.means = self.actions @ self.actions[0]
        pulls = np.zeros(K, np.int64)
        pulls[::10] = 30
        sums = np.where(pulls > 0, pulls * self.means + self.rng.standard_normal(K), 0.0)
        self.log = Offline(pulls=pulls, reward_sums=sums)
        self.listed, self.plain = (self.start(policy, sizes) for sizes in (SIZES, None))

    def start(self, policy: Any, sizes: Sizes | None) -> Agent:
        agent: Agent = policy.start(self.actions, self.log, rng=0)
        agent.running.held.run["slices"] = 4  # R is complete when a state begins
        assert isinstance(agent.driver, FixedArms)
        agent.driver.listing.use(sizes)
        return agent

    def play(self, n: int) -> None:
        draws = 0.3 * self.rng.standard_normal(n)
        for t in range(n):
            decisions = [agent.decide() for agent in (self.listed, self.plain)]
            assert decisions[0] == decisions[1]
            for agent, decision in zip((self.listed, self.plain), decisions, strict=True):
                agent.update(decision, self.means[decision.arm] + draws[t])

    def play_until_rows_rest(self) -> None:
        for _ in range(200):
            self.play(1)
            if self.listed.running.resting is not None:
                return
        raise AssertionError("nothing rests")


@pytest.mark.parametrize("name", POLICIES)
def test_no_answer_shows_that_rows_rest(name: str) -> None:
    policy, sums = POLICIES[name]
    world = World(policy)
    listed, plain = world.listed, world.plain
    world.play_until_rows_rest()
    resting = listed.running.resting
    assert resting is not None and set(resting.rows) == sums
    assert not listed.running.held.arms[kernels.WIDTH].all()
    for log in (listed.offline, world.log):
        np.testing.assert_array_equal(log.pulls, plain.offline.pulls)
        np.testing.assert_array_equal(log.reward_sums, plain.offline.reward_sums)
    assert listed.present.all() and listed.next_mixture_arm() == plain.next_mixture_arm()
    for arm in (0, 5, 40, 599):
        assert listed.interval(arm) == plain.interval(arm)
    world.play(20)
    assert listed.running.resting is not None
    again = linoto.restore(listed.checkpoint(), world.actions)
    assert again.snapshot() == listed.snapshot() == plain.snapshot() and listed.running.resting is None
    world.listed = again
    world.play(60)
    assert again.running.resting is not None and again.snapshot() == plain.snapshot()


def test_a_reward_goes_on_from_the_sums_that_rest() -> None:
    """Of arms with rows in the log (0, 40) and without (5, 599), told twice; one sum is 0 in between."""
    world = World(LinUCB())
    world.play_until_rows_rest()
    before = np.array(world.plain.running.state.arms[[kernels.SEEN, kernels.SUMS]])
    for arm, reward in ((0, 0.5), (5, 0.25), (40, -before[1, 40]), (599, 0.0), (40, 1.0), (5, 0.25)):
        for agent in (world.listed, world.plain):
            agent.update(arm, reward)
    assert world.listed.running.resting is not None
    now = world.listed.running.state.arms[[kernels.SEEN, kernels.SUMS]] - before
    assert now[0, [0, 5, 40, 599]].tolist() == [1.0, 2.0, 2.0, 1.0] and now[1, 5] == 0.5
    assert world.listed.snapshot() == world.plain.snapshot()


def test_few_allowed_arms_and_rounds_that_are_undone_know_what_rests() -> None:
    world = World(LinUCB())
    world.play_until_rows_rest()
    mark = world.listed.driver.marked()
    for agent in (world.listed, world.plain):
        assert agent.select(allowed=[7, 8, 9]) == world.plain.select(allowed=[7, 8, 9])
    kept = world.listed.snapshot()
    world.listed.update(world.listed.decide(), 3.0)
    world.listed.driver.go_back(mark)
    assert world.listed.running.resting is not None and world.listed.snapshot() == kept
    for agent in (world.listed, world.plain):
        agent.remove_arms([7])
        assert not agent.present[7]
    world.play(40)
    assert world.listed.snapshot() == world.plain.snapshot()


def test_sums_of_most_arms_do_not_rest_nor_those_that_a_refresh_reads() -> None:
    world = World(LinUCB())
    world.log = Offline(pulls=np.ones(K, np.int64), reward_sums=np.ones(K))
    world.listed, world.plain = world.start(LinUCB(), SIZES), world.start(LinUCB(), None)
    world.play_until_rows_rest()
    assert world.listed.running.resting is not None and not world.listed.running.resting.rows
    world = World(LinUCB())
    for agent in (world.listed, world.plain):
        agent.running.held.run["slices"] = 0
    world.play_until_rows_rest()
    assert world.listed.running.resting is not None
    assert set(world.listed.running.resting.rows) == {LOGGED, OFFLINE_SUMS}
    world.play(560)  # a refresh is after 512 rewards
    assert world.listed.snapshot() == world.plain.snapshot()


def written() -> int:
    """Bytes of memory that this process has written to."""
    with open("/proc/self/status") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def test_memory_is_taken_when_it_is_written_and_given_back_by_rows() -> None:
    k = 4 * LARGE // 8 + 77  # rows begin and end within a page
    before, rows = written(), lean_zeros((5, k))
    assert written() - before < k and not rows.any() and rows.flags.c_contiguous and rows.flags.writeable
    rows[1:4] = 2.0
    assert written() - before > 3 * 7 * k
    give_back(rows[2])
    left = written() - before
    copied, between = lean_copy(rows), written() - before
    assert left < 2.5 * 8 * k and between < 4.5 * 8 * k
    assert not rows[2].any() and (rows[[1, 3]] == 2.0).all()
    np.testing.assert_array_equal(copied, rows)
    copied[1] = -1.0
    assert (rows[1] == 2.0).all()
    for small in (np.ones((3, 40)), np.ones((3, 40))[:, :40].copy()):
        give_back(small[1])
        assert small.sum() == 80.0


@pytest.mark.parametrize("name", POLICIES)
def test_what_wakes_at_once_is_as_it_was(name: str) -> None:
    world = World(POLICIES[name][0])
    world.play(40)
    params, state = world.plain.running.params, world.plain.running.state
    before, kept = world.plain.snapshot(), np.array(state.arms[kernels.WIDTH])
    resting = rest(params, state)
    assert not state.arms[kernels.WIDTH].any() and world.plain.snapshot() != before
    wake(state, resting)
    assert kept.all() and world.plain.snapshot() == before
