"""The same rewards in other units, and where no model knows 0 with another zero: the same decisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import linoto
from linoto import Control, Gated, Guard, Offline, research

Limits = tuple[float, float]
PLAIN = (0.0, 1.0)
UNITS = [(0.0, 10.0), (0.0, 0.125), (0.0, 1e4), (0.0, 1e-9), (0.0, 1e9)]
ZEROS = [(-180.0, 60.0), (1.0, 5.0), (-1.0, 0.0), (-1e6, -9e5)]
PULLS, SUMS, MEANS = np.array([60, 30, 0, 10]), np.array([33.0, 12.0, 0.0, 3.0]), (0.55, 0.4, 0.7, 0.3)
SQUARES = 0.9 * SUMS


def log_in(limits: Limits) -> Offline:
    low, unit = limits[0], limits[1] - limits[0]
    squares = low**2 * PULLS + 2 * low * unit * SUMS + unit**2 * SQUARES
    return Offline(pulls=PULLS, reward_sums=low * PULLS + unit * SUMS, reward_squares=squares)


# Budgets in halves of a unit: after some lost ones nothing is left to a whole one, but for rounding.
GATES: dict[str, Callable[[float], Any]] = {
    "open": lambda unit: linoto.Open(),
    "both": lambda unit: linoto.Tolerance(budget=3.5 * unit),
    "model": lambda unit: linoto.Tolerance(epsilon=0.1 * unit, evidence="model"),
    "relative": lambda unit: linoto.Tolerance(epsilon=0.1, relative=True),
    "relative, by rewards": lambda unit: linoto.Tolerance(budget=3.5, relative=True, evidence="rewards"),
    "conservative": lambda unit: linoto.Conservative(alpha=0.1),
    "conservative, known": lambda unit: linoto.Conservative(alpha=0.1, mean=0.5 * unit),
    "conservative, by arms": lambda unit: linoto.Conservative(alpha=0.1, form="arms"),
    "budget": lambda unit: linoto.Budget(),
    "budget, max": lambda unit: linoto.Budget(form="max"),
    "lent by the model": lambda unit: Control(budget=5.5 * unit, loan=9 * unit, promise="expected"),
}
WITHOUT_MODEL: dict[str, Callable[[float], Any]] = {
    "rewards": lambda unit: linoto.Tolerance(epsilon=0.1 * unit, budget=3.5 * unit, evidence="rewards"),
    "realised": lambda unit: linoto.Tolerance(budget=3.5 * unit, evidence="rewards", promise="realised"),
    "coin": lambda unit: Control(budget=20.5 * unit),
    "means": lambda unit: Control(budget=20.5 * unit, promise="expected"),
    "cheap": lambda unit: Control(budget=5.5 * unit, epsilon=0.05 * unit, share="cheap"),
    "stretches": lambda unit: Control(budget=60.5 * unit, every=40),
    "loan": lambda unit: Control(budget=5.5 * unit, loan=9 * unit),
}
EXPLORERS: dict[str, Any] = {
    "LinUCB": linoto.LinUCB(),
    "fading": linoto.LinUCB(discount=0.99),
    "LinTS": linoto.LinTS(),
    "assumed": linoto.LinTS(noise="assumed"),
    "SquareCB": linoto.SquareCB(),
    "LogisticTS": linoto.LogisticTS(),
    "KLUCB": research.KLUCB(),
    "UCBV": research.UCBV(),
    "UCB1": research.UCB1(),
    "ArmUCB": research.ArmUCB(),
}

Run = tuple[list[tuple[int, str]], list[float | None], Any]


def agent_of(limits: Limits, gate: str, explorer: str) -> Any:
    unit = limits[1] - limits[0]
    confidence = linoto.Confidence(noise="bounded", reward_range=limits, bound=2 * unit)
    found = {**GATES, **WITHOUT_MODEL}[gate](unit)
    policy = Gated(explorer=EXPLORERS[explorer], gate=found, confidence=confidence)
    return policy.start(np.eye(4), log_in(limits), rng=np.random.default_rng(3))


def guard_of(limits: Limits, gate: str) -> Guard:
    unit, log = limits[1] - limits[0], log_in(limits)
    confidence = linoto.Confidence(noise="bounded", reward_range=limits)
    found = WITHOUT_MODEL[gate](unit)
    if found.throws_coin:
        return Guard(log, gate=found, reward_range=limits, noise="bounded", rng=3)
    return Guard.of(log, found, confidence)


def played(limits: Limits, agent: Any, *, guarded: bool = False, rounds: int = 120) -> Run:
    """Rewards at once, late, and never."""
    low, unit, rng = limits[0], limits[1] - limits[0], np.random.default_rng(9)
    decisions, rooms, late = list[tuple[int, str]](), list[float | None](), list[Any]()
    for _ in range(rounds):
        made = agent.decide(int(rng.integers(4))) if guarded else agent.decide()
        agent.commit(made)
        decisions.append((made.arm, made.source))
        rooms.append(made.budget)
        mean, fate = MEANS[made.arm], rng.random()
        reward = low + unit * float(rng.beta(4 * mean, 4 * (1 - mean)))
        if fate < 0.1:
            late.append((made, reward))
        elif fate < 0.95:
            agent.observe(made, reward)
        if late and fate > 0.8:
            agent.observe(*late.pop(0))
    return decisions, rooms, agent.certificate


@cache
def plain_agent(gate: str, explorer: str) -> Run:
    return played(PLAIN, agent_of(PLAIN, gate, explorer))


@cache
def plain_guard(gate: str) -> Run:
    return played(PLAIN, guard_of(PLAIN, gate), guarded=True)


def check_same(limits: Limits, found: Run, plain: Run) -> None:
    low, unit = limits[0], limits[1] - limits[0]
    assert found[0] == plain[0]
    digits = 1e-6 * unit + 1e-10 * abs(low)
    for room, wanted in zip(found[1], plain[1], strict=True):
        assert room == wanted or room == pytest.approx((wanted or 0.0) * unit, rel=1e-6, abs=digits)
    ours, theirs = found[2], plain[2]
    assert (ours.holds, ours.vacuous, ours.kappa) == (theirs.holds, theirs.vacuous, theirs.kappa)
    for name in ("budget", "constant"):
        value = getattr(theirs, name)
        assert getattr(ours, name) == (None if value is None else pytest.approx(value * unit, rel=1e-9))
    ends = [low + unit * end for end in theirs.reference_interval]
    assert list(ours.reference_interval) == pytest.approx(ends, rel=1e-12, abs=digits)


MODELS = [(gate, explorer) for gate in GATES if gate != "open" for explorer in ("LinUCB", "LinTS")]


@pytest.mark.parametrize("limits", UNITS, ids=str)
@pytest.mark.parametrize("gate, explorer", [("open", explorer) for explorer in EXPLORERS] + MODELS)
@pytest.mark.few(12)
def test_other_units_change_no_decision(limits: Limits, gate: str, explorer: str) -> None:
    check_same(limits, played(limits, agent_of(limits, gate, explorer)), plain_agent(gate, explorer))


@pytest.mark.parametrize("limits", UNITS + ZEROS, ids=str)
@pytest.mark.parametrize("gate", WITHOUT_MODEL)
@pytest.mark.few(12)
def test_another_zero_changes_no_decision_where_no_model_knows_it(limits: Limits, gate: str) -> None:
    check_same(limits, played(limits, guard_of(limits, gate), guarded=True), plain_guard(gate))


@pytest.mark.parametrize("explorer", ["LogisticTS", "KLUCB", "UCBV", "UCB1"])
@pytest.mark.parametrize("limits", ZEROS, ids=str)
@pytest.mark.few(4)
def test_explorers_of_a_range_know_no_other_zero_than_its_low_end(limits: Limits, explorer: str) -> None:
    found, plain = played(limits, agent_of(limits, "open", explorer)), plain_agent("open", explorer)
    assert found[0] == plain[0]


# -- a budget of what one round can lose


@pytest.mark.parametrize("limits", [(0.1, 0.4), (0.7, 0.8), (-0.1, 0.2), (999.9, 1000.0), (0.0, 0.3)])
def test_a_budget_as_wide_as_the_range_opens_though_the_width_is_rounded(limits: Limits) -> None:
    """0.4 - 0.1 is above 0.3: the message was "must be at least 0.3, got 0.3"."""
    budget = round(limits[1] - limits[0], 9)
    log = Offline(pulls=[9, 9], reward_sums=[9 * limits[0], 9 * limits[0]])
    for gate in (Control(budget=budget), Control(budget=budget / 2, loan=budget / 2)):
        guard = Guard(log, gate=gate, reward_range=limits, noise="bounded", rng=0)
        assert guard.decide(1 - (guard.practice or 0)).control_share is not None  # the coin is thrown
    with pytest.raises(ValueError, match=r"budget must be at least 0\.[13], what one round can lose"):
        Guard(log, gate=Control(budget=0.99 * budget), reward_range=limits, noise="bounded", rng=0)


# -- a log beyond its range


@pytest.mark.parametrize("unit", [1.0, 1e-12, 1e12])
def test_a_log_beyond_its_range_is_refused_in_any_unit(unit: float) -> None:
    """Of 1e-12, rewards of five times the range were taken, and a Control gate promised something."""
    log = Offline(pulls=[50, 50], reward_sums=[250 * unit, 25 * unit])
    rewards = linoto.Confidence(noise="bounded", reward_range=(0.0, unit), bound=10 * unit)
    for gate in (linoto.Tolerance(budget=20 * unit), Control(budget=20 * unit)):
        with pytest.raises(ValueError, match="offline must have rewards in reward_range"):
            Gated(gate=gate, confidence=rewards).start(np.eye(2), log, rng=np.random.default_rng(0))
    rounds = linoto.Moments.of_arms(np.eye(2), log)
    with pytest.raises(ValueError, match="offline must have rewards in reward_range"):
        Gated(gate=Control(budget=20 * unit), confidence=rewards).start(
            rounds, features=linoto.OwnFeatures(items=("a", "b"), width=1), rng=np.random.default_rng(0)
        )


# -- in words


@pytest.mark.parametrize("limits", [*UNITS, *ZEROS, (99.95, 100.05), (1e6, 1e6 + 1), (123_456.7, 123_460.2)])
def test_a_promise_names_the_range_that_was_given(limits: Limits) -> None:
    """Four digits of each end said "[1,000,000, 1,000,000]" of the last but one."""
    assumed = played(limits, guard_of(limits, "rewards"), guarded=True, rounds=1)[2].assumes[0]
    first, last = assumed.removeprefix("every reward lies in [").removesuffix("]").split(", ")
    assert [float(end.replace(",", "")) for end in (first, last)] == list(limits)
