"""Certificates say what is guaranteed, and no more."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from helpers.chance import most
from helpers.selection import sizes

import linoto

LOG = linoto.Offline(pulls=[40, 30, 30, 0], reward_sums=[20.0, 12.0, 9.0, 0.0])
ARMS = np.eye(4)
RANGED = linoto.Confidence(reward_range=(0, 1))


def certificate(**settings: Any) -> linoto.Certificate:
    return linoto.Gated(**settings).certificate(ARMS, LOG)


def test_a_tolerance_promises_its_epsilon_and_the_rounding_of_the_mixture() -> None:
    promise = certificate(gate=linoto.Tolerance(epsilon=0.07), confidence=RANGED)
    assert promise.holds and not promise.vacuous
    assert promise.per_round == 0.07
    assert promise.constant == promise.kappa == pytest.approx(linoto.core.gates.mixture_rounding(LOG))
    assert promise.loss(1000) == pytest.approx(70 + promise.kappa)


def test_without_a_range_the_bound_and_the_actions_give_one() -> None:
    promise = certificate(gate=linoto.Tolerance(epsilon=0.07), confidence=linoto.Confidence(bound=3.0))
    assert promise.reward_range == (-3.0, 3.0)
    assert promise.constant == pytest.approx(6 * (promise.kappa or 0))


def test_the_papers_promise_is_vacuous_on_the_papers_problem() -> None:
    rng = np.random.default_rng(0)
    bandit = linoto.sphere_bandit(rng=rng)
    log = bandit.log(linoto.logged_pulls(bandit, rng=rng), rng)
    paper = linoto.LinOtO().certificate(bandit.actions, log)
    ours = linoto.Gated().certificate(bandit.actions, log)
    assert paper.holds and paper.vacuous and (paper.per_round or 0) > 2
    assert ours.holds and not ours.vacuous and (ours.per_round, ours.budget) == (0.0, 100.0)


def test_coverage_slack_is_never_a_worse_promise() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        bandit = linoto.sphere_bandit(k=20, d=5, rng=rng)
        log = bandit.log(linoto.logged_pulls(bandit, m=200, arms=8, rng=rng), rng)
        losses = [
            linoto.Gated(gate=linoto.Budget(alpha=1.0, slack=slack))
            .certificate(bandit.actions, log)
            .per_round
            for slack in ("coverage", "paper")
        ]
        assert losses[0] <= losses[1] + 1e-12


@pytest.mark.parametrize(
    "settings, holds",
    [
        ({"gate": linoto.Open()}, False),
        ({"gate": linoto.Closed()}, True),
        ({"gate": linoto.Closed(), "fallback": "mixture"}, True),
        ({"gate": linoto.Closed(), "fallback": 1}, True),
        ({"gate": linoto.Budget()}, True),
        ({"gate": linoto.Budget(), "fallback": "frozen"}, True),
        ({"gate": linoto.Budget(), "fallback": 1}, False),
        ({"gate": linoto.Budget(), "fallback": "mixture"}, False),
        ({"gate": linoto.Tolerance(epsilon=0.1)}, True),
        ({"gate": linoto.Tolerance(epsilon=0.1), "fallback": "mixture"}, True),
        ({"gate": linoto.Tolerance(epsilon=0.1), "fallback": "lcb"}, False),
        ({"gate": linoto.Tolerance(epsilon=0.1), "fallback": 0}, False),
    ],
)
def test_only_what_is_proven_is_promised(settings: Any, holds: bool) -> None:
    promise = certificate(**settings, confidence=RANGED)
    assert promise.holds == holds
    assert (promise.loss(10) is not None) == holds
    assert bool(promise.assumes) == holds


def test_the_explorer_does_not_matter() -> None:
    explorers = (linoto.LinUCB(scale=1.0), linoto.LinTS(), linoto.Greedy(), linoto.Random())
    promises = {str(certificate(explorer=explorer, confidence=RANGED)) for explorer in explorers}
    assert len(promises) == 1


def test_an_empty_log_promises_nothing() -> None:
    promise = linoto.LinOtO().certificate(ARMS, linoto.Offline.empty(4))
    assert not promise.holds and promise.reference is None
    assert json.loads(promise.to_json())["per_round"] is None


def test_the_interval_of_the_reference_does_not_know_the_dimension() -> None:
    widths = []
    for d in (2, 8):
        log = linoto.Offline(pulls=[50] * d, reward_sums=[5.0] * d)
        narrow = linoto.Offline(pulls=[100] + [0] * (d - 1), reward_sums=[10.0] + [0.0] * (d - 1))
        low, high = linoto.Gated().certificate(np.eye(d), narrow).reference_interval
        widths.append(high - low)
        assert linoto.Gated().certificate(np.eye(d), log).reference == pytest.approx(0.1)
    assert widths[0] == pytest.approx(widths[1])
    assert widths[0] == pytest.approx(2 * np.sqrt(2 * np.log(2 / 0.05) / 100))


@pytest.mark.parametrize("logs", sizes(100, 400))
def test_the_interval_covers_the_reference(logs: int) -> None:
    """At delta = 0.2; by chance too many miss it once in 10,000."""
    misses = 0
    means = np.array([0.3, 0.1, -0.2])
    for seed in range(logs):
        bandit = linoto.LinearBandit(actions=np.eye(3), theta=means)
        log = bandit.log([10, 5, 5], np.random.default_rng(seed))
        low, high = (
            linoto.Gated(confidence=linoto.Confidence(delta=0.2))
            .certificate(np.eye(3), log)
            .reference_interval
        )
        misses += not low <= means @ [0.5, 0.25, 0.25] <= high
    assert misses <= most(logs, 0.2, 1e-4)


def click_certificate(design: Any = "fixed", delta: float = 0.05, log: Any = None) -> linoto.Certificate:
    """Of a log of clicks: 44 of 8000 unless another is given."""
    clicks = linoto.Offline(pulls=[5000, 3000], reward_sums=[20.0, 24.0]) if log is None else log
    confidence = linoto.Confidence(noise="bounded", reward_range=(0, 1), delta=delta, design=design)
    return linoto.Gated(confidence=confidence).certificate(np.eye(clicks.pulls.size), clicks)


def test_the_interval_of_rare_clicks_is_as_wide_as_a_binomials() -> None:
    """Clopper and Pearson's for 44 of 8000 is [0.0040, 0.00738]."""
    low, high = click_certificate().reference_interval
    assert 0.0037 < low < 0.0040 and 0.00738 < high < 0.0078
    assert high - low < 1.3 * (0.00738 - 0.0040)
    wide = click_certificate(design="adaptive").reference_interval
    assert 0 < wide[0] < low and high < wide[1] < 0.01


@pytest.mark.few(0)
def test_the_interval_of_rare_clicks_covers_their_mean() -> None:
    """300 logs at delta = 0.2; P(binomial(300, 0.2) > 90) = 1.4e-5."""
    rates, pulls = np.array([0.001, 0.01, 0.3]), np.array([600, 300, 10])
    rng, misses = np.random.default_rng(0), 0
    for _ in range(300):
        log = linoto.Offline(pulls=pulls, reward_sums=rng.binomial(pulls, rates).astype(float))
        low, high = click_certificate(delta=0.2, log=log).reference_interval
        misses += not low <= rates @ pulls / pulls.sum() <= high
    assert misses <= 90


def test_it_reads_as_a_table_and_as_json() -> None:
    promise = certificate(confidence=RANGED)
    data = json.loads(promise.to_json(rounds=100))
    assert data["loss"] == pytest.approx(promise.loss(100))
    assert 0 < data["per_round"] < 0.02 and data["budget"] > 1 and data["holds"] is True
    text = str(promise)
    for word in ("promise", "kappa", "vacuous", "assumes", "mean reward of the log"):
        assert word in text


def test_an_agent_remembers_what_was_promised() -> None:
    policy = linoto.Gated(confidence=RANGED)
    agent = policy.start(ARMS, LOG)
    for _ in range(20):
        agent.update(agent.decide(), 0.5)
    assert agent.certificate == policy.certificate(ARMS, LOG)
    restored = linoto.restore(agent.snapshot())
    assert restored.certificate == agent.certificate


def test_a_doubling_promises_nothing_beyond_its_epochs() -> None:
    promise = linoto.Doubling(policy=linoto.LinOtO()).certificate(ARMS, LOG)
    assert not promise.holds and "epoch" in promise.theorem


def test_a_log_that_contradicts_the_bound_is_promised_nothing() -> None:
    log = linoto.Offline(pulls=[2000, 100], reward_sums=[10_000.0, 0.0])
    for policy in (linoto.LinLCB(), linoto.Gated(gate=linoto.Budget()), linoto.LinOtO()):
        promise = policy.certificate(np.eye(2), log)
        assert not promise.holds and "contradicts" in promise.theorem
        assert promise.reference_interval[0] <= promise.reference_interval[1]


def test_rewards_alone_do_not_care_about_the_bound() -> None:
    log = linoto.Offline(pulls=[500, 500], reward_sums=[4000.0, 3000.0])
    policy = linoto.Gated(
        gate=linoto.Tolerance(epsilon=0.1, evidence="rewards"),
        confidence=linoto.Confidence(reward_range=(0, 10)),
    )
    assert policy.certificate(np.eye(2), log).holds


def test_a_log_outside_the_range_of_its_means_is_refused() -> None:
    log = linoto.Offline(pulls=[500, 500], reward_sums=[2500.0, 2500.0])
    with pytest.raises(ValueError, match="offline must have rewards in reward_range"):
        linoto.Guard(log, epsilon=0.1, reward_range=(0, 1))


def test_the_papers_radius_promises_nothing_beside_a_large_ridge() -> None:
    small, large = (
        linoto.LinOtO(confidence=linoto.Confidence(radius="paper", ridge=ridge)).certificate(ARMS, LOG)
        for ridge in (1e-4, 1e6)
    )
    assert small.holds and not large.holds and "bias" in large.theorem


def test_a_relative_promise_uses_the_gates_own_events() -> None:
    gate = linoto.Tolerance(epsilon=0.1, relative=True, evidence="rewards")
    policy = linoto.Gated(gate=gate, confidence=RANGED)
    upper = policy.start(ARMS, LOG).running.run["upper_reference"]
    assert policy.certificate(ARMS, LOG).per_round == pytest.approx(0.1 * min(upper, 1.0))


def test_lost_rewards_are_an_assumption_unless_each_has_a_floor() -> None:
    texts = [
        linoto.Guard(LOG, epsilon=0.1, reward_range=(0, 1), noise=noise).certificate.assumes
        for noise in (1.0, "bounded")
    ]
    unconditional = "which rewards arrive, and when, does not depend on their values"
    assert unconditional in texts[0] and unconditional not in texts[1]
    assert any("reported with their decision" in text for text in texts[1])


def test_a_mixture_without_a_range_names_what_gives_it_one() -> None:
    promise = certificate(gate=linoto.Closed(), fallback="mixture")
    assert any("mean rewards lie in" in text for text in promise.assumes)


def test_numbers_of_numpy_are_python_numbers_in_a_policy() -> None:
    policy = linoto.Gated(
        explorer=linoto.LinUCB(scale=np.float64(0.5)),
        gate=linoto.Tolerance(epsilon=np.float64(0.1)),
        fallback=np.int64(1),
        confidence=linoto.Confidence(delta=np.float64(0.05)),
    )
    names = {name: getattr(linoto, name) for name in ("Gated", "LinUCB", "Tolerance", "Confidence")}
    assert eval(repr(policy), names) == policy


def test_the_usual_budget_is_in_rounds_of_the_log_or_of_the_noise() -> None:
    noisy = linoto.Gated(confidence=linoto.Confidence(noise=0.3)).certificate(ARMS, LOG)
    assert (noisy.budget, noisy.per_round) == (pytest.approx(30.0), 0.0)
    signed = certificate(confidence=linoto.Confidence(reward_range=(-1, 1)))
    assert signed.budget == 100.0
    clicks = certificate(confidence=linoto.Confidence(noise="bounded", reward_range=(0, 1)))
    low, high = clicks.reference_interval
    assert 100 * low < 100 * clicks.reference < clicks.budget < 120 * high
    assert clicks.per_round == pytest.approx(0.0002 * clicks.budget)


def test_a_gate_that_was_stored_is_the_gate_that_is_read() -> None:
    """The default gate changed; a policy that was written with the old one keeps it."""
    stored = {
        **linoto.to_dict(linoto.Gated()),
        "gate": {"type": "Tolerance", "epsilon": 0.1, "bias": "tight"},
    }
    gate = linoto.from_dict(stored, stored=True).composed().gate
    assert (gate.epsilon, gate.budget, gate.ledger) == (0.1, 0.0, "union")
    assert linoto.from_dict(linoto.to_dict(linoto.Gated())) == linoto.Gated()


ALONE = "the model alone: without a reward_range realised rewards prove nothing"


@pytest.mark.parametrize(
    "evidence, limits, payer",
    [
        ("both", None, ALONE),
        ("both", (0, 1), "the model or realised rewards"),
        ("model", None, "the model"),
        ("rewards", (0, 1), "realised rewards"),
    ],
)
def test_the_certificate_says_what_pays(evidence: Any, limits: Any, payer: str) -> None:
    gate = linoto.Tolerance(budget=5.0, evidence=evidence)
    promise = certificate(gate=gate, confidence=linoto.Confidence(reward_range=limits))
    assert promise.theorem.endswith(f"paid for by {payer}")


@pytest.mark.parametrize("options", [{"budget": 1000.0}, {"epsilon": 0.3, "budget": 7.0}, {"epsilon": 0.01}])
def test_a_promise_says_something_from_the_round_on_in_which_more_could_be_lost(
    options: dict[str, float],
) -> None:
    """Before it, losing the most possible in every round keeps the promise; in it, that breaks it."""
    promise = certificate(gate=linoto.Tolerance(**options), confidence=RANGED)
    first, worst = promise.says_something_from, promise.reference_interval[1]  # the range begins at 0
    assert first is not None and not promise.vacuous
    assert (first - 1) * worst <= (promise.loss(first - 1) or 0.0) and first * worst > (
        promise.loss(first) or 0
    )
    assert dict(promise.rows(rounds=first))["vacuous"].startswith("no")
    if first == 1:
        return
    assert dict(promise.rows())["vacuous"].startswith(f"no, from round {first:,} on")
    few = dict(promise.rows(rounds=first - 1))["vacuous"]
    assert few.startswith(f"yes: in {first - 1:,} rounds no play could lose more than")
    assert promise.to_dict(rounds=5)["says_something_from"] == first


def test_a_promise_that_allows_more_per_round_than_can_be_lost_never_says_anything() -> None:
    promise = certificate(gate=linoto.Tolerance(epsilon=5.0), confidence=RANGED)
    assert promise.vacuous and promise.says_something_from is None
    assert dict(promise.rows(rounds=10))["vacuous"] == "yes: no play could lose more"
