"""What a promise is worth when the world moves: real flights month by month, in their order and reversed.

The log is one season and what follows is another. A gate that compares with the log keeps its promise about
the log, and current practice may earn far more by then; `Control` compares with practice as it is now. The
usual explorer comes first: what a gate costs where all goes well. Then a bold one (LinUCB with its full
radius), which is wrong here: what a gate is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from linoto.core.confidence import Confidence
from linoto.core.gates import Control, Tolerance
from linoto.core.offline import Offline
from linoto.core.policies import Gated, LinUCB
from linoto.core.protocols import Policy
from linoto.engines import THREADS, Engine, Track
from linoto.experiments.results import Results
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.experiments.takeover import BUDGET
from linoto.worlds.flights import BOUND, PRACTICE, data_file, load
from linoto.worlds.gates import CONTROL, NO_GATE, OF_LOG

ORDERS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "forwards": ((2, 3), (4, 5, 6, 7, 8, 9, 10, 11, 12)),
    "backwards": ((11, 12), (10, 9, 8, 7, 6, 5, 4, 3, 2)),
}
"""The months of the log and those that follow, in the order of the year or against it."""
DELTA = 0.05  # how often a promise may be broken
GATES = (NO_GATE, OF_LOG, CONTROL)
BOLD = "bold, "  # before the gate's name, in the labels of the bold explorer
WHY = {
    NO_GATE: "nothing limits what trying costs: with the usual explorer little here, with the bold one "
    "much, and nobody knows beforehand which it will be",
    OF_LOG: "compares with what the log earned: where practice earns more by now, it allows more "
    "than it promised against practice",
    CONTROL: "compares with what practice earns now, in rounds that a coin chooses: its limit holds in "
    "both orders",
}


def contenders() -> dict[str, Policy]:
    """The usual explorer and a bold one: without a gate, behind the log's, and behind `Control`."""
    confidence = Confidence(noise="bounded", bound=BOUND, reward_range=(0.0, 1.0), delta=DELTA)
    found: dict[str, Policy] = {}
    for start, scale in (("", 0.25), (BOLD, 1.0)):
        explorer = LinUCB(scale=scale)
        policies: tuple[Policy, ...] = (
            LinUCB(scale=scale, confidence=confidence),
            Gated(explorer=explorer, gate=Tolerance(budget=BUDGET), confidence=confidence),
            Gated(explorer=explorer, gate=Control(budget=BUDGET), confidence=confidence),
        )
        found |= {f"{start}{gate}": policy for gate, policy in zip(GATES, policies, strict=True)}
    return found


@dataclass(frozen=True, kw_only=True)
class Season(Setting):
    """Bookings through the months of a year, after a log of two of them."""

    logged: tuple[int, ...]  # months, from 1
    months: tuple[int, ...]
    source: str = ""  # checksum of the flights

    def bandit(self, rng: np.random.Generator) -> Any:
        """Each month as long as the others, at its own rates."""
        return load().through(self.months, horizon=self.horizon)

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """Current practice in the months of the log."""
        return load().log_of(self.logged)


def experiment(*, horizon: int = 6000, policies: Mapping[str, Policy] | None = None) -> Experiment:
    """Both orders of the months, as an experiment."""
    flights = load()
    k, d = flights.actions.shape
    chosen = contenders() if policies is None else policies
    facts: dict[str, Any] = {"k": k, "d": d, "logged_arms": PRACTICE, "rewards": "bernoulli"}
    settings = tuple(
        Season(
            name=name,
            policies=chosen,
            logged=logged,
            months=months,
            m=flights.log_of(logged).total,
            horizon=horizon,
            source=sha256(data_file().read_bytes()).hexdigest()[:24],
            **facts,
        )
        for name, (logged, months) in ORDERS.items()
    )
    return Experiment(name="seasons", title="Booking flights through the months of 2013", settings=settings)


@dataclass(frozen=True, kw_only=True, eq=False)
class Seasons:
    """How far each contender fell behind current practice as it was then."""

    results: Results

    def table(self) -> list[dict[str, Any]]:
        """One row for each contender and order, as plain JSON data: the usual explorer first."""
        settings = self.results.experiment.settings
        rows = [self._row(setting, label) for setting in settings for label in setting.labels]
        return sorted(rows, key=lambda row: row["explorer"] == "bold")  # keeps the order of each explorer

    def row(self, months: str, label: str) -> dict[str, Any]:
        """One contender in one order of the months."""
        return self._row(self.results.experiment.setting(months), label)

    def _row(self, setting: Setting, label: str) -> dict[str, Any]:
        worst = self.results.worst(setting.name, label)
        gained = -self.results.final(setting.name, label, "offline_regret")
        return {
            "months": setting.name,
            "policy": label,
            "explorer": "bold" if label.startswith(BOLD) else "usual",
            "gate": label.removeprefix(BOLD),
            "gain": float(gained.mean()),
            "worst_shortfall": float(worst.max()),
            "runs_over_limit": int((worst > BUDGET).sum()),
            "runs": self.results.runs,
            "limit": BUDGET,
        }


def play(
    *,
    runs: int = 5,
    horizon: int = 6000,
    seed: int = 0,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Seasons:
    """Let each contender book through both orders of the months, `runs` times."""
    plan = experiment(horizon=horizon)
    return Seasons(results=run_experiment(plan, runs=runs, seed=seed, engine=engine, track=track))
