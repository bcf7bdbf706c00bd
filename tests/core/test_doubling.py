"""The doubling trick: epochs of 1, 2, 4, ... rounds that share the log and nothing else."""

from typing import Any

import numpy as np
import pytest

from linoto.checks.problems import small_problem
from linoto.core.confidence import PAPER, Confidence
from linoto.core.doubling import Doubling
from linoto.core.gates import Budget
from linoto.core.offline import Offline
from linoto.core.policies import Gated, LinOtO, LinTS, LinUCB, Random
from linoto.core.snapshots import restore
from linoto.worlds.bandits import LinearBandit
from linoto.worlds.simulate import simulate

POLICIES = [
    LinOtO(alpha=0.1),
    LinUCB(scale=1.0),
    Gated(explorer=LinUCB(), gate=Budget(alpha=0.1), fallback=1, reach="proposal"),
]
RESETS = [1, 3, 7, 15, 31, 63]  # rounds after which everything begins anew


def same(one: Any, two: Any) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("theta", "lcb", "ucb"))


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_epochs_are_powers_of_two(policy: Any) -> None:
    w = small_problem()
    agent = Doubling(policy=policy).start(w.actions, w.offline)
    fresh = policy.start(w.actions, w.offline)
    assert agent.epoch == 0 and same(agent, fresh)
    for t in range(1, 64):
        w.play_rounds(agent, range(t, t + 1))
        assert agent.epoch == np.floor(np.log2(t + 1))
        assert agent.played == agent.inner.rounds == t - (2**agent.epoch - 1)
        assert agent.rounds == t
        assert same(agent, fresh) == (t in RESETS)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_an_epoch_is_a_run_of_its_own(policy: Any) -> None:
    w = small_problem()
    agent = Doubling(policy=policy).start(w.actions, w.offline)
    arms = w.play_rounds(agent, range(127))
    for epoch in range(7):
        rounds = range(2**epoch - 1, 2 ** (epoch + 1) - 1)
        alone = policy.start(w.actions, w.offline)
        assert w.play_rounds(alone, rounds) == [arms[t] for t in rounds]


def test_delta_falls_with_the_epoch() -> None:
    policy = Doubling(policy=LinOtO(), delta="epoch")
    deltas = [policy.in_epoch(epoch).confidence.delta for epoch in range(6)]
    assert deltas == [1 / 2, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32]
    assert policy.in_epoch(3) == LinOtO(confidence=Confidence(radius="paper", ridge=1e-4, delta=1 / 8))
    assert Doubling(policy=LinUCB(scale=1.0), delta="epoch").in_epoch(2).confidence == Confidence(delta=1 / 4)
    assert Doubling(policy=LinOtO()).in_epoch(5).confidence is PAPER


def test_the_epoch_s_delta_reaches_the_bounds() -> None:
    w = small_problem()
    agent = Doubling(policy=LinUCB(scale=1.0), delta="epoch").start(w.actions, w.offline)
    w.play_rounds(agent, range(31))
    fresh = LinUCB(scale=1.0, confidence=Confidence(delta=1 / 32)).start(w.actions, w.offline)
    assert agent.epoch == 5 and same(agent, fresh)


def test_rewards_owed_to_an_epoch_that_is_over_are_taken_and_forgotten() -> None:
    w = small_problem()
    agent = Doubling(policy=LinUCB(scale=1.0)).start(w.actions, w.offline)
    for arm in (2, 2, 2):  # epochs of 1 and of 2 rounds: both are over
        agent.commit(arm)
    fresh = LinUCB(scale=1.0).start(w.actions, w.offline)
    assert agent.epoch == 2 and agent.stale[2] == 3
    for left in (2, 1, 0):
        agent.observe(2, 100.0)
        assert agent.stale[2] == left and same(agent, fresh)
    with pytest.raises(ValueError, match="arm must have a committed play that awaits its reward, got 2"):
        agent.observe(2, 100.0)
    agent.commit(2)
    agent.observe(2, 1.0)
    fresh.update(2, 1.0)
    assert same(agent, fresh)


def test_old_debts_are_paid_before_new_ones() -> None:
    w = small_problem()
    agent = Doubling(policy=LinUCB(scale=1.0)).start(w.actions, w.offline)
    agent.commit(2)  # the whole first epoch
    agent.commit(2)
    agent.observe(2, 100.0)
    assert agent.rewards == 0
    agent.observe(2, 1.0)
    alone = LinUCB(scale=1.0).start(w.actions, w.offline)
    alone.update(2, 1.0)
    assert same(agent, alone)


@pytest.mark.parametrize("policy", [*POLICIES, LinTS(), Random()], ids=str)
@pytest.mark.parametrize("delta", [None, "epoch"])
def test_compiled_epochs_equal_interactive_ones(policy: Any, delta: Any) -> None:
    if policy == Random():
        delta = None  # has no confidence
    w = small_problem()
    compiled, interactive = (
        Doubling(policy=policy, delta=delta).start(w.actions, w.offline, rng=4) for _ in "ab"
    )
    for part in (slice(0, 5), slice(5, 6), slice(6, 300)):  # wherever the horizon is cut
        arms, _ = compiled.play(w.means, w.noise[part])
        assert arms.tolist() == w.play_rounds(interactive, range(part.start, part.stop))
    assert same(compiled, interactive) and compiled.epoch == interactive.epoch


def test_the_generator_goes_on_from_epoch_to_epoch() -> None:
    w = small_problem()
    agent = Doubling(policy=Random()).start(w.actions, w.offline, rng=3)
    arms = w.play_rounds(agent, range(255))
    assert arms[63:127] != arms[127:191]


class Wheel:
    """Plain Python: every arm in turn."""

    def start(self, actions: Any, offline: Offline, rng: Any = 0) -> "WheelAgent":
        return WheelAgent(len(actions))


class WheelAgent:
    def __init__(self, k: int) -> None:
        self.k, self.turn = k, 0

    def select(self) -> int:
        return self.turn % self.k

    def update(self, arm: int, reward: float) -> None:
        self.turn += 1


def test_a_plain_python_policy_can_wear_it() -> None:
    w = small_problem()
    turns = [0, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0, 1]
    agent = Doubling(policy=Wheel()).start(w.actions, w.offline)
    assert w.play_rounds(agent, range(15)) == turns
    bandit = LinearBandit(actions=w.actions, theta=[1.0, 0.0, 0.0])
    assert simulate(Doubling(policy=Wheel()), bandit, w.offline, horizon=15).arms.tolist() == turns


def test_an_epoch_decides_guards_and_names_like_its_policy() -> None:
    w = small_problem()
    agent = Doubling(policy=LinOtO(alpha=0.1)).start(w.actions, w.offline, names=list("abcdef"))
    w.play_rounds(agent, range(10))
    assert agent.names == tuple("abcdef")
    assert agent.decide().arm == agent.select()
    assert agent.decide([agent.select()]).arm == agent.select([agent.select()]) == agent.select()
    assert agent.guard(3).proposal == 3


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"policy": 3}, "policy must have a start method, got 3"),
        ({"policy": LinOtO(), "delta": 0.1}, "delta must be 'epoch' or None, got 0.1"),
        ({"policy": Random(), "delta": "epoch"}, "policy must have a confidence for delta='epoch'"),
        ({"policy": Wheel(), "delta": "epoch"}, "policy must have a confidence for delta='epoch'"),
    ],
)
def test_other_settings_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Doubling(**settings)


def test_a_decision_is_of_one_round_over_all_epochs() -> None:
    w = small_problem()
    agent = Doubling(policy=LinOtO()).start(w.actions, w.offline)
    decision = agent.decide()
    agent.update(decision, 0.5)
    with pytest.raises(ValueError, match="decision must be of round 2, got one of round 1"):
        agent.update(decision, 0.5)
    assert agent.decide().round == 2


def test_a_reward_by_decision_finds_its_epoch() -> None:
    w = small_problem()
    agent = Doubling(policy=LinOtO()).start(w.actions, w.offline)
    first = agent.decide()
    agent.commit(first)  # ends epoch 0
    second = agent.guard(first.arm)
    agent.commit(second)
    assert agent.pending.sum() == 2
    agent.observe(second, 0.5)
    assert agent.rewards == 1 and agent.stale.sum() == 1
    agent.observe(first, 0.5)
    assert agent.rewards == 1 and agent.stale.sum() == 0


def test_late_rewards_find_their_epoch_in_a_doubling_of_a_doubling() -> None:
    w = small_problem()
    agent = Doubling(policy=Doubling(policy=LinUCB(scale=1.0))).start(w.actions, w.offline)
    waiting = []
    for _ in range(40):
        waiting.append(agent.decide())
        agent.commit(waiting[-1])
        if len(waiting) > 5:
            agent.observe(waiting.pop(0), 0.5)
    for decision in reversed(waiting):
        agent.observe(decision, 0.5)
    assert agent.pending.sum() == 0 and agent.rounds == 40


def test_no_promise_outlives_an_epoch() -> None:
    w = small_problem()
    agent = Doubling(policy=LinOtO()).start(w.actions, w.offline)
    assert not agent.certificate.holds and agent.certificate.loss(10) is None


def test_a_world_that_is_refused_plays_no_epoch() -> None:
    w = small_problem()
    agent = Doubling(policy=LinOtO()).start(w.actions, w.offline)
    with pytest.raises(ValueError, match="draws must be finite"):
        agent.play(w.means, np.array([0.0, 0.0, 0.0, np.nan]))
    assert agent.rounds == 0


def test_debts_survive_doubling_twice_and_names_a_snapshot() -> None:
    w = small_problem()
    names = np.array([f"arm {index}" for index in range(len(w.actions))])
    agent = Doubling(policy=Doubling(policy=LinOtO())).start(w.actions, w.offline, names=names)
    for _ in range(9):
        agent.commit(agent.decide())
    assert agent.pending.sum() == 9
    assert restore(agent.snapshot()).pending.sum() == 9
