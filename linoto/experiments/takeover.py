"""A real story: who may book flights out of New York after current practice, without being late more often.

The arms, the log and the world are those of `worlds/flights.py`: whoever takes over after current practice of
February and March plays in a world resampled from the real flights of April to December.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from linoto.core.certificates import Certificate
from linoto.core.codec import finite
from linoto.core.composed import Composed
from linoto.core.confidence import Confidence
from linoto.core.gates import Tolerance
from linoto.core.offline import Offline
from linoto.core.policies import Gated, LinLCB, LinOtO, LinUCB
from linoto.core.protocols import Policy, PolicyWithPromise
from linoto.engines import THREADS, Engine, Track
from linoto.experiments.results import Curve, Results, mean_and_error
from linoto.experiments.run import run_experiment
from linoto.experiments.settings import Experiment, Setting
from linoto.worlds.flights import BOUND, PRACTICE, data_file, load

BUDGET = 120.0  # flights that may be lost in all: 2 % of the 6000 bookings


def contenders() -> dict[str, Composed]:
    """Everyone who may take over; all share the radius, the bound and the noise that a promise must assume.

    "Gated" is the practical choice: a loss budget, which realised rewards or the model pay for, and rewards
    that are known to be 0 or 1. The other gates differ in what pays, in what is promised, or in that the same
    loss is allowed as a rate, and "LinUCB x 0.25" is its explorer without a gate.
    """
    confidence = Confidence(noise="bounded", bound=BOUND, reward_range=(0.0, 1.0))
    gates = {
        "Gated": Tolerance(budget=BUDGET),
        "Gated by rewards": Tolerance(budget=BUDGET, evidence="rewards"),
        "Gated by the model": Tolerance(budget=BUDGET, evidence="model"),
        "Gated, realised": Tolerance(budget=BUDGET, evidence="rewards", promise="realised"),
        "Gated, 0.02 a round": Tolerance(epsilon=0.02),
        "Gated by rewards, 0.02 a round": Tolerance(epsilon=0.02, evidence="rewards"),
    }
    return {
        "LinUCB": LinUCB(scale=1.0, confidence=confidence),
        "LinUCB x 0.25": LinUCB(scale=0.25, confidence=confidence),
        "LinLCB": LinLCB(confidence=confidence),
        "LinOtO": LinOtO(confidence=confidence),
    } | {
        label: Gated(explorer=LinUCB(scale=0.25), gate=gate, confidence=confidence)
        for label, gate in gates.items()
    }


WHY = {
    "Gated": "its loss budget pays for exploring from the first booking on, and what exploring earns pays "
    "for more; the limit holds in every world, not only in this one",
    "LinUCB x 0.25": "the explorer of Gated alone: it learns as fast, and nothing limits in advance what "
    "that may cost",
    "LinOtO": "the paper's gate protects a bar per round that it takes from the best logged option: it "
    "seldom explores, and what it promises says next to nothing at this size",
    "LinUCB": "its radius is valid in every world and far wider than this one needs: it tries everything "
    "for thousands of bookings",
    "LinLCB": "plays the option that the log is surest of, for ever: a good one here, because current "
    "practice chose twelve good ones; it can never find a better one outside the log",
}
"""Why each contender of the demo earns what it earns."""


@dataclass(frozen=True, kw_only=True)
class Bookings(Setting):
    """The takeover as a setting: the same log and world in every run, new luck in each."""

    source: str = ""  # checksum of the flights, so that a changed file is another setting

    def bandit(self, rng: np.random.Generator) -> Any:
        """The world of April to December."""
        return load().bandit

    def log(self, bandit: Any, rng: np.random.Generator) -> Offline:
        """Current practice in February and March."""
        return load().log


def experiment(*, horizon: int = 6000, policies: Mapping[str, Policy] | None = None) -> Experiment:
    """The story as an experiment that `run_experiment` plays and figures draw."""
    flights = load()
    k, d = flights.actions.shape
    setting = Bookings(
        name="bookings",
        policies=contenders() if policies is None else policies,
        k=k,
        d=d,
        m=flights.log.total,
        logged_arms=PRACTICE,
        horizon=horizon,
        rewards="bernoulli",
        source=sha256(data_file().read_bytes()).hexdigest()[:24],
    )
    return Experiment(name="flights", title="Booking flights out of New York, 2013", settings=(setting,))


@dataclass(frozen=True, kw_only=True, eq=False)
class Story:
    """What happened to each contender, in on-time flights."""

    results: Results
    certificates: Mapping[str, Certificate]

    @property
    def setting(self) -> Setting:
        """The takeover."""
        return self.results.experiment.settings[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The contenders, in order."""
        return self.setting.labels

    def curve(self, label: str, field: str) -> Curve:
        """One contender's line over bookings: mean over runs and one standard error.

        "reward" is the share of on-time flights so far, "shortfall" how many fewer were on time than current
        practice would have had (negative: more), "explored" and "safe" count bookings of each kind.
        """
        if field not in ("reward", "shortfall", "explored", "safe"):
            raise ValueError(f"field must be reward, shortfall, explored or safe, got {field!r}")
        source = "offline_regret" if field in ("reward", "shortfall") else "explored"
        kept = self.results.curve(self.setting.name, label, source)
        mean, error, rounds = kept.mean, kept.error, kept.rounds
        if field == "reward":
            mean, error = load().reference - mean / rounds, error / rounds
        if field == "safe":
            mean = rounds - mean
        return Curve(label=label, rounds=rounds, mean=mean, error=error)

    def limit(self, label: str) -> Curve | None:
        """The promised limit of the shortfall over bookings; None where nothing is promised."""
        certificate = self.certificates[label]
        if not certificate.holds:
            return None
        rounds = self.setting.rounds
        promised = np.array([certificate.loss(int(t)) for t in rounds], dtype=np.float64)
        return Curve(label=label, rounds=rounds, mean=promised, error=np.zeros(rounds.size))

    def table(self) -> list[dict[str, Any]]:
        """One row per contender, as plain JSON data."""
        return [self._row(label) for label in self.labels]

    def _row(self, label: str) -> dict[str, Any]:
        name, horizon = self.setting.name, self.setting.horizon
        final = self.results.final(name, label, "offline_regret")
        worst = self.results.worst(name, label)
        certificate = self.certificates[label]
        reward, error = mean_and_error(load().reference - final / horizon)
        below, below_error = mean_and_error(worst)
        return {
            "policy": label,
            "mean_reward": finite(reward),
            "mean_reward_se": finite(error),
            "worst_shortfall": finite(below),  # the deepest point of each run, averaged
            "worst_shortfall_se": finite(below_error),
            "worst_shortfall_of_all": float(worst.max()),
            "promised_limit": certificate.loss(horizon) if certificate.holds else None,
            "vacuous": certificate.vacuous,
            "explored": float(self.results.final(name, label, "explored").mean() / horizon),
            "runs": self.results.runs,
        }


def story(
    *,
    runs: int = 5,
    horizon: int = 6000,
    seed: int = 0,
    policies: Mapping[str, PolicyWithPromise] | None = None,
    engine: Engine = THREADS,
    track: Track | None = None,
) -> Story:
    """Let each contender take over for so many bookings, `runs` times."""
    chosen = contenders() if policies is None else policies
    plan = experiment(horizon=horizon, policies=chosen)
    results = run_experiment(plan, runs=runs, seed=seed, engine=engine, track=track)
    flights = load()
    return Story(
        results=results,
        certificates={
            label: policy.certificate(flights.actions, flights.log) for label, policy in chosen.items()
        },
    )


def table(**options: Any) -> list[dict[str, Any]]:
    """`story(...)` as rows: mean reward, worst shortfall, promised limit and share of exploration."""
    return story(**options).table()
