"""A promise about a baseline is judged beside that baseline, not beside the log."""

import numpy as np
import pytest

import linoto
from linoto.worlds.violations import promise_violation

SHARES = linoto.Confidence(noise=0.3, reward_range=(0.0, 1.0), bound=2.0)


def test_what_was_lost_is_counted_below_the_baseline() -> None:
    """The log earns far more than arm 2: a shortfall below the log is no violation of a share of arm 2."""
    bandit = linoto.LinearBandit(actions=np.eye(3), theta=[0.9, 0.8, 0.2], noise=0.3)
    log = bandit.log([50, 50, 0], np.random.default_rng(0))
    for gate in (linoto.Conservative(), linoto.Conservative(mean=0.2)):
        policy = linoto.Gated(gate=gate, fallback=2, confidence=SHARES)
        run = linoto.simulate(policy, bandit, log, horizon=50)
        earned = np.cumsum(bandit.means[run.arms])
        per_round = policy.certificate(bandit.actions, log).per_round
        assert per_round is not None
        rounds = np.arange(1, 51)
        expected = (0.2 * rounds - earned - per_round * rounds).max()
        assert promise_violation(policy, bandit, log, run) == pytest.approx(expected)
        assert expected <= 0


def test_a_preview_is_about_the_log_or_about_practice() -> None:
    log = linoto.Offline(pulls=[30, 20], reward_sums=[12.0, 9.0])
    policy = linoto.Gated(gate=linoto.Conservative(), fallback=1, confidence=SHARES)
    with pytest.raises(ValueError, match="policy must compare with the log or with practice in a preview"):
        linoto.preview(np.eye(2), log, policy=policy, horizon=20, worlds=2)
