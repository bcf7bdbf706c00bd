"""Arms that come and go: against the oracle round by round, and laws that need none."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np
import pytest
from helpers.reference import Problem
from helpers.reference_arms import ChangingReference, ChangingTolerance

import linoto
from linoto import Agent, ArmChange, Budget, Closed, Confidence, Gated, LinTS, LinUCB, Offline, Open
from linoto.core import kernels
from linoto.research import OlderTolerance

D = 3
THETA = np.array([0.5, 0.15, -0.1, 0.35, 0.6])  # the last two are of features that come later
LIMITS = (0.0, 1.0)
ONLINE = Confidence(noise=0.5, ridge=0.5, bound=2.0, delta=0.1)
BOUNDED = Confidence(noise="bounded", reward_range=LIMITS, bound=2.0)


def problem(seed: int, k: int = 8) -> tuple[np.ndarray, Offline, np.random.Generator]:
    rng = np.random.default_rng(seed)
    actions = rng.normal(size=(k, D))
    actions /= np.linalg.norm(actions, axis=1, keepdims=True)
    actions[:, 0] = np.abs(actions[:, 0]) + 0.5
    pulls = np.zeros(k, dtype=np.int64)
    pulls[:4] = 30, 20, 33, 17
    sums = rng.binomial(pulls, means_of(actions)).astype(np.float64)
    return actions, Offline(pulls=pulls, reward_sums=sums), rng


def means_of(actions: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(actions @ THETA[: actions.shape[1]], 0.05, 0.95))


CHANGES: dict[int, tuple[str, Any]] = {  # before these rounds: some at once, some of the log, new features
    4: ("add", np.array([[0.9, 0.2, 0.1], [0.7, -0.6, 0.3]])),
    9: ("remove", [6]),
    14: ("remove", [0]),  # of the log
    18: ("add", np.array([[0.0, 0.0, 0.0, 1.0]])),  # a feature of its own
    23: ("remove", [8, 2]),
    27: ("add", np.array([[0.6, 0.1, 0.0, 0.0, 0.4]])),
    33: ("remove", [10]),
}


def change(agent: Agent, what: str, how: Any) -> None:
    agent.add_arms(how) if what == "add" else agent.remove_arms(how)


def follow(agent: Agent, oracle: Any, rng: np.random.Generator, *, rounds: int, delay: int = 0) -> set[str]:
    """Play agent and oracle side by side through all changes; the sources that occurred."""
    sources, coming = set(), []
    for t in range(rounds):
        if t in CHANGES:
            what, how = CHANGES[t]
            change(agent, what, how)
            oracle.add(how) if what == "add" else oracle.remove(how)
        decision = agent.decide()
        randoms = agent.running.state.vectors[kernels.NORMALS].copy()
        arm, source = oracle.decide(randoms)
        if isinstance(source, bool):
            assert (decision.arm, decision.mode == "explore") == (arm, source), f"round {t}"
            oracle.commit(arm)
        else:
            assert (decision.arm, decision.source) == (arm, source), f"round {t}"
            asked = decision.arm if decision.mode == "explore" else decision.proposal
            assert decision.budget == pytest.approx(oracle.room(asked), rel=1e-7, abs=1e-7), f"round {t}"
            oracle.commit(arm, source)
        sources.add(decision.source)
        agent.commit(decision)
        reward = float(rng.random() < means_of(agent.actions)[arm])
        coming.append((t + int(rng.integers(0, delay + 1)), arm, reward))
        for item in [item for item in coming if item[0] <= t]:
            coming.remove(item)
            agent.observe(*item[1:])
            oracle.observe(*item[1:])
        base = getattr(oracle, "base", oracle)
        np.testing.assert_allclose(agent.lcb, base.lcb, atol=1e-9)
        np.testing.assert_allclose(agent.ucb, base.upper, atol=1e-9)
        np.testing.assert_allclose(agent.theta, base.theta, atol=1e-9)
    return sources


EVERY = list(
    product(
        ("model", "rewards", "both"), (0.5, "bounded"), (False, True), ("joint", "union"), ("auto", "mixture")
    )
)
QUICK = [case for case in EVERY if case[3] == "union" or case[1] != "bounded"][::4]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in EVERY if case not in QUICK]


@pytest.mark.parametrize("evidence, noise, relative, ledger, fallback", [*QUICK, *SLOW])
@pytest.mark.few(3)
def test_a_tolerance_gate_is_its_oracle_when_arms_come_and_go(
    evidence: Any, noise: Any, relative: bool, ledger: Any, fallback: Any
) -> None:
    actions, log, rng = problem(len(evidence))
    for low, delay in ((0.0, 0), (-0.5, 5)):
        if relative and low < 0:
            continue
        confidence = Confidence(noise=noise, reward_range=(low, 1.0), bound=2.0)
        words = {"epsilon": 0.15, "budget": 1.0, "evidence": evidence, "relative": relative}
        gate = linoto.Tolerance(**words) if ledger == "joint" else OlderTolerance(**words, rounding="low")
        words["ledger"] = ledger
        policy = Gated(explorer=LinUCB(scale=0.5), gate=gate, fallback=fallback, confidence=confidence)
        agent = policy.start(actions, log)
        oracle = ChangingTolerance(
            Problem(actions, log.pulls, log.reward_sums), ridge=confidence.ridge_for(D), noise=noise,
            bound=2.0, reward_range=(low, 1.0), fallback=fallback, scale=0.5, **words,  # type: ignore[arg-type]
        )  # fmt: skip
        follow(agent, GrowingBound(oracle, agent), rng, rounds=40, delay=delay)


class GrowingBound:
    """An oracle that is told the bound on |theta| of one-hot arms: it is the agent's to grow."""

    def __init__(self, oracle: ChangingTolerance, agent: Agent) -> None:
        self.oracle, self.agent = oracle, agent

    def add(self, new: np.ndarray) -> None:
        self.oracle.add(new)
        self.oracle.bound = self.oracle.base.bound = self.agent.confidence.bound
        vars(self.oracle.base).pop("kept", None)
        self.oracle.base.lowers[-1][-len(new) :] = self.oracle.base.lower[-len(new) :]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.oracle, name)


@pytest.mark.parametrize("promise, fallback", [("realised", "mixture"), ("realised", "auto")])
def test_a_realised_promise_is_its_oracle_when_arms_come_and_go(promise: Any, fallback: Any) -> None:
    actions, log, rng = problem(3)
    gate = linoto.Tolerance(epsilon=0.1, budget=3.0, evidence="rewards", promise=promise)
    agent = Gated(explorer=LinUCB(scale=0.5), gate=gate, fallback=fallback, confidence=BOUNDED).start(
        actions, log
    )
    oracle = ChangingTolerance(
        Problem(actions, log.pulls, log.reward_sums), ridge=BOUNDED.ridge_for(D), noise="bounded", bound=2.0,
        reward_range=LIMITS, fallback=fallback, scale=0.5, epsilon=0.1, budget=3.0, evidence="rewards",
        promise=promise,
    )  # fmt: skip
    follow(agent, GrowingBound(oracle, agent), rng, rounds=40, delay=3)


GATES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "open": (Open(), "auto", {}),
    "closed": (Closed(), "lcb", {"gate": "closed"}),
    "frozen": (Closed(), "frozen", {"gate": "closed", "fallback": "frozen"}),
    "budget": (Budget(alpha=0.05), "lcb", {"gate": "budget", "alpha": 0.05}),
    "budget-max": (Budget(alpha=0.05, form="max"), "lcb", {"gate": "budget", "alpha": 0.05, "form": "max"}),
    "budget-frozen": (
        Budget(alpha=0.05, form="aggregate"),
        "frozen",
        {"gate": "budget", "alpha": 0.05, "form": "aggregate", "fallback": "frozen"},
    ),
}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("explorer", ["ucb", "thompson"])
@pytest.mark.few(2)
def test_other_gates_are_their_oracle_when_arms_come_and_go(name: str, explorer: str) -> None:
    gate, fallback, words = GATES[name]
    actions, log, rng = problem(5)
    tried: Any = (
        LinUCB(scale=1.0, noise="assumed") if explorer == "ucb" else LinTS(scale=0.5, noise="assumed")
    )
    policy = Gated(explorer=tried, gate=gate, fallback=fallback, confidence=ONLINE)  # type: ignore[arg-type]
    agent = policy.start(actions, log, rng=0)
    oracle = ChangingReference(
        Problem(actions, log.pulls, log.reward_sums), explorer=explorer, reach="affordable",
        kind="self_normalised", ridge=0.5, noise=0.5, bound=2.0, delta=0.1, **words,
        **({} if explorer == "ucb" else {"scale": 0.5, "whole_prior": True}),
    )  # fmt: skip
    follow(agent, oracle, rng, rounds=60)
    if "budget" in name:
        assert agent.baseline == pytest.approx(oracle.baseline, abs=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        ArmChange(round=3, added=(4, 5), features=1, ridge=1.0, bound=2.0, left=0.5),
        ArmChange(round=3, added=("a",), values=((1.0, 2.0),), features=2, places=(0, 2)),
    ],
    ids=["fixed arms", "items"],
)
def test_a_change_is_one_record_that_is_read_back(change: ArmChange[Any]) -> None:
    stored = json.loads(json.dumps(asdict(change)))
    assert ArmChange[Any].from_dict(stored) == change
    older = {name: stored[name] for name in ("round", "added", "removed")}  # what every version has stored
    assert ArmChange[Any].from_dict(older) == ArmChange(round=3, added=change.added)
