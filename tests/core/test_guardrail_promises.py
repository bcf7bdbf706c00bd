"""No promise about several metrics is broken more often than delta, whoever attacks which of them."""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
import pytest
from helpers import control_adversaries, guardrail_adversaries
from helpers.control_adversaries import SCENARIOS
from helpers.guardrail_adversaries import RELATIONS, play_against

from linoto import Confidence, Control, Guardrail, Offline
from linoto.core import kernels
from linoto.core.rails import Rails, share_of

LOG = Offline(pulls=[100, 0], reward_sums=[60.0, 0.0])
METRICS = {"the reward": 0, "the guardrail": 1}
ROOMS: dict[str, dict[str, float]] = {"a rate": {"rate": 0.05}, "a budget": {"budget": 20.0}}


def books(room: str, scenario: str, delta: float) -> tuple[Any, Any, Rails]:
    """Params and run of a gate that knows nothing but its log, and those of its guardrail."""
    share = 0.05 if scenario == "small share" else None
    given = ROOMS[room]
    gate = Control(budget=given.get("budget", 0.0), epsilon=given.get("rate", 0.0), share=share)
    rail = Guardrail("other", reward_range=(0, 1), mean=0.6, **given)
    confidence = Confidence(noise="bounded", reward_range=(0.0, 1.0), delta=delta)
    params, run = np.zeros(1, kernels.PARAMS), np.zeros(1, kernels.RUN)
    params["noise"] = confidence.scale
    gate.fill(params[0], share_of(confidence, [rail]), np.ones((2, 1)), LOG)
    run["logged"], run["logged_rewards"] = LOG.total, LOG.reward_sums.sum()
    kernels.coin_begin(params, run)
    rails = Rails.begin((rail,), gate, confidence, LOG.pulls)
    assert rails is not None
    return params, run, rails


def violations(
    room: str, scenario: str, relation: str, metric: str, delta: float, runs: int, rounds: int, play: Any
) -> int:
    """In how many runs more was lost of either metric than promised in any round."""
    params, fresh, rails = books(room, scenario, delta)
    codes = SCENARIOS.index(scenario), METRICS[metric], RELATIONS.index(relation)
    tickets, broken = np.zeros((rounds, 6)), 0
    for seed in range(runs):
        uniforms = np.random.default_rng([seed, *codes]).random((rounds, 5))
        over = play(params, fresh.copy(), rails.params, rails.books.copy(), *codes, uniforms, tickets)
        broken += over > 1e-9
    return broken


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.few(1)
def test_no_adversary_breaks_either_metric_more_often_than_delta(relation: str, metric: str) -> None:
    """P(binomial(4, .05) > 3) = 6e-6 for each adversary."""
    for place, scenario in enumerate(SCENARIOS):
        room = list(ROOMS)[place % 2]
        assert violations(room, scenario, relation, metric, 0.05, 4, 120, play_against) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta, limit", [(0.05, 86), (0.5, 575)])
@pytest.mark.parametrize("room", ROOMS)
def test_no_adversary_breaks_either_metric_in_many_runs(
    room: str, delta: float, limit: int, relation: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 runs of each adversary on each metric; binomial(1000, delta) is beyond these with p = 1e-6."""
    runs = 1000
    options: dict[str, Any] = {"runs": runs, "rounds": 1000, "play": compile_adversaries()}
    broken = {
        (scenario, metric): violations(room, scenario, relation, metric, delta, **options)
        for scenario in SCENARIOS
        for metric in METRICS
    }
    worst = max(broken, key=lambda key: broken[key])
    with capsys.disabled():
        median = float(np.median(list(broken.values()))) / runs
        by = f"{broken[worst] / runs:.3f} ({', '.join(worst)})"
        print(f"\n{room}, {relation}, delta {delta}: worst {by}, median {median:.3f}", file=sys.stderr)
    assert broken[worst] <= limit


def compile_adversaries() -> Any:
    """The same functions, compiled."""
    for module, names in {
        control_adversaries: ("practice_mean", "explorer_mean"),
        guardrail_adversaries: ("practice_mean", "explorer_mean", "other_value", "is_bad", "tell"),
    }.items():
        for name in names:
            function = getattr(module, name)
            if not hasattr(function, "py_func"):
                setattr(module, name, numba.njit(function))
    return numba.njit(play_against)
