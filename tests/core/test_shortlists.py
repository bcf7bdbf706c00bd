"""Lists of arms: the bits of plain rounds in every world, and few arms touched where that can be."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from helpers.inner_kernels import from_python
from helpers.plain_kernels import in_plain_python  # noqa: F401 - a fixture

import linoto
from linoto import (
    Agent,
    Confidence,
    Control,
    Decision,
    Gated,
    Greedy,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Open,
    Tolerance,
)
from linoto.core import kernels
from linoto.core.arrays import Floats, Ints
from linoto.core.drivers.fixed import FixedArms
from linoto.core.kernels import lists as list_kernels
from linoto.core.resting import rest
from linoto.core.shortlists import Shortlists, Sizes
from linoto.core.snapshots import resume
from linoto.core.whitening import whitening

SMALL = Sizes(short=12, long=48, least_arms=1, memory=256)
POLICIES: dict[str, Any] = {
    "LinUCB": LinUCB(),
    "LinUCB at scale 1": LinUCB(scale=1.0),
    "Greedy": Greedy(),
    "LinLCB": LinLCB(),
    "LinLCB, frozen": LinLCB(frozen=True),
    "LinOtO": LinOtO(alpha=0.3),
    "LinOtO, aggregate": LinOtO(alpha=0.3, budget="aggregate"),
    "LinOtO, max": LinOtO(alpha=0.3, budget="max"),
    "a fixed fallback": Gated(explorer=LinUCB(), gate=Open(), fallback=7),
    "LinTS": LinTS(),
    "LinTS, scale 2": LinTS(scale=2.0),
    "LinTS, wide where nothing is known": LinTS(scale=0.3, prior="whole"),
    "Gated": Gated(),
    "LinUCB in a tolerance": Gated(explorer=LinUCB(), gate=Tolerance(budget=0.3)),
}
RANGE = Confidence(reward_range=(-3.0, 3.0), noise=0.3)
BOOKS: dict[str, Any] = {  # policies whose gates keep books besides the estimate
    "paid by rewards": Gated(gate=Tolerance(budget=9.0), confidence=RANGE),
    "rewards alone": Gated(gate=Tolerance(budget=40.0, evidence="rewards"), confidence=RANGE),
    "a coin": Gated(gate=Control(budget=40.0, promise="expected"), confidence=RANGE),
    "a coin with a loan": Gated(
        gate=Control(budget=20.0, loan=9.0, promise="expected"), fallback="lcb", confidence=RANGE
    ),
    "a coin that the log vouches for": Gated(
        gate=Control(budget=20.0, loan=9.0),
        confidence=Confidence(reward_range=(-3.0, 3.0), noise="bounded"),
    ),
}
TINY = Sizes(short=4, long=16, least_arms=1, memory=8)


@pytest.fixture(autouse=True)
def in_plain_coordinates() -> Iterator[None]:
    """Lists and slices are of many arms, whose states are not whitened; here few stand for many."""
    with whitening(False):
        yield


def driver_of(agent: Agent) -> FixedArms:
    assert isinstance(agent.driver, FixedArms)
    return agent.driver


class World:
    """Arms on a sphere or in clusters, their means, and a log of all of them, of ten or of good ones."""

    def __init__(
        self,
        seed: int,
        *,
        k: int = 400,
        d: int = 6,
        poor: bool = False,
        clusters: int = 0,
        good: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        actions = rng.standard_normal((k, d))
        if clusters:
            actions = rng.standard_normal((clusters, d))[rng.integers(clusters, size=k)] + 0.3 * actions
        self.actions = actions / np.linalg.norm(actions, axis=1, keepdims=True)
        theta = rng.standard_normal(d)
        self.means = self.actions @ theta / np.linalg.norm(theta)
        pulls = np.zeros(k, dtype=np.int64)
        logged = rng.choice(k, 10, replace=False) if poor else rng.integers(k, size=2000)
        if good:
            logged, poor = np.argsort(self.means)[-good:], True
        np.add.at(pulls, logged, 20 if poor else 1)
        noise = 0.3 * np.sqrt(pulls) * rng.standard_normal(k)
        self.log, self.rng = Offline(pulls=pulls, reward_sums=pulls * self.means + noise), rng

    def agents(self, policy: Any, sizes: Sizes = SMALL) -> tuple[Agent, Agent]:
        """The same twice: with lists and with plain rounds."""
        listed, plain = (policy.start(self.actions, self.log, rng=0) for _ in range(2))
        driver_of(listed).listing.use(sizes)
        driver_of(plain).listing.use(None)
        return listed, plain

    def noise(self, n: int) -> Floats:
        return 0.3 * self.rng.standard_normal(n)


def check_same(listed: Agent, plain: Agent) -> None:
    assert listed.snapshot() == plain.snapshot()
    for name in ("means", "lcb", "ucb", "theta", "pending"):
        np.testing.assert_array_equal(getattr(listed, name), getattr(plain, name))


def check_same_rounds(listed: Agent, plain: Agent, world: World, n: int) -> None:
    draws = world.noise(n)
    for ours, theirs in zip(
        listed.play_rounds(world.means, draws), plain.play_rounds(world.means, draws), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_lists_play_the_arms_of_plain_rounds_and_leave_the_same_bits(policy: Any, poor: bool) -> None:
    """1,300 rounds are two refreshes; in each world lists fail, grow, end, and begin again."""
    for seed in range(6):
        world = World(seed, poor=poor, clusters=20 * (seed % 2), d=3 + seed, k=395 + seed)
        listed, plain = world.agents(policy, SMALL._replace(short=4 + 4 * (seed % 3)))
        check_same_rounds(listed, plain, world, 1300)
        check_same(listed, plain)


@pytest.mark.usefixtures("in_plain_python")
@pytest.mark.parametrize("policy", BOOKS.values(), ids=BOOKS)
@pytest.mark.few(1)
def test_lists_keep_the_books_of_plain_rounds(policy: Any) -> None:
    """In plain Python: tiny worlds, in which lists are chosen anew, scanned, and end."""
    for seed in range(2):
        world = World(seed, k=50 + seed, d=3 + seed, poor=seed == 1, clusters=8 * seed)
        listed, plain = world.agents(policy, TINY)
        check_same_rounds(listed, plain, world, 25)
        assert told_late(listed, world, 15, seed) == told_late(plain, world, 15, seed)
        check_same(listed, plain)


WHOLE = ("LinTS", "LinTS, wide where nothing is known", "Gated", "LinUCB in a tolerance")


def looks_at_all(agent: Agent) -> bool:
    """Whether this agent looks at every arm in one pass: its lists did not pay."""
    lists = agent.running.lists
    return lists is not None and lists.are_whole


@pytest.mark.usefixtures("in_plain_python")
@pytest.mark.parametrize(
    "policy", [*(POLICIES[name] for name in WHOLE), *BOOKS.values()], ids=[*WHOLE, *BOOKS]
)
@pytest.mark.few(2)
def test_every_arm_looked_at_in_one_pass_has_the_bits_of_plain_rounds(policy: Any) -> None:
    """More arms than are measured together; rewards that are late and lost, proposals, and an open gate."""
    for seed in range(2):
        world = World(seed, k=300 + seed, d=3 + seed, good=10 * (1 - seed), poor=seed == 1)
        listed, plain = world.agents(policy, TINY)
        driver_of(listed).listing.give_up()
        check_same_rounds(listed, plain, world, 12)
        assert looks_at_all(listed) == Shortlists.spare_passes(listed.running.params)
        assert told_late(listed, world, 12, seed) == told_late(plain, world, 12, seed)
        check_same(listed, plain)
        check_same_rounds(listed, plain, world, 3)
        check_same(listed, plain)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.few(3)
def test_one_pass_and_lists_follow_each_other_without_a_change_of_bits(name: str) -> None:
    """Refreshes, arms that come and go, snapshots and checkpoints between them."""
    world = World(27, good=10)
    listed, plain = world.agents(POLICIES[name])
    more = World(28, k=30).actions
    for turn in range(5):
        driver_of(listed).listing.give_up()
        for _ in range(40):
            ours, theirs = listed.decide(), plain.decide()
            assert ours == theirs and looks_at_all(listed)
            reward = float(world.means[ours.arm] + 0.3 * world.rng.standard_normal())
            listed.update(ours, reward)
            plain.update(theirs, reward)
        listed = linoto.restore(listed.checkpoint(), world.actions)
        assert looks_at_all(listed)  # and lists are tried at once
        check_same(listed, plain)
        driver_of(listed).listing.use(SMALL)
        check_same_rounds(listed, plain, world, 150)
        for agent in (listed, plain):
            if turn == 1:
                agent.remove_arms([5, 6])
            if turn == 3:
                agent.add_arms(more)
        if turn == 3:
            world.means = np.append(world.means, np.full(30, 0.2))
        check_same(listed, plain)


@pytest.mark.usefixtures("in_plain_python")
def test_rewards_that_come_all_at_once_reach_every_arm_that_one_pass_looks_at() -> None:
    """More rewards than are kept: arms catch up in turn, and a decision lets the others do so in between."""
    world = World(30, k=130, d=3)
    listed, plain = world.agents(LinTS(), TINY)
    driver_of(listed).listing.give_up()
    lists = listed.running.lists
    assert lists is not None
    for rewards in (lists.memory * 3 // 2, 2 * lists.memory):
        for agent in (listed, plain):
            decisions = []
            for arm in range(rewards):
                decisions.append(agent.guard(arm % 7))
                agent.commit(decisions[-1])
            for decision in decisions:
                agent.observe(decision, float(world.means[decision.arm]))
        assert looks_at_all(listed) and (lists.turn > 0) == (rewards < 2 * lists.memory)
        assert listed.decide() == plain.decide()
    check_same(listed, plain)


def test_lists_of_draws_that_do_not_pay_end_in_one_pass_for_every_arm() -> None:
    """Arms of which nothing is known, and wide draws: lists are tried, each time later."""
    rng, tries = np.random.default_rng(15), 0
    actions = rng.standard_normal((400, 60))
    agents = [LinTS(scale=2.0).start(actions, Offline.empty(400), rng=0) for _ in range(2)]
    driver_of(agents[0]).listing.use(SMALL)
    driver_of(agents[1]).listing.use(None)
    for _ in range(700):
        reward, before = float(rng.standard_normal()), looks_at_all(agents[0])
        arm, other = (agent.select() for agent in agents)
        assert arm == other
        tries += before and not looks_at_all(agents[0])
        for agent in agents:
            agent.update(arm, reward)
    assert looks_at_all(agents[0]) and tries == 1
    check_same(agents[0], agents[1])


def test_arms_in_an_order_that_misleads_a_sample_still_have_lists() -> None:
    """Of so many arms every second one is looked at to see where a list ends; here those are the bad ones."""
    k = 2 * list_kernels.SAMPLED + 2
    world = World(29, k=k, d=3)
    order = np.argsort(world.means)
    mixed = np.empty(k, dtype=np.int64)
    mixed[::2], mixed[1::2] = order[: k // 2], order[k // 2 :]
    world.actions, world.means = world.actions[mixed], world.means[mixed]
    pulls = np.zeros(k, dtype=np.int64)
    pulls[world.rng.integers(k, size=2000)] = 9
    world.log = Offline(pulls=pulls, reward_sums=pulls * world.means)
    listed, plain = world.agents(LinUCB(), Sizes())
    check_same_rounds(listed, plain, world, 20)
    lists = listed.running.lists
    assert lists is not None and lists.book["long"] <= lists.book["long_size"]


@pytest.mark.parametrize(
    "policy",
    [
        Gated(gate=Tolerance(budget=0.3)),
        Gated(gate=Tolerance(budget=0.3), fallback="mixture"),
        Gated(explorer=LinTS(scale=3.0), gate=Tolerance(budget=1.0)),
        Gated(explorer=LinUCB(scale=1.0), gate=Tolerance(budget=1.0), confidence=Confidence(noise=0.3)),
    ],
    ids=["Gated", "mixture", "wide draws", "LinUCB"],
)
@pytest.mark.parametrize("whole", [False, True])
def test_what_the_gate_affords_instead_is_what_plain_rounds_take(policy: Any, whole: bool) -> None:
    """Practice plays good arms, so that a favourite is often refused where another arm is not."""
    others = 0
    for seed in range(4):
        world = World(seed, good=10, clusters=20 * (seed % 2), d=3 + seed, k=395 + seed)
        listed, plain = world.agents(policy)
        if whole:
            driver_of(listed).listing.give_up()
        for _ in range(120):
            ours, theirs = listed.decide(), plain.decide()
            assert ours == theirs
            others += (
                listed.running.lists is not None and ours.mode == "explore" and ours.arm != ours.proposal
            )
            reward = float(world.means[ours.arm] + 0.3 * world.rng.standard_normal())
            listed.update(ours, reward)
            plain.update(theirs, reward)
        check_same(listed, plain)
    assert others >= 10


@pytest.mark.parametrize("name", ["LinUCB", "LinLCB", "LinOtO", "LinTS", "Gated"])
@pytest.mark.few(1)
def test_lists_of_the_usual_sizes_play_the_arms_of_plain_rounds(name: str) -> None:
    world = World(3, k=6000, d=12)
    listed, plain = world.agents(POLICIES[name], Sizes())
    check_same_rounds(listed, plain, world, 2000)
    assert listed.running.lists is not None
    check_same(listed, plain)


@pytest.mark.slow
@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("name", ["LinUCB", "LinUCB at scale 1", "LinLCB", "LinOtO", "LinTS", "Gated"])
def test_lists_play_the_arms_of_plain_rounds_for_long(name: str, poor: bool) -> None:
    for seed in range(5):
        world = World(seed, k=10_000, d=20, poor=poor, clusters=300 * (seed % 2))
        listed, plain = world.agents(POLICIES[name], Sizes())
        check_same_rounds(listed, plain, world, 10_000)
        check_same(listed, plain)


@pytest.mark.parametrize("name", ["LinUCB", "LinOtO, max", "LinTS", "Gated"])
def test_one_decision_at_a_time_is_the_loop(name: str) -> None:
    world = World(5)
    loop, asked = world.agents(POLICIES[name])
    driver_of(asked).listing.use(SMALL)
    draws = world.noise(700)
    played = loop.play_rounds(world.means, draws)
    for t, draw in enumerate(draws):
        decision = asked.decide() if t % 2 else None
        arm = asked.select() if decision is None else decision.arm
        assert arm == played.arms[t]
        asked.update(arm if decision is None else decision, world.means[arm] + draw)
    check_same(loop, asked)


def told_late(agent: Agent, world: World, n: int, seed: int) -> list[Decision]:
    """Rewards come late, in any order, some never; a proposal of somebody else's now and then."""
    rng, open_decisions, made = np.random.default_rng(seed), [], []
    for t in range(n):
        decision = agent.guard(int(rng.integers(agent.k))) if t % 7 == 3 else agent.decide()
        made.append(decision)
        agent.commit(decision)
        open_decisions.append(decision)
        while len(open_decisions) > rng.integers(6):
            one = open_decisions.pop(int(rng.integers(len(open_decisions))))
            value = float(np.clip(world.means[one.arm] + 0.3 * rng.standard_normal(), -1.0, 1.0))
            agent.lose(one, value) if rng.random() < 0.04 else agent.observe(one, value)
    return made


@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize("name", ["LinUCB", "LinLCB", "LinOtO", "LinOtO, max", "LinTS", "Gated"])
def test_late_lost_and_proposed_plays_change_no_bit(name: str, poor: bool) -> None:
    world = World(8, poor=poor)
    listed, plain = world.agents(POLICIES[name])
    assert told_late(listed, world, 400, 1) == told_late(plain, world, 400, 1)
    check_same(listed, plain)


def test_any_arm_can_be_asked_about_in_any_round() -> None:
    world = World(9)
    listed, plain = world.agents(LinUCB())
    for t in range(120):
        assert listed.interval(3 * t) == plain.interval(3 * t)
        some = np.array([3 * t, 5])
        np.testing.assert_array_equal(listed.estimates(some), plain.estimates(np.arange(plain.k))[:, some])
        assert listed.select(allowed=[t, t + 5, 390]) == plain.select(allowed=[t, t + 5, 390])
        assert listed.decide() == plain.decide()
        assert listed.bounds(listed.decide()) == plain.bounds(plain.decide())
        for agent in (listed, plain):
            agent.update(agent.decide(), 0.1 * (t % 5))
    check_same(listed, plain)


@pytest.mark.parametrize("name", ["LinUCB", "LinOtO", "LinTS", "Gated"])
def test_arms_that_come_and_go_change_no_bit(name: str) -> None:
    world = World(10)
    listed, plain = world.agents(POLICIES[name])
    more = World(11, k=30).actions
    for turn in range(4):
        for agent in (listed, plain):
            if turn == 1:
                agent.remove_arms([int(agent.decide().arm), 5, 6])
            if turn == 2:
                agent.add_arms(more)
                world.means = np.append(world.means, np.full(30, 0.2)) if agent is listed else world.means
            if turn == 3:
                agent.remove_arms([400, 401])
        check_same_rounds(listed, plain, world, 150)
        check_same(listed, plain)


@pytest.mark.parametrize("name", ["LinUCB", "LinTS", "Gated"])
def test_a_restored_snapshot_goes_on_with_the_same_bits(name: str) -> None:
    world = World(12)
    listed, plain = world.agents(POLICIES[name])
    check_same_rounds(listed, plain, world, 300)
    again = linoto.restore(listed.snapshot())
    driver_of(again).listing.use(SMALL)
    check_same_rounds(again, plain, world, 300)
    check_same(again, plain)


@pytest.mark.parametrize("copies", [3, 100])
def test_equal_arms_are_played_by_the_first_of_them(copies: int) -> None:
    """100 copies of every arm fill every list: then lists end."""
    world = World(13, k=600 // copies)
    world.actions = np.repeat(world.actions, copies, axis=0)
    world.means = np.repeat(world.means, copies)
    pulls = np.repeat(world.log.pulls, copies)
    world.log = Offline(pulls=pulls, reward_sums=pulls * world.means)
    for policy in (LinUCB(), LinLCB(), LinTS(), Gated()):
        listed, plain = world.agents(policy)
        check_same_rounds(listed, plain, world, 400)
        check_same(listed, plain)


def test_a_good_log_leaves_most_arms_untouched() -> None:
    world = World(14, k=5000, d=10)
    agent = LinUCB().start(world.actions, world.log)
    agent.play(world.means, world.noise(3000))
    lists = agent.running.lists
    assert lists is not None and lists.book["work"] < 0.1 * 3000 * agent.k


@pytest.mark.parametrize("name", ["LinUCB", "LinOtO", "Gated"])
def test_arms_catch_up_in_turn_once_the_history_is_long(name: str) -> None:
    """No 500 rounds repeat more than 1.5 rewards for each arm and round, two thirds of a plain round each."""
    world = World(22, k=600)
    listed, plain = world.agents(POLICIES[name])
    repeated, longest, before = [], 0, np.zeros(600, dtype=np.int64)
    for t, draw in enumerate(world.noise(1500)):
        for agent in (listed, plain):
            arm = agent.select()
            agent.update(arm, world.means[arm] + draw)
        lists = listed.running.lists
        assert lists is not None
        first = int(listed.rewards) - int(lists.book["steps"])  # rewards that are forgotten
        now = lists.arrays.stamps + first
        repeated.append(int(np.maximum(now - before, 0)[lists.arrays.places == 0].sum()) if t else 0)
        before, longest = np.maximum(now, before), max(longest, int(lists.book["steps"]))
    in_a_row = np.convolve(repeated, np.ones(500), mode="valid")
    assert in_a_row.max() <= 1.5 * 500 * 600 and longest <= 2 * lists.memory
    assert in_a_row[-1] > 0.5 * 500 * 600  # they do take turns
    check_same(listed, plain)


def test_lists_that_do_not_pay_end_and_are_tried_later_and_later() -> None:
    """Arms of which nothing is known: every reward changes every score."""
    rng = np.random.default_rng(15)
    actions = rng.standard_normal((400, 60))
    agent = LinUCB(scale=1.0).start(actions, Offline.empty(400))
    driver_of(agent).listing.use(SMALL)
    tries: list[int] = []
    for _ in range(600):
        agent.update(agent.select(), float(rng.standard_normal()))
        at = driver_of(agent).listing.next_try
        if at is not None and at > 0 and at not in tries:
            tries.append(at)
    assert len(tries) >= 2 and np.all(np.diff(tries) >= 128)


@pytest.mark.parametrize(
    "change",
    [{"explorer": linoto.SquareCB()}, {"gate": linoto.Budget(alpha=0.3)}, {"explorer": LinTS(memory=500)}],
    ids=["drawn by gaps", "a budget that is asked about every arm", "memory"],
)
def test_policies_without_lists_have_plain_rounds(change: dict[str, Any]) -> None:
    world = World(16, k=5000, d=4)
    agent = Gated(**{"explorer": LinUCB(), "gate": Open(), **change}).start(world.actions, world.log)
    assert driver_of(agent).listing.next_try is None


def test_an_agent_that_looks_at_every_arm_has_the_same_answers() -> None:
    world = World(20)
    listed, plain = world.agents(LinUCB())
    check_same_rounds(listed, plain, world, 50)
    assert listed.running.lists is not None
    listed.look_at_every_arm()
    check_same_rounds(listed, plain, world, 50)
    assert listed.running.lists is None
    check_same(listed, plain)


def test_an_epoch_of_doubling_looks_at_every_arm_where_its_first_did() -> None:
    world = World(21, k=5000, d=3)
    policy = linoto.Doubling(policy=LinOtO(alpha=0.3))
    agents = [policy.start(world.actions, world.log, rng=0) for _ in range(2)]
    agents[1].look_at_every_arm()
    for draw in world.noise(30):
        arms = [agent.select() for agent in agents]
        assert arms[0] == arms[1]
        for agent in agents:
            agent.update(arms[0], world.means[arms[0]] + draw)
    assert [agent.inner.driver.listing.next_try for agent in agents] == [0, None]


def test_few_arms_have_plain_rounds() -> None:
    world = World(17)
    agent = LinUCB().start(world.actions, world.log)
    agent.decide()
    assert agent.running.lists is None


@pytest.mark.parametrize("gate", [Open(), linoto.Closed()], ids=["open", "closed"])
@pytest.mark.parametrize(
    ("explorer", "shift"),
    [(LinUCB(), 0.0), (Greedy(), 0.0), (linoto.LinTS(), 0.0), (LinUCB(), 0.1)],
    ids=["ucb", "greedy", "thompson", "shift"],
)
def test_few_allowed_arms_are_chosen_among_as_by_a_look_at_all(
    explorer: Any, shift: float, gate: Any
) -> None:
    """A peek looks at every arm, since it is asked for the room of each."""
    world = World(18)
    policy = Gated(explorer=explorer, gate=gate, fallback="lcb", confidence=linoto.Confidence(shift=shift))
    agent = policy.start(world.actions, world.log, rng=1)
    driver = driver_of(agent)
    if shift == 0.0:
        agent.remove_arms([30, 31])
    for t in range(40):
        mask = driver.present_among([t, 30, 390 - t, 200, 7 * t + 3])
        for proposal in (None, 200, 201):  # the last is not allowed
            assert driver.answer(proposal, mask) == driver.peek(proposal, mask)
        agent.update(agent.decide(), 0.1 * (t % 4))


def test_asking_about_one_arm_takes_no_memory_for_the_others() -> None:
    """Bytes of NumPy's arrays, which grow with what is looked at: one row of all arms would be 160,000."""
    world = World(19, k=20_000, d=5)
    agent = LinUCB().start(world.actions, world.log)
    agent.interval(3)
    tracemalloc.start()
    try:
        for arm in range(50):
            agent.interval(arm)
        assert tracemalloc.get_traced_memory()[1] < 20_000
        agent.select(allowed=[4, 5])
        tracemalloc.reset_peak()
        agent.select(allowed=[7, 8, 9])  # a mask is a byte an arm, twice
        assert tracemalloc.get_traced_memory()[1] < 3 * 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("poor", [False, True])
@pytest.mark.parametrize(
    "explorer",
    [LinUCB(scale=1.0), LinTS(), LinTS(scale=0.3, prior="whole")],
    ids=["LinUCB", "LinTS", "LinTS, whole"],
)
@pytest.mark.few(1)
def test_no_arm_outside_of_a_list_is_above_its_bound(explorer: Any, poor: bool) -> None:
    """The certificate by itself, against the scores and lower bounds of plain rounds."""
    outside, checked = from_python(list_kernels.outside), 0
    outside_below = from_python(list_kernels.outside_below)
    for seed in range(3):
        world = World(seed, poor=poor)
        listed, plain = world.agents(explorer)
        for _ in range(60):
            arm = listed.select()
            lists = listed.running.lists
            if lists is None:
                break
            assert plain.select() == arm
            score = plain.running.state.arms[kernels.SCORE]
            margin = float(plain.running.run["radius"]) * plain.running.state.arms[kernels.WIDTH]
            for level, left in enumerate(left_out(lists.arrays, plain.k)):
                asked = listed.running.params[0], listed.running.held, lists.arrays, level
                assert np.max(score[left], initial=-np.inf) <= outside(*asked)
                assert np.max((plain.means - margin)[left], initial=-np.inf) <= outside_below(*asked)
                checked += left.size
            reward = float(world.means[arm] + 0.3 * world.rng.standard_normal())
            listed.update(arm, reward)
            plain.update(arm, reward)
    assert checked > 1000


def left_out(h: kernels.Lists, k: int) -> list[Ints]:
    """The arms outside of the long list, and those of it that are not in the short one."""
    long, short = h.book[0]["long"], h.book[0]["short"]
    members = h.members[kernels.LONG, :long]
    return [np.setdiff1d(np.arange(k), members), np.setdiff1d(members, h.members[kernels.SHORT, :short])]


@pytest.mark.parametrize("name", ["LinUCB", "LinOtO", "Gated"])
def test_a_checkpoint_goes_on_with_the_same_bits_and_lets_no_arm_catch_up(name: str) -> None:
    world = World(23)
    listed, plain = world.agents(POLICIES[name])
    for turn in range(3):
        check_same_rounds(listed, plain, world, 190 + turn)
        listed.select()
        blob, lists = listed.checkpoint(), listed.running.lists
        assert lists is not None
        steps, listed = int(lists.book["steps"]), linoto.restore(blob, world.actions)
        lists = listed.running.lists
        assert lists is not None and lists.book["steps"] == steps > 0 and listed.checkpoint() == blob
    check_same_rounds(listed, plain, world, 100)
    check_same(listed, plain)


def test_a_checkpoint_holds_no_features_but_those_of_arms_that_came_later() -> None:
    world = World(24, d=60)
    agent, _ = world.agents(LinUCB())
    agent.play(world.means, world.noise(40))
    more = np.hstack([World(25, k=3, d=60).actions, np.eye(3, 2)])
    agent.add_arms(more)
    agent.remove_arms([7])
    agent.update(agent.decide(), 0.3)
    again = linoto.restore(agent.checkpoint(), world.actions)
    assert again.snapshot() == agent.snapshot()
    np.testing.assert_array_equal(again.actions, agent.actions)
    assert resume(agent.snapshot(), world.actions).snapshot() == agent.snapshot()
    driver_of(agent).listing.use(None)
    assert len(agent.checkpoint()) < len(agent.snapshot()) - 0.9 * world.actions.nbytes


def test_a_checkpoint_is_refused_without_its_arms() -> None:
    world = World(26)
    agent, _ = world.agents(LinUCB())
    blob = agent.checkpoint()
    with pytest.raises(ValueError, match="give those of the agent's start"):
        linoto.restore(blob)
    for read, kept in ((linoto.restore, blob), (resume, blob), (resume, agent.snapshot())):
        with pytest.raises(ValueError, match="the arms that the agent was started with"):
            read(kept, world.actions + 1e-9)


def test_whoever_reads_in_another_thread_waits_for_the_round() -> None:
    """With lists a read writes what arms have missed, while kernels let other threads run."""
    world = World(31)
    agent, _ = world.agents(LinUCB())
    agent.play(world.means, world.noise(40))
    lists, read = agent.running.lists, Event()
    assert lists is not None and lists.book["steps"] > 0
    thread = Thread(target=lambda: (agent.lcb, read.set()))
    with lists.lock:  # as a round has it
        thread.start()
        assert not read.wait(0.2) and lists.book["steps"] > 0
    thread.join(10)
    assert read.is_set() and lists.book["steps"] == 0
    assert deepcopy(lists).lock is not lists.lock


def test_no_arm_is_taken_for_removed_while_another_thread_reads() -> None:
    """Which arms are present rests in two places, and a read moves it from one to the other."""
    world = World(31)
    agent, _ = world.agents(LinUCB())
    agent.play(world.means, world.noise(40))
    running, told = agent.running, Event()
    assert running.lists is not None
    running.lists.know(rest(running.params, running.held))
    assert running.all_present and running.present.all() and not running.held.counts[kernels.ALLOWED].any()
    thread = Thread(target=lambda: running.has(3) and running.present.all() and told.set())
    with running.lists.lock:  # as a read has it
        thread.start()
        assert not told.wait(0.2)
        running.lists.catch_up(running.params, running.held)
    thread.join(10)
    assert told.is_set() and not running.all_present


def test_reads_in_another_thread_change_no_round() -> None:
    world = World(32, k=3000)
    listed, plain = world.agents(LinUCB())
    draws, over = world.noise(600), Event()

    def read() -> None:
        while not over.is_set():
            assert listed.lcb.shape == (3000,) and listed.theta.shape == (6,)
            listed.interval(17)

    thread = Thread(target=read)
    thread.start()
    try:
        for draw in draws:
            arm = listed.select()
            assert arm == plain.select()
            for agent in (listed, plain):
                agent.update(arm, float(world.means[arm] + draw))
    finally:
        over.set()
        thread.join(10)
    check_same(listed, plain)
