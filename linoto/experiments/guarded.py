"""What a guardrail is worth: real flights, on time as the reward, and the cancelled ones as a metric.

The options that are most often on time are cancelled more often than those of current practice. Whoever looks
at punctuality alone books them.
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
from linoto.experiments.results import Results
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.experiments.takeover import BUDGET
from linoto.worlds.flights import BOUND, PRACTICE, data_file, load

LIMIT = 20.0  # more flights cancelled, in all
METRIC = "cancelled"
DELTA = 0.05
NO_GATE, UNGUARDED, GUARDED = "no gate", "Control", "guardrail"
WHY = {
    NO_GATE: "books what is on time most often, and nobody counts what is cancelled",
    UNGUARDED: "promises punctuality alone: what is gained there pays for every flight that is cancelled",
    GUARDED: "tries an option only while punctuality and cancellations can both afford it",
}


def contenders() -> dict[str, Policy]:
    """The usual explorer without a gate, behind one that counts flights on time, and with a guardrail."""
    confidence = Confidence(noise="bounded", bound=BOUND, reward_range=(0.0, 1.0), delta=DELTA)
    log, world = load().guarded
    practice = float(log.pulls @ world.metrics[METRIC].means / log.total)
    rail = Guardrail(METRIC, reward_range=(0, 1), lower_is_better=True, budget=LIMIT, mean=practice)
    gated: dict[str, Any] = {"gate": Control(budget=BUDGET), "confidence": confidence}
    gated |= {"explorer": LinUCB(scale=0.25)}
    return {
        NO_GATE: LinUCB(scale=0.25, confidence=confidence),
        UNGUARDED: Gated(**gated),
        GUARDED: Gated(**gated, guardrails=(rail,)),
    }


@dataclass(frozen=True, kw_only=True)
class Booked(Setting):
    """All flights that are booked, after a log of practice's."""

    source: str = ""  # checksum of the flights

    def bandit(self, rng: np.random.Generator) -> Any:
        """April to December."""
        return load().guarded[1]

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """Current practice in February and March."""
        return load().guarded[0]

    def with_metrics(self, bandit: Any, rng: np.random.Generator) -> Any:
        """They are real ones."""
        return bandit


@dataclass(frozen=True, kw_only=True, eq=False)
class Guarded:
    """What each contender gained and what it cost in cancelled flights."""

    results: Results

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
                    "more_cancelled": float(self.results.metric(setting.name, label, METRIC).mean()),
                    "most_cancelled": float(more.max()),
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
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Guarded:
    """Let each contender book flights, `runs` times.

    >>> [row["policy"] for row in play(runs=1, horizon=50).table()]
    ['no gate', 'Control', 'guardrail']
    """
    k, d = load().actions.shape
    setting = Booked(
        name="booked",
        policies=contenders(),
        k=k,
        d=d,
        m=load().guarded[0].total,
        logged_arms=PRACTICE,
        horizon=horizon,
        rewards="bernoulli",
        metrics=(METRIC,),
        source=sha256(data_file().read_bytes()).hexdigest()[:24],
    )
    plan = Experiment(name="guarded", title="Booking flights that are not cancelled", settings=(setting,))
    return Guarded(results=run_experiment(plan, runs=runs, seed=seed, engine=engine, track=track))
