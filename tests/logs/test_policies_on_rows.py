"""Policies that learn, judged by logged rows; and rows that may not judge, since they built the policy."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.logged_rows import ALL, TARGET, logged
from helpers.selection import sizes

from linoto import Gated, LinearBandit, LinLCB, LinUCB, Offline, Tolerance, simulate
from linoto.logs.evaluate import Estimate, Interval, evaluate, ips, replay
from linoto.logs.rows import Fingerprint, Rows, WarmStart, split

# -- policies that learn ----------------------------------------------------------------------------------


def world(noise: float = 0.3) -> LinearBandit:
    actions = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [-0.6, 0.8]])
    return LinearBandit(actions=actions, theta=[0.3, 0.6], noise=noise)


def uniform_rows(bandit: LinearBandit, n: int, seed: int, logger: Any = None) -> Rows:
    rng = np.random.default_rng(seed)
    k = len(bandit.actions)
    chances = np.full(k, 1 / k) if logger is None else np.asarray(logger)
    arms = rng.choice(k, size=n, p=chances)
    rewards = bandit.pay(arms, bandit.draw(n, rng))
    return Rows(arms=arms, rewards=rewards, k=k, propensities=chances[arms], ids=range(n))


# A policy replayed on 100 logs against the same policy simulated 100 times for as many rounds as each replay
# kept: both estimate its mean reward. Five standard errors of the difference: false alarm 6e-7 each.
@pytest.mark.parametrize("logger", [None, [0.4, 0.3, 0.2, 0.1]])
@pytest.mark.few(1)
def test_replay_of_a_policy_is_what_it_earns_online(logger: Any) -> None:
    bandit, policy = world(), LinUCB(scale=0.5)
    empty = Offline.empty(4)
    replays, onlines = [], []
    for seed in range(100):
        rows = uniform_rows(bandit, 400, seed, logger)
        found = replay(rows, policy, actions=bandit.actions, seed=seed)
        run = simulate(policy, bandit, empty, horizon=found.used, seed=10_000 + seed)
        replays.append(found.value)
        onlines.append(bandit.means[run.arms].mean())
    spread = sqrt((np.var(replays) + np.var(onlines)) / 100)
    assert abs(np.mean(replays) - np.mean(onlines)) < 5 * spread


def test_a_replayed_policy_keeps_as_many_rows_as_the_least_propensity_says() -> None:
    bandit = world()
    logger = [0.4, 0.3, 0.2, 0.1]
    rows = uniform_rows(bandit, 20_000, 7, logger)
    for policy in (LinUCB(), LinLCB()):
        kept = replay(rows, policy, actions=bandit.actions).used
        assert abs(kept - 2000) < 5 * sqrt(20_000 * 0.1 * 0.9)  # false alarm 6e-7


def test_a_policy_that_never_learns_is_replayed_like_its_arm() -> None:
    bandit = world()
    rows = uniform_rows(bandit, 1000, 8)
    warm = Rows(arms=[2] * 50, rewards=[0.7] * 50, k=4, ids=[f"warm {i}" for i in range(50)])
    frozen = replay(rows, LinLCB(frozen=True), actions=bandit.actions, warm_start=warm)
    fixed = replay(rows, 2)
    assert frozen.to_dict() == pytest.approx({**fixed.to_dict(), "mean_weight": frozen.mean_weight})


def test_replay_drives_the_agent_as_its_own_loop_would() -> None:
    bandit, policy = world(), Gated(explorer=LinUCB(), gate=Tolerance(epsilon=0.2))
    warm, held_out = split(uniform_rows(bandit, 600, 9))
    agent = policy.start(bandit.actions, warm.offline)
    earned = []
    for arm, reward in zip(held_out.arms, held_out.rewards, strict=True):
        decision = agent.decide()
        if decision.arm == arm:
            agent.update(decision, reward)
            earned.append(reward)
    found = replay(held_out, policy, actions=bandit.actions, warm_start=warm)
    assert found.value == np.mean(earned)
    assert found.used == len(earned)


# The interval of a policy that learns is about the arms it played, at level 0.8.
@pytest.mark.parametrize("logs", sizes(50, 120))
@pytest.mark.few(0)
def test_the_interval_of_a_replayed_policy_covers_the_means_of_its_arms(logs: int) -> None:
    bandit = LinearBandit(actions=[[1.0, 0.0], [0.0, 1.0]], theta=[0.3, 0.6], rewards="bernoulli")
    missed = dict.fromkeys(("auto", "normal", "hoeffding"), 0)

    class Watched:
        """LinUCB, with the arms it was told about."""

        def start(self, actions: Any, offline: Offline, rng: Any) -> Any:
            self.played: list[int] = []
            agent = LinUCB(scale=0.5).start(actions, offline, rng=rng)
            outer = self

            class Agent:
                def select(self) -> int:
                    return agent.select()

                def update(self, arm: int, reward: float) -> None:
                    outer.played.append(arm)
                    agent.update(arm, reward)

            return Agent()

    for seed in range(logs):
        for kind in missed:
            policy = Watched()
            interval = Interval(kind=kind, level=0.8, reward_range=(0, 1))  # type: ignore[arg-type]
            rows = uniform_rows(bandit, 200, seed)
            found = replay(rows, policy, actions=bandit.actions, interval=interval)
            truth = bandit.means[policy.played].mean()
            missed[kind] += not found.low <= truth <= found.high
    assert missed["auto"] <= most(logs, 0.2)
    assert missed["hoeffding"] <= most(logs, 0.2)
    assert missed["normal"] <= most(logs, 0.22)  # a little more than its limit is allowed for


def test_an_agent_of_fixed_arms_is_a_target() -> None:
    """Asked and not taught: it plays the same arm in every row, as weights on it do."""
    rng = np.random.default_rng(3)
    arms = rng.integers(0, 3, 300)
    rows = Rows(
        arms=arms, rewards=(rng.random(300) < 0.2 + 0.3 * (arms == 1)) * 1.0, k=3, propensities="uniform"
    )
    agent = LinUCB(scale=0.0).start(np.eye(3), rows.offline, rng=0)
    best = agent.decide().arm
    values = [evaluate(rows, target, methods=["ips"])[0].value for target in (agent, np.eye(3)[best])]
    assert values[0] == values[1] and agent.rounds == 0


# -- rows that may not judge ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
def test_rows_that_built_the_warm_start_are_refused(method: Any) -> None:
    rows = logged(100, seed=10, ids=True)
    warm = rows.take(np.arange(60))
    held_out = rows.take(np.arange(40, 100))
    with pytest.raises(ValueError, match="got 20 of 60 that are, the first with id '40'"):
        method(held_out, TARGET, warm_start=warm)
    assert isinstance(method(rows.take(np.arange(60, 100)), TARGET, warm_start=warm), Estimate)


def test_the_trap_of_judging_a_policy_by_its_own_rows_is_closed() -> None:
    # Pure noise: no arm is better. Judged by the rows that chose it, the best-looking arm seems to be.
    rng = np.random.default_rng(11)
    k, n = 50, 1000
    rows = Rows(
        arms=rng.integers(0, k, n), rewards=rng.random(n) < 0.1, k=k, propensities="uniform", ids=range(n)
    )
    log = rows.offline
    chosen = int(np.argmax(log.reward_sums / log.pulls))
    assert replay(rows, chosen).value > 0.2, "twice the truth"
    with pytest.raises(ValueError, match="rows must not be among those that built the warm start"):
        replay(rows, chosen, warm_start=rows)
    warm, held_out = split(rows)
    log = warm.offline
    best = int(np.argmax(log.reward_sums / np.maximum(log.pulls, 1)))
    found = replay(held_out, best, warm_start=warm)
    assert found.low <= 0.1 <= found.high


def test_an_overlap_is_seen_whatever_type_the_ids_have() -> None:
    warm = Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2, ids=[1, 2])
    rows = Rows(arms=[0, 1], rewards=[0.0, 1.0], k=2, ids=["2", "3"], propensities="uniform")
    with pytest.raises(ValueError, match="got 1 of 2 that are, the first with id '2'"):
        ips(rows, [0.5, 0.5], warm_start=warm)


def test_statistics_without_rows_are_refused_unless_they_say_which_rows_built_them() -> None:
    rows = logged(100, seed=12, ids=True)
    warm, held_out = split(rows)
    with pytest.raises(ValueError, match=r"warm_start must be Rows or a WarmStart.* got Offline"):
        ips(held_out, TARGET, warm_start=warm.offline)  # type: ignore[arg-type]
    known = WarmStart(offline=warm.offline, fingerprint=warm.fingerprint)
    assert ips(held_out, TARGET, warm_start=known) == ips(held_out, TARGET)
    with pytest.raises(ValueError, match="rows must not be among"):
        ips(rows, TARGET, warm_start=known)


def test_rows_without_ids_cannot_be_shown_to_be_others() -> None:
    rows, warm = logged(20, seed=13), logged(20, seed=14, ids=True)
    with pytest.raises(ValueError, match="ids must be given where there is a warm start"):
        ips(rows, TARGET, warm_start=warm)
    with pytest.raises(ValueError, match="ids must be given to tell rows apart"):
        ips(warm, TARGET, warm_start=rows)


def test_fingerprints_of_parts_merge_into_that_of_the_whole() -> None:
    whole = Fingerprint.of(range(1000))
    parts = Fingerprint.of(range(400)) | Fingerprint.of(range(300, 1000))
    assert np.array_equal(whole.hashes, parts.hashes)
    assert whole.shares(range(1000)).all()
    assert not whole.shares(range(1000, 3000)).any()


def test_a_split_is_disjoint_complete_and_does_not_depend_on_order() -> None:
    rows = logged(1000, seed=15, ids=True)
    warm, held_out = split(rows, share=0.3)
    assert sorted([*warm.ids, *held_out.ids]) == sorted(str(i) for i in range(1000))  # type: ignore[misc]
    assert abs(len(warm) - 300) < 5 * sqrt(1000 * 0.3 * 0.7)
    shuffled = rows.take(np.random.default_rng(0).permutation(1000))
    again, _ = split(shuffled, share=0.3)
    assert set(again.ids) == set(warm.ids)  # type: ignore[arg-type]
    half, _ = split(rows.take(np.arange(500)), share=0.3)
    assert set(half.ids) == {row for row in warm.ids if int(row) < 500}  # type: ignore[union-attr,arg-type]


def test_a_split_by_order_puts_the_past_first() -> None:
    warm, held_out = split(logged(100, seed=16, ids=True), share=0.75, by="order")
    assert list(warm.ids) == [str(i) for i in range(75)]  # type: ignore[arg-type]
    assert len(held_out) == 25


def test_a_log_without_ids_read_twice_is_the_same_log() -> None:
    warm, _ = split(logged(100, seed=17))
    _, held_out = split(logged(100, seed=17))
    other, _ = split(logged(100, seed=18))
    assert not warm.fingerprint.shares(held_out.ids).any()  # type: ignore[arg-type]
    assert warm.fingerprint.shares(split(logged(100, seed=17))[0].ids).all()  # type: ignore[arg-type]
    assert not warm.fingerprint.shares(other.ids).any()  # type: ignore[arg-type]


def test_a_policy_is_replayed_among_the_arms_on_offer_in_each_row() -> None:
    """It knows that arm 0 is the best, which every other row does not offer: there arm 1 is the next best."""
    offers = np.array([[True, True, True], [False, True, True]])[np.arange(600) % 2]
    arms = np.array([0, 1, 1, 2])[np.arange(600) % 4]
    rewards = np.array([0.9, 0.5, 0.1])[arms]
    rows = Rows(arms=arms, rewards=rewards, k=3, propensities="uniform", ids=range(600), candidates=offers)
    warm = WarmStart(
        offline=Offline(pulls=[1000] * 3, reward_sums=[900.0, 500.0, 100.0]),  # type: ignore[arg-type]
        fingerprint=Fingerprint.of(["elsewhere"]),
    )
    found = replay(rows, LinLCB(), actions=np.eye(3), warm_start=warm)
    assert found.used > 0 and 0.5 < found.value < 0.9  # both arms are played, where each is on offer
    with pytest.raises(ValueError, match="target must decide among the arms on offer"):
        replay(rows, OnlySelects(), actions=np.eye(3), warm_start=warm)


class OnlySelects:
    """A policy whose agent knows one arm, and no offers."""

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> OnlySelects:
        return self

    def select(self) -> int:
        return 0

    def update(self, arm: int, reward: float) -> None:
        pass
