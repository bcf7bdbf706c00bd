"""No promise of a Control gate is broken more often than delta, whoever explores, however the world moves."""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
import pytest
from helpers import control_adversaries as adversaries
from helpers.chance import most
from helpers.control_adversaries import SCENARIOS, play_scenario

from linoto import Confidence, Control, Offline
from linoto.core import kernels

LOG = Offline(pulls=[100, 0], reward_sums=[60.0, 0.0])
NOISE = 0.4
RUNS = 300  # of each adversary, in the slow suite
PROMISES: dict[str, dict[str, Any]] = {
    "realised": {"epsilon": 0.05},
    "expected": {"epsilon": 0.05, "promise": "expected"},
    "sub-Gaussian": {"epsilon": 0.05, "promise": "expected"},
    "stretches": {"epsilon": 0.05, "budget": 30.0, "every": 100},
    "a budget": {"budget": 20.0},
    "a cheap share": {"budget": 20.0, "epsilon": 0.01, "share": "cheap"},
}


def books(promise: str, scenario: str, delta: float) -> tuple[Any, Any]:
    """Params and run of a gate that knows nothing but its log."""
    noise: Any = NOISE if promise == "sub-Gaussian" else "bounded"
    confidence = Confidence(noise=noise, reward_range=(0.0, 1.0), delta=delta)
    gate = Control(**PROMISES[promise] | ({"share": 0.05} if scenario == "small share" else {}))
    params, run = np.zeros(1, kernels.PARAMS), np.zeros(1, kernels.RUN)
    params["noise"] = confidence.scale
    gate.fill(params[0], confidence, np.ones((2, 1)), LOG)
    run["logged"], run["logged_rewards"] = LOG.total, LOG.reward_sums.sum()
    return params, run


def violations(promise: str, scenario: str, delta: float, *, runs: int, rounds: int, play: Any) -> int:
    """In how many runs more was lost than promised in any round."""
    params, fresh = books(promise, scenario, delta)
    kernels.coin_begin(params, fresh)
    tickets, broken = np.empty((rounds, 4)), 0
    for seed in range(runs):
        rng, run = np.random.default_rng([seed, SCENARIOS.index(scenario)]), fresh.copy()
        normals = rng.standard_normal((rounds, 2)) if promise == "sub-Gaussian" else np.empty((0, 2))
        uniforms = rng.random((rounds, 3))
        over, mean_over = play(params, run, SCENARIOS.index(scenario), uniforms, normals, tickets)
        broken += (over if params[0]["realised"] else mean_over) > 1e-9
    return broken


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.few(1)
def test_no_adversary_breaks_the_promise_more_often_than_delta(promise: str) -> None:
    """P(binomial(5, .05) > 3) = 3e-5 for each adversary."""
    for scenario in SCENARIOS:
        assert violations(promise, scenario, 0.05, runs=5, rounds=250, play=play_scenario) <= 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("delta", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("promise", PROMISES)
def test_no_adversary_breaks_the_promise_in_hundreds_of_runs(
    promise: str, delta: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """By chance in one of 100,000 tests of each adversary. A gate that never fails is too timid."""
    options: dict[str, Any] = {"runs": RUNS, "rounds": 3000, "play": compile_adversaries()}
    broken = [violations(promise, scenario, delta, **options) for scenario in SCENARIOS]
    with capsys.disabled():
        rates = ", ".join(f"{name} {count / RUNS:.3f}" for name, count in zip(SCENARIOS, broken, strict=True))
        print(f"\n{promise}, delta {delta}: {rates}", file=sys.stderr)
    assert max(broken) <= most(RUNS, delta, alarm=1e-5) < RUNS


def compile_adversaries() -> Any:
    """The same functions, compiled."""
    names = ("practice_mean", "explorer_mean", "deliver", "deliver_block")
    for name in names:
        function = getattr(adversaries, name)
        if not hasattr(function, "py_func"):
            setattr(adversaries, name, numba.njit(function))
    return numba.njit(play_scenario)
