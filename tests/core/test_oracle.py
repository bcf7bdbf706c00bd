"""Every rule, round by round, against the paper's formulas in plain NumPy (tests/reference.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.problems import problem
from helpers.reference import Floats, Problem, Reference

from linoto import (
    PAPER,
    Agent,
    Budget,
    Closed,
    Confidence,
    Decision,
    Gated,
    Greedy,
    LinearBandit,
    LinLCB,
    LinOtO,
    LinTS,
    LinUCB,
    NoSafeArm,
    Offline,
    Random,
    RandUCB,
    SquareCB,
)
from linoto.core import kernels

SHARP = Confidence(radius="hkz", ridge=0.1, noise=0.5, delta=0.1, bound=1.5)
ONLINE = Confidence(radius="self_normalised", ridge=0.5, noise=0.7, delta=0.01)
HKZ = {"kind": "hkz", "ridge": 0.1, "noise": 0.5, "delta": 0.1, "bound": 1.5}
SELF = {"kind": "self_normalised", "ridge": 0.5, "noise": 0.7, "delta": 0.01}
BUDGET = {"gate": "budget", "alpha": 0.05}
WHOLE = LinTS(scale=0.5, prior="whole")
HALF = {
    "explorer": "thompson", "scale": 0.5, "whole_prior": True, "estimates_noise": True, **SELF
}  # fmt: skip

# Each policy beside the same rule in the oracle's words; the oracle's defaults are the paper's.
PAPERS_OWN: dict[str, tuple[Any, dict[str, Any]]] = {
    "linoto-exact": (LinOtO(alpha=0.05), BUDGET),
    "linoto-aggregate": (LinOtO(alpha=0.05, budget="aggregate"), {**BUDGET, "form": "aggregate"}),
    "linoto-max": (LinOtO(alpha=0.05, budget="max"), {**BUDGET, "form": "max"}),
    "linucb": (LinUCB(scale=1.0, confidence=PAPER), {}),
    "linlcb": (LinLCB(confidence=PAPER), {"gate": "closed", "explorer": "greedy"}),
}
OTHERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "linlcb-frozen": (
        LinLCB(frozen=True, confidence=SHARP),
        {"gate": "closed", "explorer": "greedy", "fallback": "frozen", **HKZ},
    ),
    "linlcb-hkz": (LinLCB(confidence=SHARP), {"gate": "closed", "explorer": "greedy", **HKZ}),
    "linucb-scaled": (
        LinUCB(scale=0.25, confidence=ONLINE),
        {"scale": 0.25, "estimates_noise": True, **SELF},
    ),
    "linucb-hkz": (LinUCB(scale=1.0, confidence=SHARP), HKZ),
    "thompson": (
        LinTS(scale=0.8, prior="scaled", confidence=ONLINE),
        {"explorer": "thompson", "scale": 0.8, "estimates_noise": True, **SELF},
    ),
    "thompson-whole-prior": (LinTS(scale=0.5, prior="whole", confidence=ONLINE), HALF),
    "thompson-paper": (
        LinTS(scale=1.0, prior="scaled", noise="assumed", confidence=PAPER),
        {"explorer": "thompson"},
    ),
    "luck": (
        RandUCB(scale=0.8, prior="scaled", confidence=ONLINE),
        {"explorer": "luck", "scale": 0.8, "estimates_noise": True, **SELF},
    ),
    "luck-whole-prior": (
        RandUCB(scale=0.5, confidence=ONLINE),
        {"explorer": "luck", "scale": 0.5, "whole_prior": True, "estimates_noise": True, **SELF},
    ),
    "squarecb": (
        SquareCB(scale=0.6, confidence=ONLINE),
        {"explorer": "squarecb", "scale": 0.6, "estimates_noise": True, **SELF},
    ),
    "greedy": (Greedy(confidence=ONLINE), {"explorer": "greedy", **SELF}),
    "uniform": (
        Gated(explorer=Random(), gate=Budget(alpha=0.05), reach="proposal", confidence=ONLINE),
        {"explorer": "uniform", **BUDGET, **SELF},
    ),
    "coverage-slack": (
        Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=0.05, slack="coverage"),
            reach="proposal",
            confidence=SHARP,
        ),
        {**BUDGET, "slack": "coverage", **HKZ},
    ),
    "hkz-budget-max": (
        Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=0.05, form="max"),
            fallback="frozen",
            reach="proposal",
            confidence=SHARP,
        ),
        {**BUDGET, "form": "max", "fallback": "frozen", **HKZ},
    ),
    "fixed-arm": (
        Gated(
            explorer=LinUCB(scale=1.0),
            gate=Budget(alpha=0.05),
            fallback=3,
            reach="proposal",
            confidence=ONLINE,
        ),
        {**BUDGET, "fallback": 3, **SELF},
    ),
    "closed-fixed-arm": (
        Gated(explorer=WHOLE, gate=Closed(), fallback=3, confidence=ONLINE),
        {**HALF, "gate": "closed", "fallback": 3, "reach": "affordable"},
    ),
}
# The oracle asks the gate about every arm from scratch, so these cost it k times as much.
AFFORDABLE: dict[str, tuple[Any, dict[str, Any]]] = {
    f"affordable-{name}": (
        Gated(explorer=explorer, gate=Budget(alpha=0.05, form=form, slack=slack), confidence=confidence),
        {**BUDGET, "form": form, "slack": slack, "reach": "affordable", **words},
    )
    for name, explorer, form, slack, confidence, words in (
        (
            "exact",
            LinUCB(scale=0.5),
            "exact",
            "paper",
            ONLINE,
            {"scale": 0.5, "estimates_noise": True, **SELF},
        ),
        ("aggregate", LinUCB(scale=1.0), "aggregate", "coverage", SHARP, HKZ),
        ("max", WHOLE, "max", "paper", ONLINE, HALF),
        ("paper", Greedy(), "exact", "coverage", PAPER, {"explorer": "greedy"}),
        (
            "squarecb",
            SquareCB(),
            "exact",
            "paper",
            ONLINE,
            {"explorer": "squarecb", "scale": 0.15, "estimates_noise": True, **SELF},
        ),
        (
            "luck",
            RandUCB(),
            "exact",
            "paper",
            ONLINE,
            {"explorer": "luck", "whole_prior": True, "estimates_noise": True, **SELF},
        ),
        ("uniform", Random(), "max", "coverage", SHARP, {"explorer": "uniform", **HKZ}),
    )
}
EVERY = {**PAPERS_OWN, **OTHERS, **AFFORDABLE}
REFRESHED = 1100  # rounds: every 512 rewards the kernels compute everything again
GATED = {name: case for name, case in EVERY.items() if case[1].get("gate") == "budget"}


class Pair:
    """An agent and its oracle, fed the same; the oracle draws its own copy of the agent's random numbers."""

    def __init__(
        self, policy: Any, words: dict[str, Any], bandit: LinearBandit, offline: Offline, *, seed: int = 0
    ) -> None:
        self.agent: Agent = policy.start(bandit.actions, offline, rng=seed)
        self.oracle = Reference(
            Problem(bandit.actions, offline.pulls, offline.reward_sums, offline.reward_squares), **words
        )
        self.rng = np.random.default_rng(seed)
        self.randoms = self.draw()

    def draw(self) -> Floats | None:
        k, d = self.oracle.actions.shape
        if self.oracle.explorer == "thompson":
            return self.rng.standard_normal(d)
        if self.oracle.explorer == "luck":
            return self.rng.standard_normal(1)
        return self.rng.random(k) if self.oracle.explorer in ("uniform", "squarecb") else None

    def decide(self, allowed: Any = None) -> Decision:
        """The agent's decision, which is the oracle's."""
        decision = self.agent.decide(allowed)
        expected = self.oracle.decide(self.randoms, allowed)
        assert (decision.arm, decision.mode == "explore") == expected, f"round {self.agent.rounds + 1}"
        return decision

    def commit(self, arm: int) -> None:
        self.agent.commit(arm)
        self.oracle.commit(arm)
        self.randoms = self.draw()

    def observe(self, arm: int, reward: float) -> None:
        self.agent.observe(arm, reward)
        self.oracle.observe(arm, reward)
        self.oracle.lowers[1:] = [
            self.oracle.lcb
        ]  # the maximum of maxima: the whole history would cost O(t k)

    def agree(self, decision: Decision) -> None:
        """Everything the agent knows is what the oracle recomputes."""
        agent, oracle, state = self.agent, self.oracle, self.agent.running.state
        # Eight digits, or what the oracle itself has left: one arm for ever and a tiny ridge cost it some.
        # How many digits the agent has left is measured in test_numerics, against exact arithmetic.
        digits = max(1e-8, 5e-14 * np.linalg.cond(oracle.V))
        size = np.abs(oracle.mean).max() + oracle.radius * np.sqrt(oracle.variance.max())
        for actual, expected, least in (
            (agent.theta, oracle.theta, 0.0),
            (state.arms[kernels.MEAN], oracle.mean, 0.0),
            (state.arms[kernels.VARIANCE], oracle.variance, 0.0),
            (state.run[0]["radius"], oracle.radius, 0.0),
            (state.run[0]["log_det"], oracle.log_det, 0.0),
            (agent.lcb, oracle.lcb, size),  # a mean and a width may cancel
            (agent.ucb, oracle.upper, size),
        ):
            close(actual, expected, digits * max(np.abs(expected).max(), least))
        if oracle.gate == "budget":
            close(agent.baseline, oracle.baseline, digits * size)
            asked = decision.arm if decision.mode == "explore" else decision.proposal
            close(decision.budget, oracle.budget(asked), digits * size * (agent.rounds + 1))


def close(actual: Any, expected: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def follow(pair: Pair, bandit: LinearBandit, *, rounds: int, every: int = 100) -> int:
    """Play as the agent says, with the oracle beside it; in how many rounds the proposal was refused."""
    noise = bandit.noise * np.random.default_rng(99).standard_normal(rounds)
    refused = 0
    for t in range(rounds):
        decision = pair.decide()
        if t % every == 0:
            pair.agree(decision)
        refused += decision.mode == "safe" or decision.arm != decision.proposal
        if pair.oracle.explorer == "squarecb":  # it proposes only what is affordable
            refused += bool((pair.agent.running.state.arms[kernels.ROOM] <= 0).any())
        pair.commit(decision.arm)
        pair.observe(decision.arm, bandit.means[decision.arm] + noise[t])
    pair.agree(pair.decide())
    return refused


@pytest.mark.parametrize("name", ["linoto-exact", "linucb"])
@pytest.mark.few(1)
def test_the_papers_policies_follow_the_oracle_past_two_refreshes(name: str) -> None:
    bandit, offline = problem(1, k=15, d=5)
    refused = follow(Pair(*PAPERS_OWN[name], bandit, offline), bandit, rounds=REFRESHED)
    assert name == "linucb" or 0 < refused < REFRESHED, "an instance where the budget decides"


@pytest.mark.parametrize("name", [*PAPERS_OWN, *OTHERS])
def test_every_policy_follows_the_oracle(name: str) -> None:
    bandit, offline = problem(2, k=15, d=5, noise=0.5)
    refused = follow(Pair(*EVERY[name], bandit, offline), bandit, rounds=300)
    assert name not in GATED or 0 < refused < 300, "an instance where the budget decides"


@pytest.mark.parametrize("name", AFFORDABLE)
@pytest.mark.few(2)
def test_the_best_affordable_arm_is_the_oracles(name: str) -> None:
    bandit, offline = problem(3, k=10, d=4, arms=3)
    refused = follow(Pair(*AFFORDABLE[name], bandit, offline), bandit, rounds=200, every=50)
    assert 0 < refused < 200, "an instance where the budget decides"


def test_a_rank_deficient_log_with_a_tiny_ridge_follows_the_oracle_past_two_refreshes() -> None:
    bandit, offline = problem(4, k=30, d=8, m=100, arms=4)
    words = {"gate": "budget", "alpha": 0.5, "form": "max"}
    refused = follow(Pair(LinOtO(alpha=0.5, budget="max"), words, bandit, offline), bandit, rounds=REFRESHED)
    assert 0 < refused < REFRESHED, "an instance where the budget decides"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(8)
def test_a_rank_deficient_log_starts_like_the_oracle(name: str) -> None:
    bandit, offline = problem(5, k=9, d=7, m=30, arms=3)
    follow(Pair(*EVERY[name], bandit, offline), bandit, rounds=60, every=5)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.few(8)
def test_an_empty_log_follows_the_oracle(name: str) -> None:
    rng = np.random.default_rng(6)  # arms of different lengths: on the sphere all would tie
    bandit = LinearBandit(actions=rng.standard_normal((7, 3)), theta=rng.standard_normal(3))
    policy, words = EVERY[name]
    if words.get("gate") == "budget":
        words = {**words, "gate": "open"}  # nothing was promised
    follow(Pair(policy, words, bandit, Offline.empty(7)), bandit, rounds=60, every=5)


@pytest.mark.parametrize(("k", "d"), [(1, 1), (1, 4), (6, 1), (2, 9), (5, 2)])
@pytest.mark.few(1)
def test_odd_sizes_follow_the_oracle(k: int, d: int) -> None:
    rng = np.random.default_rng(10 * k + d)
    theta = rng.standard_normal(d)  # as long as policies assume: who explores alone would see it in the log
    bandit = LinearBandit(actions=rng.standard_normal((k, d)), theta=theta / np.linalg.norm(theta))
    offline = bandit.log(rng.integers(0, 5, k) + 1, rng)
    for policy, words in EVERY.values():
        if words.get("fallback") != 3 or k > 3:
            follow(Pair(policy, words, bandit, offline), bandit, rounds=25, every=5)


DELAYED = [
    "linoto-exact",
    "linoto-aggregate",
    "linoto-max",
    "linucb",
    "linlcb",
    "thompson",
    "luck-whole-prior",
    "affordable-exact",
]


@pytest.mark.parametrize("name", DELAYED)
@pytest.mark.few(1)
def test_late_lost_and_shuffled_rewards_follow_the_oracle(name: str) -> None:
    bandit, offline = problem(7, k=10, d=4, arms=4)
    pair, rng = Pair(*EVERY[name], bandit, offline), np.random.default_rng(8)
    waiting: list[tuple[int, float]] = []
    for t in range(300):
        decision = pair.decide()
        if t % 25 == 0:
            pair.agree(decision)
        pair.commit(decision.arm)
        if rng.random() < 0.95:  # the others are lost
            waiting.append((decision.arm, bandit.means[decision.arm] + rng.standard_normal()))
        rng.shuffle(waiting)
        for _ in range(min(rng.poisson(0.95), len(waiting))):
            pair.observe(*waiting.pop())
    pair.agree(pair.decide())
    assert 0 < pair.agent.rewards < pair.agent.rounds == 300
    expected = np.bincount(pair.oracle.committed, minlength=10) - np.bincount(
        pair.oracle.observed, minlength=10
    )
    np.testing.assert_array_equal(pair.agent.pending, expected)


@pytest.mark.parametrize(
    "name",
    ["linoto-exact", "linoto-max", "linucb", "thompson", "luck", "squarecb", "greedy", "affordable-exact"],
)
@pytest.mark.few(1)
def test_restricted_rounds_follow_the_oracle_or_say_that_no_safe_arm_is_allowed(name: str) -> None:
    bandit, offline = problem(9, k=10, d=4, arms=4)
    pair, rng = Pair(*EVERY[name], bandit, offline), np.random.default_rng(10)
    refused = 0
    for _ in range(300):
        allowed = rng.random(10) < 0.4
        allowed[rng.integers(10)] = True
        arm, explored = pair.oracle.decide(pair.randoms, allowed)
        if explored or pair.oracle.lcb[arm] >= pair.oracle.baseline:
            arm = pair.decide(allowed).arm
        else:
            refused += 1
            with pytest.raises(NoSafeArm, match="allowed"):
                pair.agent.decide(allowed)
            arm = pair.decide().arm
        pair.commit(arm)
        pair.observe(arm, bandit.means[arm] + rng.standard_normal())
    assert (refused > 0) == (name in GATED), "a gate refuses some subsets, an open door none"


def test_somebody_elses_proposal_passes_the_gate_exactly_when_the_oracle_affords_it() -> None:
    bandit, offline = problem(11, k=10, d=4, arms=4)
    passed = []
    for form in ("exact", "aggregate", "max"):
        pair = Pair(LinOtO(alpha=0.05, budget=form), {**BUDGET, "form": form}, bandit, offline)
        rng = np.random.default_rng(12)
        for _ in range(200):
            arm = int(rng.integers(10))
            decision = pair.agent.guard(arm)
            affords = pair.oracle.affords(arm)
            assert decision.arm == (arm if affords else pair.oracle.safe(list(range(10))))
            assert (decision.proposal, decision.mode) == (arm, "explore" if affords else "safe")
            passed.append(affords)
            pair.commit(decision.arm)
            pair.observe(decision.arm, bandit.means[decision.arm] + rng.standard_normal())
    assert 0 < sum(passed) < len(passed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPERS_OWN)
def test_the_papers_default_problem_follows_the_oracle(name: str) -> None:
    bandit, offline = problem(13, k=100, d=20, m=100, arms=10)
    policy, words = PAPERS_OWN[name]
    follow(Pair(policy, words, bandit, offline), bandit, rounds=2000)


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("arms", [3, 8])
def test_every_policy_follows_the_oracle_for_long(name: str, arms: int) -> None:
    bandit, offline = problem(14, k=12, d=5, arms=arms)
    follow(Pair(*EVERY[name], bandit, offline), bandit, rounds=500 if name in AFFORDABLE else 2000)
