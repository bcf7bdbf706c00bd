"""Experiments with contexts: the same rounds for everybody, and promises about practice, run by run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from linoto import (
    Closed,
    Confidence,
    ContextualBandit,
    ContextualSetting,
    Control,
    Experiment,
    Gated,
    LinTS,
    LinUCB,
    Moments,
    Offline,
    Random,
    Tolerance,
    run_experiment,
    simulate,
)
from linoto.experiments.compare import CLICKS, compare, problems
from linoto.experiments.flights_by_time import FlightsByTime
from linoto.experiments.run import draw_instance
from linoto.worlds.violations import promise_violation

SURE = Confidence(noise="bounded", reward_range=(0, 1), bound=2)
POLICIES = {
    "LinUCB": LinUCB(scale=0.25, confidence=SURE),
    "Random": Random(),
    "model": Gated(gate=Tolerance(budget=10, evidence="model"), confidence=SURE),
    "control": Gated(gate=Control(budget=10), confidence=SURE),
}


@dataclass(frozen=True, kw_only=True)
class Turning(ContextualSetting):
    """Offer 0 is right nine times of ten, from half time on offer 1; practice knows it, the log does not."""

    def bandit(self, rng: np.random.Generator) -> Any:
        labels, rows = np.arange(100) % 10 // 9, np.ones((100, 1))
        before = ContextualBandit.from_table(rows, labels, practice=[1.0, 0.0])
        after = ContextualBandit.from_table(rows, 1 - labels, practice=[0.0, 1.0])
        return before.until(self.horizon // 2, after)


def setting(**changed: Any) -> ContextualSetting:
    return ContextualSetting(
        **{"name": "small", "m": 50, "horizon": 300, "rewards": "bernoulli", "policies": POLICIES, **changed}
    )


def test_a_cell_is_a_simulation_of_its_instance() -> None:
    small = setting()
    results = run_experiment(Experiment(name="mine", settings=(small,)), runs=2)
    bandit, log, own = draw_instance(small, 0, 1)
    assert isinstance(log, Moments) and log.count == 50
    for label, policy in POLICIES.items():
        run = simulate(policy, bandit, log, horizon=300, seed=own)
        assert results.final("small", label, "regret")[1] == run.regret[-1]
        assert results.final("small", label, "offline_regret")[1] == run.offline_regret[-1]
        assert results.worst("small", label)[1] == max(0.0, run.offline_regret.max())


def test_promises_about_practice_are_checked_in_every_run() -> None:
    results = run_experiment(Experiment(name="mine", settings=(setting(),)), runs=3)
    for label in ("model", "control"):
        assert (results.promise_violation("small", label) <= 0).all()
    for label in ("LinUCB", "Random"):
        assert np.isnan(results.promise_violation("small", label)).all()


def test_a_promise_whose_model_is_wrong_is_seen_to_be_broken_and_that_of_the_coin_kept() -> None:
    turning = Turning(name="turning", m=1000, horizon=1000, rewards="bernoulli", policies=POLICIES)
    results = run_experiment(Experiment(name="mine", settings=(turning,)), runs=2)
    assert (results.promise_violation("turning", "model") > 0).all()
    assert (results.promise_violation("turning", "control") <= 0).all()


def test_a_promise_is_judged_by_the_certificate_of_its_own_log() -> None:
    """A noise that the log refutes: the gate has a budget, but nothing is promised."""
    small = setting(rewards="gaussian", noise=1.0, m=200, policies={"LinTS": LinTS()})
    bandit, log, own = draw_instance(small, 0, 0)
    gate = Tolerance(budget=10, evidence="model")
    for noise, promised in ((0.05, False), (1.0, True)):
        policy = Gated(gate=gate, confidence=Confidence(noise=noise, bound=2))
        run = simulate(policy, bandit, log, horizon=200, seed=own)
        assert policy.certificate(log).holds == promised
        found = promise_violation(policy, bandit, log, run)
        assert np.isnan(found) != promised
        if promised:
            assert found == pytest.approx(run.practice_shortfall.max() - 10)


def test_a_loan_is_part_of_what_is_promised_and_realised_rewards_count_as_they_came() -> None:
    small = setting()
    bandit, log, own = draw_instance(small, 0, 0)
    for gate in (Control(budget=3, epsilon=0.01), Control(budget=3, loan=4, promise="expected")):
        policy = Gated(explorer=Random(), gate=gate, confidence=SURE)
        run = simulate(policy, bandit, log, horizon=300, seed=own)
        lost = run.practice_shortfall
        if gate.promise == "realised":
            lost = lost + np.cumsum(np.where(run.explored, run.means - run.rewards, 0.0))
        assert run.explored.any() and policy.certificate(log).realised == (gate.loan == 0)
        expected = (lost - gate.epsilon * np.arange(1, 301)).max() - gate.budget - gate.loan
        assert promise_violation(policy, bandit, log, run) == pytest.approx(expected)


def test_practice_in_every_round_is_a_promise_of_nothing_lost() -> None:
    bandit, log, own = draw_instance(setting(), 0, 0)
    policy = Gated(gate=Closed(), fallback="mixture", confidence=SURE)
    run = simulate(policy, bandit, log, horizon=50, seed=own)
    assert promise_violation(policy, bandit, log, run) == 0.0


def test_a_policy_that_does_not_know_contexts_is_refused_by_name() -> None:
    class Fixed:
        def start(self, actions: Any, offline: Offline, rng: Any = 0) -> Any: ...

    with pytest.raises(ValueError, match=r"policies must start without arms here, got .* for 'old'"):
        setting(policies={"old": Fixed()})


def test_a_league_of_real_flights_by_time_is_played() -> None:
    short = FlightsByTime(name="trips", m=100, horizon=40, policies=POLICIES)
    found = compare([short], runs=1)
    rows = {row["policy"]: row for row in found.league(short)}
    assert rows["control"]["promise"] == {"kept": 1, "runs": 1} and rows["Random"]["promise"] is None
    world = short.bandit(np.random.default_rng(0))
    assert world.d == short.d and max(np.diff(world.pool.ends, prepend=0)) == short.k


def test_practice_that_is_less_wrong_is_harder_to_beat() -> None:
    worlds = [setting(name=str(error), error=error, rewards="gaussian", noise=0.1) for error in (0.5, 5.0)]
    quick = {"LinTS": LinTS(scale=0.1)}
    chosen = tuple(ContextualSetting(**{**vars(world), "policies": quick}) for world in worlds)
    results = run_experiment(Experiment(name="mine", settings=chosen), runs=3)
    near, far = (results.final(world.name, "LinTS", "offline_regret").mean() for world in worlds)
    assert far < near


def test_where_exploring_gains_little_the_usual_gate_stays_open() -> None:
    """Two runs of a problem of the league; by the fee of the largest bet alone it closes in both."""
    setting = problems()["contexts"]
    for run in (1, 2):
        bandit, log, seed = draw_instance(setting, 0, run)
        played = simulate(Gated(confidence=CLICKS), bandit, log, horizon=3000, seed=seed)
        assert played.explored[-1000:].mean() > 0.2
