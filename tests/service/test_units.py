"""The same world in other units and with another zero: the same decisions, evidence, alarms and intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from helpers import loop_in_memory as memory

import linoto
from linoto.service.loops import views
from linoto.service.loops.arm_views import arm_views
from linoto.service.loops.events import ArmsChanged, MetricsRecorded
from linoto.service.loops.loop import Loop
from linoto.service.loops.spec import LogStatistics

PULLS, SUMS, SQUARES = np.array([50, 30, 0]), np.array([30.0, 10.0, 0.0]), np.array([26.0, 8.0, 0.0])
ARMS_LEAVE, ARMS_COME, ALL_FALLS = 40, 80, 110  # rounds
ROUNDS = 240


@dataclass(frozen=True)
class Units:
    """Rewards from 0 to 1, counted from another zero and in another unit."""

    low: float
    unit: float

    @property
    def limits(self) -> tuple[float, float]:
        return self.low, self.low + self.unit

    def of(self, x: float, count: float = 1) -> float:
        """A sum of so many rewards."""
        return self.low * count + self.unit * x

    def log(self) -> LogStatistics:
        squares = self.low**2 * PULLS + 2 * self.low * self.unit * SUMS + self.unit**2 * SQUARES
        sums = self.low * PULLS + self.unit * SUMS
        return LogStatistics(PULLS.tolist(), sums.tolist(), squares.tolist())


PLAIN = Units(0.0, 1.0)
OTHERS = [
    Units(0.0, 10.0),
    Units(0.0, 0.125),
    Units(0.0, 1e4),
    Units(0.0, 1e-9),
    Units(0.0, 1e9),
    Units(-180.0, 240.0),
    Units(1.0, 4.0),
    Units(-1.0, 1.0),
    Units(-1e6, 1e5),
]


def confidence(units: Units, noise: float | None = None) -> linoto.Confidence:
    scale: Any = "bounded" if noise is None else noise * units.unit
    return linoto.Confidence(noise=scale, reward_range=units.limits, bound=2 * units.unit)


def complaints(units: Units) -> linoto.Guardrail:
    """Seconds, say, of which there should be few."""
    budget, mean = 20 * units.unit, units.of(0.1)
    return linoto.Guardrail(
        "seconds", reward_range=units.limits, lower_is_better=True, budget=budget, mean=mean
    )


Gates = dict[str, Callable[[float], Any]]
BOUNDED: Gates = {
    "rewards": lambda unit: linoto.Tolerance(epsilon=0.1 * unit, budget=2 * unit, evidence="rewards"),
    "closed": lambda unit: linoto.Closed(),
    "coin": lambda unit: linoto.Control(budget=20.5 * unit),
    "cheap coin": lambda unit: linoto.Control(budget=5.5 * unit, epsilon=0.05 * unit, share="cheap"),
    "stretches": lambda unit: linoto.Control(budget=60.5 * unit, every=50),
    "loan": lambda unit: linoto.Control(budget=5.5 * unit, loan=10 * unit),
}
SCATTERED: Gates = {
    "sub-Gaussian": BOUNDED["rewards"],
    "sub-Gaussian coin": lambda unit: linoto.Control(budget=30.5 * unit, promise="expected"),
}
KINDS = [*BOUNDED, *SCATTERED, "guardrail"]


def policy(kind: str, units: Units) -> linoto.Gated:
    gate = {**BOUNDED, **SCATTERED, "guardrail": BOUNDED["cheap coin"]}[kind]
    return linoto.Gated(
        explorer=linoto.Random(),
        gate=gate(units.unit),
        confidence=confidence(units, 0.4 if kind in SCATTERED else None),
        fallback="mixture",
        guardrails=(complaints(units),) if kind == "guardrail" else (),
    )


def played(kind: str, units: Units, default: float) -> tuple[Loop, list[tuple[int, str]]]:
    """Rewards at once, late, or never; an arm that leaves, one that comes, and bad times at last."""
    loop = memory.fresh(
        policy=policy(kind, units),
        offline=units.log(),
        default_reward=units.of(default),
        drift_allowed=0.02 * units.unit,
        on_alarm="warn",
        holdback=0.1 if kind in ("rewards", "closed", "sub-Gaussian") else 0.0,
    )
    rng, late, found = np.random.default_rng(5), list[tuple[int, float]](), list[tuple[int, str]]()
    for t in range(ROUNDS):
        if t == ARMS_LEAVE:
            loop.apply(ArmsChanged(by="ann", removed=[1]), float(t))
        if t == ARMS_COME:
            loop.apply(ArmsChanged(by="ann", added=[("d", None)]), float(t))
        event = memory.decide(loop)
        found.append((event.arm, event.source))
        means = (0.6, 0.35, 0.8, 0.2) if t < ALL_FALLS else (0.05,) * 4
        x, fate = units.of(float(rng.beta(4 * means[event.arm], 4 * (1 - means[event.arm])))), rng.random()
        if fate < 0.05:
            memory.close(loop, event.number, None)
        elif fate < 0.15:
            late.append((event.number, x))
        else:
            memory.close(loop, event.number, x)
        if kind == "guardrail":
            value, lost = {"seconds": units.of(float(rng.random()))}, fate > 0.95
            loop.apply(MetricsRecorded(event.number, {} if lost else value, ["seconds"] * lost), float(t))
        if late and fate > 0.8:
            memory.close(loop, *late.pop(0))
    return loop, found


@cache
def plainly_played(kind: str, default: float) -> tuple[Loop, list[tuple[int, str]]]:
    return played(kind, PLAIN, default)


# What a number is by its name: a reward, a sum of rewards, a difference of rewards, or none of these.
REWARDS = {"mean", "lower", "upper", "reference", "lcb", "ucb"}
OF_CLOSED = {"realised", "expected_by_log", "promised_least", "alarm_below"}
DIFFERENCES = {
    *("budget", "gain", "gain_lower", "gain_upper", "left_to_lose", "left_lower", "left_upper"),
    *("promised_loss", "gained", "gained_lower", "gained_upper"),
}
OF_EXPLORED = {"earned", "estimate", "lower", "upper"}


def numbers(loop: Loop) -> Iterator[tuple[str, float, str, float]]:
    """(where, number, kind of number, of how many rewards) of everything that is shown of a loop."""
    view = msgspec.to_builtins(views.loop_view(loop))
    yield from walk("", {"view": view, "lift": msgspec.to_builtins(views.lift_view(loop))}, {})
    yield from walk("history", list(map(point_of, views.history(loop).points)), {})
    if loop.state.since_drift is not None:  # before, the model of arms knows where 0 is: its ridge
        yield from walk("arms", [msgspec.to_builtins(row) for row in arm_views(loop)], {})
    yield "promise", loop.state.promise.evidence, "evidence", 0
    yield "drift", loop.state.drift.evidence, "evidence", 0


def point_of(point: views.PointView) -> dict[str, Any]:
    """A point of the history; of so many explored rewards that it does not say, only differences."""
    found: dict[str, Any] = msgspec.to_builtins(point)
    earned, practice = found.pop("earned"), [found.pop(f"practice_{end}") for end in ("lower", "upper")]
    return found | {"gained": [] if earned is None else [earned - end for end in practice]}


def walk(where: str, found: Any, beside: dict[str, Any]) -> Iterator[tuple[str, float, str, float]]:
    if isinstance(found, dict):
        for name, value in found.items():
            yield from walk(f"{where}.{name}", value, found)
    elif isinstance(found, list):
        for place, value in enumerate(found):
            if isinstance(value, float):
                yield f"{where}.{place}", value, *kind_of(where, beside)
            else:
                yield from walk(f"{where}.{place}", value, beside)
    elif isinstance(found, float):
        yield where, found, *kind_of(where, beside)


def kind_of(where: str, beside: dict[str, Any]) -> tuple[str, float]:
    name, inside = where.rsplit(".", 1)[-1], where.rsplit(".", 2)[-2]
    if inside == "practice" and name in OF_EXPLORED:
        return "sum", beside["explored"]
    if name in DIFFERENCES or (inside == "lift" and name in REWARDS):
        return "difference", 0
    if name in REWARDS:
        return "reward", 1
    if name == "rewards":
        return "sum", beside["closed"]
    if name == "known":
        return "sum", beside["closed"] - beside["lost"]
    return ("sum", beside["closed"]) if name in OF_CLOSED else ("plain", 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("units", OTHERS, ids=str)
@pytest.mark.parametrize("default", [0.0, 1.0])
@pytest.mark.few(12)
def test_other_units_and_another_zero_change_nothing_but_numbers(
    kind: str, units: Units, default: float
) -> None:
    (plain, wanted), (other, found) = plainly_played(kind, default), played(kind, units, default)
    assert found == wanted
    assert [(alarm.kind, alarm.seq) for alarm in other.state.alarms] == [
        (alarm.kind, alarm.seq) for alarm in plain.state.alarms
    ]
    before, after = dict_of(plain), dict_of(other)
    assert before.keys() == after.keys()
    for where, (x, what, count) in before.items():
        y, digits = after[where][0], 1e-11 * (abs(units.low) + units.unit) * ROUNDS
        if what in ("plain", "evidence"):
            assert y == pytest.approx(x, rel=1e-6, abs=1e-9), where
        else:
            shift = 0.0 if what == "difference" else units.low * count
            assert y == pytest.approx(shift + units.unit * x, rel=1e-6, abs=1e-6 * units.unit + digits), where


def dict_of(loop: Loop) -> dict[str, tuple[float, str, float]]:
    return {where: (number, what, count) for where, number, what, count in numbers(loop)}


@pytest.mark.parametrize("kind", ["rewards", "closed", "sub-Gaussian"])
def test_the_worlds_that_are_compared_have_alarms(kind: str) -> None:
    assert "drift" in {alarm.kind for alarm in plainly_played(kind, 0.0)[0].state.alarms}
