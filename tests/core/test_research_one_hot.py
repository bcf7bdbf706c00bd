"""UCB1, HUCB1, KL-UCB, UCB-V, MIN-UCB and OtO follow their formulas, and keep what their theorems say."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Budget, Confidence, Doubling, Gated, LinUCB, Offline, Tolerance
from linoto.core import kernels
from linoto.core.one_hot import one_hot
from linoto.research import HUCB1, KLUCB, UCB1, UCBV, MinUCB, OtO

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
K = 5
MEANS = np.array([0.5, 0.6, 0.4, 0.7, 0.3])
LOG = Offline(pulls=[40, 12, 5, 0, 9], reward_sums=[19.0, 8.0, 2.0, 0.0, 2.0])
POLICIES: dict[str, Any] = {
    "UCB1": UCB1(),
    "HUCB1": HUCB1(confidence=CLICKS),
    "KLUCB": KLUCB(confidence=CLICKS),
    "UCBV": UCBV(confidence=CLICKS),
    "MinUCB": MinUCB(shift=0.1),
    "MinUCB-without-log": MinUCB(shift=None),
    "OtO": OtO(horizon=500),
    "OtO-doubling": Doubling(policy=OtO()),
    "HUCB1-gated": Gated(explorer=HUCB1(), gate=Tolerance(budget=20.0)),
}


@pytest.mark.parametrize(
    "policy", [*POLICIES.values(), LinUCB(scale=1.0, confidence=OtO().composed().confidence)]
)
def test_arms_that_share_features_are_refused_in_one_sentence(policy: Any) -> None:
    shared = np.array([[1.0, 0.0], [0.6, 0.8]])
    with pytest.raises(ValueError, match=r"^actions must be one-hot for .*, got arms that share features$"):
        policy.start(shared, Offline.empty(2))


# -- an oracle in plain NumPy, from the formulas of the papers


def scores(policy: Any, rounds: int, plays: Any, sums: Any, log_: Offline, noise: float) -> Any:
    """The index of every arm before round `rounds` + 1."""
    h, y = log_.pulls.astype(float), log_.reward_sums
    with np.errstate(divide="ignore", invalid="ignore"):
        if isinstance(policy, UCB1):
            found = sums / plays + 2 * noise * np.sqrt(2 * log(max(rounds, 1)) / plays)
            return np.where(plays > 0, found, np.inf)
        if isinstance(policy, HUCB1):
            n = plays + h
            found = (sums + y) / n + 2 * noise * np.sqrt(2 * np.log(np.maximum(rounds, 1) + h) / n)
            return np.where(n > 0, found, np.inf)
        if isinstance(policy, KLUCB):
            n = plays + h
            chances = [
                largest_chance(mean, level) if level < np.inf else np.inf
                for mean, level in zip((sums + y) / n, np.log(np.maximum(rounds, 1) + h) / n, strict=True)
            ]
            return np.where(n > 0, chances, np.inf)
        if isinstance(policy, UCBV):
            n, mean = plays + h, (sums + y) / (plays + h)
            level = 1.2 * np.log(np.maximum(rounds, 1) + h) / n
            return np.where(n > 0, mean + np.sqrt(2 * mean * (1 - mean) * level) + 3 * level, np.inf)
        t = rounds + 1
        level = 2 * noise**2 * log(2 * t / (1 / (2 * len(h) * t**2)))
        online = np.where(plays > 0, sums / plays + np.sqrt(level / plays), np.inf)
        if policy.shift is None:
            return online
        n = plays + h
        pooled = (sums + y) / n + np.sqrt(level / n) + h / n * policy.shift
        return np.minimum(online, np.where(h > 0, pooled, np.inf))


def largest_chance(mean: float, level: float) -> float:
    """The largest q with kl(mean, q) <= level, by halving."""
    low, high = mean, 1.0
    for _ in range(100):
        q = (low + high) / 2
        parts = [p * log(p / r) for p, r in ((mean, q), (1 - mean, 1 - q)) if p > 0 and r > 0]
        low, high = (q, high) if q < 1 and sum(parts) <= level else (low, q)
    return low


@pytest.mark.parametrize(
    "policy",
    [UCB1(), HUCB1(), KLUCB(), UCBV(), MinUCB(shift=0.1), MinUCB(shift=0.0), MinUCB(shift=None)],
    ids=str,
)
@pytest.mark.parametrize("confidence", [CLICKS, Confidence(noise=0.7)], ids=["clicks", "noise"])
def test_they_play_by_the_formulas_of_their_papers(policy: Any, confidence: Confidence) -> None:
    agent_of = replace(policy, confidence=confidence)
    if isinstance(policy, KLUCB | UCBV) and confidence is not CLICKS:
        with pytest.raises(
            ValueError, match=r"^noise must be 'bounded', with a reward_range, for (KLUCB|UCBV), got"
        ):
            agent_of.start(one_hot(K), LOG)
        return
    agent = agent_of.start(one_hot(K), LOG)
    draws = np.random.default_rng(1).random(400)
    plays, sums = np.zeros(K), np.zeros(K)
    for t, draw in enumerate(draws):
        arm = agent.select()
        wanted = scores(policy, t, plays, sums, LOG, confidence.scale)
        assert wanted[arm] == pytest.approx(wanted.max(), rel=1e-12)
        reward = float(draw < MEANS[arm])
        agent.update(arm, reward)
        plays[arm] += 1
        sums[arm] += reward


def test_hucb1_behind_a_gate_scores_every_arm_exactly() -> None:
    """Behind a gate the best *affordable* arm is played, so no score may be only a bound."""
    gated = Gated(explorer=HUCB1(), gate=Tolerance(budget=1.0, evidence="rewards"), confidence=CLICKS)
    agent = gated.start(one_hot(K), LOG)
    agent.decide()
    exact = scores(HUCB1(), 0, np.zeros(K), np.zeros(K), LOG, 0.5)
    np.testing.assert_allclose(agent.running.state.arms[kernels.SCORE], exact, rtol=1e-12)


def test_a_snapshot_of_each_has_the_same_future() -> None:
    draws = np.random.default_rng(9).random(100)
    for policy in (kind(confidence=CLICKS) for kind in (UCB1, HUCB1, KLUCB, UCBV, MinUCB)):
        agent = policy.start(one_hot(K), LOG)
        agent.play(MEANS, draws[:40], bernoulli=True)
        again = linoto.restore(agent.snapshot())
        futures = [one.play(MEANS, draws[40:], bernoulli=True)[0] for one in (agent, again)]
        assert np.array_equal(*futures) and agent.snapshot() == again.snapshot()


@pytest.mark.parametrize("rewards", [0.0, 1.0, 3.0, 500.0, 999.0, 1000.0])
def test_kl_ucb_is_never_above_the_bound_of_ucb1_and_far_below_it_for_rare_clicks(rewards: float) -> None:
    """Pinsker's inequality: kl(p, q) >= 2 (p - q)^2, and sigma of [0, 1] is 1/2."""
    log_ = Offline(pulls=[1000], reward_sums=[rewards])
    found = []
    for unit, low in ((1.0, 0.0), (8.0, -3.0)):  # other units change nothing
        sure = Confidence(noise="bounded", reward_range=(low, low + unit), bound=20.0)
        moved = Offline(pulls=[1000], reward_sums=[1000 * low + unit * rewards])
        agent = KLUCB(confidence=sure).start(one_hot(1), moved)
        agent.decide()
        found.append((float(agent.running.state.arms[kernels.SCORE, 0]) - low) / unit)
    mean, level = rewards / 1000, log(1001) / 1000
    assert found[0] == pytest.approx(found[1])
    assert found[0] == pytest.approx(largest_chance(mean, level), rel=1e-9)
    assert mean <= found[0] <= mean + sqrt(level / 2) + 1e-12
    if rewards == 3.0:
        assert found[0] - mean < 0.3 * (mean + sqrt(2 * log(1001) / 1000) - mean)
    assert log_.total == 1000


@pytest.mark.parametrize("rewards", [0.0, 1.0, 3.0, 500.0, 999.0, 1000.0])
def test_ucb_v_is_above_kl_ucb_and_below_ucb1_for_rare_clicks(rewards: float) -> None:
    """kl(p, p + x) >= x^2 / (2 p (1 - p) + 2 x / 3), Bernstein's form: UCB-V allows for at least as much.

    Other units change nothing.
    """
    found = []
    for unit, low in ((1.0, 0.0), (8.0, -3.0)):
        sure = Confidence(noise="bounded", reward_range=(low, low + unit), bound=20.0)
        moved = Offline(pulls=[1000], reward_sums=[1000 * low + unit * rewards])
        agent = UCBV(confidence=sure).start(one_hot(1), moved)
        agent.decide()
        found.append((float(agent.running.state.arms[kernels.SCORE, 0]) - low) / unit)
    mean, level = rewards / 1000, log(1001) / 1000
    assert found[0] == pytest.approx(found[1])
    assert found[0] >= largest_chance(mean, level)
    if rewards <= 3.0:
        assert found[0] < mean + sqrt(2 * level)


def test_without_a_log_hucb1_is_ucb1() -> None:
    draws, empty = np.random.default_rng(2).random(500), Offline.empty(K)
    runs = [
        policy.start(one_hot(K), empty).play(MEANS, draws, bernoulli=True)[0]
        for policy in (UCB1(confidence=CLICKS), HUCB1(confidence=CLICKS))
    ]
    assert np.array_equal(*runs)


def test_a_well_logged_arm_is_not_explored_again() -> None:
    """HUCB1 pulls an arm with gap D and h >= 8 ln(n + h) / D^2 logged rewards O(1) times; UCB1 does not know.

    More than 30 of 2000 pulls of a bad arm have a probability below 1e-6 in a run.
    """
    log_ = Offline(pulls=[5000, 5000, 5000], reward_sums=[3500.0, 1500.0, 1500.0])
    means, draws = np.array([0.7, 0.3, 0.3]), np.random.default_rng(3).random(2000)
    bad = []
    for policy in (HUCB1(confidence=CLICKS), UCB1(confidence=CLICKS)):
        arms, _ = policy.start(one_hot(3), log_).play(means, draws, bernoulli=True)
        bad.append(int((arms != 0).sum()))
    assert bad[0] <= 30 < bad[1]
    assert 8 * log(2000 + 5000) / 0.4**2 <= 5000


def test_min_ucb_is_optimistic_while_the_shift_is_within_its_bound() -> None:
    """The score of the best arm is above its mean but for a round in 1 / (2 k t^2): here never, in 50 runs.

    The log is wrong by 0.2 in every arm; with shift=0.2 that is allowed for, with shift=0 it is not.
    """
    rng = np.random.default_rng(4)
    misses = {0.0: 0, 0.2: 0}
    for shift in misses:
        for _ in range(50):
            wrong = MEANS - 0.2
            log_ = Offline(pulls=[3000] * K, reward_sums=rng.binomial(3000, wrong).astype(float))
            agent = MinUCB(shift=shift, confidence=CLICKS).start(one_hot(K), log_)
            for draw in rng.random(20):
                arm = agent.select()
                misses[shift] += bool(agent.running.state.arms[kernels.SCORE, 3] < MEANS[3])
                agent.update(arm, float(draw < MEANS[arm]))
    assert misses[0.2] == 0
    assert misses[0.0] > 0


def test_the_regret_of_ucb1_is_below_its_theorem() -> None:
    """Auer et al., Theorem 1: the sum of 8 ln n / gap + (1 + pi^2 / 3) gap, on average; and not far below.

    The mean of 20 runs has a standard error of 5, and is 15 of them away from either limit.
    """
    gaps, n = MEANS.max() - MEANS, 3000
    bound = (8 * log(n) / gaps[gaps > 0]).sum() + (1 + np.pi**2 / 3) * gaps.sum()
    rng, regrets = np.random.default_rng(5), []
    for _ in range(20):
        arms, _ = UCB1(confidence=CLICKS).start(one_hot(K), LOG).play(MEANS, rng.random(n), bernoulli=True)
        regrets.append(gaps[arms].sum())
    assert bound / 20 < np.mean(regrets) < bound


# -- OtO


@pytest.mark.parametrize("floor", [None, -1.0])
def test_oto_gives_every_round_to_come_its_credit_in_advance(floor: float | None) -> None:
    """B_T(t) from plain NumPy: explored plays and the next at their lower bounds, safe ones at no less.

    Where the least mean reward is known, no lower bound is below it: arms that were never logged are tried.
    """
    alpha, horizon, delta, ridge = 0.02, 300, 0.05, 1e-9
    log_ = LOG if floor is not None else LOG + Offline(pulls=[0, 0, 0, 4, 0], reward_sums=[0, 0, 0, 2.0, 0])
    limits = None if floor is None else (floor, 1.0)
    confidence = Confidence(noise=0.5, ridge=ridge, reward_range=limits)
    agent = OtO(alpha=alpha, horizon=horizon, confidence=confidence).start(one_hot(K), log_)
    radius = 0.5 * sqrt(2 * log(2 * K * (horizon + 1) / delta)) + sqrt(ridge)
    n, total = log_.pulls + ridge, log_.reward_sums.copy()
    lcb = np.maximum(total / n - radius / np.sqrt(n), -np.inf if floor is None else floor)
    start, S = lcb.max(), radius / sqrt(log_.total)
    plays, rng, modes = np.zeros(K), np.random.default_rng(6), set()
    for t in range(1, horizon + 1):
        decision = agent.decide()
        proposal = int((total / n + radius / np.sqrt(n)).argmax())
        credit = alpha * S * t + (horizon - t) * alpha * S
        room = plays @ (lcb - start) + lcb[proposal] - start + credit
        assert (decision.proposal, decision.fallback) == (proposal, int(lcb.argmax()))
        assert decision.budget == pytest.approx(room, rel=1e-7, abs=1e-6)
        assert (decision.mode == "explore") == (room > 0)
        modes.add(decision.mode)
        reward = MEANS[decision.arm] + 0.5 * rng.standard_normal()
        agent.update(decision, reward)
        plays[decision.arm] += 1
        n[decision.arm] += 1
        total[decision.arm] += reward
        lcb = np.maximum(lcb, total / n - radius / np.sqrt(n))
    assert modes == {"explore", "safe"}


def test_oto_keeps_its_promise_in_every_round() -> None:
    """Its shortfall below the log's mean is within the certificate in each of 40 runs; delta allows for 2."""
    rng, violations = np.random.default_rng(7), 0
    for _ in range(40):
        pulls = np.array([200, 100, 0, 0, 50])
        log_ = Offline(pulls=pulls, reward_sums=rng.binomial(pulls, MEANS).astype(float))
        policy = OtO(alpha=0.5, horizon=1000, confidence=CLICKS)
        promise = policy.certificate(one_hot(K), log_)
        assert promise.holds and "no more than 1,000 rounds are played" in promise.assumes
        assert "no mean reward is above 1 or below -1" in promise.assumes
        arms, explored = policy.start(one_hot(K), log_).play(MEANS, rng.random(1000), bernoulli=True)
        reference = MEANS @ log_.pulls / log_.total
        shortfall = np.cumsum(reference - MEANS[arms])
        allowed = np.array([promise.loss(t) for t in range(1, 1001)])
        violations += bool((shortfall > allowed).any())
        assert explored.any()
    assert violations <= 2


@pytest.mark.few(0)
def test_every_arm_of_the_radius_arms_is_inside_its_bounds() -> None:
    """For all counts up to the horizon at once, in 60 runs of 200 rounds at delta = 0.2: at most 12 misses.

    A radius that forgets the number of counts, sqrt(2 log(2 k / delta)), misses in more.
    """
    rng, misses, small = np.random.default_rng(8), 0, 0
    for _ in range(60):
        log_ = Offline.empty(K)
        confidence = Confidence(radius="arms", horizon=200, delta=0.2, bound=1.0)
        agent = LinUCB(scale=1.0, confidence=confidence).start(one_hot(K), log_)
        missed = too_small = False
        share = sqrt(log(2 * K / 0.2) / log(2 * K * 201 / 0.2))
        for _ in range(200):
            arm = agent.select()
            agent.update(arm, MEANS[arm] + rng.standard_normal())
            middle = agent.running.state.arms[kernels.MEAN]
            missed |= bool(((agent.lcb > MEANS) | (agent.ucb < MEANS)).any())
            off = np.abs(middle - MEANS) > share * (agent.ucb - middle)
            too_small |= bool(off.any())
        misses, small = misses + missed, small + too_small
    assert misses <= 12 and small > misses


def test_gates_that_bound_sums_of_arms_refuse_bounds_of_single_arms() -> None:
    arms = Confidence(radius="arms", horizon=100)
    for gate in (Budget(form="aggregate"), Budget(form="max"), Tolerance(budget=10.0)):
        with pytest.raises(ValueError, match="radius must be another than 'arms'"):
            Gated(gate=gate, confidence=arms).start(one_hot(K), LOG)
    by_rewards = Tolerance(budget=10.0, evidence="rewards")
    inside = Confidence(radius="arms", horizon=100, noise="bounded", reward_range=(0, 1))
    assert Gated(gate=by_rewards, confidence=inside).certificate(one_hot(K), LOG).holds
    for bad in ({"radius": "arms"}, {"horizon": 10}):
        with pytest.raises(ValueError, match="horizon must be given for radius 'arms' and for no other"):
            Confidence(**bad)  # type: ignore[arg-type]


def test_doubling_gives_every_epoch_its_own_horizon() -> None:
    doubling = Doubling(policy=OtO(alpha=0.3))
    assert [doubling.in_epoch(epoch).horizon for epoch in range(4)] == [1, 2, 4, 8]  # type: ignore[attr-defined]
    agent = doubling.start(one_hot(K), LOG)
    agent.play(MEANS, np.zeros(20))
    assert agent.inner.gate.horizon == 16


def test_what_names_explorers_knows_these() -> None:
    for explorer in (UCB1, HUCB1, KLUCB, UCBV, MinUCB):
        assert linoto.from_dict({"type": explorer.__name__}) == explorer()
        assert Gated(explorer=explorer(), confidence=CLICKS).start(one_hot(K), LOG).select() in range(K)
