"""No verdict is to deploy on a guess about tails; heavy ones are seen, and caps cost what is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from helpers.audit_logs import ACTIONS, K, log_of, table_of

from linoto.audit.audit import Audit, audit_log
from linoto.audit.tails import find_tails, hill, loss_survived
from linoto.core.arrays import Floats
from linoto.core.offline import Offline
from linoto.logs.read import read_log


def log_with(rewards: Floats, rng: np.random.Generator) -> Any:
    arms = rng.integers(0, K, rewards.size)
    frame = pd.DataFrame({"arm": [f"arm {arm}" for arm in arms], "reward": rewards})
    return read_log(frame, item="arm", reward="reward", arms=table_of(ACTIONS))


def priced(seed: int = 0, rows: int = 5000) -> Any:
    rng = np.random.default_rng([50, seed])
    return log_with(rng.lognormal(2.0, 1.3, rows), rng)


def test_the_ends_of_a_log_are_its_farthest_hundredth() -> None:
    rng = np.random.default_rng(1)
    rewards = rng.standard_normal(3000)
    log = log_with(rewards, rng)
    assert log.ends.smallest.tolist() == sorted(rewards)[:31]
    assert log.ends.largest.tolist() == sorted(rewards)[::-1][:31]
    assert log_with((rewards > 0).astype(float), rng).ends is None  # 0 and 1 have no tails


def test_a_heavy_tail_is_seen_with_what_it_weighs_and_what_a_cap_costs() -> None:
    log = priced()
    rewards_of_top = log.ends.largest
    tails = find_tails(log)
    assert tails is not None and tails.heavy and tails.side == "high"
    assert tails.top_share == pytest.approx(rewards_of_top[:50].sum() / log.offline.reward_sums.sum())
    small, large = tails.caps
    assert small.limit == rewards_of_top[5] and small.rows == 5
    cost = (rewards_of_top[:5] - small.limit).sum() / 5000
    assert small.mean == pytest.approx(log.offline.reference - cost)
    assert large.limit < small.limit and large.mean < small.mean
    text = dict(audit_log(log).facts())
    assert text["tails"].startswith("heavy") and "changes 50 rows" in text["possible cap"]


def test_gaussian_rewards_have_no_heavy_tails() -> None:
    """Level 0.01: a binomial(100, 0.01) exceeds 7 with probability 1e-5."""
    found = 0
    for seed in range(100):
        rng = np.random.default_rng([51, seed])
        rewards, arms = rng.standard_normal(1000), rng.integers(0, K, 1000)
        halves = [rewards[:500], rewards[500:]]
        early, late = (
            Offline.from_rows(a, r, k=K) for a, r in zip((arms[:500], arms[500:]), halves, strict=True)
        )
        tails = find_tails(log_of(early, late, extent=(float(rewards.min()), float(rewards.max()))))
        found += tails is not None and tails.heavy
    assert found <= 7


@pytest.mark.parametrize("sign", [1, -1])
def test_no_cap_is_proposed_that_changes_no_row(sign: int) -> None:
    """The farthest reward is that of many rows, as where a cap was set before."""
    rng = np.random.default_rng(4)
    rewards = np.minimum(np.exp(rng.standard_normal(6000)), 4.0)
    rewards[:20] = 100.0
    tails = find_tails(log_with(sign * rewards, rng))
    assert tails is not None and tails.heavy
    assert [cap.limit for cap in tails.caps] == [sign * 4.0] and tails.caps[0].rows == 20


def test_losses_that_a_cap_stops_are_at_the_low_end() -> None:
    rng = np.random.default_rng(2)
    rewards = rng.standard_normal(4000)
    rewards[7] = -300.0
    tails = find_tails(log_with(rewards, rng))
    assert tails is not None and tails.heavy and tails.side == "low" and tails.top_share is None
    cap = tails.caps[0]
    assert -10 < cap.limit < 0 and cap.mean > rewards.mean()


def test_hills_index_is_that_of_a_pareto_law() -> None:
    """Its standard error is index / sqrt(1000)."""
    ends = np.sort(np.random.default_rng(3).pareto(1.5, 100_000) + 1)[::-1][:1000]
    assert hill(ends) == pytest.approx(1.5, rel=0.15)
    assert hill(-ends) is None


def test_the_loss_survived_is_where_sub_gaussian_noise_has_three_rows_left() -> None:
    assert 1000 * np.exp(-(loss_survived(0.7, 1000) ** 2) / (2 * 0.7**2)) == pytest.approx(3.0)
    assert loss_survived(1.0, 2) == 0.0


CATASTROPHES = {"catastrophe": -300.0, "jackpot": 300.0}


def rare(seed: int, size: float) -> Audit:
    """Rewards of noise 0.3, and once in 20,000 rows something that no log of 2000 rows shows."""
    rng = np.random.default_rng([52, seed])
    rewards = 0.5 + 0.3 * rng.standard_normal(2000) + size * (rng.random(2000) < 1 / 20_000)
    return audit_log(log_with(rewards, rng))


@pytest.mark.parametrize("world", CATASTROPHES)
def test_nothing_is_deployed_on_a_guess_about_tails(world: str) -> None:
    for seed in range(3):
        audit = rare(seed, CATASTROPHES[world])
        assert audit.verdict in ("not yet", "do not trust")
        assert any("State a reward range" in reason for reason in audit.reasons) or audit.verdict != "not yet"
        survived = audit.to_dict()["loss_survived"]
        assert survived is not None and any(f"{survived:.4g}" in reason for reason in audit.reasons)
        labels = [name for name, _ in audit.facts()]
        assert labels.index("assumed noise") < labels.index("rows")
        assert labels.index("promise: survives") < labels.index("rows")


@pytest.mark.slow
@pytest.mark.parametrize("world", CATASTROPHES)
def test_nothing_is_ever_deployed_on_a_guess_about_tails(world: str) -> None:
    """It was, 199 times of 200, and 193 of the promises were broken."""
    assert not any(rare(seed, CATASTROPHES[world]).verdict.startswith("deploy") for seed in range(200))


def test_a_noise_that_was_stated_is_held_against_the_farthest_reward() -> None:
    rng = np.random.default_rng(4)
    rewards = 0.3 * rng.standard_normal(2000)
    assert audit_log(log_with(rewards, rng), noise=0.35, epsilon=0.1).verdict == "deploy"
    rewards[11] = 5.0
    audit = audit_log(log_with(rewards, rng), noise=0.35)
    assert audit.verdict == "do not trust" and "allows" in audit.reasons[0]


def test_a_stated_range_ends_the_question() -> None:
    rng = np.random.default_rng(5)
    audit = audit_log(log_with(rng.uniform(0, 1, 4000), rng), reward_range=(0.0, 1.0))
    assert audit.verdict == "deploy" and audit.survives is None
    assert "tails" not in dict(audit.facts())


def test_minus_zero_is_zero() -> None:
    rng = np.random.default_rng(6)
    log = log_with(rng.integers(0, 2, 500).astype(float), rng)
    facts = dict(audit_log(replace(log, extent=(-0.0, 1.0))).facts())
    assert "from 0 to 1" in facts["rewards"]


@pytest.mark.parametrize("seed", range(5))
def test_the_farthest_reward_is_far_from_the_mean_of_its_own_arm(seed: int) -> None:
    """Against pandas, with an arm of two pulls that earns more than any other: its mean says nothing of
    rewards of other arms."""
    rng = np.random.default_rng([53, seed])
    frame = pd.DataFrame({"arm": rng.integers(0, K - 1, 3000), "reward": rng.standard_exponential(3000)})
    frame.loc[5, "reward"] = 60.0
    frame = pd.concat([frame, pd.DataFrame({"arm": [K - 1] * 2, "reward": [100.0, 101.0]})])
    of_arms = frame.groupby("arm")["reward"]
    n, around = of_arms.transform("size"), (frame["reward"] - of_arms.transform("mean")).abs()
    away = around * np.sqrt(n / (n - 1))
    pooled = np.sqrt((around**2).sum() / (len(frame) - K))
    scale = of_arms.transform("std").where(n >= 30, pooled)
    named = frame.assign(arm=[f"arm {arm}" for arm in frame["arm"]])
    log = read_log(named, item="arm", reward="reward", arms=table_of(ACTIONS))
    tails = find_tails(log)
    assert tails is not None and tails.heavy and tails.side == "high"
    assert tails.farthest == pytest.approx((away / scale).max())
    assert tails.distance == pytest.approx(away.max())
    assert not tails.caps  # each would take from the best arm what it always earns
    assert audit_log(log, noise=4.0).verdict == "do not trust"


def test_the_ends_of_clicks_follow_from_their_sums() -> None:
    """Ninety clicks in a hundred, and one in a hundred: that one is 0.99 from its mean, and 10 deviations."""
    pulls, clicks = np.array([100, 100]), np.array([90.0, 1.0])
    half = Offline(pulls=pulls, reward_sums=clicks, reward_squares=clicks)
    tails = find_tails(log_of(half, Offline.empty(2), np.eye(2), extent=(0.0, 1.0)))
    assert tails is not None
    assert tails.farthest == pytest.approx(0.99 * np.sqrt(100 / 99) / np.sqrt(0.99 * 0.01 * 100 / 99))


def test_the_ends_of_each_arm_are_read() -> None:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"arm": rng.integers(0, 5, 200), "reward": rng.standard_normal(200)})
    named = frame.assign(arm=[f"arm {arm}" for arm in frame["arm"]])
    ends = read_log(named, item="arm", reward="reward", arms=table_of(ACTIONS)).ends
    assert ends is not None
    of_arms = frame.groupby("arm")["reward"]
    assert ends.lowest[:5].tolist() == of_arms.min().tolist()
    assert ends.highest[:5].tolist() == of_arms.max().tolist()
    assert np.isinf(ends.lowest[5:]).all() and np.isinf(ends.highest[5:]).all()
