"""A biased log: bounds that hold at every shift up to the stated one, and a test that is rarely wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, LinUCB, Offline, least_shift, shifted_bounds

K, D, M = 8, 3, 90
SURE = Confidence(noise=0.3, delta=0.2)


def moved_world(seed: int, shift: float, favourite: int = 7) -> tuple[linoto.LinearBandit, Offline]:
    """A world, and a log whose means have moved by `shift` (root mean square) where it hurts one arm most."""
    rng = np.random.default_rng(seed)
    bandit = linoto.sphere_bandit(k=K, d=D, rng=rng, noise=0.3)
    pulls = np.array([30, 30, 30] + [0] * (K - 3))
    V = SURE.ridge_for(D) * np.eye(D) + bandit.actions.T @ (pulls[:, None] * bandit.actions)
    leverage = bandit.actions @ np.linalg.solve(V, bandit.actions[favourite])  # (k,) of each arm's rows
    moves = shift * leverage * np.sqrt(M / (pulls @ leverage**2))
    sums = pulls * (bandit.means + moves) + 0.3 * np.sqrt(pulls) * rng.standard_normal(K)
    return bandit, Offline(pulls=pulls, reward_sums=sums)


def rewards_since(bandit: Any, log: Offline, rounds: list[int], seed: int) -> list[Offline]:
    """What a LinUCB that trusts the log has seen after so many rounds."""
    agent = LinUCB(scale=1.0, confidence=SURE).start(bandit.actions, log)
    rng, pulls, sums, seen = np.random.default_rng(seed), np.zeros(K, int), np.zeros(K), []
    for t in range(rounds[-1] + 1):
        if t in rounds:
            seen.append(Offline(pulls=pulls.copy(), reward_sums=sums.copy()))
        arm = agent.select()
        reward = float(bandit.means[arm] + 0.3 * rng.standard_normal())
        agent.update(arm, reward)
        pulls[arm] += 1
        sums[arm] += reward
    return seen


def misses(shift: float, stated: float, seeds: range) -> int:
    """Runs in which some bound of some arm fails at some time."""
    count = 0
    for seed in seeds:
        bandit, log = moved_world(seed, shift)
        bad = False
        for since in rewards_since(bandit, log, [0, 20, 100], seed):
            lower, upper = shifted_bounds(bandit.actions, log, since, shift=stated, confidence=SURE)
            bad |= bool((bandit.means < lower).any() or (bandit.means > upper).any())
        count += bad
    return count


@pytest.mark.parametrize("shift", [0.0, 0.2, 0.6])
def test_bounds_hold_at_every_shift_up_to_the_stated_one(shift: float) -> None:
    """A run may fail with probability 0.2: P(binomial(25, 0.2) > 13) = 7.6e-5."""
    assert misses(shift, 0.6, range(25)) <= 13


def test_bounds_that_trust_a_shifted_log_fail() -> None:
    assert misses(0.6, 0.0, range(10)) >= 9


def test_without_a_shift_they_are_those_of_a_warm_started_agent() -> None:
    for radius in ("self_normalised", "hkz", "paper"):
        bandit, log = moved_world(3, 0.0)
        confidence = Confidence(noise=0.3, radius=radius)  # type: ignore[arg-type]
        agent = LinUCB(scale=1.0, confidence=confidence).start(bandit.actions, log)
        rng, sums, pulls = np.random.default_rng(0), np.zeros(K), np.zeros(K, int)
        for t in range(30):
            if t % 10 == 0:
                since = Offline(pulls=pulls.copy(), reward_sums=sums.copy())
                lower, upper = shifted_bounds(bandit.actions, log, since, shift=0.0, confidence=confidence)
                np.testing.assert_allclose(upper, agent.ucb, rtol=1e-9)
                np.testing.assert_allclose((lower + upper) / 2, bandit.actions @ agent.theta, rtol=1e-8)
            arm, reward = t % K, float(rng.standard_normal())
            agent.update(arm, reward)
            pulls[arm] += 1
            sums[arm] += reward


def test_they_are_hardly_wider_than_those_of_online_rewards_alone() -> None:
    """Both estimates share delta: a factor of sqrt(log(2/delta) / log(1/delta)), whatever the shift is."""
    factor = np.sqrt(np.log(2 / 0.2) / np.log(1 / 0.2))
    for seed in range(5):
        bandit, log = moved_world(seed, 0.5)
        for since in rewards_since(bandit, log, [0, 5, 50], seed):
            alone = shifted_bounds(bandit.actions, Offline.empty(K), since, shift=0.0, confidence=SURE)
            for stated in (1e-9, 0.5, 1e6):
                both = shifted_bounds(bandit.actions, log, since, shift=stated, confidence=SURE)
                assert (both[1] - both[0] <= factor * (alone[1] - alone[0]) + 1e-9).all()


def test_the_widening_is_exactly_what_the_worst_move_does() -> None:
    """The log of `moved_world` moves the estimate of its favourite by shift sqrt(m a'V^-1 G_0 V^-1 a)."""
    still, moved = (moved_world(1, shift)[1] for shift in (0.0, 0.3))
    bandit, nothing = moved_world(1, 0.0)[0], Offline.empty(K)

    def bounds(log: Offline, shift: float) -> Any:
        return np.array(shifted_bounds(bandit.actions, log, nothing, shift=shift, confidence=SURE))[:, 7]

    widening = (bounds(still, 0.03) - bounds(still, 0.01))[1] / 0.02
    change = (bounds(moved, 0.0) - bounds(still, 0.0)) / 0.3
    np.testing.assert_allclose(change, widening, rtol=1e-9)


def test_in_one_dimension_the_least_shift_is_the_gap_between_two_intervals() -> None:
    """A grid of shares may miss the best by a little, and only to the safe side."""
    log, since = Offline(pulls=[400], reward_sums=[240.0]), Offline(pulls=[300], reward_sums=[-30.0])
    half = np.log(2 / SURE.delta)
    ridge = SURE.ridge_for(1)
    V = np.array([ridge + 400, ridge + 300])
    radius = 0.3 * np.sqrt(2 * half + np.log(V / ridge)) + np.sqrt(ridge)
    gap = 240 / V[0] + 30 / V[1] - radius @ (1 / np.sqrt(V))
    exact = gap * np.sqrt(V[0] / 400)
    found = least_shift([[1.0]], log, since, confidence=SURE)
    assert 0.98 * exact <= found <= exact + 1e-12


@pytest.mark.parametrize("shift", [0.0, 0.8])
@pytest.mark.few(1)
def test_the_least_shift_is_rarely_above_the_truth(shift: float) -> None:
    """At any of many looks, in at most a share 0.2 of runs: P(binomial(25, 0.2) > 13) = 7.6e-5."""
    above = 0
    for seed in range(25):
        bandit, log = moved_world(seed, shift)
        looks = rewards_since(bandit, log, list(range(10, 101, 10)), seed)
        found = [least_shift(bandit.actions, log, since, confidence=SURE) for since in looks]
        above += max(found) > shift
    assert above <= 13


def test_a_large_shift_is_seen_and_a_separated_direction_is_enough() -> None:
    bandit, log = moved_world(0, 0.0)
    far = Offline(pulls=log.pulls, reward_sums=log.reward_sums + 3.0 * log.pulls)
    since = Offline(pulls=np.full(K, 40), reward_sums=40 * bandit.means)
    assert least_shift(bandit.actions, log, since, confidence=SURE) == 0.0
    found = least_shift(bandit.actions, far, since, confidence=SURE)
    assert 0.5 < found < 3.0
    assert least_shift(bandit.actions, far, Offline.empty(K)) == 0.0
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]
    assert least_shift(bandit.actions @ turn, far, since, confidence=SURE) == pytest.approx(found, rel=1e-6)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shift must be a number >= 0, got -0\.1"):
        shifted_bounds(np.eye(2), Offline.empty(2), Offline.empty(2), shift=-0.1)
    with pytest.raises(ValueError, match="offline"):
        least_shift(np.eye(2), Offline.empty(3), Offline.empty(2))


def bayes_factor(seed: int, arms: int = 200, rounds: int = 400) -> tuple[float, float]:
    """The largest log Bayes factor for "moved", and the least shift, where nothing has moved.

    Every arm earns 0 and was logged once, with noise 1; the arm with the best estimate is played. Beliefs
    about a mean begin at its logged reward, with variance 1 (not moved) or 2 (moved).
    """
    rng = np.random.default_rng(seed)
    logged = rng.standard_normal(arms)
    means, variances = np.array([logged, logged]), np.array([[1.0], [2.0]]) * np.ones((2, arms))
    evidence, largest, pulls, sums = 0.0, 0.0, np.zeros(arms, int), np.zeros(arms)
    for _ in range(rounds):
        arm, reward = int(means[0].argmax()), float(rng.standard_normal())
        spread = variances[:, arm] + 1.0
        fit = -0.5 * (np.log(spread) + (reward - means[:, arm]) ** 2 / spread)
        evidence += float(fit[1] - fit[0])
        largest = max(largest, evidence)
        gain = variances[:, arm] / spread
        means[:, arm] += gain * (reward - means[:, arm])
        variances[:, arm] *= 1.0 - gain
        pulls[arm] += 1
        sums[arm] += reward
    log, since = (Offline(pulls=n, reward_sums=s) for n, s in ((np.ones(arms, int), logged), (pulls, sums)))
    return largest, least_shift(np.eye(arms), log, since)


@pytest.mark.parametrize("runs", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_bayes_factor_takes_a_favourite_for_a_shift_and_the_least_shift_does_not(runs: int) -> None:
    """An arm that was chosen for its estimate earns less: at 5 %, half or more are false alarms."""
    found = [bayes_factor(seed) for seed in range(runs)]
    assert sum(largest >= np.log(20) for largest, _ in found) >= runs / 2
    assert all(shift == 0.0 for _, shift in found)


def test_an_interval_of_now_has_its_estimate_inside_also_where_the_log_moved_further_than_was_said() -> None:
    """Then it is that of the rewards since."""
    log = Offline(pulls=np.array([400, 0]), reward_sums=np.array([400.0, 0.0]))
    agent = LinUCB(confidence=replace(SURE, shift=0.01)).start(np.eye(2), log)
    arms = np.arange(2)
    for _ in range(200):
        agent.update(0, 0.0)
        mean, lower, upper = agent.estimates(arms)
        assert ((lower <= mean) & (mean <= upper)).all()
    assert agent.lcb[0] > agent.ucb[0], "the two contradict each other"
    assert upper[0] < 0.5 < agent.lcb[0]
