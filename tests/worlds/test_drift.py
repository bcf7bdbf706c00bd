"""Worlds whose means move: the same for every loop, and measured against what arms earn then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Confidence, Control, Doubling, DriftingBandit, Gated, LinTS, LinUCB, Offline

ACTIONS = np.eye(3)
TABLE = [[0.6, 0.5, 0.7], [0.2, 0.9, 0.4], [0.5, 0.5, 0.5]]
STARTS = [0, 40, 41]
LOG = Offline(pulls=[30, 10, 0], reward_sums=[18.0, 5.0, 0.0])


def world(**parts: Any) -> DriftingBandit:
    return DriftingBandit(**({"actions": ACTIONS, "table": TABLE, "starts": STARTS, "noise": 0.1} | parts))


class Repeat:
    """A policy in plain Python that plays the arms in turn and keeps what it was paid."""

    def start(self, actions: Any, offline: Any, rng: Any = 0) -> Repeat:
        self.paid: list[tuple[int, float]] = []
        return self

    def select(self) -> int:
        return len(self.paid) % 3

    def update(self, arm: int, reward: float) -> None:
        self.paid.append((arm, reward))


def test_each_round_pays_by_the_means_of_its_segment() -> None:
    policy, noise = Repeat(), np.linspace(-1, 1, 90)
    run = linoto.simulate(policy, world(), LOG, noise=noise)
    means = np.array(TABLE)[np.r_[np.zeros(40, int), 1, np.full(49, 2)]]
    arms = np.arange(90) % 3
    np.testing.assert_array_equal(run.arms, arms)
    np.testing.assert_array_equal([reward for _, reward in policy.paid], means[np.arange(90), arms] + noise)
    np.testing.assert_allclose(np.diff(run.regret), (means.max(axis=1) - means[np.arange(90), arms])[1:])
    logged = means @ [0.75, 0.25, 0.0]
    np.testing.assert_allclose(np.diff(run.offline_regret), (logged - means[np.arange(90), arms])[1:])


@pytest.mark.parametrize(
    "policy", [LinUCB(scale=1.0), LinTS(), Doubling(policy=LinTS())], ids=["ucb", "ts", "doubling"]
)
def test_a_world_that_moves_is_compiled_bit_for_bit(policy: Any) -> None:
    bandit, draws = world(), np.random.default_rng(0).standard_normal(5000) * 0.1
    starts = np.array([0, 40, 4500])
    compiled, by_hand = (policy.start(ACTIONS, LOG, rng=1) for _ in range(2))
    arms, _ = compiled.play(bandit.table, draws, starts=starts)
    rows = np.searchsorted(starts, np.arange(5000), side="right") - 1
    for t in range(5000):
        arm = by_hand.select()
        assert arm == arms[t]
        by_hand.update(arm, float(bandit.table[rows[t], arm] + draws[t]))


def test_one_segment_is_a_world_that_stands_still() -> None:
    still = linoto.Bandit(actions=ACTIONS, means=TABLE[0], noise=0.1)
    one, two = (
        linoto.simulate(LinUCB(scale=1.0), bandit, LOG, horizon=300, seed=3)
        for bandit in (still, world(table=TABLE[:1], starts=[0]))
    )
    np.testing.assert_array_equal(one.arms, two.arms)
    np.testing.assert_array_equal(one.offline_regret, two.offline_regret)
    log = world().log([5, 5, 5], np.random.default_rng(0))
    np.testing.assert_array_equal(log.reward_sums, still.log([5, 5, 5], np.random.default_rng(0)).reward_sums)


def test_control_rounds_and_the_shortfall_below_practice_are_in_the_run() -> None:
    bandit = world(rewards="bernoulli")
    policy = Gated(
        explorer=LinUCB(scale=0.25),
        gate=Control(budget=12.0),
        confidence=Confidence(noise="bounded", reward_range=(0, 1)),
    )
    run = linoto.simulate(policy, bandit, LOG, horizon=400, seed=1)
    assert run.control.any() and run.explored.any() and not (run.control & run.explored).any()
    steps = np.diff(run.practice_shortfall, prepend=0.0)
    assert (steps[~run.explored] == 0).all()
    means = bandit.table[np.searchsorted(bandit.starts, np.arange(400), side="right") - 1]
    possible = means[:, :2] - means[np.arange(400), run.arms][:, None]  # practice is arm 0 or arm 1
    assert np.isclose(possible[run.explored], steps[run.explored, None]).any(axis=1).all()
    assert list(run.to_frame()["control"]) == run.control.tolist()
    assert "control rounds" in run._repr_html_()


@pytest.mark.parametrize(
    "parts, message",
    [
        ({"table": [[0.1, 0.2]], "starts": [0]}, "table must have a row for each of the 1 starts"),
        ({"starts": [0, 40]}, "table must have a row for each of the 2 starts"),
        ({"starts": [1, 40, 41]}, "starts must begin with 0 and increase"),
        ({"starts": [0, 41, 41]}, "starts must begin with 0 and increase"),
        ({"starts": [0, 2.5, 41]}, "starts must be whole numbers"),
        ({"table": [[2.0] * 3] * 3, "rewards": "bernoulli"}, "table must give means in"),
    ],
)
def test_bad_worlds_are_named(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        world(**parts)
