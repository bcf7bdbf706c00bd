"""Guardrails that the linear model pays for: an estimate of each metric, and the arms that it can afford."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from linoto.core import kernels
from linoto.core.arrays import Bools, Floats
from linoto.core.confidence import Confidence
from linoto.core.explorers import Rule
from linoto.core.features.moments import Moments
from linoto.core.guardrail import Guardrail
from linoto.core.offline import Offline
from linoto.core.protocols import Composition
from linoto.core.rails import Values, check_logged, share_of
from linoto.core.tickets import Ticket
from linoto.core.validation import exact

OF_LOG = ("actions", "gram", "reward_vector")  # what a snapshot has of the reward, and guardrails of the log


@dataclass(frozen=True)
class NeverAsked:
    """In the place of an explorer where arms are judged, and none is proposed."""

    rule: ClassVar[Rule] = Rule(code=kernels.GREEDY)


def composition_of(composition: Any, rail: Guardrail) -> Any:
    """The same with a metric in the place of the reward: its range, its bound, and its part of delta."""
    assumed: Confidence = composition.assumed
    confidence = Confidence(
        noise="bounded",
        reward_range=rail.limits,
        bound=rail.bound or 1.0,
        delta=share_of(assumed, composition.guardrails).delta,
        design=assumed.design,
    )
    gate = composition.gate.for_guardrail(rail)
    parts = {"explorer": NeverAsked(), "gate": gate, "fallback": "mixture", "reach": "proposal"}
    return replace(composition, confidence=confidence, guardrails=(), **parts)


def check_sums(rail: Guardrail) -> None:
    """Refuse sums of arms that contradict the mean of all values."""
    total, rows = sum(rail.sums or ()), rail.logged or 0
    expected, largest = float(rail.mean or 0.0) * rows, max(map(abs, rail.reward_range))
    if abs(total - expected) > 1e-6 * largest * rows:
        raise ValueError(
            f"sums must add up to mean times logged, {exact(expected)}, got {exact(total)}: `logged_in` "
            "takes all of them from a log"
        )


class MetricModels:
    """One driver for each metric that the model pays for: it counts every play, and judges the arms."""

    def __init__(self, drivers: Mapping[int, Any], limits: Mapping[int, tuple[float, float]]) -> None:
        self.drivers, self.limits = dict(drivers), dict(limits)  # by the place of the guardrail
        self.judged: list[Any] = []  # the latest question, as long as nothing was learned since

    @classmethod
    def begin(
        cls, composition: Any, begin: Callable[[Any, Floats], Any], size: int, rows: int, *, of_arms: bool
    ) -> MetricModels | None:
        """`begin` a driver by its composition and the sums of its metric in the log.

        There must be `size` sums, of all the `rows` of the log: of each arm, or of values times features.
        """
        drivers = {}
        for place, rail in enumerate(composition.guardrails):
            if not composition.gate.trusts_model_of(rail):
                continue
            sums = rail.turn * np.array(rail.sums, dtype=np.float64)
            try:
                check_logged(rail, rows)
                if sums.size != size:
                    raise ValueError(f"sums must have {size} entries for this log, got {sums.size}")
                if of_arms:
                    check_sums(rail)
                drivers[place] = begin(composition_of(composition, rail), sums)
            except ValueError as error:
                raise ValueError(
                    f"guardrail {rail.name!r}: {str(error).replace(' earns ', ' has ')}"
                ) from None
        limits = {place: composition.guardrails[place].limits for place in drivers}
        return cls(drivers, limits) if drivers else None

    def judge(self, asked: Any) -> None:
        """What every metric makes of the arms of a round."""
        if self.judged and self.judged[0] is asked:
            return
        for driver in self.drivers.values():
            driver.measure(asked)
        self.judged = [asked]

    def affordable(self, asked: Any) -> Bools:
        """(k,) the arms that every one of them can afford."""
        self.judge(asked)
        found = [driver.affordable(asked) for driver in self.drivers.values()]
        return np.asarray(np.all(found, axis=0))

    def rooms_in(self, asked: Any) -> Iterator[tuple[int, float]]:
        """What of each may still be lost in this round, by the arm that leaves the most."""
        self.judge(asked)
        for place, driver in self.drivers.items():
            yield place, float(driver.running.state.arms[kernels.ROOM].max())

    def rooms(self) -> Iterator[tuple[int, float]]:
        """What of each may still be lost in any round to come, by an arm that is as practice is."""
        for place, driver in self.drivers.items():
            p, run, y = driver.running.params[0], driver.running.run, driver.excess
            image = np.linalg.solve(driver.ellipsoid.V, y)
            spread, allowed = (
                sqrt(max(float(y @ image), 0.0)),
                p["budget"] + p["epsilon"] * (run["rounds"] + 1),
            )
            bias = min(p["bias"] * spread, p["bias"] * sqrt(p["ridge"] * float(image @ image)))
            yield place, float(allowed + driver.theta @ y - run["gate_radius"] * spread - bias)

    def commit(self, decision: Any, ticket: Ticket) -> None:
        """Count a play; its values are to come."""
        self.judged = []
        for driver in self.drivers.values():
            driver.enter_play(decision, ticket)

    def learn(self, decision: Any, ticket: Ticket, values: Values) -> None:
        """Values of a committed play, as far as they are about metrics here."""
        self.judged = []
        for place, value in values.items():
            if place in self.drivers:
                self.drivers[place].enter_value(decision, ticket, value, 0.0)

    def lose(self, decision: Any, ticket: Ticket, places: list[int]) -> None:
        """Values that never come: the middle of the range stands in, and is wrong by half of it at most."""
        self.judged = []
        for place in places:
            if place in self.drivers:
                low, high = self.limits[place]
                self.drivers[place].enter_value(decision, ticket, (low + high) / 2, (high - low) / 2)

    # -- keeping

    def save(self, arrays: dict[str, Any]) -> None:
        """Write them into a snapshot."""
        for place, driver in self.drivers.items():
            _, rows = driver.saved()
            arrays |= {f"{prefix_of(place)}{name}": row for name, row in rows.items() if name not in OF_LOG}


def begin_models_of_arms(driver: Any, actions: Floats) -> None:
    """What pays for guardrails in place of their own values, from the log of these arms (k, d) alone."""
    rails, pulls = driver.running.rails, driver.running.held.counts[kernels.LOGGED]

    def begin(composition: Composition, sums: Floats) -> Any:
        log, rng = Offline(pulls=pulls, reward_sums=sums), np.random.default_rng(0)  # it draws nothing
        return type(driver).begin(composition, actions, log, rng=rng, coins=None, names=driver.names)

    if rails is not None:
        rails.models = MetricModels.begin(
            driver.composition, begin, pulls.size, int(pulls.sum()), of_arms=True
        )


def begin_models_of_rounds(driver: Any) -> None:
    """The same where rounds bring their own arms."""
    rails, moments = driver.running.rails, driver.moments
    features = None if driver.order is None else driver.features

    def begin(composition: Composition, sums: Floats) -> Any:
        log = Moments(count=moments.count, gram=moments.gram, reward_vector=sums, reward_sum=0.0)
        nothing: Any = {"rng": np.random.default_rng(0), "coins": None}  # it draws nothing
        found = type(driver).begin(composition, log, **nothing, features=features)
        found.check_length()
        return found

    if rails is not None:
        rails.models = MetricModels.begin(driver.composition, begin, moments.d, moments.count, of_arms=False)


def prefix_of(place: int) -> str:
    """What the arrays of a metric begin with in a snapshot."""
    return f"rails.{place}.model."


def stored_of(arrays: Mapping[str, Any], place: int) -> dict[str, Any]:
    """The arrays of a metric in a snapshot."""
    start = prefix_of(place)
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
