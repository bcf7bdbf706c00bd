"""Playing a policy in a world: regrets, seeds, given noise, and policies written in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from helpers.problems import bernoulli_problem, problem

from linoto import (
    Bandit,
    Confidence,
    Doubling,
    DriftingBandit,
    LinearBandit,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    Offline,
    Random,
    Run,
    simulate,
    sphere_bandit,
)
from linoto.worlds.simulate import reward_tables


@dataclass
class PlainLinUCB:
    """LinUCB as a dozen lines of NumPy: an inverse per round, and only what the simulator asks for."""

    ridge: float = 1.0
    scale: float = 1.0
    rewards: list[float] = field(default_factory=list)

    def start(self, actions: Any, offline: Offline, rng: Any = 0) -> PlainLinUCB:
        self.actions, d = actions, actions.shape[1]
        self.V = actions.T @ np.diag(offline.pulls) @ actions + self.ridge * np.eye(d)
        self.b = actions.T @ offline.reward_sums
        return self

    def select(self) -> int:
        inverse, d = np.linalg.inv(self.V), len(self.b)
        width = np.sqrt(np.einsum("ki,ij,kj->k", self.actions, inverse, self.actions))
        growth = np.linalg.slogdet(self.V)[1] - d * np.log(self.ridge)
        radius = np.sqrt(2 * np.log(1 / 0.05) + growth) + np.sqrt(self.ridge)
        return int(np.argmax(self.actions @ inverse @ self.b + self.scale * radius * width))

    def update(self, arm: int, reward: float) -> None:
        self.V += np.outer(self.actions[arm], self.actions[arm])
        self.b += reward * self.actions[arm]
        self.rewards.append(reward)


@dataclass
class Cycle:
    """Play the arms in turn, and remember everything."""

    rewards: list[float] = field(default_factory=list)
    randomness: list[float] = field(default_factory=list)

    def start(self, actions: Any, offline: Offline, rng: Any = 0) -> Cycle:
        self.k, self.rng = len(actions), np.random.default_rng(rng)
        return self

    def select(self) -> int:
        return len(self.rewards) % self.k

    def update(self, arm: int, reward: float) -> None:
        assert arm == self.select()
        self.randomness.append(float(self.rng.random()))
        self.rewards.append(reward)


def assert_same(a: Run, b: Run) -> None:
    for name in ("arms", "explored", "regret", "offline_regret"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


POLICIES = [
    LinOtO(alpha=0.05),
    LinUCB(scale=1.0),
    LinLCB(),
    LinTS(),
    Random(),
    Doubling(policy=LinTS()),
    Cycle(),
]


# -- regrets


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_regrets_add_up_from_the_arms_played(policy: Any) -> None:
    bandit, offline = problem(1)
    run = simulate(policy, bandit, offline, horizon=300, seed=2)
    logged = sum(m * bandit.means[arm] for arm, m in enumerate(offline.pulls)) / offline.total
    regret = behind = 0.0
    for t, arm in enumerate(run.arms):
        regret += max(bandit.means) - bandit.means[arm]
        behind += logged - bandit.means[arm]
        assert run.regret[t] == pytest.approx(regret)
        assert run.offline_regret[t] == pytest.approx(behind)
    assert {array.shape for array in (run.arms, run.explored, run.regret, run.offline_regret)} == {(300,)}
    assert (np.diff(run.regret) >= 0).all()


def test_without_a_log_there_is_no_offline_regret() -> None:
    bandit, _ = problem(1)
    run = simulate(LinUCB(scale=1.0), bandit, Offline.empty(20), horizon=10)
    assert np.isnan(run.offline_regret).all()
    assert np.isfinite(run.regret).all()


def test_explored_marks_the_rounds_of_the_explorer() -> None:
    bandit, offline = problem(1)
    assert simulate(LinUCB(scale=1.0), bandit, offline, horizon=50).explored.all()
    assert not simulate(LinLCB(), bandit, offline, horizon=50).explored.any()
    mixed = simulate(LinOtO(alpha=0.05), bandit, offline, horizon=500).explored
    assert 0 < mixed.sum() < 500


# -- seeds and noise


@pytest.mark.parametrize("policy", POLICIES[:-1], ids=repr)
def test_the_same_seed_gives_the_same_run(policy: Any) -> None:
    bandit, offline = problem(3)
    once, again, other = (simulate(policy, bandit, offline, horizon=300, seed=seed) for seed in (4, 4, 5))
    assert_same(once, again)
    assert isinstance(policy, LinLCB) or not np.array_equal(once.arms, other.arms)


@pytest.mark.parametrize("policy", POLICIES[:-1], ids=repr)
def test_a_shorter_run_is_the_beginning_of_a_longer_one(policy: Any) -> None:
    bandit, offline = problem(3)
    noise = np.random.default_rng(6).standard_normal(300)
    long, short = (simulate(policy, bandit, offline, noise=noise[:n]) for n in (300, 120))
    np.testing.assert_array_equal(long.arms[:120], short.arms)
    np.testing.assert_array_equal(long.regret[:120], short.regret)


def test_given_noise_is_added_as_it_is() -> None:
    bandit, offline = problem(7, k=6, arms=3)
    noise = np.random.default_rng(8).standard_normal(50)
    policy = Cycle()
    run = simulate(policy, bandit, offline, noise=noise, horizon=50)
    assert policy.rewards == (bandit.means[run.arms] + noise).tolist()
    assert run.arms.tolist() == [t % 6 for t in range(50)]


def test_given_noise_is_used_verbatim_in_the_compiled_loop_too() -> None:
    bandit, offline = problem(7, k=6, arms=3)
    noise = np.random.default_rng(8).standard_normal(400)
    run = simulate(LinUCB(scale=1.0), bandit, offline, noise=noise)
    agent = LinUCB(scale=1.0).start(bandit.actions, offline)
    for t in range(400):
        assert agent.select() == run.arms[t]
        agent.update(int(run.arms[t]), bandit.means[run.arms[t]] + noise[t])


def test_given_noise_is_not_changed() -> None:
    bandit, offline = problem(7)
    noise = np.ones(20)
    noise.flags.writeable = False
    simulate(LinOtO(), bandit, offline, noise=noise)
    assert (noise == 1).all()


def test_the_seed_still_drives_the_policy_when_noise_is_given() -> None:
    bandit, offline = problem(7)
    runs = [simulate(Random(), bandit, offline, noise=np.zeros(50), seed=seed).arms for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_every_policy_meets_the_same_noise() -> None:
    bandit, offline = problem(9, k=4, arms=2)
    noises = []
    for policy in (Cycle(), PlainLinUCB()):  # one draws randomness of its own, one does not
        run = simulate(policy, bandit, offline, horizon=100, seed=10)
        noises.append(np.array(policy.rewards) - bandit.means[run.arms])
    np.testing.assert_allclose(noises[0], noises[1], atol=1e-12)
    assert len(np.unique(noises[0].round(9))) == 100


def test_the_randomness_of_a_policy_is_independent_of_the_noise() -> None:
    # 4000 pairs: a correlation beyond 5/sqrt(4000) = 0.08 has probability 6e-7.
    bandit, offline = problem(9, k=4, arms=2)
    policy = Cycle()
    run = simulate(policy, bandit, offline, horizon=4000, seed=11)
    noise = np.array(policy.rewards) - bandit.means[run.arms]
    ranks = np.argsort(np.argsort(noise)) / 4000
    assert abs(np.corrcoef(ranks, policy.randomness)[0, 1]) < 0.08
    assert noise.std() == pytest.approx(1, abs=0.06)  # five standard errors


# -- plain Python policies


def test_a_policy_in_plain_python_plays_like_the_compiled_one() -> None:
    bandit, offline = problem(12, k=12, d=4)
    compiled = simulate(
        LinUCB(scale=1.0, confidence=Confidence(ridge=1.0)), bandit, offline, horizon=600, seed=13
    )
    plain = simulate(PlainLinUCB(), bandit, offline, horizon=600, seed=13)
    assert_same(compiled, plain)


def test_a_policy_in_plain_python_can_be_doubled() -> None:
    bandit, offline = problem(12, k=12, d=4)
    compiled = Doubling(policy=LinUCB(scale=1.0, confidence=Confidence(ridge=1.0)))
    one, two = (
        simulate(p, bandit, offline, horizon=100, seed=14) for p in (compiled, Doubling(policy=PlainLinUCB()))
    )
    assert_same(one, two)


@pytest.mark.parametrize("arm", [-1, 20, 1.5, "3", None])
def test_a_policy_that_selects_no_arm_is_refused(arm: Any) -> None:
    bandit, offline = problem(1)
    policy = Cycle()
    policy.select = lambda: arm  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="arm must be"):
        simulate(policy, bandit, offline, horizon=5)


# -- clicks


def test_clicks_are_zeros_and_ones() -> None:
    bandit, offline = bernoulli_problem(15)
    policy = Cycle()
    simulate(policy, bandit, offline, horizon=200, seed=16)
    assert set(policy.rewards) == {0.0, 1.0}


def test_clicks_come_at_the_rate_of_the_arm() -> None:
    # Ten thousand clicks of each arm: beyond five standard errors with probability 6e-7 an arm.
    bandit = LinearBandit(actions=[[0.2], [0.9]], theta=[1.0], rewards="bernoulli")
    policy = Cycle()
    run = simulate(policy, bandit, Offline.empty(2), horizon=20_000, seed=17)
    for arm, p in enumerate((0.2, 0.9)):
        rate = np.array(policy.rewards)[run.arms == arm].mean()
        assert abs(rate - p) < 5 * np.sqrt(p * (1 - p) / 10_000)


def test_the_compiled_loop_pays_the_same_clicks() -> None:
    bandit, offline = bernoulli_problem(18)
    one = simulate(LinUCB(scale=1.0, confidence=Confidence(ridge=1.0)), bandit, offline, horizon=400, seed=19)
    two = simulate(PlainLinUCB(), bandit, offline, horizon=400, seed=19)
    assert_same(one, two)


# -- arms that scatter differently


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli", "beta"])
def test_the_compiled_loop_pays_the_same_where_arms_scatter_differently(rewards: Any) -> None:
    plain, offline = bernoulli_problem(18)
    spread = np.linspace(0.7, 1.0, len(plain.actions))
    bandit = Bandit(actions=plain.actions, means=plain.means * 0.7, rewards=rewards, spread=spread)
    one = simulate(LinUCB(scale=1.0, confidence=Confidence(ridge=1.0)), bandit, offline, horizon=400, seed=19)
    two = simulate(PlainLinUCB(), bandit, offline, horizon=400, seed=19)
    assert_same(one, two)


def test_rewards_of_a_range_move_with_their_means() -> None:
    """Played in Python or compiled, computed a few rounds at a time or all at once: the same."""
    plain, offline = bernoulli_problem(18)
    table = np.array([plain.means, plain.means[::-1], 0.5 + 0 * plain.means])
    world = DriftingBandit(
        actions=plain.actions,
        table=table,
        starts=np.array([0, 70, 250]),
        rewards="beta",
        spread=np.full(len(plain.actions), 0.2),
    )
    one = simulate(LinUCB(scale=1.0, confidence=Confidence(ridge=1.0)), world, offline, horizon=300, seed=19)
    assert_same(one, simulate(PlainLinUCB(), world, offline, horizon=300, seed=19))
    draws = np.random.default_rng(20).random(300)
    few, many = (list(reward_tables(world, draws, at_a_time=size)) for size in (40, 10**6))
    assert len(few) > len(many) == 3  # one for each time that the means move
    np.testing.assert_array_equal(np.concatenate(few), np.concatenate(many))
    assert one.rewards.std() > 0.1 and one.rewards.min() >= 0 and one.rewards.max() <= 1


@pytest.mark.parametrize("rewards", ["gaussian", "bernoulli"])
def test_every_arm_scatters_as_it_is_said_to(rewards: Any) -> None:
    # Twenty thousand rewards of each arm: beyond six standard errors with probability 2e-9 a number.
    bandit = Bandit(
        actions=np.eye(2), means=[0.1, 0.3], rewards=rewards, reward_range=(0, 2), spread=[0.5, 2.0]
    )
    policy = Cycle()
    run = simulate(policy, bandit, Offline.empty(2), horizon=40_000, seed=17)
    deviations = [0.5, 2.0] if rewards == "gaussian" else [np.sqrt(0.1 * 0.4), np.sqrt(0.3 * 1.7)]
    for arm, deviation in enumerate(deviations):
        paid = np.array(policy.rewards)[run.arms == arm]
        assert abs(paid.mean() - bandit.means[arm]) < 6 * deviation / np.sqrt(paid.size)
        assert paid.std() == pytest.approx(deviation, rel=0.05)
        if rewards == "bernoulli":
            assert set(paid) == {0.0, bandit.steps[arm]}


# -- results and refusals


def test_a_run_is_a_table_with_one_row_per_round() -> None:
    pd = pytest.importorskip("pandas")
    bandit, offline = problem(1)
    run = simulate(LinOtO(), bandit, offline, horizon=30)
    frame = run.to_frame()
    assert isinstance(frame, pd.DataFrame)
    regrets = ["regret", "offline_regret", "control", "practice_shortfall"]
    assert list(frame.columns) == ["round", "arm", "explored", *regrets]
    assert frame["round"].tolist() == list(range(1, 31))
    for column, array in (("arm", run.arms), ("explored", run.explored), ("regret", run.regret)):
        np.testing.assert_array_equal(frame[column], array)


@pytest.mark.parametrize("horizon", [0, -1, 2.5, None, True, "10"])
def test_a_horizon_that_is_none_is_refused(horizon: Any) -> None:
    bandit, offline = problem(1)
    with pytest.raises(ValueError, match="horizon must be a whole number >= 1"):
        simulate(LinUCB(scale=1.0), bandit, offline, horizon=horizon)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": []}, "horizon must be a whole number >= 1, got 0"),
        ({"noise": [0.0, np.nan]}, r"noise must be finite, got nan at \[1\]"),
        ({"noise": [[0.0]]}, "noise must have 1 dimension"),
        ({"noise": [0.0, 0.0], "horizon": 3}, "horizon must be 2, the length of noise, got 3"),
        ({"horizon": 3, "seed": -1}, "seed must be"),
        ({"horizon": 3, "seed": None}, "seed must be"),
    ],
)
def test_a_simulation_that_makes_no_sense_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    bandit, offline = problem(1)
    with pytest.raises(ValueError, match=message):
        simulate(LinUCB(scale=1.0), bandit, offline, **change)


def test_a_log_of_other_arms_is_refused() -> None:
    bandit = sphere_bandit(k=5, d=2, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="offline must cover the 5 arms"):
        simulate(LinUCB(scale=1.0), bandit, Offline.empty(4), horizon=3)


def test_what_is_no_world_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^bandit must be a world such as a LinearBandit, got str$"):
        simulate(LinOtO(), "x", Offline.empty(3), horizon=5)  # type: ignore[arg-type]
