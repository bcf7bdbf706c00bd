"""LogisticTS against a Laplace approximation in plain NumPy: warm starts, rewards, draws, and what lasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Control, Gated, LogisticTS, Moments, Offline, Tolerance
from linoto.core import kernels
from linoto.core.one_hot import recognising

CLICKS = Confidence(noise="bounded", reward_range=(0, 1))
SPREAD, K, D = 1.5, 6, 3
LOG = Offline(pulls=[50, 0, 400, 3, 2000, 10], reward_sums=[3.0, 0.0, 40.0, 0.0, 9.0, 5.0])
ARMS = np.random.default_rng(0).normal(size=(K, D))
TS = LogisticTS(spread=SPREAD)


def chance(odds: Any) -> Any:
    return 1 / (1 + np.exp(-odds))


def log_odds(rate: float) -> float:
    return float(np.log(rate / (1 - rate)))


def mode_of(rows: Any, rounds: Any, clicks: Any, odds: float, prior: tuple[Any, Any]) -> tuple[Any, Any]:
    """The mode of the posterior after these rows, and minus its second derivatives there; prior (mode, W)."""
    start, W = prior

    def value(theta: Any) -> float:
        eta, away = odds + rows @ theta, theta - start
        return float(clicks @ eta - rounds @ np.logaddexp(0, eta) - away @ W @ away / 2)

    theta = np.array(start)
    for _ in range(100):
        q = chance(odds + rows @ theta)
        slope = rows.T @ (clicks - rounds * q) - W @ (theta - start)
        curve = W + rows.T @ ((rounds * q * (1 - q))[:, None] * rows)
        step = np.linalg.solve(curve, slope)
        while value(theta + step) < value(theta) - 1e-12:
            step = step / 2
        theta = theta + step
    q = chance(odds + rows @ theta)
    return theta, W + rows.T @ ((rounds * q * (1 - q))[:, None] * rows)


def known(agent: Any) -> tuple[Any, Any]:
    """The mode and W of an agent."""
    state = agent.running.state
    factor = np.diag(state.square[-1, 0]) if state.run[0]["one_hot"] else state.square[-1]
    return np.array(state.vectors[-1]), factor.T @ factor


def same(found: tuple[Any, Any], wanted: tuple[Any, Any], rtol: float = 1e-8) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("arms", [ARMS, 0.7 * np.eye(K)], ids=["features", "one-hot"])
@pytest.mark.parametrize("rate", [None, 0.2])
def test_a_warm_start_is_the_mode_of_the_logs_clicks(arms: Any, rate: float | None) -> None:
    agent = LogisticTS(spread=SPREAD, rate=rate).start(arms, LOG)
    odds = log_odds(rate or (LOG.reward_sums.sum() + 0.5) / (LOG.total + 1))
    prior = np.zeros(arms.shape[1]), np.eye(arms.shape[1]) / SPREAD**2
    same(known(agent), mode_of(arms, LOG.pulls, LOG.reward_sums, odds, prior))


def test_a_log_of_nothing_but_clicks_or_misses_has_a_mode_too() -> None:
    for sums in ([1000.0, 0.0], [0.0, 0.0], [1000.0, 1000.0]):
        agent = TS.start(np.array([[1.0, 0.2], [0.9, 0.3]]), Offline(pulls=[1000, 1000], reward_sums=sums))
        assert all(np.isfinite(part).all() for part in known(agent))


@pytest.mark.parametrize("arms", [ARMS, np.eye(K)], ids=["features", "one-hot"])
@pytest.mark.few(1)
def test_every_reward_moves_the_mode_as_that_of_one_more_row_and_arms_follow_the_draw(arms: Any) -> None:
    d = arms.shape[1]
    agent, rng, draws = TS.start(arms, LOG, rng=5), np.random.default_rng(1), np.random.default_rng(5)
    odds = log_odds((LOG.reward_sums.sum() + 0.5) / (LOG.total + 1))
    now = mode_of(arms, LOG.pulls, LOG.reward_sums, odds, (np.zeros(d), np.eye(d) / SPREAD**2))
    normals = draws.standard_normal(d)
    for _ in range(60):
        root = np.linalg.cholesky(now[1])
        scores = arms @ (now[0] + np.linalg.solve(root.T, normals))
        decision = agent.decide()
        assert scores[decision.arm] == pytest.approx(scores.max(), rel=1e-6)
        reward = float(rng.random() < 0.3)
        agent.update(decision, reward)
        normals = draws.standard_normal(d)
        now = mode_of(arms[[decision.arm]], np.ones(1), np.array([reward]), odds, now)
        same(known(agent), now, 1e-7)


def test_with_contexts_a_warm_start_is_one_step_from_the_rate_of_the_log() -> None:
    """Rewards are then learnt as with fixed arms: each by the mode of one more row."""
    rng = np.random.default_rng(2)
    rows, rewards = rng.normal(size=(800, D)), (rng.random(800) < 0.05).astype(float)
    agent = TS.start(Moments.from_rows(rows, rewards), rng=5)
    rate = (rewards.sum() + 0.5) / 801
    slope = rate * (1 - rate)
    W = np.eye(D) / SPREAD**2 + slope * rows.T @ rows
    now, odds = (np.linalg.solve(W, rows.T @ rewards), W), log_odds(rate) - 1 / (1 - rate)
    same(known(agent), now)
    for _ in range(60):
        arms, normals = rng.normal(size=(4, D)), agent.running.state.vectors[kernels.NORMALS].copy()
        scores = arms @ (now[0] + np.linalg.solve(np.linalg.cholesky(now[1]).T, normals))
        decision = agent.decide(actions=arms)
        assert scores[decision.arm] == pytest.approx(scores.max(), rel=1e-6)
        reward = float(rng.random() < 0.3)
        agent.update(decision, reward)
        now = mode_of(arms[[decision.arm]], np.ones(1), np.array([reward]), odds, now)
        same(known(agent), now, 1e-7)


def test_the_step_from_the_rate_is_exact_where_all_actions_are_clicked_alike() -> None:
    """With a constant feature, the mode of a large log has the log-odds of its rate, as fixed arms have."""
    rows, rewards = np.ones((4000, 1)), (np.arange(4000) % 250 == 0).astype(float)
    agent = LogisticTS(spread=100.0).start(Moments.from_rows(rows, rewards))
    found = agent.running.params[0]["odds"] + known(agent)[0][0]
    assert found == pytest.approx(log_odds(0.004), abs=1e-2)


def test_one_hot_arms_are_as_the_same_arms_with_their_zeros() -> None:
    log = Offline(pulls=[100, 0, 30], reward_sums=[7.0, 0.0, 1.0])
    agents = [TS.start(np.eye(3), log, rng=0)]
    with recognising(False):
        agents.append(TS.start(np.eye(3), log, rng=0))
    rng = np.random.default_rng(0)
    for _ in range(80):
        arms = [agent.select() for agent in agents]
        assert arms[0] == arms[1]
        reward = float(rng.random() < 0.1)
        for agent in agents:
            agent.update(arms[0], reward)
    same(known(agents[0]), known(agents[1]), 1e-9)


def test_features_of_each_arms_own_are_the_same_bits_as_one_block() -> None:
    """A feature of all arms that is almost never there makes one block of V: nothing else changes."""
    rng = np.random.default_rng(8)
    rows = np.zeros((60, 9))
    for row in rows:
        row[3 * rng.integers(3) + np.arange(3)] = rng.normal(size=3)
    log = Moments.from_rows(rows, (rng.random(60) < 0.2).astype(float))
    split, whole = (TS.start(log, rng=3) for _ in range(2))
    whole.running.state.run["split"] = 0
    assert split.running.state.run["split"][0] == 1
    for _ in range(40):
        arms = np.kron(np.eye(3), rng.normal(size=3))
        first, second = (agent.decide(actions=arms) for agent in (split, whole))
        assert first == second
        reward = float(rng.random() < 0.2)
        split.update(first, reward)
        whole.update(second, reward)
    assert split.snapshot() == whole.snapshot()


def test_other_units_of_a_reward_change_nothing() -> None:
    draws, means = np.random.default_rng(3).random(300), np.linspace(0.02, 0.2, K)
    runs = []
    for low, unit in ((0.0, 1.0), (-3.0, 8.0)):
        sure = Confidence(noise="bounded", reward_range=(low, low + unit), bound=20.0)
        log = Offline(pulls=LOG.pulls, reward_sums=low * LOG.pulls + unit * LOG.reward_sums)
        agent = LogisticTS(confidence=sure).start(ARMS, log, rng=1)
        arms = []
        for draw in draws:
            arms.append(agent.select())
            agent.update(arms[-1], low + unit * float(draw < means[arms[-1]]))
        runs.append(arms)
    assert runs[0] == runs[1]


def test_without_a_spread_of_draws_the_mode_is_played() -> None:
    agent = LogisticTS(scale=0.0).start(ARMS, LOG)
    assert agent.select() == int((ARMS @ known(agent)[0]).argmax())


def test_a_lost_reward_leaves_the_mode_as_it_was() -> None:
    for agent, brought in ((TS.start(ARMS, LOG), {}), (TS.start(d=D), {"actions": ARMS})):
        decision = agent.decide(**brought)
        agent.commit(decision)
        before = known(agent)
        agent.lose(decision, 0.5)
        same(known(agent), before, 0.0)


@pytest.mark.parametrize("gate", [None, Tolerance(budget=20.0), Control(budget=20.0)], ids=str)
@pytest.mark.parametrize("arms", [ARMS / 4, np.eye(K)], ids=["features", "one-hot"])
def test_a_snapshot_has_the_same_future_and_the_loop_plays_the_same(gate: Any, arms: Any) -> None:
    policy = TS if gate is None else Gated(explorer=TS, gate=gate, confidence=CLICKS)
    draws, means = np.random.default_rng(4).random(80), np.linspace(0.1, 0.6, K)
    whole = policy.start(arms, LOG, rng=2)
    played, _ = whole.play(means, draws, bernoulli=True)
    agent = policy.start(arms, LOG, rng=2)
    for t, draw in enumerate(draws):
        if t == 40:
            agent = linoto.restore(agent.snapshot())
        decision = agent.decide()
        assert decision.arm == played[t]
        agent.update(decision, float(draw < means[decision.arm]))
    assert agent.snapshot() == whole.snapshot()


def test_in_rounds_a_snapshot_has_the_same_future() -> None:
    rng = np.random.default_rng(6)
    log = Moments.from_rows(rng.normal(size=(200, D)) / 4, (rng.random(200) < 0.1).astype(float))
    policy = Gated(explorer=TS, gate=Control(budget=20.0), confidence=CLICKS)
    agent = policy.start(log, rng=2)
    again = linoto.restore(agent.snapshot())
    for _ in range(30):
        arms, reward = rng.normal(size=(4, D)) / 4, float(rng.random() < 0.2)
        first, second = (each.decide(actions=arms, practice=0) for each in (agent, again))
        assert first == second
        agent.update(first, reward)
        again.update(second, reward)
        again = linoto.restore(again.snapshot())
    assert agent.snapshot() == again.snapshot()


def test_a_new_arm_has_the_odds_that_were_expected_of_all() -> None:
    agent = TS.start(np.eye(3), Offline(pulls=[900, 50, 50], reward_sums=[9.0, 1.0, 0.0]), rng=0)
    before = known(agent)
    agent.add_arms(np.eye(4)[[3]])
    mode, W = known(agent)
    same((mode[:3], W[:3, :3]), before, 0.0)
    assert mode[3] == 0.0 and W[3, 3] == pytest.approx(SPREAD**-2)
    assert agent.select() in range(4)
    assert linoto.restore(agent.snapshot()).snapshot() == agent.snapshot()


def test_a_propensity_is_the_share_of_draws() -> None:
    """Of 4,000 redraws; each share has a standard error below 0.008, and 5 of them are allowed for."""
    log = Offline(pulls=[300, 300], reward_sums=[6.0, 9.0])
    agent, drawn = TS.start(np.eye(2), log, rng=0), np.zeros(2)
    decision = agent.decide()
    mode, W = known(agent)
    scores = mode + np.random.default_rng(1).standard_normal((100_000, 2)) / np.sqrt(np.diag(W))
    drawn = np.bincount(scores.argmax(axis=1), minlength=2) / 100_000
    found = agent.propensity(decision.arm, redraws=4000)
    assert found == pytest.approx(drawn[decision.arm], abs=0.04)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: LogisticTS(spread=0.0), "spread must be a positive number, got 0.0"),
        (lambda: LogisticTS(rate=1.0), "rate must be between 0 and 1, or None, got 1.0"),
        (
            lambda: LogisticTS(confidence=Confidence(noise=0.5)).start(ARMS, LOG),
            "noise must be 'bounded', with a reward_range, for LogisticTS, got 0.5",
        ),
        (
            lambda: Gated(explorer=LogisticTS()).start(d=3),
            "noise must be 'bounded', with a reward_range, for LogisticTS, got 1.0",
        ),
        (
            lambda: LogisticTS(confidence=Confidence(noise="bounded", reward_range=(-1, 1))).start(
                Moments.from_rows(np.eye(3), [0.0, 1.0, 0.0])
            ),
            "reward_range must begin at 0 for LogisticTS with contexts and a log, got -1",
        ),
    ],
)
def test_what_has_no_odds_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.slow
def test_on_rare_clicks_it_is_not_far_from_thompson_sampling_of_means() -> None:
    """Clicks of about 0.4 %, 20 one-hot arms of which 5 are logged: at most 1.5 times the regret of LinTS.

    Paired over 20 worlds, by four standard errors; a wrong warm start, or draws far too wide, cost more.
    """
    gaps = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        means, pulls = chance(-5.5 + 0.6 * rng.standard_normal(20)), np.zeros(20, int)
        pulls[rng.choice(20, 5, replace=False)] = 2000
        log = Offline(pulls=pulls, reward_sums=rng.binomial(pulls, means).astype(float))
        draws, regrets = rng.random(20_000), []
        for policy in (LogisticTS(), linoto.LinTS(scale=1.0, confidence=CLICKS)):
            arms, _ = policy.start(np.eye(20), log, rng=seed).play(means, draws, bernoulli=True)
            regrets.append(float((means.max() - means[arms]).sum()))
        gaps.append(regrets[0] - 1.5 * regrets[1])
    assert np.mean(gaps) < 4 * np.std(gaps) / np.sqrt(20)
