"""A promise about practice is judged against practice, however far the log is from it."""

from __future__ import annotations

import numpy as np
import pytest

import linoto
from linoto.experiments.run import promise_violation


def test_control_is_judged_by_the_explored_rounds_against_practice_as_realised() -> None:
    """The log earned .1 by bad luck and practice earns .8: no shortfall below the log would show."""
    means = np.array([0.8, 0.2])
    bandit = linoto.Bandit(actions=np.eye(2), means=means, rewards="bernoulli")
    log = linoto.Offline(pulls=[40, 0], reward_sums=[4.0, 0.0])
    sure = linoto.Confidence(noise="bounded", reward_range=(0.0, 1.0))
    policy = linoto.Gated(
        explorer=linoto.Random(), gate=linoto.Control(budget=5, epsilon=0.1), confidence=sure
    )
    run = linoto.simulate(policy, bandit, log, horizon=400, seed=1)
    lost = np.cumsum(np.where(run.explored, means[0] - run.rewards, 0.0))
    expected = (lost - 0.1 * np.arange(1, 401)).max() - 5
    assert run.explored.any()
    assert promise_violation(policy, bandit, log, run) == pytest.approx(expected)
