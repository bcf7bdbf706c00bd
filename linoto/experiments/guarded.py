"""What a guardrail is worth: real flights from Kennedy, on time as the reward, and old planes as a metric.

Some of the options that are most often on time fly old planes, and others that are as punctual do not.
Whoever looks at punctuality alone books both.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from linoto.core.confidence import Confidence
from linoto.core.gates import Control
from linoto.core.guardrail import Guardrail
from linoto.core.offline import Offline
from linoto.core.policies import Gated, LinUCB
from linoto.core.protocols import Policy
from linoto.engines import THREADS, Engine, Track
from linoto.experiments.results import Curve, Results, mean_and_error
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.experiments.takeover import BUDGET
from linoto.worlds.flights import BOUND
from linoto.worlds.kennedy import METRIC, kennedy

MONTHS = tuple(range(3, 12))  # April to December
LIMIT = 100.0  # more flights with old planes, in all
DELTA = 0.05
NO_GATE, UNGUARDED, GUARDED = "no gate", "Control", "guardrail"
WHY = {
    NO_GATE: "books what is on time most often, and promises nothing",
    UNGUARDED: "promises punctuality alone, and nobody counts old planes",
    GUARDED: "tries an option only while punctuality and old planes can both afford it, and learns from "
    "what was booked which options fly old planes",
}


def contenders() -> dict[str, Policy]:
    """The usual explorer without a gate, behind one that counts flights on time, and with a guardrail."""
    confidence = Confidence(noise="bounded", bound=BOUND, reward_range=(0.0, 1.0), delta=DELTA)
    known = kennedy().logged_old
    rail = Guardrail(METRIC, reward_range=(0, 1), lower_is_better=True, budget=LIMIT, mean=known)
    gated: dict[str, Any] = {"gate": Control(budget=BUDGET), "confidence": confidence}
    gated |= {"explorer": LinUCB(scale=0.25)}
    return {
        NO_GATE: LinUCB(scale=0.25, confidence=confidence),
        UNGUARDED: Gated(**gated),
        GUARDED: Gated(**gated, guardrails=(rail,)),
    }


def checksum() -> str:
    """Of the flights: results of other ones are not these."""
    flights = kennedy()
    digest = sha256()
    for numbers in (flights.booked, flights.on_time, flights.old):
        digest.update(numbers.tobytes())
    return digest.hexdigest()[:24]


@dataclass(frozen=True, kw_only=True)
class Booked(Setting):
    """Flights from Kennedy, after a log of practice's."""

    source: str = ""  # checksum of the flights
    months: tuple[int, ...] = MONTHS  # of the world

    def bandit(self, rng: np.random.Generator) -> Any:
        """The rates of these months."""
        return kennedy().world(self.months)

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """Practice in February and March."""
        return kennedy().log

    def with_metrics(self, bandit: Any, rng: np.random.Generator) -> Any:
        """They are real ones."""
        return bandit


@dataclass(frozen=True, kw_only=True, eq=False)
class Guarded:
    """What each contender gained and how many more planes were old."""

    results: Results

    def more_old(self, label: str) -> Curve:
        """How many more planes were old than with practice: mean and standard error over runs."""
        (setting,) = self.results.experiment.settings
        mean, error = mean_and_error(cell.metrics[0] for cell in self.results.cells(setting.name, label))
        return Curve(label=label, rounds=setting.rounds, mean=mean, error=error)

    def table(self) -> list[dict[str, Any]]:
        """One row for each contender, as plain JSON data."""
        (setting,) = self.results.experiment.settings
        rows = []
        for label in setting.labels:
            gained = -self.results.final(setting.name, label, "offline_regret")
            more = np.array([cell.metrics[0].max() for cell in self.results.cells(setting.name, label)])
            rows.append(
                {
                    "policy": label,
                    "gain": float(gained.mean()),
                    "more_old": float(self.results.metric(setting.name, label, METRIC).mean()),
                    "most_old": float(more.max()),
                    "runs_over_limit": int((more > LIMIT).sum()),
                    "runs": self.results.runs,
                    "limit": LIMIT,
                }
            )
        return rows


def play(
    *,
    runs: int = 5,
    horizon: int = 6000,
    seed: int = 0,
    months: tuple[int, ...] = MONTHS,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Guarded:
    """Let each contender book flights, `runs` times, at the rates of these months (January is 0).

    >>> [row["policy"] for row in play(runs=1, horizon=50).table()]
    ['no gate', 'Control', 'guardrail']
    """
    (k, d), log = kennedy().actions.shape, kennedy().log
    setting = Booked(
        name="kennedy",
        policies=contenders(),
        k=k,
        d=d,
        m=log.total,
        logged_arms=k - 1,  # the most that settings take; the log is a given one
        horizon=horizon,
        rewards="bernoulli",
        metrics=(METRIC,),
        source=checksum(),
        months=months,
    )
    plan = Experiment(name="guarded", title="Booking flights without old planes", settings=(setting,))
    return Guarded(results=run_experiment(plan, runs=runs, seed=seed, engine=engine, track=track))
